//! `caretaker up -f` and `--crds`: objects exist when the server is ready, or it does not start.

use std::fs;

use serde_json::json;

use crate::http::HttpClient;
use crate::process::{TestDirectories, UpProcess};

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
";

const WIDGET: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: small, namespace: shop}
spec: {size: 1}
";

const SHOP: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";

#[test]
fn objects_of_files_exist_when_the_server_is_ready() {
    let world = TestDirectories::new();
    let file = |name: &str, text: &str| {
        let path = world.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // The custom object comes before its namespace and its definition.
    let objects = file("objects.yaml", &format!("{WIDGET}---\n{SHOP}"));
    fs::create_dir(world.path("crds")).unwrap();
    file("crds/widgets.yaml", WIDGETS);
    let crds = world.path("crds");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}},
        // It exists: the manifest is merged.
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "shop"}}},
    ]});
    let list = file("list.json", &list.to_string());
    let up = UpProcess::start(&[
        "-f",
        &objects,
        "-f",
        &list,
        "--crds",
        crds.to_str().unwrap(),
    ]);
    let client = HttpClient::of(&up.kubeconfig());
    let widget = client.get("/apis/example.com/v1/namespaces/shop/widgets/small");
    assert_eq!((widget.0, &widget.1["spec"]["size"]), (200, &json!(1)));
    let settings = client.get("/api/v1/namespaces/default/configmaps/settings");
    assert_eq!((settings.0, &settings.1["data"]["a"]), (200, &json!("1")));
    let default = client.get("/api/v1/namespaces/default").1;
    assert_eq!(default["metadata"]["labels"]["team"], "shop");
    let (ended, _world) = up.stop();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[test]
fn stdin_is_read_and_the_command_sees_the_objects() {
    let world = TestDirectories::new();
    let arguments = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "-f",
        "-",
        "-o",
        "json",
        "--",
        "sh",
        "-c",
        "cat \"$KUBECONFIG\"",
    ];
    let mut process = world.caretaker(&arguments);
    process.write_input(&format!("{WIDGETS}---\n{SHOP}---\n{WIDGET}"));
    process.close_input();
    let line: serde_json::Value = serde_json::from_str(&process.line()).unwrap();
    let ended = process.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let server = line["server"].as_str().unwrap();
    assert!(
        ended.stdout.contains(&format!("server: \"{server}\"")),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_bad_manifest_prevents_the_start_and_is_named() {
    let unknown_field = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata_: {}\n";
    let bad_name = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_B}\n";
    let cases = [
        (format!("{SHOP}---\na: [\n"), "document 2: "),
        (
            WIDGET.to_owned(),
            "document 1: Widget shop/small: no matches for kind \"Widget\" in version \"example.com/v1\": give its CustomResourceDefinition with --crds or -f",
        ),
        (
            format!("{WIDGETS}---\n{WIDGET}"),
            "document 2: Widget shop/small: the server answered 404 NotFound: namespaces \"shop\" not found",
        ),
        (
            format!("{SHOP}---\n{bad_name}"),
            "document 2: ConfigMap A_B: the server answered 422 Invalid: ConfigMap \"A_B\" is invalid: metadata.name",
        ),
        (
            unknown_field.to_owned(),
            "document 1: ConfigMap a: the server answered 400 BadRequest: ",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\n".to_owned(),
            "document 1: ConfigMap without a name: the server answered 422 Invalid: ",
        ),
    ];
    for (text, expected) in cases {
        let world = TestDirectories::new();
        let path = world.path("a.yaml");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let ended = world
            .caretaker(&[
                "up",
                "--listen",
                "127.0.0.1:0",
                "-f",
                path,
                "--",
                "echo",
                "started",
            ])
            .end();
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (1, ""),
            "{}",
            ended.stderr
        );
        let begin = format!("caretaker: {path}, {expected}");
        assert!(ended.stderr.starts_with(&begin), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_eq!(world.entries("tmp"), Vec::<String>::new());
    }
}

#[test]
fn a_definition_with_taken_names_is_an_error() {
    let world = TestDirectories::new();
    let other = WIDGETS
        .replace("widgets.example.com", "gadgets.example.com")
        .replace("plural: widgets", "plural: gadgets");
    let path = world.path("crds.yaml");
    fs::write(&path, format!("{WIDGETS}---\n{other}")).unwrap();
    let ended = world
        .caretaker(&[
            "up",
            "--listen",
            "127.0.0.1:0",
            "--crds",
            path.to_str().unwrap(),
        ])
        .end();
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains(
            "document 2: CustomResourceDefinition gadgets.example.com: its names are not accepted: "
        ),
        "{}",
        ended.stderr
    );
}
