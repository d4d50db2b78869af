//! Label selectors: `app=web,tier in (a, b),!canary,weight>5`.
//!
//! A requirement is a key and a condition on its value; an object must meet all requirements. A missing label counts as
//! different from every value, so `!=` and `notin` select objects that lack the key.

use serde_json::Value;

use super::{SelectorError, check_length};
use crate::names;

/// A parsed label selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    must: LabelCondition,
}

/// The condition on the value of a label. Values are sorted and unique.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelCondition {
    Exist,
    BeAbsent,
    BeIn(Vec<String>),
    NotBeIn(Vec<String>),
    Exceed(i64),
    StayBelow(i64),
}

/// A token of the text. Keywords are ordinary words: `in in (in)` is a valid selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorToken<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

#[derive(Clone)]
struct SelectorLexer<'a> {
    rest: &'a str,
}

/// The text of a label selector is malformed. The messages are upstream's.
#[derive(Debug, thiserror::Error)]
enum LabelSyntaxError {
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    /// Upstream has no comma in this message.
    #[error("found '{0}' expected: '('")]
    NoParenthesis(String),
    /// A key or value is not valid for labels.
    #[error("{0}")]
    Invalid(String),
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Parses the text of a `labelSelector` parameter. An empty text selects everything.
    ///
    /// # Errors
    /// If the text is not a selector, or has keys or values that are not valid for labels.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        check_length(text)?;
        let mut tokens = SelectorLexer { rest: text };
        let mut requirements = Vec::new();
        while tokens.peek() != SelectorToken::End {
            if !tokens.peek().starts_requirement() {
                let found = tokens.next().text();
                let error = unexpected(found, "!, identifier, or 'end of string'");
                return Err(SelectorError::Label(error.to_string()));
            }
            let requirement = LabelRequirement::parse(&mut tokens)
                .map_err(|error| SelectorError::Requirement(error.to_string()))?;
            requirements.push(requirement);
            tokens
                .end_requirement()
                .map_err(|error| SelectorError::Label(error.to_string()))?;
        }
        Ok(Self { requirements })
    }

    /// The selector in a field of an object: `matchLabels` and `matchExpressions`, both optional. A term of a node
    /// selector has the same form, with the operators `Gt` and `Lt` as well.
    ///
    /// `None` if the field is null or has a requirement that cannot be read: such a selector selects nothing.
    #[must_use]
    pub fn of_field(selector: &Value) -> Option<Self> {
        let members = selector.as_object()?;
        let mut selected = match members.get("matchLabels") {
            None | Some(Value::Null) => Self::default(),
            Some(labels) => Self::of_labels(labels)?,
        };
        let expressions = match members.get("matchExpressions") {
            None | Some(Value::Null) => return Some(selected),
            Some(expressions) => expressions.as_array()?,
        };
        for expression in expressions {
            let requirement = LabelRequirement::of_expression(expression)?;
            selected.requirements.push(requirement);
        }
        Some(selected)
    }

    /// The selector in a map of labels, all of which an object must have. `None` if it is no map of texts.
    #[must_use]
    pub fn of_labels(labels: &Value) -> Option<Self> {
        let requirement = |(key, value): (&String, &Value)| {
            let must = LabelCondition::BeIn(vec![value.as_str()?.to_owned()]);
            let key = key.clone();
            Some(LabelRequirement { key, must })
        };
        let requirements = labels.as_object()?.iter().map(requirement);
        let requirements = requirements.collect::<Option<_>>()?;
        Some(Self { requirements })
    }

    /// Whether an object meets all requirements. `label` looks up its labels.
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

// === impl LabelRequirement ===

impl LabelRequirement {
    fn parse(tokens: &mut SelectorLexer<'_>) -> Result<Self, LabelSyntaxError> {
        let mut token = tokens.next();
        let negated = token == SelectorToken::Symbol("!");
        if negated {
            token = tokens.next();
        }
        let SelectorToken::Word(key) = token else {
            return Err(unexpected(token.text(), "identifier"));
        };
        let faults = names::qualified_name(key);
        if !faults.is_empty() {
            // Upstream has no field path for the key and prints `<nil>`.
            let fault = invalid("<nil>", key, &faults.join("; "));
            return Err(LabelSyntaxError::Invalid(fault));
        }
        let must = if negated {
            LabelCondition::BeAbsent
        } else if matches!(
            tokens.peek(),
            SelectorToken::End | SelectorToken::Symbol(",")
        ) {
            LabelCondition::Exist
        } else {
            LabelCondition::parse(key, tokens)?
        };
        let key = key.to_owned();
        Ok(Self { key, must })
    }

