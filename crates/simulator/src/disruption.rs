//! The status of PodDisruptionBudgets: how many of the selected Pods are healthy, and how many may be evicted.
//!
//! Evictions read `disruptionsAllowed` and note Pods in `disruptedPods`; a Pod stays there until it is being deleted, or for
//! two minutes. The number of expected Pods follows from the objects that control them: workloads by their `replicas`,
//! custom objects by the path of their scale subresource. Mirrors `pkg/controller/disruption`, 1.36. Left out: resetting
//! the condition DisruptionTarget of a Pod that was not deleted after all.

mod scale;
#[cfg(test)]
mod tests;

use caretaker_controllers::runtime::controller::EventNote;
use caretaker_machinery::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use self::scale::{ExpectedPods, ScaleError};
use crate::actor::{Actor, ActorDecision, NamespacedName, request, rest, wait_until};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::{identity, on_state, on_success};
use crate::objects::{PercentRounding, later, scaled, set_condition, time_at, write_status};
use crate::pod::PODS;

const BUDGETS: GroupResource = ("policy", "poddisruptionbudgets");
/// The condition that says whether a Pod may be evicted.
const ALLOWED: &str = "DisruptionAllowed";
/// How long a Pod that was evicted may take until it is being deleted.
const DELETION_SECS_MAX: i64 = 120;

/// Simulates the controller of PodDisruptionBudgets.
#[derive(Debug)]
pub(crate) struct DisruptionActor;

/// Pods that a budget wants.
struct BudgetTarget {
    expected: usize,
    desired: usize,
    /// Some of the Pods have no controller.
    has_unmanaged: bool,
}

/// Pods of `disruptedPods` by what has become of them.
struct DisruptedPods<'a> {
    /// Still expected to be deleted, with the time of their eviction.
    waiting: Map<String, Value>,
    /// Not deleted in time.
    late: Vec<&'a ObjectSnapshot>,
    /// When the next of them is late.
    next: Option<Timestamp>,
}

// === impl DisruptionActor ===

impl Actor for DisruptionActor {
    const NAME: &'static str = "simulated-disruption";
    const REPORTER: &'static str = "controllermanager";
    const KINDS: &'static [GroupResource] = &[
        BUDGETS,
        PODS,
        ("apps", "replicasets"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("", "replicationcontrollers"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ];

    fn decide(
        &self,
        cache: &ObjectCache,
        budget: &ObjectSnapshot,
        now: Timestamp,
    ) -> ActorDecision {
        let pods = pods(cache, budget);
        let about = identity(cache, budget);
        let target = match target(cache, budget, &pods, now) {
            Ok(target) => target,
            Err(ScaleError::Unknown(call)) => {
                return request(call, "the scale of a custom object is not known");
            }
            Err(ScaleError::Failed(why)) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                let event = EventNote::warning(about, "CalculateExpectedPodCountFailed", message);
                return on_state(fail(budget, &why, now), [event]);
            }
        };
        let mut events = Vec::new();
        if pods.is_empty() {
            let message = "No matching pods found".to_owned();
            events.push(EventNote::normal(about.clone(), "NoPods", message));
        }
        if target.has_unmanaged {
            let message = unmanaged(budget);
            events.push(EventNote::warning(about, "UnmanagedPods", message));
        }
        let disrupted = DisruptedPods::of(budget, &pods, now);
        let status = status(budget, &pods, &target, &disrupted, now);
        let decision = match (write_status(budget, &status), disrupted.next) {
            (Some(call), _) => on_success(
                request(call, "the status does not match the Pods"),
                disrupted
                    .late
                    .iter()
                    .map(|pod| not_deleted(cache, budget, pod)),
            ),
            (None, Some(next)) => wait_until(next, "evicted Pods are not being deleted yet"),
            (None, None) => rest("the status is up to date"),
        };
        on_state(decision, events)
    }

    /// A Pod affects the budgets that select it; a workload those of its namespace.
    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        let budgets = cache.in_namespace(BUDGETS, &object.meta().namespace);
        let is_pod = cache.served(PODS).map(|(id, _)| id) == Some(object.kind());
        let labels = object.at("/metadata/labels");
        let concerned = budgets.filter(|budget| {
            // A Pod whose labels have changed may have been selected before.
            !is_pod
                || selector(budget).is_some_and(|of| of.matches(|key| labels[key].as_str()))
                || budget
                    .number("/status/expectedPods")
                    .is_some_and(|count| count > 0)
        });
        concerned.map(ObjectSnapshot::key).collect()
    }
}

fn selector(budget: &ObjectSnapshot) -> Option<LabelSelector> {
    LabelSelector::of_field(budget.at("/spec/selector"))
}

fn pods<'a>(cache: &'a ObjectCache, budget: &ObjectSnapshot) -> Vec<&'a ObjectSnapshot> {
    let Some(selector) = selector(budget) else {
        return Vec::new();
    };
    let pods = cache.in_namespace(PODS, &budget.meta().namespace);
    let selected = pods.filter(|pod| {
        let labels = pod.at("/metadata/labels");
        selector.matches(|key| labels[key].as_str())
    });
    selected.collect()
}

