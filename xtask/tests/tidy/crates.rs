//! Rules on manifests: dependencies have a reason, and every crate lives under the same lints.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{self, File, Finding};

/// Crates in which the same seed must give the same bytes.
const STRICT_CRATES: &[&str] = &[
    "apiserver",
    "controllers",
    "machinery",
    "simulator",
    "testbed",
];

const DEPENDENCIES_PAGE: &str = "docs/dependencies.md";

/// Holds one line of a manifest that names a dependency.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    /// The rest of the line after the name.
    rest: &'a str,
    is_for_tests: bool,
}

/// Dependencies of others stand in three places that have to agree: the workspace, a crate, and the page of reasons.
pub(crate) fn dependencies(files: &[File]) -> Vec<Finding> {
    let (Some(workspace), Some(page)) = (
        tree::find(files, "Cargo.toml"),
        tree::find(files, DEPENDENCIES_PAGE),
    ) else {
        return vec![
            File::new(DEPENDENCIES_PAGE, "")
                .finding(1, "write this page: every dependency is explained in it"),
        ];
    };
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for manifest in tree::members(files) {
        for dependency in dependencies_of(manifest) {
            used.insert(dependency.name);
            if !dependency.rest.contains("workspace = true") {
                let advice = format!(
                    "move the version of `{}` to the workspace's Cargo.toml",
                    dependency.name
                );
                findings.push(manifest.finding(dependency.line, advice));
            }
        }
    }
    let explained: BTreeMap<&str, usize> = page.first_column().collect();
    let mut known = BTreeSet::new();
    for Dependency {
        line, name, rest, ..
    } in dependencies_of(workspace)
    {
        if rest.contains("path =") {
            continue;
        }
        known.insert(name);
        if !explained.contains_key(name) {
            findings.push(workspace.finding(
                line,
                format!("say in {DEPENDENCIES_PAGE} what `{name}` saves us"),
            ));
        }
        if !used.contains(name) {
            findings.push(workspace.finding(line, format!("no crate uses `{name}`: remove it")));
        }
    }
    let gone = explained.iter().filter(|(name, _)| !known.contains(*name));
    findings.extend(gone.map(|(name, line)| {
        page.finding(
            *line,
            format!("`{name}` is not a dependency: remove its row"),
        )
    }));
    findings
}

/// The last column of the page of reasons names exactly the crates that use a dependency.
pub(crate) fn dependency_users(files: &[File]) -> Vec<Finding> {
    let Some(page) = tree::find(files, DEPENDENCIES_PAGE) else {
        return Vec::new();
    };
    let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for for_tests in [false, true] {
        for manifest in tree::members(files) {
            let crate_name = manifest.path.rsplit('/').nth(1).unwrap_or_default();
            let named = dependencies_of(manifest).filter(|one| one.is_for_tests == for_tests);
            for Dependency { name, .. } in named {
                let known = users.entry(name).or_default();
                if !known.iter().any(|known| known == crate_name) {
                    let prefix = if for_tests { "tests of " } else { "" };
                    known.push(format!("{prefix}{crate_name}"));
                }
            }
        }
    }
    let mut findings = Vec::new();
    for (name, line) in page.first_column() {
        let row = page.lines().nth(line - 1).map_or("", |(_, text)| text);
        let found = row.trim_end_matches('|').rsplit('|').next();
        let expected = users.get(name).map(|users| users.join(", "));
        if expected.as_deref() != found.map(str::trim) {
            let expected = expected.unwrap_or_default();
            let advice = format!("the last column of `{name}` must be: {expected}");
            findings.push(page.finding(line, advice));
        }
    }
    findings
}

pub(crate) fn strict_clippy(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut first: Option<&File> = None;
    for name in STRICT_CRATES {
        let path = format!("crates/{name}/clippy.toml");
        match (tree::find(files, &path), first) {
            (None, _) => findings.push(
                File::new(path, "").finding(1, "a strict crate needs this file: copy a sibling's"),
            ),
            (Some(file), None) => first = Some(file),
            (Some(file), Some(first)) if file.text != first.text => {
                let differs = file
                    .lines()
                    .zip(first.text.lines())
                    .find(|((_, ours), theirs)| ours != theirs);
                let line = differs.map_or(1, |((line, _), _)| line);
                findings.push(file.finding(
                    line,
                    format!("differs from {}: make them the same", first.path),
                ));
            }
            (Some(_), Some(_)) => {}
        }
    }
    findings
}

