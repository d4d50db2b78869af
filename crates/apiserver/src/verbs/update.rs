//! PUT: replaces an object, or one part of it, by the body.

use caretaker_machinery::status::Status;

use super::write::{InsertOrigin, OwnerSource, WriteRequest};
use super::{ResourceRequest, VerbReply, decode};
use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::strategy::ObjectPart;

pub(super) async fn update(
    server: &ServerState,
    request: &ResourceRequest,
    part: ObjectPart,
) -> Result<VerbReply, Status> {
    let write = WriteRequest::new(server, request, part, "UpdateOptions")?;
    let mut decoded = decode::decode_body(&server.kinds(), request)?;
    write.match_path(&mut decoded.tree)?;
    if part == ObjectPart::Main && request.kind.rules.upsert {
        let stored = server.store.get(request.kind.resource, &request.key());
        if stored.is_none() {
            check_uid(request, &ObjectTree::new(), &decoded.tree)?;
            return write.insert(decoded, InsertOrigin::Update).await;
        }
    }
    let replace = |write: &mut WriteRequest<'_>, old: &ObjectTree| {
        check_uid(request, old, &decoded.tree)?;
        write.plan_update(old, decoded.clone(), OwnerSource::Body)
    };
    write.update(replace).await
}

/// An update that names a uid is refused if the stored object has another one.
fn check_uid(request: &ResourceRequest, old: &ObjectTree, new: &ObjectTree) -> Result<(), Status> {
    let (given, found) = (metadata::text(new, "uid"), metadata::text(old, "uid"));
    if given.is_empty() || given == found {
        return Ok(());
    }
    let kind = &request.kind;
    let group = match kind.custom {
        Some(_) => format!("{}/", kind.group),
        None => String::new(),
    };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {found}",
        kind.plural,
        request.key().as_str(),
    );
    Err(Status::conflict(kind.resource_named(request.name()), &why))
}
