//! A blocking HTTPS client for one server with a known certificate authority: readiness, probes, facts.
//!
//! An answer with an error status is an answer; only a request that got none is an error here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsConfigBuilder};
use ureq::{Agent, AsSendBody, Body, RequestExt};

/// A loopback server that accepts no connection for this long does not run.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// kube-apiserver ends ordinary requests by itself after 60 s; this is the reserve for one that hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Readiness is polled, so one request must not take long.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// The server takes its first part as the field manager of a request that names none.
const USER_AGENT: &str = concat!("caretaker-xtask/", env!("CARGO_PKG_VERSION"));

/// A client of one server with one identity.
#[derive(Debug)]
pub struct HttpClient {
    agent: Agent,
    base: String,
    bearer: Option<String>,
}

/// A request, without the headers that [`HttpClient`] adds.
#[derive(Debug, Default)]
pub struct HttpCall<'a> {
    /// Any method; each may have a body.
    pub method: &'a str,
    /// Path and query, beginning with `/`.
    pub path: &'a str,
    /// Names and values of further headers.
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// The longest duration of the answer's body; a watch does not end by itself.
    pub body_timeout: Option<Duration>,
}

// === impl HttpClient ===

impl HttpClient {
    /// A client of the server at `base` (`https://host:port`) that trusts only `ca_pem`.
    pub fn new(base: &str, ca_pem: &str, token: Option<&str>) -> Result<Self> {
        let ca = Certificate::from_pem(ca_pem.as_bytes())
            .map_err(|error| anyhow!("the certificate authority is not a certificate: {error}"))?;
        let trust = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[ca]));
        Ok(Self::with_trust(base, trust, token))
    }

    /// A client of a server of our own on this machine, whose certificate is not checked.
    pub(crate) fn unverified(base: &str) -> Self {
        let trust = TlsConfig::builder().disable_verification(true);
        Self::with_trust(base, trust, None)
    }

    fn with_trust(base: &str, trust: TlsConfigBuilder, token: Option<&str>) -> Self {
        let tls = trust
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .user_agent(USER_AGENT)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .allow_non_standard_methods(true)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .build()
            .new_agent();
        let bearer = token.map(|token| format!("Bearer {token}"));
        let base = base.to_owned();
        Self {
            agent,
            base,
            bearer,
        }
    }

    /// Sends one request. The caller reads the body of the answer.
    pub fn send(&self, call: HttpCall<'_>) -> Result<Response<Body>> {
        let uri = format!("{}{}", self.base, call.path);
        let mut request = Request::builder().method(call.method).uri(&uri);
        let is_given = |name: &str| {
            call.headers
                .iter()
                .any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        if let Some(bearer) = self.bearer.as_ref().filter(|_| !is_given("authorization")) {
            request = request.header("Authorization", bearer);
        }
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let timeout = call.body_timeout;
        match call.body {
            Some(body) => self.run(
                request.body(body).context("this is not a request")?,
                timeout,
            ),
            None => self.run(request.body(()).context("this is not a request")?, timeout),
        }
    }

    fn run(
        &self,
        request: Request<impl AsSendBody>,
        timeout: Option<Duration>,
    ) -> Result<Response<Body>> {
        let request = request
            .with_agent(&self.agent)
            .configure()
            .timeout_recv_body(timeout);
        request
            .run()
            .map_err(|error| anyhow!("no answer from {}: {error}", self.base))
    }

    /// The text at `path`; any status but 200 is an error.
    pub(crate) fn get_text(&self, path: &str, accept: &str) -> Result<String> {
        let headers = vec![("Accept".to_owned(), accept.to_owned())];
        let mut answer = self.send(HttpCall {
            method: "GET",
            path,
            headers,
            ..HttpCall::default()
        })?;
        let status = answer.status();
        let text = read_text(&mut answer)?;
        if status != 200 {
            bail!("GET {path} answered {status}: {text}");
        }
        Ok(text)
    }

    /// The JSON document at `path`; any status but 200 is an error.
    pub fn get_json(&self, path: &str, accept: &str) -> Result<Value> {
        let text = self.get_text(path, accept)?;
        serde_json::from_str(&text).with_context(|| format!("GET {path} did not answer with JSON"))
    }

    /// Returns whether GET `path` is answered with 200 now; false without an answer.
    pub(crate) fn is_ok(&self, path: &str) -> bool {
        let uri = format!("{}{path}", self.base);
        let mut request = self.agent.get(uri);
        if let Some(bearer) = &self.bearer {
            request = request.header("Authorization", bearer);
        }
        let answer = request
            .config()
            .timeout_global(Some(READY_TIMEOUT))
            .build()
            .call();
        answer.is_ok_and(|answer| answer.status() == 200)
    }
}

/// The whole body as text, without a limit on its size: these servers are our own.
pub(crate) fn read_text(answer: &mut Response<Body>) -> Result<String> {
    answer
        .body_mut()
        .with_config()
        .limit(u64::MAX)
        .read_to_string()
        .context("the answer broke off")
}
