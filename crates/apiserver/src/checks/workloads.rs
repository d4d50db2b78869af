//! Rules of workloads: selectors and templates, strategies of updates, Jobs and CronJobs.
//!
//! Mirrors `apps/validation` and `batch/validation`, 1.36.

use caretaker_machinery::names::{label, label_value, qualified_name};
use serde_json::Value;

use super::table::CheckFn;
use super::{Visit, formats, list, text};
use crate::metadata;
use crate::strategy::{cronjob, workload};

pub(super) const CHECKS: &[(&str, CheckFn)] = &[
    ("selected-template", selected_template),
    ("daemon-template", daemon_template),
    ("controller-template", controller_template),
    ("deployment-strategy", deployment_strategy),
    ("daemon-strategy", daemon_strategy),
    ("stateful-strategy", stateful_strategy),
    ("progress-deadline", progress_deadline),
    ("job-modes", job_modes),
    ("job-selector", job_selector),
    ("job-restart", job_restart),
    ("job-name", job_name),
    ("failure-rule", failure_rule),
    ("exit-codes", exit_codes),
    ("success-policy", success_policy),
    ("cron-schedule", cron_schedule),
    ("cron-template", cron_template),
    ("cron-name", cron_name),
    ("revision-data", revision_data),
    ("pod-management", pod_management),
    ("claim-templates", claim_templates),
    ("stateful-service", stateful_service),
    ("managed-by", managed_by),
];

/// Most Pods that an indexed Job runs at once.
const PARALLELISM_MAX: i64 = 100_000;

/// Returns the kind whose spec the current struct is, in lower case.
fn kind(v: &Visit<'_>) -> String {
    v.own_type().trim_end_matches("Spec").to_lowercase()
}

/// Reports whether a selector can be used: keys and values are valid, operators are known, and have values where they
/// need them.
pub(super) fn is_usable(selector: &Value) -> bool {
    let is_value = |value: &Value| label_value(value.as_str().unwrap_or_default()).is_empty();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut labels = labels.map(|(key, value)| qualified_name(key).is_empty() && is_value(value));
    let are_labels = labels.all(|is_good| is_good);
    are_labels
        && list(&selector["matchExpressions"]).iter().all(|row| {
            let has_values = !list(&row["values"]).is_empty();
            if !qualified_name(text(row, "key")).is_empty()
                || !list(&row["values"]).iter().all(is_value)
            {
                return false;
            }
            match text(row, "operator") {
                "In" | "NotIn" => has_values,
                "Exists" | "DoesNotExist" => !has_values,
                _ => false,
            }
        })
}

/// A selector that selects something, and the template that it selects.
fn selected_template(v: &mut Visit<'_>) {
    let selector = v.get("selector");
    let kind = kind(v);
    if selector.is_null() {
        v.required("selector", "");
    } else {
        v.each("selector");
        if selector.as_object().is_some_and(serde_json::Map::is_empty) {
            let kind = if kind == "replicaset" {
                "deployment"
            } else {
                &kind
            };
            let why = format!("empty selector is invalid for {kind}");
            v.invalid_struct("selector", &why);
        }
    }
    if !is_usable(selector) {
        let why = if kind == "statefulset" {
            ""
        } else {
            "invalid label selector"
        };
        return v.invalid_struct("selector", why);
    }
    let is_empty = selector.as_object().is_some_and(serde_json::Map::is_empty);
    if !is_empty {
        mismatch(v);
    }
    v.each("template");
    let shown = match kind.as_str() {
        "statefulset" => "StatefulSet",
        _ => "ReplicaSet",
    };
    always_restarts(v, shown);
}

fn mismatch(v: &mut Visit<'_>) {
    let labels = &v.get("template")["metadata"]["labels"];
    if !workload::selects(v.get("selector"), labels) {
        let why = "`selector` does not match template `labels`";
        v.invalid("template.metadata.labels", labels, why);
    }
}

fn always_restarts(v: &mut Visit<'_>, kind: &str) {
    let spec = &v.get("template")["spec"];
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        v.unsupported("template.spec.restartPolicy", policy, &["Always"]);
    }
    if !spec["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        v.forbidden("template.spec.activeDeadlineSeconds", &why);
    }
}

