//! Checks of a CustomResourceDefinition, except those of its schemas, which are `machinery::schema::check`.

use std::collections::BTreeSet;

use caretaker_machinery::names;
use caretaker_machinery::schema::check::{self, StatusSubresource};
use caretaker_machinery::status::StatusCause;
use serde_json::Value;

use super::{SCHEMA, distinct_schemas, schema_path, storage_versions, versions};
use crate::metadata::{self, ObjectTree};
use crate::strategy::custom::METADATA;

/// The paths of a scale subresource, the roots below which they may lie, and the name of these in messages. A path with
/// one root is required.
const SCALE_PATHS: [(&str, &[&str], &str); 3] = [
    ("specReplicasPath", &[".spec."], ".spec"),
    ("statusReplicasPath", &[".status."], ".status"),
    (
        "labelSelectorPath",
        &[".spec.", ".status."],
        "either .spec or .status",
    ),
];

/// Returns why a definition is refused.
pub(super) fn faults(new: &ObjectTree, old: Option<&ObjectTree>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let spec = new.get("spec").cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let name = metadata::text(new, "name");
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(StatusCause::invalid("metadata.name", name, why));
    }
    if group.is_empty() {
        causes.push(StatusCause::required("spec.group", ""));
    } else if !group.contains('.') {
        let why = "should be a domain with at least one dot";
        causes.push(StatusCause::invalid("spec.group", &group, why));
    }
    match text(&spec["scope"]).as_str() {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(StatusCause::required("spec.scope", "")),
        other => {
            let known = ["Cluster", "Namespaced"];
            causes.push(StatusCause::not_supported("spec.scope", other, &known));
        }
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        let given = text(&spec["names"][field]);
        // A kind may have capitals; the rest of the rule is the same.
        let faults = match field {
            "kind" | "listKind" => names::dns_1035_label(&given.to_lowercase()),
            _ => names::dns_1035_label(&given),
        };
        if given.is_empty() {
            causes.push(StatusCause::required(path, ""));
        } else {
            let faults = faults.iter();
            causes.extend(faults.map(|fault| StatusCause::invalid(&path, &given, fault)));
        }
    }
    version_faults(new, &spec, &mut causes);
    causes.extend(scale_faults(versions(new)));
    if let Some(old) = old.map(|old| &old["spec"]) {
        for field in ["group", "scope"] {
            if old[field] != spec[field] {
                let (path, why) = (format!("spec.{field}"), "field is immutable");
                causes.push(StatusCause::invalid(path, &spec[field], why));
            }
        }
    }
    causes
}

/// Returns why the paths of scale subresources are refused. What all versions share is named as in an older form of the
/// definition.
fn scale_faults(versions: &[Value]) -> Vec<StatusCause> {
    let first = versions.first().map(|version| &version["subresources"]);
    let is_shared = versions
        .iter()
        .all(|version| Some(&version["subresources"]) == first);
    let count = if is_shared { 1 } else { versions.len() };
    let mut causes = Vec::new();
    for (index, version) in versions.iter().take(count).enumerate() {
        let Some(scale) = version["subresources"].get("scale") else {
            continue;
        };
        let at = match is_shared {
            true => "spec.subresources.scale".to_owned(),
            false => format!("spec.versions[{index}].subresources.scale"),
        };
        for (field, roots, called) in SCALE_PATHS {
            let path = scale[field].as_str().unwrap_or_default();
            let field = format!("{at}.{field}");
            if path.is_empty() {
                if roots.len() == 1 {
                    causes.push(StatusCause::required(field, ""));
                }
            } else if !path.starts_with('.') {
                let why = "must be a simple json path starting with .";
                causes.push(StatusCause::invalid(field, path, why));
            } else if !roots.iter().any(|root| path.starts_with(root)) {
                let why = format!("should be a json path under {called}");
                causes.push(StatusCause::invalid(field, path, &why));
            }
        }
    }
    causes
}

/// Checks that exactly one version is stored, that names differ, and that each version has a valid schema.
fn version_faults(new: &ObjectTree, spec: &Value, causes: &mut Vec<StatusCause>) {
    let versions = versions(new);
    let names: BTreeSet<&str> = versions
        .iter()
        .filter_map(|version| version["name"].as_str())
        .collect();
    if names.len() < versions.len() {
        let why = "must contain unique version names";
        causes.push(StatusCause::invalid(
            "spec.versions",
            &spec["versions"],
            why,
        ));
    }
    let stored = storage_versions(new);
    if stored.len() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(StatusCause::invalid(
            "spec.versions",
            &spec["versions"],
            why,
        ));
    }
    if stored.is_empty() {
        let why = "must have at least one stored version";
        let cause = StatusCause::invalid("status.storedVersions", Value::Null, why);
        causes.push(cause);
    }
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"][SCHEMA].is_object() {
            causes.push(StatusCause::required(schema_path(index), ""));
        }
    }
    let distinct = distinct_schemas(new);
    let has_status = |version: &Value| version["subresources"].get("status").is_some();
    for (index, (path, schema)) in distinct.iter().enumerate() {
        // A schema that all versions share is checked as if each had the subresources of one.
        let own = if distinct.len() == 1 {
            versions
        } else {
            &versions[index..=index]
        };
        let status = match own.iter().any(has_status) {
            true => StatusSubresource::Enabled,
            false => StatusSubresource::Disabled,
        };
        if schema.is_object() {
            causes.extend(check::faults(schema, path, status, METADATA));
        }
    }
}
