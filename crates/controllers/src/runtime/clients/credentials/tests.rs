use std::path::Path;

use caretaker_machinery::clock::REAL_TIME;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use super::*;

/// A directory with a kubeconfig and the files that it names.
struct CredentialFiles(TempDir);

// === impl CredentialFiles ===

impl CredentialFiles {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn choose(&self, server: &str, user: &Value) -> ClusterChoice {
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}]});
        ClusterChoice {
            kubeconfig: Some(self.write("config", &text.to_string()).into()),
            ..ClusterChoice::default()
        }
    }

    async fn start(&self, user: &Value) -> Result<CredentialSource, CredentialError> {
        self.start_at("http://127.0.0.1:1", user).await
    }

    async fn start_at(
        &self,
        server: &str,
        user: &Value,
    ) -> Result<CredentialSource, CredentialError> {
        let choice = self.choose(server, user);
        let config = choice.config().await.unwrap();
        let clock = Clock::driven("2026-03-01T12:00:00Z".parse().unwrap(), REAL_TIME);
        CredentialSource::start(Some(choice), config, HttpVersions::All, clock).await
    }

    /// A plugin that counts its runs and prints the file `status`.
    fn plugin(&self, status: &str) -> Value {
        self.write("status", status);
        let dir = self.0.path().display();
        let script = format!(
            r#"echo run >> {dir}/runs
            printf '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":%s}}' "$(cat {dir}/status)""#
        );
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
            "args": ["-c", script], "interactiveMode": "Never", "provideClusterInfo": false}})
    }

    fn plugin_runs(&self) -> usize {
        let runs = std::fs::read_to_string(self.0.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }
}

fn header(credential: &Credential) -> &str {
    let value = credential.authorization.as_ref();
    value.map_or("", |value| {
        assert!(value.is_sensitive());
        value.to_str().unwrap()
    })
}

/// Moves tokio's time. A test with plugins cannot run on paused time, which would go on while a plugin runs.
async fn skip(secs: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(secs)).await;
    tokio::time::resume();
}

