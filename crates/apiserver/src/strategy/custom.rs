//! Objects of custom kinds: their schema decides what is kept of them, what is filled in and what is refused.
//!
//! The rules are `machinery::schema`; here is when they apply. A write is settled when it is decoded and judged when all
//! the server's own changes are made, as upstream does (`registry/customresource`, 1.36). Then it is brought into the form
//! of the version that is stored. An object that was written under an older schema is settled again whenever it is read,
//! until the next write; and what another version does not know, it does not show.

use std::borrow::Cow;

use caretaker_machinery::schema::{Metadata, Part as Judged, Subject};
use caretaker_machinery::status::Cause;

use super::Part;
use crate::kinds::{Custom, Kind};
use crate::metadata::{Tree, check, shape};
use crate::store::{Object, SchemaId};

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

/// Whether the stored bytes are not what a client of this row sees.
pub(super) fn is_other(kind: &Kind, object: &Object) -> bool {
    let differs = |custom: &Custom| {
        custom.stored_schema.id != object.schema || custom.schema.id != object.schema
    };
    kind.custom.as_ref().is_some_and(differs)
}

/// Shows a stored object in this row's version: as its stored version would have it now, without what this one does not
/// know.
pub(super) fn show(kind: &Kind, object: &Object) -> Tree {
    let mut tree = object.to_value();
    if let Some(custom) = &kind.custom {
        // Embedded metadata that has become unreadable stays as it is; upstream drops its bad fields.
        if custom.stored_schema.id != object.schema {
            let _ = custom.stored_schema.compiled.settle(&mut tree, METADATA);
        }
        if custom.schema.id != custom.stored_schema.id {
            let _ = custom.schema.compiled.prune(&mut tree, METADATA);
        }
    }
    tree
}

/// What is stored of an object of this row, and under which schema: what its stored version does not know is lost.
pub(crate) fn to_stored<'a>(kind: &Kind, tree: &'a Tree) -> (SchemaId, Cow<'a, Tree>) {
    let Some(custom) = &kind.custom else {
        return (SchemaId::NONE, Cow::Borrowed(tree));
    };
    let stored = &custom.stored_schema;
    // A status that was taken away gets its default again.
    let lost_status = kind.has_status() && !tree.contains_key("status");
    if stored.id == custom.schema.id && !lost_status {
        return (stored.id, Cow::Borrowed(tree));
    }
    let mut tree = tree.clone();
    // It has been judged already.
    let _ = stored.compiled.settle(&mut tree, METADATA);
    (stored.id, Cow::Owned(tree))
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
