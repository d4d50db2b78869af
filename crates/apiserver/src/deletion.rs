//! The decision what a DELETE does to an object, on which garbage collection relies.
//!
//! A pure function of the object, the options and the time. Mirrors `rest/delete.go` and the deletion part of
//! `registry/store.go` (upstream 1.36). The strategies of namespaces and of CustomResourceDefinitions call it after their
//! own rules.

mod options;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::kinds::{DefaultPolicy, ServedKind};
use crate::metadata::check::{FOREGROUND, ORPHAN};
use crate::metadata::{self, ObjectTree, value_at};

pub(crate) use options::{DeleteOptions, PropagationPolicy};

/// What a delete does to the object.
#[derive(Debug, PartialEq)]
pub(crate) enum DeleteDecision {
    /// A graceful deletion is in progress, and this request does not shorten it.
    Pending,
    /// The changed object stays until its finalizers are removed or its grace period ends.
    Keep(ObjectTree),
    /// The object is removed. Where upstream first writes a last state, this is it, and watchers see it.
    Remove(Option<ObjectTree>),
}

/// A delete of a stored object.
#[derive(Clone, Copy)]
pub(crate) struct ObjectDelete<'a> {
    pub(crate) kind: &'a ServedKind,
    pub(crate) object: &'a ObjectTree,
    pub(crate) options: &'a DeleteOptions,
    pub(crate) now: Timestamp,
}

/// Decides a delete.
pub(crate) fn decide(delete: &ObjectDelete<'_>) -> DeleteDecision {
    let ObjectDelete {
        kind,
        object,
        options,
        now,
    } = *delete;
    let mut changed = object.clone();
    let grace = match grace(delete, &mut changed) {
        GracePeriod::Pending => return DeleteDecision::Pending,
        grace => grace,
    };
    let before = metadata::finalizers(object);
    let after = collector_finalizers(kind, &before, options);
    let moved = !same_members(&before, &after);
    if moved {
        metadata::set_finalizers(&mut changed, &after);
    }
    let held = !after.is_empty();
    if held && grace == GracePeriod::None {
        mark_deleting(&mut changed, now);
    }
    match grace {
        _ if held => DeleteDecision::Keep(changed),
        GracePeriod::Until(seconds) if seconds > 0 => DeleteDecision::Keep(changed),
        GracePeriod::Until(_) => DeleteDecision::Remove(Some(changed)),
        _ => DeleteDecision::Remove(None),
    }
}

/// Decides a delete of an object that a task of the server releases later: `mark` shows in it that the deletion has begun.
pub(crate) fn decide_in_steps(
    delete: &ObjectDelete<'_>,
    is_released: bool,
    mark: impl FnOnce(&mut ObjectTree),
) -> DeleteDecision {
    if metadata::is_deleting(delete.object) {
        return if is_released {
            decide(delete)
        } else {
            DeleteDecision::Pending
        };
    }
    let mut changed = delete.object.clone();
    // The delete sets the garbage collector's finalizers as for any object; the object stays without them, too.
    if let DeleteDecision::Keep(held) = decide(delete) {
        metadata::set_finalizers(&mut changed, &metadata::finalizers(&held));
    }
    let now = metadata::time(delete.now);
    metadata::of(&mut changed).insert("deletionTimestamp".into(), now.into());
    mark(&mut changed);
    DeleteDecision::Keep(changed)
}

#[derive(Debug, PartialEq)]
enum GracePeriod {
    /// The kind has no grace period, or it is over.
    None,
    /// Granted before, and this request does not shorten it.
    Pending,
    /// Granted now, in seconds.
    Until(i64),
}