/// Certificate and key in PEM.
fn mk_identity() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[tokio::test]
async fn each_kind_of_user_has_its_header() {
    let files = CredentialFiles::new();
    let token = files.write("token", " from-file\n");
    let gone = files.write("gone", "");
    let table = [
        (json!({}), ""),
        (json!({"token": "inline"}), "Bearer inline"),
        (json!({"username": "a", "password": "b"}), "Basic YTpi"),
        (json!({"tokenFile": token}), "Bearer from-file"),
        // As in client-go, the file counts if it can be read.
        (
            json!({"tokenFile": token, "token": "inline"}),
            "Bearer from-file",
        ),
        (
            json!({"tokenFile": gone, "token": "inline"}),
            "Bearer inline",
        ),
        (
            files.plugin(r#"{"token": "from-plugin"}"#),
            "Bearer from-plugin",
        ),
        (
            json!({"auth-provider": {"name": "oidc", "config": {"id-token": "oidc"}}}),
            "Bearer oidc",
        ),
    ];
    for (user, expected) in table {
        let source = files.start(&user).await.unwrap();
        assert_eq!(header(&source.current()), expected, "{user}");
    }
}

#[tokio::test]
async fn errors_at_the_start_hold_no_secrets() {
    let files = CredentialFiles::new();
    let table = [
        (
            json!({"tokenFile": files.write("split", "s3cret\nvalue")}),
            "has characters that no header may have",
        ),
        (json!({"tokenFile": files.write("empty", "\n")}), "is empty"),
        (
            json!({"tokenFile": "no-such-file"}),
            "no-such-file cannot be read: No such file",
        ),
        (
            files.plugin("s3cret"),
            "credential plugin sh: it printed no ExecCredential",
        ),
        (
            json!({"auth-provider": {"name": "azure", "config": {"access-token": "s3cret"}}}),
            "azure",
        ),
    ];
    for (user, expected) in table {
        let error = files.start(&user).await.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_every_ten_seconds_and_kept_when_it_is_gone() {
    let files = CredentialFiles::new();
    let path = files.write("token", "one\n");
    let source = files.start(&json!({"tokenFile": path})).await.unwrap();
    files.write("token", "two\n");
    assert_eq!(header(&source.current()), "Bearer one");
    sleep(Duration::from_secs(11)).await;
    assert_eq!(header(&source.current()), "Bearer two");
    std::fs::remove_file(&path).unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(header(&source.current()), "Bearer two");
    files.write("token", "three\n");
    sleep(Duration::from_secs(6)).await;
    assert_eq!(header(&source.current()), "Bearer three");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_reads_the_kubeconfig_again() {
    let files = CredentialFiles::new();
    let source = files.start(&json!({"token": "one"})).await.unwrap();
    let first = source.current();
    assert!(source.refuse(first.generation).await.is_none());
    assert_eq!(source.refused().unwrap().reloads, 1);
    files.choose("http://127.0.0.1:1", &json!({"token": "two"}));
    // Too early.
    assert!(source.refuse(first.generation).await.is_none());
    sleep(Duration::from_secs(6)).await;
    let second = source.refuse(first.generation).await.unwrap();
    assert_eq!(header(&second), "Bearer two");
    // A request that was sent before the change gets the new credential without another read.
    let late = source.refuse(first.generation).await.unwrap();
    assert_eq!(late.generation, second.generation);
    source.accept(first.generation);
    assert_eq!(source.refused().unwrap().reloads, 2);
    source.accept(second.generation);
    assert_eq!(source.refused(), None);
    // Another server is not followed.
    files.choose("http://127.0.0.1:2", &json!({"token": "three"}));
    sleep(Duration::from_secs(60)).await;
    assert!(source.refuse(second.generation).await.is_none());
}

#[tokio::test]
async fn a_plugin_runs_once_for_many_refusals() {
    let files = CredentialFiles::new();
    let user = files.plugin(r#"{"token": "one"}"#);
    let source = files.start(&user).await.unwrap();
    files.plugin(r#"{"token": "two"}"#);
    let refused = (0..200).map(|_| source.refuse(0));
    for other in futures::future::join_all(refused).await {
        assert_eq!(header(&other.unwrap()), "Bearer two");
    }
    assert_eq!(files.plugin_runs(), 2);
    // A cancelled request does not end the run.
    files.plugin(r#"{"token": "three"}"#);
    skip(6).await;
    let cancelled = tokio::time::timeout(Duration::ZERO, source.refuse(1)).await;
    assert!(cancelled.is_err());
    let other = source.refuse(1).await.unwrap();
    assert_eq!(header(&other), "Bearer three");
    assert_eq!(files.plugin_runs(), 3);
}

#[tokio::test]
async fn a_plugin_runs_before_its_credential_expires() {
    let files = CredentialFiles::new();
    let user = files.plugin(r#"{"token": "one", "expirationTimestamp": "2026-03-01T13:00:00Z"}"#);
    let source = files.start(&user).await.unwrap();
    files.plugin(r#"{"token": "two"}"#);
    skip(3500).await;
    assert_eq!(header(&source.current()), "Bearer one");
    skip(50).await;
    let mut current = source.current.clone();
    current.changed().await.unwrap();
    assert_eq!(header(&source.current()), "Bearer two");
    skip(86_400).await;
    assert_eq!(files.plugin_runs(), 2);
}

#[tokio::test]
async fn a_plugin_that_fails_runs_again_and_its_last_token_stays() {
    let files = CredentialFiles::new();
    let user = files.plugin(r#"{"token": "one"}"#);
    let source = files.start(&user).await.unwrap();
    files.plugin("broken");
    assert!(source.refuse(0).await.is_none());
    assert_eq!(header(&source.current()), "Bearer one");
    files.plugin(r#"{"token": "two"}"#);
    let mut current = source.current.clone();
    skip(6).await;
    current.changed().await.unwrap();
    assert_eq!(header(&source.current()), "Bearer two");
    assert_eq!(files.plugin_runs(), 3);
}

#[tokio::test(start_paused = true)]
async fn tls_changes_with_its_files_and_with_nothing_else() {
    let files = CredentialFiles::new();
    let write = |(certificate, key): &(String, String)| {
        json!({"client-certificate": files.write("crt", certificate),
            "client-key": files.write("key", key), "tokenFile": files.write("token", "one")})
    };
    let one = mk_identity();
    let source = files.start_at("https://127.0.0.1:1", &write(&one)).await;
    let source = source.unwrap();
    assert!(source.current().tls.config.is_some());
    files.write("token", "two");
    sleep(Duration::from_secs(11)).await;
    let changed = source.current();
    assert_eq!((changed.generation, changed.tls.generation), (1, 0));
    // A certificate without its key is the middle of a rotation.
    let two = mk_identity();
    files.write("crt", &two.0);
    sleep(Duration::from_secs(11)).await;
    assert_eq!(source.current().tls.generation, 0);
    files.write("key", &two.1);
    sleep(Duration::from_secs(11)).await;
    let changed = source.current();
    assert_eq!((changed.generation, changed.tls.generation), (2, 1));
}

#[tokio::test]
async fn a_plugin_provides_certificates() {
    let files = CredentialFiles::new();
    let status = |(certificate, key): &(String, String)| {
        json!({"clientCertificateData": certificate, "clientKeyData": key}).to_string()
    };
    let user = files.plugin(&status(&mk_identity()));
    let source = files.start_at("https://127.0.0.1:1", &user).await.unwrap();
    assert!(source.current().authorization.is_none());
    assert!(source.refuse(0).await.is_none());
    files.plugin(&status(&mk_identity()));
    skip(6).await;
    let other = source.refuse(0).await.unwrap();
    assert_eq!((other.generation, other.tls.generation), (1, 1));
}

#[test]
fn reloads_slow_down_while_refusals_go_on() {
    let start = Instant::now();
    let mut pace = ReloadPace::default();
    let mut permits = |secs: u64| pace.permits(start + Duration::from_secs(secs));
    let permitted: Vec<u64> = (0..300).filter(|secs| permits(*secs)).collect();
    assert_eq!(permitted, [0, 5, 15, 35, 75, 135, 195, 255]);
    assert!(permits(900) && !permits(904) && permits(905));
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_with_its_last_handle() {
    let files = CredentialFiles::new();
    let path = files.write("token", "one");
    let source = files.start(&json!({"tokenFile": path})).await.unwrap();
    let mut current = source.current.clone();
    assert!(Path::new(&path).exists());
    drop(source);
    assert!(current.changed().await.is_err());
}
