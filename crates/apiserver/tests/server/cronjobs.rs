//! Tests of the rules of CronJobs. Those of Volcano apply after the schema of their definition.

use serde_json::{Value, json};

use crate::client::World;

const PATH: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/cronjobs";

/// Starts a server with the definition of Volcano's CronJobs, whose schema requires only a schedule.
async fn world() -> World {
    let world = World::new(1);
    let spec = json!({"type": "object", "required": ["schedule"], "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"schedule": {"type": "string"}}});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let version = json!({"name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cronjobs.batch.volcano.sh"},
        "spec": {"group": "batch.volcano.sh", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "cronjobs", "singular": "cronjob", "kind": "CronJob"}}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.must("POST", path, definition).await;
    world
}

fn mk_cron_job(name: &str, spec: &Value) -> Value {
    let task =
        json!({"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
    let mut whole = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"tasks": [task]}}});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": name}, "spec": whole})
}

#[tokio::test(start_paused = true)]
async fn refuses_volcano_cron_jobs_that_cannot_run() {
    let world = world().await;
    let long = "a".repeat(51);
    let cases = [
        ("a", json!({"schedule": "TZ=UTC @daily"}), "spec.schedule"),
        ("a", json!({"schedule": 5}), "spec.schedule"),
        ("a", json!({"timeZone": "Local"}), "spec.timeZone"),
        (
            "a",
            json!({"jobTemplate": {}}),
            "spec.jobTemplate.spec.tasks",
        ),
        (&long, json!({}), "spec.jobTemplate.spec.tasks[0].name"),
    ];
    for (name, spec, field) in cases {
        let (code, answer) = world.call("POST", PATH, mk_cron_job(name, &spec)).await;
        let causes = answer["details"]["causes"].as_array().unwrap();
        assert_eq!((code, causes.len()), (422, 1), "{answer}");
        assert_eq!(causes[0]["field"], field, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn checks_volcano_cron_jobs_on_every_write_except_status() {
    let world = world().await;
    world.must("POST", PATH, mk_cron_job("a", &json!({}))).await;
    let object = format!("{PATH}/a");
    let bad = json!({"spec": {"schedule": "never"}});
    let (code, answer) = world.call("PATCH", &object, bad.clone()).await;
    assert_eq!(code, 422);
    let message = answer["message"].as_str().unwrap();
    let expected = "CronJob.batch.volcano.sh \"a\" is invalid: spec.schedule: Invalid value: \"never\": schedule is not a valid cron expression: ";
    assert!(message.starts_with(expected), "{message}");
    let status = format!("{object}/status");
    let change =
        json!({"spec": bad["spec"], "status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}});
    let stored = world.must("PATCH", &status, change).await;
    assert_eq!(stored["spec"]["schedule"], "* * * * *");
    assert_eq!(stored["status"]["lastScheduleTime"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn warns_about_cron_jobs_that_can_never_start_a_job() {
    let world = world().await;
    let batch = |name: &str, spec: &Value| {
        let mut cron_job = mk_cron_job(name, spec);
        cron_job["apiVersion"] = "batch/v1".into();
        let pods = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        cron_job["spec"]["jobTemplate"] = json!({"spec": {"template": {"spec": pods}}});
        cron_job
    };
    let warns = async |method: &str, path: &str, body: Value| {
        let form = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let response = world.send(method, path, form, &body.to_string()).await;
        assert!(response.status().is_success(), "{method} {path}");
        let warning = response.headers().get("warning").cloned();
        warning.is_some_and(|text| {
            text.to_str()
                .unwrap()
                .contains("startingDeadlineSeconds: 0")
        })
    };
    let (never, soon) = (
        json!({"startingDeadlineSeconds": 0}),
        json!({"startingDeadlineSeconds": 1}),
    );
    let batch_path = "/apis/batch/v1/namespaces/default/cronjobs";
    for (path, make) in [
        (PATH, &mk_cron_job as &dyn Fn(&str, &Value) -> Value),
        (batch_path, &batch),
    ] {
        assert!(warns("POST", path, make("a", &never)).await, "{path}");
        assert!(!warns("POST", path, make("b", &soon)).await, "{path}");
        let object = format!("{path}/b");
        assert!(
            warns("PATCH", &object, json!({"spec": never})).await,
            "{path}"
        );
        // A write to the status does not concern the author of the spec.
        let status = json!({"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}});
        assert!(
            !warns("PATCH", &format!("{object}/status"), status).await,
            "{path}"
        );
    }
}
