//! The users: they create objects with owners, give them other owners, create them anew and delete them in all modes.
//!
//! Their requests go to the server directly and meet no fault. [`UserBook`] holds the requests that the server accepted,
//! which is all that the model knows, and a line of text for every request.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::model::{ModelReference, OrphanExcuses, ReferenceTarget, UserAct, UserDeed};
use super::trouble::TroubleState;
use crate::case::CheckResult;
use crate::checkers::KnownKind;
use crate::environment::Environment;
use crate::objects::{
    CONFIG_MAPS, LEASES, SECRETS, SERVICE_ACCOUNTS, Scope, mk_config_map, mk_object,
};
use crate::ownership::DeletePolicy;
use crate::session::{Answer, Ask};

/// Objects of the second namespace: one in this number.
const AWAY_ONE_IN: usize = 6;
/// Number of objects that are tried until one can be an owner.
const SEARCHES: usize = 6;
/// Objects among which most owners are found: the last ones that were created.
const NEAR: usize = 60;

/// The kinds and namespaces of the objects.
pub(super) struct UserWorld<'e> {
    env: &'e Environment,
    pub(super) kinds: Vec<KnownKind>,
    namespaces: [String; 2],
    book: Mutex<UserBook>,
    pub(super) began: Instant,
}

/// What the users know, and what the server accepted.
#[derive(Default)]
pub(super) struct UserBook {
    objects: Vec<KnownObject>,
    names: usize,
    pub(super) deeds: Vec<UserDeed>,
    /// The time of each request, the uid of its object, and its text.
    pub(super) lines: Vec<(Duration, String, String)>,
}

/// An object that a user has created.
#[derive(Clone, Debug)]
struct KnownObject {
    kind: usize,
    namespace: String,
    name: String,
    uid: String,
    /// Whether a user has deleted it.
    is_deleted: bool,
}

// === impl UserWorld ===

