//! What an actor knows: objects of a few kinds as they were last seen, and who belongs to whom.
//!
//! Filled by feeds and by the answers to the actor's own requests; the newer resourceVersion wins. What a request has
//! ended stays ended until a feed shows its end, so that a watch that lags behind brings nothing back to life.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use caretaker_controllers::runtime::call::{Answer, Call, Judged, Target};
use caretaker_controllers::runtime::controller::Change;
use caretaker_controllers::runtime::kind::{Catalog, Kind, KindId, KindState};
use caretaker_controllers::runtime::record::{Body, Meta, Record, Uid};
use serde_json::Value;

/// A group and a resource.
pub(crate) type Named = (&'static str, &'static str);

/// Where an object is, within its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Empty for objects of the cluster.
    pub(crate) namespace: Box<str>,
    /// Its name.
    pub(crate) name: Box<str>,
}

/// An object as it was last seen.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    record: Arc<Record>,
    value: Value,
    /// A request has changed it, and the answer did not show how.
    is_stale: bool,
}

/// What an actor knows.
#[derive(Debug)]
pub(crate) struct World {
    kinds: &'static [Named],
    catalog: Arc<Catalog>,
    synced: BTreeSet<KindId>,
    objects: BTreeMap<(KindId, Key), Object>,
    places: BTreeMap<Uid, (KindId, Key)>,
    /// By the uid of their controller.
    controlled: BTreeMap<Uid, BTreeSet<(KindId, Key)>>,
    /// Ended by a request; no feed has shown it yet.
    ended: BTreeSet<Uid>,
}

// === impl Key ===

impl Key {
    /// Where an object of a namespace is.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Where the object with this metadata is.
    pub(crate) fn of(meta: &Meta) -> Self {
        Self::new(&meta.namespace, &meta.name)
    }
}

// === impl Object ===

impl Object {
    fn new(record: &Arc<Record>) -> Self {
        let value = match &record.body {
            Body::Json(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
            Body::None => Value::Null,
        };
        Self {
            record: record.clone(),
            value,
            is_stale: false,
        }
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.record.meta
    }

    pub(crate) fn kind(&self) -> KindId {
        self.record.kind
    }

    pub(crate) fn key(&self) -> Key {
        Key::of(self.meta())
    }

    /// The value at a JSON pointer; null where there is nothing.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.value.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer; empty where there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// The number at a JSON pointer.
    pub(crate) fn number(&self, pointer: &str) -> Option<i64> {
        self.at(pointer).as_i64()
    }

    /// The items of the list at a JSON pointer.
    pub(crate) fn items(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.meta().deletion.is_some()
    }

    /// A request has changed it, and how is not known yet.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether a condition is true.
    pub(crate) fn is_true(&self, condition: &str) -> bool {
        let mut conditions = self.items("/status/conditions").iter();
        conditions.any(|known| known["type"] == condition && known["status"] == "True")
    }

    pub(crate) fn judged(&self) -> Judged {
        Judged {
            uid: self.meta().uid.clone(),
            revision: self.meta().revision.clone(),
        }
    }

    pub(crate) fn target(&self) -> Target {
        Target {
            kind: self.kind(),
            namespace: self.meta().namespace.clone(),
            name: self.meta().name.clone(),
        }
    }

    /// Whom it belongs to.
    pub(crate) fn controller(&self) -> Option<&Uid> {
        let mut owners = self.meta().owners.iter();
        let controller = owners.find(|owner| owner.controller == Some(true));
        controller.map(|owner| &owner.uid)
    }
}

// === impl World ===

impl World {
    pub(crate) fn new(kinds: &'static [Named]) -> Self {
        Self {
            kinds,
            catalog: Arc::default(),
            synced: BTreeSet::new(),
            objects: BTreeMap::new(),
            places: BTreeMap::new(),
            controlled: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }

    /// Whether all there is of every kind is known; a kind that is not served is not waited for.
    pub(crate) fn is_complete(&self) -> bool {
        let served = self.kinds.iter().filter_map(|named| self.served(*named));
        let mut served = served.map(|(id, _)| id).peekable();
        served.peek().is_some() && served.all(|id| self.synced.contains(&id))
    }

    /// A kind, if it is served.
    pub(crate) fn served(&self, (group, resource): Named) -> Option<(KindId, &Kind)> {
        let id = self.catalog.id(group, resource)?;
        Some((id, self.catalog.get(id)?))
    }

    /// What the kind behind a number is called, if it is served.
    pub(crate) fn kind(&self, id: KindId) -> Option<&Kind> {
        self.catalog.get(id)
    }

    pub(crate) fn get(&self, named: Named, key: &Key) -> Option<&Object> {
        let id = self.catalog.id(named.0, named.1)?;
        self.objects.get(&(id, key.clone()))
    }

    /// All objects of a kind.
    pub(crate) fn all(&self, named: Named) -> impl Iterator<Item = &Object> {
        let id = self.catalog.id(named.0, named.1);
        let first = id.map(|id| (id, Key::new("", "")));
        let from = first
            .into_iter()
            .flat_map(|first| self.objects.range(first..));
        from.take_while(move |((kind, _), _)| Some(*kind) == id)
            .map(|(_, object)| object)
    }

    /// The objects of a kind that belong to `owner`.
    pub(crate) fn of<'a>(
        &'a self,
        owner: &Object,
        named: Named,
    ) -> impl Iterator<Item = &'a Object> + 'a {
        let id = self.catalog.id(named.0, named.1);
        let places = self.controlled.get(&owner.meta().uid).into_iter().flatten();
        places
            .filter(move |(kind, _)| Some(*kind) == id)
            .filter_map(|place| self.objects.get(place))
    }

