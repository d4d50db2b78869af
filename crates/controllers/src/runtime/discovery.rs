//! Reads the kinds of a server.
//!
//! One round reads the two roots `/api` and `/apis`, in the aggregated form or, where a server does not support it, group
//! version by group version. An aggregated root that has not changed since the last round (`ETag`, 304) is not sent and not
//! parsed again. A round that fails in part says which group versions are unknown; [`merge`] keeps the known kinds of those. Mirrors what upstream's collector takes from client-go's discovery (1.36): the preferred version of
//! each resource, no subresources, nothing that cannot be parsed, and a stale group version counts as failed.

mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;

use super::effects::described;
use super::feed::refusal_message;
use super::kind::{ApiKind, KindCatalog, KindId};

pub use documents::{BadDocument, GroupVersion, RootDocument, assemble, read_resources, read_root};

/// The `Accept` header of the roots: the aggregated form where the server supports it.
const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The root of the core group.
const CORE_ROOT: &str = "/api";
/// The root of all other groups.
const GROUPS_ROOT: &str = "/apis";

/// The longest wait for one document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest document, in bytes. Ten thousand custom kinds take about 10 MB.
const DOCUMENT_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How many documents are requested at the same time where there is one per group version.
const DOCUMENTS_AT_ONCE: usize = 8;

/// Reads the kinds of one server, round by round.
#[derive(Debug, Default)]
pub struct DiscoveryReader {
    /// The aggregated roots with an `ETag`, by path.
    roots: BTreeMap<&'static str, TaggedRoot>,
    /// Whether the last round read everything.
    is_complete: bool,
}

/// An aggregated root and its `ETag`.
#[derive(Debug)]
struct TaggedRoot {
    tag: HeaderValue,
    root: RootDocument,
}

/// The answer to a request for a root.
enum RootAnswer {
    /// The root has not changed (304).
    Same,
    New(Option<HeaderValue>, RootDocument),
}

/// The result of one round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryResult {
    /// Each resource in the version that the server prefers.
    pub kinds: Vec<ApiKind>,
    pub failed: DiscoveryGaps,
    /// The error of the first request that failed.
    pub error: Option<DiscoveryError>,
}

/// A discovery document that is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct DiscoveryError {
    pub path: Box<str>,
    pub why: DocumentError,
}

/// Why a discovery document is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    #[error("no answer within {} s", DOCUMENT_TIMEOUT.as_secs())]
    Timeout,
    #[error("answered {status}{message}")]
    Refused {
        status: StatusCode,
        /// The message of the server's Status after a colon; empty if the answer has none.
        message: String,
    },
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Malformed(#[from] BadDocument),
}

/// The group versions whose kinds a round could not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryGaps {
    /// Group versions whose document failed, or that are stale.
    pub group_versions: BTreeSet<GroupVersion>,
    /// Whether `/api`, and so the whole core group, failed.
    pub core: bool,
    /// Whether `/apis`, and so all other groups, failed.
    pub groups: bool,
}

/// The kinds to continue with after a round: those that were found, and of the group versions that failed those that were
/// served before and whose feed has synced at some time (it need not be synced now: a server that fails discovery often
/// fails the feed too). `None` if the round found no kind: then nothing changes.
#[must_use]
pub fn merge(
    found: &DiscoveryResult,
    known: &KindCatalog,
    has_synced: impl Fn(KindId) -> bool,
) -> Option<Vec<ApiKind>> {
    if found.kinds.is_empty() {
        return None;
    }
    let is_kept = |kind: &ApiKind| {
        let id = known.id(&kind.group, &kind.resource);
        found.failed.covers(kind) && id.is_some_and(&has_synced)
    };
    let kept: Vec<ApiKind> = known
        .iter()
        .map(|(_, kind)| kind)
        .filter(|kind| is_kept(kind))
        .cloned()
        .collect();
    // A kind whose preferred version failed keeps that version, although another version serves it too.
    let name = |kind: &ApiKind| (kind.group.clone(), kind.resource.clone());
    let names: BTreeSet<(Box<str>, Box<str>)> = kept.iter().map(name).collect();
    let new = found
        .kinds
        .iter()
        .filter(|kind| !names.contains(&name(kind)));
    let mut kinds: Vec<ApiKind> = new.cloned().collect();
    kinds.extend(kept);
    Some(kinds)
}

