//! TokenRequests: a create in `serviceaccounts/NAME/token` issues a token and stores nothing.
//!
//! Mirrors `TokenREST` of `registry/core/serviceaccount/storage`, 1.36. The token is bound to the uid of its ServiceAccount,
//! and, if the client asks for it, to a Pod, a Secret or a Node.

use std::sync::Arc;

use caretaker_machinery::status::{NamedResource, Status, StatusCause, StatusDetails, quoted};
use jiff::SignedDuration;
use serde_json::json;

use super::decode::{self, set_namespace};
use super::review::unstored;
use super::write::WriteRequest;
use super::{ResourceRequest, VerbReply};
use crate::kinds::{ServedKind, split_group};
use crate::metadata::{self, ObjectTree, strings, value_at};
use crate::server::ServerState;
use crate::store::ObjectKey;
use crate::strategy::ObjectPart;
use crate::tokens::check;
use crate::tokens::claims::{BoundName, TokenClaims, TokenObjects, TokenTimes};

/// The shortest and the longest life of a token in seconds.
const LIFETIME_SECS_MIN: i64 = 600;
const LIFETIME_SECS_MAX: i64 = 1 << 32;
/// The life in seconds that marks the token of a Pod whose client may not read it again in time.
const EXTENDED_IF_SECS: i64 = 60 * 60 + 7;
/// The life of such a token, in seconds: a year.
const EXTENDED_SECS: i64 = 365 * 24 * 60 * 60;

/// Issues a token.
pub(super) fn create(server: &ServerState, request: &ResourceRequest) -> Result<VerbReply, Status> {
    let write = WriteRequest::new(server, request, ObjectPart::Main, "CreateOptions")?;
    let asked = ResourceRequest {
        kind: token_request_kind(&request.kind),
        ..request.clone()
    };
    let decoded = decode::decode_body(&server.kinds(), &asked)?;
    let mut tree = decoded.tree;
    set_namespace(request, &mut tree)?;
    write.namespace_premise(request.name())?;
    let account = account(server, &asked, &tree)?;
    let lifetime_secs = check_lifetime(&asked.kind, &tree)?;
    let Some(key) = &server.credentials().token_key else {
        return Err(no_key(request));
    };
    let mut audiences = strings(value_at(&tree, "/spec/audiences"));
    if audiences.is_empty() {
        audiences = check::own_audiences();
    }
    let objects = bound_objects(server, request, &account, &tree)?;
    let now = server.clock.now();
    let times = times(now, lifetime_secs, &objects, &audiences);
    let jti = server.rng().uuid().to_string();
    let claims = TokenClaims::new(objects, audiences.clone(), times, jti);
    let Some(token) = claims.sign(key) else {
        return Err(Status::failure(
            500,
            "InternalError",
            "Internal error occurred: failed to generate token",
        ));
    };
    let end = now.saturating_add(SignedDuration::from_secs(lifetime_secs));
    let metadata = metadata::of(&mut tree);
    metadata.insert("name".into(), request.name().into());
    metadata.insert("uid".into(), account.uid.into());
    metadata.insert("creationTimestamp".into(), metadata::time(now).into());
    if let Some(spec) = tree.get_mut("spec") {
        spec["audiences"] = audiences.into();
    }
    let end = end.map(metadata::time).unwrap_or_default();
    tree.insert(
        "status".into(),
        json!({"token": token, "expirationTimestamp": end}),
    );
    let response = unstored(request, &asked.kind, &tree, &decoded.warnings);
    Ok(VerbReply::Response(response))
}

/// Returns a row for the objects of the subresource, whose kind is no resource.
fn token_request_kind(accounts: &ServedKind) -> Arc<ServedKind> {
    Arc::new(ServedKind {
        group: "authentication.k8s.io".into(),
        version: "v1".into(),
        kind: "TokenRequest".into(),
        ..accounts.clone()
    })
}

/// Returns the ServiceAccount of the path, if the request names no other.
fn account(
    server: &ServerState,
    request: &ResourceRequest,
    tree: &ObjectTree,
) -> Result<BoundName, Status> {
    let name = request.name();
    let named = request.kind.kind_named(name);
    let given = metadata::text(tree, "name");
    if !given.is_empty() && given != name {
        let why = "must match the service account name if specified";
        let cause = StatusCause::invalid("metadata.name", given, why);
        return Err(Status::invalid(named, vec![cause]));
    }
    let found = find(
        server,
        "serviceaccounts",
        request.namespace.as_deref(),
        name,
    )?;
    let uid = metadata::text(&found, "uid").to_owned();
    let given = metadata::text(tree, "uid");
    if !given.is_empty() && given != uid {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({uid})"
        );
        return Err(Status::conflict(named, &why));
    }
    Ok(BoundName {
        name: name.to_owned(),
        uid,
    })
}

