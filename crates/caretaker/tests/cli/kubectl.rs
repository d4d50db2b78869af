//! kubectl sessions: commands and their output. Skipped without kubectl.

use rustix::process::Signal;

use crate::process::TestDirectories;
use crate::session::{KubectlSession, has_kubectl};

fn configmap(name: &str, color: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{color: {color}}}\n"
    )
}

fn deployment(replicas: u32, image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, labels: {{app: web}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
      - {{name: main, image: \"{image}\", ports: [{{containerPort: 80}}]}}
      - {{name: side, image: side}}
"
    )
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

fn widget(name: &str, size: u32) -> String {
    format!(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{size: {size}}}\n"
    )
}

#[test]
fn discovery_lists_the_served_kinds() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    let resources = session.ok("api-resources");
    for row in [
        "configmaps",
        "deployments",
        "jobs",
        "customresourcedefinitions",
    ] {
        assert!(
            resources.lines().any(|line| line.starts_with(row)),
            "{row}: {resources}"
        );
    }
    let names = session.ok("api-resources --namespaced=false -o name");
    assert!(names.lines().any(|line| line == "nodes"), "{names}");
    assert!(
        session
            .ok("api-versions")
            .lines()
            .any(|line| line == "apps/v1")
    );
    assert!(session.ok("version").contains("Server Version: v1.36"));
    assert_eq!(session.ok("get --raw /readyz"), "ok\n");
    let namespaces = session.ok("get ns -o name");
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(
            namespaces.contains(&format!("namespace/{name}\n")),
            "{namespaces}"
        );
    }
}

/// client-go sends no bearer token over plain HTTP.
#[test]
fn kubeconfig_of_a_plain_http_server_works() {
    let Some(session) = KubectlSession::start_with(&["--insecure-http"]) else {
        return;
    };
    let created = session.with_file("create", &configmap("a", "red"));
    assert_eq!(created, "configmap/a created\n");
    session.says("get cm a -o name", "configmap/a");
}

#[test]
fn objects_are_created_and_replaced() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    assert_eq!(
        session.with_file("create", &configmap("a", "red")),
        "configmap/a created\n"
    );
    let path = session.file("again.yaml", &configmap("a", "blue"));
    let complaint = session.fails(&format!("create -f {}", path.display()));
    assert!(complaint.contains("AlreadyExists"), "{complaint}");
    assert_eq!(session.field("cm a", ".data.color"), "red");

    assert_eq!(
        session.with_file("replace", &configmap("a", "blue")),
        "configmap/a replaced\n"
    );
    assert_eq!(session.field("cm a", ".data.color"), "blue");
    let first = session.field("cm a", ".metadata.uid");
    session.with_file("replace --force", &configmap("a", "green"));
    assert_ne!(session.field("cm a", ".metadata.uid"), first);

    let dry = session.with_file("create --dry-run=server", &configmap("b", "red"));
    assert_eq!(dry, "configmap/b created (server dry run)\n");
    assert!(session.fails("get cm b").contains("NotFound"));
}

/// Commands that send protobuf, and their output. `create -f` and `apply -f` send JSON.
const IN_PROTOBUF: &[(&str, &str)] = &[
    ("create namespace shop", "namespace/shop created"),
    (
        "create configmap c --from-literal=color=red",
        "configmap/c created",
    ),
    (
        "create secret generic s --from-literal=k=v",
        "secret/s created",
    ),
    (
        "create deployment web --image=i --replicas=2",
        "deployment.apps/web created",
    ),
    ("create job one --image=i", "job.batch/one created"),
    (
        "create cronjob nightly --image=i --schedule=@daily",
        "cronjob.batch/nightly created",
    ),
    (
        "create job manual --from=cronjob/nightly",
        "job.batch/manual created",
    ),
    ("create serviceaccount sa", "serviceaccount/sa created"),
    (
        "create role r --verb=get --resource=pods",
        "role.rbac.authorization.k8s.io/r created",
    ),
    (
        "create rolebinding b --role=r --user=u",
        "rolebinding.rbac.authorization.k8s.io/b created",
    ),
    (
        "create service clusterip svc --tcp=80:web",
        "service/svc created",
    ),
    (
        "create poddisruptionbudget p --selector=a=b --min-available=50%",
        "poddisruptionbudget.policy/p created",
    ),
    (
        "create priorityclass pc --value=5",
        "priorityclass.scheduling.k8s.io/pc created",
    ),
    (
        "create quota q --hard=cpu=0.5,pods=2",
        "resourcequota/q created",
    ),
    (
        "create ingress i --rule=h/p=svc:80",
        "ingress.networking.k8s.io/i created",
    ),
    (
        "autoscale deployment web --max=3",
        "horizontalpodautoscaler.autoscaling/web autoscaled",
    ),
];

