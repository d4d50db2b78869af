use caretaker_controllers::gc::explain::DependentCount;
use caretaker_controllers::runtime::call::{AbsenceProof, CallTarget, JudgedVersion, PatchForm};
use caretaker_controllers::runtime::controller::EventNote;
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::record::{Revision, Uid};

use super::*;

fn mk_identity(kind: &str, name: &str) -> ObjectIdentity {
    ObjectIdentity {
        api_version: "v1".into(),
        kind: kind.into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn mk_relation(name: &str, standing: &'static str, message: &str) -> OwnerRelation {
    OwnerRelation {
        owner: mk_identity("Set", name),
        controller: true,
        blocks: false,
        standing,
        message: message.into(),
    }
}

/// A Pod with one living owner, and the decision `next` because of `because`.
fn mk(next: NextStep<GcKey>, because: GcReason) -> ObjectExplanation {
    ObjectExplanation {
        object: mk_identity("Pod", "a"),
        resource: "pods".into(),
        is_collected: true,
        deletion: None,
        finalizers: Vec::new(),
        relations: ObjectRelations {
            owners: vec![mk_relation("s", "Solid", "exists")],
            ..ObjectRelations::default()
        },
        verdict: Verdict {
            next,
            because,
            notes: Vec::new(),
        },
        unanswered: None,
        verdicts: Vec::new(),
        failures: Vec::new(),
        remaining: None,
        pods: None,
    }
}

fn target() -> CallTarget {
    CallTarget {
        kind: KindId(0),
        namespace: "shop".into(),
        name: "a".into(),
    }
}

fn judged() -> JudgedVersion {
    JudgedVersion {
        uid: Uid::from("uid-a"),
        revision: Revision::Number(7),
    }
}

fn delete(propagation: DeletePropagation) -> NextStep<GcKey> {
    NextStep::Call(ApiCall::Delete {
        target: target(),
        judged: judged(),
        propagation: Some(propagation),
        grace_secs: None,
    })
}

fn patch() -> NextStep<GcKey> {
    NextStep::Call(ApiCall::Patch {
        target: target(),
        judged: judged(),
        subresource: None,
        form: PatchForm::Merge,
        patch: json!({}),
    })
}

fn owner() -> ObjectIdentity {
    mk_identity("Set", "s")
}

fn check(table: impl IntoIterator<Item = (NextStep<GcKey>, GcReason, &'static str)>, action: &str) {
    for (next, because, message) in table {
        let step = mk(next, because).next();
        assert_eq!((step.action, step.message.as_str()), (action, message));
    }
}

#[test]
fn a_settled_object_needs_no_action() {
    check(
        [
            (
                GcReason::Owned { owner: owner() },
                "nothing, as long as Set shop/s exists",
            ),
            (
                GcReason::Unowned,
                "nothing: the garbage collector deletes only objects with owners",
            ),
            (
                GcReason::Unserved { owner: owner() },
                "nothing, as long as the server does not serve this kind in v1",
            ),
            (
                GcReason::OutOfReach { owner: owner() },
                "nothing, as long as it has this reference",
            ),
            (GcReason::Unknown, "nothing"),
        ]
        .map(|(because, message)| (NextStep::Rest, because, message)),
        "none",
    );
}

#[test]
fn waits_and_reads_have_their_sentences() {
    let frozen = GcReason::Frozen {
        kind: "pods".into(),
    };
    let waits = GcReason::WaitsForList { owner: owner() };
    check(
        [
            (
                NextStep::Rest,
                GcReason::WaitsForDependents { blocking: 1 },
                "would remove its finalizer when no dependent blocks the deletion",
            ),
            (
                NextStep::Rest,
                GcReason::WaitsForOrphans { next: owner() },
                "would remove its finalizer when no dependent refers to it",
            ),
            (
                NextStep::Rest,
                GcReason::Deleting,
                "nothing: the deletion is under way",
            ),
            (
                NextStep::At(Timestamp::UNIX_EPOCH),
                waits,
                "wait for that until 1970-01-01T00:00:00Z at the latest",
            ),
            (NextStep::Retry, frozen, "wait for that"),
        ],
        "wait",
    );
    let get = NextStep::Call(ApiCall::Get { target: target() });
    let asks = GcReason::AsksFor { owner: owner() };
    check(
        [
            (
                NextStep::After(Vec::new()),
                asks,
                "would read from the API server now",
            ),
            (
                get,
                GcReason::Doubtful,
                "would read from the API server now",
            ),
        ],
        "ask",
    );
}

#[test]
fn a_delete_names_its_propagation_policy() {
    let absent = || GcReason::OwnerAbsent {
        owner: owner(),
        proof: AbsenceProof::NotFound,
    };
    let table = [
        (
            DeletePropagation::Background,
            "would delete it now (background: its dependents are deleted afterwards)",
        ),
        (
            DeletePropagation::Foreground,
            "would delete it now (foreground: its dependents are deleted first)",
        ),
        (
            DeletePropagation::Orphan,
            "would delete it now (orphan: its dependents are kept)",
        ),
    ];
    check(
        table.map(|(policy, message)| (delete(policy), absent(), message)),
        "delete",
    );
}

#[test]
fn each_patch_has_its_sentence() {
    let loses = GcReason::LosesOwners {
        owners: vec![mk_identity("Set", "x"), mk_identity("Set", "y")],
        kept: owner(),
    };
    let unseen = Vec::new;
    check(
        [
            (
                loses,
                "would remove its reference to Set shop/x, Set shop/y now",
            ),
            (
                GcReason::Orphaned { owner: owner() },
                "would remove its reference to Set shop/s now and keep it",
            ),
            (
                GcReason::Ring { with: owner() },
                "would clear blockOwnerDeletion now, to break the cycle",
            ),
            (
                GcReason::DependentsGone { unseen: unseen() },
                "would remove its finalizer foregroundDeletion now",
            ),
            (
                GcReason::DependentsOrphaned { unseen: unseen() },
                "would remove its finalizer orphan now",
            ),
        ]
        .map(|(because, message)| (patch(), because, message)),
        "patch",
    );
}

#[test]
fn owners_finalizers_and_failed_reads_change_the_next_action() {
    let owned = || mk(NextStep::Rest, GcReason::Owned { owner: owner() });
    let mut two = owned();
    two.relations
        .owners
        .push(mk_relation("t", "Solid", "exists"));
    assert_eq!(
        two.next().message,
        "nothing, as long as one of its owners exists"
    );

    let mut event = mk(delete(DeletePropagation::Background), GcReason::Unowned);
    event.is_collected = false;
    event.resource = "events".into();
    let step = event.next();
    assert_eq!(
        (step.action, step.policy, step.message.as_str()),
        (
            "none",
            None,
            "nothing: the garbage collector ignores events"
        )
    );

    let mut asked = mk(
        NextStep::After(Vec::new()),
        GcReason::AsksFor { owner: owner() },
    );
    asked.unanswered = Some("403: no".into());
    assert_eq!(asked.next().action, "ask");
    assert_eq!(asked.next().message, "retry the failed read (403: no)");

    let mut held = mk(NextStep::Rest, GcReason::Deleting);
    held.finalizers = vec!["example.com/hold".into()];
    assert_eq!(
        held.next().message,
        "deleted when its finalizers are removed"
    );
}

#[test]
fn the_text_names_owners_blockers_and_dependents() {
    let mut explained = mk(
        NextStep::Rest,
        GcReason::WaitsForDependents { blocking: 12 },
    );
    explained.deletion = Some(Timestamp::UNIX_EPOCH);
    explained.finalizers = vec!["foregroundDeletion".into(), "example.com/hold".into()];
    explained.relations.owners[0].message = "is gone:\nnot".into();
    explained.relations.blockers = (vec![mk_identity("Pod", "b"), mk_identity("Pod", "c")], 12);
    let dependents = |kind: &str, resource: &str, count| DependentCount {
        kind: kind.into(),
        resource: resource.into(),
        count,
    };
    explained.relations.dependents = vec![
        dependents("Pod", "pods", 12),
        dependents("Set", "sets.g", 1),
    ];
    explained.verdict.notes = vec![EventNote::warning(owner(), "Odd", "look".into())];
    assert_eq!(
        explained.text(),
        "Pod shop/a, uid uid-a
Owners:
  Set shop/s (controller): is gone:\u{fffd}not
Verdict: 12 dependents block its deletion.
Next: would remove its finalizer when no dependent blocks the deletion.
Note: look (Odd)
It is being deleted (deletionTimestamp 1970-01-01T00:00:00Z); blocked by:
  finalizer foregroundDeletion: the garbage collector removes it when no dependent blocks the deletion
  finalizer example.com/hold: its controller has to remove it
  dependent Pod shop/b
  dependent Pod shop/c
  … and 10 more
Dependents: 12 Pods, 1 Set.
"
    );
}

#[test]
fn an_object_without_owners_and_dependents_has_five_lines() {
    let mut explained = mk(NextStep::Rest, GcReason::Unowned);
    explained.relations.owners.clear();
    assert_eq!(
        explained.text(),
        "Pod shop/a, uid uid-a
Owners: none.
Verdict: it has no owner.
Next: nothing: the garbage collector deletes only objects with owners.
Dependents: none.
"
    );
    explained.deletion = Some(Timestamp::UNIX_EPOCH);
    assert!(explained.text().contains("; no finalizer blocks that.\n"));
}

#[test]
fn ten_thousand_owners_are_counted() {
    let mut explained = mk(NextStep::Rest, GcReason::Unowned);
    explained.relations.owners = vec![mk_relation("s", "Solid", "exists"); 10_000];
    let text = explained.text();
    assert!(text.contains("\n  … and 9980 more\n"), "{text}");
    assert!(text.lines().count() < 30);
}

#[test]
fn the_json_has_stable_keys() {
    let mut explained = mk(
        delete(DeletePropagation::Background),
        GcReason::OwnerAbsent {
            owner: owner(),
            proof: AbsenceProof::NotFound,
        },
    );
    explained.relations.owners[0].standing = "Absent";
    explained.relations.dependents = vec![DependentCount {
        kind: "Set".into(),
        resource: "sets.g".into(),
        count: 3,
    }];
    let expected = json!({
        "object": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "a", "uid": "uid-a"},
        "deletionTimestamp": null,
        "verdict": {"rule": "OwnerAbsent", "message": "its owner Set shop/s is gone: the server does not have it"},
        "next": {"action": "delete", "policy": "Background",
            "message": "would delete it now (background: its dependents are deleted afterwards)"},
        "owners": [{"apiVersion": "v1", "kind": "Set", "namespace": "shop", "name": "s", "uid": "uid-s",
            "controller": true, "blocks": false, "standing": "Absent", "message": "exists"}],
        "finalizers": [],
        "blockedBy": {"count": 0, "first": []},
        "dependents": {"sets.g": 3},
        "notes": [],
        "controllers": [],
        "remaining": null,
        "pods": null,
        "failures": [],
    });
    assert_eq!(explained.json(), expected);
}

#[test]
fn other_controllers_come_after_the_garbage_collector() {
    let mut explained = mk(NextStep::Rest, GcReason::Unowned);
    explained.relations.owners.clear();
    let verdict = |next| Verdict {
        next,
        because: GcReason::Doubtful,
        notes: Vec::new(),
    };
    let at = Timestamp::UNIX_EPOCH;
    explained.verdicts = vec![
        ControllerVerdict::of("a", verdict(NextStep::At(at)))
            .assuming(["--x=1".to_owned(), "no --y".to_owned()])
            .after(["something else"])
            .provided("all goes well"),
        ControllerVerdict::of("b", verdict(delete(DeletePropagation::Foreground))),
    ];
    assert_eq!(
        explained.text(),
        "Pod shop/a, uid uid-a
Owners: none.
Verdict: it has no owner.
Next: nothing: the garbage collector deletes only objects with owners.
a: a relist did not show it, or the watch of its kind was lost.
  First: something else.
  Next: nothing before 1970-01-01T00:00:00Z, if all goes well.
  Assumed: --x=1, no --y.
b: a relist did not show it, or the watch of its kind was lost.
  Next: would delete it now (foreground: its dependents are deleted first).
Dependents: none.
"
    );
    let expected = json!({
        "controller": "a",
        "verdict": {"rule": "Doubtful", "message": "a relist did not show it, or the watch of its kind was lost"},
        "next": {"action": "wait", "at": "1970-01-01T00:00:00Z", "message": "nothing before 1970-01-01T00:00:00Z, if all goes well"},
        "notes": [],
        "assumed": ["--x=1", "no --y"],
        "first": ["something else"],
    });
    assert_eq!(explained.json()["controllers"][0], expected);
    assert_eq!(explained.json()["controllers"][1]["assumed"], json!([]));
}

#[test]
fn a_controller_that_waits_to_delete_names_the_time() {
    let verdict = |next: NextStep<GcKey>| Verdict {
        next,
        because: GcReason::Doubtful,
        notes: Vec::new(),
    };
    let end = |next| {
        ControllerVerdict::of_deletion("a", verdict(next), Some(DeletePropagation::Foreground))
            .json()
    };
    let step = json!({"action": "delete", "policy": "Foreground", "at": "1970-01-01T00:00:00Z",
        "message": "would delete it at 1970-01-01T00:00:00Z (foreground: its dependents are deleted first)"});
    assert_eq!(end(NextStep::At(Timestamp::UNIX_EPOCH))["next"], step);
    assert_eq!(end(NextStep::Rest)["next"]["message"], "nothing");
    assert_eq!(end(NextStep::Retry)["next"]["message"], "wait for that");
}

#[test]
fn names_what_keeps_a_namespace() {
    let remaining = |kind: &str, name: &str, finalizers: &[&str]| RemainingObject {
        object: mk_identity(kind, name),
        finalizers: finalizers.iter().map(ToString::to_string).collect(),
    };
    let mut objects = vec![remaining(
        "ConfigMap",
        "held",
        &["example.com/hold", "orphan"],
    )];
    objects.extend((0..21).map(|number| remaining("Pod", &format!("p{number:02}"), &[])));
    objects.push(remaining("Secret", "s", &[]));
    let mut explanation = mk(NextStep::Rest, GcReason::Deleting);
    explanation.deletion = Some(Timestamp::UNIX_EPOCH);
    explanation.remaining = Some(NamespaceContent {
        objects,
        spec_finalizers: vec!["example.com/spec".into()],
        conditions: vec![NamespaceCondition {
            reason: "DiscoveryFailed".into(),
            message: "metrics.k8s.io/v1beta1: stale".into(),
        }],
    });
    let text = explanation.text();
    for expected in [
        "It is being deleted (deletionTimestamp 1970-01-01T00:00:00Z); blocked by:\n",
        "\n  finalizer example.com/spec in its spec: its controller has to remove it\n",
        "\n  ConfigMap shop/held: finalizer example.com/hold: its controller has to remove it; finalizer orphan: the garbage",
        "\n  Pod shop/p18\n  … and 3 more: 2 Pods, 1 Secret\n",
        "\nThe server reports: metrics.k8s.io/v1beta1: stale (DiscoveryFailed)\n",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    explanation.remaining = Some(NamespaceContent::default());
    let text = explanation.text();
    assert!(text.contains("; no object in it was found.\n"), "{text}");
    assert_eq!(explanation.json()["remaining"]["objects"], json!([]));
}
