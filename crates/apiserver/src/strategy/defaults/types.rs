//! The wire types of built-in kinds and their defaults: `types.txt` and `defaults.txt`, read once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::metadata::Tree;

const TYPES: &str = include_str!("../../../data/types.txt");
const DEFAULTS: &str = include_str!("../../../data/defaults.txt");

/// Rows of both files.
pub(super) struct Types {
    rows: Vec<Type>,
    by_name: BTreeMap<&'static str, TypeRef>,
}

/// A row of [`Types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeRef(usize);

/// A struct of the Go types.
pub(super) struct Type {
    pub(super) name: &'static str,
    pub(super) fields: BTreeMap<&'static str, Field>,
    pub(super) defaults: Vec<Default>,
}

/// One field of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// A zero that a client sent is kept, because the field distinguishes it from an absent value.
    pub(super) optional: bool,
    /// It is written even if it holds nothing.
    pub(super) always: bool,
    pub(super) shape: Shape,
    pub(super) of: Of,
}

/// How many values a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Struct(TypeRef),
    Scalar(Scalar),
}

/// Values without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Bool,
    /// Bytes, encoded as base64.
    Bytes,
    Int32,
    Int64,
    IntOrString,
    MicroTime,
    Quantity,
    /// A value of any type.
    Raw,
    String,
    /// A list of texts, as the element of a map.
    Strings,
    Time,
}

/// What a field holds when nothing was said.
pub(super) struct Default {
    parents: Vec<&'static str>,
    field: &'static str,
    value: Value,
    when: When,
}

/// Whether a default holds, by a sibling of the field.
enum When {
    Always,
    Present(&'static str),
    Absent(&'static str),
    Equals(&'static str, &'static str),
}

/// Returns the types, which are read at the first call.
pub(super) fn types() -> &'static Types {
    static TABLES: LazyLock<Types> = LazyLock::new(Types::read);
    &TABLES
}

// === impl Types ===

impl Types {
    fn read() -> Self {
        let lines = TYPES.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<(&str, &str)> = lines
            .map(|line| line.split_once('\t').unwrap_or((line, "")))
            .collect();
        let names = lines.iter().enumerate();
        let by_name = names
            .map(|(at, (name, _))| (*name, TypeRef(at)))
            .collect::<BTreeMap<_, _>>();
        let rows = lines.iter().map(|(name, fields)| Type {
            name,
            fields: fields
                .split_terminator(' ')
                .map(|field| Field::parse(field, &by_name))
                .collect(),
            defaults: Vec::new(),
        });
        let mut types = Self {
            rows: rows.collect(),
            by_name,
        };
        for line in DEFAULTS.lines().filter(|line| !line.starts_with('#')) {
            types.add_default(line);
        }
        types
    }

    fn add_default(&mut self, line: &'static str) {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let (of, path, value, when) = match *columns.as_slice() {
            [of, path, value] => (of, path, value, When::Always),
            [of, path, value, when] => (of, path, value, When::parse(when)),
            _ => unreachable!("defaults.txt: {line:?}"),
        };
        let mut parents: Vec<&'static str> = path.split('.').collect();
        let (Some(at), Some(field), Ok(value)) = (
            self.by_name.get(of),
            parents.pop(),
            serde_json::from_str(value),
        ) else {
            unreachable!("defaults.txt: {line:?}");
        };
        self.rows[at.0].defaults.push(Default {
            parents,
            field,
            value,
            when,
        });
    }

    pub(super) fn get(&self, at: TypeRef) -> &Type {
        &self.rows[at.0]
    }

    /// The type of a kind's stored objects; none for custom kinds and the few the table leaves out.
    pub(super) fn root(&self, kind: &Kind) -> Option<TypeRef> {
        if kind.custom.is_some() {
            return None;
        }
        let package = kind.group.split('.').next().unwrap_or_default();
        // Two resources have several forms; `convert` stores one of each.
        let (package, version) = match (package, kind.kind.as_str()) {
            ("" | "events", _) => ("core", "v1"),
            ("autoscaling", "HorizontalPodAutoscaler") => ("autoscaling", "v2"),
            (package, _) => (package, kind.version.as_str()),
        };
        let name = format!("{package}.{version}.{}", kind.kind);
        self.by_name.get(name.as_str()).copied()
    }

    #[cfg(test)]
    pub(super) fn named(&self, name: &str) -> Option<TypeRef> {
        self.by_name.get(name).copied()
    }
}

// === impl Field ===

impl Field {
    /// Reads `name:[*|+|+*][[]|{}]type`.
    fn parse(
        text: &'static str,
        by_name: &BTreeMap<&'static str, TypeRef>,
    ) -> (&'static str, Self) {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let (always, value) = strip(value, "+");
        let (optional, value) = strip(value, "*");
        let (shape, value) = match (strip(value, "[]"), strip(value, "{}")) {
            ((true, value), _) => (Shape::List, value),
            (_, (true, value)) => (Shape::Map, value),
            _ => (Shape::One, value),
        };
        let of = match by_name.get(value) {
            Some(at) => Of::Struct(*at),
            None => Of::Scalar(Scalar::parse(value)),
        };
        let field = Self {
            optional,
            always,
            shape,
            of,
        };
        (name, field)
    }

