//! The admin server: whether the controllers are well, what they count, what they did and what they know.
//!
//! It says what a [`Backstage`] tells it, at the paths and in the words of kube-controller-manager's secure port (1.36);
//! nothing here changes anything. Health may be asked by anybody who reaches the port, the rest with the token. Under
//! which name the server is reached is not checked: no page without the token tells more than `ok`, except `?verbose`.

mod door;
mod health;

pub(crate) use self::door::{Credentials, open};
pub(crate) use self::health::{Check, Health};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use caretaker_apiserver::listen::{Door, Incoming, Query, Site};
use caretaker_apiserver::{Body, Identity};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};

/// Plain text, as Go's servers mark it.
const TEXT: &str = "text/plain; charset=utf-8";

/// What the encoder of metrics writes.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An answer that may take a moment, because a controller has to be asked.
pub(crate) type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the admin server asks those who know. Whoever implements it bounds how long an answer takes.
pub(crate) trait Backstage: Send + Sync + 'static {
    /// Whether the process does its work; a failing one should be restarted.
    fn livez(&self) -> Soon<'_, Health>;
    /// Whether everything is known that decisions rest on. Open to all: no secrets in the words.
    fn readyz(&self) -> Soon<'_, Health>;
    /// All metrics, in OpenMetrics' text format.
    fn metrics(&self) -> Soon<'_, String>;
    /// What was done and why, latest last, as one JSON text.
    fn actions(&self) -> Soon<'_, String>;
    /// The ownership graph, or those parts of it that hang together with one of `uids`; nothing if no garbage
    /// collector runs.
    fn graph(&self, uids: Vec<String>) -> Soon<'_, Option<Graph>>;
}

/// The ownership graph, drawn twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Upstream's DOT.
    pub(crate) dot: String,
    /// Our own form.
    pub(crate) json: String,
}

/// The pages of the admin server.
#[derive(Clone)]
pub(crate) struct Admin {
    backstage: Arc<dyn Backstage>,
}

/// The pages there are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    /// An endpoint, and the one check that is asked for.
    Health(Endpoint, Option<String>),
    Metrics,
    Actions,
    Dot,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

// === impl Admin ===

impl Admin {
    pub(crate) fn new(backstage: Arc<dyn Backstage>) -> Self {
        Self { backstage }
    }

    async fn page(&self, method: &Method, uri: &Uri) -> Response<Body> {
        let Some(page) = Page::at(uri.path()) else {
            return build(404, TEXT, "404 page not found\n".into());
        };
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut response = build(405, TEXT, "Method Not Allowed\n".into());
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
        let query = Query::parse(uri.query().unwrap_or_default());
        let stage = &self.backstage;
        match page {
            Page::Health(endpoint, check) => {
                let health = match endpoint {
                    Endpoint::Healthz | Endpoint::Livez => stage.livez().await,
                    Endpoint::Readyz => stage.readyz().await,
                };
                let (code, text) = health.page(endpoint.name(), check.as_deref(), &query);
                build(code, TEXT, text)
            }
            Page::Metrics => build(200, METRICS, stage.metrics().await),
            Page::Actions => build(200, "application/json", stage.actions().await),
            Page::Dot | Page::Json => {
                let uids = query.all("uid").into_iter().map(str::to_owned).collect();
                match (page, stage.graph(uids).await) {
                    (_, None) => build(404, TEXT, "no garbage collector runs here\n".into()),
                    (Page::Json, Some(graph)) => build(200, "application/json", graph.json),
                    (_, Some(graph)) => build(200, "text/vnd.graphviz", graph.dot),
                }
            }
        }
    }
}

impl Site for Admin {
    fn door(&self, path: &str) -> Door {
        match Page::at(path) {
            Some(Page::Health(..)) => Door::Open,
            _ => Door::Token,
        }
    }

    async fn serve(
        &self,
        _identity: Option<Identity>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        self.page(request.method(), request.uri()).await
    }
}

// === impl Page ===

impl Page {
    fn at(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.strip_prefix('/')?.splitn(2, '/').collect();
        let endpoint = match parts.first() {
            Some(&"healthz") => Some(Endpoint::Healthz),
            Some(&"livez") => Some(Endpoint::Livez),
            Some(&"readyz") => Some(Endpoint::Readyz),
            _ => None,
        };
        if let Some(endpoint) = endpoint {
            let check = parts.get(1).filter(|check| !check.is_empty());
            return Some(Self::Health(endpoint, check.map(|&check| check.to_owned())));
        }
        match path {
            "/metrics" => Some(Self::Metrics),
            "/debug/actions" => Some(Self::Actions),
            "/debug/controllers/garbage-collector-controller/graph.json" => Some(Self::Json),
            // The second is what Kubernetes had before 1.28.
            "/debug/controllers/garbage-collector-controller/graph"
            | "/debug/controllers/garbagecollector/graph" => Some(Self::Dot),
            _ => None,
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

fn build(code: u16, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache, private"),
    ];
    for (name, value) in headers {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests;
