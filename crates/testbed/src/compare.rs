//! What differs between two normalised transcripts, and which differences are allowed.
//!
//! Pure. A difference is a place (JSON pointer into the transcript) and the two values there. The allow file has one row
//! per accepted difference: case, place, reason, separated by tabs; a row covers its place and everything below it.
//! A row whose difference is gone is an error too, so that the file only ever says what is true.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::transcript::shown;

/// Longest value that is printed whole, in characters.
const SHOWN_MAX: usize = 1200;

/// One place where two transcripts differ.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptDifference {
    /// JSON pointer into the transcript.
    pub at: String,
    /// What the real server answered; nothing if it has no such place.
    pub real: Option<Value>,
    /// What the server under test answered.
    pub ours: Option<Value>,
}

/// The accepted differences, by case and place.
#[derive(Debug, Default)]
pub struct AllowedDifferences {
    rows: BTreeMap<(String, String), String>,
}

/// The comparison of one case.
#[derive(Debug, Default, PartialEq)]
pub struct CaseJudgement {
    /// Differences that no row allows.
    pub unexplained: Vec<TranscriptDifference>,
    /// How many differences a row allows.
    pub allowed: usize,
    /// Places of rows that allow nothing any more.
    pub stale: Vec<String>,
}

/// All differences between two transcripts.
pub fn differences(real: &[Value], ours: &[Value]) -> Vec<TranscriptDifference> {
    let mut found = Vec::new();
    compare_items("", real, ours, &mut found);
    found
}

fn compare_items(at: &str, real: &[Value], ours: &[Value], found: &mut Vec<TranscriptDifference>) {
    for index in 0..real.len().max(ours.len()) {
        compare(
            format!("{at}/{index}"),
            real.get(index),
            ours.get(index),
            found,
        );
    }
}

fn compare(
    at: String,
    real: Option<&Value>,
    ours: Option<&Value>,
    found: &mut Vec<TranscriptDifference>,
) {
    match (real, ours) {
        (Some(Value::Object(r)), Some(Value::Object(o))) => {
            let mut keys: Vec<&String> = r.keys().chain(o.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                compare(format!("{at}/{escaped}"), r.get(key), o.get(key), found);
            }
        }
        (Some(Value::Array(r)), Some(Value::Array(o))) => compare_items(&at, r, o, found),
        (real, ours) if real == ours => {}
        (real, ours) => found.push(TranscriptDifference {
            at,
            real: real.cloned(),
            ours: ours.cloned(),
        }),
    }
}

// === impl AllowedDifferences ===

impl AllowedDifferences {
    /// Reads an allow file; empty lines and lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rows = BTreeMap::new();
        let lines = text
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        for (line, number) in lines {
            let [case, at, reason] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(format!(
                    "line {number}: want case, place and reason, separated by tabs"
                ));
            };
            if case.is_empty() || !at.starts_with('/') || reason.trim().is_empty() {
                return Err(format!(
                    "line {number}: case, place (a JSON pointer) and reason must all be there"
                ));
            }
            if rows
                .insert((case.to_owned(), at.to_owned()), reason.to_owned())
                .is_some()
            {
                return Err(format!("line {number}: the same place twice"));
            }
        }
        Ok(Self { rows })
    }

    /// The cases that have rows.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(|(case, _)| case.as_str())
    }

    /// Sorts a case's differences into allowed and unexplained ones, and finds rows that are not needed.
    pub fn judge(&self, case: &str, differences: Vec<TranscriptDifference>) -> CaseJudgement {
        let mut rows: BTreeMap<&str, bool> = self
            .rows
            .keys()
            .filter(|(s, _)| s == case)
            .map(|(_, at)| (at.as_str(), false))
            .collect();
        let mut judgement = CaseJudgement::default();
        for difference in differences {
            match rows.iter_mut().find(|(at, _)| covers(at, &difference.at)) {
                Some((_, used)) => {
                    *used = true;
                    judgement.allowed += 1;
                }
                None => judgement.unexplained.push(difference),
            }
        }
        judgement.stale = rows
            .into_iter()
            .filter(|(_, used)| !used)
            .map(|(at, _)| at.to_owned())
            .collect();
        judgement
    }
}

