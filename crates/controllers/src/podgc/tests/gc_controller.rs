//! Upstream's `gc_controller_test.go` (1.36), case by case.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{MkPod, NODES, World};
use crate::podgc::PodGcSettings;
use crate::runtime::call::{ApiCall, PatchForm};

const TAINT: &str = "node.kubernetes.io/out-of-service";

fn names(log: &[String], verb: &str) -> BTreeSet<String> {
    let named = log.iter().filter_map(|line| line.split_once(' '));
    let named = named.filter(|(said, _)| *said == verb);
    named.map(|(_, name)| name.to_owned()).collect()
}

fn assert_requests(world: &mut World, case: &str, deleted: &[&str], patched: &[&str]) {
    let log = world.requests();
    let wanted = |all: &[&str]| all.iter().map(ToString::to_string).collect();
    assert_eq!(names(&log, "delete"), wanted(deleted), "deleted: {case}");
    assert_eq!(names(&log, "patch"), wanted(patched), "patched: {case}");
}

/// A case of [`gc_terminated`]: the Pods from the oldest to the youngest, the threshold, and the deleted Pods.
type Terminated<'a> = (&'a [(&'a str, &'a str, bool)], usize, &'a [&'a str]);

#[test]
fn gc_terminated() {
    let three = [
        ("a", "Failed", false),
        ("b", "Succeeded", false),
        ("c", "Failed", false),
    ];
    let table: [Terminated<'_>; 8] = [
        (&three, 1, &["a", "b"]),
        (&three[..2], 0, &[]),
        (&three[1..], 1, &["b"]),
        (&[("a", "Running", false), three[1], three[2]], 1, &["b"]),
        (&three[..2], 1, &["a"]),
        (&three[..2], 5, &[]),
        (&[three[0], three[1], ("c", "Failed", true)], 1, &["a", "c"]),
        (
            &[("a", "Running", false), three[1], ("c", "Failed", true)],
            1,
            &["c"],
        ),
    ];
    for (row, (pods, threshold, deleted)) in table.into_iter().enumerate() {
        // A threshold of 0 switches the sweep off.
        let mut world = World::with_threshold(Some(threshold).filter(|threshold| *threshold > 0));
        world.put_node("node", "True", &json!([]));
        for (hour, (name, phase, is_evicted)) in pods.iter().enumerate() {
            let pod = MkPod::new(name, "node", phase);
            let pod = pod.created(&format!("2026-03-01T{hour:02}:00:00Z"));
            world.create_pod(&if *is_evicted { pod.evicted() } else { pod });
        }
        world.sync();
        assert_requests(&mut world, &format!("row {row}"), deleted, &[]);
    }
}

/// A case of the test [`gc_orphaned`].
#[derive(Default)]
struct Orphaned<'a> {
    name: &'a str,
    /// Nodes that the server has and the feed shows.
    shown: &'a [&'a str],
    /// Nodes that only the server has.
    served: &'a [&'a str],
    pods: &'a [(&'a str, &'a str, &'a str)],
    /// Whether the check comes before the end of the quarantine.
    is_early: bool,
    /// A change before the check: the server has this Node too, or has it no more; the feed shows it, or its end.
    appears: Option<&'a str>,
    vanishes: Option<&'a str>,
    is_seen: Option<&'a str>,
    ends: Option<&'a str>,
    deleted: &'a [&'a str],
    patched: &'a [&'a str],
}

