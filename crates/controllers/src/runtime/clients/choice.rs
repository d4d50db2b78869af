//! Chooses a cluster by the flags, the environment and the kubeconfig files, by kubectl's rules.
//!
//! kube reads and merges the files. The files, the context and the proxy are chosen here, so that errors say what to do,
//! and because kube 5.0 compares NO_PROXY with the address of the proxy. Credentials read the same choice again when the
//! server refuses them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use http::Uri;
use kube::Config;
use kube::config::{Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::super::effects::reason;
use super::{ClientsError, ProxySettings};

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

// === impl ClusterChoice ===

impl ClusterChoice {
    /// The cluster of the kubeconfig, its user and its proxy.
    pub(super) async fn config(&self) -> Result<Config, ClientsError> {
        let kubeconfig = self.read()?;
        let context = chosen_context(&kubeconfig, self.context.as_deref())?;
        let cluster = chosen_cluster(&kubeconfig, &context)?;
        let (proxy, authority) = (cluster_proxy(&cluster), authority_file(&cluster));
        let options = KubeConfigOptions {
            context: Some(context),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| ClientsError::Unusable(reason(&error)))?;
        config.root_cert_file = authority;
        // Logs name the URL, and it may hold a password. The user of the kubeconfig has the credentials.
        config.cluster_url = without_userinfo(config.cluster_url);
        let proxies = &self.environment.proxies;
        config.proxy_url = match proxies.choose(&config.cluster_url, proxy) {
            Some(proxy) => {
                let url = proxy.parse::<Uri>();
                Some(url.map_err(|_| ClientsError::Proxy(proxy))?)
            }
            None => None,
        };
        Ok(config)
    }

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

/// The cluster of `context`.
fn chosen_cluster(config: &Kubeconfig, context: &str) -> Result<Cluster, ClientsError> {
    let named = config.contexts.iter().find(|named| named.name == context);
    let cluster = named.and_then(|named| Some(named.context.as_ref()?.cluster.as_str()));
    let cluster = cluster.unwrap_or_default();
    let Some(named) = config.clusters.iter().find(|named| named.name == cluster) else {
        return Err(ClientsError::NoCluster {
            context: context.to_owned(),
            cluster: cluster.to_owned(),
        });
    };
    Ok(named.cluster.clone().unwrap_or_default())
}

fn cluster_proxy(cluster: &Cluster) -> Option<&str> {
    let proxy = cluster.proxy_url.as_deref();
    proxy.filter(|proxy| !proxy.is_empty())
}

/// The file of the certificate authority. Data in the kubeconfig has precedence.
fn authority_file(cluster: &Cluster) -> Option<PathBuf> {
    if cluster.certificate_authority_data.is_some() {
        return None;
    }
    cluster.certificate_authority.as_ref().map(PathBuf::from)
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
        let cluster = chosen_cluster(&config, "a").unwrap();
        assert_eq!(cluster_proxy(&cluster), Some("http://p:1"));
        assert_eq!(
            chosen_cluster(&config, "b").unwrap_err().to_string(),
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
}
