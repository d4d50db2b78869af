//! What is decided about one object, and why, for people and for programs.
//!
//! Only what the rules say: whether anybody runs a collector is not known here, so everything that would be written is
//! told in the conditional. The collector's decision comes with everything that it rests on; what other controllers
//! decide is an [`Opinion`] each. The JSON is stable; sentences in it are not.

mod opinion;

use std::collections::BTreeMap;

use caretaker_controllers::gc::explain::{Tie, Ties};
use caretaker_controllers::gc::{Key, Reason};
use caretaker_controllers::runtime::call::{Call, Propagation};
use caretaker_controllers::runtime::controller::{
    DecisionReason as _, Identity, Next, Note, Verdict,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::opinion::Opinion;
use super::counted;

/// References that are told. An object may have ten thousand.
const OWNERS_TOLD: usize = 20;

/// The collector's own finalizers, and what it takes them off for.
const OURS: [(&str, &str); 2] = [
    (
        "foregroundDeletion",
        "goes when no dependent blocks it any more",
    ),
    ("orphan", "goes when no dependent refers to it any more"),
];

/// Everything there is to tell about an object.
pub(crate) struct Explained {
    pub(crate) object: Identity,
    /// `deployments.apps`.
    pub(crate) resource: String,
    /// Whether the collector looks after its kind.
    pub(crate) is_collected: bool,
    /// When its end was asked for, or will be reached.
    pub(crate) deletion: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) ties: Ties,
    pub(crate) verdict: Verdict<Key, Reason>,
    /// Why a question that the verdict depends on was not answered.
    pub(crate) unanswered: Option<String>,
    /// What other controllers decide, those that look after its kind.
    pub(crate) opinions: Vec<Opinion>,
}

/// What happens next.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Step {
    /// `none`, `wait`, `ask`, `delete` or `patch`.
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    message: String,
}

// === impl Explained ===

