//! The validation of questions about access, and what of their selectors is understood.
//!
//! Mirrors `apis/authorization/validation` and `registry/authorization/util`, 1.36.

use caretaker_machinery::names;
use caretaker_machinery::selector::{FieldSelector, LabelSelector};
use caretaker_machinery::status::StatusCause;
use serde_json::{Value, json};

use crate::metadata::{self, ObjectTree, value_at};

const RESOURCE: &str = "spec.resourceAttributes";
const NON_RESOURCE: &str = "spec.nonResourceAttributes";

/// Returns the faults of a question about access.
pub(super) fn faults(kind: &str, review: &ObjectTree) -> Vec<StatusCause> {
    let resource = value_at(review, "/spec/resourceAttributes");
    let path = value_at(review, "/spec/nonResourceAttributes");
    let mut faults = Vec::new();
    if !resource.is_null() && !path.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        faults.push(StatusCause::invalid(NON_RESOURCE, go_path(path), why));
    }
    if resource.is_null() && path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        faults.push(StatusCause::invalid(RESOURCE, Value::Null, why));
    }
    let is_empty = |field: &str| match value_at(review, field) {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    if kind != "SelfSubjectAccessReview" && is_empty("/spec/user") && is_empty("/spec/groups") {
        let why = "at least one of user or group must be specified";
        faults.push(StatusCause::invalid("spec.user", "", why));
    }
    for selector in ["fieldSelector", "labelSelector"] {
        if let Value::Object(attributes) = &resource[selector] {
            selector_faults(selector, attributes, &mut faults);
        }
    }
    let is_local = kind == "LocalSubjectAccessReview";
    faults.extend(metadata_fault(review, is_local));
    if is_local {
        let (own, namespace) = (metadata::text(review, "namespace"), &resource["namespace"]);
        let namespace = namespace.as_str().unwrap_or_default();
        if !resource.is_null() && namespace != own {
            let field = format!("{RESOURCE}.namespace");
            let why = "must match metadata.namespace";
            faults.push(StatusCause::invalid(field, namespace, why));
        }
        if !path.is_null() {
            let why = "disallowed on this kind of request";
            faults.push(StatusCause::invalid(NON_RESOURCE, go_path(path), why));
        }
    }
    faults
}

/// A question has no metadata, but for the namespace of a local one.
fn metadata_fault(review: &ObjectTree, is_local: bool) -> Option<StatusCause> {
    let metadata = value_at(review, "/metadata").as_object()?;
    let mut set = metadata
        .keys()
        .filter(|key| !is_local || *key != "namespace");
    set.next()?;
    let why = if is_local {
        "must be empty except for namespace"
    } else {
        "must be empty"
    };
    Some(StatusCause::invalid("metadata", metadata, why))
}

fn selector_faults(selector: &str, attributes: &ObjectTree, faults: &mut Vec<StatusCause>) {
    let path = format!("{RESOURCE}.{selector}");
    let raw = attributes.get("rawSelector").and_then(Value::as_str);
    let raw = raw.unwrap_or_default();
    let requirements = attributes.get("requirements").and_then(Value::as_array);
    let requirements = requirements.map(Vec::as_slice).unwrap_or_default();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        faults.push(StatusCause::invalid(
            format!("{path}.rawSelector"),
            raw,
            why,
        ));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        faults.push(StatusCause::required(format!("{path}.requirements"), &why));
    }
    for (at, requirement) in requirements.iter().enumerate() {
        let path = format!("{path}.requirements[{at}]");
        match selector {
            "fieldSelector" => field_faults(&path, requirement, faults),
            _ => label_faults(&path, requirement, faults),
        }
    }
}

fn field_faults(path: &str, requirement: &Value, faults: &mut Vec<StatusCause>) {
    if key(requirement).is_empty() {
        let cause = StatusCause::required(format!("{path}.key"), "must be specified");
        faults.push(cause);
    }
    faults.extend(operator_fault(path, requirement));
}

fn label_faults(path: &str, requirement: &Value, faults: &mut Vec<StatusCause>) {
    faults.extend(operator_fault(path, requirement));
    let key = key(requirement);
    for why in names::qualified_name(key) {
        faults.push(StatusCause::invalid(format!("{path}.key"), key, &why));
    }
    for (at, value) in values(requirement).iter().enumerate() {
        for why in names::label_value(value) {
            let field = format!("{path}.values[{at}]");
            faults.push(StatusCause::invalid(field, value, &why));
        }
    }
}

/// Unknown operators are allowed: a newer client may know them.
fn operator_fault(path: &str, requirement: &Value) -> Option<StatusCause> {
    let has_values = !values(requirement).is_empty();
    let field = format!("{path}.values");
    match operator(requirement) {
        "In" | "NotIn" if !has_values => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            Some(StatusCause::required(field, why))
        }
        "Exists" | "DoesNotExist" if has_values => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            Some(StatusCause::forbidden(field, why))
        }
        _ => None,
    }
}

