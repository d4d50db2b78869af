//! Tokens by the server's clock and by its key, and the encodings of everything that is about identity.

use bytes::Bytes;
use caretaker_apiserver::listen::BearerToken;
use caretaker_apiserver::{
    ApiServer, ApiService, ServerCredentials, TokenKey, UserIdentity, protobuf,
};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::SignedDuration;
use rcgen::KeyPair;
use serde_json::{Value, json};
use tower_service::Service;

use crate::client::START;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A server with a key of its own.
struct TokenWorld {
    clock: Clock,
    server: ApiServer,
}

impl TokenWorld {
    async fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let credentials = ServerCredentials {
            token_key: Some(TokenKey::from_pkcs8(&key.serialize_der()).unwrap()),
            admin_token: BearerToken::from_text("admins"),
        };
        Self::with(Some(credentials)).await
    }

    async fn with(credentials: Option<ServerCredentials>) -> Self {
        let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
        let mut server = ApiServer::ephemeral(clock.clone(), Rng::seeded(7));
        if let Some(credentials) = credentials {
            server = server.with_credentials(credentials);
        }
        let world = Self { clock, server };
        world
            .post(ACCOUNTS, json!({"metadata": {"name": "a"}}))
            .await;
        world
    }

    fn admin(&self) -> ApiService {
        self.server.service(UserIdentity::admin())
    }

    /// Sends a body as protobuf and returns the answer, which has to be protobuf too.
    async fn post_protobuf(&self, path: &str, body: &Value) -> Value {
        let request = Request::post(path)
            .header("content-type", PROTOBUF)
            .header("accept", PROTOBUF)
            .body(Full::<Bytes>::from(protobuf::encode(body).unwrap()))
            .unwrap();
        let response = self.admin().call(request).await.unwrap();
        assert_eq!(response.status(), 201, "{path}");
        assert_eq!(response.headers()["content-type"], PROTOBUF, "{path}");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        protobuf::decode(&bytes).unwrap()
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Full::<Bytes>::from(body.to_string())).unwrap();
        answer(self.admin(), request).await
    }

    async fn token(&self, spec: Value) -> String {
        let path = format!("{ACCOUNTS}/a/token");
        let (code, request) = self.post(&path, json!({ "spec": spec })).await;
        assert_eq!(code, 201, "{request}");
        request["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Uses a token, and asks for a review of it. Both must agree.
    async fn error(&self, token: &str) -> Option<String> {
        let (code, review) = self.post(REVIEWS, json!({"spec": {"token": token}})).await;
        assert_eq!(code, 201, "{review}");
        let request = Request::post(WHO_AM_I)
            .header("authorization", format!("Bearer {token}"))
            .body(Full::<Bytes>::from("{}"))
            .unwrap();
        let (code, user) = answer(self.server.token_service(), request).await;
        match review["status"]["error"].as_str() {
            Some(error) => {
                assert_eq!(code, 401, "{user}");
                Some(error.to_owned())
            }
            None => {
                let user = &user["status"]["userInfo"];
                assert_eq!(*user, review["status"]["user"]);
                None
            }
        }
    }
}

async fn answer(mut service: ApiService, request: Request<Full<Bytes>>) -> (u16, Value) {
    let response = service.call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test(start_paused = true)]
async fn a_token_is_valid_from_its_issue_to_its_end_by_the_servers_clock() {
    let world = TokenWorld::new().await;
    let token = world.token(json!({"expirationSeconds": 600})).await;
    let steps = [
        (0, None),
        (-60, None),
        (-1, Some("service account token is not valid yet")),
        (61, None),
        (600, None),
        (60, None),
        (1, Some("service account token has expired")),
        (1_000_000_000, Some("service account token has expired")),
    ];
    for (secs, error) in steps {
        world.clock.jump(SignedDuration::from_secs(secs)).unwrap();
        let error = error.map(|error| format!("[invalid bearer token, {error}]"));
        assert_eq!(world.error(&token).await, error, "{}", world.clock.now());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_that_is_held_ends_its_tokens_after_a_minute() {
    let world = TokenWorld::new().await;
    let held = json!({"metadata": {"name": "s", "finalizers": ["example.com/hold"]}});
    let secrets = "/api/v1/namespaces/default/secrets";
    world.post(secrets, held).await;
    let bound = json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}});
    let token = world.token(bound).await;
    let delete = Request::delete(format!("{secrets}/s")).body(Full::default());
    let (code, _) = answer(world.admin(), delete.unwrap()).await;
    assert_eq!(code, 200);
    assert_eq!(world.error(&token).await, None);
    world.clock.jump(SignedDuration::from_secs(61)).unwrap();
    let error = "[invalid bearer token, service account token has been invalidated]";
    assert_eq!(world.error(&token).await.as_deref(), Some(error));
}

