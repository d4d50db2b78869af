//! Watch: where it begins, what it sends, how selectors change over time, how it ends.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(watch_without_version_begins_with_what_is_there),
    api_case!(watch_at_version_0_begins_with_what_is_there),
    api_case!(watch_from_a_version_sees_everything_after_it),
    api_case!(watch_resumes_from_any_event_without_gap_or_repeat),
    api_case!(watch_without_version_but_with_bookmarks_marks_the_end_of_the_beginning),
    api_case!(watch_list_ends_its_beginning_with_a_bookmark),
    api_case!(watch_list_at_a_version_begins_with_the_present),
    api_case!(watch_list_without_bookmarks_has_no_end_mark),
    api_case!(watch_list_of_nothing_is_only_the_bookmark),
    api_case!(watch_list_obeys_selectors),
    api_case!(watch_that_declines_initial_events_begins_now),
    api_case!(watch_list_options_that_make_no_sense_are_422),
    api_case!(watch_at_an_expired_version_is_an_error_event, Crds),
    api_case!(watch_at_a_future_version_is_silent),
    api_case!(watch_list_at_a_future_version_is_an_error_event),
    api_case!(watch_at_a_garbage_version_is_500),
    api_case!(watch_of_a_label_selector_turns_changes_into_arrivals_and_departures),
    api_case!(watch_of_a_field_selector_turns_changes_into_arrivals_and_departures),
    api_case!(watch_of_one_name_sees_only_that),
    api_case!(watch_with_a_bad_selector_is_400),
    api_case!(watch_ends_after_its_timeout),
    api_case!(watch_gets_a_bookmark_within_70_seconds),
    api_case!(watch_over_all_namespaces),
    api_case!(watch_of_a_missing_namespace_waits_for_it),
    api_case!(watch_is_not_disturbed_by_other_kinds_and_namespaces),
    api_case!(watches_of_one_collection_see_one_order),
    api_case!(watch_by_the_old_path),
    api_case!(watch_ignores_limit_and_refuses_continue),
    api_case!(watch_sees_status_writes_and_finalizers),
    api_case!(watch_of_partial_metadata),
];

async fn watch_without_version_begins_with_what_is_there(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let mut watch = s.watch(&CONFIG_MAPS, "").await;
    s.take(&mut watch, 2).await;
    s.merge_patch(&CONFIG_MAPS, "b", json!({"data": {"k": "2"}}))
        .await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 2).await;
}

async fn watch_at_version_0_begins_with_what_is_there(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.settle(&CONFIG_MAPS).await;
    let mut watch = s.watch(&CONFIG_MAPS, "resourceVersion=0").await;
    s.take(&mut watch, 2).await;
}

async fn watch_from_a_version_sees_everything_after_it(s: &mut Session) {
    let then = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    s.delete(&CONFIG_MAPS, "b").await;
    let mut watch = s.watch_from(&CONFIG_MAPS, &then).await;
    s.take(&mut watch, 3).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.take(&mut watch, 1).await;
}

async fn watch_resumes_from_any_event_without_gap_or_repeat(s: &mut Session) {
    let mut watch = s.watch(&CONFIG_MAPS, "").await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for event in s.take(&mut watch, 4).await {
        let rv = event["object"]["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        let mut resumed = s
            .watch(&CONFIG_MAPS, &format!("resourceVersion={rv}"))
            .await;
        let after = s.take(&mut resumed, 0).await;
        s.record(json!({"events after it": after.len()}));
    }
}

async fn watch_without_version_but_with_bookmarks_marks_the_end_of_the_beginning(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.settle(&CONFIG_MAPS).await;
    let mut watch = s.watch(&CONFIG_MAPS, "allowWatchBookmarks=true").await;
    s.take(&mut watch, 2).await;
    let mut watch = s
        .watch(&CONFIG_MAPS, "allowWatchBookmarks=true&resourceVersion=0")
        .await;
    s.take(&mut watch, 2).await;
}

async fn watch_list_ends_its_beginning_with_a_bookmark(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.take(&mut watch, 3).await;
    s.post(&CONFIG_MAPS, mk_config_map("c")).await;
    s.take(&mut watch, 1).await;
}

async fn watch_list_at_a_version_begins_with_the_present(s: &mut Session) {
    let then = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    s.settle(&CONFIG_MAPS).await;
    for rv in [then.rv(), "0"] {
        let mut watch = s
            .watch(&CONFIG_MAPS, &format!("{query}&resourceVersion={rv}"))
            .await;
        s.take(&mut watch, 2).await;
    }
}

async fn watch_list_without_bookmarks_has_no_end_mark(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.take(&mut watch, 1).await;
}

async fn watch_list_of_nothing_is_only_the_bookmark(s: &mut Session) {
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.take(&mut watch, 1).await;
    let mut watch = s.watch(&DEPLOYMENTS, query).await;
    s.take(&mut watch, 1).await;
}

async fn watch_list_obeys_selectors(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"l": "1"})))
        .await;
    s.post(&CONFIG_MAPS, mk_labelled("b", json!({"l": "2"})))
        .await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=l%3D2";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.take(&mut watch, 2).await;
}

