//! Owners and their dependents: which objects a cascade is about, and creating them.
//!
//! All of them are ConfigMaps of one namespace. The numbers alone give every name, so the process that
//! deletes and waits need not be the one that created.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::{LoadStart, LoadSummary, closed_loop, connected, namespace, send};

/// How owners and dependents hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FamilyShape {
    /// Every dependent belongs to its owner directly.
    Flat,
    /// The first dependent belongs to the owner, each further one to the one before it.
    Chain,
}

/// Owners with dependents.
#[derive(Args, Clone, Debug)]
pub struct OwnerFamily {
    /// The namespace of the objects
    pub namespace: String,
    /// How they hang together
    #[arg(long)]
    pub shape: FamilyShape,
    /// How many owners
    #[arg(long)]
    pub owners: usize,
    /// How many dependents each of them has
    #[arg(long)]
    pub dependents: usize,
}

/// Creates a family.
#[derive(Args, Clone, Debug)]
pub struct FamilyLoad {
    #[command(flatten)]
    pub family: OwnerFamily,
    /// How many create at once
    #[arg(long)]
    pub clients: usize,
}

// === impl OwnerFamily ===

impl OwnerFamily {
    /// How many dependents there are in all.
    pub fn size(&self) -> usize {
        self.owners * self.dependents
    }

    /// The path of all of them.
    pub(super) fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// The name of an owner.
    pub(super) fn owner(owner: usize) -> String {
        format!("owner-{owner:05}")
    }

    /// The name of a dependent.
    pub(super) fn dependent(owner: usize, dependent: usize) -> String {
        format!("dependent-{owner:05}-{dependent:06}")
    }

    /// The names of all dependents.
    pub(super) fn dependent_names(&self) -> impl Iterator<Item = String> {
        let of = |owner| (0..self.dependents).map(move |number| Self::dependent(owner, number));
        (0..self.owners).flat_map(of)
    }
}

// === impl FamilyLoad ===

impl FamilyLoad {
    /// Creates the family.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<LoadSummary> {
        let clients = connected(kubeconfig, self.clients).await?;
        self.run_with(&clients).await
    }

    /// Creates the family with clients that are connected.
    pub(super) async fn run_with(&self, clients: &[Client]) -> anyhow::Result<LoadSummary> {
        let first = clients.first().context("a client at least")?;
        namespace(first, &self.family.namespace).await?;
        let started = LoadStart::now();
        let latencies = match self.family.shape {
            FamilyShape::Flat => self.fans(clients).await?,
            FamilyShape::Chain => self.chains(clients).await?,
        };
        let count = self.family.size() + self.family.owners;
        Ok(started.measured(count, 0, latencies))
    }

    /// The owners first, then all dependents in any order.
    async fn fans(&self, clients: &[Client]) -> anyhow::Result<Vec<std::time::Duration>> {
        let OwnerFamily {
            owners, dependents, ..
        } = self.family;
        let uids = std::cell::RefCell::new(vec![String::new(); owners]);
        let plant_owner = async |client: &Client, owner: usize| {
            let uid = self
                .create(client, &OwnerFamily::owner(owner), None)
                .await?;
            uids.borrow_mut()[owner] = uid;
            Ok(())
        };
        closed_loop(clients, 0..owners, plant_owner).await?;
        let uids = uids.into_inner();
        let plant_dependent = async |client: &Client, number: usize| {
            let (owner, number) = (number / dependents, number % dependents);
            let name = OwnerFamily::dependent(owner, number);
            let parent = (OwnerFamily::owner(owner), uids[owner].clone());
            self.create(client, &name, Some(&parent)).await.map(drop)
        };
        closed_loop(clients, 0..owners * dependents, plant_dependent).await
    }

    /// One chain by one client at a time: each link has to know the uid of the one before.
    async fn chains(&self, clients: &[Client]) -> anyhow::Result<Vec<std::time::Duration>> {
        let plant_chain = async |client: &Client, owner: usize| {
            let mut name = OwnerFamily::owner(owner);
            let mut uid = self.create(client, &name, None).await?;
            for number in 0..self.family.dependents {
                let parent = (name, uid);
                name = OwnerFamily::dependent(owner, number);
                uid = self.create(client, &name, Some(&parent)).await?;
            }
            Ok(())
        };
        closed_loop(clients, 0..self.family.owners, plant_chain).await
    }

    /// Creates one object, with its owner's name and uid, and answers with its uid.
    async fn create(
        &self,
        client: &Client,
        name: &str,
        owner: Option<&(String, String)>,
    ) -> anyhow::Result<String> {
        let references = owner.map(|(name, uid)| {
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
                    "controller": true, "blockOwnerDeletion": true}])
        });
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": references},
            "data": {"text": "of no importance"},
        });
        let body = Bytes::from(body.to_string());
        let answer = send(client, Method::POST, &self.family.path(), body).await?;
        let created: Value = serde_json::from_slice(&answer).context("no object was answered")?;
        let uid = created["metadata"]["uid"].as_str();
        Ok(uid.context("the object has no uid")?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::target::Target;

    /// Each object's name, and the name of its owner if that is who the uid belongs to.
    async fn owners(shape: FamilyShape) -> BTreeMap<String, String> {
        let clients = vec![Target::embedded().client().clone(); 2];
        let family = OwnerFamily {
            namespace: "family".to_owned(),
            shape,
            owners: 2,
            dependents: 2,
        };
        let path = family.path();
        let plant = FamilyLoad { family, clients: 2 };
        assert_eq!(plant.run_with(&clients).await.unwrap().count, 6);
        let list = send(&clients[0], Method::GET, &path, Bytes::new());
        let list: Value = serde_json::from_slice(&list.await.unwrap()).unwrap();
        let metas = || list["items"].as_array().unwrap().iter();
        let metas = || metas().map(|item| &item["metadata"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        metas()
            .map(|meta| {
                let reference = &meta["ownerReferences"][0];
                let owner = metas().find(|other| other["uid"] == reference["uid"]);
                let owner = owner.map_or(&Value::Null, |owner| &owner["name"]);
                assert_eq!(owner, &reference["name"]);
                (text(&meta["name"]), text(owner))
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_fan_hangs_on_its_owner_and_a_chain_on_the_link_before() {
        let table = [
            (
                FamilyShape::Flat,
                ["owner-00000", "owner-00000", "owner-00001"],
            ),
            (
                FamilyShape::Chain,
                ["owner-00000", "dependent-00000-000000", "owner-00001"],
            ),
        ];
        for (shape, expected) in table {
            let owners = owners(shape).await;
            let of = |owner, number| owners[&OwnerFamily::dependent(owner, number)].as_str();
            assert_eq!([of(0, 0), of(0, 1), of(1, 0)], expected, "{shape:?}");
            assert_eq!(owners["owner-00000"], "", "{shape:?}");
        }
    }
}
