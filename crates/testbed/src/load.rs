//! Load on an API server, and what a client sees of it. `cargo xtask bench` runs this on two servers and compares.
//!
//! Closed loops over TLS with the client our controllers use: a client sends its next request when the last one is
//! answered. The driver is one thread, so [`LoadSummary::cpu_secs`] close to [`LoadSummary::secs`] means that it, not the
//! server, was the limit. What is measured is transport time, which is tokio's.

mod cascade;
mod create;
mod family;
mod following;
mod lateness;
mod memory;
mod pods;
mod read;
mod server_clock;
mod timed;

pub use cascade::{CascadeLoad, CascadePolicy, CascadeSummary};
pub use create::{CreateLoad, DeleteLoad};
pub use family::{FamilyLoad, FamilyShape, OwnerFamily};
pub use lateness::LatenessSummary;
pub use memory::{GraphMemory, MemorySummary};
pub use pods::{PodLoad, PodRemoval, RemovalSummary};
pub use read::{ListLoad, WatchLoad};
pub use timed::{TimedEvent, TimedLoad, TimedResult};

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::ValueEnum;
use futures::future::try_join_all;
use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::time::Instant;

use crate::target::Target;

/// What of a refusal is shown, in bytes.
const REFUSAL_BYTES_MAX: usize = 500;

/// What one run of a load came to.
#[derive(Debug, Serialize)]
pub struct LoadSummary {
    /// Objects created, items listed or events received.
    pub count: usize,
    /// From the first request to the last answer, in seconds.
    pub secs: f64,
    /// What half of the requests took at most, in seconds.
    pub p50_secs: f64,
    /// What 99 of 100 requests took at most, in seconds.
    pub p99_secs: f64,
    /// Bytes of one answer, as far as the load is about that.
    pub bytes: usize,
    /// Processor time the driver itself took meanwhile, in seconds.
    pub cpu_secs: f64,
}

/// The form of a body and of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WireFormat {
    #[default]
    Json,
    Protobuf,
}

/// When a measurement began.
struct LoadStart {
    at: Instant,
    cpu: Duration,
}

// === impl WireFormat ===

impl WireFormat {
    fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

// === impl LoadStart ===

impl LoadStart {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            cpu: cpu_time(),
        }
    }

    /// What was measured until now.
    fn measured(&self, count: usize, bytes: usize, mut latencies: Vec<Duration>) -> LoadSummary {
        latencies.sort_unstable();
        LoadSummary {
            count,
            secs: self.at.elapsed().as_secs_f64(),
            p50_secs: percentile(&latencies, 50).as_secs_f64(),
            p99_secs: percentile(&latencies, 99).as_secs_f64(),
            bytes,
            cpu_secs: cpu_time().saturating_sub(self.cpu).as_secs_f64(),
        }
    }
}

/// Parses an argument in seconds.
fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

/// The smallest value that `percent` of 100 values do not exceed; nothing takes no time.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime)
        .try_into()
        .unwrap_or_default()
}

/// Clients with an open connection each.
async fn connected(kubeconfig: &Path, clients: usize) -> anyhow::Result<Vec<Client>> {
    let connect = || async {
        let client = Target::real(kubeconfig).await?.client().clone();
        send(&client, Method::GET, "/version", Bytes::new()).await?;
        anyhow::Ok(client)
    };
    try_join_all((0..clients).map(|_| connect())).await
}

/// A closed loop: each client takes the next number and does one step with it, as long as there are any. Answers with
/// what each step took.
async fn closed_loop(
    clients: &[Client],
    numbers: Range<usize>,
    step: impl AsyncFn(&Client, usize) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Duration>> {
    let latencies = RefCell::new(Vec::with_capacity(numbers.len()));
    let next = Cell::new(numbers.start);
    let one = async |client: &Client| {
        while next.get() < numbers.end {
            let number = next.replace(next.get() + 1);
            let sent = Instant::now();
            step(client, number).await?;
            latencies.borrow_mut().push(sent.elapsed());
        }
        anyhow::Ok(())
    };
    try_join_all(clients.iter().map(one)).await?;
    Ok(latencies.into_inner())
}

/// Makes a namespace, unless it is there.
async fn namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let body =
        format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
    match send(
        client,
        Method::GET,
        &format!("/api/v1/namespaces/{name}"),
        Bytes::new(),
    )
    .await
    {
        Ok(_) => Ok(()),
        Err(_) => send(client, Method::POST, "/api/v1/namespaces", body.into())
            .await
            .map(drop),
    }
}

/// Sends one request in JSON and reads the whole answer; anything but success is an error.
async fn send(client: &Client, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
    send_as(WireFormat::Json, client, method, path, body).await
}

/// Like [`send`], in the given form.
async fn send_as(
    format: WireFormat,
    client: &Client,
    method: Method,
    path: &str,
    body: Bytes,
) -> anyhow::Result<Bytes> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, format.media_type())
        .header(http::header::ACCEPT, format.media_type())
        .body(Body::from(body))?;
    let (parts, body) = client.send(request).await?.into_parts();
    let bytes = body.collect_bytes().await.context("the answer broke off")?;
    refuse(parts.status, path, &bytes)?;
    Ok(bytes)
}

/// An error for a status that is none of success.
fn refuse(status: StatusCode, path: &str, body: &[u8]) -> anyhow::Result<()> {
    if status.is_success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]);
    bail!("{path} answered {status}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_value_that_covers_its_share() {
        let values = |count: u64| (1..=count).map(Duration::from_millis).collect::<Vec<_>>();
        let table = [
            (0, 50, 0),
            (1, 50, 1),
            (1, 99, 1),
            (2, 50, 1),
            (3, 50, 2),
            (100, 99, 99),
            (101, 99, 100),
            (1000, 99, 990),
        ];
        for (count, percent, millis) in table {
            let found = percentile(&values(count), percent);
            assert_eq!(
                found,
                Duration::from_millis(millis),
                "p{percent} of {count}"
            );
        }
    }

    #[test]
    fn a_refusal_carries_the_beginning_of_what_the_server_said() {
        assert!(refuse(StatusCode::CREATED, "/x", b"").is_ok());
        let error = refuse(StatusCode::CONFLICT, "/x", &[b'a'; 2 * REFUSAL_BYTES_MAX]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "/x answered 409 Conflict: {}",
                "a".repeat(REFUSAL_BYTES_MAX)
            )
        );
    }
}
