//! `caretaker graph` and `caretaker explain` against a server without controllers. Verdicts of controllers other than the
//! garbage collector are in `verdicts`.

use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::process::{ProcessExit, TestProcess, UpProcess};

/// A server and a client for its objects.
pub(crate) struct TestCluster {
    pub(crate) up: UpProcess,
    pub(crate) client: HttpClient,
}

// === impl TestCluster ===

impl TestCluster {
    fn start() -> Self {
        Self::with("none")
    }

    /// Starts the server with these controllers.
    pub(crate) fn with(controllers: &str) -> Self {
        let up = UpProcess::start(&[&format!("--controllers={controllers}")]);
        let client = HttpClient::of(&up.kubeconfig());
        Self { up, client }
    }

    /// A ConfigMap with these owners; returns a reference to it.
    fn map(&self, namespace: &str, name: &str, owners: &[&Value], finalizers: &[&str]) -> Value {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}});
        reference(&self.client.create(&path, &object))
    }

    fn workload(&self, kind: &str, resource: &str, name: &str, owners: &[&Value]) -> Value {
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let path = format!("/apis/apps/v1/namespaces/default/{resource}");
        let object = json!({"apiVersion": "apps/v1", "kind": kind,
            "metadata": {"name": name, "ownerReferences": owners},
            "spec": {"selector": {"matchLabels": labels}, "template": template}});
        reference(&self.client.create(&path, &object))
    }

    fn run(&self, line: &str) -> ProcessExit {
        self.run_in(None, line)
    }

    /// Runs a command with this local time zone.
    pub(crate) fn run_in(&self, zone: Option<&str>, line: &str) -> ProcessExit {
        let mut command = self.up.world.command(env!("CARGO_BIN_EXE_caretaker"));
        command
            .args(line.split_whitespace())
            .arg("--kubeconfig")
            .arg(self.up.kubeconfig())
            .envs(zone.map(|zone| ("TZ", zone)));
        TestProcess::start(&mut command).end()
    }

    /// The stdout of a command that must succeed without output on stderr.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{line}");
        ended.stdout
    }

    /// The stderr of a command that must fail.
    #[track_caller]
    fn fails(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        ended.stderr
    }
}

pub(crate) fn reference(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": true})
}

/// A reference to an object that does not exist.
fn gone(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name,
        "uid": "11111111-1111-4111-8111-111111111111"})
}

#[test]
fn graph_shows_all_or_one_direction_of_an_object() {
    let cluster = TestCluster::start();
    let deployment = cluster.workload("Deployment", "deployments", "web", &[]);
    let set = cluster.workload("ReplicaSet", "replicasets", "web-1", &[&deployment]);
    let map = cluster.map("default", "settings", &[&set], &[]);
    cluster.map("default", "more", &[&map], &[]);
    cluster.map("default", "single", &[], &[]);
    let whole = "\
Deployment web
└─ ReplicaSet web-1
   └─ ConfigMap settings
      └─ ConfigMap more
";
    assert_eq!(cluster.ok("graph"), whole);
    for object in [
        "deploy/web",
        "rs/web-1",
        "replicasets.apps/web-1",
        "ConfigMap/more",
    ] {
        assert_eq!(cluster.ok(&format!("graph {object}")), whole, "{object}");
    }
    assert_eq!(
        cluster.ok("graph rs/web-1 --up"),
        "Deployment web\n└─ ReplicaSet web-1\n"
    );
    assert_eq!(
        cluster.ok("graph cm/settings --down"),
        "ConfigMap settings\n└─ ConfigMap more\n"
    );
    assert_eq!(cluster.ok("graph cm/single"), "ConfigMap single\n");
    let all = cluster.ok("graph -A");
    assert!(all.starts_with("Deployment default/web\n"), "{all}");
}

