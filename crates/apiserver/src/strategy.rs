//! Rules of single kinds: the fields that the server sets, and what it checks when an object is written or deleted.
//!
//! [`KindStrategy`] has a method for every point at which kinds differ; its default methods are what most kinds do. A
//! kind with rules of its own implements it in the module of its name, and the row of the kind refers to that
//! implementation. Mirrors the `strategy.go` of upstream's registries, 1.36, as far as it concerns the life of an
//! object: status, generation, and some rules of specs (immutable fields of Pods and Jobs, schedules of CronJobs).

pub(crate) mod account;
mod certificate;
pub(crate) mod convert;
pub(crate) mod crd;
pub(crate) mod cronjob;
pub(crate) mod custom;
pub(crate) mod defaults;
mod job;
pub(crate) mod namespace;
mod pod;
mod priority;
mod service;
pub(crate) mod validation;
mod volcano_cronjob;
pub(crate) mod workload;

use std::fmt;

use caretaker_machinery::status::{Status, StatusCause};
use jiff::Timestamp;
use serde_json::Value;

use crate::allocation::Allotment;
use crate::body::FieldError;
use crate::deletion::{self, DeleteDecision, ObjectDelete};
use crate::identity::UserIdentity;
use crate::kinds::{GenerationRule, KindTable, ServedKind};
use crate::metadata::{self, ObjectTree, value_at};
use crate::server::ServerState;
use crate::store::{ObjectKey, StoredObject};
use crate::verbs::write::WriteMode;

/// The part of an object that a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectPart {
    Main,
    Status,
    Finalize,
    /// The conditions of a CertificateSigningRequest.
    Approval,
    /// The containers that users add to a Pod to debug it.
    EphemeralContainers,
    /// The resources of a Pod's containers.
    Resize,
}

/// A write that a strategy validates.
#[derive(Clone, Copy)]
pub(crate) struct ObjectChange<'a> {
    pub(crate) kind: &'a ServedKind,
    pub(crate) part: ObjectPart,
    pub(crate) new: &'a ObjectTree,
    /// The stored object that `new` replaces; none for a create.
    pub(crate) old: Option<&'a ObjectTree>,
}

/// A write for which a strategy may look at other objects.
#[derive(Clone, Copy)]
pub(crate) struct ObjectAdmission<'a, 'b> {
    pub(crate) server: &'a ServerState,
    pub(crate) kind: &'b ServedKind,
    pub(crate) mode: WriteMode,
    /// The stored object that is replaced; none for a create.
    pub(crate) old: Option<&'b ObjectTree>,
}

/// The time of a write, its author, and the kinds that are served then.
#[derive(Clone, Copy)]
pub(crate) struct WriteContext<'a> {
    pub(crate) kinds: &'a KindTable,
    pub(crate) now: Timestamp,
    /// None for the server itself.
    pub(crate) user: Option<&'a UserIdentity>,
}

/// The rules of one kind.
pub(crate) trait KindStrategy: fmt::Debug + Sync {
    /// Brings a body into the form that the decoder of this kind reads.
    fn normalize(&self, _: &ServedKind, _: &mut ObjectTree) {}

    /// Reads the parts of a body whose types are not in the table of types. Returns the paths of unknown members.
    fn read(&self, _: &ServedKind, _: &mut ObjectTree) -> Result<Vec<String>, FieldError> {
        Ok(Vec::new())
    }

