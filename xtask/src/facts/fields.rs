//! `fields.txt`: how the fields of the stable kinds are merged, from OpenAPI v3.
//!
//! Strategic merge and server-side apply start at the type of an object and walk down its fields. So every field is
//! listed that carries a merge fact itself, and every field through which a type with such a field is reached;
//! whatever is not listed is an ordinary value with nothing special below it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::discovery::{FactGvk, ResourceFacts};
use super::{NOTHING, column};
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
    fields: TypeFields,
}

/// Facts by type and field name.
type TypeFields = BTreeMap<(String, String), FieldFact>;

/// The merge facts of one field in OpenAPI.
#[derive(Debug)]
struct FieldFact {
    /// `object`, or `list` or `map` of the value's type.
    shape: &'static str,
    /// The type of the value or its elements, when that has fields.
    value: Option<String>,
    /// The last four columns: patch strategy, merge key, list type and list map keys.
    facts: [String; 4],
}

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
        let mut fields = fields(&schemas)?;
        // The types of the kinds and all that are met below them.
        let reachable = grown(&fields, kinds.values().cloned(), |known, owner, field| {
            field.value.as_ref().filter(|_| known.contains(owner))
        });
        // Those types that have a field with facts, or a field that leads to such a type.
        let leading = grown(&fields, [], |known, owner, field| {
            field.is_listed(known).then_some(owner)
        });
        fields.retain(|(owner, _), field| reachable.contains(owner) && field.is_listed(&leading));
        Ok(Self { kinds, fields })
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        let count = |is: &dyn Fn(&[String; 4]) -> bool| {
            let fields = self.fields.values();
            fields.filter(|field| is(&field.facts)).count()
        };
        let listed = |list_type: &str| count(&|facts| facts[2] == list_type);
        vec![
            ("kinds", self.kinds.len()),
            ("fields", self.fields.len()),
            (
                "fields with a patch strategy",
                count(&|facts| facts[0] != NOTHING),
            ),
            (
                "fields with a merge key",
                count(&|facts| facts[1] != NOTHING),
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
        let fields = self.fields.iter().map(|((owner, name), field)| {
            let (shape, value) = (field.shape, column(field.value.as_deref()));
            let facts = field.facts.join("\t");
            format!("field\t{owner}\t{name}\t{shape}\t{value}\t{facts}\n")
        });
        HEAD.to_owned() + &kinds.chain(fields).collect::<String>()
    }
}

// === impl FieldFact ===

impl FieldFact {
    fn of(schema: &Value, types: &BTreeSet<&str>) -> Result<Self> {
        let (shape, inner) = match (&schema["items"], &schema["additionalProperties"]) {
            (items @ Value::Object(_), _) => ("list", items),
            (_, values @ Value::Object(_)) => ("map", values),
            _ => ("object", schema),
        };
        let text = |key: &str| column(schema[key].as_str());
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        Ok(Self {
            shape,
            value: reference(inner)?.filter(|name| types.contains(name.as_str())),
            facts: [
                text("x-kubernetes-patch-strategy"),
                text("x-kubernetes-patch-merge-key"),
                text("x-kubernetes-list-type"),
                column(keys.into_iter().flatten().filter_map(Value::as_str)),
            ],
        })
    }

    /// Returns whether it has facts, or leads to one of the types that have some.
    fn is_listed(&self, leading: &BTreeSet<String>) -> bool {
        let leads = self.value.as_ref().is_some_and(|it| leading.contains(it));
        leads || self.facts.iter().any(|fact| fact != NOTHING)
    }
}

/// All fields of all types.
fn fields(schemas: &BTreeMap<String, &Value>) -> Result<TypeFields> {
    let types = schemas.iter();
    let types: BTreeSet<&str> = types
        .filter(|(_, schema)| schema["properties"].is_object())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut fields = TypeFields::new();
    for (owner, schema) in schemas {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let field = FieldFact::of(schema, &types).with_context(|| format!("{owner}.{name}"))?;
            fields.insert((owner.clone(), name.clone()), field);
        }
    }
    Ok(fields)
}

/// Adds the type that `more` finds in a field to a set of types, until no field adds one.
fn grown<'a>(
    fields: &'a TypeFields,
    first: impl IntoIterator<Item = String>,
    more: impl Fn(&BTreeSet<String>, &'a String, &'a FieldFact) -> Option<&'a String>,
) -> BTreeSet<String> {
    let mut types: BTreeSet<String> = first.into_iter().collect();
    loop {
        let before = types.len();
        for ((owner, _), field) in fields {
            types.extend(more(&types, owner, field).cloned());
        }
        if types.len() == before {
            return types;
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
