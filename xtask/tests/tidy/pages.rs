//! Rules on the pages: each is linked, links lead somewhere, and the list of deviations is the one in the code.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{self, File, Finding};

/// Marks a difference from Kubernetes in a comment; its name follows in brackets, then a colon and the reason.
const MARK: &str = "DEVIATION";

const DEVIATIONS_PAGE: &str = "docs/deviations.md";

/// Links that lead nowhere, and pages below `docs/` to which no other page links.
pub(crate) fn links(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut linked = BTreeSet::new();
    for page in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links_of(page) {
            let below = format!("{target}/");
            if !files
                .iter()
                .any(|file| file.path == target || file.path.starts_with(&below))
            {
                findings
                    .push(page.finding(line, format!("`{target}` does not exist: mend the link")));
            }
            if target != page.path {
                linked.insert(target);
            }
        }
    }
    let pages = files.iter().filter(|file| file.path.starts_with("docs/"));
    let lost = pages.filter(|file| !linked.contains(&file.path));
    findings.extend(lost.map(|file| {
        file.finding(
            1,
            "no page links here: link it from README.md or another page",
        )
    }));
    findings
}

pub(crate) fn deviations(files: &[File]) -> Vec<Finding> {
    let Some(page) = tree::find(files, DEVIATIONS_PAGE) else {
        return vec![
            File::new(DEVIATIONS_PAGE, "")
                .finding(1, "write this page: every deviation is listed in it"),
        ];
    };
    let mut findings = Vec::new();
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, line) in page.first_column() {
        if let Some(first) = listed.insert(name, line) {
            let advice = format!("line {first} has a row for `{name}` already: keep one of them");
            findings.push(page.finding(line, advice));
        }
    }
    let mut marked = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (number, line) in file.lines() {
            let advice = match deviation_of(line) {
                None => continue,
                Some("") => format!("name it: `// {MARK}(some-name): why`"),
                Some(name) if listed.contains_key(name) => {
                    marked.insert(name);
                    continue;
                }
                Some(name) => format!("add a row for `{name}` to {DEVIATIONS_PAGE}"),
            };
            findings.push(file.finding(number, advice));
        }
    }
    let unmarked = listed.iter().filter(|(name, _)| !marked.contains(*name));
    let advice = |name| format!("no comment in the code marks `{name}`: mark it or remove the row");
    findings.extend(unmarked.map(|(name, line)| page.finding(*line, advice(name))));
    findings
}

/// The name of the difference that a line marks, empty if it marks one without a name.
fn deviation_of(line: &str) -> Option<&str> {
    let (_, after) = line.split_once(MARK)?;
    let named = after
        .strip_prefix('(')
        .and_then(|rest| rest.split_once("):"));
    match named {
        Some((name, _)) => Some(name),
        None => after.starts_with([':', '(']).then_some(""),
    }
}

/// The places in the repository to which a page links, with the lines of the links.
fn links_of(page: &File) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in page.lines() {
        for after in line.split("](").skip(1) {
            let target = after.split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                links.push((number, page.beside(target)));
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check_rule;

    #[test]
    fn a_lost_page_and_a_dead_link_are_found() {
        let files = [
            (
                "README.md",
                "[a](docs/a.md#part) [web](https://example.com)\n[gone](docs/gone.md) [code](crates/)",
            ),
            ("crates/a/Cargo.toml", ""),
            ("docs/a.md", "[up](../README.md), [b](./adr/b.md)"),
            ("docs/adr/b.md", "[self](b.md)"),
            ("docs/lost.md", "[self](lost.md)"),
        ];
        check_rule(links, &files, &["README.md:2", "docs/lost.md:1"]);
    }

    #[test]
    fn deviations_in_code_and_on_the_page_have_to_agree() {
        let page = (
            DEVIATIONS_PAGE,
            "| name | why |\n|---|---|\n| `known` | a |\n| `gone` | b |\n| `known` | c |",
        );
        let code = format!(
            "//! {MARK}(known): why\n// {MARK}(new): why\n// {MARK}: why\nconst {MARK}S: u8 = 1;"
        );
        let files = [page, ("crates/a/src/b.rs", code.as_str())];
        check_rule(
            deviations,
            &files,
            &[
                "docs/deviations.md:5",
                "crates/a/src/b.rs:2",
                "crates/a/src/b.rs:3",
                "docs/deviations.md:4",
            ],
        );
        check_rule(deviations, &files[1..], &["docs/deviations.md:1"]);
    }
}
