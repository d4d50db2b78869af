//! Tokens of ServiceAccounts: how they are asked for, what they contain, and when they are accepted.
//!
//! A real server remembers for ten seconds that a token was accepted, so a token whose end is observed was not used before.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::identity::WHO_AM_I;
use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Answer, Ask, Session};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// How often a server may accept a token after the deletion that ends it.
const REFUSAL_PROBES: usize = 30;

pub(super) const CASES: &[TestCase] = &[
    api_case!(a_token_request_has_defaults),
    api_case!(a_token_lives_ten_minutes_to_136_years),
    api_case!(a_token_request_names_its_service_account),
    api_case!(a_token_request_of_another_kind_is_refused),
    api_case!(a_token_is_bound_to_a_secret_a_pod_or_a_node),
    api_case!(a_token_is_bound_to_no_other_object),
    api_case!(the_usual_token_of_a_pod_lives_longer),
    api_case!(a_review_recognises_tokens),
    api_case!(a_review_compares_audiences),
    api_case!(a_review_refuses_forged_tokens),
    api_case!(a_review_needs_a_token),
    api_case!(a_token_ends_with_its_service_account),
    api_case!(a_token_ends_with_its_bound_object),
    api_case!(a_token_identifies_its_caller),
];

/// Shows the claims of a token in its place, and times as seconds since the token was issued.
fn issued(body: &Value) -> Value {
    let mut shown = body.clone();
    let Some(token) = body["status"]["token"].as_str() else {
        return shown;
    };
    let part = |at: usize| {
        let part = token.split('.').nth(at).unwrap_or_default();
        let part = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        serde_json::from_slice::<Value>(&part).unwrap_or_default()
    };
    let mut claims = part(1);
    let start = claims["iat"].as_i64().unwrap_or_default();
    let since = |time: &mut Value| {
        if let Some(second) = time.as_i64() {
            *time = (second - start).into();
        }
    };
    for name in ["exp", "nbf", "iat"] {
        since(&mut claims[name]);
    }
    if let Some(warn) = claims["kubernetes.io"].get_mut("warnafter") {
        since(warn);
    }
    let time = |value: &Value| value.as_str().unwrap_or_default().parse::<Timestamp>().ok();
    let created = time(&body["metadata"]["creationTimestamp"]);
    let end = time(&body["status"]["expirationTimestamp"]);
    let lifetime = created
        .zip(end)
        .map(|(from, to)| to.as_second() - from.as_second());
    shown["status"] = json!({"algorithm": part(0)["alg"], "claims": claims, "lifetime": lifetime});
    shown
}

/// Hides the token of a review.
fn reviewed(body: &Value) -> Value {
    let mut shown = body.clone();
    if let Some(spec) = shown["spec"].as_object_mut() {
        spec.remove("token");
    }
    shown
}

async fn mk_account(s: &mut Session, name: &str) {
    let path = s.path(&SERVICE_ACCOUNTS);
    let account = mk_object("v1", "ServiceAccount", name);
    s.quietly(Ask::post(path, &account)).await;
}

async fn make(s: &Session, resource: &Resource, object: Value) {
    s.quietly(Ask::post(s.path(resource), &object)).await;
}

fn mk_account_pod(name: &str, account: &str) -> Value {
    with(
        mk_pod(name),
        json!({"spec": {"serviceAccountName": account}}),
    )
}

/// Asks for a token of `a` and shows the answer.
async fn request(s: &mut Session, body: Value) {
    let path = s.item(&SERVICE_ACCOUNTS, "a/token");
    s.ask(Ask::post(path, &body).viewed(issued)).await;
}

/// Returns a token of `a` without showing it.
async fn token(s: &Session, spec: Value) -> String {
    let path = s.item(&SERVICE_ACCOUNTS, "a/token");
    let answer = s.quietly(Ask::post(path, &json!({ "spec": spec }))).await;
    let token = answer.body["status"]["token"].as_str();
    token.unwrap_or_default().to_owned()
}

async fn review(s: &mut Session, token: &str, audiences: &[&str]) {
    let mut spec = json!({ "token": token });
    if !audiences.is_empty() {
        spec["audiences"] = audiences.into();
    }
    let ask = Ask::post(REVIEWS, &json!({ "spec": spec }));
    s.ask(ask.viewed(reviewed)).await;
}

