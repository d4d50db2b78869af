//! A running watch: a cursor into the history of one resource, and the view of its client.
//!
//! Nothing is queued for a watcher. When its client takes bytes, the watch reads the events after the cursor from the
//! store and encodes them, or copies them if another watch has encoded them already. A client that is too slow falls
//! behind history; it gets an ERROR event with 410, as upstream, and the watch ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use caretaker_machinery::proto;
use caretaker_machinery::status::Status;
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::kinds::ServedKind;
use crate::negotiate::{MetaVersion, ResponseEncoding, ResponseForm, ResponseFormat};
use crate::protobuf;
use crate::respond::{metadata_bytes, object_bytes};
use crate::server::ServerState;
use crate::store::{EventForm, EventKind, ObjectPage, StoreEvent, StoreRevision, StoredObject};
use crate::strategy::convert;
use crate::tables;
use crate::verbs::read::ObjectFilter;

/// Events read from the store at once, so that one watch does not delay the others.
const EVENTS_AT_ONCE: usize = 256;
/// Approximate bytes of one piece of the response.
const PIECE_BYTES: usize = 64 * 1024;
/// Time between two bookmarks, before jitter.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The events that a client wants, and their form.
pub(crate) struct WatchView {
    pub(crate) kind: Arc<ServedKind>,
    pub(crate) namespace: Option<String>,
    pub(crate) filter: ObjectFilter,
    pub(crate) format: ResponseFormat,
    pub(crate) tables: tables::TableContext,
    pub(crate) bookmarks: bool,
}

/// The beginning of a watch.
pub(crate) enum WatchStart {
    After(StoreRevision),
    /// With the stored objects as ADDED events.
    With(ObjectPage),
    Failed(Box<Status>),
}

/// A running watch, as a stream of pieces of its response.
pub(crate) struct WatchStream {
    inner: Arc<ServerState>,
    view: WatchView,
    cursor: StoreRevision,
    /// Objects of the beginning that have not been sent.
    initial: std::vec::IntoIter<Arc<StoredObject>>,
    state: WatchState,
    changed: watch::Receiver<()>,
    ends: Instant,
    next_bookmark: Instant,
    /// The columns of a Table have been sent.
    columns_sent: bool,
}

enum WatchState {
    Initial,
    Live,
    /// Sends one more line and ends.
    Failing(Box<Status>),
    Ended,
}

// === impl WatchStream ===

impl WatchStream {
    pub(crate) fn new(
        inner: Arc<ServerState>,
        view: WatchView,
        start: WatchStart,
        changed: watch::Receiver<()>,
        life: Duration,
    ) -> Self {
        let now = Instant::now();
        let jitter = inner.rng().duration(Duration::ZERO..BOOKMARK_EVERY / 10);
        let (state, cursor, objects) = match start {
            WatchStart::After(revision) => (WatchState::Live, revision, Vec::new()),
            WatchStart::With(page) => (WatchState::Initial, page.revision, page.objects),
            WatchStart::Failed(status) => {
                (WatchState::Failing(status), StoreRevision(0), Vec::new())
            }
        };
        Self {
            inner,
            view,
            cursor,
            initial: objects.into_iter(),
            state,
            changed,
            ends: now + life,
            next_bookmark: now + BOOKMARK_EVERY - jitter,
            columns_sent: false,
        }
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        futures::stream::unfold(self, |mut watching| async move {
            watching.next().await.map(|bytes| (bytes, watching))
        })
    }