impl Explained {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![format!("{}, uid {}", self.object, self.object.uid)];
        self.tell_owners(&mut lines);
        lines.push(format!("Verdict: {}.", self.verdict.because));
        lines.push(format!("Next: {}.", self.next().message));
        for note in &self.verdict.notes {
            lines.push(format!("Note: {} ({})", note.message, note.reason));
        }
        for opinion in &self.opinions {
            opinion.tell(&mut lines);
        }
        self.tell_end(&mut lines);
        lines.push(match self.ties.hanging.as_slice() {
            [] => "Nothing hangs on it.".to_owned(),
            hanging => {
                let kinds = hanging.iter().map(|some| counted(some.count, &some.kind));
                format!(
                    "What hangs on it: {}.",
                    kinds.collect::<Vec<_>>().join(", ")
                )
            }
        });
        let lines = lines.iter().map(|line| plain(line) + "\n");
        lines.collect()
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let Explained {
            object,
            verdict,
            ties,
            ..
        } = self;
        let hanging = ties.hanging.iter();
        let dependents: BTreeMap<&str, usize> = hanging
            .map(|some| (some.resource.as_str(), some.count))
            .collect();
        let (blockers, blocking) = self.blockers();
        let opinions: Vec<Value> = self.opinions.iter().map(Opinion::json).collect();
        json!({
            "object": object,
            "deletionTimestamp": self.deletion,
            "verdict": {"rule": verdict.because.rule(), "message": verdict.because.to_string()},
            "next": self.next(),
            "owners": ties.owners,
            "finalizers": self.finalizers,
            "blockedBy": {"count": blocking, "first": blockers},
            "dependents": dependents,
            "notes": notes(&verdict.notes),
            "controllers": opinions,
        })
    }

    fn tell_owners(&self, lines: &mut Vec<String>) {
        let owners = &self.ties.owners;
        if owners.is_empty() {
            lines.push("Owners: none.".to_owned());
            return;
        }
        lines.push("Owners:".to_owned());
        for tie in owners.iter().take(OWNERS_TOLD) {
            let Tie { owner, message, .. } = tie;
            let role = if tie.controller { " (controller)" } else { "" };
            lines.push(format!("  {owner}{role}: {message}"));
        }
        let rest = owners.len().saturating_sub(OWNERS_TOLD);
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
    }

    /// What holds up its end, if that has been asked for.
    fn tell_end(&self, lines: &mut Vec<String>) {
        let Some(deletion) = self.deletion else {
            return;
        };
        let (blockers, blocking) = self.blockers();
        let start = format!("Its deletion was asked for (deletionTimestamp {deletion:.0})");
        if self.finalizers.is_empty() {
            lines.push(format!("{start}, and no finalizer holds it up."));
            return;
        }
        lines.push(format!("{start}; what holds it up:"));
        for finalizer in &self.finalizers {
            let ours = OURS.iter().find(|(name, _)| name == finalizer);
            let what = ours.map_or("whoever set it has to take it off", |(_, what)| what);
            lines.push(format!("  finalizer {finalizer}: {what}"));
        }
        for blocker in blockers {
            lines.push(format!("  {blocker} blocks it"));
        }
        let rest = blocking.saturating_sub(blockers.len());
        if rest > 0 {
            lines.push(format!("  … and {rest} more"));
        }
    }

    /// Who blocks its end now: nobody unless it waits for them.
    fn blockers(&self) -> (&[Identity], usize) {
        match (&self.verdict.because, &self.ties.blockers) {
            (Reason::WaitsForDependents { .. } | Reason::Ring { .. }, (first, count)) => {
                (first, *count)
            }
            _ => (&[], 0),
        }
    }

    fn next(&self) -> Step {
        if !self.is_collected {
            let kind = &self.resource;
            return Step::none(format!(
                "nothing: garbage collection does not look after {kind}"
            ));
        }
        if let Some(why) = &self.unanswered {
            return Step {
                action: "ask",
                message: format!("nothing before that is known ({why})"),
                ..Step::none(String::new())
            };
        }
        match &self.verdict.next {
            Next::Rest => self.rest(),
            Next::At(at) => Step {
                action: "wait",
                at: Some(*at),
                message: format!("waits for that until {at:.0} at the latest"),
                ..Step::none(String::new())
            },
            Next::Retry => Step {
                action: "wait",
                message: "waits for that".to_owned(),
                ..Step::none(String::new())
            },
            Next::After(_) | Next::Call(Call::Get { .. }) => Step {
                action: "ask",
                message: "the server would be asked".to_owned(),
                ..Step::none(String::new())
            },
            Next::Call(Call::Delete { propagation, .. }) => deleted(*propagation),
            Next::Call(Call::Create { .. } | Call::Patch { .. }) => Step {
                action: "patch",
                message: patched(&self.verdict.because),
                ..Step::none(String::new())
            },
        }
    }

    fn rest(&self) -> Step {
        let waits = |message: &str| Step {
            action: "wait",
            message: message.to_owned(),
            ..Step::none(String::new())
        };
        match &self.verdict.because {
            Reason::Owned { owner } => {
                let living = self
                    .ties
                    .owners
                    .iter()
                    .filter(|tie| tie.standing == "Solid");
                Step::none(match living.count() {
                    ..2 => format!("nothing, as long as {owner} lives"),
                    _ => "nothing, as long as one of its owners lives".to_owned(),
                })
            }
            Reason::Unowned => Step::none("nothing: only what has owners is collected".to_owned()),
            Reason::Unserved { owner } => {
                let api_version = &owner.api_version;
                Step::none(format!(
                    "nothing, as long as the server has no {api_version} with such a kind"
                ))
            }
            Reason::OutOfReach { .. } => {
                Step::none("nothing, as long as it has this reference".to_owned())
            }
            Reason::WaitsForDependents { .. } => {
                waits("would be let go when nobody blocks it any more")
            }
            Reason::WaitsForOrphans { .. } => {
                waits("would be let go when nobody refers to it any more")
            }
            Reason::Deleting | Reason::Going if self.finalizers.is_empty() => {
                waits("nothing more: its end is under way")
            }
            Reason::Deleting | Reason::Going => {
                waits("goes when its finalizers have been taken off")
            }
            _ => Step::none("nothing".to_owned()),
        }
    }
}

// === impl Step ===

impl Step {
    fn none(message: String) -> Self {
        Self {
            action: "none",
            policy: None,
            at: None,
            message,
        }
    }
}

fn notes(notes: &[Note]) -> Vec<Value> {
    let told = notes
        .iter()
        .map(|note| json!({"reason": note.reason, "message": note.message}));
    told.collect()
}

fn deleted(propagation: Option<Propagation>) -> Step {
    let how = match propagation {
        None => "",
        Some(Propagation::Background) => " (background: what hangs on it goes after it)",
        Some(Propagation::Foreground) => " (foreground: what hangs on it goes before it)",
        Some(Propagation::Orphan) => " (orphan: what hangs on it stays)",
    };
    Step {
        action: "delete",
        policy: propagation.map(Propagation::as_str),
        at: None,
        message: format!("would be deleted now{how}"),
    }
}

fn patched(because: &Reason) -> String {
    match because {
        Reason::LosesOwners { owners, .. } => {
            let owners: Vec<String> = owners
                .iter()
                .take(OWNERS_TOLD)
                .map(ToString::to_string)
                .collect();
            format!("would lose its reference to {} now", owners.join(", "))
        }
        Reason::Orphaned { owner } => format!("would lose its reference to {owner} now, and stay"),
        Reason::Ring { .. } => {
            "would stop blocking its owners now, so that the ring ends".to_owned()
        }
        Reason::DependentsGone { .. } => {
            "would lose its finalizer foregroundDeletion now".to_owned()
        }
        Reason::DependentsOrphaned { .. } => "would lose its finalizer orphan now".to_owned(),
        _ => "would be changed now".to_owned(),
    }
}

/// Names in references are anybody's: nothing of them may move the cursor or begin a line.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "\u{fffd}")
}

#[cfg(test)]
mod tests;
