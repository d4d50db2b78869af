//! Connections on loopback sockets with paused time, so that timeouts pass at once.

use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use jiff::Timestamp;
use rcgen::KeyPair;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::ApiServer;

/// A plain HTTP listener that serves until its sender is dropped.
struct Running {
    address: SocketAddr,
    bearer: String,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Running {
    async fn start() -> Self {
        let token = BearerToken::from_random([7; TOKEN_BYTES]);
        let bearer = format!("Bearer {}", token.reveal());
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listener = ApiListener::new(socket, ListenTransport::Plain, token).unwrap();
        let clock = Clock::driven(Timestamp::UNIX_EPOCH, REAL_TIME);
        let server = ApiServer::ephemeral(clock, Rng::seeded(1));
        let (stop, stopped) = oneshot::channel();
        Self {
            address: listener.address,
            bearer,
            stop: Some(stop),
            serving: tokio::spawn(listener.serve(server, async {
                let _: Result<(), _> = stopped.await;
            })),
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The head of a GET with the token.
    fn get(&self, path: &str) -> String {
        let (address, bearer) = (self.address, &self.bearer);
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {bearer}\r\n\r\n")
    }
}

/// Sends a request and reads the first part of the response.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 64 * 1024];
    let length = stream.read(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The time until the other side closes the connection.
async fn open_for(stream: &mut TcpStream) -> Duration {
    let start = Instant::now();
    let mut rest = Vec::new();
    // A reset counts as closed.
    let _ = stream.read_to_end(&mut rest).await;
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn closes_unauthenticated_connections_at_the_deadline() {
    let running = Running::start().await;
    let half = "GET /api HTTP/1.1\r\nHost: ";
    let stranger = format!("GET /api HTTP/1.1\r\nHost: {}\r\n\r\n", running.address);
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";
    for sent in ["", half, &stranger, preface] {
        let mut stream = running.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let open = open_for(&mut stream).await;
        let late = open.abs_diff(STRANGER_WAIT);
        assert!(late < Duration::from_secs(1), "{sent:?}: {open:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn authenticated_connections_may_be_idle() {
    let running = Running::start().await;
    let mut stream = running.connect().await;
    for _ in 0..3 {
        let answer = ask(&mut stream, &running.get("/version")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        sleep(HEAD_WAIT / 2).await;
    }
    let open = open_for(&mut stream).await;
    assert!(open <= HEAD_WAIT, "{open:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_watches_and_refuses_connections() {
    let mut running = Running::start().await;
    let mut watch = running.connect().await;
    let answer = ask(&mut watch, &running.get("/api/v1/namespaces?watch=1")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let mut idle = running.connect().await;
    ask(&mut idle, &running.get("/version")).await;

    let mut silent = running.connect().await;
    silent.write_all(b"GET").await.unwrap();

    let start = Instant::now();
    running.stop = None;
    running.serving.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    let mut end = String::new();
    watch.read_to_string(&mut end).await.unwrap();
    assert!(end.ends_with("0\r\n\r\n"), "the watch was cut off: {end}");
    for mut stream in [watch, idle, silent] {
        assert_eq!(open_for(&mut stream).await, Duration::ZERO);
    }
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn shutdown_answers_a_write_under_way() {
    let mut running = Running::start().await;
    // Paused time jumps to the end of the grace period when every task waits for a socket.
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let mut stream = running.connect().await;
    let head = running.get("/api/v1/namespaces/default/configmaps");
    let head = head.replacen("GET", "POST", 1).trim_end().to_owned();
    let (first, rest) = body.split_at(10);
    let head = format!(
        "{head}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    // The interim answer shows that the server has begun to read the body.
    let answer = ask(&mut stream, &head).await;
    assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
    stream.write_all(first.as_bytes()).await.unwrap();
    running.stop = None;
    while TcpStream::connect(running.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let answer = ask(&mut stream, rest).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    running.serving.await.unwrap();
    busy.abort();
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_client_that_stalls() {
    let mut running = Running::start().await;
    let mut stream = running.connect().await;
    let head = running.get("/api/v1/namespaces/default/configmaps");
    let head = head.replacen("GET", "POST", 1).trim_end().to_owned();
    let head = format!("{head}\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    assert!(ask(&mut stream, &head).await.starts_with("HTTP/1.1 100 "));
    let start = Instant::now();
    running.stop = None;
    running.serving.await.unwrap();
    assert_eq!(start.elapsed(), STOP_WAIT);
}

#[tokio::test(start_paused = true)]
async fn refuses_endless_heads() {
    let running = Running::start().await;
    let mut stream = running.connect().await;
    let head = format!(
        "GET /api HTTP/1.1\r\nX: {}",
        "x".repeat(2 * HEAD_BYTES_MAX as usize)
    );
    let answer = ask(&mut stream, &head).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn accepts_a_selector_of_64_kib() {
    let running = Running::start().await;
    let mut stream = running.connect().await;
    let values: Vec<String> = (0..1_000).map(|number| format!("{number:060}")).collect();
    let selector = format!("x%20in%20({})", values.join(","));
    assert!(selector.len() > 60_000);
    let path = format!("/api/v1/pods?labelSelector={selector}");
    let answer = ask(&mut stream, &running.get(&path)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn h2_allows_a_thousand_concurrent_requests() {
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    let running = Running::start().await;
    let mut stream = running.connect().await;
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    stream.write_all(&empty_settings).await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    stream.read_exact(&mut settings).await.unwrap();
    let streams = settings.chunks(6).find_map(|setting| {
        let (id, value) = setting.split_at(2);
        let is_wanted = id == MAX_CONCURRENT_STREAMS.to_be_bytes();
        is_wanted.then(|| u32::from_be_bytes(value.try_into().unwrap()))
    });
    assert_eq!(streams, Some(STREAMS_MAX));
}

#[tokio::test]
async fn plain_http_is_limited_to_loopback() {
    let token = || BearerToken::from_random([7; TOKEN_BYTES]);
    let socket = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = ApiListener::new(socket, ListenTransport::Plain, token());
    assert!(matches!(refused, Err(ListenError::NotLoopback(_))));

    let socket = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let keys = TlsKeys {
        authority: KeyPair::generate().unwrap(),
        server: KeyPair::generate().unwrap(),
        now: Timestamp::UNIX_EPOCH,
    };
    let listener = ApiListener::new(socket, ListenTransport::Tls(Box::new(keys)), token()).unwrap();
    let port = listener.address.port();
    assert_eq!(listener.url(), format!("https://127.0.0.1:{port}"));
    assert!(listener.kubeconfig().contains(&listener.url()));
}

#[tokio::test]
async fn urls_name_the_addresses_and_the_given_names() {
    let interfaces: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    for (address, given, remote) in [
        ("127.0.0.1:0", None, &[][..]),
        ("127.0.0.1:0", Some("ci"), &["ci"]),
        ("127.0.0.1:0", Some("2001:db8::8"), &["[2001:db8::8]"]),
        ("0.0.0.0:0", None, &["192.0.2.7"]),
        ("0.0.0.0:0", Some("ci"), &["ci", "192.0.2.7"]),
    ] {
        let socket = TcpListener::bind(address).await.unwrap();
        let own = socket.local_addr().unwrap();
        let keys = TlsKeys {
            authority: KeyPair::generate().unwrap(),
            server: KeyPair::generate().unwrap(),
            now: Timestamp::UNIX_EPOCH,
        };
        let given = given.map(|name: &str| name.parse().unwrap());
        let names = ServerNames::new(own.ip(), interfaces, given);
        let token = BearerToken::from_random([7; TOKEN_BYTES]);
        let tls = ListenTransport::Tls(Box::new(keys));
        let listener = ApiListener::with_names(socket, tls, token, names).unwrap();
        let url = |host: &str| format!("https://{host}:{}", own.port());
        assert_eq!(listener.url(), url("127.0.0.1"), "{address}");
        let addresses = remote.iter().map(|host| RemoteAddress {
            url: url(host),
            context: format!("a@{}", host.trim_matches(['[', ']'])),
        });
        let addresses: Vec<RemoteAddress> = addresses.collect();
        assert_eq!(listener.remote_addresses("a"), addresses, "{address}");
        let kubeconfig = listener.named_kubeconfig("a");
        assert!(
            addresses
                .iter()
                .all(|address| kubeconfig.contains(&address.url))
        );
        let beside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let beside = listener.beside(beside).unwrap();
        assert_eq!(beside.remote_addresses("a"), []);
    }
}

#[tokio::test]
async fn second_listener_shares_authority_and_token() {
    let token = || BearerToken::from_random([7; TOKEN_BYTES]);
    let socket = async |address| TcpListener::bind(address).await.unwrap();
    let keys = TlsKeys {
        authority: KeyPair::generate().unwrap(),
        server: KeyPair::generate().unwrap(),
        now: Timestamp::UNIX_EPOCH,
    };
    let tls = ListenTransport::Tls(Box::new(keys));
    let first = ApiListener::new(socket("127.0.0.1:0").await, tls, token()).unwrap();
    let second = first.beside(socket("127.0.0.1:0").await).unwrap();
    assert_ne!(first.url(), second.url());
    let moved = first.kubeconfig().replace(&first.url(), &second.url());
    assert_eq!(second.kubeconfig(), moved);

    let plain =
        ApiListener::new(socket("127.0.0.1:0").await, ListenTransport::Plain, token()).unwrap();
    assert!(plain.beside(socket("127.0.0.1:0").await).is_ok());
    let refused = plain.beside(socket("0.0.0.0:0").await);
    assert!(matches!(refused, Err(ListenError::NotLoopback(_))));
}

/// A site with one path for each kind of check.
struct CheckedPaths;

impl HttpSite for CheckedPaths {
    fn access_check(&self, path: &str) -> AccessCheck {
        match path {
            "/open" => AccessCheck::Open,
            "/token" => AccessCheck::Token,
            _ => AccessCheck::Guarded,
        }
    }

    async fn serve(
        &self,
        identity: Option<crate::UserIdentity>,
        _request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let user = identity.map_or_else(|| "anonymous".to_owned(), |identity| identity.user);
        Response::new(user.into())
    }
}

#[tokio::test]
async fn site_decides_the_checks_of_each_path() {
    let token = BearerToken::from_text(" secret\n").unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = ApiListener::new(socket, ListenTransport::Plain, token).unwrap();
    let address = listener.address.to_string();
    let serving = tokio::spawn(listener.serve(CheckedPaths, std::future::pending()));
    let own = address.as_str();
    let cases = [
        ("/open", own, "", 200),
        ("/open", "elsewhere", "", 200),
        ("/token", own, "", 401),
        ("/token", own, "wrong", 401),
        ("/token", "elsewhere", "secret", 200),
        ("/guarded", own, "", 401),
        ("/guarded", "elsewhere", "secret", 421),
        ("/guarded", own, "secret", 200),
    ];
    for (path, host, token, code) in cases {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        let answer = ask(&mut stream, &head).await;
        let expected = format!("HTTP/1.1 {code} ");
        assert!(answer.starts_with(&expected), "{path} {host}: {answer}");
        let user = if path == "/open" {
            "anonymous"
        } else {
            "caretaker-admin"
        };
        assert!(code != 200 || answer.ends_with(user), "{path}: {answer}");
    }
    serving.abort();
}

#[test]
fn token_files_may_only_contain_bearer_characters() {
    for (text, token) in [
        ("a\n", Some("a")),
        (" a.b-c ", Some("a.b-c")),
        ("", None),
        ("\n", None),
        ("a b", None),
        ("a\"b", None),
        ("\u{e4}", None),
    ] {
        let read = BearerToken::from_text(text);
        assert_eq!(read.as_ref().map(BearerToken::reveal), token, "{text:?}");
    }
}
