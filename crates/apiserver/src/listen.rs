//! The server on a socket: TLS, who may ask, and limits on connections.
//!
//! Everything about one request lives in the service; here is what concerns a connection: handshake, HTTP/1.1 or h2, the
//! [`auth`] at the door, how many there may be and how they end. hyper's server is driven directly, because one catch-all
//! handler needs no router and every limit has to be settable. Time here is the transport's, which is tokio's.

mod auth;
mod kubeconfig;
mod site;
mod tls;

pub use auth::{TOKEN_BYTES, Token};
pub use hyper::body::Incoming;
pub use kubeconfig::{KubeconfigError, KubeconfigFile};
pub use site::{Door, Site};
pub use tls::Keys;

pub use crate::request::Query;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caretaker_machinery::status::Status;
use futures::FutureExt;
use http::{Request, Response};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use self::auth::Gate;
use self::tls::Tls;
use crate::respond::Body;

/// Connections at the same time; further ones wait to be accepted. Fewer than the 1,024 files that a process may open by
/// default, so that there is always one left for the next.
pub const CONNECTIONS_MAX: usize = 900;

/// Requests at the same time on one h2 connection. A Go program has all its watches on one: a controller manager over 60.
pub const STREAMS_MAX: u32 = 1000;

/// How long a connection may take until its first request with the right token, handshake included.
pub const STRANGER_WAIT: Duration = Duration::from_secs(10);

/// How long an HTTP/1.1 connection may be idle, and how long the head of a request may take to arrive. Longer than the
/// 90 s after which Go's clients close idle connections themselves, so that none is closed under a request.
pub const HEAD_WAIT: Duration = Duration::from_secs(120);

/// Bytes in the head of a request: a label selector may have 64 KiB, and there are headers beside it.
pub const HEAD_BYTES_MAX: u32 = 128 * 1024;

/// How often an h2 connection is asked whether its client is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long the client may take to say so.
const PING_WAIT: Duration = Duration::from_secs(15);

/// Bytes that wait on one h2 stream for a slow client: one piece of a list.
const STREAM_BYTES_MAX: usize = 64 * 1024;

/// How long requests may go on after the stop. Watches never end by themselves, so this is what a stop takes.
const STOP_WAIT: Duration = Duration::from_millis(250);

/// Pause after the system could not accept a connection for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What protects the requests on their way.
#[derive(Debug)]
pub enum Transport {
    /// TLS with certificates made from these keys.
    Tls(Box<Keys>),
    /// Nothing. For loopback only.
    Plain,
}

/// A server's socket, ready to serve.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    gate: Gate,
}

/// Why a socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Tokens would be readable on the way.
    #[error("plain HTTP is for loopback only, and {0} can be reached from elsewhere")]
    NotLoopback(SocketAddr),
    /// The operating system refused.
    #[error("the socket cannot be used: {0}")]
    Io(#[from] io::Error),
    /// No certificate could be made.
    #[error("no certificate could be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate is of no use.
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// What the connections of a listener share.
struct Shared<S> {
    site: S,
    gate: Gate,
    tls: Option<TlsAcceptor>,
    http: Builder<TokioExecutor>,
}

/// One connection, from its acceptance to its end.
struct Connection<S> {
    shared: Arc<Shared<S>>,
    /// The address the client connected to.
    local: IpAddr,
    /// When it has to have shown the token.
    deadline: Instant,
    /// Changes, or loses its sender, when the server stops.
    stop: watch::Receiver<()>,
}

// === impl Listener ===

impl Listener {
    /// Takes a socket that is listening already. Connections wait in it until [`Listener::serve`].
    ///
    /// # Errors
    /// When the transport does not fit the socket's address, or no certificate can be made.
    pub fn new(
        socket: TcpListener,
        transport: Transport,
        token: Token,
    ) -> Result<Self, ListenError> {
        let address = socket.local_addr()?;
        let (tls, default_port) = match transport {
            Transport::Tls(keys) => (Some(Tls::new(*keys, address.ip())?), 443),
            Transport::Plain if address.ip().is_loopback() => (None, 80),
            Transport::Plain => return Err(ListenError::NotLoopback(address)),
        };
        let gate = Gate {
            token,
            port: address.port(),
            default_port,
        };
        Ok(Self {
            socket,
            address,
            tls,
            gate,
        })
    }

    /// Another listener of the same server: the same certificates, if any, and the same token, on another socket.
    ///
    /// # Errors
    /// When there is no TLS and the socket can be reached from elsewhere.
    pub fn beside(&self, socket: TcpListener) -> Result<Self, ListenError> {
        let address = socket.local_addr()?;
        if self.tls.is_none() && !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        Ok(Self {
            socket,
            address,
            tls: self.tls.clone(),
            gate: Gate {
                token: self.gate.token.clone(),
                port: address.port(),
                default_port: self.gate.default_port,
            },
        })
    }

    /// Where clients on this machine reach the server.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut address = self.address;
        if address.ip().is_unspecified() {
            // Nobody can connect to "any address"; a certificate cannot name it either.
            let loopback = auth::LOOPBACK
                .into_iter()
                .find(|loopback| loopback.is_ipv4() == address.is_ipv4());
            address.set_ip(loopback.unwrap_or(address.ip()));
        }
        format!("{scheme}://{address}")
    }

    /// The text of a kubeconfig for this server.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let authority = self.tls.as_ref().map(|tls| tls.authority.as_str());
        kubeconfig::render(&self.url(), authority, &self.gate.token)
    }

    /// Serves until `stop` is ready. Then nobody new gets in, requests under way get a moment to end, and whatever is
    /// left is cut.
    pub async fn serve(self, site: impl Site, stop: impl Future<Output = ()>) {
        let shared = Arc::new(Shared {
            site,
            gate: self.gate,
            tls: self.tls.map(|tls| TlsAcceptor::from(tls.config)),
            http: http(),
        });
        let (stopping, stopped) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! { biased;
                () = &mut stop => break,
                Some(ended) = connections.join_next() => report(ended),
                accepted = self.socket.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&shared);
                        connections.spawn(shared.connection(stream, stopped.clone()));
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop((self.socket, stopping, stopped));
        let all_ended = async { while connections.join_next().await.is_some() {} };
        let _ = timeout(STOP_WAIT, all_ended).await;
        connections.shutdown().await;
    }
}

