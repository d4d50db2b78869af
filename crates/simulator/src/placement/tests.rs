//! Tables of node selectors, affinities and tolerations.

use serde_json::json;

use super::*;
use crate::node::NODES;
use crate::tests::ActorHarness;

fn node(spec: &Value) -> ObjectSnapshot {
    let mut harness = ActorHarness::of(crate::lease::LeaseActor::new(10));
    let node = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"disk": "ssd", "size": "8"}},
        "spec": spec});
    harness.applied(NODES, node);
    harness.snapshot(NODES, "a")
}

fn required(terms: &Value) -> Value {
    let required =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    json!({"affinity": {"nodeAffinity": required}})
}

#[test]
fn selectors_and_affinity_select_nodes() {
    let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let field = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
    let cases = [
        (json!({}), true),
        (json!({"nodeSelector": {"disk": "ssd"}}), true),
        (json!({"nodeSelector": {"disk": "hdd"}}), false),
        (json!({"nodeSelector": {"zone": "x"}}), false),
        (
            required(&json!([expression("disk", "In", json!(["ssd", "x"]))])),
            true,
        ),
        (
            required(&json!([expression("disk", "NotIn", json!(["ssd"]))])),
            false,
        ),
        (
            required(&json!([expression("zone", "DoesNotExist", json!(null))])),
            true,
        ),
        (
            required(&json!([expression("disk", "Exists", json!(null))])),
            true,
        ),
        (
            required(&json!([expression("size", "Gt", json!(["7"]))])),
            true,
        ),
        (
            required(&json!([expression("size", "Lt", json!(["7"]))])),
            false,
        ),
        (
            required(&json!([expression("disk", "Like", json!(["ssd"]))])),
            false,
        ),
        (required(&json!([field("a")])), true),
        (required(&json!([field("b")])), false),
        (required(&json!([field("b"), field("a")])), true),
        (required(&json!([{}])), false),
        (required(&json!([])), false),
    ];
    for (spec, expected) in cases {
        assert_eq!(selects(&spec, &node(&json!({}))), expected, "{spec}");
    }
}

#[test]
fn tolerations_answer_taints() {
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    let cases = [
        (json!([]), false),
        (json!([{"operator": "Exists"}]), true),
        (json!([{"key": "k", "operator": "Exists"}]), true),
        (json!([{"key": "k", "value": "v"}]), true),
        (
            json!([{"key": "k", "operator": "Equal", "value": "w"}]),
            false,
        ),
        (json!([{"key": "other", "operator": "Exists"}]), false),
        (
            json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]),
            false,
        ),
        (
            json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]),
            true,
        ),
        (json!([{"value": "v"}]), false),
        (
            json!([{"key": "k", "operator": "Odd", "value": "v"}]),
            false,
        ),
    ];
    let tainted = node(&json!({"taints": [taint]}));
    for (tolerations, expected) in cases {
        let spec = json!({ "tolerations": tolerations });
        assert_eq!(tolerates(&spec, &tainted, REPELLING), expected, "{spec}");
        assert!(tolerates(&spec, &tainted, EVICTING), "{spec}");
    }
}

#[test]
fn a_cordon_is_tolerated_like_a_taint() {
    let cordoned = node(&json!({"unschedulable": true}));
    let tolerant = json!({"tolerations": [{"key": UNSCHEDULABLE, "operator": "Exists"}]});
    assert!(!tolerates_cordon(&json!({}), &cordoned));
    assert!(tolerates_cordon(&tolerant, &cordoned));
    assert!(tolerates_cordon(&json!({}), &node(&json!({}))));
}
