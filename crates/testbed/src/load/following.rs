//! A list and the watch behind it, of metadata only: how a driver sees what controllers do.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use tokio::time::Instant;

use super::refuse;

/// The kinds of answer that hold metadata only.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// What there is, and at which version of the collection.
#[derive(Deserialize)]
pub(super) struct MetadataList {
    pub(super) metadata: ListVersion,
    /// A real server lists nothing as null.
    #[serde(deserialize_with = "or_none")]
    pub(super) items: Vec<MetadataOnly>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListVersion {
    pub(super) resource_version: String,
}

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct WatchLine {
    pub(super) r#type: String,
    pub(super) object: MetadataOnly,
}

/// As much of an object as is asked about here; an error event has no metadata of this kind.
#[derive(Deserialize)]
pub(super) struct MetadataOnly {
    #[serde(default)]
    pub(super) metadata: PartialMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PartialMetadata {
    pub(super) name: String,
    pub(super) resource_version: String,
    pub(super) owner_references: Vec<IgnoredAny>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
}

/// The events of a watch, as they come. A server under load ends watches; another one goes on where the last one ended.
pub(super) struct EventStream {
    client: Client,
    path: String,
    until: Instant,
    revision: String,
    pieces: ByteStream,
    unread: Vec<u8>,
}

type ByteStream = BoxStream<'static, anyhow::Result<bytes::Bytes>>;

/// Lists a collection.
pub(super) async fn list(client: &Client, path: &str) -> anyhow::Result<MetadataList> {
    let body = open(client, path, METADATA_LIST).await?;
    let bytes = body.collect_bytes().await.context("the answer broke off")?;
    read(&bytes).context("the list is none")
}

/// Watches a collection from behind a list, for so long.
pub(super) async fn watch(
    client: &Client,
    path: &str,
    revision: &str,
    length: Duration,
) -> anyhow::Result<EventStream> {
    let until = Instant::now() + length;
    Ok(EventStream {
        pieces: open_watch(client, path, revision, until).await?,
        client: client.clone(),
        path: path.to_owned(),
        until,
        revision: revision.to_owned(),
        unread: Vec::new(),
    })
}

async fn open_watch(
    client: &Client,
    path: &str,
    revision: &str,
    until: Instant,
) -> anyhow::Result<ByteStream> {
    let secs = until.saturating_duration_since(Instant::now()).as_secs() + 1;
    let path = format!("{path}?watch=true&resourceVersion={revision}&timeoutSeconds={secs}");
    let body = open(client, &path, METADATA).await?;
    let pieces = body.into_data_stream();
    Ok(pieces.map(|piece| Ok(piece?)).boxed())
}

async fn open(client: &Client, path: &str, accept: &str) -> anyhow::Result<Body> {
    let request = Request::builder()
        .uri(path)
        .header(http::header::ACCEPT, accept)
        .body(Body::empty())?;
    let (parts, body) = client.send(request).await?.into_parts();
    refuse(parts.status, path, b"")?;
    Ok(body)
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(bytes)
}

// === impl EventStream ===

impl EventStream {
    /// The events that came together, at least one piece of them.
    pub(super) async fn next(&mut self) -> anyhow::Result<Vec<WatchLine>> {
        let Some(Ok(piece)) = self.pieces.next().await else {
            ensure!(Instant::now() < self.until, "the watch ended");
            // Half an event comes again as a whole.
            self.unread.clear();
            self.pieces = open_watch(&self.client, &self.path, &self.revision, self.until).await?;
            return Ok(Vec::new());
        };
        self.unread.extend_from_slice(&piece);
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.unread.split_off(end + 1);
        let whole = std::mem::replace(&mut self.unread, rest);
        let lines = whole
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let events = lines.map(|line| read(line).context("an event is none"));
        let events: Vec<WatchLine> = events.collect::<anyhow::Result<_>>()?;
        let last = events.last().map(|event| &event.object.metadata);
        if let Some(last) = last.filter(|last| !last.resource_version.is_empty()) {
            self.revision.clone_from(&last.resource_version);
        }
        Ok(events)
    }
}

fn or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<MetadataOnly>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
