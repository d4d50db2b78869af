use serde_json::{Value, json};

use super::*;
use crate::checkers::Known;
use crate::objects::{CLUSTER_ROLES, CONFIG_MAPS, with};

fn kinds() -> Vec<Known> {
    vec![
        Known::new(CONFIG_MAPS, "v1", "ConfigMap"),
        Known::new(CLUSTER_ROLES, "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ]
}

/// A version of a ConfigMap whose uid is its name.
fn stored(revision: u64, name: &str, metadata: Value) -> Stored {
    let own = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": revision.to_string()});
    Stored {
        revision,
        is_gone: false,
        object: json!({"metadata": with(own, metadata)}),
        known: 0,
    }
}

fn gone(stored: Stored) -> Stored {
    Stored {
        is_gone: true,
        ..stored
    }
}

fn to(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name})
}

fn owned(revision: u64, name: &str, owners: &[Value]) -> Stored {
    stored(revision, name, json!({"ownerReferences": owners}))
}

fn act(who: Who, method: Method, sent: Instant, body: Value, answer: Value) -> Act {
    Act {
        who,
        sent,
        method,
        path: "/x".to_owned(),
        body,
        status: 200,
        answer,
    }
}

fn deletes(uid: &str, revision: &str, sent: Instant) -> Act {
    let body = json!({"preconditions": {"uid": uid, "resourceVersion": revision}});
    act(Who::Controllers, Method::DELETE, sent, body, Value::Null)
}

fn patches(metadata: Value) -> Act {
    let mut body = json!({});
    body["metadata"] = metadata;
    let sent = Instant::now();
    act(Who::Controllers, Method::PATCH, sent, body, Value::Null)
}

