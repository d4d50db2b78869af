use caretaker_controllers::gc::explain::Hanging;
use caretaker_controllers::runtime::call::{Judged, PatchForm, Proof, Target};
use caretaker_controllers::runtime::controller::{Note, Severity};
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::record::{Revision, Uid};

use super::*;

fn mk_identity(kind: &str, name: &str) -> Identity {
    Identity {
        api_version: "v1".into(),
        kind: kind.into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn mk_tie(name: &str, standing: &'static str, message: &str) -> Tie {
    Tie {
        owner: mk_identity("Set", name),
        controller: true,
        blocks: false,
        standing,
        message: message.into(),
    }
}

/// A Pod with one living owner, and the decision `next` because of `because`.
fn mk(next: Next<Key>, because: Reason) -> Explained {
    Explained {
        object: mk_identity("Pod", "a"),
        resource: "pods".into(),
        is_collected: true,
        deletion: None,
        finalizers: Vec::new(),
        ties: Ties {
            owners: vec![mk_tie("s", "Solid", "lives")],
            ..Ties::default()
        },
        verdict: Verdict {
            next,
            because,
            notes: Vec::new(),
        },
        unanswered: None,
        opinions: Vec::new(),
    }
}

fn target() -> Target {
    Target {
        kind: KindId(0),
        namespace: "shop".into(),
        name: "a".into(),
    }
}

fn judged() -> Judged {
    Judged {
        uid: Uid::from("uid-a"),
        revision: Revision::Number(7),
    }
}

fn delete(propagation: Propagation) -> Next<Key> {
    Next::Call(Call::Delete {
        target: target(),
        judged: judged(),
        propagation: Some(propagation),
        grace_secs: None,
    })
}

fn patch() -> Next<Key> {
    Next::Call(Call::Patch {
        target: target(),
        judged: judged(),
        subresource: None,
        form: PatchForm::Merge,
        patch: json!({}),
    })
}

fn owner() -> Identity {
    mk_identity("Set", "s")
}

fn check(table: impl IntoIterator<Item = (Next<Key>, Reason, &'static str)>, action: &str) {
    for (next, because, message) in table {
        let step = mk(next, because).next();
        assert_eq!((step.action, step.message.as_str()), (action, message));
    }
}

#[test]
fn nothing_follows_as_long_as_things_are_as_they_are() {
    check(
        [
            (
                Reason::Owned { owner: owner() },
                "nothing, as long as Set shop/s lives",
            ),
            (
                Reason::Unowned,
                "nothing: only what has owners is collected",
            ),
            (
                Reason::Unserved { owner: owner() },
                "nothing, as long as the server has no v1 with such a kind",
            ),
            (
                Reason::OutOfReach { owner: owner() },
                "nothing, as long as it has this reference",
            ),
            (Reason::Unknown, "nothing"),
        ]
        .map(|(because, message)| (Next::Rest, because, message)),
        "none",
    );
}

#[test]
fn what_is_waited_or_asked_for_is_told() {
    let frozen = Reason::Frozen {
        kind: "pods".into(),
    };
    let waits = Reason::WaitsForList { owner: owner() };
    check(
        [
            (
                Next::Rest,
                Reason::WaitsForDependents { blocking: 1 },
                "would be let go when nobody blocks it any more",
            ),
            (
                Next::Rest,
                Reason::WaitsForOrphans { next: owner() },
                "would be let go when nobody refers to it any more",
            ),
            (
                Next::Rest,
                Reason::Deleting,
                "nothing more: its end is under way",
            ),
            (
                Next::At(Timestamp::UNIX_EPOCH),
                waits,
                "waits for that until 1970-01-01T00:00:00Z at the latest",
            ),
            (Next::Retry, frozen, "waits for that"),
        ],
        "wait",
    );
    let get = Next::Call(Call::Get { target: target() });
    let asks = Reason::AsksFor { owner: owner() };
    check(
        [
            (Next::After(Vec::new()), asks, "the server would be asked"),
            (get, Reason::Doubtful, "the server would be asked"),
        ],
        "ask",
    );
}

#[test]
fn what_would_be_deleted_is_told_with_what_becomes_of_its_dependents() {
    let absent = || Reason::OwnerAbsent {
        owner: owner(),
        proof: Proof::NotFound,
    };
    let table = [
        (
            Propagation::Background,
            "would be deleted now (background: what hangs on it goes after it)",
        ),
        (
            Propagation::Foreground,
            "would be deleted now (foreground: what hangs on it goes before it)",
        ),
        (
            Propagation::Orphan,
            "would be deleted now (orphan: what hangs on it stays)",
        ),
    ];
    check(
        table.map(|(policy, message)| (delete(policy), absent(), message)),
        "delete",
    );
}

#[test]
fn what_would_be_written_is_told() {
    let loses = Reason::LosesOwners {
        owners: vec![mk_identity("Set", "x"), mk_identity("Set", "y")],
        kept: owner(),
    };
    let unseen = Vec::new;
    check(
        [
            (
                loses,
                "would lose its reference to Set shop/x, Set shop/y now",
            ),
            (
                Reason::Orphaned { owner: owner() },
                "would lose its reference to Set shop/s now, and stay",
            ),
            (
                Reason::Ring { with: owner() },
                "would stop blocking its owners now, so that the ring ends",
            ),
            (
                Reason::DependentsGone { unseen: unseen() },
                "would lose its finalizer foregroundDeletion now",
            ),
            (
                Reason::DependentsOrphaned { unseen: unseen() },
                "would lose its finalizer orphan now",
            ),
        ]
        .map(|(because, message)| (patch(), because, message)),
        "patch",
    );
}

#[test]
fn what_is_around_a_decision_can_change_what_follows() {
    let owned = || mk(Next::Rest, Reason::Owned { owner: owner() });
    let mut two = owned();
    two.ties.owners.push(mk_tie("t", "Solid", "lives"));
    assert_eq!(
        two.next().message,
        "nothing, as long as one of its owners lives"
    );

    let mut event = mk(delete(Propagation::Background), Reason::Unowned);
    event.is_collected = false;
    event.resource = "events".into();
    let step = event.next();
    assert_eq!(
        (step.action, step.policy, step.message.as_str()),
        (
            "none",
            None,
            "nothing: garbage collection does not look after events"
        )
    );

    let mut asked = mk(Next::After(Vec::new()), Reason::AsksFor { owner: owner() });
    asked.unanswered = Some("403: no".into());
    assert_eq!(asked.next().action, "ask");
    assert_eq!(
        asked.next().message,
        "nothing before that is known (403: no)"
    );

    let mut held = mk(Next::Rest, Reason::Deleting);
    held.finalizers = vec!["example.com/hold".into()];
    assert_eq!(
        held.next().message,
        "goes when its finalizers have been taken off"
    );
}

#[test]
fn people_read_what_it_is_whose_it_is_what_holds_it_and_what_hangs_on_it() {
    let mut explained = mk(Next::Rest, Reason::WaitsForDependents { blocking: 12 });
    explained.deletion = Some(Timestamp::UNIX_EPOCH);
    explained.finalizers = vec!["foregroundDeletion".into(), "example.com/hold".into()];
    explained.ties.owners[0].message = "is gone:\nnot".into();
    explained.ties.blockers = (vec![mk_identity("Pod", "b"), mk_identity("Pod", "c")], 12);
    let hanging = |kind: &str, resource: &str, count| Hanging {
        kind: kind.into(),
        resource: resource.into(),
        count,
    };
    explained.ties.hanging = vec![hanging("Pod", "pods", 12), hanging("Set", "sets.g", 1)];
    explained.verdict.notes = vec![Note {
        about: owner(),
        severity: Severity::Warning,
        reason: "Odd",
        message: "look".into(),
        dedup_key: None,
    }];
    assert_eq!(
        explained.text(),
        "Pod shop/a, uid uid-a
Owners:
  Set shop/s (controller): is gone:\u{fffd}not
Verdict: 12 dependents block its end.
Next: would be let go when nobody blocks it any more.
Note: look (Odd)
Its deletion was asked for (deletionTimestamp 1970-01-01T00:00:00Z); what holds it up:
  finalizer foregroundDeletion: goes when no dependent blocks it any more
  finalizer example.com/hold: whoever set it has to take it off
  Pod shop/b blocks it
  Pod shop/c blocks it
  … and 10 more
What hangs on it: 12 Pods, 1 Set.
"
    );
}

#[test]
fn an_object_without_any_ties_is_told_in_four_lines() {
    let mut explained = mk(Next::Rest, Reason::Unowned);
    explained.ties.owners.clear();
    assert_eq!(
        explained.text(),
        "Pod shop/a, uid uid-a
Owners: none.
Verdict: it has no owner.
Next: nothing: only what has owners is collected.
Nothing hangs on it.
"
    );
    explained.deletion = Some(Timestamp::UNIX_EPOCH);
    assert!(explained.text().contains("and no finalizer holds it up.\n"));
}

#[test]
fn ten_thousand_owners_are_counted() {
    let mut explained = mk(Next::Rest, Reason::Unowned);
    explained.ties.owners = vec![mk_tie("s", "Solid", "lives"); 10_000];
    let text = explained.text();
    assert!(text.contains("\n  … and 9980 more\n"), "{text}");
    assert!(text.lines().count() < 30);
}

#[test]
fn programs_read_a_stable_object() {
    let mut explained = mk(
        delete(Propagation::Background),
        Reason::OwnerAbsent {
            owner: owner(),
            proof: Proof::NotFound,
        },
    );
    explained.ties.owners[0].standing = "Absent";
    explained.ties.hanging = vec![Hanging {
        kind: "Set".into(),
        resource: "sets.g".into(),
        count: 3,
    }];
    let expected = json!({
        "object": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "a", "uid": "uid-a"},
        "deletionTimestamp": null,
        "verdict": {"rule": "OwnerAbsent", "message": "its owner Set shop/s is gone: the server does not have it"},
        "next": {"action": "delete", "policy": "Background",
            "message": "would be deleted now (background: what hangs on it goes after it)"},
        "owners": [{"apiVersion": "v1", "kind": "Set", "namespace": "shop", "name": "s", "uid": "uid-s",
            "controller": true, "blocks": false, "standing": "Absent", "message": "lives"}],
        "finalizers": [],
        "blockedBy": {"count": 0, "first": []},
        "dependents": {"sets.g": 3},
        "notes": [],
        "controllers": [],
    });
    assert_eq!(explained.json(), expected);
}

#[test]
fn what_other_controllers_decide_comes_after_the_collector() {
    let mut explained = mk(Next::Rest, Reason::Unowned);
    explained.ties.owners.clear();
    let verdict = |next| Verdict {
        next,
        because: Reason::Doubtful,
        notes: Vec::new(),
    };
    let at = Timestamp::UNIX_EPOCH;
    explained.opinions = vec![
        Opinion::of("a", verdict(Next::At(at)))
            .assuming(["--x=1".to_owned(), "no --y".to_owned()])
            .after(["something else"])
            .provided("all goes well"),
        Opinion::of("b", verdict(delete(Propagation::Foreground))),
    ];
    assert_eq!(
        explained.text(),
        "Pod shop/a, uid uid-a
Owners: none.
Verdict: it has no owner.
Next: nothing: only what has owners is collected.
a: a fresh list did not show it.
  First: something else.
  Next: nothing before 1970-01-01T00:00:00Z, if all goes well.
  Assumed: --x=1, no --y.
b: a fresh list did not show it.
  Next: would be deleted now (foreground: what hangs on it goes before it).
Nothing hangs on it.
"
    );
    let expected = json!({
        "controller": "a",
        "verdict": {"rule": "Doubtful", "message": "a fresh list did not show it"},
        "next": {"action": "wait", "at": "1970-01-01T00:00:00Z", "message": "nothing before 1970-01-01T00:00:00Z, if all goes well"},
        "notes": [],
        "assumed": ["--x=1", "no --y"],
        "first": ["something else"],
    });
    assert_eq!(explained.json()["controllers"][0], expected);
    assert_eq!(explained.json()["controllers"][1]["assumed"], json!([]));
}

#[test]
fn a_controller_that_waits_to_delete_says_when() {
    let verdict = |next: Next<Key>| Verdict {
        next,
        because: Reason::Doubtful,
        notes: Vec::new(),
    };
    let end = |next| Opinion::of_an_end("a", verdict(next), Propagation::Foreground).json();
    let step = json!({"action": "delete", "policy": "Foreground", "at": "1970-01-01T00:00:00Z",
        "message": "would be deleted at 1970-01-01T00:00:00Z (foreground: what hangs on it goes before it)"});
    assert_eq!(end(Next::At(Timestamp::UNIX_EPOCH))["next"], step);
    assert_eq!(end(Next::Rest)["next"]["message"], "nothing");
    assert_eq!(end(Next::Retry)["next"]["message"], "waits for that");
}
