//! The files that the rules look at, and the findings of a rule.

use std::fmt;
use std::path::{Path, PathBuf};

/// Holds one text file of the repository.
pub(crate) struct File {
    /// Relative to the root of the repository, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Holds where a rule is broken and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    pub(crate) line: usize,
    advice: String,
}

// === impl File ===

impl File {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    pub(crate) fn finding(&self, line: usize, advice: impl Into<String>) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            advice: advice.into(),
        }
    }

    /// The lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The path that this file means by `relative`, as a link or a `#[path]` does.
    pub(crate) fn beside(&self, relative: &str) -> String {
        let mut parts: Vec<&str> = self.path.split('/').collect();
        parts.pop();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => _ = parts.pop(),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }

    /// The names in backquotes that begin the rows of a page's tables, with their lines.
    pub(crate) fn first_column(&self) -> impl Iterator<Item = (&str, usize)> {
        self.lines().filter_map(|(number, line)| {
            let (name, _) = line.strip_prefix("| `")?.split_once('`')?;
            Some((name, number))
        })
    }
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.advice)
    }
}

/// All text files of the repository, in the order of their paths.
pub(crate) fn files() -> Vec<File> {
    let files = xtask::prose::files::read(&root()).expect("the repository is readable");
    files
        .into_iter()
        .map(|file| File::new(file.path, file.text))
        .collect()
}

/// Directories that exist only on this machine: the one that holds the checkout, and the home directory.
///
/// A directory directly below `/` says too little: with a checkout in `/api`, every API path would be a finding.
pub(crate) fn places_of_this_machine() -> Vec<String> {
    let checkout = root().parent().map(Path::to_path_buf);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = [checkout, home].into_iter().flatten();
    places
        .filter(|place| place.is_absolute() && place.components().count() > 2)
        .map(|place| place.display().to_string())
        .collect()
}

/// The file with this path.
pub(crate) fn find<'a>(files: &'a [File], path: &str) -> Option<&'a File> {
    files.iter().find(|file| file.path == path)
}

/// The manifests of the crates, without the one of the workspace.
pub(crate) fn members(files: &[File]) -> impl Iterator<Item = &File> {
    files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
}

pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask
        .parent()
        .expect("xtask is a directory of the repository")
        .to_path_buf()
}

/// Shows `rule` files made of pairs of path and text, and compares where it finds something, as `path:line`.
#[cfg(test)]
pub(crate) fn check_rule(
    rule: fn(&[File]) -> Vec<Finding>,
    files: &[(&str, &str)],
    expected: &[&str],
) {
    let files: Vec<File> = files
        .iter()
        .map(|(path, text)| File::new(*path, *text))
        .collect();
    let found = rule(&files);
    let places: Vec<String> = found
        .iter()
        .map(|one| format!("{}:{}", one.path, one.line))
        .collect();
    assert_eq!(places, expected, "{found:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_starts_with_a_place_an_editor_can_open() {
        let finding = File::new("a.rs", "").finding(3, "shorten it");
        assert_eq!(finding.to_string(), "a.rs:3: shorten it");
    }
}
