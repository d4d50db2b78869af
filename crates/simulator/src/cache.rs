//! The cache of an actor: the objects of its kinds, indexed by name, uid and controller.
//!
//! Updated by watches and by the responses to the actor's own requests; the newer resourceVersion wins. An object that a
//! request has deleted stays deleted until the watch shows the deletion, so that a lagging watch cannot restore it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall, CallTarget, JudgedVersion};
use caretaker_controllers::runtime::controller::ObservedChange;
use caretaker_controllers::runtime::kind::{ApiKind, KindCatalog, KindId, KindState};
use caretaker_controllers::runtime::record::{ObjectRecord, OwnerRef, RecordBody, RecordMeta, Uid};
use jiff::Timestamp;
use serde_json::Value;

use crate::objects::later;

/// How long an object of a kind that is not watched counts after it was read.
const FETCHED_SECS: i64 = 5;

/// A group and a resource, such as `("apps", "deployments")`.
pub(crate) type GroupResource = (&'static str, &'static str);

/// Identifies an object within its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamespacedName {
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
}

/// The last known state of an object.
#[derive(Debug, Clone)]
pub(crate) struct ObjectSnapshot {
    record: Arc<ObjectRecord>,
    value: Value,
    /// A request has changed the object, and the response did not contain the new state.
    is_stale: bool,
}

/// Holds the objects of the kinds that an actor watches.
#[derive(Debug)]
pub(crate) struct ObjectCache {
    kinds: &'static [GroupResource],
    catalog: Arc<KindCatalog>,
    synced: BTreeSet<KindId>,
    objects: BTreeMap<(KindId, NamespacedName), ObjectSnapshot>,
    places: BTreeMap<Uid, (KindId, NamespacedName)>,
    /// Dependents by the uid of their controller.
    controlled: BTreeMap<Uid, BTreeSet<(KindId, NamespacedName)>>,
    /// Deleted by a request; the watch has not shown it yet.
    deleted: BTreeSet<Uid>,
    /// Objects of kinds that are not watched, and until when they count.
    fetched: BTreeMap<(KindId, NamespacedName), (Option<ObjectSnapshot>, Timestamp)>,
}

// === impl NamespacedName ===

impl NamespacedName {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(crate) fn of(meta: &RecordMeta) -> Self {
        Self::new(&meta.namespace, &meta.name)
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl ObjectSnapshot ===

impl ObjectSnapshot {
    fn new(record: &Arc<ObjectRecord>) -> Self {
        let value = match &record.body {
            RecordBody::Json(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
            RecordBody::None => Value::Null,
        };
        Self {
            record: record.clone(),
            value,
            is_stale: false,
        }
    }

    pub(crate) fn meta(&self) -> &RecordMeta {
        &self.record.meta
    }

    pub(crate) fn kind(&self) -> KindId {
        self.record.kind
    }

    pub(crate) fn key(&self) -> NamespacedName {
        NamespacedName::of(self.meta())
    }

    /// The value at a JSON pointer; null if there is none.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.value.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The string at a JSON pointer; empty if there is none.
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

    /// Whether a request has changed the object and the new state is not known yet.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether the object has this condition with status `True`.
    pub(crate) fn is_true(&self, condition: &str) -> bool {
        let mut conditions = self.items("/status/conditions").iter();
        conditions.any(|known| known["type"] == condition && known["status"] == "True")
    }

    pub(crate) fn judged(&self) -> JudgedVersion {
        JudgedVersion {
            uid: self.meta().uid.clone(),
            revision: self.meta().revision.clone(),
        }
    }

    pub(crate) fn target(&self) -> CallTarget {
        CallTarget {
            kind: self.kind(),
            namespace: self.meta().namespace.clone(),
            name: self.meta().name.clone(),
        }
    }

    /// The reference to the object's controller.
    pub(crate) fn controller(&self) -> Option<&OwnerRef> {
        let mut owners = self.meta().owners.iter();
        owners.find(|owner| owner.controller == Some(true))
    }

    pub(crate) fn is_controlled_by(&self, owner: &ObjectSnapshot) -> bool {
        let controller = self.controller();
        controller.is_some_and(|controller| controller.uid == owner.meta().uid)
    }
}

// === impl ObjectCache ===

impl ObjectCache {
    pub(crate) fn new(kinds: &'static [GroupResource]) -> Self {
        Self {
            kinds,
            catalog: Arc::default(),
            synced: BTreeSet::new(),
            objects: BTreeMap::new(),
            places: BTreeMap::new(),
            controlled: BTreeMap::new(),
            deleted: BTreeSet::new(),
            fetched: BTreeMap::new(),
        }
    }

