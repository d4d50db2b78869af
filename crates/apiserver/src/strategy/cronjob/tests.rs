//! Tables of the rules of `batch/v1`. The expected causes are those of the real server.

use serde_json::json;

use super::*;

/// Returns why a CronJob is refused.
fn faults(new: &ObjectTree, old: Option<&ObjectTree>) -> Vec<StatusCause> {
    let kinds = crate::kinds::KindTable::builtin();
    crate::checks::faults(&crate::strategy::ObjectChange {
        kind: kinds.by_kind("batch/v1", "CronJob").unwrap(),
        part: crate::strategy::ObjectPart::Main,
        new,
        old,
    })
}

pub(in crate::strategy) fn mk_tree(value: Value) -> ObjectTree {
    let Value::Object(tree) = value else {
        panic!("{value} is no object");
    };
    tree
}

/// Returns the value with some members replaced; null removes one.
pub(in crate::strategy) fn with(mut value: Value, changes: &Value) -> Value {
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

fn mk_batch(spec: &Value) -> ObjectTree {
    let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]});
    let job = json!({"spec": {"template": {"spec": pods}}});
    let whole = json!({"schedule": "* * * * *", "jobTemplate": job});
    mk_tree(json!({"metadata": {"name": "a"}, "spec": with(whole, spec)}))
}

pub(in crate::strategy) fn shown(causes: &[StatusCause]) -> Vec<String> {
    let lines = causes.iter();
    lines
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

const TZ: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";

#[test]
fn checks_schedules_and_zones_as_kubernetes_does() {
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
        let found = faults(&mk_batch(&spec), None);
        assert_eq!(shown(&found), expected, "{spec}");
    }
}

#[test]
fn invalid_schedule_gets_a_reason() {
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
        let found = faults(&mk_batch(&json!({"schedule": text})), None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.starts_with(expected), "{found:?}");
    }
    // robfig/cron panics here.
    let found = faults(&mk_batch(&json!({"schedule": "TZ=0"})), None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].message.ends_with(TZ));
}

#[test]
fn stored_values_stay_valid() {
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
        // A name is checked only at creation.
        new["metadata"]["name"] = "a".repeat(60).into();
        let found = faults(&new, Some(&old));
        assert_eq!(
            shown(&found),
            expected.into_iter().collect::<Vec<_>>(),
            "{spec}"
        );
    }
}

#[test]
fn causes_have_the_order_of_upstream() {
    let spec = json!({"schedule": "", "startingDeadlineSeconds": -1, "timeZone": "", "concurrencyPolicy": "x",
        "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -2,
        "jobTemplate": {"spec": {"parallelism": -1, "template": {"spec": {"restartPolicy": "Always", "containers": null}}}}});
    let mut object = mk_batch(&spec);
    object["metadata"]["name"] = "a".repeat(53).into();
    let found = faults(&object, None);
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
fn template_refuses_fields_of_running_jobs() {
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
        let found = faults(&mk_batch(&spec), None);
        let expected = format!("spec.jobTemplate.spec.{field}: {message}");
        assert_eq!(shown(&found), [expected], "{spec}");
    }
    let maybe =
        json!({"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Maybe"}}}}});
    assert_eq!(faults(&mk_batch(&maybe), None).len(), 2);
}

#[test]
fn warns_about_a_deadline_that_no_job_can_meet() {
    for (deadline, is_warned) in [
        (json!(0), true),
        (json!(1), false),
        (json!(null), false),
        (json!(-1), false),
    ] {
        let tree = mk_tree(json!({"spec": {"startingDeadlineSeconds": deadline}}));
        let warnings = deadline_warnings(None, &tree);
        assert_eq!(!warnings.is_empty(), is_warned, "{deadline}: {warnings:?}");
        assert!(deadline_warnings(Some(&tree), &tree).is_empty());
    }
    let suspended = mk_tree(json!({"spec": {"startingDeadlineSeconds": 0, "suspend": true}}));
    for tree in [suspended, ObjectTree::new()] {
        assert!(deadline_warnings(None, &tree).is_empty());
    }
}

#[test]
fn values_of_wrong_types_do_no_harm() {
    let shapes = [
        json!({}),
        json!({"spec": 5}),
        json!({"spec": {"jobTemplate": []}, "metadata": null}),
    ];
    for shape in shapes {
        let tree = mk_tree(shape);
        // The decoder refuses them.
        assert!(faults(&tree, Some(&tree)).len() < 20, "{tree:?}");
    }
}
