//! The three programs of an instance: their command lines, their logs, and how each shows that it is ready.
//!
//! A flag that differs from kubeadm's has its reason beside it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::certs::{CA, Identity, IdentityFiles};
use super::processes::log_contains;
use crate::http::HttpClient;

/// etcd logs this once it serves. Its port would not do: another process may listen there.
const ETCD_READY: &str = "ready to serve client requests";

const ETCD_FLAGS: [&str; 8] = [
    "--name=oracle",
    "--data-dir=DIR/etcd",
    "--listen-client-urls=http://ETCD",
    "--advertise-client-urls=http://ETCD",
    "--listen-peer-urls=http://ETCD_PEERS",
    "--initial-advertise-peer-urls=http://ETCD_PEERS",
    "--initial-cluster=oracle=http://ETCD_PEERS",
    "--log-outputs=stderr",
];

const APISERVER_FLAGS: [&str; 16] = [
    "--etcd-servers=http://ETCD",
    "--bind-address=127.0.0.1",
    "--secure-port=APISERVER_PORT",
    // A machine without a network has no other address. Endpoints may not be loopback, so none are kept.
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    "--cert-dir=DIR",
    "--tls-cert-file=DIR/server.crt",
    "--tls-private-key-file=DIR/server.key",
    "--token-auth-file=DIR/tokens.csv",
    "--authorization-mode=RBAC",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--service-account-key-file=DIR/service-account.pub",
    "--service-account-signing-key-file=DIR/service-account.key",
    "--service-cluster-ip-range=10.0.0.0/16",
    "--allow-privileged=true",
    // No controller here makes service accounts or removes the taint of new Nodes.
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
];

// The kubeconfig is not the one in system:masters: Priority and Fairness has to apply to it as to the program it is
// compared with.
const MANAGER_FLAGS: [&str; 12] = [
    "--controllers=LIST",
    "--kubeconfig=DIR/ordinary.kubeconfig",
    "--authentication-kubeconfig=DIR/ordinary.kubeconfig",
    "--authorization-kubeconfig=DIR/ordinary.kubeconfig",
    "--bind-address=127.0.0.1",
    "--secure-port=MANAGER_PORT",
    "--tls-cert-file=DIR/server.crt",
    "--tls-private-key-file=DIR/server.key",
    "--root-ca-file=DIR/ca.crt",
    "--service-account-private-key-file=DIR/service-account.key",
    // No client uses a certificate, so the server publishes no authority to look up.
    "--authentication-skip-lookup=true",
    // There is only one of it.
    "--leader-elect=false",
];

/// A program of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Role {
    Etcd,
    Apiserver,
    ControllerManager,
}

/// The loopback ports of an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerPorts {
    pub(super) etcd: u16,
    pub(super) etcd_peers: u16,
    pub(super) apiserver: u16,
    pub(super) controller_manager: u16,
}

/// Flags that a caller adds to the command lines. They come last and so override ours.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Also start kube-controller-manager with these controllers, comma separated
    #[arg(long, value_name = "LIST")]
    pub controllers: Option<String>,
    /// One more flag for kube-apiserver, as in --apiserver-flag=--v=4; may be repeated
    #[arg(
        long = "apiserver-flag",
        value_name = "FLAG",
        allow_hyphen_values = true
    )]
    pub apiserver_flags: Vec<String>,
    /// Flags for kube-controller-manager, as in -- --kube-api-qps=50 --concurrent-gc-syncs=5
    #[arg(last = true, requires = "controllers")]
    pub controller_manager_flags: Vec<String>,
}

// === impl Role ===

impl Role {
    /// All programs, in the order in which they start.
    pub(crate) const ALL: [Self; 3] = [Self::Etcd, Self::Apiserver, Self::ControllerManager];

    /// The word for it on the command line and in file names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "apiserver",
            Self::ControllerManager => "controller-manager",
        }
    }

    /// The file name of its program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
        }
    }

    /// The file of its output.
    pub(super) fn log(self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.log", self.word()))
    }
}

// === impl ServerPorts ===

impl ServerPorts {
    /// Ports on which no process listens now. Another process may take one before our program does.
    pub(super) fn free() -> Result<Self> {
        // All are held until the last is chosen, so that they differ.
        let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0"));
        let port = |at: usize| {
            let address = listeners[at]
                .as_ref()
                .ok()
                .and_then(|it| it.local_addr().ok());
            address
                .map(|it| it.port())
                .context("no free port on 127.0.0.1")
        };
        Ok(Self {
            etcd: port(0)?,
            etcd_peers: port(1)?,
            apiserver: port(2)?,
            controller_manager: port(3)?,
        })
    }

