//! The kinds that a server has: their ids, where they are served, and the state of each feed.
//!
//! Discovery makes a [`KindCatalog`] and replaces it as a whole; feeds send it to every controller as a change. A
//! [`KindId`] stands for one resource of one group as long as the process runs, also while that resource is not served,
//! so that indexes hold two bytes instead of three strings.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

/// The id of one resource of one group, such as `deployments.apps`. [`KindCatalog::with`] assigns ids and reuses none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u16);

// === impl KindId ===

impl KindId {
    /// No kind. Ids of kinds are lower.
    pub const NONE: Self = Self(u16::MAX);
}

/// A resource as discovery describes it, in the version that the server prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKind {
    /// The API group; empty for core.
    pub group: Box<str>,
    /// The version that requests use.
    pub version: Box<str>,
    /// The kind of its objects, such as `Deployment`.
    pub kind: Box<str>,
    /// The plural in paths, such as `deployments`.
    pub resource: Box<str>,
    pub scope: KindScope,
    pub verbs: KindVerbs,
    /// Every version of the group that serves this kind, the preferred one included.
    pub versions: Vec<Box<str>>,
    /// The singular and the short names that users may type, such as `deployment` and `deploy`.
    pub aliases: Vec<Box<str>>,
}

/// Whether the objects of a kind have a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindScope {
    Namespaced,
    Cluster,
}

/// The verbs of a resource that controllers use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindVerbs {
    pub get: bool,
    pub list: bool,
    pub watch: bool,
    pub delete: bool,
}

/// The state of a kind's feed: how complete and how current its objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindState {
    /// The first list has not been applied yet, since this steady time.
    Syncing(Timestamp),
    /// A list has been applied, and the watch follows it.
    Synced,
    /// The resourceVersions went back. What is known is not relied on until a fresh list has been applied.
    Frozen,
    /// The server refuses to let us list or watch the kind.
    Forbidden,
    /// Lists or watches have failed since this steady time.
    Failing(Timestamp),
    /// The kind is not served any more, and its objects are forgotten.
    Gone,
}

/// All kinds of a server, as one round of discovery found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindCatalog {
    /// By id; `None` for a kind that is not served now.
    kinds: Vec<Option<ApiKind>>,
    ids: BTreeMap<(Box<str>, Box<str>), KindId>,
    /// The resource of each group, version and kind, with the kind in lower case.
    served: BTreeMap<GroupVersionKind, KindMeaning>,
    /// The last resource of each group, version and kind that was served once and is not served now.
    retired: BTreeMap<GroupVersionKind, RetiredKind>,
    /// The parts of discovery that could not be read, as paths such as `/apis`, and of which some kinds are not known.
    gaps: Vec<String>,
}

/// A kind that is not served any more, as far as references to it need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredKind {
    pub id: KindId,
    pub scope: KindScope,
    /// The kind of its objects, in its own spelling.
    kind: Box<str>,
}

/// The resources that a group, version and kind stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindMeaning {
    One(KindId),
    Several,
}

type GroupVersionKind = (Box<str>, Box<str>, Box<str>);

// === impl KindCatalog ===

impl KindCatalog {
    /// A catalog of the kinds that are served now. Kinds that `self` knows keep their ids.
    #[must_use]
    pub fn with(&self, kinds: impl IntoIterator<Item = ApiKind>) -> Self {
        let mut next = Self {
            kinds: vec![None; self.kinds.len()],
            ids: self.ids.clone(),
            served: BTreeMap::new(),
            retired: self.retired.clone(),
            gaps: Vec::new(),
        };
        for kind in kinds {
            next.add(kind);
        }
        for (key, meaning) in &self.served {
            if let KindMeaning::One(id) = *meaning
                && let Some(kind) = self.get(id)
            {
                let retired = RetiredKind {
                    id,
                    scope: kind.scope,
                    kind: kind.kind.clone(),
                };
                next.retired.insert(key.clone(), retired);
            }
        }
        let served = &next.served;
        next.retired.retain(|key, _| !served.contains_key(key));
        next
    }

    /// The same kinds, with the parts of discovery that could not be read.
    #[must_use]
    pub fn with_gaps(mut self, gaps: Vec<String>) -> Self {
        self.gaps.extend(gaps);
        self
    }

    /// The parts of discovery that could not be read and of which no kind is known. The server may have kinds there.
    #[must_use]
    pub fn gaps(&self) -> &[String] {
        &self.gaps
    }

