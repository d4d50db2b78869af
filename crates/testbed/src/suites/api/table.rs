//! Tables and PartialObjectMetadata: the forms kubectl and metadata clients ask for, on every verb.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(table_of_a_list),
    api_case!(table_of_an_empty_list),
    api_case!(table_of_a_page_keeps_continue_and_count),
    api_case!(table_of_one_object),
    api_case!(table_of_every_write),
    api_case!(table_of_deletes),
    api_case!(table_of_a_watch_has_columns_once),
    api_case!(table_rows_hold_what_include_object_says),
    api_case!(table_of_the_older_version),
    api_case!(table_of_errors_is_a_status),
    api_case!(table_of_a_kind_without_own_columns),
    api_case!(table_of_config_maps),
    api_case!(table_of_pods),
    api_case!(table_of_namespaces),
    api_case!(table_of_what_kubectl_asks_for),
    api_case!(partial_metadata_of_one_object),
    api_case!(partial_metadata_of_a_list),
    api_case!(partial_metadata_of_a_page_keeps_continue_and_count),
    api_case!(partial_metadata_of_every_write),
    api_case!(partial_metadata_of_deletes),
    api_case!(partial_metadata_of_errors_is_a_status),
    api_case!(partial_metadata_of_the_older_version),
];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// ServiceAccounts have the plainest columns: name and age.
fn mk_account(name: &str) -> Value {
    mk_object("v1", "ServiceAccount", name)
}

async fn accounts(s: &mut Session, names: &[&str]) {
    let path = s.path(&SERVICE_ACCOUNTS);
    for name in names {
        s.quietly(Ask::post(&path, &mk_account(name))).await;
    }
}

fn patch(path: &str, form: &str, body: &Value) -> Ask {
    Ask::with_body(
        Method::PATCH,
        path,
        &format!("application/{form}+json"),
        body.to_string(),
    )
}

async fn table_of_a_list(s: &mut Session) {
    accounts(s, &["a", "b"]).await;
    let path = s.path(&SERVICE_ACCOUNTS);
    s.ask(Ask::get(path).accept(TABLE)).await;
}

async fn table_of_an_empty_list(s: &mut Session) {
    let path = s.path(&SERVICE_ACCOUNTS);
    s.ask(Ask::get(path).accept(TABLE)).await;
}

async fn table_of_a_page_keeps_continue_and_count(s: &mut Session) {
    accounts(s, &["a", "b", "c"]).await;
    let path = s.path(&SERVICE_ACCOUNTS);
    let page = s
        .ask(Ask::get(format!("{path}?limit=2")).accept(TABLE))
        .await;
    s.ask(Ask::get(format!("{path}?limit=2&continue={}", page.token())).accept(TABLE))
        .await;
}

async fn table_of_one_object(s: &mut Session) {
    accounts(s, &["a"]).await;
    let path = s.item(&SERVICE_ACCOUNTS, "a");
    s.ask(Ask::get(path).accept(TABLE)).await;
}

async fn table_of_every_write(s: &mut Session) {
    let path = s.path(&SERVICE_ACCOUNTS);
    s.ask(Ask::post(&path, &mk_account("a")).accept(TABLE))
        .await;
    let item = format!("{path}/a");
    for ask in [
        Ask::put(
            &item,
            &with(mk_account("a"), json!({"metadata": {"labels": {"x": "1"}}})),
        )
        .accept(TABLE),
        patch(
            &item,
            "merge-patch",
            &json!({"metadata": {"labels": {"x": "2"}}}),
        )
        .accept(TABLE),
        patch(
            &item,
            "json-patch",
            &json!([{"op": "remove", "path": "/metadata/labels"}]),
        )
        .accept(TABLE),
        patch(&item, "strategic-merge-patch", &json!({})).accept(TABLE),
    ] {
        s.ask(ask).await;
    }
}

