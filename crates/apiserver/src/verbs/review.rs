//! Kinds that are asked, not stored: a create fills in the status and forgets the object.
//!
//! Whoever has the token may do everything, so access reviews say yes. Nothing here knows other tokens.

use caretaker_machinery::status::{Details, Status};
use serde_json::{Value, json};

use super::{Ask, Reply};
use crate::metadata::Tree;
use crate::strategy::convert;

pub(super) fn answer(ask: &Ask, mut tree: Tree) -> Result<Reply, Status> {
    let status = match ask.kind.kind.as_str() {
        "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            json!({"allowed": true, "reason": "this server enforces no authorization"})
        }
        "SelfSubjectReview" => {
            let who = &ask.identity;
            json!({"userInfo": {"username": who.user, "groups": who.groups}})
        }
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
        }),
        kind => {
            let message = format!("{kind} is not available: this server does not serve it yet");
            return Err(Status::failure(501, "NotImplemented", message).with(Details::default()));
        }
    };
    tree.insert("status".into(), status);
    tree.insert("metadata".into(), Value::Object(Tree::new()));
    Ok(Reply::Value {
        code: 201,
        value: convert::served(&ask.kind, &tree),
    })
}
