//! The decision of a controller other than the garbage collector about an object.

use caretaker_controllers::runtime::call::DeletePropagation;
use caretaker_controllers::runtime::controller::{DecisionReason, EventNote, Verdict};
use serde_json::{Value, json};

use super::{NextAction, deleted};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ControllerVerdict {
    /// Name in `--controllers`.
    pub(crate) controller: &'static str,
    /// Rule id and sentence.
    because: (String, String),
    next: NextAction,
    notes: Vec<EventNote>,
    /// Assumptions that the cluster does not show: flags of the running controller.
    assumed: Vec<String>,
    /// Writes that come before.
    first: Vec<&'static str>,
}

// === impl ControllerVerdict ===

impl ControllerVerdict {
    pub(crate) fn of<K, R: DecisionReason>(
        controller: &'static str,
        verdict: Verdict<K, R>,
    ) -> Self {
        let rule = verdict.because.rule().to_owned();
        Self {
            controller,
            because: (rule, verdict.because.to_string()),
            next: NextAction::of(&verdict.next),
            notes: verdict.notes,
            assumed: Vec::new(),
            first: Vec::new(),
        }
    }

    /// For a controller that waits only in order to delete: the delete is the next action.
    pub(crate) fn of_deletion<K, R: DecisionReason>(
        controller: &'static str,
        verdict: Verdict<K, R>,
        policy: Option<DeletePropagation>,
    ) -> Self {
        let mut shown = Self::of(controller, verdict);
        if let Some(at) = shown.next.at {
            let now = deleted(policy);
            let message = now.message.replacen("now", &format!("at {at:.0}"), 1);
            shown.next = NextAction {
                at: Some(at),
                message,
                ..now
            };
        }
        shown
    }

    pub(crate) fn assuming(mut self, assumed: impl IntoIterator<Item = String>) -> Self {
        self.assumed.extend(assumed);
        self
    }

    /// Adds writes that come before.
    pub(crate) fn after(mut self, first: impl IntoIterator<Item = &'static str>) -> Self {
        self.first.extend(first);
        self
    }

    /// Adds a condition to the next action.
    pub(crate) fn provided(mut self, condition: &str) -> Self {
        self.next.message += &format!(", if {condition}");
        self
    }

    /// Appends the lines of the text output.
    pub(super) fn write_lines(&self, lines: &mut Vec<String>) {
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

    /// The member of `controllers` in the JSON output.
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
