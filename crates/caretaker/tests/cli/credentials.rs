//! Credentials that change while `caretaker run` runs: token files, credential plugins, client certificates, and the
//! kubeconfig itself.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gate::{ClientIdentity, CredentialGate};
use crate::http::HttpClient;
use crate::peers::{RunProcess, create_garbage, wait_deleted};
use crate::process::UpProcess;
use crate::proxy;

/// Time within which a process works with its new credential, with room for a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// A server, the gate before it, and a client that needs no gate.
struct GatedServer {
    up: UpProcess,
    gate: CredentialGate,
    client: HttpClient,
}

// === impl GatedServer ===

impl GatedServer {
    fn start(gate: fn(&UpProcess) -> CredentialGate) -> Self {
        let up = UpProcess::start(&["--controllers=none", "--insecure-http"]);
        let client = HttpClient::of(&up.kubeconfig());
        let gate = gate(&up);
        Self { up, gate, client }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        proxy::write(&self.up.world.path(name), text)
    }

    /// Starts `caretaker run` as this user of the gate.
    fn run(&self, user: &Value) -> RunProcess {
        let kubeconfig = self.file("gated", &self.gate.kubeconfig(user));
        RunProcess::start(&self.up, &kubeconfig, &[])
    }

    /// A user whose plugin prints the file `credential` and logs its runs in `runs`.
    fn plugin(&self) -> Value {
        let script = format!(
            "#!/bin/sh\necho run >> {}\ncat {}\n",
            self.up.world.path("runs").display(),
            self.up.world.path("credential").display()
        );
        let path = self.file("plugin", &script);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": path,
            "interactiveMode": "Never", "provideClusterInfo": false}})
    }

    /// Sets the output of the plugin.
    fn set_credential(&self, status: &Value) {
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential", "status": status});
        self.file("credential", &credential.to_string());
    }

    fn plugin_runs(&self) -> usize {
        let runs = std::fs::read_to_string(self.up.world.path("runs"));
        runs.unwrap_or_default().lines().count()
    }

    /// Checks that garbage is deleted soon.
    #[track_caller]
    fn check_works(&self, name: &str) {
        create_garbage(&self.client, name);
        let began = Instant::now();
        wait_deleted(&self.client, name);
        assert!(began.elapsed() < SOON, "after {:?}", began.elapsed());
    }

    /// Checks that no kind was listed or watched anew since the credential changed.
    #[track_caller]
    fn check_no_new_watch(&self) {
        let requests = self.gate.requests();
        let is_new = |line: &str| line.contains("sendInitialEvents") || line.contains("limit=");
        let new: Vec<_> = requests.iter().filter(|(line, _)| is_new(line)).collect();
        assert!(new.is_empty(), "{new:?}");
    }
}

#[test]
fn a_token_file_is_trimmed_and_read_again() {
    let server = GatedServer::start(CredentialGate::plain);
    let path = server.file("token", "one\n");
    server.gate.accept_token("one");
    let run = server.run(&json!({"tokenFile": path}));
    run.wait_ready(200, "");
    server.check_works("a");
    server.gate.requests();
    server.file("token", "  two \n\n");
    server.gate.accept_token("two");
    server.check_works("b");
    server.check_no_new_watch();
    // The last token stays in use if its file is gone.
    std::fs::remove_file(path).unwrap();
    sleep(SOON);
    server.check_works("c");
}

#[test]
fn a_plugin_runs_again_when_its_token_is_refused() {
    let server = GatedServer::start(CredentialGate::plain);
    let user = server.plugin();
    server.set_credential(&json!({"token": "one"}));
    server.gate.accept_token("one");
    let run = server.run(&user);
    run.wait_ready(200, "");
    server.check_works("a");
    assert_eq!(server.plugin_runs(), 1);
    server.gate.requests();
    server.set_credential(&json!({"token": "two"}));
    server.gate.accept_token("two");
    server.check_works("b");
    assert_eq!(server.plugin_runs(), 2);
    server.check_no_new_watch();
}

