//! Questions about access. The embedded server enforces no RBAC, so questions about what is allowed are asked for users
//! who may do everything on any server, and for anonymous ones.

use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

const ROOT: &str = "/apis/authorization.k8s.io/v1";

pub(super) const CASES: &[TestCase] = &[
    api_case!(a_self_review_answers_for_the_caller),
    api_case!(an_access_review_answers_for_its_user),
    api_case!(an_access_review_needs_attributes_and_a_user),
    api_case!(an_access_review_has_no_metadata),
    api_case!(selectors_of_a_review_are_checked),
    api_case!(selectors_that_are_not_understood_are_ignored),
    api_case!(a_local_review_is_about_its_namespace),
    api_case!(a_rules_review_needs_a_namespace),
    api_case!(reviews_can_only_be_created),
];

fn of(resource: &str) -> String {
    format!("{ROOT}/{resource}")
}

fn mk_attributes(s: &Session) -> Value {
    json!({"namespace": s.ns(), "verb": "list", "group": "apps", "resource": "deployments"})
}

async fn ask(s: &mut Session, resource: &str, body: Value) {
    s.ask(Ask::post(of(resource), &body)).await;
}

async fn a_self_review_answers_for_the_caller(s: &mut Session) {
    let resource = mk_attributes(s);
    let path = json!({"path": "/metrics", "verb": "get"});
    for spec in [
        json!({"resourceAttributes": resource}),
        json!({"nonResourceAttributes": path}),
        json!({"resourceAttributes": {}}),
        json!({}),
        json!({"resourceAttributes": resource, "nonResourceAttributes": path}),
        json!({"resourceAttributes": []}),
    ] {
        ask(s, "selfsubjectaccessreviews", json!({ "spec": spec })).await;
    }
    let body = json!({"spec": {"nonResourceAttributes": path}, "status": {"allowed": false, "denied": true}});
    ask(s, "selfsubjectaccessreviews", body).await;
}

