//! Measures the language of the repository: type names, banned words, empty doc comments, log calls, lines.
//!
//! `cargo xtask prose` prints the figures, of this checkout or of another one. The tidy tests apply the same functions
//! as rules.

pub mod files;
mod types;
pub mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::Result;

use files::TextFile;
use types::{TypeDefinition, TypeFigures};
use words::{BANNED_WORDS, WordFinding, comment_of, is_verb_of_telling};

/// Crates that are part of no release: the test harness, under its present and its former name, and this tool.
const UNSHIPPED: [&str; 3] = ["testbed", "sim", "xtask"];
const LOG_MACROS: [&str; 5] = ["trace!", "debug!", "info!", "warn!", "error!"];
const SPAN_MARKS: [&str; 7] = [
    "trace_span!",
    "debug_span!",
    "info_span!",
    "warn_span!",
    "error_span!",
    "tracing::span!",
    "instrument(",
];

/// The figures of one checkout.
#[derive(Debug)]
pub struct ProseReport {
    definitions: Vec<TypeDefinition>,
    banned: Vec<WordFinding>,
    crates: BTreeMap<String, CrateFigures>,
}

/// Counts for one crate, or for all of them. Comments are counted in test files too.
#[derive(Clone, Debug, Default)]
struct CrateFigures {
    comment_lines: usize,
    /// Occurrences of each banned word in comments, in the order of `BANNED_WORDS`.
    banned_words: [usize; BANNED_WORDS.len()],
    /// Occurrences of "tell" and "tells" in comments. They are not banned, because both have a plain meaning too.
    telling: usize,
    short_docs: usize,
    log_calls: usize,
    spans: usize,
    shipped_lines: usize,
    test_lines: usize,
}

// === impl ProseReport ===

impl ProseReport {
    /// Reads the checkout at `root`.
    pub fn of(root: &Path) -> Result<Self> {
        let mut report = Self {
            definitions: Vec::new(),
            banned: Vec::new(),
            crates: BTreeMap::new(),
        };
        for file in files::read(root)? {
            report.banned.extend(words::banned(&file));
            if file.is_rust() {
                report.definitions.extend(types::definitions(&file));
                let crate_name = file.crate_name().to_owned();
                report.crates.entry(crate_name).or_default().add(&file);
            }
        }
        Ok(report)
    }

    /// The type names that are defined more than once, with their places.
    pub fn shared_names(&self) -> String {
        let mut by_name: BTreeMap<&str, Vec<&TypeDefinition>> = BTreeMap::new();
        for definition in &self.definitions {
            by_name
                .entry(&definition.name)
                .or_default()
                .push(definition);
        }
        let mut shared: Vec<_> = by_name
            .into_iter()
            .filter(|(_, places)| places.len() > 1)
            .collect();
        shared.sort_by_key(|(name, places)| (usize::MAX - places.len(), *name));
        let mut text = String::new();
        for (name, places) in shared {
            text.push_str(&format!("{name} {}\n", places.len()));
            for place in places {
                text.push_str(&format!(
                    "    {}:{} {}\n",
                    place.path, place.line, place.keyword
                ));
            }
        }
        text
    }

    /// Every place of a banned word, one a line: comments, strings, identifiers and pages.
    pub fn banned_places(&self) -> String {
        let places = self.banned.iter();
        places
            .map(|found| format!("{}:{}: {}\n", found.path, found.line, found.word))
            .collect()
    }
}

