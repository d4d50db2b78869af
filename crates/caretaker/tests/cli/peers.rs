//! `caretaker run` beside another controller manager, and on a server that is away, slow or refuses the credentials.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::process::{TestProcess, UpProcess};
use crate::proxy::{self, TestProxy};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The duration of the Leases here.
const LEASE: Duration = Duration::from_secs(2);

/// Time within which trouble has to be on stderr, with room for a busy machine.
const SOON: Duration = Duration::from_secs(4);

/// Time limit that only a process that does nothing exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `caretaker run` with the garbage collector and an admin server.
pub(crate) struct RunProcess {
    pub(crate) process: TestProcess,
    /// The kubeconfig of its admin server.
    pub(crate) kubeconfig: PathBuf,
    admin: HttpClient,
}

// === impl RunProcess ===

impl RunProcess {
    pub(crate) fn start(up: &UpProcess, kubeconfig: &Path, flags: &[&str]) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let port = format!("--secure-port={port}");
        let mut arguments = vec!["run", "--kubeconfig", kubeconfig.to_str().unwrap(), &port];
        arguments.push("--controllers=garbage-collector-controller");
        // Tests of replicas switch it on again.
        arguments.push("--leader-elect=false");
        arguments.extend(flags);
        let mut process = up.world.caretaker(&arguments);
        let line = process.error_line_with("kubeconfig with the admin token: ", SOON);
        let kubeconfig = PathBuf::from(line.rsplit(": ").next().unwrap());
        let admin = HttpClient::of(&kubeconfig);
        Self {
            process,
            kubeconfig,
            admin,
        }
    }

    /// Waits until `/readyz` has this status and text.
    #[track_caller]
    pub(crate) fn wait_ready(&self, status: u16, text: &str) -> String {
        wait(&format!("readyz {status} with {text:?}"), || {
            let (own, page) = self.admin.page("/readyz?verbose");
            (own == status && page.contains(text)).then_some(page)
        })
    }

    pub(crate) fn livez(&self) -> u16 {
        self.admin.page("/livez").0
    }
}

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(50));
    }
}

/// Creates a ConfigMap whose owner does not exist.
pub(crate) fn create_garbage(client: &HttpClient, name: &str) {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone",
        "uid": "11111111-1111-4111-8111-111111111111"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]}});
    client.create(MAPS, &object);
}

fn exists(client: &HttpClient, name: &str) -> bool {
    client.get(&format!("{MAPS}/{name}")).0 == 200
}

#[track_caller]
pub(crate) fn wait_deleted(client: &HttpClient, name: &str) {
    wait(&format!("{name} is deleted"), || {
        (!exists(client, name)).then_some(())
    });
}

fn mk_lease(renewed: Timestamp) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "host_1", "leaseDurationSeconds": LEASE.as_secs(),
            "renewTime": format!("{renewed:.6}")}})
}

/// Renews the Lease, as a living kube-controller-manager does.
fn renew(client: &HttpClient) -> Instant {
    let path = format!("{LEASES}/kube-controller-manager");
    let (_, mut lease) = client.get(&path);
    lease["spec"] = mk_lease(Timestamp::now())["spec"].clone();
    client.put(&path, &lease);
    Instant::now()
}

#[test]
fn acts_only_while_the_lease_is_not_renewed() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    // At the start the Lease is older than its duration: the manager is between two leaders.
    let old = Timestamp::now() - SignedDuration::from_secs(3);
    client.create(LEASES, &mk_lease(old));
    create_garbage(&client, "a");
    let run = RunProcess::start(&up, &up.kubeconfig(), &[]);
    let mut renewed = renew(&client);
    let until = Instant::now() + 3 * LEASE;
    while Instant::now() < until {
        sleep(Duration::from_millis(500));
        renewed = renew(&client);
    }
    assert!(exists(&client, "a"));
    let page = run.wait_ready(500, "kube-controller-manager is active (host_1)");
    assert!(page.contains("set --take-over"), "{page}");
    assert_eq!(run.livez(), 200);

    // The manager stops.
    wait_deleted(&client, "a");
    assert!(renewed.elapsed() >= 2 * LEASE, "{:?}", renewed.elapsed());
    run.wait_ready(200, "garbage-collector-controller ok");

    // It starts again.
    let until = Instant::now() + 3 * LEASE;
    renew(&client);
    sleep(LEASE);
    create_garbage(&client, "b");
    while Instant::now() < until {
        renew(&client);
        sleep(Duration::from_millis(500));
    }
    assert!(exists(&client, "b"));
    run.wait_ready(500, "kube-controller-manager is active (host_1)");
    wait_deleted(&client, "b");
}