impl<'e> UserWorld<'e> {
    /// Defines the custom kinds and creates the second namespace.
    pub(super) async fn new(env: &'e Environment) -> CheckResult<Self> {
        let away = env.second_ns().await?;
        let gadgets = env.define(json!({})).await?;
        let widgets = json!({"metadata": {"name": format!("widgets.{}", gadgets.group)},
            "spec": {"scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"}}});
        let widgets = env.define(widgets).await?;
        let custom = format!("{}/{}", gadgets.group, gadgets.version);
        let kinds = vec![
            KnownKind::new(CONFIG_MAPS, "v1", "ConfigMap"),
            KnownKind::new(SECRETS, "v1", "Secret"),
            KnownKind::new(SERVICE_ACCOUNTS, "v1", "ServiceAccount"),
            KnownKind::new(LEASES, "coordination.k8s.io/v1", "Lease"),
            KnownKind::new(gadgets.resource, &custom, "Gadget"),
            KnownKind::new(widgets.resource, &custom, "Widget"),
        ];
        Ok(Self {
            env,
            kinds,
            namespaces: [env.ns().to_owned(), away],
            book: Mutex::default(),
            began: Instant::now(),
        })
    }

    /// Works with the book; never held across an await.
    pub(super) fn with_book<T>(&self, work: impl FnOnce(&mut UserBook) -> T) -> T {
        work(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where an orphan deletion promises nothing.
    pub(super) fn excuses(&self, state: &TroubleState) -> OrphanExcuses {
        let emptied = state.emptied();
        let is_emptied = |object: &&KnownObject| {
            emptied.contains(&self.kinds[object.kind].resource.everywhere())
        };
        let dependents = self.with_book(|book| {
            let unseen = book.objects.iter().filter(is_emptied);
            unseen.map(|object| object.uid.clone()).collect()
        });
        OrphanExcuses {
            owners: state.announced(),
            dependents,
        }
    }

    pub(super) fn names_of(&self, uids: &BTreeSet<String>) -> BTreeSet<String> {
        self.with_book(|book| {
            let named = book
                .objects
                .iter()
                .filter(|object| uids.contains(&object.uid));
            named.map(|object| object.name.clone()).collect()
        })
    }

    /// One user: creates `objects` objects, then sends `steps` random requests with pauses of up to `pause_max`.
    pub(super) async fn run_user(
        &self,
        mut rng: Rng,
        objects: usize,
        steps: usize,
        pause_max: Duration,
    ) -> CheckResult {
        for _ in 0..objects {
            self.create(&mut rng).await?;
        }
        for _ in 0..steps {
            match rng.below(20) {
                0..=6 => self.create(&mut rng).await?,
                7..=11 => self.re_parent(&mut rng).await?,
                12..=13 => self.re_create(&mut rng).await?,
                _ => self.delete(&mut rng).await?,
            }
            tokio::time::sleep(rng.duration(Duration::ZERO..pause_max)).await;
        }
        Ok(())
    }

    async fn create(&self, rng: &mut Rng) -> CheckResult {
        let kind = rng.below(self.kinds.len());
        let namespace = match self.kinds[kind].resource.scope() {
            Scope::Cluster => String::new(),
            Scope::Namespaced => {
                let is_away = rng.below(AWAY_ONE_IN) == 0;
                self.namespaces[usize::from(is_away)].clone()
            }
        };
        let name = self.with_book(|book| {
            book.names += 1;
            format!("{}-o{}", self.env.ns(), book.names)
        });
        let object = KnownObject {
            kind,
            namespace,
            name,
            uid: String::new(),
            is_deleted: false,
        };
        self.post(object, rng).await
    }

    /// Creates an object with random owners. An object of that name that still exists is left alone.
    async fn post(&self, object: KnownObject, rng: &mut Rng) -> CheckResult {
        let (model, references) = self.references(&object, rng);
        let known = &self.kinds[object.kind];
        let mut body = match known.kind.as_str() {
            "ConfigMap" => mk_config_map(&object.name),
            kind => mk_object(&known.api_version, kind, &object.name),
        };
        body["metadata"]["ownerReferences"] = references.into();
        let path = known.resource.collection(&object.namespace);
        let answer = self.env.send(Ask::post(path, &body), &[201, 409]).await?;
        if answer.status != 201 {
            return Ok(());
        }
        let uid = answer.uid().to_owned();
        let text = format!(
            "creates {} {} with {}",
            known.kind,
            object.name,
            shown(&model)
        );
        self.with_book(|book| {
            book.objects.push(KnownObject {
                uid: uid.clone(),
                ..object
            });
        });
        self.accepted(
            &uid,
            &text,
            &answer,
            UserAct::Wrote {
                references: model,
                is_deleting: false,
            },
        );
        Ok(())
    }

    /// Replaces all references of an object.
    async fn re_parent(&self, rng: &mut Rng) -> CheckResult {
        let Some(object) = self.any(rng) else {
            return Ok(());
        };
        let (model, references) = self.references(&object, rng);
        let patch = json!({"metadata": {"uid": object.uid, "ownerReferences": references}});
        let ask = Ask::merge_patch(self.path(&object), &patch);
        let answer = self.env.send(ask, &[200, 404, 409, 422]).await?;
        if answer.status == 200 {
            let text = format!("re-parents {} to {}", object.name, shown(&model));
            let is_deleting = answer.body["metadata"]["deletionTimestamp"].is_string();
            self.accepted(
                &object.uid,
                &text,
                &answer,
                UserAct::Wrote {
                    references: model,
                    is_deleting,
                },
            );
        }
        Ok(())
    }

    /// Deletes an object and creates another one of the same name.
    async fn re_create(&self, rng: &mut Rng) -> CheckResult {
        let Some(object) = self.any(rng) else {
            return Ok(());
        };
        self.send_delete(&object, DeletePolicy::Background).await?;
        self.post(object, rng).await
    }

    async fn delete(&self, rng: &mut Rng) -> CheckResult {
        let Some(object) = self.any(rng) else {
            return Ok(());
        };
        // A second delete of one object may change its policy; that is a race, so it is rare.
        if object.is_deleted && rng.below(8) > 0 {
            return Ok(());
        }
        let policies = [
            DeletePolicy::Background,
            DeletePolicy::Foreground,
            DeletePolicy::Orphan,
        ];
        let policy = policies[rng.below(policies.len())];
        self.send_delete(&object, policy).await
    }

    async fn send_delete(&self, object: &KnownObject, policy: DeletePolicy) -> CheckResult {
        let options =
            json!({"propagationPolicy": policy.word(), "preconditions": {"uid": object.uid}});
        let ask = Ask::new(Method::DELETE, self.path(object)).json(&options);
        let answer = self.env.send(ask, &[200, 202, 404, 409]).await?;
        if answer.status > 300 {
            return Ok(());
        }
        self.with_book(|book| {
            let mut known = book.objects.iter_mut();
            if let Some(known) = known.find(|known| known.uid == object.uid) {
                known.is_deleted = true;
            }
        });
        let text = format!("deletes {} with {policy:?}", object.name);
        self.accepted(&object.uid, &text, &answer, UserAct::Deleted(policy));
        Ok(())
    }

    fn accepted(&self, uid: &str, text: &str, answer: &Answer, act: UserAct) {
        let revision = answer.rv().parse().unwrap_or(0);
        let line = format!("user {text}: {} at {revision}", answer.status);
        self.with_book(|book| {
            book.lines
                .push((self.began.elapsed(), uid.to_owned(), line));
            book.deeds.push(UserDeed {
                revision,
                uid: uid.to_owned(),
                act,
            });
        });
    }

    fn path(&self, object: &KnownObject) -> String {
        let resource = &self.kinds[object.kind].resource;
        format!("{}/{}", resource.collection(&object.namespace), object.name)
    }

    /// An object that users know of; more often a new one that exists as far as they know.
    fn any(&self, rng: &mut Rng) -> Option<KnownObject> {
        self.with_book(|book| {
            let mut tried = (0..SEARCHES).map(|_| rng.below(book.objects.len()));
            let found = tried.find(|at| book.objects.get(*at).is_some_and(|own| !own.is_deleted));
            book.objects.get(found.unwrap_or(0)).cloned()
        })
    }

    /// Random owners of an object, for the model and for the server.
    fn references(&self, object: &KnownObject, rng: &mut Rng) -> (Vec<ModelReference>, Vec<Value>) {
        let odd = rng.below(100);
        let wanted = [0, 0, 1, 1, 1, 1, 1, 1, 2, 2][rng.below(10)];
        let mut all: Vec<(ModelReference, Value)> = match odd {
            0 => return odd_reference("v9", ReferenceTarget::UnknownKind, rng),
            // A cluster-scoped object cannot say in which namespace its owner would be.
            1 | 2 if object.namespace.is_empty() => {
                return odd_reference("v1", ReferenceTarget::UnknownKind, rng);
            }
            1 | 2 => return odd_reference("v1", ReferenceTarget::Nothing, rng),
            3 => self.foreign_owner(object, rng).into_iter().collect(),
            _ => Vec::new(),
        };
        for _ in 0..wanted {
            let owner = self.owner(object, rng, |own| reaches(object, own));
            let is_new = |own: &(ModelReference, Value)| all.iter().all(|known| known.0 != own.0);
            all.extend(owner.filter(is_new));
        }
        all.into_iter().unzip()
    }

    /// A reference to an object of the other namespace, which does not count.
    fn foreign_owner(
        &self,
        object: &KnownObject,
        rng: &mut Rng,
    ) -> Option<(ModelReference, Value)> {
        let is_foreign = |own: &KnownObject| {
            !own.namespace.is_empty()
                && !object.namespace.is_empty()
                && own.namespace != object.namespace
        };
        let (model, value) = self.owner(object, rng, is_foreign)?;
        let target = ReferenceTarget::Nothing;
        Some((ModelReference { target, ..model }, value))
    }

    fn owner(
        &self,
        object: &KnownObject,
        rng: &mut Rng,
        fits: impl Fn(&KnownObject) -> bool,
    ) -> Option<(ModelReference, Value)> {
        let owner = self.with_book(|book| {
            let all = &book.objects;
            let near = match rng.below(4) {
                0 => all.len(),
                _ => all.len().min(NEAR),
            };
            let mut tried = (0..SEARCHES).filter_map(|_| {
                let own = all.get(all.len().checked_sub(1 + rng.below(near))?)?;
                // A dead owner is a mistake that users make now and then.
                let is_fine = !own.is_deleted || rng.below(10) == 0;
                (is_fine && own.uid != object.uid && fits(own)).then_some(own)
            });
            tried.next().cloned()
        })?;
        let known = &self.kinds[owner.kind];
        let mut value = json!({"apiVersion": known.api_version, "kind": known.kind,
            "name": owner.name, "uid": owner.uid});
        if rng.below(2) == 0 {
            value["blockOwnerDeletion"] = true.into();
        }
        let model = ModelReference {
            uid: owner.uid,
            target: ReferenceTarget::Owner,
        };
        Some((model, value))
    }
}

/// A reference to a ConfigMap that never existed, in a version that may not be served.
fn odd_reference(
    version: &str,
    target: ReferenceTarget,
    rng: &mut Rng,
) -> (Vec<ModelReference>, Vec<Value>) {
    let uid = rng.uuid().to_string();
    let value = json!({"apiVersion": version, "kind": "ConfigMap", "name": "never", "uid": uid});
    (vec![ModelReference { uid, target }], vec![value])
}

/// Whether a reference of an object can lead to an owner.
fn reaches(object: &KnownObject, owner: &KnownObject) -> bool {
    owner.namespace.is_empty() || owner.namespace == object.namespace
}

fn shown(references: &[ModelReference]) -> String {
    let owners = references.iter().map(|own| match own.target {
        ReferenceTarget::Owner => own.uid.clone(),
        target => format!("{} ({target:?})", own.uid),
    });
    let owners: Vec<String> = owners.collect();
    match owners.is_empty() {
        true => "no owner".to_owned(),
        false => owners.join(", "),
    }
}