const ORPHANED: &[Orphaned<'static>] = &[
    Orphaned {
        name: "nodes present in lister",
        shown: &["existing1", "existing2"],
        pods: &[
            ("a", "existing1", "Running"),
            ("b", "existing2", "Failed"),
            ("c", "existing2", "Succeeded"),
        ],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "nodes present in client",
        served: &["existing1", "existing2"],
        pods: &[
            ("a", "existing1", "Running"),
            ("b", "existing2", "Failed"),
            ("c", "existing2", "Succeeded"),
        ],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "no nodes",
        pods: &[("a", "deleted", "Failed"), ("b", "deleted", "Succeeded")],
        deleted: &["a", "b"],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "no nodes, one running pod",
        pods: &[
            ("a", "deleted", "Failed"),
            ("b", "deleted", "Succeeded"),
            ("c", "deleted", "Running"),
        ],
        deleted: &["a", "b", "c"],
        patched: &["c"],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "quarantine not finished",
        pods: &[("a", "deleted", "Failed")],
        is_early: true,
        ..Orphaned::NONE
    },
    Orphaned {
        name: "wrong nodes",
        shown: &["existing"],
        pods: &[("a", "deleted", "Running")],
        deleted: &["a"],
        patched: &["a"],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "some nodes missing",
        shown: &["existing"],
        pods: &[
            ("a", "deleted", "Failed"),
            ("b", "existing", "Failed"),
            ("c", "deleted", "Succeeded"),
            ("d", "deleted", "Running"),
        ],
        deleted: &["a", "c", "d"],
        patched: &["d"],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "node added to client after quarantine",
        appears: Some("node"),
        pods: &[("a", "node", "Running")],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "node added to informer after quarantine",
        is_seen: Some("node"),
        pods: &[("a", "node", "Failed")],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "node deleted from client after quarantine",
        served: &["node"],
        vanishes: Some("node"),
        pods: &[("a", "node", "Failed")],
        deleted: &["a"],
        ..Orphaned::NONE
    },
    Orphaned {
        name: "node deleted from informer after quarantine",
        shown: &["node"],
        ends: Some("node"),
        pods: &[("a", "node", "Succeeded")],
        ..Orphaned::NONE
    },
];

impl Orphaned<'_> {
    const NONE: Self = Self {
        name: "",
        shown: &[],
        served: &[],
        pods: &[],
        is_early: false,
        appears: None,
        vanishes: None,
        is_seen: None,
        ends: None,
        deleted: &[],
        patched: &[],
    };

    /// Makes the change just before the round that may act.
    fn change(&self, world: &mut World) {
        let nothing = json!([]);
        world.lags = true;
        if let Some(name) = self.appears {
            world.put_node(name, "True", &nothing);
        }
        if let Some(name) = self.vanishes {
            world.remove(NODES, name);
        }
        world.forget_unseen();
        world.lags = false;
        if let Some(name) = self.is_seen {
            world.put_node(name, "True", &nothing);
        }
        if let Some(name) = self.ends {
            world.remove(NODES, name);
        }
    }
}

#[test]
fn gc_orphaned() {
    for case in ORPHANED {
        let mut world = World::with_threshold(None);
        for node in case.shown {
            world.put_node(node, "True", &json!([]));
        }
        world.lags = true;
        for node in case.served {
            world.put_node(node, "True", &json!([]));
        }
        world.forget_unseen();
        world.lags = false;
        for (name, node, phase) in case.pods {
            world.create_pod(&MkPod::new(name, node, phase));
        }
        world.sync();
        assert_requests(&mut world, case.name, &[], &[]);
        world.advance(if case.is_early { 20 } else { 39 });
        case.change(&mut world);
        world.advance(1);
        assert_requests(&mut world, case.name, case.deleted, case.patched);
    }
}

/// A case of [`gc_unscheduled_terminating`]: its name, the Pods, the deleted Pods, and the marked Pods.
type Unscheduled<'a> = (&'a str, [MkPod; 3], &'a [&'a str], &'a [&'a str]);

#[test]
fn gc_unscheduled_terminating() {
    let ending = |name, node, phase| MkPod::new(name, node, phase).terminating();
    let table: [Unscheduled<'_>; 2] = [
        (
            "unscheduled pods in any phase",
            [
                ending("a", "", "Failed"),
                ending("b", "", "Succeeded"),
                ending("c", "", "Running"),
            ],
            &["a", "b", "c"],
            &["c"],
        ),
        (
            "scheduled pods in any phase",
            [
                MkPod::new("a", "", "Failed"),
                MkPod::new("b", "node", "Succeeded"),
                ending("c", "node", "Running"),
            ],
            &[],
            &[],
        ),
    ];
    for (case, pods, deleted, patched) in table {
        let mut world = World::with_threshold(None);
        world.put_node("node", "True", &json!([]));
        for pod in &pods {
            world.create_pod(pod);
        }
        world.sync();
        assert_requests(&mut world, case, deleted, patched);
    }
}

