//! Definitions of custom kinds: what they must say, and how they become rows of the kinds table.
//!
//! A definition is accepted and established in the write that stores it, and its kind is served before that write is
//! answered. DEVIATION(crd-established-at-once): upstream needs some 30 ms, and delays the first creates by 2 s; one process
//! has no replicas to wait for. Mirrors `apiextensions-apiserver`, 1.36. Schemas are stored, not yet applied.

use caretaker_machinery::names;
use caretaker_machinery::status::Cause;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::deletion::{self, Decision, DeleteOptions};
use crate::kinds::{Custom, Field, Generation, Kind, Kinds, Rules, Subresource};
use crate::metadata::{self, Tree};
use crate::server::Inner;
use crate::store::{Key, ResourceId};

/// Holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

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

/// Fills in what a definition may leave out, and accepts it.
pub(super) fn prepare_create(object: &mut Tree, kinds: &Kinds, now: Timestamp) {
    default_names(object);
    let mut status = json!({"storedVersions": storage_versions(object)});
    accept(object, &mut status, kinds, now);
    object.insert("status".into(), status);
}

pub(super) fn prepare_update(old: &Tree, new: &mut Tree, kinds: &Kinds, now: Timestamp) {
    default_names(new);
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    let stored = status["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut stored: Vec<Value> = stored;
    for version in storage_versions(new) {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    status["storedVersions"] = stored.into();
    if old.get("spec") != new.get("spec") {
        accept(new, &mut status, kinds, now);
    }
    new.insert("status".into(), status);
}

fn default_names(object: &mut Tree) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = names
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !kind.is_empty() {
        names
            .entry("singular")
            .or_insert_with(|| kind.to_lowercase().into());
        names
            .entry("listKind")
            .or_insert_with(|| format!("{kind}List").into());
    }
}

fn storage_versions(object: &Tree) -> Vec<Value> {
    let names = versions(object)
        .iter()
        .filter(|version| version["storage"] == true);
    names.map(|version| version["name"].clone()).collect()
}

fn versions(object: &Tree) -> &[Value] {
    let versions = object
        .get("spec")
        .and_then(|spec| spec["versions"].as_array());
    versions.map(Vec::as_slice).unwrap_or_default()
}

/// Accepts each name unless another definition of the group has it, and establishes the kind if all are free.
fn accept(object: &Tree, status: &mut Value, kinds: &Kinds, now: Timestamp) {
    let spec = object.get("spec").cloned().unwrap_or_default();
    let names = &spec["names"];
    if !status["acceptedNames"].is_object() {
        status["acceptedNames"] = json!({"plural": "", "kind": ""});
    }
    let taken = Taken::by_others(object, kinds);
    let mut refused = None;
    for (field, reason) in NAMES {
        match taken.find(field, &names[field]) {
            Some(name) => refused = Some((reason, format!("{name:?} is already in use"))),
            None if names[field].is_null() => {}
            None => status["acceptedNames"][field] = names[field].clone(),
        }
    }
    match refused {
        None => {
            let why = ("NoConflicts", "no conflicts found");
            set_condition(status, "NamesAccepted", "True", why, now);
            let why = (
                "InitialNamesAccepted",
                "the initial names have been accepted",
            );
            set_condition(status, "Established", "True", why, now);
        }
        Some((reason, message)) => {
            set_condition(status, "NamesAccepted", "False", (reason, &message), now);
            if !is_established(status) {
                let why = ("NotAccepted", "not all names are accepted");
                set_condition(status, "Established", "False", why, now);
            }
        }
    }
}

/// Names of a definition in the order they are looked at, and what a conflict about each is called.
const NAMES: [(&str, &str); 6] = [
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
    ("categories", ""),
];

/// Names that other definitions of a group have.
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    fn by_others(object: &Tree, kinds: &Kinds) -> Self {
        let uid = metadata::text(object, "uid");
        let group = object
            .get("spec")
            .and_then(|spec| spec["group"].as_str())
            .unwrap_or_default();
        let mut taken = Self {
            resources: Vec::new(),
            kinds: Vec::new(),
        };
        let others = kinds.iter().filter(|kind| {
            kind.group == group && kind.custom.as_ref().is_none_or(|custom| custom.uid != uid)
        });
        for other in others {
            taken
                .resources
                .extend([other.plural.clone(), other.singular.clone()]);
            taken.resources.extend(other.short_names.iter().cloned());
            taken
                .kinds
                .extend([other.kind.clone(), other.list_kind.clone()]);
        }
        taken
    }

    /// The name in `value`, or one of them, that is taken.
    fn find<'a>(&self, field: &str, value: &'a Value) -> Option<&'a str> {
        let taken = match field {
            "kind" | "listKind" => &self.kinds,
            "categories" => return None,
            _ => &self.resources,
        };
        let names = match value {
            Value::Array(names) => names.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut names = names.iter().filter_map(Value::as_str);
        names.find(|name| taken.iter().any(|other| other == name))
    }
}

