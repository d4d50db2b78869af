//! Writes core/v1 Events, in a task of its own.
//!
//! Best effort, like upstream's recorder (`client-go/tools/record`, 1.36): emitting never waits and never fails. A
//! repeated Event raises a count, similar Events are combined, and a controller that emits too many Events about one
//! object is limited. Events that are not written are counted, and logged at growing
//! intervals. An Event is not the request of a decision, so crash tests do not stop at it.

mod correlate;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::names;
use http::{Method, Request, header};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::controller::{EventNote, EventSeverity, EventSource};
use super::effects::{exchange, refusal};
use super::metrics::{ControllerMetrics, DropLabels};
use super::report_interval::ReportInterval;
use correlate::{EventCorrelator, PlannedEvent};

/// How many Events may wait to be written, as in upstream.
const WAITING_MAX: usize = 1_000;

/// How many times a write is tried, the first try included.
const TRIES_MAX: u32 = 2;

/// Takes the notes of all controllers and passes them to the [`EventRecorder`]. Clones share the channel.
#[derive(Debug, Clone)]
pub struct EventSink {
    notes: Option<mpsc::Sender<(&'static str, EventNote)>>,
    metrics: ControllerMetrics,
}

/// Writes the notes of an [`EventSink`] as Events.
pub struct EventRecorder {
    client: kube::Client,
    clock: Clock,
    metrics: ControllerMetrics,
    notes: mpsc::Receiver<(&'static str, EventNote)>,
    correlator: EventCorrelator,
    /// The number in the last name. It only grows, so that names differ also on a clock that stands still.
    number: i128,
    /// When a lasting refusal is logged again.
    reports: ReportInterval,
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
            reports: ReportInterval::default(),
        };
        let notes = Some(sender);
        (Self { notes, metrics }, recorder)
    }

    /// A sink that drops all notes.
    #[must_use]
    pub fn none() -> Self {
        Self {
            notes: None,
            metrics: ControllerMetrics::new(),
        }
    }

    /// A sink whose notes a test reads.
    #[cfg(test)]
    pub(crate) fn captured() -> (Self, mpsc::Receiver<(&'static str, EventNote)>) {
        let (sender, notes) = mpsc::channel(WAITING_MAX);
        let events = Self {
            notes: Some(sender),
            metrics: ControllerMetrics::new(),
        };
        (events, notes)
    }

    /// Emits an Event. Never waits: if too many are waiting, the Event is dropped and counted.
    pub fn emit(&self, controller: &'static str, note: EventNote) {
        let Some(notes) = &self.notes else {
            return;
        };
        if notes.try_send((controller, note)).is_err() {
            dropped(&self.metrics, "queue");
        }
    }
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Writes Events until all sinks are dropped.
    pub async fn run(mut self) {
        while let Some((controller, note)) = self.notes.recv().await {
            let (now, steady) = (self.clock.now(), self.clock.steady());
            let source = note.source.clone().unwrap_or_else(|| EventSource {
                component: controller,
                host: String::new(),
            });
            match self.correlator.take(&source, &note, now, steady) {
                Some(planned) => self.write(&source, &note, planned).await,
                None => dropped(&self.metrics, "spam"),
            }
        }
    }

    async fn write(&mut self, source: &EventSource, note: &EventNote, mut planned: PlannedEvent) {
        let mut why = String::new();
        for _ in 0..TRIES_MAX {
            let name = match &planned.name {
                Some(name) => name.clone(),
                None => self.new_name(note),
            };
            let Ok(request) = request(source, note, &name, &planned) else {
                break;
            };
            let reply = exchange(&self.client, request, &self.metrics).await;
            let status = match &reply {
                Ok(reply) => Some(reply.status.as_u16()),
                Err(error) => error.status(),
            };
            why = match &reply {
                Ok(reply) => refusal(reply),
                Err(error) => error.to_string(),
            };
            match status {
                Some(200..300) => {
                    self.correlator.written(source, note, &planned, name);
                    return;
                }
                // The Event expired or was deleted: create a new one.
                Some(404) if planned.name.is_some() => planned.name = None,
                // The name is taken: the next try has another name.
                Some(409) if planned.name.is_none() => {}
                Some(429 | 500..) | None => {}
                Some(_) => break,
            }
        }
        dropped(&self.metrics, "refused");
        if self.reports.is_due(&why, Instant::now()) {
            let (object, reason) = (note.about.to_string(), note.reason);
            tracing::warn!(
                controller = source.component,
                object,
                reason,
                error = why,
                "Event was not written"
            );
        }
    }

    /// A name like `web.18a1b2c3d4e5f607`, with the time in nanoseconds, greater than in any name before. An Event must
    /// have the name of a DNS subdomain; if the object's name does not lead to one, its kind takes its place.
    fn new_name(&mut self, note: &EventNote) -> String {
        let nanos = self.clock.now().as_nanosecond();
        self.number = nanos.max(self.number + 1);
        let named = |what: &str| format!("{what}.{:x}", self.number);
        let is_valid = |name: &String| names::subdomain(name).is_empty();
        let kind = note.about.kind.to_lowercase();
        let mut choices = [named(&note.about.name), named(&kind)].into_iter();
        choices.find(is_valid).unwrap_or_else(|| named("event"))
    }
}

fn dropped(metrics: &ControllerMetrics, reason: &'static str) {
    let dropped = &metrics.families().events_dropped;
    dropped.get_or_create(&DropLabels { reason }).inc();
}

/// The request for an Event: a create, or a patch that raises the count of an existing one and moves its last time.
fn request(
    source: &EventSource,
    note: &EventNote,
    name: &str,
    planned: &PlannedEvent,
) -> Result<Request<Body>, http::Error> {
    // Events about cluster-scoped objects are kept in `default`, as in upstream.
    let namespace = match note.about.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    };
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let (method, path, media_type, body) = if planned.name.is_some() {
        let patch = json!({
            "count": planned.count,
            "lastTimestamp": seconds(planned.last),
            "message": planned.message,
        });
        let path = format!("{path}/{name}");
        (Method::PATCH, path, "application/merge-patch+json", patch)
    } else {
        let event = event(source, note, namespace, name, planned);
        (Method::POST, path, "application/json", event)
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media_type)
        .body(Body::from(body.to_string().into_bytes()))
}

fn event(
    source: &EventSource,
    note: &EventNote,
    namespace: &str,
    name: &str,
    planned: &PlannedEvent,
) -> Value {
    let severity = match note.severity {
        EventSeverity::Normal => "Normal",
        EventSeverity::Warning => "Warning",
    };
    let mut involved = json!({
        "apiVersion": note.about.api_version,
        "kind": note.about.kind,
        "namespace": note.about.namespace,
        "name": note.about.name,
        "uid": note.about.uid,
    });
    if !note.field_path.is_empty() {
        involved["fieldPath"] = note.field_path.as_str().into();
    }
    let mut reporter = json!({"component": source.component});
    if !source.host.is_empty() {
        reporter["host"] = source.host.as_str().into();
    }
    json!({
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "reason": note.reason,
        "message": planned.message,
        "type": severity,
        "count": planned.count,
        "firstTimestamp": seconds(planned.first),
        "lastTimestamp": seconds(planned.last),
        "source": reporter,
        "reportingComponent": source.component,
        "reportingInstance": source.host,
    })
}

/// A time as Kubernetes writes it, in whole seconds.
fn seconds(time: Timestamp) -> String {
    DateTimePrinter::new()
        .precision(Some(0))
        .timestamp_to_string(&time)
}