fn taint(value: &str, effect: &str) -> Value {
    json!([{ "key": TAINT, "value": value, "effect": effect }])
}

#[test]
fn gc_terminating() {
    let none = json!([]);
    let nodes = [
        ("worker-0", "False", taint("", "NoExecute")),
        ("worker-1", "False", none.clone()),
        ("worker-2", "True", none.clone()),
        ("worker-3", "False", taint("", "NoSchedule")),
        ("worker-4", "False", taint("", "PreferNoSchedule")),
        ("worker-5", "False", taint("any-value", "NoExecute")),
        ("worker-6", "True", taint("", "NoExecute")),
    ];
    let mut world = World::with_threshold(None);
    for (number, (node, ready, taints)) in nodes.iter().enumerate() {
        world.put_node(node, ready, taints);
        let pod = |letter: &str, phase| MkPod::new(&format!("{letter}{number}"), node, phase);
        world.create_pod(&pod("a", ""));
        world.create_pod(&pod("b", "").terminating());
        for (letter, phase) in [("c", "Pending"), ("d", "Running"), ("e", "Unknown")] {
            world.create_pod(&pod(letter, phase));
        }
    }
    world.sync();
    let gone = ["b0", "b3", "b4", "b5"];
    assert_requests(&mut world, "a matrix", &gone, &gone);
}

#[test]
fn gc_terminating_without_a_taint() {
    let mut world = World::with_threshold(None);
    for (node, pod) in [("worker-0", "a"), ("worker-1", "b")] {
        world.put_node(node, "False", &json!([]));
        world.create_pod(&MkPod::new(pod, node, "").terminating());
    }
    world.sync();
    assert_requests(&mut world, "not ready is not enough", &[], &[]);
}

#[test]
fn gc_terminating_in_any_phase() {
    let mut world = World::with_threshold(None);
    world.put_node("worker", "False", &taint("", "NoExecute"));
    for (name, phase) in [("a", "Running"), ("b", "Failed"), ("c", "Succeeded")] {
        world.create_pod(&MkPod::new(name, "worker", phase).terminating());
    }
    world.sync();
    let log = world.log();
    assert_requests(&mut world, "any phase", &["a", "b", "c"], &["a"]);
    // One lookup for all Pods of the Node.
    assert_eq!(names(&log, "get"), BTreeSet::from(["worker".to_owned()]));
    assert_eq!(log.iter().filter(|line| line.starts_with("get")).count(), 1);
}

#[test]
fn gc_inspecting_patched_pod_before_deletion() {
    let mut world = World::new(PodGcSettings::default());
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    let pod = MkPod::new("testpod", "deleted-node", "Running");
    let mut pod = pod.with("/status/conditions", ready);
    pod.0["metadata"]["finalizers"] = json!(["test.k8s.io/finalizer"]);
    world.create_pod(&pod);
    world.sync();
    world.advance(40);
    assert_eq!(
        world.requests(),
        ["get deleted-node", "patch testpod", "delete testpod"]
    );
    let pod = world.pod("testpod").unwrap();
    let status = &pod["status"];
    let expected = json!({
        "phase": "Failed",
        "observedGeneration": 1,
        "conditions": [
            { "type": "Ready", "status": "True" },
            {
                "type": "DisruptionTarget", "status": "True", "observedGeneration": 1,
                "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
                "lastTransitionTime": "2026-03-01T12:00:40Z",
            },
        ],
    });
    assert_eq!(*status, expected);
    let writes = world.writes();
    let [
        ApiCall::Patch {
            subresource,
            form,
            judged: first,
            ..
        },
        delete,
    ] = &writes[..]
    else {
        panic!("{writes:?}")
    };
    assert_eq!(
        (*subresource, *form),
        (Some("status"), PatchForm::Strategic)
    );
    let ApiCall::Delete {
        judged,
        propagation,
        grace_secs,
        ..
    } = delete
    else {
        panic!("{delete:?}")
    };
    assert_eq!((*propagation, *grace_secs), (None, Some(0)));
    assert_eq!(judged.uid, first.uid);
    assert!(first.revision.is_before(&judged.revision));
}
