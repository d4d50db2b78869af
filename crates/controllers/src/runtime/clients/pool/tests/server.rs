//! HTTP servers in memory, and a dialer that connects to them: tokio's clock can be paused, and every connection counts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use h2::Reason;
use h2::server::SendResponse;
use h2::{SendStream, server};
use http::{Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::super::dial::{ConnectError, DialedStream, StreamDialer, TlsIdentity};

/// An empty SETTINGS frame: no limit of streams.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// A GOAWAY frame without an error that covers no stream.
const GOAWAY_NOTHING_DONE: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The type of a HEADERS frame.
const HEADERS: u8 = 1;

/// What happens to the next connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum NextConnection {
    Refuse,
    Hang,
    /// HTTP/2 with this limit of streams.
    Http2(u32),
    Http1,
    /// Answers the first request with a GOAWAY that does not cover it.
    GoAwayAtOnce,
    /// Ends after the first request has arrived.
    CutAfterRequest,
}

/// A command to a connection.
pub(super) enum ServerCommand {
    GoAway,
    /// Stops reading and writing, without an end.
    Freeze,
    Reset(usize, Reason),
    /// Sends a line on an open watch.
    Line(usize),
}

/// Connects to servers in memory. Clones share the log.
#[derive(Clone, Default)]
pub(super) struct TestDialer(Arc<Mutex<DialerState>>);

#[derive(Default)]
struct DialerState {
    /// The first connections; the last one repeats.
    plan: VecDeque<NextConnection>,
    connections: Vec<mpsc::UnboundedSender<ServerCommand>>,
    ended: Vec<usize>,
    requests: Vec<(usize, String)>,
    attempts: Vec<tokio::time::Instant>,
    underway: usize,
    underway_most: usize,
}

// === impl TestDialer ===

impl TestDialer {
    pub(super) fn new(plan: &[NextConnection]) -> Self {
        let dialer = Self::default();
        dialer.0.lock().unwrap().plan = plan.iter().copied().collect();
        dialer
    }

    pub(super) fn connections(&self) -> usize {
        self.0.lock().unwrap().connections.len()
    }

    /// The connections that have ended, in the order of their ends.
    pub(super) fn ended(&self) -> Vec<usize> {
        self.0.lock().unwrap().ended.clone()
    }

    /// The requests that arrived, each with its connection.
    pub(super) fn requests(&self) -> Vec<(usize, String)> {
        self.0.lock().unwrap().requests.clone()
    }

    pub(super) fn attempts(&self) -> Vec<tokio::time::Instant> {
        self.0.lock().unwrap().attempts.clone()
    }

    /// The most attempts at the same time.
    pub(super) fn attempts_at_once(&self) -> usize {
        self.0.lock().unwrap().underway_most
    }

    pub(super) fn command(&self, connection: usize, command: ServerCommand) {
        let state = self.0.lock().unwrap();
        let sent = state.connections[connection].send(command);
        assert!(sent.is_ok(), "the connection has ended");
    }

    fn note(&self, connection: usize, path: &str) -> usize {
        let mut state = self.0.lock().unwrap();
        let before = state.requests.iter();
        let count = before.filter(|(_, other)| other == path).count();
        state.requests.push((connection, path.to_owned()));
        count
    }

    fn open(&self, next: NextConnection) -> DialedStream {
        let (ours, theirs) = duplex(64 * 1024);
        let (commands, received) = mpsc::unbounded_channel();
        let mut state = self.0.lock().unwrap();
        let id = state.connections.len();
        state.connections.push(commands);
        drop(state);
        let dialer = self.clone();
        tokio::spawn(async move {
            match next {
                NextConnection::Http2(limit) => dialer.serve(id, theirs, limit, received).await,
                NextConnection::Http1 => dialer.serve_http1(id, theirs).await,
                NextConnection::GoAwayAtOnce => raw(theirs, &GOAWAY_NOTHING_DONE).await,
                NextConnection::CutAfterRequest => raw(theirs, &[]).await,
                NextConnection::Refuse | NextConnection::Hang => {}
            }
            dialer.0.lock().unwrap().ended.push(id);
        });
        DialedStream {
            io: Box::new(ours),
            is_http2: !matches!(next, NextConnection::Http1),
        }
    }