fn daemon_template(v: &mut Visit<'_>) {
    v.each("selector");
    let selector = v.get("selector");
    if is_usable(selector) {
        mismatch(v);
    }
    if selector.as_object().is_some_and(serde_json::Map::is_empty) {
        v.invalid_struct("selector", "empty selector is invalid for daemonset");
    }
    v.each("template");
    always_restarts(v, "DaemonSet");
}

fn controller_template(v: &mut Visit<'_>) {
    let selector = v.get("selector");
    let is_empty = selector.as_object().is_none_or(serde_json::Map::is_empty);
    if is_empty {
        v.required("selector", "");
    }
    if v.get("template").is_null() {
        return v.required("template", "");
    }
    if !is_empty {
        mismatch(v);
    }
    v.each("template");
    always_restarts(v, "ReplicationController");
}

/// Returns a number of Pods, or the number of percent.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        value => value.as_i64().unwrap_or(0),
    }
}

/// Checks a number of Pods that may be a percentage.
pub(super) fn count_or_percent(v: &mut Visit<'_>, field: &str, value: &Value) {
    match value {
        Value::String(text) => v.invalid_all(field, text, &formats::percent(text)),
        value => {
            if let Some(count) = value.as_i64().filter(|count| *count < 0) {
                v.invalid(field, count, "must be greater than or equal to 0");
            }
        }
    }
}

/// Checks that a percentage is at most the whole.
pub(super) fn at_most_all(v: &mut Visit<'_>, field: &str, value: &Value) {
    let is_percent = value
        .as_str()
        .is_some_and(|text| formats::percent(text).is_empty());
    if is_percent && amount(value) > 100 {
        v.invalid(field, value, "must not be greater than 100%");
    }
}

fn deployment_strategy(v: &mut Visit<'_>) {
    let rolling = v.get("rollingUpdate");
    match v.get("type").as_str().unwrap_or_default() {
        "Recreate" => {
            if !rolling.is_null() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                v.forbidden("rollingUpdate", why);
            }
        }
        "RollingUpdate" => {
            let (surge, unavailable) = (&rolling["maxSurge"], &rolling["maxUnavailable"]);
            let field = "rollingUpdate.maxUnavailable";
            count_or_percent(v, field, unavailable);
            count_or_percent(v, "rollingUpdate.maxSurge", surge);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                v.invalid(field, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_all(v, field, unavailable);
        }
        _ => v.unsupported_struct(&["Recreate", "RollingUpdate"]),
    }
}

fn daemon_strategy(v: &mut Visit<'_>) {
    let rolling = v.get("rollingUpdate");
    match v.get("type").as_str().unwrap_or_default() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (surge, unavailable) = (&rolling["maxSurge"], &rolling["maxUnavailable"]);
            let fields = ["rollingUpdate.maxUnavailable", "rollingUpdate.maxSurge"];
            for check in [count_or_percent, at_most_all] {
                check(v, fields[0], unavailable);
                check(v, fields[1], surge);
            }
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    v.invalid(fields[1], surge, why);
                }
                (false, false) => v.required(fields[0], "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => v.unsupported_struct(&["RollingUpdate", "OnDelete"]),
    }
}

fn stateful_strategy(v: &mut Visit<'_>) {
    let strategy = v.get("updateStrategy");
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "" => v.required("updateStrategy", ""),
        "OnDelete" => {
            if !rolling.is_null() {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                let shown = v.shown_at("spec.updateStrategy.rollingUpdate", rolling);
                let message = format!("Invalid value: {shown}: {why}");
                v.push("FieldValueInvalid", "updateStrategy.rollingUpdate", message);
            }
        }
        "RollingUpdate" => {
            let partition = rolling["partition"].as_i64().unwrap_or(0);
            if partition < 0 {
                let why = "must be greater than or equal to 0";
                v.invalid("updateStrategy.rollingUpdate.partition", partition, why);
            }
            let field = "updateStrategy.rollingUpdate.maxUnavailable";
            let unavailable = &rolling["maxUnavailable"];
            if !unavailable.is_null() {
                count_or_percent(v, field, unavailable);
                if amount(unavailable) == 0 {
                    v.invalid(field, unavailable, "cannot be 0");
                }
                at_most_all(v, field, unavailable);
            }
        }
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            v.invalid_struct("updateStrategy", why);
        }
    }
}

