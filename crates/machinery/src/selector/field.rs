//! Field selectors: `metadata.name=a,status.phase!=Running`.
//!
//! Values may hold any character; `\`, `,` and `=` in them are escaped with a backslash. Fields are not escaped, trimmed or
//! checked: the API server reads [`FieldSelector::requirements`] and refuses fields that the kind does not offer.

use super::{SelectorError, check_length};

/// A parsed field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One term of a field selector: a comparison of a field with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// Path of the field, `metadata.name`.
    pub field: String,
    pub op: FieldOp,
    /// The value, without escapes.
    pub value: String,
}

/// How a field compares with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOp {
    /// `=` or `==`
    Equal,
    NotEqual,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Parses the text of a `fieldSelector` parameter. Empty terms are skipped; without terms it selects everything.
    ///
    /// # Errors
    /// If a term has no operator, an unknown escape, or an unescaped `=`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        check_length(text)?;
        let mut requirements = Vec::new();
        for term in terms(text) {
            if term.is_empty() {
                continue;
            }
            let Some((field, op, value)) = split_term(term) else {
                let fault = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(SelectorError::Field(fault));
            };
            let value = unescape(value)?;
            // Upstream drops a bare `=` or `!=`.
            if !(field.is_empty() && value.is_empty()) {
                let field = field.to_owned();
                requirements.push(FieldRequirement { field, op, value });
            }
        }
        Ok(Self { requirements })
    }

    /// The terms. An object must match all of them.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }
}

/// Splits the text at unescaped commas and sorts the terms. Upstream parses them in this order, which decides which error
/// it reports.
fn terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let mut terms: Vec<&str> = text
        .split(|c| {
            let cut = c == ',' && !escaped;
            escaped = c == '\\' && !escaped;
            cut
        })
        .collect();
    terms.sort_unstable();
    terms
}

/// Splits a term at its first operator into field, operator and escaped value.
fn split_term(term: &str) -> Option<(&str, FieldOp, &str)> {
    let equal = term.find('=')?;
    let (before, value) = (&term[..equal], &term[equal + 1..]);
    // In `a!b=c` the operator is `=`: only a `!` directly before the `=` belongs to it.
    match before.strip_suffix('!') {
        Some(field) => Some((field, FieldOp::NotEqual, value)),
        None => Some((
            before,
            FieldOp::Equal,
            value.strip_prefix('=').unwrap_or(value),
        )),
    }
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = ['\\'].into_iter().chain(other).collect();
                    return Err(SelectorError::Field(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                // Upstream prints the code point.
                return Err(SelectorError::Field(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::selector::SELECTOR_BYTES_MAX;

    fn parse(text: &str) -> Vec<(String, FieldOp, String)> {
        let selector = FieldSelector::parse(text).unwrap();
        let terms = selector.requirements().iter().cloned();
        terms.map(|r| (r.field, r.op, r.value)).collect()
    }

    #[test]
    fn splits_terms_at_operators_and_unescaped_commas() {
        use FieldOp::{Equal, NotEqual};
        type Terms = &'static [(&'static str, FieldOp, &'static str)];
        let cases: [(&str, Terms); 14] = [
            ("", &[]),
            (",", &[]),
            ("=", &[]),
            ("!=,==", &[]),
            ("a=b", &[("a", Equal, "b")]),
            ("a==b", &[("a", Equal, "b")]),
            ("a!=b", &[("a", NotEqual, "b")]),
            (",a=b,,c!=d,", &[("a", Equal, "b"), ("c", NotEqual, "d")]),
            ("a= b", &[("a", Equal, " b")]),
            ("a=", &[("a", Equal, "")]),
            ("=b", &[("", Equal, "b")]),
            (r"a=b\,c\=d\\", &[("a", Equal, r"b,c=d\")]),
            (r"a=\\,b=c", &[("a", Equal, r"\"), ("b", Equal, "c")]),
            ("a!b=c", &[("a!b", Equal, "c")]),
        ];
        for (text, expected) in cases {
            let expected: Vec<(String, FieldOp, String)> = expected
                .iter()
                .map(|(field, op, value)| ((*field).to_owned(), *op, (*value).to_owned()))
                .collect();
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn malformed_selectors_have_upstream_messages() {
        let cases = [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            (
                "a=b,z,c",
                "invalid selector: 'a=b,z,c'; can't understand 'c'",
            ),
            (
                r"a=b\",
                r"invalid field selector: invalid escape sequence: \",
            ),
            (
                r"a=b\x",
                r"invalid field selector: invalid escape sequence: \x",
            ),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                FieldSelector::parse(text).unwrap_err().to_string(),
                expected
            );
        }
        let long = ",".repeat(SELECTOR_BYTES_MAX + 1);
        assert!(matches!(
            FieldSelector::parse(&long),
            Err(SelectorError::TooLong(_))
        ));
    }

    proptest! {
        #[test]
        fn parser_never_panics(text in "([a!=,\\\\]|\\PC){0,40}") {
            let _ = FieldSelector::parse(&text);
        }

        #[test]
        fn escaped_values_round_trip(value in "([a!=,\\\\]|\\PC){0,20}") {
            let escaped = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            let selector = FieldSelector::parse(&format!("b!=x,a={escaped}")).unwrap();
            prop_assert_eq!(&selector.requirements()[0].value, &value);
        }
    }
}
