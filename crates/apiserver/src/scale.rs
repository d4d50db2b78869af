//! `autoscaling/v1` Scale: the replicas and the selector of a workload, as the subresource `scale` shows them.
//!
//! Workloads of Kubernetes have fixed fields; the definition of a custom kind names the paths. Pure functions over trees:
//! a Scale is not stored. Mirrors the `ScaleREST` of upstream's registries and `customresource/etcd.go`, 1.36.

use caretaker_machinery::status::{Status, StatusCause, StatusDetails};
use serde_json::{Map, Value, json};

use crate::kinds::{CustomKind, ServedKind};
use crate::metadata::{self, ObjectTree, value_at};
use crate::strategy::{self, ObjectPart};

/// Stands for absent replicas while a custom object is patched, as upstream: a patch that leaves it is refused.
pub(crate) const REPLICAS_UNSET: i64 = i32::MIN as i64;

/// Where a kind keeps what its scale shows. Paths begin with a dot: `.spec.replicas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScaleFields<'a> {
    pub(crate) replicas: &'a str,
    status_replicas: &'a str,
    selector: SelectorField<'a>,
}

/// The form of a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorField<'a> {
    /// A map of labels, or a label selector, at `.spec.selector`.
    Labels,
    /// A text at this path of a custom object.
    Text(&'a str),
    Absent,
}

/// The Scale of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectScale {
    pub(crate) tree: ObjectTree,
    /// The object has the field of the replicas.
    pub(crate) has_replicas: bool,
}

// === impl ScaleFields ===

impl<'a> ScaleFields<'a> {
    /// Returns the fields of a kind that has the subresource.
    pub(crate) fn of(kind: &'a ServedKind) -> Self {
        let declared = kind.custom.as_ref().and_then(Self::declared);
        declared.unwrap_or(Self {
            replicas: ".spec.replicas",
            status_replicas: ".status.replicas",
            selector: SelectorField::Labels,
        })
    }

    /// Returns the fields that the definition of a custom kind declares.
    pub(crate) fn declared(custom: &'a CustomKind) -> Option<Self> {
        let path = |field: &str| custom.scale[field].as_str().filter(|path| !path.is_empty());
        Some(Self {
            replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            selector: path("labelSelectorPath").map_or(SelectorField::Absent, SelectorField::Text),
        })
    }

    /// Returns the Scale of an object. An error names a field with a value of another type.
    pub(crate) fn scale_of(&self, object: &ObjectTree) -> Result<ObjectScale, String> {
        let replicas = nested(object, self.replicas, NestedType::Integer)?;
        let current = nested(object, self.status_replicas, NestedType::Integer)?;
        let selector = match self.selector {
            SelectorField::Labels => selector_text(value_at(object, "/spec/selector")),
            SelectorField::Text(path) => {
                let text = nested(object, path, NestedType::Text)?;
                text.and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            SelectorField::Absent => String::new(),
        };
        let mut shown = Map::new();
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ] {
            metadata::set(&mut shown, field, metadata::get(object, field).cloned());
        }
        let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(0);
        let mut tree = ObjectTree::new();
        tree.insert("metadata".into(), Value::Object(shown));
        tree.insert("spec".into(), spec(number(replicas)));
        let mut status = json!({ "replicas": number(current) });
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        tree.insert("status".into(), status);
        Ok(ObjectScale {
            tree,
            has_replicas: replicas.is_some(),
        })
    }

    /// Sets the replicas of an object.
    pub(crate) fn set_replicas(&self, object: &mut ObjectTree, replicas: i64) {
        let mut names = names(self.replicas);
        let last = names.pop().unwrap_or_default();
        let mut at = object;
        for name in names {
            let slot = at.entry(name).or_insert_with(|| json!({}));
            if !slot.is_object() {
                *slot = json!({});
            }
            let Value::Object(members) = slot else { return };
            at = members;
        }
        at.insert(last.to_owned(), replicas.into());
    }

