//! Rules of CustomResourceDefinitions, and the rows of the kinds table that follow from them.
//!
//! The write that stores a definition also accepts and establishes it, and the server serves its kind before it answers.
//! DEVIATION(crd-established-at-once): upstream needs some 30 ms, and delays the first creates by 2 s; one process has no
//! replicas to wait for. Mirrors `apiextensions-apiserver`, 1.36. DEVIATION(cel): rules in CEL are stored and answered with
//! a warning, not evaluated, and not checked for errors.

mod check;
mod names;

use std::collections::BTreeSet;
use std::sync::Arc;

use caretaker_machinery::schema::{self, check as validity};
use caretaker_machinery::status::{Status, StatusCause};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{KindStrategy, ObjectChange, WriteContext};
use crate::body::FieldError;
use crate::deletion::{self, DeleteDecision, ObjectDelete};
use crate::kinds::{
    CustomKind, CustomSchema, GenerationRule, KindRules, KindTable, SelectableField, ServedKind,
    ServedSubresource,
};
use crate::metadata::{self, ObjectTree, strings, value_at};
use crate::server::ServerState;
use crate::store::{ObjectKey, ResourceId};
use crate::types::KindTypes;

use names::accept;

/// The rules of CustomResourceDefinitions.
#[derive(Debug)]
pub(super) struct DefinitionStrategy;

/// The finalizer that holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The field that holds the schema of a version.
const SCHEMA: &str = "openAPIV3Schema";

const ALL_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

// === impl DefinitionStrategy ===

impl KindStrategy for DefinitionStrategy {
    fn read(&self, _kind: &ServedKind, object: &mut ObjectTree) -> Result<Vec<String>, FieldError> {
        let mut unknown = Vec::new();
        for (index, schema) in schema_slots(object) {
            if !schema.is_null() {
                unknown.extend(schema::read(schema, &schema_path(index))?);
            }
        }
        Ok(unknown)
    }

    fn prepare_create(&self, object: &mut ObjectTree, context: WriteContext<'_>) {
        default_names(object);
        let mut status = json!({"storedVersions": storage_versions(object)});
        accept(object, &mut status, context);
        object.insert("status".into(), status);
    }

    fn prepare_update(&self, old: &ObjectTree, new: &mut ObjectTree, context: WriteContext<'_>) {
        default_names(new);
        let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
        let stored = status["storedVersions"].as_array();
        let mut stored: Vec<Value> = stored.cloned().unwrap_or_default();
        for version in storage_versions(new) {
            if !stored.contains(&version) {
                stored.push(version);
            }
        }
        status["storedVersions"] = stored.into();
        if old.get("spec") != new.get("spec") {
            accept(new, &mut status, context);
        }
        new.insert("status".into(), status);
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        check::faults(new, old)
    }

    fn warnings(&self, old: Option<&ObjectTree>, new: &ObjectTree) -> Vec<String> {
        schema_warnings(old, new)
    }

    /// A definition stays until its objects are gone.
    fn decide_delete(&self, delete: &ObjectDelete<'_>) -> Result<DeleteDecision, Status> {
        let is_released = self.is_released(delete.object);
        Ok(deletion::decide_in_steps(delete, is_released, |changed| {
            let mut finalizers = metadata::finalizers(changed);
            if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                finalizers.push(FINALIZER.into());
            }
            metadata::set_finalizers(changed, &finalizers);
            let why = (
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            );
            let status = changed.entry("status").or_insert_with(|| json!({}));
            set_condition(status, "Terminating", "True", why, delete.now);
        }))
    }

    fn is_released(&self, object: &ObjectTree) -> bool {
        !metadata::finalizers(object)
            .iter()
            .any(|name| name == FINALIZER)
    }

    fn after_commit(&self, server: &ServerState, kind: &ServedKind, key: &ObjectKey) {
        update_kinds(server, kind, key);
    }
}

/// Returns the places of the schemas, with the indexes of their versions.
fn schema_slots(object: &mut ObjectTree) -> Vec<(usize, &mut Value)> {
    let versions = object
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("versions"))
        .and_then(Value::as_array_mut);
    let versions = versions.into_iter().flatten().enumerate();
    versions
        .filter_map(|(index, version)| Some((index, version.get_mut("schema")?.get_mut(SCHEMA)?)))
        .collect()
}

fn schema_path(index: usize) -> String {
    format!("spec.versions[{index}].schema.{SCHEMA}")
}

/// Warns about unknown formats and about rules that are not evaluated.
fn schema_warnings(old: Option<&ObjectTree>, new: &ObjectTree) -> Vec<String> {
    let schemas = |object| distinct_schemas(object).into_iter();
    // A set: one warning for each format.
    let formats = |object| -> BTreeSet<String> {
        let schemas = schemas(object);
        schemas
            .flat_map(|(_, schema)| validity::unknown_formats(schema))
            .collect()
    };
    let known = old.map(formats).unwrap_or_default();
    let mut warnings: Vec<String> = formats(new)
        .difference(&known)
        .map(|format| format!("unrecognized format {format:?}"))
        .collect();
    if schemas(new).any(|(_, source)| schema::StructuralSchema::new(source).has_rules()) {
        let warning = "x-kubernetes-validations are stored, but not evaluated by caretaker";
        warnings.push(warning.to_owned());
    }
    warnings
}

/// Returns the schemas of a definition and the paths that causes name. A schema that all versions share is checked once,
/// under the path that it had in an older form of the definition.
fn distinct_schemas(object: &ObjectTree) -> Vec<(String, &Value)> {
    let all = versions(object)
        .iter()
        .map(|version| &version["schema"][SCHEMA]);
    let first = all.clone().next().unwrap_or(&Value::Null);
    if all.clone().all(|schema| schema == first) {
        return vec![(format!("spec.validation.{SCHEMA}"), first)];
    }
    all.enumerate()
        .map(|(index, schema)| (schema_path(index), schema))
        .collect()
}

