//! Cells of Jobs, CronJobs and other workloads: counts, durations, templates, selectors.
//!
//! Mirrors the printer of kube-apiserver 1.36.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{self, items, labels, text};
use crate::metadata::is_true;

/// The status of a Job as one word: its outcome, or its current state.
pub(super) fn job_status(job: &Value) -> Value {
    let holds = |condition: &str| is_true(&job["status"], condition);
    let deleted = !job["metadata"]["deletionTimestamp"].is_null();
    let words = [
        ("Complete", holds("Complete")),
        ("Failed", holds("Failed")),
        ("Terminating", deleted),
        ("Suspended", holds("Suspended")),
        ("FailureTarget", holds("FailureTarget")),
        ("SuccessCriteriaMet", holds("SuccessCriteriaMet")),
    ];
    let word = words.iter().find(|(_, is_so)| *is_so);
    word.map_or("Running", |(word, _)| word).into()
}

/// Succeeded Pods and the required number.
pub(super) fn completions(job: &Value) -> Value {
    let spec = &job["spec"];
    let succeeded = job["status"]["succeeded"].as_i64().unwrap_or_default();
    let parallel = spec["parallelism"].as_i64().unwrap_or_default();
    match spec["completions"].as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        // A work queue: the Job is complete after one Pod has succeeded.
        None if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        None => format!("{succeeded}/1"),
    }
    .into()
}

/// The run time of a Job.
pub(super) fn duration(job: &Value, now: Timestamp) -> Value {
    let time = |field: &str| text(&job["status"][field]).parse::<Timestamp>().ok();
    match time("startTime") {
        None => "".into(),
        Some(start) => cells::since(start, time("completionTime").unwrap_or(now)).into(),
    }
}

