//! Counts of replicas in the status of ReplicaSets and Deployments: none is negative, and parts are not more than the
//! whole.
//!
//! Mirrors `ValidateReplicaSetStatus` and `ValidateDeploymentStatus` of upstream's validation, 1.36.

use caretaker_machinery::status::Cause;
use serde_json::Value;

use crate::kinds::Kind;
use crate::metadata::Tree;

/// A count that must not exceed another, and how messages call that one.
type Bound = (&'static str, &'static str, &'static str);

/// Counts by group and resource, in the order in which they are looked at.
const COUNTS: [(&str, &str, &[&str]); 2] = [
    (
        "apps",
        "deployments",
        &[
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ],
    ),
    (
        "apps",
        "replicasets",
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "terminatingReplicas",
        ],
    ),
];

/// What holds for the counts that a kind has.
const BOUNDS: [Bound; 5] = [
    ("fullyLabeledReplicas", "replicas", "status.replicas"),
    ("updatedReplicas", "replicas", "status.replicas"),
    ("readyReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "readyReplicas", "readyReplicas"),
];

/// What is wrong with a status that was changed.
pub(super) fn faults(kind: &Kind, new: &Tree, old: &Tree) -> Vec<Cause> {
    let mut rows = COUNTS.iter();
    let row = rows.find(|row| (row.0, row.1) == (&kind.group, &kind.plural));
    let Some((_, _, counts)) = row.filter(|_| new.get("status") != old.get("status")) else {
        return Vec::new();
    };
    let none = Value::Null;
    let status = new.get("status").unwrap_or(&none);
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let mut causes = Vec::new();
    for field in counts.iter().filter(|field| count(field) < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(place(field), count(field), why));
    }
    for (part, whole, called) in BOUNDS {
        if counts.contains(&part) && count(part) > count(whole) {
            let why = format!("cannot be greater than {called}");
            causes.push(Cause::invalid(place(part), count(part), &why));
        }
    }
    causes
}

fn place(field: &str) -> String {
    format!("status.{field}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;
    use serde_json::json;

    #[test]
    fn parts_are_not_more_than_the_whole() {
        let kinds = Kinds::builtin();
        let tree = |status: &Value| json!({"status": status}).as_object().unwrap().clone();
        let cases = [
            (
                "ReplicaSet",
                json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}),
                vec![],
            ),
            (
                "ReplicaSet",
                json!({"replicas": -1}),
                vec![
                    "status.replicas",
                    "status.fullyLabeledReplicas",
                    "status.readyReplicas",
                    "status.availableReplicas",
                ],
            ),
            (
                "ReplicaSet",
                json!({"fullyLabeledReplicas": 1}),
                vec!["status.fullyLabeledReplicas"],
            ),
            (
                "Deployment",
                json!({"replicas": 2, "updatedReplicas": 3, "availableReplicas": 1}),
                vec!["status.updatedReplicas", "status.availableReplicas"],
            ),
            ("DaemonSet", json!({"replicas": -1}), vec![]),
        ];
        for (kind, status, expected) in cases {
            let kind = kinds.by_kind("apps/v1", kind).unwrap();
            let causes = faults(kind, &tree(&status), &tree(&json!({})));
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, expected, "{status}");
            assert!(faults(kind, &tree(&status), &tree(&status)).is_empty());
        }
    }
}
