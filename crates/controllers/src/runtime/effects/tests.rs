//! The requests of calls.

use super::*;
use crate::runtime::call::{DeletePropagation, PatchForm};
use crate::runtime::kind::KindId;
use crate::test_world::mk_kind;

fn mk_deployments(scope: KindScope) -> ApiKind {
    mk_kind("apps", "v1", "Deployment", "deployments", scope)
}

fn mk_target(namespace: &str, name: &str) -> CallTarget {
    CallTarget {
        kind: KindId(0),
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn mk_judged() -> JudgedVersion {
    JudgedVersion {
        uid: "u-1".into(),
        revision: "42".into(),
    }
}

#[test]
fn invalid_names_never_become_paths() {
    let table = [
        (KindScope::Namespaced, "shop", "web", true),
        (KindScope::Namespaced, "shop", "system:a b", true),
        (KindScope::Namespaced, "shop", "", false),
        (KindScope::Namespaced, "", "web", false),
        (KindScope::Namespaced, "shop", "..", false),
        (KindScope::Namespaced, "shop", ".", false),
        (KindScope::Namespaced, "shop", "web/status", false),
        (KindScope::Namespaced, "shop", "web%2Fstatus", false),
        (KindScope::Namespaced, "../x", "web", false),
        (KindScope::Cluster, "", "web", true),
        (KindScope::Cluster, "shop", "web", true),
        (KindScope::Cluster, "", "", false),
    ];
    for (scope, namespace, name, fine) in table {
        let target = mk_target(namespace, name);
        let found = path(&target, &mk_deployments(scope));
        assert_eq!(found.is_ok(), fine, "{namespace:?} {name:?}: {found:?}");
    }
    let found = path(
        &mk_target("shop", "a ?#é"),
        &mk_deployments(KindScope::Namespaced),
    );
    assert_eq!(
        found.unwrap(),
        "/apis/apps/v1/namespaces/shop/deployments/a%20%3F%23%C3%A9"
    );
}

#[test]
fn a_write_without_a_version_is_not_sent() {
    let table = [("42", true), ("odd", true), ("", false), ("0", false)];
    for (revision, fine) in table {
        let judged = JudgedVersion {
            revision: revision.into(),
            ..mk_judged()
        };
        let patch = ApiCall::Patch {
            target: mk_target("shop", "web"),
            judged: judged.clone(),
            subresource: None,
            form: PatchForm::Merge,
            patch: json!({"metadata": {"finalizers": null}}),
        };
        let delete = ApiCall::Delete {
            target: mk_target("shop", "web"),
            judged,
            propagation: None,
            grace_secs: None,
        };
        for call in [patch, delete] {
            let found = request(
                &call,
                &mk_deployments(KindScope::Namespaced),
                RecordView::Metadata,
            );
            assert_eq!(found.is_ok(), fine, "{call:?}");
        }
    }
}

/// Method, content type and body of the request for a call.
async fn sent(call: &ApiCall) -> (Method, String, Value) {
    use http_body_util::BodyExt;
    let request = request(
        call,
        &mk_deployments(KindScope::Namespaced),
        RecordView::Metadata,
    )
    .unwrap();
    assert_eq!(request.headers()[header::ACCEPT], ACCEPT_METADATA);
    let (head, body) = request.into_parts();
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map_or("", |value| value.to_str().unwrap());
    let body = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    (head.method, content_type.to_owned(), body)
}

#[tokio::test]
async fn a_delete_has_uid_and_version_as_preconditions() {
    let mk_delete = |propagation, grace_secs| ApiCall::Delete {
        target: mk_target("shop", "web"),
        judged: mk_judged(),
        propagation,
        grace_secs,
    };
    let base = json!({
        "kind": "DeleteOptions", "apiVersion": "v1",
        "preconditions": {"uid": "u-1", "resourceVersion": "42"},
    });
    let (method, content_type, body) = sent(&mk_delete(None, None)).await;
    assert_eq!(
        (method, &*content_type),
        (Method::DELETE, "application/json")
    );
    assert_eq!(body, base);
    let (_, _, body) = sent(&mk_delete(Some(DeletePropagation::Foreground), Some(0))).await;
    assert_eq!(body["propagationPolicy"], "Foreground");
    assert_eq!(body["gracePeriodSeconds"], 0);
    assert_eq!(body["preconditions"], base["preconditions"]);
}

#[tokio::test]
async fn a_patch_always_has_the_judged_uid_and_version() {
    let table = [
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"uid": "forged", "resourceVersion": null}}),
        json!({}),
    ];
    for patch in table {
        let call = ApiCall::Patch {
            target: mk_target("shop", "web"),
            judged: mk_judged(),
            subresource: None,
            form: PatchForm::Merge,
            patch: patch.clone(),
        };
        let (method, content_type, body) = sent(&call).await;
        assert_eq!(method, Method::PATCH);
        assert_eq!(content_type, "application/merge-patch+json");
        assert_eq!(body["metadata"]["uid"], "u-1", "{patch}");
        assert_eq!(body["metadata"]["resourceVersion"], "42", "{patch}");
    }
}

#[test]
fn a_malformed_patch_is_refused_and_not_emptied() {
    for patch in [json!({"metadata": 7}), json!(null), json!([1])] {
        let call = ApiCall::Patch {
            target: mk_target("shop", "web"),
            judged: mk_judged(),
            subresource: None,
            form: PatchForm::Merge,
            patch: patch.clone(),
        };
        let request = request(
            &call,
            &mk_deployments(KindScope::Namespaced),
            RecordView::Full,
        );
        assert!(matches!(request, Err(InvalidCall::BadPatch(bad)) if bad == patch));
    }
}

#[test]
fn a_call_uses_the_path_of_its_object() {
    let mk_create = |subresource| ApiCall::Create {
        target: mk_target("shop", "web"),
        subresource,
        object: json!({}),
    };
    let status = ApiCall::Patch {
        target: mk_target("shop", "web"),
        judged: mk_judged(),
        subresource: Some("status"),
        form: PatchForm::Merge,
        patch: json!({}),
    };
    let collection = mk_deployments(KindScope::Namespaced).path("shop", "");
    let table = [
        (mk_create(None), collection.clone()),
        (
            mk_create(Some("binding")),
            format!("{collection}/web/binding"),
        ),
        (status, format!("{collection}/web/status")),
    ];
    for (call, path) in table {
        let request = request(
            &call,
            &mk_deployments(KindScope::Namespaced),
            RecordView::Full,
        )
        .unwrap();
        assert_eq!(request.uri().path(), path, "{call:?}");
        assert_eq!(request.headers()[header::ACCEPT], ACCEPT_FULL);
    }
    let nameless = ApiCall::Create {
        target: mk_target("shop", ""),
        subresource: None,
        object: json!({}),
    };
    assert!(
        request(
            &nameless,
            &mk_deployments(KindScope::Namespaced),
            RecordView::Full
        )
        .is_err()
    );
}
