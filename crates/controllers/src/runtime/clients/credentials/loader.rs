//! Reads the credential that a configuration describes: tokens and certificates from the kubeconfig, from files and from
//! plugins.
//!
//! kube builds the TLS configuration and the header of what does not change: inline tokens, basic authentication and
//! `auth-provider`. Token files and plugins are read here, because kube 5.0 reads a plugin's token without an expiry and a
//! plugin's certificate once, and does not trim token files. Only the task of [`super::CredentialSource`] calls this.

use std::future::{Ready, ready};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use caretaker_machinery::clock::Clock;
use http::{HeaderValue, Request, Response, header};
use jiff::{SignedDuration, Timestamp};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::AuthInfo;
use thiserror::Error;
use tokio::time::Instant;
use tower_service::Service;

use super::super::choice::ClusterChoice;
use super::super::pool::{HttpVersions, TlsIdentity};
use super::plugin::{self, PluginCredential, PluginError};
use crate::runtime::effects::described;
use crate::runtime::report_interval::ReportInterval;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How often files are read. client-go reads token files every minute and certificates every five minutes; the rotation
/// of a Secret or a projected token is seldom announced earlier than this.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// A plugin runs again this long before its credential expires, or after four fifths of its life if that is later.
const EXPIRY_MARGIN_MAX: SignedDuration = SignedDuration::from_secs(60);
const EXPIRY_MARGIN_PART: i32 = 5;

/// Why a credential is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadCause {
    /// It is the first one, or its files may have changed, or it expires soon.
    Due,
    /// The server refused the last one.
    Refusal,
}

/// A credential as it was read.
pub(super) struct LoadedCredential {
    pub(super) authorization: Option<HeaderValue>,
    pub(super) tls: TlsIdentity,
    /// When to read it again without a refusal; `None`: it does not change.
    pub(super) due_after: Option<Duration>,
}

/// Why a credential cannot be read. The messages hold no secrets.
#[derive(Debug, Error)]
pub enum CredentialError {
    #[error("the file {} cannot be read: {why}", path.display())]
    File { path: PathBuf, why: std::io::Error },
    #[error("the token file {} is empty", .0.display())]
    EmptyToken(PathBuf),
    #[error("the token of {0} has characters that no header may have")]
    BadToken(String),
    #[error("credential plugin {command}: {why}")]
    Plugin { command: String, why: PluginError },
    #[error("{0}")]
    Kube(String),
}

/// Reads the credentials of one user.
pub(super) struct CredentialLoader {
    /// The kubeconfig, which is read again after a refusal; `None` in a Pod.
    origin: Option<ClusterChoice>,
    config: Config,
    versions: HttpVersions,
    clock: Clock,
    /// The last output of the plugin, and when to run it again.
    plugin: Option<(PluginCredential, Option<Timestamp>)>,
    /// A client that answers with the header of kube's own authentication.
    echo: Option<kube::Client>,
    reports: ReportInterval,
    /// The TLS credentials, and the content of the files and fields that they were made of.
    tls: Option<(Vec<Vec<u8>>, TlsIdentity)>,
}

/// Answers a request with its `Authorization` header.
#[derive(Clone, Copy)]
struct HeaderEcho;

// === impl CredentialLoader ===

impl CredentialLoader {
    pub(super) fn new(
        origin: Option<ClusterChoice>,
        config: Config,
        versions: HttpVersions,
        clock: Clock,
    ) -> Self {
        Self {
            origin,
            config,
            versions,
            clock,
            plugin: None,
            echo: None,
            reports: ReportInterval::default(),
            tls: None,
        }
    }

