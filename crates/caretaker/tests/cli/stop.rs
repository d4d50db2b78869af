//! The stop of `caretaker up`: open watches do not delay it, writes under way are answered, and the user sees it.

use rustix::process::Signal;

use crate::http::HttpClient;
use crate::process::{TestDirectories, UpProcess};
use crate::session::has_kubectl;

/// Logged if a connection did not end by itself.
const CUT_OFF: &str = "closing connections whose requests did not end in time";

#[test]
fn watches_on_both_http_versions_end_by_themselves() {
    let up = UpProcess::start(&["-v"]);
    let client = HttpClient::of(&up.kubeconfig());
    let mut watch = client.watch("/api/v1/namespaces?watch=true");
    assert!(watch.next().unwrap().unwrap().contains("ADDED"));
    // `run` has dozens of watches on HTTP/2 connections.
    let kubeconfig = up.kubeconfig();
    let mut run = up.world.caretaker(&[
        "run",
        "--dry-run",
        "--secure-port=0",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ]);
    run.error_line_with("the graph is complete", std::time::Duration::from_secs(60));

    let (ended, world) = up.stop();
    assert_eq!(ended.code, 0);
    assert!(
        ended.stderr.contains("API server stopped"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains(CUT_OFF), "{}", ended.stderr);
    // The stream ended as a stream ends, not as a broken connection.
    let rest: Vec<String> = watch.collect::<Result<_, _>>().unwrap();
    assert!(rest.len() < 100, "{rest:?}");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 0);
    drop(world);
}

#[test]
fn a_watching_kubectl_does_not_hold_up_the_stop() {
    if !has_kubectl() {
        return;
    }
    let up = UpProcess::start(&["-v"]);
    let mut command = up.world.command("kubectl");
    command.args(["get", "namespaces", "--watch", "-o", "name"]);
    command.env("KUBECONFIG", up.kubeconfig());
    let mut kubectl = crate::process::TestProcess::start(&mut command);
    assert!(kubectl.line().starts_with("namespace/"));
    let (ended, _world) = up.stop();
    assert_eq!(ended.code, 0);
    assert!(!ended.stderr.contains(CUT_OFF), "{}", ended.stderr);
    assert_eq!(kubectl.end().code, 0);
}

#[test]
fn the_last_line_says_that_the_objects_are_gone() {
    for (signal, flags, expected) in [
        (
            Signal::INT,
            &[][..],
            "caretaker: stopped; its objects are gone\n",
        ),
        (
            Signal::TERM,
            &[],
            "caretaker: stopped; its objects are gone\n",
        ),
        (Signal::INT, &["-o", "json"], ""),
    ] {
        let world = TestDirectories::new();
        let arguments = [&["up", "--listen", "127.0.0.1:0"], flags].concat();
        let mut process = world.caretaker(&arguments);
        process.line();
        process.signal(signal);
        let ended = process.end();
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (0, expected),
            "{flags:?}"
        );
    }
}
