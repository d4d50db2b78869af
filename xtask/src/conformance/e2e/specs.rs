//! The specs of upstream's e2e program: their names, which of them are run, and their outcome in ginkgo's JSON.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Lines of a failure that are shown.
const SHOWN_LINES: usize = 6;

/// The groups whose conformance specs run on `caretaker up`.
const GROUPS: [&str; 5] = [
    "[sig-api-machinery]",
    "[sig-apps]",
    "[sig-auth]",
    "[sig-cli]",
    "[sig-node]",
];

/// The beginnings of the names of specs about the controllers that ours replace.
const OUR_CONTROLLERS: [&str; 4] = [
    "[sig-api-machinery] Garbage collector",
    "[sig-apps] CronJob",
    "[sig-apps] TTLAfterFinished",
    "[sig-node] Pod garbage collector",
];

/// Characters with a meaning in a regular expression of Go.
const REGEX_MARKS: &str = r"\.+*?()|[]{}^$";

/// The outcome of one spec.
#[derive(Debug)]
pub(super) struct SpecReport {
    /// The texts of its containers and its own, as ginkgo joins them.
    pub(super) name: String,
    pub(super) state: SpecState,
    took: Duration,
    /// Why it failed or skipped itself.
    message: String,
}

/// The end of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpecState {
    /// It was chosen and not run.
    Listed,
    Passed,
    Failed,
    /// The spec found that it cannot run here.
    Skipped,
}

/// Specs that are not run, each by a part of its name and a reason.
#[derive(Debug)]
pub(super) struct SkipRows(Vec<(String, String)>);

/// A suite in ginkgo's report.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GinkgoSuite {
    spec_reports: Vec<GinkgoSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GinkgoSpec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    run_time: u64,
    failure: Option<GinkgoFailure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GinkgoFailure {
    #[serde(default)]
    message: String,
}

/// Reads the specs of a report, without the set-up of the suite.
pub(super) fn read(file: &Path) -> Result<Vec<SpecReport>> {
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let suites: Vec<GinkgoSuite> = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no report of ginkgo", file.display()))?;
    let specs = suites.into_iter().flat_map(|suite| suite.spec_reports);
    let specs = specs.filter(|spec| spec.leaf_node_type == "It");
    Ok(specs.map(SpecReport::from).collect())
}

/// Reports whether a spec is meant for `caretaker up`.
pub(super) fn is_for_up(name: &str) -> bool {
    name.contains("[Conformance]") && GROUPS.iter().any(|group| name.starts_with(group))
}

/// Reports whether a spec is about a controller that ours replace.
pub(super) fn is_about_our_controllers(name: &str) -> bool {
    OUR_CONTROLLERS.iter().any(|about| name.starts_with(about))
}

/// The regular expression that matches these specs. Ginkgo puts the description of the suite and a space before a name.
pub(super) fn focus(names: &[&str]) -> String {
    let escape = |name: &&str| {
        let mut escaped = String::new();
        for char in name.chars() {
            if REGEX_MARKS.contains(char) {
                escaped.push('\\');
            }
            escaped.push(char);
        }
        escaped
    };
    let names: Vec<String> = names.iter().map(escape).collect();
    format!(" ({})$", names.join("|"))
}

// === impl SpecReport ===

impl SpecReport {
    pub(super) fn listed(name: String) -> Self {
        Self {
            name,
            state: SpecState::Listed,
            took: Duration::ZERO,
            message: String::new(),
        }
    }
}

impl From<GinkgoSpec> for SpecReport {
    fn from(spec: GinkgoSpec) -> Self {
        let mut texts = spec.container_hierarchy_texts.unwrap_or_default();
        texts.push(spec.leaf_node_text);
        Self {
            name: texts.join(" "),
            state: match spec.state.as_str() {
                "passed" => SpecState::Passed,
                "skipped" | "pending" => SpecState::Skipped,
                _ => SpecState::Failed,
            },
            took: Duration::from_nanos(spec.run_time),
            message: spec
                .failure
                .map_or_else(String::new, |failure| failure.message),
        }
    }
}

