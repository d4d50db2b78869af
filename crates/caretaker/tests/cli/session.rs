//! A server and kubectl commands against it.

use std::path::PathBuf;

use serde_json::Value;

use crate::process::{ProcessExit, TestProcess, UpProcess};

/// A server and its kubeconfig for kubectl.
pub(crate) struct KubectlSession {
    up: UpProcess,
}

// === impl KubectlSession ===

impl KubectlSession {
    /// `None` without kubectl.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(flags: &[&str]) -> Option<Self> {
        has_kubectl().then(|| Self {
            up: UpProcess::start(flags),
        })
    }

    pub(crate) fn stop(self) -> ProcessExit {
        self.up.stop().0
    }

    /// Starts kubectl; `line` is split at spaces, `more` is not.
    pub(crate) fn spawn(&self, line: &str, more: &[&str]) -> TestProcess {
        let mut command = self.up.world.command("kubectl");
        command
            .args(line.split_whitespace())
            .args(more)
            .env("KUBECONFIG", self.up.kubeconfig())
            .env("KUBE_EDITOR", self.up.world.path("editor"));
        let mut process = TestProcess::start(&mut command);
        process.close_input();
        process
    }

    pub(crate) fn run(&self, line: &str, more: &[&str]) -> ProcessExit {
        self.spawn(line, more).end()
    }

    /// The stdout of a command that must succeed.
    pub(crate) fn ok(&self, line: &str) -> String {
        self.ok_with(line, &[])
    }

    pub(crate) fn ok_with(&self, line: &str, more: &[&str]) -> String {
        let ended = self.run(line, more);
        assert_eq!(
            ended.code, 0,
            "kubectl {line} {more:?}: {}{}",
            ended.stdout, ended.stderr
        );
        ended.stdout
    }

    /// The stderr of a command that must fail.
    pub(crate) fn fails(&self, line: &str) -> String {
        let ended = self.run(line, &[]);
        assert_ne!(ended.code, 0, "kubectl {line}: {}", ended.stdout);
        ended.stderr
    }

    /// Asserts the exact stdout of a command.
    pub(crate) fn says(&self, line: &str, expected: &str) {
        assert_eq!(self.ok(line).trim_end(), expected, "kubectl {line}");
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.up.world.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `kubectl <verb> -f` of a text.
    pub(crate) fn with_file(&self, verb: &str, text: &str) -> String {
        let path = self.file("manifest.yaml", text);
        self.ok_with(verb, &["-f", path.to_str().unwrap()])
    }

    /// One field of an object.
    pub(crate) fn field(&self, object: &str, path: &str) -> String {
        let said = self.ok_with(
            &format!("get {object} -o"),
            &[&format!("jsonpath={{{path}}}")],
        );
        said.trim_end().to_owned()
    }

    pub(crate) fn json(&self, object: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("get {object} -o json"))).unwrap()
    }
}

pub(crate) fn has_kubectl() -> bool {
    let found = std::process::Command::new("kubectl").arg("--help").output();
    if found.is_err() {
        println!("skipped: there is no kubectl on this machine");
    }
    found.is_ok()
}
