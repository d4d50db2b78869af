//! Rules of workloads: ReplicaSets, Deployments, DaemonSets, StatefulSets and ReplicationControllers.
//!
//! A selector keeps its value and selects the Pods that the template makes. Counts in the status of ReplicaSets and
//! Deployments are not negative, and a part is not greater than the whole. Mirrors `apps/validation`, 1.36.

use caretaker_machinery::status::StatusCause;
use serde_json::{Map, Value};

use super::validation::{negative_faults, restore_field};
use super::{KindStrategy, ObjectChange, WriteContext, restore_metadata};
use crate::metadata::{self, ObjectTree, value_at};

/// The rules of one workload.
#[derive(Debug)]
pub(super) struct WorkloadStrategy {
    /// The only fields of the spec that may change; none lists them all.
    mutable_spec: Option<&'static [&'static str]>,
    /// Counts in the status, in the order in which they are checked.
    counts: &'static [&'static str],
    /// Metadata that a write to the status does not change.
    status_keeps: &'static [&'static str],
    /// Whether an annotation counts the changes of the template.
    counts_templates: bool,
}

const PLAIN: WorkloadStrategy = WorkloadStrategy {
    mutable_spec: None,
    counts: &[],
    status_keeps: &[],
    counts_templates: false,
};
pub(super) static REPLICATION_CONTROLLER: WorkloadStrategy = PLAIN;
pub(super) static DAEMON_SET: WorkloadStrategy = WorkloadStrategy {
    counts_templates: true,
    ..PLAIN
};
pub(super) static DEPLOYMENT: WorkloadStrategy = WorkloadStrategy {
    counts: &[
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ],
    status_keeps: &["labels"],
    ..PLAIN
};
pub(super) static REPLICA_SET: WorkloadStrategy = WorkloadStrategy {
    counts: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
    ],
    ..PLAIN
};
pub(super) static STATEFUL_SET: WorkloadStrategy = WorkloadStrategy {
    mutable_spec: Some(&[
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "revisionHistoryLimit",
        "template",
        "updateStrategy",
    ]),
    ..PLAIN
};

/// The annotation of a DaemonSet with the number of its template. Clients cannot change it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const STATEFUL_FIXED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

/// A count that must not exceed another, and the name of that one in messages.
type CountBound = (&'static str, &'static str, &'static str);

/// Bounds of the counts, for those that a kind has.
const BOUNDS: [CountBound; 5] = [
    ("fullyLabeledReplicas", "replicas", "status.replicas"),
    ("updatedReplicas", "replicas", "status.replicas"),
    ("readyReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "replicas", "status.replicas"),
    ("availableReplicas", "readyReplicas", "readyReplicas"),
];

// === impl WorkloadStrategy ===

impl KindStrategy for WorkloadStrategy {
    fn prepare_create(&self, object: &mut ObjectTree, _: WriteContext<'_>) {
        if self.counts_templates {
            set_template_generation(object, 1);
        }
    }

    fn prepare_update(&self, old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        if self.counts_templates {
            let annotations = value_at(old, "/metadata/annotations");
            let last = annotations[TEMPLATE_GENERATION].as_str();
            let last: i64 = last.and_then(|text| text.parse().ok()).unwrap_or(0);
            let template = "/spec/template";
            let is_changed = value_at(old, template) != value_at(new, template);
            set_template_generation(new, last.saturating_add(i64::from(is_changed)));
        }
    }

    fn prepare_status(&self, old: &ObjectTree, new: &mut ObjectTree, _: WriteContext<'_>) {
        restore_metadata(old, new, self.status_keeps);
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange { new, old, .. } = *change;
        let mut causes = Vec::new();
        if let Some(old) = old {
            causes.extend(self.spec_fault(new, old));
            causes.extend(self.count_faults(new, old));
        }
        causes
    }
}

impl WorkloadStrategy {
    fn spec_fault(&self, new: &ObjectTree, old: &ObjectTree) -> Option<StatusCause> {
        let was = value_at(old, "/spec");
        let mut spec = value_at(new, "/spec").clone();
        for field in self.mutable_spec? {
            restore_field(&mut spec, was, field);
        }
        (spec != *was).then(|| StatusCause::forbidden("spec", STATEFUL_FIXED))
    }

    fn count_faults(&self, new: &ObjectTree, old: &ObjectTree) -> Vec<StatusCause> {
        if new.get("status") == old.get("status") {
            return Vec::new();
        }
        let status = value_at(new, "/status");
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        let mut causes = negative_faults(status, "status", self.counts);
        for (part, whole, called) in BOUNDS {
            if self.counts.contains(&part) && count(part) > count(whole) {
                let why = format!("cannot be greater than {called}");
                let path = format!("status.{part}");
                causes.push(StatusCause::invalid(path, count(part), &why));
            }
        }
        causes
    }
}

/// Reports whether a selector selects Pods with these labels. None selects nothing.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    match selector.as_object() {
        None => false,
        Some(map) if map.values().all(Value::is_string) => includes(labels, selector),
        Some(_) => {
            let expressions = selector["matchExpressions"].as_array();
            let mut expressions = expressions.into_iter().flatten();
            includes(labels, &selector["matchLabels"])
                && expressions.all(|expression| holds(expression, labels))
        }
    }
}