impl fmt::Display for SpecReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, secs) = (self.state.word(), self.took.as_secs_f64());
        write!(f, "{word:<8}{secs:>5.0} s  {}", self.name)?;
        let lines = self.message.lines().filter(|line| !line.trim().is_empty());
        for line in lines.take(SHOWN_LINES) {
            write!(f, "\n                 {}", line.trim_end())?;
        }
        Ok(())
    }
}

// === impl SpecState ===

impl SpecState {
    fn word(self) -> &'static str {
        match self {
            Self::Listed => "chosen",
            Self::Passed => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

// === impl SkipRows ===

impl SkipRows {
    /// Parses rows of a name's part, a tab and a reason; `#` begins a comment.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let row = |line: &str| {
            let (part, reason) = line.split_once('\t')?;
            let is_whole = !part.trim().is_empty() && !reason.trim().is_empty();
            is_whole.then(|| (part.to_owned(), reason.to_owned()))
        };
        let rows: Result<Vec<_>> = lines
            .map(|line| {
                row(line).with_context(|| {
                    format!("a row needs a part of a name, a tab and a reason: {line:?}")
                })
            })
            .collect();
        Ok(Self(rows?))
    }

    /// The reason why a spec is not run.
    pub(super) fn reason(&self, name: &str) -> Option<&str> {
        let mut rows = self.0.iter();
        let (_, reason) = rows.find(|(part, _)| name.contains(part))?;
        Some(reason)
    }

    /// The rows that name no spec for `up`.
    pub(super) fn strays(&self, names: &[String]) -> Vec<String> {
        let is_stray = |part: &str| {
            !names
                .iter()
                .any(|name| is_for_up(name) && name.contains(part))
        };
        let parts = self.0.iter().map(|(part, _)| part);
        parts.filter(|part| is_stray(part)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"[{"SpecReports":[
        {"ContainerHierarchyTexts":null,"LeafNodeType":"SynchronizedBeforeSuite","LeafNodeText":"","State":"passed","RunTime":5},
        {"ContainerHierarchyTexts":["[sig-apps] Job","with x"],"LeafNodeType":"It","LeafNodeText":"ends [Conformance]","State":"passed","RunTime":2000000000},
        {"ContainerHierarchyTexts":["[sig-apps] CronJob"],"LeafNodeType":"It","LeafNodeText":"runs","State":"timedout","Failure":{"Message":"a\n\nb"}}
    ]}]"#;

    fn specs() -> Vec<SpecReport> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("report.json");
        fs::write(&file, REPORT).unwrap();
        read(&file).unwrap()
    }

    #[test]
    fn the_outcome_of_specs_is_read_from_ginkgos_report() {
        let lines: Vec<String> = specs().iter().map(SpecReport::to_string).collect();
        assert_eq!(
            lines[0],
            "ok          2 s  [sig-apps] Job with x ends [Conformance]"
        );
        let failed =
            "FAILED      0 s  [sig-apps] CronJob runs\n                 a\n                 b";
        assert_eq!(lines[1..], [failed]);
    }

    #[test]
    fn specs_are_chosen_by_group_and_subject() {
        let specs = specs();
        let chosen = |is_chosen: fn(&str) -> bool| {
            specs
                .iter()
                .map(|spec| is_chosen(&spec.name))
                .collect::<Vec<_>>()
        };
        assert_eq!(chosen(is_for_up), [true, false]);
        assert_eq!(chosen(is_about_our_controllers), [false, true]);
    }

    #[test]
    fn rows_have_a_reason_and_name_a_spec() {
        let rows =
            SkipRows::parse("# why\n\nJob with x\tneeds a container\nnope\tno spec\n").unwrap();
        let names: Vec<String> = specs().into_iter().map(|spec| spec.name).collect();
        assert_eq!(rows.reason(&names[0]), Some("needs a container"));
        assert_eq!(rows.reason(&names[1]), None);
        assert_eq!(rows.strays(&names), ["nope"]);
        for broken in ["no tab", "x\t", "\treason"] {
            assert!(SkipRows::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_focus_matches_names_as_they_are() {
        assert_eq!(focus(&["[a] b.c", "d"]), r" (\[a\] b\.c|d)$");
    }
}
