//! Tables of both actors of endpoints: who is behind a Service, its ports, slices, and what goes with it.

use serde_json::{Value, json};

use super::SERVICES;
use super::object::EndpointsActor;
use super::slices::EndpointSlicesActor;
use crate::actor::{Actor, NamespacedName};
use crate::cache::GroupResource;
use crate::node::NODES;
use crate::objects::time;
use crate::pod::PODS;
use crate::tests::{ActorHarness, START, decided};

const SLICES: GroupResource = ("discovery.k8s.io", "endpointslices");

fn mk_service(spec: &Value) -> Value {
    let mut service = json!({"metadata": {"name": "web", "namespace": "n", "labels": {"l": "m"}},
        "spec": {"clusterIP": "10.0.0.9", "selector": {"app": "a"}, "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    for (name, value) in spec.as_object().unwrap() {
        service["spec"][name] = value.clone();
    }
    service
}

fn mk_pod(name: &str, address: &str, is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    json!({"metadata": {"name": name, "namespace": "n", "labels": {"app": "a"}},
        "spec": {"nodeName": "node", "containers": [{"ports": [{"name": "http", "containerPort": 81}]}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": ready}]}})
}

fn key() -> NamespacedName {
    NamespacedName::new("n", "web")
}

fn world<A: Actor>(actor: A, service: Value, pods: &[Value]) -> ActorHarness<A> {
    let mut harness = ActorHarness::of(actor);
    let labels = json!({"topology.kubernetes.io/zone": "z"});
    harness.applied(
        NODES,
        json!({"metadata": {"name": "node", "labels": labels}}),
    );
    harness.applied(SERVICES, service);
    for pod in pods {
        harness.applied(PODS, pod.clone());
    }
    harness
}

fn reference(name: &str) -> Value {
    json!({"kind": "Pod", "namespace": "n", "name": name, "uid": format!("uid-of-{name}")})
}

#[test]
fn endpoints_list_ready_and_other_addresses_by_ports() {
    let address =
        |name: &str, ip: &str| json!({"ip": ip, "nodeName": "node", "targetRef": reference(name)});
    let pods = [
        mk_pod("p", "10.1.0.2", true),
        mk_pod("q", "10.1.0.1", false),
    ];
    let mut harness = world(EndpointsActor, mk_service(&json!({})), &pods);
    let made = decided(&harness.decide(&key(), START));
    assert_eq!((made.verb, made.name.as_str()), ("create", "web"));
    assert_eq!(
        made.body["metadata"]["labels"],
        json!({"l": "m", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    let subset = json!({"addresses": [address("p", "10.1.0.2")], "notReadyAddresses": [address("q", "10.1.0.1")],
        "ports": [{"port": 8080, "protocol": "TCP"}]});
    assert_eq!(made.body["subsets"], json!([subset]));
    // The Service has the same name, and with it the uid that the harness gives by default.
    let mut endpoints = made.body;
    endpoints["metadata"]["uid"] = "uid-of-endpoints".into();
    harness.answer(&key(), endpoints);
    assert!(harness.is_resting(&key(), START));
    // A Pod that is being deleted or has ended is not listed.
    let mut deleted = pods[0].clone();
    deleted["metadata"]["deletionTimestamp"] = time(START).into();
    harness.applied(PODS, deleted);
    let mut ended = pods[1].clone();
    ended["status"]["phase"] = "Failed".into();
    harness.applied(PODS, ended);
    let emptied = decided(&harness.decide(&key(), START));
    assert_eq!(
        (emptied.verb, emptied.body),
        ("patch", json!({"subsets": []}))
    );
    harness.deleted(SERVICES, &key());
    assert_eq!(decided(&harness.decide(&key(), START)).verb, "delete");
}

#[test]
fn ports_are_found_by_number_and_name() {
    let port =
        |target: Value| json!({"name": "x", "port": 80, "targetPort": target, "protocol": "TCP"});
    // The ports of a Service, and the numbers of its endpoints.
    let cases = [
        (json!([port(json!(8080))]), json!([8080])),
        (json!([port(json!("http"))]), json!([81])),
        (json!([port(json!("other"))]), json!([])),
        (json!([{"port": 80}]), json!([80])),
        (
            json!([port(json!("http")), {"name": "y", "port": 90, "protocol": "UDP"}]),
            json!([81, 90]),
        ),
    ];
    for (ports, expected) in cases {
        let service = mk_service(&json!({"ports": ports}));
        let pods = [mk_pod("p", "10.1.0.1", true)];
        let slice = decided(&world(EndpointSlicesActor, service, &pods).decide(&key(), START)).body;
        let found = slice["ports"].as_array().unwrap().iter();
        let found: Vec<Value> = found.map(|port| port["port"].clone()).collect();
        assert_eq!(Value::Array(found), expected, "{ports}");
    }
}

#[test]
fn services_without_a_selector_are_left_alone() {
    for spec in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        let pods = [mk_pod("p", "10.1.0.1", true)];
        let slices = world(EndpointSlicesActor, mk_service(&spec), &pods);
        assert!(slices.is_resting(&key(), START), "{spec}");
        let endpoints = world(EndpointsActor, mk_service(&spec), &pods);
        assert!(endpoints.is_resting(&key(), START), "{spec}");
    }
}

#[test]
fn slices_show_conditions_and_belong_to_the_service() {
    let mut deleted = mk_pod("r", "10.1.0.3", true);
    deleted["metadata"]["deletionTimestamp"] = time(START).into();
    let mut lost = mk_pod("s", "10.1.0.4", true);
    lost["spec"]["nodeName"] = "gone".into();
    let pods = [
        mk_pod("p", "10.1.0.1", true),
        mk_pod("q", "10.1.0.2", false),
        deleted,
        lost,
    ];
    let harness = world(
        EndpointSlicesActor,
        mk_service(&json!({"clusterIP": "None"})),
        &pods,
    );
    let made = decided(&harness.decide(&key(), START));
    let slice = &made.body;
    assert_eq!(made.verb, "create");
    assert!(made.name.starts_with("web-"), "{}", made.name);
    assert_eq!(slice["addressType"], "IPv4");
    let owner = &slice["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&"Service".into(), &"uid-of-web".into())
    );
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"l": "m", "service.kubernetes.io/headless": "", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    let endpoint = |name: &str, ip: &str, [ready, serving, terminating]: [bool; 3]| {
        json!({"addresses": [ip], "nodeName": "node", "zone": "z", "targetRef": reference(name),
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating}})
    };
    assert_eq!(
        slice["endpoints"],
        json!([
            endpoint("p", "10.1.0.1", [true, true, false]),
            endpoint("q", "10.1.0.2", [false, false, false]),
            endpoint("r", "10.1.0.3", [false, true, true]),
        ])
    );
    let published = mk_service(&json!({"publishNotReadyAddresses": true}));
    let slice = decided(&world(EndpointSlicesActor, published, &pods).decide(&key(), START)).body;
    let endpoints = slice["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 4, "the Node does not matter");
    assert!(
        endpoints
            .iter()
            .all(|endpoint| endpoint["conditions"]["ready"] == true)
    );
}

/// Carries out all decisions and returns the requests and the sizes of the slices.
fn settle(
    harness: &mut ActorHarness<EndpointSlicesActor>,
    slices: &mut Vec<Value>,
) -> Vec<&'static str> {
    let mut verbs = Vec::new();
    while !harness.is_resting(&key(), START) {
        let asked = decided(&harness.decide(&key(), START));
        assert!(verbs.len() < 20, "endless: {verbs:?}");
        verbs.push(asked.verb);
        let place = slices
            .iter()
            .position(|slice| slice["metadata"]["name"] == asked.name.as_str());
        match (asked.verb, place) {
            ("create", None) => slices.push(asked.body),
            ("patch", Some(place)) => {
                for (field, value) in asked.body.as_object().unwrap() {
                    if field == "metadata" {
                        slices[place]["metadata"]["labels"] = value["labels"].clone();
                    } else {
                        slices[place][field] = value.clone();
                    }
                }
            }
            ("delete", Some(place)) => {
                slices.remove(place);
                harness.deleted(SLICES, &NamespacedName::new("n", &asked.name));
            }
            other => panic!("{other:?}"),
        }
        slices
            .iter()
            .for_each(|slice| harness.applied(SLICES, slice.clone()));
    }
    verbs
}

#[test]
fn endpoints_fill_slices_of_a_hundred() {
    let pod = |number: usize| {
        mk_pod(
            &format!("p{number:03}"),
            &format!("10.1.{}.{}", number / 200, number % 200),
            true,
        )
    };
    let mut harness = world(EndpointSlicesActor, mk_service(&json!({})), &[]);
    let mut slices = Vec::new();
    assert_eq!(
        settle(&mut harness, &mut slices),
        ["create"],
        "an empty slice"
    );
    assert_eq!(
        (&slices[0]["endpoints"], &slices[0]["ports"]),
        (&json!([]), &json!([]))
    );
    (0..120).for_each(|number| harness.applied(PODS, pod(number)));
    assert_eq!(
        settle(&mut harness, &mut slices),
        ["create", "patch"],
        "the empty slice is used"
    );
    let sizes = |slices: &[Value]| {
        let mut sizes: Vec<usize> = slices
            .iter()
            .map(|slice| slice["endpoints"].as_array().unwrap().len())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&slices), [20, 100]);
    (120..130).for_each(|number| harness.applied(PODS, pod(number)));
    assert_eq!(
        settle(&mut harness, &mut slices),
        ["patch"],
        "there is room in one"
    );
    assert_eq!(sizes(&slices), [30, 100]);
    (0..130).for_each(|number| {
        let name = format!("p{number:03}");
        harness.deleted(PODS, &NamespacedName::new("n", &name));
    });
    let verbs = settle(&mut harness, &mut slices);
    assert_eq!(verbs, ["patch", "delete"]);
    assert_eq!(sizes(&slices), [0]);
}
