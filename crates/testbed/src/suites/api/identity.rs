//! Who a caller is: credentials, anonymous callers, and users that a caller acts for.

use http::Method;
use serde_json::{Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};

/// The question of a caller who it is.
pub(super) const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

pub(super) const CASES: &[TestCase] = &[
    api_case!(anonymous_callers_may_read_health_and_version),
    api_case!(anonymous_callers_may_read_no_other_path),
    api_case!(anonymous_callers_may_read_no_resource),
    api_case!(anonymous_callers_may_write_nothing),
    api_case!(a_forged_token_is_401),
    api_case!(a_header_without_a_token_is_anonymous),
    api_case!(a_caller_may_act_for_any_user),
    api_case!(groups_follow_from_the_name_of_a_user),
    api_case!(impersonation_without_a_user_is_400),
    api_case!(an_impersonated_anonymous_user_is_refused),
    api_case!(anonymous_callers_act_for_no_user),
    api_case!(the_issuer_of_tokens_is_described),
];

async fn anonymous_callers_may_read_health_and_version(s: &mut Session) {
    let major = |body: &Value| json!({"major": body["major"]});
    for path in ["/healthz", "/livez", "/readyz"] {
        s.ask(Ask::get(path).anonymous()).await;
    }
    for path in ["/version", "/version/"] {
        s.ask(Ask::get(path).anonymous().viewed(major)).await;
    }
    let last_line = |body: &Value| {
        let text = body.as_str().unwrap_or_default();
        json!(text.lines().last())
    };
    let verbose = Ask::get("/livez?verbose&exclude=ping");
    s.ask(verbose.anonymous().viewed(last_line)).await;
}

async fn anonymous_callers_may_read_no_other_path(s: &mut Session) {
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/livez/",
        "/livez/ping",
        "/metrics",
        "/nope",
        "/nope%2Fx",
        "/%3Cb%3E",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
    ] {
        s.ask(Ask::get(path).anonymous()).await;
    }
    s.ask(Ask::new(Method::POST, "/version").anonymous()).await;
}

async fn anonymous_callers_may_read_no_resource(s: &mut Session) {
    let pods = s.path(&PODS);
    for path in [
        pods.clone(),
        format!("{pods}?watch=1"),
        format!("{pods}/a"),
        format!("{pods}/a/log"),
        "/api/v1/watch/pods".to_owned(),
        format!("{}/{}", NAMESPACES.everywhere(), s.ns()),
        format!("{}/{}/status", NAMESPACES.everywhere(), s.ns()),
        "/api/v1/nodes/%3Ca%3E".to_owned(),
        "/api/v1/nopes".to_owned(),
        "/apis/foo.io/v1/bars".to_owned(),
        s.item(&DEPLOYMENTS, "a/scale"),
    ] {
        s.ask(Ask::get(path).anonymous()).await;
    }
}

async fn anonymous_callers_may_write_nothing(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let item = s.item(&CONFIG_MAPS, "a");
    s.ask(Ask::post(&path, &mk_config_map("a")).anonymous())
        .await;
    s.ask(Ask::put(&item, &mk_config_map("a")).anonymous())
        .await;
    s.ask(Ask::merge_patch(&item, &json!({})).anonymous()).await;
    s.ask(Ask::new(Method::DELETE, &item).anonymous()).await;
    s.ask(Ask::new(Method::DELETE, &path).anonymous()).await;
    s.ask(Ask::post(WHO_AM_I, &json!({})).anonymous()).await;
    s.note("nothing was done").get_path(path).await;
}

async fn a_forged_token_is_401(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    s.ask(Ask::get(&path).forged()).await;
    s.ask(Ask::get("/healthz").forged()).await;
    s.ask(Ask::get("/nope").forged()).await;
    s.ask(Ask::get(&path).bearer("a.b.c")).await;
    s.ask(Ask::get(&path).bearer(&"x".repeat(8192))).await;
}

async fn a_header_without_a_token_is_anonymous(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    for value in ["Basic YTpi", "Bearer", "Bearer ", "Digest x", ""] {
        let ask = Ask::get(&path).header("authorization", value);
        s.ask(ask.anonymous()).await;
    }
}

