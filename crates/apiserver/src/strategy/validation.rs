//! Small rules of built-in kinds, and the checks that several strategies share.
//!
//! Mirrors the parts of upstream's validation, 1.36, that guard identity: types, bound claims, immutable data.
//! DEVIATION(validation): the rest of specs is not validated, and messages carry no diff of the two specs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use caretaker_machinery::status::StatusCause;
use serde_json::{Value, json};

use super::{KindStrategy, ObjectChange};
use crate::metadata::{self, ObjectTree, value_at};

/// Most bytes of all data of a ConfigMap or Secret.
const DATA_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes of a key of that data.
const KEY_BYTES_MAX: usize = 253;

const IMMUTABLE: &str = "field is immutable";
const NEGATIVE: &str = "must be greater than or equal to 0";
const CLAIM_FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const BAD_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// ConfigMaps and Secrets: data of limited size, which may be immutable.
#[derive(Debug)]
pub(super) struct ConfigDataStrategy {
    /// JSON pointers to fields that keep their value.
    immutable: &'static [&'static str],
    /// `data` holds text, not base64.
    is_text: bool,
    /// The field that messages about the size name.
    size_field: &'static str,
}

pub(super) static CONFIG_MAP: ConfigDataStrategy = ConfigDataStrategy {
    immutable: &[],
    is_text: true,
    size_field: "[]",
};
pub(super) static SECRET: ConfigDataStrategy = ConfigDataStrategy {
    immutable: &["/type"],
    is_text: false,
    size_field: "data",
};

/// PersistentVolumeClaims: a claim is bound once, and may grow only after that.
#[derive(Debug)]
pub(super) struct VolumeClaimStrategy;

/// RoleBindings and ClusterRoleBindings keep their role.
#[derive(Debug)]
pub(super) struct RoleBindingStrategy;

/// PodDisruptionBudgets: counts in the status are not negative.
#[derive(Debug)]
pub(super) struct DisruptionBudgetStrategy;

// === impl DisruptionBudgetStrategy ===

impl KindStrategy for DisruptionBudgetStrategy {
    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let counts = [
            "disruptionsAllowed",
            "currentHealthy",
            "desiredHealthy",
            "expectedPods",
        ];
        negative_faults(value_at(change.new, "/status"), "status", &counts)
    }
}

// === impl ConfigDataStrategy ===

impl KindStrategy for ConfigDataStrategy {
    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let mut causes = Vec::new();
        if let Some(old) = old {
            causes.extend(frozen_faults(new, old));
        }
        causes.extend(self.data_faults(new));
        if let Some(old) = old {
            causes.extend(immutable_faults(self.immutable, new, old));
        }
        causes
    }
}

impl ConfigDataStrategy {
    fn data_faults(&self, new: &ObjectTree) -> Vec<StatusCause> {
        let mut causes = Vec::new();
        let mut bytes = 0;
        for field in ["data", "binaryData"] {
            let is_text = self.is_text && field == "data";
            let members = new.get(field).and_then(Value::as_object);
            for (key, value) in members.into_iter().flatten() {
                let value = value.as_str().unwrap_or_default();
                bytes += if is_text {
                    value.len()
                } else {
                    STANDARD.decode(value).map_or(0, |bytes| bytes.len())
                };
                let path = || format!("{field}[{key}]");
                if let Some(why) = key_fault(key) {
                    causes.push(StatusCause::invalid(path(), key, &why));
                } else if is_text && new.get("binaryData").is_some_and(|d| d.get(key).is_some()) {
                    let why = "duplicate of key present in binaryData";
                    causes.push(StatusCause::invalid(path(), key, why));
                }
            }
        }
        if bytes > DATA_BYTES_MAX {
            causes.push(StatusCause::too_long(self.size_field, DATA_BYTES_MAX));
        }
        causes
    }
}

fn frozen_faults(new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
    let frozen = |tree: &ObjectTree| tree.get("immutable") == Some(&Value::Bool(true));
    if !frozen(old) {
        return Vec::new();
    }
    let changed = |field: &&str| match *field {
        "immutable" => !frozen(new),
        field => old.get(field) != new.get(field),
    };
    let why = "field is immutable when `immutable` is set";
    ["immutable", "data", "binaryData"]
        .into_iter()
        .filter(changed)
        .map(|field| StatusCause::forbidden(field, why))
        .collect()
}

/// Returns why a key of config data is refused.
fn key_fault(key: &str) -> Option<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match key {
        key if key.len() > KEY_BYTES_MAX => {
            Some(format!("must be no more than {KEY_BYTES_MAX} characters"))
        }
        key if key.is_empty() || !key.bytes().all(known) => Some(BAD_KEY.into()),
        "." => Some("must not be '.'".into()),
        ".." => Some("must not be '..'".into()),
        key if key.starts_with("..") => Some("must not start with '..'".into()),
        _ => None,
    }
}

// === impl VolumeClaimStrategy ===

impl KindStrategy for VolumeClaimStrategy {
    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let Some(old) = old else {
            return Vec::new();
        };
        let was = value_at(old, "/spec");
        let mut spec = value_at(new, "/spec").clone();
        for field in ["storageClassName", "volumeName"] {
            if was.get(field).is_none() {
                restore_field(&mut spec, was, field);
            }
        }
        if value_at(old, "/status/phase") == "Bound" {
            restore_field(&mut spec, was, "volumeAttributesClassName");
            restore_field(&mut spec, was, "resources");
        }
        let fault = (spec != *was).then(|| StatusCause::forbidden("spec", CLAIM_FIXED));
        fault.into_iter().collect()
    }
}

