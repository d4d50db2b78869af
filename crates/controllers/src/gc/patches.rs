//! What is written to dependents and owners. One form for all kinds: a JSON merge patch with the whole remaining list.
//!
//! DEVIATION(one-patch-form): upstream tries a strategic merge patch first and repeats it as a merge patch for custom
//! resources; a merge patch with uid and resourceVersion is as exact and works everywhere.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::index::Index;
use super::index::graph::{EdgeId, Flag, NodeId};

/// The object's references without some of them.
///
/// DEVIATION(references-one-by-one): upstream takes away all references to a uid when one of them leads nowhere; here
/// those that name the owner rightly stay.
pub(super) fn without_references(index: &Index, id: NodeId, gone: &BTreeSet<EdgeId>) -> Value {
    let kept = index
        .graph
        .owners(id)
        .filter(|(edge, _)| !gone.contains(edge));
    references(kept.map(|(edge, found)| reference(index, edge, found.blocks)))
}

/// The object's references, none of which holds up an owner's end.
pub(super) fn unblocked_references(index: &Index, id: NodeId) -> Value {
    let all = index.graph.owners(id);
    references(all.map(|(edge, found)| {
        let blocks = match found.blocks {
            Flag::True => Flag::False,
            other => other,
        };
        reference(index, edge, blocks)
    }))
}

/// The object's finalizers without one of them.
pub(super) fn without_finalizer(index: &Index, id: NodeId, gone: &str) -> Value {
    let kept = index.finalizers(id).iter().filter(|kept| ***kept != *gone);
    let kept: Vec<Value> = kept.map(|kept| Value::from(&**kept)).collect();
    json!({"metadata": {"finalizers": or_null(kept)}})
}

fn references(kept: impl Iterator<Item = Value>) -> Value {
    json!({"metadata": {"ownerReferences": or_null(kept.collect())}})
}

/// A merge patch removes a list by null; an empty one would stay behind as `[]`.
fn or_null(list: Vec<Value>) -> Value {
    if list.is_empty() {
        Value::Null
    } else {
        list.into()
    }
}

fn reference(index: &Index, edge: EdgeId, blocks: Flag) -> Value {
    let found = index.graph.edge(edge);
    let (api_version, kind) = index.types.text(found.typed);
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
