//! The wire types of the kinds that the server serves: `types.txt`, read once.
//!
//! The rows are named after Go packages: the first label of a group, its version and the kind. Lists have no rows,
//! because all are made alike.

use std::sync::{LazyLock, OnceLock};

use caretaker_machinery::types::{TypeRef, TypeTable};

use crate::kinds::{ServedKind, package_of, split_group};

const TYPES: &str = include_str!("../data/types.txt");

/// The kinds of the core group that are types of `meta.k8s.io`. Some documents name no version, for historical reasons.
const META_KINDS: [&str; 7] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "DeleteOptions",
    "Status",
    "WatchEvent",
];

/// The schema of a custom kind, which has a decoder of its own.
const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// The types of a row's objects, looked up at the first use: every write asks for them several times.
#[derive(Debug, Default)]
pub(crate) struct KindTypes(OnceLock<FoundTypes>);

#[derive(Debug, Clone, Copy)]
struct FoundTypes {
    served: Option<TypeRef>,
    stored: Option<TypeRef>,
}

// === impl KindTypes ===

impl Clone for KindTypes {
    /// The copy is empty, because rows are copied to become rows of another kind.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl KindTypes {
    fn of(&self, kind: &ServedKind) -> FoundTypes {
        *self.0.get_or_init(|| FoundTypes::find(kind))
    }
}

// === impl FoundTypes ===

impl FoundTypes {
    fn find(kind: &ServedKind) -> Self {
        let served = match kind.custom {
            None => named(&kind.api_version(), &kind.kind),
            Some(_) => None,
        };
        // Two resources are served in several forms; `convert` stores one of each.
        let stored = match (kind.package(), kind.kind.as_str()) {
            ("events", _) => types().named("core.v1.Event"),
            ("autoscaling", "HorizontalPodAutoscaler") => {
                types().named("autoscaling.v2.HorizontalPodAutoscaler")
            }
            _ => served,
        };
        Self { served, stored }
    }
}

/// Returns the types, which are read at the first call.
pub fn types() -> &'static TypeTable {
    static TABLE: LazyLock<TypeTable> =
        LazyLock::new(|| TypeTable::parse(TYPES).expect("a test reads the file"));
    &TABLE
}

/// Returns the type of an object; none for custom kinds.
pub fn named(api_version: &str, kind: &str) -> Option<TypeRef> {
    let (group, version) = split_group(api_version);
    let (package, version) = match (group, version) {
        ("", _) if META_KINDS.contains(&kind) => ("meta", "v1"),
        // Its versions differ in name only.
        ("meta.k8s.io", "v1beta1") => ("meta", "v1"),
        // Only its Evictions are still accepted, and they did not change.
        ("policy", "v1beta1") => ("policy", "v1"),
        (group, version) => (package_of(group), version),
    };
    types().named(&format!("{package}.{version}.{kind}"))
}

/// Returns the type of the objects of a row as clients see them; none for custom kinds.
pub(crate) fn served(kind: &ServedKind) -> Option<TypeRef> {
    kind.types.of(kind).served
}

/// Returns the type of the stored objects of a row; none for custom kinds.
pub(crate) fn stored(kind: &ServedKind) -> Option<TypeRef> {
    kind.types.of(kind).stored
}

/// Reports whether a struct is the schema of a custom kind.
pub(crate) fn is_schema(of: TypeRef) -> bool {
    types().get(of).name == SCHEMA
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KindTable;

    #[test]
    fn every_built_in_kind_has_a_type() {
        TypeTable::parse(TYPES).unwrap();
        for kind in KindTable::builtin().iter() {
            assert!(served(kind).is_some(), "{}", kind.kind);
            assert!(stored(kind).is_some(), "{}", kind.kind);
            for part in &kind.subresources {
                let (group, version) = match part.version.as_str() {
                    "" => (kind.group.as_str(), kind.version.as_str()),
                    version => (part.group.as_str(), version),
                };
                let api_version = crate::kinds::join_group(group, version);
                let has_body = !part.kind.ends_with("Options");
                let found = named(&api_version, &part.kind).is_some();
                assert_eq!(found, has_body, "{}/{}", kind.plural, part.name);
            }
        }
    }

    #[test]
    fn finds_types_outside_of_groups() {
        for (api_version, kind) in [
            ("v1", "Status"),
            ("v1", "APIGroup"),
            ("", "APIVersions"),
            ("", "APIResourceList"),
            ("meta.k8s.io/v1", "DeleteOptions"),
            ("meta.k8s.io/v1", "PartialObjectMetadata"),
            ("meta.k8s.io/v1beta1", "PartialObjectMetadata"),
            ("meta.k8s.io/v1", "ListMeta"),
            ("v1", "WatchEvent"),
            ("apidiscovery.k8s.io/v2", "APIGroupDiscovery"),
        ] {
            assert!(named(api_version, kind).is_some(), "{kind}");
        }
        assert!(named("example.com/v1", "Widget").is_none());
    }
}