#[test]
fn commands_that_send_protobuf_create_objects() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    for (command, created) in IN_PROTOBUF {
        session.says(command, created);
    }
    assert_eq!(session.field("cm c", ".data.color"), "red");
    assert_eq!(session.field("secret s", ".data.k"), "dg==");
    assert_eq!(session.field("deployment web", ".spec.replicas"), "2");
    assert_eq!(session.field("pdb p", ".spec.minAvailable"), "50%");
    assert_eq!(session.field("quota q", ".spec.hard.cpu"), "500m");
    assert_eq!(session.field("svc svc", ".spec.ports[0].targetPort"), "web");
    assert_eq!(
        session.field("job manual", ".metadata.ownerReferences[0].name"),
        "nightly"
    );
    assert_eq!(session.ok("auth can-i create pods"), "yes\n");
    let complaint = session.fails("create namespace shop");
    assert!(complaint.contains("AlreadyExists"), "{complaint}");
}

#[test]
fn a_second_apply_changes_only_the_difference() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    assert_eq!(
        session.with_file("apply", &deployment(1, "one")),
        "deployment.apps/web created\n"
    );
    assert_eq!(
        session.with_file("apply", &deployment(1, "one")),
        "deployment.apps/web unchanged\n"
    );
    assert_eq!(session.field("deploy web", ".metadata.generation"), "1");

    let path = session.file("manifest.yaml", &deployment(2, "two"));
    let diff = session.run(&format!("diff -f {}", path.display()), &[]);
    assert_eq!(diff.code, 1, "{}", diff.stderr);
    for line in [
        "-  replicas: 1",
        "+  replicas: 2",
        "-      - image: one",
        "+      - image: two",
    ] {
        assert!(
            diff.stdout.lines().any(|found| found == line),
            "{line}: {}",
            diff.stdout
        );
    }
    assert_eq!(
        session.with_file("apply", &deployment(2, "two")),
        "deployment.apps/web configured\n"
    );
    assert_eq!(
        session.field("deploy web", ".spec.template.spec.containers[*].image"),
        "two side"
    );
    assert_eq!(session.field("deploy web", ".metadata.generation"), "2");
    session.with_file("diff", &deployment(2, "two"));

    // Fields of other clients stay; fields that apply no longer names are removed.
    session.ok("label deploy web team=blue");
    let without = deployment(2, "two").replace("      - {name: side, image: side}\n", "");
    session.with_file("apply", &without);
    assert_eq!(
        session.field("deploy web", ".spec.template.spec.containers[*].name"),
        "main"
    );
    assert_eq!(session.field("deploy web", ".metadata.labels.team"), "blue");
}

#[test]
fn an_editor_changes_an_object() {
    use std::os::unix::fs::PermissionsExt;
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("create", &configmap("a", "red"));
    let editor = session.file(
        "editor",
        "#!/bin/sh\nsed -i.bak 's/color: red/color: blue/' \"$1\"\n",
    );
    std::fs::set_permissions(editor, PermissionsExt::from_mode(0o755)).unwrap();
    session.says("edit cm a", "configmap/a edited");
    assert_eq!(session.field("cm a", ".data.color"), "blue");
    assert!(
        session
            .run("edit cm a", &[])
            .stderr
            .contains("no changes made")
    );
}

#[test]
fn each_patch_type_works() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("create", &deployment(1, "one"));
    let images = ".spec.template.spec.containers[*].image";
    let cases = [
        (
            "strategic",
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"new"}]}}}}"#,
            "one new",
        ),
        (
            "json",
            r#"[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"two"}]"#,
            "two new",
        ),
        (
            "merge",
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"only"}]}}}}"#,
            "only",
        ),
    ];
    for (kind, patch, expected) in cases {
        let said = session.ok_with(&format!("patch deploy web --type {kind} -p"), &[patch]);
        assert_eq!(said, "deployment.apps/web patched\n");
        assert_eq!(session.field("deploy web", images), expected, "{kind}");
    }
    let nothing = session.ok_with("patch deploy web --type merge -p", &["{}"]);
    assert_eq!(nothing, "deployment.apps/web patched (no change)\n");
    let status = r#"{"status":{"replicas":7}}"#;
    session.ok_with(
        "patch deploy web --subresource status --type merge -p",
        &[status],
    );
    assert_eq!(session.field("deploy web", ".status.replicas"), "7");
}

