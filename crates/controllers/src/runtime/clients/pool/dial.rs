//! Opens a connection to the API server: TCP, the CONNECT request of a proxy, and TLS, which chooses the protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

/// The ALPN names of HTTP/2 and of HTTP/1.1, in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
const HTTP2: &[u8] = b"h2";

/// After this time without data the system probes an HTTP/1.1 connection, which has no pings.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// The interval of probes, and how many may be lost.
const TCP_PROBE_INTERVAL: Duration = Duration::from_secs(10);
const TCP_PROBES_MAX: u32 = 3;

/// The credentials of a connection: the TLS configuration, with a client certificate if there is one.
#[derive(Clone)]
pub(in super::super) struct TlsIdentity {
    /// Grows each time the credentials change.
    pub(in super::super) generation: u64,
    /// `None`: plain HTTP.
    pub(in super::super) config: Option<Arc<ClientConfig>>,
}

/// The protocols that are offered to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum HttpVersions {
    /// HTTP/2, or HTTP/1.1 if the server does not have it.
    All,
    Http1,
}

/// The address of an API server, and the way to it.
#[derive(Debug, Clone)]
pub(in super::super) struct ConnectTarget {
    url: Uri,
    proxy: Option<Uri>,
    /// The name in the server's certificate.
    server_name: Option<ServerName<'static>>,
}

/// Opens byte streams to a server. Tests have one without sockets.
pub(super) trait StreamDialer: Send + Sync {
    /// Opens a stream. The caller limits the time.
    fn dial<'a>(
        &'a self,
        tls: &'a TlsIdentity,
    ) -> BoxFuture<'a, Result<DialedStream, ConnectError>>;

    /// Host and port of the server.
    fn address(&self) -> String;
}

/// A byte stream to the server, and the protocol that it speaks.
pub(super) struct DialedStream {
    pub(super) io: BoxedStream,
    pub(super) is_http2: bool,
}

/// A TCP connection with or without TLS, possibly through a proxy.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

pub(super) type BoxedStream = Box<dyn ByteStream>;

/// Why a connection cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{0}")]
    Tcp(String),
    #[error("TLS: {0}")]
    Tls(#[source] std::io::Error),
    #[error("the server name {0:?} is no DNS name or address")]
    ServerName(String),
    #[error("the proxy {proxy} answered CONNECT with {status}")]
    ProxyRefused { proxy: String, status: StatusCode },
    #[error("the proxy {proxy} does not tunnel: {why}")]
    Proxy { proxy: String, why: String },
    #[error("HTTP/2: {0}")]
    Http2(#[from] h2::Error),
    #[error("HTTP/1.1: {0}")]
    Http1(#[from] hyper::Error),
    #[error("the server closed the connection before its first frame")]
    Closed,
    #[error("not opened within {} s", .0.as_secs())]
    Timeout(Duration),
}

// === impl TlsIdentity ===

impl TlsIdentity {
    /// The credentials of `config`; without one, plain HTTP.
    pub(in super::super) fn new(
        generation: u64,
        config: Option<ClientConfig>,
        versions: HttpVersions,
    ) -> Self {
        let offered = match versions {
            HttpVersions::All => &PROTOCOLS[..],
            HttpVersions::Http1 => &PROTOCOLS[1..],
        };
        let config = config.map(|mut config| {
            config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        });
        Self { generation, config }
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration holds a private key.
        write!(f, "TlsIdentity({})", self.generation)
    }
}

// === impl ConnectTarget ===

impl ConnectTarget {
    /// The server at `url`. `server_name` is the name in its certificate, if that is not the host of the URL.
    ///
    /// # Errors
    /// The server name is no DNS name and no address.
    pub(in super::super) fn new(
        url: Uri,
        proxy: Option<Uri>,
        server_name: Option<String>,
    ) -> Result<Self, ConnectError> {
        let host = url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = server_name.unwrap_or_else(|| host.to_owned());
        let is_plain = url.scheme_str() == Some("http");
        let server_name = match ServerName::try_from(name.clone()) {
            Ok(name) => Some(name),
            Err(_) if is_plain => None,
            Err(_) => return Err(ConnectError::ServerName(name)),
        };
        Ok(Self {
            url,
            proxy,
            server_name,
        })
    }

    async fn open(&self, tls: &TlsIdentity) -> Result<DialedStream, ConnectError> {
        let io = match &self.proxy {
            None => connect(&self.url).await?,
            Some(proxy) => tunnel(proxy, &self.address(), tls).await?,
        };
        let (Some(config), Some(name)) = (&tls.config, &self.server_name) else {
            let is_http2 = false;
            return Ok(DialedStream { io, is_http2 });
        };
        let connector = TlsConnector::from(config.clone());
        let stream = connector.connect(name.clone(), io).await;
        let stream = stream.map_err(ConnectError::Tls)?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        let io = Box::new(stream);
        Ok(DialedStream { io, is_http2 })
    }
}

impl StreamDialer for ConnectTarget {
    fn dial<'a>(
        &'a self,
        tls: &'a TlsIdentity,
    ) -> BoxFuture<'a, Result<DialedStream, ConnectError>> {
        Box::pin(self.open(tls))
    }

    fn address(&self) -> String {
        address(&self.url)
    }
}

