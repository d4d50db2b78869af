//! Events, Nodes, Namespaces, configuration, Services and the small rest.

use super::*;

/// An Event with other times, counts and sources.
fn event(s: &Session, name: &str, rest: Value) -> Value {
    with(mk_event(name, s.ns()), rest)
}

pub(super) async fn columns_of_core_events(s: &mut Session) {
    nothing(s, &EVENTS).await;
    let series = json!({"count": 7, "lastObservedTime": "2999-01-01T00:00:00.000000Z"});
    let new = json!({"eventTime": "2025-06-01T00:00:00.000000Z", "reportingComponent": "r", "reportingInstance": "r-0", "action": "A"});
    let objects = [
        event(s, "a-bare", json!({})),
        event(s, "b-first-only", json!({"firstTimestamp": EARLIER})),
        event(
            s,
            "c-both",
            json!({"firstTimestamp": EARLIER, "lastTimestamp": LATER, "count": 3}),
        ),
        event(
            s,
            "d-last-only",
            json!({"lastTimestamp": EARLIER, "type": "Warning"}),
        ),
        event(s, "e-source", json!({"source": {"component": "kubelet"}})),
        event(
            s,
            "f-host",
            json!({"source": {"component": "kubelet", "host": "node-1"}}),
        ),
        event(s, "g-host-only", json!({"source": {"host": "node-1"}})),
        event(
            s,
            "h-field",
            json!({"involvedObject": {"fieldPath": "spec.containers{c}"}}),
        ),
        event(s, "i-no-name", json!({"involvedObject": {"name": null}})),
        event(s, "j-message", json!({"message": " \n two\nlines \t "})),
        event(s, "k-new-form", new.clone()),
        event(s, "l-series", with(new.clone(), json!({"series": series}))),
        event(
            s,
            "m-series-over-both",
            with(
                new.clone(),
                json!({"series": series, "firstTimestamp": EARLIER, "lastTimestamp": EARLIER, "count": 2}),
            ),
        ),
        event(
            s,
            "n-source-before-reporter",
            with(new, json!({"source": {"component": "kubelet"}})),
        ),
        event(
            s,
            "o-other-kind",
            json!({"involvedObject": {"kind": "ReplicaSet"}}),
        ),
        event(
            s,
            "p-nothing",
            json!({"reason": null, "message": null, "type": null}),
        ),
        event(
            s,
            "q-zero",
            json!({"count": 0, "lastTimestamp": EARLIER, "firstTimestamp": null}),
        ),
    ];
    shown(s, &EVENTS, objects).await;
}

pub(super) async fn columns_of_events_of_the_other_group(s: &mut Session) {
    let events = Resource::custom("events.k8s.io", "v1", "events", Scope::Namespaced);
    nothing(s, &events).await;
    let about = json!({"apiVersion": "v1", "kind": "Pod", "namespace": s.ns(), "name": "p"});
    let plain = json!({"regarding": about, "reason": "Because", "note": " n ", "type": "Normal", "action": "A",
        "eventTime": "2025-06-01T00:00:00.000000Z", "reportingController": "example.com/r", "reportingInstance": "r-0"});
    let event = |name: &str, rest: Value| {
        with(
            with(mk_object("events.k8s.io/v1", "Event", name), plain.clone()),
            rest,
        )
    };
    let series = json!({"count": 7, "lastObservedTime": "2999-01-01T00:00:00.000000Z"});
    let objects = [
        event("a", json!({})),
        event(
            "b-later",
            json!({"eventTime": "2999-01-01T00:00:00.000000Z"}),
        ),
        event("c-series", json!({ "series": series })),
    ];
    shown(s, &events, objects).await;
    s.note("the same in the core group");
    shown(s, &EVENTS, []).await;
}

