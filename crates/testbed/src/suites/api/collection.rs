//! Delete of collections: the same decision for every object of a list, selected and limited like one.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(delete_collection_answers_with_what_was_there),
    api_case!(delete_collection_obeys_label_selectors),
    api_case!(delete_collection_obeys_field_selectors),
    api_case!(delete_collection_obeys_limit),
    api_case!(delete_collection_with_finalizers_marks_each),
    api_case!(delete_collection_dry_run_deletes_nothing),
    api_case!(delete_collection_with_preconditions_is_refused_per_object),
    api_case!(delete_collection_of_nothing_is_an_empty_list),
];

const FOREGROUND: &str = "Foreground";
const BACKGROUND: &str = "Background";

fn policy(name: &str) -> Value {
    json!({ "propagationPolicy": name })
}

async fn delete_collection_answers_with_what_was_there(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    let mut watch = s.watch(&CONFIG_MAPS, "").await;
    s.take(&mut watch, 2).await;
    s.delete_all(&CONFIG_MAPS, "", json!({})).await;
    s.list(&CONFIG_MAPS, "").await;
    s.take(&mut watch, 2).await;
}

async fn delete_collection_obeys_label_selectors(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_labelled("a", json!({"l": "1"})))
        .await;
    s.post(&CONFIG_MAPS, mk_labelled("b", json!({"l": "2"})))
        .await;
    s.delete_all(&CONFIG_MAPS, "labelSelector=l%3D1", policy(BACKGROUND))
        .await;
    s.list(&CONFIG_MAPS, "").await;
    s.delete_all(&CONFIG_MAPS, "labelSelector=l%3D1", policy(BACKGROUND))
        .await;
    s.note("a selector that is none deletes nothing")
        .delete_all(&CONFIG_MAPS, "labelSelector=%3D%3D", json!({}))
        .await;
}

async fn delete_collection_obeys_field_selectors(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.delete_all(&CONFIG_MAPS, "fieldSelector=metadata.name%3Da", json!({}))
        .await;
    s.delete_all(&CONFIG_MAPS, "fieldSelector=nope%3Da", json!({}))
        .await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn delete_collection_obeys_limit(s: &mut Session) {
    for name in ["a", "b", "c"] {
        s.post(&CONFIG_MAPS, mk_config_map(name)).await;
    }
    let some = s.delete_all(&CONFIG_MAPS, "limit=2", json!({})).await;
    s.list(&CONFIG_MAPS, "").await;
    let rest = format!("limit=2&continue={}", some.token());
    s.delete_all(&CONFIG_MAPS, &rest, json!({})).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn delete_collection_with_finalizers_marks_each(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_held("a")).await;
    s.post(&CONFIG_MAPS, mk_config_map("b")).await;
    s.delete_all(&CONFIG_MAPS, "", policy(FOREGROUND)).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn delete_collection_dry_run_deletes_nothing(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.delete_all(&CONFIG_MAPS, "", json!({"dryRun": ["All"]}))
        .await;
    let path = format!("{}?dryRun=All", s.path(&CONFIG_MAPS));
    s.note("in the query, no body")
        .ask(Ask::new(Method::DELETE, path))
        .await;
    s.list(&CONFIG_MAPS, "").await;
    s.note("a body counts instead of the query: this deletes");
    s.delete_all(&CONFIG_MAPS, "dryRun=All", json!({})).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn delete_collection_with_preconditions_is_refused_per_object(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}});
    s.delete_all(&CONFIG_MAPS, "", options).await;
    s.delete_all(&CONFIG_MAPS, "", policy("Sometimes")).await;
    s.list(&CONFIG_MAPS, "").await;
}

async fn delete_collection_of_nothing_is_an_empty_list(s: &mut Session) {
    s.delete_all(&CONFIG_MAPS, "", json!({})).await;
    s.ask(Ask::new(Method::DELETE, CONFIG_MAPS.collection("missing")))
        .await;
}
