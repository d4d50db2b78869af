//! The command lines of the three programs and how each tells that it is ready.
//!
//! Where a flag differs from what kubeadm would give, the reason stands beside it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::certs::{Files, Identity};
use super::state::Role;
use crate::http::Client;

/// etcd alone is up in well under a second; a disk busy with a build can hold its first fsync up.
pub(crate) const ETCD_PATIENCE: Duration = Duration::from_secs(60);
/// kube-apiserver takes five to ten seconds on two cores.
pub(crate) const APISERVER_PATIENCE: Duration = Duration::from_secs(180);
/// kube-controller-manager answers as soon as it serves.
pub(crate) const CONTROLLER_MANAGER_PATIENCE: Duration = Duration::from_secs(60);
/// What etcd writes once it serves. Its own log, and not its port, because the port may be a stranger's.
const ETCD_READY: &str = "ready to serve client requests";
/// What every one of them writes when somebody else was quicker to take the port.
const PORT_TAKEN: &str = "address already in use";
/// What every one of them writes when the disk is full.
const NO_ROOM: &str = "no space left on device";

/// The loopback ports of one attempt to start an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peers: u16,
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
}

/// Why a program ended early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Somebody else listens on its port; the line that says so.
    PortTaken(String),
    /// The disk is full.
    NoRoom,
    /// Whatever stands at the end of its log.
    Other,
}

/// What is added to the command lines by whoever starts an instance.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Flags of kube-apiserver; they come last and so override ours.
    pub apiserver_flags: Vec<String>,
    /// The value of kube-controller-manager's `--controllers`; without it none is started.
    pub controllers: Option<String>,
    /// Flags of kube-controller-manager: `--kube-api-qps`, workers and the like.
    pub controller_manager_flags: Vec<String>,
}

// === impl Ports ===

impl Ports {
    /// Ports that nobody listens on now. Somebody may in a moment; [`cause`] tells.
    pub(crate) fn free() -> Result<Self> {
        // All are held until the last is chosen, so that they differ.
        let listeners = (0..4)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<Result<Vec<_>, _>>()
            .context("no free port on 127.0.0.1")?;
        let mut ports = listeners
            .iter()
            .filter_map(|listener| Some(listener.local_addr().ok()?.port()));
        let mut next = || ports.next().context("a listener has no port");
        Ok(Self {
            etcd: next()?,
            etcd_peers: next()?,
            apiserver: next()?,
            controller_manager: next()?,
        })
    }

    pub(crate) fn of(&self, role: Role) -> u16 {
        match role {
            Role::Etcd => self.etcd,
            Role::Apiserver => self.apiserver,
            Role::ControllerManager => self.controller_manager,
        }
    }

    pub(crate) fn set(&mut self, role: Role, port: u16) {
        match role {
            Role::Etcd => self.etcd = port,
            Role::Apiserver => self.apiserver = port,
            Role::ControllerManager => self.controller_manager = port,
        }
    }
}

/// The arguments of a program.
pub(crate) fn args(role: Role, dir: &Path, ports: Ports, options: &Options) -> Vec<String> {
    match role {
        Role::Etcd => etcd(dir, ports),
        Role::Apiserver => [apiserver(dir, ports), options.apiserver_flags.clone()].concat(),
        Role::ControllerManager => {
            let controllers = options.controllers.clone().unwrap_or_default();
            [
                controller_manager(dir, ports, &controllers),
                options.controller_manager_flags.clone(),
            ]
            .concat()
        }
    }
}

/// Asks whether a program is ready; the answer is for this moment.
pub(crate) fn is_ready(role: Role, dir: &Path, ports: Ports) -> Result<Box<dyn FnMut() -> bool>> {
    if role == Role::Etcd {
        let log = role.log(dir);
        return Ok(Box::new(move || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains(ETCD_READY))
        }));
    }
    // Each instance has its own authority, so a stranger on this port is not mistaken for ours.
    let files = Files(dir);
    let ca = fs::read_to_string(files.ca()).context("the instance has no certificate authority")?;
    // kube-apiserver may have been told to know no anonymous users.
    let token = match role {
        Role::Apiserver => Some(files.token(Identity::Admin)?),
        Role::Etcd | Role::ControllerManager => None,
    };
    let url = format!("https://127.0.0.1:{}", ports.of(role));
    let client = Client::new(&url, &ca, token.as_deref())?;
    let path = if role == Role::Apiserver {
        "/readyz"
    } else {
        "/healthz"
    };
    Ok(Box::new(move || client.is_ok(path)))
}