    /// Whether all served kinds are synced.
    pub(crate) fn is_complete(&self) -> bool {
        let served = self.kinds.iter().filter_map(|named| self.served(*named));
        let mut served = served.map(|(id, _)| id).peekable();
        served.peek().is_some() && served.all(|id| self.synced.contains(&id))
    }

    /// Looks up a kind; `None` if it is not served.
    pub(crate) fn served(&self, (group, resource): GroupResource) -> Option<(KindId, &ApiKind)> {
        let id = self.catalog.id(group, resource)?;
        Some((id, self.catalog.get(id)?))
    }

    /// Looks up the kind of a reference; `None` if it is not served.
    pub(crate) fn resolve(&self, api_version: &str, kind: &str) -> Option<KindId> {
        self.catalog.resolve(api_version, kind)
    }

    /// An object of a kind that is not watched, as it was read a moment ago: `None` if it has to be read, `Some(None)` if
    /// it does not exist.
    pub(crate) fn fetched(
        &self,
        target: &CallTarget,
        now: Timestamp,
    ) -> Option<Option<&ObjectSnapshot>> {
        let (object, until) = self.fetched.get(&place_of(target))?;
        (*until > now).then_some(object.as_ref())
    }

    /// Looks up a kind by id; `None` if it is not served.
    pub(crate) fn kind(&self, id: KindId) -> Option<&ApiKind> {
        self.catalog.get(id)
    }

    pub(crate) fn get(
        &self,
        named: GroupResource,
        key: &NamespacedName,
    ) -> Option<&ObjectSnapshot> {
        let id = self.catalog.id(named.0, named.1)?;
        self.objects.get(&(id, key.clone()))
    }

    /// All objects of a kind.
    pub(crate) fn all(&self, named: GroupResource) -> impl Iterator<Item = &ObjectSnapshot> {
        let id = self.catalog.id(named.0, named.1);
        let first = id.map(|id| (id, NamespacedName::new("", "")));
        let from = first
            .into_iter()
            .flat_map(|first| self.objects.range(first..));
        from.take_while(move |((kind, _), _)| Some(*kind) == id)
            .map(|(_, object)| object)
    }

    /// The objects of a kind in a namespace.
    pub(crate) fn in_namespace(
        &self,
        named: GroupResource,
        namespace: &str,
    ) -> impl Iterator<Item = &ObjectSnapshot> {
        let id = self.catalog.id(named.0, named.1);
        let first = id.map(|id| (id, NamespacedName::new(namespace, "")));
        let from = first.clone().map(|first| self.objects.range(first..));
        let from = from.into_iter().flatten();
        let is_beside = move |(kind, key): &(KindId, NamespacedName)| {
            let first = first.as_ref();
            first.is_some_and(|(id, from)| kind == id && key.namespace == from.namespace)
        };
        from.take_while(move |(place, _)| is_beside(place))
            .map(|(_, object)| object)
    }

    /// The objects of a kind whose controller is `owner`.
    pub(crate) fn controlled_by<'a>(
        &'a self,
        owner: &ObjectSnapshot,
        named: GroupResource,
    ) -> impl Iterator<Item = &'a ObjectSnapshot> + 'a {
        let id = self.catalog.id(named.0, named.1);
        let places = self.controlled.get(&owner.meta().uid).into_iter().flatten();
        places
            .filter(move |(kind, _)| Some(*kind) == id)
            .filter_map(|place| self.objects.get(place))
    }

    /// Applies a change of the watch. Returns the object that was added, changed or deleted.
    pub(crate) fn observe(&mut self, change: &ObservedChange) -> Option<ObjectSnapshot> {
        match change {
            ObservedChange::Applied(record) => self.apply(record),
            ObservedChange::Deleted(record) => {
                self.deleted.remove(&record.meta.uid);
                let gone = self.remove(&record.meta.uid);
                gone.or_else(|| Some(ObjectSnapshot::new(record)))
            }
            ObservedChange::Missing(_, uid) => {
                self.deleted.remove(uid);
                self.remove(uid)
            }
            ObservedChange::Kind(kind, state) => {
                self.set_kind_state(*kind, *state);
                None
            }
            ObservedChange::Catalog(catalog) => {
                self.catalog = catalog.clone();
                None
            }
            ObservedChange::Progress(..) => None,
        }
    }

