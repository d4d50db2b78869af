//! The oracle: a real Kubernetes control plane on loopback ports, started and ended by name.
//!
//! [`Instance::start`] gives a guard that ends its processes and removes its directory when dropped, whatever the
//! reason; [`Instance::keep`] lets it run on after this command. Conformance runs and benchmarks start their servers
//! here as well. What can be said of instances by their names alone, and how they are ended, stands in `instances`.
//! Data is thrown away with the instance: nothing is ever upgraded, moved or restarted.

pub mod build;
mod certs;
mod home;
mod instances;
mod processes;
mod servers;
mod state;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::http::{Call, Client, read_text};
use crate::interrupt;
use home::no_room;
use processes::{Launch, Outcome, wait_ready};
use servers::{Cause, Ports};
use state::{Condition, Process, State};

pub use certs::Identity;
pub use home::Home;
pub use instances::{Summary, down, logs, pick, status};
pub use processes::ProcessId;
pub(crate) use processes::{POLL, tail};
pub use servers::Options;
pub use state::Role;

/// How often a start is repeated with other ports when somebody took one first.
const PORT_ATTEMPTS: usize = 5;
/// What of a log is shown when its program ended early.
const FAILURE_LOG_LINES: usize = 15;

/// A running control plane.
#[derive(Debug)]
pub struct Instance {
    home: Home,
    dir: PathBuf,
    state: State,
    /// Those processes that this one started and has to wait for.
    children: Vec<Child>,
    /// Whether it ends with this value.
    is_guard: bool,
}

// === impl Instance ===

impl Instance {
    /// Starts an instance and waits until it is ready. The programs are built first if that was never done.
    pub fn start(name: &str, options: &Options) -> Result<Self> {
        state::check_name(name)?;
        let home = Home::from_env()?;
        let programs = build::ensure(&home)?.programs;
        let (dir, state) = home.reserve(name, build::kubernetes_version())?;
        // From here on a failure drops the guard, and with it everything made so far.
        let mut instance = Self {
            home,
            dir,
            state,
            children: Vec::new(),
            is_guard: true,
        };
        instance.bring_up(&programs, options)?;
        Ok(instance)
    }

