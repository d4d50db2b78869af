//! `resources.txt`: every stable resource in aggregated discovery (`apidiscovery.k8s.io/v2`).
//!
//! Groups, and versions within a group, keep the server's order, because clients prefer the first; resources
//! are sorted by name. Discovery leaves group and version out of a kind that lives where its resource does.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{column, is_stable};
use crate::http::HttpClient;

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const HEAD: &str = "\
# resource\tgroup\tversion\tplural\tkind\tscope\tsingular\tshort names\tcategories\tverbs
# sub\tgroup\tversion\tplural/subresource\tkind (group/version/Kind where these differ)\tverbs
# `-` stands for the core group and for nothing; groups are in the server's order of preference
";

/// All stable resources, in the order in which they are written.
#[derive(Debug)]
pub(super) struct ResourceFacts(Vec<GroupVersionResources>);

/// The resources of one group and version.
#[derive(Debug, Deserialize)]
struct GroupVersionResources {
    /// Stands above the versions in discovery.
    #[serde(skip)]
    group: String,
    version: String,
    #[serde(default)]
    resources: Vec<DiscoveryResource>,
}

/// A kind with everything that names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FactGvk {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

#[derive(Deserialize)]
struct DiscoveryList {
    items: Vec<DiscoveryGroup>,
}

#[derive(Deserialize)]
struct DiscoveryGroup {
    #[serde(default)]
    metadata: DiscoveryMetadata,
    versions: Vec<GroupVersionResources>,
}

#[derive(Default, Deserialize)]
struct DiscoveryMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoveryResource {
    resource: String,
    response_kind: DiscoveryKind,
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    subresources: Vec<DiscoverySubresource>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverySubresource {
    subresource: String,
    response_kind: DiscoveryKind,
    verbs: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct DiscoveryKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    kind: String,
}

// === impl ResourceFacts ===

impl ResourceFacts {
    /// Asks a server, core group first.
    pub(super) fn ask(client: &HttpClient) -> Result<Self> {
        let mut groups = Vec::new();
        for path in ["/api", "/apis"] {
            let list = client.get_json(path, ACCEPT)?;
            let list: DiscoveryList = serde_json::from_value(list)
                .with_context(|| format!("{path} does not answer with aggregated discovery"))?;
            groups.extend(list.items);
        }
        Ok(Self::of(groups))
    }

    fn of(groups: Vec<DiscoveryGroup>) -> Self {
        let mut stable = Vec::new();
        for group in groups {
            for mut gv in group.versions {
                if !is_stable(&gv.version) {
                    continue;
                }
                gv.group.clone_from(&group.metadata.name);
                gv.resources.sort_by(|a, b| a.resource.cmp(&b.resource));
                for resource in &mut gv.resources {
                    let subresources = &mut resource.subresources;
                    subresources.sort_by(|a, b| a.subresource.cmp(&b.subresource));
                }
                stable.push(gv);
            }
        }
        Self(stable)
    }

    /// The groups and versions, in the server's order.
    pub(super) fn group_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|gv| (gv.group.as_str(), gv.version.as_str()))
    }

    /// The kinds of all resources and subresources, each once, sorted.
    pub(super) fn kinds(&self) -> Vec<FactGvk> {
        let mut kinds = Vec::new();
        for gv in &self.0 {
            for resource in &gv.resources {
                kinds.push(gv.full(&resource.response_kind));
                let subresources = resource.subresources.iter();
                kinds.extend(subresources.map(|sub| gv.full(&sub.response_kind)));
            }
        }
        kinds.sort();
        kinds.dedup();
        kinds
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        let mut groups: Vec<&str> = self.0.iter().map(|gv| gv.group.as_str()).collect();
        groups.dedup();
        let resources = || self.0.iter().flat_map(|gv| &gv.resources);
        let subresources = resources().map(|resource| resource.subresources.len());
        vec![
            ("groups", groups.len()),
            ("group-versions", self.0.len()),
            ("resources", resources().count()),
            ("subresources", subresources.sum()),
        ]
    }

    pub(super) fn text(&self) -> String {
        let rows = self.0.iter().map(|gv| {
            let resources = gv.resources.iter();
            resources
                .map(|resource| gv.rows(resource))
                .collect::<String>()
        });
        HEAD.to_owned() + &rows.collect::<String>()
    }
}