    /// Applies the response to a request.
    pub(crate) fn apply_answer(
        &mut self,
        call: &ApiCall,
        answer: &ApiAnswer,
        now: Timestamp,
    ) -> Option<ObjectSnapshot> {
        if let ApiCall::Get { target } = call
            && !self.is_watched(target.kind)
        {
            self.keep_fetched(target, answer, now);
            return None;
        }
        match (call, answer) {
            (ApiCall::Delete { judged, .. }, ApiAnswer::Object(record)) if is_last(record) => {
                self.mark_deleted(&judged.uid)
            }
            (_, ApiAnswer::Object(record)) => self.apply(record),
            (ApiCall::Delete { judged, .. }, ApiAnswer::Done) => self.mark_deleted(&judged.uid),
            (_, ApiAnswer::Absent(_)) => {
                let uid = self
                    .objects
                    .get(&place_of(call.target()))?
                    .meta()
                    .uid
                    .clone();
                self.mark_deleted(&uid)
            }
            (ApiCall::Create { target, object, .. }, ApiAnswer::Done) => {
                let known = self.objects.get_mut(&place_of(target))?;
                // The watch may have been faster than the response.
                let sent = object["metadata"]["resourceVersion"].as_str();
                known.is_stale |= sent == Some(&known.meta().revision.to_string());
                None
            }
            (_, ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Failed(_)) => None,
        }
    }

    fn is_watched(&self, id: KindId) -> bool {
        let mut ids = self.kinds.iter().filter_map(|named| self.served(*named));
        ids.any(|(known, _)| known == id)
    }

    fn keep_fetched(&mut self, target: &CallTarget, answer: &ApiAnswer, now: Timestamp) {
        let object = match answer {
            ApiAnswer::Object(record) => Some(ObjectSnapshot::new(record)),
            ApiAnswer::Absent(_) => None,
            ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Failed(_) => return,
        };
        self.fetched.retain(|_, (_, until)| *until > now);
        let until = later(now, FETCHED_SECS);
        self.fetched.insert(place_of(target), (object, until));
    }

