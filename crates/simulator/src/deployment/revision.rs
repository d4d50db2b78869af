//! The new ReplicaSet of a Deployment, and the annotations that record revisions.
//!
//! A ReplicaSet gets a number that is greater than those of all others, when it is created and when it is used again; the
//! Deployment has the number of its new ReplicaSet. `kubectl rollout history` and `undo` read these annotations.

use caretaker_controllers::runtime::call::{ApiCall, PatchForm};
use caretaker_controllers::runtime::controller::EventNote;
use serde_json::{Map, Value, json};

use super::{Rollout, annotation, replicas, without_hash};
use crate::actor::{ActorDecision, NamespacedName, make, request};
use crate::cache::ObjectSnapshot;
use crate::events::{identity, on_success};
use crate::objects::{difference, hashed};
use crate::replicaset::REPLICA_SETS;

/// Label that distinguishes the ReplicaSets of a Deployment and their Pods.
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// Annotation with the revision of a ReplicaSet or Deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the earlier revisions of a ReplicaSet that is used again.
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation of a ReplicaSet with the number of Pods that its Deployment wants.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// Annotation of a ReplicaSet with the number of Pods that its Deployment may have.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a ReplicaSet does not take over from its Deployment.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
];
/// Characters of the name of a ReplicaSet. That of its Deployment is cut to fit.
const NAME_MAX: usize = 253;
/// Characters of [`HISTORY`], as in upstream. The oldest revisions are dropped beyond it.
const HISTORY_CHARS_MAX: usize = 2_000;

/// Whether a ReplicaSet has the template of a Deployment.
pub(super) fn is_of_template(set: &ObjectSnapshot, deployment: &ObjectSnapshot) -> bool {
    let [one, other] = [set, deployment].map(|object| without_hash(object.at("/spec/template")));
    one == other
}

