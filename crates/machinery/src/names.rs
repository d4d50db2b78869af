//! Validation of object names, label keys and label values.
//!
//! One function per rule; each returns the faults in upstream's words (`validation.go` of apimachinery 1.36), because users
//! search for these messages. The API server decides which kind and field uses which rule.

use crate::rng::Rng;

/// Characters of generated name suffixes: upstream's. It has no vowels, so that no words appear, and no `0`, `1` and `3`,
/// which read like vowels.
pub const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Longest DNS label.
pub const LABEL_CHARS_MAX: usize = 63;
/// Longest DNS subdomain, and the longest name of most kinds.
pub const SUBDOMAIN_CHARS_MAX: usize = 253;

const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_1123: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// A rule for object names. The API server has a table of the kinds and their rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain; used by most kinds.
    #[default]
    Subdomain,
    /// RFC 1123 label; used by Namespaces and Services.
    Label,
    /// Any valid URL path segment; used by the RBAC kinds.
    PathSegment,
}

// === impl NameRule ===

impl NameRule {
    /// The faults of `name`; empty if it is valid.
    #[must_use]
    pub fn faults(self, name: &str) -> Vec<String> {
        match self {
            NameRule::Subdomain => subdomain(name),
            NameRule::Label => label(name),
            NameRule::PathSegment => path_segment(name),
        }
    }
}

/// Faults of an RFC 1123 subdomain.
#[must_use]
pub fn subdomain(text: &str) -> Vec<String> {
    let mut faults = too_long(text, SUBDOMAIN_CHARS_MAX, "characters");
    if !text.split('.').all(is_dns_label) {
        faults.push(SUBDOMAIN_1123.into());
    }
    faults
}

/// Faults of an RFC 1123 label.
#[must_use]
pub fn label(text: &str) -> Vec<String> {
    let mut faults = too_long(text, LABEL_CHARS_MAX, "characters");
    if !is_dns_label(text) {
        // Upstream has a separate message for a valid subdomain.
        let only_dots = text.contains('.') && subdomain(text).is_empty();
        let fault = if only_dots {
            "must not contain dots"
        } else {
            LABEL_1123
        };
        faults.push(fault.into());
    }
    faults
}

/// Faults of a DNS-1035 label, which starts with a letter; used for kinds and plurals.
#[must_use]
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut faults = too_long(text, LABEL_CHARS_MAX, "characters");
    if !is_dns_label(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        faults.push(LABEL_1035.into());
    }
    faults
}

/// Faults of a label key or any other `prefix/name`.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".into());
            } else {
                let found = subdomain(prefix).into_iter();
                faults.extend(found.map(|fault| format!("prefix part {fault}")));
            }
            name
        }
        _ => {
            faults.push(format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".into());
    } else {
        let found = too_long(name, LABEL_CHARS_MAX, "bytes").into_iter();
        faults.extend(found.map(|fault| format!("name part {fault}")));
    }
    if !is_word(name) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

/// Faults of a label's value.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = too_long(text, LABEL_CHARS_MAX, "bytes");
    if !text.is_empty() && !is_word(text) {
        faults.push(LABEL_VALUE.into());
    }
    faults
}

/// A random suffix of `chars` characters, as the API server appends it to a `generateName`.
pub fn suffix(chars: usize, rng: &mut Rng) -> String {
    let mut any = || char::from(SUFFIX_ALPHABET[rng.below(SUFFIX_ALPHABET.len())]);
    (0..chars).map(|_| any()).collect()
}

fn path_segment(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name == "." || name == ".." {
        faults.push(format!("may not be '{name}'"));
    }
    for part in ["/", "%"] {
        if name.contains(part) {
            faults.push(format!("may not contain '{part}'"));
        }
    }
    faults
}

/// Lower-case letters, digits and inner dashes.
fn is_dns_label(text: &str) -> bool {
    let is_outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    consists_of(text, is_outer, b"-")
}

/// Letters, digits, and `-_.` between them.
fn is_word(text: &str) -> bool {
    consists_of(text, u8::is_ascii_alphanumeric, b"-_.")
}

/// Whether a text is not empty, begins and ends with outer bytes, and has only outer and inner ones between.
fn consists_of(text: &str, is_outer: fn(&u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    [bytes.first(), bytes.last()]
        .iter()
        .all(|end| end.is_some_and(is_outer))
        && bytes
            .iter()
            .all(|byte| is_outer(byte) || inner.contains(byte))
}

fn too_long(text: &str, max: usize, unit: &str) -> Vec<String> {
    if text.len() > max {
        vec![format!("must be no more than {max} {unit}")]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_names_by_rule() {
        let long = "a".repeat(64);
        let cases = [
            (NameRule::Subdomain, "a.b-c.1", true),
            (NameRule::Subdomain, "a..b", false),
            (NameRule::Subdomain, "A", false),
            (NameRule::Subdomain, "-a", false),
            (NameRule::Subdomain, "", false),
            (NameRule::Subdomain, long.as_str(), true),
            (NameRule::Label, "1a", true),
            (NameRule::Label, "a.b", false),
            (NameRule::Label, long.as_str(), false),
            (NameRule::PathSegment, "system:node", true),
            (NameRule::PathSegment, "a/b", false),
            (NameRule::PathSegment, "..", false),
        ];
        for (rule, name, good) in cases {
            assert_eq!(rule.faults(name).is_empty(), good, "{rule:?} {name:?}");
        }
    }

    #[test]
    fn validates_label_keys_as_qualified_names() {
        for good in ["a", "A_b.c-9", "example.com/a"] {
            assert!(qualified_name(good).is_empty(), "{good}");
        }
        for bad in ["", "a b", "/a", "x/", "a/b/c", "Upper.com/a", "-a"] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn validates_label_values() {
        assert!(label_value("").is_empty() && label_value("a.B_c-1").is_empty());
        assert!(!label_value("a b").is_empty() && !label_value(&"a".repeat(64)).is_empty());
    }
}