pub(crate) fn workspace_lints(files: &[File]) -> Vec<Finding> {
    let without =
        tree::members(files).filter(|file| !file.text.contains("\n[lints]\nworkspace = true\n"));
    without
        .map(|file| file.finding(1, "add `[lints]` with `workspace = true`"))
        .collect()
}

fn dependencies_of(manifest: &File) -> impl Iterator<Item = Dependency<'_>> {
    let (mut in_section, mut is_for_tests) = (false, false);
    manifest.lines().filter_map(move |(line, text)| {
        if text.starts_with('[') {
            in_section = text.ends_with("dependencies]");
            is_for_tests = text.contains("dev-dependencies");
            let (_, name) = text.trim_end_matches(']').split_once("dependencies.")?;
            return Some(Dependency {
                line,
                name,
                rest: "",
                is_for_tests,
            });
        }
        let (name, rest) = text.split_at(text.find(['.', ' ', '='])?);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
        (in_section && is_name).then_some(Dependency {
            line,
            name,
            rest,
            is_for_tests,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check_rule;

    #[test]
    fn dependencies_have_to_be_explained_and_used_and_to_come_from_the_workspace() {
        let root = "[workspace.dependencies]\nours = { path = \"crates/ours\" }\n\nknown = \"1\"\n# a comment = 1\n\
                    unused = \"1\"\nunexplained = \"1\"\n[profile.dev]\ndebug = 1";
        let member = "[package]\nname = \"a\"\n[dependencies]\nknown.workspace = true\n\
                      unexplained = { workspace = true, features = [\"b\"] }\n[dev-dependencies]\nown = \"1\"\n\
                      [target.'cfg(unix)'.dependencies.table]\nversion = \"1\"";
        let page = "| `known` | a |\n| `unused` | a |\n| `gone` | a |";
        let files = [
            ("Cargo.toml", root),
            ("crates/a/Cargo.toml", member),
            (DEPENDENCIES_PAGE, page),
        ];
        let expected = [
            "crates/a/Cargo.toml:7",
            "crates/a/Cargo.toml:8",
            "Cargo.toml:6",
            "Cargo.toml:7",
            "docs/dependencies.md:3",
        ];
        check_rule(dependencies, &files, &expected);
        check_rule(dependencies, &files[..2], &["docs/dependencies.md:1"]);
    }

    #[test]
    fn a_page_that_names_other_users_of_a_dependency_is_found() {
        let a = "[dependencies]\nx.workspace = true\n[dev-dependencies]\nx.workspace = true\ny.workspace = true";
        let b = "[dev-dependencies]\nx.workspace = true\n[target.'cfg(unix)'.dependencies]\ny.workspace = true";
        let page = "| `x` | why | a, tests of b |\n| `y` | why | b, tests of a |\n| `x` | why | a |\n| `z` | why | a |";
        let files = [
            ("Cargo.toml", ""),
            ("crates/a/Cargo.toml", a),
            ("crates/b/Cargo.toml", b),
            (DEPENDENCIES_PAGE, page),
        ];
        let expected = ["docs/dependencies.md:3", "docs/dependencies.md:4"];
        check_rule(dependency_users, &files, &expected);
    }

    #[test]
    fn a_strict_crate_with_another_clippy_toml_or_none_is_found() {
        let path = |name: &str| format!("crates/{name}/clippy.toml");
        let mut files: Vec<File> = STRICT_CRATES
            .iter()
            .map(|name| File::new(path(name), "a = 1\nb = 2\n"))
            .collect();
        assert_eq!(strict_clippy(&files), []);

        files[1].text = "a = 1\nb = 3\n".to_string();
        let gone = files.pop().unwrap();
        let found: Vec<String> = strict_clippy(&files)
            .iter()
            .map(Finding::to_string)
            .collect();
        assert_eq!(found.len(), 2);
        assert!(
            found[0].starts_with(&format!("{}:2: ", files[1].path)),
            "{found:?}"
        );
        assert!(
            found[1].starts_with(&format!("{}:1: ", gone.path)),
            "{found:?}"
        );
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        let files = [
            ("Cargo.toml", "[workspace]"),
            (
                "crates/a/Cargo.toml",
                "[package]\n\n[lints]\nworkspace = true\n",
            ),
            (
                "crates/b/Cargo.toml",
                "[package]\n\n[lints.rust]\nunsafe_code = \"allow\"\n",
            ),
        ];
        check_rule(workspace_lints, &files, &["crates/b/Cargo.toml:1"]);
    }
}