    /// Returns why the values of a custom object's fields are refused.
    pub(crate) fn faults(&self, object: &ObjectTree, part: ObjectPart) -> Vec<StatusCause> {
        let mut causes = Vec::new();
        let counts = [self.replicas, self.status_replicas];
        let first = usize::from(part == ObjectPart::Status);
        for path in &counts[first..] {
            let count = nested(object, path, NestedType::Integer);
            let count = count.map(|count| count.and_then(Value::as_i64).unwrap_or(0));
            let fault = match count {
                Err(why) => Some((0, why)),
                Ok(count) if count < 0 => {
                    Some((count, "should be a non-negative integer".to_owned()))
                }
                Ok(count) if count > i64::from(i32::MAX) => {
                    let why = format!("should be less than or equal to {}", i32::MAX);
                    Some((count, why))
                }
                Ok(_) => None,
            };
            causes.extend(fault.map(|(count, why)| StatusCause::invalid(*path, count, &why)));
        }
        if let SelectorField::Text(path) = self.selector {
            let fault = nested(object, path, NestedType::Text).err();
            causes.extend(fault.map(|why| StatusCause::invalid(path, "", &why)));
        }
        causes
    }

    /// Returns the error of a read of an object without the field of the replicas.
    pub(crate) fn no_replicas(&self) -> Status {
        let why = format!("the spec replicas field {:?} does not exist", self.replicas);
        let message = format!("Internal error occurred: {why}");
        Status::failure(500, "InternalError", message).with(StatusDetails {
            causes: vec![StatusCause::new("", "", why)],
            ..StatusDetails::default()
        })
    }
}

/// Returns the row of the Scales of a kind's objects. It is in no table.
pub(crate) fn scale_kind(parent: &ServedKind) -> ServedKind {
    ServedKind {
        group: "autoscaling".into(),
        version: "v1".into(),
        plural: "scale".into(),
        kind: "Scale".into(),
        list_kind: "ScaleList".into(),
        subresources: Vec::new(),
        rules: crate::kinds::KindRules::default(),
        strategy: strategy::of_builtin("autoscaling", "scale"),
        custom: None,
        ..parent.clone()
    }
}

/// Returns the spec of a Scale, which leaves out zero.
pub(crate) fn spec(replicas: i64) -> Value {
    match replicas {
        0 => json!({}),
        replicas => json!({ "replicas": replicas }),
    }
}

/// The type that a field must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NestedType {
    Integer,
    Text,
}

/// Returns the value at a path, in the way and with the errors of upstream's helpers for untyped objects.
fn nested<'a>(
    object: &'a ObjectTree,
    path: &str,
    of: NestedType,
) -> Result<Option<&'a Value>, String> {
    let names = names(path);
    let refused = |depth: usize, value: &Value, expected: &str| {
        let path = names[..depth].join(".");
        let (shown, found) = go_value(value);
        format!(".{path} accessor error: {shown} is of the type {found}, expected {expected}")
    };
    let mut found = names.first().and_then(|name| object.get(*name));
    for (depth, name) in names.iter().enumerate().skip(1) {
        found = match found {
            None => return Ok(None),
            Some(Value::Object(members)) => members.get(*name),
            Some(other) => return Err(refused(depth + 1, other, "map[string]interface{}")),
        };
    }
    match (found, of) {
        (Some(value), NestedType::Integer) if value.as_i64().is_none() => {
            Err(refused(names.len(), value, "int64"))
        }
        (Some(value), NestedType::Text) if !value.is_string() => {
            Err(refused(names.len(), value, "string"))
        }
        (found, _) => Ok(found),
    }
}

fn names(path: &str) -> Vec<&str> {
    path.trim_start_matches('.').split('.').collect()
}

