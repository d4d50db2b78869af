//! The proxy between a `caretaker run` and the server: TLS, HTTP/1.1 or HTTP/2 on one side, a wire with faults on the
//! other. It can be closed for a while, which cuts all connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use caretaker_apiserver::listen::{
    AccessCheck, ApiListener, BearerToken, HttpSite, Incoming, ListenTransport, TlsKeys,
};
use caretaker_apiserver::{ResponseBody, UserIdentity};
use futures::StreamExt as _;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, BodyStream};
use jiff::Timestamp;
use kube::client::Body;
use rcgen::KeyPair;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tower_service::Service as _;

use crate::wire::Wire;

/// Time after which a request without an answer is cut off, so that a hanging request does not outlast the faults.
const SILENCE_MAX: Duration = Duration::from_secs(8);
/// The token of all proxies; they are reachable on this machine only.
const TOKEN: &str = "faults";

/// A proxy, not yet open.
pub(super) struct FaultProxy {
    /// Holds certificates and token; it is never served.
    template: ApiListener,
    address: SocketAddr,
    /// The listener of the first opening.
    first: Option<ApiListener>,
    pub(super) kubeconfig: String,
}

/// What a proxy serves.
struct ForwardingSite(Wire);

// === impl FaultProxy ===

impl FaultProxy {
    /// Reserves a port. Certificates are valid from `now` on.
    pub(super) async fn new(now: Timestamp) -> anyhow::Result<Self> {
        let bind = async || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let key = || KeyPair::generate().context("cannot generate a TLS key");
        let keys = TlsKeys {
            authority: key()?,
            server: key()?,
            now,
        };
        let token = BearerToken::from_text(TOKEN).context("the token is no token")?;
        let template = ApiListener::new(bind().await?, ListenTransport::Tls(keys.into()), token)?;
        let socket = bind().await?;
        let address = socket.local_addr()?;
        let listener = template.beside(socket)?;
        let kubeconfig = listener.kubeconfig();
        Ok(Self {
            template,
            address,
            first: Some(listener),
            kubeconfig,
        })
    }

    /// Serves, except during the outages: times since now and their lengths, in order.
    pub(super) async fn serve(
        mut self,
        wire: &Wire,
        outages: &[(Duration, Duration)],
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        for (at, length) in outages {
            let until = tokio::time::sleep_until(began + *at);
            self.listener()
                .await?
                .serve(ForwardingSite(wire.clone()), until)
                .await;
            tokio::time::sleep(*length).await;
        }
        let for_ever = std::future::pending();
        self.listener()
            .await?
            .serve(ForwardingSite(wire.clone()), for_ever)
            .await;
        Ok(())
    }

    async fn listener(&mut self) -> anyhow::Result<ApiListener> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let socket = TcpListener::bind(self.address).await?;
        Ok(self.template.beside(socket)?)
    }
}

// === impl ForwardingSite ===

impl HttpSite for ForwardingSite {
    fn access_check(&self, _: &str) -> AccessCheck {
        AccessCheck::Token
    }

    async fn serve(
        &self,
        _: Option<UserIdentity>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let forwarded = self.forward(request).await;
        forwarded.unwrap_or_else(|error| {
            let broken = futures::stream::once(async move { Err(io::Error::other(error)) });
            Response::new(ResponseBody::forwarded(broken))
        })
    }
}

impl ForwardingSite {
    /// Sends a request on. It goes on when the client is killed meanwhile, as requests to a server do.
    async fn forward(&self, request: Request<Incoming>) -> anyhow::Result<Response<ResponseBody>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = parts.uri.path_and_query().context("no path")?;
        let mut own = Request::builder().method(parts.method).uri(path.as_str());
        for (name, value) in &parts.headers {
            if ![header::HOST, header::AUTHORIZATION, header::CONTENT_LENGTH].contains(name) {
                own = own.header(name, value);
            }
        }
        let own = own.body(Body::from(body))?;
        let answer = tokio::spawn(self.0.clone().call(own));
        let answer = tokio::time::timeout(SILENCE_MAX, answer).await??;
        let (mut parts, body) = answer.map_err(anyhow::Error::from_boxed)?.into_parts();
        for hop in [
            header::CONNECTION,
            header::TRANSFER_ENCODING,
            header::CONTENT_LENGTH,
        ] {
            parts.headers.remove(hop);
        }
        let pieces = BodyStream::new(body).filter_map(|frame| {
            let piece = frame.map(|frame| frame.into_data().ok());
            std::future::ready(piece.map_err(io::Error::other).transpose())
        });
        Ok(Response::from_parts(parts, ResponseBody::forwarded(pieces)))
    }
}