/// Whether a CronJob is suspended: `True` or `False`.
pub(super) fn suspend(cron: &Value) -> Value {
    match cron["spec"]["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    }
    .into()
}

/// The number of active Jobs.
pub(super) fn active(cron: &Value) -> Value {
    items(&cron["status"]["active"]).count().into()
}

/// The age of the last schedule time.
pub(super) fn last_schedule(cron: &Value, now: Timestamp) -> Value {
    match text(&cron["status"]["lastScheduleTime"]) {
        "" => cells::NONE.into(),
        time => cells::age(time, now).into(),
    }
}

/// Ready replicas and the desired number.
pub(super) fn ready(workload: &Value) -> Value {
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let ready = number(&workload["status"]["readyReplicas"]);
    format!("{ready}/{}", number(&workload["spec"]["replicas"])).into()
}

/// One field of every container of a template.
pub(super) fn containers(workload: &Value, field: &str) -> Value {
    let containers = items(&workload["spec"]["template"]["spec"]["containers"]);
    let values: Vec<&str> = containers
        .map(|container| text(&container[field]))
        .collect();
    values.join(",").into()
}

/// The node selector of a template.
pub(super) fn node_selector(workload: &Value) -> Value {
    labels(&workload["spec"]["template"]["spec"]["nodeSelector"]).into()
}

/// The selector of a workload as text.
pub(super) fn selector(workload: &Value) -> Value {
    selected(&workload["spec"]["selector"])
}

/// A selector with its requirements sorted by key.
pub(super) fn selected(selector: &Value) -> Value {
    cells::joined(&requirements(selector)).into()
}

/// The same, but empty for an empty selector.
pub(super) fn plain_selector(workload: &Value) -> Value {
    requirements(&workload["spec"]["selector"]).join(",").into()
}

/// The requirements of a selector, sorted by key.
fn requirements(selector: &Value) -> Vec<String> {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let equal = equal.map(|(key, value)| (key.as_str(), format!("{key}={}", text(value))));
    let others = items(&selector["matchExpressions"]).map(|wanted| {
        let key = text(&wanted["key"]);
        let mut values: Vec<&str> = items(&wanted["values"]).map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match text(&wanted["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, text)
    });
    let mut all: Vec<(&str, String)> = equal.chain(others).collect();
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn job_outcome_precedes_its_current_state() {
        let job = |conditions: &[(&str, &str)], deleted: bool| {
            let conditions = conditions.iter();
            let conditions: Value = conditions
                .map(|(of, status)| json!({"type": of, "status": status}))
                .collect();
            let time = deleted.then_some("2026-01-01T00:00:00Z");
            json!({"metadata": {"deletionTimestamp": time}, "status": {"conditions": conditions}})
        };
        let cases = [
            (job(&[], false), "Running"),
            (job(&[("Suspended", "False")], false), "Running"),
            (job(&[("Suspended", "True")], false), "Suspended"),
            (job(&[("FailureTarget", "True")], false), "FailureTarget"),
            (
                job(&[("SuccessCriteriaMet", "True")], false),
                "SuccessCriteriaMet",
            ),
            (
                job(
                    &[("SuccessCriteriaMet", "True"), ("Complete", "True")],
                    false,
                ),
                "Complete",
            ),
            (
                job(&[("FailureTarget", "True"), ("Failed", "True")], false),
                "Failed",
            ),
            (job(&[], true), "Terminating"),
            (job(&[("Suspended", "True")], true), "Terminating"),
            (job(&[("FailureTarget", "True")], true), "Terminating"),
            (job(&[("Complete", "True")], true), "Complete"),
            (job(&[("Failed", "True")], true), "Failed"),
        ];
        for (job, word) in cases {
            assert_eq!(job_status(&job), word, "{job}");
        }
    }

    #[test]
    fn shows_completions_and_duration() {
        let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T00:02:05Z");
        let cases = [
            (json!({}), ["0/1", ""]),
            (
                json!({"spec": {"parallelism": 3}, "status": {"startTime": start}}),
                ["0/1 of 3", "5m16s"],
            ),
            (
                json!({"spec": {"parallelism": 1}, "status": {"succeeded": 1}}),
                ["1/1", ""],
            ),
            (
                json!({"spec": {"completions": 4, "parallelism": 3}, "status": {"succeeded": 2, "startTime": start, "completionTime": end}}),
                ["2/4", "2m5s"],
            ),
            (
                json!({"spec": {"completions": 0}, "status": {"completionTime": end}}),
                ["0/0", ""],
            ),
        ];
        let now = "2026-01-01T00:05:16Z".parse().unwrap();
        for (job, [done, time]) in cases {
            assert_eq!(completions(&job), done, "{job}");
            assert_eq!(duration(&job, now), time, "{job}");
        }
    }

    #[test]
    fn shows_last_schedule_and_active_jobs() {
        let now = "2026-01-01T00:05:16Z".parse().unwrap();
        let bare = json!({});
        assert_eq!(suspend(&bare), "<unset>");
        assert_eq!(active(&bare), 0);
        assert_eq!(last_schedule(&bare, now), "<none>");
        let busy = json!({"spec": {"suspend": true},
            "status": {"active": [{}, {}], "lastScheduleTime": "2026-01-01T00:05:00Z"}});
        assert_eq!(suspend(&busy), "True");
        assert_eq!(suspend(&json!({"spec": {"suspend": false}})), "False");
        assert_eq!(active(&busy), 2);
        assert_eq!(last_schedule(&busy, now), "16s");
    }

    #[test]
    fn sorts_selectors_by_key_and_values() {
        let cases = [
            (json!(null), "<none>"),
            (json!({}), "<none>"),
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (
                json!({"matchLabels": {"m": "1"}, "matchExpressions": [
                    {"key": "z", "operator": "In", "values": ["y", "x"]},
                    {"key": "n", "operator": "NotIn", "values": ["v"]},
                    {"key": "a", "operator": "Exists"},
                    {"key": "b", "operator": "DoesNotExist"}]}),
                "a,!b,m=1,n notin (v),z in (x,y)",
            ),
        ];
        for (wanted, text) in cases {
            let workload = json!({"spec": {"selector": wanted}});
            assert_eq!(selector(&workload), text);
            assert_eq!(
                plain_selector(&workload),
                text.trim_matches(['<', '>']).replace("none", "")
            );
        }
    }

    #[test]
    fn shows_containers_and_replicas() {
        let template = json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}],
            "nodeSelector": {"z": "1", "disk": "ssd"}}});
        let workload =
            json!({"spec": {"replicas": 3, "template": template}, "status": {"readyReplicas": 2}});
        assert_eq!(containers(&workload, "name"), "a,b");
        assert_eq!(containers(&workload, "image"), "i,j");
        assert_eq!(containers(&json!({}), "name"), "");
        assert_eq!(node_selector(&workload), "disk=ssd,z=1");
        assert_eq!(node_selector(&json!({})), "<none>");
        assert_eq!(ready(&workload), "2/3");
        assert_eq!(ready(&json!({})), "0/0");
    }
}
