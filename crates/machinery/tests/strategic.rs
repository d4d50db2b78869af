//! Compares strategic merge patches with recorded results of kube-apiserver, and checks properties of arbitrary patches.

use std::collections::BTreeMap;

use caretaker_machinery::patch::strategic::{self, FieldFacts, PatchSchema, TypeId};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The fields that the cases use: type, field, shape, type of the value, patch strategies, merge key.
const ROWS: &str = "
    ConfigMap            metadata         object  ObjectMeta          -                 -
    ConfigMap            data             map     -                   -                 -
    PodTemplate          metadata         object  ObjectMeta          -                 -
    PodTemplate          template         object  PodTemplateSpec     -                 -
    Deployment           spec             object  DeploymentSpec      -                 -
    PodDisruptionBudget  spec             object  BudgetSpec          -                 -
    Service              spec             object  ServiceSpec         -                 -
    ObjectMeta           labels           map     -                   -                 -
    ObjectMeta           annotations      map     -                   -                 -
    ObjectMeta           finalizers       list    -                   merge             -
    ObjectMeta           ownerReferences  list    OwnerReference      merge             uid
    PodTemplateSpec      spec             object  PodSpec             -                 -
    PodSpec              containers       list    Container           merge             name
    PodSpec              volumes          list    Volume              merge,retainKeys  name
    PodSpec              tolerations      list    Toleration          -                 -
    PodSpec              nodeSelector     map     -                   -                 -
    PodSpec              hostAliases      list    HostAlias           merge             ip
    Container            args             list    -                   -                 -
    Container            env              list    EnvVar              merge             name
    Container            ports            list    ContainerPort       merge             containerPort
    Container            volumeMounts     list    VolumeMount         merge             mountPath
    Volume               emptyDir         object  EmptyDir            -                 -
    Volume               configMap        object  ConfigMapVolume     -                 -
    HostAlias            hostnames        list    -                   -                 -
    DeploymentSpec       strategy         object  DeploymentStrategy  retainKeys        -
    BudgetSpec           selector         object  LabelSelector       replace           -
    LabelSelector        matchLabels      map     -                   -                 -
    ServiceSpec          ports            list    ServicePort         merge             port
    Holder               parts            map     PodSpec             -                 -
";

