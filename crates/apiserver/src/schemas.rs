//! The schemas of the built-in types: `schemas.txt`. A row is read when it is needed; the table holds only where each begins.
//!
//! OpenAPI documents are rendered from it, and strategic merge reads the merge keys in it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

const SCHEMAS: &str = include_str!("../data/schemas.txt");

/// The rows by the short name of their type.
pub(crate) struct SchemaTable(BTreeMap<&'static str, SchemaRow>);

/// A type: its words and its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaRow {
    words: &'static str,
    fields: &'static str,
}

/// A field of a type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaField {
    pub(crate) name: &'static str,
    pub(crate) value: SchemaValue,
    words: &'static str,
}

/// The value of a field, of the elements of a list or of the values of a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SchemaValue(&'static str);

/// The parts of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueShape {
    List,
    Map,
    One,
}

/// A value that is neither a list nor a map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlainValue {
    /// A type of the table, a type of JSON, several of these separated by `|`, or empty for any value.
    pub(crate) of: &'static str,
    /// The reference stands alone.
    pub(crate) direct: bool,
    pub(crate) format: Option<&'static str>,
    /// The allowed texts, separated by `|`.
    pub(crate) allowed: Option<&'static str>,
    /// The default as JSON; empty for the zero value.
    pub(crate) default: Option<&'static str>,
}

/// Returns the table.
pub(crate) fn table() -> &'static SchemaTable {
    static TABLE: LazyLock<SchemaTable> = LazyLock::new(SchemaTable::read);
    &TABLE
}

// === impl SchemaTable ===

impl SchemaTable {
    fn read() -> Self {
        let lines = SCHEMAS.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.filter_map(|line| {
            let (name, row) = line.split_once('\t')?;
            let (words, fields) = row.split_once('\t').unwrap_or((row, ""));
            Some((name, SchemaRow { words, fields }))
        });
        Self(rows.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<SchemaRow> {
        self.0.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, SchemaRow)> {
        self.0.iter().map(|(name, row)| (*name, *row))
    }
}

// === impl SchemaRow ===

impl SchemaRow {
    /// The words of the type, with their values.
    pub(crate) fn words(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        words(self.words)
    }

    pub(crate) fn fields(self) -> impl Iterator<Item = SchemaField> {
        let fields = self.fields.split('\t').filter(|field| !field.is_empty());
        fields.filter_map(|field| {
            let (name, rest) = field.split_once(':')?;
            let (value, words) = rest.split_once(' ').unwrap_or((rest, ""));
            let value = SchemaValue(value);
            Some(SchemaField { name, value, words })
        })
    }

    /// The value of a type without fields.
    pub(crate) fn plain(self) -> Option<SchemaValue> {
        let mut words = self.words();
        words.find_map(|(word, value)| (word == "is").then_some(SchemaValue(value)))
    }
}

// === impl SchemaField ===

impl SchemaField {
    pub(crate) fn words(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        words(self.words)
    }
}

// === impl SchemaValue ===

impl SchemaValue {
    /// The outermost shape, and what it holds.
    pub(crate) fn shape(self) -> (ValueShape, Self) {
        if let Some(inner) = self.0.strip_prefix("[]") {
            return (ValueShape::List, Self(inner));
        }
        match self.0.strip_prefix("{}") {
            Some(inner) => (ValueShape::Map, Self(inner)),
            None => (ValueShape::One, self),
        }
    }

    /// The type that the value or its elements have, at any depth; none for types of JSON.
    pub(crate) fn reference(self) -> Option<&'static str> {
        match self.shape() {
            (ValueShape::One, value) => Some(value.plain().of).filter(|of| of.contains('.')),
            (_, inner) => inner.reference(),
        }
    }

    /// Reads a value that is neither a list nor a map.
    pub(crate) fn plain(self) -> PlainValue {
        let (direct, text) = match self.0.strip_prefix('&') {
            Some(text) => (true, text),
            None => (false, self.0),
        };
        let end = text.find(['/', '(', '=']).unwrap_or(text.len());
        let (of, mut rest) = text.split_at(end);
        let mut format = None;
        if let Some(after) = rest.strip_prefix('/') {
            let end = after.find(['(', '=']).unwrap_or(after.len());
            format = Some(&after[..end]);
            rest = &after[end..];
        }
        let mut allowed = None;
        if let Some((texts, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            allowed = Some(texts);
            rest = after;
        }
        PlainValue {
            of,
            direct,
            format,
            allowed,
            default: rest.strip_prefix('='),
        }
    }
}

fn words(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split(' ').filter_map(|word| word.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_parts_of_a_value() {
        let parts = |text| {
            let value = SchemaValue(text).plain();
            (value.of, value.format, value.allowed, value.default)
        };
        assert_eq!(parts("string"), ("string", None, None, None));
        assert_eq!(
            parts("integer/int32="),
            ("integer", Some("int32"), None, Some(""))
        );
        assert_eq!(
            parts("string(TCP|s/mime)=\"TCP\""),
            ("string", None, Some("TCP|s/mime"), Some("\"TCP\""))
        );
        assert!(SchemaValue("&core.v1.A").plain().direct);
        let nested = SchemaValue("{}[]core.v1.A=");
        assert_eq!(nested.shape().0, ValueShape::Map);
        assert_eq!(nested.reference(), Some("core.v1.A"));
    }

    #[test]
    fn every_reference_has_a_row() {
        assert!(table().iter().count() > 500);
        for (name, row) in table().iter() {
            for field in row.fields() {
                if let Some(of) = field.value.reference() {
                    assert!(table().get(of).is_some(), "{name}.{}: {of}", field.name);
                }
            }
        }
    }
}
