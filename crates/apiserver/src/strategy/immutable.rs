//! What may not change once it is written, and the few rules about contents that clients and controllers rely on.
//!
//! Mirrors the parts of upstream's validation, 1.36, that guard identity: selectors, types, data that was frozen.
//! DEVIATION(validation): the rest of specs is not validated, and messages carry no diff of the two specs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use caretaker_machinery::status::Cause;
use serde_json::{Map, Value, json};

use super::pod;
use crate::kinds::Kind;
use crate::metadata::Tree;

/// All data of a ConfigMap or Secret together.
const DATA_BYTES_MAX: usize = 1024 * 1024;
/// Longest key of such data.
const KEY_BYTES_MAX: usize = 253;

const IMMUTABLE: &str = "field is immutable";
const MISMATCH: &str = "`selector` does not match template `labels`";
/// Fields that keep their value, by group and resource.
const KEPT: [(&str, &str, &str); 12] = [
    ("", "secrets", "/type"),
    ("apps", "daemonsets", "/spec/selector"),
    ("apps", "deployments", "/spec/selector"),
    ("apps", "replicasets", "/spec/selector"),
    ("batch", "jobs", "/spec/backoffLimitPerIndex"),
    ("batch", "jobs", "/spec/completionMode"),
    ("batch", "jobs", "/spec/completions"),
    ("batch", "jobs", "/spec/managedBy"),
    ("batch", "jobs", "/spec/podFailurePolicy"),
    ("batch", "jobs", "/spec/selector"),
    ("batch", "jobs", "/spec/successPolicy"),
    ("batch", "jobs", "/spec/template"),
];
/// What may change of a StatefulSet's spec.
const STATEFUL: [&str; 7] = [
    "minReadySeconds",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "replicas",
    "revisionHistoryLimit",
    "template",
    "updateStrategy",
];
const STATEFUL_FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const CLAIM_FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const BAD_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

pub(super) fn faults(kind: &Kind, new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.custom.is_some() {
        return causes;
    }
    let (group, plural) = (kind.group.as_str(), kind.plural.as_str());
    match (group, plural) {
        ("", "configmaps" | "secrets") => data_faults(plural, new, old, &mut causes),
        ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("", "replicationcontrollers")
        | ("batch", "jobs") => causes.extend(mismatch(new)),
        _ => {}
    }
    // Those of a CronJob have their place among its other faults.
    if (group, plural) != ("batch", "cronjobs") {
        causes.extend(template_faults(group, plural, new));
    }
    let Some(old) = old else {
        return causes;
    };
    let kept = KEPT
        .iter()
        .filter(|row| (row.0, row.1) == (group, plural))
        .filter(|row| group != "batch" || !may_change(row.2, new, old));
    causes.extend(kept.filter_map(|(_, _, path)| changed(path, new, old)));
    match (group, plural) {
        ("", "pods") => causes.extend(pod::faults(new, old)),
        ("", "persistentvolumeclaims") => causes.extend(claim_faults(new, old)),
        ("apps", "statefulsets") => causes.extend(stateful_faults(new, old)),
        ("rbac.authorization.k8s.io", "clusterrolebindings" | "rolebindings") => {
            causes.extend(role_faults(new, old));
        }
        ("scheduling.k8s.io", "priorityclasses") if new.get("value") != old.get("value") => {
            let why = "may not be changed in an update.";
            causes.push(Cause::forbidden("value", why));
        }
        _ => {}
    }
    causes
}

/// A value inside an object, by its JSON pointer; null if it is not there.
fn at<'a>(object: &'a Tree, path: &str) -> &'a Value {
    let mut parts = path.split('/').skip(1);
    let first = parts.next().and_then(|part| object.get(part));
    let value = parts.try_fold(first.unwrap_or(&Value::Null), |value, part| value.get(part));
    value.unwrap_or(&Value::Null)
}

fn changed(path: &str, new: &Tree, old: &Tree) -> Option<Cause> {
    let value = at(new, path);
    let field = path.trim_start_matches('/').replace('/', ".");
    (value != at(old, path)).then(|| Cause::invalid(field, value, IMMUTABLE))
}

/// A Job that waits may get another template; one that grows with its parallelism, another number of completions.
fn may_change(path: &str, new: &Tree, old: &Tree) -> bool {
    let spec = |job: &Tree, field: &str| at(job, &format!("/spec/{field}")).clone();
    let elastic = |job: &Tree| spec(job, "completions") == spec(job, "parallelism");
    match path {
        "/spec/template" => spec(old, "suspend") == json!(true),
        "/spec/completions" => {
            spec(new, "completionMode") == json!("Indexed") && elastic(old) && elastic(new)
        }
        _ => false,
    }
}