// === impl DiscoveryReader ===

impl DiscoveryReader {
    /// Runs one round. Never an error: the result says which documents failed. `None` if the last round read everything
    /// and nothing has changed since.
    pub async fn round(&mut self, client: &kube::Client) -> Option<DiscoveryResult> {
        let [core, groups] = [CORE_ROOT, GROUPS_ROOT];
        let (core_answer, groups_answer) = futures::join!(
            root(client, core, self.roots.get(core)),
            root(client, groups, self.roots.get(groups))
        );
        let answers = [(core, core_answer), (groups, groups_answer)];
        let is_same = |(_, answer): &(_, _)| matches!(answer, Ok(RootAnswer::Same));
        if self.is_complete && answers.iter().all(is_same) {
            return None;
        }
        let mut found = DiscoveryResult::default();
        let mut kinds = Vec::new();
        for (path, answer) in answers {
            match answer {
                Ok(answer) => {
                    let root = self.keep(path, answer);
                    kinds.extend(complete(client, root, &mut found).await);
                }
                Err(error) => {
                    found.failed.core |= path == core;
                    found.failed.groups |= path == groups;
                    note(&mut found, error);
                }
            }
        }
        found.kinds = assemble(kinds);
        let has_failed = found.error.is_some() || found.failed != DiscoveryGaps::default();
        self.is_complete = !has_failed && !found.kinds.is_empty();
        Some(found)
    }

    /// The document of an answer. Keeps it for the next round if it has an `ETag`; a root in the old form does not show
    /// whether the resources have changed.
    fn keep(&mut self, path: &'static str, answer: RootAnswer) -> RootDocument {
        match (answer, self.roots.get(path)) {
            (RootAnswer::Same, Some(known)) => known.root.clone(),
            (RootAnswer::Same, None) => RootDocument::Names(Vec::new()),
            (RootAnswer::New(tag, root), _) => {
                self.roots.remove(path);
                let is_aggregated = matches!(root, RootDocument::Aggregated { .. });
                if let Some(tag) = tag.filter(|_| is_aggregated) {
                    let root = root.clone();
                    self.roots.insert(path, TaggedRoot { tag, root });
                }
                root
            }
        }
    }
}

// === impl DiscoveryGaps ===

impl DiscoveryGaps {
    /// The paths of the documents that failed, without those whose kinds are known: their feeds go on. `kinds` are those to
    /// continue with, `before` are the kinds and gaps before this round. A gap stays while its root fails, and a kind that
    /// is left out because it has never synced is one more gap.
    #[must_use]
    pub fn unknown(&self, kinds: &[ApiKind], before: &KindCatalog) -> Vec<String> {
        let has = |is: &dyn Fn(&ApiKind) -> bool| kinds.iter().any(is);
        let core = self.core && !has(&|kind| kind.group.is_empty());
        let groups = self.groups && !has(&|kind| !kind.group.is_empty());
        let roots = [(core, CORE_ROOT), (groups, GROUPS_ROOT)].into_iter();
        let roots = roots.filter(|(is_unknown, _)| *is_unknown);
        let unread = self.group_versions.iter().filter(|(group, version)| {
            !has(&|kind| kind.group == *group && kind.versions.contains(version))
        });
        let unread = unread.map(|(group, version)| document_path(group, version));
        let left_out = before.iter().map(|(_, kind)| kind).filter(|kind| {
            let is_same = |own: &ApiKind| own.group == kind.group && own.resource == kind.resource;
            self.covers(kind) && !has(&is_same)
        });
        let left_out = left_out.map(|kind| document_path(&kind.group, &kind.version));
        let still = before.gaps().iter().filter(|gap| self.has_unread_root(gap));
        let all = roots.map(|(_, path)| path.to_owned()).chain(unread);
        let all: BTreeSet<String> = all.chain(left_out).chain(still.cloned()).collect();
        all.into_iter().collect()
    }

    /// Whether the root of a document failed, so that it is not known whether the document is served.
    fn has_unread_root(&self, path: &str) -> bool {
        let root = path.split('/').nth(1).map(|root| format!("/{root}"));
        let is = |name: &str| root.as_deref() == Some(name);
        self.core && is(CORE_ROOT) || self.groups && is(GROUPS_ROOT)
    }

