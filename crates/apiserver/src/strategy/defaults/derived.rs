//! Defaults that depend on more than the presence or the value of a sibling, so that a row of `defaults.txt` cannot
//! express them: one function for each type that has such defaults.
//!
//! A function runs after the defaults of all nested objects are set.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::each_struct;
use crate::metadata::{self, ObjectTree};

/// Sets the derived defaults of an object.
type CompleteFn = fn(&mut ObjectTree);

/// The functions by type, sorted by name.
const COMPLETE: [(&str, CompleteFn); 16] = [
    ("apps.v1.StatefulSetSpec", claim_templates),
    ("batch.v1.Job", job),
    ("core.v1.Container", pull_policy),
    ("core.v1.EphemeralContainer", pull_policy),
    ("core.v1.ImageVolumeSource", volume_pull_policy),
    ("core.v1.LimitRangeItem", limit_range_item),
    ("core.v1.NodeSpec", pod_cidrs),
    ("core.v1.NodeStatus", node_status),
    ("core.v1.Pod", pod),
    ("core.v1.PodSpec", service_account),
    ("core.v1.PodStatus", pod_ips),
    ("core.v1.ReplicationController", replication_controller),
    ("core.v1.Secret", secret),
    ("core.v1.ServicePort", target_port),
    ("core.v1.ServiceSpec", service_spec),
    ("core.v1.Volume", volume),
];

/// Sets the derived defaults of an object of type `of`.
pub(super) fn complete(of: &str, object: &mut ObjectTree) {
    if let Ok(at) = COMPLETE.binary_search_by_key(&of, |(name, _)| name) {
        COMPLETE[at].1(object);
    }
}

/// Sets apiVersion and kind of the claim templates of a StatefulSet.
fn claim_templates(spec: &mut ObjectTree) {
    let templates = spec.get_mut("volumeClaimTemplates");
    each_struct(templates.unwrap_or(&mut Value::Null), |claim| {
        claim.insert("apiVersion".into(), "v1".into());
        claim.insert("kind".into(), "PersistentVolumeClaim".into());
    });
}

/// Copies the labels of the template to a Job without labels.
fn job(job: &mut ObjectTree) {
    if let Some(labels) = template_labels(job) {
        label(job, labels);
    }
}

/// Uses the labels of the template as absent labels and absent selector.
fn replication_controller(controller: &mut ObjectTree) {
    let Some(labels) = template_labels(controller) else {
        return;
    };
    if let Some(Value::Object(spec)) = controller.get_mut("spec") {
        let selector = spec.entry("selector").or_insert(Value::Null);
        if selector.is_null() {
            *selector = labels.clone();
        }
    }
    label(controller, labels);
}

fn template_labels(object: &ObjectTree) -> Option<Value> {
    let labels = object.get("spec")?.pointer("/template/metadata/labels")?;
    Some(labels.clone())
}

fn label(object: &mut ObjectTree, labels: Value) {
    metadata::of(object).entry("labels").or_insert(labels);
}

fn pull_policy(container: &mut ObjectTree) {
    pull_policy_by(container, "image", "imagePullPolicy");
}

fn volume_pull_policy(source: &mut ObjectTree) {
    pull_policy_by(source, "reference", "pullPolicy");
}

/// Sets the pull policy: `Always` for the tag `latest`, which moves, otherwise `IfNotPresent`.
fn pull_policy_by(object: &mut ObjectTree, image: &str, policy: &str) {
    let image = object.get(image).and_then(Value::as_str).unwrap_or("");
    let default = if is_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    object.entry(policy).or_insert_with(|| default.into());
}

/// Reports whether an image has the tag `latest`, or neither tag nor digest. An invalid image name has none.
fn is_latest(image: &str) -> bool {
    let path = match image.split_once('/') {
        Some((first, path)) if is_registry(first) => path,
        _ => image,
    };
    let last = path.rsplit('/').next().unwrap_or_default();
    let (name, tag) = match last.split_once(':') {
        Some((_, tag)) => (&path[..path.len() - tag.len() - 1], tag),
        None => (path, "latest"),
    };
    let mut parts = name.split('/');
    !image.contains('@') && tag == "latest" && parts.all(is_repository_part)
}

/// Reports whether the first part of an image name names a registry instead of a directory of the default one.
fn is_registry(part: &str) -> bool {
    let is_marked = |byte: u8| matches!(byte, b'.' | b':') || byte.is_ascii_uppercase();
    part == "localhost" || part.bytes().any(is_marked)
}

