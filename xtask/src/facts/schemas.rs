//! `schemas.txt`: the schemas of the stable kinds, from OpenAPI v3, without their descriptions.
//!
//! The server renders its OpenAPI documents from these rows, and strategic merge reads the merge keys in them. A schema
//! with a keyword that the rows cannot express is refused, so nothing is lost in silence.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::column;
use super::discovery::ResourceFacts;
use crate::http::HttpClient;

const HEAD: &str = "\
# Schemas of the built-in types: type\twords\tfield:value words\t...
# value: [] before the elements of a list, {} before the values of a map, then a type of this file or a JSON type
# /format; (a|b) allowed texts, with ~ for a space; = the zero value as default, =JSON another default; & a reference without `allOf`
# words of a type: required=FIELDS, kind=GROUP/VERSION/KIND (`*`: one of each group), map=TYPE, union=JSON, is=VALUE for a type without fields
# words of a field: list=TYPE, keys=FIELDS, map=TYPE, patch=STRATEGIES, merge-key=FIELD
";
/// Prefixes of component names that the short names omit; the longest first.
const PREFIXES: [&str; 5] = [
    "io.k8s.apiextensions-apiserver.pkg.apis.",
    "io.k8s.kube-aggregator.pkg.apis.",
    "io.k8s.apimachinery.pkg.apis.",
    "io.k8s.apimachinery.pkg.",
    "io.k8s.api.",
];
/// Types that list a kind for each group in each document.
const IN_EVERY_GROUP: [&str; 2] = ["meta.v1.DeleteOptions", "meta.v1.WatchEvent"];

/// The rows by short name.
#[derive(Debug)]
pub(super) struct SchemaFacts(BTreeMap<String, String>);

// === impl SchemaFacts ===

impl SchemaFacts {
    /// Asks a server for the OpenAPI documents of all group-versions, and of what lies outside of them.
    pub(super) fn ask(client: &HttpClient, resources: &ResourceFacts) -> Result<Self> {
        let versions = resources.group_versions();
        let versions = versions.map(|(group, version)| match group {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        });
        let others = ["api", "apis", "version"].map(str::to_owned);
        let paths = versions.chain(others);
        let documents = paths.map(|path| {
            let path = format!("/openapi/v3/{path}");
            client.get_json(&path, "application/json")
        });
        Self::of(&documents.collect::<Result<Vec<_>>>()?)
    }

    /// A component stands in every document that uses it, and must say the same in all of them.
    fn of(documents: &[Value]) -> Result<Self> {
        let mut names: BTreeMap<String, &str> = BTreeMap::new();
        let mut rows = BTreeMap::new();
        for document in documents {
            let components = document["components"]["schemas"].as_object();
            for (name, schema) in components.context("an OpenAPI document without schemas")? {
                let key = short(name);
                let known = names.entry(key.to_owned()).or_insert(name);
                if *known != name {
                    bail!(
                        "{known} and {name} have the same short name: give them different ones in PREFIXES"
                    );
                }
                let row = type_row(key, schema).with_context(|| name.clone())?;
                if rows.entry(key.to_owned()).or_insert_with(|| row.clone()) != &row {
                    bail!("{name} differs between two documents");
                }
            }
        }
        Ok(Self(rows))
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        let count = |text: &str| self.0.values().map(|row| row.matches(text).count()).sum();
        vec![
            ("schemas", self.0.len()),
            ("fields with a patch strategy", count(" patch=")),
            ("fields with a merge key", count(" merge-key=")),
            ("lists that are maps", count(" list=map")),
            ("lists that are sets", count(" list=set")),
        ]
    }

    pub(super) fn text(&self) -> String {
        let rows = self.0.iter();
        let rows = rows.map(|(name, row)| format!("{name}\t{row}\n"));
        HEAD.to_owned() + &rows.collect::<String>()
    }
}

