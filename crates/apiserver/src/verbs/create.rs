//! POST: a new object, or a review, which is answered and not stored.

use caretaker_machinery::status::{Status, StatusDetails};
use serde_json::{Value, json};

use super::write::{InsertOrigin, WriteRequest};
use super::{ResourceRequest, VerbReply, binding, decode};
use crate::metadata::ObjectTree;
use crate::server::ServerState;
use crate::strategy::{ObjectPart, convert};

pub(super) async fn create(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    if request.kind.kind == "Binding" {
        return binding::create_binding(server, request).await;
    }
    let write = WriteRequest::new(server, request, ObjectPart::Main, "CreateOptions")?;
    let decoded = decode::decode_body(&server.kinds(), request)?;
    if request.kind.allows("get") {
        write.insert(decoded, InsertOrigin::Create).await
    } else {
        review(request, decoded.tree)
    }
}

/// Answers a review: its status is filled in, and it is not stored. A client with the token has all permissions, so
/// access reviews allow every action.
fn review(request: &ResourceRequest, mut tree: ObjectTree) -> Result<VerbReply, Status> {
    let status = match request.kind.kind.as_str() {
        "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            json!({"allowed": true, "reason": "this server enforces no authorization"})
        }
        "SelfSubjectReview" => {
            let identity = &request.identity;
            json!({"userInfo": {"username": identity.user, "groups": identity.groups}})
        }
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
        }),
        kind => {
            let message = format!("{kind} is not available: this server does not serve it yet");
            return Err(
                Status::failure(501, "NotImplemented", message).with(StatusDetails::default())
            );
        }
    };
    tree.insert("status".into(), status);
    tree.insert("metadata".into(), Value::Object(ObjectTree::new()));
    Ok(VerbReply::Value {
        code: 201,
        value: convert::served(&request.kind, &tree),
    })
}