async fn connect(url: &Uri) -> Result<BoxedStream, ConnectError> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    connector.set_keepalive_interval(Some(TCP_PROBE_INTERVAL));
    connector.set_keepalive_retries(Some(TCP_PROBES_MAX));
    let stream = connector.call(url.clone()).await;
    let stream = stream.map_err(|error| ConnectError::Tcp(root_cause(&error)))?;
    Ok(Box::new(stream.into_inner()))
}

/// Asks a proxy for a tunnel to `server`. As in kubectl, TLS to the proxy itself uses the same trust as the server.
async fn tunnel(proxy: &Uri, server: &str, tls: &TlsIdentity) -> Result<BoxedStream, ConnectError> {
    let name = address(proxy);
    let failed = |why: String| ConnectError::Proxy {
        proxy: name.clone(),
        why,
    };
    let mut io = connect(proxy)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if let (Some("https"), Some(config)) = (proxy.scheme_str(), &tls.config) {
        // The request below is HTTP/1.1.
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols.clear();
        let host = proxy.host().unwrap_or_default();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let host = ServerName::try_from(host).map_err(|error| failed(error.to_string()))?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(host, io).await;
        io = Box::new(stream.map_err(|error| failed(error.to_string()))?);
    }
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(server)
        .header(header::HOST, server)
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(error.to_string()))?;
    if let Some(credentials) = proxy_credentials(proxy) {
        let headers = request.headers_mut();
        headers.insert(header::PROXY_AUTHORIZATION, credentials);
    }
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| failed(root_cause(&error)))?;
    let status = response.status();
    if !status.is_success() {
        let proxy = name.clone();
        return Err(ConnectError::ProxyRefused { proxy, status });
    }
    let upgraded = hyper::upgrade::on(response).await;
    let upgraded = upgraded.map_err(|error| failed(root_cause(&error)))?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// The `user:password@` of a proxy URL as a header. Escapes are decoded.
fn proxy_credentials(proxy: &Uri) -> Option<HeaderValue> {
    let (userinfo, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    let userinfo: Vec<u8> = percent_encoding::percent_decode_str(userinfo).collect();
    let value = format!("Basic {}", STANDARD.encode(userinfo));
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Host and port of a URL, without credentials.
fn address(url: &Uri) -> String {
    let default = if url.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    let port = url.port_u16().unwrap_or(default);
    format!("{}:{port}", url.host().unwrap_or_default())
}

/// The innermost error, which says most: `Connection refused (os error 111)`.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_have_a_port_and_no_credentials() {
        let table = [
            ("https://one:6443/prefix", "one:6443"),
            ("https://one", "one:443"),
            ("http://one", "one:80"),
            ("http://user:pass@proxy:3128", "proxy:3128"),
            ("https://[::1]:6443", "[::1]:6443"),
        ];
        for (url, expected) in table {
            assert_eq!(address(&uri(url)), expected);
        }
    }

    #[test]
    fn credentials_of_a_proxy_are_decoded() {
        let table = [
            ("http://proxy:3128", None),
            // user:pa@ss
            (
                "http://user:pa%40ss@proxy:3128",
                Some("Basic dXNlcjpwYUBzcw=="),
            ),
        ];
        for (proxy, expected) in table {
            let found = proxy_credentials(&uri(proxy));
            let found = found.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_certificate_name_replaces_the_host() {
        let name = |url: &str, name: Option<&str>| {
            let target = ConnectTarget::new(uri(url), None, name.map(str::to_owned));
            target.unwrap().server_name.unwrap().to_str().into_owned()
        };
        assert_eq!(name("https://one:6443", None), "one");
        assert_eq!(name("https://[::1]:6443", None), "::1");
        assert_eq!(
            name("https://127.0.0.1:6443", Some("kubernetes")),
            "kubernetes"
        );
        let odd = ConnectTarget::new(uri("https://one"), None, Some("a b".to_owned()));
        assert!(matches!(odd, Err(ConnectError::ServerName(_))));
    }
}
