//! The kinds a server has: their numbers, where they are served, and how well each is known.
//!
//! Discovery makes a [`KindCatalog`] and replaces it as a whole; feeds hand it on to every controller as a change. A
//! [`KindId`] stands for one resource of one group for as long as the process lives, also while that resource is not
//! served, so that indexes can hold two bytes instead of three strings.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

/// One resource of one group, `deployments.apps`. Numbers are given by [`KindCatalog::with`] and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u16);

/// A resource as discovery describes it, in the version the server prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKind {
    /// API group, empty for core.
    pub group: Box<str>,
    /// The version used to ask for it.
    pub version: Box<str>,
    /// `Deployment`.
    pub kind: Box<str>,
    /// `deployments`.
    pub resource: Box<str>,
    /// Where its objects live.
    pub scope: KindScope,
    /// What can be done with it.
    pub verbs: KindVerbs,
    /// Every version of the group that serves this kind, the preferred one included.
    pub versions: Vec<Box<str>>,
    /// Its singular and its short names, `deployment` and `deploy`: what people type.
    pub aliases: Vec<Box<str>>,
}

/// Where objects of a kind live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindScope {
    /// In a namespace each.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// The verbs that matter here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindVerbs {
    /// One object can be read.
    pub get: bool,
    /// All objects can be read.
    pub list: bool,
    /// Changes can be followed.
    pub watch: bool,
    /// Objects can be deleted.
    pub delete: bool,
}

/// How well a kind is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindState {
    /// Its first list has not been applied yet; since when.
    Syncing(Timestamp),
    /// All its objects are known.
    Synced,
    /// Its resourceVersions went back: what was learned about it does not hold until a fresh list has been applied.
    Frozen,
    /// The server does not let us list or watch it.
    Forbidden,
    /// Lists or watches fail; since when.
    Failing(Timestamp),
    /// It is not served any more, and nothing is known about it.
    Gone,
}

/// All kinds of a server, as one discovery found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindCatalog {
    /// By id; `None` for what is not served now.
    kinds: Vec<Option<ApiKind>>,
    ids: BTreeMap<(Box<str>, Box<str>), KindId>,
    /// Group, version, kind in lower case → resource.
    served: BTreeMap<GroupVersionKind, KindMeaning>,
}

/// What a kind stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindMeaning {
    One(KindId),
    Several,
}

type GroupVersionKind = (Box<str>, Box<str>, Box<str>);

// === impl KindCatalog ===

impl KindCatalog {
    /// The catalog of the kinds served now, with the numbers that `self` has given out already.
    #[must_use]
    pub fn with(&self, kinds: impl IntoIterator<Item = ApiKind>) -> Self {
        let mut next = Self {
            kinds: vec![None; self.kinds.len()],
            ids: self.ids.clone(),
            served: BTreeMap::new(),
        };
        for kind in kinds {
            next.add(kind);
        }
        next
    }

    /// More kinds than a number can count are left out: whoever refers to them refers to something unknown.
    fn add(&mut self, kind: ApiKind) {
        let key = (kind.group.clone(), kind.resource.clone());
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let Ok(number) = u16::try_from(self.kinds.len()) else {
                    return;
                };
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

    /// Which resource a kind stands for that several have: the one whose objects can be deleted. If there are two of
    /// those, nobody can tell where an owner is, and it is presumed alive.
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

    /// The kind behind a number, if it is served now.
    #[must_use]
    pub fn get(&self, id: KindId) -> Option<&ApiKind> {
        self.kinds.get(usize::from(id.0))?.as_ref()
    }

    /// The number of a resource, served now or earlier.
    #[must_use]
    pub fn id(&self, group: &str, resource: &str) -> Option<KindId> {
        self.ids.get(&(group.into(), resource.into())).copied()
    }

    /// What an ownerReference's `apiVersion` and `kind` stand for. The version must be one that is served; a kind may
    /// also be written in lower case, as upstream's mapper allows.
    #[must_use]
    pub fn resolve(&self, api_version: &str, kind: &str) -> Option<KindId> {
        let (group, version) = split_api_version(api_version)?;
        let name = kind.to_lowercase();
        let key = (group.into(), version.into(), name.as_str().into());
        let KindMeaning::One(id) = *self.served.get(&key)? else {
            return None;
        };
        let exact = self.get(id)?;
        (*exact.kind == *kind || *name == *kind).then_some(id)
    }

    /// Everything that is served now, in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &ApiKind)> {
        let numbered = (0..=u16::MAX).zip(&self.kinds);
        numbered.filter_map(|(number, kind)| Some((KindId(number), kind.as_ref()?)))
    }
}

// === impl ApiKind ===

impl ApiKind {
    /// `apps/v1`, or `v1` for core.
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

    /// Whether the collector can look after it.
    #[must_use]
    pub fn is_deletable(&self) -> bool {
        self.verbs.list && self.verbs.watch && self.verbs.delete
    }
}

/// `deployments.apps`, or `pods` for core: how logs, metrics and flags name a resource.
impl fmt::Display for ApiKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

/// Group and version of an `apiVersion`; nothing if there is more than one slash.
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

    fn kind(group: &str, kind: &str, resource: &str, versions: &[&str]) -> ApiKind {
        ApiKind {
            group: group.into(),
            version: versions[0].into(),
            kind: kind.into(),
            resource: resource.into(),
            scope: KindScope::Namespaced,
            verbs: KindVerbs::default(),
            versions: versions.iter().map(|&version| version.into()).collect(),
            aliases: Vec::new(),
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
    fn a_kind_that_two_resources_have_means_the_one_that_can_be_deleted_or_none() {
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
    fn a_number_outlives_the_kind_it_stands_for() {
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
    fn a_path_names_the_namespace_only_where_there_is_one() {
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
