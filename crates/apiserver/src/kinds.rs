//! The table of kinds that the server serves.
//!
//! Built-in rows come from two files: the discovery of the real server (`resources.txt`) and the rules that differ between
//! kinds (`rules.txt`). Rows of custom kinds are added and removed with their definitions. The table is replaced as a
//! whole, so a request works on one consistent table.

mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use caretaker_machinery::schema::StructuralSchema;
use caretaker_machinery::status::NamedResource;
use serde_json::Value;

use crate::store::{ResourceId, SchemaId};
use crate::strategy::{self, KindStrategy};
use crate::types::KindTypes;

pub(crate) use rules::{DefaultPolicy, GenerationRule, KindRules, SelectableField};

const RESOURCES: &str = include_str!("../data/resources.txt");

/// A row of the table: one resource in one version.
#[derive(Debug, Clone)]
pub(crate) struct ServedKind {
    /// The table of its objects in the store; the same for all versions of a resource.
    pub(crate) resource: ResourceId,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) subresources: Vec<ServedSubresource>,
    pub(crate) rules: KindRules,
    /// The code of kinds that need more than rules.
    pub(crate) strategy: &'static dyn KindStrategy,
    /// The definition and the schemas of a custom kind.
    pub(crate) custom: Option<CustomKind>,
    pub(crate) types: KindTypes,
}

/// A subresource, as discovery lists it.
#[derive(Debug, Clone)]
pub(crate) struct ServedSubresource {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<String>,
}

/// A kind that came from a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub(crate) struct CustomKind {
    /// Name of the definition, and the uid that distinguishes it from an earlier one of that name.
    pub(crate) definition: String,
    pub(crate) uid: String,
    /// Printer columns, as the definition has them.
    pub(crate) columns: Vec<Value>,
    /// The schema of this version.
    pub(crate) schema: Arc<CustomSchema>,
    /// The schema of the version that is stored.
    pub(crate) stored_schema: Arc<CustomSchema>,
    /// The paths of the subresource `scale`, as the definition has them; null if it does not declare it.
    pub(crate) scale: Value,
    /// The definition is being deleted, so no object may be created.
    pub(crate) terminating: bool,
}

/// A schema of a custom kind, compiled once for all objects.
#[derive(Debug)]
pub(crate) struct CustomSchema {
    /// Objects that were written under this schema are read without pruning and defaulting.
    pub(crate) id: SchemaId,
    /// The schema in the definition.
    source: Value,
    pub(crate) compiled: StructuralSchema,
}

/// All rows, by group, version and plural.
#[derive(Debug, Clone)]
pub(crate) struct KindTable {
    /// In the order of discovery, which clients use to choose between groups.
    groups: Vec<ServedGroup>,
    builtin_groups: usize,
    kinds: BTreeMap<(String, String, String), Arc<ServedKind>>,
    next: ResourceId,
    next_schema: SchemaId,
}

/// An API group and its versions, preferred first.
#[derive(Debug, Clone)]
pub(crate) struct ServedGroup {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
}

// === impl ServedKind ===

impl ServedKind {
    pub(crate) fn api_version(&self) -> String {
        join_group(&self.group, &self.version)
    }

    /// Names an object by its resource, as most messages do.
    pub(crate) fn resource_named<'a>(&'a self, name: &'a str) -> NamedResource<'a> {
        NamedResource {
            group: &self.group,
            what: &self.plural,
            name,
        }
    }

