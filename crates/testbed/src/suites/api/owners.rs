//! Owner references and finalizers: what is accepted, what is refused, what may change while an object goes.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::Session;

pub(super) const CASES: &[TestCase] = &[
    api_case!(owners_need_not_exist),
    api_case!(owners_with_missing_fields_are_422),
    api_case!(owners_with_a_bad_api_version_are_422),
    api_case!(owners_with_two_controllers_are_422),
    api_case!(owners_of_kind_event_are_422),
    api_case!(owners_given_twice_become_one_with_a_warning),
    api_case!(owners_with_one_uid_and_different_flags_stay),
    api_case!(owners_can_be_changed_by_every_write),
    api_case!(owners_are_checked_on_update_too),
    api_case!(owners_of_wrong_type_are_400),
    api_case!(finalizers_must_be_qualified),
    api_case!(finalizers_orphan_and_foreground_exclude_each_other),
    api_case!(finalizers_may_be_repeated),
    api_case!(finalizers_cannot_be_added_while_deleting),
    api_case!(finalizers_can_be_removed_while_deleting),
    api_case!(finalizers_of_a_live_object_come_and_go),
];

fn owned(name: &str, owners: Value) -> Value {
    let mut object = mk_config_map(name);
    object["metadata"]["ownerReferences"] = owners;
    object
}

fn finalized(name: &str, finalizers: &[&str]) -> Value {
    with(
        mk_config_map(name),
        json!({"metadata": {"finalizers": finalizers}}),
    )
}

async fn owners_need_not_exist(s: &mut Session) {
    let owner = with(
        mk_owner("o", 1),
        json!({"controller": true, "blockOwnerDeletion": true}),
    );
    s.post(&CONFIG_MAPS, owned("a", json!([owner]))).await;
    let owner = json!({"apiVersion": "nowhere.io/v7", "kind": "Nothing", "name": "n", "uid": "not even a uuid"});
    s.post(&CONFIG_MAPS, owned("b", json!([owner]))).await;
}

async fn owners_with_missing_fields_are_422(s: &mut Session) {
    for field in ["apiVersion", "kind", "name", "uid"] {
        for object in [
            owned("a", json!([with(mk_owner("o", 1), json!({field: null}))])),
            owned("a", json!([with(mk_owner("o", 1), json!({field: ""}))])),
        ] {
            s.post(&CONFIG_MAPS, object).await;
        }
    }
    s.note("everything")
        .post(&CONFIG_MAPS, owned("a", json!([{}])))
        .await;
    let object = owned(
        "a",
        json!([
            mk_owner("o", 1),
            with(mk_owner("p", 2), json!({"uid": null}))
        ]),
    );
    s.note("the second").post(&CONFIG_MAPS, object).await;
}

async fn owners_with_a_bad_api_version_are_422(s: &mut Session) {
    for version in ["a/b/c", "/v1", "apps/", "/"] {
        let object = owned(
            "a",
            json!([with(mk_owner("o", 1), json!({"apiVersion": version}))]),
        );
        s.post(&CONFIG_MAPS, object).await;
    }
}

async fn owners_with_two_controllers_are_422(s: &mut Session) {
    let controller =
        |name: &str, number: u32| with(mk_owner(name, number), json!({"controller": true}));
    for object in [
        owned("a", json!([controller("o", 1), controller("p", 2)])),
        owned(
            "a",
            json!([
                controller("o", 1),
                with(mk_owner("p", 2), json!({"controller": false}))
            ]),
        ),
    ] {
        s.post(&CONFIG_MAPS, object).await;
    }
}

async fn owners_of_kind_event_are_422(s: &mut Session) {
    s.post(
        &CONFIG_MAPS,
        owned(
            "a",
            json!([with(mk_owner("o", 1), json!({"kind": "Event"}))]),
        ),
    )
    .await;
    let object = owned(
        "b",
        json!([with(
            mk_owner("o", 1),
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"})
        )]),
    );
    s.note("another Event").post(&CONFIG_MAPS, object).await;
}

async fn owners_given_twice_become_one_with_a_warning(s: &mut Session) {
    s.post(
        &CONFIG_MAPS,
        owned(
            "a",
            json!([mk_owner("o", 1), mk_owner("p", 2), mk_owner("o", 1)]),
        ),
    )
    .await;
    let object = owned("a", json!([mk_owner("p", 2), mk_owner("p", 2)]));
    s.put(&CONFIG_MAPS, "a", object).await;
    let patch = json!({"metadata": {"ownerReferences": [mk_owner("q", 3), mk_owner("q", 3)]}});
    s.merge_patch(&CONFIG_MAPS, "a", patch).await;
}

async fn owners_with_one_uid_and_different_flags_stay(s: &mut Session) {
    let blocking = with(mk_owner("o", 1), json!({"blockOwnerDeletion": true}));
    let object = owned(
        "a",
        json!([mk_owner("o", 1), blocking, mk_owner("other", 1)]),
    );
    s.post(&CONFIG_MAPS, object).await;
}