async fn table_of_deletes(s: &mut Session) {
    accounts(s, &["a"]).await;
    s.post(&CONFIG_MAPS, mk_config_map("gone")).await;
    let changes = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    s.post(&SERVICE_ACCOUNTS, with(mk_account("held"), changes))
        .await;
    let delete = |path: String| Ask::new(Method::DELETE, path).accept(TABLE);
    let path = s.item(&SERVICE_ACCOUNTS, "held");
    s.note("stays").ask(delete(path)).await;
    let path = s.item(&SERVICE_ACCOUNTS, "a");
    s.note("gone, answered with the object")
        .ask(delete(path))
        .await;
    let path = s.item(&CONFIG_MAPS, "gone");
    s.note("gone, answered with a Status")
        .ask(delete(path))
        .await;
    accounts(s, &["b"]).await;
    let path = s.path(&SERVICE_ACCOUNTS);
    s.note("the collection").ask(delete(path)).await;
}

async fn table_of_a_watch_has_columns_once(s: &mut Session) {
    accounts(s, &["a"]).await;
    let path = s.path(&SERVICE_ACCOUNTS);
    let query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = s
        .watch_with(Ask::get(format!("{path}?{query}")).accept(TABLE))
        .await;
    s.take(&mut watch, 2).await;
    let post = Ask::post(&path, &mk_account("b"));
    s.quietly(post).await;
    s.quietly(Ask::new(Method::DELETE, format!("{path}/a")))
        .await;
    s.take(&mut watch, 2).await;
}

async fn table_rows_hold_what_include_object_says(s: &mut Session) {
    accounts(s, &["a"]).await;
    let path = s.item(&SERVICE_ACCOUNTS, "a");
    for include in ["None", "Metadata", "Object", "", "Everything", "none"] {
        s.ask(Ask::get(format!("{path}?includeObject={include}")).accept(TABLE))
            .await;
    }
    let path = s.path(&SERVICE_ACCOUNTS);
    s.ask(Ask::get(format!("{path}?includeObject=Object")).accept(TABLE))
        .await;
}

async fn table_of_the_older_version(s: &mut Session) {
    accounts(s, &["a"]).await;
    let path = s.path(&SERVICE_ACCOUNTS);
    s.ask(Ask::get(path).accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"))
        .await;
}

async fn table_of_errors_is_a_status(s: &mut Session) {
    let path = s.path(&SERVICE_ACCOUNTS);
    s.ask(Ask::get(format!("{path}/missing")).accept(TABLE))
        .await;
    s.ask(Ask::get(format!("{path}?limit=abc")).accept(TABLE))
        .await;
    s.ask(Ask::post(&path, &json!({})).accept(TABLE)).await;
}

async fn table_of_a_kind_without_own_columns(s: &mut Session) {
    let path = s.path(&ROLES);
    s.ask(
        Ask::post(
            path,
            &mk_object("rbac.authorization.k8s.io/v1", "Role", "a"),
        )
        .accept(TABLE),
    )
    .await;
}

async fn table_of_config_maps(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::post(path, &mk_config_map("a")).accept(TABLE))
        .await;
}

async fn table_of_pods(s: &mut Session) {
    let path = s.path(&PODS);
    s.ask(Ask::post(path, &mk_pod("a")).accept(TABLE)).await;
}

async fn table_of_namespaces(s: &mut Session) {
    let path = format!("{}/{}", NAMESPACES.everywhere(), s.ns());
    s.ask(Ask::get(path).accept(TABLE)).await;
}

async fn table_of_what_kubectl_asks_for(s: &mut Session) {
    accounts(s, &["a"]).await;
    let path = s.path(&SERVICE_ACCOUNTS);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    s.ask(Ask::get(format!("{path}?limit=500")).accept(accept))
        .await;
}

