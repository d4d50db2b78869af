//! Chooses the proxy for a server, with the environment variables as Go's programs, kubectl among them, read them.
//!
//! A kubeconfig's own `proxy-url` is used as it stands. The environment's proxy is not used for loopback addresses, nor
//! for hosts that NO_PROXY names.

use std::net::IpAddr;

use http::Uri;

/// The proxy variables of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// The variable `HTTPS_PROXY`.
    pub https: Option<String>,
    /// The variable `HTTP_PROXY`.
    pub http: Option<String>,
    /// The variable `NO_PROXY`.
    pub none: Option<String>,
}

// === impl ProxySettings ===

impl ProxySettings {
    /// Reads the variables. A name in upper case has precedence, and an empty variable counts as unset.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |upper: &str| {
            let lower = upper.to_lowercase();
            let values = [variable(upper), variable(&lower)];
            values.into_iter().flatten().find(|value| !value.is_empty())
        };
        Self {
            https: either("HTTPS_PROXY"),
            http: either("HTTP_PROXY"),
            none: either("NO_PROXY"),
        }
    }

    /// The proxy for a server: the cluster's own, else the environment's.
    pub(super) fn choose(&self, server: &Uri, own: Option<&str>) -> Option<String> {
        if let Some(own) = own {
            return Some(own.to_owned());
        }
        let is_plain = server.scheme_str() == Some("http");
        let proxy = if is_plain { &self.http } else { &self.https };
        let proxy = proxy.as_deref()?;
        let host = server.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = server.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        if is_loopback(host) || is_named(host, port, self.none.as_deref().unwrap_or_default()) {
            return None;
        }
        Some(match proxy.contains("://") {
            true => proxy.to_owned(),
            false => format!("http://{proxy}"),
        })
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback())
}

/// Whether NO_PROXY names a host: by `*`, by its name or a parent domain, by its address or a range of addresses, each
/// with or without a port.
fn is_named(host: &str, port: u16, no_proxy: &str) -> bool {
    let host = host.trim_end_matches('.').to_lowercase();
    let ip: Option<IpAddr> = host.parse().ok();
    no_proxy
        .split(',')
        .map(|entry| entry.trim().to_lowercase())
        .any(|entry| names(&entry, &host, ip, port))
}

fn names(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((range, bits)) = entry.split_once('/') {
        let range: Option<IpAddr> = range.parse().ok();
        return match (ip, range, bits.parse()) {
            (Some(ip), Some(range), Ok(bits)) => is_within(ip, range, bits),
            _ => false,
        };
    }
    let (name, wanted_port) = split_port(entry);
    if wanted_port.is_some_and(|wanted| wanted != port) || name.is_empty() {
        return false;
    }
    if let (Some(ip), Ok(named)) = (ip, name.parse::<IpAddr>()) {
        return ip == named;
    }
    let name = name.trim_start_matches('*').trim_end_matches('.');
    match name.strip_prefix('.') {
        // Matches subdomains only.
        Some(domain) => !domain.is_empty() && host.ends_with(name),
        None => {
            let below = host.strip_suffix(name);
            below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
        }
    }
}

/// Splits `host:port` or `[address]:port`. An address without brackets has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if entry.parse::<IpAddr>().is_ok() {
        return (entry, None);
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (entry, None),
    };
    let name = if port.is_some() { name } else { entry };
    (name.trim_start_matches('[').trim_end_matches(']'), port)
}

fn is_within(ip: IpAddr, range: IpAddr, bits: u32) -> bool {
    let (ip, range, width) = match (ip, range) {
        (IpAddr::V4(ip), IpAddr::V4(range)) => {
            (u128::from(ip.to_bits()), u128::from(range.to_bits()), 32)
        }
        (IpAddr::V6(ip), IpAddr::V6(range)) => (ip.to_bits(), range.to_bits(), 128),
        _ => return false,
    };
    match width {
        _ if bits > width => false,
        // There are no bits to compare, and a shift by the whole width would overflow.
        _ if bits == 0 => true,
        width => ip >> (width - bits) == range >> (width - bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_matches_hosts_as_in_go() {
        let table = [
            ("example.com", "example.com", true),
            ("api.example.com", "example.com", true),
            ("api.example.com", ".example.com", true),
            ("example.com", ".example.com", false),
            ("api.example.com", "*.example.com", true),
            ("myexample.com", "example.com", false),
            ("API.Example.COM", "example.com", true),
            ("api.example.com.", "example.com", true),
            ("api.example.com", "other, example.com ,x", true),
            ("api.example.com", "", false),
            ("api.example.com", ",", false),
            ("api.example.com", ".", false),
            ("api.example.com", "*", true),
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("10.1.2.3", "0.0.0.0/0", true),
            ("10.1.2.3", "10.1.2.3/32", true),
            ("10.1.2.4", "10.1.2.3/32", false),
            ("10.1.2.3", "10.1.2.3/33", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2", false),
            ("10.1.2.3", "x/8", false),
            ("fd00::1", "fd00::/8", true),
            ("fd00::1", "fd00:0::1", true),
            ("fd00::1", "10.0.0.0/8", false),
            ("api.example.com", "example.com:6443", true),
            ("api.example.com", "example.com:443", false),
            ("10.1.2.3", "10.1.2.3:6443", true),
            ("fd00::1", "[fd00::1]:6443", true),
            ("fd00::1", "[fd00::1]:443", false),
        ];
        for (host, no_proxy, expected) in table {
            let found = is_named(host, 6443, no_proxy);
            assert_eq!(found, expected, "{host} in {no_proxy:?}");
        }
    }

    #[test]
    fn a_clusters_own_proxy_has_precedence() {
        let proxies = ProxySettings {
            https: Some("proxy:3128".to_owned()),
            http: Some("http://plain:3128".to_owned()),
            none: Some("internal".to_owned()),
        };
        let table = [
            (
                "https://api.example.com:6443",
                None,
                Some("http://proxy:3128"),
            ),
            ("http://api.example.com", None, Some("http://plain:3128")),
            ("https://127.0.0.1:6443", None, None),
            ("https://127.1.2.3", None, None),
            ("https://localhost:1", None, None),
            ("https://[::1]:6443", None, None),
            ("https://api.internal", None, None),
            (
                "https://api.internal",
                Some("http://own"),
                Some("http://own"),
            ),
            ("https://127.0.0.1", Some("http://own"), Some("http://own")),
        ];
        for (server, own, expected) in table {
            let found = proxies.choose(&server.parse().unwrap(), own);
            assert_eq!(found.as_deref(), expected, "{server}");
        }
        let none = ProxySettings::default();
        assert_eq!(none.choose(&"https://a".parse().unwrap(), None), None);
    }

    #[test]
    fn variables_are_read_in_both_spellings() {
        let variable = |name: &str| match name {
            "HTTPS_PROXY" => Some(String::new()),
            "https_proxy" => Some("lower".to_owned()),
            "NO_PROXY" => Some("upper".to_owned()),
            "no_proxy" => Some("lower".to_owned()),
            _ => None,
        };
        let expected = ProxySettings {
            https: Some("lower".to_owned()),
            http: None,
            none: Some("upper".to_owned()),
        };
        assert_eq!(ProxySettings::read(variable), expected);
    }
}
