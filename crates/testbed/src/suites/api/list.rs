//! List: selectors, pages at one revision, resourceVersion and its match, order.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(list_items_of_built_in_kinds_have_no_kind),
    api_case!(list_of_nothing_has_empty_items),
    api_case!(list_version_grows_with_unrelated_writes),
    api_case!(list_is_ordered_by_name),
    api_case!(list_over_namespaces_is_ordered_by_key_bytes),
    api_case!(list_pages_are_at_one_revision),
    api_case!(list_pages_do_not_see_later_deletes),
    api_case!(list_without_limit_continues_to_the_end),
    api_case!(list_pages_may_change_their_size),
    api_case!(list_pages_with_a_selector_do_not_count_the_rest),
    api_case!(list_limit_equal_to_the_count_has_no_continue),
    api_case!(list_limit_is_ignored_at_version_0),
    api_case!(list_continue_with_a_resource_version_is_400),
    api_case!(list_continue_with_a_match_is_422),
    api_case!(list_at_an_exact_version_sees_the_past),
    api_case!(list_not_older_than_sees_the_present),
    api_case!(list_at_a_version_with_a_limit_is_exact),
    api_case!(list_match_combinations_that_make_no_sense_are_422),
    api_case!(list_at_a_garbage_version_is_400),
    api_case!(list_at_a_future_version_is_504),
    api_case!(get_at_a_version_is_not_older),
    api_case!(get_at_a_garbage_version_is_500),
    api_case!(list_with_send_initial_events_is_422),
    api_case!(list_label_selectors_of_every_form),
    api_case!(list_label_selectors_that_are_none_are_400),
    api_case!(list_field_selectors_of_every_form),
    api_case!(list_field_selectors_of_pods),
    api_case!(list_field_selectors_of_other_kinds),
    api_case!(list_field_selectors_that_are_unknown_are_400),
    api_case!(list_of_both_selectors_is_their_intersection),
    api_case!(list_negative_limit_is_no_limit),
    api_case!(events_are_the_same_in_both_groups),
];

async fn list_items_of_built_in_kinds_have_no_kind(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.list(&CONFIG_MAPS, "").await;
    s.post(&LEASES, mk_lease("a")).await;
    s.list(&LEASES, "").await;
}

async fn list_of_nothing_has_empty_items(s: &mut Session) {
    s.list(&CONFIG_MAPS, "").await;
    s.list(&CONFIG_MAPS, "limit=5").await;
    s.list(&CONFIG_MAPS, "resourceVersion=0").await;
    s.list(&DEPLOYMENTS, "labelSelector=a").await;
}

async fn list_version_grows_with_unrelated_writes(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.list(&CONFIG_MAPS, "").await;
    s.post(&SECRETS, mk_object("v1", "Secret", "a")).await;
    s.list(&CONFIG_MAPS, "").await;
    s.note("an object's own version does not")
        .get(&CONFIG_MAPS, "a")
        .await;
}

async fn names(s: &mut Session, names: &[&str]) {
    for name in names {
        s.post(&CONFIG_MAPS, mk_config_map(name)).await;
    }
}

