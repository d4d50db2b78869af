//! What a server checks of a CronJob before it stores it, for both kinds.
//!
//! Pure functions of the object as it is to be stored, and of the one it replaces: the embedded server asks them, nobody
//! else writes here. [`batch`] has the rules of `batch/v1`, as Kubernetes validates it; [`volcano`] those of
//! `batch.volcano.sh`, which Volcano checks in webhooks. What is wrong with a schedule is said in the words of
//! [`cron`](crate::cron). DEVIATION(schedule-words): upstream repeats what its parser says, runtime errors of Go included.

pub mod batch;
pub mod volcano;

use serde_json::{Map, Value};

use crate::status::Cause;

/// An object, or a part of one.
type Tree = Map<String, Value>;

/// Longest name of a CronJob: a dash and the eight digits of a minute make the name of a Job of it, and there is room left
/// for what a Job appends to the names of its Pods.
pub const NAME_CHARS_MAX: usize = 52;

/// DEVIATION(cron-deadline-warning): upstream stores such a CronJob without a word, and it never runs.
const NO_TIME: &str =
    "spec.startingDeadlineSeconds: 0 leaves no time to start a Job: every slot will be missed";

const NEGATIVE: &str = "must be greater than or equal to 0";

/// What whoever stores a CronJob of either kind should know. One that is suspended starts no Jobs anyway.
#[must_use]
pub fn warnings(new: &Tree) -> Vec<String> {
    let spec = part(new, "spec");
    let is_hopeless = spec["startingDeadlineSeconds"] == 0 && spec["suspend"] != true;
    is_hopeless
        .then(|| NO_TIME.to_owned())
        .into_iter()
        .collect()
}

/// A member of an object; null if it is not there.
fn part<'a>(object: &'a Tree, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

fn name(object: &Tree) -> &str {
    part(object, "metadata")["name"]
        .as_str()
        .unwrap_or_default()
}

/// Says of each of these members that is below zero that it must not be.
fn negatives(of: &Value, place: &str, fields: &[&str]) -> Vec<Cause> {
    let below = fields.iter().filter_map(|field| {
        let value = of[*field].as_i64().filter(|value| *value < 0)?;
        Some(Cause::invalid(format!("{place}.{field}"), value, NEGATIVE))
    });
    below.collect()
}

#[cfg(test)]
mod tests;