    /// Takes note of what a feed tells. Answers with the object that came, changed or went.
    pub(crate) fn observe(&mut self, change: &Change) -> Option<Object> {
        match change {
            Change::Applied(record) => self.apply(record),
            Change::Deleted(record) => {
                self.ended.remove(&record.meta.uid);
                let gone = self.remove(&record.meta.uid);
                gone.or_else(|| Some(Object::new(record)))
            }
            Change::Missing(_, uid) => {
                self.ended.remove(uid);
                self.remove(uid)
            }
            Change::Kind(kind, state) => {
                self.know(*kind, *state);
                None
            }
            Change::Catalog(catalog) => {
                self.catalog = catalog.clone();
                None
            }
        }
    }

    /// Takes note of what a request was answered.
    pub(crate) fn heard(&mut self, call: &Call, answer: &Answer) -> Option<Object> {
        match (call, answer) {
            (Call::Delete { judged, .. }, Answer::Object(record)) if is_last(record) => {
                self.end(&judged.uid)
            }
            (_, Answer::Object(record)) => self.apply(record),
            (Call::Delete { judged, .. }, Answer::Done) => self.end(&judged.uid),
            (_, Answer::Absent(_)) => {
                let Target {
                    kind,
                    namespace,
                    name,
                } = call.target();
                let place = (*kind, Key::new(namespace, name));
                let uid = self.objects.get(&place)?.meta().uid.clone();
                self.end(&uid)
            }
            (Call::Create { target, object, .. }, Answer::Done) => {
                let place = (target.kind, Key::new(&target.namespace, &target.name));
                let known = self.objects.get_mut(&place)?;
                // A feed may have been faster than the answer.
                let sent = object["metadata"]["resourceVersion"].as_str();
                known.is_stale |= sent == Some(&known.meta().revision.to_string());
                None
            }
            (_, Answer::Done | Answer::Failed(_)) => None,
        }
    }

    fn know(&mut self, kind: KindId, state: KindState) {
        match state {
            KindState::Synced => {
                self.synced.insert(kind);
            }
            KindState::Syncing(_) => {
                self.synced.remove(&kind);
            }
            KindState::Gone => {
                self.synced.remove(&kind);
                let places = self.objects.keys().filter(|(id, _)| *id == kind);
                for place in places.cloned().collect::<Vec<_>>() {
                    self.drop_at(&place);
                }
            }
            KindState::Frozen | KindState::Forbidden | KindState::Failing(_) => {}
        }
    }

    fn apply(&mut self, record: &Arc<Record>) -> Option<Object> {
        let place = (record.kind, Key::of(&record.meta));
        let is_old = self.objects.get(&place).is_some_and(|known| {
            let (known, new) = (&known.meta().revision, &record.meta.revision);
            new.is_before(known)
        });
        if is_old || self.ended.contains(&record.meta.uid) {
            return None;
        }
        self.drop_at(&place);
        let object = Object::new(record);
        if let Some(owner) = object.controller() {
            let places = self.controlled.entry(owner.clone()).or_default();
            places.insert(place.clone());
        }
        self.places.insert(record.meta.uid.clone(), place.clone());
        self.objects.insert(place, object.clone());
        Some(object)
    }

    /// A request has ended an object.
    fn end(&mut self, uid: &Uid) -> Option<Object> {
        let gone = self.remove(uid)?;
        self.ended.insert(uid.clone());
        Some(gone)
    }

    fn remove(&mut self, uid: &Uid) -> Option<Object> {
        let place = self.places.get(uid)?.clone();
        self.drop_at(&place)
    }

