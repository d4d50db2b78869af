//! The admin server: health, metrics, recent actions and the ownership graph, all read-only.
//!
//! Serves what a [`DiagnosticsSource`] returns, with the paths and texts of kube-controller-manager's secure port (1.36).
//! Health pages need no token, all others do. The `Host` header is not checked: without the token a page shows `ok` or,
//! with `?verbose`, the names and states of checks.

mod health;
pub(crate) mod known;
mod listener;

pub(crate) use self::health::{HealthCheck, HealthReport};
pub(crate) use self::listener::{TokenSource, bind, open};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use caretaker_apiserver::listen::{AccessCheck, HttpSite, Incoming, RequestQuery};
use caretaker_apiserver::{ResponseBody, UserIdentity};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};

/// Plain text, as Go's servers mark it.
const TEXT: &str = "text/plain; charset=utf-8";

/// Format of the metrics encoder.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A future of a page: a controller may have to be queried for it.
pub(crate) type BoxedAnswer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Data of the pages. Implementations bound the time of each answer.
pub(crate) trait DiagnosticsSource: Send + Sync + 'static {
    /// Liveness; the process should be restarted if it fails.
    fn livez(&self) -> BoxedAnswer<'_, HealthReport>;
    /// Readiness: every watched kind is listed. Served without a token, so it must hold no secrets.
    fn readyz(&self) -> BoxedAnswer<'_, HealthReport>;
    /// All metrics in the OpenMetrics text format.
    fn metrics(&self) -> BoxedAnswer<'_, String>;
    /// Recent evidence records as a JSON array, latest last.
    fn actions(&self) -> BoxedAnswer<'_, String>;
    /// The last failed requests about these objects (`deployments.apps shop/web`) as a JSON array.
    fn failures(&self, objects: Vec<String>) -> BoxedAnswer<'_, String>;
    /// The ownership graph, or the parts that are connected with one of `uids`; `None` if the garbage collector is off.
    fn graph(&self, uids: Vec<String>) -> BoxedAnswer<'_, Option<GraphPage>>;
}

/// The ownership graph in both formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraphPage {
    /// Upstream's DOT format.
    pub(crate) dot: String,
    pub(crate) json: String,
}

/// Serves the pages of the admin server.
#[derive(Clone)]
pub(crate) struct AdminPages {
    diagnostics: Arc<dyn DiagnosticsSource>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AdminPage {
    /// The endpoint, and the name of a single check.
    Health(String, Option<String>),
    Metrics,
    Actions,
    Failures,
    Dot,
    Json,
}

// === impl AdminPages ===

impl AdminPages {
    pub(crate) fn new(diagnostics: Arc<dyn DiagnosticsSource>) -> Self {
        Self { diagnostics }
    }

    async fn page(&self, method: &Method, uri: &Uri) -> Response<ResponseBody> {
        let Some(page) = AdminPage::at(uri.path()) else {
            return build(404, TEXT, "404 page not found\n".into());
        };
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut response = build(405, TEXT, "Method Not Allowed\n".into());
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
        let query = RequestQuery::parse(uri.query().unwrap_or_default());
        let diagnostics = &self.diagnostics;
        match page {
            AdminPage::Health(endpoint, check) => {
                let health = match endpoint.as_str() {
                    "readyz" => diagnostics.readyz().await,
                    _ => diagnostics.livez().await,
                };
                let (code, text) = health.page(&endpoint, check.as_deref(), &query);
                build(code, TEXT, text)
            }
            AdminPage::Metrics => build(200, METRICS, diagnostics.metrics().await),
            AdminPage::Actions => build(200, "application/json", diagnostics.actions().await),
            AdminPage::Failures => {
                let objects = query.all("object").into_iter().map(str::to_owned);
                let failures = diagnostics.failures(objects.collect()).await;
                build(200, "application/json", failures)
            }
            AdminPage::Dot | AdminPage::Json => {
                let uids = query.all("uid").into_iter().map(str::to_owned).collect();
                match (page, diagnostics.graph(uids).await) {
                    (_, None) => build(404, TEXT, "the garbage collector is not running\n".into()),
                    (AdminPage::Json, Some(graph)) => build(200, "application/json", graph.json),
                    (_, Some(graph)) => build(200, "text/vnd.graphviz", graph.dot),
                }
            }
        }
    }
}

impl HttpSite for AdminPages {
    fn access_check(&self, path: &str) -> AccessCheck {
        match AdminPage::at(path) {
            Some(AdminPage::Health(..)) => AccessCheck::Open,
            _ => AccessCheck::Token,
        }
    }

    async fn serve(
        &self,
        _identity: Option<UserIdentity>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        self.page(request.method(), request.uri()).await
    }
}

// === impl AdminPage ===

impl AdminPage {
    fn at(path: &str) -> Option<Self> {
        let (endpoint, check) = path
            .strip_prefix('/')?
            .split_once('/')
            .unwrap_or((&path[1..], ""));
        if matches!(endpoint, "healthz" | "livez" | "readyz") {
            let check = (!check.is_empty()).then(|| check.to_owned());
            return Some(Self::Health(endpoint.to_owned(), check));
        }
        match path {
            "/metrics" => Some(Self::Metrics),
            "/debug/actions" => Some(Self::Actions),
            "/debug/failures" => Some(Self::Failures),
            "/debug/controllers/garbage-collector-controller/graph.json" => Some(Self::Json),
            // The second path is that of Kubernetes before 1.28.
            "/debug/controllers/garbage-collector-controller/graph"
            | "/debug/controllers/garbagecollector/graph" => Some(Self::Dot),
            _ => None,
        }
    }
}

fn build(code: u16, content_type: &'static str, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(text));
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