/// Returns a value and its type as Go prints them; lists and objects are shown as JSON.
fn go_value(value: &Value) -> (String, &'static str) {
    match value {
        Value::Null => ("<nil>".into(), "<nil>"),
        Value::String(text) => (text.clone(), "string"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) if number.is_f64() => (number.to_string(), "float64"),
        Value::Number(number) => (number.to_string(), "int64"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    }
}

/// Returns a selector as text: a map of labels, or a label selector, whose requirements are ordered by key.
fn selector_text(selector: &Value) -> String {
    let Some(members) = selector.as_object() else {
        return String::new();
    };
    let is_map = members.values().all(Value::is_string);
    let labels = match is_map {
        true => Some(members),
        false => selector["matchLabels"].as_object(),
    };
    let mut terms: Vec<(&str, String)> = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        terms.push((key, format!("{key}={value}")));
    }
    let expressions = selector["matchExpressions"].as_array();
    for expression in expressions.into_iter().flatten().filter(|_| !is_map) {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values = metadata::strings(&expression["values"]);
        values.sort();
        let values = values.join(",");
        let term = match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, term));
    }
    terms.sort_by_key(|(key, _)| *key);
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KindTable;
    use crate::metadata::mk_tree;

    const CUSTOM: ScaleFields<'static> = ScaleFields {
        replicas: ".spec.size.replicas",
        status_replicas: ".status.replicas",
        selector: SelectorField::Text(".status.selector"),
    };

    #[test]
    fn shows_the_fields_of_a_workload() {
        let kinds = KindTable::builtin();
        let kind = kinds.get("apps", "v1", "deployments").unwrap();
        let deployment = json!({"metadata": {"name": "d", "namespace": "ns", "uid": "u", "labels": {"a": "b"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}}, "status": {"replicas": 1}});
        let scale = ScaleFields::of(kind)
            .scale_of(&mk_tree(&deployment))
            .unwrap();
        let expected = json!({"metadata": {"name": "d", "namespace": "ns", "uid": "u"},
            "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "app=a"}});
        assert_eq!(Value::Object(scale.tree), expected);
        assert!(scale.has_replicas);
    }

    #[test]
    fn selectors_are_texts_ordered_by_key() {
        let cases = [
            (json!(null), ""),
            (json!({}), ""),
            (json!({"b": "1", "a": "2"}), "a=2,b=1"),
            (json!({"matchLabels": {"b": "1"}}), "b=1"),
            (
                json!({"matchLabels": {"b": "1"}, "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["y", "x"]},
                    {"key": "c", "operator": "NotIn", "values": ["z"]},
                    {"key": "d", "operator": "Exists"}, {"key": "e", "operator": "DoesNotExist"}]}),
                "a in (x,y),b=1,c notin (z),d,!e",
            ),
        ];
        for (selector, expected) in cases {
            assert_eq!(selector_text(&selector), expected, "{selector}");
        }
    }

    #[test]
    fn custom_fields_are_at_the_paths_of_the_definition() {
        let mut object =
            mk_tree(&json!({"metadata": {}, "status": {"replicas": 3, "selector": "a=b"}}));
        let scale = CUSTOM.scale_of(&object).unwrap();
        assert!(!scale.has_replicas);
        assert_eq!(
            scale.tree["status"],
            json!({"replicas": 3, "selector": "a=b"})
        );
        CUSTOM.set_replicas(&mut object, 4);
        assert_eq!(object["spec"], json!({"size": {"replicas": 4}}));
        assert_eq!(
            CUSTOM.scale_of(&object).unwrap().tree["spec"],
            json!({"replicas": 4})
        );
    }

    #[test]
    fn custom_fields_of_wrong_types_and_ranges_are_refused() {
        let cases = [
            (json!({}), ObjectPart::Main, vec![]),
            (
                json!({"spec": {"size": {"replicas": -1}}, "status": {"replicas": 5_000_000_000_i64}}),
                ObjectPart::Main,
                vec![
                    ".spec.size.replicas: Invalid value: -1: should be a non-negative integer",
                    ".status.replicas: Invalid value: 5000000000: should be less than or equal to 2147483647",
                ],
            ),
            (
                json!({"spec": {"size": "x"}, "status": {"replicas": "x", "selector": 1}}),
                ObjectPart::Main,
                vec![
                    ".spec.size.replicas: Invalid value: 0: .spec.size.replicas accessor error: x is of the type string, expected map[string]interface{}",
                    ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string",
                ],
            ),
            (json!({"spec": {"size": "x"}}), ObjectPart::Status, vec![]),
        ];
        for (object, part, expected) in cases {
            let causes = CUSTOM.faults(&mk_tree(&object), part);
            let found: Vec<String> = causes
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(found, expected, "{object}");
        }
    }
}