fn bound_to(kind: &str, name: &str) -> Value {
    json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}})
}

async fn a_token_request_has_defaults(s: &mut Session) {
    mk_account(s, "a").await;
    for body in [
        json!({}),
        Value::Null,
        json!({"spec": {"audiences": []}}),
        json!({"spec": {"audiences": ["x", "y", "x"]}}),
        json!({"spec": {"audiences": [""]}}),
        json!({"spec": {"expirationSeconds": null}}),
        json!({"status": {"token": "z"}}),
        json!({"metadata": {"labels": {"a": "b"}, "creationTimestamp": "2001-01-01T00:00:00Z"}}),
    ] {
        request(s, body).await;
    }
    let path = s.item(&SERVICE_ACCOUNTS, "a/token?dryRun=All");
    s.ask(Ask::post(path, &json!({})).viewed(issued)).await;
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let path = s.item(&SERVICE_ACCOUNTS, "a/token");
    s.ask(Ask::post(path, &json!({})).accept(partial)).await;
}

async fn a_token_lives_ten_minutes_to_136_years(s: &mut Session) {
    mk_account(s, "a").await;
    for secs in [
        json!(0),
        json!(-1),
        json!(599),
        json!(600),
        json!(4_294_967_296_i64),
        json!(4_294_967_297_i64),
        json!(i64::MAX),
        json!("600"),
        json!(600.5),
    ] {
        request(s, json!({"spec": {"expirationSeconds": secs}})).await;
    }
}

async fn a_token_request_names_its_service_account(s: &mut Session) {
    mk_account(s, "a").await;
    let zeros = "00000000-0000-0000-0000-000000000001";
    for metadata in [
        json!({"name": "a"}),
        json!({"name": "b"}),
        json!({"namespace": s.ns()}),
        json!({"namespace": "other"}),
        json!({"uid": zeros}),
    ] {
        request(s, json!({ "metadata": metadata })).await;
    }
    let path = s.item(&SERVICE_ACCOUNTS, "missing/token");
    s.ask(Ask::post(path, &json!({}))).await;
    let path = format!("{}/a/token", SERVICE_ACCOUNTS.collection("missing"));
    s.ask(Ask::post(path, &json!({}))).await;
    let path = s.item(&SERVICE_ACCOUNTS, "a/token");
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        s.ask(Ask::new(method, &path)).await;
    }
}

async fn a_token_request_of_another_kind_is_refused(s: &mut Session) {
    mk_account(s, "a").await;
    for body in [
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
        json!({"apiVersion": "v1", "kind": "TokenRequest"}),
        json!({"spec": {"audiences": "x"}}),
        json!({"spec": {"boundObjectRef": []}}),
    ] {
        request(s, body).await;
    }
    let path = s.item(&SERVICE_ACCOUNTS, "a/token?fieldValidation=Strict");
    s.ask(Ask::post(path, &json!({"nope": 1}))).await;
    let path = s.item(&SERVICE_ACCOUNTS, "a/token?dryRun=x");
    s.ask(Ask::post(path, &json!({}))).await;
}

async fn a_token_is_bound_to_a_secret_a_pod_or_a_node(s: &mut Session) {
    mk_account(s, "a").await;
    let node = format!("{}-n", s.ns());
    make(s, &SECRETS, mk_object("v1", "Secret", "s")).await;
    make(s, &NODES, mk_object("v1", "Node", &node)).await;
    make(s, &PODS, mk_account_pod("p", "a")).await;
    for (name, node) in [("on-node", node.as_str()), ("on-missing", "missing")] {
        let pod = with(
            mk_account_pod(name, "a"),
            json!({"spec": {"nodeName": node}}),
        );
        make(s, &PODS, pod).await;
    }
    for (kind, name) in [
        ("Secret", "s"),
        ("Pod", "p"),
        ("Pod", "on-node"),
        ("Pod", "on-missing"),
        ("Node", node.as_str()),
    ] {
        request(s, json!({"spec": bound_to(kind, name)})).await;
    }
    s.note("the version does not count");
    for version in ["v9", "", "a/b/c"] {
        let reference = json!({"apiVersion": version, "kind": "Secret", "name": "s"});
        request(s, json!({"spec": {"boundObjectRef": reference}})).await;
    }
}

