//! Connections to servers on TLS sockets: how many there are, and which protocol they speak.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use caretaker_apiserver::ApiServer;
use caretaker_apiserver::listen::{
    ApiListener, BearerToken, ListenTransport, TOKEN_BYTES, TlsKeys,
};
use caretaker_controllers::runtime::clients::{ClusterChoice, ClusterClients};
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, KindInterest};
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::Request;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::client::Body;
use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::driver_world::mk_clock;

/// The choice of a kubeconfig with this text.
fn mk_choice(name: &str, kubeconfig: &str) -> ClusterChoice {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, kubeconfig).unwrap();
    ClusterChoice {
        kubeconfig: Some(path),
        ..ClusterChoice::default()
    }
}

/// The embedded server behind TLS. Returns its kubeconfig.
async fn serve(clock: Clock) -> String {
    let server = ApiServer::ephemeral(clock, Rng::seeded(7));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = BearerToken::from_random([7; TOKEN_BYTES]);
    let keys = TlsKeys {
        authority: KeyPair::generate().unwrap(),
        server: KeyPair::generate().unwrap(),
        #[allow(
            clippy::disallowed_methods,
            reason = "TLS checks certificates by the machine's clock"
        )]
        now: Timestamp::now(),
    };
    let transport = ListenTransport::Tls(Box::new(keys));
    let listener = ApiListener::new(socket, transport, token).unwrap();
    let kubeconfig = listener.kubeconfig();
    tokio::spawn(listener.serve(server, std::future::pending()));
    kubeconfig
}

/// The number of open connections.
fn open(metrics: &ControllerMetrics, purpose: &str, protocol: &str) -> usize {
    let wanted = format!("caretaker_connections{{purpose={purpose:?},protocol={protocol:?}}} ");
    let page = metrics.encode();
    let line = page.lines().find_map(|line| line.strip_prefix(&wanted));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Watches all kinds, and returns their number and the metrics page.
async fn watch_all(choice: &ClusterChoice, clock: Clock) -> (usize, ControllerMetrics, FeedSet) {
    let clients = ClusterClients::from_kubeconfig(choice, &clock)
        .await
        .unwrap();
    let metrics = ControllerMetrics::new();
    clients.register_metrics(&metrics);
    let options = FeedSetOptions::default();
    let feeds = FeedSet::start(clients.watches(), clock, Rng::seeded(7), options);
    let ignored = Vec::new();
    let mut changes = feeds.subscribe(KindInterest::Deletable { ignored });
    tokio::spawn(async move { while changes.recv().await.is_some() {} });
    loop {
        let states = feeds.states();
        let is_synced = |(_, state): &(_, KindState)| *state == KindState::Synced;
        if states.len() > 20 && states.iter().all(is_synced) {
            return (states.len(), metrics, feeds);
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn all_watches_share_a_few_connections() {
    let clock = Clock::driven("2026-05-04T00:00:00Z".parse().unwrap(), REAL_TIME);
    let kubeconfig = serve(clock.clone()).await;
    let mut choice = mk_choice("connections-h2.yaml", &kubeconfig);
    let (kinds, metrics, _feeds) = watch_all(&choice, clock.clone()).await;
    let (shared, single) = (
        open(&metrics, "watches", "h2"),
        open(&metrics, "watches", "http/1.1"),
    );
    assert_eq!((shared, single), (kinds.div_ceil(32), 0), "{kinds} kinds");

    choice.environment.disables_http2 = true;
    let (kinds, metrics, _feeds) = watch_all(&choice, clock).await;
    assert_eq!(open(&metrics, "watches", "h2"), 0);
    assert!(open(&metrics, "watches", "http/1.1") >= kinds);
}

#[tokio::test]
async fn a_server_without_http2_is_asked_in_http1() {
    let keys = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap();
    let certificate = certificate.self_signed(&keys).unwrap();
    let key = PrivateKeyDer::try_from(keys.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let mut config = config
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = socket.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut head = [0; 4096];
            while stream.read(&mut head).await.is_ok_and(|bytes| bytes > 0) {
                let head = String::from_utf8_lossy(&head);
                let is_http1 = head.starts_with("GET /version HTTP/1.1\r\n");
                assert!(
                    is_http1 && head.contains(&format!("host: {address}")),
                    "{head}"
                );
                let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                stream.write_all(reply).await.unwrap();
            }
        }
    });
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://{address}', insecure-skip-tls-verify: true}}}}]\n"
    );
    let choice = mk_choice("connections-http1.yaml", &kubeconfig);
    let clients = ClusterClients::from_kubeconfig(&choice, &mk_clock())
        .await
        .unwrap();
    let metrics = ControllerMetrics::new();
    clients.register_metrics(&metrics);
    for _ in 0..2 {
        let request = Request::get("/version").body(Body::empty()).unwrap();
        let response = clients.requests().send(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "ok");
        sleep(Duration::from_millis(50)).await;
    }
    let (http1, http2) = (
        open(&metrics, "requests", "http/1.1"),
        open(&metrics, "requests", "h2"),
    );
    assert_eq!((http1, http2), (1, 0));
}
