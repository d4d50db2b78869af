//! What may not change once it is written, and what may not grow beyond a size.
//!
//! The short list that clients and controllers rely on; the contents of specs are not validated here.

use caretaker_machinery::status::Cause;
use serde_json::Value;

use crate::kinds::Kind;
use crate::metadata::Tree;

/// All data of a ConfigMap or Secret together.
const DATA_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn faults(kind: &Kind, new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.group.is_empty() && matches!(kind.plural.as_str(), "configmaps" | "secrets") {
        data_faults(new, old, &mut causes);
    }
    causes
}

fn data_faults(new: &Tree, old: Option<&Tree>, causes: &mut Vec<Cause>) {
    let frozen = |tree: &Tree| tree.get("immutable") == Some(&Value::Bool(true));
    if let Some(old) = old.filter(|old| frozen(old)) {
        let why = "field is immutable when `immutable` is set";
        if !frozen(new) {
            causes.push(Cause::forbidden("immutable", why));
        }
        for field in ["data", "binaryData"] {
            if old.get(field) != new.get(field) {
                causes.push(Cause::forbidden(field, why));
            }
        }
    }
    let maps = ["data", "binaryData"]
        .iter()
        .filter_map(|field| new.get(*field)?.as_object());
    let bytes: usize = maps
        .flatten()
        .map(|(_, value)| value.as_str().map_or(0, str::len))
        .sum();
    if bytes > DATA_BYTES_MAX {
        causes.push(Cause::too_long("", DATA_BYTES_MAX));
    }
}