#[test]
fn labels_and_annotations_come_and_go_and_select() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    for name in ["a", "b"] {
        session.with_file("create", &configmap(name, "red"));
    }
    session.says("label cm a tier=front", "configmap/a labeled");
    session.says("get cm -l tier=front -o name", "configmap/a");
    assert!(
        session
            .fails("label cm a tier=back")
            .contains("already has a value")
    );
    session.says("label cm a tier=back --overwrite", "configmap/a labeled");
    assert!(
        session
            .ok("get cm -l tier!=back -o name")
            .contains("configmap/b")
    );
    session.says(
        "get cm --field-selector metadata.name=b -o name",
        "configmap/b",
    );
    session.says("label cm a tier-", "configmap/a unlabeled");
    session.says("annotate cm a note=here", "configmap/a annotated");
    assert_eq!(session.field("cm a", ".metadata.annotations.note"), "here");
    session.says("annotate cm a note-", "configmap/a annotated");
    assert_eq!(session.field("cm a", ".metadata.annotations"), "");
}

#[test]
fn every_form_of_get_shows_the_object() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("create", &deployment(1, "one"));
    session.with_file("create", &configmap("a", "red"));
    session.says(
        "get deploy,cm -o name --field-selector metadata.name!=kube-root-ca.crt",
        "deployment.apps/web\nconfigmap/a",
    );
    for form in ["", "-o wide", "--show-labels", "-A"] {
        let table = session.ok(&format!("get deploy {form}"));
        let rows: Vec<&str> = table.lines().collect();
        assert!(
            rows.len() == 2 && rows[0].contains("NAME") && rows[0].contains("AGE"),
            "{table}"
        );
        assert!(rows[1].contains("web"), "{table}");
    }
    let yaml = session.ok("get cm a -o yaml");
    for line in [
        "apiVersion: v1",
        "kind: ConfigMap",
        "  color: red",
        "  name: a",
    ] {
        assert!(yaml.lines().any(|found| found == line), "{line}: {yaml}");
    }
    assert_eq!(session.json("cm a")["data"]["color"], "red");
    assert_eq!(session.field("cm a", ".data.color"), "red");
    session.says(
        "get cm a --no-headers -o custom-columns=:.data.color",
        "red",
    );
    let sorted = session.ok("get ns --sort-by=.metadata.name -o name");
    assert!(sorted.starts_with("namespace/default\n"), "{sorted}");
    assert!(session.ok("get cm --chunk-size=1 -A").contains("a"));
    let described = session.ok("describe cm a");
    assert!(described.contains("color:\n----\nred"), "{described}");
    assert!(session.ok("describe deploy web").contains("Replicas:"));
    assert!(
        session
            .run("get secrets", &[])
            .stderr
            .contains("No resources found")
    );
}

#[test]
fn a_watch_shows_changes_as_they_happen() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("create", &configmap("a", "red"));
    let mut names = session.spawn("get cm -w -o name", &[]);
    let mut events = session.spawn("get cm -w --output-watch-events", &[]);
    // The watch shows existing objects first.
    names.line_with("configmap/a");
    events.line_with("ADDED");
    session.with_file("create", &configmap("b", "red"));
    session.with_file("apply", &configmap("b", "blue"));
    session.ok("delete cm b");
    for word in ["ADDED", "MODIFIED", "DELETED"] {
        let line = events.line_with(" b ");
        assert!(line.starts_with(word), "{word}: {line}");
    }
    for _ in 0..3 {
        names.line_with("configmap/b");
    }
    for process in [names, events] {
        process.signal(Signal::INT);
        process.end();
    }
}

#[test]
fn wait_returns_when_the_condition_holds() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("create", &configmap("a", "red"));
    let waiting = session.spawn(
        "wait cm/a --timeout=100s --for",
        &["jsonpath={.data.color}=blue"],
    );
    session.with_file("replace", &configmap("a", "blue"));
    let ended = waiting.end();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "configmap/a condition met\n"),
        "{}",
        ended.stderr
    );

    let waiting = session.spawn("wait cm/a --timeout=100s --for delete", &[]);
    session.ok("delete cm a");
    assert_eq!(waiting.end().code, 0);
    session.with_file("create", &configmap("a", "red"));
    session.ok("wait cm/a --for create");
}

