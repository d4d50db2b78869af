//! The connections to the API server for one purpose, shared by all requests of that purpose.
//!
//! Requests are streams of HTTP/2 connections. The pool counts the streams of each connection and opens another
//! connection when all are full, because hyper's own client has one connection per server and queues above its limit: a
//! watch never ends, so what waits behind a full connection waits for ever. A server or a proxy that offers only HTTP/1.1
//! gets connections with one stream each.
//!
//! - `placement`: which connection takes the next stream, how many connections are opened at once, and the pauses between
//!   attempts. Pure.
//! - `dial`: TCP, proxy and TLS. `http2` and `http1`: one connection of each protocol. `stream`: one request on it.
//! - `body`: the response body, which gives its stream back when it ends.
//!
//! Only this module changes the state of a pool. A request is sent again only if the server surely has not processed it;
//! what else is retried, the queue and the feeds decide.

mod body;
mod dial;
mod http1;
mod http2;
mod metrics;
mod placement;
mod stream;

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use caretaker_machinery::rng::Rng;
use http::{Request, Response};
use kube::client::Body;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::runtime::driver::WriteFence;
pub(super) use body::PooledBody;
use dial::{ConnectError, DialedStream, StreamDialer};
pub(super) use dial::{ConnectTarget, HttpVersions, TlsIdentity};
pub(super) use metrics::ConnectionMetrics;
use metrics::OpenConnection;
use placement::{ConnectionLoad, SpreadRules, StreamPlacement};
use stream::{ConnectionFate, ConnectionSender, StreamError, StreamSender};

/// The longest time to open a connection: name resolution, TCP, proxy, TLS, and the server's first frame. A request waits
/// for its connection, and must fail because of it before its own timeout of 30 s.
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// How often a request that the server has not processed is sent again before its caller gets the error.
const RESENDS_MAX: u32 = 3;

/// A connection without a stream is closed after this time, unless it is the last one. Go's clients wait as long.
const IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(90);

/// The requests that share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ConnectionPurpose {
    /// Lists and watches of feeds.
    Watches,
    /// All other reads and writes.
    Requests,
    /// The lease, which must not wait behind other requests.
    Lease,
}

/// Sends requests over shared connections. Clones share the connections, which close when the last clone is dropped and
/// their last stream ends.
#[derive(Clone)]
pub(super) struct ConnectionPool {
    shared: Arc<PoolShared>,
}

/// Why a request has no response.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum PoolError {
    #[error("no connection to {address}: {why}")]
    Connect {
        address: String,
        #[source]
        why: Arc<ConnectError>,
    },
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the request body cannot be read: {0}")]
    Body(String),
    /// The gate of the driver closed while the request waited for a connection.
    #[error("not sent: {0}")]
    HeldBack(String),
}

struct PoolShared {
    dialer: Box<dyn StreamDialer>,
    purpose: ConnectionPurpose,
    rules: SpreadRules,
    metrics: ConnectionMetrics,
    state: Mutex<PoolState>,
    /// Wakes the requests that wait for a connection.
    changed: Notify,
}

struct PoolState {
    connections: Vec<PooledConnection>,
    next_id: u64,
    /// The newest credentials that a request had.
    generation: u64,
    /// Connections that are being opened.
    attempts: usize,
    /// Requests that wait for a connection.
    waiting: usize,
    /// Attempts in a row after which no response arrived.
    failures: u32,
    /// All failed attempts. A waiting request fails when this grows.
    failed_attempts: u64,
    last_error: Option<PoolError>,
    /// Streams of the last connection, which is a guess for the next one.
    streams_expected: usize,
    rng: Rng,
}

/// An open connection that takes streams.
struct PooledConnection {
    id: u64,
    generation: u64,
    sender: ConnectionSender,
    streams: usize,
    was_used: bool,
    /// Whether a response has arrived.
    is_proven: bool,
    idle_since: Instant,
    fate: ConnectionFate,
}

/// A stream of a connection that is reserved for one request. Dropping it gives the stream back.
struct StreamSlot {
    shared: Weak<PoolShared>,
    id: u64,
    fate: ConnectionFate,
    /// An HTTP/1.1 connection, which belongs to its request until the response ends.
    lent: Option<http1::Http1Sender>,
}

/// Counts a waiting request, also if it is cancelled.
struct WaitingRequest<'a>(&'a PoolShared);

// === impl ConnectionPurpose ===

impl ConnectionPurpose {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Watches => "watches",
            Self::Requests => "requests",
            Self::Lease => "lease",
        }
    }
}

// === impl ConnectionPool ===

impl ConnectionPool {
    /// A pool without connections. `rng` spreads the attempts to connect of many processes.
    pub(super) fn new(
        target: ConnectTarget,
        purpose: ConnectionPurpose,
        metrics: ConnectionMetrics,
        rng: Rng,
    ) -> Self {
        Self::with_dialer(Box::new(target), purpose, metrics, rng)
    }

