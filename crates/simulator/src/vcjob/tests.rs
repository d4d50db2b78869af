//! The phases of a Volcano Job. The tests store what an API server would store.

use caretaker_controllers::runtime::controller::NextStep;
use serde_json::json;

use super::*;
use crate::annotations::{COUNTERS, END, FOREVER, OUTCOME};
use crate::objects::time;
use crate::tests::{ActorHarness, RequestSummary, START, decided};

fn mk_job(spec: &Value, annotations: &Value) -> Value {
    let mut job = json!({"metadata": {"name": "j", "namespace": "n", "annotations": annotations,
            "creationTimestamp": time(START)},
        "spec": {"queue": "default", "minAvailable": 2, "tasks": [
            {"name": "a", "replicas": 2, "template": {"spec": {"restartPolicy": "Never", "containers": []}}}]}});
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

/// A Job and a minimal API server that stores all requests.
struct VolcanoJobRun {
    harness: ActorHarness<VolcanoJobActor>,
    job: Value,
    group: Option<Value>,
    pods: Vec<Value>,
    asked: Vec<String>,
}

impl VolcanoJobRun {
    fn of(job: Value) -> Self {
        let mut harness = ActorHarness::of(VolcanoJobActor);
        harness.applied(QUEUES, json!({"metadata": {"name": "default"}}));
        harness.applied(JOBS, job.clone());
        Self {
            harness,
            job,
            group: None,
            pods: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn key() -> NamespacedName {
        NamespacedName::new("n", "j")
    }

    /// Executes the decisions until the actor rests or waits, and returns the last one.
    fn go(&mut self, now: Timestamp) -> NextStep<NamespacedName> {
        loop {
            let decision = self.harness.decide(&Self::key(), now);
            let NextStep::Call(_) = &decision.next else {
                return decision.next;
            };
            let asked = decided(&decision);
            self.asked.push(format!("{} {}", asked.verb, asked.name));
            assert!(self.asked.len() < 50, "no end: {:?}", self.asked);
            self.store(asked, now);
        }
    }

    fn store(&mut self, asked: RequestSummary, now: Timestamp) {
        let is_group = asked.name.starts_with("j-uid");
        match asked.verb {
            "create" if is_group => self.show_group(asked.body),
            "create" => {
                let mut pod = asked.body;
                pod["status"] = json!({"phase": "Pending"});
                self.show_pod(pod);
            }
            "delete" if is_group => {
                self.group = None;
                self.harness
                    .deleted(POD_GROUPS, &NamespacedName::new("n", &asked.name));
            }
            "delete" => {
                let mut pod = self
                    .pods
                    .iter()
                    .find(|pod| pod["metadata"]["name"] == *asked.name)
                    .unwrap()
                    .clone();
                pod["metadata"]["deletionTimestamp"] = time(later(now, 30)).into();
                self.show_pod(pod);
            }
            _ if is_group => {
                let mut group = self.group.clone().unwrap();
                merge(&mut group, &asked.body);
                self.show_group(group);
            }
            _ => {
                merge(&mut self.job, &asked.body);
                self.harness.applied(JOBS, self.job.clone());
            }
        }
    }

    fn show_group(&mut self, group: Value) {
        self.group = Some(group.clone());
        self.harness.applied(POD_GROUPS, group);
    }

    fn show_pod(&mut self, pod: Value) {
        self.pods
            .retain(|known| known["metadata"]["name"] != pod["metadata"]["name"]);
        self.pods.push(pod.clone());
        self.harness.applied(PODS, pod);
    }

    /// Sets the phase of all Pods.
    fn pods_are(&mut self, phase: &str) {
        for mut pod in self.pods.clone() {
            pod["status"] = json!({"phase": phase});
            self.show_pod(pod);
        }
    }

    /// Removes the deleted Pods.
    fn pods_go(&mut self) {
        let (gone, left): (Vec<Value>, Vec<Value>) = self
            .pods
            .drain(..)
            .partition(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        self.pods = left;
        for pod in gone {
            let name = pod["metadata"]["name"].as_str().unwrap();
            self.harness.deleted(PODS, &NamespacedName::new("n", name));
        }
    }

    fn phase(&self) -> &str {
        self.job["status"]["state"]["phase"]
            .as_str()
            .unwrap_or_default()
    }

    fn conditions(&self) -> Vec<&str> {
        let conditions = self.job["status"]["conditions"].as_array().unwrap().iter();
        conditions
            .map(|known| known["status"].as_str().unwrap())
            .collect()
    }
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            object
                .as_object_mut()
                .and_then(|object| object.remove(name));
        } else if value.is_object() && object[name].is_object() {
            merge(&mut object[name], value);
        } else {
            object[name] = value.clone();
        }
    }
}

#[test]
fn job_creates_group_then_pods() {
    let mut play = VolcanoJobRun::of(mk_job(&json!({}), &json!({})));
    assert_eq!(play.go(START), NextStep::Rest);
    assert_eq!(
        play.asked,
        [
            "patch j",
            "create j-uid-of-j",
            "patch j-uid-of-j",
            "create j-a-0",
            "create j-a-1",
            "patch j"
        ]
    );
    assert_eq!(play.phase(), "Pending");
    assert_eq!(play.job["status"]["pending"], 2);
    assert_eq!(
        play.job["status"]["taskStatusCount"],
        json!({"a": {"phase": {"Pending": 2}}})
    );
    let group = play.group.as_ref().unwrap();
    assert_eq!(
        group["spec"],
        json!({"minMember": 2, "minTaskMember": {"a": 2}, "queue": "default"})
    );
    assert_eq!(group["status"]["phase"], "Inqueue");
    let pod = &play.pods[1]["metadata"];
    assert_eq!(
        pod["annotations"]["scheduling.k8s.io/group-name"],
        "j-uid-of-j"
    );
    assert_eq!(pod["labels"]["volcano.sh/task-index"], "1");
    let owner = &pod["ownerReferences"][0];
    assert_eq!(
        (&owner["controller"], &owner["blockOwnerDeletion"]),
        (&json!(true), &json!(true))
    );
}

#[test]
fn job_waits_for_its_queue() {
    let mut harness = ActorHarness::of(VolcanoJobActor);
    let mut job = mk_job(&json!({"queue": "mine"}), &json!({}));
    harness.applied(JOBS, job.clone());
    // The status and an Event name the Queue.
    let key = VolcanoJobRun::key();
    let decision = harness.decide(&key, START);
    let message = "the Queue mine does not exist";
    let state = json!({"phase": "Pending", "reason": "QueueNotFound", "message": message,
        "lastTransitionTime": time(START)});
    let asked = decided(&decision);
    assert_eq!(asked.body["status"]["state"], state);
    merge(&mut job, &asked.body);
    harness.applied(JOBS, job.clone());
    let waiting = harness.decide(&key, later(START, 60));
    assert_eq!(waiting.next, NextStep::Retry);
    for notes in [decision.notes, waiting.notes] {
        let [note] = notes.as_slice() else {
            panic!("{notes:?}");
        };
        let about = (&*note.about.api_version, &*note.about.name);
        assert_eq!(about, ("batch.volcano.sh/v1alpha1", "j"));
        assert_eq!(note.reason, "QueueNotFound");
        assert_eq!(
            note.message,
            format!("{message}; the Job starts when it is created")
        );
    }
    // The Queue is created: the reason goes, and the Job starts.
    harness.applied(QUEUES, json!({"metadata": {"name": "mine"}}));
    let asked = decided(&harness.decide(&key, START));
    merge(&mut job, &asked.body);
    assert_eq!(
        job["status"]["state"],
        json!({"phase": "Pending", "lastTransitionTime": time(START)})
    );
    harness.applied(JOBS, job);
    assert_eq!(decided(&harness.decide(&key, START)).verb, "create");
}

#[test]
fn phase_follows_the_pods() {
    let (both, one) = (json!({}), json!({"minAvailable": 1}));
    let cases = [
        (&both, ["Succeeded", "Succeeded"], "Completed"),
        (&both, ["Succeeded", "Failed"], "Failed"),
        (&one, ["Succeeded", "Failed"], "Completed"),
        (&one, ["Failed", "Failed"], "Failed"),
    ];
    for (spec, ends, phase) in cases {
        let mut play = VolcanoJobRun::of(mk_job(spec, &json!({})));
        play.go(START);
        play.pods_are("Running");
        play.go(START);
        assert_eq!(play.phase(), "Running");
        assert_eq!(play.group.as_ref().unwrap()["status"]["phase"], "Running");
        for (number, end) in ends.iter().enumerate() {
            let mut pod = play
                .pods
                .iter()
                .find(|pod| pod["metadata"]["name"] == format!("j-a-{number}"))
                .unwrap()
                .clone();
            pod["status"]["phase"] = (*end).into();
            play.show_pod(pod);
        }
        let over = later(START, 65);
        assert_eq!(play.go(over), NextStep::Rest);
        assert_eq!(play.phase(), phase, "{spec} {ends:?}");
        assert_eq!(play.conditions(), ["Pending", "Running", phase]);
        let status = &play.job["status"];
        assert_eq!(status["state"]["lastTransitionTime"], time(over));
        assert_eq!(status["runningDuration"], "1m5s");
        assert_eq!(status["version"], 1);
        assert_eq!(
            (&status["succeeded"], &status["taskStatusCount"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(play.group, None);
        assert_eq!(play.pods.len(), 2, "ended Pods stay");
    }
}

#[test]
fn annotation_sets_the_outcome() {
    for (end, stopping) in [("Terminated", "Terminating"), ("Aborted", "Aborting")] {
        let mut play = VolcanoJobRun::of(mk_job(&json!({}), &json!({END: end, RUN_SECONDS: "9"})));
        play.go(START);
        assert_eq!(
            play.pods[0]["metadata"]["annotations"][RUN_SECONDS],
            FOREVER
        );
        play.pods_are("Running");
        let due = later(START, 9);
        assert_eq!(play.go(START), NextStep::At(due), "{end}");
        assert_eq!(play.go(due), NextStep::Rest);
        assert_eq!(play.phase(), stopping);
        assert_eq!(play.job["status"]["terminating"], 2);
        play.pods_go();
        assert_eq!(play.go(later(due, 30)), NextStep::Rest);
        assert_eq!(play.phase(), end);
        assert_eq!(play.conditions(), ["Pending", "Running", stopping, end]);
        assert_eq!((play.pods.len(), play.group.is_some()), (0, false));
        assert_eq!(play.job["status"]["version"], 1);
    }
    let mut play = VolcanoJobRun::of(mk_job(
        &json!({"minAvailable": null}),
        &json!({END: "Failed"}),
    ));
    play.go(START);
    assert_eq!(play.pods[0]["metadata"]["annotations"][OUTCOME], "failed");
    play.pods_are("Running");
    play.go(START);
    play.pods_are("Failed");
    play.go(START);
    assert_eq!(play.phase(), "Failed");
}

#[test]
fn executes_and_deletes_commands() {
    let mut play = VolcanoJobRun::of(mk_job(&json!({}), &json!({})));
    play.go(START);
    play.pods_are("Running");
    play.go(START);
    let command = |action: &str| {
        json!({"metadata": {"name": action.to_lowercase(), "namespace": "n"},
        "action": action, "target": {"kind": "Job", "name": "j", "uid": "uid-of-j"}})
    };
    play.harness.applied(COMMANDS, command("AbortJob"));
    play.asked.clear();
    let turned = decided(&play.harness.decide(&VolcanoJobRun::key(), START));
    play.store(turned, START);
    assert_eq!(play.phase(), "Aborting");
    let removed = decided(&play.harness.decide(&VolcanoJobRun::key(), START));
    assert_eq!(
        (removed.verb, removed.name.as_str()),
        ("delete", "abortjob")
    );
    play.harness
        .deleted(COMMANDS, &NamespacedName::new("n", "abortjob"));
    play.go(START);
    play.pods_go();
    play.go(START);
    assert_eq!(play.phase(), "Aborted");
    play.harness.applied(COMMANDS, command("ResumeJob"));
    let turned = decided(&play.harness.decide(&VolcanoJobRun::key(), START));
    play.store(turned, START);
    play.harness
        .deleted(COMMANDS, &NamespacedName::new("n", "resumejob"));
    play.go(START);
    assert_eq!(play.phase(), "Pending");
    assert_eq!(play.job["status"]["retryCount"], 1);
    assert_eq!(play.pods.len(), 2, "new ones");
}

#[test]
fn fails_after_too_many_restarts() {
    let mut job = mk_job(&json!({"maxRetry": 3}), &json!({}));
    job["status"] = json!({"state": {"phase": "Restarting"}, "retryCount": 3});
    let mut play = VolcanoJobRun::of(job);
    play.go(START);
    assert_eq!(play.phase(), "Failed");
}

#[test]
fn task_waits_for_its_dependencies() {
    let template = json!({"spec": {"containers": []}});
    let tasks = json!([{"name": "a", "replicas": 1, "template": template},
        {"name": "b", "replicas": 1, "template": template, "dependsOn": {"name": ["a"]}}]);
    let mut play = VolcanoJobRun::of(mk_job(
        &json!({"minAvailable": 1, "tasks": tasks}),
        &json!({}),
    ));
    play.go(START);
    assert_eq!(play.pods.len(), 1);
    let mut pod = play.pods[0].clone();
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    play.show_pod(pod);
    play.go(START);
    assert_eq!(play.pods.len(), 2);
}

#[test]
fn ignores_pods_with_another_owner() {
    let mut play = VolcanoJobRun::of(mk_job(&json!({}), &json!({})));
    let foreign =
        json!({"metadata": {"name": "j-a-0", "namespace": "n"}, "status": {"phase": "Running"}});
    play.harness.applied(PODS, foreign);
    assert_eq!(play.go(START), NextStep::Retry, "it is looked at again");
    let said = play
        .harness
        .decide(&VolcanoJobRun::key(), START)
        .because
        .to_string();
    assert_eq!(said, "the Pod j-a-0 belongs to another owner");
    // The other Pods are created, and the foreign one is not counted.
    assert_eq!(play.pods.len(), 1);
    assert_eq!(
        (play.phase(), &play.job["status"]["pending"]),
        ("Pending", &json!(1))
    );
    play.harness
        .deleted(PODS, &NamespacedName::new("n", "j-a-0"));
    assert_eq!(play.go(START), NextStep::Rest);
    assert_eq!(play.pods.len(), 2);
}

#[test]
fn annotation_keeps_counters_of_a_finished_job() {
    for (annotations, left) in [
        (json!({COUNTERS: "kept"}), json!(2)),
        (json!({COUNTERS: "?"}), Value::Null),
    ] {
        let mut play = VolcanoJobRun::of(mk_job(&json!({}), &annotations));
        play.go(START);
        for phase in ["Running", "Succeeded"] {
            play.pods_are(phase);
            assert_eq!(play.go(START), NextStep::Rest);
        }
        let status = &play.job["status"];
        assert_eq!((play.phase(), &status["version"]), ("Completed", &json!(1)));
        assert_eq!(status["succeeded"], left);
        assert_eq!(status["taskStatusCount"].is_null(), left.is_null());
    }
}

#[test]
fn sums_of_task_sizes_saturate() {
    let task = |name: &str| json!({"name": name, "replicas": u64::MAX, "template": {}});
    let job = mk_job(
        &json!({"minAvailable": null, "tasks": [task("a"), task("b")]}),
        &json!({}),
    );
    let harness = VolcanoJobRun::of(job).harness;
    let begun = decided(&harness.decide(&VolcanoJobRun::key(), START));
    assert_eq!(begun.body["status"]["minAvailable"], usize::MAX);
}
