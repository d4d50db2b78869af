//! Compares the objects that are left with the model, and lists all that happened to an object that ended wrongly.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::model::{ExpectedFate, OwnershipModel, ReferenceTarget};
use crate::checkers::StoredObject;
use crate::wire::RecordedRequest;

/// All objects that exist, by uid.
pub(super) type ExistingObjects = BTreeMap<String, Value>;

/// What is wrong with the end of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndFault {
    /// It is gone or being deleted, though it had to stay.
    WrongDelete,
    /// It is there, though it had to go, or it is still being deleted.
    Leftover,
    /// It has lost a reference to a living owner.
    LostReference,
    /// It has kept a reference to an owner that is gone.
    LeftReference,
}

/// An object that did not end as the model predicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndFinding {
    pub fault: EndFault,
    pub uid: String,
    pub text: String,
}

/// Everything that was recorded about a run, for stories.
pub(super) struct RunRecords<'r> {
    /// The users' requests: time, uid and text.
    pub(super) users: &'r [(Duration, String, String)],
    pub(super) requests: &'r [RecordedRequest],
    pub(super) versions: Vec<&'r StoredObject>,
    pub(super) began: tokio::time::Instant,
    /// The logs of the processes.
    pub(super) logs: String,
}

/// Compares the objects that exist with the model.
pub(super) fn findings(model: &OwnershipModel, existing: &ExistingObjects) -> Vec<EndFinding> {
    let mut found = Vec::new();
    for uid in model.condemned_wrongly() {
        let text = "it was deleted while an owner was there".to_owned();
        found.push(EndFinding::new(EndFault::WrongDelete, uid, text));
    }
    for uid in model.uids() {
        let object = existing.get(uid);
        let is_deleting = object.is_some_and(is_deleting);
        let (fault, text) = match (model.fate(uid), object) {
            (ExpectedFate::Stays, None) => (EndFault::WrongDelete, "it is gone"),
            (ExpectedFate::Stays, Some(_)) if is_deleting => {
                (EndFault::WrongDelete, "it is being deleted")
            }
            (ExpectedFate::Goes, Some(_)) if !is_deleting => (EndFault::Leftover, "it is there"),
            (_, Some(_)) if is_deleting => (EndFault::Leftover, "it is still being deleted"),
            (_, Some(object)) => {
                check_references(model, existing, uid, object, &mut found);
                continue;
            }
            (_, None) => continue,
        };
        found.push(EndFinding::new(fault, uid, text.to_owned()));
    }
    found
}

fn check_references(
    model: &OwnershipModel,
    existing: &ExistingObjects,
    uid: &str,
    object: &Value,
    found: &mut Vec<EndFinding>,
) {
    let written = model.references(uid);
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners
        .into_iter()
        .flatten()
        .filter_map(|own| own["uid"].as_str());
    let owners: Vec<&str> = owners.collect();
    let is_alive = |owner: &str| existing.get(owner).is_some_and(|own| !is_deleting(own));
    for reference in written {
        let is_kept = owners.contains(&reference.uid.as_str());
        let is_needed = match reference.target {
            ReferenceTarget::UnknownKind => true,
            ReferenceTarget::Nothing => false,
            ReferenceTarget::Owner => is_alive(&reference.uid),
        };
        if is_kept == is_needed {
            continue;
        }
        let fault = match is_needed {
            true => EndFault::LostReference,
            false => EndFault::LeftReference,
        };
        let text = format!("its reference to {}", reference.uid);
        found.push(EndFinding::new(fault, uid, text));
    }
    let is_strange = |owner: &&&str| written.iter().all(|own| own.uid != **owner);
    for owner in owners.iter().filter(is_strange) {
        let text = format!("no user wrote its reference to {owner}");
        found.push(EndFinding::new(EndFault::LeftReference, uid, text));
    }
}

fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

// === impl EndFinding ===

impl EndFinding {
    fn new(fault: EndFault, uid: &str, text: String) -> Self {
        Self {
            fault,
            uid: uid.to_owned(),
            text,
        }
    }
}

impl fmt::Display for EndFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}: {}", self.fault, self.uid, self.text)
    }
}

// === impl RunRecords ===

impl RunRecords<'_> {
    /// All that happened to an object and to the owners that users gave it.
    pub(super) fn story(&self, uid: &str) -> String {
        let mut lines = self.lines_of(uid);
        let owners = self.versions.iter().filter(|version| version.uid() == uid);
        let owners = owners.flat_map(|version| version.owners());
        let mut owners: Vec<&str> = owners.filter_map(|own| own["uid"].as_str()).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            lines.push(format!("  its owner {owner}:"));
            let of_owner = self.lines_of(owner);
            lines.extend(of_owner.iter().map(|line| format!("  {line}")));
        }
        lines.join("\n")
    }

    fn lines_of(&self, uid: &str) -> Vec<String> {
        let mut timed: Vec<(Duration, String)> = Vec::new();
        let mut name = None;
        let mut stored = Vec::new();
        for version in self.versions.iter().filter(|version| version.uid() == uid) {
            name = Some(version.name());
            let owners = version.owners().iter();
            let owners = owners.filter_map(|own| own["uid"].as_str());
            let owners = owners.collect::<Vec<_>>().join(", ");
            let state = match (version.is_gone, version.is_deleting()) {
                (true, _) => "gone",
                (false, true) => "in deletion",
                (false, false) => "there",
            };
            let (revision, finalizers) = (version.revision, version.finalizers().join(", "));
            stored.push(format!(
                "  stored at {revision}: {state}, finalizers [{finalizers}], owners [{owners}]"
            ));
        }
        let users = self.users.iter().filter(|(_, own, _)| own == uid);
        timed.extend(users.map(|(at, _, text)| (*at, text.clone())));
        let name = name.unwrap_or("?");
        for request in self.requests.iter().filter(|request| {
            request.path.rsplit('/').next() == Some(name)
                && request.who == crate::wire::RequestSender::Controllers
        }) {
            let at = request.sent.saturating_duration_since(self.began);
            let (method, status) = (&request.method, request.status);
            timed.push((
                at,
                format!("controllers {method} {}: {status}", request.body),
            ));
        }
        timed.sort();
        let mut lines = vec![format!("  {name} {uid}")];
        let timed = timed.iter();
        lines.extend(timed.map(|(at, text)| format!("  {:>7} ms {text}", at.as_millis())));
        lines.extend(stored);
        let log = self.logs.lines().filter(|line| mentions(line, name));
        lines.extend(log.map(|line| format!("  log: {line}")));
        lines
    }
}

/// Whether a line has this name as a whole word.
fn mentions(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let next = line[at + name.len()..].chars().next();
        next.is_none_or(|next| !next.is_ascii_digit())
    })
}