fn covers(row: &str, at: &str) -> bool {
    at.strip_prefix(row)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

// === impl CaseJudgement ===

impl CaseJudgement {
    /// Whether the case passes.
    pub fn is_fine(&self) -> bool {
        self.unexplained.is_empty() && self.stale.is_empty()
    }

    /// The judgement for people: each difference under the request it belongs to.
    pub fn report(&self, case: &str, real: &[Value]) -> String {
        let mut out = format!("{case}\n");
        let mut last = None;
        for difference in self
            .unexplained
            .iter()
            .filter(|difference| self.tells(difference))
        {
            let index = difference.exchange();
            if index != last {
                last = index;
                let exchange = index
                    .and_then(|i| real.get(i.parse::<usize>().ok()?))
                    .unwrap_or(&Value::Null);
                let line = exchange
                    .get("request")
                    .or_else(|| exchange.get("read"))
                    .and_then(Value::as_str);
                let _ = writeln!(
                    out,
                    "  {}",
                    line.unwrap_or("(no such exchange on the real server)")
                );
            }
            let _ = writeln!(out, "    {}", difference.at);
            let _ = writeln!(out, "      real: {}", side(difference.real.as_ref()));
            let _ = writeln!(out, "      ours: {}", side(difference.ours.as_ref()));
        }
        for at in &self.stale {
            let _ = writeln!(
                out,
                "    {at}\n      allowed, but does not differ any more: remove the row"
            );
        }
        out
    }

    /// Where one server refused and the other did not, every field of the body differs: the refusal tells enough.
    fn tells(&self, difference: &TranscriptDifference) -> bool {
        let exchange = format!("/{}", difference.exchange().unwrap_or_default());
        let status = format!("{exchange}/status");
        if !self.unexplained.iter().any(|other| other.at == status) {
            return true;
        }
        [
            status,
            exchange.clone() + "/body",
            exchange + "/body/Failure",
        ]
        .contains(&difference.at)
    }
}

// === impl TranscriptDifference ===

impl TranscriptDifference {
    /// The number of the exchange it belongs to.
    fn exchange(&self) -> Option<&str> {
        self.at.split('/').nth(1)
    }
}

fn side(value: Option<&Value>) -> String {
    let text = value
        .map_or_else(|| "(absent)".to_owned(), shown)
        .replace('\n', "\n            ");
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk_difference(at: &str) -> TranscriptDifference {
        TranscriptDifference {
            at: at.to_owned(),
            real: None,
            ours: None,
        }
    }

    #[test]
    fn equal_transcripts_do_not_differ() {
        let transcript = [json!({"a": [1, {"b": null}]})];
        assert_eq!(differences(&transcript, &transcript), []);
    }

    #[test]
    fn differences_are_found_at_the_deepest_common_place() {
        let real = [
            json!({"body": {"a/b": 1, "same": 1, "gone": 1, "list": [1, 2]}}),
            json!({}),
        ];
        let ours = [json!({"body": {"a/b": 2, "same": 1, "list": [1, {}], "new": null}})];
        let places: Vec<_> = differences(&real, &ours)
            .into_iter()
            .map(|d| d.at)
            .collect();
        assert_eq!(
            places,
            [
                "/0/body/a~1b",
                "/0/body/gone",
                "/0/body/list/1",
                "/0/body/new",
                "/1"
            ]
        );
    }

    #[test]
    fn null_and_absent_differ() {
        let found = differences(&[json!({"a": null})], &[json!({})]);
        assert_eq!(
            found,
            [TranscriptDifference {
                at: "/0/a".into(),
                real: Some(Value::Null),
                ours: None
            }]
        );
    }

    #[test]
    fn a_row_covers_its_place_and_everything_below_it() {
        let allowed =
            AllowedDifferences::parse("# why not\n\ns\t/0/body\tbecause\nother\t/1\tbecause\n")
                .unwrap();
        let found = ["/0/body", "/0/body/a", "/0/bodyguard", "/1"]
            .map(mk_difference)
            .to_vec();
        let judgement = allowed.judge("s", found);
        assert_eq!(judgement.allowed, 2);
        assert_eq!(
            judgement.unexplained,
            ["/0/bodyguard", "/1"].map(mk_difference)
        );
        assert_eq!(judgement.stale, Vec::<String>::new());
    }

    #[test]
    fn a_row_that_allows_nothing_is_an_error() {
        let allowed = AllowedDifferences::parse("s\t/0/body\tbecause\n").unwrap();
        let judgement = allowed.judge("s", vec![]);
        assert!(!judgement.is_fine());
        assert!(judgement.report("s", &[]).contains("/0/body"));
    }

    #[test]
    fn rows_without_place_or_reason_are_refused() {
        for text in [
            "s\t/0",
            "s\t/0\t ",
            "s\tlabel\tbecause",
            "s /0 because",
            "\t/0\tx",
            "s\t/0\tx\ns\t/0\ty",
        ] {
            assert!(AllowedDifferences::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_report_of_a_refusal_is_the_refusal() {
        let real = [
            json!({"request": "PUT /x", "status": 409, "body": {"Failure": {"reason": "Conflict"}}}),
        ];
        let found = differences(
            &real,
            &[json!({"request": "PUT /x", "status": 200, "body": {"kind": "A", "data": {}}})],
        );
        let report = AllowedDifferences::default()
            .judge("s", found)
            .report("s", &real);
        assert!(
            report.contains("Conflict") && report.contains("200"),
            "{report}"
        );
        assert!(!report.contains("data"), "{report}");
    }

    #[test]
    fn the_report_names_the_request_and_both_sides() {
        let real = [json!({"request": "GET /x", "status": 200})];
        let found = differences(&real, &[json!({"request": "GET /x", "status": 404})]);
        let report = AllowedDifferences::default()
            .judge("s", found)
            .report("s", &real);
        assert_eq!(
            report,
            "s\n  GET /x\n    /0/status\n      real: 200\n      ours: 404\n"
        );
    }
}
