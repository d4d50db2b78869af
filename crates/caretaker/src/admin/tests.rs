//! The pages as functions, and over TLS.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::oneshot;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::*;

const GRAPH: &str = "/debug/controllers/garbage-collector-controller/graph";
const OLD_GRAPH: &str = "/debug/controllers/garbagecollector/graph";

/// A source with fixed answers.
struct Fake {
    collects: bool,
}

impl DiagnosticsSource for Fake {
    fn livez(&self) -> BoxedAnswer<'_, HealthReport> {
        Box::pin(async { mk_health("driver", true) })
    }

    fn readyz(&self) -> BoxedAnswer<'_, HealthReport> {
        Box::pin(async { mk_health("kind/pods", false) })
    }

    fn metrics(&self) -> BoxedAnswer<'_, String> {
        Box::pin(async { "# EOF\n".to_owned() })
    }

    fn actions(&self) -> BoxedAnswer<'_, String> {
        Box::pin(async { "[]".to_owned() })
    }

    fn failures(&self, objects: Vec<String>) -> BoxedAnswer<'_, String> {
        Box::pin(async move { format!("{objects:?}") })
    }

    fn graph(&self, uids: Vec<String>) -> BoxedAnswer<'_, Option<GraphPage>> {
        Box::pin(async move {
            self.collects.then(|| GraphPage {
                dot: format!("strict digraph full {{}} // {}", uids.join(" ")),
                json: format!("{{\"uids\":{}}}", uids.len()),
            })
        })
    }
}

fn mk_health(name: &str, ok: bool) -> HealthReport {
    HealthReport {
        checks: vec![HealthCheck {
            name: name.into(),
            ok,
            detail: String::new(),
        }],
    }
}

async fn ask(collects: bool, method: &str, uri: &str) -> (u16, BTreeMap<String, String>, String) {
    let admin = AdminPages::new(Arc::new(Fake { collects }));
    let method = method.parse().unwrap();
    let response = admin.page(&method, &uri.parse().unwrap()).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let headers = parts.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()));
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    (parts.status.as_u16(), headers.collect(), text)
}

#[tokio::test]
async fn every_page_has_its_content_type_and_text() {
    let json = "application/json";
    let dot = "text/vnd.graphviz";
    let ready = "[-]kind/pods failed\nreadyz check failed\n";
    let by_uid = format!("{GRAPH}?uid=a&uid=b%20c");
    let json_graph = format!("{GRAPH}.json?uid=a&x=b");
    let cases = [
        ("/healthz", 200, TEXT, "ok"),
        ("/livez", 200, TEXT, "ok"),
        ("/livez/", 200, TEXT, "ok"),
        ("/livez/driver", 200, TEXT, "ok"),
        ("/livez/other", 404, TEXT, "404 page not found\n"),
        (
            "/livez?verbose",
            200,
            TEXT,
            "[+]driver ok\nlivez check passed\n",
        ),
        ("/readyz", 500, TEXT, ready),
        ("/readyz/kind/pods", 500, TEXT, "[-]kind/pods failed\n"),
        ("/metrics", 200, METRICS, "# EOF\n"),
        ("/debug/actions", 200, json, "[]"),
        (
            "/debug/failures?object=pods%20a/b&object=c",
            200,
            json,
            "[\"pods a/b\", \"c\"]",
        ),
        (GRAPH, 200, dot, "strict digraph full {} // "),
        (OLD_GRAPH, 200, dot, "strict digraph full {} // "),
        (&by_uid, 200, dot, "strict digraph full {} // a b c"),
        (&json_graph, 200, json, "{\"uids\":1}"),
        ("/", 404, TEXT, "404 page not found\n"),
        ("/metrics/", 404, TEXT, "404 page not found\n"),
        ("/healthzz", 404, TEXT, "404 page not found\n"),
        (
            "/debug/controllers/garbage-collector-controller/other",
            404,
            TEXT,
            "404 page not found\n",
        ),
    ];
    for (uri, code, content_type, text) in cases {
        let (found, headers, body) = ask(true, "GET", uri).await;
        assert_eq!((found, body.as_str()), (code, text), "{uri}");
        assert_eq!(headers["content-type"], content_type, "{uri}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{uri}");
    }
}

#[tokio::test]
async fn pages_are_read_only_and_the_graph_needs_the_collector() {
    for (method, uri, code) in [
        ("HEAD", "/livez", 200),
        ("POST", "/livez", 405),
        ("DELETE", GRAPH, 405),
        ("PUT", "/metrics", 405),
        ("POST", "/nowhere", 404),
    ] {
        let (found, headers, _) = ask(true, method, uri).await;
        assert_eq!(found, code, "{method} {uri}");
        let allowed = headers.get("allow").map(String::as_str);
        assert_eq!(
            allowed,
            (code == 405).then_some("GET, HEAD"),
            "{method} {uri}"
        );
    }
    for uri in [GRAPH, OLD_GRAPH, &format!("{GRAPH}.json")] {
        let (code, _, text) = ask(false, "GET", uri).await;
        assert_eq!(
            (code, text.as_str()),
            (404, "the garbage collector is not running\n"),
            "{uri}"
        );
    }
}

/// Sends a request that trusts the certificate authority of `kubeconfig`.
fn get(kubeconfig: &Value, path: &str, token: Option<&str>) -> (u16, String) {
    use base64::Engine;
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"].as_str().unwrap();
    let authority = base64::engine::general_purpose::STANDARD.decode(authority);
    let authority = Certificate::from_pem(&authority.unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::new_with_certs(&[authority]))
        .build();
    let config = ureq::Agent::config_builder().tls_config(tls).proxy(None);
    let agent = config.http_status_as_error(false).build().new_agent();
    let server = cluster["server"].as_str().unwrap();
    let mut request = agent.get(format!("{server}{path}"));
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let mut answer = request.call().unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_needs_no_token_and_all_other_pages_do() {
    let world = tempfile::tempdir().unwrap();
    let credentials = TokenSource::Generated {
        directory: world.path().join("caretaker"),
        server: String::new(),
    };
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (listener, file) = open(here, 0, &credentials).await.unwrap();
    let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
    let kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
    let admin = AdminPages::new(Arc::new(Fake { collects: true }));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listener.serve(admin, async {
        let _ = stopped.await;
    }));
    let asking = tokio::task::spawn_blocking(move || {
        let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
        for path in ["/healthz", "/livez", "/livez?verbose", "/livez/driver"] {
            assert_eq!(get(&kubeconfig, path, None).0, 200, "{path}");
        }
        assert_eq!(get(&kubeconfig, "/readyz", None).0, 500);
        let graph = format!("{GRAPH}.json");
        for path in [
            "/metrics",
            "/debug/actions",
            GRAPH,
            OLD_GRAPH,
            graph.as_str(),
        ] {
            let (code, text) = get(&kubeconfig, path, None);
            assert_eq!(code, 401, "{path}");
            assert!(text.contains("Unauthorized"), "{text}");
            assert_eq!(get(&kubeconfig, path, Some("wrong")).0, 401, "{path}");
            assert_eq!(get(&kubeconfig, path, Some(token)).0, 200, "{path}");
        }
        assert_eq!(get(&kubeconfig, "/nowhere", None).0, 401);
        assert_eq!(get(&kubeconfig, "/nowhere", Some(token)).0, 404);
    });
    asking.await.unwrap();
    drop(stop);
    serving.await.unwrap();
}