    /// One of `matchExpressions`; `None` if it has an unknown operator or the wrong number of values.
    fn of_expression(expression: &Value) -> Option<Self> {
        let values = expression["values"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let values = values.iter().map(|value| value.as_str().map(str::to_owned));
        let mut values = values.collect::<Option<Vec<String>>>()?;
        values.sort();
        values.dedup();
        let must = match (expression["operator"].as_str()?, values.as_slice()) {
            ("In", [_, ..]) => LabelCondition::BeIn(values),
            ("NotIn", [_, ..]) => LabelCondition::NotBeIn(values),
            ("Exists", []) => LabelCondition::Exist,
            ("DoesNotExist", []) => LabelCondition::BeAbsent,
            ("Gt", [bound]) => LabelCondition::Exceed(bound.parse().ok()?),
            ("Lt", [bound]) => LabelCondition::StayBelow(bound.parse().ok()?),
            _ => return None,
        };
        let key = expression["key"].as_str()?.to_owned();
        Some(Self { key, must })
    }
}

// === impl LabelCondition ===

impl LabelCondition {
    /// Parses the operator and its values.
    fn parse(key: &str, tokens: &mut SelectorLexer<'_>) -> Result<Self, LabelSyntaxError> {
        let operator = tokens.next().text();
        let values = match operator {
            "in" | "notin" => value_set(tokens)?,
            "=" | "==" | "!=" | ">" | "<" => vec![exact_value(tokens)?],
            other => {
                return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt"));
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
            [one] => return Err(LabelSyntaxError::Invalid(one.clone())),
            many => {
                let list = format!("[{}]", many.join(", "));
                return Err(LabelSyntaxError::Invalid(list));
            }
        }
        let values = values.into_iter().map(str::to_owned).collect();
        Ok(match (operator, bound) {
            (">", Some(bound)) => LabelCondition::Exceed(bound),
            ("<", Some(bound)) => LabelCondition::StayBelow(bound),
            ("notin" | "!=", _) => LabelCondition::NotBeIn(values),
            _ => LabelCondition::BeIn(values),
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
            LabelCondition::Exist => value.is_some(),
            LabelCondition::BeAbsent => value.is_none(),
            LabelCondition::BeIn(values) => value.is_some_and(|value| is_in(values, value)),
            LabelCondition::NotBeIn(values) => value.is_none_or(|value| !is_in(values, value)),
            LabelCondition::Exceed(bound) => number().is_some_and(|number| number > *bound),
            LabelCondition::StayBelow(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

// === impl SelectorToken ===

impl<'a> SelectorToken<'a> {
    fn text(self) -> &'a str {
        match self {
            SelectorToken::Word(text) | SelectorToken::Symbol(text) => text,
            SelectorToken::End => "",
        }
    }

    fn starts_requirement(self) -> bool {
        matches!(self, SelectorToken::Word(_) | SelectorToken::Symbol("!"))
    }
}

// === impl SelectorLexer ===

impl<'a> SelectorLexer<'a> {
    fn peek(&self) -> SelectorToken<'a> {
        self.clone().next()
    }

    fn next(&mut self) -> SelectorToken<'a> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = text.chars().next() else {
            self.rest = text;
            return SelectorToken::End;
        };
        let (length, is_symbol) = if text.starts_with("==") || text.starts_with("!=") {
            (2, true)
        } else if is_symbol(first) {
            (1, true)
        } else {
            // DEVIATION(selector-nul): upstream treats a NUL byte as the end of the text; here it is a character that is
            // invalid in labels.
            let ends = |c: char| is_symbol(c) || matches!(c, ' ' | '\t' | '\r' | '\n');
            (text.find(ends).unwrap_or(text.len()), false)
        };
        let (token, rest) = text.split_at(length);
        self.rest = rest;
        if is_symbol {
            SelectorToken::Symbol(token)
        } else {
            SelectorToken::Word(token)
        }
    }

    /// Consumes the separator between two requirements.
    fn end_requirement(&mut self) -> Result<(), LabelSyntaxError> {
        match self.next() {
            SelectorToken::End => Ok(()),
            SelectorToken::Symbol(",") => {
                let next = self.peek();
                if next.starts_requirement() {
                    return Ok(());
                }
                let found = next.text();
                Err(unexpected(found, "identifier after ','"))
            }
            other => Err(unexpected(other.text(), "',' or 'end of string'")),
        }
    }
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

/// The value after `=`, `==`, `!=`, `>` or `<`; a missing value is empty.
fn exact_value<'a>(tokens: &mut SelectorLexer<'a>) -> Result<&'a str, LabelSyntaxError> {
    match tokens.peek() {
        SelectorToken::End | SelectorToken::Symbol(",") => Ok(""),
        SelectorToken::Word(value) => {
            tokens.next();
            Ok(value)
        }
        SelectorToken::Symbol(found) => Err(unexpected(found, "identifier")),
    }
}

/// The values between parentheses, sorted and unique. Nothing between two commas is the empty value.
fn value_set<'a>(tokens: &mut SelectorLexer<'a>) -> Result<Vec<&'a str>, LabelSyntaxError> {
    let open = tokens.next();
    if open != SelectorToken::Symbol("(") {
        return Err(LabelSyntaxError::NoParenthesis(open.text().to_owned()));
    }
    let mut values = Vec::new();
    let mut value = None;
    loop {
        match tokens.next() {
            SelectorToken::Word(word) if value.is_none() => value = Some(word),
            SelectorToken::Symbol(",") => values.push(value.take().unwrap_or_default()),
            SelectorToken::Symbol(")") => {
                values.push(value.unwrap_or_default());
                break;
            }
            other => {
                let expected = match (value, values.is_empty()) {
                    (Some(_), _) => "',' or ')'",
                    (None, true) => "',', ')' or identifier",
                    (None, false) => "',', or identifier",
                };
                return Err(unexpected(other.text(), expected));
            }
        }
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

fn unexpected(found: &str, expected: &'static str) -> LabelSyntaxError {
    LabelSyntaxError::Unexpected {
        found: found.to_owned(),
        expected,
    }
}

fn invalid(path: &str, value: &str, why: &str) -> String {
    format!("{path}: Invalid value: {value:?}: {why}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::selector::SELECTOR_BYTES_MAX;

    fn fault(text: &str) -> String {
        LabelSelector::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn matches_labels_by_operator() {
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
    fn selector_without_requirements_is_empty() {
        for (text, expected) in [("", true), ("  ", true), ("a", false), ("!a", false)] {
            assert_eq!(LabelSelector::parse(text).unwrap().is_empty(), expected);
        }
    }

    #[test]
    fn malformed_selectors_have_upstream_messages() {
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
    fn refuses_invalid_values_with_their_index() {
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
    fn refuses_selectors_over_the_length_limit() {
        let text = " ".repeat(SELECTOR_BYTES_MAX);
        assert!(LabelSelector::parse(&text).is_ok());
        let text = text + " ";
        assert_eq!(
            LabelSelector::parse(&text),
            Err(SelectorError::TooLong(SELECTOR_BYTES_MAX + 1))
        );
    }

    #[test]
    fn reads_selectors_of_objects() {
        let labels = BTreeMap::from([("a", "x"), ("n", "7")]);
        let matched = |selector: &Value| {
            let selector = LabelSelector::of_field(selector);
            selector.map(|selector| selector.matches(|key| labels.get(key).copied()))
        };
        let expressed = |key: &str, operator: &str, values: &[&str]| {
            let expression = json!({"key": key, "operator": operator, "values": values});
            matched(&json!({"matchLabels": {"a": "x"}, "matchExpressions": [expression]}))
        };
        let cases = [
            (Value::Null, None),
            (json!({}), Some(true)),
            (
                json!({"matchLabels": null, "matchExpressions": null}),
                Some(true),
            ),
            (json!({"matchLabels": {"a": "x", "n": "7"}}), Some(true)),
            (json!({"matchLabels": {"a": "y"}}), Some(false)),
            (json!({"matchLabels": {"a": 1}}), None),
            (json!({"matchExpressions": [{"key": "a"}]}), None),
        ];
        for (selector, expected) in cases {
            assert_eq!(matched(&selector), expected, "{selector}");
        }
        let cases: [(&str, &str, &[&str], Option<bool>); 12] = [
            ("n", "In", &["8", "7", "1"], Some(true)),
            ("b", "In", &["7"], Some(false)),
            ("n", "NotIn", &["8"], Some(true)),
            ("b", "NotIn", &["8"], Some(true)),
            ("n", "Exists", &[], Some(true)),
            ("b", "DoesNotExist", &[], Some(true)),
            ("n", "Gt", &["6"], Some(true)),
            ("n", "Lt", &["7"], Some(false)),
            ("n", "Gt", &["x"], None),
            ("n", "In", &[], None),
            ("n", "Exists", &["7"], None),
            ("n", "Like", &["7"], None),
        ];
        for (key, operator, values, expected) in cases {
            let found = expressed(key, operator, values);
            assert_eq!(found, expected, "{key} {operator} {values:?}");
        }
    }

    /// The reference implementation of an operator.
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
        fn parser_never_panics(text in "([ab!=<>(), ]|in|notin|\\PC){0,40}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn selector_matches_when_all_requirements_hold(
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
