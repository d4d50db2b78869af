//! Rules of custom kinds: when their schemas apply.
//!
//! The rules themselves are `machinery::schema`. A schema prunes and defaults a write when it is decoded, and validates it
//! after the server has made its own changes, as upstream does (`registry/customresource`, 1.36). Then the object is
//! brought into the form of the version that is stored. An object that was written under an older schema is pruned and
//! defaulted at every read until the next write; a version does not show what its schema does not know.

use std::borrow::Cow;

use caretaker_machinery::schema::{MetadataRules, ValidatedPart as SchemaPart, ValidationSubject};
use caretaker_machinery::status::StatusCause;
use serde_json::Value;

use super::{KindStrategy, ObjectChange, ObjectPart};
use crate::body::FieldError;
use crate::kinds::{CustomKind, ServedKind};
use crate::metadata::{ObjectTree, check, shape};
use crate::scale::ScaleFields;
use crate::store::{SchemaId, StoredObject};

/// The rules of all custom kinds.
#[derive(Debug)]
pub(super) struct CustomStrategy;

/// The largest integer up to which every integer is a float.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// Checks of the metadata of embedded objects.
pub(super) const METADATA: MetadataRules = MetadataRules {
    shape: shape::shape_embedded,
    faults: check::embedded_faults,
};

// === impl CustomStrategy ===

impl KindStrategy for CustomStrategy {
    fn normalize(&self, _kind: &ServedKind, object: &mut ObjectTree) {
        object.values_mut().for_each(normalize_numbers);
    }

    /// Drops what the schema does not know and fills in its defaults.
    fn read(&self, kind: &ServedKind, object: &mut ObjectTree) -> Result<Vec<String>, FieldError> {
        let Some(custom) = &kind.custom else {
            return Ok(Vec::new());
        };
        Ok(custom.schema.compiled.prune_and_default(object, METADATA)?)
    }

    fn validate(&self, change: &ObjectChange<'_>) -> Vec<StatusCause> {
        let ObjectChange {
            kind,
            part,
            new,
            old,
        } = *change;
        let Some(custom) = &kind.custom else {
            return Vec::new();
        };
        let subject = ValidationSubject {
            api_version: &kind.api_version(),
            kind: &kind.kind,
            new,
            old,
            part: match part {
                ObjectPart::Status => SchemaPart::Status,
                _ => SchemaPart::Whole,
            },
        };
        let mut causes = custom.schema.compiled.faults(&subject, METADATA);
        if let Some(scale) = ScaleFields::declared(custom) {
            causes.extend(scale.faults(new, part));
        }
        causes
    }
}

/// Reports whether the stored bytes are not what a client of this row sees.
pub(super) fn needs_conversion(kind: &ServedKind, object: &StoredObject) -> bool {
    let differs = |custom: &CustomKind| {
        custom.stored_schema.id != object.schema || custom.schema.id != object.schema
    };
    kind.custom.as_ref().is_some_and(differs)
}

/// Returns a stored object in this row's version: first in the present form of its stored version, then without what
/// this version does not know.
pub(super) fn to_served(kind: &ServedKind, object: &StoredObject) -> ObjectTree {
    let mut tree = object.to_value();
    if let Some(custom) = &kind.custom {
        // Embedded metadata that has become unreadable stays as it is; upstream drops its bad fields.
        if custom.stored_schema.id != object.schema {
            let _ = custom
                .stored_schema
                .compiled
                .prune_and_default(&mut tree, METADATA);
        }
        if custom.schema.id != custom.stored_schema.id {
            let _ = custom.schema.compiled.prune(&mut tree, METADATA);
        }
    }
    tree
}

/// Returns what the store keeps of an object of this row, and under which schema. What the stored version does not know
/// is lost.
pub(crate) fn to_stored<'a>(
    kind: &ServedKind,
    tree: &'a ObjectTree,
) -> (SchemaId, Cow<'a, ObjectTree>) {
    let Some(custom) = &kind.custom else {
        return (SchemaId::NONE, Cow::Borrowed(tree));
    };
    let stored = &custom.stored_schema;
    // A status that was removed gets its default again.
    let lost_status = kind.has_status() && !tree.contains_key("status");
    if stored.id == custom.schema.id && !lost_status {
        return (stored.id, Cow::Borrowed(tree));
    }
    let mut tree = tree.clone();
    // It has been validated already, so an error cannot occur.
    let _ = stored.compiled.prune_and_default(&mut tree, METADATA);
    (stored.id, Cow::Owned(tree))
}

/// Writes a whole number as an integer however the client wrote it: 1e3 is 1000.
fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < WHOLE_FLOAT_MAX {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(members) => members.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}