    /// Chooses other ports for one program.
    pub(super) fn renew(&mut self, role: Role) -> Result<()> {
        let free = Self::free()?;
        match role {
            Role::Etcd => (self.etcd, self.etcd_peers) = (free.etcd, free.etcd_peers),
            Role::Apiserver => self.apiserver = free.apiserver,
            Role::ControllerManager => self.controller_manager = free.controller_manager,
        }
        Ok(())
    }
}

/// The arguments of a program.
pub(super) fn args(role: Role, dir: &Path, ports: ServerPorts, options: &Options) -> Vec<String> {
    let (flags, more): (&[&str], &[String]) = match role {
        Role::Etcd => (&ETCD_FLAGS, &[]),
        Role::Apiserver => (&APISERVER_FLAGS, &options.apiserver_flags),
        Role::ControllerManager => (&MANAGER_FLAGS, &options.controller_manager_flags),
    };
    let at = |port: u16| format!("127.0.0.1:{port}");
    let fill = |flag: &&str| {
        flag.replace("ETCD_PEERS", &at(ports.etcd_peers))
            .replace("ETCD", &at(ports.etcd))
            .replace("APISERVER_PORT", &ports.apiserver.to_string())
            .replace("MANAGER_PORT", &ports.controller_manager.to_string())
            .replace("LIST", options.controllers.as_deref().unwrap_or_default())
            // Last, because a path may contain one of the words.
            .replace("DIR", &dir.display().to_string())
    };
    // Some flags add up when they are repeated: a given flag replaces ours.
    let name = |flag: &str| flag.split('=').next().map(str::to_owned);
    let is_ours = |flag: &&&str| !more.iter().any(|given| name(given) == name(flag));
    let ours = flags.iter().filter(is_ours).map(fill);
    ours.chain(more.iter().cloned()).collect()
}

/// A function that returns whether a program is ready at the moment of the call.
pub(super) fn readiness(
    role: Role,
    dir: &Path,
    ports: ServerPorts,
) -> Result<Box<dyn FnMut() -> bool>> {
    let files = IdentityFiles(dir);
    // Each instance has its own authority, so another server on this port is not mistaken for ours.
    let ca = files.read(CA)?;
    let client = |port: u16, token: Option<&str>| {
        HttpClient::new(&format!("https://127.0.0.1:{port}"), &ca, token)
    };
    let check: Box<dyn FnMut() -> bool> = match role {
        Role::Etcd => {
            let log = role.log(dir);
            Box::new(move || log_contains(&log, ETCD_READY))
        }
        // With a token, because a flag may have turned anonymous requests off.
        Role::Apiserver => {
            let client = client(ports.apiserver, Some(&files.token(Identity::Admin)?))?;
            Box::new(move || client.is_ok("/readyz"))
        }
        Role::ControllerManager => {
            let client = client(ports.controller_manager, None)?;
            Box::new(move || client.is_ok("/healthz"))
        }
    };
    Ok(check)
}

/// The time of a program to become ready.
pub(super) fn patience(role: Role) -> Duration {
    let secs = match role {
        // It is up in well under a second; a disk busy with a build can hold its first fsync up.
        Role::Etcd => 60,
        // It takes five to ten seconds on two cores.
        Role::Apiserver => 180,
        // It answers as soon as it serves.
        Role::ControllerManager => 60,
    };
    Duration::from_secs(secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_renewed() {
        let mut ports = ServerPorts::free().unwrap();
        let before = ports;
        ports.renew(Role::Etcd).unwrap();
        assert_eq!(ports.apiserver, before.apiserver);
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
        let ports = ServerPorts {
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
    fn a_flag_of_the_caller_replaces_ours() {
        let given = "--disable-admission-plugins=TaintNodesByCondition".to_owned();
        let options = Options {
            apiserver_flags: vec![given.clone()],
            ..Options::default()
        };
        let ports = ServerPorts::free().unwrap();
        let args = args(Role::Apiserver, Path::new("/x"), ports, &options);
        let plugins = args.iter().filter(|flag| flag.contains("admission"));
        assert_eq!(plugins.collect::<Vec<_>>(), [&given]);
    }
}
