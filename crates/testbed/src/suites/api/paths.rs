//! Paths, methods and negotiation: what is served where, and in which form.

use http::Method;
use serde_json::json;

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(unknown_paths_and_groups_are_a_text_404),
    api_case!(unknown_resources_of_a_known_group_are_a_status_404),
    api_case!(unknown_subresources_are_a_404),
    api_case!(a_missing_object_is_a_404_that_names_the_resource),
    api_case!(reads_in_a_missing_namespace_find_nothing),
    api_case!(methods_that_an_item_does_not_have_are_405),
    api_case!(methods_that_a_collection_does_not_have_are_405),
    api_case!(scope_is_part_of_the_path),
    api_case!(a_trailing_slash_is_tolerated_and_a_leading_one_is_not),
    api_case!(escaped_names_are_decoded_once),
    api_case!(json_is_the_answer_to_no_preference),
    api_case!(accept_of_nothing_we_have_is_406),
    api_case!(accept_takes_the_first_acceptable_clause),
    api_case!(accept_of_an_unknown_conversion_alone_is_406),
    api_case!(accept_of_partial_metadata_needs_the_list_form_on_lists),
    api_case!(a_body_of_unknown_content_type_is_415),
    api_case!(a_body_without_content_type_is_json),
    api_case!(a_content_type_may_have_parameters),
    api_case!(a_body_may_be_yaml),
    api_case!(odd_queries_are_tolerated),
    api_case!(limits_that_are_no_numbers_are_400),
    api_case!(any_word_but_false_and_0_watches),
    api_case!(watch_on_an_item_is_a_plain_get),
    api_case!(health_endpoints_say_ok),
    api_case!(version_is_semantic),
];

async fn unknown_paths_and_groups_are_a_text_404(s: &mut Session) {
    for path in [
        "/nope",
        "/apis/foo.io",
        "/apis/foo.io/v1",
        "/apis/foo.io/v1/bars",
        "/api/v2",
        "/api/v2/pods",
        "/apis/apps/v9/deployments",
    ] {
        s.get_path(path).await;
    }
    s.ask(Ask::post("/apis/foo.io/v1/bars", &json!({}))).await;
}

async fn unknown_resources_of_a_known_group_are_a_status_404(s: &mut Session) {
    let ns = s.ns().to_owned();
    for path in [
        "/api/v1/nopes".to_owned(),
        "/apis/apps/v1/nopes".to_owned(),
        format!("/api/v1/namespaces/{ns}/nopes"),
        format!("/api/v1/namespaces/{ns}/nopes/a"),
    ] {
        s.get_path(path).await;
    }
    let ask = Ask::post(format!("/api/v1/namespaces/{ns}/nopes"), &json!({}));
    s.ask(ask).await;
}

async fn unknown_subresources_are_a_404(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.get(&CONFIG_MAPS, "a/status").await;
    s.get(&CONFIG_MAPS, "a/nope").await;
    s.get(&PODS, "missing/nope").await;
}

async fn a_missing_object_is_a_404_that_names_the_resource(s: &mut Session) {
    s.get(&CONFIG_MAPS, "missing").await;
    s.get(&DEPLOYMENTS, "missing").await;
    s.get(&DEPLOYMENTS, "missing/status").await;
    s.get(&NODES, "missing").await;
    s.get(&CONFIG_MAPS, "Not_A_Name").await;
}

async fn reads_in_a_missing_namespace_find_nothing(s: &mut Session) {
    s.get_path(CONFIG_MAPS.collection("missing")).await;
    s.get_path(format!("{}/a", CONFIG_MAPS.collection("missing")))
        .await;
}

async fn methods_that_an_item_does_not_have_are_405(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.item(&CONFIG_MAPS, "a");
    s.ask(Ask::post(&path, &mk_config_map("a"))).await;
    for method in [Method::HEAD, Method::OPTIONS, Method::TRACE] {
        s.ask(Ask::new(method, &path)).await;
    }
    let status = s.item(&DEPLOYMENTS, "a/status");
    s.ask(Ask::post(&status, &json!({}))).await;
    s.ask(Ask::new(Method::DELETE, &status)).await;
}

async fn methods_that_a_collection_does_not_have_are_405(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::put(&path, &mk_config_map("a"))).await;
    let ask = Ask::with_body(Method::PATCH, &path, "application/merge-patch+json", "{}");
    s.ask(ask).await;
    s.ask(Ask::new(Method::HEAD, &path)).await;
    s.ask(Ask::new(Method::DELETE, NAMESPACES.everywhere()))
        .await;
    s.ask(Ask::new(Method::DELETE, SERVICES.everywhere())).await;
}

async fn scope_is_part_of_the_path(s: &mut Session) {
    let ns = s.ns().to_owned();
    s.note("a namespaced resource over all namespaces can only be listed");
    s.ask(Ask::post(CONFIG_MAPS.everywhere(), &mk_config_map("a")))
        .await;
    s.get_path(format!("{}/a", CONFIG_MAPS.everywhere())).await;
    s.ask(Ask::new(Method::DELETE, CONFIG_MAPS.everywhere()))
        .await;
    s.note("a cluster resource has no namespace");
    s.get_path(format!("/api/v1/namespaces/{ns}/nodes")).await;
}

async fn a_trailing_slash_is_tolerated_and_a_leading_one_is_not(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.path(&CONFIG_MAPS);
    s.get_path(format!("{path}/")).await;
    s.get_path(format!("{path}/a/")).await;
    s.get_path(format!("/{path}")).await;
    s.get_path(path.replace("/configmaps", "//configmaps"))
        .await;
    s.get_path("/api/").await;
}