async fn watch_that_declines_initial_events_begins_now(s: &mut Session) {
    let then = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    let query =
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    let mut since = s
        .watch(
            &CONFIG_MAPS,
            &format!("{query}&resourceVersion={}", then.rv()),
        )
        .await;
    s.post(&CONFIG_MAPS, mk_config_map("c")).await;
    s.take(&mut watch, 1).await;
    s.take(&mut since, 2).await;
}

async fn watch_list_options_that_make_no_sense_are_422(s: &mut Session) {
    for query in [
        "sendInitialEvents=true",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=NotOlderThan&resourceVersion=5",
        "resourceVersionMatch=Exact&resourceVersion=5",
        "sendInitialEvents=true&resourceVersionMatch=Nearly",
    ] {
        s.watch(&CONFIG_MAPS, query).await;
    }
}

async fn watch_at_an_expired_version_is_an_error_event(s: &mut Session) {
    // The history of a custom kind begins with its definition; that of any other kind depends on what went on before.
    let (gadgets, group) = super::crd::define_gadgets(s).await;
    s.post(&gadgets, mk_gadget(&group, "a")).await;
    let mut watch = s.watch(&gadgets, "resourceVersion=1").await;
    s.take_all(&mut watch).await;
    let path = format!("{}?watch=true&resourceVersion=1", s.path(&gadgets));
    let mut watch = s
        .watch_with(Ask::get(path).accept("application/json;as=Table;v=v1;g=meta.k8s.io"))
        .await;
    s.take_all(&mut watch).await;
}

async fn watch_at_a_future_version_is_silent(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let query = "resourceVersion=999999999999&timeoutSeconds=2";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.take_all(&mut watch).await;
}

async fn watch_list_at_a_future_version_is_an_error_event(s: &mut Session) {
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=999999999999";
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.take_all(&mut watch).await;
}

async fn watch_at_a_garbage_version_is_500(s: &mut Session) {
    for rv in ["abc", "-1", "1.5"] {
        s.watch(&CONFIG_MAPS, &format!("resourceVersion={rv}"))
            .await;
    }
}

async fn watch_of_a_label_selector_turns_changes_into_arrivals_and_departures(s: &mut Session) {
    let mut watch = s.watch(&CONFIG_MAPS, "labelSelector=l%3D1").await;
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for (note, patch) in [
        ("enters", json!({"metadata": {"labels": {"l": "1"}}})),
        ("stays", json!({"data": {"k": "2"}})),
        (
            "leaves",
            json!({"metadata": {"labels": {"l": "2"}}, "data": {"k": "3"}}),
        ),
        ("is not seen", json!({"data": {"k": "4"}})),
        ("comes back", json!({"metadata": {"labels": {"l": "1"}}})),
    ] {
        s.note(note).merge_patch(&CONFIG_MAPS, "a", patch).await;
    }
    s.note("goes for good").delete(&CONFIG_MAPS, "a").await;
    s.post(&CONFIG_MAPS, mk_labelled("b", json!({"l": "2"})))
        .await;
    s.note("is not seen").delete(&CONFIG_MAPS, "b").await;
    s.take(&mut watch, 5).await;
}

async fn watch_of_a_field_selector_turns_changes_into_arrivals_and_departures(s: &mut Session) {
    s.hide(&["spec"]);
    let mut watch = s.watch(&PODS, "fieldSelector=status.phase%3DRunning").await;
    s.post(&PODS, mk_bound_pod("a")).await;
    for phase in ["Running", "Running", "Succeeded"] {
        let patch = json!({"status": {"phase": phase, "message": phase}});
        s.merge_patch(&PODS, "a/status", patch).await;
    }
    s.delete(&PODS, "a").await;
    s.take(&mut watch, 2).await;
}

async fn watch_of_one_name_sees_only_that(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    let mut watch = s
        .watch(&CONFIG_MAPS, "fieldSelector=metadata.name%3Da")
        .await;
    s.merge_patch(&CONFIG_MAPS, "b", json!({"data": {"k": "2"}}))
        .await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 2).await;
}

async fn watch_with_a_bad_selector_is_400(s: &mut Session) {
    s.watch(&CONFIG_MAPS, "labelSelector=%3D%3D").await;
    s.watch(&CONFIG_MAPS, "fieldSelector=nope%3D1").await;
    s.watch(&CONFIG_MAPS, "timeoutSeconds=abc").await;
}

async fn watch_ends_after_its_timeout(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let mut watch = s.watch(&CONFIG_MAPS, "timeoutSeconds=1").await;
    s.take_all(&mut watch).await;
}

async fn watch_gets_a_bookmark_within_70_seconds(s: &mut Session) {
    let then = s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let query = &format!(
        "allowWatchBookmarks=true&timeoutSeconds=70&resourceVersion={}",
        then.rv()
    );
    let mut watch = s.watch(&CONFIG_MAPS, query).await;
    s.take_one_slowly(&mut watch).await;
}

