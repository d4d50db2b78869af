//! The decisions about one object, as text and as JSON.
//!
//! `explain` does not know whether a controller runs, so writes are described in the conditional. The garbage collector's
//! decision comes with the owners, finalizers and dependents that it depends on; the decision of each other controller is a
//! [`ControllerVerdict`]. The JSON keys are stable; sentences in it are not.

mod failure;
mod namespace;
mod verdict;

use std::collections::BTreeMap;

use caretaker_controllers::gc::explain::{ObjectRelations, OwnerRelation};
use caretaker_controllers::gc::{GcKey, GcReason};
use caretaker_controllers::runtime::call::{ApiCall, DeletePropagation};
use caretaker_controllers::runtime::controller::{
    DecisionReason as _, EventNote, NextStep, ObjectIdentity, Verdict,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::failure::ReportedFailure;
pub(crate) use self::namespace::{NamespaceCondition, NamespaceContent, RemainingObject};
pub(crate) use self::verdict::ControllerVerdict;
use super::{counted, plain};

/// Owners that the text names. An object may have ten thousand.
const OWNERS_SHOWN: usize = 20;

/// Pods of a Node that the text names. A Node may run hundreds.
const PODS_SHOWN: usize = 20;

/// The garbage collector's finalizers, and when it removes them.
const GC_FINALIZERS: [(&str, &str); 2] = [
    (
        "foregroundDeletion",
        "the garbage collector removes it when no dependent blocks the deletion",
    ),
    (
        "orphan",
        "the garbage collector removes it when no dependent refers to the object",
    ),
];

/// All decisions about an object, and what they depend on.
pub(crate) struct ObjectExplanation {
    pub(crate) object: ObjectIdentity,
    /// Resource and group, `deployments.apps`.
    pub(crate) resource: String,
    /// Whether the garbage collector watches its kind.
    pub(crate) is_collected: bool,
    /// Value of `metadata.deletionTimestamp`.
    pub(crate) deletion: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) relations: ObjectRelations,
    pub(crate) verdict: Verdict<GcKey, GcReason>,
    /// Why a read that the verdict depends on failed.
    pub(crate) unanswered: Option<String>,
    /// Verdicts of the other controllers that handle its kind.
    pub(crate) verdicts: Vec<ControllerVerdict>,
    /// Objects in a namespace that is being deleted; `None` for other objects.
    pub(crate) remaining: Option<NamespaceContent>,
    /// Pods that are bound to a Node; `None` for other objects.
    pub(crate) pods: Option<Vec<ObjectIdentity>>,
    /// The last failures that a running process reports about the object and its owners.
    pub(crate) failures: Vec<ReportedFailure>,
}

/// The next action of a controller.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct NextAction {
    /// `none`, `wait`, `ask`, `delete` or `patch`.
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    message: String,
}

// === impl ObjectExplanation ===