/// Returns which selectors of a valid question were ignored, and how much of them.
pub(super) fn evaluation_error(resource: &Value) -> String {
    let mut errors = Vec::new();
    for selector in ["fieldSelector", "labelSelector"] {
        let is_field = selector == "fieldSelector";
        let raw = resource[selector]["rawSelector"]
            .as_str()
            .unwrap_or_default();
        let fails = match is_field {
            true => FieldSelector::parse(raw).is_err(),
            false => LabelSelector::parse(raw).is_err(),
        };
        let requirements = resource[selector]["requirements"].as_array();
        let requirements = requirements.map(Vec::as_slice).unwrap_or_default();
        let is_understood = |requirement: &&Value| match operator(requirement) {
            "In" | "NotIn" => !is_field || values(requirement).len() == 1,
            "Exists" | "DoesNotExist" => !is_field,
            _ => false,
        };
        let understood = requirements.iter().filter(is_understood).count();
        let how = match understood {
            _ if fails => "ignored",
            understood if understood == requirements.len() => continue,
            0 => "ignored",
            _ => "partially ignored",
        };
        errors.push(format!("{RESOURCE}.{selector} {how} due to parse error"));
    }
    errors.join("; ")
}

fn key(requirement: &Value) -> &str {
    requirement["key"].as_str().unwrap_or_default()
}

fn operator(requirement: &Value) -> &str {
    requirement["operator"].as_str().unwrap_or_default()
}

fn values(requirement: &Value) -> Vec<&str> {
    let values = requirement["values"].as_array().into_iter().flatten();
    values.filter_map(Value::as_str).collect()
}

/// Returns the attributes of a path as upstream shows them: with the names of its Go type.
fn go_path(attributes: &Value) -> Value {
    let text = |field: &str| attributes[field].as_str().unwrap_or_default();
    json!({"Path": text("path"), "Verb": text("verb")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::mk_tree;

    fn mk_review(attributes: &Value) -> ObjectTree {
        let mut resource = json!({"verb": "get", "resource": "pods"});
        for (key, value) in attributes.as_object().unwrap() {
            resource[key] = value.clone();
        }
        mk_tree(&json!({"spec": {"resourceAttributes": resource}}))
    }

    #[test]
    fn selectors_that_are_not_understood_are_named() {
        let field = "spec.resourceAttributes.fieldSelector";
        let label = "spec.resourceAttributes.labelSelector";
        let cases = [
            (json!({}), String::new()),
            (
                json!({"labelSelector": {"rawSelector": "a in (b)"}, "fieldSelector": {"rawSelector": "a=b"}}),
                String::new(),
            ),
            (
                json!({"labelSelector": {"rawSelector": "a in ("}, "fieldSelector": {"rawSelector": "a"}}),
                format!("{field} ignored due to parse error; {label} ignored due to parse error"),
            ),
            (
                json!({"labelSelector": {"requirements": [{"key": "a", "operator": "Huh"}, {"key": "a", "operator": "Exists"}]}}),
                format!("{label} partially ignored due to parse error"),
            ),
            (
                json!({"fieldSelector": {"requirements": [{"key": "a", "operator": "Exists"}]}}),
                format!("{field} ignored due to parse error"),
            ),
            (
                json!({"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["x", "y"]},
                    {"key": "a", "operator": "NotIn", "values": ["x"]}]}}),
                format!("{field} partially ignored due to parse error"),
            ),
        ];
        for (attributes, expected) in cases {
            let review = mk_review(&attributes);
            let error = evaluation_error(value_at(&review, "/spec/resourceAttributes"));
            assert_eq!(error, expected, "{attributes}");
            assert_eq!(
                faults("SelfSubjectAccessReview", &review),
                [],
                "{attributes}"
            );
        }
    }

    #[test]
    fn every_part_of_a_question_is_checked() {
        let both =
            json!({"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x"}, "user": "a"});
        let cases = [
            ("SelfSubjectAccessReview", json!({}), vec![RESOURCE]),
            (
                "SubjectAccessReview",
                json!({}),
                vec![RESOURCE, "spec.user"],
            ),
            (
                "SubjectAccessReview",
                json!({"spec": both}),
                vec![NON_RESOURCE],
            ),
            (
                "LocalSubjectAccessReview",
                json!({"metadata": {"namespace": "a", "name": "b"}, "spec": both}),
                vec![
                    NON_RESOURCE,
                    "metadata",
                    "spec.resourceAttributes.namespace",
                    NON_RESOURCE,
                ],
            ),
            (
                "SelfSubjectAccessReview",
                json!({"metadata": {"labels": {}}, "spec": {"resourceAttributes": {"labelSelector": {}, "fieldSelector":
                    {"rawSelector": "a=b", "requirements": [{"operator": "In"}]}}}}),
                vec![
                    "spec.resourceAttributes.fieldSelector.rawSelector",
                    "spec.resourceAttributes.fieldSelector.requirements[0].key",
                    "spec.resourceAttributes.fieldSelector.requirements[0].values",
                    "spec.resourceAttributes.labelSelector.requirements",
                    "metadata",
                ],
            ),
        ];
        for (kind, review, expected) in cases {
            let found = faults(kind, &mk_tree(&review));
            let fields: Vec<&str> = found.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, expected, "{kind} {review}");
        }
    }
}
