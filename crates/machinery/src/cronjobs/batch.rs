//! The rules of `batch/v1`: schedule, zone, limits, and the Job that is made.
//!
//! Mirrors `ValidateCronJobCreate` and `ValidateCronJobUpdate` of Kubernetes 1.36, ratchets included: a schedule that names
//! a zone may stay, a zone that did not change is not looked at again, and a name is judged once. Of the Job, what has no
//! meaning in a template and what its numbers say; not its policies about failures.

use serde_json::{Value, json};

use super::{NAME_CHARS_MAX, Tree, name, negatives, part};
use crate::cron::{Schedule, zone};
use crate::status::Cause;

const ZONE_IN_SCHEDULE: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
const ZONE_TWICE: &str = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
const NO_PLACE: &str =
    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

/// Numbers of a Job.
const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Members of a Job that are one of a few words.
const WORDS: [(&str, &[&str]); 2] = [
    ("completionMode", &["NonIndexed", "Indexed"]),
    ("podReplacementPolicy", &["Failed", "TerminatingOrFailed"]),
];

const JOB: &str = "spec.jobTemplate.spec";

/// What is wrong with a CronJob that is created, or that replaces `old`. `pods` are the faults that somebody else found in
/// its template of Pods; they have their place among the others.
#[must_use]
pub fn faults(new: &Tree, old: Option<&Tree>, pods: Vec<Cause>) -> Vec<Cause> {
    let spec = part(new, "spec");
    let mut causes = schedule_faults(spec, old);
    causes.extend(negatives(spec, "spec", &["startingDeadlineSeconds"]));
    let is_new_zone = old.is_none_or(|old| part(old, "spec")["timeZone"] != spec["timeZone"]);
    if let Some(zone) = spec["timeZone"].as_str().filter(|_| is_new_zone) {
        causes.extend(zone_faults(zone));
    }
    causes.extend(word_fault(spec, "spec", "concurrencyPolicy", &POLICIES));
    causes.extend(template_faults(&spec["jobTemplate"]["spec"], pods));
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    causes.extend(negatives(spec, "spec", &limits));
    if old.is_none() && name(new).len() > NAME_CHARS_MAX {
        let why = format!("must be no more than {NAME_CHARS_MAX} characters");
        causes.push(Cause::invalid("metadata.name", name(new), &why));
    }
    causes
}

fn schedule_faults(spec: &Value, old: Option<&Tree>) -> Vec<Cause> {
    let place = "spec.schedule";
    let text = spec["schedule"].as_str().unwrap_or_default();
    if text.is_empty() {
        return vec![Cause::required(place, "")];
    }
    let mut causes = Vec::new();
    if let Err(error) = Schedule::parse(text) {
        causes.push(Cause::invalid(place, text, &error.to_string()));
    }
    let named = |schedule: &Value| schedule.as_str().is_some_and(|text| text.contains("TZ"));
    let may_name = old.is_some_and(|old| named(&part(old, "spec")["schedule"]));
    if named(&spec["schedule"]) {
        if !may_name {
            causes.push(Cause::invalid(place, text, ZONE_IN_SCHEDULE));
        } else if !spec["timeZone"].is_null() {
            causes.push(Cause::invalid(place, text, ZONE_TWICE));
        }
    }
    causes
}

fn zone_faults(name: &str) -> Vec<Cause> {
    let place = "spec.timeZone";
    let invalid = |why: &str| Cause::invalid(place, name, why);
    if name.is_empty() {
        return vec![invalid("timeZone must be nil or non-empty string")];
    }
    let mut causes = Vec::new();
    if name.eq_ignore_ascii_case("Local") {
        causes.push(invalid(NO_PLACE));
    }
    // Go loads what is spelled like this, and there is no such name.
    if name != "Local" && zone::find(name).is_err() {
        causes.push(invalid(&format!("unknown time zone {name}")));
    }
    causes
}

/// What is wrong with the spec of the Job that is made.
fn template_faults(job: &Value, pods: Vec<Cause>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !job["selector"].is_null() {
        let why = "`selector` will be auto-generated";
        causes.push(Cause::invalid(
            format!("{JOB}.selector"),
            &job["selector"],
            why,
        ));
    }
    if job["manualSelector"] == json!(true) {
        causes.push(Cause {
            reason: "FieldValueNotSupported".to_owned(),
            message: "Unsupported value: true: supported values: \"nil\", \"false\"".to_owned(),
            field: format!("{JOB}.manualSelector"),
        });
    }
    causes.extend(job_faults(job, JOB, pods));
    causes
}

/// What is wrong with the spec of a Job at a place, made by a CronJob or by hand.
#[must_use]
pub fn job_faults(job: &Value, place: &str, pods: Vec<Cause>) -> Vec<Cause> {
    let mut causes = negatives(job, place, &COUNTS);
    if job["completionMode"] == "Indexed" && job["completions"].is_null() {
        let why = "when completion mode is Indexed";
        causes.push(Cause::required(format!("{place}.completions"), why));
    }
    for (field, words) in WORDS {
        causes.extend(word_fault(job, place, field, words));
    }
    causes.extend(pods);
    causes.extend(restart_faults(job, place));
    causes
}

/// Pods of a Job end some time, so they are not always restarted.
fn restart_faults(job: &Value, place: &str) -> Vec<Cause> {
    let place = || format!("{place}.template.spec.restartPolicy");
    let policy = &job["template"]["spec"]["restartPolicy"];
    match policy.as_str().unwrap_or_default() {
        "Never" => Vec::new(),
        "OnFailure" if job["podFailurePolicy"].is_null() => Vec::new(),
        "OnFailure" => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            vec![Cause::invalid(place(), "OnFailure", why)]
        }
        "" | "Always" => vec![Cause::required(
            place(),
            "valid values: \"OnFailure\", \"Never\"",
        )],
        other => vec![
            Cause::not_supported(place(), other, &["Always", "OnFailure", "Never"]),
            Cause::not_supported(place(), other, &["OnFailure", "Never"]),
        ],
    }
}

fn word_fault(of: &Value, place: &str, field: &str, words: &[&str]) -> Option<Cause> {
    let word = of[field].as_str().filter(|word| !words.contains(word))?;
    Some(Cause::not_supported(
        format!("{place}.{field}"),
        word,
        words,
    ))
}