/// Sets a condition; its time moves only when its status does.
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

fn is_established(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// What a definition must say.
pub(super) fn faults(new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
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
    let names: std::collections::BTreeSet<&str> = versions
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

/// A definition stays until its objects are gone.
pub(super) fn decide_delete(
    kind: &Kind,
    object: &Tree,
    options: &DeleteOptions,
    now: Timestamp,
) -> Decision {
    let finalizers = metadata::finalizers(object);
    if metadata::is_deleting(object) {
        return if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            Decision::Pending
        } else {
            deletion::decide(kind, object, options, now)
        };
    }
    let mut changed = object.clone();
    if let Decision::Keep(held) = deletion::decide(kind, object, options, now) {
        metadata::set_finalizers(&mut changed, &metadata::finalizers(&held));
    }
    let mut finalizers = metadata::finalizers(&changed);
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    metadata::set_finalizers(&mut changed, &finalizers);
    metadata::of(&mut changed).insert("deletionTimestamp".into(), metadata::time(now).into());
    let why = (
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    let status = changed.entry("status").or_insert_with(|| json!({}));
    set_condition(status, "Terminating", "True", why, now);
    Decision::Keep(changed)
}

/// Makes the kinds table follow the stored definition.
pub(super) fn sync(inner: &Inner, kind: &Kind, key: &Key) {
    let mut gone = None;
    inner.change_kinds(|kinds| {
        // Read under the table's lock: of two writers, the later one's definition is what stays.
        let stored = inner
            .store
            .get(kind.resource, key)
            .map(|object| object.to_value());
        let known = kinds
            .iter()
            .find(|row| {
                row.custom
                    .as_ref()
                    .is_some_and(|custom| custom.definition == key.name())
            })
            .map(|row| {
                (
                    row.resource,
                    row.custom.as_ref().map(|custom| custom.uid.clone()),
                )
            });
        let uid = stored
            .as_ref()
            .map(|object| metadata::text(object, "uid").to_owned());
        let resource = match known {
            Some((resource, known_uid)) if known_uid == uid => Some(resource),
            Some((resource, _)) => {
                kinds.remove(resource);
                gone = Some(resource);
                None
            }
            None => None,
        };
        if let Some(object) = stored.filter(|object| is_established(&object["status"])) {
            let resource = resource.unwrap_or_else(|| kinds.allot());
            kinds.remove(resource);
            rows(&object, resource)
                .into_iter()
                .for_each(|row| kinds.insert(row));
        }
    });
    if let Some(resource) = gone {
        inner.store.close(resource);
    }
}

/// A row for every version that is served.
fn rows(definition: &Tree, resource: ResourceId) -> Vec<Kind> {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let terminating = metadata::is_deleting(definition);
    let served = versions(definition)
        .iter()
        .filter(|version| version["served"] == true);
    served
        .map(|version| Kind {
            resource,
            group: text(&spec["group"]),
            version: text(&version["name"]),
            plural: text(&names["plural"]),
            singular: text(&names["singular"]),
            kind: text(&names["kind"]),
            list_kind: text(&names["listKind"]),
            namespaced: spec["scope"] == "Namespaced",
            short_names: list(&names["shortNames"]),
            categories: list(&names["categories"]),
            verbs: ALL_VERBS.map(str::to_owned).to_vec(),
            subresources: subresources(version, &text(&names["kind"])),
            rules: Rules {
                generation: Generation::Content,
                fields: selectable(version),
                ..Rules::default()
            },
            custom: Some(Custom {
                definition: metadata::text(definition, "name").to_owned(),
                uid: metadata::text(definition, "uid").to_owned(),
                columns: version["additionalPrinterColumns"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default(),
                terminating,
            }),
        })
        .collect()
}

fn subresources(version: &Value, kind: &str) -> Vec<Subresource> {
    let part = |name: &str, group: &str, version: &str, kind: &str| Subresource {
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

fn selectable(version: &Value) -> Vec<Field> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str())
        .map(Field::custom)
        .collect()
}
