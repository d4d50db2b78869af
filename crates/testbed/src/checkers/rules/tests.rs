use serde_json::{Value, json};

use super::*;
use crate::checkers::KnownKind;
use crate::objects::{CLUSTER_ROLES, CONFIG_MAPS, with};

fn kinds() -> Vec<KnownKind> {
    vec![
        KnownKind::new(CONFIG_MAPS, "v1", "ConfigMap"),
        KnownKind::new(CLUSTER_ROLES, "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ]
}

/// A version of a ConfigMap whose uid is its name.
fn stored(revision: u64, name: &str, metadata: Value) -> StoredObject {
    let own = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": revision.to_string()});
    StoredObject {
        revision,
        is_gone: false,
        object: json!({"metadata": with(own, metadata)}),
        known: 0,
    }
}

fn gone(stored: StoredObject) -> StoredObject {
    StoredObject {
        is_gone: true,
        ..stored
    }
}

fn to(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name})
}

fn owned(revision: u64, name: &str, owners: &[Value]) -> StoredObject {
    stored(revision, name, json!({"ownerReferences": owners}))
}

fn act(
    who: RequestSender,
    method: Method,
    sent: Instant,
    body: Value,
    answer: Value,
) -> RecordedRequest {
    RecordedRequest {
        who,
        sent,
        method,
        path: "/x".to_owned(),
        body,
        status: 200,
        answer,
    }
}

fn deletes(uid: &str, revision: &str, sent: Instant) -> RecordedRequest {
    let body = json!({"preconditions": {"uid": uid, "resourceVersion": revision}});
    act(
        RequestSender::Controllers,
        Method::DELETE,
        sent,
        body,
        Value::Null,
    )
}

fn patches(metadata: Value) -> RecordedRequest {
    let mut body = json!({});
    body["metadata"] = metadata;
    let sent = Instant::now();
    act(
        RequestSender::Controllers,
        Method::PATCH,
        sent,
        body,
        Value::Null,
    )
}

fn check(what: &str, stored: Vec<StoredObject>, act: RecordedRequest, expected: Option<&str>) {
    let found = violations(&ObjectHistory::new(&kinds(), stored), &[act]);
    let rules: Vec<bool> = found
        .iter()
        .map(|found| expected.is_some_and(|rule| found.contains(&format!(": {rule}: "))))
        .collect();
    let wanted: &[bool] = if expected.is_some() { &[true] } else { &[] };
    assert_eq!(rules, wanted, "{what}: {found:?}");
}

/// A delete of a child with these owners, of which those are there.
fn check_delete(what: &str, there: Vec<StoredObject>, owners: &[Value], expected: Option<&str>) {
    let child = owned(5, "child", owners);
    let end = gone(owned(9, "child", owners));
    let stored = [there, vec![child, end]].concat();
    let delete = deletes("child", "5", Instant::now());
    check(what, stored, delete, expected);
}

#[tokio::test(start_paused = true)]
async fn a_delete_needs_every_owner_lost() {
    let waiting = json!({"deletionTimestamp": "t", "finalizers": [FOREGROUND]});
    let leaving = json!({"deletionTimestamp": "t", "finalizers": [ORPHAN]});
    let table = [
        ("alive", json!({}), Some("S1")),
        ("waiting", waiting.clone(), None),
        ("leaving", leaving, Some("S1")),
        ("renamed", json!({"name": "p"}), None),
        ("elsewhere", json!({"namespace": "m"}), None),
    ];
    for (what, owner, expected) in table {
        check_delete(what, vec![stored(1, "o", owner)], &[to("o")], expected);
    }
    let unknown = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x"});
    check_delete("absent", vec![], &[to("o")], None);
    check_delete("no owner", vec![], &[], Some("S1"));
    check_delete("unknown", vec![], &[unknown], Some("S1"));
    let later = vec![stored(10, "o", json!({}))];
    check_delete("made later", later, &[to("o")], None);
    let both = [to("o"), to("p")];
    let other = vec![stored(1, "p", waiting)];
    check_delete("one waits, one is absent", other, &both, None);
    let other = vec![stored(1, "p", json!({}))];
    check_delete("one of two lives", other, &both, Some("S1"));
}

