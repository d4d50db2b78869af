//! What the narrator is told of a record of evidence.

use std::time::Duration;

use caretaker_controllers::runtime::evidence::{Evidence, Outcome as Answered};

use super::narrate::{Deed, Fact, Outcome};

/// What the rules of the controllers' reasons come to, and why in two or three words. A rule that is not here deletes
/// because an owner is gone, or takes off a reference.
const RULES: &[(&str, Deed, &str)] = &[
    (
        "OwnerWaiting",
        Deed::Collect,
        "owner is deleted in the foreground",
    ),
    ("Orphaned", Deed::Orphan, ""),
    ("LosesOwners", Deed::Detach, ""),
    ("Ring", Deed::Unblock, ""),
    ("DependentsGone", Deed::Release, ""),
    ("DependentsOrphaned", Deed::Release, ""),
    ("Terminated", Deed::Sweep, "terminated, and too many"),
    ("OutOfService", Deed::Sweep, "Node out of service"),
    ("NodeGone", Deed::Sweep, "Node gone"),
    ("Unscheduled", Deed::Sweep, "never scheduled"),
    ("Expired", Deed::Sweep, "TTL after its finish is over"),
    ("AbortedLongAgo", Deed::Sweep, "aborted long ago"),
    ("SlotCame", Deed::Start, ""),
    ("RecordsStatus", Deed::Record, ""),
    ("OverHistoryLimit", Deed::Sweep, "over the history limit"),
    ("Replaced", Deed::Sweep, "replaced by the next one"),
    ("Stray", Deed::Sweep, "it came back as somebody else's"),
];

/// A fact for each request that a write took: the reads that led to it, and the write.
pub(crate) fn facts(record: &Evidence) -> Vec<Fact> {
    let (deed, why) = deed(record);
    let fact = Fact {
        at: record.at,
        took: Duration::from_millis(record.ms),
        controller: record.controller,
        deed,
        object: record.target.clone(),
        cause: record.cause.clone(),
        why,
        alike: matches!(deed, Deed::Sweep | Deed::Mark | Deed::Start | Deed::Record),
        outcome: outcome(record),
    };
    let look = Fact {
        deed: Deed::Look,
        outcome: Outcome::Done,
        ..fact.clone()
    };
    let reads = record.requests.saturating_sub(1);
    let mut facts: Vec<Fact> = (0..reads).map(|_| look.clone()).collect();
    facts.push(fact);
    facts
}

/// By the word for programs that reasons have.
fn deed(record: &Evidence) -> (Deed, &'static str) {
    let rule = record.because["rule"].as_str().unwrap_or_default();
    let known = RULES.iter().find(|(known, _, _)| *known == rule);
    match known {
        // What is swept is marked first.
        Some((_, Deed::Sweep, why)) if record.verb == "patch" => (Deed::Mark, *why),
        Some((_, deed, why)) => (*deed, *why),
        None if record.verb == "delete" => (Deed::Collect, "owner deleted"),
        None => (Deed::Detach, ""),
    }
}

fn outcome(record: &Evidence) -> Outcome {
    match record.status {
        Answered::DryRun => Outcome::Rehearsed,
        _ if record.done => Outcome::Done,
        Answered::Code(404 | 409) => Outcome::Moot,
        Answered::Code(status) => Outcome::Failed {
            status: Some(status),
            message: record.reason.clone(),
        },
        Answered::NoAnswer => Outcome::Failed {
            status: None,
            message: record.reason.clone(),
        },
    }
}
