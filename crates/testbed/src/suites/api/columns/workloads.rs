//! Jobs, CronJobs and what keeps Pods running: counts, durations, templates and selectors.

use super::*;

/// Two containers, for the columns that name them.
fn containers() -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "example.com/j:1"}]}}}})
}

fn replicas(number: u8) -> Value {
    json!({"spec": {"replicas": number}})
}

fn counted(object: Value, status: Value) -> Value {
    with(object, Value::from_iter([("status", status)]))
}

fn job(name: &str, spec: Value, status: Value) -> Value {
    with(
        mk_job(name),
        Value::from_iter([("spec", spec), ("status", status)]),
    )
}

/// Conditions; they change later than any Job here starts.
fn conditions(all: &[(&str, &str)]) -> Value {
    let one = |(of, status): &(&str, &str)| json!({"type": of, "status": status, "lastProbeTime": EARLIER, "lastTransitionTime": "2999-01-01T00:03:00Z"});
    all.iter().map(one).collect()
}

fn complete() -> Value {
    json!({"startTime": EARLIER, "completionTime": "2025-06-01T00:02:05Z", "succeeded": 1,
        "conditions": conditions(&[("SuccessCriteriaMet", "True"), ("Complete", "True")])})
}

fn failed() -> Value {
    json!({"startTime": LATER, "failed": 1,
        "conditions": conditions(&[("FailureTarget", "True"), ("Failed", "True")])})
}

