//! A list and the watch behind it, of metadata only: how a driver sees what controllers do.

use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::de::IgnoredAny;
use serde::{Deserialize, de::DeserializeOwned};

use super::refuse;

/// The kinds of answer that hold metadata only.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// What there is, and at which version of the collection.
#[derive(Deserialize)]
pub(super) struct Listed {
    pub(super) metadata: ListMeta,
    pub(super) items: Vec<Partial>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
}

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct Event {
    pub(super) r#type: String,
    pub(super) object: Partial,
}

/// As much of an object as is asked about here; an error event has no metadata of this kind.
#[derive(Deserialize)]
pub(super) struct Partial {
    #[serde(default)]
    pub(super) metadata: PartialMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PartialMeta {
    pub(super) name: String,
    pub(super) owner_references: Vec<IgnoredAny>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
}

/// The events of a watch, as they come.
pub(super) struct Events {
    pieces: BoxStream<'static, anyhow::Result<bytes::Bytes>>,
    unread: Vec<u8>,
}

/// Lists a collection.
pub(super) async fn list(client: &Client, path: &str) -> anyhow::Result<Listed> {
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
) -> anyhow::Result<Events> {
    let secs = length.as_secs() + 1;
    let path = format!("{path}?watch=true&resourceVersion={revision}&timeoutSeconds={secs}");
    let body = open(client, &path, METADATA).await?;
    let pieces = body.into_data_stream();
    Ok(Events {
        pieces: pieces.map(|piece| Ok(piece?)).boxed(),
        unread: Vec::new(),
    })
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

// === impl Events ===

impl Events {
    /// The events that came together, at least one piece of them.
    pub(super) async fn next(&mut self) -> anyhow::Result<Vec<Event>> {
        let piece = self
            .pieces
            .next()
            .await
            .context("the watch ended early")??;
        self.unread.extend_from_slice(&piece);
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.unread.split_off(end + 1);
        let whole = std::mem::replace(&mut self.unread, rest);
        let lines = whole
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        lines
            .map(|line| read(line).context("an event is none"))
            .collect()
    }
}
