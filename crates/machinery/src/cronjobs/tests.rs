//! Tables of the rules. Those of `batch/v1` say what the real server said; those of Volcano are named after its tests.

use serde_json::json;

use super::*;

fn mk_tree(value: Value) -> Tree {
    let Value::Object(tree) = value else {
        panic!("{value} is no object");
    };
    tree
}

/// A value with some members replaced; null takes one away.
fn with(mut value: Value, changes: &Value) -> Value {
    let Value::Object(changes) = changes else {
        return changes.clone();
    };
    if !value.is_object() {
        value = json!({});
    }
    for (name, change) in changes {
        if change.is_null() {
            value.as_object_mut().unwrap().remove(name);
        } else {
            value[name] = with(value[name].take(), change);
        }
    }
    value
}

fn mk_batch(spec: &Value) -> Tree {
    let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c"}]});
    let job = json!({"spec": {"template": {"spec": pods}}});
    let whole = json!({"schedule": "* * * * *", "jobTemplate": job});
    mk_tree(json!({"metadata": {"name": "a"}, "spec": with(whole, spec)}))
}

fn mk_volcano(name: &str, spec: &Value) -> Tree {
    let task =
        json!({"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
    let whole = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"tasks": [task]}}});
    mk_tree(json!({"metadata": {"name": name}, "spec": with(whole, spec)}))
}

fn shown(causes: &[Cause]) -> Vec<String> {
    let lines = causes.iter();
    lines
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

const TZ: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";

#[test]
fn schedules_and_zones_of_batch_are_judged_as_by_kubernetes() {
    let place =
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    let schedule = |text: &str| json!({"schedule": text});
    let zone = |text: &str| json!({"timeZone": text});
    let cases: [(Value, Vec<String>); 14] = [
        (schedule("@every 1m"), vec![]),
        (schedule("0 0 31 2 *"), vec![]),
        (schedule("1,,2 +5 * * *"), vec![]),
        (
            schedule(""),
            vec!["spec.schedule: Required value".to_owned()],
        ),
        (
            json!({"schedule": null}),
            vec!["spec.schedule: Required value".to_owned()],
        ),
        (
            schedule("TZ=UTC 0 20 * * *"),
            vec![format!(
                "spec.schedule: Invalid value: \"TZ=UTC 0 20 * * *\": {TZ}"
            )],
        ),
        (
            json!({"schedule": "CRON_TZ=UTC @daily", "timeZone": "UTC"}),
            vec![format!(
                "spec.schedule: Invalid value: \"CRON_TZ=UTC @daily\": {TZ}"
            )],
        ),
        (zone("Europe/Berlin"), vec![]),
        (zone("Etc/GMT+5"), vec![]),
        (
            zone(""),
            vec![
                "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"
                    .to_owned(),
            ],
        ),
        (
            zone("Local"),
            vec![format!("spec.timeZone: Invalid value: \"Local\": {place}")],
        ),
        (
            zone("LOCAL"),
            vec![
                format!("spec.timeZone: Invalid value: \"LOCAL\": {place}"),
                "spec.timeZone: Invalid value: \"LOCAL\": unknown time zone LOCAL".to_owned(),
            ],
        ),
        (
            zone("europe/berlin"),
            vec![
                "spec.timeZone: Invalid value: \"europe/berlin\": unknown time zone europe/berlin"
                    .to_owned(),
            ],
        ),
        (
            zone("New York"),
            vec![
                "spec.timeZone: Invalid value: \"New York\": unknown time zone New York".to_owned(),
            ],
        ),
    ];
    for (spec, expected) in cases {
        let found = batch::faults(&mk_batch(&spec), None, Vec::new());
        assert_eq!(shown(&found), expected, "{spec}");
    }
}

#[test]
fn a_schedule_that_cannot_be_read_says_what_is_wrong_with_it() {
    for (text, expected) in [
        (
            "x",
            "Invalid value: \"x\": the schedule has 1 field; five are needed",
        ),
        (
            "0 25 * * *",
            "Invalid value: \"0 25 * * *\": hour \"25\": 25 is above 23",
        ),
        (
            "@reboot",
            "Invalid value: \"@reboot\": \"@reboot\" is not known",
        ),
    ] {
        let found = batch::faults(&mk_batch(&json!({"schedule": text})), None, Vec::new());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.starts_with(expected), "{found:?}");
    }
    // robfig/cron panics here.
    let found = batch::faults(&mk_batch(&json!({"schedule": "TZ=0"})), None, Vec::new());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].message.ends_with(TZ));
}

