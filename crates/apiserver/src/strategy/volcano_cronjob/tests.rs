//! Tables of the rules of `batch.volcano.sh`, named after Volcano's tests where there are any.

use serde_json::json;

use super::super::cronjob::tests::{mk_tree, shown, with};
use super::*;

fn mk_volcano(name: &str, spec: &Value) -> ObjectTree {
    let task =
        json!({"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
    let whole = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"tasks": [task]}}});
    mk_tree(json!({"metadata": {"name": name}, "spec": with(whole, spec)}))
}

/// The cases of Volcano's `TestValidateCronJobSpec`.
#[test]
fn volcano_validate_cron_job_spec() {
    let tz =
        "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field";
    let local = "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones";
    let empty_zone = "timeZone must be nil or non-empty string, got empty string";
    let required = "schedule is required, but got empty";
    let invalid = "schedule is not a valid cron expression";
    let minute = "* * * * *";
    let cases: [(&str, Option<&str>, &[&str]); 13] = [
        (minute, None, &[]),
        ("@every 1m", None, &[]),
        ("*/5 * * * *", Some("Pacific/Honolulu"), &[]),
        ("TZ=UTC 0 20 * * *", Some("Pacific/Honolulu"), &[tz]),
        ("error schedule", None, &[invalid]),
        ("", None, &[required]),
        (minute, Some("Asia/./Shanghai"), &["unknown timeZone"]),
        (minute, Some("America/-NewYork"), &["unknown timeZone"]),
        (minute, Some("New York"), &["unknown timeZone"]),
        (minute, Some("UTC!"), &["unknown timeZone"]),
        (minute, Some("Local"), &[local]),
        ("", Some(""), &[required, empty_zone]),
        (minute, Some("Amerrica/New_York"), &["invalid timeZone"]),
    ];
    for (schedule, zone, expected) in cases {
        let mut spec = json!({"schedule": schedule});
        if let Some(zone) = zone {
            spec["timeZone"] = zone.into();
        }
        let found = faults(&mk_volcano("a", &spec));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (cause, expected) in found.iter().zip(expected) {
            assert!(cause.message.contains(expected), "{spec}: {cause:?}");
        }
    }
}

/// `TestValidateCronJobName`, and both kinds of faults in one object, spec first.
#[test]
fn volcano_validate_cron_job_name() {
    let too_long = "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)";
    let cases = [
        ("my-cronjob".to_owned(), None),
        ("a".repeat(50), None),
        ("a".repeat(65), Some(too_long)),
        (
            "-UPPERCASE".to_owned(),
            Some("invalid cronJob name \"-UPPERCASE\": "),
        ),
    ];
    for (name, expected) in cases {
        let found = faults(&mk_volcano(&name, &json!({})));
        let about = found.iter().find(|cause| cause.field == "metadata.name");
        assert_eq!(about.is_some(), expected.is_some(), "{found:?}");
        if let (Some(about), Some(expected)) = (about, expected) {
            assert!(about.message.contains(expected), "{about:?}");
        }
    }
    // 52 characters pass; here a task has to fit behind them too.
    let found = faults(&mk_volcano(&"a".repeat(52), &json!({})));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].field, "spec.jobTemplate.spec.tasks[0].name");
    let both = faults(&mk_volcano(&"a".repeat(53), &json!({"schedule": "x"})));
    let fields: Vec<&str> = both.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields[..2], ["spec.schedule", "metadata.name"]);
}