fn check_lifetime(kind: &ServedKind, tree: &ObjectTree) -> Result<i64, Status> {
    let secs = value_at(tree, "/spec/expirationSeconds");
    let secs = secs.as_i64().unwrap_or_default();
    let why = if secs < LIFETIME_SECS_MIN {
        "may not specify a duration less than 10 minutes"
    } else if secs > LIFETIME_SECS_MAX {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(secs);
    };
    let cause = StatusCause::invalid("spec.expirationSeconds", secs, why);
    Err(Status::invalid(kind.kind_named(""), vec![cause]))
}

/// Returns the objects of the claims: the ServiceAccount, and the one that the client binds the token to.
fn bound_objects(
    server: &ServerState,
    request: &ResourceRequest,
    account: &BoundName,
    tree: &ObjectTree,
) -> Result<TokenObjects, Status> {
    let namespace = request.namespace.as_deref();
    let mut objects = TokenObjects {
        namespace: namespace.unwrap_or_default().to_owned(),
        serviceaccount: account.clone(),
        ..TokenObjects::default()
    };
    let reference = value_at(tree, "/spec/boundObjectRef");
    if reference.is_null() {
        return Ok(objects);
    }
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (name, kind) = (text("name"), text("kind"));
    let bound = |object: &ObjectTree| {
        let (found, wanted) = (metadata::text(object, "uid"), text("uid"));
        if !wanted.is_empty() && wanted != found {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            let named = NamedResource {
                group: "",
                what: kind,
                name,
            };
            return Err(Status::conflict(named, &why));
        }
        Ok(Some(BoundName {
            name: name.to_owned(),
            uid: found.to_owned(),
        }))
    };
    match (bound_group(text("apiVersion")), kind) {
        ("", "Pod") => {
            let pod = find(server, "pods", namespace, name)?;
            objects.node = node_of(server, &pod, account)?;
            objects.pod = bound(&pod)?;
        }
        ("", "Node") => {
            objects.node = bound(&find(server, "nodes", None, name)?)?;
        }
        ("", "Secret") => {
            objects.secret = bound(&find(server, "secrets", namespace, name)?)?;
        }
        _ => {
            let (group, version) = split_group(text("apiVersion"));
            let message =
                format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
    }
    Ok(objects)
}

/// Returns the group of an apiVersion. Like upstream, one that cannot be read counts as the core group.
fn bound_group(api_version: &str) -> &str {
    match api_version.matches('/').count() {
        1 => split_group(api_version).0,
        _ => "",
    }
}

/// Returns the Node of a Pod. The token names it, even if it does not exist.
fn node_of(
    server: &ServerState,
    pod: &ObjectTree,
    account: &BoundName,
) -> Result<Option<BoundName>, Status> {
    let spec = value_at(pod, "/spec");
    if spec["serviceAccountName"].as_str().unwrap_or_default() != account.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            quoted(&account.name)
        )));
    }
    let Some(name) = spec["nodeName"].as_str().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let node = find(server, "nodes", None, name).unwrap_or_default();
    Ok(Some(BoundName {
        name: name.to_owned(),
        uid: metadata::text(&node, "uid").to_owned(),
    }))
}

/// Returns the times of a token. The usual token of a Pod lives longer than it says, as upstream, so that clients that do
/// not read it again go on working.
fn times(
    now: jiff::Timestamp,
    lifetime_secs: i64,
    objects: &TokenObjects,
    audiences: &[String],
) -> TokenTimes {
    let own = check::own_audiences();
    let is_extended = objects.pod.is_some()
        && lifetime_secs == EXTENDED_IF_SECS
        && audiences.iter().all(|audience| own.contains(audience));
    TokenTimes {
        now,
        lifetime_secs: if is_extended {
            EXTENDED_SECS
        } else {
            lifetime_secs
        },
        warn_after_secs: is_extended.then_some(lifetime_secs),
    }
}

fn find(
    server: &ServerState,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<ObjectTree, Status> {
    if name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let kind = server.builtin("", plural);
    let found = server
        .store
        .get(kind.resource, &ObjectKey::new(namespace, name));
    let found = found.ok_or_else(|| Status::not_found(kind.resource_named(name)))?;
    Ok(found.to_value())
}

/// The answer of a server in process that was started without a key.
fn no_key(request: &ResourceRequest) -> Status {
    let message = format!(
        "{}/token is not available: this server was started without a key for tokens",
        request.kind.plural
    );
    Status::failure(501, "NotImplemented", message).with(StatusDetails::default())
}