struct Types {
    ids: BTreeMap<&'static str, TypeId>,
    fields: BTreeMap<(TypeId, &'static str), FieldFacts<'static>>,
}

impl Types {
    fn read() -> Self {
        let mut types = Self {
            ids: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        for row in ROWS.lines().filter(|row| !row.trim().is_empty()) {
            let words: Vec<&str> = row.split_whitespace().collect();
            let [of, field, shape, value, strategies, key] = words[..] else {
                panic!("{row}");
            };
            let blank = |word| if word == "-" { "" } else { word };
            let of = types.id(of);
            let value = (value != "-").then(|| types.id(value));
            let facts = FieldFacts::from_row(shape, value, blank(strategies), blank(key));
            types.fields.insert((of, field), facts.expect(row));
        }
        types
    }

    fn id(&mut self, name: &'static str) -> TypeId {
        let next = TypeId(u16::try_from(self.ids.len()).expect("few types"));
        *self.ids.entry(name).or_insert(next)
    }

    fn apply(&self, of: &str, original: &Value, patch: &Value) -> Result<Value, u16> {
        strategic::apply(original.clone(), patch.clone(), self, self.ids[of])
            .map_err(|error| error.code())
    }
}

impl PatchSchema for Types {
    fn field(&self, of: TypeId, name: &str) -> FieldFacts<'_> {
        self.fields
            .get(&(of, name))
            .copied()
            .unwrap_or(FieldFacts::UNKNOWN)
    }
}

#[derive(Deserialize)]
struct Recorded {
    originals: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    of: String,
    patch: Value,
    becomes: Option<BTreeMap<String, Value>>,
    code: Option<u16>,
}

#[test]
fn patches_match_recorded_results() {
    let recorded: Recorded = serde_json::from_str(include_str!("data/strategic.json")).unwrap();
    let types = Types::read();
    for case in recorded.cases {
        let original = &recorded.originals[&case.of];
        let got = types.apply(&case.of, original, &case.patch);
        let expected = match (case.becomes, case.code) {
            (Some(becomes), None) => {
                let mut expected = original.clone();
                for (pointer, value) in becomes {
                    set(&mut expected, &pointer, value);
                }
                Ok(encoded(expected))
            }
            (None, Some(code)) => Err(code),
            _ => panic!("{} has no one outcome", case.name),
        };
        assert_eq!(got.map(encoded), expected, "{}", case.name);
    }
}

#[test]
fn handles_patches_that_upstream_cannot_apply() {
    let types = Types::read();
    let cases = [
        (
            "lists in a list that merges",
            "ConfigMap",
            json!({"metadata": {"finalizers": []}}),
            json!({"metadata": {"finalizers": [["a"]]}}),
            Err(422),
        ),
        (
            "nothing but null in a list that merges",
            "ConfigMap",
            json!({"metadata": {"finalizers": []}}),
            json!({"metadata": {"finalizers": [null]}}),
            Err(500),
        ),
        (
            "an order for a list without elements",
            "ConfigMap",
            json!({"metadata": {}}),
            json!({"metadata": {"finalizers": [], "$setElementOrder/finalizers": ["a"]}}),
            Err(500),
        ),
        (
            "objects in a list that merges without a key",
            "ConfigMap",
            json!({"metadata": {"finalizers": []}}),
            json!({"metadata": {"finalizers": [{}]}}),
            Err(500),
        ),
        (
            "a key that is an object",
            "ConfigMap",
            json!({"metadata": {"ownerReferences": [{"uid": {}}]}}),
            json!({"metadata": {"ownerReferences": [{"uid": {}}]}}),
            Err(500),
        ),
        (
            "values of a map are of the type that its row names",
            "Holder",
            json!({"parts": {"a": {"containers": [{"name": "x", "image": "1"}]}}}),
            json!({"parts": {"a": {"containers": [{"name": "y"}]}}}),
            Ok(
                json!({"parts": {"a": {"containers": [{"name": "y"}, {"name": "x", "image": "1"}]}}}),
            ),
        ),
        (
            "what has no row merges like free-form JSON",
            "ConfigMap",
            json!({"zzz": {"a": {"b": 1}, "l": [1], "$patch": "data"}}),
            json!({"zzz": {"a": {"c": 2}, "l": [2], "m": {"$retainKeys": []}}}),
            Ok(
                json!({"zzz": {"a": {"b": 1, "c": 2}, "l": [2], "m": {"$retainKeys": []}, "$patch": "data"}}),
            ),
        ),
    ];
    for (what, of, original, patch, expected) in cases {
        assert_eq!(types.apply(of, &original, &patch), expected, "{what}");
    }
}

#[test]
fn orders_long_lists_in_linear_time() {
    const ELEMENTS: usize = 50_000;
    let types = Types::read();
    let numbered = |numbers: std::ops::Range<usize>| -> Vec<String> {
        numbers.map(|number| format!("x.io/{number}")).collect()
    };
    let original = json!({"metadata": {"finalizers": numbered(0..ELEMENTS)}});
    let mut order = numbered(0..ELEMENTS);
    order.reverse();
    let patch = json!({"metadata": {"$setElementOrder/finalizers": order.clone()}});
    let expected = json!({"metadata": {"finalizers": order}});
    assert_eq!(types.apply("ConfigMap", &original, &patch), Ok(expected));
}

/// Objects and patches made of the fields and directives of a ConfigMap.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (-1..3i64).prop_map(Value::from),
        Just(Value::from(1.0)),
        prop::sample::select(vec!["a", "b", "replace", "delete", "merge"]).prop_map(Value::from),
    ];
    let names = prop_oneof![
        6 => prop::sample::select(vec!["metadata", "data", "finalizers", "ownerReferences", "uid", "labels"]),
        3 => prop::sample::select(vec![
            "$patch",
            "$retainKeys",
            "$setElementOrder/finalizers",
            "$setElementOrder/ownerReferences",
            "$deleteFromPrimitiveList/finalizers",
            "$deleteFromPrimitiveList/ownerReferences",
        ]),
        1 => prop::sample::select(vec!["a", "$setElementOrder", "$deleteFromPrimitiveList", "$setElementOrder/a"]),
    ];
    leaf.prop_recursive(5, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..5).prop_map(|members| {
                let members = members.into_iter().map(|(k, v)| (k.to_owned(), v));
                Value::Object(members.collect())
            }),
        ]
    })
}