async fn a_token_is_bound_to_no_other_object(s: &mut Session) {
    mk_account(s, "a").await;
    make(s, &SECRETS, mk_object("v1", "Secret", "s")).await;
    make(s, &PODS, mk_account_pod("p", "b")).await;
    for (kind, name) in [
        ("Secret", "missing"),
        ("Pod", "missing"),
        ("Node", "missing"),
        ("Pod", ""),
        ("Pod", "p"),
        ("ConfigMap", "s"),
    ] {
        request(s, json!({"spec": bound_to(kind, name)})).await;
    }
    for reference in [
        json!({}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}),
        json!({"apiVersion": "apps/v1", "kind": "Pod", "name": "p"}),
        json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "00000000-0000-0000-0000-000000000001"}),
    ] {
        request(s, json!({"spec": {"boundObjectRef": reference}})).await;
    }
}

async fn the_usual_token_of_a_pod_lives_longer(s: &mut Session) {
    mk_account(s, "a").await;
    make(s, &PODS, mk_account_pod("p", "a")).await;
    let own = "https://kubernetes.default.svc";
    for audiences in [json!([]), json!([own]), json!([own, "x"])] {
        let spec = with(
            bound_to("Pod", "p"),
            json!({"expirationSeconds": 3607, "audiences": audiences}),
        );
        request(s, json!({ "spec": spec })).await;
    }
    request(s, json!({"spec": {"expirationSeconds": 3607}})).await;
}

async fn a_review_recognises_tokens(s: &mut Session) {
    mk_account(s, "a").await;
    let node = format!("{}-n", s.ns());
    make(s, &SECRETS, mk_object("v1", "Secret", "s")).await;
    make(s, &NODES, mk_object("v1", "Node", &node)).await;
    let pod = with(
        mk_account_pod("p", "a"),
        json!({"spec": {"nodeName": node}}),
    );
    make(s, &PODS, pod).await;
    for spec in [
        json!({}),
        bound_to("Secret", "s"),
        bound_to("Pod", "p"),
        bound_to("Node", &node),
    ] {
        let token = token(s, spec).await;
        review(s, &token, &[]).await;
    }
}

async fn a_review_compares_audiences(s: &mut Session) {
    mk_account(s, "a").await;
    let own = "https://kubernetes.default.svc";
    for (given, wanted) in [
        (vec![], vec!["x"]),
        (vec![], vec!["x", own]),
        (vec!["x", "y"], vec![]),
        (vec!["x", "y", "z"], vec!["z", "q", "x"]),
        (vec![own, "x"], vec![]),
        (vec!["say \"x\""], vec!["y"]),
    ] {
        let token = token(s, json!({ "audiences": given })).await;
        review(s, &token, &wanted).await;
    }
}

async fn a_review_refuses_forged_tokens(s: &mut Session) {
    mk_account(s, "a").await;
    let token = token(s, json!({})).await;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts.as_slice() else {
        return s.record(json!({"error": "this is no token"}));
    };
    let read = |part: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        serde_json::from_slice::<Value>(&bytes).unwrap_or_default()
    };
    let written = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let kid = read(header)["kid"].clone();
    let with_header = |value: Value| format!("{}.{payload}.{signature}", written(&value));
    let with_claim = |name: &str, value: Value| {
        let mut claims = read(payload);
        claims[name] = value;
        format!("{header}.{}.{signature}", written(&claims))
    };
    let forged = [
        format!("{}.{payload}.", written(&json!({"alg": "none"}))),
        with_header(json!({"alg": "none", "kid": kid})),
        with_header(json!({"alg": "HS256", "kid": kid})),
        with_header(json!({"alg": "ES256", "kid": "other"})),
        with_header(json!({"alg": "ES256"})),
        with_header(json!({ "kid": kid })),
        with_header(json!({"alg": "ES256", "kid": kid, "crit": ["x"]})),
        format!("AAAA.{payload}.{signature}"),
        with_claim("sub", json!("system:admin")),
        with_claim("exp", json!(i64::MAX)),
        with_claim("iss", json!("https://example.com")),
        with_claim("iss", Value::Null),
        token[..token.len() - 1].to_owned(),
        token[..token.len() - 10].to_owned(),
        format!("{header}.{payload}."),
        format!("{header}.{payload}"),
        format!("{token}.x"),
        format!("{token}="),
        format!("{token} "),
        "garbage".to_owned(),
        "..".to_owned(),
        "x".repeat(100_000),
    ];
    for token in forged {
        review(s, &token, &[]).await;
    }
    s.note("the token itself is valid");
    review(s, &token, &[]).await;
}

