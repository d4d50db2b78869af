//! Clients of a cluster: by a kubeconfig, by the service account of a Pod, or of a server in this process.
//!
//! - `choice`: the files, the context and the proxy, by kubectl's rules.
//! - `credentials`: tokens and client certificates, which change while a process runs.
//! - `transport`: the service below `kube::Client`. It does not retry what a server refused (the queue decides) and has no
//!   read timeout (watches are silent for long; `effects` and feeds have their own timeouts).
//! - `pool`: HTTP/2 connections, shared by the requests of one purpose.

mod choice;
mod credentials;
mod pool;
mod proxy;
mod transport;

use std::fmt;
use std::path::PathBuf;

use caretaker_machinery::clock::Clock;
use caretaker_machinery::rng::Rng;
use http::{HeaderValue, header};
use kube::Config;
use kube::config::InClusterError;
use thiserror::Error;

use super::effects::reason;
use super::metrics::ControllerMetrics;
pub use choice::{ClientEnvironment, ClusterChoice};
use credentials::CredentialSource;
pub use credentials::{CredentialError, PluginError, RefusedCredentials};
use pool::{ConnectionMetrics, HttpVersions, PoolError};
pub use proxy::ProxySettings;
use transport::PurposeClients;

/// The `User-Agent` of all requests.
const USER_AGENT: &str = concat!("caretaker/", env!("CARGO_PKG_VERSION"));

/// The clients of one cluster. Watches, requests and the lease have connections of their own: a watch never ends, and a
/// lease must not wait behind other requests.
#[derive(Clone)]
pub struct ClusterClients {
    watches: kube::Client,
    requests: kube::Client,
    lease: kube::Client,
    /// `None` for a server in this process.
    metrics: Option<ConnectionMetrics>,
    /// `None` for a server in this process.
    credentials: Option<CredentialSource>,
    server: String,
    namespace: String,
}

/// Why there is no client of a cluster. The messages say what to do.
#[derive(Debug, Error)]
pub enum ClientsError {
    #[error("there is no kubeconfig: {looked}; name one with --kubeconfig, or set KUBECONFIG")]
    NoKubeconfig {
        /// Which files do not exist.
        looked: String,
    },
    #[error("the kubeconfig {} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    /// There is no current context, and `--context` is not set.
    #[error(
        "the kubeconfig does not say which context to use: name one with --context; it has {known}"
    )]
    NoCurrentContext {
        /// The contexts of the kubeconfig.
        known: String,
    },
    #[error("the kubeconfig has no context {name:?}; it has {known}")]
    NoContext {
        name: String,
        /// The contexts of the kubeconfig.
        known: String,
    },
    #[error(
        "the context {context:?} names the cluster {cluster:?}, which the kubeconfig does not have"
    )]
    NoCluster { context: String, cluster: String },
    /// Any other error in the kubeconfig.
    #[error("the kubeconfig cannot be used: {0}")]
    Unusable(String),
    #[error("the credentials cannot be read: {0}")]
    Credentials(#[from] CredentialError),
    #[error("the proxy {0:?} is no address like http://proxy:3128")]
    Proxy(String),
    #[error("this process does not run in a Pod")]
    NotInPod,
    /// The process runs in a Pod, and its service account cannot be used.
    #[error("the service account of this Pod cannot be used: {0}")]
    NotInCluster(String),
    /// There is no kubeconfig, and the service account of the Pod cannot be used.
    #[error("{0}; and {1}")]
    Nowhere(Box<ClientsError>, Box<ClientsError>),
}

/// Why the pool did not send a write, if the error says that the driver's gate had closed.
pub(crate) fn held_back(error: &kube::Error) -> Option<String> {
    let kube::Error::Service(error) = error else {
        return None;
    };
    match error.downcast_ref::<PoolError>()? {
        PoolError::HeldBack(why) => Some(why.clone()),
        _ => None,
    }
}

// === impl ClusterClients ===

impl ClusterClients {
    /// The cluster of the kubeconfig that was named or found, else the cluster around this process. Like all of these
    /// functions, it must be called inside a tokio runtime.
    ///
    /// # Errors
    /// There is neither a usable kubeconfig nor a cluster around this process.
    pub async fn find(choice: &ClusterChoice, clock: &Clock) -> Result<Self, ClientsError> {
        let error = match Self::from_kubeconfig(choice, clock).await {
            Err(error @ ClientsError::NoKubeconfig { .. }) if choice.kubeconfig.is_none() => error,
            decided => return decided,
        };
        match Self::in_cluster(choice, clock).await {
            Err(ClientsError::NotInPod) => Err(error),
            Err(other) => Err(ClientsError::Nowhere(Box::new(error), Box::new(other))),
            Ok(found) => Ok(found),
        }
    }

