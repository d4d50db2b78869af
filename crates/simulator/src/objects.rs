//! Helpers for the requests of actors: writes with the judged version, owner references, conditions, names, and minimal
//! patches.

use caretaker_controllers::runtime::call::{ApiCall, CallTarget, PatchForm};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cache::{GroupResource, NamespacedName, ObjectCache, ObjectSnapshot};

/// Characters of generated names; upstream's.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the suffix of a generated name.
const SUFFIX_LENGTH: usize = 5;

/// A time in the format of objects: whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

/// Parses the time in a field.
pub(crate) fn time_at(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The time `secs` seconds later, saturating.
pub(crate) fn later(at: Timestamp, secs: i64) -> Timestamp {
    let by = jiff::SignedDuration::from_secs(secs);
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The name of the `number`th object of an owner. It is deterministic, so that a repeated create conflicts.
pub(crate) fn numbered(owner: &ObjectSnapshot, number: usize) -> String {
    let meta = owner.meta();
    let suffix = hashed(&format!("{}/{number}", meta.uid));
    format!("{}-{suffix}", meta.name)
}

/// A hash of a text, as the suffix of a name.
pub(crate) fn hashed(text: &str) -> String {
    let mut left = hash(text);
    let letters = (0..SUFFIX_LENGTH).map(|_| {
        let count = ALPHABET.len() as u64;
        let at = usize::try_from(left % count).unwrap_or(0);
        left /= count;
        char::from(ALPHABET[at])
    });
    letters.collect()
}

/// A hash of a text: FNV-1a with its bits mixed, the same on every machine.
pub(crate) fn hash(text: &str) -> u64 {
    let mixed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// Creates an object in the owner's namespace with an owner reference. `None` if the kind is not served.
pub(crate) fn create(
    cache: &ObjectCache,
    owner: &ObjectSnapshot,
    named: GroupResource,
    name: &str,
    mut object: Value,
) -> Option<ApiCall> {
    object["metadata"]["ownerReferences"] = json!([reference(cache, owner)?]);
    create_beside(cache, owner, named, name, object)
}

/// Creates an object in the namespace of another one, without an owner reference. `None` if the kind is not served.
pub(crate) fn create_beside(
    cache: &ObjectCache,
    other: &ObjectSnapshot,
    named: GroupResource,
    name: &str,
    object: Value,
) -> Option<ApiCall> {
    let key = NamespacedName::new(&other.meta().namespace, name);
    create_at(cache, named, &key, object)
}

/// Creates an object. `None` if the kind is not served.
pub(crate) fn create_at(
    cache: &ObjectCache,
    named: GroupResource,
    key: &NamespacedName,
    mut object: Value,
) -> Option<ApiCall> {
    let (id, kind) = cache.served(named)?;
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = (*kind.kind).into();
    object["metadata"]["name"] = (*key.name).into();
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = (*key.namespace).into();
    }
    Some(ApiCall::Create {
        target: CallTarget {
            kind: id,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        },
        subresource: None,
        object,
    })
}

/// The reference to an owner that is the controller of its dependents.
pub(crate) fn reference(cache: &ObjectCache, owner: &ObjectSnapshot) -> Option<Value> {
    let kind = cache.kind(owner.kind())?;
    Some(json!({
        "apiVersion": kind.api_version(), "kind": &*kind.kind, "name": &*owner.meta().name,
        "uid": owner.meta().uid.to_string(), "controller": true, "blockOwnerDeletion": true,
    }))
}

/// A Pod from a template: its labels, annotations and spec.
pub(crate) fn pod_of(template: &Value) -> Value {
    let part = |of: &Value| if of.is_null() { json!({}) } else { of.clone() };
    let metadata = &template["metadata"];
    json!({
        "metadata": {"labels": part(&metadata["labels"]), "annotations": part(&metadata["annotations"])},
        "spec": part(&template["spec"]),
    })
}

/// The value of a label; empty if there is none.
pub(crate) fn label<'a>(object: &'a ObjectSnapshot, name: &str) -> &'a str {
    let labels = object.at("/metadata/labels");
    labels[name].as_str().unwrap_or_default()
}

/// Deletes an object with its own grace period.
pub(crate) fn delete(object: &ObjectSnapshot) -> ApiCall {
    delete_with_grace(object, None)
}

pub(crate) fn delete_with_grace(object: &ObjectSnapshot, grace_secs: Option<u32>) -> ApiCall {
    ApiCall::Delete {
        target: object.target(),
        judged: object.judged(),
        propagation: None,
        grace_secs,
    }
}

