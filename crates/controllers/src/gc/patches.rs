//! The patches of dependents and owners: for all kinds a JSON merge patch with the whole remaining list.
//!
//! DEVIATION(one-patch-form): upstream tries a strategic merge patch first and repeats it as a merge patch for custom
//! resources. A merge patch with uid and resourceVersion is as exact and works for every kind.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::index::OwnershipIndex;
use super::index::graph::{EdgeId, NodeId, OptionalBool};

/// A patch that removes some of the object's ownerReferences.
///
/// DEVIATION(references-one-by-one): upstream removes all references to a uid when one of them is dangling; here
/// references that name the owner correctly stay.
pub(super) fn without_references(
    index: &OwnershipIndex,
    id: NodeId,
    gone: &BTreeSet<EdgeId>,
) -> Value {
    let kept = index
        .graph
        .owners(id)
        .filter(|(edge, _)| !gone.contains(edge));
    references(kept.map(|(edge, found)| reference(index, edge, found.blocks)))
}

/// A patch that clears `blockOwnerDeletion` in all of the object's ownerReferences.
pub(super) fn unblocked_references(index: &OwnershipIndex, id: NodeId) -> Value {
    let all = index.graph.owners(id);
    references(all.map(|(edge, found)| {
        let blocks = match found.blocks {
            OptionalBool::True => OptionalBool::False,
            other => other,
        };
        reference(index, edge, blocks)
    }))
}

/// A patch that removes one of the object's finalizers.
pub(super) fn without_finalizer(index: &OwnershipIndex, id: NodeId, gone: &str) -> Value {
    let kept = index.finalizers(id).iter().filter(|kept| ***kept != *gone);
    let kept: Vec<Value> = kept.map(|kept| Value::from(&**kept)).collect();
    json!({"metadata": {"finalizers": or_null(kept)}})
}

fn references(kept: impl Iterator<Item = Value>) -> Value {
    json!({"metadata": {"ownerReferences": or_null(kept.collect())}})
}

/// A merge patch removes a list with null; an empty list would be stored as `[]`.
fn or_null(list: Vec<Value>) -> Value {
    if list.is_empty() {
        Value::Null
    } else {
        list.into()
    }
}

fn reference(index: &OwnershipIndex, edge: EdgeId, blocks: OptionalBool) -> Value {
    let found = index.graph.edge(edge);
    let (api_version, kind) = index.types.text(found.type_id);
    let mut map = Map::new();
    map.insert("apiVersion".into(), api_version.into());
    map.insert("kind".into(), kind.into());
    map.insert("name".into(), index.graph.reference_name(edge).into());
    let uid = index.graph.node(found.owner).uid.to_string();
    map.insert("uid".into(), uid.into());
    for (name, flag) in [
        ("controller", found.controller),
        ("blockOwnerDeletion", blocks),
    ] {
        if let Some(flag) = Option::<bool>::from(flag) {
            map.insert(name.into(), flag.into());
        }
    }
    map.into()
}
