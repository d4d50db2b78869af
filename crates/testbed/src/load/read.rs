//! Reading: whole lists, and events that reach many watchers.

use std::path::Path;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use caretaker_apiserver::protobuf;
use clap::Args;
use futures::future::try_join_all;
use futures::{StreamExt as _, try_join};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;

use super::{
    CreateLoad, LoadStart, LoadSummary, WireFormat, connected, namespace, refuse, send_as,
};

/// Listing all ConfigMaps of a namespace in one answer, several times.
#[derive(Args, Clone, Debug)]
pub struct ListLoad {
    /// The namespace of the ConfigMaps
    pub namespace: String,
    /// The number of lists
    #[arg(long)]
    pub times: usize,
    /// The form of the lists
    #[arg(long, value_enum, default_value_t)]
    pub format: WireFormat,
}

/// Watchers of one namespace, and objects created there meanwhile.
#[derive(Args, Clone, Debug)]
pub struct WatchLoad {
    /// How many watch, each on a connection of its own
    #[arg(long)]
    pub watchers: usize,
    /// Where, and what is created; the namespace must be empty
    #[command(flatten)]
    pub creates: CreateLoad,
}

/// As much of a list as counting takes.
#[derive(Deserialize)]
struct ItemCount {
    items: Vec<IgnoredAny>,
}

/// The number of items of a list.
fn items(format: WireFormat, list: &[u8]) -> anyhow::Result<usize> {
    let list: ItemCount = match format {
        WireFormat::Json => serde_json::from_slice(list)?,
        WireFormat::Protobuf => serde_json::from_value(protobuf::decode(list)?)?,
    };
    Ok(list.items.len())
}

// === impl ListLoad ===

impl ListLoad {
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<LoadSummary> {
        let clients = connected(kubeconfig, 1).await?;
        let client = clients.first().context("one was asked for")?;
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let (started, mut latencies, mut last) = (LoadStart::now(), Vec::new(), Bytes::new());
        for _ in 0..self.times {
            let sent = Instant::now();
            last = send_as(self.format, client, Method::GET, &path, Bytes::new()).await?;
            latencies.push(sent.elapsed());
        }
        let mut measured = started.measured(0, last.len(), latencies);
        measured.count = items(self.format, &last).context("the list is none")?;
        Ok(measured)
    }
}

// === impl WatchLoad ===

impl WatchLoad {
    /// Starts the watchers, creates the objects and waits until every watcher has seen every one of them. Of the answer
    /// `secs` is for all events, the percentiles are those of the creates.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<LoadSummary> {
        let watchers = connected(kubeconfig, self.watchers).await?;
        let writers = connected(kubeconfig, self.creates.clients).await?;
        if let Some(first) = writers.first() {
            namespace(first, &self.creates.namespace).await?;
        }
        let streams = try_join_all(watchers.iter().map(|client| self.watch(client))).await?;
        let started = LoadStart::now();
        let seen = try_join_all(streams.into_iter().map(|body| self.read(body)));
        let (created, seen) = try_join!(self.creates.run_with(&writers), seen)?;
        let events = started.measured(seen.iter().sum(), 0, Vec::new());
        Ok(LoadSummary {
            p50_secs: created.p50_secs,
            p99_secs: created.p99_secs,
            ..events
        })
    }

    /// Opens a watch; once it is answered, it shows everything that is created.
    async fn watch(&self, client: &Client) -> anyhow::Result<Body> {
        let path = format!(
            "/api/v1/namespaces/{}/configmaps?watch=true",
            self.creates.namespace
        );
        let request = Request::builder().uri(&path).body(Body::empty())?;
        let (parts, body) = client.send(request).await?.into_parts();
        refuse(parts.status, &path, b"")?;
        Ok(body)
    }

    /// Reads events, a line each, until there were as many as objects are created.
    async fn read(&self, body: Body) -> anyhow::Result<usize> {
        let (mut seen, mut pieces) = (0, body.into_data_stream());
        while seen < self.creates.count {
            let piece = pieces.next().await.context("a watch ended early")??;
            seen += piece.iter().filter(|byte| **byte == b'\n').count();
        }
        ensure!(
            seen == self.creates.count,
            "a watch showed more events than objects were created"
        );
        Ok(seen)
    }
}
