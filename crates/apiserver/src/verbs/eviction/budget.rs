//! The decisions of an eviction, as pure functions of the Pod and its PodDisruptionBudget.
//!
//! Messages are upstream's: `kubectl drain` shows them, and retries after a 429.

use caretaker_machinery::status::{NamedResource, Status, StatusCause};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::metadata::{self, ObjectTree, value_at};

/// The refusal of a Pod that several budgets guard.
pub(super) const SEVERAL: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// Seconds after which a client should ask again about a budget whose status is not up to date.
const RETRY_SECS: u32 = 10;
/// Most evicted Pods that the controller of a budget has not seen to be deleted, as upstream.
const DISRUPTED_PODS_MAX: usize = 2_000;
const ALLOWED: &str = "DisruptionAllowed";

/// The protection of a Pod from eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodGuard {
    /// It has ended or is being deleted, so its eviction disrupts nothing.
    None,
    /// It has not started: its eviction disrupts nothing, as long as it does not change.
    Unchanged,
    /// Its budget decides.
    Budget,
}

/// Decides whether budgets matter for a Pod.
pub(super) fn guard(pod: &ObjectTree) -> PodGuard {
    let phase = value_at(pod, "/status/phase").as_str().unwrap_or_default();
    match phase {
        "Succeeded" | "Failed" => PodGuard::None,
        _ if metadata::is_deleting(pod) => PodGuard::None,
        "Pending" => PodGuard::Unchanged,
        _ => PodGuard::Budget,
    }
}

/// Decides whether the eviction of a Pod counts as a disruption. That of an unready Pod does not if its budget says so, or
/// if enough others are healthy.
pub(super) fn is_counted(pod: &ObjectTree, budget: &ObjectTree) -> bool {
    if metadata::is_true(value_at(pod, "/status"), "Ready") {
        return true;
    }
    let status = value_at(budget, "/status");
    let (healthy, desired) = (
        number(status, "currentHealthy"),
        number(status, "desiredHealthy"),
    );
    let always = value_at(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
    !(always || healthy >= desired && desired > 0)
}

/// Returns the budget with one disruption more, of the Pod `pod`.
pub(super) fn count(budget: &ObjectTree, pod: &str, now: Timestamp) -> Result<ObjectTree, Status> {
    let name = metadata::text(budget, "name");
    let status = value_at(budget, "/status");
    let generation = value_at(budget, "/metadata/generation").as_i64();
    if number(status, "observedGeneration") < generation.unwrap_or(0) {
        return Err(still_processed(name));
    }
    let allowed = number(status, "disruptionsAllowed");
    let disrupted = status["disruptedPods"].as_object().map_or(0, Map::len);
    if allowed < 0 {
        return Err(forbidden(name, "pdb disruptions allowed is negative"));
    }
    if disrupted > DISRUPTED_PODS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(name, why));
    }
    if allowed == 0 {
        return Err(violated(0, why_not(name, status)));
    }
    let mut counted = budget.clone();
    let status = counted.entry("status").or_insert_with(|| json!({}));
    status["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        set_exhausted(status, generation, now);
    }
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = metadata::time(now).into();
    Ok(counted)
}

/// Asks the client to try again when the controller of the budget has caught up.
pub(super) fn still_processed(budget: &str) -> Status {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    violated(RETRY_SECS, why)
}

fn violated(retry_secs: u32, why: String) -> Status {
    let mut status = Status::too_many_requests(VIOLATED, retry_secs);
    if let Some(details) = &mut status.details {
        let cause = StatusCause::new("DisruptionBudget", "", why);
        details.causes.push(cause);
    }
    status
}

fn forbidden(budget: &str, why: &str) -> Status {
    let named = NamedResource {
        group: "policy",
        what: "poddisruptionbudget",
        name: budget,
    };
    Status::forbidden(named, why)
}

