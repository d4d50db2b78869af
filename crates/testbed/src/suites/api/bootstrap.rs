//! The objects that a server has from the start.
//!
//! Lists show names and contents without the metadata that differs; the objects of other cases and of the environment are
//! left out.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(roles_from_the_start),
    api_case!(bindings_from_the_start),
    api_case!(priority_classes_from_the_start),
    api_case!(flow_control_from_the_start),
    api_case!(api_services_from_the_start),
    api_case!(network_from_the_start),
];

/// Selects the roles and bindings of the server itself.
const BUILT_IN: &str = "labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults";

/// The objects of a list, each with its labels and annotations, and without the time of a condition.
fn contents(list: &Value) -> Value {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| {
            let mut item = item.clone();
            let meta = &item["metadata"];
            let kept = ["name", "namespace", "labels", "annotations", "generation"];
            let kept = kept.map(|field| (field.to_owned(), meta[field].clone()));
            item["metadata"] = kept
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            item
        })
        .collect()
}

/// The names of a list of classes or services that no case made.
fn system_names(list: &Value) -> Value {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    let own = names.filter(|name| name.starts_with("system-") || name.ends_with("v1."));
    own.collect()
}

async fn shown(s: &mut Session, resource: &Resource, query: &str) {
    let path = format!("{}?{query}", resource.everywhere());
    s.ask(Ask::get(path).viewed(contents)).await;
}

async fn roles_from_the_start(s: &mut Session) {
    shown(s, &CLUSTER_ROLES, BUILT_IN).await;
    shown(s, &ROLES, BUILT_IN).await;
    s.get(&CLUSTER_ROLES, "cluster-admin").await;
}

async fn bindings_from_the_start(s: &mut Session) {
    shown(s, &CLUSTER_ROLE_BINDINGS, BUILT_IN).await;
    shown(s, &ROLE_BINDINGS, BUILT_IN).await;
}

async fn priority_classes_from_the_start(s: &mut Session) {
    // Their order is left to the server.
    s.hide(&["metadata"]);
    let path = PRIORITY_CLASSES.everywhere();
    s.ask(Ask::get(path).viewed(system_names)).await;
    s.get(&PRIORITY_CLASSES, "system-cluster-critical").await;
    s.get(&PRIORITY_CLASSES, "system-node-critical").await;
}

async fn flow_control_from_the_start(s: &mut Session) {
    shown(s, &PRIORITY_LEVELS, "").await;
    shown(s, &FLOW_SCHEMAS, "").await;
}

async fn api_services_from_the_start(s: &mut Session) {
    let built_in = "labelSelector=kube-aggregator.kubernetes.io%2Fautomanaged%3Donstart";
    shown(s, &API_SERVICES, built_in).await;
    s.get(&API_SERVICES, "v1.").await;
}

async fn network_from_the_start(s: &mut Session) {
    let service = |object: &Value| {
        let mut spec = object["spec"].clone();
        // The port of the server.
        spec["ports"][0]["targetPort"] = Value::Null;
        json!([object["metadata"]["labels"], spec, object["status"]])
    };
    let path = "/api/v1/namespaces/default/services/kubernetes";
    s.ask(Ask::get(path).viewed(service)).await;
    s.get(&SERVICE_CIDRS, "kubernetes").await;
    s.get(&IP_ADDRESSES, "10.0.0.1").await;
}
