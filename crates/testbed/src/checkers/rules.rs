//! The rules themselves, applied to each write of the controllers at the revision where it took effect.
//!
//! A write is found in the history by what it was judged from: uid and resourceVersion. What stood just before the next
//! version of that object is what the server compared. An owner that stopped waiting a moment before is still held to be
//! waiting: no precondition spans two objects, and S3 in `docs/safety.md` allows one interval.

mod cron;
mod pods;

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;

use super::history::{ObjectHistory, StoredObject};
use crate::objects::Scope;
use crate::wire::{RecordedRequest, RequestSender};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// How long an owner that was seen waiting may be taken to wait: the collector's `OWNER_CONFIRM`, restated.
const CONFIRMED_FOR: Duration = Duration::from_secs(1);

/// What the controllers did that they must never do, in words; nothing if all is well.
pub fn violations(history: &ObjectHistory, acts: &[RecordedRequest]) -> Vec<String> {
    let times = times(acts);
    let done = |act: &&RecordedRequest| act.who == RequestSender::Controllers && act.status < 300;
    let mut found = Vec::new();
    for act in acts.iter().filter(done) {
        let checked = match act.method {
            _ if cron::is_start(act) => cron::start(history, act),
            _ if cron::is_record(act) => cron::record(history, act),
            _ if pods::is_forced(act) => pods::delete(history, act, acts),
            _ if pods::is_mark(act) => pods::patch(history, act, acts),
            Method::DELETE => delete(history, act, &times),
            Method::PATCH => patch(history, act, &times),
            Method::GET => Ok(()),
            _ => Err("S4: neither a delete nor a patch".to_owned()),
        };
        if let Err(why) = checked {
            found.push(format!("{} {} {}: {why}", act.method, act.path, act.body));
        }
    }
    found
}

/// The times of revisions, as far as an answer shows them.
fn times(acts: &[RecordedRequest]) -> BTreeMap<u64, Instant> {
    let writes = acts.iter().filter(|act| act.method != Method::GET);
    let writes = writes.filter_map(|act| {
        let revision = act.answer["metadata"]["resourceVersion"].as_str()?;
        Some((revision.parse().ok()?, act.sent))
    });
    writes.collect()
}

/// The object as it was judged and as it was next, unless the write changed nothing.
fn judged<'a>(
    history: &'a ObjectHistory,
    uid: &Value,
    revision: &Value,
) -> Result<Option<(&'a StoredObject, &'a StoredObject)>, String> {
    let (Some(uid), Some(revision)) = (uid.as_str(), revision.as_str()) else {
        return Err("S2: it says not which copy was judged".to_owned());
    };
    let revision: u64 = revision
        .parse()
        .map_err(|_| format!("S2: {revision:?} is no version"))?;
    let Some(before) = history.of(uid).find(|stored| stored.revision == revision) else {
        return Err(format!(
            "S2: there never was a version {revision} of {uid}, and yet it was accepted"
        ));
    };
    Ok(history.next(uid, revision).map(|after| (before, after)))
}

fn delete(
    history: &ObjectHistory,
    act: &RecordedRequest,
    times: &BTreeMap<u64, Instant>,
) -> Result<(), String> {
    let preconditions = &act.body["preconditions"];
    let (uid, revision) = (&preconditions["uid"], &preconditions["resourceVersion"]);
    let Some((before, after)) = judged(history, uid, revision)? else {
        return Ok(());
    };
    if before.is_deleting() {
        return Ok(());
    }
    if let Some(cron) = cron::master(history, before, after.revision) {
        return cron::delete(before, cron, &act.answer);
    }
    if before.owners().is_empty() {
        return expired(before, act);
    }
    for owner in before.owners() {
        if !is_lost(history, before, owner, after.revision, act, times) {
            return Err(format!("S1: its owner {owner} lived"));
        }
    }
    Ok(())
}

/// An object without owners may be deleted only after it has finished and its TTL is over by the server's clock.
fn expired(before: &StoredObject, act: &RecordedRequest) -> Result<(), String> {
    let time = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let Some(ttl_secs) = before.object["spec"]["ttlSecondsAfterFinished"].as_i64() else {
        return Err("S1: it had no owner".to_owned());
    };
    let Some(finish) = ending(&before.object).and_then(|end| time(&end["lastTransitionTime"]))
    else {
        return Err("S5: it had not finished".to_owned());
    };
    let due = finish + SignedDuration::from_secs(ttl_secs);
    match time(&act.answer["metadata"]["deletionTimestamp"]) {
        Some(deleted) if deleted >= due => Ok(()),
        deleted => Err(format!("S5: it went at {deleted:?}, before {due}")),
    }
}

/// What says that a Job of either kind has finished, if it has.
fn ending(job: &Value) -> Option<&Value> {
    let state = &job["status"]["state"];
    let ends = ["Completed", "Failed", "Terminated"];
    if ends.iter().any(|end| state["phase"] == *end) {
        return Some(state);
    }
    let conditions = job["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| {
        let is_end = ["Complete", "Failed"].map(|end| condition["type"] == end);
        is_end.contains(&true) && condition["status"] == "True"
    })
}

/// Whether an owner was absent or waiting for its dependents when something took effect.
fn is_lost(
    history: &ObjectHistory,
    dependent: &StoredObject,
    reference: &Value,
    at: u64,
    act: &RecordedRequest,
    times: &BTreeMap<u64, Instant>,
) -> bool {
    let Some(known) = history.kind(reference) else {
        return false;
    };
    let namespace = match (history.scope(known), dependent.namespace()) {
        (Scope::Cluster, _) => "",
        (Scope::Namespaced, "") => return false,
        (Scope::Namespaced, namespace) => namespace,
    };
    let there = history.before(at);
    let uid = reference["uid"].as_str().unwrap_or_default();
    let Some(owner) = there.get(uid) else {
        return true;
    };
    let is_meant =
        owner.known == known && owner.namespace() == namespace && reference["name"] == owner.name();
    !is_meant || is_waiting(owner) || waited(history, owner, act, times)
}