impl ObjectExplanation {
    /// The text output.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!("{}, uid {}", self.object, self.object.uid)];
        self.write_owners(&mut lines);
        lines.push(format!("Verdict: {}.", self.verdict.because));
        lines.push(format!("Next: {}.", self.next().message));
        for note in &self.verdict.notes {
            lines.push(format!("Note: {} ({})", note.message, note.reason));
        }
        for verdict in &self.verdicts {
            verdict.write_lines(&mut lines);
        }
        lines.extend(self.failures.iter().map(ReportedFailure::line));
        self.write_deletion(&mut lines);
        lines.push(match self.relations.dependents.as_slice() {
            [] => "Dependents: none.".to_owned(),
            dependents => {
                let kinds = dependents.iter();
                let kinds = kinds.map(|some| counted(some.count, &some.kind));
                format!("Dependents: {}.", kinds.collect::<Vec<_>>().join(", "))
            }
        });
        self.write_pods(&mut lines);
        let lines = lines.iter().map(|line| plain(line) + "\n");
        lines.collect()
    }

    /// The JSON output.
    pub(crate) fn json(&self) -> Value {
        let ObjectExplanation {
            object,
            verdict,
            relations,
            ..
        } = self;
        let dependents = relations.dependents.iter();
        let dependents: BTreeMap<&str, usize> = dependents
            .map(|some| (some.resource.as_str(), some.count))
            .collect();
        let (blockers, blocking) = self.blockers();
        let verdicts: Vec<Value> = self.verdicts.iter().map(ControllerVerdict::json).collect();
        json!({
            "object": object,
            "deletionTimestamp": self.deletion,
            "verdict": {"rule": verdict.because.rule(), "message": verdict.because.to_string()},
            "next": self.next(),
            "owners": relations.owners,
            "finalizers": self.finalizers,
            "blockedBy": {"count": blocking, "first": blockers},
            "dependents": dependents,
            "notes": notes(&verdict.notes),
            "controllers": verdicts,
            "remaining": self.remaining.as_ref().map(NamespaceContent::json),
            "pods": self.pods,
            "failures": self.failures,
        })
    }

    fn write_owners(&self, lines: &mut Vec<String>) {
        let owners = &self.relations.owners;
        if owners.is_empty() {
            lines.push("Owners: none.".to_owned());
            return;
        }
        lines.push("Owners:".to_owned());
        for relation in owners.iter().take(OWNERS_SHOWN) {
            let OwnerRelation { owner, message, .. } = relation;
            let role = if relation.controller {
                " (controller)"
            } else {
                ""
            };
            lines.push(format!("  {owner}{role}: {message}"));
        }
        let rest = owners.len().saturating_sub(OWNERS_SHOWN);
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
    }

    /// What blocks its deletion, if it is being deleted.
    fn write_deletion(&self, lines: &mut Vec<String>) {
        let Some(deletion) = self.deletion else {
            return;
        };
        let (blockers, blocking) = self.blockers();
        let start = format!("It is being deleted (deletionTimestamp {deletion:.0})");
        let content = self.remaining.as_ref();
        let is_empty = content.is_none_or(NamespaceContent::is_empty);
        lines.push(match self.finalizers.is_empty() && is_empty {
            true if content.is_some() => format!("{start}; no object in it was found."),
            true => format!("{start}; no finalizer blocks that."),
            false => format!("{start}; blocked by:"),
        });
        for finalizer in &self.finalizers {
            let text = finalizer_text(finalizer);
            lines.push(format!("  finalizer {finalizer}: {text}"));
        }
        if let Some(content) = content {
            content.write_lines(lines);
        }
        for blocker in blockers {
            lines.push(format!("  dependent {blocker}"));
        }
        let rest = blocking.saturating_sub(blockers.len());
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
    }

    fn write_pods(&self, lines: &mut Vec<String>) {
        let Some(pods) = &self.pods else {
            return;
        };
        lines.push(match pods.is_empty() {
            true => "Pods bound to it: none.".to_owned(),
            false => "Pods bound to it, which Pod GC would delete after the Node:".to_owned(),
        });
        let shown = pods.iter().take(PODS_SHOWN);
        lines.extend(shown.map(|pod| format!("  {pod}")));
        let rest = pods.len().saturating_sub(PODS_SHOWN);
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
    }

    /// The dependents that block its deletion now; none unless it waits for them.
    fn blockers(&self) -> (&[ObjectIdentity], usize) {
        match (&self.verdict.because, &self.relations.blockers) {
            (GcReason::WaitsForDependents { .. } | GcReason::Ring { .. }, (first, count)) => {
                (first, *count)
            }
            _ => (&[], 0),
        }
    }

    fn next(&self) -> NextAction {
        if !self.is_collected {
            let kind = &self.resource;
            return NextAction::none(format!("nothing: the garbage collector ignores {kind}"));
        }
        if let Some(why) = &self.unanswered {
            return NextAction::new("ask", format!("retry the failed read ({why})"));
        }
        match &self.verdict.next {
            NextStep::Rest => self.rest(),
            NextStep::At(at) => NextAction {
                at: Some(*at),
                ..NextAction::new("wait", format!("wait for that until {at:.0} at the latest"))
            },
            NextStep::Call(ApiCall::Create { .. } | ApiCall::Patch { .. }) => {
                NextAction::new("patch", patched(&self.verdict.because))
            }
            step => NextAction::of(step),
        }
    }

    fn rest(&self) -> NextAction {
        let waits = |message: &str| NextAction::new("wait", message);
        match &self.verdict.because {
            GcReason::Owned { owner } => {
                let owners = self.relations.owners.iter();
                let living = owners.filter(|relation| relation.standing == "Solid");
                NextAction::none(match living.count() {
                    ..2 => format!("nothing, as long as {owner} exists"),
                    _ => "nothing, as long as one of its owners exists".to_owned(),
                })
            }
            GcReason::Unowned => {
                NextAction::none("nothing: the garbage collector deletes only objects with owners")
            }
            GcReason::Unserved { owner } => {
                let api_version = &owner.api_version;
                NextAction::none(format!(
                    "nothing, as long as the server does not serve this kind in {api_version}"
                ))
            }
            GcReason::OutOfReach { .. } => {
                NextAction::none("nothing, as long as it has this reference")
            }
            GcReason::WaitsForDependents { .. } => {
                waits("would remove its finalizer when no dependent blocks the deletion")
            }
            GcReason::WaitsForOrphans { .. } => {
                waits("would remove its finalizer when no dependent refers to it")
            }
            GcReason::Deleting | GcReason::Going if self.finalizers.is_empty() => {
                waits("nothing: the deletion is under way")
            }
            GcReason::Deleting | GcReason::Going => {
                waits("deleted when its finalizers are removed")
            }
            _ => NextAction::none("nothing"),
        }
    }
}

