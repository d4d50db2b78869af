//! `docs/inputs.md` names tests: each of them must exist, and every row of the catalogue must be there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rows: by letter, so many.
const ROWS: [(char, usize); 5] = [('A', 24), ('G', 16), ('C', 20), ('P', 14), ('T', 13)];

fn rows() -> Vec<String> {
    let rows = ROWS
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number}")));
    rows.collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Everything that is called `fn` in Rust files below a directory.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).map(|rest| {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                rest[..end.unwrap_or(rest.len())].to_owned()
            });
            found.extend(names);
        }
    }
}

#[test]
fn every_row_of_the_catalogue_is_there_and_names_only_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/inputs.md")).unwrap();
    let mut known = BTreeSet::new();
    for directory in [
        "crates/caretaker",
        "crates/controllers",
        "crates/testbed",
        "crates/apiserver/src",
    ] {
        functions(&root().join(directory), &mut known);
    }
    let lines: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| {
            let mut letters = ROWS.iter().map(|(letter, _)| format!("| {letter}"));
            letters.any(|start| {
                let number = line.strip_prefix(&start);
                number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
            })
        })
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let ids: Vec<&str> = lines.iter().map(|cells| cells[0]).collect();
    assert_eq!(ids, rows());
    for cells in lines {
        let [id, happens, shown] = cells[..] else {
            panic!("{cells:?}: not three cells")
        };
        assert!(!happens.is_empty(), "{id}");
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(
            !names.is_empty() || shown.starts_with("not shown") || shown.starts_with("later"),
            "{id} names no test and does not say why"
        );
        for name in names {
            assert!(known.contains(name), "{id}: there is no {name}");
        }
    }
}