/// The revision of a ReplicaSet; 0 if it has none.
pub(super) fn number(set: &ObjectSnapshot) -> i64 {
    let text = annotation(set, REVISION);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Rollout<'_> {
    /// Brings the annotations of the new ReplicaSet and then of the Deployment up to date.
    pub(super) fn record_revision(&self) -> Option<ActorDecision> {
        let new = self.new?;
        if let Some(call) = self.update_of(new) {
            return Some(request(call, "the new ReplicaSet is of another revision"));
        }
        let revision = annotation(new, REVISION)?;
        let mut status = self.deployment.at("/status").clone();
        let is_recorded = annotation(self.deployment, REVISION) == Some(revision);
        let conditioned = self.note_new(&mut status, new, is_recorded);
        if is_recorded && !conditioned {
            return None;
        }
        let mut patch = json!({"metadata": {"annotations": {REVISION: revision}}});
        if let Some(status) = difference(self.deployment.at("/status"), &status) {
            patch["status"] = status;
        }
        let call = ApiCall::Patch {
            target: self.deployment.target(),
            judged: self.deployment.judged(),
            subresource: Some("status"),
            form: PatchForm::Merge,
            patch,
        };
        Some(request(call, "the Deployment has another revision"))
    }

    /// The patch of a new ReplicaSet whose annotations or `minReadySeconds` differ.
    fn update_of(&self, new: &ObjectSnapshot) -> Option<ApiCall> {
        let none = Map::new();
        let known = new.at("/metadata/annotations").as_object();
        let known = known.unwrap_or(&none);
        let mut annotations = self.copied();
        annotations.retain(|name, value| known.get(name) != Some(value));
        let revision = self.next_revision();
        // A ReplicaSet that has a revision that is no number keeps it.
        let is_number = annotation(new, REVISION).is_none_or(|text| text.parse::<i64>().is_ok());
        if is_number && number(new) < revision {
            annotations.insert(REVISION.to_owned(), revision.to_string().into());
            if let Some(last) = annotation(new, REVISION) {
                let history = annotation(new, HISTORY).unwrap_or_default();
                annotations.insert(HISTORY.to_owned(), lengthened(history, last).into());
            }
        }
        let mut patch = json!({});
        if !annotations.is_empty() {
            patch["metadata"]["annotations"] = annotations.into();
        }
        let ready = |object: &ObjectSnapshot| object.number("/spec/minReadySeconds").unwrap_or(0);
        if ready(new) != ready(self.deployment) {
            patch["spec"]["minReadySeconds"] = ready(self.deployment).into();
        }
        (patch != json!({})).then(|| ApiCall::Patch {
            target: new.target(),
            judged: new.judged(),
            subresource: None,
            form: PatchForm::Merge,
            patch,
        })
    }

    /// The annotations of the Deployment that its new ReplicaSet takes over, such as `kubernetes.io/change-cause`.
    fn copied(&self) -> Map<String, Value> {
        let annotations = self.deployment.at("/metadata/annotations").as_object();
        let mut annotations = annotations.cloned().unwrap_or_default();
        annotations.retain(|name, _| !NOT_COPIED.contains(&name.as_str()));
        annotations
    }

    fn next_revision(&self) -> i64 {
        let numbers = self.old.iter().map(|set| number(set));
        numbers.max().unwrap_or(0).saturating_add(1)
    }

    /// Creates the ReplicaSet of the template, with as many Pods as the rollout allows. If another object has its name,
    /// the next hash is another one.
    pub(super) fn create(&self) -> ActorDecision {
        let collisions = self.deployment.number("/status/collisionCount");
        let hash = self.hash(collisions.unwrap_or(0));
        let meta = self.deployment.meta();
        let kept = NAME_MAX - hash.len() - 1;
        let name = format!("{}-{hash}", meta.name.get(..kept).unwrap_or(&meta.name));
        let key = NamespacedName::new(&meta.namespace, &name);
        if self.cache.get(REPLICA_SETS, &key).is_some() {
            let mut status = self.deployment.at("/status").clone();
            status["collisionCount"] = collisions.unwrap_or(0).saturating_add(1).into();
            return self.report(&status);
        }
        let mut template = self.deployment.at("/spec/template").clone();
        template["metadata"]["labels"][HASH_LABEL] = hash.as_str().into();
        let mut selector = self.deployment.at("/spec/selector").clone();
        selector["matchLabels"][HASH_LABEL] = hash.into();
        let mut annotations = self.copied();
        let revision = self.next_revision().to_string();
        annotations.insert(REVISION.to_owned(), revision.into());
        for (name, value) in self.sizes() {
            annotations.insert(name.to_owned(), value.into());
        }
        let count = self.size_of_new(0);
        let mut set = json!({
            "metadata": {"labels": template["metadata"]["labels"], "annotations": annotations},
            "spec": {"replicas": count, "selector": selector, "template": template},
        });
        if let Some(secs @ 1..) = self.deployment.number("/spec/minReadySeconds") {
            set["spec"]["minReadySeconds"] = secs.into();
        }
        let why = "there is no ReplicaSet for the template";
        let decision = make(self.cache, self.deployment, REPLICA_SETS, (&name, set), why);
        let event = (count > 0).then(|| self.scaling(&name, 0, count));
        on_success(decision, event)
    }

    /// The Event of a ReplicaSet that gets another size.
    pub(super) fn scaling(&self, set: &str, from: i64, to: i64) -> EventNote {
        let direction = if from < to { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
        let about = identity(self.cache, self.deployment);
        EventNote::normal(about, "ScalingReplicaSet", message)
    }

    /// The annotations of a ReplicaSet that follow from the size of the Deployment.
    pub(super) fn sizes(&self) -> [(&'static str, String); 2] {
        let wanted = self.wanted();
        [
            (DESIRED, wanted.to_string()),
            (MAXIMUM, (wanted + self.max_surge()).to_string()),
        ]
    }

    /// Whether the size of the Deployment has changed since an active ReplicaSet got its own.
    pub(super) fn is_scaled(&self) -> bool {
        let active = self.all().filter(|set| replicas(set) > 0);
        let mut desired = active.filter_map(|set| annotation(set, DESIRED)?.parse::<i64>().ok());
        desired.any(|desired| desired != self.wanted())
    }

    /// A hash of the template, twice as long as other suffixes: two templates of a Deployment must not collide.
    fn hash(&self, collisions: i64) -> String {
        let mut text = self.deployment.at("/spec/template").to_string();
        if collisions > 0 {
            text.push_str(&collisions.to_string());
        }
        format!("{}{}", hashed(&text), hashed(&format!("{text}/")))
    }
}

/// The history with one more revision, without its oldest ones if it would be too long.
fn lengthened(history: &str, last: &str) -> String {
    let known = history.split(',').filter(|revision| !revision.is_empty());
    let mut known: Vec<&str> = known.chain([last]).collect();
    let chars = |known: &[&str]| known.iter().map(|text| text.len() + 1).sum::<usize>();
    while known.len() > 1 && chars(&known) > HISTORY_CHARS_MAX + 1 {
        known.remove(0);
    }
    known.join(",")
}
