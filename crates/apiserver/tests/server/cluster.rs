//! What a server for users has from the start and keeps, and what Services hold.

use std::collections::BTreeSet;

use caretaker_apiserver::{AccountOptions, ServerOptions};
use serde_json::{Value, json};

use crate::client::World;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const NODE_PORTS: [&str; 2] = ["/spec/ports/0/nodePort", "/spec/ports/1/nodePort"];

fn mk_options() -> ServerOptions {
    ServerOptions {
        bootstrap: Some("192.0.2.7:6443".parse().unwrap()),
        accounts: Some(AccountOptions {
            root_ca: Some("PEM".into()),
        }),
        ..ServerOptions::default()
    }
}

fn mk_service(name: &str, spec: &Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    service
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_its_objects_from_the_start() {
    let world = World::cluster(mk_options());
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let counts = [
        (format!("{rbac}/clusterroles"), 69),
        (format!("{rbac}/clusterrolebindings"), 50),
        (format!("{rbac}/roles"), 7),
        (format!("{rbac}/rolebindings"), 7),
        ("/apis/scheduling.k8s.io/v1/priorityclasses".into(), 2),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".into(),
            11,
        ),
        ("/apis/apiregistration.k8s.io/v1/apiservices".into(), 21),
        ("/apis/networking.k8s.io/v1/ipaddresses".into(), 1),
        ("/api/v1/endpoints".into(), 1),
        ("/apis/discovery.k8s.io/v1/endpointslices".into(), 1),
        ("/api/v1/serviceaccounts".into(), 4),
        ("/api/v1/configmaps".into(), 4),
    ];
    for (path, count) in counts {
        let list = world.must("GET", &path, Value::Null).await;
        assert_eq!(list["items"].as_array().unwrap().len(), count, "{path}");
    }
    let kubernetes = format!("{SERVICES}/kubernetes");
    let service = world.must("GET", &kubernetes, Value::Null).await;
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    let taken = mk_service("a", &json!({"clusterIP": "10.0.0.1"}));
    let (code, answer) = world.call("POST", SERVICES, taken).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn only_servers_that_are_asked_have_them() {
    let world = World::new(3);
    for path in [
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/api/v1/services",
        "/api/v1/serviceaccounts",
    ] {
        let list = world.must("GET", path, Value::Null).await;
        assert_eq!(list["items"], json!([]), "{path}");
    }
    let pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = world
        .must("POST", "/api/v1/namespaces/default/pods", pod)
        .await;
    assert!(pod["spec"]["serviceAccountName"].is_null() && pod["spec"]["volumes"].is_null());
}

#[tokio::test(start_paused = true)]
async fn accounts_are_there_at_once_and_restored() {
    let world = World::cluster(mk_options());
    let namespace = json!({"metadata": {"name": "shop"}});
    world.must("POST", "/api/v1/namespaces", namespace).await;
    let account = "/api/v1/namespaces/shop/serviceaccounts/default";
    let config = "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt";
    let first = world.must("GET", account, Value::Null).await;
    let map = world.must("GET", config, Value::Null).await;
    assert_eq!(map["data"], json!({"ca.crt": "PEM"}));

    world.must("DELETE", account, Value::Null).await;
    let changed = json!({"data": {"ca.crt": "other", "more": "x"}});
    world.must("PATCH", config, changed).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let second = world.must("GET", account, Value::Null).await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    let map = world.must("GET", config, Value::Null).await;
    assert_eq!(map["data"], json!({"ca.crt": "PEM"}));

    let namespace = "/api/v1/namespaces/shop";
    world.must("DELETE", namespace, Value::Null).await;
    world.until_gone(namespace).await;
    assert_eq!(world.call("GET", account, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn pods_get_the_token_of_their_account() {
    let world = World::cluster(mk_options());
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let made = world.must("POST", pods, pod("a", json!({}))).await;
    let spec = &made["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    let mount = &spec["containers"][0]["volumeMounts"][0];
    assert_eq!(
        mount["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    assert_eq!(mount["name"], spec["volumes"][0]["name"]);
    assert_eq!(
        spec["volumes"][0]["projected"]["sources"]
            .as_array()
            .unwrap()
            .len(),
        3
    );

    let without = json!({"automountServiceAccountToken": false});
    let made = world.must("POST", pods, pod("b", without)).await;
    assert!(made["spec"]["volumes"].is_null());

    let unknown = json!({"serviceAccountName": "nope"});
    let (code, answer) = world.call("POST", pods, pod("c", unknown)).await;
    let message = "pods \"c\" is forbidden: error looking up service account default/nope: serviceaccount \"nope\" not found";
    assert_eq!((code, answer["message"].as_str()), (403, Some(message)));

    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let puller = json!({"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "s"}]});
    world.must("POST", accounts, puller).await;
    let made = json!({"serviceAccountName": "puller"});
    let made = world.must("POST", pods, pod("c", made)).await;
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
}

#[tokio::test(start_paused = true)]
async fn services_that_are_created_at_once_never_share_anything() {
    let world = World::new(3);
    let ports = json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]);
    let create = |index: usize| {
        let spec = json!({"type": "NodePort", "ports": ports});
        world.must("POST", SERVICES, mk_service(&format!("s{index}"), &spec))
    };
    let made = futures::future::join_all((0..100).map(create)).await;
    let mut seen = BTreeSet::new();
    for service in &made {
        assert!(seen.insert(service["spec"]["clusterIP"].clone().to_string()));
        for path in NODE_PORTS {
            assert!(seen.insert(service.pointer(path).unwrap().to_string()));
        }
    }
    let wanted = (0..20).map(|index| {
        let spec = json!({"clusterIP": "10.0.0.9"});
        world.call("POST", SERVICES, mk_service(&format!("t{index}"), &spec))
    });
    let codes: Vec<u16> = futures::future::join_all(wanted)
        .await
        .into_iter()
        .map(|(code, _)| code)
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 1);
    assert_eq!(codes.iter().filter(|code| **code == 422).count(), 19);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_refused_or_removed_holds_nothing() {
    let world = World::new(3);
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    let held = async || {
        let list = world.must("GET", addresses, Value::Null).await;
        list["items"].as_array().unwrap().len()
    };
    let refused = mk_service(
        "a",
        &json!({"clusterIP": "10.0.0.9", "sessionAffinity": "X"}),
    );
    assert_eq!(world.call("POST", SERVICES, refused).await.0, 422);
    assert_eq!(held().await, 0);
    let spec = json!({"clusterIP": "10.0.0.9", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30_000}]});
    for name in ["a", "b"] {
        world.must("POST", SERVICES, mk_service(name, &spec)).await;
        assert_eq!(held().await, 1);
        let path = format!("{SERVICES}/{name}");
        world.must("DELETE", &path, Value::Null).await;
        assert_eq!(held().await, 0);
    }
}