impl fmt::Display for ProseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = CrateFigures::default();
        for figures in self.crates.values() {
            all.merge(figures);
        }
        let types = TypeFigures::of(&self.definitions, |_| true);
        let proper = TypeFigures::of(&self.definitions, |one| !one.is_associated);
        writeln!(f, "{types}\n{proper}, without associated types")?;
        let banned: usize = all.banned_words.iter().sum();
        writeln!(
            f,
            "{banned} banned words in {} comment lines{}; with tell and tells {}",
            all.comment_lines,
            all.words_by_count(),
            banned + all.telling
        )?;
        let files: BTreeSet<&str> = self.banned.iter().map(|one| one.path.as_str()).collect();
        writeln!(
            f,
            "{} banned words in comments, strings, identifiers and pages of {} files",
            self.banned.len(),
            files.len()
        )?;
        writeln!(f, "{} doc comments of one or two words", all.short_docs)?;
        writeln!(
            f,
            "{} log calls and {} spans in shipped code",
            all.log_calls, all.spans
        )?;
        writeln!(
            f,
            "{} lines outside tests, {} of tests\n",
            all.shipped_lines, all.test_lines
        )?;
        writeln!(
            f,
            "crate          types  shared  words  banned  short docs   logs  spans   lines  of tests"
        )?;
        for (name, figures) in &self.crates {
            let types = TypeFigures::of(&self.definitions, |definition| definition.is_in(name));
            writeln!(
                f,
                "{name:<13} {:>6} {:>6.0}% {:>6.2} {:>7} {:>11} {:>6} {:>6} {:>7} {:>9}",
                types.count,
                types.shared_percent(),
                types.words_per_name(),
                figures.banned_words.iter().sum::<usize>(),
                figures.short_docs,
                figures.log_calls,
                figures.spans,
                figures.shipped_lines,
                figures.test_lines
            )?;
        }
        Ok(())
    }
}

// === impl CrateFigures ===

impl CrateFigures {
    fn add(&mut self, file: &TextFile) {
        for comment in file.text.lines().filter_map(comment_of) {
            self.comment_lines += 1;
            for (count, word) in self.banned_words.iter_mut().zip(BANNED_WORDS) {
                *count += words::occurrences(comment, word);
            }
            self.telling += comment
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| is_verb_of_telling(word))
                .count();
        }
        self.short_docs += words::short_docs(file).len();
        let shipped = file.shipped_text();
        let shipped_lines = shipped.lines().count();
        self.shipped_lines += shipped_lines;
        self.test_lines += file.text.lines().count() - shipped_lines;
        if !UNSHIPPED.contains(&file.crate_name()) {
            self.log_calls += occurrences_in_code(shipped, &LOG_MACROS);
            self.spans += occurrences_in_code(shipped, &SPAN_MARKS);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.comment_lines += other.comment_lines;
        for (count, more) in self.banned_words.iter_mut().zip(other.banned_words) {
            *count += more;
        }
        self.telling += other.telling;
        self.short_docs += other.short_docs;
        self.log_calls += other.log_calls;
        self.spans += other.spans;
        self.shipped_lines += other.shipped_lines;
        self.test_lines += other.test_lines;
    }

    /// ` (word 3, other 1)`, the most frequent first; empty without any.
    fn words_by_count(&self) -> String {
        let mut counts: Vec<(usize, &str)> =
            self.banned_words.into_iter().zip(BANNED_WORDS).collect();
        counts.retain(|(count, _)| *count > 0);
        counts.sort_by_key(|(count, _)| usize::MAX - count);
        let counts: Vec<String> = counts
            .iter()
            .map(|(count, word)| format!("{word} {count}"))
            .collect();
        if counts.is_empty() {
            return String::new();
        }
        format!(" ({})", counts.join(", "))
    }
}

/// Occurrences of the marks at the beginning of a word, outside comment lines.
fn occurrences_in_code(text: &str, marks: &[&str]) -> usize {
    let code = text.lines().filter(|line| comment_of(line).is_none());
    let begins = |line: &str, at: usize| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '"')
    };
    code.map(|line| {
        let hits = marks.iter().flat_map(|mark| line.match_indices(mark));
        hits.filter(|(at, _)| begins(line, *at)).count()
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_logs_spans_comments_and_lines() {
        let text = "// tells\nfn a() {\n    tracing::warn!(x);\n    my_warn!(x);\n    // info!(x)\n    let s = info_span!(\"a\");\n}\n#[cfg(test)]\nmod tests {\n    error!();\n}\n";
        let mut figures = CrateFigures::default();
        figures.add(&TextFile::new("crates/machinery/src/a.rs", text));
        assert_eq!((figures.log_calls, figures.spans), (1, 1));
        assert_eq!((figures.comment_lines, figures.telling), (2, 1));
        assert_eq!((figures.shipped_lines, figures.test_lines), (7, 4));
        let mut unshipped = CrateFigures::default();
        unshipped.add(&TextFile::new("xtask/src/a.rs", text));
        assert_eq!((unshipped.log_calls, unshipped.spans), (0, 0));
    }
}
