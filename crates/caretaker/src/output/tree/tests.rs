use caretaker_controllers::gc::view::EdgeView;

use super::*;

/// Nodes are `Kind name`, by their names; edges are `dependent owner`.
fn mk_view(nodes: &[&str], edges: &[(&str, &str)]) -> GraphView {
    let node = |text: &&str| {
        let (kind, name) = text.split_once(' ').unwrap();
        NodeView {
            uid: name.into(),
            kind: kind.into(),
            namespace: "shop".into(),
            name: name.into(),
            ..NodeView::default()
        }
    };
    let edge = |(dependent, owner): &(&str, &str)| EdgeView {
        dependent: (*dependent).into(),
        owner: (*owner).into(),
        ..EdgeView::default()
    };
    GraphView {
        nodes: nodes.iter().map(node).collect(),
        edges: edges.iter().map(edge).collect(),
    }
}

fn node<'a>(view: &'a mut GraphView, name: &str) -> &'a mut NodeView {
    let mut nodes = view.nodes.iter_mut();
    nodes.find(|node| node.name == name).unwrap()
}

#[track_caller]
fn check(view: &GraphView, expected: &str) {
    let lines: Vec<&str> = expected
        .lines()
        .map(|line| line.trim_start_matches('|'))
        .collect();
    let expected: String = lines
        .iter()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(tree(view, ShownNamespaces::But("shop")), expected);
}

#[test]
fn dependents_are_below_owners_by_kind_and_name() {
    let view = mk_view(
        &["Pod b", "Pod a", "Set s", "Job j", "Map m", "Pod c"],
        &[("a", "s"), ("b", "s"), ("s", "j"), ("m", "j"), ("c", "m")],
    );
    check(
        &view,
        "
|Job j
|├─ Map m
|│  └─ Pod c
|└─ Set s
|   ├─ Pod a
|   └─ Pod b",
    );
    check(&GraphView::default(), "");
}

#[test]
fn shared_dependents_are_drawn_once() {
    let view = mk_view(
        &["Set a", "Set b", "Set c", "Map two", "Map three", "Pod p"],
        &[
            ("two", "a"),
            ("two", "b"),
            ("three", "a"),
            ("three", "b"),
            ("three", "c"),
            ("p", "two"),
            ("p", "two"),
        ],
    );
    check(
        &view,
        "
|Set a
|├─ Map three (also under 2 others)
|└─ Map two (also under Set b)
|   └─ Pod p
|Set b
|├─ Map three (also under 2 others)
|└─ Map two (also under Set a) (its dependents: see above)
|Set c
|└─ Map three (also under 2 others)",
    );
}

#[test]
fn cycles_are_cut_where_they_close() {
    let view = mk_view(
        &["A hangs", "Map x", "Map y", "Set self", "Set s", "Map z"],
        &[
            ("hangs", "y"),
            ("x", "y"),
            ("y", "x"),
            ("self", "self"),
            ("z", "s"),
            ("z", "z"),
        ],
    );
    check(
        &view,
        "
|Set s
|└─ Map z
|   └─ Map z (also under Set s) (a cycle: see above)
|Set self
|└─ Set self (a cycle: see above)
|Map x
|└─ Map y
|   ├─ A hangs
|   └─ Map x (a cycle: see above)",
    );
}

#[test]
fn labels_show_the_state_of_an_object() {
    let mut view = mk_view(
        &["Set gone", "Set waits", "Pod a", "Pod b", "Pod c"],
        &[("a", "gone"), ("b", "waits"), ("c", "waits")],
    );
    node(&mut view, "gone").r#virtual = true;
    let waits = node(&mut view, "waits");
    (waits.deleting, waits.foreground) = (true, true);
    node(&mut view, "c").deleting = true;
    view.edges[0].blocks = true;
    view.edges[2].blocks = true;
    check(
        &view,
        "
|Set gone (virtual: not found by any feed)
|└─ Pod a
|Set waits (deleting in foreground)
|├─ Pod b
|└─ Pod c (deleting) (blocks)",
    );
}

#[test]
fn other_namespaces_are_shown() {
    let mut view = mk_view(&["Node n", "Pod a", "Pod b"], &[("a", "n"), ("b", "n")]);
    node(&mut view, "n").namespace.clear();
    node(&mut view, "b").namespace = "far".into();
    check(&view, "\n|Node n\n|├─ Pod far/b\n|└─ Pod a");
    assert_eq!(
        tree(&view, ShownNamespaces::All),
        "Node n\n├─ Pod far/b\n└─ Pod shop/a\n"
    );
}

#[test]
fn many_dependents_are_counted_by_kind() {
    let names: Vec<String> = (0..214).map(|number| format!("Pod p{number:03}")).collect();
    let mut nodes = vec!["Map m", "Set s", "Zone z"];
    nodes.extend(names.iter().map(String::as_str));
    let pods = names.iter().map(|name| (&name[4..], "s"));
    let edges: Vec<(&str, &str)> = pods.chain([("m", "s"), ("z", "s")]).collect();
    let drawn = tree(&mk_view(&nodes, &edges), ShownNamespaces::But("shop"));
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines.len(), 1 + 1 + FAN_MAX + 1 + 1);
    assert_eq!(lines[1..3], ["├─ Map m", "├─ Pod p000"]);
    assert_eq!(
        lines[21..],
        ["├─ Pod p019", "├─ … and 194 more Pods", "└─ Zone z"]
    );
}

#[test]
fn deep_chains_are_counted() {
    let names: Vec<String> = (0..100_000)
        .map(|number| format!("Map m{number:06}"))
        .collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let pairs = names.windows(2).map(|pair| (&pair[1][4..], &pair[0][4..]));
    let edges: Vec<(&str, &str)> = pairs.collect();
    let drawn = tree(&mk_view(&nodes, &edges), ShownNamespaces::But("shop"));
    assert_eq!(drawn.lines().count(), DEPTH_MAX + 2);
    let last = drawn.lines().last().unwrap().trim_start();
    assert_eq!(last, "└─ … and 99949 objects below");
}

#[test]
fn control_characters_in_names_are_replaced() {
    let mut view = mk_view(&["Set s", "Pod p"], &[("p", "s")]);
    node(&mut view, "s").name = "a\nb\u{1b}[2J".into();
    check(&view, "\n|Set a\u{fffd}b\u{fffd}[2J\n|└─ Pod p");
}
