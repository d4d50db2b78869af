//! Invalid command lines: one sentence on stderr, nothing on stdout, exit code 1. Flags without effect: a warning.

use crate::process::TestDirectories;

/// Command lines, and a part of the sentence that answers each.
const INVALID: &[(&[&str], &str)] = &[
    (&["up", "--data-dir", "d"], "in memory only"),
    (
        &["up", "--data-dir", "d", "--ephemeral"],
        "cannot be used with",
    ),
    (
        &["up", "--listen", "6443"],
        "expected an IP address with or without a port",
    ),
    (
        &["up", "--controllers", "unknown"],
        "garbage-collector-controller",
    ),
    (&["up", "--controllers="], "garbage-collector-controller"),
    (&["up", "--concurrent-gc-syncs=0"], "--concurrent-gc-syncs"),
    (&["up", "--enable-garbage-collector=maybe"], "true or false"),
    (
        &["up", "--clock-speed=0"],
        "expected a whole number from 1 to 4294967295",
    ),
    (&["up", "--v=much"], "expected a number"),
    // Only `run` accepts the other flags of upstream.
    (&["up", "--cluster-name=kubernetes"], "--cluster-name"),
    (&["up", "-o", "yaml"], "json"),
    (
        &["up", "true"],
        "a command comes after --, as in: caretaker up -- true",
    ),
    (
        &["schedule", "next", "30", "2", "*", "*", "*"],
        "caretaker schedule next '30 2 * * *'",
    ),
    (
        &["schedule", "next", "@daily", "--time-zone=Europe/Berln"],
        "did you mean Europe/Berlin?",
    ),
    (&["graph", "pods"], "pods needs a name: pods/NAME"),
    (&["up", "--name", "6443"], "beginning with a letter"),
    (
        &["up", "--tls-san", "https://a"],
        "expected an IP address or a DNS name",
    ),
    (&["up", "-f", "no/such/file"], "cannot read no/such/file: "),
    (&["up", "--listn", "127.0.0.1:0"], "--listen"),
    (
        &[
            "up",
            "--kubeconfig-out",
            "no/such/directory/f",
            "--listen",
            "127.0.0.1:0",
        ],
        "no/such/directory/f: the directory ",
    ),
    (&["upp"], "up"),
];

#[test]
fn an_invalid_command_line_fails_with_a_sentence() {
    for (arguments, expected) in INVALID {
        let ended = TestDirectories::new().caretaker(arguments).end();
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (1, ""),
            "{arguments:?}"
        );
        assert!(
            ended.stderr.contains(expected),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn controller_flags_are_accepted_without_warnings() {
    let cases: &[&[&str]] = &[
        &["--ephemeral"],
        &["--controllers", "-*"],
        &["--controllers=*,-gc-controller"],
        &["--controllers", "-cronjob-controller,*"],
        &["--controllers=none"],
        &["--controllers=garbagecollector", "--controllers=*"],
        &["--enable-garbage-collector=false"],
        &[
            "--concurrent-gc-syncs",
            "5",
            "--gc-ignored-resources=leases.coordination.k8s.io",
        ],
        &[
            "--concurrent-ttl-after-finished-syncs=1",
            "--ttl-after-aborted=1h",
        ],
        &["--worker-threads-for-gc=1", "--controllers=gc-controller"],
        &["--feature-gates=VolcanoJobSupport=true"],
        &["--secure-port=0", "--quiet", "--quiet=true", "-v=0"],
    ];
    for flags in cases {
        let arguments = [&["up", "--listen", "127.0.0.1:0"], *flags, &["--", "true"]].concat();
        let ended = TestDirectories::new().caretaker(&arguments).end();
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{flags:?}");
    }
}

#[test]
fn an_upstream_only_controller_gives_a_warning() {
    let world = TestDirectories::new();
    let flags = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--controllers",
        "cronjob-controller,tokencleaner",
        "--",
        "true",
    ];
    let ended = world.caretaker(&flags).end();
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .stderr
            .contains("ignoring controllers that caretaker does not have: tokencleaner"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_unknown_feature_gate_gives_a_warning() {
    let gates = "--feature-gates=kube:AllAlpha=true";
    let flags = ["up", "--listen", "127.0.0.1:0", gates, "--", "true"];
    let ended = TestDirectories::new().caretaker(&flags).end();
    let expected = "caretaker: ignoring feature gates without effect: AllAlpha\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (0, expected));
}

#[test]
fn an_invalid_log_filter_is_an_error() {
    let world = TestDirectories::new();
    let mut command = world.command(env!("CARGO_BIN_EXE_caretaker"));
    command.args(["up", "--", "true"]).env("RUST_LOG", "a=b=c");
    let ended = crate::process::TestProcess::start(&mut command).end();
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("RUST_LOG=a=b=c"), "{}", ended.stderr);
}

#[test]
fn every_line_of_a_json_log_parses() {
    let flags = [
        "up",
        "--listen=127.0.0.1:0",
        "--logging-format=json",
        "-v",
        "--feature-gates=AllAlpha=true",
        "--",
        "true",
    ];
    let ended = TestDirectories::new().caretaker(&flags).end();
    assert_eq!(ended.code, 0);
    let lines = ended.stderr.lines();
    let lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    for message in [
        "API server started",
        "ignoring feature gates without effect: AllAlpha",
        "API server stopped",
    ] {
        let line = lines.iter().find(|line| line["message"] == message);
        let line = line.unwrap_or_else(|| panic!("{message}: {}", ended.stderr));
        assert_eq!(line["level"], "INFO", "{line}");
        assert!(line["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn a_text_log_has_plain_lines() {
    let flags = [
        "up",
        "--listen=127.0.0.1:0",
        "--logging-format=text",
        "-v",
        "--",
        "true",
    ];
    let ended = TestDirectories::new().caretaker(&flags).end();
    let line = ended
        .stderr
        .lines()
        .find(|line| line.contains("API server started"));
    assert!(
        line.is_some_and(|line| line.contains(" INFO ")),
        "{}",
        ended.stderr
    );
}