pub(super) async fn columns_of_nodes(s: &mut Session) {
    nothing(s, &NODES).await;
    let node = |name: &str, rest: Value| with(mk_object("v1", "Node", name), rest);
    let ready = |status: &str| {
        json!({"status": {"conditions": [
        {"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": status}]}})
    };
    let roles = json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "x",
        "kubernetes.io/role": "legacy"}}});
    let info = json!({"kubeletVersion": "v1.36.3", "osImage": "An OS 1", "kernelVersion": "6.1", "containerRuntimeVersion": "c://1",
        "machineID": "", "systemUUID": "", "bootID": "", "operatingSystem": "linux", "architecture": "amd64", "kubeProxyVersion": ""});
    let addresses = json!([{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "ExternalIP", "address": "192.0.2.1"}]);
    let objects = [
        node("a-new", json!({})),
        node("b-ready", ready("True")),
        node("c-not-ready", ready("False")),
        node("d-unknown", ready("Unknown")),
        node(
            "e-cordoned",
            with(ready("True"), json!({"spec": {"unschedulable": true}})),
        ),
        node("f-new-cordoned", json!({"spec": {"unschedulable": true}})),
        node("g-roles", roles),
        node(
            "h-info",
            json!({"status": {"nodeInfo": info, "addresses": addresses}}),
        ),
        node(
            "h-kernel",
            json!({"status": {"nodeInfo": with(info.clone(), json!({"architecture": ""}))}}),
        ),
        node(
            "h-machine",
            json!({"status": {"nodeInfo": with(info, json!({"kernelVersion": ""}))}}),
        ),
        node(
            "i-empty-role",
            json!({"metadata": {"labels": {"kubernetes.io/role": "", "node-role.kubernetes.io": "y"}}}),
        ),
        deleted(node("j-deleted", ready("True"))),
    ];
    shown(s, &NODES, objects).await;
}

pub(super) async fn columns_of_namespaces(s: &mut Session) {
    nothing(s, &NAMESPACES).await;
    let objects = [mk_namespace("a"), deleted(mk_namespace("b-terminates"))];
    shown(s, &NAMESPACES, objects).await;
}

pub(super) async fn columns_of_config_maps(s: &mut Session) {
    nothing(s, &CONFIG_MAPS).await;
    let objects = [
        mk_object("v1", "ConfigMap", "a-empty"),
        mk_config_map("b-one"),
        with(
            mk_config_map("c-both"),
            json!({"binaryData": {"x": "eA==", "y": "eQ=="}}),
        ),
    ];
    shown(s, &CONFIG_MAPS, objects).await;
}

pub(super) async fn columns_of_secrets(s: &mut Session) {
    nothing(s, &SECRETS).await;
    let secret = |name: &str, rest: Value| with(mk_object("v1", "Secret", name), rest);
    let objects = [
        secret("a-empty", json!({})),
        secret(
            "b-own-type",
            json!({"type": "example.com/t", "data": {"x": "eA=="}, "stringData": {"y": "y", "x": "z"}}),
        ),
    ];
    shown(s, &SECRETS, objects).await;
}

