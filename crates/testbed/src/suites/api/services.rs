//! Services: the cluster IPs, families and node ports that they get, keep and give back.
//!
//! Addresses and ports that a case chooses are the lowest of their ranges, and each case has its own: the real server
//! serves all of them.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::Session;

pub(super) const CASES: &[TestCase] = &[
    api_case!(services_get_cluster_ips),
    api_case!(cluster_ips_can_be_chosen_once),
    api_case!(cluster_ips_that_cannot_be_are_422),
    api_case!(headless_services_have_families_and_no_ip),
    api_case!(external_names_have_no_ip),
    api_case!(families_of_a_single_stack_cluster),
    api_case!(node_ports_are_chosen_or_given),
    api_case!(node_ports_that_cannot_be_are_422),
    api_case!(load_balancers_get_node_and_health_ports),
    api_case!(fields_of_other_types_are_422),
    api_case!(ports_of_services_are_checked),
    api_case!(cluster_ips_do_not_change),
    api_case!(node_ports_are_kept_and_changed),
    api_case!(types_change_and_take_their_fields_along),
    api_case!(deleted_services_give_back_what_they_held),
    api_case!(dry_runs_of_services_take_nothing),
    api_case!(addresses_of_services_are_objects),
    api_case!(put_of_a_missing_service_creates_it),
];

fn mk_spec(name: &str, spec: Value) -> Value {
    let mut object = mk_object("v1", "Service", name);
    object["spec"] = with(json!({"ports": [{"port": 80}]}), spec);
    object
}

async fn create(s: &mut Session, name: &str, spec: Value) {
    s.post(&SERVICES, mk_spec(name, spec)).await;
}

async fn patch(s: &mut Session, name: &str, spec: Value) {
    s.merge_patch(&SERVICES, name, json!({ "spec": spec }))
        .await;
}

async fn services_get_cluster_ips(s: &mut Session) {
    create(s, "a", json!({})).await;
    create(s, "b", json!({"clusterIP": "", "clusterIPs": []})).await;
    create(s, "c", json!({"sessionAffinity": "ClientIP"})).await;
    let timeout = json!({"clientIP": {"timeoutSeconds": 5}});
    create(s, "d", json!({"sessionAffinityConfig": timeout})).await;
    create(s, "e", json!({"externalIPs": ["192.0.2.1"]})).await;
}

async fn cluster_ips_can_be_chosen_once(s: &mut Session) {
    create(s, "a", json!({"clusterIP": "10.0.0.20"})).await;
    create(s, "b", json!({"clusterIP": "10.0.0.20"})).await;
    let both = json!({"clusterIP": "10.0.0.21", "clusterIPs": ["10.0.0.21"]});
    create(s, "c", both).await;
}

async fn cluster_ips_that_cannot_be_are_422(s: &mut Session) {
    for spec in [
        json!({"clusterIP": "192.168.0.1"}),
        json!({"clusterIP": "10.0.0.0"}),
        json!({"clusterIP": "10.0.255.255"}),
        json!({"clusterIP": "foo"}),
        json!({"clusterIP": "::1"}),
        json!({"clusterIP": "010.0.0.22"}),
        json!({"clusterIPs": ["10.0.0.22"]}),
        json!({"clusterIP": "10.0.0.22", "clusterIPs": ["10.0.0.23"]}),
        json!({"clusterIP": "10.0.0.22", "clusterIPs": ["10.0.0.22", "10.0.0.23"]}),
        json!({"clusterIP": "10.0.0.22", "clusterIPs": ["10.0.0.22", "fd00::1"]}),
        json!({"clusterIP": "None", "clusterIPs": ["None", "10.0.0.22"]}),
    ] {
        create(s, "a", spec).await;
    }
}

