//! The sessions of the README: shell commands that run inside `caretaker up`, and what they print.
//!
//! Each session has a fresh server and a fresh working directory. A hidden step prepares or waits; a shown step appears
//! in the transcript with its output. `$` in the shown text is expanded by the shell, as in the command.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::workspace;

/// One session of the README.
pub(super) struct ReadmeSession {
    /// Names the place in the README.
    pub(super) name: &'static str,
    /// The first line of the transcript, which starts the server; empty if the server is not part of the story.
    intro: &'static str,
    /// Flags of `caretaker up`.
    flags: &'static [&'static str],
    steps: &'static [SessionStep],
}

enum SessionStep {
    /// Runs without a trace in the transcript.
    Hidden(&'static str),
    /// Runs, and is shown with its output.
    Shown(&'static str),
}

use SessionStep::{Hidden, Shown};

const CREATE_WEB: &str = "kubectl create deployment web --image=nginx --replicas=2";

const WAIT_FOR_WEB: &str = "kubectl wait --for=condition=Available deployment/web --timeout=30s";

/// A ConfigMap whose owner does not exist.
const CREATE_LOST: &str = r#"kubectl create -f - <<'END'
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  ownerReferences:
    - {apiVersion: apps/v1, kind: Deployment, name: web, uid: 5f6c1b7e-6a04-4c9e-9d5c-0a4c7b6f3d21}
END"#;

pub(super) const SESSIONS: [ReadmeSession; 3] = [
    ReadmeSession {
        name: "developer",
        intro: "caretaker up --simulate-workloads -- sh",
        flags: &["--simulate-workloads"],
        steps: &[
            Shown(CREATE_WEB),
            Hidden(WAIT_FOR_WEB),
            Shown("kubectl get deployments,pods"),
            Shown("kubectl delete deployment web"),
            Hidden("kubectl wait --for=delete pod --all --timeout=30s"),
            Shown("kubectl get replicasets,pods"),
        ],
    },
    ReadmeSession {
        name: "operator",
        intro: "",
        flags: &["--controllers=none"],
        steps: &[
            Hidden(CREATE_LOST),
            Shown("caretaker run --dry-run --secure-port=0"),
        ],
    },
    ReadmeSession {
        name: "deletion",
        intro: "",
        flags: &["--simulate-workloads"],
        steps: &[
            Hidden(CREATE_WEB),
            Hidden(WAIT_FOR_WEB),
            Hidden("rs=$(kubectl get replicasets -o name); rs=rs/${rs#*/}"),
            Shown("caretaker graph deployment/web"),
            Shown("caretaker explain $rs"),
            Shown("kubectl delete deployment web --cascade=orphan"),
            Hidden("kubectl wait --for=delete deployment/web --timeout=30s"),
            Shown("caretaker explain $rs"),
        ],
    },
];

// === impl ReadmeSession ===

impl ReadmeSession {
    /// Runs the session on a server of its own and returns its transcript.
    pub(super) fn run(&self, program: &Path) -> Result<String> {
        let dir = workspace().join("target/picture").join(self.name);
        if dir.exists() {
            fs::remove_dir_all(&dir).context("cannot remove the directory of the last run")?;
        }
        fs::create_dir_all(&dir).context("cannot make a directory for the session")?;
        let bin = program.parent().context("the binary has no directory")?;
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([bin.to_owned()].into_iter().chain(env::split_paths(&path)))?;
        let output = Command::new(program)
            .arg("up")
            .arg("--quiet")
            .args(self.flags)
            .args(["--", "sh", "-c", &self.script()])
            .current_dir(&dir)
            .env("PATH", path)
            .output()
            .context("cannot start caretaker up")?;
        let transcript = fs::read_to_string(dir.join("transcript")).unwrap_or_default();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "session {} failed: {errors}\n{transcript}",
            self.name
        );
        Ok(transcript)
    }

    /// The steps as one shell script that writes the transcript and stops at the first hidden step that fails.
    fn script(&self) -> String {
        let mut script = "exec > transcript 2>&1\n".to_owned();
        if !self.intro.is_empty() {
            script.push_str(&shown(self.intro));
        }
        for step in self.steps {
            match step {
                Hidden(command) => {
                    script.push_str(&format!(
                        "{{ {command}\n}} > hidden 2>&1 || {{ cat hidden; exit 1; }}\n"
                    ));
                }
                Shown(command) if command.starts_with("caretaker run") => {
                    script.push_str(&shown(command));
                    script.push_str(&format!("timeout --signal=INT 5 {command}\n"));
                }
                Shown(command) => {
                    script.push_str(&shown(command));
                    script.push_str(&format!("{command}\n"));
                }
            }
        }
        script.push_str("exit 0\n");
        script
    }
}

fn shown(command: &str) -> String {
    format!("printf '$ %s\\n' \"{command}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_shows_only_the_shown_steps() {
        let session = ReadmeSession {
            name: "x",
            intro: "start",
            flags: &[],
            steps: &[Hidden("prepare"), Shown("look $it")],
        };
        let script = session.script();
        assert!(script.contains("printf '$ %s\\n' \"start\"\n"), "{script}");
        assert!(
            script.contains("printf '$ %s\\n' \"look $it\"\nlook $it\n"),
            "{script}"
        );
        assert!(!script.contains("\"prepare\""), "{script}");
    }
}