    /// Sets the fields that a new object of this kind starts with.
    fn prepare_create(&self, _object: &mut ObjectTree, _context: WriteContext<'_>) {}

    /// Sets the fields of `new` that a client may not change, or may leave out.
    fn prepare_update(&self, _old: &ObjectTree, _new: &mut ObjectTree, _: WriteContext<'_>) {}

    /// Restores the metadata that a write to the status may not change.
    fn prepare_status(&self, _old: &ObjectTree, _new: &mut ObjectTree, _: WriteContext<'_>) {}

    /// Restores what a write to `finalize` may not change.
    fn prepare_finalize(&self, _old: &ObjectTree, _new: &mut ObjectTree) {}

    /// Restores what a write to another part may not change.
    fn prepare_part(
        &self,
        _part: ObjectPart,
        _old: &ObjectTree,
        _new: &mut ObjectTree,
        _: WriteContext<'_>,
    ) {
    }

    /// Completes an object by what other objects say, and takes the cluster IPs and node ports that it needs. Runs after
    /// the other preparations of a write to the main part, and before validation.
    fn admit<'a>(
        &self,
        _write: &ObjectAdmission<'a, '_>,
        _object: &mut ObjectTree,
    ) -> Result<Option<Allotment<'a>>, Status> {
        Ok(None)
    }

    /// Returns why the server refuses a change.
    fn validate(&self, _change: &ObjectChange<'_>) -> Vec<StatusCause> {
        Vec::new()
    }

    /// Returns warnings for the client about the change from `old` to `new`.
    fn warnings(&self, _old: Option<&ObjectTree>, _new: &ObjectTree) -> Vec<String> {
        Vec::new()
    }

    /// Decides what a delete does to an object.
    fn decide_delete(&self, delete: &ObjectDelete<'_>) -> Result<DeleteDecision, Status> {
        Ok(deletion::decide(delete))
    }

    /// Reports whether the kind itself, besides `metadata`, allows the removal of an object that is being deleted.
    fn is_released(&self, _object: &ObjectTree) -> bool {
        true
    }

    /// Runs after an object is removed; gets its last state.
    fn removed(&self, _server: &ServerState, _object: &StoredObject) {}

    /// Runs after a write is stored and before the client gets its response.
    fn after_commit(&self, _server: &ServerState, _kind: &ServedKind, _key: &ObjectKey) {}
}

/// The strategy of built-in kinds without rules of their own.
#[derive(Debug)]
struct PlainStrategy;

impl KindStrategy for PlainStrategy {}

/// Returns the rules of a built-in kind.
pub(crate) fn of_builtin(group: &str, plural: &str) -> &'static dyn KindStrategy {
    match (group, plural) {
        ("", "configmaps") => &validation::CONFIG_MAP,
        ("", "namespaces") => &namespace::NamespaceStrategy,
        ("", "persistentvolumeclaims") => &validation::VolumeClaimStrategy,
        ("", "pods") => &pod::PodStrategy,
        ("", "replicationcontrollers") => &workload::REPLICATION_CONTROLLER,
        ("", "secrets") => &validation::SECRET,
        ("", "services") => &service::ServiceStrategy,
        ("apiextensions.k8s.io", "customresourcedefinitions") => &crd::DefinitionStrategy,
        ("apps", "daemonsets") => &workload::DAEMON_SET,
        ("apps", "deployments") => &workload::DEPLOYMENT,
        ("apps", "replicasets") => &workload::REPLICA_SET,
        ("apps", "statefulsets") => &workload::STATEFUL_SET,
        ("batch", "cronjobs") => &cronjob::CronJobStrategy,
        ("batch", "jobs") => &job::JobStrategy,
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &certificate::SigningRequestStrategy
        }
        ("policy", "poddisruptionbudgets") => &validation::DisruptionBudgetStrategy,
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => {
            &validation::RoleBindingStrategy
        }
        ("scheduling.k8s.io", "priorityclasses") => &priority::PriorityClassStrategy,
        _ => &PlainStrategy,
    }
}

/// Returns the rules of a custom kind: those of its schema, and for Volcano's CronJobs those of its webhooks.
pub(crate) fn of_custom(group: &str, plural: &str) -> &'static dyn KindStrategy {
    match (group, plural) {
        ("batch.volcano.sh", "cronjobs") => &volcano_cronjob::VolcanoCronJobStrategy,
        _ => &custom::CustomStrategy,
    }
}

/// Sets the fields that a new object starts with.
pub(crate) fn prepare_create(
    kind: &ServedKind,
    object: &mut ObjectTree,
    context: WriteContext<'_>,
) {
    if kind.has_status() && !kind.rules.keeps_status {
        object.remove("status");
    }
    if kind.rules.generation != GenerationRule::Untouched {
        metadata::of(object).insert("generation".into(), 1.into());
    }
    kind.strategy.prepare_create(object, context);
    defaults::fill(kind, object);
}

/// Restores in `new` what a write to this part may not change, and counts generations.
pub(crate) fn prepare_update(
    kind: &ServedKind,
    part: ObjectPart,
    old: &ObjectTree,
    new: &mut ObjectTree,
    context: WriteContext<'_>,
) {
    match part {
        ObjectPart::Main => {
            if kind.has_status() {
                metadata::set(new, "status", old.get("status").cloned());
            }
            kind.strategy.prepare_update(old, new, context);
            count_generation(kind, old, new);
        }
        ObjectPart::Status => prepare_status(kind, old, new, context),
        ObjectPart::Finalize => kind.strategy.prepare_finalize(old, new),
        ObjectPart::Approval | ObjectPart::EphemeralContainers | ObjectPart::Resize => {
            kind.strategy.prepare_part(part, old, new, context);
            count_generation(kind, old, new);
        }
    }
}

/// Reports whether an object that is being deleted can be removed.
pub(crate) fn is_finished(kind: &ServedKind, object: &ObjectTree) -> bool {
    metadata::is_deleting(object)
        && metadata::grace_is_over(object)
        && metadata::finalizers(object).is_empty()
        && kind.strategy.is_released(object)
}

/// Kinds that Kubernetes deprecates, and its warning.
const DEPRECATED: [(&str, &str, &str); 1] = [(
    "",
    "Endpoints",
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)];

