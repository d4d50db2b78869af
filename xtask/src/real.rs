//! The oracle: a real Kubernetes control plane on loopback ports, started and ended by name.
//!
//! [`Instance::start`] returns a guard that ends its processes and removes its directory when it is dropped;
//! [`Instance::keep`] lets them run on after this command. Conformance runs and benchmarks start their servers here.
//! No state is kept beside the directory: `/proc` shows which of its processes run, so an instance can be ended in any
//! condition. An instance is never upgraded; only [`Instance::restore`] restarts its programs.

mod backup;
pub mod build;
mod certs;
mod instances;
mod processes;
mod programs;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::http::{HttpCall, HttpClient, read_text};
use crate::interrupt;
use certs::IdentityFiles;
use processes::private_file;
use servers::ServerPorts;

pub use backup::RestoreMode;
pub(crate) use build::run_go;
pub use certs::Identity;
pub use instances::{InstanceCondition, InstanceStatus, OracleHome};
pub use processes::ProcessId;
pub(crate) use processes::{POLL, StartOutcome, log_contains, spawn_logged, wait_ready};
pub(crate) use programs::{E2E, GoProgram, HELM, INTEROP, KUBECTL, file_key, manager_line};
pub use servers::{Options, Role};

/// Attempts to start a program, each with other ports, when another process takes one first.
const PORT_ATTEMPTS: usize = 5;
/// A program writes this when another process listens on its port.
const PORT_TAKEN: &str = "address already in use";

/// A running control plane.
#[derive(Debug)]
pub struct Instance {
    home: OracleHome,
    name: String,
    dir: PathBuf,
    ports: ServerPorts,
    /// The processes that this command started and has to wait for.
    children: Vec<(Role, Child)>,
    /// Dropping this value ends the instance.
    is_guard: bool,
}

// === impl Instance ===

impl Instance {
    /// Starts an instance and waits until it is ready. Builds the programs first where they are missing.
    pub fn start(name: &str, options: &Options) -> Result<Self> {
        let home = OracleHome::from_env()?;
        let programs = build::ensure(&home)?;
        let dir = home.reserve(name)?;
        // From here on a failure drops the guard, which removes the directory.
        let mut instance = Self {
            home,
            name: name.to_owned(),
            dir,
            ports: ServerPorts::free()?,
            children: Vec::new(),
            is_guard: true,
        };
        instance.bring_up(&programs, options)?;
        Ok(instance)
    }

    /// Runs `work` on a new instance, whose name begins with `name`, and ends the instance.
    pub fn run<T>(
        name: &str,
        options: &Options,
        work: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let instance = Self::start(&format!("{name}-{}", std::process::id()), options)?;
        let done = work(&instance);
        instance.stop()?;
        done
    }

    /// Opens an instance that another command keeps running.
    pub fn open(name: &str) -> Result<Self> {
        let home = OracleHome::from_env()?;
        let dir = home.existing(name)?;
        match home.condition(name)? {
            InstanceCondition::Running => {}
            other => bail!("{name:?} is {other}; end it with `cargo xtask real down {name}`"),
        }
        let kubeconfig = IdentityFiles(&dir).kubeconfig(Identity::Admin);
        Ok(Self {
            ports: ServerPorts {
                apiserver: port_in(&kubeconfig)?,
                ..ServerPorts::free()?
            },
            home,
            name: name.to_owned(),
            dir,
            children: Vec::new(),
            is_guard: false,
        })
    }

    /// The directory of its certificates, logs and data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The server's address, `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    /// The path of an identity's kubeconfig.
    pub fn kubeconfig(&self, identity: Identity) -> PathBuf {
        self.files().kubeconfig(identity)
    }

    /// The pids of the processes that this command started, in the order of their start.
    pub fn pids(&self) -> Vec<(Role, u32)> {
        let children = self.children.iter();
        children.map(|(role, child)| (*role, child.id())).collect()
    }

    /// An HTTP client of the server.
    pub fn client(&self, identity: Identity) -> Result<HttpClient> {
        let (ca, token) = (self.files().read(certs::CA)?, self.files().token(identity)?);
        HttpClient::new(&self.url(), &ca, Some(&token))
    }

    /// The command line of a kube-controller-manager for this server, for a caller that starts and ends it.
    pub fn controller_manager(&self, options: &Options) -> Result<Vec<String>> {
        let programs = build::ensure(&self.home)?;
        let program = programs.path(Role::ControllerManager).display().to_string();
        let ports = ServerPorts {
            apiserver: self.ports.apiserver,
            ..ServerPorts::free()?
        };
        let args = servers::args(Role::ControllerManager, &self.dir, ports, options);
        Ok(std::iter::once(program).chain(args).collect())
    }