async fn an_access_review_answers_for_its_user(s: &mut Session) {
    let resource = mk_attributes(s);
    let anonymous = json!({"user": "system:anonymous", "groups": ["system:unauthenticated"]});
    for spec in [
        json!({"user": "a", "groups": ["system:masters"], "uid": "u", "extra": {"a": ["b"]}, "resourceAttributes": resource}),
        json!({"groups": ["system:masters"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
        with(anonymous.clone(), json!({"resourceAttributes": resource})),
        with(
            anonymous.clone(),
            json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
        ),
        with(
            anonymous.clone(),
            json!({"nonResourceAttributes": {"path": "/healthz", "verb": "post"}}),
        ),
        with(
            anonymous,
            json!({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}),
        ),
        json!({"user": "alice", "resourceAttributes": resource}),
    ] {
        ask(s, "subjectaccessreviews", json!({ "spec": spec })).await;
    }
}

async fn an_access_review_needs_attributes_and_a_user(s: &mut Session) {
    let resource = mk_attributes(s);
    let path = json!({"path": "/x"});
    for spec in [
        json!({}),
        json!({"resourceAttributes": resource}),
        json!({"user": "", "groups": [], "resourceAttributes": resource}),
        json!({"user": "a"}),
        json!({"user": "a", "resourceAttributes": resource, "nonResourceAttributes": path}),
        json!({"user": 5}),
        json!({"user": "a", "extra": {"a": "b"}}),
    ] {
        ask(s, "subjectaccessreviews", json!({ "spec": spec })).await;
    }
    s.ask(Ask::post(of("subjectaccessreviews"), &Value::Null))
        .await;
    ask(s, "subjectaccessreviews", mk_config_map("a")).await;
}

async fn an_access_review_has_no_metadata(s: &mut Session) {
    let spec = json!({"resourceAttributes": mk_attributes(s)});
    for metadata in [
        json!({"namespace": "x"}),
        json!({"creationTimestamp": "2001-01-01T00:00:00Z", "uid": "u"}),
        json!({"name": "x"}),
        json!({"labels": {"a": "b"}}),
    ] {
        let body = json!({"metadata": metadata, "spec": spec});
        ask(s, "selfsubjectaccessreviews", body).await;
    }
}

async fn ask_with_selectors(s: &mut Session, selectors: Value) {
    let attributes = with(mk_attributes(s), selectors);
    let body = json!({"spec": {"resourceAttributes": attributes}});
    ask(s, "selfsubjectaccessreviews", body).await;
}

async fn selectors_of_a_review_are_checked(s: &mut Session) {
    let raw_and_more = json!({"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "In", "values": ["b"]}]});
    for selectors in [
        json!({"labelSelector": {}, "fieldSelector": {}}),
        json!({"labelSelector": raw_and_more, "fieldSelector": raw_and_more}),
        json!({"labelSelector": {"requirements": [{"key": "", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a b", "operator": "In", "values": ["x y"]}]}}),
        json!({"fieldSelector": {"requirements": [{"key": "", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a b", "operator": "NotIn", "values": ["x y"]}]}}),
        json!({"fieldSelector": {"requirements": [5]}}),
    ] {
        ask_with_selectors(s, selectors).await;
    }
}

async fn selectors_that_are_not_understood_are_ignored(s: &mut Session) {
    for selectors in [
        json!({"labelSelector": {"rawSelector": "a=b"}, "fieldSelector": {"rawSelector": "a=b"}}),
        json!({"labelSelector": {"rawSelector": "a in ("}, "fieldSelector": {"rawSelector": "a"}}),
        json!({"labelSelector": {"requirements": [{"key": "a", "operator": "Huh"}]}}),
        json!({"labelSelector": {"requirements": [{"key": "a", "operator": "Huh"}, {"key": "a", "operator": "Exists"}]}}),
        json!({"fieldSelector": {"requirements": [{"key": "a", "operator": "Exists"}]}}),
        json!({"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["x", "y"]},
            {"key": "a", "operator": "In", "values": ["x"]}]}}),
    ] {
        ask_with_selectors(s, selectors).await;
    }
}

async fn a_local_review_is_about_its_namespace(s: &mut Session) {
    let path = format!("{ROOT}/namespaces/{}/localsubjectaccessreviews", s.ns());
    let attributes = mk_attributes(s);
    let spec = json!({"groups": ["system:masters"], "resourceAttributes": attributes});
    for body in [
        json!({ "spec": spec }),
        json!({"metadata": {"namespace": s.ns()}, "spec": spec}),
        json!({"metadata": {"namespace": "other"}, "spec": spec}),
        json!({"metadata": {"name": "x"}, "spec": spec}),
        json!({"spec": with(spec.clone(), json!({"resourceAttributes": {"namespace": "other"}}))}),
        json!({"spec": {"groups": ["a"], "resourceAttributes": {"verb": "get"}}}),
        json!({"spec": {"groups": ["a"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}}),
        json!({}),
    ] {
        s.ask(Ask::post(&path, &body)).await;
    }
    s.note("the namespace need not exist");
    let path = format!("{ROOT}/namespaces/missing/localsubjectaccessreviews");
    let spec = with(
        spec,
        json!({"resourceAttributes": {"namespace": "missing"}}),
    );
    s.ask(Ask::post(path, &json!({ "spec": spec }))).await;
    ask(s, "localsubjectaccessreviews", json!({})).await;
}

async fn a_rules_review_needs_a_namespace(s: &mut Session) {
    let view = |body: &Value| {
        let mut shown = body.clone();
        // The order of upstream's rules is that of a hash table.
        for list in ["/status/resourceRules", "/status/nonResourceRules"] {
            if let Some(Value::Array(rules)) = shown.pointer_mut(list) {
                rules.sort_by_key(Value::to_string);
            }
        }
        shown
    };
    for body in [
        json!({"spec": {"namespace": s.ns()}}),
        json!({"metadata": {"name": "x"}, "spec": {"namespace": "Not A Name"}}),
        json!({"spec": {"namespace": ""}}),
        json!({}),
    ] {
        s.ask(Ask::post(of("selfsubjectrulesreviews"), &body).viewed(view))
            .await;
    }
}

async fn reviews_can_only_be_created(s: &mut Session) {
    for resource in [
        "selfsubjectaccessreviews",
        "subjectaccessreviews",
        "selfsubjectrulesreviews",
    ] {
        s.get_path(of(resource)).await;
        s.get_path(of(&format!("{resource}/a"))).await;
    }
    let body = json!({"spec": {"resourceAttributes": {"verb": "get"}}});
    let review = |query: &str| Ask::post(of(&format!("selfsubjectaccessreviews?{query}")), &body);
    s.ask(review("dryRun=All")).await;
    s.ask(review("dryRun=x")).await;
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    s.ask(review("").accept(partial)).await;
    let body = json!({"spec": {"resourceAttributes": {"verb": "get"}, "nope": 1}});
    s.ask(Ask::post(of("selfsubjectaccessreviews"), &body))
        .await;
    s.ask(Ask::post(
        of("selfsubjectaccessreviews?fieldValidation=Strict"),
        &body,
    ))
    .await;
}
