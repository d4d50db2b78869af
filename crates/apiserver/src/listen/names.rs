//! The addresses and DNS names under which clients may reach a server.
//!
//! The certificate covers these names, and the `Host` check accepts them: a client that trusts the certificate is never
//! misdirected. The names are loopback, `localhost`, `kubernetes.default.svc`, the address listened on (for a wildcard
//! address those of the machine's interfaces), and the names that the user gave, as kubeadm's
//! `--apiserver-cert-extra-sans`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use caretaker_machinery::names;

/// DNS names of every server.
const OWN_NAMES: [&str; 2] = ["localhost", "kubernetes.default.svc"];

/// Loopback addresses; every server accepts both as host.
pub(super) const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// A subject alternative name: an address, or a DNS name in lower case. A name that begins with `*.` stands for all names
/// with one label in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectName {
    /// An IP address that a client can connect to.
    Address(IpAddr),
    /// A DNS name.
    Dns(String),
}

/// The text is neither an address nor a DNS name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected an IP address or a DNS name without port, like 192.0.2.7 or ci.example.com")]
pub struct InvalidSubjectName;

/// All names of one server, each once.
#[derive(Debug, Clone, Default)]
pub struct ServerNames {
    names: Vec<SubjectName>,
    /// The number of names at the beginning that only this machine can use.
    local: usize,
}

// === impl SubjectName ===

impl SubjectName {
    /// The part of a URL that names the host. `None` for a wildcard.
    fn url_host(&self) -> Option<String> {
        match self {
            Self::Address(IpAddr::V6(address)) => Some(format!("[{address}]")),
            Self::Dns(name) if name.starts_with("*.") => None,
            other => Some(other.to_string()),
        }
    }

    fn matches(&self, host: &Self) -> bool {
        match (self, host) {
            (Self::Dns(pattern), Self::Dns(name)) => match pattern.strip_prefix("*.") {
                Some(domain) => name.split_once('.').is_some_and(|(_, rest)| rest == domain),
                None => pattern == name,
            },
            (own, host) => own == host,
        }
    }
}

impl FromStr for SubjectName {
    type Err = InvalidSubjectName;

    fn from_str(text: &str) -> Result<Self, InvalidSubjectName> {
        let text = text.trim();
        if let Ok(address) = text.parse::<IpAddr>() {
            let is_usable = !address.is_unspecified() && !address.is_multicast();
            return is_usable
                .then_some(Self::Address(address))
                .ok_or(InvalidSubjectName);
        }
        let name = text.to_ascii_lowercase();
        let labels = name.strip_prefix("*.").unwrap_or(&name);
        // `256.1.1.1` is a valid subdomain, and no name.
        let ends_in_number = labels
            .rsplit('.')
            .next()
            .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        if ends_in_number || !names::subdomain(labels).is_empty() {
            return Err(InvalidSubjectName);
        }
        Ok(Self::Dns(name))
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Dns(name) => f.write_str(name),
        }
    }
}

// === impl ServerNames ===

impl ServerNames {
    /// The names of a server that listens on `address`. `interfaces` are the addresses of the machine; they count if
    /// `address` is a wildcard. `given` are names that the user chose.
    #[must_use]
    pub fn new(
        address: IpAddr,
        interfaces: impl IntoIterator<Item = IpAddr>,
        given: impl IntoIterator<Item = SubjectName>,
    ) -> Self {
        let is_reached =
            |other: &IpAddr| is_remote(other) && (address.is_ipv6() || other.is_ipv4());
        let own: Vec<IpAddr> = match address.is_unspecified() {
            true => interfaces.into_iter().filter(is_reached).collect(),
            false => vec![address.to_canonical()],
        };
        let (remote, local): (Vec<IpAddr>, Vec<IpAddr>) = own.into_iter().partition(is_remote);
        let mut all = Self::default();
        let own_names = OWN_NAMES.map(|name| SubjectName::Dns(name.to_owned()));
        all.add(LOOPBACK.map(SubjectName::Address));
        all.add(own_names);
        all.add(local.into_iter().map(SubjectName::Address));
        all.local = all.names.len();
        all.add(given);
        all.add(remote.into_iter().map(SubjectName::Address));
        all
    }

    /// The same names for a socket that only this machine can use.
    pub(super) fn without_remote(&self) -> Self {
        Self {
            names: self.names.clone(),
            local: self.names.len(),
        }
    }

