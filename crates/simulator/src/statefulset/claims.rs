//! The PersistentVolumeClaims of a StatefulSet: one for each template and ordinal.
//!
//! By the retention policy a claim belongs to the StatefulSet (`whenDeleted: Delete`), or to its Pod once that is scaled
//! down (`whenScaled: Delete`); the garbage collector then deletes it with its owner. A claim that another controller owns,
//! or an earlier object of the same name, stays as it is.

use caretaker_controllers::runtime::controller::EventNote;
use serde_json::{Value, json};

use super::{CLAIMS, StatefulPods, ordinal};
use crate::actor::{ActorDecision, NamespacedName, request, retry};
use crate::cache::ObjectSnapshot;
use crate::events::{identity, on_success};
use crate::objects::{create_beside, merge, reference};

const POLICY: &str = "/spec/persistentVolumeClaimRetentionPolicy";

/// The templates of claims.
pub(super) fn templates(set: &ObjectSnapshot) -> &[Value] {
    set.items("/spec/volumeClaimTemplates")
}

/// The name of the claim of a template for an ordinal.
pub(super) fn name(set: &ObjectSnapshot, template: &Value, ordinal: i64) -> String {
    let of = template["metadata"]["name"].as_str().unwrap_or_default();
    format!("{of}-{}-{ordinal}", set.meta().name)
}

/// The name of the Pod that a claim is for.
pub(super) fn pod_of_claim(set: &ObjectSnapshot, claim: &str) -> Option<String> {
    let mut rests = templates(set).iter().filter_map(|template| {
        let of = template["metadata"]["name"].as_str()?;
        claim.strip_prefix(of)?.strip_prefix('-')
    });
    rests
        .find(|pod| ordinal(set, pod).is_some())
        .map(ToOwned::to_owned)
}

impl StatefulPods<'_> {
    /// Creates the first missing claim of an ordinal.
    pub(super) fn create_claim(&self, ordinal: i64) -> Option<ActorDecision> {
        let mut templates = templates(self.set).iter();
        let missing = templates.find(|template| self.claim(template, ordinal).is_none())?;
        let name = name(self.set, missing, ordinal);
        let mut claim = missing.clone();
        let selected = self.set.at("/spec/selector/matchLabels").as_object();
        for (key, value) in selected.into_iter().flatten() {
            claim["metadata"]["labels"][key] = value.clone();
        }
        if let Some(members) = claim.as_object_mut() {
            members.remove("status");
        }
        let Some(call) = create_beside(self.cache, self.set, CLAIMS, &name, claim) else {
            return Some(retry("persistentvolumeclaims are not served"));
        };
        let (pod, of) = (self.pod_name(ordinal), &self.set.meta().name);
        let message = format!("Create Claim {name} Pod {pod} in StatefulSet {of} success");
        let about = identity(self.cache, self.set);
        let event = EventNote::normal(about, "SuccessfulCreate", message);
        let decision = request(call, "a claim is missing");
        Some(on_success(decision, [event]))
    }

    /// Whether a claim of an ordinal is being deleted, or will be because it belongs to an earlier Pod.
    pub(super) fn has_old_claim(&self, ordinal: i64) -> bool {
        let pod = self.pod_name(ordinal);
        let is_scaled = self.deletes("whenScaled");
        let mut claims = templates(self.set)
            .iter()
            .filter_map(|template| self.claim(template, ordinal));
        claims.any(|claim| {
            let mut owners = claim.meta().owners.iter();
            let is_earlier = owners.any(|owner| &*owner.kind == "Pod" && *owner.name == *pod);
            claim.is_deleting() || is_scaled && is_earlier
        })
    }

    /// Gives the claims of an ordinal the owner that the retention policy asks for.
    pub(super) fn correct_claims(
        &self,
        ordinal: i64,
        pod: Option<&ObjectSnapshot>,
    ) -> Option<ActorDecision> {
        let claims = templates(self.set).iter();
        let mut claims = claims.filter_map(|template| self.claim(template, ordinal));
        let owners = [Some(self.set), pod];
        claims.find_map(|claim| {
            let is_of = |reference: &Value, owner: &ObjectSnapshot| {
                let kind = self.cache.kind(owner.kind());
                kind.is_some_and(|kind| reference["kind"] == *kind.kind)
                    && reference["name"] == *owner.meta().name
            };
            let is_ours = |reference: &Value| {
                let mut owners = owners.iter().flatten();
                owners.any(|owner| is_of(reference, owner))
            };
            let is_stale = |reference: &Value| {
                let mut owners = owners.iter().flatten();
                owners.any(|owner| {
                    is_of(reference, owner)
                        && reference["uid"] != owner.meta().uid.to_string().as_str()
                })
            };
            let is_foreign =
                |reference: &Value| reference["controller"] == true && !is_ours(reference);
            let known = claim.items("/metadata/ownerReferences");
            if known.iter().any(|it| is_stale(it) || is_foreign(it)) {
                return None;
            }
            let mut wanted: Vec<Value> = known.iter().filter(|it| !is_ours(it)).cloned().collect();
            let owner = self.owner_of_claims(ordinal, pod);
            wanted.extend(owner.and_then(|owner| reference(self.cache, owner)));
            let is_right =
                known.len() == wanted.len() && wanted.iter().all(|it| known.contains(it));
            let patch = json!({"metadata": {"ownerReferences": wanted}});
            let why = "the retention policy asks for another owner of a claim";
            (!is_right).then(|| request(merge(claim, patch), why))
        })
    }

    /// The owner with which the claims of an ordinal go.
    fn owner_of_claims<'a>(
        &'a self,
        ordinal: i64,
        pod: Option<&'a ObjectSnapshot>,
    ) -> Option<&'a ObjectSnapshot> {
        let is_scaled_down = !self.ordinals().contains(&ordinal);
        match is_scaled_down && self.deletes("whenScaled") {
            true => pod,
            false => self.deletes("whenDeleted").then_some(self.set),
        }
    }

    fn deletes(&self, when: &str) -> bool {
        self.set.at(POLICY)[when] == "Delete"
    }

    fn claim(&self, template: &Value, ordinal: i64) -> Option<&ObjectSnapshot> {
        let name = name(self.set, template, ordinal);
        let key = NamespacedName::new(&self.set.meta().namespace, &name);
        self.cache.get(CLAIMS, &key)
    }
}
