//! What a strategic merge has to know about the types of objects.
//!
//! The facts are data of the server (one row per field that holds an object, a map or a list); here is only how they are
//! asked for. They come from the `patchStrategy` and `patchMergeKey` of a field. `retainKeys` among the strategies
//! tells clients how to compute a patch; it does not change how one is applied.

/// One type of the table behind a [`PatchSchema`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u16);

/// Knows the types of objects.
pub trait PatchSchema {
    /// What is known of field `name` of type `of`; [`FieldFacts::UNKNOWN`] where there is no row.
    fn field(&self, of: TypeId, name: &str) -> FieldFacts<'_>;
}

/// What is known of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFacts<'a> {
    /// What the field holds and how it merges.
    pub rule: Rule<'a>,
    /// The type of the object, of the values of the map, or of the elements of the list; none if they have no fields to
    /// know about (strings, numbers, free-form JSON).
    pub of: Option<TypeId>,
}

/// What a field holds and how it merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule<'a> {
    /// Nothing is known: objects merge member by member, lists are replaced.
    Unknown,
    /// An object that merges field by field.
    Object,
    /// An object that a patch replaces (`replace`).
    ReplacedObject,
    /// An object whose members are data, not fields; it merges member by member.
    Map,
    /// A list that a patch replaces.
    ReplacedList,
    /// A list of primitives that merges as a set (`merge` without a key).
    Set,
    /// A list of objects that merges by this field of theirs (`merge` with a key).
    ListByKey(&'a str),
}

// === impl FieldFacts ===

impl<'a> FieldFacts<'a> {
    /// The facts of a field without a row.
    pub const UNKNOWN: FieldFacts<'static> = FieldFacts {
        rule: Rule::Unknown,
        of: None,
    };

    /// The facts of a row: `shape` is `object`, `map` or `list`, `strategies` the patch strategies with commas between
    /// them, `key` the merge key or empty. None if these are not the words of a row.
    #[must_use]
    pub fn from_row(
        shape: &str,
        of: Option<TypeId>,
        strategies: &str,
        key: &'a str,
    ) -> Option<Self> {
        let strategy = strategies.split(',').find(|word| *word != "retainKeys");
        let rule = match (shape, strategy.unwrap_or_default(), key) {
            ("object", "", _) => Rule::Object,
            ("object", "replace", _) => Rule::ReplacedObject,
            ("map", "", _) => Rule::Map,
            ("list", "" | "replace", _) => Rule::ReplacedList,
            ("list", "merge", "") => Rule::Set,
            ("list", "merge", key) => Rule::ListByKey(key),
            _ => return None,
        };
        Some(Self { rule, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_its_field_merges() {
        let cases = [
            ("object", "", "", Some(Rule::Object)),
            ("object", "retainKeys", "", Some(Rule::Object)),
            ("object", "replace", "", Some(Rule::ReplacedObject)),
            ("map", "", "", Some(Rule::Map)),
            ("list", "", "", Some(Rule::ReplacedList)),
            ("list", "", "name", Some(Rule::ReplacedList)),
            ("list", "merge", "", Some(Rule::Set)),
            ("list", "merge", "uid", Some(Rule::ListByKey("uid"))),
            (
                "list",
                "merge,retainKeys",
                "name",
                Some(Rule::ListByKey("name")),
            ),
            (
                "list",
                "retainKeys,merge",
                "name",
                Some(Rule::ListByKey("name")),
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