async fn a_review_needs_a_token(s: &mut Session) {
    for body in [
        json!({}),
        json!({"spec": {}}),
        json!({"spec": {"token": ""}}),
        json!({"spec": {"token": 5}}),
        json!({"spec": {"token": "x", "audiences": "x"}}),
        json!({"apiVersion": "v1", "kind": "Pod"}),
        json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"token": "x"},
            "status": {"authenticated": true, "error": "z"}}),
    ] {
        s.ask(Ask::post(REVIEWS, &body).viewed(reviewed)).await;
    }
    s.get_path(REVIEWS).await;
    let path = format!(
        "/apis/authentication.k8s.io/v1/namespaces/{}/tokenreviews",
        s.ns()
    );
    s.ask(Ask::post(path, &json!({"spec": {"token": "x"}})))
        .await;
}

async fn a_token_ends_with_its_service_account(s: &mut Session) {
    mk_account(s, "a").await;
    let [one, two, three] = [
        token(s, json!({})).await,
        token(s, json!({})).await,
        token(s, json!({})).await,
    ];
    review(s, &one, &[]).await;
    let probes = mk_probes(s, json!({})).await;
    s.delete(&SERVICE_ACCOUNTS, "a").await;
    wait_until_refused(s, &probes).await;
    review(s, &two, &[]).await;
    s.ask(Ask::post(WHO_AM_I, &json!({})).bearer(&two)).await;
    mk_account(s, "a").await;
    s.note("another ServiceAccount of the same name");
    review(s, &three, &[]).await;
}

async fn a_token_ends_with_its_bound_object(s: &mut Session) {
    mk_account(s, "a").await;
    let node = format!("{}-n", s.ns());
    let objects = [
        ("Secret", &SECRETS, mk_object("v1", "Secret", "s")),
        ("Pod", &PODS, mk_account_pod("s", "a")),
        ("Node", &NODES, mk_object("v1", "Node", &node)),
    ];
    for (kind, resource, object) in objects {
        make(s, resource, object.clone()).await;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let one = token(s, bound_to(kind, name)).await;
        let two = token(s, bound_to(kind, name)).await;
        let probes = mk_probes(s, bound_to(kind, name)).await;
        let path = s.item(resource, name);
        s.quietly(Ask::new(
            Method::DELETE,
            format!("{path}?gracePeriodSeconds=0"),
        ))
        .await;
        wait_until_refused(s, &probes).await;
        review(s, &one, &[]).await;
        make(s, resource, object.clone()).await;
        review(s, &two, &[]).await;
    }
}

async fn mk_probes(s: &Session, spec: Value) -> Vec<String> {
    let mut probes = Vec::new();
    for _ in 0..REFUSAL_PROBES {
        probes.push(token(s, spec.clone()).await);
    }
    probes
}

/// Waits until the server refuses a probe. The real server reads bound objects from an informer that learns of a
/// deletion a moment later, and remembers for ten seconds each token that it accepted: so each probe is used once.
async fn wait_until_refused(s: &mut Session, probes: &[String]) {
    let mut probes = probes.iter();
    let ask = || {
        let probe = probes.next().map_or("", String::as_str);
        Ask::post(REVIEWS, &json!({"spec": {"token": probe}}))
    };
    let refused = |answer: &Answer| answer.body["status"]["authenticated"] != true;
    s.until_answer("the token", ask, refused).await;
}

async fn a_token_identifies_its_caller(s: &mut Session) {
    mk_account(s, "a").await;
    make(s, &PODS, mk_account_pod("p", "a")).await;
    let who = || Ask::post(WHO_AM_I, &json!({}));
    for spec in [json!({}), bound_to("Pod", "p"), json!({"audiences": ["x"]})] {
        let token = token(s, spec).await;
        s.ask(who().bearer(&token)).await;
    }
    let valid = token(s, json!({})).await;
    s.ask(who().bearer(&valid[..valid.len() - 2])).await;
}