async fn watch_over_all_namespaces(s: &mut Session) {
    let x = format!("{}-x", s.ns());
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    let mine = json!({"watch": "over-all"});
    s.post(&CONFIG_MAPS, mk_labelled("a", mine.clone())).await;
    let path = format!(
        "{}?watch=true&labelSelector=watch%3Dover-all",
        CONFIG_MAPS.everywhere()
    );
    let mut watch = s.watch_with(Ask::get(path)).await;
    let ask = Ask::post(CONFIG_MAPS.collection(&x), &mk_labelled("b", mine));
    s.ask(ask).await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 3).await;
}

async fn watch_of_a_missing_namespace_waits_for_it(s: &mut Session) {
    let x = format!("{}-x", s.ns());
    let ask = Ask::get(format!("{}?watch=true", CONFIG_MAPS.collection(&x)));
    let mut watch = s.watch_with(ask).await;
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.ask(Ask::post(CONFIG_MAPS.collection(&x), &mk_config_map("a")))
        .await;
    s.take(&mut watch, 1).await;
}

async fn watch_is_not_disturbed_by_other_kinds_and_namespaces(s: &mut Session) {
    let x = format!("{}-x", s.ns());
    let mut watch = s.watch(&CONFIG_MAPS, "").await;
    s.post(&NAMESPACES, mk_namespace(&x)).await;
    s.post(&SECRETS, mk_object("v1", "Secret", "a")).await;
    s.ask(Ask::post(CONFIG_MAPS.collection(&x), &mk_config_map("a")))
        .await;
    s.post(&CONFIG_MAPS, mk_config_map("mine")).await;
    s.take(&mut watch, 1).await;
}

async fn watches_of_one_collection_see_one_order(s: &mut Session) {
    let mut one = s.watch(&CONFIG_MAPS, "").await;
    let mut two = s.watch(&CONFIG_MAPS, "").await;
    let path = s.path(&CONFIG_MAPS);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    join_all(names.map(|name| s.quietly(Ask::post(&path, &mk_config_map(name))))).await;
    let seen = |events: Vec<Value>| -> Vec<Value> {
        events
            .iter()
            .map(|event| event["object"]["metadata"]["resourceVersion"].clone())
            .collect()
    };
    let one = seen(s.take_quietly(&mut one, names.len()).await);
    let two = seen(s.take_quietly(&mut two, names.len()).await);
    let numbers: Vec<u64> = one
        .iter()
        .filter_map(|rv| rv.as_str()?.parse().ok())
        .collect();
    s.record(
        json!({"events": numbers.len(), "equal": one == two, "ascending": numbers.is_sorted()}),
    );
}

async fn watch_by_the_old_path(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    let ns = s.ns().to_owned();
    let mut watch = s
        .watch_with(Ask::get(format!(
            "/api/v1/watch/namespaces/{ns}/configmaps"
        )))
        .await;
    s.take(&mut watch, 2).await;
    let ask = Ask::get(format!("/api/v1/watch/namespaces/{ns}/configmaps/b"));
    let mut watch = s.watch_with(ask).await;
    s.take(&mut watch, 1).await;
    let mut watch = s
        .watch_with(Ask::get(format!(
            "/apis/apps/v1/watch/namespaces/{ns}/deployments?timeoutSeconds=1"
        )))
        .await;
    s.take_all(&mut watch).await;
    s.get_path("/api/v1/watch/nopes").await;
}

async fn watch_ignores_limit_and_refuses_continue(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    let mut watch = s.watch(&CONFIG_MAPS, "limit=1").await;
    s.take(&mut watch, 2).await;
    let page = s.list(&CONFIG_MAPS, "limit=1").await;
    let mut watch = s
        .watch(&CONFIG_MAPS, &page.after("timeoutSeconds=1&"))
        .await;
    s.take_all(&mut watch).await;
}

async fn watch_sees_status_writes_and_finalizers(s: &mut Session) {
    s.hide(&["spec"]);
    let mut watch = s.watch(&DEPLOYMENTS, "").await;
    s.post(&DEPLOYMENTS, mk_deployment("a")).await;
    s.merge_patch(&DEPLOYMENTS, "a/status", json!({"status": {"replicas": 1}}))
        .await;
    let patch = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    s.merge_patch(&DEPLOYMENTS, "a", patch).await;
    s.delete(&DEPLOYMENTS, "a").await;
    s.merge_patch(&DEPLOYMENTS, "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.take(&mut watch, 5).await;
}

async fn watch_of_partial_metadata(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"l": "1"})))
        .await;
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        s.path(&CONFIG_MAPS)
    );
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut watch = s.watch_with(Ask::get(&path).accept(accept)).await;
    s.merge_patch(&CONFIG_MAPS, "a", json!({"data": {"k": "2"}}))
        .await;
    s.delete(&CONFIG_MAPS, "a").await;
    s.take(&mut watch, 4).await;
    let ask =
        Ask::get(&path).accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    let mut watch = s.note("the list form").watch_with(ask).await;
    s.take(&mut watch, 1).await;
}