fn pod_management(v: &mut Visit<'_>) {
    let policy = v.get("podManagementPolicy").as_str().unwrap_or_default();
    match policy {
        "" => v.required("podManagementPolicy", ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            v.invalid("podManagementPolicy", other, why);
        }
    }
}

/// An update cannot change the templates of claims, so only a create checks them.
fn claim_templates(v: &mut Visit<'_>) {
    if v.old.is_none() {
        v.each("volumeClaimTemplates");
    }
}

/// An update cannot change the service, so only a create checks its name.
fn stateful_service(v: &mut Visit<'_>) {
    let name = v.get("serviceName").as_str().unwrap_or_default();
    if v.old.is_none() && !name.is_empty() {
        v.invalid_all("serviceName", name, &label(name));
    }
}

/// The controller of a Job is named by a domain and a path.
fn managed_by(v: &mut Visit<'_>) {
    if let Some(name) = v.get("managedBy").as_str() {
        formats::domain_prefixed_path(v, "managedBy", name);
        if name.len() > 63 {
            v.too_long("managedBy", 63);
        }
    }
}

fn progress_deadline(v: &mut Visit<'_>) {
    let ready = v.get("minReadySeconds").as_i64().unwrap_or(0);
    let deadline = v.get("progressDeadlineSeconds").as_i64();
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
        let why = "must be greater than minReadySeconds";
        v.invalid("progressDeadlineSeconds", deadline, why);
    }
}

/// Indexed Jobs name the number of their Pods; only they have limits for single indexes.
fn job_modes(v: &mut Visit<'_>) {
    let number = |field: &str| v.get(field).as_i64();
    let (completions, failed) = (number("completions"), number("maxFailedIndexes"));
    let (parallelism, per_index) = (number("parallelism"), number("backoffLimitPerIndex"));
    if failed.is_some() && per_index.is_none() {
        v.required("backoffLimitPerIndex", "when maxFailedIndexes is specified");
    }
    match v.get("completionMode").as_str() {
        Some("Indexed") => {
            if completions.is_none() {
                v.required("completions", "when completion mode is Indexed");
            }
            if let Some(parallelism) = parallelism.filter(|pods| *pods > PARALLELISM_MAX) {
                let why = format!(
                    "must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed"
                );
                v.invalid("parallelism", parallelism, &why);
            }
            if let Some(failed) =
                failed.filter(|failed| completions.is_some_and(|all| *failed > all))
            {
                let why = "must be less than or equal to completions";
                v.invalid("maxFailedIndexes", failed, why);
            }
        }
        Some("NonIndexed") | None => {
            for (field, value) in [
                ("backoffLimitPerIndex", per_index),
                ("maxFailedIndexes", failed),
            ] {
                if let Some(value) = value {
                    v.invalid(field, value, "requires indexed completion mode");
                }
            }
        }
        Some(other) => v.unsupported("completionMode", other, &["NonIndexed", "Indexed"]),
    }
}

/// The Pods of a Job have to end, so they are not always restarted.
fn job_restart(v: &mut Visit<'_>) {
    let path = "template.spec.restartPolicy";
    match text(&v.get("template")["spec"], "restartPolicy") {
        "Never" => {}
        "OnFailure" => {
            if !v.get("podFailurePolicy").is_null() {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                v.invalid(path, "OnFailure", why);
            }
        }
        "" | "Always" => v.required(path, "valid values: \"OnFailure\", \"Never\""),
        other => v.unsupported(path, other, &["OnFailure", "Never"]),
    }
}