// === impl NextAction ===

impl NextAction {
    fn new(action: &'static str, message: impl Into<String>) -> Self {
        Self {
            action,
            policy: None,
            at: None,
            message: message.into(),
        }
    }

    fn none(message: impl Into<String>) -> Self {
        Self::new("none", message)
    }

    /// The next action by the step alone.
    fn of<K>(step: &NextStep<K>) -> Self {
        match step {
            NextStep::Rest => Self::none("nothing"),
            NextStep::At(at) => Self {
                at: Some(*at),
                ..Self::new("wait", format!("nothing before {at:.0}"))
            },
            NextStep::Retry => Self::new("wait", "wait for that"),
            NextStep::After(_)
            | NextStep::Call(
                ApiCall::Get { .. } | ApiCall::GetInVersion { .. } | ApiCall::List { .. },
            ) => Self::new("ask", "would read from the API server now"),
            NextStep::Call(ApiCall::Delete { propagation, .. }) => deleted(*propagation),
            NextStep::Call(ApiCall::Create { .. }) => Self::new("create", "would create a Job now"),
            NextStep::Call(ApiCall::Patch { .. }) => Self::new("patch", "would patch it now"),
        }
    }
}

/// When a finalizer is removed, and by which controller.
fn finalizer_text(finalizer: &str) -> &'static str {
    let known = GC_FINALIZERS.iter().find(|(name, _)| *name == finalizer);
    known.map_or("its controller has to remove it", |(_, what)| what)
}

fn notes(notes: &[EventNote]) -> Vec<Value> {
    let values = notes
        .iter()
        .map(|note| json!({"reason": note.reason, "message": note.message}));
    values.collect()
}

fn deleted(propagation: Option<DeletePropagation>) -> NextAction {
    let how = match propagation {
        None => "",
        Some(DeletePropagation::Background) => {
            " (background: its dependents are deleted afterwards)"
        }
        Some(DeletePropagation::Foreground) => " (foreground: its dependents are deleted first)",
        Some(DeletePropagation::Orphan) => " (orphan: its dependents are kept)",
    };
    NextAction {
        policy: propagation.map(DeletePropagation::as_str),
        ..NextAction::new("delete", format!("would delete it now{how}"))
    }
}

fn patched(because: &GcReason) -> String {
    match because {
        GcReason::LosesOwners { owners, .. } => {
            let owners = owners.iter().take(OWNERS_SHOWN).map(ToString::to_string);
            let owners: Vec<String> = owners.collect();
            format!("would remove its reference to {} now", owners.join(", "))
        }
        GcReason::Orphaned { owner } => {
            format!("would remove its reference to {owner} now and keep it")
        }
        GcReason::Ring { .. } => {
            "would clear blockOwnerDeletion now, to break the cycle".to_owned()
        }
        GcReason::DependentsGone { .. } => {
            "would remove its finalizer foregroundDeletion now".to_owned()
        }
        GcReason::DependentsOrphaned { .. } => "would remove its finalizer orphan now".to_owned(),
        _ => "would patch it now".to_owned(),
    }
}

#[cfg(test)]
mod tests;
