//! GET with `watch`: what happens to a collection from some point on.
//!
//! This decides where a watch begins; [`Watching`] runs it.

use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::status::Status;

use super::list::{Selection, parse_revision, wait_for};
use super::{Ask, Reply};
use crate::negotiate::Form;
use crate::respond;
use crate::server::Inner;
use crate::store::{Keep, Revision, Scope};
use crate::watching::{Start, View, Watching};

/// How long a watch lives that names no limit, before jitter; twice that at most, as upstream.
const LIFE_MIN: Duration = Duration::from_secs(30 * 60);

/// The longest life a client can ask for: far beyond any real watch, and still a time that clocks can show.
const LIFE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) async fn watch(inner: &Arc<Inner>, ask: &Ask) -> Result<Reply, Status> {
    let mut options = ask.query.list_options()?;
    options.watch = true;
    let mut selection = Selection::parse(&ask.kind, &options)?;
    if let Some(name) = &ask.name {
        selection = selection.with_name(name);
    }
    let revision = match &options.revision {
        Some(text) => parse_revision(text).map_err(|status| Status::unexplained(status.message))?,
        None => Revision(0),
    };
    let initial = options.initial_events.unwrap_or(revision.0 == 0);
    let life = match options.timeout_secs {
        Some(seconds) => Duration::from_secs(seconds).min(LIFE_MAX),
        None => inner.rng().duration(LIFE_MIN..2 * LIFE_MIN),
    };
    // The receiver comes first: what happens between the list and the first wait is then not missed.
    let changed = inner.store.subscribe(ask.kind.resource);
    let start = if !initial {
        let from = if revision.0 == 0 {
            inner.store.revision()
        } else {
            revision
        };
        Start::After(from)
    } else if let Err(status) = wait_for(inner, revision).await {
        Start::Failed(Box::new(status))
    } else {
        let scope = Scope {
            namespace: ask.namespace.clone(),
            start: None,
        };
        let keep = Keep {
            matches: &|object| selection.matches(object),
            limit: None,
        };
        let page = inner.store.list(ask.kind.resource, &scope, None, &keep);
        Start::With(page.map_err(|_| Status::expired("history is incomplete"))?)
    };
    let view = View {
        kind: ask.kind.clone(),
        namespace: ask.namespace.clone(),
        selection,
        form: match ask.format.form {
            Form::MetadataList => Form::Metadata,
            form => form,
        },
        tables: ask.tables(inner)?,
        bookmarks: options.bookmarks,
    };
    let watching = Watching::new(inner.clone(), view, start, changed, life);
    Ok(Reply::Watch(respond::watch(watching.into_stream())))
}