#[test]
fn a_plugin_runs_again_before_its_token_expires() {
    let server = GatedServer::start(CredentialGate::plain);
    let user = server.plugin();
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(30);
    server.set_credential(&json!({"token": "one", "expirationTimestamp": expires.to_string()}));
    server.gate.accept_token("one");
    server.gate.also_accept_token("two");
    let run = server.run(&user);
    run.wait_ready(200, "");
    server.set_credential(&json!({"token": "two"}));
    while server.plugin_runs() < 2 {
        assert!(jiff::Timestamp::now() < expires, "it ran too late");
        sleep(Duration::from_millis(50));
    }
    let requests = server.gate.requests();
    assert!(
        requests.iter().all(|(_, is_accepted)| *is_accepted),
        "{requests:?}"
    );
    server.gate.accept_token("two");
    server.check_works("a");
}

#[test]
fn a_plugin_whose_tokens_are_refused_runs_ever_more_rarely() {
    let server = GatedServer::start(CredentialGate::plain);
    let user = server.plugin();
    server.set_credential(&json!({"token": "s3cret-wrong"}));
    let mut run = server.run(&user);
    run.process
        .error_line_with("refuses the credentials (401", SOON);
    sleep(Duration::from_secs(12));
    // At the start, at once, after 5 s.
    let runs = server.plugin_runs();
    assert!((2..=3).contains(&runs), "{runs}");
    let page = run.wait_ready(500, "refused the credentials (401)");
    assert!(!page.contains("s3cret"), "{page}");
    assert_eq!(run.livez(), 200);
    server.gate.accept_token("s3cret-wrong");
    run.wait_ready(200, "server ok");
    run.process.signal(rustix::process::Signal::TERM);
    let stderr = run.process.end().stderr;
    assert!(!stderr.contains("s3cret"), "{stderr}");
}

#[test]
fn client_certificate_files_are_read_again() {
    let server = GatedServer::start(CredentialGate::tls);
    let write = |identity: &ClientIdentity| {
        let key = server.file("client.key", &identity.key);
        (server.file("client.crt", &identity.certificate), key)
    };
    let one = server.gate.issue();
    let (certificate, key) = write(&one);
    server.gate.accept_identity(&one);
    let run = server.run(&json!({"client-certificate": certificate, "client-key": key}));
    run.wait_ready(200, "");
    server.check_works("a");
    server.gate.requests();
    let two = server.gate.issue();
    write(&two);
    server.gate.accept_identity(&two);
    server.check_works("b");
    server.check_no_new_watch();
}

#[test]
fn a_plugin_provides_certificates_and_renews_them() {
    let server = GatedServer::start(CredentialGate::tls);
    let user = server.plugin();
    let set = |identity: &ClientIdentity| {
        server.set_credential(&json!({"clientCertificateData": identity.certificate,
            "clientKeyData": identity.key}));
        server.gate.accept_identity(identity);
    };
    set(&server.gate.issue());
    let run = server.run(&user);
    run.wait_ready(200, "");
    server.check_works("a");
    server.gate.requests();
    set(&server.gate.issue());
    server.check_works("b");
    assert_eq!(server.plugin_runs(), 2);
    server.check_no_new_watch();
}

#[test]
fn a_kubeconfig_with_another_token_is_read_when_the_first_is_refused() {
    let server = GatedServer::start(CredentialGate::plain);
    server.gate.accept_token("one");
    let run = server.run(&json!({"token": "one"}));
    run.wait_ready(200, "");
    server.gate.accept_token("two");
    let page = run.wait_ready(500, "refused the credentials (401)");
    assert!(page.contains("[-]server failed"), "{page}");
    assert_eq!(run.livez(), 200);
    let text = server.gate.kubeconfig(&json!({"token": "two"}));
    server.file("gated", &text);
    run.wait_ready(200, "");
    server.check_works("a");
}
