//! Rules on the two pages that name tests as proof, `docs/safety.md` and `docs/inputs.md`.
//!
//! A test that a page names must be a test: a function with a `test` attribute, or a named case of a suite. Every row
//! of the catalogues must be there, and must name a test or say that none exists.

use std::collections::BTreeSet;

use crate::code::is_test_attribute;
use crate::tokens::{self, Token};
use crate::tree::{self, File, Finding};

const INPUTS_PAGE: &str = "docs/inputs.md";
const SAFETY_PAGE: &str = "docs/safety.md";

/// The numbered rows of `docs/inputs.md`: the letter of the table and its last number.
const INPUT_ROWS: &[(char, usize)] = &[('A', 24), ('G', 16), ('C', 20), ('P', 14), ('T', 13)];

/// The last safety rule; `docs/safety.md` has a section for each from S1 on.
const SAFETY_RULES: usize = 15;

/// The header of the last column in a table whose rows name tests.
const PROOF_COLUMN: &str = "shown by";

/// Macros whose arguments are named cases of a suite.
const CASE_MACROS: &[&str] = &[
    "api_case",
    "case",
    "crash_case",
    "play",
    "scenario",
    "table",
];

/// The function whose arguments are the name and the body of a test that `libtest-mimic` runs.
const TRIAL_FUNCTION: &str = "trial";

/// Words by which a row or a section says that no test exists.
const NO_PROOF: &[&str] = &["not shown", "not built", "later"];

pub(crate) fn inputs(files: &[File]) -> Vec<Finding> {
    let Some(page) = tree::find(files, INPUTS_PAGE) else {
        return vec![missing(INPUTS_PAGE)];
    };
    let known = tests(files);
    let mut findings = unknown_names(page, &known);
    let rows = proof_rows(page);
    for row in &rows {
        let names: Vec<&str> = quoted(row.proof).collect();
        if names.is_empty() && !says_no_proof(row.proof) {
            let advice = format!("`{}` names no test: name one or write `not shown`", row.id);
            findings.push(page.finding(row.line, advice));
        }
        let strangers = names.iter().filter(|name| !known.contains(**name));
        findings.extend(strangers.map(|name| page.finding(row.line, not_a_test(name))));
    }
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id).collect();
    for (letter, last) in INPUT_ROWS {
        let wanted = (1..=*last).map(|number| format!("{letter}{number}"));
        let lost = wanted.filter(|id| !ids.contains(id.as_str()));
        findings.extend(lost.map(|id| page.finding(1, format!("row {id} is missing"))));
    }
    findings.sort_by_key(|finding| finding.line);
    findings.dedup();
    findings
}

pub(crate) fn safety(files: &[File]) -> Vec<Finding> {
    let Some(page) = tree::find(files, SAFETY_PAGE) else {
        return vec![missing(SAFETY_PAGE)];
    };
    let mut findings = unknown_names(page, &tests(files));
    for number in 1..=SAFETY_RULES {
        let heading = format!("## S{number}:");
        let mut lines = page.lines();
        let Some((line, _)) = lines.find(|(_, text)| text.starts_with(&heading)) else {
            findings.push(page.finding(1, format!("section S{number} is missing")));
            continue;
        };
        let body: Vec<&str> = lines
            .map(|(_, text)| text)
            .take_while(|text| !text.starts_with("## "))
            .collect();
        let is_shown = body.iter().any(|text| quoted(text).any(is_test_name));
        if !is_shown && !body.iter().any(|text| says_no_proof(text)) {
            let advice = format!("S{number} names no test: name one or write `not built`");
            findings.push(page.finding(line, advice));
        }
    }
    findings
}

/// One row of a table whose last column names tests.
struct ProofRow<'a> {
    line: usize,
    id: &'a str,
    proof: &'a str,
}

fn proof_rows(page: &File) -> Vec<ProofRow<'_>> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for (line, text) in page.lines() {
        let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(id), Some(proof)) = (cells.first(), cells.last()) else {
            continue;
        };
        if !text.starts_with('|') {
            in_table = false;
        } else if *proof == PROOF_COLUMN {
            in_table = true;
        } else if in_table && !proof.starts_with("---") {
            rows.push(ProofRow { line, id, proof });
        }
    }
    rows
}

/// Findings for names in backquotes that read like a test's and are none.
fn unknown_names(page: &File, known: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in page.lines() {
        let names = quoted(text).filter(|name| is_test_name(name) && !known.contains(*name));
        findings.extend(names.map(|name| page.finding(line, not_a_test(name))));
    }
    findings
}