#[test]
fn what_was_allowed_once_may_stay() {
    let old = mk_batch(&json!({"schedule": "TZ=UTC @daily", "timeZone": "Atlantis/Capital"}));
    let cases = [
        (json!({"schedule": "TZ=Asia/Tokyo @daily"}), None),
        (
            json!({"schedule": "@daily", "timeZone": "Atlantis/Capital"}),
            None,
        ),
        (
            json!({"schedule": "TZ=UTC @daily", "timeZone": "UTC"}),
            Some(
                "spec.schedule: Invalid value: \"TZ=UTC @daily\": cannot use both timeZone field and TZ or CRON_TZ in schedule",
            ),
        ),
        (
            json!({"timeZone": "Atlantis/Port"}),
            Some(
                "spec.timeZone: Invalid value: \"Atlantis/Port\": unknown time zone Atlantis/Port",
            ),
        ),
    ];
    for (spec, expected) in cases {
        let mut new = mk_batch(&spec);
        // A name is judged when it is given.
        new["metadata"]["name"] = "a".repeat(60).into();
        let found = batch::faults(&new, Some(&old), Vec::new());
        assert_eq!(
            shown(&found),
            expected.into_iter().collect::<Vec<_>>(),
            "{spec}"
        );
    }
}

#[test]
fn numbers_words_and_the_job_of_batch_are_judged_in_upstreams_order() {
    let spec = json!({"schedule": "", "startingDeadlineSeconds": -1, "timeZone": "", "concurrencyPolicy": "x",
        "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -2,
        "jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": {"restartPolicy": "Always"}}}}});
    let mut object = mk_batch(&spec);
    object["metadata"]["name"] = "a".repeat(53).into();
    let pods = vec![Cause::required(
        "spec.jobTemplate.spec.template.spec.containers",
        "",
    )];
    let found = batch::faults(&object, None, pods);
    let fields: Vec<&str> = found.iter().map(|cause| cause.field.as_str()).collect();
    let expected = [
        "spec.schedule",
        "spec.startingDeadlineSeconds",
        "spec.timeZone",
        "spec.concurrencyPolicy",
        "spec.jobTemplate.spec.parallelism",
        "spec.jobTemplate.spec.template.spec.containers",
        "spec.jobTemplate.spec.template.spec.restartPolicy",
        "spec.successfulJobsHistoryLimit",
        "spec.failedJobsHistoryLimit",
        "metadata.name",
    ];
    assert_eq!(fields, expected);
    assert!(
        found[9]
            .message
            .ends_with("must be no more than 52 characters")
    );
}

#[test]
fn the_template_of_batch_has_nothing_that_only_a_job_can_have() {
    let restart = "template.spec.restartPolicy";
    let cases = [
        (
            json!({"selector": {"matchLabels": {"a": "b"}}}),
            "selector",
            "Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
        ),
        (
            json!({"manualSelector": true}),
            "manualSelector",
            "Unsupported value: true: supported values: \"nil\", \"false\"",
        ),
        (
            json!({"ttlSecondsAfterFinished": -1}),
            "ttlSecondsAfterFinished",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"completionMode": "x"}),
            "completionMode",
            "Unsupported value: \"x\": supported values: \"NonIndexed\", \"Indexed\"",
        ),
        (
            json!({"completionMode": "Indexed"}),
            "completions",
            "Required value: when completion mode is Indexed",
        ),
        (
            json!({"podReplacementPolicy": "x"}),
            "podReplacementPolicy",
            "Unsupported value: \"x\": supported values: \"Failed\", \"TerminatingOrFailed\"",
        ),
        (
            json!({"template": {"spec": {"restartPolicy": null}}}),
            restart,
            "Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            json!({"podFailurePolicy": {"rules": []}, "template": {"spec": {"restartPolicy": "OnFailure"}}}),
            restart,
            "Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
        ),
    ];
    for (job, field, message) in cases {
        let spec = json!({"jobTemplate": {"spec": job}});
        let found = batch::faults(&mk_batch(&spec), None, Vec::new());
        let expected = format!("spec.jobTemplate.spec.{field}: {message}");
        assert_eq!(shown(&found), [expected], "{spec}");
    }
    let maybe =
        json!({"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Maybe"}}}}});
    assert_eq!(batch::faults(&mk_batch(&maybe), None, Vec::new()).len(), 2);
}

