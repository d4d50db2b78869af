//! What a controller other than the collector decides about an object.

use caretaker_controllers::runtime::call::{Call, Propagation};
use caretaker_controllers::runtime::controller::{DecisionReason, Next, Note, Verdict};
use serde_json::{Value, json};

use super::{Step, deleted};

/// A decision, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opinion {
    /// As `--controllers` spells it.
    pub(crate) controller: &'static str,
    /// Why: a word for programs, and a sentence.
    because: (String, String),
    next: Step,
    notes: Vec<Note>,
    /// What it rests on and cannot be seen in the cluster: flags of whoever runs the controller.
    assumed: Vec<String>,
    /// What would be done before.
    first: Vec<&'static str>,
}

// === impl Opinion ===

impl Opinion {
    /// What a verdict comes to.
    pub(crate) fn of<K, R: DecisionReason>(
        controller: &'static str,
        verdict: Verdict<K, R>,
    ) -> Self {
        let rule = verdict.because.rule().to_owned();
        let step = |action, message: &str| Step {
            action,
            message: message.to_owned(),
            ..Step::none(String::new())
        };
        let next = match verdict.next {
            Next::Rest => step("none", "nothing"),
            Next::At(at) => Step {
                at: Some(at),
                ..step("wait", &format!("nothing before {at:.0}"))
            },
            Next::Retry => step("wait", "waits for that"),
            Next::After(_) | Next::Call(Call::Get { .. }) => {
                step("ask", "the server would be asked")
            }
            Next::Call(Call::Delete { propagation, .. }) => deleted(propagation),
            Next::Call(Call::Create { .. }) => step("create", "a Job would be created now"),
            Next::Call(Call::Patch { .. }) => step("patch", "would be changed now"),
        };
        Self {
            controller,
            because: (rule, verdict.because.to_string()),
            next,
            notes: verdict.notes,
            assumed: Vec::new(),
            first: Vec::new(),
        }
    }

    /// The same for a controller that waits only in order to delete: then that is what happens next.
    pub(crate) fn of_an_end<K, R: DecisionReason>(
        controller: &'static str,
        verdict: Verdict<K, R>,
        policy: Propagation,
    ) -> Self {
        let mut opinion = Self::of(controller, verdict);
        if let Some(at) = opinion.next.at {
            let now = deleted(Some(policy));
            let message = now.message.replacen("now", &format!("at {at:.0}"), 1);
            opinion.next = Step {
                at: Some(at),
                message,
                ..now
            };
        }
        opinion
    }

    /// The same, resting on these, too.
    pub(crate) fn assuming(mut self, assumed: impl IntoIterator<Item = String>) -> Self {
        self.assumed.extend(assumed);
        self
    }

    /// The same, after these were done.
    pub(crate) fn after(mut self, first: impl IntoIterator<Item = &'static str>) -> Self {
        self.first.extend(first);
        self
    }

    /// The same, but what happens next happens only if this is so.
    pub(crate) fn provided(mut self, condition: &str) -> Self {
        self.next.message += &format!(", if {condition}");
        self
    }

    /// For people.
    pub(super) fn tell(&self, lines: &mut Vec<String>) {
        let (_, because) = &self.because;
        lines.push(format!("{}: {because}.", self.controller));
        for first in &self.first {
            lines.push(format!("  First: {first}."));
        }
        lines.push(format!("  Next: {}.", self.next.message));
        for note in &self.notes {
            lines.push(format!("  Note: {} ({})", note.message, note.reason));
        }
        if !self.assumed.is_empty() {
            lines.push(format!("  Assumed: {}.", self.assumed.join(", ")));
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let (rule, message) = &self.because;
        json!({
            "controller": self.controller,
            "verdict": {"rule": rule, "message": message},
            "next": self.next,
            "notes": super::notes(&self.notes),
            "assumed": self.assumed,
            "first": self.first,
        })
    }
}
