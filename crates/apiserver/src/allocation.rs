//! Cluster IPs and node ports that Services hold.
//!
//! A cluster IP is held by an `IPAddress` of its name, so the store decides which of two Services gets it. Node ports are
//! a [pool](NodePortPool) behind a lock. A write takes what it needs before it is validated, in an [`Allotment`]: its
//! commit gives back what the object no longer needs, its drop gives back what it took. Mirrors
//! `core/service/ipallocator`, `portallocator` and the transactions of `core/service/storage/alloc.go`, 1.36.
//! DEVIATION(service-cidrs): the range of cluster IPs is fixed. Other ServiceCIDRs are stored without effect, and an
//! `IPAddress` that a user deletes is not made again.

mod ports;
mod range;

use std::net::Ipv4Addr;
use std::sync::{MutexGuard, PoisonError};

use serde_json::json;

use crate::metadata::{self, ObjectTree};
use crate::server::ServerState;
use crate::store::{ObjectKey, WriteProposal};
use crate::verbs::write::{self, WriteMode};
pub(crate) use ports::NodePortPool;
pub(crate) use range::{CLUSTER_CIDR, FIRST_CLUSTER_IP};

use ports::PortRefusal;
use range::CLUSTER_IPS;

/// The cluster IP that a dry run shows where a real write would take any: the address of the network, which no Service gets.
const DRY_RUN_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// The node port after which a dry run counts where a real write would take any.
/// It counts on from the highest port that the Service names, if it names one.
const DRY_RUN_PORT: u16 = 32_768;

/// Something that a Service holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceHolding {
    ClusterIp(Ipv4Addr),
    NodePort(u16),
}

/// What one write of a Service takes and gives back.
pub(crate) struct Allotment<'a> {
    server: &'a ServerState,
    mode: WriteMode,
    /// Namespace and name of the Service.
    service: (String, String),
    taken: Vec<ServiceHolding>,
    freed: Vec<ServiceHolding>,
}

/// A cluster IP or node port is not allotted. The texts are the real server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AllotmentRefusal {
    #[error("provided IP is already allocated")]
    IpTaken,
    #[error("the provided network does not match the current range")]
    IpOutOfRange,
    #[error(transparent)]
    Port(#[from] PortRefusal),
    #[error("range is full")]
    RangeFull,
}

// === impl Allotment ===

impl<'a> Allotment<'a> {
    /// An allotment for a Service that has taken nothing yet.
    pub(crate) fn new(server: &'a ServerState, mode: WriteMode, service: &ObjectTree) -> Self {
        let text = |field| metadata::text(service, field).to_owned();
        Self {
            server,
            mode,
            service: (text("namespace"), text("name")),
            taken: Vec::new(),
            freed: Vec::new(),
        }
    }

    /// Takes the cluster IP that a client asks for. As upstream, a dry run does not look whether it is free.
    pub(crate) fn take_ip(&mut self, ip: Ipv4Addr) -> Result<(), AllotmentRefusal> {
        if !CLUSTER_IPS.contains(ip.into()) {
            return Err(AllotmentRefusal::IpOutOfRange);
        }
        if self.mode == WriteMode::Real && !self.hold_ip(ip) {
            return Err(AllotmentRefusal::IpTaken);
        }
        Ok(())
    }

    /// Takes any free cluster IP.
    pub(crate) fn take_any_ip(&mut self) -> Result<Ipv4Addr, AllotmentRefusal> {
        if self.mode == WriteMode::DryRun {
            return Ok(DRY_RUN_IP);
        }
        let mut order = CLUSTER_IPS.order(&mut self.server.rng());
        let free = order.find(|number| self.hold_ip(Ipv4Addr::from(*number)));
        free.map(Ipv4Addr::from).ok_or(AllotmentRefusal::RangeFull)
    }

