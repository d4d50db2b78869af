//! The ways of a Volcano Job, played with answers by hand: the world says what a server would have stored.

use caretaker_controllers::runtime::controller::Next;
use serde_json::json;

use super::*;
use crate::life::{COUNTERS, END, FOREVER, OUTCOME};
use crate::objects::time;
use crate::tests::{Asked, START, Stage, decided};

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

/// A Job and a server of few words: it stores what it is told to.
struct Play {
    stage: Stage<VolcanoJobs>,
    job: Value,
    group: Option<Value>,
    pods: Vec<Value>,
    asked: Vec<String>,
}

impl Play {
    fn of(job: Value) -> Self {
        let mut stage = Stage::of(VolcanoJobs);
        stage.applied(QUEUES, json!({"metadata": {"name": "default"}}));
        stage.applied(JOBS, job.clone());
        Self {
            stage,
            job,
            group: None,
            pods: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn key() -> Key {
        Key::new("n", "j")
    }

    /// Does what the Job asks for until it rests or waits; says which.
    fn go(&mut self, now: Timestamp) -> Next<Key> {
        loop {
            let decision = self.stage.decide(&Self::key(), now);
            let Next::Call(_) = &decision.next else {
                return decision.next;
            };
            let asked = decided(&decision);
            self.asked.push(format!("{} {}", asked.verb, asked.name));
            assert!(self.asked.len() < 50, "no end: {:?}", self.asked);
            self.store(asked, now);
        }
    }

    fn store(&mut self, asked: Asked, now: Timestamp) {
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
                self.stage.deleted(POD_GROUPS, &Key::new("n", &asked.name));
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
                self.stage.applied(JOBS, self.job.clone());
            }
        }
    }

    fn show_group(&mut self, group: Value) {
        self.group = Some(group.clone());
        self.stage.applied(POD_GROUPS, group);
    }

    fn show_pod(&mut self, pod: Value) {
        self.pods
            .retain(|known| known["metadata"]["name"] != pod["metadata"]["name"]);
        self.pods.push(pod.clone());
        self.stage.applied(PODS, pod);
    }

    /// All Pods get to this phase.
    fn pods_are(&mut self, phase: &str) {
        for mut pod in self.pods.clone() {
            pod["status"] = json!({"phase": phase});
            self.show_pod(pod);
        }
    }

