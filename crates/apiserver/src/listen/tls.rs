//! The certificates of one server: its own certificate authority, and the server certificate that it signs.
//!
//! Both live as long as the process and are never stored; clients find the authority in the kubeconfig. The caller supplies
//! the keys and the time. rustls takes its randomness from the operating system: secrets do not depend on a seed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::ListenError;
use super::names::ServerNames;

/// Validity of the certificates. They end with the process; some clients refuse a validity of more than 398 days.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Tolerance for clients whose clock is behind ours.
const SKEW: Duration = Duration::from_secs(3600);

/// Application protocols, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Input for the certificates of a server. The keys must be fresh and random.
#[derive(Debug)]
pub struct TlsKeys {
    /// Signs the server's certificate, once.
    pub authority: KeyPair,
    /// The key of the server certificate.
    pub server: KeyPair,
    /// Start of the validity. Clients compare it with their wall clock.
    pub now: Timestamp,
}

/// The TLS configuration of a server.
#[derive(Debug, Clone)]
pub(super) struct TlsSetup {
    pub(super) config: Arc<ServerConfig>,
    /// The certificate of the authority as PEM.
    pub(super) authority: String,
}

// === impl TlsSetup ===

impl TlsSetup {
    /// Certificates for a server that clients reach under `names`.
    pub(super) fn new(keys: TlsKeys, names: &ServerNames) -> Result<Self, ListenError> {
        let TlsKeys {
            authority,
            server,
            now,
        } = keys;
        let authority = CertifiedIssuer::self_signed(authority_params(now), authority)?;
        let certificate = server_params(now, names)?.signed_by(&server, &authority)?;

        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(server.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        Ok(Self {
            config: Arc::new(config),
            authority: authority.pem(),
        })
    }
}

fn authority_params(now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    hold_from(&mut params, now);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
        .distinguished_name
        .push(DnType::CommonName, "caretaker");
    params
}

fn server_params(now: Timestamp, names: &ServerNames) -> Result<CertificateParams, rcgen::Error> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names)?;
    hold_from(&mut params, now);
    params
        .distinguished_name
        .push(DnType::CommonName, "caretaker apiserver");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn hold_from(params: &mut CertificateParams, now: Timestamp) {
    // A time before 1970 means a broken clock; 1970 is used instead.
    let since_1970 = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    let now = rcgen::date_time_ymd(1970, 1, 1) + since_1970;
    params.not_before = now - SKEW;
    params.not_after = now + VALIDITY;
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::time_provider::TimeProvider;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    use super::*;

    const NOW: &str = "2026-03-01T12:00:00Z";

    /// A client with a fixed clock.
    #[derive(Debug)]
    struct At(UnixTime);

    impl TimeProvider for At {
        fn current_time(&self) -> Option<UnixTime> {
            Some(self.0)
        }
    }

    fn mk_tls(address: &str) -> TlsSetup {
        let keys = TlsKeys {
            authority: KeyPair::generate().unwrap(),
            server: KeyPair::generate().unwrap(),
            now: NOW.parse().unwrap(),
        };
        let names = ServerNames::new(
            address.parse().unwrap(),
            [],
            ["*.dev.example".parse().unwrap()],
        );
        TlsSetup::new(keys, &names).unwrap()
    }

    fn mk_client(tls: &TlsSetup, name: &str, time: &str) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(tls.authority.as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let time: Timestamp = time.parse().unwrap();
        let time = Duration::from_secs(time.as_second().unsigned_abs());
        let time = Arc::new(At(UnixTime::since_unix_epoch(time)));
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let name = ServerName::try_from(name.to_owned()).unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }

    /// An in-memory handshake of a client that connects to `name` at `time`.
    fn accepts(tls: &TlsSetup, name: &str, time: &str) -> bool {
        let mut client = mk_client(tls, name, time);
        let mut server = ServerConnection::new(tls.config.clone()).unwrap();
        while client.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            wire.clear();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut wire.as_slice()).unwrap();
            if client.process_new_packets().is_err() {
                return false;
            }
        }
        assert_eq!(client.alpn_protocol(), Some(&b"h2"[..]));
        true
    }

    #[test]
    fn certificate_covers_exactly_the_names_of_the_server() {
        let tls = mk_tls("192.0.2.7");
        let names = [
            "localhost",
            "127.0.0.1",
            "::1",
            "kubernetes.default.svc",
            "192.0.2.7",
            "a.dev.example",
        ];
        for name in names {
            assert!(accepts(&tls, name, NOW), "{name}");
        }
        for name in ["192.0.2.8", "example.com", "svc", "a.b.dev.example"] {
            assert!(!accepts(&tls, name, NOW), "{name}");
        }
        assert!(!accepts(&mk_tls("0.0.0.0"), "0.0.0.0", NOW));
    }

    #[test]
    fn certificates_are_valid_for_a_year() {
        let tls = mk_tls("127.0.0.1");
        let cases = [
            ("2026-03-01T10:59:59Z", false),
            ("2026-03-01T11:00:00Z", true),
            ("2027-03-01T12:00:00Z", true),
            ("2027-03-01T12:00:01Z", false),
        ];
        for (time, expected) in cases {
            assert_eq!(accepts(&tls, "localhost", time), expected, "{time}");
        }
    }

    #[test]
    fn authority_is_trusted_for_its_own_server_only() {
        let (one, other) = (mk_tls("127.0.0.1"), mk_tls("127.0.0.1"));
        let mixed = TlsSetup {
            config: one.config.clone(),
            authority: other.authority.clone(),
        };
        assert!(accepts(&one, "localhost", NOW));
        assert!(!accepts(&mixed, "localhost", NOW));
    }
}
