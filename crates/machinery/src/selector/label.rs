//! Label selectors: `app=web,tier in (a, b),!canary,weight>5`.
//!
//! A requirement names a key and what must hold for it; all of them must hold. Absence counts as "different", so
//! `!=` and `notin` select objects that lack the key.

use super::{SelectorError, check_length};
use crate::names;

/// What must hold for the labels of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    must: Must,
}

/// Values are sorted and occur once.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Must {
    Exist,
    BeAbsent,
    BeIn(Vec<String>),
    NotBeIn(Vec<String>),
    Exceed(i64),
    StayBelow(i64),
}

/// A piece of the text. Keywords are words: `in in (in)` is a valid selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

#[derive(Clone)]
struct Tokens<'a> {
    rest: &'a str,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Reads the text of a `labelSelector` parameter; empty text selects everything.
    ///
    /// # Errors
    /// Text that is not a selector, or keys and values that no label can have.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        check_length(text)?;
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        while tokens.peek() != Token::End {
            if !tokens.peek().starts_requirement() {
                let found = tokens.next().text();
                let fault = format!("found '{found}', expected: !, identifier, or 'end of string'");
                return Err(SelectorError::Label(fault));
            }
            requirements.push(Requirement::parse(&mut tokens).map_err(SelectorError::Requirement)?);
            tokens.end_requirement().map_err(SelectorError::Label)?;
        }
        Ok(Self { requirements })
    }

    /// Whether every requirement holds for the labels that `label` looks up.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.must.hold_for(label(&requirement.key)))
    }

    /// Whether this selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

// === impl Requirement ===

impl Requirement {
    fn parse(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let mut token = tokens.next();
        let negated = token == Token::Symbol("!");
        if negated {
            token = tokens.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let faults = names::qualified_name(key);
        if !faults.is_empty() {
            // Upstream has no path for the key here and prints the missing one.
            return Err(invalid("<nil>", key, &faults.join("; ")));
        }
        let must = if negated {
            Must::BeAbsent
        } else if matches!(tokens.peek(), Token::End | Token::Symbol(",")) {
            Must::Exist
        } else {
            Must::parse(key, tokens)?
        };
        let key = key.to_owned();
        Ok(Self { key, must })
    }
}

// === impl Must ===

impl Must {
    /// Reads the operator and its values.
    fn parse(key: &str, tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let operator = tokens.next().text();
        let values = match operator {
            "in" | "notin" => value_set(tokens)?,
            "=" | "==" | "!=" | ">" | "<" => vec![exact_value(tokens)?],
            other => {
                return Err(format!(
                    "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        };
        let mut faults = Vec::new();
        let bound = values.first().and_then(|value| value.parse().ok());
        let bounded = matches!(operator, ">" | "<");
        if bounded && bound.is_none() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            faults.push(invalid("values[0]", values[0], why));
        }
        for (at, value) in values.iter().enumerate() {
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                let path = format!("values[{at}][{key}]");
                faults.push(invalid(&path, value, &wrong.join("; ")));
            }
        }
        match faults.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            many => return Err(format!("[{}]", many.join(", "))),
        }
        let values = values.into_iter().map(str::to_owned).collect();
        Ok(match (operator, bound) {
            (">", Some(bound)) => Must::Exceed(bound),
            ("<", Some(bound)) => Must::StayBelow(bound),
            ("notin" | "!=", _) => Must::NotBeIn(values),
            _ => Must::BeIn(values),
        })
    }

    fn hold_for(&self, value: Option<&str>) -> bool {
        let is_in = |values: &[String], value: &str| {
            values
                .binary_search_by(|probe| probe.as_str().cmp(value))
                .is_ok()
        };
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Must::Exist => value.is_some(),
            Must::BeAbsent => value.is_none(),
            Must::BeIn(values) => value.is_some_and(|value| is_in(values, value)),
            Must::NotBeIn(values) => value.is_none_or(|value| !is_in(values, value)),
            Must::Exceed(bound) => number().is_some_and(|number| number > *bound),
            Must::StayBelow(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

// === impl Token ===

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }

    fn starts_requirement(self) -> bool {
        matches!(self, Token::Word(_) | Token::Symbol("!"))
    }
}

// === impl Tokens ===

impl<'a> Tokens<'a> {
    fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    fn next(&mut self) -> Token<'a> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = text.chars().next() else {
            self.rest = text;
            return Token::End;
        };
        let (length, is_symbol) = if text.starts_with("==") || text.starts_with("!=") {
            (2, true)
        } else if is_symbol(first) {
            (1, true)
        } else {
            // DEVIATION(selector-nul): upstream takes a NUL byte for the end of the text; here it is a character no label can have.
            let ends = |c: char| is_symbol(c) || matches!(c, ' ' | '\t' | '\r' | '\n');
            (text.find(ends).unwrap_or(text.len()), false)
        };
        let (token, rest) = text.split_at(length);
        self.rest = rest;
        if is_symbol {
            Token::Symbol(token)
        } else {
            Token::Word(token)
        }
    }