fn default_names(object: &mut ObjectTree) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names.get("kind").and_then(Value::as_str);
    if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
        let (singular, list_kind) = (kind.to_lowercase(), format!("{kind}List"));
        names.entry("singular").or_insert(singular.into());
        names.entry("listKind").or_insert(list_kind.into());
    }
}

fn storage_versions(object: &ObjectTree) -> Vec<Value> {
    let names = versions(object)
        .iter()
        .filter(|version| version["storage"] == true);
    names.map(|version| version["name"].clone()).collect()
}

fn versions(object: &ObjectTree) -> &[Value] {
    let versions = value_at(object, "/spec/versions").as_array();
    versions.map(Vec::as_slice).unwrap_or_default()
}

/// Sets a condition; its transition time changes only with its status.
pub(crate) fn set_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    let found = conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind);
    let since = match &found {
        Some(found) if found["status"] == value => found["lastTransitionTime"].clone(),
        _ => metadata::time(now).into(),
    };
    let condition = json!({"type": kind, "status": value, "reason": reason, "message": message,
        "lastTransitionTime": since});
    match found {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}

fn is_established(definition: &ObjectTree) -> bool {
    metadata::is_true(value_at(definition, "/status"), "Established")
}

/// Brings the kinds table up to date with the stored definition.
fn update_kinds(server: &ServerState, kind: &ServedKind, key: &ObjectKey) {
    let mut gone = None;
    server.change_kinds(|kinds| {
        let own = |row: &&Arc<ServedKind>| {
            let custom = row.custom.as_ref();
            custom.is_some_and(|custom| custom.definition == key.name())
        };
        let known: Vec<Arc<ServedKind>> = kinds.iter().filter(own).cloned().collect();
        let customs = known.iter().filter_map(|row| row.custom.as_ref());
        let schemas = customs
            .clone()
            .map(|custom| custom.schema.clone())
            .collect();
        // Read under the lock of the table, so that of two writers the later one's definition stays.
        let stored = server.store.get(kind.resource, key);
        let stored = stored.map(|object| object.to_value());
        let uid = stored.as_ref().map(|object| metadata::text(object, "uid"));
        let mut resource = known.first().map(|row| row.resource);
        if customs.map(|custom| custom.uid.as_str()).next() != uid {
            gone = resource.take();
            gone.into_iter().for_each(|resource| kinds.remove(resource));
        }
        // A kind that was established stays, even if a user removes the condition: its objects must go with it.
        let is_kind = |object: &ObjectTree| resource.is_some() || is_established(object);
        if let Some(object) = stored.filter(is_kind) {
            let resource = resource.unwrap_or_else(|| {
                let resource = kinds.allot();
                server.store.open(resource);
                resource
            });
            kinds.remove(resource);
            for row in rows(&object, resource, schemas, kinds) {
                kinds.insert(row);
            }
        }
    });
    if let Some(resource) = gone {
        server.store.close(resource);
    }
}

/// Makes a row for every version that is served. Known schemas are not compiled again.
fn rows(
    definition: &ObjectTree,
    resource: ResourceId,
    mut schemas: Vec<Arc<CustomSchema>>,
    kinds: &mut KindTable,
) -> Vec<ServedKind> {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let terminating = metadata::is_deleting(definition);
    let mut known = |source: &Value| {
        let schema = kinds.schema(source, &schemas);
        schemas.push(schema.clone());
        schema
    };
    let stored = versions(definition)
        .iter()
        .find(|version| version["storage"] == true);
    let stored_schema = known(stored.map_or(&Value::Null, |version| &version["schema"][SCHEMA]));
    let served = versions(definition)
        .iter()
        .filter(|version| version["served"] == true);
    served
        .map(|version| ServedKind {
            resource,
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            kind: text(&names["kind"]),
            list_kind: text(&names["listKind"]),
            namespaced: spec["scope"] == "Namespaced",
            short_names: strings(&names["shortNames"]),
            categories: strings(&names["categories"]),
            verbs: ALL_VERBS.map(str::to_owned).to_vec(),
            subresources: subresources(version, &text(&names["kind"])),
            rules: KindRules {
                generation: GenerationRule::Content,
                fields: selectable(version),
                ..KindRules::default()
            },
            strategy: super::of_custom(&text(&spec["group"]), &text(&names["plural"])),
            custom: Some(CustomKind {
                definition: metadata::text(definition, "name").to_owned(),
                uid: metadata::text(definition, "uid").to_owned(),
                columns: version["additionalPrinterColumns"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default(),
                schema: known(&version["schema"][SCHEMA]),
                stored_schema: stored_schema.clone(),
                scale: version["subresources"]["scale"].clone(),
                terminating,
            }),
            types: KindTypes::default(),
        })
        .collect()
}

fn subresources(version: &Value, kind: &str) -> Vec<ServedSubresource> {
    let part = |name: &str, group: &str, version: &str, kind: &str| ServedSubresource {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let declared = |name: &str| version["subresources"].get(name).is_some();
    let mut parts = Vec::new();
    if declared("status") {
        parts.push(part("status", "", "", kind));
    }
    if declared("scale") {
        parts.push(part("scale", "autoscaling", "v1", "Scale"));
    }
    parts
}

fn selectable(version: &Value) -> Vec<SelectableField> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str())
        .map(SelectableField::custom)
        .collect()
}