/// Every test function and every named case in the repository.
fn tests(files: &[File]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        // Another rule reports a file that is not Rust.
        let tokens = tokens::lex(&file.text).unwrap_or_default();
        for item in tokens::items(&tokens) {
            let attributes = tokens::attributes(&tokens, &item);
            if attributes
                .iter()
                .any(|inner| is_test_attribute(&tokens[inner.clone()]))
            {
                let body = &tokens[item.body];
                let name = body.iter().position(|token| token.text == "fn");
                names.extend(name.map(|at| body[at + 1].text.clone()));
            }
        }
        names.extend(cases(&tokens));
    }
    names
}

/// Named cases, and the functions that run as the body of a trial.
fn cases(tokens: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_macro = CASE_MACROS.contains(&token.text.as_str());
        let open = match () {
            () if is_macro && tokens::reads(tokens, at + 1, &["!"]) => at + 2,
            () if token.text == TRIAL_FUNCTION && tokens::reads(tokens, at + 1, &["("]) => at + 1,
            () => continue,
        };
        if let Some(opening) = tokens.get(open) {
            let words = tokens[open..=opening.close].iter().map(|token| &token.text);
            names.extend(words.filter(|word| is_test_name(word)).cloned());
        }
    }
    names
}

/// Words of lower-case letters and digits with underscores between them.
fn is_test_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.contains('_') && !word.starts_with('_') && word.chars().all(is_part)
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn says_no_proof(text: &str) -> bool {
    let text = text.to_lowercase();
    NO_PROOF.iter().any(|words| text.contains(words))
}

fn not_a_test(name: &str) -> String {
    format!("`{name}` is neither a test nor a named case: correct the name")
}

fn missing(path: &str) -> Finding {
    File::new(path, "").finding(1, "write this page: it names the tests that prove a rule")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::check_rule;

    const CODE: &str = "#[test]\nfn a_b() {}\nfn helper_c() {}\n\
        #[tokio::test(start_paused = true)]\nasync fn d_e() {}\nconst X: &[C] = &[case!(f_g)];\n\
        fn h_i() { trials.push(trial(name, || j_k(1))); }";

    /// A page with every numbered row, each with the same proof.
    fn full(proof: &str) -> String {
        let mut page = format!("| row | happens | {PROOF_COLUMN} |\n|---|---|---|\n");
        for (letter, last) in INPUT_ROWS {
            for number in 1..=*last {
                page.push_str(&format!("| {letter}{number} | x | {proof} |\n"));
            }
        }
        page
    }

    #[test]
    fn a_row_that_names_no_test_is_found() {
        let code = ("crates/a/src/a.rs", CODE);
        let page = |extra: &str| full("`a_b`, `d_e`, `f_g`, `j_k`") + extra;
        let rows = page("").lines().count();
        let place = format!("{INPUTS_PAGE}:{}", rows + 1);
        for bad in [
            "`helper_c`",
            "`h_i`",
            "`gone_h`",
            "`word`",
            "",
            "a sentence",
        ] {
            let text = page(&format!("| other | x | {bad} |\n"));
            check_rule(inputs, &[code, (INPUTS_PAGE, &text)], &[&place]);
        }
        for fine in ["`a_b`", "not shown: why"] {
            let text = page(&format!("| other | x | {fine} |\n"));
            check_rule(inputs, &[code, (INPUTS_PAGE, &text)], &[]);
        }
        let prose = page("\nsee `gone_h`");
        let place = format!("{INPUTS_PAGE}:{}", rows + 2);
        check_rule(inputs, &[code, (INPUTS_PAGE, &prose)], &[&place]);
        check_rule(inputs, &[code], &[&format!("{INPUTS_PAGE}:1")]);
    }

    #[test]
    fn a_numbered_row_that_is_missing_is_found() {
        let page = full("later").replace("| G7 |", "| G6 |");
        check_rule(
            inputs,
            &[(INPUTS_PAGE, &page)],
            &[&format!("{INPUTS_PAGE}:1")],
        );
    }

    #[test]
    fn a_safety_rule_without_a_test_is_found() {
        let code = ("crates/a/src/a.rs", CODE);
        let sections = (1..=SAFETY_RULES).map(|number| format!("## S{number}: x\n- `a_b`\n"));
        let page: String = sections.collect();
        let check = |page: &str, line: usize| {
            let place = format!("{SAFETY_PAGE}:{line}");
            check_rule(safety, &[code, (SAFETY_PAGE, page)], &[&place]);
        };
        check_rule(safety, &[code, (SAFETY_PAGE, &page)], &[]);
        check(&page.replace("## S3:", "## T3:"), 1);
        check(&page.replace("## S3: x\n- `a_b`", "## S3: x\n- nothing"), 5);
        check(
            &page.replace("## S3: x\n- `a_b`", "## S3: x\n- `helper_c`"),
            6,
        );
        check_rule(safety, &[code], &[&format!("{SAFETY_PAGE}:1")]);
    }
}