/// How long a program may take to be ready.
pub(crate) fn patience(role: Role) -> Duration {
    match role {
        Role::Etcd => ETCD_PATIENCE,
        Role::Apiserver => APISERVER_PATIENCE,
        Role::ControllerManager => CONTROLLER_MANAGER_PATIENCE,
    }
}

/// Why a program ended before it was ready, as far as its log tells.
pub(crate) fn cause(log: &Path) -> Cause {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if text.contains(NO_ROOM) {
        return Cause::NoRoom;
    }
    let line = text.lines().find(|line| line.contains(PORT_TAKEN));
    line.map_or(Cause::Other, |line| Cause::PortTaken(line.to_owned()))
}

fn etcd(dir: &Path, ports: Ports) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{}", ports.etcd);
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peers);
    vec![
        "--name=oracle".to_owned(),
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=oracle={peers}"),
        "--log-outputs=stderr".to_owned(),
    ]
}

fn apiserver(dir: &Path, ports: Ports) -> Vec<String> {
    let files = Files(dir);
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.apiserver),
        // A machine without a network has no other address, and endpoints may not be loopback: so none are kept.
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--cert-dir={}", dir.display()),
        format!("--tls-cert-file={}", files.server_cert().display()),
        format!("--tls-private-key-file={}", files.server_key().display()),
        format!("--token-auth-file={}", files.tokens().display()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            files.service_account_public_key().display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            files.service_account_key().display()
        ),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--allow-privileged=true".to_owned(),
        // Pods without service accounts, and nodes without taints: nothing here makes the former or removes the latter.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition".to_owned(),
    ]
}

fn controller_manager(dir: &Path, ports: Ports, controllers: &str) -> Vec<String> {
    let files = Files(dir);
    // Not the one in system:masters: Priority and Fairness has to apply to it as to anyone it is compared with.
    let kubeconfig = files.kubeconfig(Identity::Ordinary);
    vec![
        format!("--controllers={controllers}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--authentication-kubeconfig={}", kubeconfig.display()),
        format!("--authorization-kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.controller_manager),
        format!("--tls-cert-file={}", files.server_cert().display()),
        format!("--tls-private-key-file={}", files.server_key().display()),
        format!("--root-ca-file={}", files.ca().display()),
        format!(
            "--service-account-private-key-file={}",
            files.service_account_key().display()
        ),
        // Nobody comes with a client certificate, so the server publishes no authority to look up.
        "--authentication-skip-lookup=true".to_owned(),
        // There is only one of it.
        "--leader-elect=false".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_one_attempt_differ() {
        let ports = Ports::free().unwrap();
        let mut all = [
            ports.etcd,
            ports.etcd_peers,
            ports.apiserver,
            ports.controller_manager,
        ];
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    }

    #[test]
    fn flags_of_the_caller_come_last() {
        let options = Options {
            apiserver_flags: vec!["--v=4".to_owned()],
            controllers: Some("garbage-collector-controller".to_owned()),
            controller_manager_flags: vec!["--kube-api-qps=50".to_owned()],
        };
        let ports = Ports {
            etcd: 1,
            etcd_peers: 2,
            apiserver: 3,
            controller_manager: 4,
        };
        let of = |role| args(role, Path::new("/x"), ports, &options);
        assert_eq!(of(Role::Apiserver).last().unwrap(), "--v=4");
        assert_eq!(
            of(Role::ControllerManager).last().unwrap(),
            "--kube-api-qps=50"
        );
        assert!(
            of(Role::ControllerManager)
                .contains(&"--controllers=garbage-collector-controller".to_owned())
        );
        assert!(of(Role::Apiserver).contains(&"--etcd-servers=http://127.0.0.1:1".to_owned()));
    }

    #[test]
    fn the_cause_of_an_early_end_is_read_from_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(cause(&log), Cause::Other);
        let taken = "listen tcp 127.0.0.1:1: bind: address already in use";
        let table = [
            (
                format!("starting\n{taken}\nbye\n"),
                Cause::PortTaken(taken.to_owned()),
            ),
            (
                "write wal: no space left on device".to_owned(),
                Cause::NoRoom,
            ),
            ("unknown flag: --x".to_owned(), Cause::Other),
        ];
        for (text, expected) in table {
            fs::write(&log, &text).unwrap();
            assert_eq!(cause(&log), expected, "{text}");
        }
    }
}
