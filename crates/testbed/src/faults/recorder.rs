//! Follows all objects of some kinds from the server itself, so that the history is complete however long a run takes.
//!
//! A server keeps its history for a while only, so it is read while the run goes on. These watches meet no fault.

use std::sync::{Mutex, PoisonError};

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::case::CheckResult;
use crate::checkers::{KnownKind, ObjectHistory, StoredObject};

/// Longer than any run.
const WATCH_SECS: u64 = 3_000;

/// The versions of all objects that the server has shown so far.
#[derive(Default)]
pub(super) struct HistoryRecorder(Mutex<Vec<StoredObject>>);

// === impl HistoryRecorder ===

impl HistoryRecorder {
    /// Follows all kinds after a revision; returns with an error if a watch ends.
    pub(super) async fn follow(
        &self,
        client: &Client,
        kinds: &[KnownKind],
        since: u64,
    ) -> CheckResult {
        let watches = kinds.iter().enumerate().map(|(known, kind)| async move {
            let followed = self.follow_kind(client, known, kind, since).await;
            followed.map_err(|error| format!("the watch of {} ended: {error:#}", kind.kind))
        });
        futures::future::try_join_all(watches).await.map(|_| ())
    }

    async fn follow_kind(
        &self,
        client: &Client,
        known: usize,
        kind: &KnownKind,
        since: u64,
    ) -> anyhow::Result<()> {
        let path = kind.resource.everywhere();
        let path = format!("{path}?watch=true&resourceVersion={since}&timeoutSeconds={WATCH_SECS}");
        let response = client
            .send(Request::get(&path).body(Body::empty())?)
            .await?;
        anyhow::ensure!(response.status() == 200, "{path}: {}", response.status());
        let (mut body, mut buffer) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame?.into_data() else {
                continue;
            };
            buffer.extend_from_slice(&bytes);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                self.take(known, &serde_json::from_slice(&line)?)?;
            }
        }
        anyhow::bail!("the server ended it")
    }

    fn take(&self, known: usize, event: &Value) -> anyhow::Result<()> {
        let word = event["type"].as_str().unwrap_or_default();
        anyhow::ensure!(word != "ERROR", "{event}");
        let revision = event["object"]["metadata"]["resourceVersion"].as_str();
        let version = StoredObject {
            revision: revision.unwrap_or_default().parse()?,
            is_gone: word == "DELETED",
            object: event["object"].clone(),
            known,
        };
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(version);
        Ok(())
    }

    pub(super) fn history(&self, kinds: &[KnownKind]) -> ObjectHistory {
        let stored = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ObjectHistory::new(kinds, stored.clone())
    }
}