/// A Job finds its Pods. The Jobs of a CronJob get their selectors later.
fn job_selector(v: &mut Visit<'_>) {
    if v.parent("CronJobSpec").is_some() {
        return;
    }
    if v.get("selector").is_null() {
        v.required("selector", "");
    }
    v.each("selector");
    if is_usable(v.get("selector")) {
        mismatch(v);
    }
}

/// The Pods of an indexed Job have host names with their index.
fn job_name(v: &mut Visit<'_>) {
    let spec = v.get("spec");
    let completions = spec["completions"].as_i64().filter(|count| *count > 0);
    if let (Some(count), None, true) = (completions, v.old, spec["completionMode"] == "Indexed") {
        let name = metadata::text(v.new, "name");
        let host = format!("{name}-{}", count - 1);
        if !label(&host).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            v.invalid("metadata.name", name, &why);
        }
    }
}

fn failure_rule(v: &mut Visit<'_>) {
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    let action = v.get("action").as_str().unwrap_or_default();
    let spec = v.parent("JobSpec");
    match action {
        "" => v.required(
            "action",
            "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
        ),
        "FailIndex" => {
            if spec.is_some_and(|spec| !spec.contains_key("backoffLimitPerIndex")) {
                let why = "requires the backoffLimitPerIndex to be set";
                v.invalid("action", action, why);
            }
        }
        other => {
            if !actions.contains(&other) {
                v.unsupported("action", other, &actions);
            }
        }
    }
    v.each("onExitCodes");
    v.each("onPodConditions");
    let has_codes = !v.get("onExitCodes").is_null();
    let has_conditions = !list(v.get("onPodConditions")).is_empty();
    let why = match (has_codes, has_conditions) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    v.contradictory("", why);
}

fn exit_codes(v: &mut Visit<'_>) {
    let operator = v.get("operator").as_str().unwrap_or_default();
    match operator {
        "In" | "NotIn" => {}
        "" => v.required("operator", "valid values: [\"In\" \"NotIn\"]"),
        other => v.unsupported("operator", other, &["In", "NotIn"]),
    }
    let values = list(v.get("values"));
    let template = v.parent("JobSpec").and_then(|spec| spec.get("template"));
    let is_known = |name: &str| {
        let spec = template.map_or(super::ABSENT, |template| &template["spec"]);
        let mut all = list(&spec["containers"])
            .iter()
            .chain(list(&spec["initContainers"]));
        all.any(|container| text(container, "name") == name)
    };
    if let Some(name) = v
        .get("containerName")
        .as_str()
        .filter(|name| !is_known(name))
    {
        let why = "must be one of the container or initContainer names in the pod template";
        v.invalid("containerName", name, why);
    }
    if values.is_empty() {
        v.invalid("values", super::ABSENT, "at least one value is required");
    }
    for (at, value) in values.iter().enumerate() {
        let path = format!("values[{at}]");
        if operator == "In" && value == 0 {
            v.invalid(&path, 0, "must not be 0 for the In operator");
        }
        if values[..at].contains(value) {
            v.duplicate_value(&path, value);
        }
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        v.invalid("values", values, "must be ordered");
    }
}

fn success_policy(v: &mut Visit<'_>) {
    let policy = v.get("successPolicy");
    if policy.is_null() {
        return;
    }
    if v.get("completionMode") != "Indexed" {
        return v.invalid_struct("successPolicy", "requires indexed completion mode");
    }
    if list(&policy["rules"]).is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        v.required("successPolicy.rules", why);
    }
}

fn cron_schedule(v: &mut Visit<'_>) {
    let found = cronjob::timing_faults(v.new, v.old);
    v.causes.extend(found);
}

fn cron_template(v: &mut Visit<'_>) {
    let found = cronjob::selector_faults(v.new);
    v.causes.extend(found);
    v.each("jobTemplate");
}

fn cron_name(v: &mut Visit<'_>) {
    let found = cronjob::name_fault(v.new, v.old);
    v.causes.extend(found);
}

fn revision_data(v: &mut Visit<'_>) {
    if v.old.is_some() {
        return;
    }
    match v.get("data") {
        Value::Null => v.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => v.required("data", "data must be a valid JSON object"),
    }
}
