//! HTTP requests to a running server, with address and token of its kubeconfig.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// Time limit that only a hanging server exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client that trusts the certificate authority of one kubeconfig.
pub(crate) struct HttpClient {
    agent: Agent,
    base: String,
    token: String,
}

// === impl HttpClient ===

impl HttpClient {
    pub(crate) fn of(kubeconfig: &Path) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        let cluster = &config["clusters"][0]["cluster"];
        let provider = rustls::crypto::ring::default_provider();
        let mut tls = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(provider));
        if let Some(authority) = cluster["certificate-authority-data"].as_str() {
            let authority = Certificate::from_pem(&STANDARD.decode(authority).unwrap()).unwrap();
            tls = tls.root_certs(RootCerts::new_with_certs(&[authority]));
        }
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        // The URL of a server without TLS has the token as password, which must not be sent with every request here.
        let server = cluster["server"].as_str().unwrap();
        let base = match server.split_once('@') {
            Some((_, address)) => format!("http://{address}"),
            None => server.to_owned(),
        };
        Self {
            agent,
            base,
            token: config["users"][0]["user"]["token"]
                .as_str()
                .unwrap()
                .to_owned(),
        }
    }

    /// GET with the token; returns status and JSON.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        self.get_with(path, &[("Authorization", &self.bearer())])
    }

    /// GET with these headers and no others.
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut answer = self.send(path, headers);
        let text = answer.body_mut().read_to_string().unwrap();
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap(),
        )
    }

    /// GET without the token; returns status and text, or the error with status 0.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        match self.agent.get(format!("{}{path}", self.base)).call() {
            Ok(mut answer) => {
                let text = answer.body_mut().read_to_string().unwrap();
                (answer.status().as_u16(), text)
            }
            Err(error) => (0, error.to_string()),
        }
    }

    /// Creates an object and returns its JSON.
    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = request
            .header("Authorization", self.bearer())
            .header("Content-Type", "application/json");
        let mut answer = request.send(object.to_string()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status(), 201, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Replaces an object, or its status.
    pub(crate) fn put(&self, path: &str, object: &Value) {
        assert_eq!(self.try_put(path, object), 200, "{path}");
    }

    /// Tries to replace an object, and returns the code of the answer.
    pub(crate) fn try_put(&self, path: &str, object: &Value) -> u16 {
        let request = self.agent.put(format!("{}{path}", self.base));
        let request = request
            .header("Authorization", self.bearer())
            .header("Content-Type", "application/json");
        let answer = request.send(object.to_string()).unwrap();
        answer.status().as_u16()
    }

    pub(crate) fn delete(&self, path: &str) {
        let request = self.agent.delete(format!("{}{path}", self.base));
        let answer = request
            .header("Authorization", self.bearer())
            .call()
            .unwrap();
        assert_eq!(answer.status(), 200, "{path}");
    }

    /// The lines of a watch.
    pub(crate) fn watch(&self, path: &str) -> impl Iterator<Item = std::io::Result<String>> {
        let answer = self.send(path, &[("Authorization", &self.bearer())]);
        assert_eq!(answer.status(), 200);
        BufReader::new(answer.into_body().into_reader()).lines()
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn send(&self, path: &str, headers: &[(&str, &str)]) -> ureq::http::Response<Body> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.call().unwrap()
    }
}