    /// Takes what stands between two requirements.
    fn end_requirement(&mut self) -> Result<(), String> {
        match self.next() {
            Token::End => Ok(()),
            Token::Symbol(",") => {
                let next = self.peek();
                if next.starts_requirement() {
                    return Ok(());
                }
                let found = next.text();
                Err(format!("found '{found}', expected: identifier after ','"))
            }
            other => Err(format!(
                "found '{}', expected: ',' or 'end of string'",
                other.text()
            )),
        }
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// The one value after `=` and its like; none means the empty value.
fn exact_value<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, String> {
    match tokens.peek() {
        Token::End | Token::Symbol(",") => Ok(""),
        Token::Word(value) => {
            tokens.next();
            Ok(value)
        }
        Token::Symbol(found) => Err(format!("found '{found}', expected: identifier")),
    }
}

/// The values between parentheses, sorted and once each; nothing between two commas is the empty value.
fn value_set<'a>(tokens: &mut Tokens<'a>) -> Result<Vec<&'a str>, String> {
    let open = tokens.next();
    if open != Token::Symbol("(") {
        return Err(format!("found '{}' expected: '('", open.text()));
    }
    let mut values = Vec::new();
    let mut value = None;
    loop {
        match tokens.next() {
            Token::Word(word) if value.is_none() => value = Some(word),
            Token::Symbol(",") => values.push(value.take().unwrap_or_default()),
            Token::Symbol(")") => {
                values.push(value.unwrap_or_default());
                break;
            }
            other => {
                let expected = match (value, values.is_empty()) {
                    (Some(_), _) => "',' or ')'",
                    (None, true) => "',', ')' or identifier",
                    (None, false) => "',', or identifier",
                };
                return Err(format!("found '{}', expected: {expected}", other.text()));
            }
        }
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

fn invalid(path: &str, value: &str, why: &str) -> String {
    format!("{path}: Invalid value: {value:?}: {why}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::selector::SELECTOR_BYTES_MAX;

    fn fault(text: &str) -> String {
        LabelSelector::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn labels_match_as_the_operator_says() {
        let labels = BTreeMap::from([("a", "x"), ("n", "7"), ("e", ""), ("x.io/in", "in")]);
        let cases = [
            ("", true),
            (" \t\r\n", true),
            ("a", true),
            ("b", false),
            ("!b", true),
            ("! a", false),
            ("a=x", true),
            ("a==x", true),
            (" a = x , b != y ", true),
            ("a=y", false),
            ("a!=x", false),
            ("a!=y", true),
            ("a=x,n=8", false),
            ("a=", false),
            ("e=", true),
            ("e=,a=x", true),
            ("b=", false),
            ("a in (x)", true),
            ("a in (y, x ,x)", true),
            ("a in(y)", false),
            ("b in (x)", false),
            ("a notin (x)", false),
            ("a notin (y)", true),
            ("b notin (x)", true),
            ("e in ()", true),
            ("e in (x,)", true),
            ("e in (,x)", true),
            ("e in (x,,y)", true),
            ("a in ()", false),
            ("x.io/in in (in,notin)", true),
            ("x.io/in=in", true),
            ("in", false),
            ("n>6", true),
            ("n > 7", false),
            ("n<8", true),
            ("n<7", false),
            ("a>6", false),
            ("b<6", false),
        ];
        for (text, expected) in cases {
            let selector = LabelSelector::parse(text).unwrap();
            let got = selector.matches(|key| labels.get(key).copied());
            assert_eq!(got, expected, "{text:?}");
        }
    }

    #[test]
    fn only_a_selector_without_requirements_is_empty() {
        for (text, expected) in [("", true), ("  ", true), ("a", false), ("!a", false)] {
            assert_eq!(LabelSelector::parse(text).unwrap().is_empty(), expected);
        }
    }

    #[test]
    fn broken_text_is_answered_as_the_real_server_does() {
        let cases = [
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a in (b",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            (
                "a in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
            (
                "a in (b,",
                "unable to parse requirement: found '', expected: ',', or identifier",
            ),
            (
                "a in (b c)",
                "unable to parse requirement: found 'c', expected: ',' or ')'",
            ),
            (
                "a in",
                "unable to parse requirement: found '' expected: '('",
            ),
            (
                "!",
                "unable to parse requirement: found '', expected: identifier",
            ),
            (
                "!!a",
                "unable to parse requirement: found '!', expected: identifier",
            ),
            (
                "a=!",
                "unable to parse requirement: found '!', expected: identifier",
            ),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a in (b))", "found ')', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            (
                ",",
                "found ',', expected: !, identifier, or 'end of string'",
            ),
            (
                "=b",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a=b,", "found '', expected: identifier after ','"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "a>99999999999999999999",
                "unable to parse requirement: values[0]: Invalid value: \"99999999999999999999\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            (
                "/x",
                "unable to parse requirement: <nil>: Invalid value: \"/x\": prefix part must be non-empty",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(fault(text), expected, "{text:?}");
        }
    }

    #[test]
    fn values_that_no_label_can_have_are_refused_each_with_its_place() {
        assert!(fault("a=-x").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-x\": a valid label must be an empty string or "
        ));
        assert!(
            fault(&format!("a={}", "v".repeat(64))).ends_with(": must be no more than 63 bytes")
        );
        let two = fault("a in (y_,-x)");
        assert!(
            two.starts_with("unable to parse requirement: [values[0][a]: Invalid value: \"-x\"")
        );
        assert!(two.contains(", values[1][a]: Invalid value: \"y_\"") && two.ends_with(']'));
        assert!(fault("a>-5").contains("values[0][a]"));
        assert!(fault("a\0,b").contains("Invalid value: \"a\\0\""));
    }

    #[test]
    fn text_beyond_the_limit_is_refused_unread() {
        let text = " ".repeat(SELECTOR_BYTES_MAX);
        assert!(LabelSelector::parse(&text).is_ok());
        let text = text + " ";
        assert_eq!(
            LabelSelector::parse(&text),
            Err(SelectorError::TooLong(SELECTOR_BYTES_MAX + 1))
        );
    }

    /// One requirement as text, and what it means, said in the plainest way.
    type Meaning = fn(Option<&str>, &[String]) -> bool;

    fn requirement() -> impl Strategy<Value = (String, String, Vec<String>, Meaning)> {
        let operators: [(&str, Meaning); 7] = [
            ("", |value, _| value.is_some()),
            ("!", |value, _| value.is_none()),
            ("=", |value, values| value == Some(&values[0])),
            ("==", |value, values| value == Some(&values[0])),
            ("!=", |value, values| value != Some(&values[0])),
            ("in", |value, values| {
                values.iter().any(|v| Some(v.as_str()) == value)
            }),
            ("notin", |value, values| {
                values.iter().all(|v| Some(v.as_str()) != value)
            }),
        ];
        let values = prop::collection::vec("[ab]?", 1..4);
        let operator = prop::sample::select(operators.to_vec());
        ("[a-d]", operator, values, "[ \t]{0,2}").prop_map(|(key, (op, meaning), values, gap)| {
            let text = match op {
                "" => format!("{gap}{key}{gap}"),
                "!" => format!("{gap}!{gap}{key}"),
                "in" | "notin" => format!("{key} {op}{gap}({})", values.join(&format!("{gap},"))),
                _ => format!("{key}{gap}{op}{gap}{}", values[0]),
            };
            (text, key, values, meaning)
        })
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([ab!=<>(), ]|in|notin|\\PC){0,40}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn all_requirements_must_hold(
            requirements in prop::collection::vec(requirement(), 0..5),
            labels in prop::collection::btree_map("[a-d]", "[ab]?", 0..4),
        ) {
            let texts: Vec<&str> = requirements.iter().map(|r| r.0.as_str()).collect();
            let selector = LabelSelector::parse(&texts.join(",")).unwrap();
            let label = |key: &str| labels.get(key).map(String::as_str);
            let expected = requirements
                .iter()
                .all(|(_, key, values, meaning)| meaning(label(key), values));
            prop_assert_eq!(selector.matches(label), expected, "{:?}", texts);
        }
    }
}
