//! `metadata`: the fields that clients set, those that the server sets, and those that no write changes.
//!
//! Pure functions over JSON trees. They mirror `rest/create.go`, `rest/update.go` and `validation/objectmeta.go` of
//! upstream 1.36: a write first gets its metadata into [shape](shape), then the server's own fields are set or carried
//! over, then the [rules](check) are checked.

pub(crate) mod check;
pub(crate) mod shape;

use caretaker_machinery::names;
use caretaker_machinery::rng::Rng;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::{Map, Value};

/// Most characters that are kept of a generateName; with the suffix it makes a DNS label.
const GENERATED_PREFIX_MAX: usize = 58;
/// Characters of the suffix of a generated name.
const SUFFIX_CHARS: usize = 5;

/// A JSON object, with its members in order of their names.
pub(crate) type ObjectTree = Map<String, Value>;

/// Returns the metadata of an object; makes it an empty one if it is absent.
pub(crate) fn of(object: &mut ObjectTree) -> &mut ObjectTree {
    let slot = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("it was just made an object")
}

/// Returns a text field of the metadata; empty if it is absent.
pub(crate) fn text<'a>(object: &'a ObjectTree, field: &str) -> &'a str {
    get(object, field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns a field of the metadata.
pub(crate) fn get<'a>(object: &'a ObjectTree, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

/// Returns a value inside an object by its JSON pointer; null if it is absent.
pub(crate) fn value_at<'a>(object: &'a ObjectTree, path: &str) -> &'a Value {
    let mut parts = path.split('/').skip(1);
    let first = parts.next().and_then(|part| object.get(part));
    let value = parts.try_fold(first.unwrap_or(&Value::Null), |value, part| value.get(part));
    value.unwrap_or(&Value::Null)
}

/// Returns the strings of a list.
pub(crate) fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Reports whether a status has this condition with status `True`.
pub(crate) fn is_true(status: &Value, condition: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|known| known["type"] == condition && known["status"] == "True")
}

/// Returns the finalizers in order.
pub(crate) fn finalizers(object: &ObjectTree) -> Vec<String> {
    strings(value_at(object, "/metadata/finalizers"))
}

/// Sets the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut ObjectTree, finalizers: &[String]) {
    let metadata = of(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}

/// Reports whether the object is being deleted.
pub(crate) fn is_deleting(object: &ObjectTree) -> bool {
    get(object, "deletionTimestamp").is_some()
}

/// Reports whether the object waits for its finalizers only.
pub(crate) fn grace_is_over(object: &ObjectTree) -> bool {
    let seconds = value_at(object, "/metadata/deletionGracePeriodSeconds");
    seconds.as_i64().unwrap_or(0) == 0
}

/// Sets the metadata of a new object that the server owns, and removes what a client cannot set.
pub(crate) fn set_create_fields(object: &mut ObjectTree, now: Timestamp, rng: &mut Rng) {
    let metadata = of(object);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
    ] {
        metadata.remove(field);
    }
    metadata.insert("uid".into(), rng.uuid().to_string().into());
    metadata.insert("creationTimestamp".into(), time(now).into());
}

/// Returns a random name with this prefix.
pub(crate) fn generate_name(prefix: &str, rng: &mut Rng) -> String {
    let mut name: String = prefix.chars().take(GENERATED_PREFIX_MAX).collect();
    name.push_str(&names::suffix(SUFFIX_CHARS, rng));
    name
}

/// Copies the fields that an update cannot set. An update that leaves out a deletion in progress does not undo it.
pub(crate) fn carry_over(old: &ObjectTree, new: &mut ObjectTree) {
    let metadata = of(new);
    metadata.remove("selfLink");
    for field in ["creationTimestamp", "generation"] {
        set(metadata, field, get(old, field).cloned());
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        // Validation refuses them on an object that is not being deleted.
        if is_deleting(old) || !metadata.contains_key(field) {
            set(metadata, field, get(old, field).cloned());
        }
    }
    if !metadata.contains_key("uid") {
        set(metadata, "uid", get(old, "uid").cloned());
    }
}

/// Drops repeated owner references and returns their uids; none if there are none.
pub(crate) fn dedupe_owners(object: &mut ObjectTree) -> Option<Vec<String>> {
    let owners = of(object).get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen: Vec<Value> = Vec::new();
    let mut repeated = Vec::new();
    for owner in owners.drain(..) {
        if seen.contains(&owner) {
            repeated.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            seen.push(owner);
        }
    }
    *owners = seen;
    (!repeated.is_empty()).then_some(repeated)
}

/// Sets or removes a member.
pub(crate) fn set(object: &mut ObjectTree, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object.insert(field.to_owned(), value),
        None => object.remove(field),
    };
}

/// Formats a time as in objects: UTC, whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));
    PRINTER.timestamp_to_string(&at)
}

/// Returns a JSON object as a tree.
#[cfg(test)]
pub(crate) fn mk_tree(value: &Value) -> ObjectTree {
    value.as_object().unwrap().clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn create_sets_server_fields_and_drops_those_of_the_client() {
        let mut object = mk_tree(&json!({"metadata": {"name": "a", "uid": "mine",
            "creationTimestamp": "1999-01-01T00:00:00Z", "deletionTimestamp": "1999-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 3, "selfLink": "x", "resourceVersion": "9"}}));
        set_create_fields(
            &mut object,
            "2026-03-01T12:00:00.7Z".parse().unwrap(),
            &mut Rng::seeded(1),
        );
        assert_ne!(text(&object, "uid"), "mine");
        assert_eq!(text(&object, "creationTimestamp"), "2026-03-01T12:00:00Z");
        assert_eq!(of(&mut object).len(), 3);
    }

    #[test]
    fn generated_names_are_dns_labels() {
        let name = generate_name(&"x".repeat(81), &mut Rng::seeded(1));
        assert_eq!(name.len(), 63);
        assert!(
            name[58..]
                .bytes()
                .all(|byte| names::SUFFIX_ALPHABET.contains(&byte))
        );
    }

    #[test]
    fn update_cannot_undo_a_deletion() {
        let old = mk_tree(
            &json!({"metadata": {"name": "a", "uid": "u", "generation": 3,
            "creationTimestamp": "T", "deletionTimestamp": "D", "deletionGracePeriodSeconds": 0}}),
        );
        let mut new =
            mk_tree(&json!({"metadata": {"name": "a", "generation": 9, "creationTimestamp": "x"}}));
        carry_over(&old, &mut new);
        assert_eq!(new, old);
    }

    #[test]
    fn drops_only_exact_duplicates_of_an_owner() {
        let owner = json!({"uid": "u", "name": "a"});
        let other = json!({"uid": "u", "name": "a", "controller": true});
        let mut object = mk_tree(&json!({"metadata": {"ownerReferences": [owner, other, owner]}}));
        assert_eq!(dedupe_owners(&mut object), Some(vec!["u".to_owned()]));
        assert_eq!(
            get(&object, "ownerReferences"),
            Some(&json!([owner, other]))
        );
        assert_eq!(dedupe_owners(&mut object), None);
    }
}