async fn list_is_ordered_by_name(s: &mut Session) {
    names(s, &["b", "a.b", "a-b", "a", "a0", "10", "9"]).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn list_over_namespaces_is_ordered_by_key_bytes(s: &mut Session) {
    let inner = s.ns().to_owned();
    let outer = format!("{inner}-b");
    s.post(&NAMESPACES, mk_namespace(&outer)).await;
    let mine = json!({"list": "ordered"});
    s.post(&CONFIG_MAPS, mk_labelled("a", mine.clone())).await;
    let ask = Ask::post(CONFIG_MAPS.collection(&outer), &mk_labelled("z", mine));
    s.ask(ask).await;
    let path = format!("{}?labelSelector=list%3Dordered", CONFIG_MAPS.everywhere());
    s.note("'-' is before '/'").get_path(path).await;
}

async fn list_pages_are_at_one_revision(s: &mut Session) {
    names(s, &["a", "b", "c", "d", "e"]).await;
    let page = s.list(&CONFIG_MAPS, "limit=2").await;
    s.note("writes between the pages")
        .post(&CONFIG_MAPS, mk_config_map("bb"))
        .await;
    s.post(&CONFIG_MAPS, mk_config_map("f")).await;
    s.merge_patch(&CONFIG_MAPS, "c", json!({"data": {"k": "changed"}}))
        .await;
    let page = s.list(&CONFIG_MAPS, &page.after("limit=2&")).await;
    s.list(&CONFIG_MAPS, &page.after("limit=2&")).await;
}

async fn list_pages_do_not_see_later_deletes(s: &mut Session) {
    names(s, &["a", "b", "c"]).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    s.delete_all(&CONFIG_MAPS, "", json!({})).await;
    s.list(&CONFIG_MAPS, &page.after("limit=1&")).await;
    s.list(&CONFIG_MAPS, &page.after("")).await;
    s.note("the same token again")
        .list(&CONFIG_MAPS, &page.after("limit=1&"))
        .await;
}

async fn list_without_limit_continues_to_the_end(s: &mut Session) {
    names(s, &["a", "b", "c", "d"]).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    s.list(&CONFIG_MAPS, &page.after("")).await;
    s.note("version 0 does not disturb")
        .list(&CONFIG_MAPS, &page.after("resourceVersion=0&"))
        .await;
}

async fn list_pages_may_change_their_size(s: &mut Session) {
    names(s, &["a", "b", "c", "d"]).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    s.list(&CONFIG_MAPS, &page.after("limit=2&")).await;
    let query = &page.after("fieldSelector=metadata.name%3Dd&");
    s.note("or their selector").list(&CONFIG_MAPS, query).await;
}

async fn list_pages_with_a_selector_do_not_count_the_rest(s: &mut Session) {
    for (name, label) in [("a", "1"), ("b", "2"), ("c", "1"), ("d", "1")] {
        s.post(&CONFIG_MAPS, mk_labelled(name, json!({"l": label})))
            .await;
    }
    let page = s.list(&CONFIG_MAPS, "limit=2&labelSelector=l%3D1").await;
    s.list(&CONFIG_MAPS, &page.after("limit=2&labelSelector=l%3D1&"))
        .await;
    s.note("nothing more matches, but there are more names to look at")
        .list(&CONFIG_MAPS, "limit=1&labelSelector=l%3D2")
        .await;
}

async fn list_limit_equal_to_the_count_has_no_continue(s: &mut Session) {
    names(s, &["a", "b"]).await;
    s.list(&CONFIG_MAPS, "limit=2").await;
    s.list(&CONFIG_MAPS, "limit=3").await;
}

async fn list_limit_is_ignored_at_version_0(s: &mut Session) {
    names(s, &["a", "b", "c"]).await;
    s.settle(&CONFIG_MAPS).await;
    s.list(&CONFIG_MAPS, "limit=1&resourceVersion=0").await;
    s.note("with the match spelled out too")
        .list(
            &CONFIG_MAPS,
            "limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
        )
        .await;
}

async fn list_continue_with_a_resource_version_is_400(s: &mut Session) {
    names(s, &["a", "b"]).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    let query = format!(
        "limit=1&resourceVersion={}&continue={}",
        page.rv(),
        page.token()
    );
    let answer = s
        .quietly(Ask::get(format!("{}?{query}", s.path(&CONFIG_MAPS))))
        .await;
    s.record(json!({"request": "with the list's own version", "status": answer.status, "body": answer.body}));
}

async fn list_continue_with_a_match_is_422(s: &mut Session) {
    names(s, &["a", "b"]).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    for query in [
        &page.after("resourceVersion=0&resourceVersionMatch=NotOlderThan&"),
        &page.after("resourceVersionMatch=Exact&"),
    ] {
        s.list(&CONFIG_MAPS, query).await;
    }
}

async fn list_at_an_exact_version_sees_the_past(s: &mut Session) {
    names(s, &["a"]).await;
    let then = s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    names(s, &["c"]).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "changed"}}))
        .await;
    s.delete(&CONFIG_MAPS, "b").await;
    let exact = format!("resourceVersion={}&resourceVersionMatch=Exact", then.rv());
    s.list(&CONFIG_MAPS, &exact).await;
    s.list(&CONFIG_MAPS, &format!("limit=1&{exact}")).await;
    s.list(&CONFIG_MAPS, &format!("labelSelector=none&{exact}"))
        .await;
}

