//! `caretaker graph` and `caretaker explain` against a server in which nobody collects anything. What controllers other than
//! the collector decide is in `opinions`.

use serde_json::{Value, json};

use crate::http::Client;
use crate::process::{Ended, Process, Up};

/// A server, and objects in it.
pub(crate) struct Scene {
    pub(crate) up: Up,
    pub(crate) client: Client,
}

// === impl Scene ===

impl Scene {
    fn start() -> Self {
        Self::with("none")
    }

    /// Where these controllers are at work.
    pub(crate) fn with(controllers: &str) -> Self {
        let up = Up::start(&[&format!("--controllers={controllers}")]);
        let client = Client::of(&up.kubeconfig());
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

    fn run(&self, line: &str) -> Ended {
        self.run_in(None, line)
    }

    /// Runs a command where the machine has this zone.
    pub(crate) fn run_in(&self, zone: Option<&str>, line: &str) -> Ended {
        let mut command = self.up.world.command(env!("CARGO_BIN_EXE_caretaker"));
        command
            .args(line.split_whitespace())
            .arg("--kubeconfig")
            .arg(self.up.kubeconfig())
            .envs(zone.map(|zone| ("TZ", zone)));
        Process::start(&mut command).end()
    }

    /// What a command prints that has to succeed and has nothing to complain about.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{line}");
        ended.stdout
    }

    /// What a command complains about that has to fail.
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

/// A reference to something that nobody has.
fn gone(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name,
        "uid": "11111111-1111-4111-8111-111111111111"})
}

#[test]
fn a_graph_is_drawn_whole_from_an_object_on_or_in_one_direction() {
    let scene = Scene::start();
    let deployment = scene.workload("Deployment", "deployments", "web", &[]);
    let set = scene.workload("ReplicaSet", "replicasets", "web-1", &[&deployment]);
    let map = scene.map("default", "settings", &[&set], &[]);
    scene.map("default", "more", &[&map], &[]);
    scene.map("default", "single", &[], &[]);
    let whole = "\
Deployment web
└─ ReplicaSet web-1
   └─ ConfigMap settings
      └─ ConfigMap more
";
    assert_eq!(scene.ok("graph"), whole);
    for object in [
        "deploy/web",
        "rs/web-1",
        "replicasets.apps/web-1",
        "ConfigMap/more",
    ] {
        assert_eq!(scene.ok(&format!("graph {object}")), whole, "{object}");
    }
    assert_eq!(
        scene.ok("graph rs/web-1 --up"),
        "Deployment web\n└─ ReplicaSet web-1\n"
    );
    assert_eq!(
        scene.ok("graph cm/settings --down"),
        "ConfigMap settings\n└─ ConfigMap more\n"
    );
    assert_eq!(scene.ok("graph cm/single"), "ConfigMap single\n");
    let all = scene.ok("graph -A");
    assert!(all.starts_with("Deployment default/web\n"), "{all}");
}

#[test]
fn a_graph_for_programs_is_json_or_dot() {
    let scene = Scene::start();
    let owner = scene.map("default", "owner", &[], &[]);
    scene.map("default", "dependent", &[&owner], &[]);
    scene.map("default", "lost", &[&gone("away")], &[]);
    let graph: Value = serde_json::from_str(&scene.ok("graph cm/dependent -o json")).unwrap();
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
    let dot = scene.ok("graph -o dot");
    assert!(dot.starts_with("strict digraph full {\n"), "{dot}");
    assert!(dot.contains("virtual=\"true\""), "{dot}");
    // An owner that is gone can be asked about as long as somebody names it.
    assert_eq!(
        scene.ok("graph cm/away"),
        "ConfigMap away (virtual: not found by any feed)\n└─ ConfigMap lost\n"
    );
}

