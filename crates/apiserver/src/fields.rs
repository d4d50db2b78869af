//! The fields of built-in kinds that strategic merge patches need, from the schemas; read once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use caretaker_machinery::patch::strategic::{FieldFacts, PatchSchema, TypeId};

use crate::schemas::{self, SchemaField, ValueShape};

/// The merge facts of the fields, with interned types.
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
    /// Lists the fields that have a merge fact or lead to other fields; whatever is not listed is an ordinary value.
    fn read() -> Self {
        let mut schema = Self::default();
        for (owner, row) in schemas::table().iter() {
            let owner = schema.intern(owner);
            for kind in row.words().filter(|(word, _)| *word == "kind") {
                let parts: Vec<&'static str> = kind.1.split('/').collect();
                if let [group, version, kind] = parts.as_slice() {
                    let group = if *group == "-" { "" } else { group };
                    schema.roots.insert((group, version, kind), owner);
                }
            }
            for field in row.fields() {
                if let Some(facts) = schema.facts(field) {
                    schema.fields.insert((owner, field.name), facts);
                }
            }
        }
        schema
    }

    fn facts(&mut self, field: SchemaField) -> Option<FieldFacts<'static>> {
        let word = |name: &str| field.words().find(|(word, _)| *word == name);
        let (shape, inner) = field.value.shape();
        let (shape, of) = match (shape, inner.shape().0) {
            (ValueShape::One, _) => ("object", inner.reference()),
            (ValueShape::List, ValueShape::One) => ("list", inner.reference()),
            (ValueShape::Map, ValueShape::One) => ("map", inner.reference()),
            (ValueShape::List, _) => ("list", None),
            (ValueShape::Map, _) => ("map", None),
        };
        let has_fields = |of: &&str| {
            let row = schemas::table().get(of);
            row.is_some_and(|row| row.fields().next().is_some())
        };
        let of = of.filter(has_fields).map(|of| self.intern(of));
        if of.is_none() && word("patch").is_none() && word("list").is_none() {
            return None;
        }
        let patch = word("patch").map_or("", |(_, strategies)| strategies);
        let key = word("merge-key").map_or("", |(_, key)| key);
        let facts = FieldFacts::from_row(shape, of, patch, key);
        Some(facts.unwrap_or_else(|| unreachable!("schemas.txt: {}", field.name)))
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
