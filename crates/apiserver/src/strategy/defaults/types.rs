//! The wire types of built-in kinds and their defaults: `types.txt` and `defaults.txt`, read once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::kinds::ServedKind;
use crate::metadata::ObjectTree;

const TYPES: &str = include_str!("../../../data/types.txt");
const DEFAULTS: &str = include_str!("../../../data/defaults.txt");

/// The rows of both files.
pub(super) struct TypeTable {
    rows: Vec<GoStruct>,
    by_name: BTreeMap<&'static str, TypeRef>,
}

/// A row of [`TypeTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeRef(usize);

/// A struct of the Go types.
pub(super) struct GoStruct {
    pub(super) name: &'static str,
    pub(super) fields: BTreeMap<&'static str, StructField>,
    pub(super) defaults: Vec<FieldDefault>,
}

/// One field of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StructField {
    /// A zero that a client sent is kept, because the field distinguishes it from an absent value.
    pub(super) optional: bool,
    /// The field is written even if it is empty.
    pub(super) always: bool,
    pub(super) shape: FieldArity,
    pub(super) of: ValueType,
}

/// The number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldArity {
    One,
    List,
    Map,
}

/// The type of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    Struct(TypeRef),
    Scalar(ScalarType),
}

/// The types of values without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarType {
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
    /// A list of strings, as the element of a map.
    Strings,
    Time,
}

/// The value of an absent field.
pub(super) struct FieldDefault {
    parents: Vec<&'static str>,
    field: &'static str,
    value: Value,
    when: DefaultCondition,
}