fn check(what: &str, stored: Vec<Stored>, act: Act, expected: Option<&str>) {
    let found = violations(&History::new(&kinds(), stored), &[act]);
    let rules: Vec<bool> = found
        .iter()
        .map(|found| expected.is_some_and(|rule| found.contains(&format!(": {rule}: "))))
        .collect();
    let wanted: &[bool] = if expected.is_some() { &[true] } else { &[] };
    assert_eq!(rules, wanted, "{what}: {found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delete_needs_every_owner_lost() {
    let child = |owners: &[Value]| {
        let child = owned(5, "child", owners);
        vec![
            child.clone(),
            gone(Stored {
                revision: 9,
                ..child
            }),
        ]
    };
    let waiting = json!({"deletionTimestamp": "t", "finalizers": [FOREGROUND]});
    let leaving = json!({"deletionTimestamp": "t", "finalizers": [ORPHAN]});
    let unknown = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"});
    let table = [
        ("absent", vec![], vec![to("o")], None),
        (
            "alive",
            vec![stored(1, "o", json!({}))],
            vec![to("o")],
            Some("S1"),
        ),
        (
            "waiting",
            vec![stored(1, "o", waiting.clone())],
            vec![to("o")],
            None,
        ),
        (
            "leaving",
            vec![stored(1, "o", leaving)],
            vec![to("o")],
            Some("S1"),
        ),
        ("nobody", vec![], vec![], Some("S1")),
        ("unknown", vec![], vec![unknown], Some("S1")),
        (
            "renamed",
            vec![stored(1, "o", json!({"name": "p"}))],
            vec![to("o")],
            None,
        ),
        (
            "elsewhere",
            vec![stored(1, "o", json!({"namespace": "m"}))],
            vec![to("o")],
            None,
        ),
        (
            "made later",
            vec![stored(10, "o", json!({}))],
            vec![to("o")],
            None,
        ),
        (
            "one of two",
            vec![stored(1, "p", waiting)],
            vec![to("o"), to("p")],
            None,
        ),
        (
            "one of two lives",
            vec![stored(1, "p", json!({}))],
            vec![to("o"), to("p")],
            Some("S1"),
        ),
    ];
    for (what, owners, references, expected) in table {
        let stored = [owners, child(&references)].concat();
        check(
            what,
            stored,
            deletes("child", "5", Instant::now()),
            expected,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_says_which_copy_was_judged() {
    let child = || {
        vec![
            owned(5, "child", &[to("o")]),
            gone(owned(9, "child", &[to("o")])),
        ]
    };
    let now = Instant::now();
    check("named", child(), deletes("child", "5", now), None);
    check(
        "another version",
        child(),
        deletes("child", "4", now),
        Some("S2"),
    );
    check(
        "another uid",
        child(),
        deletes("other", "5", now),
        Some("S2"),
    );
    let bare = act(
        Who::Controllers,
        Method::DELETE,
        now,
        json!({}),
        Value::Null,
    );
    check("nothing", child(), bare, Some("S2"));
    check(
        "a patch",
        child(),
        patches(json!({"uid": "child"})),
        Some("S2"),
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_counts_as_waiting_for_a_moment_after_it_changed_its_mind() {
    let waiting = json!({"deletionTimestamp": "t", "finalizers": [FOREGROUND]});
    let leaving = json!({"deletionTimestamp": "t", "finalizers": [ORPHAN]});
    let stored = || {
        vec![
            stored(1, "o", waiting.clone()),
            owned(2, "child", &[to("o")]),
            stored(3, "o", leaving.clone()),
            gone(owned(4, "child", &[to("o")])),
        ]
    };
    let now = Instant::now();
    let answer = json!({"metadata": {"resourceVersion": "3"}});
    let switch = act(Who::User, Method::DELETE, now, json!({}), answer);
    for (after, is_fine) in [(0, true), (1_000, true), (1_001, false)] {
        let sent = now + Duration::from_millis(after);
        let acts = [switch.clone(), deletes("child", "2", sent)];
        let found = violations(&History::new(&kinds(), stored()), &acts);
        assert_eq!(found.is_empty(), is_fine, "{after} ms: {found:?}");
    }
    let untold = deletes("child", "2", now);
    check("when it was is not known", stored(), untold, Some("S1"));
}

#[tokio::test(start_paused = true)]
async fn a_patch_touches_nothing_but_references_and_our_finalizers() {
    let version = |revision, more: Value| stored(revision, "o", more);
    let deleting = json!({"deletionTimestamp": "t", "finalizers": [ORPHAN, "x"]});
    let patch = || patches(json!({"uid": "o", "resourceVersion": "5"}));
    let rest = json!({"deletionTimestamp": "t", "finalizers": ["x"]});
    let child = owned(1, "child", &[to("o")]);
    let table = [
        (
            "ours",
            vec![version(5, deleting.clone()), version(6, rest.clone())],
            None,
        ),
        (
            "somebody refers to it",
            vec![child, version(5, deleting.clone()), version(6, rest)],
            Some("S3"),
        ),
        (
            "not ours",
            vec![
                version(5, deleting.clone()),
                version(6, json!({"deletionTimestamp": "t", "finalizers": [ORPHAN]})),
            ],
            Some("S4"),
        ),
        (
            "a label",
            vec![
                version(5, json!({})),
                version(6, json!({"labels": {"a": "b"}})),
            ],
            Some("S4"),
        ),
        (
            "a new finalizer",
            vec![
                version(5, json!({})),
                version(6, json!({"finalizers": ["x"]})),
            ],
            Some("S4"),
        ),
        (
            "a new reference",
            vec![
                version(5, json!({})),
                version(6, json!({"ownerReferences": [to("p")]})),
            ],
            Some("S4"),
        ),
        (
            "a reference to the absent",
            vec![
                version(5, json!({"ownerReferences": [to("p")]})),
                version(6, json!({})),
            ],
            None,
        ),
        (
            "a reference to the living",
            vec![
                stored(1, "p", json!({})),
                version(5, json!({"ownerReferences": [to("p")]})),
                version(6, json!({})),
            ],
            Some("S1"),
        ),
        (
            "the last finalizer of another",
            vec![
                version(5, json!({"deletionTimestamp": "t", "finalizers": ["x"]})),
                gone(version(6, json!({}))),
            ],
            Some("S4"),
        ),
    ];
    for (what, stored, expected) in table {
        check(what, stored, patch(), expected);
    }
}
