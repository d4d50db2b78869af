//! Saves the store of an instance, and restores it while the clients of the instance keep running.
//!
//! Uses the tools that etcd documents for this: `etcdctl snapshot save` and `etcdutl snapshot restore`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::build::{self, ETCDCTL, ETCDUTL};
use super::{Instance, Options, ProcessId, Role};

/// Added to the revision of the snapshot: more than any store counts between a backup and its restore.
const BUMP: &str = "--bump-revision=1000000000";

/// The revisions of a restored store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMode {
    /// They continue from the snapshot, so clients see them go back.
    Plain,
    /// They continue far above the snapshot, and all earlier ones are compacted, so open watches expire. etcd recommends
    /// this for Kubernetes.
    Bumped,
}

// === impl Instance ===

impl Instance {
    /// Saves the store in a file.
    pub fn save(&self, file: &Path) -> Result<()> {
        let programs = build::ensure(&self.home)?;
        let mut command = Command::new(programs.tool(ETCDCTL));
        command
            .arg(format!("--endpoints=http://127.0.0.1:{}", self.ports.etcd))
            .args(["snapshot", "save"])
            .arg(file);
        run_tool(&mut command)
    }

    /// Stops the API server and etcd, restores the store from a saved file, and starts both on their ports again.
    pub fn restore(&mut self, file: &Path, mode: RestoreMode, options: &Options) -> Result<()> {
        let programs = build::ensure(&self.home)?;
        for role in [Role::Apiserver, Role::Etcd] {
            self.stop_role(role)?;
        }
        let data = self.dir.join("etcd");
        fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
        let peers = format!("http://127.0.0.1:{}", self.ports.etcd_peers);
        let mut command = Command::new(programs.tool(ETCDUTL));
        command
            .args(["snapshot", "restore"])
            .arg(file)
            .arg(format!("--data-dir={}", data.display()))
            .arg("--name=oracle")
            .arg(format!("--initial-cluster=oracle={peers}"))
            .arg(format!("--initial-advertise-peer-urls={peers}"));
        if mode == RestoreMode::Bumped {
            command.args([BUMP, "--mark-compacted"]);
        }
        run_tool(&mut command)?;
        let url = self.url();
        self.start_role(Role::Etcd, &programs, options)?;
        self.start_role(Role::Apiserver, &programs, options)?;
        if self.url() != url {
            bail!("another process took the port of {url} during the restore");
        }
        Ok(())
    }

    fn stop_role(&mut self, role: Role) -> Result<()> {
        let place = self.children.iter().position(|(known, _)| *known == role);
        let place = place.with_context(|| format!("this command started no {}", role.word()))?;
        let (_, mut child) = self.children.remove(place);
        if let Some(id) = ProcessId::of(child.id()) {
            id.stop()?;
        }
        // Reaps it.
        let _ = child.try_wait();
        Ok(())
    }
}

/// Runs a tool of etcd; its output is the error if it fails.
fn run_tool(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed ({}): {}", output.status, errors.trim());
    }
    Ok(())
}