    /// Adds a kind, unless all ids are used. References to a kind without an id do not resolve.
    fn add(&mut self, kind: ApiKind) {
        let key = (kind.group.clone(), kind.resource.clone());
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let number = u16::try_from(self.kinds.len()).unwrap_or(u16::MAX);
                if KindId(number) == KindId::NONE {
                    self.gaps
                        .push(format!("{kind}, because all ids of kinds are used"));
                    return;
                }
                self.kinds.push(None);
                self.ids.insert(key, KindId(number));
                KindId(number)
            }
        };
        for version in &kind.versions {
            let name = kind.kind.to_lowercase().into_boxed_str();
            let key = (kind.group.clone(), version.clone(), name);
            let known = self.served.get(&key).copied();
            self.served.insert(key, self.meant(known, id, &kind));
        }
        self.kinds[usize::from(id.0)] = Some(kind);
    }

    /// The resource of a kind that several resources have: the one whose objects can be deleted. If there are two of
    /// those, the owner cannot be looked up, and it is presumed to exist.
    ///
    /// DEVIATION(ambiguous-kinds): upstream takes the last one that discovery names, and its 404 for proof.
    fn meant(&self, known: Option<KindMeaning>, id: KindId, kind: &ApiKind) -> KindMeaning {
        let Some(KindMeaning::One(other)) = known else {
            return known.unwrap_or(KindMeaning::One(id));
        };
        let is_other_deletable = self.get(other).is_some_and(ApiKind::is_deletable);
        match (is_other_deletable, kind.is_deletable()) {
            _ if other == id => KindMeaning::One(id),
            (true, true) => KindMeaning::Several,
            (false, true) => KindMeaning::One(id),
            (_, false) => KindMeaning::One(other),
        }
    }

    /// The kind with an id, if it is served now.
    #[must_use]
    pub fn get(&self, id: KindId) -> Option<&ApiKind> {
        self.kinds.get(usize::from(id.0))?.as_ref()
    }

    /// The id of a resource that is served now or was served earlier.
    #[must_use]
    pub fn id(&self, group: &str, resource: &str) -> Option<KindId> {
        self.ids.get(&(group.into(), resource.into())).copied()
    }

    /// The kind that an ownerReference names by `apiVersion` and `kind`. The version must be served; the kind may also be
    /// written in lower case, as upstream's mapper allows.
    #[must_use]
    pub fn resolve(&self, api_version: &str, kind: &str) -> Option<KindId> {
        let KindMeaning::One(id) = *self.served.get(&lookup_key(api_version, kind)?)? else {
            return None;
        };
        is_spelled(kind, &self.get(id)?.kind).then_some(id)
    }

    /// The kind that an ownerReference names, if that kind was served once and is not served now.
    #[must_use]
    pub fn resolve_retired(&self, api_version: &str, kind: &str) -> Option<&RetiredKind> {
        let retired = self.retired.get(&lookup_key(api_version, kind)?)?;
        is_spelled(kind, &retired.kind).then_some(retired)
    }

    /// The kinds that are served now, by id.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &ApiKind)> {
        let numbered = (0..=u16::MAX).zip(&self.kinds);
        numbered.filter_map(|(number, kind)| Some((KindId(number), kind.as_ref()?)))
    }
}

// === impl ApiKind ===

impl ApiKind {
    /// The `apiVersion`: `apps/v1`, or `v1` for core.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of one object, or of all objects if `name` is empty; of all namespaces if `namespace` is.
    #[must_use]
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.scope == KindScope::Namespaced && !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.resource);
        if !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// Whether the garbage collector can watch and delete its objects.
    #[must_use]
    pub fn is_deletable(&self) -> bool {
        self.verbs.list && self.verbs.watch && self.verbs.delete
    }
}

/// The name of the resource in logs, metrics and flags: `deployments.apps`, or `pods` for core.
impl fmt::Display for ApiKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

fn lookup_key(api_version: &str, kind: &str) -> Option<GroupVersionKind> {
    let (group, version) = split_api_version(api_version)?;
    let name = kind.to_lowercase();
    Some((group.into(), version.into(), name.into()))
}

/// Whether a reference spells a kind as discovery does, or in lower case.
fn is_spelled(written: &str, kind: &str) -> bool {
    written == kind || written == kind.to_lowercase()
}