    /// Serves HTTP/2: `/watch` stays open, `/hang` has no answer, the first `/refused` is refused, and other paths are
    /// answered at once.
    async fn serve(
        &self,
        id: usize,
        io: DuplexStream,
        limit: u32,
        mut commands: mpsc::UnboundedReceiver<ServerCommand>,
    ) {
        let mut builder = server::Builder::new();
        let connection = builder.max_concurrent_streams(limit).handshake(io).await;
        let mut connection: server::Connection<DuplexStream, Bytes> = connection.unwrap();
        let mut watches: Vec<SendStream<Bytes>> = Vec::new();
        let mut unanswered = Vec::new();
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(ServerCommand::GoAway) => connection.graceful_shutdown(),
                    Some(ServerCommand::Freeze) | None => std::future::pending().await,
                    Some(ServerCommand::Reset(stream, reason)) => watches[stream].send_reset(reason),
                    Some(ServerCommand::Line(stream)) => {
                        watches[stream].send_data(Bytes::from_static(b"line\n"), false).unwrap();
                    }
                },
                accepted = connection.accept() => {
                    let Some(Ok((request, respond))) = accepted else {
                        return;
                    };
                    let count = self.note(id, request.uri().path());
                    answer(&request, respond, count, &mut watches, &mut unanswered);
                }
            }
        }
    }

    /// Serves HTTP/1.1: `/watch` stays open, and other paths are answered at once.
    async fn serve_http1(&self, id: usize, mut io: DuplexStream) {
        let mut buffer = vec![0; 4096];
        loop {
            let read = io.read(&mut buffer).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let path = text.split(' ').nth(1).unwrap();
            self.note(id, path);
            let reply: &[u8] = match path {
                "/watch" => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nline\n\r\n",
                "/hang" => b"",
                _ => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            };
            io.write_all(reply).await.unwrap();
        }
    }
}

impl StreamDialer for TestDialer {
    fn dial<'a>(&'a self, _: &'a TlsIdentity) -> BoxFuture<'a, Result<DialedStream, ConnectError>> {
        let next = {
            let mut state = self.0.lock().unwrap();
            state.attempts.push(tokio::time::Instant::now());
            state.underway += 1;
            state.underway_most = state.underway_most.max(state.underway);
            match state.plan.len() {
                1 => state.plan[0],
                _ => state.plan.pop_front().unwrap(),
            }
        };
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.lock().unwrap().underway -= 1;
            match next {
                NextConnection::Refuse => Err(ConnectError::Tcp("connection refused".into())),
                NextConnection::Hang => std::future::pending().await,
                _ => Ok(self.open(next)),
            }
        })
    }

    fn address(&self) -> String {
        "test:6443".to_owned()
    }
}

fn answer(
    request: &Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    count: usize,
    watches: &mut Vec<SendStream<Bytes>>,
    unanswered: &mut Vec<SendResponse<Bytes>>,
) {
    match request.uri().path() {
        "/watch" => {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            stream
                .send_data(Bytes::from_static(b"line\n"), false)
                .unwrap();
            watches.push(stream);
        }
        "/hang" => unanswered.push(respond),
        "/refused" if count == 0 => respond.send_reset(Reason::REFUSED_STREAM),
        "/broken" => respond.send_reset(Reason::INTERNAL_ERROR),
        _ => {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"ok"), true).unwrap();
        }
    }
}

/// Sends SETTINGS, waits for the first request, writes `reply` and ends.
async fn raw(mut io: DuplexStream, reply: &[u8]) {
    let mut preface = [0; 24];
    io.read_exact(&mut preface).await.unwrap();
    io.write_all(&SETTINGS).await.unwrap();
    let mut head = [0; 9];
    while head[3] != HEADERS {
        io.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        io.read_exact(&mut payload).await.unwrap();
    }
    io.write_all(reply).await.unwrap();
    // The client reads the reply before the end.
    let _ = tokio::time::timeout(std::time::Duration::from_millis(100), io.read(&mut head)).await;
}
