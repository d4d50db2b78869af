//! What actors write: requests with what was judged in them, owners, conditions, names, and patches that say only what
//! changes.

use caretaker_controllers::runtime::call::{Call, PatchForm, Target};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::world::{Key, Named, Object, World};

/// Characters of generated names: upstream's, without those that make words or look alike.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many of them.
const SUFFIX_LENGTH: usize = 5;

/// A time as objects have it: whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

/// The time at a place of an object.
pub(crate) fn time_at(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// So many seconds later; never before or after all times.
pub(crate) fn later(at: Timestamp, secs: i64) -> Timestamp {
    let by = jiff::SignedDuration::from_secs(secs);
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// A name for the `number`th object of an owner: always the same one, so that making it twice is found out.
pub(crate) fn numbered(owner: &Object, number: usize) -> String {
    let meta = owner.meta();
    let suffix = hashed(&format!("{}/{number}", meta.uid));
    format!("{}-{suffix}", meta.name)
}

/// A few characters that stand for a text.
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

/// A number that stands for a text: FNV-1a with its bits mixed, the same on every machine.
pub(crate) fn hash(text: &str) -> u64 {
    let mixed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// Makes an object of `named` in the owner's namespace that belongs to it. None while the kind is not served.
pub(crate) fn create(
    world: &World,
    owner: &Object,
    named: Named,
    name: &str,
    object: Value,
) -> Option<Call> {
    let (id, kind) = world.served(named)?;
    let owning = world.kind(owner.kind())?;
    let mut object = object;
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = (*kind.kind).into();
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = (*owner.meta().namespace).into();
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owning.api_version(), "kind": &*owning.kind, "name": &*owner.meta().name,
        "uid": owner.meta().uid.to_string(), "controller": true, "blockOwnerDeletion": true,
    }]);
    Some(Call::Create {
        target: Target {
            kind: id,
            namespace: owner.meta().namespace.clone(),
            name: name.into(),
        },
        subresource: None,
        object,
    })
}

/// A Pod after a template: its labels, annotations and spec.
pub(crate) fn pod_of(template: &Value) -> Value {
    let part = |of: &Value| if of.is_null() { json!({}) } else { of.clone() };
    let metadata = &template["metadata"];
    json!({
        "metadata": {"labels": part(&metadata["labels"]), "annotations": part(&metadata["annotations"])},
        "spec": part(&template["spec"]),
    })
}

/// Deletes an object, with the grace that is its own.
pub(crate) fn delete(object: &Object) -> Call {
    Call::Delete {
        target: object.target(),
        judged: object.judged(),
        propagation: None,
        grace_secs: None,
    }
}

/// Changes an object so that `field` (`spec`, `status`) is `wanted`; nothing if it is already. `subresource` says where.
pub(crate) fn change(
    object: &Object,
    subresource: Option<&'static str>,
    field: &str,
    wanted: &Value,
) -> Option<Call> {
    let patch = difference(object.at(&format!("/{field}")), wanted)?;
    Some(Call::Patch {
        target: object.target(),
        judged: object.judged(),
        subresource,
        form: PatchForm::Merge,
        patch: json!({ field: patch }),
    })
}

/// Writes a status that is not there yet.
pub(crate) fn write_status(object: &Object, wanted: &Value) -> Option<Call> {
    change(object, Some("status"), "status", wanted)
}

/// The JSON merge patch that makes `wanted` of `is`; nothing if that is what it is.
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

/// Sets a count; one that is zero is left out, as Kubernetes does.
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

/// Sets a condition among `conditions`. Its time is when it last changed between true and false.
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

/// The first name of an owner's numbered objects that nothing has.
pub(crate) fn free_name(world: &World, owner: &Object, named: Named) -> String {
    let namespace = &owner.meta().namespace;
    let mut names = (0..).map(|number| numbered(owner, number));
    let free = names.find(|name| world.get(named, &Key::new(namespace, name)).is_none());
    free.expect("there are more names than objects")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_says_only_what_changes() {
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
    fn a_condition_keeps_its_time_while_it_says_the_same() {
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
    fn names_are_the_same_every_time_and_differ_from_each_other() {
        let names: std::collections::BTreeSet<String> = (0..1000)
            .map(|number| hashed(&format!("u/{number}")))
            .collect();
        assert_eq!(names.len(), 1000);
        assert_eq!(hashed("u/0"), hashed("u/0"));
        assert!(names.iter().all(|name| name.len() == SUFFIX_LENGTH));
    }
}
