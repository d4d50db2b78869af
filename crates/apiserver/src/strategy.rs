//! What a kind does differently when its objects are written.
//!
//! The generic part follows the kind's row; a kind gets code of its own only where it really differs, one module each.
//! Mirrors the `strategy.go` of upstream's registries, 1.36, as far as it concerns the life of an object: status and
//! generation, not the contents of specs.

pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod custom;
pub(crate) mod defaults;
mod immutable;
mod job;
pub(crate) mod namespace;
mod pod;
mod replicas;

use caretaker_machinery::cronjobs;
use caretaker_machinery::status::{Cause, Named, Status};
use jiff::Timestamp;
use serde_json::Value;

use crate::deletion::{self, Decision, DeleteOptions};
use crate::kinds::{Generation, Kind, Kinds};
use crate::metadata::{self, Tree};
use crate::request::Query;
use crate::server::Inner;
use crate::store::Key;

/// The part of an object that a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Finalize,
}

/// Kinds with code of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    Namespace,
    Pod,
    Definition,
    Job,
    CronJob,
    /// Of Volcano, whoever has defined it.
    VolcanoCronJob,
    None,
}

impl Special {
    fn of(kind: &Kind) -> Self {
        match (kind.group.as_str(), kind.plural.as_str()) {
            ("", "namespaces") => Special::Namespace,
            ("", "pods") => Special::Pod,
            ("apiextensions.k8s.io", "customresourcedefinitions") => Special::Definition,
            ("batch", "jobs") => Special::Job,
            ("batch", "cronjobs") => Special::CronJob,
            ("batch.volcano.sh", "cronjobs") => Special::VolcanoCronJob,
            _ => Special::None,
        }
    }
}

/// Gives a new object what its kind starts with.
pub(crate) fn prepare_create(kind: &Kind, object: &mut Tree, kinds: &Kinds, now: Timestamp) {
    if kind.has_status() && !kind.rules.keeps_status {
        object.remove("status");
    }
    if kind.rules.generation != Generation::Untouched {
        metadata::of(object).insert("generation".into(), 1.into());
    }
    match Special::of(kind) {
        Special::Namespace => namespace::prepare_create(object),
        Special::Pod => pod::prepare_create(object, now),
        Special::Definition => crd::prepare_create(object, kinds, now),
        Special::Job => job::prepare_create(object),
        _ => {}
    }
    defaults::fill(kind, object);
}

/// Takes from `new` only what this part may change, and counts generations.
pub(crate) fn prepare_update(
    kind: &Kind,
    part: Part,
    old: &Tree,
    new: &mut Tree,
    kinds: &Kinds,
    now: Timestamp,
) {
    match part {
        Part::Main => {
            if kind.has_status() {
                metadata::set(new, "status", old.get("status").cloned());
            }
            match Special::of(kind) {
                Special::Namespace => namespace::prepare_update(old, new),
                Special::Definition => crd::prepare_update(old, new, kinds, now),
                Special::Pod => pod::prepare_update(old, new),
                _ => {}
            }
            count_generation(kind, old, new);
        }
        Part::Status => prepare_status(kind, old, new),
        Part::Finalize => namespace::prepare_finalize(old, new),
    }
}

/// A write to the status leaves the rest as it was; how much of the metadata it may change differs.
fn prepare_status(kind: &Kind, old: &Tree, new: &mut Tree) {
    let status = new.remove("status");
    let mut sent = std::mem::replace(new, old.clone());
    metadata::set(new, "status", status);
    if kind.custom.is_some() {
        return;
    }
    let mut metadata = std::mem::take(metadata::of(&mut sent));
    let kept: &[&str] = match (kind.group.as_str(), kind.plural.as_str()) {
        ("apps", "deployments") => &["labels"],
        ("", "pods") => &["ownerReferences", "deletionTimestamp"],
        _ => &[],
    };
    for field in kept {
        metadata::set(&mut metadata, field, metadata::get(old, field).cloned());
    }
    new.insert("metadata".into(), Value::Object(metadata));
    if Special::of(kind) == Special::Namespace {
        namespace::name_label(new);
    }
}

/// The faults of an object's content, as far as this server looks at it.
pub(crate) fn faults(kind: &Kind, part: Part, new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
    let mut causes = immutable::faults(kind, new, old);
    causes.extend(custom::faults(kind, part, new, old));
    causes.extend(
        old.into_iter()
            .flat_map(|old| replicas::faults(kind, new, old)),
    );
    match Special::of(kind) {
        Special::Definition => causes.extend(crd::faults(new, old)),
        Special::Namespace => causes.extend(namespace::faults(new, old)),
        Special::Job => {
            if part == Part::Main {
                let spec = new.get("spec").unwrap_or(&Value::Null);
                causes.extend(cronjobs::batch::job_faults(spec, "spec", Vec::new()));
            }
            causes.extend(old.into_iter().flat_map(|old| job::status_faults(new, old)));
        }
        Special::CronJob if part == Part::Main => {
            let pods = immutable::template_faults(&kind.group, &kind.plural, new);
            causes.extend(cronjobs::batch::faults(new, old, pods));
        }
        // Upstream's webhook is not asked about what the schema refuses.
        Special::VolcanoCronJob if part == Part::Main && causes.is_empty() => {
            causes.extend(cronjobs::volcano::faults(new));
        }
        _ => {}
    }
    causes
}