/// Reports whether this is a part of a repository's name: lower-case words with separators between them.
fn is_repository_part(part: &str) -> bool {
    let mut words = part.split(['.', '_', '-']);
    let is_word_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [part.bytes().next(), part.bytes().last()];
    words.all(|word| word.bytes().all(is_word_byte))
        && ends.into_iter().all(|end| end.is_some_and(is_word_byte))
}

/// Derives the defaults of a limit range for containers from its maxima, minima and default limits.
fn limit_range_item(item: &mut ObjectTree) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    let amounts =
        |item: &ObjectTree, field: &str| item.get(field).and_then(Value::as_object).cloned();
    for (into, from) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        add_missing(item, into, amounts(item, from));
    }
}

fn node_status(status: &mut ObjectTree) {
    if let (Some(capacity), None) = (status.get("capacity"), status.get("allocatable")) {
        status.insert("allocatable".into(), capacity.clone());
    }
}

/// Derives absent requests from limits, and the host ports of a Pod in the host network from its container ports.
fn pod(pod: &mut ObjectTree) {
    let Some(Value::Object(spec)) = pod.get_mut("spec") else {
        return;
    };
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for field in ["containers", "initContainers"] {
        each_struct(
            spec.get_mut(field).unwrap_or(&mut Value::Null),
            |container| {
                if let Some(Value::Object(resources)) = container.get_mut("resources") {
                    let limits = resources.get("limits").and_then(Value::as_object).cloned();
                    add_missing(resources, "requests", limits);
                }
                let ports = container.get_mut("ports").filter(|_| on_host);
                each_struct(ports.unwrap_or(&mut Value::Null), |port| {
                    if let (Some(number), None) = (port.get("containerPort"), port.get("hostPort"))
                    {
                        port.insert("hostPort".into(), number.clone());
                    }
                });
            },
        );
    }
}

/// Adds the quantities that the map in `field` lacks.
fn add_missing(object: &mut ObjectTree, field: &str, amounts: Option<Map<String, Value>>) {
    let Some(amounts) = amounts.filter(|amounts| !amounts.is_empty()) else {
        return;
    };
    let slot = object.entry(field).or_insert_with(|| json!({}));
    if let Some(slot) = slot.as_object_mut() {
        for (name, amount) in amounts {
            slot.entry(name).or_insert(amount);
        }
    }
}

/// Keeps the old field of the service account equal to the new one.
fn service_account(spec: &mut ObjectTree) {
    let name = spec
        .get("serviceAccountName")
        .or(spec.get("serviceAccount"));
    if let Some(name) = name.cloned() {
        spec.insert("serviceAccount".into(), name.clone());
        spec.insert("serviceAccountName".into(), name);
    }
}

/// Keeps `podIP` equal to the first of `podIPs`.
fn pod_ips(status: &mut ObjectTree) {
    let first = status.get("podIPs").and_then(|ips| ips.get(0)?.get("ip"));
    match (first.cloned(), status.get("podIP").cloned()) {
        (Some(first), None) => {
            status.insert("podIP".into(), first);
        }
        (first, Some(ip)) if first.as_ref() != Some(&ip) => {
            status.insert("podIPs".into(), json!([{"ip": ip}]));
        }
        _ => {}
    }
}

