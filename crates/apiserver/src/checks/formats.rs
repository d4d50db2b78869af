//! Formats of texts that rows name: each function returns the faults of a text in upstream's words.

use caretaker_machinery::names;

use super::Visit;

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const HEADER_NAME: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const PATH: &str = "Invalid path (e.g. 'acme.io/foo', regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Finds a format by the name that rows use.
pub(super) fn named(name: &str) -> Option<fn(&str) -> Vec<String>> {
    Some(match name {
        "label" => names::label,
        "label-1035" => names::dns_1035_label,
        "subdomain" => names::subdomain,
        "qualified" => names::qualified_name,
        "label-value" => names::label_value,
        "config-key" => config_key,
        "env-name" => env_name,
        "header-name" => header_name,
        "port-name" => port_name,
        "relative-path" => relative_path,
        "local-path" => local_path,
        "no-backsteps" => no_backsteps,
        "absolute-path" => absolute_path,
        "ip" => ip,
        "cidr" => cidr,
        "path-segment" => path_segment,
        _ => return None,
    })
}

fn one(is_fault: bool, why: &str) -> Vec<String> {
    is_fault.then(|| why.to_owned()).into_iter().collect()
}

/// A key of a ConfigMap or Secret.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let mut faults = one(key.len() > 253, "must be no more than 253 characters");
    faults.extend(one(key.is_empty() || !key.bytes().all(known), CONFIG_KEY));
    faults.extend(match key {
        "." => one(true, "must not be '.'"),
        ".." => one(true, "must not be '..'"),
        key => one(key.starts_with(".."), "must not start with '..'"),
    });
    faults
}

/// The name of an environment variable.
pub(super) fn env_name(name: &str) -> Vec<String> {
    let known = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    one(name.is_empty() || !name.bytes().all(known), ENV_NAME)
}

pub(super) fn header_name(name: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    one(name.is_empty() || !name.bytes().all(known), HEADER_NAME)
}

/// The name of a port: an IANA service name.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let mut faults = one(name.len() > 15, "must be no more than 15 characters");
    faults.extend(one(
        name.is_empty() || !name.bytes().all(known),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    ));
    faults.extend(one(
        !name.bytes().any(|byte| byte.is_ascii_lowercase()),
        "must contain at least one letter (a-z)",
    ));
    faults.extend(one(
        name.contains("--"),
        "must not contain consecutive hyphens",
    ));
    faults.extend(one(
        name.starts_with('-') || name.ends_with('-'),
        "must not begin or end with a hyphen",
    ));
    faults
}

pub(super) fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    let is_percent = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    one(!is_percent, PERCENT)
}

/// A path below a directory.
pub(super) fn relative_path(path: &str) -> Vec<String> {
    let mut faults = one(path.starts_with('/'), "must be a relative path");
    faults.extend(no_backsteps(path));
    faults
}

/// A path below a directory that the kubelet does not use itself.
fn local_path(path: &str) -> Vec<String> {
    let mut faults = relative_path(path);
    faults.extend(one(
        path.starts_with("..") && !path.starts_with("../"),
        "must not start with '..'",
    ));
    faults
}

pub(super) fn no_backsteps(path: &str) -> Vec<String> {
    one(
        path.split('/').any(|part| part == ".."),
        "must not contain '..'",
    )
}

/// A domain in which names are looked up; its labels may contain underscores.
pub(super) fn search(text: &str) -> Vec<String> {
    let plain: Vec<String> = text
        .split('.')
        .map(|label| label.strip_prefix('_').unwrap_or(label).replace('_', "-"))
        .collect();
    let mut faults = one(text.len() > 253, "must be no more than 253 characters");
    let is_good = plain.iter().all(|part| names::label(part).is_empty());
    faults.extend(one(!is_good, SEARCH));
    faults
}

fn absolute_path(path: &str) -> Vec<String> {
    one(!path.starts_with('/'), "must be an absolute path")
}

/// An IP address of either family.
pub(super) fn ip(text: &str) -> Vec<String> {
    one(
        text.parse::<std::net::IpAddr>().is_err(),
        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    )
}

/// A block of addresses.
pub(crate) fn cidr(text: &str) -> Vec<String> {
    let parse = || {
        let (address, bits) = text.split_once('/')?;
        let address: std::net::IpAddr = address.parse().ok()?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().ok().filter(|bits| *bits <= max)
    };
    one(
        parse().is_none(),
        "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    )
}

/// A host with a wildcard as its first label.
pub(super) fn wildcard(host: &str) -> Vec<String> {
    let rest = host.strip_prefix("*.").unwrap_or_default();
    one(!names::subdomain(rest).is_empty(), WILDCARD)
}

/// Checks a path whose first part is a domain.
pub(super) fn domain_prefixed_path(v: &mut Visit<'_>, field: &str, text: &str) {
    if text.is_empty() {
        return v.required(field, "");
    }
    let parts = text.split_once('/');
    let Some((domain, path)) = parts.filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return v.invalid(field, text, why);
    };
    v.invalid_all(field, domain, &names::subdomain(domain));
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(known) {
        v.invalid(field, path, PATH);
    }
}

pub(super) fn path_segment(name: &str) -> Vec<String> {
    names::NameRule::PathSegment.faults(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_formats() {
        type Format = fn(&str) -> Vec<String>;
        let cases: [(Format, &str, usize); 16] = [
            (config_key, "a.b", 0),
            (config_key, "a/b", 1),
            (config_key, "..a", 1),
            (env_name, "A b", 0),
            (env_name, "a=b", 1),
            (port_name, "http", 0),
            (port_name, "80", 1),
            (port_name, "a--b", 1),
            (port_name, "", 2),
            (percent, "25%", 0),
            (percent, "x%", 1),
            (local_path, "a/b", 0),
            (local_path, "/..", 2),
            (ip, "::1", 0),
            (cidr, "10.0.0.0/33", 1),
            (wildcard, "*.example.com", 0),
        ];
        for (faults, text, count) in cases {
            assert_eq!(faults(text).len(), count, "{text}");
        }
    }
}
