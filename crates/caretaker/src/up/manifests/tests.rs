//! Tables of manifests: documents, lists, order, and the sentences about bad ones.

use serde_json::json;

use super::*;

/// `origin: Kind namespace/name` of each object.
fn texts(text: &str) -> Vec<String> {
    let objects = parse("a", text).unwrap();
    objects.iter().map(ToString::to_string).collect()
}

fn refused(text: &str) -> String {
    parse("a.yaml", text).unwrap_err().to_string()
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

#[test]
fn documents_are_numbered_and_empty_ones_are_skipped() {
    let (one, two) = (map("one"), map("two"));
    let both = |first: usize, second: usize| {
        vec![
            format!("a, document {first}: ConfigMap one"),
            format!("a, document {second}: ConfigMap two"),
        ]
    };
    let cases = [
        (format!("{one}---\n{two}"), both(1, 2)),
        (format!("---\n{one}---\n{two}---\n"), both(1, 2)),
        (
            format!("# licence\n\n---\n{one}--- # more\n{two}"),
            both(1, 2),
        ),
        (format!("%YAML 1.2\n---\n{one}---\n{two}"), both(1, 2)),
        (
            format!("{one}---\n---\n# nothing\n---\nnull\n---\n{two}"),
            both(1, 5),
        ),
        (format!("\u{feff}{one}---\r\n{two}"), both(1, 2)),
        (String::new(), vec![]),
        ("# only a comment\n".to_owned(), vec![]),
    ];
    for (text, expected) in cases {
        assert_eq!(texts(&text), expected, "{text}");
    }
    // A line inside a text does not separate documents.
    let block = format!("{one}data:\n  a: |\n    ---\n    b\n");
    assert_eq!(
        parse("a", &block).unwrap()[0].object["data"],
        json!({"a": "---\nb\n"})
    );
}

#[test]
fn json_documents_follow_each_other() {
    let object =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (one, two) = (object("one").to_string(), object("two").to_string());
    let expected = [
        "a, document 1: ConfigMap one",
        "a, document 2: ConfigMap two",
    ];
    assert_eq!(texts(&format!("{one}\n{two}")), expected);
    assert_eq!(texts(&format!("{one}\n---\n{two}")), expected);
    let tabs = format!("\n{}", one.replace("{\"api", "{\t\"api"));
    assert_eq!(texts(&tabs), expected[..1]);
    // A mapping of YAML may begin like JSON.
    assert_eq!(
        texts("{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}"),
        expected[..1]
    );
}

#[test]
fn lists_are_replaced_by_their_items() {
    let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- apiVersion: v1
  kind: ConfigMapList
  items:
  - {metadata: {name: settings, namespace: shop}}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: load-}
";
    let expected = [
        "a, document 1, item 1: Namespace shop",
        "a, document 1, item 2, item 1: ConfigMap shop/settings",
        "a, document 2: Job load-",
    ];
    assert_eq!(texts(text), expected);
    // A custom kind may end in List and have no items.
    let custom = "apiVersion: x.example/v1\nkind: AllowList\nmetadata: {name: a}\n";
    assert_eq!(texts(custom), ["a, document 1: AllowList a"]);
}

#[test]
fn a_bad_document_is_named() {
    let one = map("one");
    let cases = [
        (format!("{one}---\na: [\n"), "a.yaml, document 2: "),
        (
            format!("{one}---\n- a\n"),
            "a.yaml, document 2 is no object: expected a mapping with apiVersion and kind",
        ),
        ("just text".to_owned(), "a.yaml, document 1 is no object"),
        (
            "kind: Pod\n".to_owned(),
            "a.yaml, document 1 has no apiVersion",
        ),
        (
            "apiVersion: v1\n".to_owned(),
            "a.yaml, document 1 has no kind",
        ),
        (
            "apiVersion: 1\nkind: Pod\n".to_owned(),
            "a.yaml, document 1 has no apiVersion",
        ),
        (
            "kind: List\napiVersion: v1\nitems: [{}]".to_owned(),
            "a.yaml, document 1, item 1 has no apiVersion",
        ),
        (
            r#"{"apiVersion": "v1", "kind": "#.to_owned(),
            "a.yaml, document 1: EOF",
        ),
        (
            r#"{"apiVersion": "v1", "kind": "Pod"} x"#.to_owned(),
            "a.yaml, document 2: ",
        ),
    ];
    for (text, expected) in cases {
        let error = refused(&text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    // The line is that of the file.
    let error = refused(&format!("{one}---\nkind: [\n"));
    assert!(
        error.contains("line 6") || error.contains("line 7"),
        "{error}"
    );
    let list = |inner: &str| format!(r#"{{"apiVersion":"v1","kind":"List","items":[{inner}]}}"#);
    let deep = (0..10).fold("{}".to_owned(), |inner, _| list(&inner));
    assert!(refused(&deep).contains("too many lists in lists"));
}

#[test]
fn definitions_come_first_and_then_namespaces() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let definition = |name: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {name}}}\n"
        )
    };
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let first = file(
        "first.yaml",
        &format!("{}---\n{namespace}---\n{}", map("one"), definition("d1")),
    );
    let second = file(
        "second.json",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}}).to_string(),
    );
    let definitions = file("definitions.yml", &definition("d0"));
    let names = |objects: Vec<ManifestObject>| {
        Vec::from_iter(objects.into_iter().map(|object| object.name))
    };
    let objects = read(
        std::slice::from_ref(&definitions),
        &[first.clone(), second.clone()],
    )
    .unwrap();
    assert_eq!(names(objects), ["d0", "d1", "shop", "one", "two"]);

    // A directory: by name, known endings only, not its subdirectories.
    file("notes.txt", "no manifest");
    fs::create_dir(place.path().join("deep.yaml")).unwrap();
    let objects = read(&[], &[place.path().to_owned()]).unwrap();
    assert_eq!(names(objects), ["d0", "d1", "shop", "one", "two"]);

    let error = read(&[first], &[]).unwrap_err().to_string();
    assert!(error.ends_with("first.yaml, document 1: ConfigMap one is no CustomResourceDefinition: give its file with -f"), "{error}");
}

#[test]
fn a_bad_source_is_named() {
    let place = tempfile::tempdir().unwrap();
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let binary = place.path().join("binary.yaml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    let cases = [
        (
            "/no/such/file".into(),
            "cannot read /no/such/file: No such file",
        ),
        (empty, "has no files that end in .json, .yaml or .yml"),
        (binary, "is not UTF-8 text"),
        (
            "https://example.com/a.yaml".into(),
            "curl -sL https://example.com/a.yaml | caretaker up -f -",
        ),
    ];
    for (path, expected) in cases {
        let error = read(&[], &[path]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let twice = [PathBuf::from("-"), PathBuf::from("-")];
    let error = read(&[], &twice).unwrap_err().to_string();
    assert!(error.contains("stdin can be read once"), "{error}");
}
