//! Replies of servers and proxies, proper and broken, and the answers that they become.

use serde_json::{Value, json};

use super::*;
use crate::runtime::call::{JudgedVersion, PatchForm};
use crate::runtime::kind::{KindId, KindScope};
use crate::runtime::record::Revision;
use crate::test_world::mk_kind;

fn mk_catalog() -> KindCatalog {
    let scope = KindScope::Namespaced;
    KindCatalog::default().with([mk_kind("apps", "v1", "Deployment", "deployments", scope)])
}

fn mk_target() -> CallTarget {
    CallTarget {
        kind: KindId(0),
        namespace: "shop".into(),
        name: "web".into(),
    }
}

fn mk_get() -> ApiCall {
    ApiCall::Get {
        target: mk_target(),
    }
}

fn mk_delete() -> ApiCall {
    ApiCall::Delete {
        target: mk_target(),
        judged: JudgedVersion {
            uid: "u".into(),
            revision: "7".into(),
        },
        propagation: None,
        grace_secs: None,
    }
}

fn mk_patch() -> ApiCall {
    ApiCall::Patch {
        target: mk_target(),
        judged: JudgedVersion {
            uid: "u".into(),
            revision: "7".into(),
        },
        subresource: None,
        form: PatchForm::Merge,
        patch: json!({}),
    }
}

fn mk_reply(code: u16, content_type: &str, body: &str) -> HttpReply {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
    HttpReply {
        status: StatusCode::from_u16(code).unwrap(),
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn mk_json(code: u16, body: &Value) -> HttpReply {
    mk_reply(code, "application/json", &body.to_string())
}

fn mk_not_found() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "deployments.apps \"web\" not found", "reason": "NotFound",
        "details": {"name": "web", "group": "apps", "kind": "deployments"}, "code": 404,
    })
}

fn mk_object() -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
    })
}

/// `mk_not_found` with one thing changed.
fn other(pointer: &str, value: Value) -> Value {
    let mut status = mk_not_found();
    *status.pointer_mut(pointer).unwrap() = value;
    status
}

fn failed(answer: &ApiAnswer) -> Option<FailureKind> {
    match answer {
        ApiAnswer::Failed(failure) => Some(failure.kind),
        _ => None,
    }
}

#[test]
fn a_404_that_names_the_object_proves_its_absence_for_every_verb() {
    let reply = mk_json(404, &mk_not_found());
    let by_kind = mk_json(404, &other("/details/kind", json!("Deployment")));
    for call in [mk_get(), mk_delete(), mk_patch()] {
        for reply in [&reply, &by_kind] {
            let answer = answer(reply, &call, RecordView::Metadata, &mk_catalog());
            assert_eq!(
                answer,
                ApiAnswer::Absent(AbsenceProof::NotFound),
                "{call:?}"
            );
        }
    }
}

#[test]
fn nothing_else_proves_absence() {
    let text = mk_not_found().to_string();
    let mut no_details = mk_not_found();
    no_details.as_object_mut().unwrap().remove("details");
    let table = [
        ("a page", mk_reply(404, "text/plain", "404 page not found")),
        ("HTML", mk_reply(404, "text/html", "<html>404</html>")),
        ("a Status as text", mk_reply(404, "text/plain", &text)),
        ("nothing", mk_reply(404, "application/json", "")),
        (
            "half a Status",
            mk_reply(404, "application/json", &text[..text.len() / 2]),
        ),
        ("no details", mk_json(404, &no_details)),
        (
            "another name",
            mk_json(404, &other("/details/name", json!("web2"))),
        ),
        ("no name", mk_json(404, &other("/details/name", json!("")))),
        (
            "another kind",
            mk_json(404, &other("/details/kind", json!("pods"))),
        ),
        (
            "another group",
            mk_json(404, &other("/details/group", json!("batch"))),
        ),
        (
            "another reason",
            mk_json(404, &other("/reason", json!("Expired"))),
        ),
        ("another code", mk_json(404, &other("/code", json!(410)))),
        ("success", mk_json(404, &other("/status", json!("Success")))),
        (
            "no Status",
            mk_json(404, &other("/kind", json!("Deployment"))),
        ),
        (
            "another version",
            mk_json(404, &other("/apiVersion", json!("v2"))),
        ),
        ("an array", mk_json(404, &json!([mk_not_found()]))),
        ("another answer", mk_json(500, &mk_not_found())),
        ("gone", mk_json(410, &mk_not_found())),
        ("a good answer", mk_json(200, &mk_not_found())),
    ];
    for (name, reply) in table {
        for call in [mk_get(), mk_delete(), mk_patch()] {
            let answer = answer(&reply, &call, RecordView::Metadata, &mk_catalog());
            assert!(failed(&answer).is_some(), "{name}: {answer:?}");
        }
    }
}