    /// Takes the node port that a client asks for.
    pub(crate) fn take_port(&mut self, port: i64) -> Result<(), AllotmentRefusal> {
        let mut pool = pool(self.server);
        let port = match self.mode {
            WriteMode::Real => pool.take(port)?,
            WriteMode::DryRun => pool.check(port)?,
        };
        let holding = ServiceHolding::NodePort(port);
        if self.taken.contains(&holding) {
            return Err(PortRefusal::Taken.into());
        }
        self.taken.push(holding);
        Ok(())
    }

    /// Takes any free node port.
    pub(crate) fn take_any_port(&mut self) -> Result<u16, AllotmentRefusal> {
        let port = match self.mode {
            WriteMode::Real => pool(self.server).take_any(&mut self.server.rng()),
            WriteMode::DryRun => {
                let highest = self.taken.iter().filter_map(ServiceHolding::port).max();
                Some(highest.unwrap_or(DRY_RUN_PORT) + 1)
            }
        };
        let port = port.ok_or(AllotmentRefusal::RangeFull)?;
        self.taken.push(ServiceHolding::NodePort(port));
        Ok(port)
    }

    /// Gives something back when the write is committed.
    pub(crate) fn free(&mut self, holding: ServiceHolding) {
        self.freed.push(holding);
    }

    /// Keeps what was taken, and gives back what the written object no longer needs.
    pub(crate) fn commit(mut self) {
        self.taken.clear();
        if self.mode == WriteMode::Real {
            for holding in std::mem::take(&mut self.freed) {
                release(self.server, holding);
            }
        }
    }

    /// Creates the `IPAddress`, unless there is one.
    fn hold_ip(&mut self, ip: Ipv4Addr) -> bool {
        let kind = self.server.builtin("networking.k8s.io", "ipaddresses");
        let key = ObjectKey::new(None, &ip.to_string());
        // Most addresses that a search passes are taken, and a look costs less than a proposal.
        if self.server.store.get(kind.resource, &key).is_some() {
            return false;
        }
        let (namespace, name) = &self.service;
        let mut tree = ObjectTree::new();
        let labels = json!({"ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        let metadata = json!({"name": ip.to_string(), "labels": labels});
        tree.insert("metadata".into(), metadata);
        let parent = json!({"resource": "services", "namespace": namespace, "name": name});
        tree.insert("spec".into(), json!({"parentRef": parent}));
        let now = self.server.clock.now();
        metadata::set_create_fields(&mut tree, now, &mut self.server.rng());
        let held = self.server.store.write(WriteProposal {
            resource: kind.resource,
            expected: None,
            new: Some(write::encode(&kind, &key, &tree)),
            premise: None,
            key,
        });
        if held.is_ok() {
            self.taken.push(ServiceHolding::ClusterIp(ip));
        }
        held.is_ok()
    }
}

impl Drop for Allotment<'_> {
    fn drop(&mut self) {
        if self.mode == WriteMode::Real {
            for holding in std::mem::take(&mut self.taken) {
                release(self.server, holding);
            }
        }
    }
}

// === impl ServiceHolding ===

impl ServiceHolding {
    fn port(&self) -> Option<u16> {
        match self {
            ServiceHolding::NodePort(port) => Some(*port),
            ServiceHolding::ClusterIp(_) => None,
        }
    }
}

/// Makes a cluster IP or node port free for others.
pub(crate) fn release(server: &ServerState, holding: ServiceHolding) {
    match holding {
        ServiceHolding::NodePort(port) => pool(server).release(port),
        ServiceHolding::ClusterIp(ip) => {
            let kind = server.builtin("networking.k8s.io", "ipaddresses");
            let key = ObjectKey::new(None, &ip.to_string());
            // A user may have written it; then the removal is proposed again.
            while let Some(object) = server.store.get(kind.resource, &key) {
                let removed = server.store.write(WriteProposal {
                    resource: kind.resource,
                    key: key.clone(),
                    expected: Some(object.rev),
                    new: None,
                    premise: None,
                });
                if removed.is_ok() {
                    break;
                }
            }
        }
    }
}

fn pool(server: &ServerState) -> MutexGuard<'_, NodePortPool> {
    let pool = server.node_ports.lock();
    pool.unwrap_or_else(PoisonError::into_inner)
}
