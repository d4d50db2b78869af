//! Simulated workloads: the output of `crds`, and Jobs that finish.

use serde_json::json;

use crate::http::HttpClient;
use crate::process::{TestDirectories, TestProcess, UpProcess};
use crate::session::KubectlSession;

const JOBS: &str = "apiVersion: batch/v1
kind: Job
metadata: {name: plain}
spec: {completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang}
spec:
  minAvailable: 2
  tasks: [{name: t, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]
";

#[test]
fn crds_prints_volcanos_kinds() {
    let ended = TestDirectories::new().caretaker(&["crds"]).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let names = ended
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  name: "));
    let expected = [
        "jobs.batch.volcano.sh",
        "cronjobs.batch.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        "queues.scheduling.volcano.sh",
        "commands.bus.volcano.sh",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn simulated_jobs_finish() {
    let Some(session) = KubectlSession::start_with(&["--simulate-workloads", "--clock-speed=20"])
    else {
        return;
    };
    assert!(
        session
            .ok("get queues.scheduling.volcano.sh")
            .contains("default")
    );
    session.with_file("apply", JOBS);
    session.ok("wait --for=condition=complete job/plain --timeout=30s");
    assert_eq!(session.field("job/plain", ".status.succeeded"), "2");
    session.ok("wait --for=jsonpath={.status.state.phase}=Completed vcjob/gang --timeout=30s");
    let pods = session.ok("get pods -o name");
    assert_eq!(pods.lines().count(), 4, "{pods}");
    let said = session.stop().stderr;
    assert!(said.contains("no container runs"), "{said}");
}

/// Watches a type: event type, name and resourceVersion of each object.
fn watch(session: &KubectlSession, of: &str) -> TestProcess {
    let form = r#"jsonpath={.type}{" "}{.object.metadata.name}{" "}{.object.metadata.resourceVersion}{"\n"}"#;
    session.spawn(&format!("get {of} -w --output-watch-events -o"), &[form])
}

/// The resourceVersion of a deletion.
fn gone(watched: &mut TestProcess, name: &str) -> u64 {
    let line = watched.line_with(&format!("DELETED {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn jobs_are_deleted_after_their_ttl_and_their_pods_first() {
    let Some(session) = KubectlSession::start_with(&["--simulate-workloads", "--clock-speed=20"])
    else {
        return;
    };
    let [mut pods, mut plain, mut gang] =
        ["pods", "jobs.batch", "jobs.batch.volcano.sh"].map(|of| watch(&session, of));
    let jobs = JOBS.replace("{completions", "{ttlSecondsAfterFinished: 5, completions");
    let jobs = jobs.replace(
        "  minAvailable",
        "  ttlSecondsAfterFinished: 5\n  minAvailable",
    );
    assert_eq!(jobs.matches("ttlSecondsAfterFinished").count(), 2, "{jobs}");
    session.with_file("apply", &jobs);
    // Two Pods of each Job; resourceVersions show the order.
    let mut before: Vec<(String, u64)> = Vec::new();
    while before.len() < 4 {
        let line = pods.line_with("DELETED ");
        let words: Vec<&str> = line.split(' ').collect();
        before.push((words[1].to_owned(), words[2].parse().unwrap()));
    }
    for (watched, name) in [(&mut plain, "plain"), (&mut gang, "gang")] {
        let job = gone(watched, name);
        let its: Vec<&(String, u64)> = before
            .iter()
            .filter(|(pod, _)| pod.starts_with(&format!("{name}-")))
            .collect();
        assert_eq!(its.len(), 2, "{before:?}");
        assert!(
            its.iter().all(|(_, pod)| *pod < job),
            "{before:?} {name} {job}"
        );
    }
    assert_eq!(session.ok("get pods,jobs.batch,vcjob -o name"), "");
    let said = session.stop().stderr;
    for name in ["plain", "gang"] {
        let text = format!("deleted Job default/{name} (TTL expired) in ");
        assert!(said.contains(&text), "{said}");
    }
}

#[test]
fn workloads_are_not_simulated_by_default() {
    let Some(session) = KubectlSession::start_with(&["--controllers=-*"]) else {
        return;
    };
    assert_eq!(session.ok("get nodes,crds -o name"), "");
    assert_eq!(session.stop().stderr, "");
}

#[test]
fn aborted_volcano_jobs_are_deleted_with_ttl_after_aborted() {
    let up = UpProcess::start(&["--ttl-after-aborted=0s"]);
    let client = HttpClient::of(&up.kubeconfig());
    let jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs";
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang"},
        "spec": {"minAvailable": 1}});
    let mut job = client.create(jobs, &job);
    let state = json!({"phase": "Aborted", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    job["status"] = json!({ "state": state });
    client.put(&format!("{jobs}/gang/status"), &job);
    let revision = job["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{jobs}?watch=true&resourceVersion={revision}&timeoutSeconds=60");
    let mut lines = client.watch(&watch);
    assert!(
        lines.any(|line| line.unwrap().contains(r#""type":"DELETED""#)),
        "it was there for a minute"
    );
    up.stop();
}