    /// All names, as the certificate lists them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SubjectName> {
        self.names.iter()
    }

    /// Whether the server has the name that a request gives as host: exact, or one label for a wildcard.
    pub(super) fn include(&self, host: &SubjectName) -> bool {
        self.names.iter().any(|name| name.matches(host))
    }

    /// The names for clients on other machines, as hosts of URLs: those of the user first.
    pub(super) fn remote_hosts(&self) -> impl Iterator<Item = String> {
        let remote = self.names.iter().skip(self.local);
        remote.filter_map(SubjectName::url_host)
    }

    fn add(&mut self, names: impl IntoIterator<Item = SubjectName>) {
        for name in names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }
}

/// Whether other machines may use the address in a URL: link-local addresses of IPv6 need a zone.
fn is_remote(address: &IpAddr) -> bool {
    let is_link_local = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    !address.is_loopback() && !address.is_unspecified() && !is_link_local
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_names(address: &str, interfaces: &[&str], given: &[&str]) -> ServerNames {
        let interfaces = interfaces.iter().map(|text| text.parse().unwrap());
        let given = given.iter().map(|text| text.parse().unwrap());
        ServerNames::new(address.parse().unwrap(), interfaces, given)
    }

    fn texts(names: &ServerNames) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_addresses_or_dns_names() {
        let fine = [
            ("192.0.2.7", "192.0.2.7"),
            ("2001:DB8::1", "2001:db8::1"),
            ("CI.example.com", "ci.example.com"),
            (" host ", "host"),
            ("*.example.com", "*.example.com"),
        ];
        for (text, expected) in fine {
            let name: SubjectName = text.parse().unwrap();
            assert_eq!(name.to_string(), expected);
        }
        let long = "a".repeat(254);
        for text in [
            "",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "host:6443",
            "[::1]",
            "fe80::1%eth0",
            "https://host",
            "a_b",
            "-a",
            "a..b",
            "*",
            "*.*.example.com",
            "a.*.com",
            "256.1.1.1",
            "127.1",
            "2130706433",
            &long,
        ] {
            assert_eq!(
                text.parse::<SubjectName>(),
                Err(InvalidSubjectName),
                "{text}"
            );
        }
    }

    #[test]
    fn wildcard_address_covers_the_interfaces_of_its_family() {
        let interfaces = [
            "127.0.0.1",
            "192.0.2.7",
            "10.0.0.1",
            "::1",
            "fe80::1",
            "2001:db8::7",
        ];
        let base = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"];
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("127.0.0.1", &[], &[]),
            ("127.0.0.2", &[], &["127.0.0.2"]),
            ("192.0.2.9", &[], &["192.0.2.9"]),
            ("0.0.0.0", &[], &["192.0.2.7", "10.0.0.1"]),
            ("::", &[], &["192.0.2.7", "10.0.0.1", "2001:db8::7"]),
            (
                "0.0.0.0",
                &["ci", "10.0.0.1", "ci", "localhost"],
                &["ci", "10.0.0.1", "192.0.2.7"],
            ),
            ("127.0.0.1", &["ci.example"], &["ci.example"]),
        ];
        for (address, given, more) in cases {
            let names = mk_names(address, &interfaces, given);
            assert_eq!(
                texts(&names),
                [&base, *more].concat(),
                "{address} {given:?}"
            );
        }
    }

    #[test]
    fn remote_hosts_are_parts_of_urls() {
        let names = mk_names(
            "::",
            &["2001:db8::7", "192.0.2.7"],
            &["ci", "*.example.com"],
        );
        let hosts: Vec<String> = names.remote_hosts().collect();
        assert_eq!(hosts, ["ci", "[2001:db8::7]", "192.0.2.7"]);
        assert_eq!(mk_names("127.0.0.2", &[], &[]).remote_hosts().count(), 0);
    }

    #[test]
    fn a_wildcard_name_stands_for_one_label() {
        let names = mk_names("127.0.0.1", &[], &["*.example.com"]);
        let has = |host: &str| names.include(&host.parse().unwrap());
        assert!(has("a.example.com"));
        for host in [
            "example.com",
            "a.b.example.com",
            "aexample.com",
            "a.example.org",
        ] {
            assert!(!has(host), "{host}");
        }
    }
}
