//! Manual Jobs, and when they are refused.

use serde_json::json;

use super::*;

fn mk_cron_job(template: &Value) -> Value {
    json!({"metadata": {"name": "report", "namespace": "shop", "uid": "u1", "labels": {"own": "1"}},
        "spec": {"schedule": "@daily", "jobTemplate": template},
        "status": {"active": [{"name": "report-1"}, {"name": "report-2"}]}})
}

fn mk_job(name: &str, owner: &Value, status: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [owner]}, "status": status})
}

#[test]
fn a_manual_job_has_the_template_an_annotation_and_an_owner() {
    let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "name": "x", "finalizers": ["e/f"]},
        "spec": {"parallelism": 2}});
    for kind in &KINDS {
        let job = job(kind, &mk_cron_job(&template), "report-mbcdfghj");
        let expected = json!({"apiVersion": kind.dialect.api_version, "kind": "Job",
            "metadata": {"name": "report-mbcdfghj", "namespace": "shop", "labels": {"a": "b"},
                "annotations": {"c": "d", "cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [{"apiVersion": kind.dialect.api_version, "kind": "CronJob", "name": "report",
                    "uid": "u1", "controller": true}]},
            "spec": {"parallelism": 2}});
        assert_eq!(job, expected);
    }
    let bare = job(&KINDS[0], &mk_cron_job(&json!({"spec": {}})), "a");
    let expected = json!({"cronjob.kubernetes.io/instantiate": "manual"});
    assert_eq!(bare["metadata"]["annotations"], expected);
}

#[test]
fn a_manual_name_is_as_long_as_a_scheduled_one() {
    let mut rng = Rng::seeded(1);
    for _ in 0..100 {
        let name = job_name("report", &mut rng);
        let suffix = name.strip_prefix("report-m").unwrap();
        assert_eq!(suffix.len(), 7, "{name}");
        let mut bytes = suffix.bytes();
        assert!(
            bytes.all(|byte| names::SUFFIX_ALPHABET.contains(&byte)),
            "{name}"
        );
    }
}

#[test]
fn only_unfinished_jobs_of_the_cron_job_are_active() {
    let ours = json!({"uid": "u1", "controller": true});
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let jobs = [
        mk_job("runs", &ours, &json!({})),
        mk_job("done", &ours, &complete),
        mk_job(
            "before",
            &json!({"uid": "u0", "controller": true}),
            &json!({}),
        ),
        mk_job("uncontrolled", &json!({"uid": "u1"}), &json!({})),
        json!({"metadata": {"name": "free"}}),
    ];
    let cron_job = mk_cron_job(&json!({}));
    assert_eq!(unfinished(&KINDS[0], &cron_job, &jobs), ["runs"]);
    assert_eq!(active_in_status(&cron_job), ["report-1", "report-2"]);
    assert!(active_in_status(&json!({})).is_empty());
}

#[test]
fn the_error_names_up_to_three_active_jobs() {
    let names = |count: usize| (1..=count).map(|n| format!("j{n}")).collect::<Vec<_>>();
    let end = "active; use --force to run it anyway";
    for (count, expected) in [
        (1, "j1 is"),
        (3, "j1, j2, j3 are"),
        (5, "j1, j2, j3 and 2 more are"),
    ] {
        let message = forbidden("cronjob/a", &names(count));
        let expected = format!("cronjob/a has concurrencyPolicy Forbid, and {expected} {end}");
        assert_eq!(message, expected);
    }
}

#[test]
fn a_name_without_a_kind_means_both_kinds() {
    let found = |word| {
        let kinds = kinds_of(word).ok()?;
        Some(kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>())
    };
    assert_eq!(found(None), Some(vec!["cronjob", "cronvcjob"]));
    for (word, expected) in [
        ("cj", Some("cronjob")),
        ("cronjobs.batch", Some("cronjob")),
        ("cronvcjob", Some("cronvcjob")),
        ("cronjobs.batch.volcano.sh", Some("cronvcjob")),
        ("job", None),
    ] {
        assert_eq!(found(Some(word)), expected.map(|word| vec![word]), "{word}");
    }
}
