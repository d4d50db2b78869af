//! The rows of `checks.txt`, compiled once: a list of rules for each type.

use std::sync::LazyLock;

use caretaker_machinery::types::TypeRef;
use serde_json::Value;

use super::{
    Visit, cluster, containers, devices, flow, formats, is_missing, network, pods, policy,
    registration, storage, workloads,
};
use crate::metadata::ObjectTree;
use crate::types::types;

const CHECKS: &str = include_str!("../../data/checks.txt");

/// A function for a rule that needs more than one field.
pub(super) type CheckFn = fn(&mut Visit<'_>);

/// A rule for one field, or for a struct as a whole.
pub(super) struct FieldCheck {
    /// The field in JSON; empty for the struct itself.
    pub(super) field: &'static str,
    pub(super) rule: CheckRule,
    pub(super) when: CheckCondition,
}

/// What a row demands.
pub(super) enum CheckRule {
    /// A value that is not empty; the text ends the message.
    Required(&'static str),
    /// One of these words, for a text or the items of a list; with `true` an absent one is refused too.
    Words(Vec<&'static str>, bool),
    /// A text without faults; with `true` an empty one is checked too.
    Text(fn(&str) -> Vec<String>, bool),
    Number(NumberRule),
    /// The rows of its type; items of a list differ in this member, unless it is empty.
    Each(&'static str),
    /// Exactly one of these fields, called so.
    Union(&'static str, Vec<&'static str>),
    /// Keys and values of labels.
    Labels,
    /// An update keeps the value.
    Immutable,
    /// The field is absent.
    Forbidden(&'static str),
    Code(CheckFn),
}

/// A range of numbers.
pub(super) struct NumberRule {
    min: i64,
    max: i64,
    words: &'static str,
    /// An absent number counts as zero.
    pub(super) also_absent: bool,
}

/// The condition under which a row applies; it names a field of the same struct.
pub(super) enum CheckCondition {
    Always,
    /// The object is new.
    Create,
    Present(&'static str),
    Absent(&'static str),
    Equals(&'static str, &'static str),
    Differs(&'static str, &'static str),
}

/// Returns the rows of a type.
pub(super) fn checks(of: TypeRef) -> &'static [FieldCheck] {
    static TABLE: LazyLock<Vec<Vec<FieldCheck>>> =
        LazyLock::new(|| read(CHECKS).unwrap_or_else(|line| unreachable!("checks.txt: {line:?}")));
    &TABLE[of.index()]
}

/// Reads the rows, one list for each type. The error is the first line that is no row.
fn read(text: &'static str) -> Result<Vec<Vec<FieldCheck>>, &'static str> {
    let mut table: Vec<Vec<FieldCheck>> = types().iter().map(|_| Vec::new()).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (of, row) = FieldCheck::parse(line).ok_or(line)?;
        table[of.index()].push(row);
    }
    Ok(table)
}

// === impl FieldCheck ===

impl FieldCheck {
    fn parse(line: &'static str) -> Option<(TypeRef, Self)> {
        let mut columns = line.split('\t');
        let (of, field, rule) = (columns.next()?, columns.next()?, columns.next()?);
        let of = types().named(of)?;
        let rule = CheckRule::parse(rule)?;
        let first = field.split('.').next().unwrap_or_default();
        let is_known = types().get(of).members.contains_key(first);
        let when = match columns.next() {
            None => CheckCondition::Always,
            Some(condition) => CheckCondition::parse(condition),
        };
        let field = if field == "-" { "" } else { field };
        let row = Self { field, rule, when };
        (field.is_empty() || is_known).then_some((of, row))
    }
}

// === impl CheckRule ===

impl CheckRule {
    fn parse(text: &'static str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (word, also_empty) = match word.strip_suffix('!') {
            Some(word) => (word, true),
            None => (word, false),
        };
        Some(match word {
            "required" => CheckRule::Required(rest),
            "words" => CheckRule::Words(rest.split('|').collect(), also_empty),
            "each" => CheckRule::Each(rest),
            "union" => {
                let (fields, what) = rest.split_once(' ')?;
                CheckRule::Union(what, fields.split('|').collect())
            }
            "labels" => CheckRule::Labels,
            "immutable" => CheckRule::Immutable,
            "forbidden" => CheckRule::Forbidden(rest),
            "code" => CheckRule::Code(function(rest)?),
            _ => match NumberRule::parse(word, rest, also_empty) {
                Some(rule) => CheckRule::Number(rule),
                None => CheckRule::Text(formats::named(word)?, also_empty),
            },
        })
    }
}

impl CheckRule {
    /// Reports whether the rule also applies to an empty value.
    pub(super) fn checks_empty(&self) -> bool {
        matches!(
            self,
            CheckRule::Text(_, true) | CheckRule::Words(_, true) | CheckRule::Immutable
        )
    }
}

// === impl NumberRule ===

impl NumberRule {
    fn parse(word: &str, rest: &'static str, also_absent: bool) -> Option<Self> {
        let (min, max, words) = match word {
            "min" => (rest.parse().ok()?, i64::MAX, ""),
            "positive" => (1, i64::MAX, "must be greater than 0"),
            "port" => (1, 65535, ""),
            "id" => (0, i64::from(i32::MAX), ""),
            "mode" => (
                0,
                0o777,
                "must be a number between 0 and 0777 (octal), both inclusive",
            ),
            "range" => {
                let mut parts = rest.splitn(3, ' ');
                let (min, max) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                (min, max, parts.next().unwrap_or_default())
            }
            _ => return None,
        };
        Some(Self {
            min,
            max,
            words,
            also_absent,
        })
    }

    /// Returns why a number is refused.
    pub(super) fn fault(&self, number: i64) -> Option<String> {
        if (self.min..=self.max).contains(&number) {
            return None;
        }
        let (min, max) = (self.min, self.max);
        Some(match self.words {
            "" if max == i64::MAX => format!("must be greater than or equal to {min}"),
            "" => format!("must be between {min} and {max}, inclusive"),
            words => words.to_owned(),
        })
    }
}

// === impl CheckCondition ===

impl CheckCondition {
    fn parse(text: &'static str) -> Self {
        if text == "@create" {
            return CheckCondition::Create;
        }
        match (text.split_once("!="), text.split_once('=')) {
            (Some((field, value)), _) => CheckCondition::Differs(field, value),
            (None, Some((field, value))) => CheckCondition::Equals(field, value),
            (None, None) => match text.strip_prefix('!') {
                Some(field) => CheckCondition::Absent(field),
                None => CheckCondition::Present(text),
            },
        }
    }

    pub(super) fn holds(&self, object: &ObjectTree, is_create: bool) -> bool {
        let is = |field: &str, value: &str| match object.get(field) {
            Some(Value::String(text)) => text == value,
            Some(Value::Bool(flag)) => value == if *flag { "true" } else { "false" },
            _ => false,
        };
        match *self {
            CheckCondition::Always => true,
            CheckCondition::Create => is_create,
            CheckCondition::Present(field) => object.get(field).is_some_and(|v| !is_missing(v)),
            CheckCondition::Absent(field) => object.get(field).is_none_or(is_missing),
            CheckCondition::Equals(field, value) => is(field, value),
            CheckCondition::Differs(field, value) => !is(field, value),
        }
    }
}

/// Finds a function by the name that rows use.
fn function(name: &str) -> Option<CheckFn> {
    let tables = [
        cluster::CHECKS,
        containers::CHECKS,
        devices::CHECKS,
        flow::CHECKS,
        network::CHECKS,
        pods::CHECKS,
        policy::CHECKS,
        registration::CHECKS,
        storage::CHECKS,
        workloads::CHECKS,
    ];
    let mut rows = tables.iter().flat_map(|table| table.iter());
    let row = rows.find(|(known, _)| *known == name);
    row.map(|(_, function)| *function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_understood() {
        let table = read(CHECKS).unwrap();
        assert!(table.iter().map(Vec::len).sum::<usize>() > 300);
    }

    #[test]
    fn numbers_out_of_range_are_named_in_upstreams_words() {
        let cases = [
            ("min", "0", -1, "must be greater than or equal to 0"),
            ("positive", "", 0, "must be greater than 0"),
            ("port", "", 0, "must be between 1 and 65535, inclusive"),
            (
                "range",
                "1 100 must be in the range 1-100",
                101,
                "must be in the range 1-100",
            ),
        ];
        for (word, rest, number, why) in cases {
            let rule = NumberRule::parse(word, rest, false).unwrap();
            assert_eq!(rule.fault(number).as_deref(), Some(why), "{word}");
            assert_eq!(rule.fault(5), None, "{word}");
        }
    }
}
