//! The two servers that clients are tried on: `caretaker up`, and a real one with the same work done beside it.
//!
//! No kubelet stands behind the real server, so the simulated Nodes and Pods of `caretaker-simulator` run there too
//! (`suites nodes`); kube-controller-manager has the other controllers.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cargo::{Binary, Running};
use crate::conformance::{kept_file, suites};
use crate::embedded::EmbeddedServer;
use crate::real::{Identity, Instance, KUBECTL, Options};

/// The controllers of kube-controller-manager whose work `caretaker up --simulate-workloads` does.
const CONTROLLERS: &str = "clusterrole-aggregation-controller,cronjob-controller,daemonset-controller,\
deployment-controller,disruption-controller,endpoints-controller,endpointslice-controller,\
garbage-collector-controller,job-controller,namespace-controller,pod-garbage-collector-controller,\
replicaset-controller,replicationcontroller-controller,resourcequota-controller,\
root-ca-certificate-publisher-controller,serviceaccount-controller,statefulset-controller,\
ttl-after-finished-controller";

/// A controller makes service accounts here, so Pods get them; nothing removes the taint of new Nodes.
pub(crate) const ADMISSION: &str = "--disable-admission-plugins=TaintNodesByCondition";

/// The name of cluster, user and context in every kubeconfig of a run.
const CONTEXT: &str = "conformance";

/// A server that clients are tried on.
#[derive(Debug)]
pub(crate) struct ComparedServer {
    name: &'static str,
    /// Cluster and user of its administrator.
    cluster: Value,
    user: Value,
    // The guests of a server end before it: fields are dropped in this order.
    _guest: Option<Running>,
    instance: Option<Instance>,
}

// === impl ComparedServer ===

impl ComparedServer {
    /// `caretaker up` with simulated workloads.
    pub(crate) fn ours() -> Result<Self> {
        Self::up(&["--simulate-workloads"])
    }

    /// `caretaker up` with these flags.
    pub(crate) fn up(flags: &[&str]) -> Result<Self> {
        let log = kept_file("up.log")?;
        let log =
            fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let caretaker = Binary::caretaker("dev").build()?;
        let flags: Vec<&str> = flags.iter().copied().chain(["--secure-port=0"]).collect();
        let server = EmbeddedServer::start(&caretaker, &flags, log.into())
            .context("see target/conformance/up.log")?;
        Self::read("embedded", &server.kubeconfig, Some(server.running), None)
    }

    /// A real server with controllers and simulated Nodes.
    pub(crate) fn real() -> Result<Self> {
        let rates = ["--kube-api-qps=200", "--kube-api-burst=400"];
        let options = Options {
            controllers: Some(CONTROLLERS.to_owned()),
            apiserver_flags: vec![ADMISSION.to_owned()],
            controller_manager_flags: rates.map(str::to_owned).to_vec(),
        };
        let suites = suites()?;
        let name = format!("clients-{}", std::process::id());
        let instance = Instance::start(&name, &options)?;
        let kubeconfig = instance.kubeconfig(Identity::Admin);
        let nodes = Running::start(
            Command::new(suites)
                .args(["nodes", "--kubeconfig"])
                .arg(&kubeconfig),
        )?;
        Self::read("real", &kubeconfig, Some(nodes), Some(instance))
    }

    fn read(
        name: &'static str,
        kubeconfig: &Path,
        guest: Option<Running>,
        instance: Option<Instance>,
    ) -> Result<Self> {
        let output = Command::new(KUBECTL.ensure()?)
            .args([
                "config",
                "view",
                "--raw",
                "--minify",
                "--flatten",
                "--output=json",
            ])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .output()
            .context("cannot start kubectl")?;
        let config: Value = serde_json::from_slice(&output.stdout).with_context(|| {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            format!("kubectl cannot read {}: {error}", kubeconfig.display())
        })?;
        Ok(Self {
            name,
            cluster: config["clusters"][0]["cluster"].clone(),
            user: config["users"][0]["user"].clone(),
            _guest: guest,
            instance,
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Writes a kubeconfig that differs from another server's only in address and secrets.
    pub(crate) fn write_kubeconfig(&self, file: &Path, namespace: &str) -> Result<()> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": CONTEXT,
            "clusters": [{"name": CONTEXT, "cluster": self.cluster}],
            "users": [{"name": CONTEXT, "user": self.user}],
            "contexts": [{"name": CONTEXT, "context":
                {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}}],
        });
        fs::write(file, config.to_string())
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Ends it and its guests; an error if something stays behind.
    pub(crate) fn stop(self) -> Result<()> {
        drop(self._guest);
        self.instance.map_or(Ok(()), Instance::stop)
    }
}