#[test]
fn a_404_of_a_kind_that_is_not_served_proves_nothing() {
    let gone = mk_catalog().with([]);
    let answer = answer(
        &mk_json(404, &mk_not_found()),
        &mk_get(),
        RecordView::Metadata,
        &gone,
    );
    assert_eq!(failed(&answer), Some(FailureKind::NotServed));
}

#[test]
fn a_terminating_namespace_differs_from_forbidden() {
    let status = |reason: &str| {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
            "details": {"name": "a", "kind": "jobs", "causes": [{"reason": reason, "field": "metadata.namespace"}]}})
    };
    for (reason, kind) in [
        ("NamespaceTerminating", FailureKind::NamespaceEnding),
        ("", FailureKind::Forbidden),
    ] {
        let reply = mk_json(403, &status(reason));
        let answer = answer(&reply, &mk_get(), RecordView::Metadata, &mk_catalog());
        assert_eq!(failed(&answer), Some(kind));
    }
}

#[test]
fn status_codes_map_to_failure_kinds() {
    let table = [
        (400, FailureKind::Refused),
        (401, FailureKind::Forbidden),
        (403, FailureKind::Forbidden),
        (404, FailureKind::NotServed),
        (405, FailureKind::Refused),
        (409, FailureKind::Conflict),
        (410, FailureKind::Refused),
        (422, FailureKind::Refused),
        (429, FailureKind::TooManyRequests),
        (302, FailureKind::Unavailable),
        (500, FailureKind::Unavailable),
        (502, FailureKind::Unavailable),
        (503, FailureKind::Unavailable),
        (504, FailureKind::Unavailable),
    ];
    for (code, expected) in table {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
        for reply in [mk_json(code, &status), mk_reply(code, "text/html", "<p>")] {
            let ApiAnswer::Failed(failure) =
                answer(&reply, &mk_delete(), RecordView::Metadata, &mk_catalog())
            else {
                panic!("{code} did not fail");
            };
            assert_eq!((failure.kind, failure.status), (expected, Some(code)));
        }
    }
}

#[test]
fn a_patch_of_an_object_that_was_replaced_is_a_conflict() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422,
        "details": {"causes": [{"field": "metadata.uid", "message": "field is immutable"}]},
    });
    let answer = answer(
        &mk_json(422, &status),
        &mk_patch(),
        RecordView::Metadata,
        &mk_catalog(),
    );
    assert_eq!(failed(&answer), Some(FailureKind::Conflict));
}

#[test]
fn unknown_fields_of_an_object_are_ignored() {
    let mut object = mk_object();
    object["metadata"]["finalizers"] = json!(["orphan"]);
    object["metadata"]["deletionTimestamp"] = json!("2026-03-01T12:00:00Z");
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "odd", "controller": true},
    ]);
    let mut text = object.to_string();
    let deep = format!(
        ",\"managedFields\":{}{}}}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    text.truncate(text.len() - 2);
    let reply = mk_reply(200, "application/json", &(text + &deep));
    let ApiAnswer::Object(record) = answer(&reply, &mk_get(), RecordView::Metadata, &mk_catalog())
    else {
        panic!("not an object");
    };
    assert_eq!(
        (&*record.meta.name, &*record.meta.namespace),
        ("web", "shop")
    );
    assert_eq!(record.meta.revision, Revision::Number(7));
    assert_eq!(record.meta.finalizers, ["orphan".into()]);
    assert!(record.meta.deletion.is_some());
    assert_eq!(record.meta.owners[0].controller, Some(true));
    assert_eq!(record.meta.owners[0].block_owner_deletion, None);
}