// === impl GroupVersionResources ===

impl GroupVersionResources {
    fn full(&self, kind: &DiscoveryKind) -> FactGvk {
        let place = if kind.version.is_empty() {
            (&self.group, &self.version)
        } else {
            (&kind.group, &kind.version)
        };
        FactGvk {
            group: place.0.clone(),
            version: place.1.clone(),
            kind: kind.kind.clone(),
        }
    }

    /// The row of a resource and those of its subresources.
    fn rows(&self, resource: &DiscoveryResource) -> String {
        let (group, version, plural) = (
            column([self.group.as_str()]),
            &self.version,
            &resource.resource,
        );
        let mut rows = [
            "resource",
            &group,
            version,
            plural,
            &resource.response_kind.kind,
            &resource.scope,
            &column([resource.singular_resource.as_str()]),
            &list(&resource.short_names),
            &list(&resource.categories),
            &list(&resource.verbs),
        ]
        .join("\t");
        for sub in &resource.subresources {
            let name = format!("{plural}/{}", sub.subresource);
            let row = [
                "sub",
                &group,
                version,
                &name,
                &self.kind_column(&sub.response_kind),
                &list(&sub.verbs),
            ];
            rows.push('\n');
            rows.push_str(&row.join("\t"));
        }
        rows + "\n"
    }

    fn kind_column(&self, kind: &DiscoveryKind) -> String {
        let FactGvk {
            group,
            version,
            kind,
        } = self.full(kind);
        if group == self.group && version == self.version {
            kind
        } else {
            format!("{group}/{version}/{kind}")
        }
    }
}

fn list(values: &[String]) -> String {
    column(values.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_resources() -> ResourceFacts {
        let same = |kind: &str| json!({"group": "", "version": "", "kind": kind});
        let list = json!({"items": [
            {"versions": [{"version": "v1", "resources": [
                {"resource": "pods", "responseKind": same("Pod"), "scope": "Namespaced", "singularResource": "pod",
                 "shortNames": ["po"], "categories": ["all"], "verbs": ["get", "list"], "subresources": [
                    {"subresource": "status", "responseKind": same("Pod"), "verbs": ["get"]},
                    {"subresource": "eviction", "verbs": ["create"],
                     "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}}]},
                {"resource": "nodes", "responseKind": same("Node"), "scope": "Cluster", "verbs": ["get"]}]}]},
            {"metadata": {"name": "zoo"}, "versions": [
                {"version": "v2", "resources": [{"resource": "cats", "scope": "Cluster", "verbs": ["get"],
                    "responseKind": {"group": "zoo", "version": "v2", "kind": "Cat"}}]},
                {"version": "v1beta1", "resources": []}]},
            {"metadata": {"name": "alps"}, "versions": [{"version": "v1alpha1", "resources": []}]},
        ]});
        ResourceFacts::of(serde_json::from_value::<DiscoveryList>(list).unwrap().items)
    }

    #[test]
    fn rows_are_sorted_by_name_within_the_servers_order_of_groups() {
        let text = mk_resources().text();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            rows,
            [
                "resource\t-\tv1\tnodes\tNode\tCluster\t-\t-\t-\tget",
                "resource\t-\tv1\tpods\tPod\tNamespaced\tpod\tpo\tall\tget,list",
                "sub\t-\tv1\tpods/eviction\tpolicy/v1/Eviction\tcreate",
                "sub\t-\tv1\tpods/status\tPod\tget",
                "resource\tzoo\tv2\tcats\tCat\tCluster\t-\t-\t-\tget",
            ]
        );
    }

    #[test]
    fn kinds_of_subresources_count_and_unstable_versions_do_not() {
        let resources = mk_resources();
        let kinds: Vec<String> = resources
            .kinds()
            .iter()
            .map(|k| format!("{}/{}/{}", k.group, k.version, k.kind))
            .collect();
        assert_eq!(
            kinds,
            ["/v1/Node", "/v1/Pod", "policy/v1/Eviction", "zoo/v2/Cat"]
        );
        let counts = [
            ("groups", 2),
            ("group-versions", 2),
            ("resources", 3),
            ("subresources", 2),
        ];
        assert_eq!(resources.counts(), counts);
    }
}
