//! Reviews: questions about identity and access, which are answered and not stored.
//!
//! Mirrors `registry/authentication` and `registry/authorization`, 1.36. The answers to questions about access follow from
//! [`access`](crate::identity::access), which decides about requests, too. [`spec`] has the validation.

mod spec;

use caretaker_machinery::status::{NamedResource, Status};
use http::Response;
use serde_json::{Map, Value, json};

use self::spec::{evaluation_error, faults};
use super::decode::{DecodedBody, set_namespace};
use super::{ResourceRequest, VerbReply};
use crate::identity::UserIdentity;
use crate::identity::access::{self, AccessAttributes, AccessTarget};
use crate::kinds::ServedKind;
use crate::metadata::{self, ObjectTree, strings, value_at};
use crate::negotiate::ResponseForm;
use crate::respond::{self, ResponseBody};
use crate::server::ServerState;
use crate::strategy::convert;
use crate::tokens::check::{self, TokenVerdict};

/// Metadata that clients cannot set.
const SYSTEM_FIELDS: [&str; 5] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "selfLink",
    "uid",
];

/// Answers a review.
pub(super) fn answer(
    server: &ServerState,
    request: &ResourceRequest,
    decoded: DecodedBody,
) -> Result<VerbReply, Status> {
    let DecodedBody { mut tree, warnings } = decoded;
    set_namespace(request, &mut tree)?;
    for field in SYSTEM_FIELDS {
        metadata::of(&mut tree).remove(field);
    }
    match request.kind.kind.as_str() {
        "SelfSubjectReview" => {
            let metadata = json!({"creationTimestamp": metadata::time(server.clock.now())});
            tree.insert("metadata".into(), metadata);
            let status = json!({"userInfo": request.identity.to_value()});
            tree.insert("status".into(), status);
        }
        "TokenReview" => {
            let status = token_status(server, &tree)?;
            tree.insert("status".into(), status);
        }
        "SelfSubjectRulesReview" => {
            if text(value_at(&tree, "/spec"), "namespace").is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            // Upstream returns the rules only.
            tree = rules();
        }
        _ => {
            let status = access_status(request, &tree)?;
            tree.insert("status".into(), status);
        }
    }
    Ok(VerbReply::Response(unstored(
        request,
        &request.kind,
        &tree,
        &warnings,
    )))
}

/// Makes the response of an object that is not stored.
pub(super) fn unstored(
    request: &ResourceRequest,
    kind: &ServedKind,
    tree: &ObjectTree,
    warnings: &[String],
) -> Response<ResponseBody> {
    let shown = match request.format.form {
        ResponseForm::Metadata(version) => {
            let metadata = tree.get("metadata").unwrap_or(&Value::Null);
            json!({"apiVersion": version.api_version(), "kind": "PartialObjectMetadata", "metadata": metadata})
        }
        _ => convert::served(kind, tree),
    };
    let mut response = respond::value(201, &shown, request.format);
    respond::add_warnings(&mut response, warnings);
    response
}

/// Returns the status of a TokenReview.
fn token_status(server: &ServerState, review: &ObjectTree) -> Result<Value, Status> {
    let token = value_at(review, "/spec/token").as_str().unwrap_or_default();
    if token.is_empty() {
        let message = "token is required for TokenReview in authentication";
        return Err(Status::bad_request(message));
    }
    // Like upstream, which reads it as a header: what follows a space does not count.
    let token = token.trim_end().split(' ').next().unwrap_or_default();
    let mut audiences = strings(value_at(review, "/spec/audiences"));
    if audiences.is_empty() {
        audiences = check::own_audiences();
    }
    Ok(match check::check(server, token.as_bytes(), &audiences) {
        TokenVerdict::Valid {
            identity,
            audiences,
        } => json!({"authenticated": true, "user": identity.to_value(), "audiences": audiences}),
        TokenVerdict::Refused(why) => {
            json!({"user": {}, "error": format!("[invalid bearer token, {why}]")})
        }
        TokenVerdict::Unknown => json!({"user": {}, "error": "invalid bearer token"}),
    })
}

/// Returns the status of a question about access: the caller's, or that of the user in the question.
fn access_status(request: &ResourceRequest, review: &ObjectTree) -> Result<Value, Status> {
    let faults = faults(&request.kind.kind, review);
    if !faults.is_empty() {
        // Upstream's message does not name the kind.
        let named = NamedResource {
            group: &request.kind.group,
            what: "",
            name: "",
        };
        return Err(Status::invalid(named, faults));
    }
    let user = match request.kind.kind.as_str() {
        "SelfSubjectAccessReview" => request.identity.clone(),
        _ => subject(review),
    };
    let attributes = attributes(review);
    let mut status = Map::new();
    let allowed = attributes.is_allowed_to(&user);
    status.insert("allowed".into(), allowed.into());
    if let Some(reason) = access::reason(&user).filter(|_| allowed) {
        status.insert("reason".into(), reason.into());
    }
    let error = evaluation_error(value_at(review, "/spec/resourceAttributes"));
    if !error.is_empty() {
        status.insert("evaluationError".into(), error.into());
    }
    Ok(Value::Object(status))
}

/// Returns the user that a question names.
fn subject(review: &ObjectTree) -> UserIdentity {
    let spec = value_at(review, "/spec");
    UserIdentity {
        user: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: strings(&spec["groups"]),
        ..UserIdentity::default()
    }
}

/// Returns the request that a question is about.
fn attributes(review: &ObjectTree) -> AccessAttributes<'_> {
    let resource = value_at(review, "/spec/resourceAttributes");
    let path = value_at(review, "/spec/nonResourceAttributes");
    if resource.is_null() {
        return AccessAttributes {
            verb: text(path, "verb").into(),
            target: AccessTarget::Path(text(path, "path")),
        };
    }
    AccessAttributes {
        verb: text(resource, "verb").into(),
        target: AccessTarget::Resource {
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
        },
    }
}

fn text<'a>(attributes: &'a Value, field: &str) -> &'a str {
    attributes[field].as_str().unwrap_or_default()
}

/// Returns the answer to a question for all rules: those that every user of a cluster has, and one that allows everything.
fn rules() -> ObjectTree {
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let answer = json!({"metadata": {}, "spec": {}, "status": {
        "resourceRules": [
            {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        ],
        "nonResourceRules": [
            {"verbs": ["get"], "nonResourceURLs": public},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
            {"verbs": ["get"], "nonResourceURLs": discovery},
        ],
        "incomplete": false,
    }});
    match answer {
        Value::Object(tree) => tree,
        _ => ObjectTree::new(),
    }
}