#[test]
fn an_answer_that_is_not_the_object_fails() {
    let with = |pointer: &str, value: Value| {
        let mut object = mk_object();
        *object.pointer_mut(pointer).unwrap() = value;
        mk_json(200, &object)
    };
    let success = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
    let table = [
        ("another name", with("/metadata/name", json!("web2"))),
        ("another namespace", with("/metadata/namespace", json!("x"))),
        ("no uid", with("/metadata/uid", json!(""))),
        ("a number for a uid", with("/metadata/uid", json!(7))),
        ("no metadata", with("/metadata", json!(null))),
        ("a Status", mk_json(200, &success)),
        ("nothing", mk_reply(200, "application/json", "")),
        ("HTML", mk_reply(200, "text/html", &mk_object().to_string())),
        ("no body", mk_reply(204, "application/json", "")),
    ];
    for (name, reply) in table {
        let answer = answer(&reply, &mk_get(), RecordView::Metadata, &mk_catalog());
        assert_eq!(failed(&answer), Some(FailureKind::Unavailable), "{name}");
    }
    let deleted = answer(
        &mk_json(200, &success),
        &mk_delete(),
        RecordView::Metadata,
        &mk_catalog(),
    );
    assert_eq!(deleted, ApiAnswer::Done);
    let going = answer(
        &mk_json(202, &mk_object()),
        &mk_delete(),
        RecordView::Metadata,
        &mk_catalog(),
    );
    assert!(matches!(going, ApiAnswer::Object(_)));
}

#[test]
fn retry_after_may_be_in_the_status_and_messages_are_shortened() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "é".repeat(1000), "code": 429,
        "details": {"retryAfterSeconds": 7},
    });
    let mut reply = mk_json(429, &status);
    let wait =
        |reply: &HttpReply| match answer(reply, &mk_get(), RecordView::Metadata, &mk_catalog()) {
            ApiAnswer::Failed(failure) => (
                failure.retry_after.map(|wait| wait.as_secs()),
                failure.message,
            ),
            other => panic!("{other:?}"),
        };
    let (secs, message) = wait(&reply);
    assert_eq!(secs, Some(7));
    assert_eq!(message, "é".repeat(256));
    reply
        .headers
        .insert(header::RETRY_AFTER, "3".parse().unwrap());
    assert_eq!(wait(&reply).0, Some(3), "the header has precedence");
}

const DATE: &str = "Sun, 01 Mar 2026 12:00:00 GMT";

fn mk_headers(headers: &[(header::HeaderName, &str)]) -> HttpReply {
    HttpReply {
        status: StatusCode::TOO_MANY_REQUESTS,
        headers: headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect(),
        body: Bytes::new(),
    }
}

#[test]
fn retry_after_is_read_in_both_forms_and_capped() {
    let table = [
        ("1", Some(1)),
        (" 7 ", Some(7)),
        ("60", Some(60)),
        ("61", Some(60)),
        ("1000000000", Some(60)),
        ("99999999999999999999999", Some(60)),
        ("0", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("Sun, 01 Mar 2026 12:00:30 GMT", Some(30)),
        ("Sun, 01 Mar 2026 13:00:00 GMT", Some(60)),
        ("Sun, 01 Mar 2026 11:59:59 GMT", None),
        (DATE, None),
    ];
    for (text, secs) in table {
        let reply = mk_headers(&[(header::RETRY_AFTER, text), (header::DATE, DATE)]);
        let expected = secs.map(Duration::from_secs);
        assert_eq!(retry_after(&reply.headers), expected, "{text:?}");
    }
    let dated = mk_headers(&[(header::RETRY_AFTER, "Sun, 01 Mar 2026 12:00:30 GMT")]);
    assert_eq!(retry_after(&dated.headers), None, "by whose clock?");
    assert_eq!(retry_after(&HeaderMap::new()), None);
}

#[test]
fn json_is_recognized_by_its_content_type() {
    let table = [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            true,
        ),
        ("text/html", false),
        ("application/vnd.kubernetes.protobuf", false),
        ("", false),
    ];
    for (text, expected) in table {
        let reply = mk_headers(&[(header::CONTENT_TYPE, text)]);
        assert_eq!(reply.is_json(), expected, "{text}");
    }
}
