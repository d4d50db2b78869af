//! Strategic merge patch: lists that merge by key, directives one by one, and what is no such patch.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::Session;

pub(super) const CASES: &[TestCase] = &[
    api_case!(strategic_patch_merges_maps_and_deletes_nulls),
    api_case!(strategic_patch_merges_owners_by_uid),
    api_case!(strategic_patch_deletes_owners_by_uid),
    api_case!(strategic_patch_unites_finalizers),
    api_case!(strategic_patch_deletes_from_primitive_lists),
    api_case!(strategic_patch_sets_the_order_of_primitives),
    api_case!(strategic_patch_merges_containers_by_name),
    api_case!(strategic_patch_deletes_elements_by_key),
    api_case!(strategic_patch_replaces_a_list),
    api_case!(strategic_patch_replaces_a_map),
    api_case!(strategic_patch_deletes_a_map),
    api_case!(strategic_patch_sets_the_order_of_elements),
    api_case!(strategic_patch_retains_keys_of_a_map),
    api_case!(strategic_patch_retains_keys_of_elements),
    api_case!(strategic_patch_replaces_atomic_lists),
    api_case!(strategic_patch_merges_conditions_by_type),
    api_case!(strategic_patch_merges_ports_by_number),
    api_case!(strategic_patch_without_a_merge_key_is_refused),
    api_case!(strategic_patch_with_a_bad_directive_is_refused),
    api_case!(strategic_patch_with_a_bad_order_is_refused),
    api_case!(strategic_patch_that_is_no_object_is_refused),
    api_case!(strategic_patch_that_changes_nothing_writes_nothing),
    api_case!(strategic_patch_with_a_stale_version_is_409),
    api_case!(strategic_patch_dry_run_stores_nothing),
    api_case!(strategic_patch_of_config_map_data_with_directives),
];

/// The pod template of a Deployment: what these cases patch.
async fn template(s: &mut Session, name: &str, patch: Value) {
    s.strategic_patch(
        &DEPLOYMENTS,
        name,
        json!({"spec": {"template": {"spec": patch}}}),
    )
    .await;
}

fn mk_rich_deployment(name: &str) -> Value {
    let container = |name: &str| json!({"name": name, "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x", "y"]});
    let spec = json!({
        "containers": [container("one"), container("two")],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
    });
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    with(
        mk_deployment(name),
        json!({"spec": {"replicas": 1, "strategy": strategy, "template": {"spec": spec}}}),
    )
}

async fn strategic_patch_merges_maps_and_deletes_nulls(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"x": "1", "y": "2"})))
        .await;
    for patch in [
        json!({"data": {"k": null, "l": "3"}, "metadata": {"labels": {"y": null, "z": "4"}}}),
        json!({"data": null, "metadata": {"labels": null}}),
    ] {
        s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn strategic_patch_merges_owners_by_uid(s: &mut Session) {
    let changes = json!({"metadata": {"ownerReferences": [mk_owner("o", 1)]}});
    s.post(&CONFIG_MAPS, with(mk_config_map("a"), changes))
        .await;
    s.note("a new one comes first")
        .strategic_patch(
            &CONFIG_MAPS,
            "a",
            json!({"metadata": {"ownerReferences": [mk_owner("p", 2)]}}),
        )
        .await;
    s.note("a known one is merged").strategic_patch(&CONFIG_MAPS, "a", json!({"metadata": {"ownerReferences": [{"uid": mk_owner("o", 1)["uid"], "blockOwnerDeletion": true}]}})).await;
    let patch = json!({"metadata": {"ownerReferences": [mk_owner("q", 3), mk_owner("r", 4)]}});
    s.note("two at once")
        .strategic_patch(&CONFIG_MAPS, "a", patch)
        .await;
}

async fn strategic_patch_deletes_owners_by_uid(s: &mut Session) {
    let twice = with(mk_owner("o", 1), json!({"blockOwnerDeletion": true}));
    let changes =
        json!({"metadata": {"ownerReferences": [mk_owner("o", 1), twice, mk_owner("p", 2)]}});
    s.post(&CONFIG_MAPS, with(mk_config_map("a"), changes))
        .await;
    let delete = |number: u32| json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": mk_owner("x", number)["uid"]}]}});
    s.note("all references of that uid")
        .strategic_patch(&CONFIG_MAPS, "a", delete(1))
        .await;
    s.note("none of that uid")
        .strategic_patch(&CONFIG_MAPS, "a", delete(9))
        .await;
    s.strategic_patch(&CONFIG_MAPS, "a", delete(2)).await;
}

async fn strategic_patch_unites_finalizers(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.strategic_patch(
        &CONFIG_MAPS,
        "a",
        json!({"metadata": {"finalizers": ["example.com/new", "example.com/hold"]}}),
    )
    .await;
    let patch = json!({"metadata": {"finalizers": ["example.com/newer"]}});
    s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
    s.note("an empty list adds nothing")
        .strategic_patch(&CONFIG_MAPS, "a", json!({"metadata": {"finalizers": []}}))
        .await;
    s.note("null removes all")
        .strategic_patch(&CONFIG_MAPS, "a", json!({"metadata": {"finalizers": null}}))
        .await;
}

fn mk_three_finalizers() -> Value {
    with(
        mk_config_map("a"),
        json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}}),
    )
}

