//! A server before `caretaker up` that accepts the credentials that a test names, and answers 401 to all others.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::process::UpProcess;

/// The answer to a request without an accepted credential.
const REFUSAL: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

/// A server that checks credentials. Each request has a connection of its own.
pub(crate) struct CredentialGate {
    address: SocketAddr,
    shared: Arc<GateShared>,
}

/// A client certificate and its key in PEM.
#[derive(Clone)]
pub(crate) struct ClientIdentity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    der: Vec<u8>,
}

/// The first line of a request, and whether its credential was accepted.
pub(crate) type GateRequest = (String, bool);

struct GateShared {
    server: SocketAddr,
    bearer: String,
    tls: Option<GateKeys>,
    /// A bearer token or the DER of a certificate.
    accepted: Mutex<Vec<Vec<u8>>>,
    requests: Mutex<Vec<GateRequest>>,
}

/// The authority of server and clients.
struct GateKeys {
    authority: CertifiedIssuer<'static, KeyPair>,
    config: Arc<ServerConfig>,
}

// === impl CredentialGate ===

impl CredentialGate {
    /// A gate without TLS.
    pub(crate) fn plain(up: &UpProcess) -> Self {
        Self::start(up, None)
    }

    /// A gate with TLS, which asks for client certificates.
    pub(crate) fn tls(up: &UpProcess) -> Self {
        Self::start(up, Some(mk_keys()))
    }

    fn start(up: &UpProcess, tls: Option<GateKeys>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let shared = Arc::new(GateShared {
            server: up.server().rsplit('/').next().unwrap().parse().unwrap(),
            bearer: HttpClient::of(&up.kubeconfig()).bearer(),
            tls,
            accepted: Mutex::default(),
            requests: Mutex::default(),
        });
        let gate = Self {
            address: listener.local_addr().unwrap(),
            shared: shared.clone(),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, shared) = (client.unwrap(), shared.clone());
                thread::spawn(move || shared.serve_connection(client));
            }
        });
        gate
    }

    /// From now on only this token is accepted.
    pub(crate) fn accept_token(&self, token: &str) {
        *self.shared.accepted.lock().unwrap() = vec![token.as_bytes().to_vec()];
    }

    /// From now on this token is accepted too.
    pub(crate) fn also_accept_token(&self, token: &str) {
        let mut accepted = self.shared.accepted.lock().unwrap();
        accepted.push(token.as_bytes().to_vec());
    }

    /// From now on only this certificate is accepted.
    pub(crate) fn accept_identity(&self, identity: &ClientIdentity) {
        *self.shared.accepted.lock().unwrap() = vec![identity.der.clone()];
    }

    /// A new client certificate.
    pub(crate) fn issue(&self) -> ClientIdentity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "caretaker");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let authority = &self.shared.tls.as_ref().unwrap().authority;
        let certificate = params.signed_by(&key, authority).unwrap();
        ClientIdentity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: certificate.der().to_vec(),
        }
    }

    /// A kubeconfig of the gate for a user.
    pub(crate) fn kubeconfig(&self, user: &Value) -> String {
        let address = self.address;
        let cluster = match &self.shared.tls {
            None => json!({"server": format!("http://{address}")}),
            Some(keys) => json!({"server": format!("https://{address}"),
                "certificate-authority-data": STANDARD.encode(keys.authority.pem())}),
        };
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}]})
        .to_string()
    }

    /// The requests since the last call.
    pub(crate) fn requests(&self) -> Vec<GateRequest> {
        std::mem::take(&mut self.shared.requests.lock().unwrap())
    }
}

// === impl GateShared ===

impl GateShared {
    fn serve_connection(&self, client: TcpStream) -> io::Result<()> {
        let Some(keys) = &self.tls else {
            return self.serve(client, |_| None);
        };
        let connection = ServerConnection::new(keys.config.clone()).unwrap();
        let certificate = |stream: &StreamOwned<ServerConnection, TcpStream>| {
            let chain = stream.conn.peer_certificates()?;
            Some(chain.first()?.to_vec())
        };
        self.serve(StreamOwned::new(connection, client), certificate)
    }

    /// Serves one request and closes the connection.
    fn serve<S: Read + Write>(
        &self,
        client: S,
        certificate: impl Fn(&S) -> Option<Vec<u8>>,
    ) -> io::Result<()> {
        let mut reader = BufReader::new(client);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let length = header(&head, "content-length");
        let length = length.map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut client = reader.into_inner();
        let token = header(&head, "authorization");
        let token =
            token.and_then(|value| Some(value.strip_prefix("Bearer ")?.as_bytes().to_vec()));
        let is_accepted = {
            let accepted = self.accepted.lock().unwrap();
            let given = [token, certificate(&client)];
            given.iter().flatten().any(|given| accepted.contains(given))
        };
        let line = head.lines().next().unwrap().to_owned();
        self.requests.lock().unwrap().push((line, is_accepted));
        if !is_accepted {
            let length = REFUSAL.len();
            write!(
                client,
                "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{REFUSAL}"
            )?;
            return client.flush();
        }
        let mut upstream = TcpStream::connect(self.server)?;
        upstream.write_all(self.forwarded(&head).as_bytes())?;
        upstream.write_all(&body)?;
        copy(&mut upstream, &mut client)
    }

    /// The head for the server: with its own token and address.
    fn forwarded(&self, head: &str) -> String {
        let mut lines = head.lines();
        let mut out = format!("{}\r\n", lines.next().unwrap());
        let replaced = ["authorization:", "host:", "connection:"];
        for line in lines.filter(|line| !line.is_empty()) {
            let lower = line.to_lowercase();
            if !replaced.iter().any(|name| lower.starts_with(name)) {
                out.push_str(&format!("{line}\r\n"));
            }
        }
        let (bearer, server) = (&self.bearer, self.server);
        format!("{out}authorization: {bearer}\r\nhost: {server}\r\nconnection: close\r\n\r\n")
    }
}

/// Copies piece by piece, so that events of a watch arrive at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    loop {
        let length = from.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&piece[..length])?;
        to.flush()?;
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.to_owned())
}

fn mk_keys() -> GateKeys {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let server = server.signed_by(&server_key, &authority).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![server.der().clone()],
            PrivateKeyDer::Pkcs8(server_key.serialize_der().into()),
        )
        .unwrap();
    GateKeys {
        authority,
        config: Arc::new(config),
    }
}
