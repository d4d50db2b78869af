//! Clients of a cluster: by a kubeconfig, by the service account of a Pod, or of a server in this process.
//!
//! Files, contexts and proxies are chosen here by kubectl's rules, so that errors say what to do, and because kube 5.0
//! compares NO_PROXY with the address of the proxy. kube handles credential plugins, tokens that change on disk and rotated
//! CAs.
//!
//! - `transport`: the service below `kube::Client`. It does not retry what a server refused (the queue decides) and has no
//!   read timeout (watches are silent for long; `effects` and feeds have their own timeouts).
//! - `pool`: HTTP/2 connections, shared by the requests of one purpose.

mod pool;
mod proxy;
mod transport;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use caretaker_machinery::rng::Rng;
use http::{HeaderValue, Uri, header};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use thiserror::Error;

use super::effects::reason;
use super::metrics::ControllerMetrics;
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
    server: String,
    namespace: String,
}

/// The flags and the environment that choose a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterChoice {
    /// The file that `--kubeconfig` names; no other file is read then.
    pub kubeconfig: Option<PathBuf>,
    /// The context that `--context` names, instead of the current one.
    pub context: Option<String>,
    pub environment: ClientEnvironment,
    /// The seed of the pauses between attempts to connect: processes that lose a server together should not come back
    /// together.
    pub seed: u64,
}

/// The environment variables that concern clusters.
#[derive(Debug, Clone, Default)]
pub struct ClientEnvironment {
    /// The variable `KUBECONFIG`, a list of files.
    pub kubeconfig: Option<OsString>,
    /// The home directory, which may have `.kube/config`.
    pub home: Option<PathBuf>,
    pub proxies: ProxySettings,
    /// Whether `DISABLE_HTTP2` is set, which client-go's programs read, too.
    pub disables_http2: bool,
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
    #[error("the proxy {0:?} is no address like http://proxy:3128")]
    Proxy(String),
    /// This process does not run in a Pod, or its service account is not mounted.
    #[error("this process does not run inside a cluster: {0}")]
    NotInCluster(String),
    /// There is neither a kubeconfig nor a cluster around this process.
    #[error("{0}; and {1}")]
    Nowhere(Box<ClientsError>, Box<ClientsError>),
}

// === impl ClusterClients ===

impl ClusterClients {
    /// The cluster of the kubeconfig that was named or found, else the cluster around this process. Like all of these
    /// functions, it must be called inside a tokio runtime.
    ///
    /// # Errors
    /// There is neither a usable kubeconfig nor a cluster around this process.
    pub async fn find(choice: &ClusterChoice) -> Result<Self, ClientsError> {
        let error = match Self::from_kubeconfig(choice).await {
            Err(error @ ClientsError::NoKubeconfig { .. }) if choice.kubeconfig.is_none() => error,
            decided => return decided,
        };
        Self::in_cluster(choice)
            .map_err(|other| ClientsError::Nowhere(Box::new(error), Box::new(other)))
    }

    /// The cluster of a kubeconfig.
    ///
    /// # Errors
    /// There is no kubeconfig, or it cannot be used.
    pub async fn from_kubeconfig(choice: &ClusterChoice) -> Result<Self, ClientsError> {
        let kubeconfig = choice.read()?;
        let context = chosen_context(&kubeconfig, choice.context.as_deref())?;
        let cluster_proxy = cluster_proxy(&kubeconfig, &context)?;
        let options = KubeConfigOptions {
            context: Some(context),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| ClientsError::Unusable(reason(&error)))?;
        let proxies = &choice.environment.proxies;
        config.proxy_url = match proxies.choose(&config.cluster_url, cluster_proxy.as_deref()) {
            Some(proxy) => {
                let url = proxy.parse::<Uri>();
                Some(url.map_err(|_| ClientsError::Proxy(proxy))?)
            }
            None => None,
        };
        Self::connect(config, choice)
    }