async fn list_not_older_than_sees_the_present(s: &mut Session) {
    let then = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let now = s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    for query in [
        &format!("resourceVersion={}", now.rv()),
        &format!("resourceVersion={}", then.rv()),
        &format!(
            "resourceVersion={}&resourceVersionMatch=NotOlderThan",
            then.rv()
        ),
        &format!(
            "resourceVersion={}&resourceVersionMatch=NotOlderThan&limit=1",
            then.rv()
        ),
    ] {
        s.list(&CONFIG_MAPS, query).await;
    }
}

async fn list_at_a_version_with_a_limit_is_exact(s: &mut Session) {
    names(s, &["a"]).await;
    let then = s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    names(s, &["c"]).await;
    let query = &format!("resourceVersion={}&limit=1", then.rv());
    let page = s.list(&CONFIG_MAPS, query).await;
    s.list(&CONFIG_MAPS, &page.after("")).await;
}

async fn list_match_combinations_that_make_no_sense_are_422(s: &mut Session) {
    for query in [
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=Nearly&resourceVersion=5",
        "resourceVersionMatch=&resourceVersion=0",
    ] {
        s.list(&CONFIG_MAPS, query).await;
    }
}

async fn list_at_a_garbage_version_is_400(s: &mut Session) {
    for query in [
        "resourceVersion=abc",
        "resourceVersion=-1",
        "resourceVersion=1.5",
        "resourceVersion=abc&resourceVersionMatch=Exact",
        "resourceVersion=99999999999999999999999",
    ] {
        s.list(&CONFIG_MAPS, query).await;
    }
}

async fn list_at_a_future_version_is_504(s: &mut Session) {
    s.list(&CONFIG_MAPS, "resourceVersion=999999999999").await;
    let query = "resourceVersion=999999999999&resourceVersionMatch=Exact";
    s.list(&CONFIG_MAPS, query).await;
    s.list(&CONFIG_MAPS, "resourceVersion=999999999999&limit=1")
        .await;
    s.get(&CONFIG_MAPS, "a?resourceVersion=999999999999").await;
}

async fn get_at_a_version_is_not_older(s: &mut Session) {
    let made = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.settle(&CONFIG_MAPS).await;
    s.get(&CONFIG_MAPS, "a?resourceVersion=0").await;
    s.get(&CONFIG_MAPS, &format!("a?resourceVersion={}", made.rv()))
        .await;
    s.get(&CONFIG_MAPS, "missing?resourceVersion=0").await;
}

async fn get_at_a_garbage_version_is_500(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.get(&CONFIG_MAPS, "a?resourceVersion=abc").await;
}

async fn list_with_send_initial_events_is_422(s: &mut Session) {
    s.list(&CONFIG_MAPS, "sendInitialEvents=true").await;
    s.list(&CONFIG_MAPS, "sendInitialEvents=false").await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0";
    s.list(&CONFIG_MAPS, query).await;
    s.note("bookmarks are not asked for on lists")
        .list(&CONFIG_MAPS, "allowWatchBookmarks=true")
        .await;
}

