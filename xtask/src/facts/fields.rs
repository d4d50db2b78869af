//! `fields.txt`: how the fields of the stable kinds are merged, from OpenAPI v3.
//!
//! Strategic merge and server-side apply start at the type of an object and walk down its fields. So every field is
//! listed that carries a merge fact itself, and every field through which a type with such a field is reached;
//! whatever is not listed is an ordinary value with nothing special below it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::column;
use super::discovery::{FactGvk, ResourceFacts};
use crate::http::HttpClient;

const HEAD: &str = "\
# kind\tgroup\tversion\tkind\ttype
# field\ttype\tfield\tshape\ttype of the value\tpatch strategy\tmerge key\tlist type\tlist map keys
# shape: object = the value is of that type; list, map = its elements are; `-` as type: a scalar or free-form value
# a field is listed when it has one of the four last columns, or leads to a type that has such a field
# `-` stands for the core group and for nothing
";
/// Prefixes of component names that the short names omit; the longest first.
const PREFIXES: [&str; 5] = [
    "io.k8s.apiextensions-apiserver.pkg.apis.",
    "io.k8s.kube-aggregator.pkg.apis.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apimachinery.pkg.",
    "io.k8s.api.",
];

/// The merge facts of every kind.
#[derive(Debug)]
pub(super) struct MergeFacts {
    kinds: BTreeMap<FactGvk, String>,
    /// By type and field name.
    fields: BTreeMap<(String, String), FieldFact>,
}

/// The merge facts of one field in OpenAPI.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldFact {
    shape: FieldShape,
    /// The type of the value or its elements, when that has fields.
    value: Option<String>,
    strategy: Option<String>,
    merge_key: Option<String>,
    list_type: Option<String>,
    list_map_keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldShape {
    Object,
    List,
    Map,
}

/// All fields of all types, before those without facts are left out.
#[derive(Debug, Default)]
struct SchemaTypes(BTreeMap<String, BTreeMap<String, FieldFact>>);

// === impl MergeFacts ===

impl MergeFacts {
    /// Asks a server for the OpenAPI documents of all group-versions.
    pub(super) fn ask(client: &HttpClient, resources: &ResourceFacts) -> Result<Self> {
        let documents = resources
            .group_versions()
            .map(|(group, version)| {
                let path = match group {
                    "" => format!("/openapi/v3/api/{version}"),
                    group => format!("/openapi/v3/apis/{group}/{version}"),
                };
                client.get_json(&path, "application/json")
            })
            .collect::<Result<Vec<_>>>()?;
        Self::of(&documents, &resources.kinds())
    }

    fn of(documents: &[Value], wanted: &[FactGvk]) -> Result<Self> {
        let schemas = merge(documents)?;
        let roots = roots(&schemas)?;
        let kinds: BTreeMap<FactGvk, String> = wanted
            .iter()
            .filter_map(|gvk| Some((gvk.clone(), roots.get(gvk)?.clone())))
            .collect();
        let types = SchemaTypes::of(&schemas)?;
        let reachable = types.reachable(kinds.values());
        let leading = types.leading();
        let mut fields = BTreeMap::new();
        for (owner, name, field) in types.iter() {
            let leads = field
                .value
                .as_ref()
                .is_some_and(|value| leading.contains(value.as_str()));
            if reachable.contains(owner) && (field.has_facts() || leads) {
                fields.insert((owner.to_owned(), name.to_owned()), field.clone());
            }
        }
        Ok(Self { kinds, fields })
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        let count = |is: &dyn Fn(&FieldFact) -> bool| {
            self.fields.values().filter(|field| is(field)).count()
        };
        let listed =
            |list_type: &str| count(&|field| field.list_type.as_deref() == Some(list_type));
        vec![
            ("kinds", self.kinds.len()),
            ("fields", self.fields.len()),
            (
                "fields with a patch strategy",
                count(&|field| field.strategy.is_some()),
            ),
            (
                "fields with a merge key",
                count(&|field| field.merge_key.is_some()),
            ),
            ("lists that are atomic", listed("atomic")),
            ("lists that are maps", listed("map")),
            ("lists that are sets", listed("set")),
        ]
    }

    pub(super) fn text(&self) -> String {
        let kinds = self.kinds.iter().map(|(gvk, root)| {
            let group = column([gvk.group.as_str()]);
            format!("kind\t{group}\t{}\t{}\t{root}\n", gvk.version, gvk.kind)
        });
        let fields = self
            .fields
            .iter()
            .map(|((owner, name), field)| format!("field\t{owner}\t{name}\t{}\n", field.columns()));
        HEAD.to_owned() + &kinds.chain(fields).collect::<String>()
    }
}

// === impl FieldFact ===