    /// Names an object by its kind, as messages about its content do.
    pub(crate) fn kind_named<'a>(&'a self, name: &'a str) -> NamedResource<'a> {
        NamedResource {
            group: &self.group,
            what: &self.kind,
            name,
        }
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Returns the verbs that discovery shows: no creates and updates while the definition is being deleted.
    pub(crate) fn shown_verbs(&self) -> Vec<&str> {
        let custom = self.custom.as_ref();
        let ending = custom.is_some_and(|custom| custom.terminating);
        let shown = |verb: &&str| !ending || !matches!(*verb, "create" | "patch" | "update");
        let verbs = self.verbs.iter().map(String::as_str);
        verbs.filter(shown).collect()
    }

    /// Returns the name of the Go package of a built-in kind.
    pub(crate) fn package(&self) -> &str {
        package_of(&self.group)
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

// === impl CustomSchema ===

impl CustomSchema {
    pub(crate) fn source(&self) -> &Value {
        &self.source
    }
}

// === impl CustomKind ===

#[cfg(test)]
impl CustomKind {
    /// A custom kind with this schema and no columns.
    pub(crate) fn mk(kinds: &mut KindTable, schema: &Value) -> Self {
        let schema = kinds.schema(schema, &[]);
        Self {
            definition: "widgets.example.com".into(),
            uid: "u".into(),
            columns: Vec::new(),
            schema: schema.clone(),
            stored_schema: schema,
            scale: Value::Null,
            terminating: false,
        }
    }
}

// === impl KindTable ===

impl KindTable {
    /// Makes the table of built-in kinds.
    pub(crate) fn builtin() -> Self {
        let mut kinds = Self {
            groups: Vec::new(),
            builtin_groups: 0,
            kinds: BTreeMap::new(),
            next: ResourceId(0),
            next_schema: SchemaId::NONE.next(),
        };
        let mut rules = rules::table();
        for line in RESOURCES.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&str> = line.split('\t').collect();
            match columns.as_slice() {
                ["resource", columns @ ..] => kinds.add_row(columns, &mut rules),
                ["sub", columns @ ..] => kinds.add_subresource(columns),
                _ => unreachable!("resources.txt: {line:?}"),
            }
        }
        kinds.builtin_groups = kinds.groups.len();
        assert!(rules.is_empty(), "rules.txt names unknown kinds: {rules:?}");
        kinds
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedKind>> {
        self.kinds
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Finds a row by `apiVersion` and `kind`.
    #[cfg(test)]
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ServedKind>> {
        self.iter()
            .find(|row| row.kind == kind && row.api_version() == api_version)
    }

    /// Reports whether a group has built-in kinds. Unknown resources of such a group get another response.
    pub(crate) fn is_builtin_group(&self, name: &str) -> bool {
        self.groups[..self.builtin_groups]
            .iter()
            .any(|group| group.name == name)
    }

    pub(crate) fn groups(&self) -> &[ServedGroup] {
        &self.groups
    }

    /// Returns the rows of one group and version, by name.
    pub(crate) fn of<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<ServedKind>> {
        self.iter()
            .filter(move |kind| kind.group == group && kind.version == version)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServedKind>> {
        self.kinds.values()
    }

    /// Returns one row for each stored resource.
    pub(crate) fn stored(&self) -> Vec<Arc<ServedKind>> {
        let mut rows: BTreeMap<ResourceId, Arc<ServedKind>> = BTreeMap::new();
        for kind in self.iter().filter(|kind| kind.allows("list")) {
            rows.entry(kind.resource).or_insert_with(|| kind.clone());
        }
        rows.into_values().collect()
    }

    /// Returns the id for a new resource.
    pub(crate) fn allot(&mut self) -> ResourceId {
        let id = self.next;
        self.next = ResourceId(id.0 + 1);
        id
    }

    /// Compiles a schema, or returns the one of `known` that has the same source.
    pub(crate) fn schema(
        &mut self,
        source: &Value,
        known: &[Arc<CustomSchema>],
    ) -> Arc<CustomSchema> {
        if let Some(same) = known.iter().find(|schema| schema.source == *source) {
            return same.clone();
        }
        let id = self.next_schema;
        self.next_schema = id.next();
        Arc::new(CustomSchema {
            id,
            source: source.clone(),
            compiled: StructuralSchema::new(source),
        })
    }

    /// Adds a row, or replaces the one of the same name.
    pub(crate) fn insert(&mut self, kind: ServedKind) {
        match self
            .groups
            .iter_mut()
            .find(|group| group.name == kind.group)
        {
            Some(group) if group.versions.contains(&kind.version) => {}
            Some(group) => {
                group.versions.push(kind.version.clone());
                group.versions.sort_by_key(|version| version_rank(version));
            }
            None => {
                let group = ServedGroup {
                    name: kind.group.clone(),
                    versions: vec![kind.version.clone()],
                };
                // Groups of custom kinds follow the built-in ones, by name.
                let at = match &kind.custom {
                    None => self.groups.len(),
                    Some(_) => {
                        self.builtin_groups
                            + self.groups[self.builtin_groups..]
                                .partition_point(|other| other.name < group.name)
                    }
                };
                self.groups.insert(at, group);
            }
        }
        let key = (
            kind.group.clone(),
            kind.version.clone(),
            kind.plural.clone(),
        );
        self.kinds.insert(key, Arc::new(kind));
    }

    /// Removes every version of a resource.
    pub(crate) fn remove(&mut self, resource: ResourceId) {
        self.kinds.retain(|_, kind| kind.resource != resource);
        for group in &mut self.groups {
            let name = &group.name;
            group.versions.retain(|version| {
                let served =
                    |kind: &Arc<ServedKind>| kind.group == *name && kind.version == *version;
                self.kinds.values().any(served)
            });
        }
        self.groups.retain(|group| !group.versions.is_empty());
    }

    fn add_row(&mut self, columns: &[&str], rules: &mut rules::RuleTable) {
        let [
            group,
            version,
            plural,
            kind,
            scope,
            singular,
            short,
            categories,
            verbs,
        ] = columns
        else {
            unreachable!("resources.txt: {columns:?}");
        };
        let group = if *group == "-" { "" } else { group };
        let other = self
            .kinds
            .values()
            .find(|row| row.group == group && row.plural == *plural)
            .map(|row| (row.resource, row.rules.clone()));
        let (resource, rules) = other.unwrap_or_else(|| {
            let rules = rules.remove(&(group.to_owned(), (*plural).to_owned()));
            let rules = rules.unwrap_or_default();
            let core = self.get("", "v1", plural).filter(|_| rules.of_core);
            let core = core.map(|row| row.resource);
            (core.unwrap_or_else(|| self.allot()), rules)
        });
        self.insert(ServedKind {
            resource,
            group: group.into(),
            version: (*version).into(),
            plural: (*plural).into(),
            singular: (*singular).into(),
            kind: (*kind).into(),
            list_kind: format!("{kind}List"),
            namespaced: *scope == "Namespaced",
            short_names: words(short),
            categories: words(categories),
            verbs: words(verbs),
            subresources: Vec::new(),
            rules,
            strategy: strategy::of_builtin(group, plural),
            custom: None,
            types: KindTypes::default(),
        });
    }

    fn add_subresource(&mut self, columns: &[&str]) {
        let [group, version, path, kind, verbs] = columns else {
            unreachable!("resources.txt: {columns:?}");
        };
        let group = if *group == "-" { "" } else { group };
        let (plural, name) = path.split_once('/').unwrap_or((path, ""));
        let key = (group.to_owned(), (*version).to_owned(), plural.to_owned());
        let Some(parent) = self.kinds.get_mut(&key) else {
            unreachable!("resources.txt: {path} has no parent");
        };
        let (own_group, own_version, kind) = match kind.rsplit_once('/') {
            Some((api_version, kind)) => {
                let (group, version) = split_group(api_version);
                (group, version, kind)
            }
            None => ("", "", *kind),
        };
        Arc::make_mut(parent).subresources.push(ServedSubresource {
            name: name.into(),
            group: own_group.into(),
            version: own_version.into(),
            kind: kind.into(),
            verbs: words(verbs),
        });
    }
}

/// Returns `group/version`, or `version` in the core group.
pub(crate) fn join_group(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Returns the name of the Go package of a built-in group.
pub(crate) fn package_of(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    }
}

/// Splits an `apiVersion` into group and version.
pub(crate) fn split_group(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Orders versions as discovery does: stable ones first, newest first among equals.
fn version_rank(version: &str) -> (u8, std::cmp::Reverse<(u32, u32)>, String) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let major: u32 = rest[..digits].parse().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (0, 0),
            pre if pre.starts_with("beta") => (1, pre[4..].parse().ok()?),
            pre if pre.starts_with("alpha") => (2, pre[5..].parse().ok()?),
            _ => return None,
        };
        Some((stage, std::cmp::Reverse((major, minor)), String::new()))
    };
    parse().unwrap_or((3, std::cmp::Reverse((0, 0)), version.to_owned()))
}

fn words(column: &str) -> Vec<String> {
    match column {
        "-" => Vec::new(),
        list => list.split(',').map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_table_matches_the_files() {
        let kinds = KindTable::builtin();
        let pods = kinds.get("", "v1", "pods").unwrap();
        assert!(pods.namespaced && pods.rules.graceful && pods.has_status());
        assert_eq!(pods.short_names, ["po"]);
        let jobs = kinds.by_kind("batch/v1", "Job").unwrap();
        assert_eq!(jobs.rules.policy, DefaultPolicy::Orphan);
        assert_eq!(jobs.api_version(), "batch/v1");
        assert_eq!(kinds.groups()[0].name, "");
    }

    #[test]
    fn events_of_both_groups_have_the_same_selectable_fields() {
        let kinds = KindTable::builtin();
        for form in kinds.iter().filter(|kind| kind.rules.of_core) {
            let core = kinds.get("", "v1", &form.plural).unwrap();
            assert_eq!(core.resource, form.resource);
            let object = serde_json::json!({"involvedObject": {"kind": "k", "namespace": "ns", "name": "n", "uid": "u",
                "apiVersion": "v", "resourceVersion": "r", "fieldPath": "f"}, "reason": "why", "type": "t",
                "reportingComponent": "c", "source": {"component": "s"}});
            let object = object.as_object().unwrap();
            let read = |kind: &ServedKind| -> Vec<String> {
                kind.rules
                    .fields
                    .iter()
                    .map(|field| field.read(object))
                    .collect()
            };
            let expected = ["k", "ns", "n", "u", "v", "r", "f", "why", "c", "t", "s"];
            assert_eq!(read(core), expected);
            assert_eq!(read(form), expected);
        }
    }

    #[test]
    fn stable_versions_come_first() {
        let mut versions = ["v1alpha1", "v2beta1", "v1", "v10", "v2", "foo", "v2beta2"];
        versions.sort_by_key(|version| version_rank(version));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta2", "v2beta1", "v1alpha1", "foo"]
        );
    }

    #[test]
    fn removing_the_last_kind_removes_its_group() {
        let mut kinds = KindTable::builtin();
        let before = kinds.groups().len();
        let mut widget = (**kinds.get("", "v1", "pods").unwrap()).clone();
        widget.resource = kinds.allot();
        widget.group = "example.com".into();
        widget.custom = Some(CustomKind::mk(&mut kinds, &Value::Null));
        let id = widget.resource;
        kinds.insert(widget);
        assert_eq!(kinds.groups().len(), before + 1);
        kinds.remove(id);
        assert_eq!(kinds.groups().len(), before);
        assert!(kinds.get("example.com", "v1", "pods").is_none());
    }
}