async fn partial_metadata_of_one_object(s: &mut Session) {
    let meta = json!({"labels": {"l": "1"}, "annotations": {"a": "b"}, "finalizers": ["example.com/hold"], "ownerReferences": [mk_owner("o", 1)]});
    let object = with(mk_config_map("a"), json!({ "metadata": meta }));
    s.post(&CONFIG_MAPS, object).await;
    let path = s.item(&CONFIG_MAPS, "a");
    s.ask(Ask::get(&path).accept(PARTIAL)).await;
    s.ask(Ask::get(&path).accept(&format!("{PARTIAL},application/json")))
        .await;
    s.quietly(Ask::post(s.path(&DEPLOYMENTS), &mk_deployment("a")))
        .await;
    let path = s.item(&DEPLOYMENTS, "a/status");
    s.ask(Ask::get(path).accept(PARTIAL)).await;
}

async fn partial_metadata_of_a_list(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.note("empty")
        .ask(Ask::get(&path).accept(PARTIAL_LIST))
        .await;
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"l": "1"})))
        .await;
    s.post(&CONFIG_MAPS, mk_labelled("b", json!({"l": "2"})))
        .await;
    s.ask(Ask::get(&path).accept(PARTIAL_LIST)).await;
    s.ask(Ask::get(format!("{path}?labelSelector=l%3D2")).accept(PARTIAL_LIST))
        .await;
}

async fn partial_metadata_of_a_page_keeps_continue_and_count(s: &mut Session) {
    for name in ["a", "b", "c"] {
        s.post(&CONFIG_MAPS, mk_config_map(name)).await;
    }
    let path = s.path(&CONFIG_MAPS);
    let page = s
        .ask(Ask::get(format!("{path}?limit=2")).accept(PARTIAL_LIST))
        .await;
    s.ask(Ask::get(format!("{path}?continue={}", page.token())).accept(PARTIAL_LIST))
        .await;
}

async fn partial_metadata_of_every_write(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::post(&path, &mk_config_map("a")).accept(PARTIAL))
        .await;
    let item = format!("{path}/a");
    for ask in [
        Ask::put(&item, &mk_labelled("a", json!({"l": "1"}))).accept(PARTIAL),
        patch(
            &item,
            "merge-patch",
            &json!({"metadata": {"labels": {"l": "2"}}}),
        )
        .accept(PARTIAL),
        patch(
            &item,
            "json-patch",
            &json!([{"op": "remove", "path": "/metadata/labels"}]),
        )
        .accept(PARTIAL),
        patch(
            &item,
            "strategic-merge-patch",
            &json!({"metadata": {"finalizers": ["example.com/a"]}}),
        )
        .accept(PARTIAL),
        Ask::post(format!("{path}?dryRun=All"), &mk_config_map("b")).accept(PARTIAL),
    ] {
        s.ask(ask).await;
    }
}

async fn partial_metadata_of_deletes(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("held")).await;
    s.post(&CONFIG_MAPS, mk_config_map("gone")).await;
    let delete = |path: String| Ask::new(Method::DELETE, path).accept(PARTIAL);
    let path = s.item(&CONFIG_MAPS, "held");
    s.note("stays").ask(delete(path)).await;
    let path = s.item(&CONFIG_MAPS, "gone");
    s.note("gone").ask(delete(path)).await;
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("a"))).await;
    let path = s.item(&PODS, "a");
    s.note("gone, answered with the object")
        .ask(delete(path))
        .await;
    s.post(&CONFIG_MAPS, mk_config_map("more")).await;
    let path = s.path(&CONFIG_MAPS);
    s.note("the collection").ask(delete(path.clone())).await;
    s.ask(Ask::new(Method::DELETE, path).accept(PARTIAL_LIST))
        .await;
}

async fn partial_metadata_of_errors_is_a_status(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::get(format!("{path}/missing")).accept(PARTIAL))
        .await;
    s.ask(Ask::get(format!("{path}?limit=abc")).accept(PARTIAL_LIST))
        .await;
    s.ask(Ask::post(&path, &json!({})).accept(PARTIAL)).await;
}

async fn partial_metadata_of_the_older_version(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.path(&CONFIG_MAPS);
    for ask in [
        Ask::get(format!("{path}/a"))
            .accept("application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"),
        Ask::get(path)
            .accept("application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io"),
    ] {
        s.ask(ask).await;
    }
}