#[tokio::test(start_paused = true)]
async fn tokens_of_another_key_and_changed_tokens_are_refused() {
    let (world, other) = (TokenWorld::new().await, TokenWorld::new().await);
    let token = world.token(json!({})).await;
    let no_key = "[invalid bearer token, invalid signature, no keys found]";
    assert_eq!(other.error(&token).await.as_deref(), Some(no_key));
    // No single character can be changed.
    for at in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(world.error(&changed).await.is_some(), "{at}");
    }
    for length in 0..token.len() {
        assert!(
            length == 0 || world.error(&token[..length]).await.is_some(),
            "{length}"
        );
    }
    assert_eq!(world.error(&token).await, None);
}

#[tokio::test(start_paused = true)]
async fn hostile_tokens_are_unknown() {
    let world = TokenWorld::new().await;
    let encode = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    let issuer = r#""iss":"https://kubernetes.default.svc""#;
    let deep = format!("{{{issuer},\"a\":{}}}", "[".repeat(100_000));
    let payloads = [
        deep,
        "{}".to_owned(),
        "null".to_owned(),
        "[1]".to_owned(),
        r#"{"iss":5}"#.to_owned(),
    ];
    for payload in payloads {
        let token = format!("{}.{}.AAAA", encode("{}"), encode(&payload));
        let error = world.error(&token).await;
        assert_eq!(
            error.as_deref(),
            Some("invalid bearer token"),
            "{}",
            payload.len()
        );
    }
    let huge = "x".repeat(2_000_000);
    let (code, review) = world.post(REVIEWS, json!({"spec": {"token": huge}})).await;
    assert_eq!(
        (code, &review["status"]["error"]),
        (201, &json!("invalid bearer token"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_review_knows_the_administrator() {
    let world = TokenWorld::new().await;
    let (_, review) = world
        .post(REVIEWS, json!({"spec": {"token": "admins"}}))
        .await;
    let groups = json!(["system:masters", "system:authenticated"]);
    assert_eq!(
        review["status"]["user"],
        json!({"username": "caretaker-admin", "groups": groups})
    );
    let spec = json!({"token": "admins", "audiences": ["x"]});
    let (_, review) = world.post(REVIEWS, json!({ "spec": spec })).await;
    assert_eq!(
        review["status"],
        json!({"user": {}, "error": "invalid bearer token"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_key_issues_and_accepts_no_tokens() {
    let token = TokenWorld::new().await.token(json!({})).await;
    let world = TokenWorld::with(None).await;
    let (code, status) = world.post(&format!("{ACCOUNTS}/a/token"), json!({})).await;
    assert_eq!((code, &status["reason"]), (501, &json!("NotImplemented")));
    assert_eq!(
        world.error(&token).await.as_deref(),
        Some("invalid bearer token")
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_and_token_requests_are_read_and_written_as_protobuf() {
    let world = TokenWorld::new().await;
    let token = world.token(json!({})).await;
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let cases = [
        (
            format!("{ACCOUNTS}/a/token"),
            "authentication.k8s.io/v1",
            "TokenRequest",
            json!({"expirationSeconds": 700}),
        ),
        (
            REVIEWS.to_owned(),
            "authentication.k8s.io/v1",
            "TokenReview",
            json!({"token": token}),
        ),
        (
            WHO_AM_I.to_owned(),
            "authentication.k8s.io/v1",
            "SelfSubjectReview",
            Value::Null,
        ),
        (
            of("selfsubjectaccessreviews"),
            AUTHORIZATION,
            "SelfSubjectAccessReview",
            json!({"resourceAttributes": attributes}),
        ),
        (
            of("selfsubjectrulesreviews"),
            AUTHORIZATION,
            "SelfSubjectRulesReview",
            json!({"namespace": "default"}),
        ),
        (
            of("subjectaccessreviews"),
            AUTHORIZATION,
            "SubjectAccessReview",
            json!({"user": "a", "resourceAttributes": attributes}),
        ),
        (
            local.to_owned(),
            AUTHORIZATION,
            "LocalSubjectAccessReview",
            json!({"user": "a", "resourceAttributes": attributes}),
        ),
    ];
    for (path, api_version, kind, spec) in cases {
        let mut body = json!({"apiVersion": api_version, "kind": kind, "metadata": {}});
        if !spec.is_null() {
            body["spec"] = spec;
        }
        let shown = world.post_protobuf(&path, &body).await;
        assert_eq!(
            (&shown["kind"], &shown["apiVersion"]),
            (&json!(kind), &json!(api_version))
        );
        let (_, plain) = world.post(&path, body).await;
        assert_eq!(status_fields(&shown), status_fields(&plain), "{kind}");
    }
}

fn status_fields(review: &Value) -> Vec<String> {
    let status = review["status"].as_object().unwrap();
    status.keys().cloned().collect()
}

const AUTHORIZATION: &str = "authorization.k8s.io/v1";

fn of(resource: &str) -> String {
    format!("/apis/{AUTHORIZATION}/{resource}")
}
