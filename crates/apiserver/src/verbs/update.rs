//! PUT and PATCH: a change of a stored object, or of one part of it.

use caretaker_machinery::patch::{json, merge, strategic};
use caretaker_machinery::status::{Status, StatusCause, StatusDetails};
use serde_json::Value;

use super::create::InsertOrigin;
use super::delete::storage_error;
use super::write::{OwnerSource, WritePlan, WriteRequest};
use super::{ResourceRequest, VerbReply, decode};
use crate::body::{self, strict};
use crate::fields;
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree};
use crate::request::invalid_options;
use crate::server::ServerState;
use crate::strategy::{ObjectPart, convert};

/// The patch types that the server applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchType {
    Json,
    Merge,
    Strategic,
}

/// A patch, as its client sent it.
pub(super) struct PatchBody {
    patch_type: PatchType,
    patch: Value,
    /// A key occurs twice in it, and it is no JSON patch.
    pub(super) is_repeated: bool,
    /// Repeated and unknown keys of a JSON patch.
    pub(super) report: strict::PatchReport,
}

/// Replaces an object by the body; creates it if the kind allows that and it does not exist.
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
            write.check_uid(&ObjectTree::new(), &decoded.tree)?;
            return write.insert(decoded, InsertOrigin::Update).await;
        }
    }
    let replace = |write: &mut WriteRequest<'_>, old: &ObjectTree| {
        write.check_uid(old, &decoded.tree)?;
        write.plan_update(old, decoded.clone(), OwnerSource::Body)
    };
    write.update(replace).await
}

/// Applies a patch to the stored object.
pub(super) async fn patch(
    server: &ServerState,
    request: &ResourceRequest,
    part: ObjectPart,
) -> Result<VerbReply, Status> {
    let write = WriteRequest::new(server, request, part, "PatchOptions")?;
    let patch = PatchBody::read(request)?;
    let apply = |write: &mut WriteRequest<'_>, old: &ObjectTree| -> Result<WritePlan, Status> {
        let served = convert::served(&request.kind, old);
        let patched = patch.apply(&request.kind, served)?;
        let mut decoded = decode::decode_patched(request, &patched, &patch)?;
        write.match_path(&mut decoded.tree)?;
        write.plan_update(old, decoded, OwnerSource::PatchedObject)
    };
    write.update(apply).await
}

// === impl PatchBody ===

impl PatchBody {
    pub(super) fn read(request: &ResourceRequest) -> Result<Self, Status> {
        let patch_type = PatchType::of(request)?;
        if request.query.get("force").is_some() {
            let cause = StatusCause::forbidden("force", "may not be specified for non-apply patch");
            return Err(invalid_options("PatchOptions", vec![cause]));
        }
        let (patch, is_repeated) = strict::parse(&request.body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let report = match patch_type {
            PatchType::Json => strict::report_patch(&request.body, &patch, is_repeated),
            PatchType::Merge | PatchType::Strategic => strict::PatchReport::default(),
        };
        Ok(Self {
            patch_type,
            patch,
            is_repeated: is_repeated && patch_type != PatchType::Json,
            report,
        })
    }

    /// Returns an object of `kind` with the patch applied.
    pub(super) fn apply(&self, kind: &ServedKind, object: Value) -> Result<Value, Status> {
        self.patch_type.apply(kind, object, self.patch.clone())
    }
}

// === impl PatchType ===

impl PatchType {
    fn of(request: &ResourceRequest) -> Result<Self, Status> {
        let unsupported = |why: &str| Status::failure(415, "UnsupportedMediaType", why);
        match body::media_type(&request.content_type) {
            "application/json-patch+json" => Ok(PatchType::Json),
            "application/merge-patch+json" => Ok(PatchType::Merge),
            "application/strategic-merge-patch+json" if request.kind.custom.is_none() => {
                Ok(PatchType::Strategic)
            }
            "application/strategic-merge-patch+json" => Err(unsupported(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            "application/apply-patch+yaml" => Err(unsupported(
                "this server does not do server-side apply yet: use kubectl apply without --server-side, or a merge patch",
            )),
            _ => Err(unsupported("415: Unsupported Media Type").with(StatusDetails::default())),
        }
    }

    fn apply(self, kind: &ServedKind, object: Value, patch: Value) -> Result<Value, Status> {
        match self {
            PatchType::Json => json::apply(object, patch)
                .map_err(|error| patch_error(error.code(), &undecodable(error.code(), &error))),
            PatchType::Merge => merge::apply(object, patch)
                .map_err(|error| patch_error(400, &undecodable(400, &error))),
            PatchType::Strategic => {
                let schema = fields::schema();
                let root = schema.root(&kind.group, &kind.version, &kind.kind);
                strategic::apply(object, patch, schema, root)
                    .map_err(|error| patch_error(error.code(), &error.to_string()))
            }
        }
    }
}

// === impl WriteRequest ===

impl WriteRequest<'_> {
    /// An update that names a uid is refused if the stored object has another one.
    pub(super) fn check_uid(&self, old: &ObjectTree, new: &ObjectTree) -> Result<(), Status> {
        let (given, found) = (metadata::text(new, "uid"), metadata::text(old, "uid"));
        if given.is_empty() || given == found {
            return Ok(());
        }
        let (request, kind) = (self.request, &self.request.kind);
        let group = match kind.custom {
            Some(_) => format!("{}/", kind.group),
            None => String::new(),
        };
        let key = format!("{group}{}/{}", kind.plural, request.key().as_str());
        let why = storage_error(self.mode, &key, ("UID", given, found));
        Err(Status::conflict(kind.resource_named(request.name()), &why))
    }
}

/// Upstream reports a malformed patch as a decoding error, except strategic ones.
fn undecodable(code: u16, error: &dyn std::fmt::Display) -> String {
    if code == 400 {
        format!("error decoding patch: {error}")
    } else {
        error.to_string()
    }
}

/// Returns the status of a patch that could not be applied.
fn patch_error(code: u16, why: &str) -> Status {
    match code {
        400 => Status::bad_request(why),
        413 => {
            let message = format!("Request entity too large: {why}");
            Status::failure(413, "RequestEntityTooLarge", message)
        }
        422 => {
            let message = "the server rejected our request due to an error in our request";
            Status::failure(422, "Invalid", message).with(StatusDetails::default())
        }
        _ => Status::unexplained(why),
    }
}