async fn strategic_patch_deletes_from_primitive_lists(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_three_finalizers()).await;
    s.strategic_patch(&CONFIG_MAPS, "a", json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b", "example.com/none"]}})).await;
    let both = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"], "finalizers": ["example.com/d"]}});
    s.strategic_patch(&CONFIG_MAPS, "a", both).await;
    s.note("the last ones").strategic_patch(&CONFIG_MAPS, "a", json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/c", "example.com/d"]}})).await;
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "example.com/a"}});
    s.note("not a list")
        .strategic_patch(&CONFIG_MAPS, "a", patch)
        .await;
}

async fn strategic_patch_sets_the_order_of_primitives(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_three_finalizers()).await;
    let order = |order: &[&str]| json!({"metadata": {"$setElementOrder/finalizers": order}});
    s.strategic_patch(
        &CONFIG_MAPS,
        "a",
        order(&["example.com/c", "example.com/b", "example.com/a"]),
    )
    .await;
    let patch = order(&["example.com/a", "example.com/c"]);
    s.note("the others keep their place among them")
        .strategic_patch(&CONFIG_MAPS, "a", patch)
        .await;
    let both = json!({"metadata": {"$setElementOrder/finalizers": ["example.com/d", "example.com/c", "example.com/b", "example.com/a"], "finalizers": ["example.com/d"]}});
    s.strategic_patch(&CONFIG_MAPS, "a", both).await;
}

async fn strategic_patch_merges_containers_by_name(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(s, "a", json!({"containers": [{"name": "two", "image": "new", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]})).await;
    s.note("a new one comes first");
    template(
        s,
        "a",
        json!({"containers": [{"name": "three", "image": "i"}]}),
    )
    .await;
}

async fn strategic_patch_deletes_elements_by_key(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(s, "a", json!({"containers": [{"$patch": "delete", "name": "one"}, {"name": "two", "env": [{"$patch": "delete", "name": "A"}]}]})).await;
    s.note("the last one");
    template(
        s,
        "a",
        json!({"containers": [{"$patch": "delete", "name": "two"}]}),
    )
    .await;
}

async fn strategic_patch_replaces_a_list(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(
        s,
        "a",
        json!({"containers": [{"$patch": "replace"}, {"name": "new", "image": "i"}]}),
    )
    .await;
    s.note("the directive may stand last");
    template(
        s,
        "a",
        json!({"containers": [{"name": "newer", "image": "i"}, {"$patch": "replace"}]}),
    )
    .await;
}

async fn strategic_patch_replaces_a_map(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"x": "1", "y": "2"})))
        .await;
    for patch in [
        json!({"metadata": {"labels": {"$patch": "replace", "z": "3"}}}),
        json!({"metadata": {"labels": {"$patch": "merge", "w": "4"}}}),
    ] {
        s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn strategic_patch_deletes_a_map(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"x": "1"})))
        .await;
    let patch = json!({"metadata": {"labels": {"$patch": "delete"}}});
    s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(s, "a", json!({"volumes": [{"name": "v", "emptyDir": {"$patch": "delete"}, "hostPath": {"path": "/x", "type": ""}}]})).await;
}

