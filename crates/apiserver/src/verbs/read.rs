//! GET of an object, or of a collection: whole or page by page, now or at a revision.

use std::num::IntErrorKind;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use caretaker_machinery::selector::{
    FieldOp, FieldRequirement, FieldSelector, LabelSelector, SelectorError,
};
use caretaker_machinery::status::Status;
use serde::{Deserialize, Serialize};

use super::{ResourceRequest, VerbReply};
use crate::kinds::ServedKind;
use crate::negotiate::ResponseForm;
use crate::request::{ListOptions, RevisionMatch};
use crate::respond::ListHeader;
use crate::server::ServerState;
use crate::store::{
    ListScope, ObjectKey, ObjectPage, PageFilter, RevisionTooOld, StoreRevision, StoredObject,
};

/// Longest wait of a read for a revision that the store has not reached.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// Time between two checks of the store during this wait.
const FUTURE_POLL: Duration = Duration::from_millis(50);

/// The version in continue tokens.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// The selectors of a request.
pub(crate) struct ObjectFilter {
    labels: LabelSelector,
    fields: Vec<FieldCondition>,
}

struct FieldCondition {
    source: FieldSource,
    value: String,
    equal: bool,
}

enum FieldSource {
    Name,
    Namespace,
    /// Index into the object's selectable fields.
    Indexed(usize),
}

/// A position in a list. It is opaque to clients; the form is upstream's.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

pub(super) async fn get(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    Ok(VerbReply::Object {
        code: 200,
        object: current(server, request).await?,
        warnings: Vec::new(),
    })
}

/// Returns the object that the path names, not older than the revision in the query.
pub(super) async fn current(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<Arc<StoredObject>, Status> {
    let revision = request.query.get("resourceVersion").unwrap_or_default();
    if !revision.is_empty() {
        let revision =
            parse_revision(revision).map_err(|status| Status::unexplained(status.message))?;
        wait_for_revision(server, revision).await?;
    }
    let object = server.store.get(request.kind.resource, &request.key());
    object.ok_or_else(|| request.not_found())
}

pub(super) async fn list(
    server: &ServerState,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    let options = request.query.list_options()?;
    let (page, meta) = list_page(server, request, &options).await?;
    Ok(VerbReply::List { page, meta })
}

/// Returns the page that `options` select.
pub(super) async fn list_page(
    server: &ServerState,
    request: &ResourceRequest,
    options: &ListOptions,
) -> Result<(ObjectPage, ListHeader), Status> {
    let filter = ObjectFilter::parse(&request.kind, options)?;
    let at = ListStart::of(server, options).await?;
    let scope = ListScope {
        namespace: request.namespace.clone(),
        start: at.start.clone(),
    };
    let keep = PageFilter {
        matches: &|object: &StoredObject| filter.matches(object),
        limit: options.limit.filter(|_| !at.ignores_limit),
    };
    let page = server
        .store
        .list(request.kind.resource, &scope, at.revision, &keep)
        .map_err(|too_old| at.expired(server, too_old))?;
    let meta = ListHeader {
        revision: page.revision.to_string(),
        continue_token: match &page.rest {
            Some((next, _)) => {
                let revision = i64::try_from(page.revision.0).unwrap_or(i64::MAX);
                Some(token(revision, next))
            }
            // Lists of custom kinds always have the field `continue`.
            None if request.format.form == ResponseForm::Object => {
                request.kind.custom.as_ref().map(|_| String::new())
            }
            None => None,
        },
        remaining: match &page.rest {
            Some((_, count)) if filter.is_everything() => Some(*count),
            _ => None,
        },
    };
    Ok((page, meta))
}

/// The revision and the position at which a list begins.
#[derive(Default)]
struct ListStart {
    /// None for the present.
    revision: Option<StoreRevision>,
    start: Option<ObjectKey>,
    /// resourceVersion "0" lists everything.
    ignores_limit: bool,
}

// === impl ListStart ===

impl ListStart {
    async fn of(server: &ServerState, options: &ListOptions) -> Result<Self, Status> {
        let mut at = Self::default();
        if let Some(text) = &options.continue_token {
            if !matches!(options.revision.as_deref(), None | Some("0")) {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Status::bad_request(why));
            }
            let token = read_token(text)?;
            let revision = u64::try_from(token.rv).ok().filter(|rv| *rv > 0);
            at.revision = revision.map(StoreRevision);
            at.start = Some(ObjectKey::raw(&token.start));
            return Ok(at);
        }
        let Some(text) = &options.revision else {
            return Ok(at);
        };
        let revision = parse_revision(text).map_err(|status| {
            Status::bad_request(format!("invalid resource version: {}", status.message))
        })?;
        wait_for_revision(server, revision).await?;
        at.ignores_limit = revision.0 == 0;
        let exact = match options.revision_match {
            Some(RevisionMatch::Exact) => true,
            Some(RevisionMatch::NotOlderThan | RevisionMatch::Unknown(_)) => false,
            // The rule of older servers: a page with a revision is a page of exactly that revision.
            None => options.limit.is_some() && revision.0 > 0,
        };
        if exact {
            at.revision = Some(revision);
        }
        Ok(at)
    }

    /// Returns the error of a revision that history no longer has, with a token to go on inconsistently.
    fn expired(&self, server: &ServerState, too_old: RevisionTooOld) -> Status {
        let Some(start) = &self.start else {
            let asked = self.revision.map_or(0, |revision| revision.0);
            return Status::expired(format!("too old resource version: {asked} ({})", too_old.0));
        };
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.metadata.continue_token = Some(token(-1, start));
        status.metadata.resource_version = Some(server.store.revision().to_string());
        status
    }
}