async fn headless_services_have_families_and_no_ip(s: &mut Session) {
    // The real server counts changes of managed fields, too.
    s.hide(&["metadata"]);
    create(s, "a", json!({"clusterIP": "None", "selector": {"a": "b"}})).await;
    create(s, "b", json!({"clusterIP": "None"})).await;
    create(s, "c", json!({"clusterIP": "None", "ports": null})).await;
    let single = json!({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"});
    create(s, "d", single).await;
    create(s, "e", json!({"clusterIP": "None", "ipFamilies": ["IPv6"]})).await;
    let preferred = json!({"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack"});
    create(s, "f", preferred).await;
    patch(s, "b", json!({"clusterIP": null})).await;
    patch(s, "b", json!({"clusterIP": "10.0.0.24"})).await;
    patch(s, "b", json!({"type": "NodePort"})).await;
    patch(s, "d", json!({"ipFamilyPolicy": null})).await;
}

async fn external_names_have_no_ip(s: &mut Session) {
    let named = json!({"type": "ExternalName", "externalName": "a.b"});
    create(s, "a", named.clone()).await;
    create(s, "b", with(named.clone(), json!({"ports": null}))).await;
    for more in [
        json!({"clusterIP": "10.0.0.25"}),
        json!({"clusterIP": "None"}),
        json!({"externalName": ""}),
        json!({"externalName": "A_B", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
    ] {
        create(s, "c", with(named.clone(), more)).await;
    }
}

async fn families_of_a_single_stack_cluster(s: &mut Session) {
    create(s, "a", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    let given = json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]});
    create(s, "b", given).await;
    for spec in [
        json!({"ipFamilyPolicy": "RequireDualStack"}),
        json!({"ipFamilies": ["IPv6"]}),
        json!({"ipFamilies": ["IPv4", "IPv6"]}),
        json!({"ipFamilies": ["IPv4", "IPv4"]}),
        json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
        json!({"ipFamilies": ["X"]}),
        json!({"ipFamilyPolicy": "X"}),
    ] {
        create(s, "c", spec).await;
    }
    patch(s, "a", json!({"ipFamilyPolicy": "SingleStack"})).await;
    patch(s, "a", json!({"ipFamilyPolicy": "RequireDualStack"})).await;
    patch(s, "a", json!({"ipFamilies": ["IPv6"]})).await;
    patch(s, "a", json!({"ipFamilies": null})).await;
}

async fn node_ports_are_chosen_or_given(s: &mut Session) {
    create(s, "a", json!({"type": "NodePort"})).await;
    let given = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_001}]});
    create(s, "b", given.clone()).await;
    create(s, "c", given).await;
    let two = json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]);
    create(s, "d", json!({"type": "NodePort", "ports": two})).await;
    let shared = json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b", "protocol": "UDP"}]);
    create(s, "e", json!({"type": "NodePort", "ports": shared})).await;
    let shared = json!([{"port": 80, "name": "a", "nodePort": 30_002},
        {"port": 80, "name": "b", "protocol": "UDP", "nodePort": 30_002}]);
    create(s, "f", json!({"type": "NodePort", "ports": shared})).await;
}

async fn node_ports_that_cannot_be_are_422(s: &mut Session) {
    for ports in [
        json!([{"port": 80, "nodePort": 29_999}]),
        json!([{"port": 80, "nodePort": 32_768}]),
        json!([{"port": 80, "nodePort": -1}]),
        json!([{"port": 80, "name": "a", "nodePort": 30_003}, {"port": 81, "name": "b", "nodePort": 30_003}]),
        json!([{"port": 80, "name": "a", "nodePort": 30_003},
            {"port": 81, "name": "b", "protocol": "UDP", "nodePort": 30_003}]),
    ] {
        create(s, "a", json!({"type": "NodePort", "ports": ports})).await;
    }
    create(s, "a", json!({"ports": [{"port": 80, "nodePort": 30_003}]})).await;
    create(s, "a", json!({"type": "NodePort", "clusterIP": "None"})).await;
    s.note("what was refused is free");
    let given = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_003}]});
    create(s, "a", given).await;
}

