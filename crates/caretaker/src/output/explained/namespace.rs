//! What keeps a namespace that is being deleted: the objects that remain in it, with their finalizers, and the conditions
//! in which the namespace controller reports failures.

use std::collections::BTreeMap;

use caretaker_controllers::runtime::controller::ObjectIdentity;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::counted;
use super::finalizer_text;

/// Objects that the text names. A namespace may hold thousands.
const OBJECTS_SHOWN: usize = 20;

/// The content of a terminating namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamespaceContent {
    /// Objects with finalizers come first: the others go without help.
    pub(crate) objects: Vec<RemainingObject>,
    /// Entries of `spec.finalizers` besides that of the namespace controller.
    pub(crate) spec_finalizers: Vec<String>,
    /// Conditions with the status `True`.
    pub(crate) conditions: Vec<NamespaceCondition>,
}

/// An object in a terminating namespace.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RemainingObject {
    #[serde(flatten)]
    pub(crate) object: ObjectIdentity,
    pub(crate) finalizers: Vec<String>,
}

/// A condition that the namespace controller has set.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NamespaceCondition {
    pub(crate) reason: String,
    pub(crate) message: String,
}

// === impl NamespaceContent ===

impl NamespaceContent {
    /// Whether nothing is known that keeps the namespace.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.spec_finalizers.is_empty()
    }

    /// Appends the lines of the text output.
    pub(super) fn write_lines(&self, lines: &mut Vec<String>) {
        for finalizer in &self.spec_finalizers {
            let text = finalizer_text(finalizer);
            lines.push(format!("  finalizer {finalizer} in its spec: {text}"));
        }
        for remaining in self.objects.iter().take(OBJECTS_SHOWN) {
            let RemainingObject { object, finalizers } = remaining;
            lines.push(match finalizers.as_slice() {
                [] => format!("  {object}"),
                finalizers => {
                    let texts = finalizers.iter();
                    let texts =
                        texts.map(|name| format!("finalizer {name}: {}", finalizer_text(name)));
                    format!("  {object}: {}", texts.collect::<Vec<_>>().join("; "))
                }
            });
        }
        let rest = self.objects.get(OBJECTS_SHOWN..).unwrap_or_default();
        if !rest.is_empty() {
            let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
            for remaining in rest {
                *kinds.entry(&remaining.object.kind).or_default() += 1;
            }
            let kinds = kinds.into_iter().map(|(kind, count)| counted(count, kind));
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            lines.push(format!("  … and {} more: {kinds}", rest.len()));
        }
        for NamespaceCondition { reason, message } in &self.conditions {
            lines.push(format!("The server reports: {message} ({reason})"));
        }
    }

    /// The member `remaining` of the JSON output, with all objects.
    pub(super) fn json(&self) -> Value {
        json!({
            "objects": self.objects,
            "specFinalizers": self.spec_finalizers,
            "conditions": self.conditions,
        })
    }
}
