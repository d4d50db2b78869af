//! The task of an election: sends its requests over a connection of their own, and sets the row of the gates.

use std::time::Duration;

use caretaker_machinery::clock::Clock;
use http::{Request, header};
use kube::client::Body;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::{LeaseAnswer, LeaseElection, LeaseName, LeaseRequest};
use crate::runtime::controller::{EventNote, EventSeverity};
use crate::runtime::driver::{HoldPurpose, HoldState, WriteHold};
use crate::runtime::effects::{exchange, refusal};
use crate::runtime::events::EventSink;
use crate::runtime::metrics::{ControllerMetrics, LeaseLabel};

/// The name of the row in gates and health pages.
const ROW: &str = "leader-election";

/// The component that Events about the Lease name.
const REPORTER: &str = "caretaker";

/// What an election shares with the controllers of its process.
pub struct LeaseParts {
    /// Sends over a connection of its own, which the controllers cannot keep busy.
    pub client: kube::Client,
    pub clock: Clock,
    pub metrics: ControllerMetrics,
    pub events: EventSink,
    /// Prints a line for operators when leadership changes.
    pub announce: fn(&str),
}

/// A running election. Dropping it ends the task, and its row holds back all writes then.
pub struct LeaseTask {
    state: watch::Receiver<HoldState>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// What the task owns.
struct LeaseLoop {
    election: LeaseElection,
    parts: LeaseParts,
    state: watch::Sender<HoldState>,
}

// === impl LeaseTask ===

impl LeaseTask {
    /// Takes part in the election until [`LeaseTask::release`]. Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(election: LeaseElection, parts: LeaseParts) -> Self {
        let (sender, state) = watch::channel(election.state(Instant::now()));
        let (stop, stopped) = oneshot::channel();
        let running = LeaseLoop {
            election,
            parts,
            state: sender,
        };
        Self {
            state,
            stop,
            task: tokio::spawn(running.run(stopped)),
        }
    }

    /// The row in the gate of each controller.
    #[must_use]
    pub fn hold(&self) -> WriteHold {
        WriteHold::new(ROW, HoldPurpose::Trouble, self.state.clone())
    }

    /// Gives up the Lease, so that another replica leads at once. To be called when no write is in flight any more.
    pub async fn release(self) {
        drop(self.stop);
        // The task ends by itself; a panic has been printed.
        let _ = self.task.await;
    }
}

// === impl LeaseLoop ===

impl LeaseLoop {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            self.attempt().await;
            let now = Instant::now();
            let next = self.election.next_attempt(now);
            // The row changes when the time of a leader runs out.
            let wake = match self.election.state(now) {
                HoldState::PassUntil(until) => next.min(until),
                _ => next,
            };
            tokio::select! {
                biased;
                // A dropped sender stops the task.
                _ = &mut stopped => break,
                () = sleep_until(wake) => {}
            }
        }
        let now = self.parts.clock.now();
        if let Some(request) = self.election.release(Instant::now(), now) {
            self.publish();
            if let LeaseAnswer::Failed(why) = self.send(&request).await {
                tracing::warn!(error = why, "the Lease could not be released");
            }
        }
    }

    /// One attempt to take or renew the Lease.
    async fn attempt(&mut self) {
        let mut next = Some(self.election.begin(Instant::now(), self.parts.clock.now()));
        while let Some(request) = next {
            let started = Instant::now();
            let answer = self.send(&request).await;
            if let LeaseAnswer::Failed(why) = &answer {
                tracing::debug!(error = why, "request for the Lease failed");
            }
            let times = [started, Instant::now()];
            next = self
                .election
                .answered(&request, answer, times, self.parts.clock.now());
        }
        self.publish();
    }

    /// Sets the row; prints a line and emits an Event when leadership changes.
    fn publish(&mut self) {
        let state = self.election.state(Instant::now());
        let LeaseName { identity, .. } = &self.election.name;
        let leads = |state: &HoldState| matches!(state, HoldState::PassUntil(_));
        let before = self.state.borrow().clone();
        let label = LeaseLabel {
            name: self.election.name.name.clone(),
        };
        let gauge = self
            .parts
            .metrics
            .families()
            .leader
            .get_or_create_owned(&label);
        gauge.set(i64::from(leads(&state)));
        if leads(&before) != leads(&state) {
            self.emit(if leads(&state) {
                "became leader"
            } else {
                "stopped leading"
            });
        }
        if leads(&before) != leads(&state) || before.reason() != state.reason() {
            match state.reason() {
                None => (self.parts.announce)(&format!("this process leads ({identity})")),
                Some(why) if leads(&before) => {
                    (self.parts.announce)(&format!("this process leads no more: {why}"));
                }
                Some(why) => (self.parts.announce)(why),
            }
        }
        self.state.send_if_modified(|current| {
            let is_change = *current != state;
            *current = state;
            is_change
        });
    }

    /// Emits upstream's Event about the Lease.
    fn emit(&self, what: &str) {
        let message = format!("{} {what}", self.election.name.identity);
        let about = self.election.identity();
        let note = EventNote::new(EventSeverity::Normal, about, "LeaderElection", message);
        self.parts.events.emit(REPORTER, note);
    }

    async fn send(&self, request: &LeaseRequest) -> LeaseAnswer {
        let limit = self.election.times.request();
        let sent = timeout(limit, self.exchange(request)).await;
        sent.unwrap_or_else(|_| LeaseAnswer::Failed(late(limit)))
    }

    async fn exchange(&self, request: &LeaseRequest) -> LeaseAnswer {
        let LeaseName {
            namespace, name, ..
        } = &self.election.name;
        let all = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let one = format!("{all}/{name}");
        let json = "application/json";
        let request = match request {
            LeaseRequest::Read => Request::get(one).body(Body::empty()),
            LeaseRequest::Create(lease) => Request::post(all)
                .header(header::CONTENT_TYPE, json)
                .body(body(lease)),
            LeaseRequest::Replace(lease) => Request::put(one)
                .header(header::CONTENT_TYPE, json)
                .body(body(lease)),
        };
        let reply = match request {
            Ok(mut request) => {
                let accept = header::HeaderValue::from_static(json);
                request.headers_mut().insert(header::ACCEPT, accept);
                exchange(&self.parts.client, request, &self.parts.metrics).await
            }
            Err(error) => return LeaseAnswer::Failed(error.to_string()),
        };
        match reply {
            Ok(reply) if reply.status.is_success() => match serde_json::from_slice(&reply.body) {
                Ok(lease) => LeaseAnswer::Lease(lease),
                Err(error) => LeaseAnswer::Failed(error.to_string()),
            },
            Ok(reply) if reply.status == 404 && reply.is_json() => LeaseAnswer::Missing,
            Ok(reply) => LeaseAnswer::Failed(refusal(&reply)),
            Err(error) => LeaseAnswer::Failed(error.to_string()),
        }
    }
}

fn body(lease: &Value) -> Body {
    Body::from(lease.to_string().into_bytes())
}

fn late(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs_f64())
}