async fn load_balancers_get_node_and_health_ports(s: &mut Session) {
    let balancer = json!({"type": "LoadBalancer"});
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    create(s, "a", balancer.clone()).await;
    let without = json!({"allocateLoadBalancerNodePorts": false});
    create(s, "b", with(balancer.clone(), without)).await;
    create(s, "c", local.clone()).await;
    let given = json!({"healthCheckNodePort": 30_004});
    create(s, "d", with(local.clone(), given.clone())).await;
    create(s, "e", with(local.clone(), given.clone())).await;
    create(s, "e", with(local, json!({"healthCheckNodePort": 20}))).await;
    create(s, "e", with(balancer.clone(), given)).await;
    let class = json!({"loadBalancerClass": "a.b/c"});
    create(s, "f", with(balancer, class)).await;
    patch(s, "f", json!({"loadBalancerClass": "a.b/d"})).await;
}

async fn fields_of_other_types_are_422(s: &mut Session) {
    for spec in [
        json!({"allocateLoadBalancerNodePorts": true}),
        json!({"loadBalancerClass": "a.b/c"}),
        json!({"externalTrafficPolicy": "Local"}),
        json!({"healthCheckNodePort": 30_005}),
        json!({"type": "Y", "sessionAffinity": "X", "internalTrafficPolicy": "Z"}),
        json!({"type": "NodePort", "externalTrafficPolicy": "X"}),
        json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}}),
        json!({"selector": {"a b": "c"}}),
    ] {
        create(s, "a", spec).await;
    }
}

async fn ports_of_services_are_checked(s: &mut Session) {
    for ports in [
        json!([]),
        json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]),
        json!([{"port": 80}, {"port": 81}]),
        json!([{"port": 80, "targetPort": "toolongaportname12"}]),
        json!([{"port": 80, "appProtocol": "a b"}]),
        json!([{"port": 0}, {"port": 70_000, "protocol": "X"}, {"port": 80, "name": "Foo"},
            {"port": 80, "name": "a"}, {"port": 81, "name": "a", "targetPort": "x!"}]),
    ] {
        create(s, "a", json!({ "ports": ports })).await;
    }
}

async fn cluster_ips_do_not_change(s: &mut Session) {
    // The real server counts changes of managed fields, too.
    s.hide(&["metadata"]);
    create(s, "a", json!({"clusterIP": "10.0.0.26"})).await;
    for spec in [
        json!({"clusterIP": "10.0.0.27"}),
        json!({"clusterIP": "None"}),
        json!({"clusterIP": ""}),
        json!({"clusterIP": null}),
        json!({"clusterIPs": null}),
        json!({"clusterIPs": ["10.0.0.27"]}),
        json!({"clusterIP": "10.0.0.27", "clusterIPs": ["10.0.0.27"]}),
    ] {
        patch(s, "a", spec).await;
    }
    s.put(&SERVICES, "a", mk_spec("a", json!({}))).await;
}

async fn node_ports_are_kept_and_changed(s: &mut Session) {
    create(s, "a", json!({"type": "NodePort"})).await;
    let put = |ports: Value| mk_spec("a", json!({"type": "NodePort", "ports": ports}));
    s.put(&SERVICES, "a", put(json!([{"port": 80}]))).await;
    s.put(&SERVICES, "a", put(json!([{"port": 80, "name": "z"}])))
        .await;
    let port = |number: u16| json!({"port": 80, "name": "z", "nodePort": number});
    patch(s, "a", json!({"ports": [port(30_006)]})).await;
    create(s, "b", json!({"type": "NodePort", "ports": [port(30_007)]})).await;
    patch(s, "a", json!({"ports": [port(30_007)]})).await;
    let twice = json!({"port": 81, "name": "y", "nodePort": 30_006});
    patch(s, "a", json!({"ports": [port(30_006), twice]})).await;
    patch(s, "a", json!({"ports": [port(30_008)]})).await;
    patch(s, "b", json!({"ports": [port(30_006)]})).await;
}

