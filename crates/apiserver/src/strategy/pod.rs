//! Pods: the defaults that their life depends on.
//!
//! Not the whole of upstream's defaulting: what deletion, phases and selectors read.

use serde_json::{Value, json};

use crate::metadata::Tree;

/// Fields of a Pod's spec that are filled in, and with what.
const DEFAULTS: [(&str, fn() -> Value); 7] = [
    ("dnsPolicy", || json!("ClusterFirst")),
    ("enableServiceLinks", || json!(true)),
    ("preemptionPolicy", || json!("PreemptLowerPriority")),
    ("priority", || json!(0)),
    ("restartPolicy", || json!("Always")),
    ("schedulerName", || json!("default-scheduler")),
    ("terminationGracePeriodSeconds", || json!(30)),
];

pub(super) fn prepare_create(object: &mut Tree) {
    if let Some(spec) = object
        .entry("spec")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        for (field, value) in DEFAULTS {
            spec.entry(field).or_insert_with(value);
        }
    }
    let qos = quality(object.get("spec").unwrap_or(&Value::Null));
    object.insert(
        "status".into(),
        json!({"phase": "Pending", "qosClass": qos}),
    );
}

/// How much of what a Pod may use is promised to it.
fn quality(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .iter()
        .filter_map(|field| spec[*field].as_array())
        .flatten();
    let (mut any, mut all_equal) = (false, true);
    for container in containers {
        let amount = |list: &str, name: &str| container["resources"][list].get(name).cloned();
        for name in ["cpu", "memory"] {
            let (limit, request) = (amount("limits", name), amount("requests", name));
            any |= limit.is_some() || request.is_some();
            let request = request.or_else(|| limit.clone());
            all_equal &= limit.is_some() && limit == request;
        }
    }
    match (any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_follows_requests_and_limits() {
        let spec =
            |resources: Value| json!({"containers": [{"name": "c", "resources": resources}]});
        let full = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(quality(&spec(json!({}))), "BestEffort");
        assert_eq!(quality(&spec(json!({"limits": full}))), "Guaranteed");
        assert_eq!(
            quality(&spec(json!({"limits": full, "requests": full}))),
            "Guaranteed"
        );
        assert_eq!(quality(&spec(json!({"requests": full}))), "Burstable");
        assert_eq!(quality(&spec(json!({"limits": {"cpu": "1"}}))), "Burstable");
    }
}
