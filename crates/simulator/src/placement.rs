//! Which Nodes a Pod may be on: its node selector, required node affinity, and tolerations.
//!
//! Used by the simulated scheduler and by DaemonSets. Mirrors `component-helpers/scheduling/corev1` and the plugins
//! `NodeAffinity`, `NodeUnschedulable` and `TaintToleration` of `pkg/scheduler`, 1.36. Resources, preferences, affinity to
//! other Pods and spread constraints are ignored.

use caretaker_machinery::selector::LabelSelector;
use serde_json::Value;

use crate::cache::ObjectSnapshot;

/// The taint that stands for `spec.unschedulable` of a Node.
pub(crate) const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Effects of taints that keep a Pod from being bound.
pub(crate) const REPELLING: &[&str] = &["NoSchedule", "NoExecute"];
/// Effects of taints that remove running Pods.
pub(crate) const EVICTING: &[&str] = &["NoExecute"];

/// Whether the node selector and the required node affinity of a Pod spec select this Node.
pub(crate) fn selects(spec: &Value, node: &ObjectSnapshot) -> bool {
    let selected = &spec["nodeSelector"];
    let is_selected = selected.is_null()
        || LabelSelector::of_labels(selected).is_some_and(|selector| has_labels(&selector, node));
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let is_required = required.is_null()
        || required["nodeSelectorTerms"]
            .as_array()
            .is_some_and(|terms| terms.iter().any(|term| is_met(term, node)));
    is_selected && is_required
}

/// Whether a Pod spec tolerates the taints of a Node with these effects, and its being unschedulable.
pub(crate) fn tolerates(spec: &Value, node: &ObjectSnapshot, effects: &[&str]) -> bool {
    let mut taints = node.items("/spec/taints").iter();
    taints.all(|taint| {
        let effect = taint["effect"].as_str().unwrap_or_default();
        !effects.contains(&effect) || is_tolerated(spec, taint)
    })
}

/// Whether a Pod spec tolerates that a Node is unschedulable, or it is not.
pub(crate) fn tolerates_cordon(spec: &Value, node: &ObjectSnapshot) -> bool {
    let taint = serde_json::json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
    *node.at("/spec/unschedulable") != true || is_tolerated(spec, &taint)
}

/// The name of the only Node that a Pod may be on by its affinity, like a Pod of a DaemonSet.
pub(crate) fn pinned_node(pod: &ObjectSnapshot) -> Option<&str> {
    let terms = pod.items("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    let mut fields = terms
        .iter()
        .flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let field =
        fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
    match field["values"].as_array()?.as_slice() {
        [only] => only.as_str(),
        _ => None,
    }
}

/// Whether a Node meets a term of a node selector. An empty term selects nothing.
fn is_met(term: &Value, node: &ObjectSnapshot) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = lists
        .iter()
        .all(|list| term[*list].as_array().is_none_or(Vec::is_empty));
    let Some(labels) = LabelSelector::of_field(term) else {
        return false;
    };
    let fields = serde_json::json!({"matchExpressions": term["matchFields"]});
    let Some(fields) = LabelSelector::of_field(&fields) else {
        return false;
    };
    let name = |key: &str| (key == "metadata.name").then_some(&*node.meta().name);
    !is_empty && has_labels(&labels, node) && fields.matches(name)
}

fn has_labels(selector: &LabelSelector, node: &ObjectSnapshot) -> bool {
    let labels = node.at("/metadata/labels");
    selector.matches(|name| labels[name].as_str())
}

fn is_tolerated(spec: &Value, taint: &Value) -> bool {
    let mut tolerations = spec["tolerations"].as_array().into_iter().flatten();
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    tolerations.any(|toleration| {
        let [effect, key, operator] =
            ["effect", "key", "operator"].map(|field| text(toleration, field));
        let is_effect = effect.is_empty() || effect == text(taint, "effect");
        let is_key = key.is_empty() || key == text(taint, "key");
        let is_value = match operator.as_str() {
            "Exists" => true,
            "" | "Equal" => !key.is_empty() && text(toleration, "value") == text(taint, "value"),
            _ => false,
        };
        is_effect && is_key && is_value
    })
}

#[cfg(test)]
mod tests;