    /// Returns the next piece of the response; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match std::mem::replace(&mut self.state, WatchState::Ended) {
                WatchState::Initial => {
                    let piece = self.initial_piece();
                    if !piece.is_empty() {
                        return Some(piece.into());
                    }
                }
                WatchState::Failing(status) => {
                    let mut event = Vec::new();
                    self.view.push_tree(&mut event, "ERROR", &json!(status));
                    return Some(event.into());
                }
                WatchState::Ended => return None,
                WatchState::Live => {
                    self.state = WatchState::Live;
                    let piece = self.live_piece();
                    if !piece.is_empty() {
                        return Some(piece.into());
                    }
                    if matches!(self.state, WatchState::Live) && !self.wait().await {
                        self.state = WatchState::Ended;
                    }
                }
            }
        }
    }

    /// Returns objects of the beginning, then the bookmark that ends them.
    fn initial_piece(&mut self) -> Vec<u8> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            let Some(object) = self.initial.next() else {
                if self.view.bookmarks {
                    self.push_bookmark(&mut piece, true);
                }
                self.state = WatchState::Live;
                return piece;
            };
            self.push(&mut piece, EventKind::Added, &object);
        }
        self.state = WatchState::Initial;
        piece
    }

    /// Returns the events since the last piece, and a bookmark if one is due.
    fn live_piece(&mut self) -> Vec<u8> {
        self.changed.mark_unchanged();
        let mut piece = Vec::new();
        // A watch from a revision that the store has not reached gets no bookmark, as upstream: the client must not take
        // its own version for one of this server.
        let is_reached;
        let resource = self.view.kind.resource;
        match self
            .inner
            .store
            .events_after(resource, self.cursor, EVENTS_AT_ONCE)
        {
            Ok(batch) => {
                for event in &batch.events {
                    self.push_event(&mut piece, event);
                }
                is_reached = batch.up_to >= self.cursor;
                self.cursor = batch.up_to.max(self.cursor);
                if batch.last {
                    self.state = WatchState::Ended;
                    return piece;
                }
            }
            Err(too_old) => {
                let (asked, floor) = (self.cursor, too_old.0);
                let message = format!("too old resource version: {asked} ({floor})");
                self.state = WatchState::Failing(Box::new(Status::expired(message)));
                return piece;
            }
        }
        let now = Instant::now();
        if self.view.bookmarks && now >= self.next_bookmark {
            if is_reached {
                self.push_bookmark(&mut piece, false);
            }
            self.next_bookmark = now + BOOKMARK_EVERY;
        }
        piece
    }

    /// Waits until there may be something to send. Returns false at the end of the watch.
    async fn wait(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.ends {
            return false;
        }
        let last_bookmark = self
            .ends
            .checked_sub(BOOKMARK_BEFORE_END)
            .filter(|at| *at > now);
        if let Some(at) = last_bookmark.filter(|at| *at < self.next_bookmark) {
            self.next_bookmark = at;
        }
        let until = if self.view.bookmarks {
            self.ends.min(self.next_bookmark.max(now))
        } else {
            self.ends
        };
        match tokio::time::timeout_at(until, self.changed.changed()).await {
            Ok(Ok(())) => true,
            Ok(Err(_)) => false,
            Err(_) => Instant::now() < self.ends,
        }
    }

    /// Adds an event as this client sees it: an object that begins to match its selectors is added, one that ceases to
    /// match is deleted.
    fn push_event(&mut self, piece: &mut Vec<u8>, event: &StoreEvent) {
        let view = &self.view;
        let object = &event.object;
        if view.namespace.is_some() && view.namespace.as_deref() != object.key.namespace() {
            return;
        }
        let matched = event
            .previous
            .as_deref()
            .is_some_and(|previous| view.filter.matches(previous));
        let matches = event.kind != EventKind::Deleted && view.filter.matches(object);
        match (matched, matches) {
            (false, false) => {}
            (false, true) if event.kind == EventKind::Added => self.push_shared(piece, event),
            (false, true) => self.push(piece, EventKind::Added, object),
            (true, true) => self.push_shared(piece, event),
            (true, false) if event.kind == EventKind::Deleted => self.push_shared(piece, event),
            (true, false) => {
                if let Some(previous) = &event.previous {
                    let last = previous.at(object.rev);
                    self.push(piece, EventKind::Deleted, &last);
                }
            }
        }
    }

    /// Adds an event as it happened, encoded once for all watches of the same form.
    fn push_shared(&mut self, piece: &mut Vec<u8>, event: &StoreEvent) {
        let Some(form) = self.view.shared_form() else {
            return self.push(piece, event.kind, &event.object);
        };
        let encoded = event.encoded(form, || {
            let mut encoded = Vec::new();
            let (kind, object) = (event.kind.as_str(), &event.object);
            self.view.push_object(&mut encoded, kind, object, false);
            encoded.into()
        });
        piece.extend_from_slice(encoded);
    }

    fn push(&mut self, piece: &mut Vec<u8>, kind: EventKind, object: &StoredObject) {
        let first = !std::mem::replace(&mut self.columns_sent, true);
        self.view.tables.now = self.inner.clock.now();
        self.view.push_object(piece, kind.as_str(), object, first);
    }

    fn push_bookmark(&mut self, piece: &mut Vec<u8>, end_of_initial: bool) {
        let first = !std::mem::replace(&mut self.columns_sent, true);
        self.view
            .push_bookmark(piece, self.cursor, end_of_initial, first);
    }
}