impl FieldFact {
    fn of(schema: &Value, types: &BTreeSet<&str>) -> Result<Self> {
        let (shape, inner) = match (&schema["items"], &schema["additionalProperties"]) {
            (items @ Value::Object(_), _) => (FieldShape::List, items),
            (_, values @ Value::Object(_)) => (FieldShape::Map, values),
            _ => (FieldShape::Object, schema),
        };
        let text = |key: &str| schema[key].as_str().map(str::to_owned);
        let keys = schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten();
        Ok(Self {
            shape,
            value: reference(inner)?.filter(|name| types.contains(name.as_str())),
            strategy: text("x-kubernetes-patch-strategy"),
            merge_key: text("x-kubernetes-patch-merge-key"),
            list_type: text("x-kubernetes-list-type"),
            list_map_keys: keys.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    fn has_facts(&self) -> bool {
        self.strategy.is_some()
            || self.merge_key.is_some()
            || self.list_type.is_some()
            || !self.list_map_keys.is_empty()
    }

    fn columns(&self) -> String {
        let or_dash = |value: &Option<String>| column(value.as_deref());
        let shape = match self.shape {
            FieldShape::Object => "object",
            FieldShape::List => "list",
            FieldShape::Map => "map",
        };
        [
            shape,
            &or_dash(&self.value),
            &or_dash(&self.strategy),
            &or_dash(&self.merge_key),
            &or_dash(&self.list_type),
            &column(self.list_map_keys.iter().map(String::as_str)),
        ]
        .join("\t")
    }
}

// === impl SchemaTypes ===

impl SchemaTypes {
    fn of(schemas: &BTreeMap<String, &Value>) -> Result<Self> {
        let has_fields = |schema: &Value| schema["properties"].is_object();
        let names: BTreeSet<&str> = schemas
            .iter()
            .filter(|(_, schema)| has_fields(schema))
            .map(|(name, _)| name.as_str())
            .collect();
        let mut types = Self::default();
        for (name, schema) in schemas {
            for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                let found =
                    FieldFact::of(schema, &names).with_context(|| format!("{name}.{field}"))?;
                types
                    .0
                    .entry(name.clone())
                    .or_default()
                    .insert(field.clone(), found);
            }
        }
        Ok(types)
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str, &FieldFact)> {
        self.0.iter().flat_map(|(owner, fields)| {
            fields
                .iter()
                .map(move |(name, field)| (owner.as_str(), name.as_str(), field))
        })
    }

    /// The given types and all that are met below them.
    fn reachable<'a>(&'a self, roots: impl Iterator<Item = &'a String>) -> BTreeSet<&'a str> {
        let mut open: Vec<&str> = roots.map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if seen.insert(name) {
                let fields = self.0.get(name).into_iter().flat_map(BTreeMap::values);
                open.extend(fields.filter_map(|field| field.value.as_deref()));
            }
        }
        seen
    }

    /// Those types that have a field with facts, or a field that leads to such a type.
    fn leading(&self) -> BTreeSet<&str> {
        let mut leading: BTreeSet<&str> = BTreeSet::new();
        loop {
            let before = leading.len();
            for (owner, _, field) in self.iter() {
                if field.has_facts()
                    || field
                        .value
                        .as_ref()
                        .is_some_and(|value| leading.contains(value.as_str()))
                {
                    leading.insert(owner);
                }
            }
            if leading.len() == before {
                return leading;
            }
        }
    }
}

/// The components of all documents under their short names. A component stands in every document that uses it, and
/// must say the same about its fields in all of them.
fn merge(documents: &[Value]) -> Result<BTreeMap<String, &Value>> {
    let mut schemas: BTreeMap<String, (&str, &Value)> = BTreeMap::new();
    for document in documents {
        let components = document["components"]["schemas"]
            .as_object()
            .context("an OpenAPI document without schemas")?;
        for (name, schema) in components {
            let (known, same) = schemas
                .entry(short(name).to_owned())
                .or_insert((name, schema));
            if *known != name {
                bail!(
                    "{known} and {name} have the same short name: give them different ones in PREFIXES"
                );
            }
            if same["properties"] != schema["properties"] {
                bail!("{name} differs between two documents");
            }
        }
    }
    Ok(schemas
        .into_iter()
        .map(|(name, (_, schema))| (name, schema))
        .collect())
}

/// The type of each kind.
fn roots(schemas: &BTreeMap<String, &Value>) -> Result<BTreeMap<FactGvk, String>> {
    let mut roots = BTreeMap::new();
    for (name, schema) in schemas {
        for gvk in schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let part = |key: &str| Some(gvk[key].as_str()?.to_owned());
            let gvk = FactGvk {
                group: part("group").unwrap_or_default(),
                version: part("version")
                    .with_context(|| format!("a kind of {name} has no version"))?,
                kind: part("kind").with_context(|| format!("a kind of {name} has no name"))?,
            };
            if let Some(other) = roots.insert(gvk.clone(), name.clone()) {
                bail!("both {other} and {name} call themselves {gvk:?}");
            }
        }
    }
    Ok(roots)
}

