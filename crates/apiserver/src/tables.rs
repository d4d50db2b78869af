//! Tables: the columns and rows that `kubectl get` prints.
//!
//! Tables are generated per request and not stored. The columns of built-in kinds are [data](builtin), those of custom kinds
//! come from their definition. The format is upstream's `meta/v1` Table in both its versions; in a watch each event is a table
//! of one row, and only the first has column definitions.

mod builtin;
mod cells;
mod columns;
mod events;
mod extensions;
mod nodes;
mod path;
mod pods;
mod policies;
mod services;
mod volumes;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::ServedKind;
use crate::negotiate::MetaVersion;
use crate::respond::{self, ListHeader};
use crate::store::StoredObject;

use columns::TableColumns;

/// The table options of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableContext {
    pub(crate) include: IncludeObject,
    /// The current time, for ages.
    pub(crate) now: Timestamp,
}

/// The `includeObject` option: the object in each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// Subresources that upstream has no table convertor for: those that are no view of their object, and some that are.
const UNTABLED: [&str; 8] = [
    "approval",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "finalize",
    "log",
    "resize",
    "token",
];
/// The kinds whose status is among them.
const UNTABLED_STATUS: [&str; 3] = ["apiservices", "customresourcedefinitions", "resourceclaims"];

/// Returns whether a built-in kind, or its subresource, can be a table. Reviews and Bindings cannot.
pub(crate) fn has_table(kind: &ServedKind, subresource: Option<&str>) -> bool {
    match subresource {
        None => kind.allows("list"),
        Some("status") => !UNTABLED_STATUS.contains(&kind.plural.as_str()),
        Some(part) => !UNTABLED.contains(&part),
    }
}

// === impl TableContext ===

impl TableContext {
    /// The table of a list or of one object.
    pub(crate) fn table<'a>(
        &self,
        kind: &ServedKind,
        version: MetaVersion,
        objects: impl Iterator<Item = &'a StoredObject>,
        meta: &ListHeader,
    ) -> Vec<u8> {
        let columns = TableColumns::of(kind);
        let mut bytes = head(version, &meta.to_value(), Some(&columns));
        let mut objects: Vec<&StoredObject> = objects.collect();
        builtin::sort(kind, &mut objects);
        for (index, object) in objects.into_iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            self.push_row(&mut bytes, kind, version, &columns, object);
        }
        bytes.extend_from_slice(b"]}");
        bytes
    }

    /// The table of one watch event. `first` is true for the first event, which has the column definitions.
    pub(crate) fn event(
        &self,
        kind: &ServedKind,
        version: MetaVersion,
        object: &StoredObject,
        first: bool,
    ) -> Vec<u8> {
        let columns = TableColumns::of(kind);
        let metadata = json!({"resourceVersion": object.rev.to_string()});
        let mut bytes = head(version, &metadata, first.then_some(&columns));
        self.push_row(&mut bytes, kind, version, &columns, object);
        bytes.extend_from_slice(b"]}");
        bytes
    }

    /// The table of a bookmark: one row with empty cells that always contains the object.
    pub(crate) fn bookmark(
        &self,
        kind: &ServedKind,
        version: MetaVersion,
        metadata: &Value,
        first: bool,
    ) -> Vec<u8> {
        let columns = TableColumns::of(kind);
        let own = json!({"resourceVersion": metadata["resourceVersion"]});
        let mut bytes = head(version, &own, first.then_some(&columns));
        let tree = json!({ "metadata": metadata });
        push_cells(&mut bytes, &columns.cells("", &tree, self.now), None);
        push_metadata(&mut bytes, version, metadata.to_string().as_bytes());
        bytes.extend_from_slice(b"}]}");
        bytes
    }

    fn push_row(
        &self,
        bytes: &mut Vec<u8>,
        kind: &ServedKind,
        version: MetaVersion,
        columns: &TableColumns,
        object: &StoredObject,
    ) {
        let tree = tree_of(kind, columns, object);
        let cells = columns.cells(object.key.name(), &tree, self.now);
        let conditions = builtin::conditions(kind, &tree);
        push_cells(bytes, &cells, conditions.as_ref());
        match self.include {
            IncludeObject::None => bytes.extend_from_slice(b"null"),
            IncludeObject::Metadata => push_metadata(bytes, version, object.meta()),
            IncludeObject::Object => bytes.extend_from_slice(&respond::object_bytes(kind, object)),
        }
        bytes.push(b'}');
    }
}