/// `TestValidateCronJobSpec`.
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
        let found = volcano::faults(&mk_volcano("a", &spec));
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
        let found = volcano::faults(&mk_volcano(&name, &json!({})));
        let about = found.iter().find(|cause| cause.field == "metadata.name");
        assert_eq!(about.is_some(), expected.is_some(), "{found:?}");
        if let (Some(about), Some(expected)) = (about, expected) {
            assert!(about.message.contains(expected), "{about:?}");
        }
    }
    // 52 characters pass; here a task has to fit behind them too.
    let found = volcano::faults(&mk_volcano(&"a".repeat(52), &json!({})));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].field, "spec.jobTemplate.spec.tasks[0].name");
    let both = volcano::faults(&mk_volcano(&"a".repeat(53), &json!({"schedule": "x"})));
    let fields: Vec<&str> = both.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields[..2], ["spec.schedule", "metadata.name"]);
}

#[test]
fn a_cron_job_and_a_task_of_volcano_have_51_characters_together() {
    let task = |name: &str| json!({"name": name, "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
    let found = |cron_job: usize, tasks: Vec<Value>| {
        let spec = json!({"jobTemplate": {"spec": {"tasks": tasks}}});
        volcano::faults(&mk_volcano(&"a".repeat(cron_job), &spec))
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
fn a_template_of_volcano_that_no_job_could_come_of_is_refused() {
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
        let found = volcano::faults(&mk_volcano("a", &spec));
        assert_eq!(
            shown(&found),
            [format!("spec.jobTemplate.spec.{expected}")],
            "{spec}"
        );
    }
    let chain =
        json!({"jobTemplate": {"spec": {"tasks": [task("a", after("b")), task("b", json!({}))]}}});
    assert!(volcano::faults(&mk_volcano("a", &chain)).is_empty());
}

#[test]
fn tens_of_thousands_of_tasks_are_judged_in_one_go() {
    let tasks: Vec<Value> = (0..30_000)
        .map(|index| json!({"name": format!("t{index}"), "dependsOn": {"name": [format!("t{}", index + 1)]}}))
        .collect();
    let spec = json!({"jobTemplate": {"spec": {"tasks": tasks}}});
    assert_eq!(volcano::faults(&mk_volcano("a", &spec)).len(), 100);
}

#[test]
fn replicas_of_any_size_add_up() {
    let task = |name: &str, replicas: i64| {
        json!({"name": name, "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "c"}]}}})
    };
    for (replicas, is_enough) in [(i64::MAX, true), (i64::MIN, false)] {
        let job =
            json!({"minAvailable": 3, "tasks": [task("a", replicas), task("b", 1), task("c", -1)]});
        let spec = json!({"jobTemplate": {"spec": job}});
        let faults = volcano::faults(&mk_volcano("a", &spec));
        let place = "spec.jobTemplate.spec.minAvailable";
        let is_refused = faults.iter().any(|cause| cause.field == place);
        assert_eq!(is_refused, !is_enough, "{spec}: {faults:?}");
    }
}

#[test]
fn a_deadline_that_nobody_can_keep_is_warned_about() {
    for (deadline, is_told) in [
        (json!(0), true),
        (json!(1), false),
        (json!(null), false),
        (json!(-1), false),
    ] {
        let tree = mk_tree(json!({"spec": {"startingDeadlineSeconds": deadline}}));
        let told = warnings(&tree);
        assert_eq!(!told.is_empty(), is_told, "{deadline}: {told:?}");
    }
    let suspended = mk_tree(json!({"spec": {"startingDeadlineSeconds": 0, "suspend": true}}));
    for tree in [suspended, Tree::new()] {
        assert_eq!(warnings(&tree), Vec::<String>::new());
    }
}

#[test]
fn objects_of_odd_shapes_are_no_trouble() {
    let shapes = [
        json!({}),
        json!({"spec": 5}),
        json!({"spec": {"jobTemplate": []}, "metadata": null}),
    ];
    for shape in shapes {
        let tree = mk_tree(shape);
        assert!(!batch::faults(&tree, Some(&tree), Vec::new()).is_empty());
        assert!(!volcano::faults(&tree).is_empty());
    }
}