/// The reference of a schema: direct, or in an `allOf` of one, which gives a reference a default.
fn reference(schema: &Value) -> Result<Option<String>> {
    let target = match schema["allOf"].as_array().map(Vec::as_slice) {
        None => &schema["$ref"],
        Some([only]) => &only["$ref"],
        Some(_) => bail!("an allOf of several schemas is not understood"),
    };
    let Some(target) = target.as_str() else {
        return Ok(None);
    };
    let name = target
        .strip_prefix("#/components/schemas/")
        .with_context(|| format!("an unknown reference {target}"))?;
    Ok(Some(short(name).to_owned()))
}

fn short(name: &str) -> &str {
    PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_gvk(group: &str, version: &str, kind: &str) -> FactGvk {
        FactGvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    fn mk_document() -> Value {
        let to = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}], "default": {}});
        json!({"components": {"schemas": {
            "io.k8s.api.core.v1.Pod": {
                "properties": {
                    "kind": {"type": "string"},
                    "metadata": to("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
                    "spec": to("io.k8s.api.core.v1.PodSpec"),
                    "when": to("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
                },
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
            },
            "io.k8s.api.core.v1.PodSpec": {"properties": {
                "containers": {
                    "type": "array",
                    "items": to("io.k8s.api.core.v1.Container"),
                    "x-kubernetes-list-map-keys": ["name", "zone"],
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-patch-merge-key": "name",
                    "x-kubernetes-patch-strategy": "merge,retainKeys",
                },
                "byName": {"type": "object", "additionalProperties": to("io.k8s.api.core.v1.Inner")},
                "plain": to("io.k8s.api.core.v1.Plain"),
            }},
            "io.k8s.api.core.v1.Container": {"properties": {"name": {"type": "string"}}},
            "io.k8s.api.core.v1.Plain": {"properties": {"again": to("io.k8s.api.core.v1.Plain")}},
            "io.k8s.api.core.v1.Inner": {"properties": {
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "inner": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Inner"},
            }},
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"properties": {
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            }},
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string"},
            "io.k8s.api.core.v1.Unused": {"properties": {
                "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
            }},
        }}})
    }

    #[test]
    fn a_field_is_listed_when_it_has_facts_or_leads_to_some() {
        let wanted = [mk_gvk("", "v1", "Pod"), mk_gvk("", "v1", "PodExecOptions")];
        let text = MergeFacts::of(&[mk_document()], &wanted).unwrap().text();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            rows,
            [
                "kind\t-\tv1\tPod\tcore.v1.Pod",
                "field\tcore.v1.Inner\tinner\tobject\tcore.v1.Inner\t-\t-\t-\t-",
                "field\tcore.v1.Inner\ttags\tlist\t-\t-\t-\tset\t-",
                "field\tcore.v1.Pod\tmetadata\tobject\tmeta.v1.ObjectMeta\t-\t-\t-\t-",
                "field\tcore.v1.Pod\tspec\tobject\tcore.v1.PodSpec\t-\t-\t-\t-",
                "field\tcore.v1.PodSpec\tbyName\tmap\tcore.v1.Inner\t-\t-\t-\t-",
                "field\tcore.v1.PodSpec\tcontainers\tlist\tcore.v1.Container\tmerge,retainKeys\tname\tmap\tname,zone",
                "field\tmeta.v1.ObjectMeta\tfinalizers\tlist\t-\tmerge\t-\t-\t-",
            ]
        );
    }

    #[test]
    fn the_same_component_in_two_documents_counts_once_and_must_agree() {
        let wanted = [mk_gvk("", "v1", "Pod")];
        let once = MergeFacts::of(&[mk_document()], &wanted).unwrap();
        let twice = MergeFacts::of(&[mk_document(), mk_document()], &wanted).unwrap();
        assert_eq!(once.text(), twice.text());
        assert_eq!(once.counts(), twice.counts());
        let mut other = mk_document();
        other["components"]["schemas"]["io.k8s.api.core.v1.Plain"]["properties"] = json!({});
        assert!(MergeFacts::of(&[mk_document(), other], &wanted).is_err());
    }

    #[test]
    fn short_names_must_stay_unique() {
        let mut other = mk_document();
        other["components"]["schemas"]["io.k8s.kube-aggregator.pkg.apis.core.v1.Pod"] = json!({});
        let error = MergeFacts::of(&[other], &[]).unwrap_err().to_string();
        assert!(error.contains("have the same short name"), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(reference(&json!({"allOf": [{}, {}]})).is_err());
        assert!(reference(&json!({"$ref": "#/elsewhere/x"})).is_err());
        assert_eq!(reference(&json!({"type": "string"})).unwrap(), None);
    }
}
