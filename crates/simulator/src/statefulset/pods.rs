//! A Pod of a StatefulSet: its name and labels follow from its ordinal and revision.

use caretaker_controllers::runtime::controller::EventNote;
use serde_json::{Value, json};

use super::{StatefulPods, claims};
use crate::actor::{ActorDecision, NamespacedName, make, retry};
use crate::cache::ObjectSnapshot;
use crate::events::{identity, on_success};
use crate::objects::pod_of;
use crate::pod::PODS;
use crate::revisions::{REVISION_LABEL, template};

/// Label of a Pod with its own name.
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Label of a Pod with its ordinal.
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

impl StatefulPods<'_> {
    /// Creates the claims of a missing Pod, then the Pod; `None` while it has to wait for an old claim to go.
    pub(super) fn create(&self, ordinal: i64) -> Option<ActorDecision> {
        if self.has_old_claim(ordinal) {
            return None;
        }
        if let Some(decision) = self.create_claim(ordinal) {
            return Some(decision);
        }
        let name = self.pod_name(ordinal);
        let key = NamespacedName::new(&self.set.meta().namespace, &name);
        if self.cache.get(PODS, &key).is_some() {
            return Some(retry(format!("another Pod has the name {name}")));
        }
        let revision = self.revision_of(ordinal);
        let pod = self.pod(ordinal, &name, revision);
        let decision = make(self.cache, self.set, PODS, (&name, pod), "a Pod is missing");
        let of = &self.set.meta().name;
        let message = format!("Create Pod {name} in StatefulSet {of} successful");
        let about = identity(self.cache, self.set);
        let event = EventNote::normal(about, "SuccessfulCreate", message);
        Some(on_success(decision, [event]))
    }

    pub(super) fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.set.meta().name)
    }

    /// The revision that a new Pod gets: the current one below the partition of a rolling update.
    fn revision_of(&self, ordinal: i64) -> &ObjectSnapshot {
        let is_rolling = self.set.text("/spec/updateStrategy/type") == "RollingUpdate";
        let kept = self.ordinals().start.saturating_add(self.partition());
        match is_rolling && ordinal < kept {
            true => self.current,
            false => self.update,
        }
    }

    fn pod(&self, ordinal: i64, name: &str, revision: &ObjectSnapshot) -> Value {
        let mut pod = pod_of(&template(revision));
        let labels = &mut pod["metadata"]["labels"];
        labels[NAME_LABEL] = name.into();
        labels[INDEX_LABEL] = ordinal.to_string().into();
        labels[REVISION_LABEL] = (*revision.meta().name).into();
        pod["metadata"]["generateName"] = format!("{}-", self.set.meta().name).into();
        pod["spec"]["hostname"] = name.into();
        let service = self.set.text("/spec/serviceName");
        if !service.is_empty() {
            pod["spec"]["subdomain"] = service.into();
        }
        let volume = |claim: &Value| {
            let name = claims::name(self.set, claim, ordinal);
            json!({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": name}})
        };
        let templates = claims::templates(self.set);
        let mut volumes: Vec<Value> = templates.iter().map(volume).collect();
        let others = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let is_replaced = |other: &&Value| {
            let mut claims = templates.iter();
            claims.any(|claim| claim["metadata"]["name"] == other["name"])
        };
        volumes.extend(others.filter(|other| !is_replaced(other)).cloned());
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = volumes.into();
        }
        pod
    }
}
