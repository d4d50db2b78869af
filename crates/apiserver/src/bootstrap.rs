//! The objects that a cluster has from the start: what kube-apiserver creates before it is ready.
//!
//! Roles, bindings, PriorityClasses, the objects of Priority and Fairness and APIServices are rows of
//! `data/bootstrap.txt`, which `cargo xtask real facts` writes. Service `kubernetes` depends on the address of the server.
//! Objects are written to the store as they are, once; nothing else refers to them.
//! DEVIATION(bootstrap-objects): the server does not restore them when they are changed or deleted.
//! DEVIATION(aggregated-roles): no controller here fills the rules of roles that aggregate others.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::allocation::{Allotment, CLUSTER_CIDR, FIRST_CLUSTER_IP};
use crate::kinds::GenerationRule;
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::{ObjectKey, StoredObject, WriteProposal};
use crate::strategy::namespace::DEFAULT_NAMESPACES;
use crate::strategy::{self, WriteContext};
use crate::upkeep::accounts;
use crate::verbs::write::{self, WriteMode};

const ROWS: &str = include_str!("../data/bootstrap.txt");
const RBAC: &str = "rbac.authorization.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
/// The text of an empty column.
const NOTHING: &str = "-";

/// Creates the namespaces that every server has.
pub(crate) fn create_namespaces(server: &ServerState) {
    let kind = server.builtin("", "namespaces");
    for name in DEFAULT_NAMESPACES {
        let mut tree = ObjectTree::new();
        tree.insert("metadata".into(), json!({"name": name}));
        let kinds = &*server.kinds();
        let context = WriteContext {
            kinds,
            now: server.clock.now(),
            user: None,
        };
        strategy::prepare_create(&kind, &mut tree, context);
        if let Some(namespace) = put(server, ("", "namespaces"), Value::Object(tree)) {
            accounts::keep(server, &namespace);
        }
    }
}

/// Creates the other objects. Clients reach the server at `address`.
pub(crate) fn create(server: &ServerState, address: SocketAddr) {
    create_network(server, address);
    let mut rows = ROWS.lines().filter(|row| !row.starts_with('#')).peekable();
    while let Some(row) = rows.next() {
        let columns: Vec<&str> = row.split('\t').collect();
        match columns[..] {
            ["role", namespace, name, labels, aggregates] => {
                let mut rules = Vec::new();
                while let Some(row) = rows.next_if(|row| row.starts_with("rule\t")) {
                    rules.push(rule(row));
                }
                role(server, (namespace, name), labels, aggregates, &rules);
            }
            ["binding", namespace, name, kind, role, subjects] => {
                binding(server, (namespace, name), (kind, role), subjects);
            }
            ["priority", name, value, description] => {
                let value: i64 = value.parse().unwrap_or(0);
                let content = json!({"metadata": {"name": name}, "value": value, "description": description,
                    "preemptionPolicy": "PreemptLowerPriority"});
                put(server, ("scheduling.k8s.io", "priorityclasses"), content);
            }
            ["level", name, spec] => {
                let content = flow_control(name, spec);
                put(
                    server,
                    (FLOW_CONTROL, "prioritylevelconfigurations"),
                    content,
                );
            }
            ["flow", name, spec] => {
                let content = flow_control(name, spec);
                let content = not_dangling(server, content);
                put(server, (FLOW_CONTROL, "flowschemas"), content);
            }
            ["service", group, version, group_priority, version_priority] => {
                let priorities = [group_priority, version_priority];
                let content = api_service(server, group, version, priorities);
                put(server, ("apiregistration.k8s.io", "apiservices"), content);
            }
            _ => debug_assert!(false, "bootstrap.txt has no such row: {row}"),
        }
    }
}

/// The Service of the API server itself, with the range that its address is from. Endpoints may not be loopback addresses,
/// so a server that only this machine can reach has none, as upstream.
fn create_network(server: &ServerState, address: SocketAddr) {
    let ready = json!({"type": "Ready", "status": "True", "reason": "",
        "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": now(server)});
    let range = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [CLUSTER_CIDR]},
        "status": {"conditions": [ready]}});
    put(server, ("networking.k8s.io", "servicecidrs"), range);

    let ip = FIRST_CLUSTER_IP.to_string();
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let metadata = json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let port =
        json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port()});
    let service = json!({"metadata": metadata, "spec": {"clusterIP": ip, "clusterIPs": [ip],
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [port], "sessionAffinity": "None", "type": "ClusterIP"}, "status": {"loadBalancer": {}}});
    if let Value::Object(tree) = &service {
        let mut allotment = Allotment::new(server, WriteMode::Real, tree);
        // Nothing else has an address yet.
        let _ = allotment.take_ip(FIRST_CLUSTER_IP);
        allotment.commit();
    }
    put(server, ("", "services"), service);

    let host = address.ip();
    if host.is_loopback() || host.is_unspecified() {
        return;
    }
    let port = json!({"name": "https", "port": address.port(), "protocol": "TCP"});
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let metadata = json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let subset = json!({"addresses": [{"ip": host.to_string()}], "ports": [port]});
    let endpoints = json!({"metadata": metadata, "subsets": [subset]});
    put(server, ("", "endpoints"), endpoints);
    let labels = json!({"kubernetes.io/service-name": "kubernetes"});
    let metadata = json!({"name": "kubernetes", "namespace": "default", "labels": labels});
    let family = if host.is_ipv4() { "IPv4" } else { "IPv6" };
    let endpoint = json!({"addresses": [host.to_string()], "conditions": {"ready": true}});
    let slice = json!({"metadata": metadata, "addressType": family, "endpoints": [endpoint], "ports": [port]});
    put(server, ("discovery.k8s.io", "endpointslices"), slice);
}

