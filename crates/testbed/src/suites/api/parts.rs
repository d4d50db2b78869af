//! Parts of objects that have a subresource of their own: ephemeral containers and resources of Pods, and the approval
//! of CertificateSigningRequests.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

pub(super) const CASES: &[TestCase] = &[
    api_case!(ephemeral_containers_are_added_by_their_subresource_only),
    api_case!(ephemeral_containers_are_not_changed_or_removed),
    api_case!(ephemeral_containers_that_are_invalid_are_422),
    api_case!(ephemeral_containers_are_all_that_is_written),
    api_case!(ephemeral_containers_of_other_methods_and_names),
    api_case!(resize_changes_cpu_and_memory),
    api_case!(resize_keeps_the_class_and_what_is_set),
    api_case!(resize_changes_no_other_part),
    api_case!(resize_of_containers_that_differ_is_422),
    api_case!(resize_of_a_running_pod_needs_a_kubelet_that_does_it),
    api_case!(signing_requests_name_their_author),
    api_case!(signing_requests_that_are_invalid_are_422),
    api_case!(signing_requests_are_approved_or_denied),
    api_case!(signing_requests_keep_their_approval),
    api_case!(signing_requests_get_their_certificate_by_status),
    api_case!(approval_conditions_that_are_invalid_are_422),
];

/// A request for a certificate, as PEM in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0eERqQU1CZ05WQkFNTUJXRnNhV05sTVF3d0NnWURWUVFLREFOa1pYWXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVRLUGdqN1Q0b3RRcHJhVXMveGJXU0prWS9sN01LaW9Fc0hQa3pQCno4YkVuMUJhUXZGTUtOTnpLbm5ZOEJQbDhVSEdKWUVTeUZuL0xhUWc0L0FFVGpQdW9BQXdDZ1lJS29aSXpqMEUKQXdJRFNBQXdSUUloQVBkQ2Y4VXRlUWNFSXVmQ01FS1pHMktsYzl6NUtibzlPWHlxN2U3RW9yZHNBaUEwYjIvdwpnU2hPQWNGdmZNMkgwK0EwNFU2OWg4MGc4NWRoQmVNaEJ3Q3JzUT09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
/// A certificate, as PEM in base64.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJiekNDQVJXZ0F3SUJBZ0lVR2ZJZXpFa2ZRRHgzME13UWRKY0J3Qnpkakh3d0NnWUlLb1pJemowRUF3SXcKRERFS01BZ0dBMVVFQXd3QllUQWdGdzB5TmpFeE1UZ3dNakF6TWpSYUdBOHlNVEkyTVRBeU5UQXlNRE15TkZvdwpEREVLTUFnR0ExVUVBd3dCWVRCWk1CTUdCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQkE5SFpCRlRCajNDCklEVzBZVkY4QVBvY2lJWDJXb0MyWFRUc2dIcXN6MHFSMTBRSVBMTGJrMjBDUi9nbklNVU0zWHNEWUN1MWtUVlYKeXdhTmN0ZkJlVFdqVXpCUk1CMEdBMVVkRGdRV0JCU3hvV3ZGbXJLYWVkWEJIRzVTZi9vY09heGUyREFmQmdOVgpIU01FR0RBV2dCU3hvV3ZGbXJLYWVkWEJIRzVTZi9vY09heGUyREFQQmdOVkhSTUJBZjhFQlRBREFRSC9NQW9HCkNDcUdTTTQ5QkFNQ0EwZ0FNRVVDSVFEQ25EMkd3YVNvRVRoOTJobjh5VCtIcXNSREpGZEVnL1VRVkVUbWpMaFIKdndJZ09pZlZyV0plcWt2cnZ6dUF4VDBBamkzTS9LRmdXNlMzcWd3ano2YWpMeW89Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

fn mk_ephemeral(name: &str) -> Value {
    json!({"name": name, "image": "busybox"})
}

fn ephemeral(containers: &[Value]) -> Value {
    json!({"spec": {"ephemeralContainers": containers}})
}

