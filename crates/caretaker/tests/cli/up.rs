//! `caretaker up` in scripts: the JSON line, the kubeconfig, authentication, the stop.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::http::HttpClient;
use crate::process::{TestDirectories, UpProcess};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_json_line_names_the_server_and_its_kubeconfig() {
    let up = UpProcess::start(&[]);
    let port = up
        .server()
        .strip_prefix("https://127.0.0.1:")
        .unwrap()
        .to_owned();
    let kubeconfig = up
        .world
        .path("run")
        .join("caretaker")
        .join(format!("{port}.kubeconfig"));
    let admin = up.line["admin"].as_str().unwrap().to_owned();
    assert!(admin.starts_with("https://127.0.0.1:"), "{admin}");
    assert_eq!(
        up.line,
        json!({"server": format!("https://127.0.0.1:{port}"), "remoteServers": [], "kubeconfig": kubeconfig,
            "context": "caretaker", "admin": admin})
    );
    assert_eq!(mode(&kubeconfig), 0o600);
    assert_eq!(mode(kubeconfig.parent().unwrap()), 0o700);
    assert_eq!(HttpClient::of(&kubeconfig).get("/version").0, 200);

    let (ended, _world) = up.stop();
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "", "")
    );
    assert!(!kubeconfig.exists());
}

#[test]
fn requests_without_the_token_are_rejected() {
    let up = UpProcess::start(&[]);
    let client = HttpClient::of(&up.kubeconfig());
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
    for path in [
        "/api/v1/namespaces",
        "/version",
        "/healthz",
        "/metrics",
        "/nowhere",
    ] {
        let is_public = ["/version", "/healthz"].contains(&path);
        let expected = if is_public { 200 } else { 403 };
        assert_eq!(client.page(path).0, expected, "{path}");
        let wrong = [("Authorization", "Bearer wrong")];
        assert_eq!(
            client.get_with(path, &wrong),
            (401, status.clone()),
            "{path}"
        );
    }
    assert_eq!(client.get("/api/v1/namespaces").0, 200);
}

#[test]
fn a_request_for_another_host_is_misdirected_even_with_the_token() {
    let up = UpProcess::start(&[]);
    let client = HttpClient::of(&up.kubeconfig());
    let port = up.server().rsplit(':').next().unwrap();
    let get = |host: &str| {
        client.get_with(
            "/version",
            &[("Authorization", &client.bearer()), ("Host", host)],
        )
    };
    for host in ["localhost", "127.0.0.1", "[::1]", "kubernetes.default.svc"] {
        assert_eq!(get(&format!("{host}:{port}")).0, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "localhost."] {
        let (code, status) = get(&format!("{host}:{port}"));
        assert_eq!((code, &status["code"]), (421, &json!(421)), "{host}");
        assert!(
            status["message"].as_str().unwrap().contains("names a host"),
            "{status}"
        );
    }
}

#[test]
fn an_open_watch_does_not_delay_the_stop() {
    for signal in [Signal::INT, Signal::TERM] {
        let up = UpProcess::start(&[]);
        let client = HttpClient::of(&up.kubeconfig());
        let mut watch = client.watch("/api/v1/namespaces?watch=true");
        let event = watch.next().unwrap().unwrap();
        assert!(event.contains("ADDED"), "{event}");
        up.process.signal(signal);
        let ended = up.process.end();
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        // The client may see the end of the stream or an error.
        assert!(watch.take_while(Result::is_ok).count() < 100);
    }
}

#[test]
fn plain_http_needs_loopback_and_the_token() {
    let up = UpProcess::start(&["--insecure-http"]);
    assert!(
        up.server().starts_with("http://127.0.0.1:"),
        "{}",
        up.server()
    );
    let client = HttpClient::of(&up.kubeconfig());
    assert_eq!(client.get_with("/api", &[]).0, 403);
    assert_eq!(client.get("/api").0, 200);

    let world = TestDirectories::new();
    let ended = world
        .caretaker(&["up", "--insecure-http", "--listen", "0.0.0.0:0"])
        .end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("loopback only"), "{}", ended.stderr);
}

#[test]
fn a_taken_port_is_an_error() {
    let up = UpProcess::start(&[]);
    let address = up.server().strip_prefix("https://").unwrap();
    let ended = up.world.caretaker(&["up", "--listen", address]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    let expected = format!("caretaker: cannot listen on {address}: ");
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    assert_eq!(HttpClient::of(&up.kubeconfig()).get("/version").0, 200);
}

#[test]
fn without_listen_two_servers_find_two_ports() {
    let world = TestDirectories::new();
    let mut servers = [(); 2].map(|()| world.caretaker(&["up", "-o", "json"]));
    let lines = servers.each_mut().map(|server| {
        let line: serde_json::Value = serde_json::from_str(&server.line()).unwrap();
        let port = line["server"]
            .as_str()
            .unwrap()
            .rsplit(':')
            .next()
            .unwrap()
            .to_owned();
        assert!(
            (6443..6543).contains(&port.parse::<u16>().unwrap()),
            "{port}"
        );
        line["kubeconfig"].as_str().unwrap().to_owned()
    });
    assert_ne!(lines[0], lines[1]);
    for kubeconfig in lines {
        assert_eq!(
            HttpClient::of(Path::new(&kubeconfig)).get("/version").0,
            200
        );
    }
}

#[test]
fn a_foreign_file_is_not_replaced_by_the_kubeconfig() {
    let world = TestDirectories::new();
    let own = world.path("own.yaml");
    let up = UpProcess::start(&["--kubeconfig-out", own.to_str().unwrap()]);
    assert_eq!((up.kubeconfig(), mode(&own)), (own.clone(), 0o600));
    let others = up.world.entries("run/caretaker");
    assert!(
        others
            .iter()
            .all(|name| !name.ends_with(".kubeconfig") || name.ends_with(".admin.kubeconfig")),
        "{others:?}"
    );
    let (ended, _world) = up.stop();
    assert!(ended.code == 0 && !own.exists());

    let foreign = world.path("foreign.yaml");
    fs::write(&foreign, "kind: Config\n").unwrap();
    let flags = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig-out",
        foreign.to_str().unwrap(),
    ];
    let ended = world.caretaker(&flags).end();
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains("was not written by caretaker"),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "kind: Config\n");
}

#[test]
fn the_instructions_name_the_kubeconfig_and_commands() {
    let rows: [(&[&str], &str); 2] = [
        (&[], "kubectl create configmap "),
        (&["--simulate-workloads"], "kubectl create deployment "),
    ];
    for (flags, create) in rows {
        let world = TestDirectories::new();
        let mut process = world.caretaker(&[&["up", "--listen", "127.0.0.1:0"], flags].concat());
        let mut text = process.line_with("in memory only");
        while !text.contains("Ctrl-C") {
            text += &process.line();
        }
        let mut names = world.entries("run/caretaker").into_iter();
        let is_own =
            |name: &String| name.ends_with(".kubeconfig") && !name.ends_with(".admin.kubeconfig");
        let name = names.find(is_own).unwrap();
        let kubeconfig = world.path("run").join("caretaker").join(name);
        let wanted = [
            kubeconfig.to_str().unwrap(),
            "export KUBECONFIG=",
            "Health, metrics and the ownership graph are at https://127.0.0.1:",
            create,
            "kubectl get ",
            "kubectl delete ",
        ];
        for wanted in wanted {
            assert!(text.contains(wanted), "{wanted} is not in {text}");
        }
    }
}