/// What a workload makes must be what it selects.
fn mismatch(object: &Tree) -> Option<Cause> {
    let selector = at(object, "/spec/selector");
    let labels = at(object, "/spec/template/metadata/labels");
    let selects = match selector.as_object()? {
        map if map.values().all(Value::is_string) => includes(labels, selector),
        _ => {
            let expressions = selector["matchExpressions"].as_array();
            includes(labels, &selector["matchLabels"])
                && expressions
                    .into_iter()
                    .flatten()
                    .all(|expression| holds(expression, labels))
        }
    };
    let field = "spec.template.metadata.labels";
    (!selects).then(|| Cause::invalid(field, labels, MISMATCH))
}

fn includes(labels: &Value, wanted: &Value) -> bool {
    let wanted = wanted.as_object().into_iter().flatten();
    let mut wanted = wanted.map(|(key, value)| labels.get(key) == Some(value));
    wanted.all(|same| same)
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let label = labels.get(expression["key"].as_str().unwrap_or_default());
    let values = expression["values"].as_array();
    let listed = label.is_some_and(|label| values.is_some_and(|values| values.contains(label)));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => true,
    }
}

/// A Pod, or what makes some, needs containers, and a volume is one thing.
pub(super) fn template_faults(group: &str, plural: &str, object: &Tree) -> Vec<Cause> {
    let path = match (group, plural) {
        ("", "pods") => "/spec",
        ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("", "replicationcontrollers")
        | ("batch", "jobs") => "/spec/template/spec",
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template/spec",
        _ => return Vec::new(),
    };
    let (spec, mut causes) = (at(object, path), Vec::new());
    let place = path.trim_start_matches('/').replace('/', ".");
    for (index, volume) in spec["volumes"].as_array().into_iter().flatten().enumerate() {
        let sources = volume.as_object().into_iter().flat_map(Map::keys);
        if let Some(second) = sources.filter(|field| *field != "name").nth(1) {
            let field = format!("{place}.volumes[{index}].{second}");
            let why = "may not specify more than 1 volume type";
            causes.push(Cause::forbidden(field, why));
        }
    }
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        causes.push(Cause::required(format!("{place}.containers"), ""));
    }
    causes
}

fn stateful_faults(new: &Tree, old: &Tree) -> Option<Cause> {
    let mut spec = at(new, "/spec").clone();
    for field in STATEFUL {
        put_back(&mut spec, at(old, "/spec"), field);
    }
    (spec != *at(old, "/spec")).then(|| Cause::forbidden("spec", STATEFUL_FIXED))
}

/// A claim is bound once, and only then may it grow.
fn claim_faults(new: &Tree, old: &Tree) -> Option<Cause> {
    let was = at(old, "/spec");
    let mut spec = at(new, "/spec").clone();
    for field in ["storageClassName", "volumeName"] {
        if was.get(field).is_none() {
            put_back(&mut spec, was, field);
        }
    }
    if at(old, "/status/phase") == "Bound" {
        put_back(&mut spec, was, "volumeAttributesClassName");
        put_back(&mut spec, was, "resources");
    }
    (spec != *was).then(|| Cause::forbidden("spec", CLAIM_FIXED))
}

/// Shown in the names of upstream's own type.
fn role_faults(new: &Tree, old: &Tree) -> Option<Cause> {
    let role = at(new, "/roleRef");
    let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
    (role != at(old, "/roleRef")).then(|| Cause::invalid("roleRef", shown, "cannot change roleRef"))
}

/// Sets a member to what it was.
fn put_back(new: &mut Value, old: &Value, field: &str) {
    match (old.get(field), new.as_object_mut()) {
        (Some(value), Some(new)) => {
            new.insert(field.into(), value.clone());
        }
        (None, Some(new)) => {
            new.remove(field);
        }
        (_, None) => {}
    }
}

fn data_faults(plural: &str, new: &Tree, old: Option<&Tree>, causes: &mut Vec<Cause>) {
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
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        let is_text = plural == "configmaps" && field == "data";
        let members = new.get(field).and_then(Value::as_object);
        for (key, value) in members.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default();
            bytes += if is_text {
                value.len()
            } else {
                STANDARD.decode(value).map_or(0, |bytes| bytes.len())
            };
            let place = || format!("{field}[{key}]");
            if let Some(why) = bad_key(key) {
                causes.push(Cause::invalid(place(), key, &why));
            } else if is_text && new.get("binaryData").is_some_and(|d| d.get(key).is_some()) {
                let why = "duplicate of key present in binaryData";
                causes.push(Cause::invalid(place(), key, why));
            }
        }
    }
    if bytes > DATA_BYTES_MAX {
        let field = if plural == "secrets" { "data" } else { "[]" };
        causes.push(Cause::too_long(field, DATA_BYTES_MAX));
    }
}