fn target(
    cache: &ObjectCache,
    budget: &ObjectSnapshot,
    pods: &[&ObjectSnapshot],
    now: Timestamp,
) -> Result<BudgetTarget, ScaleError> {
    let least = budget.at("/spec/minAvailable");
    let most = budget.at("/spec/maxUnavailable");
    if let (true, Some(desired)) = (most.is_null(), least.as_u64()) {
        return Ok(BudgetTarget {
            expected: pods.len(),
            desired: usize::try_from(desired).unwrap_or(usize::MAX),
            has_unmanaged: false,
        });
    }
    let ExpectedPods {
        count,
        has_unmanaged,
    } = ExpectedPods::of(cache, pods, now)?;
    let number = |value: &Value| {
        let why = || ScaleError::Failed(format!("invalid value for IntOrString: {value}"));
        scaled(value, count, PercentRounding::Up).ok_or_else(why)
    };
    let desired = match (most.is_null(), least.is_null()) {
        (false, _) => count.saturating_sub(number(most)?),
        (true, false) => number(least)?,
        (true, true) => 0,
    };
    Ok(BudgetTarget {
        expected: if most.is_null() && least.is_null() {
            0
        } else {
            count
        },
        desired,
        has_unmanaged,
    })
}

// === impl DisruptedPods ===

impl<'a> DisruptedPods<'a> {
    fn of(budget: &ObjectSnapshot, pods: &[&'a ObjectSnapshot], now: Timestamp) -> Self {
        let mut found = Self {
            waiting: Map::new(),
            late: Vec::new(),
            next: None,
        };
        let noted = budget.at("/status/disruptedPods");
        for pod in pods.iter().copied().filter(|pod| !pod.is_deleting()) {
            let name = &*pod.meta().name;
            let Some(since) = time_at(&noted[name]) else {
                continue;
            };
            let over = later(since, DELETION_SECS_MAX);
            if over < now {
                found.late.push(pod);
            } else {
                found.waiting.insert(name.to_owned(), noted[name].clone());
                // It has to be exceeded, and times have whole seconds.
                let next = later(over, 1);
                found.next = Some(found.next.map_or(next, |known| known.min(next)));
            }
        }
        found
    }
}

fn status(
    budget: &ObjectSnapshot,
    pods: &[&ObjectSnapshot],
    target: &BudgetTarget,
    disrupted: &DisruptedPods<'_>,
    now: Timestamp,
) -> Value {
    let is_healthy = |pod: &&&ObjectSnapshot| {
        !pod.is_deleting()
            && !disrupted.waiting.contains_key(&*pod.meta().name)
            && pod.is_true("Ready")
    };
    let healthy = pods.iter().filter(is_healthy).count();
    let allowed = match target.expected {
        0 => 0,
        _ => healthy.saturating_sub(target.desired),
    };
    let generation = budget.at("/metadata/generation").clone();
    let mut status = json!({"currentHealthy": healthy, "desiredHealthy": target.desired,
        "expectedPods": target.expected, "disruptionsAllowed": allowed, "observedGeneration": generation});
    if !disrupted.waiting.is_empty() {
        status["disruptedPods"] = disrupted.waiting.clone().into();
    }
    let mut conditions = budget.items("/status/conditions").to_vec();
    let (is, reason) = match allowed {
        0 => ("False", "InsufficientPods"),
        _ => ("True", "SufficientPods"),
    };
    let condition = json!({"type": ALLOWED, "status": is, "reason": reason, "message": "",
        "observedGeneration": generation});
    set_condition(&mut conditions, condition, now);
    status["conditions"] = conditions.into();
    status
}

/// The number of expected Pods cannot be computed: no eviction is allowed.
fn fail(budget: &ObjectSnapshot, why: &str, now: Timestamp) -> ActorDecision {
    let mut status = budget.at("/status").clone();
    status["disruptionsAllowed"] = 0.into();
    for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if status[field].is_null() {
            status[field] = 0.into();
        }
    }
    let mut conditions = budget.items("/status/conditions").to_vec();
    let mut condition =
        json!({"type": ALLOWED, "status": "False", "reason": "SyncFailed", "message": why});
    if !status["observedGeneration"].is_null() {
        condition["observedGeneration"] = status["observedGeneration"].clone();
    }
    set_condition(&mut conditions, condition, now);
    status["conditions"] = conditions.into();
    match write_status(budget, &status) {
        Some(call) => request(call, "the number of expected Pods is not known"),
        None => rest("the number of expected Pods is not known"),
    }
}

fn not_deleted(cache: &ObjectCache, budget: &ObjectSnapshot, pod: &ObjectSnapshot) -> EventNote {
    // Upstream writes the namespace twice instead of the name of the budget.
    let namespace = &budget.meta().namespace;
    let message =
        format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
    EventNote::warning(identity(cache, pod), "NotDeleted", message)
}

/// The message about Pods without a controller. Upstream writes the selector as Go prints it.
fn unmanaged(budget: &ObjectSnapshot) -> String {
    let selector = go_selector(budget.at("/spec/selector"));
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, \
         the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
         for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

/// A selector as Go's `%v` formats it: `&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]...}`.
fn go_selector(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {},", text(value)))
        .collect();
    let expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    let expressions: String = expressions
        .map(|of| {
            let values = of["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.map(text).collect();
            let (key, operator) = (text(&of["key"]), text(&of["operator"]));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
