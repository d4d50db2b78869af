//! Deleting owners and waiting, by a watch of metadata, until the cascade is over.
//!
//! Any collector may run. The driver says how long it took and which requests were its own, so that
//! a reader of the server's metrics can subtract them. The clock starts with the first owner's delete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use futures::try_join;
use http::Method;
use kube::Client;
use serde::Serialize;
use tokio::time::timeout;

use super::following::{EventStream, PartialMetadata, WatchLine, list, watch};
use super::{LoadStart, OwnerFamily, closed_loop, connected, seconds, send};

/// Clients that delete owners, at most: enough that the deletes are over before the cascade is.
const DELETERS_MAX: usize = 20;
/// What becomes of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CascadePolicy {
    /// They go after their owner.
    Background,
    /// They go before their owner.
    Foreground,
    /// They stay and lose the reference.
    Orphan,
}

/// A cascade to start and to wait for.
#[derive(Args, Clone, Debug)]
pub struct CascadeLoad {
    #[command(flatten)]
    pub family: OwnerFamily,
    /// What becomes of the dependents
    #[arg(long)]
    pub policy: CascadePolicy,
    /// How long it may take, in seconds
    #[arg(long, default_value = "600", value_parser = seconds)]
    pub within: Duration,
}

/// What came of a cascade.
#[derive(Debug, PartialEq, Serialize)]
pub struct CascadeSummary {
    /// Dependents that went, or lost their reference.
    pub count: usize,
    /// From the first owner's delete until all was as it should be, in seconds.
    pub secs: f64,
    /// From the first owner's delete until the first dependent was done, in seconds.
    pub first_secs: f64,
    /// From the first owner's delete until the last dependent was done, in seconds.
    pub last_secs: f64,
    /// Requests of this driver, by the verb under which the server counts them.
    pub own_requests: BTreeMap<&'static str, usize>,
    /// Processor time the driver itself took meanwhile, in seconds.
    pub cpu_secs: f64,
}

/// The objects that are not yet gone or released.
struct CascadeProgress {
    policy: CascadePolicy,
    owners: BTreeSet<String>,
    dependents: BTreeSet<String>,
    first: Option<Duration>,
    last: Duration,
}

// === impl CascadePolicy ===

impl CascadePolicy {
    fn options(self) -> Bytes {
        let policy = match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        };
        let options = format!(
            r#"{{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"{policy}"}}"#
        );
        options.into()
    }
}

// === impl CascadeLoad ===

impl CascadeLoad {
    /// Deletes the owners and waits.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<CascadeSummary> {
        let deleters = self.family.owners.clamp(1, DELETERS_MAX);
        let clients = connected(kubeconfig, 1 + deleters).await?;
        self.run_with(&clients).await
    }

    /// Deletes the owners with clients that are connected; the first one watches.
    pub(super) async fn run_with(&self, clients: &[Client]) -> anyhow::Result<CascadeSummary> {
        let (watcher, deleters) = clients.split_first().context("two clients at least")?;
        let revision = self.complete_at(watcher).await?;
        let events = watch(watcher, &self.family.path(), &revision, self.within).await?;
        let started = LoadStart::now();
        let mut waiting = CascadeProgress::new(&self.family, self.policy);
        let path = self.family.path();
        let delete = async |client: &Client, owner: usize| {
            let path = format!("{path}/{}", OwnerFamily::owner(owner));
            send(client, Method::DELETE, &path, self.policy.options())
                .await
                .map(drop)
        };
        let deletes = closed_loop(deleters, 0..self.family.owners, delete);
        let both = async { try_join!(deletes, waiting.read(events, &started)).map(drop) };
        let ended = timeout(self.within, both).await;
        let (owners, dependents) = (waiting.owners.len(), waiting.dependents.len());
        ended.with_context(|| {
            format!("after {:?} {owners} owners and {dependents} dependents are not where they should be", self.within)
        })??;
        let measured = started.measured(self.family.size(), 0, Vec::new());
        Ok(CascadeSummary {
            count: measured.count,
            secs: measured.secs,
            first_secs: waiting.first.unwrap_or_default().as_secs_f64(),
            last_secs: waiting.last.as_secs_f64(),
            own_requests: [("DELETE", self.family.owners), ("LIST", 1), ("WATCH", 1)].into(),
            cpu_secs: measured.cpu_secs,
        })
    }

    /// Makes sure that the whole family is there, and says at which version of the collection.
    async fn complete_at(&self, client: &Client) -> anyhow::Result<String> {
        let list = list(client, &self.family.path()).await?;
        let found: BTreeSet<String> = list
            .items
            .into_iter()
            .map(|item| item.metadata.name)
            .collect();
        let owners = (0..self.family.owners).map(OwnerFamily::owner);
        let missing = owners
            .chain(self.family.dependent_names())
            .filter(|name| !found.contains(name))
            .count();
        ensure!(missing == 0, "{missing} objects of the family are missing");
        Ok(list.metadata.resource_version)
    }
}

// === impl CascadeProgress ===

impl CascadeProgress {
    fn new(family: &OwnerFamily, policy: CascadePolicy) -> Self {
        Self {
            policy,
            owners: (0..family.owners).map(OwnerFamily::owner).collect(),
            dependents: family.dependent_names().collect(),
            first: None,
            last: Duration::ZERO,
        }
    }

    fn is_over(&self) -> bool {
        self.owners.is_empty() && self.dependents.is_empty()
    }