#[test]
fn a_manager_without_a_lease_is_noticed_by_its_pod() {
    const PODS: &str = "/api/v1/namespaces/kube-system/pods";
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "manager",
        "labels": {"component": "kube-controller-manager"}},
        "spec": {"containers": [{"name": "manager", "image": "manager:1"}]}});
    client.create(PODS, &pod);
    let path = format!("{PODS}/manager/status");
    let (_, mut pod) = client.get(&path);
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    client.put(&path, &pod);
    create_garbage(&client, "a");
    let run = RunProcess::start(&up, &up.kubeconfig(), &[]);
    let page = run.wait_ready(
        500,
        "kube-controller-manager is active (Pod kube-system/manager)",
    );
    assert!(page.contains("set --take-over"), "{page}");
    wait("a record of the write", || {
        let (_, actions) = run.admin.get("/debug/actions");
        (actions[0]["status"] == "dry-run").then_some(())
    });
    assert!(exists(&client, "a"));

    pod["status"]["phase"] = json!("Failed");
    pod["metadata"]["resourceVersion"] = Value::Null;
    client.put(&path, &pod);
    wait_deleted(&client, "a");
    run.wait_ready(200, "garbage-collector-controller ok");
}

#[test]
fn take_over_and_dry_run_are_ready_beside_a_living_manager() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    client.create(
        LEASES,
        &mk_lease(Timestamp::now() + SignedDuration::from_hours(1)),
    );
    create_garbage(&client, "a");
    let dry = RunProcess::start(&up, &up.kubeconfig(), &["--dry-run"]);
    dry.wait_ready(200, "garbage-collector-controller ok: dry run");
    wait("a record of the write", || {
        let (_, actions) = dry.admin.get("/debug/actions");
        (actions[0]["status"] == "dry-run").then_some(())
    });
    assert!(exists(&client, "a"));
    drop(dry);
    let mut over = RunProcess::start(&up, &up.kubeconfig(), &["--take-over"]);
    over.process.error_line_with("--take-over is set", SOON);
    wait_deleted(&client, "a");
    over.wait_ready(200, "garbage-collector-controller ok");
}

#[test]
fn acts_when_a_server_that_was_away_answers() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    create_garbage(&client, "a");
    let proxy = TestProxy::of(&up);
    let mut run = RunProcess::start(&up, &proxy.kubeconfig(&up), &[]);
    run.process.error_line_with("does not answer: ", SOON);
    run.wait_ready(
        500,
        "[-]server failed: the API server has not answered since",
    );
    run.wait_ready(500, "[-]discovery failed: failing since");
    assert_eq!(run.livez(), 200);
    sleep(Duration::from_secs(3));
    proxy.open();
    wait_deleted(&client, "a");
    run.process.error_line_with("answers again", SOON);
    run.wait_ready(200, "server ok");
    run.process.signal(rustix::process::Signal::TERM);
    let stderr = run.process.end().stderr;
    let warnings = stderr.lines().filter(|line| line.contains("WARN"));
    assert!(warnings.count() <= 3, "{stderr}");
}

#[test]
fn a_server_that_accepts_and_never_answers_is_reported() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    create_garbage(&client, "a");
    let proxy = TestProxy::of(&up);
    proxy.hang();
    proxy.open();
    let mut run = RunProcess::start(&up, &proxy.kubeconfig(&up), &[]);
    run.process
        .error_line_with("does not answer: no answer within", SOON);
    run.wait_ready(500, "[-]server failed");
    assert_eq!(run.livez(), 200);
    proxy.resume();
    wait_deleted(&client, "a");
    run.wait_ready(200, "server ok");
}

#[test]
fn refused_credentials_are_reported_and_no_permission_to_act() {
    let up = UpProcess::start(&["--controllers=none"]);
    let text = std::fs::read_to_string(up.kubeconfig()).unwrap();
    let start = text.find("token: ").unwrap();
    let end = start + text[start..].find('\n').unwrap();
    let text = format!("{}token: \"wrong\"{}", &text[..start], &text[end..]);
    let kubeconfig = proxy::write(&up.world.path("wrong"), &text);
    let mut run = RunProcess::start(&up, &kubeconfig, &[]);
    run.process
        .error_line_with("refuses the credentials (401", SOON);
    let page = run.wait_ready(500, "refused the credentials (401)");
    assert!(
        page.contains("cannot tell whether kube-controller-manager is active"),
        "{page}"
    );
    assert_eq!(run.livez(), 200);
    sleep(Duration::from_secs(5));
    run.process.signal(rustix::process::Signal::TERM);
    let stderr = run.process.end().stderr;
    let lines = stderr.lines().filter(|line| line.contains("401"));
    assert!(lines.count() <= 3, "{stderr}");
}