// === impl RoleBindingStrategy ===

impl KindStrategy for RoleBindingStrategy {
    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let role = value_at(new, "/roleRef");
        if old.is_none_or(|old| value_at(old, "/roleRef") == role) {
            return Vec::new();
        }
        // Upstream shows the field names of its own type.
        let shown =
            json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        let why = "cannot change roleRef";
        vec![StatusCause::invalid("roleRef", shown, why)]
    }
}

/// Returns a cause for each of these JSON pointers whose value has changed.
pub(super) fn immutable_faults(
    paths: &[&str],
    new: &ObjectTree,
    old: &ObjectTree,
) -> Vec<StatusCause> {
    let changed = paths
        .iter()
        .filter(|path| value_at(new, path) != value_at(old, path));
    changed
        .map(|path| {
            let field = path.trim_start_matches('/').replace('/', ".");
            StatusCause::invalid(field, value_at(new, path), IMMUTABLE)
        })
        .collect()
}

/// Sets a member to the value that it has in `old`.
pub(super) fn restore_field(new: &mut Value, old: &Value, field: &str) {
    if let Some(new) = new.as_object_mut() {
        metadata::set(new, field, old.get(field).cloned());
    }
}

/// Returns a cause for each of these members of the object at `path` that is below zero.
pub(super) fn negative_faults(object: &Value, path: &str, fields: &[&str]) -> Vec<StatusCause> {
    let below = fields.iter().filter_map(|field| {
        let value = object[*field].as_i64().filter(|value| *value < 0)?;
        let at = format!("{path}.{field}");
        Some(StatusCause::invalid(at, value, NEGATIVE))
    });
    below.collect()
}

/// Returns a cause if a member of the object at `path` is none of the supported values.
pub(super) fn unsupported_fault(
    object: &Value,
    path: &str,
    field: &str,
    supported: &[&str],
) -> Option<StatusCause> {
    let word = object[field]
        .as_str()
        .filter(|word| !supported.contains(word))?;
    let field = format!("{path}.{field}");
    Some(StatusCause::not_supported(field, word, supported))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kinds::KindTable;
    use crate::strategy::ObjectPart;
    use crate::strategy::cronjob::tests::mk_tree;

    const RBAC: &str = "rbac.authorization.k8s.io";

    /// Returns the causes with which the strategy of a built-in kind refuses a write to an object.
    pub(crate) fn found(
        api_version: &str,
        kind: &str,
        new: Value,
        old: Option<Value>,
    ) -> Vec<String> {
        let kinds = KindTable::builtin();
        let kind = kinds.by_kind(api_version, kind).unwrap();
        let old = old.map(mk_tree);
        let change = ObjectChange {
            kind,
            part: ObjectPart::Main,
            new: &mk_tree(new),
            old: old.as_ref(),
        };
        let mut causes = crate::checks::faults(&change);
        causes.extend(kind.strategy.validate(&change));
        let shown = causes.iter();
        shown
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    fn claim(change: &Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({ "spec": spec })
    }

    #[test]
    fn refuses_changes_of_immutable_fields() {
        let cases = [
            (
                "v1",
                "Secret",
                json!({"type": "x"}),
                json!({"type": "Opaque"}),
                Some("type: Invalid value: \"x\": field is immutable"),
            ),
            (
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                json!({"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "b"}}),
                json!({"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "a"}}),
                Some(
                    "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot change roleRef",
                ),
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                claim(&json!({"volumeName": "v"})),
                claim(&json!({})),
                None,
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                claim(&json!({"volumeName": "w"})),
                claim(&json!({"volumeName": "v"})),
                Some(
                    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
                ),
            ),
            (
                "scheduling.k8s.io/v1",
                "PriorityClass",
                json!({"value": 2}),
                json!({"value": 1}),
                Some("value: Forbidden: may not be changed in an update."),
            ),
        ];
        for (api_version, kind, new, old, expected) in cases {
            let causes = found(api_version, kind, new, Some(old));
            assert_eq!(causes, expected.into_iter().collect::<Vec<_>>(), "{kind}");
        }
    }

    #[test]
    fn refuses_invalid_and_duplicate_data_keys() {
        let causes = found(
            "v1",
            "ConfigMap",
            json!({"data": {"a": "x", "b!": "y", "..": "z"}, "binaryData": {"a": "YQ=="}}),
            None,
        );
        let mut starts: Vec<&str> = causes.iter().map(|cause| &cause[..7]).collect();
        starts.sort_unstable();
        assert_eq!(starts, ["data[..", "data[a]", "data[b!"]);
        assert!(causes.iter().any(|cause| cause.ends_with(BAD_KEY)));
    }

    #[test]
    fn data_size_is_that_of_the_decoded_bytes() {
        let text = "x".repeat(DATA_BYTES_MAX);
        let bytes = STANDARD.encode(&text);
        assert!(found("v1", "ConfigMap", json!({"data": {"a": text}}), None).is_empty());
        assert!(found("v1", "Secret", json!({"data": {"a": bytes}}), None).is_empty());
        let more = STANDARD.encode(format!("{text}x"));
        let causes = found("v1", "Secret", json!({"data": {"a": more}}), None);
        assert_eq!(causes.len(), 1);
    }
}