    /// Reads events until there is nothing to wait for.
    async fn read(&mut self, mut events: EventStream, started: &LoadStart) -> anyhow::Result<()> {
        while !self.is_over() {
            let seen = events.next().await?;
            let at = started.at.elapsed();
            for event in seen {
                self.note(event, at)?;
            }
        }
        Ok(())
    }

    /// Takes note of one event.
    fn note(&mut self, event: WatchLine, at: Duration) -> anyhow::Result<()> {
        let PartialMetadata {
            name,
            owner_references,
            ..
        } = event.object.metadata;
        let is_orphaned = self.policy == CascadePolicy::Orphan && owner_references.is_empty();
        let is_done = match event.r#type.as_str() {
            "DELETED" if self.owners.remove(&name) => false,
            "DELETED" if self.policy == CascadePolicy::Orphan => {
                bail!("{name} was deleted, although it was to be orphaned")
            }
            "DELETED" => self.dependents.remove(&name),
            "MODIFIED" if is_orphaned => self.dependents.remove(&name),
            "MODIFIED" | "ADDED" | "BOOKMARK" => false,
            other => bail!("the watch ended with {other}"),
        };
        if is_done {
            self.first.get_or_insert(at);
            self.last = at;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use kube::client::Body;

    use super::super::{FamilyLoad, FamilyShape, refuse};
    use super::*;
    use crate::target::Target;

    /// Sleeps are tokio's and tokio's time is paused: no test waits for them.
    const WITHIN: Duration = Duration::from_secs(60);

    fn family() -> OwnerFamily {
        OwnerFamily {
            namespace: "family".to_owned(),
            shape: FamilyShape::Flat,
            owners: 2,
            dependents: 3,
        }
    }

    fn cascade(policy: CascadePolicy) -> CascadeLoad {
        CascadeLoad {
            family: family(),
            policy,
            within: WITHIN,
        }
    }

    async fn planted() -> Vec<Client> {
        let clients = vec![Target::embedded().client().clone(); 3];
        let plant = FamilyLoad {
            family: family(),
            clients: clients.len(),
        };
        plant.run_with(&clients).await.unwrap();
        clients
    }

    /// What a collector does for a policy: one method and body for every dependent, then the owners' finalizers.
    async fn collect(client: &Client, policy: CascadePolicy) -> anyhow::Result<()> {
        let path = family().path();
        tokio::time::sleep(Duration::from_secs(1)).await;
        for name in family().dependent_names() {
            let path = format!("{path}/{name}");
            match policy {
                CascadePolicy::Orphan => unset(client, &path, "ownerReferences").await?,
                CascadePolicy::Background | CascadePolicy::Foreground => {
                    send(client, Method::DELETE, &path, Bytes::new()).await?;
                }
            }
        }
        for owner in (0..family().owners).map(OwnerFamily::owner) {
            if policy != CascadePolicy::Background {
                unset(client, &format!("{path}/{owner}"), "finalizers").await?;
            }
        }
        Ok(())
    }

    async fn unset(client: &Client, path: &str, field: &str) -> anyhow::Result<()> {
        let request = Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(
                format!(r#"{{"metadata":{{"{field}":null}}}}"#).into_bytes(),
            ))?;
        refuse(client.send(request).await?.status(), path, b"")
    }

    #[tokio::test(start_paused = true)]
    async fn a_cascade_is_over_when_every_object_is_where_its_policy_wants_it() {
        for policy in [
            CascadePolicy::Background,
            CascadePolicy::Foreground,
            CascadePolicy::Orphan,
        ] {
            let clients = planted().await;
            let cascade = cascade(policy);
            let both = try_join!(cascade.run_with(&clients), collect(&clients[0], policy));
            let (collected, ()) = both.unwrap();
            assert_eq!(collected.count, 6, "{policy:?}");
            assert_eq!(collected.own_requests["DELETE"], 2, "{policy:?}");
            assert!(collected.first_secs >= 1.0, "{policy:?}");
            assert!(collected.secs >= collected.last_secs, "{policy:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_a_cascade_without_a_collector() {
        let clients = planted().await;
        let error = cascade(CascadePolicy::Background).run_with(&clients).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("0 owners and 6 dependents are not"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_family_that_is_not_complete_is_refused() {
        let clients = planted().await;
        let path = format!("{}/{}", family().path(), OwnerFamily::dependent(1, 2));
        send(&clients[0], Method::DELETE, &path, Bytes::new())
            .await
            .unwrap();
        let error = cascade(CascadePolicy::Background).run_with(&clients).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "1 objects of the family are missing"
        );
    }

    #[test]
    fn an_orphan_that_goes_and_an_error_in_the_watch_are_not_overlooked() {
        let note = |line: &str| {
            let event = serde_json::from_str(line).unwrap();
            let mut waiting = CascadeProgress::new(&family(), CascadePolicy::Orphan);
            waiting
                .note(event, Duration::ZERO)
                .map(|()| waiting.dependents.len())
        };
        let event = |kind: &str, meta: &str| {
            format!(r#"{{"type":"{kind}","object":{{"metadata":{meta}}}}}"#)
        };
        let named = r#"{"name":"dependent-00001-000002"}"#;
        let owned = r#"{"name":"dependent-00001-000002","ownerReferences":[{}]}"#;
        assert_eq!(note(&event("MODIFIED", named)).unwrap(), 5);
        assert_eq!(note(&event("MODIFIED", owned)).unwrap(), 6);
        assert!(note(&event("DELETED", named)).is_err());
        assert!(note(&event("ERROR", "{}")).is_err());
    }
}
