//! The `format` of strings and numbers.
//!
//! Mirrors kube-openapi's `strfmt` registry as far as apiextensions-apiserver 1.36 lets it through (`formats.go`): the
//! names below, with any number of dashes in them; other formats are ignored. Each check accepts what Go's parser accepts,
//! which is not always what the standard says.
//! DEVIATION(formats): `email` and `uri` are matched against a simplified syntax, so unusual values may be accepted or
//! refused differently.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use super::{JsonType, NodeTypes};
use crate::names;

/// A format that is checked.
#[derive(Debug)]
pub(super) struct ValueFormat {
    name: String,
    matches: Option<fn(&str) -> bool>,
}

// === impl ValueFormat ===

impl ValueFormat {
    /// `None` if the format is ignored for this type.
    pub(super) fn of(name: &str, types: NodeTypes) -> Option<Self> {
        let matches = match types {
            NodeTypes::Any | NodeTypes::IntOrString | NodeTypes::One(JsonType::String) => {
                Some(text_format(name)?)
            }
            NodeTypes::One(JsonType::Integer) if matches!(name, "int32" | "int64") => None,
            NodeTypes::One(JsonType::Number) if matches!(name, "float" | "double") => None,
            NodeTypes::One(_) => return None,
        };
        Some(Self {
            name: name.to_owned(),
            matches,
        })
    }

    /// The format for any type, even if it is unknown.
    pub(super) fn any(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            matches: text_format(name),
        }
    }

    /// The format as written in the schema.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_of_text(&self) -> bool {
        self.matches.is_some()
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.matches.is_none_or(|matches| matches(text))
    }
}

fn text_format(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name.replace('-', "").as_str() {
        "bsonobjectid" => {
            |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && is_ip(text),
        "ipv6" => |text| text.contains(':') && is_ip(text),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| UUID.is_match(text),
        "uuid3" => |text| UUID3.is_match(text),
        "uuid4" => |text| UUID4.is_match(text),
        "uuid5" => |text| UUID5.is_match(text),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.is_match(text),
        "hexcolor" => is_hex_color,
        "rgbcolor" => |text| RGB.is_match(text),
        "byte" => |text| BASE64.is_match(text),
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| names::label(text).is_empty(),
        "k8slongname" => |text| names::subdomain(text).is_empty(),
        _ => return None,
    })
}

static UUID: LazyLock<Regex> = LazyLock::new(|| uuid("[0-9a-f]{4}-?[0-9a-f]{4}"));
static UUID3: LazyLock<Regex> = LazyLock::new(|| uuid("3[0-9a-f]{3}-?[0-9a-f]{4}"));
static UUID4: LazyLock<Regex> = LazyLock::new(|| uuid("4[0-9a-f]{3}-?[89ab][0-9a-f]{3}"));
static UUID5: LazyLock<Regex> = LazyLock::new(|| uuid("5[0-9a-f]{3}-?[89ab][0-9a-f]{3}"));
static SSN: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let part = "(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])";
    let space = r"[\t\n\f\r ]*";
    regex(&format!(
        r"^rgb\({space}{part}{space},{space}{part}{space},{space}{part}{space}\)$"
    ))
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    regex("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static CARD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9]{2})[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let letter = r"[a-zA-Z0-9\p{S}\p{L}]";
    let inner = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    regex(&format!(
        r"^(?:{letter}(?:-?{letter}{{0,62}})?|(?:{letter}(?:{inner}{{0,61}}{letter})?\.)+[a-zA-Z\p{{L}}]{{2,63}})$"
    ))
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    regex("^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})$")
});
static DURATION: LazyLock<Regex> = LazyLock::new(|| regex(r"[0-9]+[\t\n\f\r ]*([A-Za-zµ]+)"));
static GO_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$")
});

fn uuid(middle: &str) -> Regex {
    regex(&format!(
        "(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{middle}-?[0-9a-f]{{12}}$"
    ))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant that tests compile")
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// An IP address; leading zeros are allowed, as in older versions of Go.
fn is_ip(text: &str) -> bool {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().is_ok() && !text.contains('%');
    }
    let parts: Vec<&str> = text.split('.').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.trim_start_matches('0').len() <= 3
            && part
                .parse::<u32>()
                .is_ok_and(|value| value <= u32::from(u8::MAX))
    };
    parts.len() == 4 && parts.iter().all(is_part) || text.parse::<Ipv4Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let max = if address.contains(':') { 128 } else { 32 };
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && is_ip(address) && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

/// Six, eight or twenty bytes, separated by colons or dashes, or in pairs separated by dots.
fn is_mac(text: &str) -> bool {
    let separator = text.chars().find(|c| !c.is_ascii_hexdigit());
    let Some(separator) = separator.filter(|c| matches!(c, ':' | '-' | '.')) else {
        return false;
    };
    let digits = if separator == '.' { 4 } else { 2 };
    let parts: Vec<&str> = text.split(separator).collect();
    let is_part =
        |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(parts.len() * digits / 2, 6 | 8 | 20) && parts.iter().all(is_part)
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let mut sum = 0;
    for (at, byte) in digits.iter().enumerate() {
        sum += (at + 1)
            * match byte {
                b'X' if at == 9 => 10,
                digit if digit.is_ascii_digit() => usize::from(digit - b'0'),
                _ => return false,
            };
    }
    digits.len() == 10 && sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weighed = digits
        .iter()
        .enumerate()
        .map(|(at, digit)| usize::from(digit - b'0') * if at % 2 == 0 { 1 } else { 3 });
    weighed.sum::<usize>() % 10 == 0
}

fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|byte| !matches!(byte, b'-' | b' ' | b'\t' | b'\n' | b'\x0c' | b'\r'))
        .collect()
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let weighed = digits.bytes().rev().enumerate().map(|(at, digit)| {
        let digit = u32::from(digit - b'0');
        match digit * 2 {
            _ if at % 2 == 0 => digit,
            double if double >= 10 => double % 10 + 1,
            double => double,
        }
    });
    CARD.is_match(&digits) && weighed.sum::<u32>() % 10 == 0
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_date(text: &str) -> bool {
    let is_shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| {
            if matches!(at, 4 | 7) {
                byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    is_shaped && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    let Some(parts) = TIME.captures(time) else {
        return false;
    };
    is_date(date) && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// A duration in Go's syntax, or a text that contains amounts with Scala's units.
fn is_duration(text: &str) -> bool {
    if GO_DURATION.is_match(text) {
        return true;
    }
    let units = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    let prefixes = [
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    DURATION.captures_iter(text).any(|found| {
        let unit = found[1].to_lowercase();
        units.contains(&unit.as_str()) || prefixes.iter().any(|prefix| unit.starts_with(prefix))
    })
}

/// An absolute path, or a scheme followed by a non-empty rest.
fn is_uri(text: &str) -> bool {
    let is_control = |c: char| c.is_ascii_control();
    if text.is_empty() || text.contains(is_control) {
        return false;
    }
    let rest = match text.split_once(':') {
        _ if text.starts_with('/') => return are_escapes_whole(text),
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        _ => return false,
    };
    let authority = rest
        .strip_prefix("//")
        .map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_host = authority
        .is_none_or(|host| !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}']));
    let is_port = authority.is_none_or(|host| {
        let host = host.rsplit('@').next().unwrap_or_default();
        let port = host.rsplit(']').next().and_then(|end| end.rsplit_once(':'));
        port.is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
    });
    is_host && is_port && are_escapes_whole(text)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn are_escapes_whole(text: &str) -> bool {
    let mut parts = text
        .split('#')
        .next()
        .unwrap_or_default()
        .split('?')
        .next()
        .unwrap_or_default()
        .split('%')
        .skip(1);
    parts.all(|part| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

/// `local@domain`, optionally with a display name.
fn is_email(text: &str) -> bool {
    let address = match (text.rfind('<'), text.trim_end().strip_suffix('>')) {
        (Some(open), Some(end)) => end.get(open + 1..).unwrap_or_default(),
        _ => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let is_atom =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let is_dotted = |text: &str| {
        text.split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(is_atom))
    };
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal = domain
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .is_some_and(is_ip);
    (is_dotted(local) || is_quoted) && (is_dotted(domain) || is_literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &[(&str, &str, &str)] = &[
        (
            "bsonobjectid",
            "507f1f77bcf86cd799439011",
            "507f1f77bcf86cd79943901",
        ),
        ("uri", "http://a.b/c?d=%20", "a.b"),
        ("uri", "/x", "http://a b/"),
        ("uri", "mailto:x", "http://a/%zz"),
        ("email", "a@b", "a"),
        ("email", "Joe <joe@example.com>", "a@@b"),
        ("hostname", "a.example.com", "-a"),
        ("hostname", "localhost", "a..b"),
        ("ipv4", "010.1.2.3", "256.1.1.1"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("cidr", "::/128", "::"),
        ("mac", "00:11:22:33:44:55", "00:11:22:33:44"),
        ("mac", "0011.2233.4455", "00-11:22-33-44-55"),
        ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99"),
        (
            "uuid3",
            "a0eebc99-9c0b-3ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (
            "uuid4",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-7b6d-6bb9bd380a11",
        ),
        (
            "uuid5",
            "a0eebc99-9c0b-5ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("isbn", "0321751043", "0321751044"),
        ("isbn10", "0-8044-2957-X", "978-0321751041"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
        ("ssn", "111-11-1111", "111111111"),
        ("hexcolor", "#fff", "#ffff"),
        ("rgbcolor", "rgb(0, 10, 255)", "rgb(0,10,256)"),
        ("byte", "YWI=", "YWI"),
        ("date", "2024-02-29", "2023-02-29"),
        ("duration", "1h30m", "1x"),
        ("duration", "22 seconds", ""),
        ("date-time", "2014-12-15T19:30:20.000Z", "2014-12-15"),
        (
            "datetime",
            "2014-12-15t19:30:20+01:00",
            "2014-12-15T24:00:00Z",
        ),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a..b"),
    ];

    #[test]
    fn formats_accept_and_refuse_values() {
        for (name, good, bad) in ROWS {
            let format = ValueFormat::of(name, NodeTypes::One(JsonType::String)).unwrap();
            assert!(format.matches(good), "{name}: {good}");
            assert!(!format.matches(bad), "{name}: {bad}");
        }
    }

    #[test]
    fn formats_are_ignored_for_other_types() {
        assert!(ValueFormat::of("nonsense", NodeTypes::One(JsonType::String)).is_none());
        assert!(ValueFormat::of("date", NodeTypes::One(JsonType::Integer)).is_none());
        assert!(ValueFormat::of("int32", NodeTypes::One(JsonType::String)).is_none());
        assert!(ValueFormat::of("int32", NodeTypes::One(JsonType::Integer)).is_some());
    }
}
