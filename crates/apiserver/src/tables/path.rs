//! The part of JSONPath that printer columns use: fields, quoted fields, indexes, slices, `[*]` and filters.
//!
//! Mirrors `client-go/util/jsonpath` (1.36), oddities included: a dot within quotes separates fields unless it is escaped, and
//! a comparison of different types makes the whole path yield nothing.
//! DEVIATION(printer-paths): steps in slices, unions, recursive descent and nested filters are not supported.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed JSONPath.
#[derive(Debug, Clone)]
pub(super) struct JsonPath(Vec<PathSegment>);

#[derive(Debug, Clone)]
enum PathSegment {
    Field(String),
    /// From the end if negative.
    Index(i64),
    /// Start (inclusive) and end (exclusive) of a slice; from the end if negative.
    Slice(Option<i64>, Option<i64>),
    /// All members of a list, all values of a map.
    All,
    /// Items of a list that satisfy a comparison, or that have a field.
    Filter(FilterOperand, Option<(FilterComparison, FilterOperand)>),
}

/// One side of a comparison.
#[derive(Debug, Clone)]
enum FilterOperand {
    Path(JsonPath),
    Literal(Value),
}

/// Whether a comparison accepts the order of its operands.
type FilterComparison = fn(Ordering) -> bool;

/// Whether a filter is allowed here. The text comes from a user, so nesting must be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterUse {
    Allowed,
    Refused,
}

// === impl JsonPath ===

impl JsonPath {
    /// `None` if the path is malformed or not supported.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::parse_with(text, FilterUse::Allowed)
    }

    /// The first value at the path.
    pub(super) fn find<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find_all(root)?.first().copied()
    }

    fn find_all<'a>(&self, root: &'a Value) -> Option<Vec<&'a Value>> {
        let mut steps = self.0.iter();
        steps.try_fold(vec![root], |found, step| step.follow(found))
    }

    fn parse_with(text: &str, filters: FilterUse) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = match first {
                ' ' | '@' | '$' => &rest[1..],
                '.' if rest.starts_with("..") => return None,
                '.' => {
                    let end = 1 + field_len(&rest[1..]);
                    steps.push(match &rest[1..end] {
                        "*" => PathSegment::All,
                        name => PathSegment::Field(name.replace('\\', "")),
                    });
                    &rest[end..]
                }
                '[' if rest.starts_with("[?(") => {
                    if filters == FilterUse::Refused {
                        return None;
                    }
                    let inner = &rest[3..];
                    let end = filter_len(inner)?;
                    steps.push(PathSegment::filter(&inner[..end])?);
                    &inner[end + 2..]
                }
                '[' => {
                    let end = rest.find(']')?;
                    steps.extend(PathSegment::bracket(&rest[1..end])?);
                    &rest[end + 1..]
                }
                _ => return None,
            };
        }
        Some(Self(steps))
    }
}

// === impl PathSegment ===

impl PathSegment {
    /// Parses the text between brackets.
    fn bracket(inner: &str) -> Option<Vec<Self>> {
        if inner == "*" {
            return Some(vec![PathSegment::All]);
        }
        match inner
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
        {
            Some(name) if !name.contains('\'') => {
                let path = JsonPath::parse_with(&format!(".{name}"), FilterUse::Refused)?;
                Some(path.0)
            }
            _ => match inner.split_once(':') {
                Some((from, to)) => Some(vec![PathSegment::Slice(bound(from)?, bound(to)?)]),
                None => Some(vec![PathSegment::Index(inner.parse().ok()?)]),
            },
        }
    }

    fn filter(text: &str) -> Option<Self> {
        let is_sign = |c: char| "!<>=".contains(c);
        let Some(start) = text.find(is_sign) else {
            return Some(PathSegment::Filter(FilterOperand::parse(text)?, None));
        };
        let signs = text[start..].find(|c| !is_sign(c))?;
        let comparison: FilterComparison = match &text[start..start + signs] {
            "==" => Ordering::is_eq,
            "!=" => Ordering::is_ne,
            "<" => Ordering::is_lt,
            "<=" => Ordering::is_le,
            ">" => Ordering::is_gt,
            ">=" => Ordering::is_ge,
            _ => return None,
        };
        let right = FilterOperand::parse(&text[start + signs..])?;
        Some(PathSegment::Filter(
            FilterOperand::parse(&text[..start])?,
            Some((comparison, right)),
        ))
    }

    /// Applies the step to all values; `None` if it does not fit one of them.
    fn follow<'a>(&self, found: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
        let mut next = Vec::new();
        for value in found {
            match (self, value) {
                (PathSegment::Field(name), value) => next.extend(value.get(name)),
                (PathSegment::All, Value::Array(members)) => next.extend(members),
                (PathSegment::All, Value::Object(members)) => next.extend(members.values()),
                (PathSegment::All, _)
                | (PathSegment::Index(_) | PathSegment::Slice(..), Value::Null) => {}
                (PathSegment::Slice(from, to), Value::Array(members)) => {
                    let len = i64::try_from(members.len()).ok()?;
                    let place = |bound: i64| if bound < 0 { bound + len } else { bound };
                    let from = usize::try_from(place(from.unwrap_or(0))).ok()?;
                    let to = usize::try_from(place(to.unwrap_or(len)).min(len)).ok()?;
                    next.extend(members.get(from..to)?);
                }
                (PathSegment::Index(index), Value::Array(members)) => {
                    let len = i64::try_from(members.len()).ok()?;
                    let index = if *index < 0 { index + len } else { *index };
                    next.push(members.get(usize::try_from(index).ok()?)?);
                }
                (PathSegment::Filter(left, test), Value::Array(members)) => {
                    for member in members {
                        if holds(left, test.as_ref(), member)? {
                            next.push(member);
                        }
                    }
                }
                (PathSegment::Index(_) | PathSegment::Slice(..) | PathSegment::Filter(..), _) => {
                    return None;
                }
            }
        }
        Some(next)
    }
}

