//! The connections of `caretaker run` to its server.

use serde_json::json;

use crate::http::HttpClient;
use crate::peers::{RunProcess, create_garbage, wait_deleted};
use crate::process::UpProcess;
use crate::proxy::TestProxy;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Custom kinds, beside the kinds of the server itself.
const KINDS: usize = 100;

/// For watches five with up to 1,000 streams each, four for requests, and one to look at Leases.
const CONNECTIONS_MAX: usize = 10;

fn create_kind(client: &HttpClient, number: usize) {
    let plural = format!("kind{number}s");
    let names = json!({"plural": plural, "singular": format!("kind{number}"), "kind": format!("Kind{number}")});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
    client.create(DEFINITIONS, &definition);
}

#[test]
fn a_hundred_custom_kinds_take_no_connection_each() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    for number in 0..KINDS {
        create_kind(&client, number);
    }
    create_garbage(&client, "a");
    let proxy = TestProxy::of(&up);
    proxy.open();
    let run = RunProcess::start(&up, &proxy.kubeconfig(&up), &[]);
    let page = run.wait_ready(200, "server ok");
    let kinds = page.lines().filter(|line| line.contains("synced")).count();
    assert!(kinds > KINDS, "{page}");
    wait_deleted(&client, "a");
    let connections = proxy.forwarded();
    assert!(
        connections <= CONNECTIONS_MAX,
        "{connections} connections for {kinds} kinds"
    );
}
