//! Simulated workloads from outside: what `crds` prints, and Jobs that end under the eyes of kubectl.

use serde_json::json;

use crate::http::Client;
use crate::kubectl::Session;
use crate::process::{Up, World};

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
    let ended = World::new().caretaker(&["crds"]).end();
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
fn jobs_end_and_are_said_to_be_simulated() {
    let Some(session) = Session::start_with(&["--simulate-workloads", "--clock-speed=20"]) else {
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

#[test]
fn nothing_is_simulated_unless_asked_for() {
    let Some(session) = Session::start_with(&["--controllers=-*"]) else {
        return;
    };
    assert_eq!(session.ok("get nodes,crds -o name"), "");
    assert_eq!(session.stop().stderr, "");
}

#[test]
fn aborted_volcano_jobs_go_if_somebody_says_when() {
    let up = Up::start(&["--ttl-after-aborted=0s"]);
    let client = Client::of(&up.kubeconfig());
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