#[test]
fn each_cascade_mode_deletes_as_documented() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("create", &deployment(1, "one"));
    session.says(
        "delete deploy web --cascade=background",
        "deployment.apps \"web\" deleted",
    );
    assert!(session.fails("get deploy web").contains("NotFound"));

    for (cascade, stays) in [
        ("background", false),
        ("foreground", false),
        ("orphan", true),
    ] {
        session.with_file("create", &deployment(1, "one"));
        let uid = session.json("deploy web")["metadata"]["uid"].clone();
        let owned = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"owned-{cascade}","ownerReferences":[{{
                "apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":{uid},"blockOwnerDeletion":true}}]}}}}"#
        );
        session.with_file("create", &owned);
        // kubectl waits until the garbage collector has deleted it.
        session.ok(&format!("delete deploy web --cascade={cascade}"));
        if stays {
            let orphan = session.json(&format!("cm owned-{cascade}"));
            assert_eq!(
                orphan["metadata"]["ownerReferences"],
                serde_json::Value::Null
            );
        } else {
            session.ok(&format!(
                "wait cm/owned-{cascade} --timeout=100s --for delete"
            ));
        }
    }
}

#[test]
fn deleting_all_or_by_label_leaves_the_rest() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    for name in ["a", "b", "c"] {
        session.with_file("create", &configmap(name, "red"));
    }
    session.with_file("create", &deployment(1, "one"));
    session.ok("label cm a b go=yes");
    session.ok("delete cm -l go=yes");
    let left = session.ok("get cm -o name");
    assert!(
        left.contains("configmap/c") && !left.contains("configmap/a"),
        "{left}"
    );
    session.ok("delete cm --all");
    session.says("get cm c -o name --ignore-not-found", "");
    session.says("get deploy -o name", "deployment.apps/web");
    session.says("delete cm missing --ignore-not-found", "");
}

#[test]
fn a_custom_kind_is_served_as_soon_as_it_is_defined() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("apply", CRD);
    session.ok("wait crd/widgets.example.com --for condition=Established --timeout=100s");
    assert_eq!(
        session.with_file("apply", &widget("w", 3)),
        "widget.example.com/w created\n"
    );
    assert_eq!(
        session.with_file("apply", &widget("w", 4)),
        "widget.example.com/w configured\n"
    );
    let table = session.ok("get wd");
    let cells: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        cells[0].starts_with(&["NAME", "SIZE"]) && cells[1].starts_with(&["w", "4"]),
        "{table}"
    );
    assert_eq!(session.field("widgets.example.com w", ".spec.size"), "4");
    let status = r#"{"status":{"phase":"Ready"}}"#;
    session.ok_with("patch wd w --subresource status --type merge -p", &[status]);
    session.ok_with(
        "wait wd/w --timeout=100s --for",
        &["jsonpath={.status.phase}=Ready"],
    );
    assert!(
        session
            .ok("api-resources --api-group=example.com")
            .contains("widgets")
    );

    session.with_file("create", &widget("x", 1));
    session.says("delete wd x", "widget.example.com \"x\" deleted");
    session.ok("delete crd widgets.example.com");
    assert!(
        session
            .fails("get widgets.example.com")
            .contains("the server doesn't have a resource type")
    );
    session.with_file("apply", CRD);
    session.says("get widgets.example.com -o name", "");
}

#[test]
fn a_deleted_namespace_empties_itself_and_goes() {
    let Some(session) = KubectlSession::start() else {
        return;
    };
    session.with_file("apply", CRD);
    session.with_file(
        "create",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
    );
    session.with_file("create -n shop", &configmap("a", "red"));
    session.with_file("create -n shop", &deployment(1, "one"));
    session.with_file("create -n shop", &widget("w", 1));
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n";
    session.with_file("create -n shop", pod);
    session.with_file("create", &configmap("b", "red"));
    session.says("delete ns shop", "namespace \"shop\" deleted");
    assert!(session.fails("get ns shop").contains("NotFound"));
    for kind in ["cm", "deploy", "wd", "pods"] {
        session.says(&format!("get {kind} -n shop -o name"), "");
    }
    assert_eq!(session.field("cm b", ".data.color"), "red");

    // The name can be used again, without the old objects.
    session.with_file(
        "create",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
    );
    session.says("get pods -n shop -o name", "");
}

#[test]
fn kubectl_runs_as_the_command_of_up() {
    if !has_kubectl() {
        return;
    }
    let world = TestDirectories::new();
    let arguments = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--",
        "kubectl",
        "get",
        "ns",
        "-o",
        "name",
    ];
    let ended = world.caretaker(&arguments).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert!(
        ended.stdout.contains("namespace/default\n"),
        "{}",
        ended.stdout
    );
    assert_eq!(world.entries("home"), Vec::<String>::new());
}