/// Returns the warning that every response about a deprecated kind has.
pub(crate) fn deprecation(kind: &ServedKind) -> Option<String> {
    let mut rows = DEPRECATED.iter();
    let row = rows.find(|(group, name, _)| (*group, *name) == (&kind.group, &kind.kind));
    row.map(|(_, _, warning)| (*warning).to_owned())
}

/// Whether something acts on workloads: Pods, their controllers, and Jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkloadSource {
    /// Nothing that this server knows of. Who creates a workload is warned.
    None,
    /// Simulated workloads, or a test that says nothing.
    Some,
}

/// Returns the warnings about a change that do not depend on the strategy of the kind.
pub(crate) fn general_warnings(
    kind: &ServedKind,
    workloads: WorkloadSource,
    old: Option<&ObjectTree>,
    new: &ObjectTree,
) -> Vec<String> {
    if kind.custom.is_some() {
        let before = old.map(metadata::finalizers).unwrap_or_default();
        let mut added = metadata::finalizers(new);
        added.retain(|name| !name.contains('/') && !before.contains(name));
        let warning = |name| {
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            )
        };
        return added.into_iter().map(warning).collect();
    }
    let warning = format!("{} is stored, but not enforced by caretaker", kind.kind);
    let is_idle = kind.rules.simulated && workloads == WorkloadSource::None && old.is_none();
    match (kind.rules.unenforced, is_idle) {
        (true, _) => vec![warning],
        (false, true) => vec![warning + " without --simulate-workloads"],
        (false, false) => Vec::new(),
    }
}

/// A write to the status leaves the rest of the object as it is. Built-in kinds let it change metadata too.
fn prepare_status(
    kind: &ServedKind,
    old: &ObjectTree,
    new: &mut ObjectTree,
    context: WriteContext<'_>,
) {
    let status = new.remove("status");
    let mut sent = std::mem::replace(new, old.clone());
    metadata::set(new, "status", status);
    if kind.custom.is_some() {
        return;
    }
    let metadata = std::mem::take(metadata::of(&mut sent));
    new.insert("metadata".into(), Value::Object(metadata));
    kind.strategy.prepare_status(old, new, context);
}

/// Sets fields of the metadata to the values that they have in `old`.
fn restore_metadata(old: &ObjectTree, new: &mut ObjectTree, fields: &[&str]) {
    for field in fields {
        metadata::set(metadata::of(new), field, metadata::get(old, field).cloned());
    }
}

fn count_generation(kind: &ServedKind, old: &ObjectTree, new: &mut ObjectTree) {
    let also = match kind.rules.generation {
        GenerationRule::Untouched | GenerationRule::Once => return,
        GenerationRule::Content => None,
        GenerationRule::ContentAndAnnotations => Some("annotations"),
        GenerationRule::ContentAndLabels => Some("labels"),
    };
    let content = |tree: &ObjectTree| -> ObjectTree {
        let mut content = tree.clone();
        content.retain(|name, _| name != "metadata" && (name != "status" || !kind.has_status()));
        content
    };
    let changed = content(old) != content(new)
        || also.is_some_and(|field| metadata::get(old, field) != metadata::get(new, field));
    if changed {
        let generation = value_at(old, "/metadata/generation").as_i64();
        let generation = generation.unwrap_or(0) + 1;
        metadata::of(new).insert("generation".into(), generation.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KindTable;

    #[test]
    fn kinds_without_effect_warn() {
        let kinds = KindTable::builtin();
        let always = |kind: &str| Some(format!("{kind} is stored, but not enforced by caretaker"));
        let idle = |kind: &str| always(kind).map(|text| text + " without --simulate-workloads");
        let cases = [
            ("v1", "ConfigMap", None, None),
            ("batch/v1", "CronJob", None, None),
            ("v1", "Pod", idle("Pod"), None),
            ("apps/v1", "StatefulSet", idle("StatefulSet"), None),
            (
                "v1",
                "PersistentVolumeClaim",
                always("PersistentVolumeClaim"),
                always("PersistentVolumeClaim"),
            ),
            (
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                always("HorizontalPodAutoscaler"),
                always("HorizontalPodAutoscaler"),
            ),
        ];
        let object = ObjectTree::new();
        for (version, name, bare, simulated) in cases {
            let kind = kinds.by_kind(version, name).unwrap();
            let warns = |source, old| general_warnings(kind, source, old, &object);
            let of = |expected: &Option<String>| expected.iter().cloned().collect::<Vec<_>>();
            assert_eq!(warns(WorkloadSource::None, None), of(&bare), "{name}");
            assert_eq!(warns(WorkloadSource::Some, None), of(&simulated), "{name}");
            // Who changes a workload was warned when it was created.
            assert_eq!(warns(WorkloadSource::None, Some(&object)), of(&simulated));
        }
    }
}