    fn drop_at(&mut self, place: &(KindId, Key)) -> Option<Object> {
        let object = self.objects.remove(place)?;
        self.places.remove(&object.meta().uid);
        if let Some(owner) = object.controller()
            && let Some(places) = self.controlled.get_mut(owner)
        {
            places.remove(place);
            if places.is_empty() {
                self.controlled.remove(owner);
            }
        }
        Some(object)
    }
}

/// Whether a delete has removed the object that it was answered with.
fn is_last(record: &Record) -> bool {
    let object = Object::new(&Arc::new(record.clone()));
    let grace = object.number("/metadata/deletionGracePeriodSeconds");
    record.meta.finalizers.is_empty() && (!object.is_deleting() || grace == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use caretaker_controllers::runtime::call::Proof;
    use caretaker_controllers::runtime::kind::{Scope, Verbs};
    use caretaker_controllers::runtime::record::{View, decode};
    use serde_json::json;

    const PODS: Named = ("", "pods");

    fn mk_world() -> World {
        let pods = Kind {
            group: "".into(),
            version: "v1".into(),
            kind: "Pod".into(),
            resource: "pods".into(),
            scope: Scope::Namespaced,
            verbs: Verbs::default(),
            versions: vec!["v1".into()],
            aliases: Vec::new(),
        };
        let mut world = World::new(&[PODS]);
        world.observe(&Change::Catalog(Arc::new(Catalog::default().with([pods]))));
        world
    }

    fn mk_record(uid: &str, revision: u32, meta: &Value) -> Arc<Record> {
        let mut object = json!({"metadata": {"name": "p", "namespace": "n", "uid": uid,
            "resourceVersion": revision.to_string()}});
        for (name, value) in meta.as_object().unwrap() {
            object["metadata"][name] = value.clone();
        }
        Arc::new(decode(KindId(0), object.to_string().as_bytes(), View::Full).unwrap())
    }

    fn mk_delete(uid: &str) -> Call {
        Call::Delete {
            target: Target {
                kind: KindId(0),
                namespace: "n".into(),
                name: "p".into(),
            },
            judged: Judged {
                uid: uid.into(),
                revision: "1".into(),
            },
            propagation: None,
            grace_secs: None,
        }
    }

    #[test]
    fn what_a_delete_is_answered_with_is_there_or_gone() {
        let time = "2026-01-01T00:00:00Z";
        let cases = [
            (json!({}), false),
            (json!({"finalizers": ["x.y/z"]}), true),
            (
                json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 30}),
                true,
            ),
            (
                json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 0}),
                false,
            ),
            (
                json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 0, "finalizers": ["x.y/z"]}),
                true,
            ),
        ];
        for (meta, is_there) in cases {
            let mut world = mk_world();
            world.observe(&Change::Applied(mk_record("u", 1, &json!({}))));
            let answer = Answer::Object(mk_record("u", 2, &meta));
            world.heard(&mk_delete("u"), &answer);
            assert_eq!(
                world.get(PODS, &Key::new("n", "p")).is_some(),
                is_there,
                "{meta}"
            );
        }
    }

    #[test]
    fn a_feed_that_lags_brings_nothing_back_and_a_successor_is_another() {
        for answer in [Answer::Done, Answer::Absent(Proof::NotFound)] {
            let (mut world, key) = (mk_world(), Key::new("n", "p"));
            world.observe(&Change::Applied(mk_record("u", 1, &json!({}))));
            world.heard(&mk_delete("u"), &answer);
            assert!(
                world
                    .observe(&Change::Applied(mk_record("u", 2, &json!({}))))
                    .is_none()
            );
            assert!(world.get(PODS, &key).is_none());
            world.observe(&Change::Applied(mk_record("v", 4, &json!({}))));
            world.observe(&Change::Deleted(mk_record("u", 3, &json!({}))));
            let successor = world.get(PODS, &key).unwrap();
            assert_eq!(successor.meta().uid, "v".into());
            assert!(world.ended.is_empty(), "nothing is kept for ever");
        }
    }

    #[test]
    fn dependents_are_found_by_their_controller_only() {
        let mut world = mk_world();
        let owner = mk_record("o", 1, &json!({"name": "owner"}));
        let owned = |controller: bool| json!({"ownerReferences": [{"uid": "o", "name": "owner", "controller": controller}]});
        for (revision, controller, count) in [(2, true, 1), (3, false, 0)] {
            world.observe(&Change::Applied(mk_record(
                "u",
                revision,
                &owned(controller),
            )));
            assert_eq!(world.of(&Object::new(&owner), PODS).count(), count);
        }
        assert!(world.controlled.is_empty());
    }
}