async fn ephemeral_containers_are_added_by_their_subresource_only(s: &mut Session) {
    let with_one = with(mk_pod("a"), ephemeral(&[mk_ephemeral("d")]));
    s.note("at creation").post(&PODS, with_one).await;
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("a"))).await;
    let one = with(
        mk_ephemeral("d"),
        json!({"targetContainerName": "c", "stdin": true, "tty": true}),
    );
    let answered = Ask::with_body(
        Method::PATCH,
        s.item(&PODS, "a"),
        "application/strategic-merge-patch+json",
        ephemeral(std::slice::from_ref(&one)).to_string(),
    );
    // The message ends with a difference of two Go structs.
    let refused = |body: &Value| {
        json!([
            body["code"],
            body["reason"],
            body["details"]["causes"][0]["field"]
        ])
    };
    s.ask(answered.viewed(refused)).await;
    s.strategic_patch(&PODS, "a/ephemeralcontainers", ephemeral(&[one]))
        .await;
    s.strategic_patch(
        &PODS,
        "a/ephemeralcontainers",
        ephemeral(&[mk_ephemeral("e")]),
    )
    .await;
    s.get(&PODS, "a/ephemeralcontainers").await;
}

async fn ephemeral_containers_are_not_changed_or_removed(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("a"))).await;
    s.strategic_patch(
        &PODS,
        "a/ephemeralcontainers",
        ephemeral(&[mk_ephemeral("d")]),
    )
    .await;
    let changed = with(mk_ephemeral("d"), json!({"image": "other"}));
    s.strategic_patch(&PODS, "a/ephemeralcontainers", ephemeral(&[changed]))
        .await;
    s.merge_patch(&PODS, "a/ephemeralcontainers", ephemeral(&[]))
        .await;
    s.merge_patch(
        &PODS,
        "a/ephemeralcontainers",
        ephemeral(&[mk_ephemeral("e")]),
    )
    .await;
}

async fn ephemeral_containers_that_are_invalid_are_422(s: &mut Session) {
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("a"))).await;
    let probe = json!({"exec": {"command": ["a"]}});
    for (note, changes) in [
        ("the name of another", json!({"name": "c"})),
        ("no name", json!({"name": ""})),
        ("a bad name", json!({"name": "Bad Name"})),
        ("no image", json!({"image": null})),
        ("an unknown target", json!({"targetContainerName": "x"})),
        (
            "fields of other containers",
            json!({"ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}, "livenessProbe": probe,
                "readinessProbe": probe, "startupProbe": probe, "lifecycle": {"preStop": probe}}),
        ),
        ("a restart policy", json!({"restartPolicy": "Always"})),
        (
            "a volume",
            json!({"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "y"}]}),
        ),
    ] {
        let container = with(mk_ephemeral("d"), changes);
        s.note(note)
            .merge_patch(&PODS, "a/ephemeralcontainers", ephemeral(&[container]))
            .await;
    }
}

async fn ephemeral_containers_are_all_that_is_written(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("a"))).await;
    let more = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["example.com/a"]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "other"}],
            "ephemeralContainers": [mk_ephemeral("d")]}, "status": {"phase": "Failed"}});
    s.strategic_patch(&PODS, "a/ephemeralcontainers", more)
        .await;
    let dry = "a/ephemeralcontainers?dryRun=All";
    s.strategic_patch(&PODS, dry, ephemeral(&[mk_ephemeral("e")]))
        .await;
    let old = s.get(&PODS, "a").await.body;
    let mut new = old.clone();
    let list = new["spec"]["ephemeralContainers"].as_array_mut();
    list.into_iter()
        .for_each(|list| list.push(mk_ephemeral("f")));
    s.put(&PODS, "a/ephemeralcontainers", new.clone()).await;
    s.note("stale")
        .put(&PODS, "a/ephemeralcontainers", new)
        .await;
}

async fn ephemeral_containers_of_other_methods_and_names(s: &mut Session) {
    s.get(&PODS, "a/ephemeralcontainers").await;
    s.put(&PODS, "a/ephemeralcontainers", mk_pod("a")).await;
    s.merge_patch(&PODS, "a/ephemeralcontainers", json!({}))
        .await;
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("a"))).await;
    let older =
        json!({"apiVersion": "v1", "kind": "EphemeralContainers", "metadata": {"name": "a"}});
    s.put(&PODS, "a/ephemeralcontainers", older).await;
    let path = s.item(&PODS, "a/ephemeralcontainers");
    s.ask(Ask::post(&path, &mk_pod("a"))).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
}

fn mk_sized(name: &str, resources: &Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": resources});
    with(
        mk_object("v1", "Pod", name),
        json!({"spec": {"containers": [container], "initContainers": [{"name": "i", "image": "i"}]}}),
    )
}

fn mk_full() -> Value {
    json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}})
}

fn resources(resources: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
}