    /// Pods that were deleted are gone.
    fn pods_go(&mut self) {
        let (gone, left): (Vec<Value>, Vec<Value>) = self
            .pods
            .drain(..)
            .partition(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        self.pods = left;
        for pod in gone {
            let name = pod["metadata"]["name"].as_str().unwrap();
            self.stage.deleted(PODS, &Key::new("n", name));
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
fn a_job_begins_with_its_queue_its_group_and_its_pods_in_this_order() {
    let mut play = Play::of(mk_job(&json!({}), &json!({})));
    assert_eq!(play.go(START), Next::Rest);
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
fn a_job_without_its_queue_waits() {
    let mut stage = Stage::of(VolcanoJobs);
    stage.applied(JOBS, mk_job(&json!({"queue": "mine"}), &json!({})));
    assert_eq!(stage.decide(&Play::key(), START).next, Next::Retry);
}

#[test]
fn a_job_ends_as_its_pods_do() {
    let (both, one) = (json!({}), json!({"minAvailable": 1}));
    let cases = [
        (&both, ["Succeeded", "Succeeded"], "Completed"),
        (&both, ["Succeeded", "Failed"], "Failed"),
        (&one, ["Succeeded", "Failed"], "Completed"),
        (&one, ["Failed", "Failed"], "Failed"),
    ];
    for (spec, ends, phase) in cases {
        let mut play = Play::of(mk_job(spec, &json!({})));
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
        assert_eq!(play.go(over), Next::Rest);
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
fn an_annotation_says_how_a_job_ends() {
    for (end, stopping) in [("Terminated", "Terminating"), ("Aborted", "Aborting")] {
        let mut play = Play::of(mk_job(&json!({}), &json!({END: end, RUN_SECONDS: "9"})));
        play.go(START);
        assert_eq!(
            play.pods[0]["metadata"]["annotations"][RUN_SECONDS],
            FOREVER
        );
        play.pods_are("Running");
        let due = later(START, 9);
        assert_eq!(play.go(START), Next::At(due), "{end}");
        assert_eq!(play.go(due), Next::Rest);
        assert_eq!(play.phase(), stopping);
        assert_eq!(play.job["status"]["terminating"], 2);
        play.pods_go();
        assert_eq!(play.go(later(due, 30)), Next::Rest);
        assert_eq!(play.phase(), end);
        assert_eq!(play.conditions(), ["Pending", "Running", stopping, end]);
        assert_eq!((play.pods.len(), play.group.is_some()), (0, false));
        assert_eq!(play.job["status"]["version"], 1);
    }
    let mut play = Play::of(mk_job(
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
fn a_command_is_obeyed_and_removed() {
    let mut play = Play::of(mk_job(&json!({}), &json!({})));
    play.go(START);
    play.pods_are("Running");
    play.go(START);
    let command = |action: &str| {
        json!({"metadata": {"name": action.to_lowercase(), "namespace": "n"},
        "action": action, "target": {"kind": "Job", "name": "j", "uid": "uid-of-j"}})
    };
    play.stage.applied(COMMANDS, command("AbortJob"));
    play.asked.clear();
    let turned = decided(&play.stage.decide(&Play::key(), START));
    play.store(turned, START);
    assert_eq!(play.phase(), "Aborting");
    let removed = decided(&play.stage.decide(&Play::key(), START));
    assert_eq!(
        (removed.verb, removed.name.as_str()),
        ("delete", "abortjob")
    );
    play.stage.deleted(COMMANDS, &Key::new("n", "abortjob"));
    play.go(START);
    play.pods_go();
    play.go(START);
    assert_eq!(play.phase(), "Aborted");
    play.stage.applied(COMMANDS, command("ResumeJob"));
    let turned = decided(&play.stage.decide(&Play::key(), START));
    play.store(turned, START);
    play.stage.deleted(COMMANDS, &Key::new("n", "resumejob"));
    play.go(START);
    assert_eq!(play.phase(), "Pending");
    assert_eq!(play.job["status"]["retryCount"], 1);
    assert_eq!(play.pods.len(), 2, "new ones");
}

#[test]
fn a_job_that_was_restarted_too_often_fails() {
    let mut job = mk_job(&json!({"maxRetry": 3}), &json!({}));
    job["status"] = json!({"state": {"phase": "Restarting"}, "retryCount": 3});
    let mut play = Play::of(job);
    play.go(START);
    assert_eq!(play.phase(), "Failed");
}

#[test]
fn a_task_waits_for_the_tasks_it_depends_on() {
    let template = json!({"spec": {"containers": []}});
    let tasks = json!([{"name": "a", "replicas": 1, "template": template},
        {"name": "b", "replicas": 1, "template": template, "dependsOn": {"name": ["a"]}}]);
    let mut play = Play::of(mk_job(
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
fn a_pod_of_somebody_else_s_is_not_taken_for_one_of_the_job() {
    let mut play = Play::of(mk_job(&json!({}), &json!({})));
    let foreign =
        json!({"metadata": {"name": "j-a-0", "namespace": "n"}, "status": {"phase": "Running"}});
    play.stage.applied(PODS, foreign);
    assert_eq!(play.go(START), Next::Retry, "it is looked at again");
    let said = play.stage.decide(&Play::key(), START).because.to_string();
    assert_eq!(said, "a Pod of somebody else's is called j-a-0");
    // Its other Pods are made, and the foreign one does not count.
    assert_eq!(play.pods.len(), 1);
    assert_eq!(
        (play.phase(), &play.job["status"]["pending"]),
        ("Pending", &json!(1))
    );
    play.stage.deleted(PODS, &Key::new("n", "j-a-0"));
    assert_eq!(play.go(START), Next::Rest);
    assert_eq!(play.pods.len(), 2);
}

#[test]
fn counters_of_a_job_that_is_over_stay_if_it_says_so() {
    for (annotations, left) in [
        (json!({COUNTERS: "kept"}), json!(2)),
        (json!({COUNTERS: "?"}), Value::Null),
    ] {
        let mut play = Play::of(mk_job(&json!({}), &annotations));
        play.go(START);
        for phase in ["Running", "Succeeded"] {
            play.pods_are(phase);
            assert_eq!(play.go(START), Next::Rest);
        }
        let status = &play.job["status"];
        assert_eq!((play.phase(), &status["version"]), ("Completed", &json!(1)));
        assert_eq!(status["succeeded"], left);
        assert_eq!(status["taskStatusCount"].is_null(), left.is_null());
    }
}

#[test]
fn tasks_of_any_size_add_up() {
    let task = |name: &str| json!({"name": name, "replicas": u64::MAX, "template": {}});
    let job = mk_job(
        &json!({"minAvailable": null, "tasks": [task("a"), task("b")]}),
        &json!({}),
    );
    let stage = Play::of(job).stage;
    let begun = decided(&stage.decide(&Play::key(), START));
    assert_eq!(begun.body["status"]["minAvailable"], usize::MAX);
}