#[test]
fn names_of_cron_job_and_task_have_at_most_51_characters() {
    let task = |name: &str| json!({"name": name, "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
    let found = |cron_job: usize, tasks: Vec<Value>| {
        let spec = json!({"jobTemplate": {"spec": {"tasks": tasks}}});
        faults(&mk_volcano(&"a".repeat(cron_job), &spec))
    };
    assert!(found(40, vec![task(&"t".repeat(11))]).is_empty());
    let long = found(40, vec![task(&"t".repeat(12))]);
    assert_eq!(
        shown(&long),
        [
            "spec.jobTemplate.spec.tasks[0].name: Invalid value: \"tttttttttttt\": names of its Pods would be too long: CronJob and task may have 51 characters together"
        ]
    );
    // The eleventh task has an index of two digits, and one without a name is called `default10`.
    let mut tasks: Vec<Value> = (0..10).map(|index| task(&format!("t{index}"))).collect();
    tasks.push(json!({"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}));
    assert!(found(41, tasks.clone()).is_empty());
    assert_eq!(
        found(42, tasks)[0].field,
        "spec.jobTemplate.spec.tasks[10].name"
    );
}

#[test]
fn refuses_templates_that_make_no_valid_job() {
    let task = |name: &str, more: Value| {
        let plain = json!({"name": name, "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
        with(plain, &more)
    };
    let after = |name: &str| json!({"dependsOn": {"name": [name]}});
    let cases = [
        (
            json!({"tasks": null}),
            "tasks: Required value: a Job needs at least one task",
        ),
        (
            json!({"tasks": [task("a", json!({})), task("a", json!({}))]}),
            "tasks[1].name: Invalid value: \"a\": another task has this name",
        ),
        (
            json!({"tasks": [task("a", json!({"minAvailable": 2}))]}),
            "tasks[0].minAvailable: Invalid value: 2: must not be greater than the task's replicas",
        ),
        (
            json!({"minAvailable": 2, "tasks": [task("a", json!({}))]}),
            "minAvailable: Invalid value: 2: must not be greater than the replicas of all tasks",
        ),
        (
            json!({"tasks": [task("a", json!({"template": null}))]}),
            "tasks[0].template.spec.containers: Required value",
        ),
        (
            json!({"tasks": [task("a", after("b"))]}),
            "tasks[0].dependsOn.name: Invalid value: \"b\": no task has this name",
        ),
        (
            json!({"tasks": [task("a", after("b")), task("b", after("a")), task("c", json!({}))]}),
            "tasks: Forbidden: tasks that depend on each other never start",
        ),
        (
            json!({"plugins": {"svc": [], "magic": []}}),
            "plugins: Unsupported value: \"magic\": supported values: \"env\", \"hcclrank\", \"mpi\", \"pytorch\", \"ray\", \"ssh\", \"svc\", \"tensorflow\"",
        ),
        (
            json!({"volumes": [{"mountPath": "/a"}]}),
            "volumes[0].volumeClaim: Required value: volumeClaim or volumeClaimName is needed",
        ),
        (
            json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {}}]}),
            "volumes[0].volumeClaim: Forbidden: not together with volumeClaimName",
        ),
        (
            json!({"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}]}),
            "volumes[1].mountPath: Invalid value: \"/a\": another volume is mounted there",
        ),
    ];
    for (job, expected) in cases {
        let spec = json!({"jobTemplate": {"spec": job}});
        let found = faults(&mk_volcano("a", &spec));
        assert_eq!(
            shown(&found),
            [format!("spec.jobTemplate.spec.{expected}")],
            "{spec}"
        );
    }
    let chain =
        json!({"jobTemplate": {"spec": {"tasks": [task("a", after("b")), task("b", json!({}))]}}});
    assert!(faults(&mk_volcano("a", &chain)).is_empty());
}

#[test]
fn checks_tens_of_thousands_of_tasks_fast() {
    let tasks: Vec<Value> = (0..30_000)
        .map(|index| json!({"name": format!("t{index}"), "dependsOn": {"name": [format!("t{}", index + 1)]}}))
        .collect();
    let spec = json!({"jobTemplate": {"spec": {"tasks": tasks}}});
    assert_eq!(faults(&mk_volcano("a", &spec)).len(), 100);
}

#[test]
fn sum_of_replicas_does_not_overflow() {
    let task = |name: &str, replicas: i64| {
        json!({"name": name, "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "c"}]}}})
    };
    for (replicas, is_enough) in [(i64::MAX, true), (i64::MIN, false)] {
        let job =
            json!({"minAvailable": 3, "tasks": [task("a", replicas), task("b", 1), task("c", -1)]});
        let spec = json!({"jobTemplate": {"spec": job}});
        let causes = faults(&mk_volcano("a", &spec));
        let place = "spec.jobTemplate.spec.minAvailable";
        let is_refused = causes.iter().any(|cause| cause.field == place);
        assert_eq!(is_refused, !is_enough, "{spec}: {causes:?}");
    }
}

#[test]
fn refuses_values_of_wrong_types() {
    let shapes = [
        json!({}),
        json!({"spec": 5}),
        json!({"spec": {"jobTemplate": []}, "metadata": null}),
    ];
    for shape in shapes {
        assert!(!faults(&mk_tree(shape.clone())).is_empty(), "{shape}");
    }
}
