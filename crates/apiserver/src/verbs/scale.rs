//! The subresource `scale`: a Scale is read from the object, and its replicas are written into it.
//!
//! The write of the object itself takes the way of all updates, so that generation, conflicts and validation are those of
//! its kind. [`scale`](crate::scale) knows which fields a Scale shows.

use std::sync::Arc;

use caretaker_machinery::status::{NamedResource, Status, StatusCause};

use super::decode::DecodedBody;
use super::update::PatchBody;
use super::write::{OwnerSource, WritePlan, WriteRequest, encode};
use super::{ApiVerb, ResourceRequest, VerbReply, decode, read};
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree, check, value_at};
use crate::scale::{self, REPLICAS_UNSET, ScaleFields, scale_kind};
use crate::server::ServerState;
use crate::store::StoredObject;
use crate::strategy::{ObjectPart, convert};

const NEGATIVE: &str = "must be greater than or equal to 0";

pub(super) async fn serve(
    server: &ServerState,
    request: &ResourceRequest,
    verb: ApiVerb,
) -> Result<VerbReply, Status> {
    match verb {
        ApiVerb::Update => update(server, request).await,
        ApiVerb::Patch => patch(server, request).await,
        _ => {
            let object = read::current(server, request).await?;
            view(&request.kind, &object, Vec::new())
        }
    }
}

async fn update(server: &ServerState, request: &ResourceRequest) -> Result<VerbReply, Status> {
    let write = WriteRequest::new(server, request, ObjectPart::Main, "UpdateOptions")?;
    let mut decoded =
        decode::decode_body(&server.kinds(), &for_scale(request)).map_err(|status| {
            if request.kind.custom.is_some() && status.code == 400 {
                // Upstream's decoder for Scales of custom objects fails while it makes its error.
                let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
                return Status::bad_request(why);
            }
            status
        })?;
    write.match_path(&mut decoded.tree)?;
    let replace = |write: &mut WriteRequest<'_>, old: &ObjectTree| {
        write.check_uid(old, &decoded.tree)?;
        plan(write, old, &decoded)
    };
    finish(write.update(replace).await?, &request.kind)
}

async fn patch(server: &ServerState, request: &ResourceRequest) -> Result<VerbReply, Status> {
    let write = WriteRequest::new(server, request, ObjectPart::Main, "PatchOptions")?;
    let patch = PatchBody::read(request)?;
    let for_scale = for_scale(request);
    let fields = ScaleFields::of(&request.kind);
    let apply = |write: &mut WriteRequest<'_>, old: &ObjectTree| {
        let mut scale = fields.scale_of(old).map_err(Status::unexplained)?;
        if !scale.has_replicas {
            let unset = scale::spec(REPLICAS_UNSET);
            scale.tree.insert("spec".into(), unset);
        }
        let served = convert::served(&for_scale.kind, &scale.tree);
        let patched = patch.apply(&for_scale.kind, served)?;
        let mut decoded = decode::decode_patched(&for_scale, &patched, &patch)?;
        write.match_path(&mut decoded.tree)?;
        plan(write, old, &decoded)
    };
    finish(write.update(apply).await?, &request.kind)
}

/// Returns the same request for an object of the kind Scale.
fn for_scale(request: &ResourceRequest) -> ResourceRequest {
    ResourceRequest {
        kind: Arc::new(scale_kind(&request.kind)),
        ..request.clone()
    }
}

/// Plans the write of a Scale's replicas into its object.
fn plan(
    write: &mut WriteRequest<'_>,
    old: &ObjectTree,
    scale: &DecodedBody,
) -> Result<WritePlan, Status> {
    let kind = &write.request.kind;
    let fields = ScaleFields::of(kind);
    let replicas = value_at(&scale.tree, "/spec/replicas").as_i64();
    let replicas = replicas.unwrap_or(0);
    if kind.custom.is_none() {
        check_scale(write.request, old, &scale.tree, replicas)?;
    } else if replicas == REPLICAS_UNSET {
        return Err(Status::bad_request(format!(
            "the spec replicas field {:?} cannot be empty",
            fields.replicas
        )));
    }
    let mut new = old.clone();
    fields.set_replicas(&mut new, replicas);
    let revision = metadata::text(&scale.tree, "resourceVersion");
    if !revision.is_empty() || kind.custom.is_none() {
        metadata::of(&mut new).insert("resourceVersion".into(), revision.into());
    }
    let decoded = DecodedBody {
        tree: new,
        warnings: scale.warnings.clone(),
    };
    write.plan_update(old, decoded, OwnerSource::PatchedObject)
}

/// Checks the Scale of a built-in kind.
fn check_scale(
    request: &ResourceRequest,
    old: &ObjectTree,
    scale: &ObjectTree,
    replicas: i64,
) -> Result<(), Status> {
    let (kind, name) = (scale_kind(&request.kind), request.name());
    let mut causes = check::faults(&kind, scale);
    if replicas < 0 {
        causes.push(StatusCause::invalid("spec.replicas", replicas, NEGATIVE));
    }
    if !causes.is_empty() {
        return Err(Status::invalid(kind.kind_named(name), causes));
    }
    let (wanted, found) = (metadata::text(scale, "uid"), metadata::text(old, "uid"));
    if !wanted.is_empty() && wanted != found {
        let named = NamedResource {
            what: &format!("{}/scale", request.kind.plural),
            ..request.kind.resource_named(name)
        };
        let why = format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        return Err(Status::conflict(named, &why));
    }
    Ok(())
}

/// Returns the Scale of the object that a write replies with.
fn finish(reply: VerbReply, kind: &ServedKind) -> Result<VerbReply, Status> {
    match reply {
        VerbReply::Object {
            object, warnings, ..
        } => view(kind, &object, warnings),
        other => Ok(other),
    }
}

fn view(
    kind: &ServedKind,
    object: &StoredObject,
    warnings: Vec<String>,
) -> Result<VerbReply, Status> {
    let fields = ScaleFields::of(kind);
    let scale = fields.scale_of(&convert::current(kind, object));
    let scale = scale.map_err(Status::unexplained)?;
    if !scale.has_replicas && kind.custom.is_some() {
        return Err(fields.no_replicas());
    }
    let kind = scale_kind(kind);
    let object = encode(&kind, &object.key, &scale.tree).commit(object.rev);
    Ok(VerbReply::View {
        kind: Arc::new(kind),
        object: Arc::new(object),
        warnings,
    })
}