async fn list_label_selectors_of_every_form(s: &mut Session) {
    for object in [
        mk_labelled("both", json!({"l": "1", "m": "x"})),
        mk_labelled("one", json!({"l": "2"})),
        mk_labelled("empty", json!({"l": ""})),
        mk_config_map("none"),
    ] {
        s.post(&CONFIG_MAPS, object).await;
    }
    for selector in [
        "l%3D1",
        "l%3D%3D1",
        "l!%3D1",
        "l%20in%20(1,2)",
        "l%20notin%20(1,2)",
        "l",
        "!l",
        "l%3D1,m%3Dx",
        "l%3D1,m!%3Dx",
        "l%3D",
        "%20l%20%3D%201%20",
        "l%20in%20(1,)",
        "l%3E1",
        "l%3C2",
        "l%20in%20(2,1,1)",
        ",l",
    ] {
        let names = |body: &serde_json::Value| match body["items"].as_array() {
            Some(items) => items
                .iter()
                .map(|item| item["metadata"]["name"].clone())
                .collect(),
            None => body.clone(),
        };
        let path = format!("{}?labelSelector={selector}", s.path(&CONFIG_MAPS));
        s.ask(Ask::get(path).viewed(names)).await;
    }
}

async fn list_label_selectors_that_are_none_are_400(s: &mut Session) {
    let long = format!("l%3D{}", "x".repeat(64));
    for selector in [
        "%3D%3D",
        "a%20b",
        "l%20in%20()",
        "l%20in%20(1",
        "l%20near%20(1)",
        "a%20b%3Dc",
        "l%3Dx%2Fy",
        "-l",
        "l%3E%3D1",
        "l%3Ea",
        "l%3D1%3D2",
        "(",
        &long,
        "%F0%9F%92%A9",
    ] {
        s.list(&CONFIG_MAPS, &format!("labelSelector={selector}"))
            .await;
    }
}

async fn list_field_selectors_of_every_form(s: &mut Session) {
    names(s, &["a", "b"]).await;
    let ns = s.ns().to_owned();
    for selector in [
        "metadata.name%3Da",
        "metadata.name%3D%3Da",
        "metadata.name!%3Da",
        "metadata.name%3Da,metadata.name%3Db",
        "metadata.name%3Da,metadata.name!%3Db",
        "metadata.namespace%3Dother",
        "metadata.name%3D",
    ] {
        s.list(&CONFIG_MAPS, &format!("fieldSelector={selector}"))
            .await;
    }
    let query = &format!("fieldSelector=metadata.namespace%3D{ns}");
    s.list(&CONFIG_MAPS, query).await;
}

async fn list_field_selectors_of_pods(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, mk_bound_pod("bound")).await;
    s.post(&PODS, mk_pod("free")).await;
    let patch = json!({"status": {"phase": "Running"}});
    s.merge_patch(&PODS, "bound/status", patch).await;
    for selector in [
        "spec.nodeName%3Dnode-1",
        "spec.nodeName%3D",
        "spec.host%3Dnode-1",
        "spec.nodeName!%3Dnode-1",
        "status.phase%3DRunning",
        "status.phase!%3DRunning",
        "spec.restartPolicy%3DAlways,status.phase%3DPending",
        "spec.schedulerName%3Ddefault-scheduler,metadata.name%3Dbound",
    ] {
        s.list(&PODS, &format!("fieldSelector={selector}")).await;
    }
}

async fn list_field_selectors_of_other_kinds(s: &mut Session) {
    let ns = s.ns().to_owned();
    s.post(&SECRETS, mk_object("v1", "Secret", "a")).await;
    s.list(&SECRETS, "fieldSelector=type%3DOpaque").await;
    s.list(&SECRETS, "fieldSelector=type%3Dother").await;
    s.post(&EVENTS, mk_event("a", &ns)).await;
    s.list(&EVENTS, "fieldSelector=involvedObject.name%3Dp,involvedObject.kind%3DPod,reason%3DBecause,type%3DNormal").await;
    s.list(&EVENTS, "fieldSelector=involvedObject.name%3Dq")
        .await;
    s.hide(&["spec", "status"]);
    s.post(&JOBS, mk_job("a")).await;
    s.list(&JOBS, "fieldSelector=status.successful%3D0").await;
    s.list(
        &NAMESPACES,
        &format!("fieldSelector=status.phase%3DActive,metadata.name%3D{ns}"),
    )
    .await;
    s.list(&NODES, "fieldSelector=spec.unschedulable%3Dtrue")
        .await;
    s.post(&SERVICES, mk_service("a")).await;
    let query = "fieldSelector=spec.type%3DClusterIP,spec.clusterIP%3DNone";
    s.list(&SERVICES, query).await;
}