    /// Lets the instance run on when this value, and this process, are gone.
    pub fn keep(mut self) {
        self.is_guard = false;
    }

    /// Ends its processes and removes its directory.
    pub fn stop(mut self) -> Result<()> {
        self.is_guard = false;
        self.clear()
    }

    fn files(&self) -> IdentityFiles<'_> {
        IdentityFiles(&self.dir)
    }

    fn bring_up(&mut self, programs: &build::OraclePrograms, options: &Options) -> Result<()> {
        self.files().create()?;
        self.start_role(Role::Etcd, programs, options)?;
        self.start_role(Role::Apiserver, programs, options)?;
        self.files().create_kubeconfigs(&self.name, &self.url())?;
        self.bind_ordinary()?;
        if options.controllers.is_some() {
            self.start_role(Role::ControllerManager, programs, options)?;
        }
        private_file(&instances::ready_mark(&self.dir)).map(drop)
    }

    fn start_role(
        &mut self,
        role: Role,
        programs: &build::OraclePrograms,
        options: &Options,
    ) -> Result<()> {
        let (program, log) = (programs.path(role), role.log(&self.dir));
        for attempt in 1.. {
            interrupt::check()?;
            let args = servers::args(role, &self.dir, self.ports, options);
            let is_ready = servers::readiness(role, &self.dir, self.ports)?;
            self.children
                .push((role, spawn_logged(&program, &args, &log)?));
            let (_, child) = self.children.last_mut().context("a process was started")?;
            let patience = servers::patience(role);
            let can_retry = || attempt < PORT_ATTEMPTS && log_contains(&log, PORT_TAKEN);
            match wait_ready(child, &log, patience, POLL, is_ready)? {
                StartOutcome::Ready => break,
                StartOutcome::Exited(_) if can_retry() => {
                    self.children.pop();
                    self.ports.renew(role)?;
                }
                StartOutcome::Exited(why) | StartOutcome::TimedOut(why) => {
                    bail!("{} {why}", role.program())
                }
            }
        }
        Ok(())
    }

    /// Gives the ordinary identity full rights the way an administrator would.
    fn bind_ordinary(&self) -> Result<()> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "oracle-ordinary"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Identity::Ordinary.user()}],
        });
        let mut answer = self.client(Identity::Admin)?.send(HttpCall {
            method: "POST",
            path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: Some(binding.to_string().into_bytes()),
            body_timeout: None,
        })?;
        if answer.status() != 201 {
            bail!(
                "the server refused the ClusterRoleBinding of the ordinary identity: {}",
                read_text(&mut answer)?
            );
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        // By their pids, because `/proc` does not show the command line of a process in its first moment.
        let own = self.children.iter().rev();
        let stopped = own
            .filter_map(|(_, child)| ProcessId::of(child.id()))
            .try_for_each(ProcessId::stop);
        for (_, child) in &mut self.children {
            // Reaps it; it has ended, or `stopped` holds the error.
            let _ = child.try_wait();
        }
        stopped?;
        self.home.remove(&self.name)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.is_guard
            && let Err(error) = self.clear()
        {
            eprintln!("cannot end instance {:?}: {error:#}", self.name);
        }
    }
}

/// The port of the server that a kubeconfig of ours names.
fn port_in(kubeconfig: &Path) -> Result<u16> {
    let unreadable = || format!("cannot read {}", kubeconfig.display());
    let text = fs::read_to_string(kubeconfig).with_context(unreadable)?;
    let config: Value = serde_json::from_str(&text).with_context(unreadable)?;
    let server = config["clusters"][0]["cluster"]["server"].as_str();
    server
        .and_then(|url| url.rsplit_once(':')?.1.parse().ok())
        .with_context(|| format!("{} names no server", kubeconfig.display()))
}

#[cfg(test)]
mod test_programs {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    /// A shell under the name of a program, with a directory among its flags.
    pub(super) fn mk_program(name: &str, dir: &Path) -> Child {
        let flag = format!("--data-dir={}/data", dir.display());
        let mut child = Command::new("sh")
            .arg0(name)
            .args(["-c", "echo started; read line", "sh", &flag])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // `spawn` may return before the kernel shows the new command line; it does once the shell has written.
        let mut started = [0; "started".len()];
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut started).unwrap();
        child
    }
}