    fn with_dialer(
        dialer: Box<dyn StreamDialer>,
        purpose: ConnectionPurpose,
        metrics: ConnectionMetrics,
        rng: Rng,
    ) -> Self {
        let state = PoolState {
            connections: Vec::new(),
            next_id: 0,
            generation: 0,
            attempts: 0,
            waiting: 0,
            failures: 0,
            failed_attempts: 0,
            last_error: None,
            streams_expected: usize::MAX,
            rng,
        };
        Self {
            shared: Arc::new(PoolShared {
                dialer,
                purpose,
                rules: SpreadRules::of(purpose),
                metrics,
                state: Mutex::new(state),
                changed: Notify::new(),
            }),
        }
    }

    /// Sends a request with an absolute URI and returns its response as soon as the head has arrived.
    ///
    /// The request goes to a connection that was opened with `tls` or with newer credentials. Connections with older ones
    /// get no streams any more and close when their last stream ends, so that watches that work go on.
    ///
    /// # Errors
    /// There is no connection, or it broke before the head arrived.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        tls: &TlsIdentity,
    ) -> Result<Response<PooledBody>, PoolError> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await;
        let body = body.map_err(|error| PoolError::Body(error.to_string()))?;
        let mut resends = 0;
        loop {
            let (sender, slot) = self.shared.reserve(tls).await?;
            let fence = head.extensions.get::<WriteFence>();
            if let Some(why) = fence.and_then(WriteFence::reason) {
                return Err(PoolError::HeldBack(why));
            }
            match stream::send(sender, slot, &head, &body).await {
                Ok(response) => {
                    self.shared.prove(response.body().connection());
                    return Ok(response);
                }
                Err(error) if error.is_unprocessed() && resends < RESENDS_MAX => {
                    tracing::debug!(%error, "the server has not processed the request; sending it again");
                    resends += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionPool({})", self.shared.purpose.label())
    }
}

// === impl PoolError ===

impl PoolError {
    /// Whether there was no connection, so that the request has not left this process.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }
}

// === impl PoolShared ===

impl PoolShared {
    /// Waits for a free stream and reserves it.
    async fn reserve(
        self: &Arc<Self>,
        tls: &TlsIdentity,
    ) -> Result<(StreamSender, StreamSlot), PoolError> {
        let mut failed_before = None;
        let mut waiting = None;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                let failed_before = *failed_before.get_or_insert(state.failed_attempts);
                state.retire(tls.generation);
                let placement = state.place(&self.rules);
                if let StreamPlacement::Take { index, .. } = placement {
                    let taken = state.connections[index].take(self);
                    if placement.opens() && state.attempts == 0 {
                        self.attempt(&mut state, tls);
                    }
                    return Ok(taken);
                }
                if state.failed_attempts > failed_before
                    && let Some(error) = &state.last_error
                {
                    return Err(error.clone());
                }
                if waiting.is_none() {
                    state.waiting += 1;
                    waiting = Some(WaitingRequest(self));
                }
                let wanted = state.attempts_wanted(&self.rules);
                while state.attempts < wanted {
                    self.attempt(&mut state, tls);
                }
            }
            changed.await;
        }
    }

    /// Opens a connection in a task of its own, so that it outlives a request that is cancelled.
    fn attempt(self: &Arc<Self>, state: &mut PoolState, tls: &TlsIdentity) {
        state.attempts += 1;
        let pause = placement::pause(state.failures, &mut state.rng);
        let (shared, tls) = (self.clone(), tls.clone());
        tokio::spawn(async move {
            sleep(pause).await;
            let opened = timeout(CONNECT_TIMEOUT, shared.open(&tls)).await;
            let opened = opened.unwrap_or(Err(ConnectError::Timeout(CONNECT_TIMEOUT)));
            let mut state = shared.lock();
            state.attempts -= 1;
            if let Err(error) = opened {
                shared.metrics.count_failure(shared.purpose);
                state.failures = state.failures.saturating_add(1);
                state.failed_attempts += 1;
                state.last_error = Some(PoolError::Connect {
                    address: shared.dialer.address(),
                    why: Arc::new(error),
                });
            }
            drop(state);
            shared.changed.notify_waiters();
        });
    }

    /// Opens a connection and adds it to the pool.
    async fn open(self: &Arc<Self>, tls: &TlsIdentity) -> Result<(), ConnectError> {
        let DialedStream { io, is_http2 } = self.dialer.dial(tls).await?;
        let (id, fate) = (self.next_id(), ConnectionFate::default());
        let gauge = |protocol| OpenConnection::new(&self.metrics, self.purpose, protocol);
        let (sender, streams) = if is_http2 {
            let (sender, connection) = http2::handshake(io).await?;
            let (watcher, settled) = http2::settings_watcher();
            let driven = http2::drive(connection, watcher, fate.clone());
            self.follow(id, driven, gauge("h2"));
            http2::wait_for_settings(settled, &fate).await?;
            let streams = sender.current_max_send_streams();
            (ConnectionSender::Http2(sender), streams)
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            self.follow(id, http1::drive(connection), gauge("http/1.1"));
            (ConnectionSender::Http1(Some(sender)), 1)
        };
        let (purpose, address) = (self.purpose.label(), self.dialer.address());
        tracing::debug!(purpose, address, is_http2, streams, "connection opened");
        let mut state = self.lock();
        state.streams_expected = streams;
        state.connections.push(PooledConnection {
            id,
            generation: tls.generation,
            sender,
            streams: 0,
            was_used: false,
            is_proven: false,
            idle_since: Instant::now(),
            fate,
        });
        Ok(())
    }

    /// Runs the task of a connection: drives it to its end, and closes it when it is idle.
    fn follow(
        self: &Arc<Self>,
        id: u64,
        driven: impl Future<Output = ()> + Send + 'static,
        gauge: OpenConnection,
    ) {
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            let _gauge = gauge;
            let mut driven = pin!(driven);
            while timeout(IDLE_MAX, driven.as_mut()).await.is_err() {
                if let Some(shared) = shared.upgrade() {
                    shared.lock().close_idle();
                }
            }
            if let Some(shared) = shared.upgrade() {
                shared.lock().end(id);
                shared.changed.notify_waiters();
            }
        });
    }

    /// Notes that a connection has brought a response: the server works.
    fn prove(&self, id: u64) {
        let mut state = self.lock();
        state.failures = 0;
        if let Some(connection) = state.find(id) {
            connection.is_proven = true;
        }
    }

    /// Gives a stream back.
    fn release(&self, id: u64) {
        let mut state = self.lock();
        if let Some(connection) = state.find(id) {
            connection.streams -= 1;
            connection.idle_since = Instant::now();
            if connection.sender.is_lost() {
                state.connections.retain(|connection| connection.id != id);
            }
        }
        if state.waiting > 0 {
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Gives back an HTTP/1.1 connection that can take another request.
    fn give_back(&self, id: u64, sender: http1::Http1Sender) {
        if let Some(connection) = self.lock().find(id) {
            connection.sender = ConnectionSender::Http1(Some(sender));
        }
        self.release(id);
    }

    fn next_id(&self) -> u64 {
        let mut state = self.lock();
        state.next_id += 1;
        state.next_id
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PoolState ===

impl PoolState {
    /// Drops the connections that take no more streams: the server closes them, or their credentials are old. Their
    /// streams go on.
    fn retire(&mut self, generation: u64) {
        self.generation = self.generation.max(generation);
        let newest = self.generation;
        self.connections.retain_mut(|connection| {
            connection.generation >= newest && !connection.sender.is_closing()
        });
    }

    fn place(&self, rules: &SpreadRules) -> StreamPlacement {
        placement::place(self.loads(), rules, self.failures)
    }

    fn attempts_wanted(&self, rules: &SpreadRules) -> usize {
        let (expected, failures) = (self.streams_expected, self.failures);
        placement::attempts_wanted(self.waiting, self.loads(), rules, expected, failures)
    }

    fn loads(&self) -> impl Iterator<Item = ConnectionLoad> {
        self.connections.iter().map(|connection| ConnectionLoad {
            streams: connection.streams,
            limit: connection.sender.limit(),
        })
    }

    fn find(&mut self, id: u64) -> Option<&mut PooledConnection> {
        let mut connections = self.connections.iter_mut();
        connections.find(|connection| connection.id == id)
    }

    /// A connection ended. One that got a request and never brought a response counts as a failed attempt: the server
    /// accepts connections and closes them.
    fn end(&mut self, id: u64) {
        let ended = self.find(id);
        if ended.is_some_and(|ended| ended.was_used && !ended.is_proven) {
            self.failures = self.failures.saturating_add(1);
        }
        self.connections.retain(|connection| connection.id != id);
    }

    /// Closes connections that were idle for long, except for one.
    fn close_idle(&mut self) {
        let mut left = self.connections.len();
        self.connections.retain(|connection| {
            let is_idle = connection.streams == 0 && connection.idle_since.elapsed() >= IDLE_MAX;
            let closes = is_idle && left > 1;
            left -= usize::from(closes);
            !closes
        });
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    /// Reserves a stream.
    fn take(&mut self, shared: &Arc<PoolShared>) -> (StreamSender, StreamSlot) {
        self.streams += 1;
        self.was_used = true;
        let slot = StreamSlot {
            shared: Arc::downgrade(shared),
            id: self.id,
            fate: self.fate.clone(),
            lent: None,
        };
        (self.sender.take(), slot)
    }
}

// === impl StreamSlot ===

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let Some(mut sender) = self.lent.take() else {
            shared.release(self.id);
            return;
        };
        // The connection is ready when it has read the rest of the response. It ends if the response was cut off.
        let id = self.id;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if sender.ready().await.is_ok() {
                    shared.give_back(id, sender);
                }
            });
        }
    }
}

// === impl WaitingRequest ===

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests;