// === impl ObjectFilter ===

impl ObjectFilter {
    pub(crate) fn parse(kind: &ServedKind, options: &ListOptions) -> Result<Self, Status> {
        let bad = |error: SelectorError| Status::bad_request(error.to_string());
        let labels = LabelSelector::parse(&options.label_selector).map_err(bad)?;
        let fields = FieldSelector::parse(&options.field_selector).map_err(bad)?;
        let condition = |requirement: &FieldRequirement| {
            Ok(FieldCondition {
                source: FieldSource::of(kind, &requirement.field)?,
                value: requirement.value.clone(),
                equal: requirement.op == FieldOp::Equal,
            })
        };
        let fields = fields.requirements().iter().map(condition);
        Ok(Self {
            labels,
            fields: fields.collect::<Result<_, Status>>()?,
        })
    }

    /// Also selects by name.
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.fields.push(FieldCondition {
            source: FieldSource::Name,
            value: name.to_owned(),
            equal: true,
        });
        self
    }

    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        self.labels.matches(|label| object.label(label))
            && self.fields.iter().all(|condition| {
                let value = match condition.source {
                    FieldSource::Name => object.key.name(),
                    FieldSource::Namespace => object.key.namespace().unwrap_or_default(),
                    FieldSource::Indexed(index) => object.fields.get(index).unwrap_or_default(),
                };
                (value == condition.value) == condition.equal
            })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}

// === impl FieldSource ===

impl FieldSource {
    fn of(kind: &ServedKind, field: &str) -> Result<Self, Status> {
        match field {
            "metadata.name" => return Ok(FieldSource::Name),
            "metadata.namespace" if kind.namespaced || kind.rules.fields.is_empty() => {
                return Ok(FieldSource::Namespace);
            }
            _ => {}
        }
        let index = kind
            .rules
            .fields
            .iter()
            .position(|known| known.name == field && !field.is_empty());
        index.map(FieldSource::Indexed).ok_or_else(|| {
            let message = if !kind.rules.fields.is_empty() || kind.custom.is_some() {
                format!("field label not supported: {field}")
            } else {
                format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            };
            Status::bad_request(message)
        })
    }
}

/// Parses a revision; the message is Go's.
pub(crate) fn parse_revision(text: &str) -> Result<StoreRevision, Status> {
    text.parse().map(StoreRevision).map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
        ))
    })
}

/// Waits for a revision that the store has not reached, for a limited time.
pub(crate) async fn wait_for_revision(
    server: &ServerState,
    revision: StoreRevision,
) -> Result<(), Status> {
    let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
    while server.store.revision() < revision {
        if tokio::time::Instant::now() >= deadline {
            let current = server.store.revision();
            return Err(Status::revision_too_large(revision.0, current.0));
        }
        tokio::time::sleep(FUTURE_POLL).await;
    }
    Ok(())
}

/// Returns the token that continues at a key; a negative revision is that of the next request.
fn token(rv: i64, start: &ObjectKey) -> String {
    let token = ContinueToken {
        v: TOKEN_VERSION.into(),
        rv,
        start: start.as_str().into(),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

fn read_token(text: &str) -> Result<ContinueToken, Status> {
    let bad = |why: &dyn std::fmt::Display| {
        let message = format!("invalid continue token: continue key is not valid: {why}");
        Status::bad_request(message)
    };
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
    let bytes = bytes.map_err(|error| bad(&error))?;
    let token: ContinueToken = serde_json::from_slice(&bytes).map_err(|error| bad(&error))?;
    let mut parts = token.start.split('/');
    let why = if token.v != TOKEN_VERSION {
        let version = &token.v;
        format!("server does not recognize this encoded version {version}")
    } else if parts.any(|part| matches!(part, "." | "..")) {
        token.start
    } else if token.rv == 0 {
        format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    } else if token.start.is_empty() {
        format!("encoded start key empty (version {TOKEN_VERSION})")
    } else {
        return Ok(token);
    };
    Err(bad(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_round_trip() {
        for start in ["a", "ns/name", "ns/some-longer-name.with.dots"] {
            let token = read_token(&token(42, &ObjectKey::raw(start))).unwrap();
            assert_eq!((token.rv, token.start.as_str()), (42, start));
        }
    }

    #[test]
    fn refuses_forged_tokens() {
        for forged in [
            "abc",
            "!!!",
            "",
            "e30",
            &URL_SAFE_NO_PAD.encode(br#"{"v":"x","rv":1,"start":"a"}"#),
            &URL_SAFE_NO_PAD.encode(br#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
        ] {
            assert_eq!(read_token(forged).unwrap_err().code, 400, "{forged}");
        }
    }
}
