//! The fields of built-in kinds that strategic merge patches need: `fields.txt`, read once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use caretaker_machinery::patch::strategic::{FieldFacts, PatchSchema, TypeId};

const FIELDS: &str = include_str!("../data/fields.txt");

/// The rows of the file, with interned types.
#[derive(Default)]
pub(crate) struct MergeFields {
    types: BTreeMap<&'static str, TypeId>,
    roots: BTreeMap<(&'static str, &'static str, &'static str), TypeId>,
    fields: BTreeMap<(TypeId, &'static str), FieldFacts<'static>>,
}

/// Returns the schema of the built-in kinds.
pub(crate) fn schema() -> &'static MergeFields {
    static SCHEMA: LazyLock<MergeFields> = LazyLock::new(MergeFields::read);
    &SCHEMA
}

// === impl MergeFields ===

impl MergeFields {
    fn read() -> Self {
        let mut schema = Self::default();
        for line in FIELDS.lines().filter(|line| !line.starts_with('#')) {
            let columns: Vec<&'static str> = line.split('\t').collect();
            match columns.as_slice() {
                ["kind", group, version, kind, of] => {
                    let group = if *group == "-" { "" } else { group };
                    let root = schema.intern(of);
                    schema.roots.insert((group, version, kind), root);
                }
                ["field", owner, field, shape, of, strategies, key, _, _] => {
                    let owner = schema.intern(owner);
                    let of = (*of != "-").then(|| schema.intern(of));
                    let blank = |column: &'static str| if column == "-" { "" } else { column };
                    let facts = FieldFacts::from_row(shape, of, blank(strategies), blank(key));
                    let facts = facts.unwrap_or_else(|| unreachable!("fields.txt: {line:?}"));
                    schema.fields.insert((owner, field), facts);
                }
                _ => unreachable!("fields.txt: {line:?}"),
            }
        }
        schema
    }

    /// Returns the type of a kind; one without fields for a kind that the file does not list.
    pub(crate) fn root(&self, group: &str, version: &str, kind: &str) -> TypeId {
        let root = self.roots.get(&(group, version, kind));
        root.copied().unwrap_or(TypeId(u16::MAX))
    }

    fn intern(&mut self, name: &'static str) -> TypeId {
        let next = u16::try_from(self.types.len()).expect("the file names a few hundred types");
        *self.types.entry(name).or_insert(TypeId(next))
    }
}

impl PatchSchema for MergeFields {
    fn field(&self, of: TypeId, name: &str) -> FieldFacts<'_> {
        self.fields
            .get(&(of, name))
            .copied()
            .unwrap_or(FieldFacts::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use caretaker_machinery::patch::strategic::MergeRule;

    use super::*;

    #[test]
    fn finds_the_merge_keys_of_a_kind() {
        let schema = schema();
        let mut at = schema.root("apps", "v1", "Deployment");
        for field in ["spec", "template", "spec"] {
            at = schema.field(at, field).of.unwrap();
        }
        assert_eq!(
            schema.field(at, "containers").rule,
            MergeRule::ListByKey("name")
        );
        let pod = schema.root("", "v1", "Pod");
        let meta = schema.field(pod, "metadata").of.unwrap();
        assert_eq!(schema.field(meta, "finalizers").rule, MergeRule::Set);
        assert_eq!(
            schema.field(meta, "ownerReferences").rule,
            MergeRule::ListByKey("uid")
        );
        assert_eq!(schema.field(meta, "nope").rule, MergeRule::Unknown);
    }
}