async fn types_change_and_take_their_fields_along(s: &mut Session) {
    create(s, "a", json!({"clusterIP": "10.0.0.28"})).await;
    patch(s, "a", json!({"type": "NodePort"})).await;
    patch(s, "a", json!({"type": "LoadBalancer"})).await;
    patch(s, "a", json!({"externalTrafficPolicy": "Local"})).await;
    patch(s, "a", json!({"healthCheckNodePort": 30_009})).await;
    patch(s, "a", json!({"externalTrafficPolicy": "Cluster"})).await;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}}});
    s.merge_patch(&SERVICES, "a/status", status).await;
    patch(s, "a", json!({"type": "ClusterIP"})).await;
    let named = json!({"type": "ExternalName", "externalName": "a.b"});
    patch(s, "a", named.clone()).await;
    create(s, "b", json!({"clusterIP": "10.0.0.28"})).await;
    patch(s, "a", json!({"type": "ClusterIP"})).await;
    patch(s, "a", json!({"type": "LoadBalancer"})).await;
    patch(s, "a", json!({"allocateLoadBalancerNodePorts": false})).await;
    let bare = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    s.put(&SERVICES, "a", mk_spec("a", bare)).await;
    create(s, "c", json!({"clusterIP": "None"})).await;
    patch(s, "c", named).await;
    let headless = json!({"type": "ClusterIP", "clusterIP": "None", "externalName": ""});
    patch(s, "c", headless).await;
    patch(s, "b", json!({"ports": null})).await;
}

async fn deleted_services_give_back_what_they_held(s: &mut Session) {
    let spec = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.29", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30_010, "ports": [{"port": 80, "nodePort": 30_011}]});
    for name in ["a", "b"] {
        create(s, name, spec.clone()).await;
        s.delete(&SERVICES, name).await;
    }
    s.note("one that a finalizer holds keeps its address");
    let mut held = mk_spec("c", json!({"clusterIP": "10.0.0.29"}));
    held["metadata"]["finalizers"] = json!(["a.b/c"]);
    s.post(&SERVICES, held).await;
    s.delete(&SERVICES, "c").await;
    create(s, "d", json!({"clusterIP": "10.0.0.29"})).await;
    let release = json!({"metadata": {"finalizers": null}});
    s.merge_patch(&SERVICES, "c", release).await;
    create(s, "d", json!({"clusterIP": "10.0.0.29"})).await;
}

async fn dry_runs_of_services_take_nothing(s: &mut Session) {
    let spec = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.30", "externalTrafficPolicy": "Local",
        "ports": [{"port": 80, "name": "a", "nodePort": 30_012}, {"port": 81, "name": "b"}]});
    for spec in [json!({}), spec.clone()] {
        let object = mk_spec("a", spec);
        s.post_with(&SERVICES, "dryRun=All", object).await;
    }
    create(s, "a", spec.clone()).await;
    s.post_with(&SERVICES, "dryRun=All", mk_spec("b", spec))
        .await;
    let taken = json!({"clusterIP": "10.0.0.30"});
    s.post_with(&SERVICES, "dryRun=All", mk_spec("b", taken))
        .await;
}

async fn addresses_of_services_are_objects(s: &mut Session) {
    create(s, "a", json!({"clusterIP": "10.0.0.31"})).await;
    s.get(&IP_ADDRESSES, "10.0.0.31").await;
    s.delete(&SERVICES, "a").await;
    s.get(&IP_ADDRESSES, "10.0.0.31").await;
    let mut address = mk_object("networking.k8s.io/v1", "IPAddress", "10.0.0.32");
    address["spec"] = json!({"parentRef": {"resource": "x", "name": "y"}});
    s.post(&IP_ADDRESSES, address).await;
    create(s, "a", json!({"clusterIP": "10.0.0.32"})).await;
    s.delete(&IP_ADDRESSES, "10.0.0.32").await;
    create(s, "a", json!({"clusterIP": "10.0.0.32"})).await;
}

async fn put_of_a_missing_service_creates_it(s: &mut Session) {
    s.put(&SERVICES, "a", mk_spec("a", json!({}))).await;
    let mut named = mk_object("v1", "Service", "");
    named["metadata"] = json!({"generateName": "b-"});
    named["spec"] = json!({"ports": [{"port": 80}]});
    s.post(&SERVICES, named).await;
}