#[tokio::test(start_paused = true)]
async fn unowned_objects_are_deleted_only_after_their_ttl() {
    let finish = "2026-01-01T00:00:00Z";
    let batch =
        json!({"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": finish}]});
    let started = json!({"conditions": [{"type": "Failed", "status": "False", "lastTransitionTime": finish}]});
    let volcano = |phase: &str| json!({"state": {"phase": phase, "lastTransitionTime": finish}});
    let table = [
        (batch.clone(), "2026-01-01T00:01:00Z", None),
        (batch, "2026-01-01T00:00:59Z", Some("S5")),
        (started, "2026-01-01T00:01:00Z", Some("S5")),
        (volcano("Completed"), "2026-01-01T00:01:00Z", None),
        (volcano("Completed"), "2026-01-01T00:00:59Z", Some("S5")),
        (volcano("Aborted"), "2026-01-01T00:01:00Z", Some("S5")),
        (json!({}), "2026-01-01T00:01:00Z", Some("S5")),
    ];
    for (status, deleted, expected) in table {
        let mut job = stored(5, "job", json!({}));
        job.object["spec"]["ttlSecondsAfterFinished"] = 60.into();
        job.object["status"] = status.clone();
        let stored = vec![job.clone(), gone(StoredObject { revision: 9, ..job })];
        let mut delete = deletes("job", "5", Instant::now());
        delete.answer = json!({"metadata": {"deletionTimestamp": deleted}});
        check(&format!("{status} {deleted}"), stored, delete, expected);
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
        RequestSender::Controllers,
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
    let switch = act(RequestSender::User, Method::DELETE, now, json!({}), answer);
    for (after, is_fine) in [(0, true), (1_000, true), (1_001, false)] {
        let sent = now + Duration::from_millis(after);
        let acts = [switch.clone(), deletes("child", "2", sent)];
        let found = violations(&ObjectHistory::new(&kinds(), stored()), &acts);
        assert_eq!(found.is_empty(), is_fine, "{after} ms: {found:?}");
    }
    let untold = deletes("child", "2", now);
    check("when it was is not known", stored(), untold, Some("S1"));
}

/// A patch that makes one version of an object into another, beside others.
fn check_patch(
    what: &str,
    others: Vec<StoredObject>,
    change: (Value, Value),
    expected: Option<&str>,
) {
    let versions = vec![stored(5, "o", change.0), stored(6, "o", change.1)];
    let patch = patches(json!({"uid": "o", "resourceVersion": "5"}));
    check(what, [others, versions].concat(), patch, expected);
}

#[tokio::test(start_paused = true)]
async fn a_patch_touches_nothing_but_references_and_our_finalizers() {
    let deleting =
        |finalizers: &[&str]| json!({"deletionTimestamp": "t", "finalizers": finalizers});
    let ours = || (deleting(&[ORPHAN, "x"]), deleting(&["x"]));
    let lost = || (json!({"ownerReferences": [to("p")]}), json!({}));
    let table = [
        ("ours", vec![], ours(), None),
        (
            "a dependent refers to it",
            vec![owned(1, "child", &[to("o")])],
            ours(),
            Some("S3"),
        ),
        (
            "not ours",
            vec![],
            (deleting(&[ORPHAN, "x"]), deleting(&[ORPHAN])),
            Some("S4"),
        ),
        (
            "a label",
            vec![],
            (json!({}), json!({"labels": {"a": "b"}})),
            Some("S4"),
        ),
        (
            "a new finalizer",
            vec![],
            (json!({}), json!({"finalizers": ["x"]})),
            Some("S4"),
        ),
        ("a new reference", vec![], (lost().1, lost().0), Some("S4")),
        ("a reference to the absent", vec![], lost(), None),
        (
            "a reference to the living",
            vec![stored(1, "p", json!({}))],
            lost(),
            Some("S1"),
        ),
    ];
    for (what, others, change, expected) in table {
        check_patch(what, others, change, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_finalizer_of_another_client_is_seen_to_go() {
    let held = json!({"deletionTimestamp": "t", "finalizers": ["x"]});
    let versions = vec![stored(5, "o", held), gone(stored(6, "o", json!({})))];
    let patch = patches(json!({"uid": "o", "resourceVersion": "5"}));
    check("the end", versions, patch, Some("S4"));
}