fn rule(row: &str) -> Value {
    let fields = [
        "apiGroups",
        "resources",
        "resourceNames",
        "nonResourceURLs",
        "verbs",
    ];
    let mut rule = ObjectTree::new();
    for (field, column) in fields.iter().zip(row.split('\t').skip(1)) {
        let values: Vec<&str> = list(column)
            .map(|value| match (*field, value) {
                ("apiGroups", "core") => "",
                (_, value) => value,
            })
            .collect();
        if !values.is_empty() {
            rule.insert((*field).into(), json!(values));
        }
    }
    Value::Object(rule)
}

/// A role without a namespace is a ClusterRole. A role that aggregates others has no rules of its own.
fn role(
    server: &ServerState,
    place: (&str, &str),
    labels: &str,
    aggregates: &str,
    rules: &[Value],
) {
    let mut metadata = rbac_metadata(place);
    for label in list(labels) {
        metadata["labels"][label] = "true".into();
    }
    let rules = match aggregates {
        NOTHING => json!(rules),
        _ => Value::Null,
    };
    let mut content = json!({"metadata": metadata, "rules": rules});
    for label in list(aggregates) {
        let selector = json!({"matchLabels": {label: "true"}});
        content["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
    }
    let plural = match place.0 {
        NOTHING => "clusterroles",
        _ => "roles",
    };
    put(server, (RBAC, plural), content);
}

fn binding(server: &ServerState, place: (&str, &str), role: (&str, &str), subjects: &str) {
    let subject = |text: &str| {
        let (kind, name) = text.split_once('=').unwrap_or_default();
        match name.split_once('/') {
            Some((namespace, name)) if kind == "ServiceAccount" => {
                json!({"kind": kind, "name": name, "namespace": namespace})
            }
            _ => json!({"kind": kind, "name": name, "apiGroup": RBAC}),
        }
    };
    let subjects: Vec<Value> = list(subjects).map(subject).collect();
    let role = json!({"apiGroup": RBAC, "kind": role.0, "name": role.1});
    let mut content = json!({"metadata": rbac_metadata(place), "roleRef": role});
    if !subjects.is_empty() {
        content["subjects"] = json!(subjects);
    }
    let plural = match place.0 {
        NOTHING => "clusterrolebindings",
        _ => "rolebindings",
    };
    put(server, (RBAC, plural), content);
}

fn rbac_metadata((namespace, name): (&str, &str)) -> Value {
    let mut metadata = json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}});
    if namespace != NOTHING {
        metadata["namespace"] = namespace.into();
    }
    metadata
}

fn flow_control(name: &str, spec: &str) -> Value {
    // Written by `cargo xtask real facts` as JSON; a test reads every row.
    let spec: Value = serde_json::from_str(spec).unwrap_or_default();
    let annotations = json!({"apf.kubernetes.io/autoupdate-spec": "true"});
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec, "status": {}})
}

/// Adds the condition that the level of a FlowSchema exists.
fn not_dangling(server: &ServerState, mut schema: Value) -> Value {
    let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {level} and it exists"
    );
    let condition = json!({"type": "Dangling", "status": "False", "reason": "Found", "message": message,
        "lastTransitionTime": now(server)});
    schema["status"]["conditions"] = json!([condition]);
    schema
}

fn api_service(server: &ServerState, group: &str, version: &str, priorities: [&str; 2]) -> Value {
    let [group_priority, version_priority] = priorities.map(|text| text.parse().unwrap_or(0_u32));
    let mut spec = json!({"groupPriorityMinimum": group_priority, "version": version,
        "versionPriority": version_priority});
    let name = match group {
        NOTHING => format!("{version}."),
        group => {
            spec["group"] = group.into();
            format!("{version}.{group}")
        }
    };
    let labels = json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"});
    let available = json!({"type": "Available", "status": "True", "reason": "Local",
        "message": "Local APIServices are always available", "lastTransitionTime": now(server)});
    json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"conditions": [available]}})
}

/// Writes an object as it is, with the metadata that a create sets.
fn put(
    server: &ServerState,
    (group, plural): (&str, &str),
    content: Value,
) -> Option<Arc<StoredObject>> {
    let Value::Object(mut tree) = content else {
        return None;
    };
    let kind = server.builtin(group, plural);
    metadata::set_create_fields(&mut tree, server.clock.now(), &mut server.rng());
    if kind.rules.generation != GenerationRule::Untouched {
        metadata::of(&mut tree).insert("generation".into(), 1.into());
    }
    let namespace = metadata::text(&tree, "namespace");
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let key = ObjectKey::new(namespace, metadata::text(&tree, "name"));
    let proposal = WriteProposal {
        resource: kind.resource,
        expected: None,
        new: Some(write::encode(&kind, &key, &tree)),
        premise: None,
        key,
    };
    // The store is empty, so no object is in the way.
    server.store.write(proposal).ok()
}

fn list(column: &str) -> impl Iterator<Item = &str> {
    column.split(',').filter(|value| *value != NOTHING)
}

fn now(server: &ServerState) -> String {
    metadata::time(server.clock.now())
}