    /// Whether a kind, in its known version, may be served although the round did not find it.
    #[must_use]
    pub fn covers(&self, kind: &ApiKind) -> bool {
        if kind.group.is_empty() && self.core || !kind.group.is_empty() && self.groups {
            return true;
        }
        let group_version = (kind.group.clone(), kind.version.clone());
        self.group_versions.contains(&group_version)
    }
}

/// The resources of a root. A root in the old form only names the versions, so that each of them
/// is read by itself.
async fn complete(
    client: &kube::Client,
    root: RootDocument,
    found: &mut DiscoveryResult,
) -> Vec<ApiKind> {
    let names = match root {
        RootDocument::Aggregated { kinds, stale } => {
            found.failed.group_versions.extend(stale);
            return kinds;
        }
        RootDocument::Names(names) => names,
    };
    let asked = futures::stream::iter(names).map(|name| async move {
        let path = document_path(&name.0, &name.1);
        let answer = resources(client, &path, &name).await;
        (name, answer)
    });
    let mut kinds = Vec::new();
    let mut answers = asked.buffered(DOCUMENTS_AT_ONCE);
    while let Some((name, answer)) = answers.next().await {
        match answer {
            Ok(served) => kinds.extend(served),
            Err(error) => {
                note(found, error);
                found.failed.group_versions.insert(name);
            }
        }
    }
    kinds
}

/// The path of the document about a group version.
fn document_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("{CORE_ROOT}/{version}"),
        group => format!("{GROUPS_ROOT}/{group}/{version}"),
    }
}

fn note(found: &mut DiscoveryResult, error: DiscoveryError) {
    found.error.get_or_insert(error);
}

/// Requests a root. 304 is an answer only to the tag of a known root.
async fn root(
    client: &kube::Client,
    path: &str,
    known: Option<&TaggedRoot>,
) -> Result<RootAnswer, DiscoveryError> {
    let tag = known.map(|known| &known.tag);
    let Some((tag, bytes)) = fetch(client, path, tag).await? else {
        return Ok(RootAnswer::Same);
    };
    let root = read_root(&bytes).map_err(|error| failed(path, error.into()))?;
    Ok(RootAnswer::New(tag, root))
}

/// Requests the resources of a group version.
async fn resources(
    client: &kube::Client,
    path: &str,
    name: &GroupVersion,
) -> Result<Vec<ApiKind>, DiscoveryError> {
    let answer = fetch(client, path, None).await?;
    let (_, bytes) = answer.unwrap_or_default();
    read_resources(name, &bytes).map_err(|error| failed(path, error.into()))
}

/// Requests a document, and returns its `ETag` and its bytes; `None` if it still has the known `tag`.
async fn fetch(
    client: &kube::Client,
    path: &str,
    tag: Option<&HeaderValue>,
) -> Result<Option<(Option<HeaderValue>, Bytes)>, DiscoveryError> {
    let answer = tokio::time::timeout(DOCUMENT_TIMEOUT, document(client, path, tag)).await;
    answer
        .unwrap_or(Err(DocumentError::Timeout))
        .map_err(|why| failed(path, why))
}

fn failed(path: &str, why: DocumentError) -> DiscoveryError {
    DiscoveryError {
        path: path.into(),
        why,
    }
}

async fn document(
    client: &kube::Client,
    path: &str,
    tag: Option<&HeaderValue>,
) -> Result<Option<(Option<HeaderValue>, Bytes)>, DocumentError> {
    let mut request = Request::get(path).header(header::ACCEPT, ACCEPT);
    if let Some(tag) = tag {
        request = request.header(header::IF_NONE_MATCH, tag);
    }
    let request = request
        .body(Body::empty())
        .map_err(|error| DocumentError::Failed(error.to_string()))?;
    let response = client.send(request).await;
    let mut response = response.map_err(|error| DocumentError::Failed(described(&error)))?;
    if response.status() == StatusCode::NOT_MODIFIED && tag.is_some() {
        return Ok(None);
    }
    if !response.status().is_success() {
        return Err(DocumentError::Refused {
            status: response.status(),
            message: refusal_message(response.into_body()).await,
        });
    }
    let tag = response.headers_mut().remove(header::ETAG);
    let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX);
    match body.collect().await {
        Ok(body) => Ok(Some((tag, body.to_bytes()))),
        Err(error) => Err(DocumentError::Failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