pub(super) async fn columns_of_services(s: &mut Session) {
    nothing(s, &SERVICES).await;
    let service = |name: &str, spec: Value| with(mk_service(name), json!({ "spec": spec }));
    let ports = json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP"}]);
    let balanced = |name: &str, address: &str, ingress: Value| {
        let spec = json!({"type": "LoadBalancer", "clusterIP": address, "allocateLoadBalancerNodePorts": false});
        with(
            service(name, spec),
            json!({"status": {"loadBalancer": {"ingress": ingress}}}),
        )
    };
    let long = "a-very-long-name-of-a-balancer.of-some-zone.example.com";
    let node_port = json!({"type": "NodePort", "clusterIP": "10.0.0.81", "ports": [{"port": 80, "nodePort": 30081, "protocol": "TCP"}]});
    let external = json!({"type": "ExternalName", "clusterIP": null, "externalName": "db.example.com", "ports": null});
    let objects = [
        service("a-headless", json!({})),
        service(
            "b-ports",
            json!({"ports": ports, "selector": {"app": "a", "Tier": "x"}}),
        ),
        service("c-no-ports", json!({"ports": null})),
        service(
            "d-address",
            json!({"clusterIP": "10.0.0.82", "externalIPs": ["192.0.2.1", "192.0.2.2"]}),
        ),
        service("e-node-port", node_port),
        service("f-external-name", external),
        balanced("g-balancer", "10.0.0.83", json!(null)),
        balanced(
            "h-balanced",
            "10.0.0.84",
            json!([{"ip": "192.0.2.3"}, {"hostname": "lb.example.com"}]),
        ),
        balanced(
            "i-long",
            "10.0.0.85",
            json!([{"ip": "192.0.2.3"}, {"hostname": long}]),
        ),
        with(
            balanced("j-both", "10.0.0.86", json!([{"ip": "192.0.2.3"}])),
            json!({"spec": {"externalIPs": ["192.0.2.4"]}}),
        ),
        with(
            balanced("k-external-only", "10.0.0.87", json!(null)),
            json!({"spec": {"externalIPs": ["192.0.2.4"]}}),
        ),
    ];
    shown(s, &SERVICES, objects).await;
}

pub(super) async fn columns_of_endpoints(s: &mut Session) {
    nothing(s, &ENDPOINTS).await;
    let endpoints = |name: &str, subsets: Value| {
        with(
            mk_object("v1", "Endpoints", name),
            json!({ "subsets": subsets }),
        )
    };
    let addresses = |numbers: std::ops::Range<u8>| -> Value {
        numbers
            .map(|n| json!({"ip": format!("10.0.0.{n}")}))
            .collect()
    };
    let two = json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 443, "protocol": "TCP"}]);
    let one = json!([{"port": 80, "protocol": "TCP"}]);
    let objects = [
        endpoints("a-empty", json!([])),
        endpoints("b-no-ports", json!([{"addresses": addresses(1..3)}])),
        endpoints(
            "c-three",
            json!([{"addresses": addresses(1..4), "ports": one}]),
        ),
        endpoints(
            "d-four",
            json!([{"addresses": addresses(1..5), "ports": one}]),
        ),
        endpoints(
            "e-ports",
            json!([{"addresses": addresses(1..4), "ports": two}]),
        ),
        endpoints(
            "f-not-ready",
            json!([{"notReadyAddresses": addresses(1..3), "ports": one}]),
        ),
        endpoints(
            "g-subsets",
            json!([{"addresses": addresses(1..3), "ports": one}, {"addresses": addresses(3..6), "ports": two}]),
        ),
        endpoints(
            "h-six",
            json!([{"addresses": [{"ip": "fd00::1"}], "ports": one}]),
        ),
        endpoints("i-many-no-ports", json!([{"addresses": addresses(1..7)}])),
    ];
    shown(s, &ENDPOINTS, objects).await;
    s.note("a warning comes with every answer")
        .get(&ENDPOINTS, "missing")
        .await;
    s.delete(&ENDPOINTS, "a-empty").await;
    s.post(&ENDPOINTS, endpoints("Bad", json!([]))).await;
}

pub(super) async fn columns_of_leases(s: &mut Session) {
    nothing(s, &LEASES).await;
    let objects = [
        mk_lease("a"),
        with(
            mk_lease("b-free"),
            json!({"spec": {"holderIdentity": null}}),
        ),
    ];
    shown(s, &LEASES, objects).await;
}

pub(super) async fn columns_of_priority_classes(s: &mut Session) {
    nothing(s, &PRIORITY_CLASSES).await;
    let class = |name: &str, rest: Value| {
        with(
            mk_object("scheduling.k8s.io/v1", "PriorityClass", name),
            rest,
        )
    };
    let objects = [
        class("a-zero", json!({"value": 0})),
        class(
            "b",
            json!({"value": -7, "preemptionPolicy": "Never", "description": "d"}),
        ),
    ];
    shown(s, &PRIORITY_CLASSES, objects).await;
}
