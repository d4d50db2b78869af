//! Decodes the documents of discovery, in the old and in the aggregated form. Pure functions of their bytes.
//!
//! Both forms give the same list of resources, in the server's order of preference; [`assemble`] makes kinds of it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::kind::{ApiKind, KindScope, KindVerbs, split_api_version};

/// A root document, `/api` or `/apis`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootDocument {
    /// The document has the resources of all group versions.
    Aggregated {
        /// Each resource once for each version that serves it.
        kinds: Vec<ApiKind>,
        /// The group versions whose resources the server does not know at the moment.
        stale: Vec<GroupVersion>,
    },
    /// The document only names the group versions.
    Names(Vec<GroupVersion>),
}

/// The group and the version.
pub type GroupVersion = (Box<str>, Box<str>);

/// Why a document is no discovery document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDocument {
    #[error("not a discovery document: {0}")]
    Unreadable(String),
    /// The document is of another kind, for example a `Status`.
    #[error("not a discovery document but a {0:?}")]
    OtherKind(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DocumentHead {
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedList {
    items: Option<Vec<AggregatedGroup>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedGroup {
    metadata: GroupMetadata,
    versions: Option<Vec<AggregatedVersion>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupMetadata {
    name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedVersion {
    version: Box<str>,
    freshness: Option<String>,
    resources: Option<Vec<AggregatedResource>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedResource {
    resource: Box<str>,
    /// Missing if only subresources are served.
    response_kind: Option<AggregatedKind>,
    scope: String,
    singular_resource: Option<Box<str>>,
    verbs: Option<Vec<String>>,
    short_names: Option<Vec<Box<str>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AggregatedKind {
    kind: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CoreVersions {
    versions: Option<Vec<Box<str>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupList {
    groups: Option<Vec<ListedGroup>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListedGroup {
    name: Box<str>,
    versions: Option<Vec<GroupVersionName>>,
    preferred_version: Option<GroupVersionName>,
}

#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupVersionName {
    group_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceList {
    resources: Option<Vec<ListedResource>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListedResource {
    name: Box<str>,
    singular_name: Option<Box<str>>,
    namespaced: bool,
    kind: Box<str>,
    verbs: Option<Vec<String>>,
    short_names: Option<Vec<Box<str>>>,
}

/// Decodes `/api` or `/apis`, in either form.
///
/// # Errors
/// The document is no root of discovery.
pub fn read_root(document: &[u8]) -> Result<RootDocument, BadDocument> {
    let head: DocumentHead = read(document)?;
    match head.kind.as_str() {
        "APIGroupDiscoveryList" => Ok(read_aggregated(read(document)?)),
        "APIVersions" => {
            let core: CoreVersions = read(document)?;
            let versions = core.versions.unwrap_or_default().into_iter();
            let names = versions.filter(|version| is_name(version));
            Ok(RootDocument::Names(
                names.map(|name| ("".into(), name)).collect(),
            ))
        }
        "APIGroupList" => {
            let list: GroupList = read(document)?;
            let groups = list.groups.unwrap_or_default().into_iter();
            Ok(RootDocument::Names(
                groups.flat_map(preferred_first).collect(),
            ))
        }
        _ => Err(BadDocument::OtherKind(head.kind)),
    }
}

/// Decodes `/api/v1` or `/apis/GROUP/VERSION`.
///
/// # Errors
/// The document is no list of resources.
pub fn read_resources(
    (group, version): &GroupVersion,
    document: &[u8],
) -> Result<Vec<ApiKind>, BadDocument> {
    let head: DocumentHead = read(document)?;
    if head.kind != "APIResourceList" {
        return Err(BadDocument::OtherKind(head.kind));
    }
    let list: ResourceList = read(document)?;
    let listed = list.resources.unwrap_or_default().into_iter();
    let kinds = listed.map(|entry| ApiKind {
        group: group.clone(),
        version: version.clone(),
        kind: entry.kind,
        resource: entry.name,
        scope: scope(entry.namespaced),
        verbs: verbs(entry.verbs.as_deref()),
        versions: vec![version.clone()],
        aliases: aliases(entry.singular_name, entry.short_names),
    });
    Ok(kinds.filter(is_whole).collect())
}

/// The kinds of a server: each resource in the first version of its group that serves it.
#[must_use]
pub fn assemble(served: impl IntoIterator<Item = ApiKind>) -> Vec<ApiKind> {
    let mut kinds: Vec<ApiKind> = Vec::new();
    let mut places: BTreeMap<(Box<str>, Box<str>), usize> = BTreeMap::new();
    for kind in served {
        let key = (kind.group.clone(), kind.resource.clone());
        if let Some(&place) = places.get(&key) {
            let versions = &mut kinds[place].versions;
            if !versions.contains(&kind.version) {
                versions.push(kind.version);
            }
            continue;
        }
        places.insert(key, kinds.len());
        kinds.push(kind);
    }
    kinds
}

fn read_aggregated(list: AggregatedList) -> RootDocument {
    let (mut kinds, mut stale) = (Vec::new(), Vec::new());
    for group in list.items.unwrap_or_default() {
        let name = group.metadata.name;
        for entry in group.versions.unwrap_or_default() {
            if name.contains('/') || !is_name(&entry.version) {
                continue;
            }
            if entry.freshness.as_deref() == Some("Stale") {
                stale.push((name.clone(), entry.version));
                continue;
            }
            let listed = entry.resources.unwrap_or_default().into_iter();
            let version = &entry.version;
            let served = listed.filter_map(|entry| {
                Some(ApiKind {
                    group: name.clone(),
                    version: version.clone(),
                    kind: entry.response_kind?.kind,
                    resource: entry.resource,
                    scope: scope(entry.scope == "Namespaced"),
                    verbs: verbs(entry.verbs.as_deref()),
                    versions: vec![version.clone()],
                    aliases: aliases(entry.singular_resource, entry.short_names),
                })
            });
            kinds.extend(served.filter(is_whole));
        }
    }
    RootDocument::Aggregated { kinds, stale }
}

/// The versions of a group, the preferred one first. Entries that name another group or no version are left out.
fn preferred_first(group: ListedGroup) -> Vec<GroupVersion> {
    let mut names: Vec<GroupVersionName> = group.preferred_version.into_iter().collect();
    for name in group.versions.unwrap_or_default() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let parsed = names.iter().filter_map(|name| {
        let (of, version) = split_api_version(&name.group_version)?;
        (*of == *group.name && !of.is_empty() && is_name(version))
            .then(|| (group.name.clone(), version.into()))
    });
    parsed.collect()
}

fn is_name(version: &str) -> bool {
    !version.is_empty() && !version.contains('/')
}

fn scope(namespaced: bool) -> KindScope {
    if namespaced {
        KindScope::Namespaced
    } else {
        KindScope::Cluster
    }
}

fn verbs(listed: Option<&[String]>) -> KindVerbs {
    let has = |verb: &str| listed.is_some_and(|verbs| verbs.iter().any(|listed| listed == verb));
    KindVerbs {
        get: has("get"),
        list: has("list"),
        watch: has("watch"),
        delete: has("delete"),
    }
}

fn aliases(singular: Option<Box<str>>, short: Option<Vec<Box<str>>>) -> Vec<Box<str>> {
    let all = singular.into_iter().chain(short.unwrap_or_default());
    all.filter(|name| !name.is_empty()).collect()
}

fn read<'a, T: Deserialize<'a>>(document: &'a [u8]) -> Result<T, BadDocument> {
    serde_json::from_slice(document).map_err(|error| BadDocument::Unreadable(error.to_string()))
}

/// Whether it is a resource with a name and a kind. Subresources are listed as `pods/status`.
fn is_whole(kind: &ApiKind) -> bool {
    !kind.kind.is_empty() && !kind.resource.is_empty() && !kind.resource.contains('/')
}