    /// One struct that is always there.
    pub(super) fn is_inline(&self) -> bool {
        self.is_struct() && !self.optional
    }

    pub(super) fn is_struct(&self) -> bool {
        self.shape == Shape::One && matches!(self.of, Of::Struct(_))
    }

    /// What the field holds when it holds nothing.
    pub(super) fn zero(&self) -> Value {
        match (self.optional, self.shape) {
            (false, Shape::One) => self.of.zero(),
            _ => Value::Null,
        }
    }
}

// === impl Of ===

impl Of {
    /// The value that stands for none.
    pub(super) fn zero(self) -> Value {
        match self {
            Of::Struct(_) => Value::Object(Map::new()),
            Of::Scalar(Scalar::Bool) => false.into(),
            Of::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString) => 0.into(),
            Of::Scalar(Scalar::String) => "".into(),
            Of::Scalar(Scalar::Quantity) => "0".into(),
            Of::Scalar(
                Scalar::Bytes | Scalar::MicroTime | Scalar::Raw | Scalar::Strings | Scalar::Time,
            ) => Value::Null,
        }
    }
}

// === impl Scalar ===

impl Scalar {
    fn parse(name: &str) -> Self {
        match name {
            "bool" => Scalar::Bool,
            "bytes" => Scalar::Bytes,
            "int32" => Scalar::Int32,
            "int64" => Scalar::Int64,
            "intorstring" => Scalar::IntOrString,
            "microtime" => Scalar::MicroTime,
            "quantity" => Scalar::Quantity,
            "raw" => Scalar::Raw,
            "string" => Scalar::String,
            "strings" => Scalar::Strings,
            "time" => Scalar::Time,
            _ => unreachable!("types.txt: {name:?}"),
        }
    }
}

// === impl Default ===

impl Default {
    /// Fills it in where the object says nothing.
    pub(super) fn apply(&self, object: &mut Tree) {
        let mut owner = object;
        for parent in &self.parents {
            let Some(Value::Object(next)) = owner.get_mut(*parent) else {
                return;
            };
            owner = next;
        }
        if self.when.holds(owner) && !owner.contains_key(self.field) {
            owner.insert(self.field.into(), self.value.clone());
        }
    }
}

// === impl When ===

impl When {
    fn parse(text: &'static str) -> Self {
        match (text.split_once('='), text.strip_prefix('!')) {
            (Some((field, value)), _) => When::Equals(field, value),
            (_, Some(field)) => When::Absent(field),
            _ => When::Present(text),
        }
    }

    fn holds(&self, owner: &Tree) -> bool {
        match *self {
            When::Always => true,
            When::Present(field) => owner.contains_key(field),
            When::Absent(field) => !owner.contains_key(field),
            When::Equals(field, value) => owner.get(field).and_then(Value::as_str) == Some(value),
        }
    }
}

/// Whether `text` starts with `prefix`, and the rest.
fn strip<'a>(text: &'a str, prefix: &str) -> (bool, &'a str) {
    match text.strip_prefix(prefix) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn every_kind_that_is_stored_has_a_type_but_definitions() {
        let missing: Vec<String> = Kinds::builtin()
            .iter()
            .filter(|kind| kind.allows("create") && kind.allows("get"))
            .filter(|kind| types().root(kind).is_none())
            .map(|kind| kind.kind.clone())
            .collect();
        assert_eq!(missing, ["CustomResourceDefinition"]);
    }

    #[test]
    fn every_default_is_of_a_field_that_its_type_has() {
        for row in &types().rows {
            for default in &row.defaults {
                let mut at = row;
                for parent in &default.parents {
                    let Of::Struct(next) = at.fields[parent].of else {
                        panic!("{}: {parent} is no struct", row.name);
                    };
                    at = types().get(next);
                }
                let known = at.fields.contains_key(default.field);
                assert!(known, "{}: {} is no field", row.name, default.field);
            }
        }
    }

    #[test]
    fn merge_keys_and_types_tell_the_same_fields() {
        let fields = include_str!("../../../data/fields.txt");
        for line in fields.lines().filter(|line| line.starts_with("field\t")) {
            let columns: Vec<&str> = line.split('\t').collect();
            let Some(owner) = types().named(columns[1]) else {
                continue;
            };
            let Some(field) = types().get(owner).fields.get(columns[2]) else {
                panic!("{line}");
            };
            let shape = match columns[3] {
                "list" => Shape::List,
                "map" => Shape::Map,
                _ => Shape::One,
            };
            assert_eq!(field.shape, shape, "{line}");
            if columns[4] != "-" {
                let of = types().named(columns[4]).map(Of::Struct);
                assert_eq!(Some(field.of), of, "{line}");
            }
        }
    }
}
