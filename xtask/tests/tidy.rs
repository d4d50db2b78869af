//! The rules of this repository that a machine can check, as tests.
//!
//! Each test below applies one rule to every file that git knows or would add. A rule is a pure function of paths and
//! texts in a file of `tidy/` or of the library, beside a test with a counterexample: a rule that cannot fail is not a
//! rule. Rules that clippy has are left to clippy.

#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/proofs.rs"]
mod proofs;
#[path = "tidy/text.rs"]
mod text;
#[path = "tidy/tokens.rs"]
mod tokens;
#[path = "tidy/tree.rs"]
mod tree;

use code::Source;
use tree::{File, Finding};
use xtask::prose::files::TextFile;
use xtask::prose::words;

#[test]
fn files_are_short_enough() {
    check_sources(code::file_length);
}

#[test]
fn functions_are_short_enough() {
    check_sources(code::function_length);
}

#[test]
fn nothing_banned_is_used() {
    check_sources(code::banned_items);
}

#[test]
fn every_select_is_biased() {
    check_sources(code::unbiased_select);
}

#[test]
fn tasks_start_only_in_their_homes() {
    check_sources(code::stray_tasks);
}

#[test]
fn every_test_can_fail() {
    check_sources(code::empty_tests);
}

#[test]
fn no_file_is_called_mod_rs() {
    check_tree(modules::mod_rs);
}

#[test]
fn every_rust_file_belongs_to_a_crate() {
    check_tree(modules::dead_modules);
}

#[test]
fn every_page_is_linked_and_every_link_leads_somewhere() {
    check_tree(pages::links);
}

#[test]
fn every_deviation_is_listed_and_every_listed_one_exists() {
    check_tree(pages::deviations);
}

#[test]
fn every_bad_input_names_tests_that_exist() {
    check_tree(proofs::inputs);
}

#[test]
fn every_safety_rule_names_tests_that_exist() {
    check_tree(proofs::safety);
}

#[test]
fn every_dependency_is_explained_and_used() {
    check_tree(crates::dependencies);
}

#[test]
fn every_dependency_names_the_crates_that_use_it() {
    check_tree(crates::dependency_users);
}

#[test]
fn the_strict_crates_share_one_clippy_toml() {
    check_tree(crates::strict_clippy);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    check_tree(crates::workspace_lints);
}

#[test]
fn no_file_names_a_place_on_this_machine() {
    let places = tree::places_of_this_machine();
    check_tree(|files| {
        files
            .iter()
            .flat_map(|file| text::machine_paths(file, &places))
            .collect()
    });
}

#[test]
fn no_file_names_a_package_registry() {
    check_tree(|files| files.iter().flat_map(text::registry_hosts).collect());
}

#[test]
fn no_file_has_banned_words() {
    check_prose(
        "a banned word (xtask/src/prose/words.rs lists them): name the actor, or use the field's verb",
        |file| words::banned(file).iter().map(|one| one.line).collect(),
    );
}

#[test]
fn no_doc_comment_has_one_or_two_words() {
    check_prose(
        "a doc comment of one or two words: say something a reader cannot guess, or remove it",
        |file| {
            if file.is_rust() {
                words::short_docs(file)
            } else {
                Vec::new()
            }
        },
    );
}

#[test]
fn public_items_have_doc_comments() {
    check_sources(code::undocumented_items);
}

/// The rules of prose are in the library, because `cargo xtask prose` applies them too; so are their counterexamples.
fn check_prose(advice: &str, find: fn(&TextFile) -> Vec<usize>) {
    let files = xtask::prose::files::read(&tree::root()).expect("the repository is readable");
    let place = |file: &TextFile, line| format!("{}:{line}: {advice}", file.path);
    let findings = files
        .iter()
        .flat_map(|file| find(file).into_iter().map(|line| place(file, line)));
    let findings: Vec<String> = findings.collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

fn check_sources(rule: fn(&Source) -> Vec<Finding>) {
    check_tree(|files| {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        rust.flat_map(|file| {
            Source::read(file).map_or_else(|broken| vec![broken], |source| rule(&source))
        })
        .collect()
    });
}

fn check_tree(rule: impl Fn(&[File]) -> Vec<Finding>) {
    let files = tree::files();
    assert!(
        files.len() > 20,
        "only {} files found: is this the whole repository?",
        files.len()
    );
    let findings: Vec<String> = rule(&files).iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}