// === impl Shared ===

impl<S: Site> Shared<S> {
    async fn connection(self: Arc<Self>, stream: TcpStream, stop: watch::Receiver<()>) {
        let deadline = Instant::now() + STRANGER_WAIT;
        let Ok(local) = stream.local_addr() else {
            return;
        };
        // Small answers must not wait for the client to acknowledge earlier ones.
        let _ = stream.set_nodelay(true);
        let tls = self.tls.clone();
        let connection = Connection {
            shared: self,
            local: local.ip(),
            deadline,
            stop,
        };
        match tls {
            None => connection.drive(stream).await,
            Some(tls) => match timeout_at(deadline, tls.accept(stream)).await {
                Ok(Ok(stream)) => connection.drive(stream).await,
                Ok(Err(error)) => tracing::debug!(%error, "no handshake"),
                Err(_) => tracing::debug!("the handshake took too long"),
            },
        }
    }

    async fn handle(
        &self,
        local: IpAddr,
        known: &AtomicBool,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let door = self.site.door(request.uri().path());
        let passed = self
            .gate
            .pass(door, local, request.uri(), request.headers());
        let identity = match passed {
            Ok(identity) => identity,
            Err(status) => return self.site.refuse(&status),
        };
        if identity.is_some() {
            known.store(true, Ordering::Relaxed);
        }
        // A request that meets a mistake of ours must not take the other requests on its connection with it.
        let answer = AssertUnwindSafe(self.site.serve(identity, request)).catch_unwind();
        answer.await.unwrap_or_else(|_| {
            let message = "this request met a mistake in the server, which is told in its log";
            let status = Status::failure(500, "InternalError", message);
            self.site.refuse(&status)
        })
    }
}

// === impl Connection ===

impl<S: Site> Connection<S> {
    /// Answers requests until one side has had enough.
    async fn drive<T>(mut self, stream: T)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let known = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request| {
            let (shared, known, local) = (Arc::clone(&self.shared), Arc::clone(&known), self.local);
            async move { Ok::<_, Infallible>(shared.handle(local, &known, request).await) }
        });
        let http = self.shared.http.clone();
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        let mut deadline = pin!(sleep_until(self.deadline));
        let (mut stopping, mut judged) = (false, false);
        loop {
            tokio::select! { biased;
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended");
                    }
                    return;
                }
                _ = self.stop.changed(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut deadline, if !judged => {
                    judged = true;
                    if !known.load(Ordering::Relaxed) {
                        tracing::debug!("a connection showed no token in time");
                        return;
                    }
                }
            }
        }
    }
}

/// How HTTP is spoken.
fn http() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_send_buf_size(STREAM_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_WAIT);
    http
}

/// Whether accepting failed because of the client that was to be accepted; the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection broke");
    }
}

#[cfg(test)]
mod tests;
