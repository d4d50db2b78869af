//! What users of an object are told: core/v1 Events, written by a task of their own.
//!
//! Best effort, like upstream's recorder (`client-go/tools/record`, 1.36): telling never waits and never fails, the same
//! event again raises a count, similar ones are combined, and whoever tells too much about one object is cut off for a
//! while. What is not written is counted. Events are no decision's request: they have no crash point.

mod correlate;

use std::fmt;

use caretaker_machinery::clock::Clock;
use http::{Method, Request, header};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::controller::{EventNote, EventSeverity};
use super::effects::exchange;
use super::metrics::{ControllerMetrics, DropLabels};
use correlate::{EventCorrelator, PlannedEvent};

/// How many events may wait to be written; upstream's.
const WAITING_MAX: usize = 1_000;

/// How often a write that failed is tried, the first time included.
const TRIES_MAX: u32 = 2;

/// Where notes go. Clones are the same recorder.
#[derive(Clone)]
pub struct EventSink {
    notes: Option<mpsc::Sender<(&'static str, EventNote)>>,
    metrics: ControllerMetrics,
}

/// Writes what [`EventSink`] were told.
pub struct EventRecorder {
    client: kube::Client,
    clock: Clock,
    metrics: ControllerMetrics,
    notes: mpsc::Receiver<(&'static str, EventNote)>,
    correlator: EventCorrelator,
    /// The last number in a name: names must differ also where time stands still.
    number: i128,
}

// === impl EventSink ===

impl EventSink {
    /// A recorder, and the task it needs: run [`EventRecorder::run`] somewhere. It ends when all sinks are dropped.
    #[must_use]
    pub fn new(
        client: kube::Client,
        clock: Clock,
        metrics: ControllerMetrics,
    ) -> (Self, EventRecorder) {
        let (sender, notes) = mpsc::channel(WAITING_MAX);
        let recorder = EventRecorder {
            client,
            clock,
            metrics: metrics.clone(),
            notes,
            correlator: EventCorrelator::default(),
            number: 0,
        };
        let notes = Some(sender);
        (Self { notes, metrics }, recorder)
    }

    /// Tells nobody.
    #[must_use]
    pub fn none() -> Self {
        Self {
            notes: None,
            metrics: ControllerMetrics::new(),
        }
    }

    /// Hands the notes to a test instead of a [`EventRecorder`].
    #[cfg(test)]
    pub(crate) fn captured() -> (Self, mpsc::Receiver<(&'static str, EventNote)>) {
        let (sender, notes) = mpsc::channel(WAITING_MAX);
        let events = Self {
            notes: Some(sender),
            metrics: ControllerMetrics::new(),
        };
        (events, notes)
    }

    /// Tells the users of an object something. Never waits.
    pub fn emit(&self, controller: &'static str, note: EventNote) {
        let Some(notes) = &self.notes else {
            return;
        };
        if notes.try_send((controller, note)).is_err() {
            dropped(&self.metrics, "queue");
        }
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSink")
    }
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Writes events until nobody is left who could tell any.
    pub async fn run(mut self) {
        while let Some((controller, note)) = self.notes.recv().await {
            let now = self.clock.now();
            match self.correlator.take(controller, &note, now) {
                Some(told) => self.write(controller, &note, told).await,
                None => dropped(&self.metrics, "spam"),
            }
        }
    }

    async fn write(&mut self, controller: &'static str, note: &EventNote, mut told: PlannedEvent) {
        for _ in 0..TRIES_MAX {
            let name = match &told.name {
                Some(name) => name.clone(),
                None => self.new_name(note),
            };
            let request = if told.name.is_some() {
                raise(note, &name, &told)
            } else {
                create(controller, note, &name, &told)
            };
            let Ok(request) = request else {
                break;
            };
            let method = request.method().clone();
            let reply = exchange(&self.client, request).await;
            let status = match &reply {
                Ok(reply) => Some(reply.status.as_u16()),
                Err(error) => error.status(),
            };
            self.metrics.request(&method, status);
            match status {
                Some(200..300) => {
                    self.correlator.written(controller, note, &told, name);
                    return;
                }
                // It expired, or somebody removed it: tell it anew.
                Some(404) if told.name.is_some() => told.name = None,
                // The name is taken: the next one differs.
                Some(409) if told.name.is_none() => {}
                Some(429 | 500..) | None => {}
                Some(_) => break,
            }
        }
        dropped(&self.metrics, "refused");
    }

    /// `web.18a1b2c3d4e5f607`: the time in nanoseconds, later than any before.
    fn new_name(&mut self, note: &EventNote) -> String {
        let nanos = self.clock.now().as_nanosecond();
        self.number = nanos.max(self.number + 1);
        format!("{}.{:x}", note.about.name, self.number)
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventRecorder")
    }
}

fn dropped(metrics: &ControllerMetrics, reason: &'static str) {
    let dropped = &metrics.families().events_dropped;
    dropped.get_or_create(&DropLabels { reason }).inc();
}

/// Events about objects of the cluster are kept in `default`, as upstream does it.
fn namespace(note: &EventNote) -> &str {
    match note.about.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

fn create(
    controller: &str,
    note: &EventNote,
    name: &str,
    told: &PlannedEvent,
) -> Result<Request<Body>, http::Error> {
    let namespace = namespace(note);
    let body = event(controller, note, namespace, name, told);
    Request::builder()
        .method(Method::POST)
        .uri(format!("/api/v1/namespaces/{namespace}/events"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string().into_bytes()))
}

/// The same event again: only its count and its last time change.
fn raise(note: &EventNote, name: &str, told: &PlannedEvent) -> Result<Request<Body>, http::Error> {
    let patch = json!({
        "count": told.count,
        "lastTimestamp": seconds(told.last),
        "message": told.message,
    });
    let namespace = namespace(note);
    Request::builder()
        .method(Method::PATCH)
        .uri(format!("/api/v1/namespaces/{namespace}/events/{name}"))
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(patch.to_string().into_bytes()))
}

fn event(
    controller: &str,
    note: &EventNote,
    namespace: &str,
    name: &str,
    told: &PlannedEvent,
) -> Value {
    let severity = match note.severity {
        EventSeverity::Normal => "Normal",
        EventSeverity::Warning => "Warning",
    };
    json!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": note.about.api_version,
            "kind": note.about.kind,
            "namespace": note.about.namespace,
            "name": note.about.name,
            "uid": note.about.uid,
        },
        "reason": note.reason,
        "message": told.message,
        "type": severity,
        "count": told.count,
        "firstTimestamp": seconds(told.first),
        "lastTimestamp": seconds(told.last),
        "source": {"component": controller},
        "reportingComponent": controller,
        "reportingInstance": "",
    })
}

/// As Kubernetes writes times: whole seconds.
fn seconds(time: Timestamp) -> String {
    DateTimePrinter::new()
        .precision(Some(0))
        .timestamp_to_string(&time)
}