    pub(super) async fn load(
        &mut self,
        cause: LoadCause,
    ) -> Result<LoadedCredential, CredentialError> {
        if cause == LoadCause::Refusal {
            self.read_config().await;
            self.echo = None;
        }
        let user = &self.config.auth_info;
        let is_read_by_kube =
            user.auth_provider.is_some() || user.username.is_some() && user.password.is_some();
        let authorization = if is_read_by_kube {
            self.kube_header().await?
        } else if let Some(path) = user.token_file.clone() {
            match read_token(Path::new(&path)) {
                Err(_) if user.token.is_some() => self.kube_header().await?,
                token => Some(token?),
            }
        } else if user.token.is_some() || user.exec.is_none() {
            self.kube_header().await?
        } else {
            self.plugin_header(cause).await?
        };
        Ok(LoadedCredential {
            authorization,
            tls: self.tls()?,
            due_after: self.due_after(),
        })
    }

    /// Reads the kubeconfig again: it may have another user. If it cannot be read, the last one counts.
    async fn read_config(&mut self) {
        let Some(origin) = &self.origin else {
            return;
        };
        let trouble = match origin.config().await {
            Ok(config) if config.cluster_url == self.config.cluster_url => {
                self.config = config;
                self.reports.clear();
                return;
            }
            Ok(config) => format!("it names another server now: {}", config.cluster_url),
            Err(error) => error.to_string(),
        };
        if self.reports.is_due(&trouble, Instant::now()) {
            tracing::warn!(
                trouble,
                "the kubeconfig is not read again; restart to use it"
            );
        }
    }

    /// The header of what kube reads itself. A command of an `auth-provider` may block.
    async fn kube_header(&mut self) -> Result<Option<HeaderValue>, CredentialError> {
        let failed = |error: kube::Error| CredentialError::Kube(described(&error));
        let echo = match self.echo.clone() {
            Some(echo) => echo,
            None => {
                let mut config = self.config.clone();
                config.auth_info.token_file = None;
                let layer = tokio::task::spawn_blocking(move || config.auth_layer()).await;
                let layer = layer.map_err(|error| CredentialError::Kube(error.to_string()))?;
                let builder = ClientBuilder::new(HeaderEcho, "");
                let echo = match layer.map_err(failed)? {
                    Some(layer) => builder.with_layer(&layer).build(),
                    None => builder.build(),
                };
                self.echo.insert(echo).clone()
            }
        };
        let answer = echo.send(Request::new(Body::empty())).await;
        let mut answer = answer.map_err(failed)?;
        Ok(answer.headers_mut().remove(header::AUTHORIZATION))
    }

    /// The header of the plugin's token. The plugin runs if its credential expires soon or was refused.
    async fn plugin_header(
        &mut self,
        cause: LoadCause,
    ) -> Result<Option<HeaderValue>, CredentialError> {
        let Some(exec) = self.config.auth_info.exec.clone() else {
            return Ok(None);
        };
        let command = exec.command.clone().unwrap_or_default();
        let now = self.clock.now();
        let is_due = match &self.plugin {
            None => true,
            Some((_, again)) => again.is_some_and(|again| again <= now),
        };
        if is_due || cause == LoadCause::Refusal {
            // If the plugin fails, it stays due.
            if let Some((_, again)) = &mut self.plugin {
                *again = Some(now);
            }
            let ran = plugin::run(&exec).await;
            let credential = ran.map_err(|why| CredentialError::Plugin {
                command: command.clone(),
                why,
            })?;
            let again = credential.expires.map(|expires| renewal(now, expires));
            self.plugin = Some((credential, again));
        }
        let token = self.plugin.as_ref().and_then(|(it, _)| it.token.as_deref());
        token.map(|token| bearer(token, &command)).transpose()
    }

    /// The TLS credentials: the last ones if nothing that they are made of has changed.
    fn tls(&mut self) -> Result<TlsIdentity, CredentialError> {
        let user = self.tls_user();
        let content = content(&self.config, &user)?;
        let generation = match &self.tls {
            Some((last, tls)) if *last == content => return Ok(tls.clone()),
            Some((_, tls)) => tls.generation + 1,
            None => 0,
        };
        let tls = match self.config.cluster_url.scheme_str() {
            Some("http") => None,
            _ => {
                // kube would run a plugin that it finds here.
                let mut config = self.config.clone();
                config.auth_info = user;
                let tls = config.rustls_client_config();
                Some(tls.map_err(|error| CredentialError::Kube(described(&error)))?)
            }
        };
        let tls = TlsIdentity::new(generation, tls, self.versions);
        self.tls = Some((content, tls.clone()));
        Ok(tls)
    }

