//! Creating and deleting many ConfigMaps of about one kilobyte with a number of clients at once.

use std::path::Path;

use anyhow::Context as _;
use bytes::Bytes;
use caretaker_apiserver::protobuf;
use clap::Args;
use http::Method;
use kube::Client;

use super::{LoadStart, LoadSummary, WireFormat, closed_loop, connected, namespace, send, send_as};

/// Bytes of an object as it is sent: what a small ConfigMap of an operator has.
const OBJECT_BYTES: usize = 1000;

/// ConfigMaps to create in one namespace, which is made when it is missing.
#[derive(Args, Clone, Debug)]
pub struct CreateLoad {
    /// The namespace of the objects
    pub namespace: String,
    /// The number of the first one, from which its name is made
    #[arg(long, default_value_t = 0)]
    pub first: usize,
    /// How many clients at once
    #[arg(long)]
    pub clients: usize,
    /// How many in all
    #[arg(long)]
    pub count: usize,
    /// The form of the creates
    #[arg(long, value_enum, default_value_t)]
    pub format: WireFormat,
}

/// The same ConfigMaps, deleted by a client that does nothing else: what a collector could at most achieve.
#[derive(Clone, Debug)]
pub struct DeleteLoad(pub CreateLoad);

// === impl CreateLoad ===

impl CreateLoad {
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<LoadSummary> {
        let clients = connected(kubeconfig, self.clients).await?;
        self.run_with(&clients).await
    }

    /// Creates them with clients that are connected.
    pub(super) async fn run_with(&self, clients: &[Client]) -> anyhow::Result<LoadSummary> {
        let first = clients.first().context("a client at least")?;
        namespace(first, &self.namespace).await?;
        let path = self.path();
        let started = LoadStart::now();
        let create = async |client: &Client, number| {
            let body = object_as(self.format, &name(number))?;
            send_as(self.format, client, Method::POST, &path, body)
                .await
                .map(drop)
        };
        let latencies = closed_loop(clients, self.first..self.first + self.count, create).await?;
        Ok(started.measured(latencies.len(), OBJECT_BYTES, latencies))
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }
}

// === impl DeleteLoad ===

impl DeleteLoad {
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<LoadSummary> {
        let clients = connected(kubeconfig, self.0.clients).await?;
        self.run_with(&clients).await
    }

    /// Deletes them with clients that are connected.
    pub(super) async fn run_with(&self, clients: &[Client]) -> anyhow::Result<LoadSummary> {
        let Self(created) = self;
        let collection = created.path();
        let started = LoadStart::now();
        let delete = async |client: &Client, number| {
            let path = format!("{collection}/{}", name(number));
            send(client, Method::DELETE, &path, Bytes::new())
                .await
                .map(drop)
        };
        let numbers = created.first..created.first + created.count;
        let latencies = closed_loop(clients, numbers, delete).await?;
        Ok(started.measured(latencies.len(), 0, latencies))
    }
}

fn name(number: usize) -> String {
    format!("load-{number:06}")
}

fn object(name: &str) -> Bytes {
    let head = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":""#
    );
    let tail = r#""}}"#;
    let text = "x".repeat(OBJECT_BYTES.saturating_sub(head.len() + tail.len()));
    (head + &text + tail).into()
}

fn object_as(format: WireFormat, name: &str) -> anyhow::Result<Bytes> {
    let json = object(name);
    Ok(match format {
        WireFormat::Json => json,
        WireFormat::Protobuf => protobuf::encode(&serde_json::from_slice(&json)?)?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use serde_json::Value;

    #[tokio::test(start_paused = true)]
    async fn what_was_created_is_deleted_again_and_nothing_else() {
        let clients = vec![Target::embedded().client().clone(); 3];
        let creates = |first, count| CreateLoad {
            namespace: "plain".to_owned(),
            first,
            clients: clients.len(),
            count,
            format: match first {
                0 => WireFormat::Json,
                _ => WireFormat::Protobuf,
            },
        };
        assert_eq!(creates(0, 4).run_with(&clients).await.unwrap().count, 4);
        assert_eq!(creates(4, 3).run_with(&clients).await.unwrap().count, 3);
        let deleted = DeleteLoad(creates(2, 5)).run_with(&clients).await.unwrap();
        assert_eq!(deleted.count, 5);
        let path = "/api/v1/namespaces/plain/configmaps";
        let list = send(&clients[0], Method::GET, path, Bytes::new())
            .await
            .unwrap();
        let list: Value = serde_json::from_slice(&list).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let names: Vec<_> = items.map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, ["load-000000", "load-000001"]);
        assert!(DeleteLoad(creates(2, 1)).run_with(&clients).await.is_err());
    }

    #[test]
    fn a_created_config_map_has_the_stated_size() {
        for name in ["a", "load-000001"] {
            let body = object(name);
            assert_eq!(body.len(), OBJECT_BYTES);
            let value: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(
                (&value["kind"], &value["metadata"]["name"]),
                (&"ConfigMap".into(), &name.into())
            );
        }
    }
}
