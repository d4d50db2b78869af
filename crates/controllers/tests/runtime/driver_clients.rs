//! Clients of a server on a socket: kubeconfigs, credential plugins, and no hidden retries.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use caretaker_apiserver::ApiServer;
use caretaker_apiserver::listen::{ApiListener, BearerToken, ListenTransport, TOKEN_BYTES};
use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall, CallTarget, FailureKind};
use caretaker_controllers::runtime::clients::{
    ClientEnvironment, ClusterChoice, ClusterClients, ProxySettings,
};
use caretaker_controllers::runtime::effects::Effects;
use caretaker_controllers::runtime::kind::KindId;
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_machinery::rng::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::driver_world::{mk_catalog, mk_clock};

/// A server on a socket: its address, its token, and a kubeconfig for it.
struct SocketServer {
    url: String,
    token: String,
    kubeconfig: String,
}

async fn serve() -> SocketServer {
    let clock = mk_clock();
    let server = ApiServer::ephemeral(clock, Rng::seeded(7));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = BearerToken::from_random([7; TOKEN_BYTES]);
    let revealed = token.reveal().to_owned();
    let listener = ApiListener::new(socket, ListenTransport::Plain, token).unwrap();
    let served = SocketServer {
        url: listener.url(),
        token: revealed,
        kubeconfig: listener.kubeconfig(),
    };
    tokio::spawn(listener.serve(server, std::future::pending()));
    served
}

fn mk_file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn mk_choice(path: PathBuf) -> ClusterChoice {
    ClusterChoice {
        kubeconfig: Some(path),
        ..ClusterChoice::default()
    }
}

/// The answer to a read of a ConfigMap that does not exist.
async fn ask(clients: &ClusterClients) -> ApiAnswer {
    let (_, catalog) = watch::channel(Arc::new(mk_catalog()));
    let effects = Effects::new(clients.requests(), catalog, ControllerMetrics::new());
    let target = CallTarget {
        kind: KindId(0),
        namespace: "default".into(),
        name: "a".into(),
    };
    effects.perform(&ApiCall::Get { target }).await.answer
}

/// A kubeconfig whose user comes from a credential plugin.
fn mk_plugin(url: &str, script: &str) -> String {
    let script = serde_json::Value::from(script);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u, namespace: shop}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n\
         users:\n- name: u\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n\
         \x20     command: sh\n      interactiveMode: Never\n      args: ['-c', {script}]\n"
    )
}

#[tokio::test]
async fn a_kubeconfig_reaches_a_loopback_server_without_the_proxy() {
    let served = serve().await;
    let path = mk_file("clients-named.yaml", &served.kubeconfig);
    let mut choice = mk_choice(path);
    choice.environment.proxies = ProxySettings {
        http: Some("http://127.0.0.1:1".to_owned()),
        https: Some("http://127.0.0.1:1".to_owned()),
        none: None,
    };
    let clients = ClusterClients::find(&choice, &mk_clock()).await.unwrap();
    assert_eq!(clients.server().trim_end_matches('/'), served.url);
    assert!(matches!(ask(&clients).await, ApiAnswer::Absent(_)));
}

#[tokio::test]
async fn files_of_a_list_are_merged_and_need_not_exist() {
    let served = serve().await;
    let contexts = "apiVersion: v1\nkind: Config\ncurrent-context: mine\n\
                    contexts: [{name: mine, context: {cluster: there, user: me}}]\n";
    let rest = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: theirs\n\
         clusters: [{{name: there, cluster: {{server: '{}'}}}}]\n\
         users: [{{name: me, user: {{token: '{}'}}}}]\n",
        served.url, served.token
    );
    let first = mk_file("clients-first.yaml", contexts);
    let second = mk_file("clients-second.yaml", &rest);
    let list = [first.with_file_name("clients-none.yaml"), first, second];
    let choice = ClusterChoice {
        environment: ClientEnvironment {
            kubeconfig: Some(std::env::join_paths(list).unwrap()),
            ..ClientEnvironment::default()
        },
        ..ClusterChoice::default()
    };
    let clients = ClusterClients::find(&choice, &mk_clock()).await.unwrap();
    assert!(matches!(ask(&clients).await, ApiAnswer::Absent(_)));
}

#[tokio::test]
async fn a_credential_plugin_provides_the_token() {
    let served = serve().await;
    let script = format!(
        r#"printf '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"{}"}}}}'"#,
        served.token
    );
    let text = mk_plugin(&served.url, &script);
    let path = mk_file("clients-plugin.yaml", &text);
    let clients = ClusterClients::from_kubeconfig(&mk_choice(path), &mk_clock())
        .await
        .unwrap();
    assert_eq!(clients.namespace(), "shop");
    assert!(matches!(ask(&clients).await, ApiAnswer::Absent(_)));
}

#[tokio::test]
async fn the_error_of_a_credential_plugin_holds_no_stdout() {
    let text = mk_plugin(
        "http://127.0.0.1:1",
        "echo s3cret; echo not today >&2; exit 3",
    );
    let path = mk_file("clients-broken.yaml", &text);
    let error = ClusterClients::from_kubeconfig(&mk_choice(path), &mk_clock())
        .await
        .unwrap_err();
    let error = error.to_string();
    assert!(error.contains("not today"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_wrong_token_is_forbidden_and_proves_no_absence() {
    let served = serve().await;
    let text = served.kubeconfig.replace(&served.token, "wrong");
    let path = mk_file("clients-wrong.yaml", &text);
    let clients = ClusterClients::from_kubeconfig(&mk_choice(path), &mk_clock())
        .await
        .unwrap();
    match ask(&clients).await {
        ApiAnswer::Failed(failure) => assert_eq!(failure.kind, FailureKind::Forbidden),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_client_does_not_retry_refused_requests() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = socket.accept().await.unwrap();
            let mut head = [0; 4096];
            while stream.read(&mut head).await.is_ok_and(|bytes| bytes > 0) {
                count.fetch_add(1, Ordering::Relaxed);
                let reply = b"HTTP/1.1 503 No\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(reply).await.unwrap();
            }
        }
    });
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
    );
    let path = mk_file("clients-503.yaml", &text);
    let clients = ClusterClients::from_kubeconfig(&mk_choice(path), &mk_clock())
        .await
        .unwrap();
    match ask(&clients).await {
        ApiAnswer::Failed(failure) => assert_eq!(failure.status, Some(503)),
        other => panic!("{other:?}"),
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    drop(socket);
    let text = mk_plugin(
        &url,
        "printf '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"t\"}}'",
    );
    let path = mk_file("clients-gone.yaml", &text);
    let clients = ClusterClients::from_kubeconfig(&mk_choice(path), &mk_clock())
        .await
        .unwrap();
    match ask(&clients).await {
        ApiAnswer::Failed(failure) => {
            assert_eq!(
                (failure.kind, failure.status),
                (FailureKind::Unavailable, None)
            );
            assert!(failure.message.contains("refused"), "{failure}");
        }
        other => panic!("{other:?}"),
    }
}