pub(super) async fn columns_of_jobs_of_all_states(s: &mut Session) {
    nothing(s, &JOBS).await;
    let suspended = conditions(&[("Suspended", "True")]);
    let own = json!({"manualSelector": true, "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}}});
    let objects = [
        mk_job("a-new"),
        job(
            "b-runs",
            json!({"completions": 3, "parallelism": 2}),
            json!({"startTime": LATER, "active": 1, "succeeded": 2}),
        ),
        job("c-queue", json!({"parallelism": 3}), json!({})),
        job("d-queue-of-one", json!({"parallelism": 1}), json!({})),
        job("e-stopped", json!({"parallelism": 0}), json!({})),
        job(
            "f-suspended",
            json!({"suspend": true}),
            json!({"conditions": suspended}),
        ),
        job("g-to-be-suspended", json!({"suspend": true}), json!({})),
        job(
            "h-resumed",
            json!({}),
            json!({"startTime": LATER, "conditions": conditions(&[("Suspended", "False")])}),
        ),
        job("i-complete", json!({}), complete()),
        job("j-failed", json!({}), failed()),
        job(
            "k-fails",
            json!({}),
            json!({"startTime": LATER, "conditions": conditions(&[("FailureTarget", "True")])}),
        ),
        job(
            "l-succeeds",
            json!({}),
            json!({"startTime": LATER, "succeeded": 1, "conditions": conditions(&[("SuccessCriteriaMet", "True")])}),
        ),
        deleted(mk_job("m-terminates")),
        deleted(job("n-complete-deleted", json!({}), complete())),
        deleted(job("o-failed-deleted", json!({}), failed())),
        deleted(job(
            "p-suspended-deleted",
            json!({"suspend": true}),
            json!({"conditions": suspended}),
        )),
        deleted(job(
            "q-fails-deleted",
            json!({}),
            json!({"startTime": LATER, "conditions": conditions(&[("FailureTarget", "True")])}),
        )),
        with(job("r-own-selector", own, json!({})), containers()),
    ];
    shown(s, &JOBS, objects).await;
}

pub(super) async fn columns_of_jobs_in_a_watch(s: &mut Session) {
    let mut watch = watching(s, &JOBS, "").await;
    s.take(&mut watch, 1).await;
    given(s, &JOBS, job("a", json!({}), complete())).await;
    s.take(&mut watch, 2).await;
}

pub(super) async fn columns_of_cron_jobs(s: &mut Session) {
    nothing(s, &CRON_JOBS).await;
    let zoned = json!({"spec": {"timeZone": "Etc/UTC", "suspend": true, "schedule": "@daily"}});
    let job = |name: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": s.ns()});
    let status = json!({"lastScheduleTime": EARLIER, "active": [job("x"), job("y")]});
    let template = json!({"spec": {"jobTemplate": containers()}});
    let objects = [
        mk_cron_job("a-new"),
        with(mk_cron_job("b-suspended"), zoned),
        counted(mk_cron_job("c-active"), status),
        with(mk_cron_job("d-containers"), template),
    ];
    shown(s, &CRON_JOBS, objects).await;
}

/// Selectors of every form; the template has the labels that they want.
fn expressions() -> Value {
    let wanted = json!([
        {"key": "tier", "operator": "In", "values": ["y", "x"]},
        {"key": "zone", "operator": "In", "values": ["z"]},
        {"key": "bad", "operator": "NotIn", "values": ["b", "a"]},
        {"key": "app", "operator": "Exists"},
        {"key": "gone", "operator": "DoesNotExist"},
    ]);
    let labels = json!({"app": "a", "tier": "x", "zone": "z", "Upper": "u"});
    json!({"spec": {"selector": {"matchLabels": {"Upper": "u", "app": "a"}, "matchExpressions": wanted},
        "template": {"metadata": {"labels": labels}}}})
}

pub(super) async fn columns_of_replica_sets(s: &mut Session) {
    nothing(s, &REPLICA_SETS).await;
    let set = |name: &str| mk_workload("ReplicaSet", name);
    let objects = [
        set("a-new"),
        counted(
            with(set("b-ready"), replicas(3)),
            json!({"replicas": 2, "readyReplicas": 1}),
        ),
        with(set("c-containers"), containers()),
        with(set("d-expressions"), expressions()),
        with(set("e-none"), replicas(0)),
    ];
    shown(s, &REPLICA_SETS, objects).await;
}

pub(super) async fn columns_of_deployments(s: &mut Session) {
    nothing(s, &DEPLOYMENTS).await;
    let counts = json!({"replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 1, "unavailableReplicas": 3});
    let objects = [
        mk_deployment("a-new"),
        counted(with(mk_deployment("b-ready"), replicas(3)), counts),
        with(mk_deployment("c-containers"), containers()),
        with(mk_deployment("d-expressions"), expressions()),
    ];
    shown(s, &DEPLOYMENTS, objects).await;
}

pub(super) async fn columns_of_stateful_sets(s: &mut Session) {
    nothing(s, &STATEFUL_SETS).await;
    let set = |name: &str| {
        with(
            mk_workload("StatefulSet", name),
            json!({"spec": {"serviceName": "x"}}),
        )
    };
    let objects = [
        set("a-new"),
        counted(
            with(set("b-ready"), replicas(3)),
            json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 0}),
        ),
        with(set("c-containers"), containers()),
    ];
    shown(s, &STATEFUL_SETS, objects).await;
}

pub(super) async fn columns_of_daemon_sets(s: &mut Session) {
    nothing(s, &DAEMON_SETS).await;
    let set = |name: &str| mk_workload("DaemonSet", name);
    let counts = json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2,
        "numberAvailable": 1, "numberMisscheduled": 7});
    let nodes =
        json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "z", "disk": "ssd"}}}}});
    let objects = [
        set("a-new"),
        counted(set("b-ready"), counts),
        with(with(set("c-containers"), containers()), nodes),
        with(set("d-expressions"), expressions()),
    ];
    shown(s, &DAEMON_SETS, objects).await;
}

pub(super) async fn columns_of_replication_controllers(s: &mut Session) {
    nothing(s, &REPLICATION_CONTROLLERS).await;
    let labels = json!({"app": "a", "Tier": "x"});
    let template = json!({"metadata": {"labels": labels}, "spec": mk_pod_spec()});
    let set = |name: &str| {
        with(
            mk_object("v1", "ReplicationController", name),
            json!({"spec": {"selector": labels, "template": template}}),
        )
    };
    let objects = [
        set("a-new"),
        counted(
            with(set("b-ready"), replicas(3)),
            json!({"replicas": 2, "readyReplicas": 1}),
        ),
        with(set("c-containers"), containers()),
        with(
            set("d-label"),
            json!({"spec": {"selector": {"Tier": null}}}),
        ),
    ];
    shown(s, &REPLICATION_CONTROLLERS, objects).await;
}
