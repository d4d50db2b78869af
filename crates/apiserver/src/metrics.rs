//! Metrics, with the names and labels of upstream's `endpoints/metrics` (1.36).
//!
//! There is one counter: `apiserver_request_total`. It includes requests in process. Like upstream, requests to unknown
//! paths are not counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::kinds::ServedKind;
use crate::request::{OpenApiDocument, RequestPath};

/// Subresources that are connections.
const CONNECTIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// All metrics of one server.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    registry: Registry,
    requests: Arc<RequestCounters>,
}

/// The labels of one request, except the code, which is known with the response.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct RequestSeries {
    code: u32,
    component: &'static str,
    dry_run: &'static str,
    group: String,
    resource: String,
    scope: &'static str,
    subresource: String,
    verb: &'static str,
    version: String,
}

/// Requests by labels. Sorted, so that the text is deterministic.
#[derive(Debug, Default)]
struct RequestCounters(Mutex<BTreeMap<RequestSeries, u64>>);

// === impl ServerMetrics ===

impl Default for ServerMetrics {
    fn default() -> Self {
        let requests = Arc::new(RequestCounters::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(requests.clone()));
        Self { registry, requests }
    }
}

impl ServerMetrics {
    /// Counts one response.
    pub(crate) fn count(&self, labels: &RequestSeries, code: StatusCode) {
        if labels.resource.is_empty() && labels.subresource.is_empty() {
            return;
        }
        let labels = RequestSeries {
            code: code.as_u16().into(),
            ..labels.clone()
        };
        let mut requests = self
            .requests
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *requests.entry(labels).or_default() += 1;
    }

    /// All metrics in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a String takes all text");
        text
    }
}

// === impl RequestSeries ===

impl RequestSeries {
    /// The labels that follow from the method.
    pub(crate) fn of(method: &Method) -> Self {
        let verb = match *method {
            Method::GET | Method::HEAD => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        Self {
            verb,
            ..Self::default()
        }
    }

    /// Sets the labels of a request to an endpoint that is not a resource. Upstream uses its name as the subresource.
    pub(crate) fn endpoint(&mut self, path: &RequestPath) {
        let (component, name) = match path {
            RequestPath::Core => ("apiserver", "api".to_owned()),
            RequestPath::Groups => ("apiserver", "apis".to_owned()),
            RequestPath::OpenApi(OpenApiDocument::Swagger) => ("", "openapi/v2".to_owned()),
            RequestPath::OpenApi(OpenApiDocument::Index) => ("", "openapi/v3".to_owned()),
            RequestPath::OpenApi(OpenApiDocument::Document(_)) => ("", "openapi/v3/".to_owned()),
            RequestPath::Health {
                endpoint,
                check: None,
            } => ("", format!("/{endpoint}")),
            _ => return,
        };
        self.component = component;
        self.subresource = name;
    }

    /// Sets the labels of a request for a resource. `verb` is upper case; lists, watches and deletes of collections have
    /// their own verbs.
    pub(crate) fn resource(
        &mut self,
        kind: &ServedKind,
        subresource: Option<&str>,
        scope: &'static str,
        verb: &'static str,
        dry_run: bool,
    ) {
        let subresource = subresource.unwrap_or_default();
        self.component = "apiserver";
        self.dry_run = if dry_run { "All" } else { "" };
        self.group.clone_from(&kind.group);
        self.version.clone_from(&kind.version);
        self.resource.clone_from(&kind.plural);
        self.subresource = subresource.to_owned();
        // Upstream counts a create with the scope of the object, and the delete of a collection as DELETECOLLECTION.
        self.scope = if verb == "POST" { "resource" } else { scope };
        self.verb = match verb {
            _ if CONNECTIONS.contains(&subresource) => "CONNECT",
            "DELETECOLLECTION" => "DELETE",
            verb => verb,
        };
    }
}

// === impl RequestCounters ===

impl Collector for RequestCounters {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "apiserver_request",
            "Requests by verb, dry run, group, version, resource, scope, component and code of the answer",
            None,
            MetricType::Counter,
        )?;
        let requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, count) in &*requests {
            let mut series = family.encode_family(labels)?;
            series.encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KindTable;

    /// The lines with samples.
    fn mk_lines(metrics: &ServerMetrics) -> Vec<String> {
        let text = metrics.render();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(str::to_owned).collect()
    }

    #[test]
    fn resource_requests_have_upstream_labels() {
        let kinds = KindTable::builtin();
        let pods = kinds.get("", "v1", "pods").unwrap();
        let deployments = kinds.get("apps", "v1", "deployments").unwrap();
        let metrics = ServerMetrics::default();
        let mut labels = RequestSeries::of(&Method::GET);
        labels.resource(pods, None, "cluster", "LIST", false);
        metrics.count(&labels, StatusCode::OK);
        metrics.count(&labels, StatusCode::OK);
        let mut labels = RequestSeries::of(&Method::PUT);
        labels.resource(deployments, Some("status"), "resource", "PUT", true);
        metrics.count(&labels, StatusCode::CONFLICT);
        assert_eq!(
            mk_lines(&metrics),
            [
                r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 2"#,
                r#"apiserver_request_total{code="409",component="apiserver",dry_run="All",group="apps",resource="deployments",scope="resource",subresource="status",verb="PUT",version="v1"} 1"#,
            ]
        );
    }

    #[test]
    fn reports_scopes_and_verbs_like_upstream() {
        let kinds = KindTable::builtin();
        let pods = kinds.get("", "v1", "pods").unwrap();
        let cases = [
            (None, "namespace", "POST", ("resource", "POST")),
            (
                None,
                "namespace",
                "DELETECOLLECTION",
                ("namespace", "DELETE"),
            ),
            (None, "namespace", "WATCH", ("namespace", "WATCH")),
            (Some("exec"), "resource", "POST", ("resource", "CONNECT")),
            (Some("binding"), "resource", "POST", ("resource", "POST")),
        ];
        for (subresource, scope, verb, expected) in cases {
            let mut labels = RequestSeries::of(&Method::POST);
            labels.resource(pods, subresource, scope, verb, false);
            assert_eq!(
                (labels.scope, labels.verb),
                expected,
                "{subresource:?} {verb}"
            );
        }
    }

    #[test]
    fn counts_known_endpoints_only() {
        let metrics = ServerMetrics::default();
        for path in [
            "/readyz",
            "/readyz/ping",
            "/apis",
            "/openapi/v3/api/v1",
            "/version",
            "/nope",
        ] {
            let mut labels = RequestSeries::of(&Method::GET);
            labels.endpoint(&RequestPath::parse(path));
            metrics.count(&labels, StatusCode::OK);
        }
        let lines = mk_lines(&metrics);
        assert_eq!(lines.len(), 3, "{lines:?}");
        for name in ["/readyz", "apis", "openapi/v3/"] {
            let label = format!("subresource=\"{name}\",verb=\"GET\"");
            assert!(lines.iter().any(|line| line.contains(&label)), "{name}");
        }
    }
}
