//! Checks of the `Host` and the bearer token of a request.
//!
//! Both checks use only the head of a request, before its body is read. The host is checked first: a web page whose name
//! resolves to a loopback address (DNS rebinding) can send requests, but cannot forge its host name. A token is the
//! administrator's, or one that the site knows; a request without any is anonymous, if the site has anonymous users.
//! There are no client certificates and cookies.
//! DEVIATION(basic-password): a token may also be the password of basic authentication: client-go sends no bearer token
//! over plain HTTP, but it sends the password of the server's URL.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::{fmt, iter};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use caretaker_machinery::status::Status;
use http::uri::Authority;
use http::{HeaderMap, Uri, header};
use subtle::ConstantTimeEq;

use super::HttpSite;
use super::names::{ServerNames, SubjectName};
use crate::identity::UserIdentity;

/// Random bytes of a token: 256 bits, which cannot be guessed.
pub const TOKEN_BYTES: usize = 32;

/// Hosts of misdirected requests that are logged; any client may send them.
const LOGGED_HOSTS_MAX: usize = 16;

/// The checks that a request has to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessCheck {
    /// The host that it names, and the token.
    Guarded,
    /// The token only, for pages that may be reached under any host name.
    Token,
    /// No check. A connection without an authenticated request is closed at the same deadline as any other.
    Open,
}

/// The bearer token of the administrator.
#[derive(Clone)]
pub struct BearerToken(String);

/// Decides whether a request is served: by its `Host` and by its token.
#[derive(Debug)]
pub(super) struct AccessGate {
    pub(super) token: BearerToken,
    pub(super) names: ServerNames,
    /// Hosts of misdirected requests that were logged.
    logged: Mutex<BTreeSet<String>>,
}

// === impl BearerToken ===

impl BearerToken {
    /// A token in hexadecimal. The bytes must come from the operating system's random source.
    #[must_use]
    pub fn from_random(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A token from a file; `None` if it has characters that bearer tokens cannot have.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        (!text.is_empty() && text.bytes().all(is_fine)).then(|| Self(text.to_owned()))
    }

    /// The token as a client sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

// === impl AccessGate ===

impl AccessGate {
    pub(super) fn new(token: BearerToken, names: ServerNames) -> Self {
        Self {
            token,
            names,
            logged: Mutex::default(),
        }
    }