/// Parses one bound of a slice, which may be empty.
fn bound(text: &str) -> Option<Option<i64>> {
    if text.is_empty() {
        Some(None)
    } else {
        text.parse().ok().map(Some)
    }
}

// === impl FilterOperand ===

impl FilterOperand {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let quoted = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
        let literal = match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match (
                quoted('"').or_else(|| quoted('\'')),
                text.parse::<i64>(),
                text.parse::<f64>(),
            ) {
                (Some(string), _, _) => string.into(),
                (_, Ok(integer), _) => integer.into(),
                (_, _, Ok(float)) => float.into(),
                _ => {
                    return Some(FilterOperand::Path(JsonPath::parse_with(
                        text,
                        FilterUse::Refused,
                    )?));
                }
            },
        };
        Some(FilterOperand::Literal(literal))
    }

    fn find_all<'a>(&'a self, member: &'a Value) -> Option<Vec<&'a Value>> {
        match self {
            FilterOperand::Path(path) => path.find_all(member),
            FilterOperand::Literal(value) => Some(vec![value]),
        }
    }
}

/// Whether an item satisfies a filter; `None` if the operands cannot be compared.
fn holds(
    left: &FilterOperand,
    test: Option<&(FilterComparison, FilterOperand)>,
    member: &Value,
) -> Option<bool> {
    let Some((comparison, right)) = test else {
        return Some(left.find_all(member).is_some_and(|found| !found.is_empty()));
    };
    let lefts = left.find_all(member)?;
    let rights = right.find_all(member)?;
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => Some(comparison(order(left, right)?)),
        _ => None,
    }
}

/// Like Go, only values of the same type are compared; integers and floats are different types.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
            _ => None,
        },
        _ => None,
    }
}

/// The length of a field name. A backslash escapes the next character.
fn field_len(text: &str) -> usize {
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        if !escaped && " \t\r\n.,[]$@{}".contains(c) {
            return index;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

/// The position of the closing `)]` of a filter, outside of quotes.
fn filter_len(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, c) in text.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (')', None) => return text[index + 1..].starts_with(']').then_some(index),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk_object() -> Value {
        json!({
            "metadata": {"annotations": {"a.b/c": "dotted"}},
            "spec": {"s": "text", "m": {"k": "v"}, "l": ["x", "y", 3], "null": null},
            "status": {"conditions": [
                {"type": "A", "n": 1},
                {"type": "B", "n": 2},
                {"type": "Ready", "status": "True", "b": true},
            ]},
        })
    }

    #[test]
    fn paths_match_upstream() {
        let cases = [
            (".spec.s", json!("text")),
            (".spec.m.k", json!("v")),
            (".spec.l[0]", json!("x")),
            (".spec.l[-1]", json!(3)),
            (".spec.l[0:2]", json!("x")),
            (".spec.l[-1:]", json!(3)),
            (".spec.l[*]", json!("x")),
            (".spec.m.*", json!("v")),
            (".spec.m['k']", json!("v")),
            (".spec.null", json!(null)),
            (r".metadata.annotations['a\.b/c']", json!("dotted")),
            (r".metadata.annotations.a\.b/c", json!("dotted")),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!("True"),
            ),
            (
                ".status.conditions[?(@.type=='Ready')].status",
                json!("True"),
            ),
            (".status.conditions[?(@.type != 'Ready')].type", json!("A")),
            (".status.conditions[?(@.n>1)].type", json!("B")),
            (".status.conditions[?(@.n<=1)].type", json!("A")),
            (".status.conditions[?(@.n)].type", json!("A")),
            (".status.conditions[?(@.b==true)].type", json!("Ready")),
            ("$.spec.s", json!("text")),
        ];
        for (path, expected) in cases {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(found.find(&mk_object()), Some(&expected), "{path}");
        }
    }

    #[test]
    fn missing_values_yield_nothing() {
        let cases = [
            ".",
            ".spec.nope.deep",
            ".spec.null.deep",
            ".spec.l[9]",
            ".spec.l[-9]",
            ".spec.m[0]",
            ".metadata.annotations['a.b/c']",
            ".status.none[?(@.b==true)].type",
            ".spec.m[?(@.b==true)]",
            ".status.conditions[?(@.n=='1')].type",
            ".status.conditions[?(@.type=='Ready')].at",
        ];
        for path in cases {
            let found = JsonPath::parse(path).unwrap();
            assert_eq!(found.find(&mk_object()), None, "{path}");
        }
    }

    #[test]
    fn refuses_malformed_and_unsupported_paths() {
        let deep = "[?(".repeat(100_000);
        let cases = [
            "spec",
            "..deep",
            ".spec.l[0",
            ".spec.l[0:2:1]",
            ".spec['s','i']",
            ".a[?(@.b=~'c')]",
            ".a[?(@.b=='c']",
            ".a[?(@.b[?(@.c)])]",
            &deep,
        ];
        for path in cases {
            assert!(JsonPath::parse(path).is_none(), "{path:.40}");
        }
    }
}
