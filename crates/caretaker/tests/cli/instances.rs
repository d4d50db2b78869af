//! Several `caretaker up` side by side: names, kubeconfigs, and how `graph`, `explain` and `schedule` find them.

use rustix::process::Signal;
use serde_json::Value;

use crate::process::{ProcessExit, TestDirectories, TestProcess};

/// Starts an instance and waits until it is ready.
fn start(world: &TestDirectories, flags: &[&str]) -> (TestProcess, Value) {
    let arguments = [&["up", "-o", "json", "--listen", "127.0.0.1:0"], flags].concat();
    let mut process = world.caretaker(&arguments);
    let line = serde_json::from_str(&process.line()).unwrap();
    (process, line)
}

fn run(world: &TestDirectories, line: &str) -> ProcessExit {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    world.caretaker(&arguments).end()
}

#[test]
fn a_named_instance_has_its_own_kubeconfig_and_context() {
    let world = TestDirectories::new();
    let (shop, line) = start(&world, &["--name", "shop"]);
    let kubeconfig = world.path("run").join("caretaker").join("shop.kubeconfig");
    assert_eq!(line["kubeconfig"], kubeconfig.to_str().unwrap());
    assert_eq!(line["context"], "caretaker-shop");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(config["current-context"], "caretaker-shop");
    assert_eq!(config["users"][0]["name"], "caretaker-shop");

    let refused = run(&world, "up --name shop -- true");
    let server = line["server"].as_str().unwrap();
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    let begin =
        format!("caretaker: an instance with the name \"shop\" runs already at {server}, process ");
    assert!(refused.stderr.starts_with(&begin), "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .ends_with(": stop it, or choose another --name\n"),
        "{}",
        refused.stderr
    );

    shop.signal(Signal::TERM);
    assert_eq!(shop.end().code, 0);
    assert_eq!(world.entries("run/caretaker"), Vec::<String>::new());
    assert_eq!(run(&world, "up --name shop -- true").code, 0);
}

#[test]
fn the_only_instance_is_found_without_a_kubeconfig() {
    let world = TestDirectories::new();
    let commands = ["graph", "explain namespace default", "schedule list"];
    for line in commands {
        let ended = run(&world, line);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{line}");
        let home = world.path("home").join(".kube").join("config");
        let expected = format!(
            "caretaker: there is no kubeconfig: {} does not exist; name one with --kubeconfig, or set KUBECONFIG\n",
            home.display()
        );
        assert_eq!(ended.stderr, expected, "{line}");
    }
    let (_up, up) = start(&world, &[]);
    let server = up["server"].as_str().unwrap();
    let port = server.rsplit(':').next().unwrap();
    let chosen = format!(
        "caretaker: there is no kubeconfig; using the running caretaker up \"{port}\" at {server}\n"
    );
    for line in commands {
        let ended = run(&world, line);
        assert_eq!(ended.code, 0, "{line}: {}", ended.stderr);
        assert!(
            ended.stderr.starts_with(&chosen),
            "{line}: {}",
            ended.stderr
        );
    }
}

#[test]
fn one_of_several_instances_is_chosen_by_name() {
    let world = TestDirectories::new();
    let (shop, shop_line) = start(&world, &["--name", "shop"]);
    let (_lab, lab_line) = start(&world, &["--name", "lab"]);
    let server = |line: &Value| line["server"].as_str().unwrap().to_owned();
    let list = format!("lab ({}), shop ({})", server(&lab_line), server(&shop_line));
    let ended = run(&world, "graph");
    assert_eq!(ended.code, 1);
    let expected = "there is no kubeconfig, and several caretaker up run on this machine: choose one with --name";
    assert_eq!(ended.stderr, format!("caretaker: {expected}: {list}\n"));
    let ended = run(&world, "explain --name lab ns/default");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let ended = run(&world, "graph --name other");
    assert!(
        ended
            .stderr
            .contains(&format!("\"other\" runs on this machine; running: {list}")),
        "{}",
        ended.stderr
    );

    // A process that was killed leaves its file, and is not found.
    shop.signal(Signal::KILL);
    assert_eq!(shop.end().code, 137);
    assert!(
        world
            .entries("run/caretaker")
            .contains(&"shop.instance".to_owned())
    );
    let ended = run(&world, "graph");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("\"lab\""), "{}", ended.stderr);
    assert_eq!(run(&world, "up --name shop -- true").code, 0);
}