/// Applies the grace period to `object`.
fn grace(delete: &ObjectDelete<'_>, object: &mut ObjectTree) -> GracePeriod {
    let now = delete.now;
    if !delete.kind.rules.graceful {
        return GracePeriod::None;
    }
    let asked = delete.options.grace_seconds;
    let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if metadata::is_deleting(object) {
        return shorten(object, asked, now);
    }
    let text = |path: &str| value_at(object, path).as_str().unwrap_or_default();
    let scheduled = !text("/spec/nodeName").is_empty();
    let finished = matches!(text("/status/phase"), "Succeeded" | "Failed");
    let granted = asked
        .or_else(|| value_at(object, "/spec/terminationGracePeriodSeconds").as_i64())
        .unwrap_or(0);
    let seconds = match granted {
        _ if !scheduled || finished => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    };
    bump_generation(object);
    set_deadline(object, later(now, seconds), seconds);
    GracePeriod::Until(seconds)
}

/// A second delete can only shorten the grace period, and never into the past.
fn shorten(object: &mut ObjectTree, asked: Option<i64>, now: Timestamp) -> GracePeriod {
    let number = |field| metadata::get(object, field).and_then(Value::as_i64);
    let granted = number("deletionGracePeriodSeconds").unwrap_or(0);
    match asked {
        _ if granted == 0 => GracePeriod::None,
        Some(seconds) if seconds < granted => {
            let deadline: Timestamp = metadata::text(object, "deletionTimestamp")
                .parse()
                .unwrap_or(now);
            let moved = later(deadline, seconds - granted);
            let (deadline, seconds) = match seconds {
                _ if moved >= now => (moved, seconds),
                0 => (now, 0),
                _ => (now, 1),
            };
            set_deadline(object, deadline, seconds);
            GracePeriod::Until(seconds)
        }
        _ => GracePeriod::Pending,
    }
}

/// Returns the finalizers, with the two of the garbage collector set as the request and the kind require.
fn collector_finalizers(
    kind: &ServedKind,
    finalizers: &[String],
    options: &DeleteOptions,
) -> Vec<String> {
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    let unsupported = kind.rules.policy == DefaultPolicy::Unsupported;
    let orphan = match (options.policy, options.orphan_dependents) {
        _ if unsupported => false,
        (Some(policy), _) => policy == PropagationPolicy::Orphan,
        (None, Some(orphan)) => orphan,
        (None, None) if has(ORPHAN) => true,
        (None, None) if has(FOREGROUND) => false,
        (None, None) => kind.rules.policy == DefaultPolicy::Orphan,
    };
    let foreground = match (options.policy, options.orphan_dependents) {
        _ if unsupported => false,
        (Some(policy), _) => policy == PropagationPolicy::Foreground,
        (None, Some(_)) => false,
        (None, None) => has(FOREGROUND),
    };
    let others = finalizers
        .iter()
        .filter(|name| *name != ORPHAN && *name != FOREGROUND);
    let mut result: Vec<String> = others.cloned().collect();
    if orphan {
        result.push(ORPHAN.into());
    }
    if foreground {
        result.push(FOREGROUND.into());
    }
    result
}

/// Marks an object without a grace period as being deleted.
pub(crate) fn mark_deleting(object: &mut ObjectTree, now: Timestamp) {
    if !metadata::is_deleting(object) {
        bump_generation(object);
    }
    let deadline = metadata::text(object, "deletionTimestamp").parse::<Timestamp>();
    if !deadline.is_ok_and(|deadline| deadline <= now) {
        let now = metadata::time(now);
        metadata::of(object).insert("deletionTimestamp".into(), now.into());
    }
    metadata::of(object).insert("deletionGracePeriodSeconds".into(), 0.into());
}

fn set_deadline(object: &mut ObjectTree, deadline: Timestamp, grace_seconds: i64) {
    let metadata = metadata::of(object);
    metadata.insert("deletionTimestamp".into(), metadata::time(deadline).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace_seconds.into());
}

/// A deletion counts as a change of the spec, where the kind counts generations.
fn bump_generation(object: &mut ObjectTree) {
    if let Some(generation @ 1..) = value_at(object, "/metadata/generation").as_i64() {
        metadata::of(object).insert("generation".into(), (generation + 1).into());
    }
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

fn same_members(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|name| other.contains(name))
}

#[cfg(test)]
mod tests;