/// Returns why a budget allows no disruption.
fn why_not(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions
        .filter(|known| known["type"] == ALLOWED && known["status"] == "False")
        .find(|known| {
            known["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        });
    let text = |field: &str| {
        let text = condition.and_then(|condition| condition[field].as_str());
        text.unwrap_or_default()
    };
    let (healthy, desired) = (
        number(status, "currentHealthy"),
        number(status, "desiredHealthy"),
    );
    if text("reason") == "SyncFailed" {
        let why = text("message");
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        )
    } else if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else if condition.is_some() {
        let (reason, why) = (text("reason"), text("message"));
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {why}"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

/// Says in the conditions that no further disruption is allowed.
fn set_exhausted(status: &mut Value, generation: Option<i64>, now: Timestamp) {
    let mut exhausted = json!({"type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
        "lastTransitionTime": metadata::time(now)});
    if let Some(generation @ 1..) = generation {
        exhausted["observedGeneration"] = generation.into();
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|known| known["type"] == ALLOWED) {
        Some(known) => {
            if known["status"] == "False" {
                exhausted["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = exhausted;
        }
        None => conditions.push(exhausted),
    }
}

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::mk_tree;

    fn mk_budget(status: &Value) -> ObjectTree {
        mk_tree(&json!({"metadata": {"name": "b", "generation": 2}, "spec": {}, "status": status}))
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn budgets_guard_running_pods_only() {
        let cases = [
            (json!({"status": {"phase": "Running"}}), PodGuard::Budget),
            (json!({"status": {"phase": "Unknown"}}), PodGuard::Budget),
            (json!({"status": {"phase": "Pending"}}), PodGuard::Unchanged),
            (json!({"status": {"phase": "Succeeded"}}), PodGuard::None),
            (json!({"status": {"phase": "Failed"}}), PodGuard::None),
            (
                json!({"metadata": {"deletionTimestamp": "T"}, "status": {"phase": "Pending"}}),
                PodGuard::None,
            ),
        ];
        for (pod, expected) in cases {
            assert_eq!(guard(&mk_tree(&pod)), expected, "{pod}");
        }
    }

    #[test]
    fn unready_pods_are_not_counted_if_enough_others_are_healthy() {
        let pod = |ready: &str| {
            mk_tree(&json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        };
        let cases = [
            ("True", json!({}), (2, 1), true),
            ("False", json!({}), (1, 1), false),
            ("False", json!({}), (0, 1), true),
            ("False", json!({}), (0, 0), true),
            (
                "False",
                json!({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}),
                (0, 1),
                true,
            ),
            (
                "False",
                json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
                (0, 1),
                false,
            ),
            (
                "True",
                json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
                (0, 1),
                true,
            ),
        ];
        for (ready, spec, (healthy, desired), expected) in cases {
            let budget = json!({"spec": spec, "status": {"currentHealthy": healthy, "desiredHealthy": desired}});
            assert_eq!(
                is_counted(&pod(ready), &mk_tree(&budget)),
                expected,
                "{ready} {budget}"
            );
        }
    }

    #[test]
    fn counting_notes_the_pod_and_the_last_disruption_changes_the_condition() {
        let budget = mk_budget(&json!({"observedGeneration": 2, "disruptionsAllowed": 2}));
        let once = count(&budget, "p", now()).unwrap();
        assert_eq!(
            once["status"],
            json!({"observedGeneration": 2, "disruptionsAllowed": 1,
                "disruptedPods": {"p": "2026-01-01T00:00:00Z"}})
        );
        let twice = count(&once, "q", now()).unwrap();
        assert_eq!(twice["status"]["disruptionsAllowed"], 0);
        assert_eq!(
            twice["status"]["conditions"],
            json!([{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        );
        assert_eq!(
            twice["status"]["disruptedPods"].as_object().unwrap().len(),
            2
        );
        assert_eq!(count(&twice, "r", now()).unwrap_err().code, 429);
    }

    #[test]
    fn refusals_say_why() {
        let condition = |reason: &str, message: &str| json!([{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}]);
        let many: Map<String, Value> = (0..=DISRUPTED_PODS_MAX)
            .map(|pod| (format!("p{pod}"), json!("T")))
            .collect();
        let cases = [
            (
                json!({"observedGeneration": 1}),
                429,
                "still being processed",
            ),
            (
                json!({"observedGeneration": 2, "disruptionsAllowed": -1}),
                403,
                "is negative",
            ),
            (
                json!({"observedGeneration": 2, "disruptionsAllowed": 1, "disruptedPods": many}),
                403,
                "too big",
            ),
            (
                json!({"observedGeneration": 2, "currentHealthy": 1, "desiredHealthy": 3}),
                429,
                "needs 3 healthy pods and has 1 currently",
            ),
            (
                json!({"observedGeneration": 2, "conditions": condition("SyncFailed", "broken")}),
                429,
                "because it failed sync: broken",
            ),
            (
                json!({"observedGeneration": 2, "currentHealthy": 1, "conditions": condition("Other", "why")}),
                429,
                "currently (Other): why",
            ),
            (
                json!({"observedGeneration": 2, "currentHealthy": 1, "conditions": condition("Other", "")}),
                429,
                "does not allow evicting pods currently",
            ),
        ];
        for (status, code, why) in cases {
            let refused = count(&mk_budget(&status), "p", now()).unwrap_err();
            assert_eq!(refused.code, code, "{status}");
            let said = serde_json::to_string(&refused).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }
}