async fn escaped_names_are_decoded_once(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a.b")).await;
    for name in ["a%2Eb", "a%252Eb", "%2e%2e", "a%2Fb", "a%00b", "%ff", "."] {
        s.get(&CONFIG_MAPS, name).await;
    }
}

async fn json_is_the_answer_to_no_preference(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.item(&CONFIG_MAPS, "a");
    s.get_path(&path).await;
    for accept in [
        "*/*",
        "application/*",
        "application/json",
        "application/json;q=0.5",
        "application/json; charset=utf-8",
        "",
    ] {
        s.ask(Ask::get(&path).accept(accept)).await;
    }
}

async fn accept_of_nothing_we_have_is_406(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let (list, item) = (s.path(&CONFIG_MAPS), s.item(&CONFIG_MAPS, "a"));
    s.ask(Ask::get(list).accept("text/xml")).await;
    s.ask(Ask::get(&item).accept("text/html")).await;
    s.ask(Ask::new(Method::DELETE, &item).accept("text/html"))
        .await;
    s.note("nothing was done").get_path(item).await;
}

async fn accept_takes_the_first_acceptable_clause(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.path(&CONFIG_MAPS);
    for accept in [
        "text/xml, application/json",
        "application/json;as=Table;v=v9;g=meta.k8s.io, application/json",
        "application/json;as=Nonsense;v=v1;g=meta.k8s.io, application/json",
        "application/json;as=Table;v=v1;g=other.io, application/json",
    ] {
        s.ask(Ask::get(&path).accept(accept)).await;
    }
}

async fn accept_of_an_unknown_conversion_alone_is_406(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::get(&path).accept("application/json;as=Table;v=v9;g=meta.k8s.io"))
        .await;
    s.ask(Ask::get(&path).accept("application/json;as=Nonsense;v=v1;g=meta.k8s.io"))
        .await;
}

async fn accept_of_partial_metadata_needs_the_list_form_on_lists(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    let path = s.path(&CONFIG_MAPS);
    let form = |kind: &str| format!("application/json;as={kind};v=v1;g=meta.k8s.io");
    s.ask(Ask::get(&path).accept(&form("PartialObjectMetadata")))
        .await;
    s.ask(Ask::get(&path).accept(&format!(
        "{},application/json",
        form("PartialObjectMetadata")
    )))
    .await;
    s.ask(Ask::get(&path).accept(&form("PartialObjectMetadataList")))
        .await;
    s.ask(Ask::get(format!("{path}/a")).accept(&form("PartialObjectMetadataList")))
        .await;
}

async fn a_body_of_unknown_content_type_is_415(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    for kind in [
        "application/xml",
        "text/plain",
        "application/x-www-form-urlencoded",
        "nonsense",
    ] {
        s.ask(Ask::post(&path, &mk_config_map("a")).content_type(kind))
            .await;
    }
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.ask(Ask::put(format!("{path}/a"), &mk_config_map("a")).content_type("application/xml"))
        .await;
}

async fn a_body_without_content_type_is_json(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::new(Method::POST, &path).body(mk_config_map("a").to_string()))
        .await;
    let ask = Ask::with_body(Method::POST, &path, "", mk_config_map("b").to_string());
    s.ask(ask).await;
}

async fn a_content_type_may_have_parameters(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::post(&path, &mk_config_map("a")).content_type("application/json; charset=utf-8"))
        .await;
    s.ask(Ask::post(&path, &mk_config_map("b")).content_type("APPLICATION/JSON"))
        .await;
}

async fn a_body_may_be_yaml(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let yaml = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    two\n    lines\n  quoted: \"yes\"\n";
    let post = |yaml: &'static str| Ask::with_body(Method::POST, &path, "application/yaml", yaml);
    s.ask(post(yaml)).await;
    s.note("not YAML").ask(post("a: [")).await;
    s.note("not an object").ask(post("- a\n- b\n")).await;
    let ask = post(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#);
    s.note("JSON is YAML").ask(ask).await;
}

async fn odd_queries_are_tolerated(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for query in [
        "&limit=1",
        "unknown=1",
        "limit=",
        "limit=1&limit=abc",
        "&&",
        "pretty",
        "labelSelector=",
        "fieldSelector=",
        "timeoutSeconds=0",
    ] {
        s.list(&CONFIG_MAPS, query).await;
    }
}

async fn limits_that_are_no_numbers_are_400(s: &mut Session) {
    for query in [
        "limit=abc",
        "limit=1.5",
        "timeoutSeconds=abc",
        "limit=99999999999999999999",
    ] {
        s.list(&CONFIG_MAPS, query).await;
    }
}

async fn any_word_but_false_and_0_watches(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    for query in ["watch=0", "watch=false", "watch=False"] {
        s.list(&CONFIG_MAPS, query).await;
    }
    for query in ["watch=1", "watch=True", "watch=maybe", "watch="] {
        let path = format!("{}?{query}&timeoutSeconds=1", s.path(&CONFIG_MAPS));
        let mut watch = s.watch_with(Ask::get(path)).await;
        s.take_all(&mut watch).await;
    }
}

async fn watch_on_an_item_is_a_plain_get(s: &mut Session) {
    s.post(&CONFIG_MAPS, mk_config_map("a")).await;
    s.get(&CONFIG_MAPS, "a?watch=1").await;
}

async fn health_endpoints_say_ok(s: &mut Session) {
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/ping",
        "/livez/ping",
        "/readyz/ping",
        "/healthz/nope",
    ] {
        s.get_path(path).await;
    }
}

async fn version_is_semantic(s: &mut Session) {
    let keys = |body: &serde_json::Value| {
        let keys: Vec<&String> = body
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
            .collect();
        json!({"keys": keys, "major": body["major"], "minor": body["minor"]})
    };
    s.ask(Ask::get("/version").viewed(keys)).await;
}
