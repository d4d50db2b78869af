//! `caretaker up --listen` and `--tls-san`: which addresses and names reach the server, and what it says about them.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::process::{TestDirectories, UpProcess};

/// A limit that only a hanging program exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

fn config_of(up: &UpProcess) -> Value {
    let text = std::fs::read_to_string(up.kubeconfig()).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// GET /version over TLS from `address`, with the certificate checked for `name` and `name` as host; the first line.
fn version(up: &UpProcess, address: &str, name: &str) -> Result<String, String> {
    let config = config_of(up);
    let authority = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str();
    let authority = STANDARD.decode(authority.unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(client), host).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    let request = format!(
        "GET /version HTTP/1.1\r\nHost: {name}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream
        .write_all(request.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .map_err(|error| error.to_string())?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn a_server_on_all_addresses_is_reached_by_addresses_and_given_names() {
    let mut up = UpProcess::start(&[
        "--listen",
        "0.0.0.0:0",
        "--tls-san",
        "ci.example,*.dev.example",
    ]);
    let port = up.server().rsplit(':').next().unwrap().to_owned();
    assert_eq!(up.server(), format!("https://127.0.0.1:{port}"));
    let warning =
        "other machines can reach this server; the token in the kubeconfig gives full access to it";
    up.process.error_line_with(warning, PATIENCE);

    // Given names come first; wildcards have no URL.
    let remote: Vec<String> = serde_json::from_value(up.line["remoteServers"].clone()).unwrap();
    assert_eq!(remote[0], format!("https://ci.example:{port}"));
    assert!(!remote.iter().any(|url| url.contains('*')), "{remote:?}");
    let config = config_of(&up);
    assert_eq!(config["current-context"], "caretaker");
    assert_eq!(config["contexts"][1]["name"], "caretaker@ci.example");
    assert_eq!(config["clusters"][1]["cluster"]["server"], json!(remote[0]));

    let local = format!("127.0.0.1:{port}");
    for name in ["127.0.0.1", "localhost", "ci.example", "a.dev.example"] {
        assert_eq!(
            version(&up, &local, name),
            Ok("HTTP/1.1 200 OK".to_owned()),
            "{name}"
        );
    }
    let error = version(&up, &local, "b.example").unwrap_err();
    assert!(
        error.contains("not valid for name") || error.contains("NotValidForName"),
        "{error}"
    );

    // The addresses of this machine, if it has any but loopback.
    for url in &remote[1..] {
        let address = url.strip_prefix("https://").unwrap();
        let host = address.rsplit_once(':').unwrap().0;
        assert!(
            host.parse::<IpAddr>()
                .is_ok_and(|address| !address.is_loopback()),
            "{url}"
        );
        assert_eq!(
            version(&up, address, host),
            Ok("HTTP/1.1 200 OK".to_owned()),
            "{url}"
        );
    }
    let (ended, _world) = up.stop();
    assert_eq!(ended.code, 0);
}

#[test]
fn a_misdirected_request_learns_the_names_and_the_flag() {
    let up = UpProcess::start(&["--tls-san", "ci.example"]);
    let client = HttpClient::of(&up.kubeconfig());
    let bearer = client.bearer();
    let get = |host| {
        client.get_with(
            "/api",
            &[("Authorization", bearer.as_str()), ("Host", host)],
        )
    };
    assert_eq!(get("ci.example:1").0, 200);
    let message = "the request names a host that this server does not answer to: use one of 127.0.0.1, ::1, localhost, \
                   kubernetes.default.svc, ci.example, or start the server with --tls-san other.example";
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "MisdirectedRequest", "code": 421});
    assert_eq!(get("other.example"), (421, status));
}

#[test]
fn a_port_is_found_on_the_chosen_address() {
    let world = TestDirectories::new();
    let mut process = world.caretaker(&["up", "-o", "json", "--listen", "0.0.0.0"]);
    let line: Value = serde_json::from_str(&process.line()).unwrap();
    let port = line["server"]
        .as_str()
        .unwrap()
        .strip_prefix("https://127.0.0.1:")
        .unwrap();
    assert!(
        (6443..6543).contains(&port.parse::<u16>().unwrap()),
        "{line}"
    );
}

#[test]
fn an_address_of_another_machine_is_an_error_that_says_so() {
    let world = TestDirectories::new();
    // TEST-NET-3 belongs to no machine.
    let ended = world.caretaker(&["up", "--listen", "203.0.113.1:0"]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    let expected = "caretaker: cannot listen on 203.0.113.1:0: ";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .ends_with("; this machine does not have the address\n"),
        "{}",
        ended.stderr
    );
}