/// Splits an `apiVersion` into group and version; `None` if it has more than one slash.
#[must_use]
pub fn split_api_version(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some((group, version)) if !version.contains('/') => Some((group, version)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::mk_kind;

    fn kind(group: &str, kind: &str, resource: &str, versions: &[&str]) -> ApiKind {
        ApiKind {
            verbs: KindVerbs::default(),
            versions: versions.iter().map(|&version| version.into()).collect(),
            ..mk_kind(group, versions[0], kind, resource, KindScope::Namespaced)
        }
    }

    #[test]
    fn a_reference_resolves_by_group_served_version_and_kind() {
        let pods = kind("", "Pod", "pods", &["v1"]);
        let jobs = kind("batch", "Job", "jobs", &["v1", "v1beta1"]);
        let catalog = KindCatalog::default().with([pods, jobs]);
        let table = [
            ("v1", "Pod", Some(0)),
            ("v1", "pod", Some(0)),
            ("v1", "POD", None),
            ("batch/v1", "Job", Some(1)),
            ("batch/v1beta1", "Job", Some(1)),
            ("batch/v2", "Job", None),
            ("v1", "Job", None),
            ("core/v1", "Pod", None),
            ("a/b/c", "Pod", None),
            ("", "Pod", None),
        ];
        for (api_version, kind, expected) in table {
            let found = catalog.resolve(api_version, kind);
            assert_eq!(found, expected.map(KindId), "{api_version} {kind}");
        }
    }

    #[test]
    fn a_kind_of_two_resources_resolves_to_the_deletable_one_or_to_none() {
        let view = kind("x", "Foo", "fooviews", &["v1"]);
        let mut real = kind("x", "Foo", "foos", &["v1"]);
        real.verbs = KindVerbs {
            get: true,
            list: true,
            watch: true,
            delete: true,
        };
        let twin = ApiKind {
            resource: "twins".into(),
            ..real.clone()
        };
        let resolved = |kinds: &[&ApiKind]| {
            let catalog = KindCatalog::default().with(kinds.iter().copied().cloned());
            let id = catalog.resolve("x/v1", "Foo")?;
            catalog.get(id).map(ToString::to_string)
        };
        for kinds in [[&view, &real], [&real, &view]] {
            assert_eq!(resolved(&kinds).as_deref(), Some("foos.x"));
        }
        assert_eq!(resolved(&[&real, &twin]), None);
        assert_eq!(resolved(&[&real, &twin, &view]), None);
        assert_eq!(resolved(&[&view]).as_deref(), Some("fooviews.x"));
    }

    #[test]
    fn an_id_outlives_its_kind() {
        let first = KindCatalog::default().with([kind("a", "A", "as", &["v1"])]);
        let none = first.with([]);
        let other = none.with([kind("b", "B", "bs", &["v1"])]);
        let back = other.with([kind("a", "A", "as", &["v2"]), kind("b", "B", "bs", &["v1"])]);
        assert_eq!(first.id("a", "as"), Some(KindId(0)));
        assert_eq!(none.get(KindId(0)), None);
        assert_eq!(other.id("b", "bs"), Some(KindId(1)));
        assert_eq!(
            back.get(KindId(0)).map(ApiKind::api_version).unwrap(),
            "a/v2"
        );
        assert_eq!(back.resolve("a/v1", "A"), None);
    }

    #[test]
    fn a_kind_without_an_id_is_a_gap() {
        let many = (0..u16::MAX).map(|number| kind("x", "X", &number.to_string(), &["v1"]));
        let full = KindCatalog::default().with(many);
        assert_eq!(full.gaps(), [""; 0]);
        let more = full.with([kind("y", "Y", "ys", &["v1"])]);
        assert_eq!(more.gaps(), ["ys.y, because all ids of kinds are used"]);
        assert_eq!(more.resolve("y/v1", "Y"), None);
    }

    #[test]
    fn only_paths_of_namespaced_kinds_have_a_namespace() {
        let mut deployments = kind("apps", "Deployment", "deployments", &["v1"]);
        assert_eq!(
            deployments.path("shop", "web"),
            "/apis/apps/v1/namespaces/shop/deployments/web"
        );
        assert_eq!(deployments.path("", ""), "/apis/apps/v1/deployments");
        deployments.scope = KindScope::Cluster;
        assert_eq!(
            deployments.path("shop", "web"),
            "/apis/apps/v1/deployments/web"
        );
    }
}