fn is_waiting(owner: &StoredObject) -> bool {
    owner.is_deleting() && owner.finalizers().contains(&FOREGROUND)
}

/// Whether the owner was waiting until so recently that the controller could not know better.
fn waited(
    history: &ObjectHistory,
    owner: &StoredObject,
    act: &RecordedRequest,
    times: &BTreeMap<u64, Instant>,
) -> bool {
    let uid = owner.uid();
    let versions: Vec<&StoredObject> = history.of(uid).collect();
    let changed = versions
        .windows(2)
        .rev()
        .find(|pair| is_waiting(pair[0]) && pair[1].revision <= owner.revision);
    let changed = changed.and_then(|pair| times.get(&pair[1].revision));
    changed.is_some_and(|changed| act.sent.saturating_duration_since(*changed) <= CONFIRMED_FOR)
}

fn patch(
    history: &ObjectHistory,
    act: &RecordedRequest,
    times: &BTreeMap<u64, Instant>,
) -> Result<(), String> {
    let metadata = &act.body["metadata"];
    let (uid, revision) = (&metadata["uid"], &metadata["resourceVersion"]);
    let Some((before, after)) = judged(history, uid, revision)? else {
        return Ok(());
    };
    if after.is_gone {
        // The last finalizer is gone and with it the object: what is left to see is what was asked for.
        let asked: Vec<&str> = metadata["finalizers"]
            .as_array()
            .map_or_else(Vec::new, |all| {
                all.iter().filter_map(Value::as_str).collect()
            });
        return finalizers(history, before, &asked, after.revision);
    }
    let rest = |stored: &StoredObject| {
        let mut object = stored.object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for ours in [
                "resourceVersion",
                "ownerReferences",
                "finalizers",
                "managedFields",
            ] {
                metadata.remove(ours);
            }
        }
        object
    };
    if rest(before) != rest(after) {
        return Err("S4: it changed what is not the collector's".to_owned());
    }
    finalizers(history, before, &after.finalizers(), after.revision)?;
    references(history, before, after, act, times)
}

/// Finalizers only go, only ours, and only when nothing holds them any more.
fn finalizers(
    history: &ObjectHistory,
    before: &StoredObject,
    after: &[&str],
    revision: u64,
) -> Result<(), String> {
    let held = before.finalizers();
    if let Some(new) = after.iter().find(|finalizer| !held.contains(finalizer)) {
        return Err(format!("S4: the finalizer {new} is new"));
    }
    let there = history.before(revision);
    // A reference that is written later than the deletion may come too late.
    let mut versions = history.of(before.uid());
    let orphaning = versions.find(|own| own.is_deleting() && own.finalizers().contains(&ORPHAN));
    let since = orphaning.map_or(before.revision, |own| own.revision);
    let refers = |stored: &StoredObject, is_counted: fn(&Value) -> bool| {
        let mut owners = stored.owners().iter();
        owners.any(|owner| owner["uid"] == before.uid() && is_counted(owner))
    };
    for gone in held.iter().filter(|finalizer| !after.contains(finalizer)) {
        let (holder, still) = match *gone {
            ORPHAN => {
                let holder = there.values().find(|stored| {
                    let versions = history.of(stored.uid());
                    let version = versions.take_while(|own| own.revision <= since).last();
                    refers(stored, |_| true) && version.is_some_and(|own| refers(own, |_| true))
                });
                (holder, "refers to it")
            }
            FOREGROUND => {
                let holder = there.values().find(|stored| {
                    stored.uid() != before.uid()
                        && refers(stored, |owner| owner["blockOwnerDeletion"] == true)
                });
                (holder, "blocks it")
            }
            other => return Err(format!("S4: the finalizer {other} is not ours")),
        };
        if let Some(holder) = holder {
            return Err(format!("S3: {} still {still}", holder.name()));
        }
    }
    Ok(())
}

/// References only go, or stop blocking; and only those to owners that are lost or leave orphans behind.
fn references(
    history: &ObjectHistory,
    before: &StoredObject,
    after: &StoredObject,
    act: &RecordedRequest,
    times: &BTreeMap<u64, Instant>,
) -> Result<(), String> {
    let unblocked = |reference: &Value| {
        let mut reference = reference.clone();
        if let Some(reference) = reference.as_object_mut() {
            reference.remove("blockOwnerDeletion");
        }
        reference
    };
    let kept: Vec<Value> = after.owners().iter().map(unblocked).collect();
    let had: Vec<Value> = before.owners().iter().map(unblocked).collect();
    if let Some(new) = kept.iter().find(|reference| !had.contains(reference)) {
        return Err(format!("S4: the reference {new} is new"));
    }
    for reference in before
        .owners()
        .iter()
        .filter(|r| !kept.contains(&unblocked(r)))
    {
        let there = history.before(after.revision);
        let owner = reference["uid"].as_str().and_then(|uid| there.get(uid));
        let leaves =
            owner.is_some_and(|owner| owner.is_deleting() && owner.finalizers().contains(&ORPHAN));
        if !leaves && !is_lost(history, before, reference, after.revision, act, times) {
            return Err(format!("S1: the owner {reference} that it lost lived"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