async fn resize_changes_cpu_and_memory(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_sized("a", &mk_full())))
        .await;
    s.get(&PODS, "a/resize").await;
    for change in [
        resources(&json!({"requests": {"cpu": "150m"}})),
        resources(&json!({"requests": {"memory": "128Mi"}, "limits": {"memory": "128Mi"}})),
        json!({"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]}}),
    ] {
        s.strategic_patch(&PODS, "a/resize", change).await;
    }
    s.strategic_patch(
        &PODS,
        "a/resize?dryRun=All",
        resources(&json!({"requests": {"cpu": "1m"}})),
    )
    .await;
    s.get(&PODS, "b/resize").await;
    s.strategic_patch(&PODS, "b/resize", json!({})).await;
}

async fn resize_keeps_the_class_and_what_is_set(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_sized("a", &mk_full())))
        .await;
    s.quietly(Ask::post(s.path(&PODS), &mk_pod("b"))).await;
    for change in [
        json!({"requests": {"cpu": "250m"}}),
        json!({"requests": {"cpu": "-1"}}),
        json!({"limits": {"memory": null}}),
        json!({"requests": {"ephemeral-storage": "1Gi"}}),
    ] {
        s.strategic_patch(&PODS, "a/resize", resources(&change))
            .await;
    }
    let some = resources(&json!({"requests": {"cpu": "1"}}));
    s.strategic_patch(&PODS, "b/resize", some).await;
}

async fn resize_changes_no_other_part(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_sized("a", &mk_full())))
        .await;
    let more = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"nodeName": "n", "containers": [
        {"name": "c", "image": "other", "resources": {"requests": {"cpu": "150m"}}}]}, "status": {"phase": "Failed"}});
    s.strategic_patch(&PODS, "a/resize", more).await;
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let policy = json!({"spec": {"containers": [{"name": "c", "resizePolicy": policy}]}});
    s.strategic_patch(&PODS, "a/resize", policy).await;
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    s.strategic_patch(&PODS, "a/resize", stale).await;
}

async fn resize_of_containers_that_differ_is_422(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_sized("a", &mk_full())))
        .await;
    let added = json!({"spec": {"containers": [{"name": "d", "image": "i"}]}});
    s.strategic_patch(&PODS, "a/resize", added.clone()).await;
    s.merge_patch(&PODS, "a/resize", added).await;
    s.merge_patch(&PODS, "a/resize", json!({"spec": {"initContainers": null}}))
        .await;
}

async fn resize_of_a_running_pod_needs_a_kubelet_that_does_it(s: &mut Session) {
    s.hide_defaults();
    s.quietly(Ask::post(s.path(&PODS), &mk_sized("a", &mk_full())))
        .await;
    let change = resources(&json!({"requests": {"cpu": "150m"}}));
    for more in [json!({}), json!({"resources": mk_full()})] {
        let running = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
        let status =
            json!({"status": {"phase": "Running", "containerStatuses": [with(running, more)]}});
        let path = s.item(&PODS, "a/status");
        s.quietly(Ask::merge_patch(path, &status)).await;
        s.strategic_patch(&PODS, "a/resize", change.clone()).await;
    }
}

fn mk_signing_request(name: &str) -> Value {
    with(
        mk_object("certificates.k8s.io/v1", "CertificateSigningRequest", name),
        json!({"spec": {"request": REQUEST, "signerName": "example.com/s", "usages": ["client auth"]}}),
    )
}

fn mk_condition(of: &str) -> Value {
    json!({"type": of, "status": "True", "reason": "R", "message": "m"})
}

fn conditions(list: &[Value]) -> Value {
    json!({"status": {"conditions": list}})
}

/// A request without what depends on its author.
fn anonymous(body: &Value) -> Value {
    with(
        body.clone(),
        json!({"spec": {"username": null, "groups": null, "uid": null, "extra": null, "request": null}}),
    )
}

async fn patch_request(s: &mut Session, name: &str, patch: Value) {
    let path = s.item(&SIGNING_REQUESTS, name);
    s.ask(Ask::merge_patch(path, &patch).viewed(anonymous))
        .await;
}

/// Creates a request, whose name is that of the namespace, because requests have none.
async fn set_request(s: &mut Session) -> String {
    let name = s.ns().to_owned();
    s.quietly(Ask::post(
        SIGNING_REQUESTS.everywhere(),
        &mk_signing_request(&name),
    ))
    .await;
    name
}

