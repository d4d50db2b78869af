//! The cases of the kubectl suite and the differences that are allowed, as text files.
//!
//! The head of `cases.txt` explains its form. A row of `allowed.txt` is `NAME: reason`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// Namespaces have the names of cases.
const NAME_CHARS_MAX: usize = 63;

/// A case: lines that run in order in a namespace of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KubectlCase {
    pub(super) name: String,
    pub(super) lines: Vec<ScriptLine>,
}

/// One line for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptLine {
    /// Has to succeed; its output is not compared.
    Prepare(String),
    /// Its output and exit code are compared.
    Compare(String),
}

/// The cases that may differ, with their reasons.
#[derive(Debug)]
pub(super) struct AllowedCases(BTreeMap<String, String>);

/// Reads the cases in their order.
pub(super) fn parse(text: &str) -> Result<Vec<KubectlCase>> {
    let mut cases: Vec<KubectlCase> = Vec::new();
    let mut names = BTreeSet::new();
    for (number, line) in rows(text) {
        let at = || format!("line {number}: {line:?}");
        if let Some(name) = line.strip_prefix("= ") {
            ensure!(is_label(name), "{}: no name of a namespace", at());
            ensure!(names.insert(name), "{}: a case of this name exists", at());
            cases.push(KubectlCase {
                name: name.to_owned(),
                lines: Vec::new(),
            });
            continue;
        }
        let case = cases
            .last_mut()
            .with_context(|| format!("{}: no case", at()))?;
        case.lines.push(match line.split_once(' ') {
            Some(("+", line)) => ScriptLine::Prepare(line.to_owned()),
            Some(("$", line)) => ScriptLine::Compare(line.to_owned()),
            _ => bail!("{}: begins with none of `= `, `+ `, `$ `", at()),
        });
    }
    for case in &cases {
        let is_compared = |line: &ScriptLine| matches!(line, ScriptLine::Compare(_));
        ensure!(
            case.lines.iter().any(is_compared),
            "{}: compares nothing",
            case.name
        );
    }
    Ok(cases)
}

/// The lines that are neither empty nor comments, with their numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim_end));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn is_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(is_inner)
}

// === impl AllowedCases ===

impl AllowedCases {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut reasons = BTreeMap::new();
        for (number, line) in rows(text) {
            let row = line
                .split_once(": ")
                .filter(|(_, reason)| !reason.trim().is_empty());
            let (name, reason) =
                row.with_context(|| format!("line {number}: {line:?} has no reason"))?;
            let before = reasons.insert(name.to_owned(), reason.to_owned());
            ensure!(before.is_none(), "line {number}: {name} has two rows");
        }
        Ok(Self(reasons))
    }

    pub(super) fn reason(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names that no case has.
    pub(super) fn strays(&self, cases: &[KubectlCase]) -> Vec<String> {
        let is_stray = |name: &&String| !cases.iter().any(|case| case.name == **name);
        self.0.keys().filter(is_stray).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_in_order() {
        let cases =
            parse("# a comment\n\n= get\n+ kubectl create -f x\n$ kubectl get x\n= two\n$ true\n")
                .unwrap();
        let get = KubectlCase {
            name: "get".to_owned(),
            lines: vec![
                ScriptLine::Prepare("kubectl create -f x".to_owned()),
                ScriptLine::Compare("kubectl get x".to_owned()),
            ],
        };
        assert_eq!(cases[0], get);
        assert_eq!(cases[1].name, "two");
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        for (text, why) in [
            ("$ true", "line 1"),
            ("= Get\n$ true", "no name of a namespace"),
            ("= a\n$ true\n= a\n$ true", "line 3"),
            ("= a\nkubectl get", "line 2"),
            ("= a\n+ true", "a: compares nothing"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        for (text, why) in [
            ("a", "no reason"),
            ("a: ", "no reason"),
            ("a: b\na: c", "two rows"),
        ] {
            let error = AllowedCases::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_files_of_the_suite_are_well_formed() {
        let cases = parse(include_str!("../../../data/kubectl/cases.txt")).unwrap();
        assert!(cases.len() >= 134, "{}", cases.len());
        let allowed =
            AllowedCases::parse(include_str!("../../../data/kubectl/allowed.txt")).unwrap();
        assert_eq!(allowed.strays(&cases), Vec::<String>::new());
    }

    #[test]
    fn rows_without_a_case_are_found() {
        let cases = parse("= a\n$ true").unwrap();
        let allowed = AllowedCases::parse("a: why\nb: why").unwrap();
        assert_eq!(allowed.strays(&cases), ["b"]);
        assert_eq!(allowed.reason("a"), Some("why"));
    }
}