    fn set_kind_state(&mut self, kind: KindId, state: KindState) {
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

    fn apply(&mut self, record: &Arc<ObjectRecord>) -> Option<ObjectSnapshot> {
        let place = (record.kind, NamespacedName::of(&record.meta));
        let is_old = self.objects.get(&place).is_some_and(|known| {
            let (known, new) = (&known.meta().revision, &record.meta.revision);
            new.is_before(known)
        });
        if is_old || self.deleted.contains(&record.meta.uid) {
            return None;
        }
        self.drop_at(&place);
        let object = ObjectSnapshot::new(record);
        if let Some(owner) = object.controller() {
            let places = self.controlled.entry(owner.uid.clone()).or_default();
            places.insert(place.clone());
        }
        self.places.insert(record.meta.uid.clone(), place.clone());
        self.objects.insert(place, object.clone());
        Some(object)
    }

    /// A request has deleted an object.
    fn mark_deleted(&mut self, uid: &Uid) -> Option<ObjectSnapshot> {
        let gone = self.remove(uid)?;
        self.deleted.insert(uid.clone());
        Some(gone)
    }

    fn remove(&mut self, uid: &Uid) -> Option<ObjectSnapshot> {
        let place = self.places.get(uid)?.clone();
        self.drop_at(&place)
    }

    fn drop_at(&mut self, place: &(KindId, NamespacedName)) -> Option<ObjectSnapshot> {
        let object = self.objects.remove(place)?;
        self.places.remove(&object.meta().uid);
        if let Some(owner) = object.controller()
            && let Some(places) = self.controlled.get_mut(&owner.uid)
        {
            places.remove(place);
            if places.is_empty() {
                self.controlled.remove(&owner.uid);
            }
        }
        Some(object)
    }
}

fn place_of(target: &CallTarget) -> (KindId, NamespacedName) {
    let key = NamespacedName::new(&target.namespace, &target.name);
    (target.kind, key)
}

/// Whether the delete that returned this object has removed it.
fn is_last(record: &ObjectRecord) -> bool {
    let object = ObjectSnapshot::new(&Arc::new(record.clone()));
    let grace = object.number("/metadata/deletionGracePeriodSeconds");
    record.meta.finalizers.is_empty() && (!object.is_deleting() || grace == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use caretaker_controllers::runtime::call::AbsenceProof;
    use caretaker_controllers::runtime::kind::{KindScope, KindVerbs};
    use caretaker_controllers::runtime::record::{RecordView, decode};
    use serde_json::json;

    const PODS: GroupResource = ("", "pods");

    fn mk_cache() -> ObjectCache {
        let pods = ApiKind {
            group: "".into(),
            version: "v1".into(),
            kind: "Pod".into(),
            resource: "pods".into(),
            scope: KindScope::Namespaced,
            verbs: KindVerbs::default(),
            versions: vec!["v1".into()],
            aliases: Vec::new(),
        };
        let mut cache = ObjectCache::new(&[PODS]);
        cache.observe(&ObservedChange::Catalog(Arc::new(
            KindCatalog::default().with([pods]),
        )));
        cache
    }

    fn mk_record(uid: &str, revision: u32, meta: &Value) -> Arc<ObjectRecord> {
        let mut object = json!({"metadata": {"name": "p", "namespace": "n", "uid": uid,
            "resourceVersion": revision.to_string()}});
        for (name, value) in meta.as_object().unwrap() {
            object["metadata"][name] = value.clone();
        }
        Arc::new(decode(KindId(0), object.to_string().as_bytes(), RecordView::Full).unwrap())
    }

    fn mk_delete(uid: &str) -> ApiCall {
        ApiCall::Delete {
            target: CallTarget {
                kind: KindId(0),
                namespace: "n".into(),
                name: "p".into(),
            },
            judged: JudgedVersion {
                uid: uid.into(),
                revision: "1".into(),
            },
            propagation: None,
            grace_secs: None,
        }
    }

    #[test]
    fn response_of_a_delete_shows_whether_the_object_is_gone() {
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
            let mut cache = mk_cache();
            cache.observe(&ObservedChange::Applied(mk_record("u", 1, &json!({}))));
            let answer = ApiAnswer::Object(mk_record("u", 2, &meta));
            cache.apply_answer(&mk_delete("u"), &answer, Timestamp::UNIX_EPOCH);
            assert_eq!(
                cache.get(PODS, &NamespacedName::new("n", "p")).is_some(),
                is_there,
                "{meta}"
            );
        }
    }

    #[test]
    fn lagging_watch_does_not_restore_a_deleted_object() {
        for answer in [ApiAnswer::Done, ApiAnswer::Absent(AbsenceProof::NotFound)] {
            let (mut cache, key) = (mk_cache(), NamespacedName::new("n", "p"));
            cache.observe(&ObservedChange::Applied(mk_record("u", 1, &json!({}))));
            cache.apply_answer(&mk_delete("u"), &answer, Timestamp::UNIX_EPOCH);
            assert!(
                cache
                    .observe(&ObservedChange::Applied(mk_record("u", 2, &json!({}))))
                    .is_none()
            );
            assert!(cache.get(PODS, &key).is_none());
            cache.observe(&ObservedChange::Applied(mk_record("v", 4, &json!({}))));
            cache.observe(&ObservedChange::Deleted(mk_record("u", 3, &json!({}))));
            let successor = cache.get(PODS, &key).unwrap();
            assert_eq!(successor.meta().uid, "v".into());
            assert!(cache.deleted.is_empty(), "nothing is kept for ever");
        }
    }

    #[test]
    fn objects_of_other_kinds_count_for_a_moment() {
        let mut cache = mk_cache();
        let target = CallTarget::new(KindId(9), "n", "p");
        let get = ApiCall::Get {
            target: target.clone(),
        };
        let start = Timestamp::UNIX_EPOCH;
        let answers = [
            (ApiAnswer::Object(mk_record("u", 1, &json!({}))), Some(true)),
            (ApiAnswer::Absent(AbsenceProof::NotFound), Some(false)),
        ];
        for (answer, expected) in answers {
            assert!(cache.apply_answer(&get, &answer, start).is_none());
            let found = cache.fetched(&target, start);
            assert_eq!(found.map(|object| object.is_some()), expected);
            assert!(cache.fetched(&target, later(start, FETCHED_SECS)).is_none());
        }
    }

    #[test]
    fn finds_dependents_by_controller_only() {
        let mut cache = mk_cache();
        let owner = mk_record("o", 1, &json!({"name": "owner"}));
        let owned = |controller: bool| json!({"ownerReferences": [{"uid": "o", "name": "owner", "controller": controller}]});
        for (revision, controller, count) in [(2, true, 1), (3, false, 0)] {
            cache.observe(&ObservedChange::Applied(mk_record(
                "u",
                revision,
                &owned(controller),
            )));
            assert_eq!(
                cache
                    .controlled_by(&ObjectSnapshot::new(&owner), PODS)
                    .count(),
                count
            );
        }
        assert!(cache.controlled.is_empty());
    }
}