async fn signing_requests_name_their_author(s: &mut Session) {
    let name = s.ns().to_owned();
    let forged = json!({"spec": {"username": "mallory", "groups": ["x"]},
        "status": {"conditions": [mk_condition("Approved")]}});
    let object = with(mk_signing_request(&name), forged);
    let named = |body: &Value| {
        let spec = &body["spec"];
        let is_forged = spec["username"] == "mallory" || spec["groups"][0] == "x";
        let is_named = spec["username"]
            .as_str()
            .is_some_and(|name| !name.is_empty());
        json!([
            is_forged,
            is_named,
            spec["groups"].is_array(),
            body["status"]
        ])
    };
    s.ask(Ask::post(SIGNING_REQUESTS.everywhere(), &object).viewed(named))
        .await;
    let change = json!({"spec": {"signerName": "example.com/other"}, "status": {"conditions": [mk_condition("Approved")]}});
    patch_request(s, &name, change).await;
}

async fn signing_requests_that_are_invalid_are_422(s: &mut Session) {
    let name = s.ns().to_owned();
    for spec in [
        json!({"request": "aGk="}),
        json!({"signerName": ""}),
        json!({"signerName": "x"}),
        json!({"signerName": "kubernetes.io/legacy-unknown"}),
        json!({"usages": []}),
        json!({"usages": ["x"]}),
        json!({"usages": ["any", "any"]}),
        json!({"expirationSeconds": 5}),
    ] {
        let object = with(mk_signing_request(&name), json!({ "spec": spec }));
        s.ask(Ask::post(SIGNING_REQUESTS.everywhere(), &object))
            .await;
    }
}

async fn signing_requests_are_approved_or_denied(s: &mut Session) {
    let name = set_request(s).await;
    let approval = format!("{name}/approval");
    s.ask(Ask::get(s.item(&SIGNING_REQUESTS, &approval)).viewed(anonymous))
        .await;
    s.note("by another way");
    patch_request(
        s,
        &format!("{name}/status"),
        conditions(&[mk_condition("Approved")]),
    )
    .await;
    let dry = format!("{approval}?dryRun=All");
    patch_request(s, &dry, conditions(&[mk_condition("Denied")])).await;
    let more = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"signerName": "example.com/x"},
        "status": {"certificate": CERTIFICATE}});
    let other = with(mk_condition("Other"), json!({"status": "Unknown"}));
    let approved = conditions(&[mk_condition("Approved"), other]);
    patch_request(s, &approval, with(approved, more)).await;
    s.ask(Ask::get(s.item(&SIGNING_REQUESTS, "missing/approval")))
        .await;
    let path = s.item(&SIGNING_REQUESTS, &approval);
    s.ask(Ask::post(&path, &mk_signing_request(&name))).await;
    s.ask(Ask::new(Method::DELETE, &path)).await;
}

async fn signing_requests_keep_their_approval(s: &mut Session) {
    let name = set_request(s).await;
    let (approval, status) = (format!("{name}/approval"), format!("{name}/status"));
    patch_request(s, &approval, conditions(&[mk_condition("Approved")])).await;
    let renamed = with(mk_condition("Approved"), json!({"reason": "other"}));
    for (note, part, list) in [
        ("removed", &approval, vec![]),
        ("exchanged", &approval, vec![mk_condition("Denied")]),
        ("changed", &approval, vec![renamed]),
        ("not changed", &status, vec![mk_condition("Approved")]),
        (
            "failed",
            &status,
            vec![mk_condition("Approved"), mk_condition("Failed")],
        ),
        (
            "not failed after all",
            &status,
            vec![mk_condition("Approved")],
        ),
    ] {
        s.note(note);
        patch_request(s, part, conditions(&list)).await;
    }
}

async fn signing_requests_get_their_certificate_by_status(s: &mut Session) {
    let name = set_request(s).await;
    let status = format!("{name}/status");
    for (note, certificate) in [
        ("none", "eA=="),
        ("", CERTIFICATE),
        ("the same", CERTIFICATE),
        ("another", REQUEST),
    ] {
        s.note(note);
        patch_request(s, &status, json!({"status": {"certificate": certificate}})).await;
    }
    s.note("taken away");
    patch_request(s, &status, json!({"status": {"certificate": null}})).await;
    patch_request(
        s,
        &format!("{name}/approval"),
        json!({"status": {"certificate": null}}),
    )
    .await;
}

async fn approval_conditions_that_are_invalid_are_422(s: &mut Session) {
    let name = set_request(s).await;
    let approval = format!("{name}/approval");
    let with_status = |of: &str, status: &str| with(mk_condition(of), json!({ "status": status }));
    for list in [
        vec![with_status("Approved", "False")],
        vec![with_status("Approved", "")],
        vec![with_status("Other", "Maybe")],
        vec![mk_condition("")],
        vec![mk_condition("Approved"), mk_condition("Denied")],
        vec![mk_condition("Approved"), mk_condition("Approved")],
    ] {
        patch_request(s, &approval, conditions(&list)).await;
    }
}