    /// An instance that some other command keeps running.
    pub fn open(name: &str) -> Result<Self> {
        state::check_name(name)?;
        let home = Home::from_env()?;
        let dir = home.instance(name);
        if !dir.exists() {
            bail!("{}", instances::no_such(name));
        }
        let advice = format!("end it with `cargo xtask real down {name}`");
        let state = State::load(&dir)
            .map_err(|error| error.context(format!("{name:?} has no readable state; {advice}")))?;
        match state.condition()? {
            Condition::Running => Ok(Self {
                home,
                dir,
                state,
                children: Vec::new(),
                is_guard: false,
            }),
            Condition::Starting => bail!("{name:?} is still being started: wait a little"),
            Condition::Broken(_) | Condition::Stale => {
                bail!("{name:?} is {}; {advice}", instances::describe(&state)?)
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Where its certificates, logs and data are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The server's address, `https://127.0.0.1:port`.
    pub fn url(&self) -> String {
        let port = self
            .state
            .process(Role::Apiserver)
            .map_or(0, |process| process.port);
        format!("https://127.0.0.1:{port}")
    }

    /// The certificate authority that signed the server's certificate.
    pub fn ca_pem(&self) -> Result<String> {
        let path = self.files().ca();
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The bearer token of an identity.
    pub fn token(&self, identity: Identity) -> Result<String> {
        self.files().token(identity)
    }

    /// The kubeconfig of an identity.
    pub fn kubeconfig(&self, identity: Identity) -> PathBuf {
        self.files().kubeconfig(identity)
    }

    /// The pid of each of its processes, in the order in which they were started.
    pub fn pids(&self) -> Vec<(Role, u32)> {
        self.state
            .processes
            .iter()
            .map(|process| (process.role, process.id.pid))
            .collect()
    }

    /// An HTTP client of the server.
    pub fn client(&self, identity: Identity) -> Result<Client> {
        Client::new(&self.url(), &self.ca_pem()?, Some(&self.token(identity)?))
    }

    /// The command line of a kube-controller-manager for this server, for whoever starts and ends one by himself.
    pub fn controller_manager(&self, options: &Options) -> Result<Vec<String>> {
        let programs = build::ensure(&self.home)?.programs;
        let program = programs.path(Role::ControllerManager).display().to_string();
        let args = servers::args(Role::ControllerManager, &self.dir, self.ports()?, options);
        Ok(std::iter::once(program).chain(args).collect())
    }

    /// Lets it run on when this value, and this process, are gone.
    pub fn keep(mut self) {
        self.is_guard = false;
    }

    /// Ends its processes and removes its directory.
    pub fn stop(mut self) -> Result<()> {
        self.is_guard = false;
        self.clear()
    }

    fn files(&self) -> certs::Files<'_> {
        certs::Files(&self.dir)
    }

    fn bring_up(&mut self, programs: &build::Programs, options: &Options) -> Result<()> {
        self.files().create()?;
        self.start_role(Role::Etcd, programs, options)?;
        self.start_role(Role::Apiserver, programs, options)?;
        self.files()
            .create_kubeconfigs(&self.state.name, &self.url())?;
        self.bind_ordinary()?;
        if options.controllers.is_some() {
            self.start_role(Role::ControllerManager, programs, options)?;
        }
        self.state.starter = None;
        self.state.save(&self.dir)
    }

    fn start_role(
        &mut self,
        role: Role,
        programs: &build::Programs,
        options: &Options,
    ) -> Result<()> {
        let (program, log) = (role.program(), role.log(&self.dir));
        let mut refused = String::new();
        for _ in 0..PORT_ATTEMPTS {
            let ports = self.ports()?;
            let args = servers::args(role, &self.dir, ports, options);
            let mut ready = servers::is_ready(role, &self.dir, ports)?;
            let launch = Launch {
                program: programs.path(role),
                args,
                log: log.clone(),
            };
            self.launch(role, &launch, ports.of(role))?;
            let child = self
                .children
                .last_mut()
                .context("a process was just started")?;
            let outcome = wait_ready(child, servers::patience(role), &mut ready)?;
            let last_words = || processes::tail(&log, FAILURE_LOG_LINES);
            match (outcome, servers::cause(&log)) {
                (Outcome::Ready, _) => return Ok(()),
                (Outcome::TimedOut, _) => {
                    let secs = servers::patience(role).as_secs();
                    bail!(
                        "{program} was not ready after {secs} s; its last words:\n{}",
                        last_words()
                    )
                }
                (Outcome::Exited(_), Cause::PortTaken(line)) => {
                    refused = line;
                    self.children.pop();
                    self.state.processes.pop();
                }
                (Outcome::Exited(_), Cause::NoRoom) => {
                    return Err(no_room(io::ErrorKind::StorageFull.into(), &self.dir));
                }
                (Outcome::Exited(status), Cause::Other) => {
                    bail!(
                        "{program} ended before it was ready, with {status}; its last words:\n{}",
                        last_words()
                    )
                }
            }
        }
        bail!(
            "{program} found its port taken {PORT_ATTEMPTS} times; end what listens there, or try again: {refused}"
        )
    }

    fn launch(&mut self, role: Role, launch: &Launch, port: u16) -> Result<()> {
        interrupt::check()?;
        let child = launch.spawn()?;
        let pid = child.id();
        self.children.push(child);
        // One that is gone already gets a start time that no process has.
        let id = ProcessId::of(pid).unwrap_or(ProcessId {
            pid,
            start_ticks: 0,
        });
        self.state.processes.push(Process { role, id, port });
        self.state.save(&self.dir)
    }

    /// Free ports, except that a process that already runs keeps its own.
    fn ports(&self) -> Result<Ports> {
        let mut ports = Ports::free()?;
        for process in &self.state.processes {
            ports.set(process.role, process.port);
        }
        Ok(ports)
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
        let mut answer = self.client(Identity::Admin)?.send(Call {
            method: "POST",
            path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: Some(binding.to_string().into_bytes()),
            body_timeout: None,
        })?;
        if answer.status() != 201 {
            bail!(
                "the server refused rights to the ordinary identity: {}",
                read_text(&mut answer)?
            );
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        let stopped = instances::clear(&self.home, &self.state);
        for child in &mut self.children {
            // Reaps it; it has ended, or `stopped` says that it could not be ended.
            let _ = child.try_wait();
        }
        stopped
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if self.is_guard
            && let Err(error) = self.clear()
        {
            eprintln!("clearing away instance {:?}: {error:#}", self.state.name);
        }
    }
}