// === impl WatchView ===

impl WatchView {
    /// Returns the form that all watches of this view share; none if an event looks different to each.
    fn shared_form(&self) -> Option<EventForm> {
        let is_protobuf = self.format.encoding == ResponseEncoding::Protobuf;
        match self.format.form {
            ResponseForm::Object if !convert::is_stored(&self.kind) => None,
            ResponseForm::Object if is_protobuf => Some(EventForm::Protobuf),
            ResponseForm::Object => Some(EventForm::Json),
            ResponseForm::Metadata(MetaVersion::V1) if is_protobuf => {
                Some(EventForm::ProtobufMetadata)
            }
            ResponseForm::Metadata(MetaVersion::V1) => Some(EventForm::JsonMetadata),
            _ => None,
        }
    }

    fn push_object(&self, events: &mut Vec<u8>, event: &str, object: &StoredObject, first: bool) {
        if self.format.encoding == ResponseEncoding::Protobuf {
            let metadata = self.format.form.metadata();
            return match protobuf::object(&self.kind, object, metadata) {
                Ok(message) => events.extend_from_slice(&proto::watch_frame(event, &message)),
                Err(error) => {
                    let status = json!(protobuf::internal_error(&error));
                    self.push_tree(events, "ERROR", &status);
                }
            };
        }
        let bytes = match self.format.form {
            ResponseForm::Metadata(version) => metadata_bytes(object, version),
            ResponseForm::Table(version) => self.tables.event(&self.kind, version, object, first),
            _ => object_bytes(&self.kind, object),
        };
        push_line(events, event, &bytes);
    }

    /// Adds an object that holds nothing but the revision of the watch.
    fn push_bookmark(
        &self,
        events: &mut Vec<u8>,
        revision: StoreRevision,
        end_of_initial: bool,
        first: bool,
    ) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (api_version, kind) = match self.format.form {
            ResponseForm::Metadata(version) => {
                (version.api_version().to_owned(), "PartialObjectMetadata")
            }
            ResponseForm::Table(version) => {
                let table = self.tables.bookmark(&self.kind, version, &metadata, first);
                return push_line(events, "BOOKMARK", &table);
            }
            _ => (self.kind.api_version(), self.kind.kind.as_str()),
        };
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        self.push_tree(events, "BOOKMARK", &object);
    }

    /// Adds an event with a tree that has an apiVersion and a kind.
    fn push_tree(&self, events: &mut Vec<u8>, event: &str, tree: &Value) {
        if self.format.encoding != ResponseEncoding::Protobuf {
            return push_line(events, event, tree.to_string().as_bytes());
        }
        match protobuf::encode(tree) {
            Ok(message) => events.extend_from_slice(&proto::watch_frame(event, &message)),
            Err(error) => tracing::error!(%error, "cannot encode an event as protobuf"),
        }
    }
}

fn push_line(line: &mut Vec<u8>, event: &str, object: &[u8]) {
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
}