/// The row of a type: its words, then its fields.
fn type_row(name: &str, schema: &Value) -> Result<String> {
    let mut schema = facts(schema)?;
    let mut words = Vec::new();
    if let Some(required) = schema.remove("required") {
        words.push(format!("required={}", texts(&required)));
    }
    for kind in list(schema.remove("x-kubernetes-group-version-kind")) {
        let part = |key: &str| column(kind[key].as_str());
        let kind = format!(
            "kind={}/{}/{}",
            part("group"),
            part("version"),
            part("kind")
        );
        if !IN_EVERY_GROUP.contains(&name) {
            words.push(kind);
        }
    }
    if IN_EVERY_GROUP.contains(&name) {
        words.push("kind=*".to_owned());
    }
    if let Some(map) = schema.remove("x-kubernetes-map-type") {
        words.push(format!("map={}", texts(&map)));
    }
    if let Some(union) = schema.remove("x-kubernetes-unions") {
        words.push(format!("union={union}"));
    }
    let fields = schema.remove("properties");
    if fields.is_none() {
        words.push(format!("is={}", value(&mut schema)?));
    } else {
        schema.remove("type");
    }
    let mut row = column([words.join(" ").as_str()]);
    for (field, schema) in fields
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let text = field_text(schema).with_context(|| field.clone())?;
        row.push_str(&format!("\t{field}:{text}"));
    }
    refuse_rest(&schema)?;
    Ok(row)
}

fn field_text(schema: &Value) -> Result<String> {
    let direct = schema.get("$ref").is_some();
    let mut schema = facts(schema)?;
    let words = [
        ("x-kubernetes-list-type", "list"),
        ("x-kubernetes-list-map-keys", "keys"),
        ("x-kubernetes-map-type", "map"),
        ("x-kubernetes-patch-strategy", "patch"),
        ("x-kubernetes-patch-merge-key", "merge-key"),
    ];
    let mut tail = String::new();
    for (keyword, word) in words {
        if let Some(fact) = schema.remove(keyword) {
            tail.push_str(&format!(" {word}={}", texts(&fact)));
        }
    }
    let value = value(&mut schema)?;
    refuse_rest(&schema)?;
    let mark = if direct { "&" } else { "" };
    Ok(format!("{mark}{value}{tail}"))
}

/// Takes a value out of a schema.
fn value(schema: &mut Map<String, Value>) -> Result<String> {
    for (keyword, mark, of_type) in [
        ("items", "[]", "array"),
        ("additionalProperties", "{}", "object"),
    ] {
        if let Some(inner) = schema.remove(keyword) {
            if schema.remove("type") != Some(of_type.into()) {
                bail!("{keyword} in a schema that is no {of_type}");
            }
            let mut inner = facts(&inner)?;
            let text = value(&mut inner)?;
            refuse_rest(&inner)?;
            return Ok(format!("{mark}{text}"));
        }
    }
    let mut text = match (reference(schema)?, schema.remove("oneOf")) {
        (Some(name), None) => name,
        (None, Some(choices)) => {
            let choices = list(Some(choices)).into_iter();
            let types: Vec<String> = choices.map(|choice| texts(&choice["type"])).collect();
            types.join("|")
        }
        (None, None) => schema
            .remove("type")
            .as_ref()
            .map(texts)
            .unwrap_or_default(),
        (Some(_), Some(_)) => bail!("a reference with choices"),
    };
    if let Some(format) = schema.remove("format") {
        text.push_str(&format!("/{}", texts(&format)));
    }
    if let Some(allowed) = schema.remove("enum") {
        let allowed = texts(&allowed).replace(',', "|");
        text.push_str(&format!("({})", allowed.replace(' ', "~")));
    }
    if let Some(default) = schema.remove("default") {
        text.push('=');
        let zero = ["\"\"", "0", "false", "{}"];
        if !zero.contains(&default.to_string().as_str()) {
            text.push_str(&default.to_string());
        }
    }
    if text.contains([' ', '\t']) {
        bail!("{text:?} contains a separator");
    }
    Ok(text)
}