#[test]
fn an_explanation_says_what_the_rules_say_and_does_nothing() {
    let scene = Scene::start();
    let owner = scene.map("default", "owner", &[], &[]);
    scene.map("default", "kept", &[&gone("away"), &owner], &[]);
    let lost = scene.map("default", "lost", &[&gone("away")], &[]);
    scene.map("default", "below", &[&lost], &[]);
    let (_, before) = scene.client.get("/api/v1/configmaps");
    let uid = lost["uid"].as_str().unwrap();
    assert_eq!(
        scene.ok("explain cm/lost"),
        format!(
            "\
ConfigMap default/lost, uid {uid}
Owners:
  ConfigMap default/away: is gone: the server does not have it
Verdict: its owner ConfigMap default/away is gone: the server does not have it.
Next: would be deleted now (background: what hangs on it goes after it).
What hangs on it: 1 ConfigMap.
"
        )
    );
    let told: Value = serde_json::from_str(&scene.ok("explain cm/kept -o json")).unwrap();
    assert_eq!(told["verdict"]["rule"], "LosesOwners");
    assert_eq!(told["next"]["action"], "patch");
    assert_eq!(told["owners"][0]["standing"], "Absent");
    assert_eq!(told["owners"][1]["standing"], "Solid");
    let (_, after) = scene.client.get("/api/v1/configmaps");
    assert_eq!(before["items"], after["items"]);
}

#[test]
fn what_holds_up_an_end_is_named() {
    let scene = Scene::start();
    let owner = scene.map("default", "owner", &[], &[]);
    scene.map("default", "held", &[&owner], &["example.com/hold"]);
    let path = "/api/v1/namespaces/default/configmaps";
    scene.client.delete(&format!("{path}/held"));
    scene
        .client
        .delete(&format!("{path}/owner?propagationPolicy=Foreground"));
    let told = scene.ok("explain configmap/owner");
    for expected in [
        "Verdict: one dependent blocks its end.\n",
        "\n  finalizer foregroundDeletion: goes when no dependent blocks it any more\n",
        "\n  ConfigMap default/held blocks it\n",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    let told = scene.ok("explain configmap/held");
    let expected = "\n  finalizer example.com/hold: whoever set it has to take it off\n";
    assert!(told.contains(expected), "{told}");
    assert_eq!(
        scene.ok("graph"),
        "ConfigMap owner (deleting in foreground)\n└─ ConfigMap held (deleting) (blocks)\n"
    );
}

#[test]
fn an_object_is_looked_for_in_the_namespace_that_is_meant() {
    let scene = Scene::start();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    scene.client.create("/api/v1/namespaces", &namespace);
    let owner = scene.map("shop", "owner", &[], &[]);
    scene.map("shop", "dependent", &[&owner], &[]);
    let drawn = "ConfigMap owner\n└─ ConfigMap dependent\n";
    assert_eq!(scene.ok("graph -n shop"), drawn);
    assert_eq!(scene.ok("graph cm/owner --namespace=shop"), drawn);
    // Objects of the cluster are in none, whatever is said.
    let told = scene.ok("explain ns/shop -n default");
    assert!(told.contains("Verdict: it has no owner.\n"), "{told}");
    let ended = scene.run("graph");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, ""));
    assert_eq!(
        ended.stderr,
        "caretaker: nothing in namespace default owns anything or is owned\n"
    );
    for (line, expected) in [
        (
            "explain cm/owner",
            "caretaker: there is no configmaps \"owner\" in namespace default\n",
        ),
        (
            "graph deploy/owner -n shop",
            "caretaker: there is no deployments.apps \"owner\" in namespace shop\n",
        ),
        (
            "explain ns/none",
            "caretaker: there is no namespaces \"none\"\n",
        ),
        (
            "explain widget/a",
            "caretaker: the server has no type \"widget\"\n",
        ),
    ] {
        assert_eq!(scene.fails(line), expected);
    }
}

#[test]
fn what_garbage_collection_does_not_look_after_is_said() {
    let scene = Scene::start();
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    scene
        .client
        .create("/api/v1/namespaces/default/events", &event);
    let told = scene.ok("explain ev/e");
    let expected = "Next: nothing: garbage collection does not look after events.\n";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_server_that_is_not_there_is_an_error_at_once() {
    let scene = Scene::start();
    let kubeconfig = scene.up.kubeconfig();
    let copy = scene.up.world.path("copy");
    std::fs::copy(&kubeconfig, &copy).unwrap();
    let server = scene.up.server().to_owned();
    let (_, world) = scene.up.stop();
    let ended = world
        .caretaker(&["graph", "--kubeconfig", copy.to_str().unwrap()])
        .end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    let expected = format!("caretaker: the server {server}/ does not answer: ");
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
}
