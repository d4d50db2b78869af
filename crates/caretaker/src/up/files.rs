//! The files by which others find a running `up`: its kubeconfig, that of its admin server, and its entry in the registry
//! of instances. All are removed at its end.

use std::path::Path;
use std::process;

use anyhow::Result;
use caretaker_apiserver::listen::{ApiListener, KUBECONFIG_CONTEXT, KubeconfigFile};

use super::kubeconfig::{self, KubeconfigLocation};
use super::sockets::ServerSockets;
use crate::admin::known;
use crate::args::UpFlags;
use crate::instances::{InstanceClaim, RunningInstance};

/// The name of an instance, which is claimed before anything else starts.
#[derive(Debug)]
pub(super) struct InstanceName {
    /// The name of the user; without one the port is the name.
    given: Option<String>,
    claim: Option<InstanceClaim>,
}

/// The files of one `up`. Dropping the value removes them.
#[derive(Debug)]
pub(super) struct InstanceFiles {
    pub(super) location: KubeconfigLocation,
    pub(super) kubeconfig: KubeconfigFile,
    /// Kept until the end.
    _admin: Option<KubeconfigFile>,
    _claim: Option<InstanceClaim>,
}

// === impl InstanceName ===

impl InstanceName {
    /// Claims the name that the user gave.
    ///
    /// # Errors
    /// If a running instance has the name.
    pub(super) fn claim(given: Option<&str>) -> Result<Self> {
        let claim = given.map(|name| InstanceClaim::new(&kubeconfig::directory(), name));
        Ok(Self {
            given: given.map(str::to_owned),
            claim: claim.transpose()?,
        })
    }

    /// The name of context, cluster and user in the kubeconfig.
    pub(super) fn context(&self) -> String {
        match &self.given {
            Some(name) => format!("{KUBECONFIG_CONTEXT}-{name}"),
            None => KUBECONFIG_CONTEXT.to_owned(),
        }
    }
}

// === impl InstanceFiles ===

impl InstanceFiles {
    /// Writes the files of a server that is ready.
    pub(super) fn write(
        args: &UpFlags,
        name: InstanceName,
        sockets: &ServerSockets,
    ) -> Result<Self> {
        let (api, context) = (&sockets.api, name.context());
        let text = match &name.given {
            Some(name) => name.clone(),
            None => api.address().port().to_string(),
        };
        let location = KubeconfigLocation::choose(
            args.kubeconfig_out.as_deref(),
            &text,
            !args.command.is_empty(),
        )?;
        let kubeconfig = location.write(api.named_kubeconfig(&context))?;
        let admin = sockets.admin.as_ref();
        let admin = admin.and_then(|admin| admin_file(admin, &api.url()));
        let instance = RunningInstance {
            name: text,
            pid: process::id(),
            server: api.url(),
            kubeconfig: kubeconfig.path().to_owned(),
        };
        let claim = match name.claim {
            Some(mut claim) => {
                claim.publish(&instance)?;
                Some(claim)
            }
            None => register(&kubeconfig::directory(), &instance),
        };
        Ok(Self {
            location,
            kubeconfig,
            _admin: admin,
            _claim: claim,
        })
    }
}

/// Adds an instance without a name of its own to the registry. It works without an entry, too.
fn register(directory: &Path, instance: &RunningInstance) -> Option<InstanceClaim> {
    let claimed = InstanceClaim::new(directory, &instance.name).and_then(|mut claim| {
        claim.publish(instance)?;
        Ok(claim)
    });
    claimed
        .inspect_err(|error| tracing::info!(%error, "graph and explain will not find this process"))
        .ok()
}

/// Writes the kubeconfig by which `explain` finds the admin server. Without it `explain` works, too.
fn admin_file(admin: &ApiListener, server: &str) -> Option<KubeconfigFile> {
    let port = admin.url().rsplit(':').next()?.parse().ok()?;
    let path = known::path(&kubeconfig::directory(), port);
    let text = known::marked(&admin.kubeconfig(), server);
    let written = KubeconfigFile::write_private(path, text);
    written
        .inspect_err(|error| tracing::warn!(%error, "explain will not find this process"))
        .ok()
}