    /// The cluster of a kubeconfig.
    ///
    /// # Errors
    /// There is no kubeconfig, or it cannot be used.
    pub async fn from_kubeconfig(
        choice: &ClusterChoice,
        clock: &Clock,
    ) -> Result<Self, ClientsError> {
        let config = choice.config().await?;
        Self::connect(config, Some(choice.clone()), choice, clock).await
    }

    /// The cluster that this process runs in, by its service account.
    ///
    /// # Errors
    /// The process does not run in a Pod, or has no service account.
    pub async fn in_cluster(choice: &ClusterChoice, clock: &Clock) -> Result<Self, ClientsError> {
        let config = Config::incluster().map_err(|error| match error {
            InClusterError::ReadEnvironmentVariable(_) => ClientsError::NotInPod,
            error => ClientsError::NotInCluster(reason(&error)),
        })?;
        Self::connect(config, None, choice, clock).await
    }

    /// The clients of a server in this process.
    #[must_use]
    pub fn in_process(client: kube::Client) -> Self {
        Self {
            server: "in process".to_owned(),
            namespace: client.default_namespace().to_owned(),
            watches: client.clone(),
            requests: client.clone(),
            lease: client,
            metrics: None,
            credentials: None,
        }
    }

    /// `origin` is read again when the server refuses the credentials.
    async fn connect(
        mut config: Config,
        origin: Option<ClusterChoice>,
        choice: &ClusterChoice,
        clock: &Clock,
    ) -> Result<Self, ClientsError> {
        let agent = HeaderValue::from_static(USER_AGENT);
        config.headers.push((header::USER_AGENT, agent));
        let server = config.cluster_url.to_string();
        let namespace = config.default_namespace.clone();
        let versions = match choice.environment.disables_http2 {
            true => HttpVersions::Http1,
            false => HttpVersions::All,
        };
        let started = CredentialSource::start(origin, config.clone(), versions, clock.clone());
        let credentials = started.await?;
        let rng = Rng::seeded(choice.seed);
        let clients = PurposeClients::new(&config, &credentials, rng)?;
        Ok(Self {
            watches: clients.watches,
            requests: clients.requests,
            lease: clients.lease,
            metrics: Some(clients.metrics),
            credentials: Some(credentials),
            server,
            namespace,
        })
    }

    /// The client for requests other than watches.
    #[must_use]
    pub fn requests(&self) -> kube::Client {
        self.requests.clone()
    }

    /// The client for watches.
    #[must_use]
    pub fn watches(&self) -> kube::Client {
        self.watches.clone()
    }

    /// The client for leases, and for other requests that must not wait behind a burst of writes.
    #[must_use]
    pub fn lease(&self) -> kube::Client {
        self.lease.clone()
    }

    /// Adds the connections to a metrics page.
    pub fn register_metrics(&self, metrics: &ControllerMetrics) {
        if let Some(connections) = &self.metrics {
            metrics.add(connections);
        }
    }

    /// Since when the server refuses the credentials.
    #[must_use]
    pub fn refused_credentials(&self) -> Option<RefusedCredentials> {
        self.credentials.as_ref()?.refused()
    }

    /// The address of the API server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of the context, which commands use if none is named.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl fmt::Debug for ClusterClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterClients({})", self.server)
    }
}

/// Whether a request reached a connection and was lost there.
pub(crate) fn is_stream_error(error: &kube::Error) -> bool {
    let kube::Error::Service(error) = error else {
        return false;
    };
    let error = error.downcast_ref::<PoolError>();
    error.is_some_and(|error| !error.is_unreachable())
}

#[cfg(test)]
mod tests {
    use caretaker_machinery::clock::REAL_TIME;

    use super::*;

    #[tokio::test]
    async fn a_missing_kubeconfig_is_an_error_that_says_what_to_do() {
        let mut choice = ClusterChoice::default();
        let clock = Clock::driven(jiff::Timestamp::UNIX_EPOCH, REAL_TIME);
        let error = ClusterClients::from_kubeconfig(&choice, &clock);
        let error = error.await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no kubeconfig: KUBECONFIG is not set, and there is no home directory; \
             name one with --kubeconfig, or set KUBECONFIG"
        );
        choice.kubeconfig = Some("not/there".into());
        let error = ClusterClients::find(&choice, &clock).await.unwrap_err();
        assert!(
            error.to_string().contains("not/there does not exist"),
            "{error}"
        );
    }
}
