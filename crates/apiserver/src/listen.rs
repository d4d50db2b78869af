//! Serves a socket: TLS, authentication and connection limits.
//!
//! The service handles requests; this module handles connections: handshake, HTTP/1.1 or h2, [`auth`], limits and shutdown.
//! It drives hyper's server directly, because one catch-all handler needs no router and every limit must be configurable.
//! Timeouts use tokio's time.

pub(crate) mod auth;
mod kubeconfig;
mod names;
mod tls;

pub use auth::{AccessCheck, BearerToken, TOKEN_BYTES};
pub use hyper::body::Incoming;
pub use kubeconfig::{KUBECONFIG_CONTEXT, KubeconfigError, KubeconfigFile};
pub use names::{InvalidSubjectName, ServerNames, SubjectName};
pub use tls::TlsKeys;

pub use crate::request::RequestQuery;

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

use self::auth::AccessGate;
use self::kubeconfig::KubeconfigContent;
use self::tls::TlsSetup;
use crate::identity::UserIdentity;
use crate::negotiate::ResponseFormat;
use crate::respond::{self, ResponseBody};

/// Most concurrent connections; further ones wait to be accepted. Fewer than the default limit of 1,024 open files, so that
/// a file descriptor is left for the next one.
pub const CONNECTIONS_MAX: usize = 900;

/// Most concurrent requests on one h2 connection. A Go client has all its watches on one connection; a controller manager has
/// over 60.
pub const STREAMS_MAX: u32 = 1000;

/// Longest time from accepting a connection to its first authenticated request.
pub const STRANGER_WAIT: Duration = Duration::from_secs(10);

/// Longest idle time of an HTTP/1.1 connection, and longest time to receive the head of a request. Longer than the 90 s after
/// which Go clients close idle connections, so that the server does not close a connection under a request.
pub const HEAD_WAIT: Duration = Duration::from_secs(120);

/// Most bytes in the head of a request: a label selector of 64 KiB and the headers.
pub const HEAD_BYTES_MAX: u32 = 128 * 1024;

/// Interval of h2 keep-alive pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Longest time to answer a ping.
const PING_WAIT: Duration = Duration::from_secs(15);

/// Most bytes that are buffered on one h2 stream for a slow client: one chunk of a list.
const STREAM_BYTES_MAX: usize = 64 * 1024;

/// Grace period for requests at shutdown. Watches and idle connections end at once; only a client that is slow to send a
/// body or to read an answer needs it.
const STOP_WAIT: Duration = Duration::from_millis(500);

/// Pause after accept failed because of missing file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The requests that a listener serves: those of the Kubernetes API, or those of the binary's admin server.
pub trait HttpSite: Send + Sync + 'static {
    /// Returns the checks for a path.
    fn access_check(&self, path: &str) -> AccessCheck;

    /// Returns the owner of a token that is not the administrator's; none if the token is not valid.
    fn owner(&self, _token: &[u8]) -> Option<UserIdentity> {
        None
    }

    /// Returns the user of requests without credentials; none if they are refused.
    fn anonymous(&self) -> Option<UserIdentity> {
        None
    }

    /// Serves a request that passed its checks. There is no identity if the token was not checked.
    fn serve(
        &self,
        identity: Option<UserIdentity>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;

    /// Returns the response to a request that failed its checks, or whose handler panicked.
    fn refuse(&self, status: &Status) -> Response<ResponseBody> {
        respond::status(status, ResponseFormat::JSON)
    }
}

/// Encryption of the connections.
#[derive(Debug)]
pub enum ListenTransport {
    /// TLS with certificates generated from these keys.
    Tls(Box<TlsKeys>),
    /// No encryption; allowed on loopback only.
    Plain,
}

/// A server's socket, ready to serve.
#[derive(Debug)]
pub struct ApiListener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsSetup>,
    gate: AccessGate,
}

/// A URL for clients on other machines, and its context in the kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    pub url: String,
    pub context: String,
}

