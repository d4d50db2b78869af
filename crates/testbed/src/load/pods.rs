//! Pods that Pod GC has to remove: terminated ones that are too many, or running ones on a Node that does not exist.
//!
//! They are made before the controller starts, and watched while it does: the time is from the first Pod that goes to the
//! last, so that neither rounds nor the quarantine are in it. Any controller may remove them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use http::Method;
use kube::Client;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::following::{list, watch};
use super::{LoadStart, closed_loop, connected, namespace, seconds, send};
use crate::objects::{PODS, mk_pod, with};

/// Pods to make.
#[derive(Args, Clone, Debug)]
pub struct PodLoad {
    /// The namespace of the objects
    pub namespace: String,
    /// The number of objects
    #[arg(long)]
    pub pods: usize,
    /// The Node that they run on and that does not exist; without one they have terminated
    #[arg(long)]
    pub node: Option<String>,
    /// How many make them at once
    #[arg(long)]
    pub clients: usize,
}

/// Pods to wait for.
#[derive(Args, Clone, Debug)]
pub struct PodRemoval {
    /// The namespace of the objects
    pub namespace: String,
    /// How many stay
    #[arg(long)]
    pub left: usize,
    /// How long it may take, in seconds
    #[arg(long, default_value = "600", value_parser = seconds)]
    pub within: Duration,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct RemovalSummary {
    /// Pods that are gone.
    pub count: usize,
    /// From the first that went to the last, in seconds.
    pub secs: f64,
    /// From the start of the watch to the first that went, in seconds.
    pub first_secs: f64,
    /// Requests of this driver, by the verb under which the server counts them.
    pub own_requests: BTreeMap<&'static str, usize>,
    /// Processor time the driver itself took meanwhile, in seconds.
    pub cpu_secs: f64,
}

// === impl PodLoad ===

impl PodLoad {
    /// Makes them; says how many.
    pub async fn plant(&self, kubeconfig: &Path) -> anyhow::Result<usize> {
        let clients = connected(kubeconfig, self.clients.max(1)).await?;
        self.plant_with(&clients).await
    }

    async fn plant_with(&self, clients: &[Client]) -> anyhow::Result<usize> {
        let first = clients.first().context("one client at least")?;
        namespace(first, &self.namespace).await?;
        let make = async |client: &Client, number: usize| self.make(client, number).await;
        closed_loop(clients, 0..self.pods, make).await?;
        Ok(self.pods)
    }

    async fn make(&self, client: &Client, number: usize) -> anyhow::Result<()> {
        let collection = PODS.collection(&self.namespace);
        let name = format!("pod-{number:06}");
        let spec = json!({"automountServiceAccountToken": false, "nodeName": self.node});
        let mut pod = with(mk_pod(&name), json!({ "spec": spec }));
        let made = send(client, Method::POST, &collection, pod.to_string().into()).await?;
        pod = serde_json::from_slice(&made)?;
        let phase = match self.node {
            Some(_) => "Running",
            None => "Succeeded",
        };
        pod["status"]["phase"] = phase.into();
        let path = format!("{collection}/{name}/status");
        send(client, Method::PUT, &path, pod.to_string().into()).await?;
        Ok(())
    }
}

// === impl PodRemoval ===

impl PodRemoval {
    /// Watches until `left` Pods are left.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<RemovalSummary> {
        let clients = connected(kubeconfig, 1).await?;
        let client = clients.first().context("one client")?;
        self.run_with(client).await
    }

    async fn run_with(&self, client: &Client) -> anyhow::Result<RemovalSummary> {
        let path = PODS.collection(&self.namespace);
        let listed = list(client, &path).await?;
        let count = listed.items.len().saturating_sub(self.left);
        let revision = listed.metadata.resource_version;
        let mut events = watch(client, &path, &revision, self.within).await?;
        let started = LoadStart::now();
        let began = Instant::now();
        let (mut first, mut last, mut gone) = (None, began, 0);
        let all = async {
            while gone < count {
                let seen = events.next().await?;
                last = Instant::now();
                for event in seen {
                    match event.r#type.as_str() {
                        "DELETED" => gone += 1,
                        "MODIFIED" | "ADDED" | "BOOKMARK" => {}
                        other => bail!("the watch ended with {other}"),
                    }
                    if gone > 0 {
                        first.get_or_insert(last);
                    }
                }
            }
            anyhow::Ok(())
        };
        let ended = timeout(self.within, all).await;
        ended.with_context(|| format!("{} Pods are still there", count - gone))??;
        let first = first.unwrap_or(began);
        Ok(RemovalSummary {
            count,
            secs: last.saturating_duration_since(first).as_secs_f64(),
            first_secs: first.saturating_duration_since(began).as_secs_f64(),
            own_requests: [("LIST", 1), ("WATCH", 1)].into(),
            cpu_secs: started.measured(count, 0, Vec::new()).cpu_secs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{TERMINATED_PODS_KEPT, Target};

    #[tokio::test(start_paused = true)]
    async fn counts_removed_pods_until_the_stated_number_is_left() {
        for (node, left) in [(Some("gone".to_owned()), 0), (None, TERMINATED_PODS_KEPT)] {
            let target = Target::embedded();
            let clients = vec![target.client().clone(); 2];
            let pods = PodLoad {
                namespace: "pods".to_owned(),
                pods: TERMINATED_PODS_KEPT + 5,
                node,
                clients: 2,
            };
            pods.plant_with(&clients).await.unwrap();
            let removal = PodRemoval {
                namespace: "pods".to_owned(),
                left,
                within: Duration::from_secs(120),
            };
            let start = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                target.controllers(caretaker_controllers::podgc::NAME)
            };
            let (removed, controllers) = tokio::join!(removal.run_with(&clients[0]), start);
            let removed = removed.unwrap();
            assert_eq!(removed.count, pods.pods - left, "{removed:?}");
            assert!(removed.first_secs >= 1.0, "{removed:?}");
            drop(controllers);
        }
    }
}
