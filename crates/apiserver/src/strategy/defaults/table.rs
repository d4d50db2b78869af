//! The values of absent fields: `defaults.txt`, read once.

use std::sync::LazyLock;

use caretaker_machinery::types::TypeRef;
use serde_json::Value;

use crate::metadata::ObjectTree;
use crate::types::types;

const DEFAULTS: &str = include_str!("../../../data/defaults.txt");

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

/// Returns the defaults of a struct in the order of the file.
pub(super) fn defaults(of: TypeRef) -> &'static [FieldDefault] {
    static TABLE: LazyLock<Vec<Vec<FieldDefault>>> = LazyLock::new(read);
    &TABLE[of.index()]
}

/// Reads the file: one list for each row of the types.
fn read() -> Vec<Vec<FieldDefault>> {
    let mut table: Vec<Vec<FieldDefault>> = types().iter().map(|_| Vec::new()).collect();
    for line in DEFAULTS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&'static str> = line.split('\t').collect();
        let (of, path, value, when) = match *columns.as_slice() {
            [of, path, value] => (of, path, value, DefaultCondition::Always),
            [of, path, value, when] => (of, path, value, DefaultCondition::parse(when)),
            _ => unreachable!("defaults.txt: {line:?}"),
        };
        let mut parents: Vec<&'static str> = path.split('.').collect();
        let (Some(at), Some(field), Ok(value)) = (
            types().named(of),
            parents.pop(),
            serde_json::from_str(value),
        ) else {
            unreachable!("defaults.txt: {line:?}");
        };
        table[at.index()].push(FieldDefault {
            parents,
            field,
            value,
            when,
        });
    }
    table
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

#[cfg(test)]
mod tests {
    use caretaker_machinery::types::{FieldArity, ValueType};

    use crate::schemas::{self, ValueShape};

    use super::*;

    #[test]
    fn every_default_names_a_field_of_its_type() {
        for (of, row) in types().iter() {
            for default in defaults(of) {
                let mut at = row;
                for parent in &default.parents {
                    let ValueType::Struct(next) = at.members[parent].of else {
                        panic!("{}: {parent} is no struct", row.name);
                    };
                    at = types().get(next);
                }
                let known = at.members.contains_key(default.field);
                assert!(known, "{}: {} is no field", row.name, default.field);
            }
        }
    }

    #[test]
    fn schemas_name_fields_of_the_types() {
        for (name, row) in schemas::table().iter() {
            let Some(owner) = types().named(name) else {
                continue;
            };
            // Only fields with words merge.
            for schema in row.fields().filter(|field| field.words().count() > 0) {
                let known = types().get(owner).members.get(schema.name);
                let Some(field) = known.filter(|field| field.shape != FieldArity::Map) else {
                    continue;
                };
                let (shape, inner) = schema.value.shape();
                let is_list = shape == ValueShape::List && inner.shape().0 == ValueShape::One;
                assert_eq!(
                    field.shape == FieldArity::List,
                    is_list,
                    "{name}.{}",
                    schema.name
                );
                let of = schema.value.reference().and_then(|of| types().named(of));
                if let (Some(of), ValueType::Struct(known)) = (of, field.of) {
                    assert_eq!(known, of, "{name}.{}", schema.name);
                }
            }
        }
    }
}
