//! Type information that a strategic merge needs.
//!
//! The API server holds the table (one row per field that holds an object, a map or a list); this module defines the
//! interface. The rows come from the `patchStrategy` and `patchMergeKey` of the fields. The strategy `retainKeys` is for
//! clients that compute a patch; it does not change how a patch is applied.

/// Identifies a type in the table of a [`PatchSchema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u16);

/// A table of types and their fields.
pub trait PatchSchema {
    /// The facts about field `name` of type `of`; [`FieldFacts::UNKNOWN`] where there is no row.
    fn field(&self, of: TypeId, name: &str) -> FieldFacts<'_>;
}

/// How a field merges, and the type of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFacts<'a> {
    /// The content of the field and how it merges.
    pub rule: MergeRule<'a>,
    /// The type of the object, of the values of the map, or of the elements of the list; `None` for strings, numbers and
    /// free-form JSON.
    pub of: Option<TypeId>,
}

/// The content of a field and how it merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeRule<'a> {
    /// No row: objects merge member by member, lists are replaced.
    Unknown,
    /// An object that merges field by field.
    Object,
    /// An object that a patch replaces (`replace`).
    ReplacedObject,
    /// A map; it merges entry by entry.
    Map,
    /// A list that a patch replaces.
    ReplacedList,
    /// A list of primitives that merges as a set (`merge` without a key).
    Set,
    /// A list of objects that merges by this field (`merge` with a key).
    ListByKey(&'a str),
}

// === impl FieldFacts ===

impl<'a> FieldFacts<'a> {
    /// The facts about a field without a row.
    pub const UNKNOWN: FieldFacts<'static> = FieldFacts {
        rule: MergeRule::Unknown,
        of: None,
    };

    /// Reads a row: `shape` is `object`, `map` or `list`, `strategies` the comma-separated patch strategies, `key` the merge
    /// key or empty. `None` if the row is malformed.
    #[must_use]
    pub fn from_row(
        shape: &str,
        of: Option<TypeId>,
        strategies: &str,
        key: &'a str,
    ) -> Option<Self> {
        let strategy = strategies.split(',').find(|word| *word != "retainKeys");
        let rule = match (shape, strategy.unwrap_or_default(), key) {
            ("object", "", _) => MergeRule::Object,
            ("object", "replace", _) => MergeRule::ReplacedObject,
            ("map", "", _) => MergeRule::Map,
            ("list", "" | "replace", _) => MergeRule::ReplacedList,
            ("list", "merge", "") => MergeRule::Set,
            ("list", "merge", key) => MergeRule::ListByKey(key),
            _ => return None,
        };
        Some(Self { rule, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_merge_rules_from_rows() {
        let cases = [
            ("object", "", "", Some(MergeRule::Object)),
            ("object", "retainKeys", "", Some(MergeRule::Object)),
            ("object", "replace", "", Some(MergeRule::ReplacedObject)),
            ("map", "", "", Some(MergeRule::Map)),
            ("list", "", "", Some(MergeRule::ReplacedList)),
            ("list", "", "name", Some(MergeRule::ReplacedList)),
            ("list", "merge", "", Some(MergeRule::Set)),
            ("list", "merge", "uid", Some(MergeRule::ListByKey("uid"))),
            (
                "list",
                "merge,retainKeys",
                "name",
                Some(MergeRule::ListByKey("name")),
            ),
            (
                "list",
                "retainKeys,merge",
                "name",
                Some(MergeRule::ListByKey("name")),
            ),
            ("list", "frob", "", None),
            ("string", "", "", None),
        ];
        for (shape, strategies, key, rule) in cases {
            let facts = FieldFacts::from_row(shape, Some(TypeId(7)), strategies, key);
            assert_eq!(facts.map(|f| f.rule), rule, "{shape} {strategies} {key}");
            assert!(facts.is_none_or(|f| f.of == Some(TypeId(7))));
        }
    }
}
