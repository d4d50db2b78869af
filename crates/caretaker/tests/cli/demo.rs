//! `caretaker demo` as a process: it shows all controllers, exits with 0 and leaves no files behind.

use rustix::process::Signal;

use crate::http::HttpClient;
use crate::process::{TestDirectories, TestProcess};

#[test]
fn the_demo_shows_every_controller_and_exits_with_0() {
    let world = TestDirectories::new();
    let ended = world.caretaker(&["demo"]).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let first = ended.stdout.lines().next().unwrap();
    assert!(first.contains("20 times as fast"), "{first}");
    for expected in [
        "garbage-collector-controller",
        "ttl-after-finished-controller, gc-controller",
        "pod-garbage-collector-controller",
        "cronjob-controller/volcano",
        "cronjob-controller/batch",
        "Background",
        "Foreground",
        "Orphan",
        "requests per object",
    ] {
        assert!(ended.stdout.contains(expected), "{expected}");
    }
    assert!(ended.stdout.is_ascii(), "{}", ended.stdout);
    assert!(!ended.stdout.contains('\x1b'), "colours in a pipe");
    for place in ["run", "tmp", "home"] {
        assert_eq!(world.entries(place), Vec::<String>::new(), "{place}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let world = TestDirectories::new();
    let script = r#"{ "$0" "$@"; echo "ended with $?" >&2; } | head -n 1"#;
    for arguments in [&["demo"][..], &["crds"], &["version"]] {
        let mut shell = world.command("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_caretaker")]);
        let ended = TestProcess::start(shell.args(arguments)).end();
        assert_eq!(ended.stderr, "ended with 0\n", "{arguments:?}");
        assert_eq!(ended.stdout.lines().count(), 1, "{arguments:?}");
    }
}

#[test]
fn demo_keep_serves_the_remaining_objects_until_a_signal() {
    let world = TestDirectories::new();
    let mut demo = world.caretaker(&["demo", "--keep"]);
    let line = demo.line_with("export KUBECONFIG=");
    let kubeconfig = line.trim().strip_prefix("export KUBECONFIG=").unwrap();
    let kubeconfig = std::path::PathBuf::from(kubeconfig);
    demo.line_with("Press Ctrl-C to stop it.");
    let (status, pods) = HttpClient::of(&kubeconfig).get("/api/v1/namespaces/shop/pods");
    let left = pods["items"].as_array().unwrap();
    let owned = left.iter().filter(|pod| {
        let owners = pod["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| !owners.is_empty())
    });
    assert_eq!((status, left.len(), owned.count()), (200, 3, 0), "{pods}");
    demo.signal(Signal::TERM);
    let ended = demo.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert!(!kubeconfig.exists());
}
