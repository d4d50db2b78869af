//! Objects of custom kinds: their schema decides what is kept of them, what is filled in and what is refused.
//!
//! The rules are `machinery::schema`; here is when they apply. A write is settled when it is decoded and judged when all
//! the server's own changes are made, as upstream does (`registry/customresource`, 1.36). An object that was written
//! under another schema, or another version's, is settled again whenever it is read, until the next write.

use caretaker_machinery::schema::{Metadata, Part as Judged, Subject};
use caretaker_machinery::status::Cause;

use super::Part;
use crate::kinds::{Custom, Kind};
use crate::metadata::{Tree, check, shape};
use crate::store::Object;

/// Metadata of objects within objects.
pub(super) const METADATA: Metadata = Metadata {
    shape: shape::shape_embedded,
    faults: check::embedded_faults,
};

/// Drops what the schema does not know and fills in its defaults. Answers with the paths of what went.
pub(super) fn read(kind: &Kind, object: &mut Tree) -> Result<Vec<String>, String> {
    let Some(custom) = &kind.custom else {
        return Ok(Vec::new());
    };
    let settled = custom.schema.compiled.settle(object, METADATA)?;
    Ok(settled.unknown)
}

/// Whether an object was written under a schema that is not this row's.
pub(super) fn is_older(kind: &Kind, object: &Object) -> bool {
    let differs = |custom: &Custom| custom.schema.id != object.schema;
    kind.custom.as_ref().is_some_and(differs)
}

/// Brings an object that was written under another schema into this row's form.
pub(super) fn settle_old(kind: &Kind, object: &mut Tree) {
    // Embedded metadata that has become unreadable stays as it is; upstream drops its bad fields.
    let _ = read(kind, object);
}

/// What the schema finds wrong with an object.
pub(super) fn faults(kind: &Kind, part: Part, new: &Tree, old: Option<&Tree>) -> Vec<Cause> {
    let Some(custom) = &kind.custom else {
        return Vec::new();
    };
    let subject = Subject {
        api_version: &kind.api_version(),
        kind: &kind.kind,
        new,
        old,
        part: match part {
            Part::Status => Judged::Status,
            Part::Main | Part::Finalize => Judged::Whole,
        },
    };
    custom.schema.compiled.faults(&subject, METADATA)
}