fn includes(labels: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.as_object().into_iter().flatten();
    wanted.all(|(key, value)| labels.get(key) == Some(value))
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

fn set_template_generation(object: &mut ObjectTree, generation: i64) {
    let annotations = metadata::of(object)
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[TEMPLATE_GENERATION] = generation.to_string().into();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::validation::tests::found;
    use super::*;
    use crate::kinds::KindTable;

    #[test]
    fn partial_counts_do_not_exceed_the_total() {
        let tree = |status: &Value| json!({"status": status}).as_object().unwrap().clone();
        let cases = [
            (
                &REPLICA_SET,
                json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1}),
                vec![],
            ),
            (
                &REPLICA_SET,
                json!({"replicas": -1}),
                vec![
                    "status.replicas",
                    "status.fullyLabeledReplicas",
                    "status.readyReplicas",
                    "status.availableReplicas",
                ],
            ),
            (
                &REPLICA_SET,
                json!({"fullyLabeledReplicas": 1}),
                vec!["status.fullyLabeledReplicas"],
            ),
            (
                &DEPLOYMENT,
                json!({"replicas": 2, "updatedReplicas": 3, "availableReplicas": 1}),
                vec!["status.updatedReplicas", "status.availableReplicas"],
            ),
            (&DAEMON_SET, json!({"replicas": -1}), vec![]),
        ];
        for (strategy, status, expected) in cases {
            let causes = strategy.count_faults(&tree(&status), &tree(&json!({})));
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, expected, "{status}");
            let same = strategy.count_faults(&tree(&status), &tree(&status));
            assert!(same.is_empty(), "{status}");
        }
    }

    #[test]
    fn selector_is_immutable_and_matches_the_template() {
        let workload = |app: &str| {
            let spec =
                json!({"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Always"});
            let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
            json!({"spec": {"selector": {"matchLabels": {"app": app}}, "podManagementPolicy": "Parallel",
                "strategy": rolling, "updateStrategy": rolling,
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": spec}}})
        };
        let labels = "spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`";
        let selector =
            "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable";
        for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
            let same = found("apps/v1", kind, workload("a"), Some(workload("a")));
            assert!(same.is_empty(), "{kind}: {same:?}");
            let other = found("apps/v1", kind, workload("b"), Some(workload("a")));
            // Upstream checks DaemonSets in another order.
            let expected = match kind {
                "DaemonSet" => [selector, labels],
                _ => [labels, selector],
            };
            assert_eq!(other, expected, "{kind}");
            assert_eq!(found("apps/v1", kind, workload("b"), None), [labels]);
        }
        let stateful = found("apps/v1", "StatefulSet", workload("b"), Some(workload("a")));
        assert_eq!(stateful.len(), 2);
        assert_eq!(stateful[1], format!("spec: Forbidden: {STATEFUL_FIXED}"));
    }

    #[test]
    fn templates_of_daemon_sets_are_counted() {
        let set = |image: &str, generation: Option<&str>| {
            let mut set = json!({"metadata": {}, "spec": {"template": {"spec": {"image": image}}}});
            if let Some(generation) = generation {
                set["metadata"]["annotations"] = json!({ TEMPLATE_GENERATION: generation });
            }
            set.as_object().unwrap().clone()
        };
        let cases = [
            (Some(("1", "4")), ("1", None), "4"),
            (Some(("1", "4")), ("1", Some("77")), "4"),
            (Some(("1", "4")), ("2", Some("4")), "5"),
            (None, ("1", Some("77")), "1"),
        ];
        let kinds = KindTable::builtin();
        for (old, (image, sent), expected) in cases {
            let context = WriteContext {
                kinds: &kinds,
                now: jiff::Timestamp::UNIX_EPOCH,
                user: None,
            };
            let mut new = set(image, sent);
            match old {
                Some((image, known)) => {
                    DAEMON_SET.prepare_update(&set(image, Some(known)), &mut new, context);
                }
                None => DAEMON_SET.prepare_create(&mut new, context),
            }
            let annotations = value_at(&new, "/metadata/annotations");
            assert_eq!(*annotations, json!({TEMPLATE_GENERATION: expected}));
        }
    }

    #[test]
    fn match_expressions_are_evaluated() {
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
}
