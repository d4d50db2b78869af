//! What a definition of a custom kind must say to be stored. Schemas are looked at as far as their root.

use std::collections::BTreeSet;

use caretaker_machinery::names;
use caretaker_machinery::status::Cause;
use serde_json::Value;

use super::{storage_versions, versions};
use crate::metadata::{self, Tree};

/// What a definition must say.
pub(in crate::strategy) fn faults(new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = new.get("spec").cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let name = metadata::text(new, "name");
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", name, why));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !group.contains('.') {
        causes.push(Cause::invalid(
            "spec.group",
            &group,
            "should be a domain with at least one dot",
        ));
    }
    match text(&spec["scope"]).as_str() {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(Cause::required("spec.scope", "")),
        other => causes.push(Cause::not_supported(
            "spec.scope",
            other,
            &["Cluster", "Namespaced"],
        )),
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        let given = text(&spec["names"][field]);
        let shown = given.to_lowercase();
        // Kinds may have capitals; what else they are made of is the same.
        let checked = if field.ends_with("ind") {
            &shown
        } else {
            &given
        };
        if given.is_empty() {
            causes.push(Cause::required(path, ""));
        } else {
            let faults = names::dns_1035_label(checked);
            causes.extend(
                faults
                    .iter()
                    .map(|fault| Cause::invalid(path.as_str(), &given, fault)),
            );
        }
    }
    version_faults(new, &spec, &mut causes);
    if let Some(old) = old.map(|old| &old["spec"]) {
        for field in ["group", "scope"] {
            if old[field] != spec[field] {
                let path = format!("spec.{field}");
                causes.push(Cause::invalid(
                    path,
                    spec[field].clone(),
                    "field is immutable",
                ));
            }
        }
    }
    causes
}

/// Exactly one version is stored, their names differ, and each has a schema of an object.
fn version_faults(new: &Tree, spec: &Value, causes: &mut Vec<Cause>) {
    let versions = versions(new);
    let names: BTreeSet<&str> = versions
        .iter()
        .filter_map(|version| version["name"].as_str())
        .collect();
    if names.len() < versions.len() {
        let why = "must contain unique version names";
        causes.push(Cause::invalid(
            "spec.versions",
            spec["versions"].clone(),
            why,
        ));
    }
    let stored = storage_versions(new);
    if stored.len() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid(
            "spec.versions",
            spec["versions"].clone(),
            why,
        ));
    }
    if stored.is_empty() {
        let why = "must have at least one stored version";
        causes.push(Cause::invalid("status.storedVersions", Value::Null, why));
    }
    for (index, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        // With one version upstream names the place that the schema had in an older form of the definition.
        let path = if versions.len() == 1 {
            "spec.validation.openAPIV3Schema.type".to_owned()
        } else {
            format!("spec.versions[{index}].schema.openAPIV3Schema.type")
        };
        match schema["type"].as_str() {
            _ if !schema.is_object() => {
                let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
                causes.push(Cause::required(path, ""));
            }
            Some("object") => {}
            None => causes.push(Cause::required(path, "must not be empty at the root")),
            Some(other) => {
                causes.push(Cause::invalid(
                    path.as_str(),
                    other,
                    "must be object at the root",
                ));
                if version["subresources"].get("status").is_some() {
                    let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                    causes.push(Cause::invalid(path, other, why));
                }
            }
        }
    }
}
