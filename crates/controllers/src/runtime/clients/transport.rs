//! The service below `kube::Client`: adds the server's address, headers and credentials to a request, and sends it through
//! a connection pool.
//!
//! kube's own stack has HTTP/1.1 connections only, one per watch.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use caretaker_machinery::rng::Rng;
use http::{Request, Response};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower_service::Service;

use super::ClientsError;
use super::pool::{
    ConnectTarget, ConnectionMetrics, ConnectionPool, ConnectionPurpose, HttpVersions, PooledBody,
    TlsIdentity,
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

/// Sends requests through a pool, with fixed TLS credentials.
#[derive(Clone)]
struct PoolTransport {
    pool: ConnectionPool,
    tls: TlsIdentity,
}

// === impl PurposeClients ===

impl PurposeClients {
    /// The clients of the server in `config`. No connection is opened before the first request. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// The credentials, the server's name or its proxy cannot be used.
    pub(super) fn new(
        config: &Config,
        versions: HttpVersions,
        mut rng: Rng,
    ) -> Result<Self, ClientsError> {
        let unusable = |error: kube::Error| ClientsError::Unusable(described(&error));
        let target = target(config)?;
        let tls = match config.cluster_url.scheme_str() {
            Some("http") => None,
            _ => Some(config.rustls_client_config().map_err(unusable)?),
        };
        let tls = TlsIdentity::new(0, tls, versions);
        // All clients share the credentials, so that a plugin runs once.
        let authorization = config.auth_layer().map_err(unusable)?;
        let headers = config.extra_headers_layer().map_err(unusable)?;
        let metrics = ConnectionMetrics::default();
        let mut client = |purpose| {
            let (target, metrics) = (target.clone(), metrics.clone());
            let transport = PoolTransport {
                pool: ConnectionPool::new(target, purpose, metrics, rng.fork()),
                tls: tls.clone(),
            };
            let namespace = config.default_namespace.as_str();
            let builder = ClientBuilder::new(transport, namespace).with_layer(&headers);
            let base = config.base_uri_layer();
            match &authorization {
                Some(authorization) => builder.with_layer(authorization).with_layer(&base).build(),
                None => builder.with_layer(&base).build(),
            }
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
        let Self { pool, tls } = self.clone();
        Box::pin(async move { Ok(pool.send(request, &tls).await?) })
    }
}