async fn owners_can_be_changed_by_every_write(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.put(&CONFIG_MAPS, "a", owned("a", json!([mk_owner("o", 1)])))
        .await;
    s.json_patch(
        &CONFIG_MAPS,
        "a",
        json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": mk_owner("p", 2)}]),
    )
    .await;
    let patch = json!({"metadata": {"ownerReferences": [mk_owner("p", 2)]}});
    s.merge_patch(&CONFIG_MAPS, "a", patch).await;
    s.put(&CONFIG_MAPS, "a", mk_config_map("a")).await;
}

async fn owners_are_checked_on_update_too(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let bad = json!([with(mk_owner("o", 1), json!({"uid": null}))]);
    s.put(&CONFIG_MAPS, "a", owned("a", bad.clone())).await;
    s.merge_patch(
        &CONFIG_MAPS,
        "a",
        json!({"metadata": {"ownerReferences": bad}}),
    )
    .await;
    let controller =
        |name: &str, number: u32| with(mk_owner(name, number), json!({"controller": true}));
    let patch = json!({"metadata": {"ownerReferences": [controller("o", 1), controller("p", 2)]}});
    s.merge_patch(&CONFIG_MAPS, "a", patch).await;
}

async fn owners_of_wrong_type_are_400(s: &mut Session) {
    s.post(&CONFIG_MAPS, owned("a", json!("text"))).await;
    s.post(&CONFIG_MAPS, owned("a", json!(["text"]))).await;
    let object = owned(
        "a",
        json!([with(mk_owner("o", 1), json!({"controller": "yes"}))]),
    );
    s.post(&CONFIG_MAPS, object).await;
}

async fn finalizers_must_be_qualified(s: &mut Session) {
    for finalizer in [
        "noslash",
        "",
        "a/b/c",
        "Example.com/x",
        "example.com/",
        "/x",
        "foregrounddeletion",
    ] {
        s.post(&CONFIG_MAPS, finalized("a", &[finalizer])).await;
    }
    s.note("the second")
        .post(&CONFIG_MAPS, finalized("a", &["example.com/a", "noslash"]))
        .await;
    for (name, finalizer) in [
        ("a", "orphan"),
        ("b", "foregroundDeletion"),
        ("c", "kubernetes"),
        ("d", "example.com/Any_thing"),
    ] {
        s.post(&CONFIG_MAPS, finalized(name, &[finalizer])).await;
    }
}

async fn finalizers_orphan_and_foreground_exclude_each_other(s: &mut Session) {
    let object = finalized("a", &["orphan", "foregroundDeletion"]);
    s.post(&CONFIG_MAPS, object).await;
    s.post(&CONFIG_MAPS, finalized("a", &["orphan"])).await;
    let patch = json!({"metadata": {"finalizers": ["orphan", "foregroundDeletion"]}});
    s.merge_patch(&CONFIG_MAPS, "a", patch).await;
}

async fn finalizers_may_be_repeated(s: &mut Session) {
    let object = finalized("a", &["example.com/a", "example.com/a"]);
    s.post(&CONFIG_MAPS, object).await;
}

async fn finalizers_cannot_be_added_while_deleting(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.delete(&CONFIG_MAPS, "a").await;
    let object = finalized("a", &["example.com/hold", "example.com/new"]);
    s.put(&CONFIG_MAPS, "a", object).await;
    s.merge_patch(
        &CONFIG_MAPS,
        "a",
        json!({"metadata": {"finalizers": ["example.com/new"]}}),
    )
    .await;
    s.strategic_patch(
        &CONFIG_MAPS,
        "a",
        json!({"metadata": {"finalizers": ["example.com/new"]}}),
    )
    .await;
    let patch = json!({"metadata": {"finalizers": ["example.com/hold", "foregroundDeletion"]}});
    s.note("foregroundDeletion is no exception")
        .merge_patch(&CONFIG_MAPS, "a", patch)
        .await;
}

async fn finalizers_can_be_removed_while_deleting(s: &mut Session) {
    s.post(
        &CONFIG_MAPS,
        finalized("a", &["example.com/a", "example.com/b", "example.com/c"]),
    )
    .await;
    s.delete(&CONFIG_MAPS, "a").await;
    let object = finalized("a", &["example.com/c", "example.com/a"]);
    s.put(&CONFIG_MAPS, "a", object).await;
    let patch = json!({"data": {"k": "2"}, "metadata": {"labels": {"x": "y"}}});
    s.note("other fields may still change")
        .merge_patch(&CONFIG_MAPS, "a", patch)
        .await;
    s.strategic_patch(&CONFIG_MAPS, "a", json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/c", "example.com/a"]}})).await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn finalizers_of_a_live_object_come_and_go(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for patch in [
        json!({"metadata": {"finalizers": ["example.com/a", "orphan"]}}),
        json!({"metadata": {"finalizers": ["noslash"]}}),
        json!({"metadata": {"finalizers": null}}),
    ] {
        s.merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
    s.get(&CONFIG_MAPS, "a").await;
}