/// Patches `field` (`spec` or `status`) of an object to `wanted`; `None` if it has this value already.
pub(crate) fn change(
    object: &ObjectSnapshot,
    subresource: Option<&'static str>,
    field: &str,
    wanted: &Value,
) -> Option<ApiCall> {
    let patch = difference(object.at(&format!("/{field}")), wanted)?;
    Some(ApiCall::Patch {
        target: object.target(),
        judged: object.judged(),
        subresource,
        form: PatchForm::Merge,
        patch: json!({ field: patch }),
    })
}

/// Changes fields of an object by a JSON merge patch.
pub(crate) fn merge(object: &ObjectSnapshot, patch: Value) -> ApiCall {
    ApiCall::Patch {
        target: object.target(),
        judged: object.judged(),
        subresource: None,
        form: PatchForm::Merge,
        patch,
    }
}

/// Patches the status to `wanted`; `None` if it has this value already.
pub(crate) fn write_status(object: &ObjectSnapshot, wanted: &Value) -> Option<ApiCall> {
    change(object, Some("status"), "status", wanted)
}

/// The JSON merge patch from `is` to `wanted`; `None` if they are equal.
pub(crate) fn difference(is: &Value, wanted: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (is, wanted) else {
        return (is != wanted).then(|| wanted.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        let known = old.get(name).unwrap_or(&Value::Null);
        if let Some(part) = difference(known, value) {
            patch.insert(name.clone(), part);
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then(|| patch.into())
}

/// Sets a count. Like Kubernetes, it omits zero.
pub(crate) fn set_count(status: &mut Value, field: &str, count: usize) {
    match (count, status.as_object_mut()) {
        (0, Some(status)) => {
            status.remove(field);
        }
        (count, Some(status)) => {
            status.insert(field.into(), count.into());
        }
        (_, None) => *status = json!({ field: count }),
    }
}

/// Sets a condition. `lastTransitionTime` changes only with its status.
pub(crate) fn set_condition(conditions: &mut Vec<Value>, mut condition: Value, now: Timestamp) {
    condition["lastTransitionTime"] = time(now).into();
    let known = conditions
        .iter_mut()
        .find(|known| known["type"] == condition["type"]);
    match known {
        None => conditions.push(condition),
        Some(known) => {
            if known["status"] == condition["status"] {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            let members = condition.as_object().cloned().unwrap_or_default();
            for (name, value) in members {
                known[name] = value;
            }
        }
    }
}

/// How a percentage becomes a number of Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PercentRounding {
    Down,
    Up,
}

/// The number of Pods that a number or a percentage of `total` means; `None` if the value is absent or neither. Mirrors
/// `apimachinery/pkg/util/intstr`.
pub(crate) fn scaled(value: &Value, total: usize, rounding: PercentRounding) -> Option<usize> {
    if let Some(number) = value.as_i64() {
        return Some(usize::try_from(number).unwrap_or(0));
    }
    let percent: usize = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.checked_mul(total)?;
    Some(match rounding {
        PercentRounding::Down => hundredths / 100,
        PercentRounding::Up => hundredths.div_ceil(100),
    })
}

/// The first of the numbered names of an owner that is not in use.
pub(crate) fn free_name(
    cache: &ObjectCache,
    owner: &ObjectSnapshot,
    named: GroupResource,
) -> String {
    let namespace = &owner.meta().namespace;
    let mut names = (0..).map(|number| numbered(owner, number));
    let key = |name: &String| NamespacedName::new(namespace, name);
    let free = names.find(|name| cache.get(named, &key(name)).is_none());
    free.expect("there are more names than objects")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_contain_only_changes() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!(null), json!({"a": 1}), Some(json!({"a": 1}))),
            (
                json!({"a": 1, "b": {"c": 1, "d": 1}}),
                json!({"b": {"c": 2, "d": 1}}),
                Some(json!({"a": null, "b": {"c": 2}})),
            ),
            (
                json!({"l": [1]}),
                json!({"l": [1, 2]}),
                Some(json!({"l": [1, 2]})),
            ),
        ];
        for (is, wanted, patch) in cases {
            assert_eq!(difference(&is, &wanted), patch, "{is} -> {wanted}");
        }
    }

    #[test]
    fn condition_keeps_its_time_while_its_status_is_unchanged() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::constant(60, 0));
        let mut conditions = Vec::new();
        let said = |status: &str, reason: &str| json!({"type": "Ready", "status": status, "reason": reason});
        set_condition(&mut conditions, said("False", "a"), first);
        set_condition(&mut conditions, said("False", "b"), second);
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(conditions[0]["reason"], "b");
        set_condition(&mut conditions, said("True", "c"), second);
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn generated_names_are_deterministic_and_distinct() {
        let names: std::collections::BTreeSet<String> = (0..1000)
            .map(|number| hashed(&format!("u/{number}")))
            .collect();
        assert_eq!(names.len(), 1000);
        assert_eq!(hashed("u/0"), hashed("u/0"));
        assert!(names.iter().all(|name| name.len() == SUFFIX_LENGTH));
    }
}
