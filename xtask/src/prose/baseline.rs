//! The findings that files had when a rule of prose was introduced. They may only become fewer.
//!
//! `xtask/prose-baseline.txt` holds a line `RULE COUNT PATH` for each file that still breaks a rule. A file with more
//! findings than its line breaks the rule. A file with fewer passes, so that parallel changes need not touch the
//! baseline; `cargo xtask prose --baseline` lowers the counts. A moved file takes its findings along: the counts of
//! files that no longer exist are lent to files that exceed theirs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::files::{self, TextFile};
use super::words;

/// The path of the baseline, relative to the root of the repository.
const BASELINE_PATH: &str = "xtask/prose-baseline.txt";

/// A rule whose findings have a baseline.
#[derive(Clone, Copy, Debug)]
pub struct ProseRule {
    pub name: &'static str,
    advice: &'static str,
    /// The lines of a file that break the rule.
    find: fn(&TextFile) -> Vec<usize>,
}

/// Words that hide who acts.
pub const BANNED_WORD_RULE: ProseRule = ProseRule {
    name: "banned-word",
    advice: "this line has a banned word (xtask/src/prose/words.rs lists them): name the actor, or use the field's verb",
    find: |file| words::banned(file).iter().map(|one| one.line).collect(),
};

/// Doc comments that say nothing.
pub const SHORT_DOC_RULE: ProseRule = ProseRule {
    name: "short-doc",
    advice: "a doc comment of one or two words: say something a reader cannot guess, or remove it",
    find: |file| {
        if file.is_rust() {
            words::short_docs(file)
        } else {
            Vec::new()
        }
    },
};

/// The allowed number of findings by rule and path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProseBaseline(BTreeMap<(String, String), usize>);

// === impl ProseBaseline ===

impl ProseBaseline {
    /// Reads the baseline of the checkout at `root`. A checkout without the file allows nothing.
    pub fn load(root: &Path) -> Result<Self> {
        let path = root.join(BASELINE_PATH);
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let row = |line: &str| {
            let mut parts = line.splitn(3, ' ');
            let (rule, count, path) = (parts.next()?, parts.next()?, parts.next()?);
            Some(((rule.to_owned(), path.to_owned()), count.parse().ok()?))
        };
        let rows = text.lines().filter(|line| !line.starts_with('#'));
        rows.map(|line| row(line).with_context(|| format!("{BASELINE_PATH}: cannot read {line:?}")))
            .collect::<Result<_>>()
            .map(Self)
    }

    fn format(&self) -> String {
        let head = "# Findings that are still allowed: RULE COUNT PATH. Lowered by `cargo xtask prose --baseline`.\n";
        let rows = self.0.iter();
        let rows = rows.map(|((rule, path), count)| format!("{rule} {count} {path}\n"));
        head.to_owned() + &rows.collect::<String>()
    }

    fn allowed(&self, rule: &str, path: &str) -> usize {
        let key = (rule.to_owned(), path.to_owned());
        self.0.get(&key).copied().unwrap_or(0)
    }

    /// The findings that the baseline does not allow, each as `path:line: advice`. A file that exceeds its count is
    /// listed with all its findings, since the baseline does not say which of them are new.
    pub fn check(&self, rule: ProseRule, files: &[TextFile]) -> Vec<String> {
        let rows = self.0.iter().filter(|((name, _), _)| name == rule.name);
        let is_gone = |path: &str| !files.iter().any(|file| file.path == path);
        let lent: usize = rows
            .filter(|((_, path), _)| is_gone(path))
            .map(|(_, count)| count)
            .sum();
        let mut exceeding = 0;
        let mut findings = Vec::new();
        for file in files {
            let lines = (rule.find)(file);
            let allowed = self.allowed(rule.name, &file.path);
            if lines.len() > allowed {
                exceeding += lines.len() - allowed;
                let place =
                    |line| format!("{}:{line}: {} ({allowed} allowed)", file.path, rule.advice);
                findings.extend(lines.into_iter().map(place));
            }
        }
        if exceeding <= lent {
            findings.clear();
        }
        findings
    }

    /// The baseline that allows exactly what the files have.
    fn of(files: &[TextFile]) -> Self {
        let mut counts = BTreeMap::new();
        for rule in [BANNED_WORD_RULE, SHORT_DOC_RULE] {
            for file in files {
                let count = (rule.find)(file).len();
                if count > 0 {
                    counts.insert((rule.name.to_owned(), file.path.clone()), count);
                }
            }
        }
        Self(counts)
    }
}

/// Rewrites the baseline of the checkout at `root` to its present findings. Refuses where findings were added.
pub fn lower(root: &Path) -> Result<()> {
    let files = files::read(root)?;
    let old = ProseBaseline::load(root)?;
    let path = root.join(BASELINE_PATH);
    if path.exists() {
        let added: Vec<String> = [BANNED_WORD_RULE, SHORT_DOC_RULE]
            .into_iter()
            .flat_map(|rule| old.check(rule, &files))
            .collect();
        if !added.is_empty() {
            bail!("the baseline may only fall:\n{}", added.join("\n"));
        }
    }
    let text = ProseBaseline::of(&files).format();
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Vec<TextFile> {
        let pairs = pairs.iter();
        pairs
            .map(|(path, text)| TextFile::new(*path, *text))
            .collect()
    }

    #[test]
    fn more_findings_than_the_baseline_are_refused_and_fewer_pass() {
        let (one, two) = ("/// Why.\na\n", "/// Why.\na\n/// Who.\nb\n");
        let baseline = ProseBaseline::of(&files(&[("a.rs", one)]));
        assert_eq!(ProseBaseline::parse(&baseline.format()).unwrap(), baseline);
        let check = |pairs: &[(&str, &str)]| baseline.check(SHORT_DOC_RULE, &files(pairs)).len();
        assert_eq!(check(&[("a.rs", one)]), 0);
        assert_eq!(check(&[("a.rs", "")]), 0);
        assert_eq!(check(&[("a.rs", two)]), 2);
        assert_eq!(check(&[("a.rs", one), ("b.rs", one)]), 1);
        // Moved, and moved with one more.
        assert_eq!(check(&[("b.rs", one)]), 0);
        assert_eq!(check(&[("b.rs", two)]), 2);
    }

    #[test]
    fn each_rule_finds_its_counterexample() {
        let text = format!("/// {}.\n", words::BANNED_WORDS[0]);
        let files = files(&[("a.rs", &text)]);
        for rule in [BANNED_WORD_RULE, SHORT_DOC_RULE] {
            assert_eq!(
                ProseBaseline::default().check(rule, &files).len(),
                1,
                "{}",
                rule.name
            );
        }
    }

    #[test]
    fn the_baseline_is_lowered_and_never_raised() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("xtask")).unwrap();
        let write = |text: &str| fs::write(root.join("a.rs"), text).unwrap();
        let rows = || {
            ProseBaseline::load(root)
                .unwrap()
                .allowed("short-doc", "a.rs")
        };
        write("/// Why.\na\n/// Who.\nb\n");
        lower(root).unwrap();
        assert_eq!(rows(), 2);
        write("/// Why.\na\n");
        lower(root).unwrap();
        assert_eq!(rows(), 1);
        write("/// Why.\na\n/// Who.\nb\n");
        let refusal = lower(root).unwrap_err().to_string();
        assert!(refusal.contains("a.rs:3: "), "{refusal}");
        assert_eq!(rows(), 1);
    }
}