/// Moves `stringData` into `data`, encoded as base64.
fn secret(secret: &mut ObjectTree) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    let data = secret.entry("data").or_insert_with(|| json!({}));
    if let Some(data) = data.as_object_mut() {
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default();
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

fn target_port(port: &mut ObjectTree) {
    let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
    port.entry("targetPort").or_insert(number);
}

/// Completes what depends on external IPs, and drops what only session affinity needs.
fn service_spec(spec: &mut ObjectTree) {
    let external = spec.get("externalIPs").and_then(Value::as_array);
    if external.is_some_and(|ips| !ips.is_empty()) && is_text(spec, "type", "ClusterIP") {
        spec.entry("externalTrafficPolicy")
            .or_insert_with(|| "Cluster".into());
    }
    if is_text(spec, "sessionAffinity", "None") {
        spec.remove("sessionAffinityConfig");
    }
}

fn is_text(object: &ObjectTree, field: &str, text: &str) -> bool {
    object.get(field).and_then(Value::as_str) == Some(text)
}

/// Keeps `podCIDR` equal to the first of `podCIDRs`.
fn pod_cidrs(spec: &mut ObjectTree) {
    sync_first(spec, "podCIDR", "podCIDRs");
}

/// Keeps a single field and the first element of its list equal; the one that is present sets the other.
fn sync_first(object: &mut ObjectTree, one: &str, all: &str) {
    let first = object.get(all).and_then(|list| list.get(0)).cloned();
    match (first, object.get(one).cloned()) {
        (Some(first), None) => {
            object.insert(one.into(), first);
        }
        (None, Some(value)) => {
            object.insert(all.into(), json!([value]));
        }
        _ => {}
    }
}

/// A volume without a source is an empty directory.
fn volume(volume: &mut ObjectTree) {
    if volume.keys().all(|field| field == "name") {
        volume.insert("emptyDir".into(), json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(of: &str, object: Value) -> Value {
        let Value::Object(mut object) = object else {
            panic!("{object} is no object");
        };
        complete(of, &mut object);
        Value::Object(object)
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(COMPLETE.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn pulls_always_without_a_fixed_tag() {
        let cases = [
            ("x", "Always"),
            ("x:latest", "Always"),
            ("host:5000/x", "Always"),
            ("x:1", "IfNotPresent"),
            ("host:5000/x:1", "IfNotPresent"),
            ("x@sha256:1", "IfNotPresent"),
            ("", "IfNotPresent"),
            ("localhost/a/x", "Always"),
            ("Host/x_y-z", "Always"),
            ("a/B", "IfNotPresent"),
            ("no such image", "IfNotPresent"),
            ("-x", "IfNotPresent"),
        ];
        for (image, policy) in cases {
            let container = completed("core.v1.Container", json!({"image": image}));
            assert_eq!(container["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn string_data_replaces_data_of_a_secret() {
        let secret = json!({"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "new"}});
        assert_eq!(
            completed("core.v1.Secret", secret),
            json!({"data": {"a": "YQ==", "b": "bmV3"}})
        );
    }

    #[test]
    fn objects_without_labels_get_those_of_the_template() {
        let template = json!({"metadata": {"labels": {"app": "a"}}});
        let controller = completed(
            "core.v1.ReplicationController",
            json!({"metadata": {}, "spec": {"template": template}}),
        );
        assert_eq!(controller["metadata"]["labels"], json!({"app": "a"}));
        assert_eq!(controller["spec"]["selector"], json!({"app": "a"}));
        let job = completed(
            "batch.v1.Job",
            json!({"metadata": {"labels": {"own": "x"}}, "spec": {"template": template}}),
        );
        assert_eq!(job["metadata"]["labels"], json!({"own": "x"}));
    }

    #[test]
    fn limit_range_derives_defaults_from_limits() {
        let item =
            json!({"type": "Container", "max": {"cpu": "500m"}, "min": {"memory": "1000Ki"}});
        let item = completed("core.v1.LimitRangeItem", item);
        assert_eq!(item["default"], json!({"cpu": "500m"}));
        assert_eq!(
            item["defaultRequest"],
            json!({"cpu": "500m", "memory": "1000Ki"})
        );
    }

    #[test]
    fn services_with_external_ips_have_a_policy_and_no_affinity_needs_no_timeout() {
        let given = json!({"type": "ClusterIP", "externalIPs": ["192.0.2.1"], "sessionAffinity": "None",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}});
        let expected = json!({"type": "ClusterIP", "externalIPs": ["192.0.2.1"], "sessionAffinity": "None",
            "externalTrafficPolicy": "Cluster"});
        assert_eq!(completed("core.v1.ServiceSpec", given), expected);
        let given = json!({"type": "ClusterIP", "externalIPs": [], "sessionAffinity": "ClientIP"});
        assert_eq!(completed("core.v1.ServiceSpec", given.clone()), given);
    }

    #[test]
    fn single_field_and_list_stay_equal() {
        let both = json!({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]});
        for given in [
            json!({"podCIDR": "10.1.0.0/24"}),
            json!({"podCIDRs": ["10.1.0.0/24"]}),
        ] {
            assert_eq!(completed("core.v1.NodeSpec", given), both);
        }
    }

    #[test]
    fn pod_ip_and_pod_ips_stay_equal() {
        let cases = [
            (
                json!({"podIP": "1"}),
                json!({"podIP": "1", "podIPs": [{"ip": "1"}]}),
            ),
            (
                json!({"podIPs": [{"ip": "1"}]}),
                json!({"podIP": "1", "podIPs": [{"ip": "1"}]}),
            ),
            (json!({}), json!({})),
        ];
        for (given, expected) in cases {
            assert_eq!(completed("core.v1.PodStatus", given), expected);
        }
    }
}