async fn a_caller_may_act_for_any_user(s: &mut Session) {
    let who = || Ask::post(WHO_AM_I, &json!({}));
    s.ask(who().header("impersonate-user", "alice")).await;
    let all = who()
        .header("impersonate-user", "alice")
        .header("impersonate-uid", "00000000-1")
        .header("impersonate-group", "dev")
        .header("impersonate-extra-acme.com%2fproject", "shop")
        .header("impersonate-extra-Scopes", "view");
    s.ask(all).await;
    s.note("the object of the question is not answered")
        .ask(
            Ask::post(
                WHO_AM_I,
                &mk_object("authentication.k8s.io/v1", "SelfSubjectReview", "x"),
            )
            .header("impersonate-user", "alice"),
        )
        .await;
    let path = s.path(&CONFIG_MAPS);
    s.note("no user")
        .ask(Ask::get(path).header("impersonate-user", ""))
        .await;
}

async fn groups_follow_from_the_name_of_a_user(s: &mut Session) {
    let cases = [
        ("system:serviceaccount:shop:web", ""),
        ("system:serviceaccount:shop:web", "dev"),
        ("system:serviceaccount:Shop:web", ""),
        ("system:serviceaccount:shop", ""),
        ("system:node:n1", ""),
        ("system:node:n1", "dev"),
        ("system:node:", ""),
        ("alice", "system:authenticated"),
        ("alice", "system:masters"),
    ];
    for (user, group) in cases {
        let mut ask = Ask::post(WHO_AM_I, &json!({})).header("impersonate-user", user);
        if !group.is_empty() {
            ask = ask.header("impersonate-group", group);
        }
        s.ask(ask).await;
    }
}

async fn impersonation_without_a_user_is_400(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    for (name, value) in [
        ("impersonate-group", "dev"),
        ("impersonate-uid", "u"),
        ("impersonate-extra-a", "say \"b\""),
    ] {
        s.ask(Ask::get(&path).header(name, value)).await;
    }
}

async fn an_impersonated_anonymous_user_is_refused(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    let anonymous = "system:anonymous";
    s.ask(Ask::get(&path).header("impersonate-user", anonymous))
        .await;
    s.ask(Ask::get("/healthz").header("impersonate-user", anonymous))
        .await;
    let ask = Ask::get(&path).header("impersonate-user", "alice");
    s.ask(ask.header("impersonate-group", "system:unauthenticated"))
        .await;
}

async fn anonymous_callers_act_for_no_user(s: &mut Session) {
    let path = s.path(&CONFIG_MAPS);
    for (user, group) in [
        ("alice", ""),
        ("alice", "dev"),
        ("system:node:n1", ""),
        ("system:node:n1", "dev"),
        ("system:serviceaccount:shop:web", ""),
        ("system:serviceaccount:shop:web", "dev"),
    ] {
        let mut ask = Ask::get(&path).header("impersonate-user", user);
        if !group.is_empty() {
            ask = ask.header("impersonate-group", group);
        }
        s.ask(ask.anonymous()).await;
    }
    let ask = Ask::get("/healthz").header("impersonate-user", "alice");
    s.ask(ask.anonymous()).await;
    let ask = Ask::get(&path).header("impersonate-group", "dev");
    s.ask(ask.anonymous()).await;
}

async fn the_issuer_of_tokens_is_described(s: &mut Session) {
    let issuer = |body: &Value| {
        let mut shown = body.clone();
        let uri = shown["jwks_uri"].as_str().unwrap_or_default();
        let path = uri.splitn(4, '/').nth(3).unwrap_or_default().to_owned();
        shown["jwks_uri"] = path.into();
        shown
    };
    let keys = |body: &Value| {
        let keys = body["keys"].as_array().into_iter().flatten();
        let key = |key: &Value| {
            let names: Vec<&String> = key
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name)
                .collect();
            json!({"names": names, "kty": key["kty"], "alg": key["alg"], "use": key["use"], "crv": key["crv"]})
        };
        keys.map(key).collect::<Vec<_>>().into()
    };
    let shown: &[&str] = &["cache-control"];
    let path = "/.well-known/openid-configuration";
    s.ask(Ask::get(path).viewed(issuer).showing(shown)).await;
    let path = "/openid/v1/jwks";
    s.ask(Ask::get(path).viewed(keys).showing(shown)).await;
    s.ask(Ask::get(path).accept("application/json")).await;
    s.ask(Ask::post(path, &json!({}))).await;
    s.get_path("/openid/v1").await;
}