/// A ConfigMap with `value` as its metadata, so that the fields have types.
fn in_metadata(value: &Value) -> Value {
    json!({"metadata": value})
}

proptest! {
    #[test]
    fn patches_never_panic(original in any_json(), patch in any_json()) {
        let types = Types::read();
        let _ = types.apply("ConfigMap", &original, &patch);
        let _ = types.apply("ConfigMap", &in_metadata(&original), &in_metadata(&patch));
    }

    #[test]
    fn an_empty_patch_changes_nothing(original in any_json()) {
        let types = Types::read();
        let original = in_metadata(&original);
        prop_assert_eq!(types.apply("ConfigMap", &original, &json!({})), Ok(original));
    }

    #[test]
    fn set_merges_are_unions_without_duplicates(
        old in prop::collection::btree_set("[a-f]", 1..6),
        new in prop::collection::vec("[a-i]", 0..6),
        deleted in prop::collection::btree_set("[a-k]", 0..4),
    ) {
        let types = Types::read();
        let original = json!({"metadata": {"finalizers": old.clone()}});
        let patch = json!({"metadata": {
            "finalizers": new.clone(),
            "$deleteFromPrimitiveList/finalizers": deleted.clone(),
        }});
        let got = types.apply("ConfigMap", &original, &patch).unwrap();
        let mut got: Vec<String> = serde_json::from_value(got["metadata"]["finalizers"].clone()).unwrap();
        let named: Vec<String> = got.iter().filter(|e| new.contains(e)).cloned().collect();
        let mut in_patch_order = named.clone();
        in_patch_order.sort_by_key(|e| new.iter().position(|n| n == e));
        prop_assert_eq!(named, in_patch_order);

        got.sort();
        let all: std::collections::BTreeSet<String> = old.into_iter().chain(new).collect();
        let expected: Vec<String> = all.difference(&deleted).cloned().collect();
        prop_assert_eq!(got, expected);
    }
}

/// The object as a typed server encodes it: without nulls in fields, empty lists and empty data. Maps keep nulls, which are
/// values there.
fn encoded(mut value: Value) -> Value {
    const MAPS: [&str; 5] = [
        "annotations",
        "data",
        "labels",
        "matchLabels",
        "nodeSelector",
    ];
    fn clean(members: &mut Map<String, Value>) {
        members.retain(|name, value| match value {
            Value::Null => false,
            Value::Array(elements) => !elements.is_empty(),
            Value::Object(inner) => name != "data" || !inner.is_empty(),
            _ => true,
        });
        for (name, value) in members {
            match value {
                Value::Object(inner) if !MAPS.contains(&name.as_str()) => clean(inner),
                Value::Array(elements) => elements
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(clean),
                _ => {}
            }
        }
    }
    value.as_object_mut().into_iter().for_each(clean);
    value
}

/// Sets the member at `pointer`, whose parent is an object; null removes it.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect(pointer);
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
    let parent = parent.expect(pointer);
    if value.is_null() {
        parent.remove(name);
    } else {
        parent.insert(name.to_owned(), value);
    }
}