/// A socket cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Without TLS the token would be readable on the network.
    #[error("plain HTTP is for loopback only, and {0} can be reached from elsewhere")]
    NotLoopback(SocketAddr),
    /// An error of the operating system.
    #[error("the socket cannot be used: {0}")]
    Io(#[from] io::Error),
    /// A certificate could not be generated.
    #[error("no certificate could be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// rustls refused the certificate.
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// State that all connections of a listener share.
struct ListenerState<S> {
    site: S,
    gate: AccessGate,
    tls: Option<TlsAcceptor>,
    http: Builder<TokioExecutor>,
}

/// One connection, from its acceptance to its end.
struct ClientConnection<S> {
    shared: Arc<ListenerState<S>>,
    /// The address the client connected to.
    local: IpAddr,
    /// Deadline of the first authenticated request.
    deadline: Instant,
    /// Changes, or loses its sender, at shutdown.
    stop: watch::Receiver<()>,
}

// === impl ApiListener ===

impl ApiListener {
    /// Takes a listening socket, which clients reach by the address that it is bound to. Connections wait in its backlog
    /// until [`ApiListener::serve`].
    ///
    /// # Errors
    /// If plain HTTP is requested for an address other than loopback, or no certificate can be generated.
    pub fn new(
        socket: TcpListener,
        transport: ListenTransport,
        token: BearerToken,
    ) -> Result<Self, ListenError> {
        let names = ServerNames::new(socket.local_addr()?.ip(), [], []);
        Self::with_names(socket, transport, token, names)
    }

    /// Like [`ApiListener::new`], for clients that reach the socket by other names, too.
    ///
    /// # Errors
    /// As [`ApiListener::new`].
    pub fn with_names(
        socket: TcpListener,
        transport: ListenTransport,
        token: BearerToken,
        names: ServerNames,
    ) -> Result<Self, ListenError> {
        let tls = match transport {
            ListenTransport::Tls(keys) => Some(TlsSetup::new(*keys, &names)?),
            ListenTransport::Plain => None,
        };
        Self::open(socket, tls, AccessGate::new(token, names))
    }

    /// Another listener of the same server, with the same certificates, names and token, on another socket. It has no
    /// remote addresses.
    ///
    /// # Errors
    /// If there is no TLS and the socket is not on loopback.
    pub fn beside(&self, socket: TcpListener) -> Result<Self, ListenError> {
        let names = self.gate.names.without_remote();
        let gate = AccessGate::new(self.gate.token.clone(), names);
        Self::open(socket, self.tls.clone(), gate)
    }

    fn open(
        socket: TcpListener,
        tls: Option<TlsSetup>,
        gate: AccessGate,
    ) -> Result<Self, ListenError> {
        let address = socket.local_addr()?;
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        Ok(Self {
            socket,
            address,
            tls,
            gate,
        })
    }

    /// The address that the socket is bound to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the server's authority in PEM; none for plain HTTP.
    #[must_use]
    pub fn root_ca(&self) -> Option<&str> {
        self.tls.as_ref().map(|tls| tls.authority.as_str())
    }

    /// The URL for clients on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            // A client cannot connect to the unspecified address, and a certificate cannot contain it.
            let loopback = names::LOOPBACK
                .into_iter()
                .find(|loopback| loopback.is_ipv4() == address.is_ipv4());
            address.set_ip(loopback.unwrap_or(address.ip()));
        }
        format!("{}://{address}", self.scheme())
    }

    /// The URLs for clients on other machines, and by names that were given; empty if the server listens on loopback and
    /// has no such names. The kubeconfig whose current context is `context` has a context for each.
    #[must_use]
    pub fn remote_addresses(&self, context: &str) -> Vec<RemoteAddress> {
        let (scheme, port) = (self.scheme(), self.address.port());
        let (own, hosts) = (self.url(), self.gate.names.remote_hosts());
        let addresses = hosts.map(|host| RemoteAddress {
            url: format!("{scheme}://{host}:{port}"),
            context: format!("{context}@{}", host.trim_matches(['[', ']'])),
        });
        addresses.filter(|address| address.url != own).collect()
    }

    /// The administrator's token.
    #[must_use]
    pub fn token(&self) -> &BearerToken {
        &self.gate.token
    }

    /// The text of a kubeconfig for this server, with the context `caretaker`.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.named_kubeconfig(KUBECONFIG_CONTEXT)
    }

    /// The text of a kubeconfig for this server. Its current context, cluster and user have the name `context`. There are
    /// contexts for the other URLs, too.
    #[must_use]
    pub fn named_kubeconfig(&self, context: &str) -> String {
        kubeconfig::render(&KubeconfigContent {
            context,
            url: &self.url(),
            remote: &self.remote_addresses(context),
            authority: self.root_ca(),
            token: &self.gate.token,
        })
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Serves until `stop` is ready. Then it accepts no more connections, ends watches, gives other requests a grace period,
    /// and closes the remaining connections.
    pub async fn serve(self, site: impl HttpSite, stop: impl Future<Output = ()>) {
        let shared = Arc::new(ListenerState {
            site,
            gate: self.gate,
            tls: self.tls.map(|tls| TlsAcceptor::from(tls.config)),
            http: http(),
        });
        let (stopping, stopped) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut has_warned = false;
        let mut stop = pin!(stop);
        loop {
            tokio::select! { biased;
                () = &mut stop => break,
                Some(ended) = connections.join_next() => {
                    report(ended);
                    // Not again for each connection that takes the place of another.
                    has_warned &= connections.len() > CONNECTIONS_MAX / 2;
                }
                accepted = self.socket.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&shared);
                        connections.spawn(shared.connection(stream, stopped.clone()));
                        if connections.len() == CONNECTIONS_MAX && !has_warned {
                            has_warned = true;
                            tracing::warn!(
                                open = CONNECTIONS_MAX,
                                "the limit of connections is reached; new ones wait until others are closed"
                            );
                        }
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
        if timeout(STOP_WAIT, all_ended).await.is_err() {
            let open = connections.len();
            tracing::info!(
                open,
                "closing connections whose requests did not end in time"
            );
        }
        connections.shutdown().await;
    }
}

// === impl ListenerState ===

impl<S: HttpSite> ListenerState<S> {
    async fn connection(self: Arc<Self>, stream: TcpStream, mut stop: watch::Receiver<()>) {
        let deadline = Instant::now() + STRANGER_WAIT;
        let Ok(local) = stream.local_addr() else {
            return;
        };
        // Disable Nagle: small responses must not wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        let tls = self.tls.clone();
        let connection = ClientConnection {
            shared: self,
            local: local.ip(),
            deadline,
            stop: stop.clone(),
        };
        let Some(tls) = tls else {
            return connection.drive(stream).await;
        };
        let handshake = tokio::select! { biased;
            // There is no request yet that could be under way.
            _ = stop.changed() => return,
            handshake = timeout_at(deadline, tls.accept(stream)) => handshake,
        };
        match handshake {
            Ok(Ok(stream)) => connection.drive(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "no handshake"),
            Err(_) => tracing::debug!("the handshake took too long"),
        }
    }

    async fn handle(
        &self,
        local: IpAddr,
        known: &AtomicBool,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let check = self.site.access_check(request.uri().path());
        let (uri, headers) = (request.uri(), request.headers());
        let passed = self.gate.pass(&self.site, check, local, uri, headers);
        let identity = match passed {
            Ok(identity) => identity,
            Err(status) => return self.site.refuse(&status),
        };
        if identity
            .as_ref()
            .is_some_and(|identity| !identity.is_anonymous())
        {
            known.store(true, Ordering::Relaxed);
        }
        // A panic in one request must not end the other requests on its connection.
        let answer = AssertUnwindSafe(self.site.serve(identity, request)).catch_unwind();
        answer.await.unwrap_or_else(|_| {
            let message = "internal error; see the server log";
            let status = Status::failure(500, "InternalError", message);
            self.site.refuse(&status)
        })
    }
}

// === impl ClientConnection ===

impl<S: HttpSite> ClientConnection<S> {
    /// Serves requests until one side closes the connection.
    async fn drive<T>(mut self, stream: T)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (known, stop) = (Arc::new(AtomicBool::new(false)), self.stop.clone());
        let service = service_fn(|request| {
            let (shared, known, local) = (Arc::clone(&self.shared), Arc::clone(&known), self.local);
            let mut stop = stop.clone();
            async move {
                let response = shared.handle(local, &known, request).await;
                let stopped = async move { drop(stop.changed().await) };
                Ok::<_, Infallible>(response.map(|body| body.until(stopped)))
            }
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
                        tracing::debug!("a connection was not authenticated in time");
                        return;
                    }
                }
            }
        }
    }
}

/// The HTTP settings of a connection.
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

/// Whether the client caused the failure of accept; the next connection may succeed.
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
