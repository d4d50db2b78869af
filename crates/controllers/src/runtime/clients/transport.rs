//! The service below `kube::Client`: adds the server's address, headers and credentials to a request, and sends it through
//! a connection pool.
//!
//! A request that is answered with 401 is sent once more if there is another credential by then. A server refuses a request
//! before it looks at anything else, so this is safe for writes as well; and the caller would only wait and repeat it.
//!
//! kube's own stack has HTTP/1.1 connections only, one per watch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use caretaker_machinery::rng::Rng;
use http::{Request, Response, StatusCode, header};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower_service::Service;

use super::ClientsError;
use super::credentials::{Credential, CredentialSource};
use super::pool::{
    ConnectTarget, ConnectionMetrics, ConnectionPool, ConnectionPurpose, PooledBody,
};
use crate::runtime::effects::{described, reason};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The clients of one server, each with connections of its own.
pub(super) struct PurposeClients {
    pub(super) watches: kube::Client,
    pub(super) requests: kube::Client,
    pub(super) lease: kube::Client,
    pub(super) metrics: ConnectionMetrics,
}

/// Sends requests through a pool, with the current credentials.
#[derive(Clone)]
struct PoolTransport {
    pool: ConnectionPool,
    credentials: CredentialSource,
}

// === impl PurposeClients ===

impl PurposeClients {
    /// The clients of the server in `config`. No connection is opened before the first request. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// The server's name, its proxy or a header of the user cannot be used.
    pub(super) fn new(
        config: &Config,
        credentials: &CredentialSource,
        mut rng: Rng,
    ) -> Result<Self, ClientsError> {
        let unusable = |error: kube::Error| ClientsError::Unusable(described(&error));
        let target = target(config)?;
        let headers = config.extra_headers_layer().map_err(unusable)?;
        let metrics = ConnectionMetrics::default();
        let mut client = |purpose| {
            let (target, metrics) = (target.clone(), metrics.clone());
            let transport = PoolTransport {
                pool: ConnectionPool::new(target, purpose, metrics, rng.fork()),
                credentials: credentials.clone(),
            };
            let namespace = config.default_namespace.as_str();
            let builder = ClientBuilder::new(transport, namespace).with_layer(&headers);
            builder.with_layer(&config.base_uri_layer()).build()
        };
        Ok(Self {
            watches: client(ConnectionPurpose::Watches),
            requests: client(ConnectionPurpose::Requests),
            lease: client(ConnectionPurpose::Lease),
            metrics,
        })
    }
}

/// The server of `config` and the proxy before it.
fn target(config: &Config) -> Result<ConnectTarget, ClientsError> {
    if let Some(proxy) = &config.proxy_url
        && !matches!(proxy.scheme_str(), Some("http" | "https"))
    {
        return Err(ClientsError::Proxy(proxy.to_string()));
    }
    let (url, proxy) = (config.cluster_url.clone(), config.proxy_url.clone());
    ConnectTarget::new(url, proxy, config.tls_server_name.clone())
        .map_err(|error| ClientsError::Unusable(reason(&error)))
}

// === impl PoolTransport ===

impl Service<Request<Body>> for PoolTransport {
    type Response = Response<PooledBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<PooledBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move { transport.send(request).await })
    }
}

impl PoolTransport {
    async fn send(&self, request: Request<Body>) -> Result<Response<PooledBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let copy = body.try_clone();
        let copy = copy.map(|body| Request::from_parts(parts.clone(), body));
        let credential = self.credentials.current();
        let request = Request::from_parts(parts, body);
        let (response, other) = self.send_as(&credential, request).await?;
        let (Some(other), Some(copy)) = (other, copy) else {
            return Ok(response);
        };
        drop(response);
        let (response, _) = self.send_as(&other, copy).await?;
        Ok(response)
    }

    /// Sends a request with a credential. If the server refuses it, also returns another credential that there is now.
    async fn send_as(
        &self,
        credential: &Credential,
        mut request: Request<Body>,
    ) -> Result<(Response<PooledBody>, Option<Arc<Credential>>), BoxError> {
        if let Some(value) = &credential.authorization {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        let response = self.pool.send(request, &credential.tls).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            self.credentials.accept(credential.generation);
            return Ok((response, None));
        }
        let other = self.credentials.refuse(credential.generation).await;
        Ok((response, other))
    }
}