    /// Checks a request that was received at the address `local`, as `check` requires. Returns the identity of the sender;
    /// `None` if there is no check.
    pub(super) fn pass(
        &self,
        site: &impl HttpSite,
        check: AccessCheck,
        local: IpAddr,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Option<UserIdentity>, Status> {
        if check == AccessCheck::Open {
            return Ok(None);
        }
        if check == AccessCheck::Guarded {
            self.check_host(local, uri, headers)?;
        }
        identify(site, Some(&self.token), headers).map(Some)
    }

    /// The request must name a host, and every host that it names must be one of the server: the address that the client
    /// connected to, or one of [`ServerNames`]. Any port will do, because containers and tunnels map ports, and because a
    /// web page controls the name that it uses, not the port.
    fn check_host(&self, local: IpAddr, uri: &Uri, headers: &HeaderMap) -> Result<(), Status> {
        let header = headers.get_all(header::HOST).into_iter();
        let header = header.map(|host| Authority::try_from(host.as_bytes()).ok());
        let mut named = uri.authority().cloned().map(Some).into_iter().chain(header);
        let Some(first) = named.next() else {
            return Err(self.misdirected(local, "names no host", None));
        };
        for authority in iter::once(first).chain(named) {
            let host = authority.as_ref().and_then(host_of);
            let is_ours = host.as_ref().is_some_and(|host| {
                *host == SubjectName::Address(local.to_canonical()) || self.names.include(host)
            });
            if !is_ours {
                let problem = "names a host that this server does not answer to";
                return Err(self.misdirected(local, problem, host));
            }
        }
        Ok(())
    }

    // DEVIATION(host-check): kube-apiserver serves any Host. This server listens on a developer's machine, where a web
    // page can reach it by DNS rebinding.
    fn misdirected(&self, local: IpAddr, problem: &str, host: Option<SubjectName>) -> Status {
        let mut names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        let local = local.to_canonical().to_string();
        if !names.contains(&local) {
            names.push(local);
        }
        let add = host.map_or_else(String::new, |host| {
            self.log(&host);
            format!(", or start the server with --tls-san {host}")
        });
        let message = format!(
            "the request {problem}: use one of {}{add}",
            names.join(", ")
        );
        Status::failure(421, "MisdirectedRequest", message)
    }

    /// Logs a host once: kubectl hides the message of a failed discovery.
    fn log(&self, host: &SubjectName) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_HOSTS_MAX && logged.insert(host.to_string()) {
            tracing::warn!(%host, "refused a request for a host that this server does not answer to; --tls-san adds it");
        }
    }
}

/// Returns who sent a request, by its token: the administrator's, or one that the site knows.
pub(crate) fn identify(
    site: &impl HttpSite,
    admin: Option<&BearerToken>,
    headers: &HeaderMap,
) -> Result<UserIdentity, Status> {
    let identity = match given_token(headers) {
        Some(token) if admin.is_some_and(|admin| admin.matches(&token)) => {
            Some(UserIdentity::admin())
        }
        Some(token) => site.owner(&token),
        None => site.anonymous(),
    };
    identity.ok_or_else(|| Status::failure(401, "Unauthorized", "Unauthorized"))
}

/// The host of an authority, without port and user.
fn host_of(authority: &Authority) -> Option<SubjectName> {
    let (text, host) = (authority.as_str(), authority.host());
    let port = text.strip_prefix(host)?;
    if !port.is_empty() && authority.port().is_none() {
        return None;
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().map(IpAddr::V6).map(SubjectName::Address).ok(),
        None => host.parse().ok(),
    }
}

/// The token after `Bearer`, or the password after `Basic`; like upstream, the scheme is case-insensitive.
fn given_token(headers: &HeaderMap) -> Option<Cow<'_, [u8]>> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes().trim_ascii();
    let space = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, given) = value.split_at(space);
    let given = given.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(Cow::Borrowed(given));
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let mut pair = STANDARD.decode(given).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(Cow::Owned(pair.split_off(colon + 1)))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use http::HeaderValue;

    use super::*;

    /// A site with a token of its own and without anonymous users.
    struct OneUser;

    impl HttpSite for OneUser {
        fn access_check(&self, _path: &str) -> AccessCheck {
            AccessCheck::Guarded
        }

        async fn serve(
            &self,
            _identity: Option<UserIdentity>,
            _request: http::Request<hyper::body::Incoming>,
        ) -> http::Response<crate::ResponseBody> {
            http::Response::new(crate::ResponseBody::empty())
        }

        fn owner(&self, token: &[u8]) -> Option<UserIdentity> {
            (token == b"alices").then(|| UserIdentity::named("alice"))
        }
    }

    fn admit(uri: &str, headers: &HeaderMap) -> Result<UserIdentity, Status> {
        admit_at(HERE, uri, headers)
    }

    fn admit_at(local: IpAddr, uri: &str, headers: &HeaderMap) -> Result<UserIdentity, Status> {
        let (gate, uri) = (mk_gate(), uri.parse().unwrap());
        let passed = gate.pass(&OneUser, AccessCheck::Guarded, local, &uri, headers);
        passed.map(|identity| identity.expect("it was checked"))
    }

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    fn mk_gate() -> AccessGate {
        let given = [
            "ci.example".parse().unwrap(),
            "*.dev.example".parse().unwrap(),
        ];
        let names = ServerNames::new(
            Ipv6Addr::UNSPECIFIED.into(),
            ["10.1.2.3".parse().unwrap()],
            given,
        );
        AccessGate::new(BearerToken::from_random([7; TOKEN_BYTES]), names)
    }

    fn mk_headers(hosts: &[&str]) -> HeaderMap {
        let bearer = format!("Bearer {}", mk_gate().token.reveal());
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, bearer.parse().unwrap());
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        headers
    }

    fn code(uri: &str, hosts: &[&str]) -> u16 {
        match admit(uri, &mk_headers(hosts)) {
            Ok(_) => 200,
            Err(status) => status.code,
        }
    }

    #[test]
    fn accepts_every_name_of_the_server() {
        let ours = [
            "192.0.2.7:6443",
            "localhost:6443",
            "LocalHost:6443",
            "127.0.0.1:6443",
            "[::1]:6443",
            "[0:0:0:0:0:0:0:1]:6443",
            "kubernetes.default.svc:6443",
            "10.1.2.3:6443",
            "ci.example:6443",
            "CI.Example:6443",
            "a.dev.example:6443",
            // Containers and tunnels map ports.
            "localhost",
            "localhost:64430",
        ];
        for host in ours {
            assert_eq!(code("/api", &[host]), 200, "{host}");
            assert_eq!(code(&format!("https://{host}/api"), &[]), 200, "{host}");
        }
    }

    #[test]
    fn refuses_other_hosts() {
        let theirs = [
            "",
            "localhost:",
            "localhost:x",
            "localhost.:6443",
            "localhost.evil.example:6443",
            "evil-localhost:6443",
            "admin@localhost:6443",
            "127.0.0.2:6443",
            "127.1:6443",
            "0.0.0.0:6443",
            "2130706433:6443",
            "0177.0.0.1:6443",
            "[::ffff:127.0.0.1]:6443",
            "[::1%25lo]:6443",
            "[::]:6443",
            "::1:6443",
            "192.0.2.8:6443",
            "10.1.2.4:6443",
            "a.ci.example:6443",
            "dev.example:6443",
            "a.b.dev.example:6443",
            "kubernetes.default.svc.cluster.local:6443",
            "localhost:6443, evil.example",
            "lo\tcalhost:6443",
        ];
        for host in theirs {
            assert_eq!(code("/api", &[host]), 421, "{host}");
        }
    }

    #[test]
    fn all_host_names_of_a_request_must_match() {
        assert_eq!(code("/api", &[]), 421);
        assert_eq!(code("/api", &["localhost:6443", "evil.example:6443"]), 421);
        let absolute = "http://evil.example:6443/api";
        assert_eq!(code(absolute, &["localhost:6443"]), 421);
        let absolute = "http://localhost:6443/api";
        assert_eq!(code(absolute, &["evil.example:6443"]), 421);
        assert_eq!(code(absolute, &["localhost:6443"]), 200);
    }

    #[test]
    fn a_misdirected_request_is_answered_with_what_to_do() {
        let message = |host: &str| {
            let answer = admit("/api", &mk_headers(&[host]));
            answer.unwrap_err().message
        };
        let ours = "127.0.0.1, ::1, localhost, kubernetes.default.svc, ci.example, *.dev.example, 10.1.2.3, 192.0.2.7";
        let begin = "the request names a host that this server does not answer to: use one of";
        assert_eq!(
            message("Evil.example:1"),
            format!("{begin} {ours}, or start the server with --tls-san evil.example")
        );
        // A host that no certificate can have is not repeated.
        assert_eq!(message("0.0.0.0:1"), format!("{begin} {ours}"));
    }

    #[test]
    fn accepts_ipv4_host_on_ipv6_socket() {
        let IpAddr::V4(here) = HERE else {
            unreachable!()
        };
        let mapped = IpAddr::V6(here.to_ipv6_mapped());
        assert!(admit_at(mapped, "/api", &mk_headers(&["192.0.2.7:6443"])).is_ok());
    }

    #[test]
    fn only_the_token_authenticates() {
        let token = mk_gate().token.reveal().to_owned();
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        let cases = [
            (basic(&format!("caretaker:{token}")), true),
            (basic(&format!(":{token}")), true),
            (basic(&format!("caretaker:{token}0")), false),
            (basic(&format!("{token}:")), false),
            (basic(&token), false),
            (format!("Bearer {token}"), true),
            (format!("bearer   {token} "), true),
            (format!("BEARER {token}"), true),
            (format!("Bearer {token}0"), false),
            (format!("Bearer {}", &token[1..]), false),
            (format!("Basic {token}"), false),
            (format!("Bearer{token}"), false),
            ("Bearer ".into(), false),
            ("Bearer".into(), false),
            (token, false),
            (String::new(), false),
        ];
        for (value, admitted) in cases {
            let mut headers = mk_headers(&["localhost:6443"]);
            let value = HeaderValue::from_str(&value).unwrap();
            headers.insert(header::AUTHORIZATION, value.clone());
            match admit("/api", &headers) {
                Ok(identity) => assert!(admitted && identity == UserIdentity::admin(), "{value:?}"),
                Err(status) => {
                    assert!(!admitted && status.code == 401, "{value:?}");
                    assert_eq!(status.message, "Unauthorized");
                }
            }
        }
        let mut headers = mk_headers(&["localhost:6443"]);
        headers.remove(header::AUTHORIZATION);
        assert!(admit("/api", &headers).is_err());
        let alices = HeaderValue::from_static("Bearer alices");
        headers.insert(header::AUTHORIZATION, alices);
        assert_eq!(admit("/api", &headers).unwrap().user, "alice");
    }

    #[test]
    fn debug_hides_the_token() {
        let token = BearerToken::from_random([0xab; TOKEN_BYTES]);
        assert_eq!(token.reveal(), "ab".repeat(TOKEN_BYTES));
        assert!(!format!("{token:?}").contains("ab"));
    }
}
