//! `caretaker up -- COMMAND`: the command runs as if started directly.

use rustix::process::Signal;

use crate::process::{ProcessExit, TestDirectories, TestProcess};

fn start(world: &TestDirectories, command: &[&str]) -> TestProcess {
    let arguments = [&["up", "--listen", "127.0.0.1:0", "--"], command].concat();
    world.caretaker(&arguments)
}

fn run(command: &[&str]) -> ProcessExit {
    start(&TestDirectories::new(), command).end()
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let cases: &[(&[&str], i32)] = &[
        (&["true"], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
    ];
    for (command, code) in cases {
        let ended = run(command);
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (*code, ""),
            "{command:?}"
        );
    }
}

#[test]
fn a_command_that_cannot_start_has_the_exit_code_of_a_shell() {
    for (command, code) in [
        ("no-such-command", 127),
        ("./no/such/command", 127),
        ("/", 126),
    ] {
        let ended = run(&[command]);
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{command}");
        let expected = format!("caretaker: cannot run {command}: ");
        assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    }
}

#[test]
fn the_command_has_stdout_and_no_files_remain() {
    let world = TestDirectories::new();
    let script = r#"test -r "$KUBECONFIG" && mkdir -p "$KUBECACHEDIR" && echo "$KUBECONFIG" && cat "$KUBECONFIG""#;
    let ended = start(&world, &["sh", "-c", script]).end();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let (path, kubeconfig) = ended.stdout.split_once('\n').unwrap();
    assert!(
        kubeconfig.contains("server: \"https://127.0.0.1:"),
        "{kubeconfig}"
    );
    assert!(!std::path::Path::new(path).exists());
    // The private directory of the kubeconfigs stays.
    for place in ["run/caretaker", "tmp", "home"] {
        assert_eq!(world.entries(place), Vec::<String>::new(), "{place}");
    }
}

#[test]
fn signals_are_forwarded_and_the_exit_code_counts() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT")] {
        let world = TestDirectories::new();
        // The input stays open, so only the signal ends the command.
        let script = format!("trap 'echo {name}; exit 7' {name}; echo ready; read line");
        let mut process = start(&world, &["sh", "-c", &script]);
        assert_eq!(process.line(), "ready");
        process.signal(signal);
        let ended = process.end();
        assert_eq!((ended.code, ended.stdout), (7, format!("{name}\n")));
        assert_eq!(world.entries("tmp"), Vec::<String>::new());
    }
}

#[test]
fn a_command_that_ignores_a_signal_goes_on() {
    let world = TestDirectories::new();
    let script = "trap 'echo no' TERM; echo ready; while read line; do :; done; exit 4";
    let mut process = start(&world, &["sh", "-c", script]);
    assert_eq!(process.line(), "ready");
    process.signal(Signal::TERM);
    assert_eq!(process.line(), "no");
    process.close_input();
    assert_eq!(process.end().code, 4);
}
