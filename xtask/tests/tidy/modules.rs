//! Rules on which Rust files there are: every one is compiled, and stands where its name says.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{self, Token};
use crate::tree::{self, File, Finding};

pub(crate) fn mod_rs(files: &[File]) -> Vec<Finding> {
    let named = files.iter().filter(|file| file.path.ends_with("/mod.rs"));
    named
        .map(|file| file.finding(1, "move it to X.rs beside the directory X/"))
        .collect()
}

/// Rust files that no `mod` leads to: they look alive and are never compiled.
pub(crate) fn dead_modules(files: &[File]) -> Vec<Finding> {
    let rust: BTreeMap<&str, &File> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .map(|file| (file.path.as_str(), file))
        .collect();
    let packages: Vec<&str> = tree::members(files)
        .filter_map(|file| file.path.strip_suffix("Cargo.toml"))
        .collect();
    let is_root = |path: &str| is_crate_root(path, &packages);
    let mut open: Vec<String> = rust
        .keys()
        .filter(|path| is_root(path))
        .map(ToString::to_string)
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = open.pop() {
        if let Some(file) = rust.get(path.as_str())
            && reached.insert(path)
        {
            open.extend(modules_of(file, is_root(&file.path)));
        }
    }
    let dead = rust.values().filter(|file| !reached.contains(&file.path));
    dead.map(|file| file.finding(1, "no `mod` leads here: declare it or delete it"))
        .collect()
}

/// Returns whether cargo reads a crate of one of the `packages` from this file by default.
fn is_crate_root(path: &str, packages: &[&str]) -> bool {
    let inside = packages
        .iter()
        .filter_map(|package| path.strip_prefix(package));
    let mut parts = inside.map(|rest| rest.split('/').collect::<Vec<_>>());
    parts.any(|parts| {
        matches!(
            parts.as_slice(),
            ["build.rs"]
                | ["src", "lib.rs" | "main.rs"]
                | ["src", "bin", _]
                | ["src", "bin", _, "main.rs"]
                | ["benches" | "examples" | "tests", _]
                | ["benches" | "examples" | "tests", _, "main.rs"]
        )
    })
}

/// The files in which the modules stand that `file` declares.
fn modules_of(file: &File, is_root: bool) -> Vec<String> {
    let Ok(tokens) = tokens::lex(&file.text) else {
        return Vec::new();
    };
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let own = if is_root {
        ""
    } else {
        name.trim_end_matches(".rs")
    };
    let declared = |mark: &str| -> Vec<usize> {
        let wanted = |&at: &usize| {
            tokens[at].text == "mod" && tokens.get(at + 2).is_some_and(|next| next.text == mark)
        };
        (0..tokens.len()).filter(wanted).collect()
    };
    let inline = declared("{");
    let place = |at: usize| {
        if let Some(path) = path_attribute(&tokens[..at]) {
            return file.beside(path);
        }
        let around = inline
            .iter()
            .filter(|&&outer| outer < at && at < tokens[outer + 2].close);
        let around: String = around
            .map(|&outer| format!("{}/", tokens[outer + 1].text))
            .collect();
        file.beside(&format!("{own}/{around}{}.rs", tokens[at + 1].text))
    };
    declared(";").into_iter().map(place).collect()
}

/// The value of `#[path = "…"]` among the attributes that end `before` a module.
fn path_attribute(before: &[Token]) -> Option<&str> {
    let attributes = before
        .rsplit(|token| [";", "{", "}"].contains(&token.text.as_str()))
        .next()?;
    let at = (0..attributes.len()).find(|&at| tokens::reads(attributes, at, &["path", "="]))?;
    Some(attributes.get(at + 2)?.text.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check_rule;

    #[test]
    fn a_mod_rs_is_found() {
        let files = [("crates/a/src/b/mod.rs", ""), ("crates/a/src/b.rs", "")];
        check_rule(mod_rs, &files, &["crates/a/src/b/mod.rs:1"]);
    }

    #[test]
    fn a_file_no_module_declares_is_found() {
        let files = [
            ("crates/a/Cargo.toml", ""),
            (
                "crates/a/src/lib.rs",
                "pub mod b;\nmod c { mod d; }\n// mod dead;",
            ),
            (
                "crates/a/src/b.rs",
                "#[cfg(test)]\nmod tests;\n#[path = \"odd.rs\"]\nmod e;\nmod dead_not_here;",
            ),
            ("crates/a/src/b/tests.rs", ""),
            ("crates/a/src/c/d.rs", ""),
            ("crates/a/src/odd.rs", ""),
            ("crates/a/src/bin/load.rs", ""),
            ("crates/a/tests/all.rs", "mod part;"),
            ("crates/a/tests/part.rs", ""),
            ("crates/a/src/dead.rs", "mod deader;"),
            ("crates/a/src/dead/deader.rs", ""),
            ("crates/a/src/b/tests/lib.rs", ""),
        ];
        let dead = [
            "crates/a/src/b/tests/lib.rs:1",
            "crates/a/src/dead.rs:1",
            "crates/a/src/dead/deader.rs:1",
        ];
        check_rule(dead_modules, &files, &dead);
    }
}