async fn list_field_selectors_that_are_unknown_are_400(s: &mut Session) {
    for selector in [
        "nope%3D1",
        "spec.nodeName%3Da",
        "metadata.uid%3Da",
        "a",
        "metadata.name%3Ea",
        "metadata.name%20in%20(a)",
    ] {
        s.list(&CONFIG_MAPS, &format!("fieldSelector={selector}"))
            .await;
    }
    s.list(&DEPLOYMENTS, "fieldSelector=spec.replicas%3D1")
        .await;
    s.list(&NODES, "fieldSelector=metadata.namespace%3Da").await;
}

async fn list_of_both_selectors_is_their_intersection(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"l": "1"})))
        .await;
    s.post(&CONFIG_MAPS, mk_labelled("b", json!({"l": "1"})))
        .await;
    for (note, query) in [
        ("", "labelSelector=l%3D1&fieldSelector=metadata.name%3Db"),
        (
            "the first of two counts",
            "fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db",
        ),
    ] {
        s.note(note).list(&CONFIG_MAPS, query).await;
    }
}

async fn list_negative_limit_is_no_limit(s: &mut Session) {
    names(s, &["a", "b"]).await;
    s.list(&CONFIG_MAPS, "limit=-1").await;
    s.list(&CONFIG_MAPS, "limit=0").await;
    s.list(&CONFIG_MAPS, "limit=9223372036854775807").await;
}

async fn events_are_the_same_in_both_groups(s: &mut Session) {
    let new = Resource::custom("events.k8s.io", "v1", "events", Scope::Namespaced);
    let old =
        json!({"source": {"component": "c"}, "firstTimestamp": "2026-01-01T00:00:00Z", "count": 2});
    s.post(&EVENTS, with(mk_event("old", s.ns()), old)).await;
    let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": s.ns(), "name": "q"});
    let event = json!({"regarding": about, "reason": "Why", "note": "n", "type": "Warning", "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/r", "reportingInstance": "r-0"});
    let object = with(mk_object("events.k8s.io/v1", "Event", "new"), event);
    s.post(&new, object).await;
    s.get(&EVENTS, "new").await;
    s.get(&new, "old").await;
    let names = |list: &Value| -> Value {
        let items = list["items"].as_array().into_iter().flatten();
        let names: Vec<Value> = items.map(|item| item["metadata"]["name"].clone()).collect();
        if names.is_empty() {
            list["message"].clone()
        } else {
            names.into()
        }
    };
    for (resource, fields) in [
        (&EVENTS, "involvedObject.name%3Dp"),
        (&EVENTS, "involvedObject.name%3Dq"),
        (&EVENTS, "source%3Dc"),
        (&EVENTS, "source%3Dexample.com/r"),
        (&EVENTS, "reportingComponent%3Dexample.com/r"),
        (&EVENTS, "regarding.name%3Dp"),
        (&new, "regarding.name%3Dp"),
        (&new, "regarding.name%3Dq"),
        (&new, "reportingController%3Dexample.com/r"),
        (&new, "type%3DNormal"),
        (&new, "involvedObject.name%3Dp"),
        (&new, "source%3Dc"),
        (&new, "%3Dc"),
    ] {
        let path = format!("{}?fieldSelector={fields}", s.path(resource));
        s.ask(Ask::get(path).viewed(names)).await;
    }
    let patch = json!({"metadata": {"labels": {"x": "1"}}});
    s.merge_patch(&new, "old", patch).await;
    let path = format!("{}?fieldSelector=source%3Dc", s.path(&EVENTS));
    s.note("written in the other form")
        .ask(Ask::get(path).viewed(names))
        .await;
    s.delete(&new, "old").await;
    s.get(&EVENTS, "old").await;
}