    /// The user of the kubeconfig with nothing but a client certificate; a plugin's has precedence.
    fn tls_user(&self) -> AuthInfo {
        let user = &self.config.auth_info;
        let plugin = self.plugin.as_ref();
        match plugin.and_then(|(credential, _)| credential.identity.as_ref()) {
            Some((certificate, key)) => AuthInfo {
                client_certificate_data: Some(STANDARD.encode(certificate)),
                client_key_data: Some(STANDARD.encode(key).into()),
                ..AuthInfo::default()
            },
            None => AuthInfo {
                client_certificate: user.client_certificate.clone(),
                client_certificate_data: user.client_certificate_data.clone(),
                client_key: user.client_key.clone(),
                client_key_data: user.client_key_data.clone(),
                ..AuthInfo::default()
            },
        }
    }

    fn due_after(&self) -> Option<Duration> {
        let user = &self.config.auth_info;
        let has_files = user.token_file.is_some()
            || user.auth_provider.is_some()
            || user.client_certificate.is_some()
            || user.client_key.is_some()
            || self.config.root_cert_file.is_some();
        let expiry = self.plugin.as_ref().and_then(|(_, again)| *again);
        let expiry = expiry.map(|again| again.duration_since(self.clock.now()));
        let expiry = expiry.map(|wait| Duration::try_from(wait).unwrap_or_default());
        let files = has_files.then_some(READ_INTERVAL);
        files.into_iter().chain(expiry).min()
    }
}

// === impl HeaderEcho ===

impl Service<Request<Body>> for HeaderEcho {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut answer = Response::new(Body::empty());
        if let Some(value) = request.headers_mut().remove(header::AUTHORIZATION) {
            answer.headers_mut().insert(header::AUTHORIZATION, value);
        }
        ready(Ok(answer))
    }
}

/// When a plugin runs again whose credential was made now and expires then.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now).max(SignedDuration::ZERO);
    let margin = (life / EXPIRY_MARGIN_PART).min(EXPIRY_MARGIN_MAX);
    expires.max(now).saturating_sub(margin).unwrap_or(expires)
}

/// Everything that TLS credentials are made of. A key in the kubeconfig does not change without its certificate.
fn content(config: &Config, user: &AuthInfo) -> Result<Vec<Vec<u8>>, CredentialError> {
    let file = |path: &Path| {
        std::fs::read(path).map_err(|why| CredentialError::File {
            path: path.to_owned(),
            why,
        })
    };
    let either = |data: Option<&str>, path: Option<&str>| match (data, path) {
        (Some(data), _) => Ok(data.as_bytes().to_vec()),
        (None, Some(path)) => file(Path::new(path)),
        (None, None) => Ok(Vec::new()),
    };
    let mut content = match &config.root_cert_file {
        Some(path) => vec![file(path)?],
        None => config.root_cert.clone().unwrap_or_default(),
    };
    let certificate = user.client_certificate_data.as_deref();
    content.push(either(certificate, user.client_certificate.as_deref())?);
    let has_key = user.client_key_data.is_some();
    content.push(either(has_key.then_some(""), user.client_key.as_deref())?);
    Ok(content)
}

/// The header of a token file. Whitespace around the token is removed, as client-go does.
fn read_token(path: &Path) -> Result<HeaderValue, CredentialError> {
    let text = std::fs::read_to_string(path).map_err(|why| CredentialError::File {
        path: path.to_owned(),
        why,
    })?;
    match text.trim() {
        "" => Err(CredentialError::EmptyToken(path.to_owned())),
        token => bearer(token, &path.display().to_string()),
    }
}

fn bearer(token: &str, source: &str) -> Result<HeaderValue, CredentialError> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| CredentialError::BadToken(source.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
