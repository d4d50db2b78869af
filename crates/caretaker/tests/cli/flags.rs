//! Command lines that mean nothing: one sentence on stderr, nothing on stdout, exit code 1.

use crate::process::World;

#[test]
fn a_command_line_that_means_nothing_is_refused_with_a_sentence() {
    let cases: &[(&[&str], &str)] = &[
        (&["up", "--data-dir", "d"], "in memory only so far"),
        (
            &["up", "--data-dir", "d", "--ephemeral"],
            "cannot be used with",
        ),
        (
            &["up", "--listen", "6443"],
            "an address with a port is needed",
        ),
        (
            &["up", "--controllers", "nobody"],
            "garbage-collector-controller",
        ),
        (&["up", "--controllers="], "garbage-collector-controller"),
        (&["up", "--concurrent-gc-syncs=0"], "--concurrent-gc-syncs"),
        (&["up", "--enable-garbage-collector=maybe"], "true or false"),
        (&["up", "--clock-speed=0"], "--clock-speed"),
        (&["up", "--v=much"], "a number is needed"),
        // Only what stands in for the originals takes their flags.
        (&["up", "--cluster-name=kubernetes"], "--cluster-name"),
        (&["up", "-o", "yaml"], "json"),
        (&["up", "-o", "json", "--", "true"], "cannot be used with"),
        (&["up", "true"], "unexpected argument"),
        (&["up", "--listn", "127.0.0.1:0"], "--listen"),
        (
            &[
                "up",
                "--kubeconfig-out",
                "no/such/directory/f",
                "--listen",
                "127.0.0.1:0",
            ],
            "no/such/directory/f",
        ),
        (&["upp"], "up"),
    ];
    for (arguments, expected) in cases {
        let ended = World::new().caretaker(arguments).end();
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
fn flags_for_what_comes_later_are_accepted() {
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
        let ended = World::new().caretaker(&arguments).end();
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{flags:?}");
    }
}

#[test]
fn a_controller_of_somebody_else_is_said_not_to_run() {
    let world = World::new();
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
            .contains("belong to others and do not run here: tokencleaner"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_feature_gate_of_somebody_else_is_said_to_mean_nothing() {
    let gates = "--feature-gates=kube:AllAlpha=true";
    let flags = ["up", "--listen", "127.0.0.1:0", gates, "--", "true"];
    let ended = World::new().caretaker(&flags).end();
    let expected = "caretaker: these feature gates mean nothing here: AllAlpha\n";
    assert_eq!((ended.code, ended.stderr.as_str()), (0, expected));
}

#[test]
fn a_filter_that_cannot_be_read_is_an_error() {
    let world = World::new();
    let mut command = world.command(env!("CARGO_BIN_EXE_caretaker"));
    command.args(["up", "--", "true"]).env("RUST_LOG", "a=b=c");
    let ended = crate::process::Process::start(&mut command).end();
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("RUST_LOG=a=b=c"), "{}", ended.stderr);
}