/// The condition under which a default applies; it names another field of the same struct.
enum DefaultCondition {
    Always,
    Present(&'static str),
    Absent(&'static str),
    Equals(&'static str, &'static str),
}

/// Returns the types, which are read at the first call.
pub(super) fn types() -> &'static TypeTable {
    static TABLES: LazyLock<TypeTable> = LazyLock::new(TypeTable::read);
    &TABLES
}

// === impl TypeTable ===

impl TypeTable {
    fn read() -> Self {
        let lines = TYPES.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<(&str, &str)> = lines
            .map(|line| line.split_once('\t').unwrap_or((line, "")))
            .collect();
        let names = lines.iter().enumerate();
        let by_name = names
            .map(|(at, (name, _))| (*name, TypeRef(at)))
            .collect::<BTreeMap<_, _>>();
        let rows = lines.iter().map(|(name, fields)| GoStruct {
            name,
            fields: fields
                .split_terminator(' ')
                .map(|field| StructField::parse(field, &by_name))
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
            [of, path, value] => (of, path, value, DefaultCondition::Always),
            [of, path, value, when] => (of, path, value, DefaultCondition::parse(when)),
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
        self.rows[at.0].defaults.push(FieldDefault {
            parents,
            field,
            value,
            when,
        });
    }

    pub(super) fn get(&self, at: TypeRef) -> &GoStruct {
        &self.rows[at.0]
    }

    /// Returns the type of the stored objects of a kind; none for custom kinds and kinds that the table does not list.
    pub(super) fn root(&self, kind: &ServedKind) -> Option<TypeRef> {
        if kind.custom.is_some() {
            return None;
        }
        // Two resources are served in several forms; `convert` stores one of each.
        let (package, version) = match (kind.package(), kind.kind.as_str()) {
            ("core" | "events", _) => ("core", "v1"),
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

// === impl StructField ===

impl StructField {
    /// Reads a field in the notation `name:[*|+|+*][[]|{}]type`.
    fn parse(
        text: &'static str,
        by_name: &BTreeMap<&'static str, TypeRef>,
    ) -> (&'static str, Self) {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let (always, value) = strip(value, "+");
        let (optional, value) = strip(value, "*");
        let (shape, value) = match (strip(value, "[]"), strip(value, "{}")) {
            ((true, value), _) => (FieldArity::List, value),
            (_, (true, value)) => (FieldArity::Map, value),
            _ => (FieldArity::One, value),
        };
        let of = match by_name.get(value) {
            Some(at) => ValueType::Struct(*at),
            None => ValueType::Scalar(ScalarType::parse(value)),
        };
        let field = Self {
            optional,
            always,
            shape,
            of,
        };
        (name, field)
    }

    /// Reports whether the field is one struct that is always present.
    pub(super) fn is_inline(&self) -> bool {
        self.is_struct() && !self.optional
    }

    pub(super) fn is_struct(&self) -> bool {
        self.shape == FieldArity::One && matches!(self.of, ValueType::Struct(_))
    }

    /// Returns the value of the field when it is empty.
    pub(super) fn zero(&self) -> Value {
        match (self.optional, self.shape) {
            (false, FieldArity::One) => self.of.zero(),
            _ => Value::Null,
        }
    }
}

// === impl ValueType ===

impl ValueType {
    /// Returns the zero value of the type.
    pub(super) fn zero(self) -> Value {
        match self {
            ValueType::Struct(_) => Value::Object(Map::new()),
            ValueType::Scalar(ScalarType::Bool) => false.into(),
            ValueType::Scalar(ScalarType::Int32 | ScalarType::Int64 | ScalarType::IntOrString) => {
                0.into()
            }
            ValueType::Scalar(ScalarType::String) => "".into(),
            ValueType::Scalar(ScalarType::Quantity) => "0".into(),
            ValueType::Scalar(
                ScalarType::Bytes
                | ScalarType::MicroTime
                | ScalarType::Raw
                | ScalarType::Strings
                | ScalarType::Time,
            ) => Value::Null,
        }
    }
}

// === impl ScalarType ===

impl ScalarType {
    fn parse(name: &str) -> Self {
        match name {
            "bool" => ScalarType::Bool,
            "bytes" => ScalarType::Bytes,
            "int32" => ScalarType::Int32,
            "int64" => ScalarType::Int64,
            "intorstring" => ScalarType::IntOrString,
            "microtime" => ScalarType::MicroTime,
            "quantity" => ScalarType::Quantity,
            "raw" => ScalarType::Raw,
            "string" => ScalarType::String,
            "strings" => ScalarType::Strings,
            "time" => ScalarType::Time,
            _ => unreachable!("types.txt: {name:?}"),
        }
    }
}

// === impl FieldDefault ===

impl FieldDefault {
    /// Sets the default where the object has no value and the condition holds.
    pub(super) fn apply(&self, object: &mut ObjectTree) {
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

// === impl DefaultCondition ===

impl DefaultCondition {
    fn parse(text: &'static str) -> Self {
        match (text.split_once('='), text.strip_prefix('!')) {
            (Some((field, value)), _) => DefaultCondition::Equals(field, value),
            (_, Some(field)) => DefaultCondition::Absent(field),
            _ => DefaultCondition::Present(text),
        }
    }

    fn holds(&self, owner: &ObjectTree) -> bool {
        match *self {
            DefaultCondition::Always => true,
            DefaultCondition::Present(field) => owner.contains_key(field),
            DefaultCondition::Absent(field) => !owner.contains_key(field),
            DefaultCondition::Equals(field, value) => {
                owner.get(field).and_then(Value::as_str) == Some(value)
            }
        }
    }
}

/// Returns whether `text` starts with `prefix`, and the text without it.
fn strip<'a>(text: &'a str, prefix: &str) -> (bool, &'a str) {
    match text.strip_prefix(prefix) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KindTable;

    #[test]
    fn every_stored_kind_except_definitions_has_a_type() {
        let missing: Vec<String> = KindTable::builtin()
            .iter()
            .filter(|kind| kind.allows("create") && kind.allows("get"))
            .filter(|kind| types().root(kind).is_none())
            .map(|kind| kind.kind.clone())
            .collect();
        assert_eq!(missing, ["CustomResourceDefinition"]);
    }

    #[test]
    fn every_default_names_a_field_of_its_type() {
        for row in &types().rows {
            for default in &row.defaults {
                let mut at = row;
                for parent in &default.parents {
                    let ValueType::Struct(next) = at.fields[parent].of else {
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
    fn merge_keys_name_fields_of_the_types() {
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
                "list" => FieldArity::List,
                "map" => FieldArity::Map,
                _ => FieldArity::One,
            };
            assert_eq!(field.shape, shape, "{line}");
            if columns[4] != "-" {
                let of = types().named(columns[4]).map(ValueType::Struct);
                assert_eq!(Some(field.of), of, "{line}");
            }
        }
    }
}
