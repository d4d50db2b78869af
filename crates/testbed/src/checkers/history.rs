//! Every version of every object of some kinds, in the order in which the server stored them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::objects::{Resource, Scope};

/// A kind whose objects are followed.
#[derive(Clone, Debug)]
pub struct KnownKind {
    /// Where its objects are.
    pub resource: Resource,
    /// Group and version, as references spell them.
    pub api_version: String,
    /// Its name, as references spell it.
    pub kind: String,
}

/// One version of an object.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// When, on the one scale that all objects share.
    pub revision: u64,
    /// Whether this is its end.
    pub is_gone: bool,
    /// The object; its last state, if it is gone.
    pub object: Value,
    /// Which of the kinds it is.
    pub known: usize,
}

/// What was stored since some revision.
#[derive(Debug, Default)]
pub struct ObjectHistory {
    kinds: Vec<KnownKind>,
    stored: Vec<StoredObject>,
}

// === impl KnownKind ===

impl KnownKind {
    pub fn new(resource: Resource, api_version: &str, kind: &str) -> Self {
        Self {
            resource,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }
}

// === impl StoredObject ===

impl StoredObject {
    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    pub fn is_deleting(&self) -> bool {
        self.object["metadata"]["deletionTimestamp"].is_string()
    }

    pub fn owners(&self) -> &[Value] {
        let owners = self.object["metadata"]["ownerReferences"].as_array();
        owners.map_or(&[], Vec::as_slice)
    }

    pub fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.object["metadata"]["finalizers"].as_array();
        let finalizers = finalizers.into_iter().flatten();
        finalizers.filter_map(Value::as_str).collect()
    }
}

// === impl ObjectHistory ===

impl ObjectHistory {
    /// CreatedObject from versions in any order.
    pub fn new(kinds: &[KnownKind], mut stored: Vec<StoredObject>) -> Self {
        stored.sort_by_key(|version| version.revision);
        Self {
            kinds: kinds.to_vec(),
            stored,
        }
    }

    /// Where history is now.
    pub async fn now(client: &Client) -> anyhow::Result<u64> {
        let list = ask(client, "/api/v1/configmaps?limit=1").await?;
        let list: Value = serde_json::from_slice(&list)?;
        revision(&list).context("a list without resourceVersion")
    }

    /// Asks the server for everything that happened after a revision. Takes a second of time.
    pub async fn read(client: &Client, kinds: &[KnownKind], since: u64) -> anyhow::Result<Self> {
        let mut stored = Vec::new();
        for (known, kind) in kinds.iter().enumerate() {
            let path = kind.resource.everywhere();
            let path = format!("{path}?watch=true&resourceVersion={since}&timeoutSeconds=1");
            let events = ask(client, &path).await?;
            for line in events.split(|byte| *byte == b'\n') {
                if line.is_empty() {
                    continue;
                }
                let event: Value = serde_json::from_slice(line)?;
                let word = event["type"].as_str().unwrap_or_default();
                anyhow::ensure!(word != "ERROR", "{path}: {event}");
                stored.push(StoredObject {
                    revision: revision(&event["object"]).context("no resourceVersion")?,
                    is_gone: word == "DELETED",
                    object: event["object"].clone(),
                    known,
                });
            }
        }
        Ok(Self::new(kinds, stored))
    }

    /// The kinds that are followed.
    pub fn kinds(&self) -> &[KnownKind] {
        &self.kinds
    }

    /// The kind that a reference names.
    pub(super) fn kind(&self, reference: &Value) -> Option<usize> {
        self.kinds
            .iter()
            .position(|k| k.api_version == reference["apiVersion"] && k.kind == reference["kind"])
    }

    pub(super) fn scope(&self, known: usize) -> Scope {
        self.kinds[known].resource.scope()
    }

    /// The objects that were there just before a revision, by uid.
    pub fn before(&self, revision: u64) -> BTreeMap<&str, &StoredObject> {
        let mut there = BTreeMap::new();
        for version in self.stored.iter().take_while(|v| v.revision < revision) {
            if version.is_gone {
                there.remove(version.uid());
            } else {
                there.insert(version.uid(), version);
            }
        }
        there
    }

    /// What is there in the end.
    pub fn end(&self) -> Vec<&StoredObject> {
        self.before(u64::MAX).into_values().collect()
    }

    /// Every version of everything, in its order.
    pub fn all(&self) -> impl Iterator<Item = &StoredObject> {
        self.stored.iter()
    }

    /// All versions of an object.
    pub(super) fn of(&self, uid: &str) -> impl Iterator<Item = &StoredObject> {
        self.stored.iter().filter(move |v| v.uid() == uid)
    }

    /// The version after another one of the same object.
    pub(super) fn next(&self, uid: &str, revision: u64) -> Option<&StoredObject> {
        self.of(uid).find(|version| version.revision > revision)
    }
}

fn revision(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

async fn ask(client: &Client, path: &str) -> anyhow::Result<Vec<u8>> {
    let response = client
        .send(http::Request::get(path).body(Body::empty())?)
        .await?;
    let status = response.status();
    let bytes = response.into_body().collect().await?.to_bytes();
    anyhow::ensure!(
        status.is_success(),
        "{path}: {status} {}",
        String::from_utf8_lossy(&bytes)
    );
    Ok(bytes.to_vec())
}