    /// The cluster that this process runs in, by its service account. The token is read again when it changes.
    ///
    /// # Errors
    /// The process does not run in a Pod, or has no service account.
    pub fn in_cluster(choice: &ClusterChoice) -> Result<Self, ClientsError> {
        let config =
            Config::incluster().map_err(|error| ClientsError::NotInCluster(reason(&error)))?;
        Self::connect(config, choice)
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
        }
    }

    fn connect(mut config: Config, choice: &ClusterChoice) -> Result<Self, ClientsError> {
        let agent = HeaderValue::from_static(USER_AGENT);
        config.headers.push((header::USER_AGENT, agent));
        // Logs name the URL, and it may hold a password. The user of the kubeconfig has the credentials.
        config.cluster_url = without_userinfo(config.cluster_url);
        let server = config.cluster_url.to_string();
        let namespace = config.default_namespace.clone();
        let versions = match choice.environment.disables_http2 {
            true => HttpVersions::Http1,
            false => HttpVersions::All,
        };
        let clients = PurposeClients::new(&config, versions, Rng::seeded(choice.seed))?;
        Ok(Self {
            watches: clients.watches,
            requests: clients.requests,
            lease: clients.lease,
            metrics: Some(clients.metrics),
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

// === impl ClusterChoice ===

impl ClusterChoice {
    /// Reads the named file, else the files of `KUBECONFIG` merged, else the file in the home directory. As in kubectl,
    /// a named file must exist, and files of a list need not.
    fn read(&self) -> Result<Kubeconfig, ClientsError> {
        if let Some(path) = &self.kubeconfig {
            if !path.exists() {
                let looked = format!("{} does not exist", path.display());
                return Err(ClientsError::NoKubeconfig { looked });
            }
            return read_file(path);
        }
        let paths = self.environment.kubeconfigs();
        let mut merged: Option<Kubeconfig> = None;
        for path in paths.iter().filter(|path| path.exists()) {
            let next = read_file(path)?;
            merged = Some(match merged {
                None => next,
                Some(first) => first
                    .merge(next)
                    .map_err(|error| unreadable(path, &error))?,
            });
        }
        merged.ok_or_else(|| {
            let paths: Vec<_> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let looked = match paths.as_slice() {
                [] => "KUBECONFIG is not set, and there is no home directory".to_owned(),
                [path] => format!("{path} does not exist"),
                paths => format!("none of {} exists", paths.join(", ")),
            };
            ClientsError::NoKubeconfig { looked }
        })
    }
}

// === impl ClientEnvironment ===

impl ClientEnvironment {
    /// Reads the environment of this process.
    #[must_use]
    pub fn read() -> Self {
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            proxies: ProxySettings::read(|name| std::env::var(name).ok()),
            disables_http2: std::env::var_os("DISABLE_HTTP2")
                .is_some_and(|value| !value.is_empty()),
        }
    }

    /// The kubeconfig files, in the order in which they are merged.
    fn kubeconfigs(&self) -> Vec<PathBuf> {
        let listed: Vec<PathBuf> = self
            .kubeconfig
            .iter()
            .flat_map(std::env::split_paths)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        if !listed.is_empty() {
            return listed;
        }
        let home = self.home.iter();
        home.map(|home| home.join(".kube").join("config")).collect()
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

/// The URL without `user:password@`.
fn without_userinfo(url: Uri) -> Uri {
    let address = url
        .authority()
        .and_then(|authority| authority.as_str().rsplit_once('@'))
        .and_then(|(_, address)| address.parse().ok());
    let Some(address) = address else {
        return url;
    };
    let mut parts = url.clone().into_parts();
    parts.authority = Some(address);
    Uri::from_parts(parts).unwrap_or(url)
}

fn read_file(path: &Path) -> Result<Kubeconfig, ClientsError> {
    Kubeconfig::read_from(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &KubeconfigError) -> ClientsError {
    ClientsError::Unreadable {
        path: path.to_owned(),
        why: reason(error),
    }
}

fn chosen_context(config: &Kubeconfig, asked: Option<&str>) -> Result<String, ClientsError> {
    let known = || {
        let names: Vec<&str> = config
            .contexts
            .iter()
            .map(|context| context.name.as_str())
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let current = config
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    let Some(name) = asked.or(current) else {
        return Err(ClientsError::NoCurrentContext { known: known() });
    };
    if config.contexts.iter().any(|context| context.name == name) {
        return Ok(name.to_owned());
    }
    Err(ClientsError::NoContext {
        name: name.to_owned(),
        known: known(),
    })
}

/// The `proxy-url` of the cluster of `context`.
fn cluster_proxy(config: &Kubeconfig, context: &str) -> Result<Option<String>, ClientsError> {
    let named = config.contexts.iter().find(|named| named.name == context);
    let cluster = named.and_then(|named| Some(named.context.as_ref()?.cluster.as_str()));
    let cluster = cluster.unwrap_or_default();
    let Some(named) = config.clusters.iter().find(|named| named.name == cluster) else {
        return Err(ClientsError::NoCluster {
            context: context.to_owned(),
            cluster: cluster.to_owned(),
        });
    };
    let proxy = named
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.proxy_url.clone());
    Ok(proxy.filter(|proxy| !proxy.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_kubeconfig(current: &str) -> Kubeconfig {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: '{current}'\n\
             contexts:\n- name: a\n  context: {{cluster: one}}\n- name: b\n  context: {{cluster: two}}\n\
             clusters:\n- name: one\n  cluster: {{server: 'https://one', proxy-url: 'http://p:1'}}\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn chooses_a_context_or_lists_the_known_ones() {
        let table = [
            ("a", None, Ok("a")),
            ("a", Some("b"), Ok("b")),
            ("", Some("a"), Ok("a")),
            (
                "",
                None,
                Err(
                    "the kubeconfig does not say which context to use: name one with --context; it has a, b",
                ),
            ),
            (
                "c",
                None,
                Err("the kubeconfig has no context \"c\"; it has a, b"),
            ),
            (
                "a",
                Some("A"),
                Err("the kubeconfig has no context \"A\"; it has a, b"),
            ),
        ];
        for (current, asked, expected) in table {
            let found = chosen_context(&mk_kubeconfig(current), asked);
            let found = found.map_err(|error| error.to_string());
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn removes_the_password_of_a_server_url() {
        let table = [
            (
                "http://caretaker:secret@127.0.0.1:80/",
                "http://127.0.0.1:80/",
            ),
            ("https://a:b@[::1]:6443/prefix", "https://[::1]:6443/prefix"),
            ("https://one:6443/", "https://one:6443/"),
        ];
        for (url, expected) in table {
            assert_eq!(without_userinfo(url.parse().unwrap()).to_string(), expected);
        }
    }

    #[test]
    fn a_context_without_its_cluster_is_an_error() {
        let config = mk_kubeconfig("a");
        assert_eq!(cluster_proxy(&config, "a").unwrap().unwrap(), "http://p:1");
        assert_eq!(
            cluster_proxy(&config, "b").unwrap_err().to_string(),
            "the context \"b\" names the cluster \"two\", which the kubeconfig does not have"
        );
    }

    #[test]
    fn reads_the_files_that_kubectl_reads() {
        let list = std::env::join_paths(["one", "", "two"]).unwrap();
        let home = Some(PathBuf::from("home"));
        let table = [
            (Some(list), home.clone(), vec!["one", "two"]),
            (None, home.clone(), vec!["home/.kube/config"]),
            (Some("".into()), home, vec!["home/.kube/config"]),
            (None, None, vec![]),
        ];
        for (kubeconfig, home, expected) in table {
            let environment = ClientEnvironment {
                kubeconfig,
                home,
                ..ClientEnvironment::default()
            };
            let expected: Vec<PathBuf> = expected.into_iter().map(PathBuf::from).collect();
            assert_eq!(environment.kubeconfigs(), expected);
        }
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_an_error_that_says_what_to_do() {
        let mut choice = ClusterChoice::default();
        let error = ClusterClients::from_kubeconfig(&choice).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no kubeconfig: KUBECONFIG is not set, and there is no home directory; \
             name one with --kubeconfig, or set KUBECONFIG"
        );
        choice.kubeconfig = Some("not/there".into());
        let error = ClusterClients::find(&choice).await.unwrap_err();
        assert!(
            error.to_string().contains("not/there does not exist"),
            "{error}"
        );
    }
}
