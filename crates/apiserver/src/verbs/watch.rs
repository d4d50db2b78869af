//! GET with `watch`: decides at which revision a watch begins. [`WatchStream`] runs it.

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::status::Status;

use super::read::{ObjectFilter, parse_revision, wait_for_revision};
use super::{ResourceRequest, VerbReply};
use crate::negotiate::{ResponseForm, ResponseFormat};
use crate::respond;
use crate::server::ServerState;
use crate::store::{ListScope, PageFilter, StoreRevision};
use crate::watching::{WatchStart, WatchStream, WatchView};

/// Shortest life of a watch without a limit; jitter makes it up to twice as long, as upstream.
const LIFE_MIN: Duration = Duration::from_secs(30 * 60);

/// Longest life that a client can set: far beyond any real watch, and still a time that clocks can represent.
const LIFE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) async fn watch(
    server: &Arc<ServerState>,
    request: &ResourceRequest,
) -> Result<VerbReply, Status> {
    let mut options = request.query.list_options()?;
    options.watch = true;
    let mut filter = ObjectFilter::parse(&request.kind, &options)?;
    if let Some(name) = &request.name {
        filter = filter.with_name(name);
    }
    let revision = match &options.revision {
        Some(text) => parse_revision(text).map_err(|status| Status::unexplained(status.message))?,
        None => StoreRevision(0),
    };
    let initial = options.initial_events.unwrap_or(revision.0 == 0);
    let life = match options.timeout_secs {
        Some(seconds) => Duration::from_secs(seconds).min(LIFE_MAX),
        None => server.rng().duration(LIFE_MIN..2 * LIFE_MIN),
    };
    // Subscribed before the list, so that no event between the list and the first wait is missed.
    let changed = server.store.subscribe(request.kind.resource);
    let start = if !initial {
        let from = if revision.0 == 0 {
            server.store.revision()
        } else {
            revision
        };
        WatchStart::After(from)
    } else if let Err(status) = wait_for_revision(server, revision).await {
        WatchStart::Failed(Box::new(status))
    } else {
        let scope = ListScope {
            namespace: request.namespace.clone(),
            start: None,
        };
        let keep = PageFilter {
            matches: &|object| filter.matches(object),
            limit: None,
        };
        let page = server
            .store
            .list(request.kind.resource, &scope, None, &keep);
        WatchStart::With(page.map_err(|_| Status::expired("history is incomplete"))?)
    };
    let format = ResponseFormat {
        form: match request.format.form {
            ResponseForm::MetadataList(version) => ResponseForm::Metadata(version),
            form => form,
        },
        ..request.format
    };
    let view = WatchView {
        kind: request.kind.clone(),
        namespace: request.namespace.clone(),
        filter,
        format,
        tables: request.tables(server)?,
        bookmarks: options.bookmarks,
    };
    let watching = WatchStream::new(server.clone(), view, start, changed, life);
    let response = respond::watch(watching.into_stream(), format);
    Ok(VerbReply::Response(response))
}