#[test]
fn graph_prints_json_and_dot() {
    let cluster = TestCluster::start();
    let owner = cluster.map("default", "owner", &[], &[]);
    cluster.map("default", "dependent", &[&owner], &[]);
    cluster.map("default", "lost", &[&gone("away")], &[]);
    let graph: Value = serde_json::from_str(&cluster.ok("graph cm/dependent -o json")).unwrap();
    let uid = |name: &str| {
        let mut nodes = graph["nodes"].as_array().unwrap().iter();
        let node = nodes.find(|node| node["name"] == name).unwrap();
        node["uid"].clone()
    };
    assert_eq!(graph["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(
        graph["edges"],
        json!([{"dependent": uid("dependent"), "owner": uid("owner"), "controller": false, "blocks": true}])
    );
    let dot = cluster.ok("graph -o dot");
    assert!(dot.starts_with("strict digraph full {\n"), "{dot}");
    assert!(dot.contains("virtual=\"true\""), "{dot}");
    // An owner that is gone can be shown while references to it exist.
    assert_eq!(
        cluster.ok("graph cm/away"),
        "ConfigMap away (virtual: not found by any feed)\n└─ ConfigMap lost\n"
    );
}

#[test]
fn explain_shows_the_decision_and_writes_nothing() {
    let cluster = TestCluster::start();
    let owner = cluster.map("default", "owner", &[], &[]);
    cluster.map("default", "kept", &[&gone("away"), &owner], &[]);
    let lost = cluster.map("default", "lost", &[&gone("away")], &[]);
    cluster.map("default", "below", &[&lost], &[]);
    let (_, before) = cluster.client.get("/api/v1/configmaps");
    let uid = lost["uid"].as_str().unwrap();
    assert_eq!(
        cluster.ok("explain cm/lost"),
        format!(
            "\
ConfigMap default/lost, uid {uid}
Owners:
  ConfigMap default/away: is gone: the server does not have it
Verdict: its owner ConfigMap default/away is gone: the server does not have it.
Next: would delete it now (background: its dependents are deleted afterwards).
Dependents: 1 ConfigMap.
"
        )
    );
    let text: Value = serde_json::from_str(&cluster.ok("explain cm/kept -o json")).unwrap();
    assert_eq!(text["verdict"]["rule"], "LosesOwners");
    assert_eq!(text["next"]["action"], "patch");
    assert_eq!(text["owners"][0]["standing"], "Absent");
    assert_eq!(text["owners"][1]["standing"], "Solid");
    let (_, after) = cluster.client.get("/api/v1/configmaps");
    assert_eq!(before["items"], after["items"]);
}

#[test]
fn explain_names_what_blocks_a_deletion() {
    let cluster = TestCluster::start();
    let owner = cluster.map("default", "owner", &[], &[]);
    cluster.map("default", "held", &[&owner], &["example.com/hold"]);
    let path = "/api/v1/namespaces/default/configmaps";
    cluster.client.delete(&format!("{path}/held"));
    cluster
        .client
        .delete(&format!("{path}/owner?propagationPolicy=Foreground"));
    let text = cluster.ok("explain configmap/owner");
    for expected in [
        "Verdict: one dependent blocks its deletion.\n",
        "\n  finalizer foregroundDeletion: the garbage collector removes it when no dependent blocks the deletion\n",
        "\n  dependent ConfigMap default/held\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let text = cluster.ok("explain configmap/held");
    let expected = "\n  finalizer example.com/hold: its controller has to remove it\n";
    assert!(text.contains(expected), "{text}");
    assert_eq!(
        cluster.ok("graph"),
        "ConfigMap owner (deleting in foreground)\n└─ ConfigMap held (deleting) (blocks)\n"
    );
}

#[test]
fn explain_names_the_pods_of_a_node() {
    let cluster = TestCluster::start();
    for name in ["busy", "idle"] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        cluster.client.create("/api/v1/nodes", &node);
    }
    let pods = [("bound", json!("busy")), ("waiting", Value::Null)];
    for (name, node) in pods {
        let container = json!({"name": "c", "image": "i"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [container]}});
        let path = "/api/v1/namespaces/default/pods";
        cluster.client.create(path, &pod);
    }
    let text = cluster.ok("explain node/busy");
    let expected =
        "\nPods bound to it, which Pod GC would delete after the Node:\n  Pod default/bound\n";
    assert!(text.ends_with(expected), "{text}");
    let text = cluster.ok("explain node/idle");
    assert!(text.ends_with("\nPods bound to it: none.\n"), "{text}");
    let text: Value = serde_json::from_str(&cluster.ok("explain node busy -o json")).unwrap();
    assert_eq!(text["pods"][0]["name"], "bound");
    assert_eq!(text["pods"].as_array().unwrap().len(), 1);
}

