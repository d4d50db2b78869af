//! The text files of a checkout, and which of their lines are tests.
//!
//! Git decides which files belong to the repository; where there is no git, for example in an unpacked archive, every
//! file but build output does. Files that are not UTF-8 hold no text and are left out.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// One text file.
#[derive(Debug)]
pub struct TextFile {
    /// Relative to the root of the repository, with `/` between its parts.
    pub path: String,
    pub text: String,
}

// === impl TextFile ===

impl TextFile {
    /// A file with this path and text.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Is this Rust source?
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Is the whole file compiled for tests only?
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || self.path.ends_with("tests.rs")
    }

    /// `machinery` for `crates/machinery/src/lib.rs`, `xtask` for `xtask/src/lib.rs`.
    pub fn crate_name(&self) -> &str {
        let below = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        below.split('/').next().unwrap_or(below)
    }

    /// The text before the test module; empty for a test file. Test modules are the last items of a file.
    pub fn shipped_text(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let marks = self.text.match_indices("#[cfg(test)]\nmod ");
        let is_inline = |at: &usize| {
            let rest = &self.text[*at..];
            rest.find(['{', ';'])
                .is_some_and(|end| rest[end..].starts_with('{'))
        };
        let end = marks.map(|(at, _)| at).find(is_inline);
        &self.text[..end.unwrap_or(self.text.len())]
    }
}

/// All text files below `root`, in the order of their paths.
pub fn read(root: &Path) -> Result<Vec<TextFile>> {
    let mut paths = match git_files(root) {
        Some(paths) => paths,
        None => walk(root, "")?,
    };
    paths.sort();
    paths.dedup();
    // A path that git knows may be gone from the disk.
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(TextFile::new(path, text))
    };
    Ok(paths.into_iter().filter_map(read).collect())
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let list = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let output = Command::new("git")
        .args(list)
        .current_dir(root)
        .output()
        .ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| names.split_terminator('\0').map(String::from).collect())
}

fn walk(root: &Path, below: &str) -> Result<Vec<String>> {
    let dir = root.join(below);
    let cannot_read = || format!("cannot read {}", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&dir).with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !["target", ".git"].contains(&name.as_str()) => {
                paths.extend(walk(root, &path)?);
            }
            Ok(kind) if kind.is_file() => paths.push(path),
            _ => {}
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_finds_sources_and_skips_build_output() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let walked = walk(root, "").unwrap();
        assert!(walked.contains(&"xtask/tests/tidy.rs".to_string()));
        let is_output = |path: &String| path.starts_with("target/") || path.starts_with(".git/");
        assert!(!walked.iter().any(is_output));
    }

    #[test]
    fn shipped_text_ends_at_the_test_module() {
        let text = "a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod more {\n}\n";
        let file = TextFile::new("crates/a/src/b.rs", text);
        assert_eq!(file.shipped_text(), "a\n#[cfg(test)]\nmod tests;\nb\n");
        assert_eq!(TextFile::new("a/tests/b.rs", text).shipped_text(), "");
    }
}
