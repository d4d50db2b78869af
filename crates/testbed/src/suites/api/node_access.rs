//! Subresources behind which a kubelet stands: logs, and connections to Pods, Nodes and Services. There is no kubelet.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(logs_of_pods_without_a_kubelet),
    api_case!(logs_need_a_container_that_exists),
    api_case!(log_options_that_are_invalid_are_refused),
    api_case!(logs_are_text_and_their_errors_are_not),
    api_case!(streams_to_pods_without_a_kubelet),
    api_case!(streams_need_a_container_and_an_upgrade),
    api_case!(proxies_to_pods_without_an_address),
    api_case!(proxies_to_services_without_endpoints),
    api_case!(proxies_to_nodes_without_an_address),
];

/// Creates a Node; an address of this machine where nothing listens.
async fn set_node(s: &mut Session, name: &str, addresses: Value) -> String {
    let name = format!("{}-{name}", s.ns());
    let node = with(
        mk_object("v1", "Node", &name),
        json!({"status": {"addresses": addresses}}),
    );
    s.quietly(Ask::post(NODES.everywhere(), &node)).await;
    name
}

async fn set_pod(s: &mut Session, name: &str, spec: Value) {
    let pod = with(mk_pod(name), json!({ "spec": spec }));
    s.quietly(Ask::post(s.path(&PODS), &pod)).await;
}

/// Creates Pods on no Node, on one that does not exist, on one without an address, and on one that does not answer.
async fn set_pods(s: &mut Session) {
    let silent = json!([{"type": "InternalIP", "address": "127.0.0.2"}]);
    let silent = set_node(s, "silent", silent).await;
    let bare = set_node(s, "bare", json!([])).await;
    set_pod(s, "free", json!({})).await;
    set_pod(s, "lost", json!({"nodeName": "missing"})).await;
    set_pod(s, "bare", json!({ "nodeName": bare })).await;
    set_pod(s, "silent", json!({ "nodeName": silent })).await;
    let two = json!({"nodeName": silent, "initContainers": [{"name": "i", "image": "i"}],
        "containers": [{"name": "c1", "image": "i"}, {"name": "c2", "image": "i"}]});
    set_pod(s, "two", two).await;
}

async fn logs_of_pods_without_a_kubelet(s: &mut Session) {
    set_pods(s).await;
    for name in ["free", "lost", "bare", "silent", "missing"] {
        s.get(&PODS, &format!("{name}/log")).await;
    }
    s.get(&PODS, "silent/log?follow=true&tailLines=3&timestamps=0")
        .await;
    s.get(
        &PODS,
        "free/log?follow=maybe&previous=true&foo=bar&sinceTime=",
    )
    .await;
    let path = s.item(&PODS, "free/log");
    s.ask(Ask::post(&path, &json!({}))).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
}

async fn logs_need_a_container_that_exists(s: &mut Session) {
    set_pods(s).await;
    for query in ["", "?container=c2", "?container=i", "?container=x"] {
        s.get(&PODS, &format!("two/log{query}")).await;
    }
    s.get(&PODS, "free/log?container=x").await;
}

async fn log_options_that_are_invalid_are_refused(s: &mut Session) {
    set_pod(s, "a", json!({})).await;
    for query in [
        "tailLines=-1",
        "tailLines=x",
        "tailLines=",
        "tailLines=99999999999999999999",
        "limitBytes=0",
        "sinceSeconds=0",
        "sinceSeconds=-5",
        "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
        "sinceTime=foo",
        "stream=Stdout",
        "tailLines=-1&limitBytes=0&sinceSeconds=0",
    ] {
        s.get(&PODS, &format!("a/log?{query}")).await;
    }
    s.get(&PODS, "missing/log?tailLines=-1").await;
}

async fn logs_are_text_and_their_errors_are_not(s: &mut Session) {
    set_pod(s, "a", json!({})).await;
    for accept in ["text/plain", "*/*", "text/html", "application/json, */*"] {
        for name in ["a/log", "missing/log"] {
            let path = s.item(&PODS, name);
            s.ask(Ask::get(path).accept(accept)).await;
        }
    }
}

async fn streams_to_pods_without_a_kubelet(s: &mut Session) {
    set_pods(s).await;
    for part in [
        "exec?command=ls&stdout=true",
        "attach?stdout=true",
        "portforward",
    ] {
        for name in ["free", "lost", "bare", "silent", "missing"] {
            let path = s.item(&PODS, &format!("{name}/{part}"));
            s.ask(Ask::new(Method::POST, path)).await;
        }
        s.get(&PODS, &format!("free/{part}")).await;
    }
}

async fn streams_need_a_container_and_an_upgrade(s: &mut Session) {
    set_pods(s).await;
    for part in [
        "two/exec?command=ls",
        "two/exec?command=ls&container=x",
        "two/exec?command=ls&container=c1",
        "two/attach",
        "two/portforward",
    ] {
        let path = s.item(&PODS, part);
        s.ask(Ask::new(Method::POST, path)).await;
    }
    let path = s.item(&PODS, "two/exec");
    s.ask(Ask::put(&path, &json!({}))).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
}

async fn proxies_to_pods_without_an_address(s: &mut Session) {
    set_pod(s, "a", json!({})).await;
    for name in ["a", "a:80", "https:a:x", "missing", "a:b:c:d"] {
        s.get(&PODS, &format!("{name}/proxy")).await;
    }
    s.get(&PODS, "a/proxy/some/path?q=1").await;
    let path = s.item(&PODS, "a/proxy");
    s.ask(Ask::post(&path, &json!({}))).await;
    let local = json!({"status": {"podIP": "127.0.0.3", "podIPs": [{"ip": "127.0.0.3"}]}});
    let status = s.item(&PODS, "a/status");
    s.quietly(Ask::merge_patch(status, &local)).await;
    s.get(&PODS, "a/proxy").await;
}

async fn proxies_to_services_without_endpoints(s: &mut Session) {
    s.quietly(Ask::post(s.path(&SERVICES), &mk_service("a")))
        .await;
    for name in ["a", "a:1", "missing", "http:a:http"] {
        s.get(&SERVICES, &format!("{name}/proxy/")).await;
    }
    let endpoints = mk_object("v1", "Endpoints", "a");
    s.quietly(Ask::post(s.path(&ENDPOINTS), &endpoints)).await;
    s.get(&SERVICES, "a/proxy/").await;
}

async fn proxies_to_nodes_without_an_address(s: &mut Session) {
    let bare = set_node(s, "bare", json!([])).await;
    let local = json!([{"type": "InternalIP", "address": "127.0.0.2"}]);
    let local = set_node(s, "local", local).await;
    for name in [bare, local, "missing".to_owned()] {
        s.get_path(format!("{}/{name}/proxy/", NODES.everywhere()))
            .await;
    }
}