#[test]
fn explain_lists_what_keeps_a_namespace() {
    let cluster = TestCluster::start();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    cluster.client.create("/api/v1/namespaces", &namespace);
    cluster.map("shop", "held", &[], &["example.com/hold"]);
    cluster.map("shop", "free", &[], &[]);
    cluster.map("default", "other", &[], &["example.com/hold"]);
    cluster.client.delete("/api/v1/namespaces/shop");
    // The server reports what remains after it has deleted the rest.
    let path = "/api/v1/namespaces/shop";
    while cluster.client.get(path).1["status"]["conditions"].is_null() {
        std::thread::yield_now();
    }
    let text = cluster.ok("explain namespace/shop");
    for expected in [
        "; blocked by:\n  ConfigMap shop/held: finalizer example.com/hold: its controller has to remove it\n",
        "\nThe server reports: Some resources are remaining: configmaps. has 1 resource instances (SomeResourcesRemain)\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(!text.contains("default/other"), "{text}");
    let text: Value = serde_json::from_str(&cluster.ok("explain ns/shop -o json")).unwrap();
    let objects = &text["remaining"]["objects"];
    assert_eq!(objects[0]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(objects.as_array().unwrap().len(), 1);
}

#[test]
fn objects_are_read_from_the_selected_namespace() {
    let cluster = TestCluster::start();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    cluster.client.create("/api/v1/namespaces", &namespace);
    let owner = cluster.map("shop", "owner", &[], &[]);
    cluster.map("shop", "dependent", &[&owner], &[]);
    let drawn = "ConfigMap owner\n└─ ConfigMap dependent\n";
    assert_eq!(cluster.ok("graph -n shop"), drawn);
    assert_eq!(cluster.ok("graph cm/owner --namespace=shop"), drawn);
    assert_eq!(cluster.ok("graph configmap owner -n shop"), drawn);
    let spoken = |line: &str| cluster.ok(line);
    assert_eq!(
        spoken("explain cm owner -n shop"),
        spoken("explain cm/owner -n shop")
    );
    // Cluster-scoped objects ignore the namespace flag.
    let text = cluster.ok("explain ns/shop -n default");
    assert!(text.contains("Verdict: it has no owner.\n"), "{text}");
    let ended = cluster.run("graph");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
    assert_eq!(
        ended.stderr,
        "caretaker: no objects with owners or dependents in namespace default\n"
    );
    for (line, expected) in [
        (
            "explain cm/owner",
            "caretaker: configmaps \"owner\" not found in namespace default\n",
        ),
        (
            "graph deploy/owner -n shop",
            "caretaker: deployments.apps \"owner\" not found in namespace shop\n",
        ),
        (
            "explain ns/none",
            "caretaker: namespaces \"none\" not found\n",
        ),
        ("graph -n none", "caretaker: there is no namespace none\n"),
        (
            "explain widget/a",
            "caretaker: the server has no resource type \"widget\"\n",
        ),
    ] {
        assert_eq!(cluster.fails(line), expected);
    }
}

#[test]
fn explain_names_kinds_that_the_collector_ignores() {
    let cluster = TestCluster::start();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    cluster
        .client
        .create("/api/v1/namespaces/default/events", &event);
    let text = cluster.ok("explain ev/e");
    let expected = "Next: nothing: the garbage collector ignores events.\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_unreachable_server_fails_at_once() {
    let cluster = TestCluster::start();
    let kubeconfig = cluster.up.kubeconfig();
    let copy = cluster.up.world.path("copy");
    std::fs::copy(&kubeconfig, &copy).unwrap();
    let server = cluster.up.server().to_owned();
    let (_, world) = cluster.up.stop();
    let ended = world
        .caretaker(&["graph", "--kubeconfig", copy.to_str().unwrap()])
        .end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    let expected = format!("caretaker: the server {server}/ does not answer: ");
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
}
