//! The ownership graph in Graphviz' language, byte for byte as upstream's debug endpoint writes it.
//!
//! Mirrors `dump.go` of 1.36. A virtual owner is a node of its own here, so no node is ever `missing`.

use std::fmt::Write as _;

use caretaker_machinery::status::quoted;

use super::view::{GraphView, NodeView};
use crate::runtime::kind::split_api_version;

/// Writes a view of the graph in Graphviz' language.
#[must_use]
pub fn dot(view: &GraphView) -> String {
    let mut text = String::from("strict digraph full {\n");
    if !view.nodes.is_empty() {
        text.push_str("  // Node definitions.\n");
    }
    for node in &view.nodes {
        write_node(&mut text, node);
    }
    if !view.edges.is_empty() {
        text.push_str("  // Edge definitions.\n");
    }
    let mut last = None;
    for edge in &view.edges {
        let ends = (&edge.dependent, &edge.owner);
        // Two references of one object to the same owner are one arrow.
        if last.replace(ends) != Some(ends) {
            let (from, to) = (quoted(ends.0), quoted(ends.1));
            line(&mut text, format_args!("  {from} -> {to};"));
        }
    }
    text.push_str("}\n");
    text
}

fn write_node(text: &mut String, node: &NodeView) {
    let (group, version) = split_api_version(&node.api_version).unwrap_or(("", &node.api_version));
    let flag = |is: bool| if is { "true" } else { "false" };
    let attributes = [
        ("label", label(node, group, version).as_str()),
        ("group", group),
        ("version", version),
        ("kind", &node.kind),
        ("namespace", &node.namespace),
        ("name", &node.name),
        ("uid", &node.uid),
        ("missing", flag(false)),
        ("beingDeleted", flag(node.deleting)),
        ("deletingDependents", flag(node.foreground)),
        ("virtual", flag(node.r#virtual)),
    ]
    .map(|(name, value)| format!("    {name}={}\n", quoted(value)));
    line(text, format_args!("  {} [", quoted(&node.uid)));
    text.extend(attributes);
    text.push_str("  ];\n");
}

fn label(node: &NodeView, group: &str, version: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let flags = [
        ("beingDeleted", node.deleting),
        ("deletingDependents", node.foreground),
        ("virtual", node.r#virtual),
    ];
    let flags: Vec<&str> = flags
        .iter()
        .filter(|flag| flag.1)
        .map(|flag| flag.0)
        .collect();
    let NodeView {
        uid,
        namespace,
        kind,
        name,
        ..
    } = node;
    let mut label =
        format!("uid={uid}\nnamespace={namespace}\n{kind}.{version}{dot}{group}/{name}\n");
    if !flags.is_empty() {
        line(&mut label, format_args!("{}", flags.join(",")));
    }
    label
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::view::EdgeView;

    /// `TestMarshalDOT` of `dump_test.go`: empty, simple, escaping. The expected text was printed by the 1.36.3 collector.
    #[test]
    fn dot_output_matches_upstream() {
        assert_eq!(dot(&GraphView::default()), "strict digraph full {\n}\n");
        let child = NodeView {
            uid: "b".into(),
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            namespace: "default".into(),
            name: "child".into(),
            deleting: true,
            foreground: true,
            ..NodeView::default()
        };
        let odd = NodeView {
            uid: "o\"dd".into(),
            api_version: "v9".into(),
            kind: "Odd\"Kind\\".into(),
            namespace: "default".into(),
            name: "no\tpe é".into(),
            r#virtual: true,
            ..NodeView::default()
        };
        let edge = EdgeView {
            dependent: "b".into(),
            owner: "o\"dd".into(),
            ..EdgeView::default()
        };
        let view = GraphView {
            nodes: vec![child, odd],
            edges: vec![edge.clone(), edge],
        };
        let expected = r#"strict digraph full {
  // Node definitions.
  "b" [
    label="uid=b\nnamespace=default\nReplicaSet.v1.apps/child\nbeingDeleted,deletingDependents\n"
    group="apps"
    version="v1"
    kind="ReplicaSet"
    namespace="default"
    name="child"
    uid="b"
    missing="false"
    beingDeleted="true"
    deletingDependents="true"
    virtual="false"
  ];
  "o\"dd" [
    label="uid=o\"dd\nnamespace=default\nOdd\"Kind\\.v9/no\tpe é\nvirtual\n"
    group=""
    version="v9"
    kind="Odd\"Kind\\"
    namespace="default"
    name="no\tpe é"
    uid="o\"dd"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="true"
  ];
  // Edge definitions.
  "b" -> "o\"dd";
}
"#;
        assert_eq!(dot(&view), expected);
    }
}