async fn strategic_patch_sets_the_order_of_elements(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(
        s,
        "a",
        json!({"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}),
    )
    .await;
    s.note("with a new one");
    let patch = json!({"$setElementOrder/containers": [{"name": "one"}, {"name": "new"}, {"name": "two"}], "containers": [{"name": "new", "image": "i"}]});
    template(s, "a", patch).await;
}

async fn strategic_patch_retains_keys_of_a_map(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    s.strategic_patch(&DEPLOYMENTS, "a", patch).await;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    s.note("a key that is not listed")
        .strategic_patch(&DEPLOYMENTS, "a", patch)
        .await;
}

async fn strategic_patch_retains_keys_of_elements(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(s, "a", json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x", "type": ""}}]})).await;
}

async fn strategic_patch_replaces_atomic_lists(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(s, "a", json!({"tolerations": [{"key": "b", "operator": "Exists"}], "containers": [{"name": "one", "args": ["z"]}]})).await;
}

async fn strategic_patch_merges_conditions_by_type(s: &mut Session) {
    s.hide(&["spec"]);
    s.post(&PODS, mk_pod("a")).await;
    let condition = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    for patch in [
        condition("Ready", "False"),
        condition("Mine", "True"),
        condition("Ready", "True"),
        json!({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
    ] {
        s.strategic_patch(&PODS, "a/status", patch).await;
    }
}

async fn strategic_patch_merges_ports_by_number(s: &mut Session) {
    s.hide(&["status"]);
    s.hide_defaults();
    s.post(&SERVICES, mk_service("a")).await;
    let more = json!({"port": 81, "name": "more", "protocol": "TCP", "targetPort": 81});
    for patch in [
        json!({"spec": {"ports": [{"port": 80, "name": "web"}, more]}}),
        json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
    ] {
        s.strategic_patch(&SERVICES, "a", patch).await;
    }
}

async fn strategic_patch_without_a_merge_key_is_refused(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(s, "a", json!({"containers": [{"image": "i"}]})).await;
    template(s, "a", json!({"containers": [{"$patch": "delete"}]})).await;
    template(s, "a", json!({"containers": ["one"]})).await;
    template(s, "a", json!({"containers": {"name": "one"}})).await;
}

async fn strategic_patch_with_a_bad_directive_is_refused(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    template(
        s,
        "a",
        json!({"containers": [{"$patch": "explode", "name": "one"}]}),
    )
    .await;
    for patch in [
        json!({"metadata": {"labels": {"$patch": "explode"}}}),
        json!({"metadata": {"labels": {"$patch": 1}}}),
        json!({"metadata": {"$retainKeys": "name"}}),
        json!({"$patch": "delete"}),
    ] {
        s.strategic_patch(&DEPLOYMENTS, "a", patch).await;
    }
}

async fn strategic_patch_with_a_bad_order_is_refused(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&DEPLOYMENTS, mk_rich_deployment("a")).await;
    s.note("an element that is not in the order");
    template(s, "a", json!({"$setElementOrder/containers": [{"name": "one"}], "containers": [{"name": "two", "image": "new"}]})).await;
    s.note("an order of something else");
    template(s, "a", json!({"$setElementOrder/containers": ["one"]})).await;
    template(
        s,
        "a",
        json!({"$setElementOrder/containers": [{"image": "i"}]}),
    )
    .await;
}

async fn strategic_patch_that_is_no_object_is_refused(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for patch in [
        json!([]),
        json!(null),
        json!("text"),
        json!({"data": "text"}),
        json!({"data": {"k": 1}}),
        json!({"metadata": {"finalizers": "text"}}),
    ] {
        s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
    }
}

async fn strategic_patch_that_changes_nothing_writes_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.strategic_patch(&CONFIG_MAPS, "a", json!({})).await;
    let patch =
        json!({"metadata": {"finalizers": ["example.com/hold"]}, "data": {"k": "v", "l": null}});
    s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
}

async fn strategic_patch_with_a_stale_version_is_409(s: &mut Session) {
    let old = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let patch = |value: &str| json!({"metadata": {"resourceVersion": old.rv(), "uid": old.uid()}, "data": {"k": value}});
    s.strategic_patch(&CONFIG_MAPS, "a", patch("2")).await;
    s.strategic_patch(&CONFIG_MAPS, "a", patch("3")).await;
}

async fn strategic_patch_dry_run_stores_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.strategic_patch(&CONFIG_MAPS, "a?dryRun=All", json!({"data": {"k": "2"}}))
        .await;
    s.get(&CONFIG_MAPS, "a").await;
}

async fn strategic_patch_of_config_map_data_with_directives(s: &mut Session) {
    let object = with(mk_config_map("a"), json!({"data": {"l": "2"}}));
    s.post(&CONFIG_MAPS, object).await;
    for patch in [
        json!({"data": {"$patch": "replace", "m": "3"}}),
        json!({"data": {"$retainKeys": ["m", "n"], "n": "4"}}),
    ] {
        s.strategic_patch(&CONFIG_MAPS, "a", patch).await;
    }
}