/// Why a key of such data is none.
fn bad_key(key: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    fn mk_tree(value: Value) -> Tree {
        let Value::Object(tree) = value else {
            panic!("{value} is no object");
        };
        tree
    }

    fn mk_job(mut spec: Value) -> Value {
        if spec.get("template").is_none() {
            spec["template"] = json!({"spec": {"containers": [{"name": "c"}]}});
        }
        json!({"spec": spec})
    }

    fn found(api_version: &str, kind: &str, new: Value, old: Option<Value>) -> Vec<String> {
        let kinds = Kinds::builtin();
        let kind = kinds.by_kind(api_version, kind).unwrap();
        let old = old.map(mk_tree);
        let causes = faults(kind, &mk_tree(new), old.as_ref());
        let shown = causes.iter();
        shown
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn a_selector_stays_and_selects_what_its_template_makes() {
        let workload = |app: &str| {
            json!({"spec": {"selector": {"matchLabels": {"app": app}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}}})
        };
        let labels = "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`";
        let selector =
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable";
        for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
            let same = found("apps/v1", kind, workload("a"), Some(workload("a")));
            assert!(same.is_empty(), "{kind}: {same:?}");
            let other = found("apps/v1", kind, workload("b"), Some(workload("a")));
            assert_eq!(other, [labels, selector], "{kind}");
            assert_eq!(found("apps/v1", kind, workload("b"), None), [labels]);
        }
        let stateful = found("apps/v1", "StatefulSet", workload("b"), Some(workload("a")));
        assert_eq!(stateful.len(), 2);
        assert_eq!(stateful[1], format!("spec: Forbidden: {STATEFUL_FIXED}"));
    }

    #[test]
    fn expressions_of_a_selector_count() {
        let labels = json!({"app": "a"});
        let cases = [
            ("In", json!(["a", "b"]), true),
            ("In", json!(["b"]), false),
            ("NotIn", json!(["b"]), true),
            ("Exists", json!(null), true),
            ("DoesNotExist", json!(null), false),
        ];
        for (operator, values, expected) in cases {
            let expression = json!({"key": "app", "operator": operator, "values": values});
            assert_eq!(holds(&expression, &labels), expected, "{expression}");
        }
    }

    #[test]
    fn jobs_secrets_roles_and_claims_keep_what_they_are() {
        let cases = [
            (
                "batch/v1",
                "Job",
                mk_job(json!({"completions": 5})),
                mk_job(json!({"completions": 1})),
                Some("spec.completions: Invalid value: 5: field is immutable"),
            ),
            (
                "batch/v1",
                "Job",
                mk_job(json!({"completionMode": "Indexed", "completions": 5, "parallelism": 5})),
                mk_job(json!({"completionMode": "Indexed", "completions": 1, "parallelism": 1})),
                None,
            ),
            (
                "batch/v1",
                "Job",
                mk_job(
                    json!({"suspend": false, "template": {"spec": {"containers": [{"name": "d"}]}}}),
                ),
                mk_job(json!({"suspend": true})),
                None,
            ),
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
                json!({"roleRef": {"apiGroup": "g", "kind": "Role", "name": "b"}}),
                json!({"roleRef": {"apiGroup": "g", "kind": "Role", "name": "a"}}),
                Some(
                    "roleRef: Invalid value: {\"APIGroup\":\"g\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot change roleRef",
                ),
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"volumeName": "v"}}),
                json!({"spec": {}}),
                None,
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"volumeName": "w"}}),
                json!({"spec": {"volumeName": "v"}}),
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
    fn a_pod_has_containers_and_its_volumes_are_one_thing_each() {
        let spec = json!({"containers": [], "volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}]});
        let expected = [
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
            "spec.containers: Required value",
        ];
        assert_eq!(found("v1", "Pod", json!({"spec": spec}), None), expected);
        let job = mk_tree(json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}));
        let causes = template_faults("batch", "cronjobs", &job);
        let field = "spec.jobTemplate.spec.template.spec.containers";
        assert_eq!(causes, [Cause::required(field, "")]);
    }

    #[test]
    fn keys_of_data_are_plain_and_not_repeated() {
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
    fn data_counts_as_the_bytes_it_holds() {
        let text = "x".repeat(DATA_BYTES_MAX);
        let bytes = STANDARD.encode(&text);
        assert!(found("v1", "ConfigMap", json!({"data": {"a": text}}), None).is_empty());
        assert!(found("v1", "Secret", json!({"data": {"a": bytes}}), None).is_empty());
        let more = STANDARD.encode(format!("{text}x"));
        let causes = found("v1", "Secret", json!({"data": {"a": more}}), None);
        assert_eq!(causes.len(), 1);
    }
}
