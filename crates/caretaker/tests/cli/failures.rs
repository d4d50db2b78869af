//! A server that refuses writes: the log and `caretaker explain` say why.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::http::HttpClient;
use crate::peers::{RunProcess, create_garbage};
use crate::process::UpProcess;
use crate::proxy;

/// The answer to every DELETE.
const REFUSAL: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"configmaps is forbidden: no right to delete"}"#;

/// Starts an HTTP proxy that refuses all deletes, and returns a kubeconfig with its address.
fn refuse_deletes(up: &UpProcess) -> PathBuf {
    let server: SocketAddr = up.server().rsplit('/').next().unwrap().parse().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            thread::spawn(move || serve(client, server));
        }
    });
    let text = std::fs::read_to_string(up.kubeconfig()).unwrap();
    let text = text.replace(&server.to_string(), &address.to_string());
    proxy::write(&up.world.path("refusing"), &text)
}

/// Serves one request and closes the connection.
fn serve(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_lowercase();
    let length = lower.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    if head.starts_with("DELETE ") {
        let length = REFUSAL.len();
        return write!(
            client,
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{REFUSAL}"
        );
    }
    let mut upstream = TcpStream::connect(server)?;
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let own = client.local_addr()?.to_string();
    let head = head.replace(&own, &server.to_string());
    upstream.write_all(head.as_bytes())?;
    upstream.write_all(&body)?;
    io::copy(&mut upstream, &mut client)?;
    Ok(())
}

#[test]
fn explain_repeats_the_last_failure_of_a_running_process() {
    let up = UpProcess::start(&["--controllers=none", "--insecure-http"]);
    let client = HttpClient::of(&up.kubeconfig());
    create_garbage(&client, "a");
    let refusing = refuse_deletes(&up);
    let mut run = RunProcess::start(&up, &refusing, &[]);
    let line = run
        .process
        .error_line_with("request failed", Duration::from_secs(30));
    for part in [
        "configmaps default/a",
        "delete",
        "403",
        "no right to delete",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let explain_at = |kubeconfig: &Path, flags: &[&str]| {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let line = ["explain", "cm/a", "--kubeconfig", kubeconfig];
        up.world.caretaker(&[&line, flags].concat()).end()
    };
    let explain = |flags: &[&str]| explain_at(&up.kubeconfig(), flags);
    let admin = run.kubeconfig.to_str().unwrap();
    let ended = explain(&["--admin-kubeconfig", admin]);
    let expected =
        "\nLast failure: delete of configmaps default/a by garbage-collector-controller at ";
    assert!(ended.stdout.contains(expected), "{ended:?}");
    let reason = " was answered with 403: configmaps is forbidden: no right to delete";
    assert!(ended.stdout.contains(reason), "{ended:?}");
    let ended = explain(&["--admin-kubeconfig", admin, "-o", "json"]);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["failures"][0]["code"], 403, "{json}");
    // A process for the same API server is found by itself; one for another server is not asked.
    let ended = explain_at(&refusing, &[]);
    assert!(ended.stdout.contains(expected), "{ended:?}");
    let ended = explain(&[]);
    assert!(!ended.stdout.contains("Last failure"), "{ended:?}");

    // A process that has ended cannot be asked; the rest of the explanation is printed.
    let copy = up.world.path("admin");
    std::fs::copy(&run.kubeconfig, &copy).unwrap();
    run.process.signal(rustix::process::Signal::TERM);
    run.process.end();
    let ended = explain(&["--admin-kubeconfig", copy.to_str().unwrap()]);
    assert!(ended.stderr.contains("cannot be asked"), "{ended:?}");
    assert!(
        ended.code == 0 && ended.stdout.contains("Verdict: "),
        "{ended:?}"
    );
}
