// Command types prints the wire types of kinds, one struct of the Go types per line: the names, protobuf numbers and
// types of its fields. `cargo xtask real facts` runs it; the head of crates/apiserver/data/types.txt explains the notation.
//
// Its arguments are kinds as "group/version/kind". It looks each up in client-go's scheme and walks the json and protobuf
// tags of everything below it. A tag that the notation cannot express is an error.
package main

import (
	"fmt"
	"os"
	"path"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// scalars are the types that are written as one value, by the name of their Go type.
var scalars = map[string]string{
	"bool":                  "bool",
	"float64":               "double",
	"int32":                 "int32",
	"int64":                 "int64",
	"string":                "string",
	"resource.Quantity":     "quantity",
	"intstr.IntOrString":    "intorstring",
	"meta.v1.FieldsV1":      "raw",
	"meta.v1.MicroTime":     "microtime",
	"meta.v1.Time":          "time",
	"runtime.RawExtension":  "raw",
	"apiextensions.v1.JSON": "raw",
}

// marshaler is what go-to-protobuf generates. A list type that has it is a message of its own.
type marshaler interface {
	Marshal() ([]byte, error)
}

var marshalerType = reflect.TypeOf((*marshaler)(nil)).Elem()

type field struct {
	number int
	text   string
}

// table holds the lines by type name.
type table map[string]string

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	known := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		apidiscoveryv2.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, metav1.AddMetaToScheme,
	} {
		if err := add(known); err != nil {
			return err
		}
	}
	types := table{}
	for _, name := range os.Args[1:] {
		parts := strings.Split(name, "/")
		if len(parts) != 3 {
			return fmt.Errorf("%q is not a group, a version and a kind", name)
		}
		gvk := schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}
		if err := types.addKind(known, gvk); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(types))
	for name := range types {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Printf("%s\t%s\n", name, types[name])
	}
	return nil
}

func (types table) addKind(known *runtime.Scheme, gvk schema.GroupVersionKind) error {
	object, err := known.New(gvk)
	if err != nil {
		return err
	}
	root := reflect.TypeOf(object).Elem()
	if err := types.add(root); err != nil {
		return err
	}
	listKind := gvk
	listKind.Kind += "List"
	list, err := known.New(listKind)
	if err != nil {
		return nil
	}
	return checkList(reflect.TypeOf(list).Elem(), root)
}

// checkList refuses a list that is not made as all others: its metadata is field 1 and its items are field 2.
func checkList(list, item reflect.Type) error {
	metadata, _ := list.FieldByName("ListMeta")
	items, isList := list.FieldByName("Items")
	if !isList {
		return nil
	}
	if number(metadata) != 1 || number(items) != 2 || items.Type.Elem() != item {
		return fmt.Errorf("%s is an unusual list", list)
	}
	return nil
}

// add adds the line of a struct, and the lines of the structs below it.
func (types table) add(of reflect.Type) error {
	name, err := typeName(of)
	if err != nil {
		return err
	}
	if _, done := types[name]; done {
		return nil
	}
	types[name] = ""
	var fields []field
	for i := range of.NumField() {
		member := of.Field(i)
		if number(member) == 0 {
			if member.Name != "TypeMeta" {
				return fmt.Errorf("%s.%s has no protobuf tag", of, member.Name)
			}
			continue
		}
		text, err := types.describe(member)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", of, member.Name, err)
		}
		fields = append(fields, field{number(member), text})
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].number < fields[j].number })
	texts := make([]string, len(fields))
	for i, field := range fields {
		texts[i] = field.text
	}
	types[name] = strings.Join(texts, " ")
	return nil
}

// describe returns a field in the notation of the table, without its wire type, which follows from its type.
func (types table) describe(member reflect.StructField) (string, error) {
	tag := strings.Split(member.Tag.Get("json"), ",")
	name := tag[0]
	options := map[string]bool{}
	for _, option := range tag[1:] {
		options[option] = true
	}
	if name == "" {
		// A union has no names in JSON; its members are called as in Go.
		name = strings.ToLower(member.Name[:1]) + member.Name[1:]
	}
	goName := ""
	if member.Name != strings.ToUpper(name[:1])+name[1:] {
		goName = "/" + member.Name
	}
	of := member.Type
	isPointer := of.Kind() == reflect.Pointer
	if isPointer {
		of = of.Elem()
	}
	shape, value, err := types.value(of)
	if err != nil {
		return "", err
	}
	isEmbedded := member.Anonymous && tag[0] == ""
	isStruct := of.Kind() == reflect.Struct && shape == ""
	presence := ""
	switch {
	case isEmbedded && (isPointer || !isStruct):
		return "", fmt.Errorf("an embedded field that is not a struct")
	case isEmbedded:
		presence = "^"
	case options["omitzero"]:
	case !options["omitempty"] || isStruct && !isPointer:
		presence = "+"
	}
	if isPointer {
		presence += "*"
	}
	if isPointer && shape != "" {
		return "", fmt.Errorf("a pointer to a list or map")
	}
	return fmt.Sprintf("%s%s:%d%s%s%s", name, goName, number(member), presence, shape, value), nil
}

// value returns the shape of a type and the name of what it holds.
func (types table) value(of reflect.Type) (shape, name string, err error) {
	switch {
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8:
		return "", "bytes", nil
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.String && reflect.PointerTo(of).Implements(marshalerType):
		return "", "strings", nil
	case of.Kind() == reflect.Slice:
		shape, of = "[]", of.Elem()
	case of.Kind() == reflect.Map && of.Key().Kind() == reflect.String:
		shape, of = "{}", of.Elem()
	}
	inner, name, err := types.element(of)
	if inner != "" {
		err = fmt.Errorf("a list or map within one of %s", of)
	}
	return shape, name, err
}

func (types table) element(of reflect.Type) (shape, name string, err error) {
	if of.Kind() == reflect.Slice {
		return types.value(of)
	}
	if of.Kind() != reflect.Struct {
		name, known := scalars[of.Kind().String()]
		if !known {
			err = fmt.Errorf("%s has no place in the notation", of)
		}
		return "", name, err
	}
	name, err = typeName(of)
	if err != nil {
		return "", "", err
	}
	if scalar, known := scalars[name]; known {
		return "", scalar, nil
	}
	return "", name, types.add(of)
}

// typeName returns the name of a Go type as the other data files write it: "core.v1.Pod".
func typeName(of reflect.Type) (string, error) {
	group, version := path.Split(of.PkgPath())
	switch {
	case strings.HasSuffix(of.PkgPath(), "/runtime"), strings.HasSuffix(of.PkgPath(), "/resource") && of.Name() == "Quantity",
		strings.HasSuffix(of.PkgPath(), "/intstr"):
		return version + "." + of.Name(), nil
	case group == "" || !strings.HasPrefix(version, "v"):
		return "", fmt.Errorf("%s in %q is no type of a group and version", of, of.PkgPath())
	}
	return path.Base(group) + "." + version + "." + of.Name(), nil
}

// number returns the number in a protobuf tag; 0 if there is none.
func number(member reflect.StructField) int {
	tag := strings.Split(member.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return 0
	}
	number, _ := strconv.Atoi(tag[1])
	return number
}