/// Decodes the part of an object that its columns need: for many built-in kinds only the metadata. The cell functions of
/// built-in kinds use the stored version, independent of the requested one.
fn tree_of(kind: &ServedKind, columns: &TableColumns, object: &StoredObject) -> Value {
    if kind.custom.is_some() {
        serde_json::from_slice(&respond::object_bytes(kind, object)).unwrap_or_default()
    } else if columns.look_beyond_metadata() {
        Value::Object(object.to_value())
    } else {
        let metadata: Value = serde_json::from_slice(object.meta()).unwrap_or_default();
        json!({ "metadata": metadata })
    }
}

/// The start of a table, up to its first row.
fn head(version: MetaVersion, metadata: &Value, columns: Option<&TableColumns>) -> Vec<u8> {
    let api_version = version.api_version();
    let columns = columns.map_or(Value::Null, TableColumns::definitions);
    format!(
        r#"{{"kind":"Table","apiVersion":"{api_version}","metadata":{metadata},"columnDefinitions":{columns},"rows":["#
    )
    .into_bytes()
}

/// The start of a row, up to its object.
fn push_cells(bytes: &mut Vec<u8>, cells: &Value, conditions: Option<&Value>) {
    bytes.extend_from_slice(format!(r#"{{"cells":{cells},"#).as_bytes());
    if let Some(conditions) = conditions {
        bytes.extend_from_slice(format!(r#""conditions":{conditions},"#).as_bytes());
    }
    bytes.extend_from_slice(br#""object":"#);
}

fn push_metadata(bytes: &mut Vec<u8>, version: MetaVersion, metadata: &[u8]) {
    let api_version = version.api_version();
    let head =
        format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{api_version}","metadata":"#);
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(metadata);
    bytes.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{CustomKind, KindTable};
    use crate::store::{ObjectDraft, ObjectKey, PackedStrings, StoreRevision};

    fn mk_context(include: IncludeObject) -> TableContext {
        TableContext {
            include,
            now: "2026-01-01T00:05:16Z".parse().unwrap(),
        }
    }

    fn mk_object(tree: &Value) -> StoredObject {
        let name = tree["metadata"]["name"].as_str().unwrap();
        let key = ObjectKey::new(Some("shop"), name);
        ObjectDraft::new(key, tree.as_object().unwrap(), PackedStrings::default())
            .commit(StoreRevision(7))
    }

    fn mk_widget() -> StoredObject {
        mk_object(&json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "u",
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"color": "red", "size": 3},
        }))
    }

    fn mk_kind(columns: &Value) -> ServedKind {
        let mut kinds = KindTable::builtin();
        let mut kind = (**kinds.get("", "v1", "configmaps").unwrap()).clone();
        kind.group = "example.com".into();
        kind.kind = "Widget".into();
        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        kind.custom = Some(CustomKind {
            columns: columns.as_array().unwrap().clone(),
            ..CustomKind::mk(&mut kinds, &free)
        });
        kind
    }

    fn mk_table(kind: &ServedKind, include: IncludeObject, object: &StoredObject) -> Value {
        let meta = ListHeader {
            revision: "9".into(),
            ..ListHeader::default()
        };
        let objects = std::iter::once(object);
        let bytes = mk_context(include).table(kind, MetaVersion::V1, objects, &meta);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn builtin_kinds_show_name_and_age() {
        let kinds = KindTable::builtin();
        let kind = kinds.get("", "v1", "serviceaccounts").unwrap();
        let table = mk_table(kind, IncludeObject::Metadata, &mk_widget());
        assert_eq!(table["kind"], "Table");
        assert_eq!(table["metadata"], json!({"resourceVersion": "9"}));
        let names: Vec<&Value> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| &column["name"])
            .collect();
        assert_eq!(names, ["Name", "Age"]);
        assert_eq!(table["rows"][0]["cells"], json!(["a", "5m16s"]));
        let object = &table["rows"][0]["object"];
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert_eq!(object["apiVersion"], "meta.k8s.io/v1");
        assert_eq!(object["metadata"]["uid"], "u");
    }

    #[test]
    fn builtin_kinds_with_columns_decode_the_whole_object() {
        let kinds = KindTable::builtin();
        let pod = mk_object(&json!({
            "metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}], "nodeName": "n"},
            "status": {"phase": "Failed", "reason": "Evicted"},
        }));
        let table = mk_table(
            kinds.get("", "v1", "pods").unwrap(),
            IncludeObject::None,
            &pod,
        );
        let none = "<none>";
        let cells = json!(["a", "0/1", "Evicted", "0", "5m16s", none, "n", none, none]);
        assert_eq!(table["rows"][0]["cells"], cells);
        assert_eq!(table["rows"][0]["conditions"][0]["reason"], "Failed");
        assert_eq!(table["columnDefinitions"][4]["priority"], 0);
        assert_eq!(table["columnDefinitions"][5]["priority"], 1);
    }

    #[test]
    fn events_have_equal_tables_in_both_groups() {
        let kinds = KindTable::builtin();
        let event = mk_object(&json!({
            "metadata": {"name": "a", "uid": "u"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "lastTimestamp": "2026-01-01T00:05:00Z",
        }));
        for group in ["", "events.k8s.io"] {
            let kind = kinds.get(group, "v1", "events").unwrap();
            let table = mk_table(kind, IncludeObject::None, &event);
            let cells = json!(["16s", "", "", "pod/p", "", "", "", "<unknown>", 1, "a"]);
            assert_eq!(table["rows"][0]["cells"], cells, "{group}");
            assert_eq!(table["columnDefinitions"][9]["format"], "name");
        }
    }

    #[test]
    fn custom_kinds_show_their_columns() {
        let kind = mk_kind(&json!([
            {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "description": "how big"},
            {"name": "Weight", "type": "number", "jsonPath": ".spec.weight"},
            {"name": "Kind", "type": "string", "jsonPath": ".kind"},
        ]));
        let table = mk_table(&kind, IncludeObject::Object, &mk_widget());
        assert_eq!(
            table["rows"][0]["cells"],
            json!(["a", "red", 3, null, "Widget"])
        );
        assert_eq!(table["rows"][0]["object"]["spec"]["color"], "red");
        assert_eq!(
            table["columnDefinitions"][1]["description"],
            "Custom resource definition column (in JSONPath format): .spec.color"
        );
        assert_eq!(
            table["columnDefinitions"][2],
            json!({"name": "Size", "type": "integer", "format": "", "description": "how big", "priority": 1})
        );
        let table = mk_table(&mk_kind(&json!([])), IncludeObject::None, &mk_widget());
        assert_eq!(table["columnDefinitions"][1]["name"], "Age");
        assert_eq!(table["columnDefinitions"][1]["type"], "date");
        assert_eq!(
            table["rows"][0],
            json!({"cells": ["a", "5m16s"], "object": null})
        );
    }

    #[test]
    fn only_the_first_event_has_column_definitions() {
        let kind = mk_kind(&json!([]));
        let context = mk_context(IncludeObject::Metadata);
        let event = |first| -> Value {
            let bytes = context.event(&kind, MetaVersion::V1Beta1, &mk_widget(), first);
            serde_json::from_slice(&bytes).unwrap()
        };
        let first = event(true);
        assert_eq!(first["apiVersion"], "meta.k8s.io/v1beta1");
        assert_eq!(
            first["rows"][0]["object"]["apiVersion"],
            "meta.k8s.io/v1beta1"
        );
        assert_eq!(first["metadata"]["resourceVersion"], "7");
        assert_eq!(first["columnDefinitions"].as_array().unwrap().len(), 2);
        let later = event(false);
        assert_eq!(later["columnDefinitions"], Value::Null);
        assert_eq!(later["rows"], first["rows"]);
    }

    #[test]
    fn bookmark_is_a_row_without_a_name() {
        let metadata =
            json!({"resourceVersion": "12", "annotations": {"k8s.io/initial-events-end": "true"}});
        let kinds = KindTable::builtin();
        let cases = [
            (mk_kind(&json!([])), json!(["", null])),
            (
                (**kinds.get("", "v1", "serviceaccounts").unwrap()).clone(),
                json!(["", "<unknown>"]),
            ),
            (
                (**kinds.get("", "v1", "limitranges").unwrap()).clone(),
                json!(["", "0001-01-01T00:00:00Z"]),
            ),
        ];
        for (kind, cells) in cases {
            let bytes =
                mk_context(IncludeObject::None).bookmark(&kind, MetaVersion::V1, &metadata, false);
            let table: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(table["metadata"], json!({"resourceVersion": "12"}));
            assert_eq!(table["rows"][0]["cells"], cells);
            assert_eq!(table["rows"][0]["object"]["metadata"], metadata);
        }
    }

    #[test]
    fn empty_list_has_columns_and_no_rows() {
        let kind = mk_kind(&json!([]));
        let none = std::iter::empty();
        let bytes = mk_context(IncludeObject::None).table(
            &kind,
            MetaVersion::V1,
            none,
            &ListHeader::default(),
        );
        let table: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(table["rows"], json!([]));
        assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), 2);
    }
}
