use super::*;
use crate::kinds::KindTable;
use crate::metadata::mk_tree;
use serde_json::json;

const NOW: &str = "2026-03-01T12:00:00Z";

fn mk_decision(kind: (&str, &str), object: &Value, options: &DeleteOptions) -> DeleteDecision {
    let kinds = KindTable::builtin();
    let kind = kinds.by_kind(kind.0, kind.1).unwrap();
    decide(&ObjectDelete {
        kind,
        object: &mk_tree(object),
        options,
        now: NOW.parse().unwrap(),
    })
}

fn with_policy(policy: PropagationPolicy) -> DeleteOptions {
    DeleteOptions {
        policy: Some(policy),
        ..DeleteOptions::default()
    }
}

fn finalizers_kept(decision: &DeleteDecision) -> Vec<String> {
    match decision {
        DeleteDecision::Keep(object) => metadata::finalizers(object),
        other => panic!("not kept: {other:?}"),
    }
}

const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");
const POD: (&str, &str) = ("v1", "Pod");
const JOB: (&str, &str) = ("batch/v1", "Job");

#[test]
fn object_without_finalizers_is_removed_in_one_write() {
    let decision = mk_decision(
        CONFIG_MAP,
        &json!({"metadata": {"name": "a"}}),
        &DeleteOptions::default(),
    );
    assert_eq!(decision, DeleteDecision::Remove(None));
}

#[test]
fn policy_sets_the_finalizers_of_the_garbage_collector() {
    let held = json!({"metadata": {"finalizers": ["foregroundDeletion", "x.io/y"]}});
    let cases = [
        (PropagationPolicy::Background, vec!["x.io/y"]),
        (
            PropagationPolicy::Foreground,
            vec!["foregroundDeletion", "x.io/y"],
        ),
        (PropagationPolicy::Orphan, vec!["x.io/y", "orphan"]),
    ];
    for (policy, expected) in cases {
        let decision = mk_decision(CONFIG_MAP, &held, &with_policy(policy));
        assert_eq!(finalizers_kept(&decision), expected, "{policy:?}");
    }
    let decision = mk_decision(CONFIG_MAP, &held, &DeleteOptions::default());
    assert_eq!(finalizers_kept(&decision), ["foregroundDeletion", "x.io/y"]);
}

#[test]
fn default_policy_depends_on_the_kind() {
    let object = json!({"metadata": {"name": "a"}});
    let job = mk_decision(JOB, &object, &DeleteOptions::default());
    assert_eq!(finalizers_kept(&job), ["orphan"]);
    let event = mk_decision(
        ("v1", "Event"),
        &object,
        &with_policy(PropagationPolicy::Foreground),
    );
    assert_eq!(event, DeleteDecision::Remove(None));
}

#[test]
fn second_delete_can_replace_the_policy_of_the_first() {
    let object = json!({"metadata": {"finalizers": ["foregroundDeletion"], "deletionTimestamp": NOW,
        "deletionGracePeriodSeconds": 0}});
    let decision = mk_decision(
        CONFIG_MAP,
        &object,
        &with_policy(PropagationPolicy::Background),
    );
    assert_eq!(decision, DeleteDecision::Remove(None));
}

#[test]
fn deletion_of_object_with_finalizer_counts_one_generation() {
    let object = json!({"metadata": {"generation": 1, "finalizers": ["x.io/y"]}});
    let DeleteDecision::Keep(kept) = mk_decision(
        ("apps/v1", "Deployment"),
        &object,
        &DeleteOptions::default(),
    ) else {
        panic!("not kept");
    };
    assert_eq!(kept["metadata"]["generation"], 2);
    assert_eq!(kept["metadata"]["deletionTimestamp"], NOW);
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = mk_decision(
        ("apps/v1", "Deployment"),
        &Value::Object(kept.clone()),
        &DeleteOptions::default(),
    );
    assert_eq!(again, DeleteDecision::Keep(kept));
}

#[test]
fn only_scheduled_running_pods_get_a_grace_period() {
    let pod = |node: &str, phase: &str| {
        json!({"metadata": {"name": "a"}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 30},
            "status": {"phase": phase}})
    };
    let grace = |decision: DeleteDecision| match decision {
        DeleteDecision::Keep(object) | DeleteDecision::Remove(Some(object)) => {
            object["metadata"]["deletionGracePeriodSeconds"]
                .as_i64()
                .unwrap()
        }
        other => panic!("{other:?}"),
    };
    let ask = |seconds| DeleteOptions {
        grace_seconds: Some(seconds),
        ..DeleteOptions::default()
    };
    assert_eq!(
        grace(mk_decision(
            POD,
            &pod("n", "Running"),
            &DeleteOptions::default()
        )),
        30
    );
    assert_eq!(grace(mk_decision(POD, &pod("n", "Running"), &ask(5))), 5);
    assert_eq!(grace(mk_decision(POD, &pod("n", "Running"), &ask(-7))), 1);
    assert_eq!(grace(mk_decision(POD, &pod("n", "Running"), &ask(0))), 0);
    assert_eq!(
        grace(mk_decision(
            POD,
            &pod("n", "Succeeded"),
            &DeleteOptions::default()
        )),
        0
    );
    let unscheduled = mk_decision(POD, &pod("", "Pending"), &ask(60));
    assert!(matches!(unscheduled, DeleteDecision::Remove(Some(_))));
}

#[test]
fn grace_period_can_only_be_shortened_and_not_into_the_past() {
    let deleting = |deadline: &str| {
        json!({"metadata": {"deletionTimestamp": deadline, "deletionGracePeriodSeconds": 30},
            "spec": {"nodeName": "n"}})
    };
    let ask = |seconds: Option<i64>| DeleteOptions {
        grace_seconds: seconds,
        ..DeleteOptions::default()
    };
    let soon = "2026-03-01T12:00:20Z";
    assert_eq!(
        mk_decision(POD, &deleting(soon), &ask(None)),
        DeleteDecision::Pending
    );
    assert_eq!(
        mk_decision(POD, &deleting(soon), &ask(Some(30))),
        DeleteDecision::Pending
    );
    let DeleteDecision::Keep(kept) = mk_decision(POD, &deleting(soon), &ask(Some(25))) else {
        panic!("not kept");
    };
    assert_eq!(
        kept["metadata"]["deletionTimestamp"],
        "2026-03-01T12:00:15Z"
    );
    let DeleteDecision::Keep(kept) = mk_decision(POD, &deleting(soon), &ask(Some(5))) else {
        panic!("not kept");
    };
    assert_eq!(kept["metadata"]["deletionTimestamp"], NOW);
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 1);
    assert!(matches!(
        mk_decision(POD, &deleting(soon), &ask(Some(0))),
        DeleteDecision::Remove(Some(_))
    ));
}

#[test]
fn pod_with_finalizer_stays_after_its_grace_period() {
    let pod = json!({"metadata": {"finalizers": ["x.io/y"]}, "spec": {"nodeName": "n"}});
    let now = DeleteOptions {
        grace_seconds: Some(0),
        ..DeleteOptions::default()
    };
    assert!(matches!(
        mk_decision(POD, &pod, &now),
        DeleteDecision::Keep(_)
    ));
}
