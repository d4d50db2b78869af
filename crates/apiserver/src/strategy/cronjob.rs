//! Rules of CronJobs of `batch/v1` that are code: schedule, zone, name, and the selector in the template.
//!
//! Mirrors `ValidateCronJobCreate` and `ValidateCronJobUpdate` of Kubernetes 1.36, ratchets included: a stored schedule
//! that names a zone may stay, an unchanged zone is not checked again, and a name is checked once. Errors in a schedule
//! are those of `machinery::cron`. DEVIATION(schedule-words): upstream returns the messages of its parser, runtime errors of
//! Go included.

use caretaker_machinery::cron::{CronSchedule, zone};
use caretaker_machinery::status::StatusCause;
use serde_json::{Value, json};

use super::KindStrategy;
use super::validation::negative_faults;
use crate::metadata::{self, ObjectTree, value_at};

/// The rules of CronJobs.
#[derive(Debug)]
pub(super) struct CronJobStrategy;

/// Most characters of a CronJob's name. A Job of it appends a dash and the eight digits of a minute, and the names of
/// that Job's Pods need room too.
pub(super) const NAME_CHARS_MAX: usize = 52;

/// DEVIATION(cron-deadline-warning): upstream stores such a CronJob without a warning, and it never runs.
const NO_TIME: &str =
    "spec.startingDeadlineSeconds: 0 leaves no time to start a Job: every slot will be missed";
const ZONE_IN_SCHEDULE: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
const ZONE_TWICE: &str = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
const LOCAL_ZONE: &str =
    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";

const JOB: &str = "spec.jobTemplate.spec";

// === impl CronJobStrategy ===

impl KindStrategy for CronJobStrategy {
    fn warnings(&self, old: Option<&ObjectTree>, new: &ObjectTree) -> Vec<String> {
        deadline_warnings(old, new)
    }
}

/// Warns about a deadline that no Job can meet, for CronJobs of both kinds. A suspended CronJob starts no Jobs anyway.
pub(super) fn deadline_warnings(old: Option<&ObjectTree>, new: &ObjectTree) -> Vec<String> {
    let is_same = old.is_some_and(|old| old.get("spec") == new.get("spec"));
    let spec = value_at(new, "/spec");
    let is_hopeless = spec["startingDeadlineSeconds"] == 0 && spec["suspend"] != true;
    let warning = (is_hopeless && !is_same).then(|| NO_TIME.to_owned());
    warning.into_iter().collect()
}

/// Returns why the schedule of a CronJob, its deadline or its zone is refused.
pub(crate) fn timing_faults(new: &ObjectTree, old: Option<&ObjectTree>) -> Vec<StatusCause> {
    let spec = value_at(new, "/spec");
    let mut causes = schedule_faults(spec, old);
    causes.extend(negative_faults(spec, "spec", &["startingDeadlineSeconds"]));
    let is_new_zone = old.is_none_or(|old| value_at(old, "/spec")["timeZone"] != spec["timeZone"]);
    if let Some(zone) = spec["timeZone"].as_str().filter(|_| is_new_zone) {
        causes.extend(zone_faults(zone));
    }
    causes
}

/// Returns why the name of a new CronJob is refused.
pub(crate) fn name_fault(new: &ObjectTree, old: Option<&ObjectTree>) -> Option<StatusCause> {
    let name = metadata::text(new, "name");
    (old.is_none() && name.len() > NAME_CHARS_MAX).then(|| {
        let why = format!("must be no more than {NAME_CHARS_MAX} characters");
        StatusCause::invalid("metadata.name", name, &why)
    })
}

fn schedule_faults(spec: &Value, old: Option<&ObjectTree>) -> Vec<StatusCause> {
    let path = "spec.schedule";
    let text = spec["schedule"].as_str().unwrap_or_default();
    if text.is_empty() {
        return vec![StatusCause::required(path, "")];
    }
    let mut causes = Vec::new();
    if let Err(error) = CronSchedule::parse(text) {
        causes.push(StatusCause::invalid(path, text, &error.to_string()));
    }
    let names_zone = |schedule: &Value| schedule.as_str().is_some_and(|text| text.contains("TZ"));
    let may_name_zone = old.is_some_and(|old| names_zone(value_at(old, "/spec/schedule")));
    if names_zone(&spec["schedule"]) {
        if !may_name_zone {
            causes.push(StatusCause::invalid(path, text, ZONE_IN_SCHEDULE));
        } else if !spec["timeZone"].is_null() {
            causes.push(StatusCause::invalid(path, text, ZONE_TWICE));
        }
    }
    causes
}

fn zone_faults(name: &str) -> Vec<StatusCause> {
    let invalid = |why: &str| StatusCause::invalid("spec.timeZone", name, why);
    if name.is_empty() {
        return vec![invalid("timeZone must be nil or non-empty string")];
    }
    let mut causes = Vec::new();
    if name.eq_ignore_ascii_case("Local") {
        causes.push(invalid(LOCAL_ZONE));
    }
    // Go loads `Local` in exactly this spelling, although no zone has that name.
    if name != "Local" && zone::find(name).is_err() {
        causes.push(invalid(&format!("unknown time zone {name}")));
    }
    causes
}

/// Returns why the selector of the Jobs that a CronJob makes is refused: they get their own.
pub(crate) fn selector_faults(object: &ObjectTree) -> Vec<StatusCause> {
    let job = value_at(object, "/spec/jobTemplate/spec");
    let mut causes = Vec::new();
    if !job["selector"].is_null() {
        let (path, why) = (
            format!("{JOB}.selector"),
            "`selector` will be auto-generated",
        );
        causes.push(StatusCause::invalid(path, &job["selector"], why));
    }
    if job["manualSelector"] == json!(true) {
        let why = "Unsupported value: true: supported values: \"nil\", \"false\"";
        let path = format!("{JOB}.manualSelector");
        causes.push(StatusCause::new("FieldValueNotSupported", path, why));
    }
    causes
}

#[cfg(test)]
pub(super) mod tests;