/// Takes a reference: direct, or in an `allOf` of one, which gives a reference a default.
fn reference(schema: &mut Map<String, Value>) -> Result<Option<String>> {
    let target = match list(schema.remove("allOf")).as_slice() {
        [] => schema.remove("$ref"),
        [only] => only.get("$ref").cloned(),
        _ => bail!("an allOf of several schemas is not understood"),
    };
    let Some(Value::String(target)) = target else {
        return Ok(None);
    };
    let name = target
        .strip_prefix("#/components/schemas/")
        .with_context(|| format!("an unknown reference {target}"))?;
    Ok(Some(short(name).to_owned()))
}

/// The keywords of a schema without its text for readers.
fn facts(schema: &Value) -> Result<Map<String, Value>> {
    let mut schema = schema.as_object().context("no schema")?.clone();
    schema.remove("description");
    Ok(schema)
}

fn refuse_rest(schema: &Map<String, Value>) -> Result<()> {
    match schema.keys().next() {
        None => Ok(()),
        Some(keyword) => bail!("the keyword {keyword} is not understood here"),
    }
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// A text, or texts separated by commas.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            items.join(",")
        }
        other => other.to_string(),
    }
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

    fn mk_document() -> Value {
        let to = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}], "default": {}});
        json!({"components": {"schemas": {
            "io.k8s.api.core.v1.Pod": {
                "description": "A Pod.",
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "kind": {"type": "string", "description": "Its kind."},
                    "metadata": to("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
                    "plain": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Plain"},
                    "port": {"type": "integer", "format": "int32", "default": 0},
                    "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
                    "byName": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string", "default": ""}}},
                    "containers": {
                        "type": "array",
                        "items": to("io.k8s.api.core.v1.Container"),
                        "x-kubernetes-list-map-keys": ["name", "zone"],
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-patch-merge-key": "name",
                        "x-kubernetes-patch-strategy": "merge,retainKeys",
                    },
                },
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
            },
            "io.k8s.apimachinery.pkg.apis.meta.v1.Time": {"type": "string", "format": "date-time"},
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        }}})
    }

    #[test]
    fn a_type_is_one_row() {
        let text = SchemaFacts::of(&[mk_document()]).unwrap().text();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let pod = [
            "core.v1.Pod",
            "required=spec kind=-/v1/Pod",
            "byName:{}[]string=",
            "containers:[]core.v1.Container= list=map keys=name,zone patch=merge,retainKeys merge-key=name",
            "kind:string",
            "metadata:meta.v1.ObjectMeta=",
            "plain:&core.v1.Plain",
            "port:integer/int32=",
            "protocol:string(TCP|UDP)=\"TCP\"",
        ];
        assert_eq!(
            rows,
            [
                pod.join("\t").as_str(),
                "meta.v1.Time\tis=string/date-time",
                "util.intstr.IntOrString\tis=integer|string/int-or-string",
            ]
        );
    }

    #[test]
    fn the_same_component_in_two_documents_must_agree() {
        let once = SchemaFacts::of(&[mk_document()]).unwrap();
        let twice = SchemaFacts::of(&[mk_document(), mk_document()]).unwrap();
        assert_eq!(once.text(), twice.text());
        let mut other = mk_document();
        other["components"]["schemas"]["io.k8s.api.core.v1.Pod"]["properties"] = json!({});
        assert!(SchemaFacts::of(&[mk_document(), other]).is_err());
    }

    #[test]
    fn short_names_must_stay_unique() {
        let mut other = mk_document();
        other["components"]["schemas"]["io.k8s.kube-aggregator.pkg.apis.core.v1.Pod"] = json!({});
        let error = SchemaFacts::of(&[other]).unwrap_err().to_string();
        assert!(error.contains("have the same short name"), "{error}");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for schema in [
            json!({"allOf": [{}, {}]}),
            json!({"$ref": "#/elsewhere/x"}),
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": "string", "items": {}}),
        ] {
            assert!(field_text(&schema).is_err(), "{schema}");
        }
    }
}