/// A delete whose precondition does not hold; `what` is `UID` or `ResourceVersion`.
pub(crate) fn precondition_failed(
    kind: &Kind,
    name: &str,
    what: &str,
    wanted: &str,
    found: &str,
) -> Status {
    if Special::of(kind) == Special::Namespace {
        return namespace::conflict(kind, name, what, wanted, found);
    }
    let guess = match what {
        "UID" => "deleted and then recreated",
        _ => "modified",
    };
    let why = format!(
        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {guess}"
    );
    Status::conflict(kind.kind_named(name), &why)
}

/// Decides a delete: the general rule, or the kind's.
pub(crate) fn decide_delete(
    kind: &Kind,
    object: &Tree,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Decision, Status> {
    match Special::of(kind) {
        Special::Namespace => namespace::decide_delete(kind, object, options, now),
        Special::Definition => Ok(crd::decide_delete(kind, object, options, now)),
        _ => Ok(deletion::decide(kind, object, options, now)),
    }
}

/// Whether a change leaves nothing that holds a deleting object.
pub(crate) fn is_finished(kind: &Kind, object: &Tree) -> bool {
    metadata::is_deleting(object)
        && metadata::grace_is_over(object)
        && metadata::finalizers(object).is_empty()
        && (Special::of(kind) != Special::Namespace || namespace::is_finalized(object))
}

/// What has to follow a write before it is answered.
pub(crate) fn committed(inner: &Inner, kind: &Kind, key: &Key) {
    if Special::of(kind) == Special::Definition {
        crd::sync(inner, kind, key);
    }
}

/// Kinds on their way out of Kubernetes, and what is said about them.
const DEPRECATED: [(&str, &str, &str); 1] = [(
    "",
    "Endpoints",
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)];

/// What is said to whoever asks for a deprecated kind, whatever the answer is.
pub(crate) fn deprecation(kind: &Kind) -> Option<String> {
    let mut rows = DEPRECATED.iter();
    let row = rows.find(|(group, name, _)| (*group, *name) == (&kind.group, &kind.kind));
    row.map(|(_, _, warning)| (*warning).to_owned())
}

/// What a client should know about an object that is stored: that it has no effect here, or a finalizer nobody owns.
pub(crate) fn warnings(kind: &Kind, object: &Tree) -> Vec<String> {
    if kind.custom.is_some() {
        let bare = metadata::finalizers(object)
            .into_iter()
            .filter(|name| !name.contains('/'));
        return bare
            .map(|name| {
                format!("metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
            })
            .collect();
    }
    let mut warnings = Vec::new();
    if kind.rules.unenforced {
        warnings.push(format!(
            "{} is stored, but not enforced by caretaker",
            kind.kind
        ));
    }
    warnings
}

/// What a client should know about what a write changes.
pub(crate) fn change_warnings(kind: &Kind, old: Option<&Tree>, new: &Tree) -> Vec<String> {
    match Special::of(kind) {
        Special::Definition => crd::warnings(old, new),
        Special::CronJob | Special::VolcanoCronJob
            if old.is_none_or(|old| old.get("spec") != new.get("spec")) =>
        {
            cronjobs::warnings(new)
        }
        _ => Vec::new(),
    }
}

/// Reads what has types that the table of types does not have. Answers with the paths of unknown members.
pub(crate) fn read(kind: &Kind, object: &mut Tree) -> Result<Vec<String>, String> {
    match Special::of(kind) {
        Special::Definition => crd::read(object),
        _ => custom::read(kind, object),
    }
}

/// `fieldValidation` and `fieldManager` are checked for form. DEVIATION(field-validation): repeated fields are not looked
/// at.
pub(crate) fn check_options(query: &Query, options: &str) -> Result<(), Status> {
    let mut causes = Vec::new();
    let known = ["", "Ignore", "Strict", "Warn"];
    if let Some(value) = query
        .get("fieldValidation")
        .filter(|value| !known.contains(value))
    {
        causes.push(Cause::not_supported("fieldValidation", value, &known));
    }
    if query
        .get("fieldManager")
        .is_some_and(|manager| manager.len() > FIELD_MANAGER_BYTES_MAX)
    {
        causes.push(Cause::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX));
    }
    let manager = query.get("fieldManager").unwrap_or_default();
    if let Some((at, bad)) = manager.char_indices().find(|(_, c)| c.is_control()) {
        let why = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(bad)
        );
        causes.push(Cause::invalid("fieldManager", manager, &why));
    }
    if causes.is_empty() {
        return Ok(());
    }
    let of = Named {
        group: "meta.k8s.io",
        what: options,
        name: "",
    };
    Err(Status::invalid(of, causes))
}

/// Longest name of a field manager, as upstream.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

fn count_generation(kind: &Kind, old: &Tree, new: &mut Tree) {
    let also = match kind.rules.generation {
        Generation::Untouched | Generation::Once => return,
        Generation::Content => None,
        Generation::ContentAndAnnotations => Some("annotations"),
        Generation::ContentAndLabels => Some("labels"),
    };
    let content = |tree: &Tree| -> Tree {
        let counted = tree
            .iter()
            .filter(|(name, _)| *name != "metadata" && (*name != "status" || !kind.has_status()));
        counted
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let changed = content(old) != content(new)
        || also.is_some_and(|field| metadata::get(old, field) != metadata::get(new, field));
    if changed {
        let generation = metadata::get(old, "generation")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        metadata::of(new).insert("generation".into(), (generation + 1).into());
    }
}
