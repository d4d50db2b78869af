//! `types.txt`: the fields of the stable kinds in JSON and in protobuf, from the Go types.
//!
//! No endpoint of a server shows the numbers of protobuf fields, or which fields are pointers, so a Go program reads the
//! tags of the types in the pinned modules (`xtask/real/types`).

use anyhow::Result;

use super::discovery::FactGvk;
use crate::real::run_go;

const HEAD: &str = "\
# Wire types of the built-in kinds, as the tags of their Go structs say: type\tfield:value ...
# field: the name in JSON; /Name in Go, where that is not the same in upper case
# value: number[presence][shape]type, with the number in protobuf
# presence: none = left out when zero; * = optional, a zero that was given stays; + = always written; +* = always written, null when absent; ^ = embedded, in JSON its fields stand beside the others
# shape: [] list, {} map of texts to it; type: another row, or a scalar
";

/// Kinds that no resource has: errors, options, metadata, watches and discovery.
const OTHER_KINDS: [&str; 9] = [
    "/v1/APIGroup",
    "/v1/APIGroupList",
    "/v1/APIResourceList",
    "/v1/APIVersions",
    "/v1/DeleteOptions",
    "/v1/Status",
    "/v1/WatchEvent",
    "apidiscovery.k8s.io/v2/APIGroupDiscovery",
    "meta.k8s.io/v1/PartialObjectMetadata",
];

/// The rows of all types that the kinds contain.
#[derive(Debug)]
pub(super) struct TypeFacts(String);

// === impl TypeFacts ===

impl TypeFacts {
    /// Runs the Go program. Options of connections are left out: no body has them.
    pub(super) fn ask(kinds: &[FactGvk]) -> Result<Self> {
        let kinds = kinds.iter().filter(|gvk| !gvk.kind.ends_with("Options"));
        let kinds = kinds.map(|gvk| format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind));
        let others = OTHER_KINDS.map(str::to_owned);
        let mut arguments = ["run", "-mod=readonly", "./types"]
            .map(str::to_owned)
            .to_vec();
        arguments.extend(kinds.chain(others));
        run_go(&arguments).map(Self)
    }

    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        let fields = self.0.lines().map(|row| row.matches(':').count());
        vec![
            ("types", self.0.lines().count()),
            ("fields of types", fields.sum()),
        ]
    }

    pub(super) fn text(&self) -> String {
        HEAD.to_owned() + &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_types_and_their_fields() {
        let facts = TypeFacts("a.v1.A\tx:1string y:2*int32\na.v1.B\t\n".to_owned());
        assert_eq!(facts.counts(), [("types", 2), ("fields of types", 2)]);
        assert!(facts.text().starts_with("# Wire types"));
    }
}
