//! Rules on one Rust file: lengths, banned items, where tasks start, tests that cannot fail.

use std::ops::RangeInclusive;

use crate::tokens::{self, Token};
use crate::tree::{File, Finding};

/// Lines a file may have, its tests not counted. Beyond that it holds more than one noun.
const FILE_LINES_MAX: usize = 700;

/// Lines a function may have, from `fn` to its closing brace: what fits on a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Tokens that are refused, in tests too, with the advice for each.
const BANNED: &[(&[&str], &str)] = &[
    (
        &["todo", "!"],
        "todo!: finish it, or return an error that says what is missing",
    ),
    (
        &["unimplemented", "!"],
        "unimplemented!: finish it, or return an error that says what is missing",
    ),
    (
        &["dbg", "!"],
        "dbg!: remove it, or log what an operator needs",
    ),
    (
        &["unsafe"],
        "unsafe: find a safe way, or a well-kept crate that has one",
    ),
    (
        &["#", "[", "ignore", "]"],
        "ignored without a reason: write #[ignore = \"why, and how to run it\"]",
    ),
];

/// Names in `tokio` or `tokio::task` that start a task.
const TASK_STARTERS: &[&str] = &["spawn", "spawn_blocking", "spawn_local", "JoinSet"];

/// Modules that may start tasks: a file `X.rs` and what is below `X/`.
const TASK_HOMES: &[&str] = &[
    "crates/apiserver/src/listen",
    "crates/apiserver/src/server",
    "crates/apiserver/src/upkeep",
    "crates/caretaker",
    "crates/controllers/src/runtime",
    "crates/testbed",
    "xtask",
];

/// Crates whose public items are documented: all but the test harness and this tool.
const DOCUMENTED_CRATES: &[&str] = &[
    "crates/apiserver/",
    "crates/caretaker/",
    "crates/controllers/",
    "crates/machinery/",
    "crates/simulator/",
];

/// Public items that need a doc comment. Fields and variants may speak for themselves.
const DOCUMENTED_ITEMS: &[&str] = &["enum", "fn", "struct", "trait"];

/// Words in a test's body by which it can fail; `assert…`, `check_…` and `expect…` of any ending count as well.
const FAILING_WORDS: &[&str] = &[
    "?",
    "check",
    "matches",
    "panic",
    "unreachable",
    "unwrap",
    "unwrap_err",
];

/// Holds a Rust file as the rules see it.
pub(crate) struct Source<'a> {
    file: &'a File,
    tokens: Vec<Token>,
    /// Lines of test functions and of items that are compiled for tests only.
    test_lines: Vec<RangeInclusive<usize>>,
}

// === impl Source ===

impl<'a> Source<'a> {
    /// Takes the file apart. A file that is not Rust is a finding of its own.
    pub(crate) fn read(file: &'a File) -> Result<Self, Finding> {
        let broken = |line| {
            file.finding(
                line,
                "this is not Rust: check the brackets and quotes above",
            )
        };
        let tokens = tokens::lex(&file.text).map_err(broken)?;
        let test_lines = test_lines(&tokens);
        Ok(Self {
            file,
            tokens,
            test_lines,
        })
    }

    fn is_test_file(&self) -> bool {
        let path = &self.file.path;
        path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
    }

    fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file() || self.test_lines.iter().any(|lines| lines.contains(&line))
    }
}

pub(crate) fn file_length(source: &Source) -> Vec<Finding> {
    if source.is_test_file() {
        return Vec::new();
    }
    let lines = source
        .file
        .lines()
        .filter(|(line, _)| !source.is_test_line(*line))
        .count();
    let advice =
        format!("{lines} lines without tests, at most {FILE_LINES_MAX}: split it by nouns");
    let finding = (lines > FILE_LINES_MAX).then(|| source.file.finding(1, advice));
    finding.into_iter().collect()
}

pub(crate) fn function_length(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in tokens::functions(&source.tokens) {
        let first = source.tokens[function.start].line;
        let lines = source.tokens[function.end].line - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let name = &source.tokens[function.start + 1].text;
            let advice = format!(
                "`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}: move steps into functions and cases into a table"
            );
            findings.push(source.file.finding(first, advice));
        }
    }
    findings
}

pub(crate) fn banned_items(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        for (words, advice) in BANNED {
            if tokens::reads(&source.tokens, at, words) {
                findings.push(source.file.finding(token.line, *advice));
            }
        }
    }
    findings
}

pub(crate) fn unbiased_select(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        let is_select = tokens::reads(&source.tokens, at, &["select", "!"]);
        if is_select && !tokens::reads(&source.tokens, at + 3, &["biased", ";"]) {
            let advice = "select! picks at random: begin it with `biased;` and put first what must not starve";
            findings.push(source.file.finding(token.line, advice));
        }
    }
    findings
}

pub(crate) fn stray_tasks(source: &Source) -> Vec<Finding> {
    let path = source.file.path.as_str();
    let at_home = |home: &&str| {
        path.strip_prefix(*home)
            .is_some_and(|rest| rest.starts_with(['.', '/']))
    };
    if TASK_HOMES.iter().any(at_home) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, token) in source.tokens.iter().enumerate() {
        if starts_a_task(&source.tokens, at) && !source.is_test_line(token.line) {
            let advice = "starts a task: return the future, or start it in the controllers' runtime or the server";
            findings.push(source.file.finding(token.line, advice));
        }
    }
    // Braces within braces are seen once from each path before them.
    findings.dedup();
    findings
}

pub(crate) fn empty_tests(source: &Source) -> Vec<Finding> {
    let tokens = &source.tokens;
    let mut findings = Vec::new();
    for item in tokens::items(tokens) {
        let attributes = tokens::attributes(tokens, &item);
        let is_test = attributes
            .iter()
            .any(|inner| is_test_attribute(&tokens[inner.clone()]));
        let must_panic = attributes
            .iter()
            .any(|inner| tokens[inner.start].text == "should_panic");
        let (start, end) = item.body.into_inner();
        let Some(open) = (start..end).find(|&at| tokens[at].text == "{") else {
            continue;
        };
        // A test that any input is survived has nothing to assert; its name has to contain `panic`.
        let names_panics = tokens[start..open]
            .iter()
            .any(|token| token.text.contains("panic"));
        let excused = must_panic || names_panics;
        if is_test && !excused && !tokens[open..end].iter().any(can_fail) {
            let advice = "this test cannot fail: assert what its name says, or name it `…_panic…` if not panicking is the point";
            findings.push(source.file.finding(tokens[start].line, advice));
        }
    }
    findings
}

/// Public types, traits, functions and methods without a doc comment.
pub(crate) fn undocumented_items(source: &Source) -> Vec<Finding> {
    let path = source.file.path.as_str();
    let is_shipped = DOCUMENTED_CRATES
        .iter()
        .any(|prefix| path.starts_with(prefix));
    if !is_shipped {
        return Vec::new();
    }
    let tokens = &source.tokens;
    let documented: Vec<usize> = tokens::items(tokens)
        .iter()
        .filter(|item| {
            let attributes = tokens::attributes(tokens, item);
            attributes
                .iter()
                .any(|inner| tokens[inner.start].text == "doc")
        })
        .map(|item| *item.body.start())
        .collect();
    let mut findings = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let mut after = tokens[at + 1..].iter().map(|token| token.text.as_str());
        let keyword = after.find(|word| !["async", "const"].contains(word));
        let is_item =
            token.text == "pub" && keyword.is_some_and(|word| DOCUMENTED_ITEMS.contains(&word));
        if is_item && !documented.contains(&at) && !source.is_test_line(token.line) {
            let advice =
                "public without a doc comment: say what a caller in another crate needs to know";
            findings.push(source.file.finding(token.line, advice));
        }
    }
    findings
}

/// `tokio::spawn`, `task::spawn`, and either of them from the braces of a `use`.
fn starts_a_task(tokens: &[Token], at: usize) -> bool {
    let from_tokio =
        tokens::reads(tokens, at, &["tokio", "::"]) || tokens::reads(tokens, at, &["task", "::"]);
    if !from_tokio {
        return false;
    }
    let Some(next) = tokens.get(at + 2) else {
        return false;
    };
    let named = &tokens[at + 2..=next.close];
    named
        .iter()
        .any(|token| TASK_STARTERS.contains(&token.text.as_str()))
}

fn test_lines(tokens: &[Token]) -> Vec<RangeInclusive<usize>> {
    let mut lines = Vec::new();
    for item in tokens::items(tokens) {
        let for_tests = |inner: &[Token]| is_test_attribute(inner) || is_test_only(inner);
        let attributes = tokens::attributes(tokens, &item);
        if attributes
            .iter()
            .any(|inner| for_tests(&tokens[inner.clone()]))
        {
            lines.push(tokens[item.attributes.start].line..=tokens[*item.body.end()].line);
        }
    }
    lines
}

/// `test`, also of another crate: `tokio::test(start_paused = true)`.
pub(crate) fn is_test_attribute(inner: &[Token]) -> bool {
    let path = inner
        .split(|token| token.text == "(")
        .next()
        .unwrap_or_default();
    path.last().is_some_and(|token| token.text == "test")
}

/// `cfg(test)`, alone or as one of several conditions.
fn is_test_only(inner: &[Token]) -> bool {
    let says = |word: &str| inner.iter().any(|token| token.text == word);
    inner.first().is_some_and(|token| token.text == "cfg") && says("test") && !says("not")
}

fn can_fail(token: &Token) -> bool {
    let word = token.text.as_str();
    let begins = ["assert", "debug_assert", "prop_assert", "check_", "expect"];
    FAILING_WORDS.contains(&word) || begins.iter().any(|begin| word.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows `rule` a text as an ordinary library file, and compares the lines where it finds something.
    fn check(rule: fn(&Source) -> Vec<Finding>, text: &str, expected: &[usize]) {
        check_in("crates/machinery/src/a.rs", rule, text, expected);
    }

    fn check_in(path: &str, rule: fn(&Source) -> Vec<Finding>, text: &str, expected: &[usize]) {
        let file = File::new(path, text);
        let source = Source::read(&file).unwrap_or_else(|finding| panic!("{finding}"));
        let lines: Vec<usize> = rule(&source).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, expected, "{path}:\n{text}");
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_finding() {
        let file = File::new("a.rs", "fn a() {\n");
        assert!(Source::read(&file).is_err());
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let code = "const A: u8 = 1;\n";
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", code.repeat(700));
        check(file_length, &code.repeat(701), &[1]);
        check(file_length, &(code.repeat(700) + &tests), &[]);
        check_in(
            "crates/testbed/tests/a.rs",
            file_length,
            &code.repeat(701),
            &[],
        );
    }

    #[test]
    fn a_long_function_is_found_wherever_it_stands() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "b();\n".repeat(lines - 2));
        check(function_length, &function(70), &[]);
        check(function_length, &function(71), &[1]);
        let in_macro = format!("proptest! {{\n/// Docs.\n#[test]\n{}}}\n", function(71));
        check(function_length, &in_macro, &[4]);
    }

    #[test]
    fn each_banned_item_is_found() {
        let cases = [
            ("fn a() { todo!() }", 1),
            ("fn a() { unimplemented!(\"b\") }", 1),
            ("fn a() { m!(dbg!(b)) }", 1),
            ("fn a() { unsafe { b() } }", 1),
            ("#[test]\n#[ignore]\nfn a() {}", 2),
        ];
        assert_eq!(cases.len(), BANNED.len());
        for (text, line) in cases {
            check(banned_items, text, &[line]);
        }
        let fine =
            "//! todo!\n#![forbid(unsafe_code)]\n#[ignore = \"why\"]\nfn a() { b(\"dbg!\") }";
        check(banned_items, fine, &[]);
    }

    #[test]
    fn an_unbiased_select_is_found_also_in_tests() {
        let text = "fn a() {\nselect! { biased; _ = b => {} }\ntokio::select! { _ = b => {} }\n}\n\
                    #[test]\nfn c() { futures::select!(_ = d => {}) }";
        check(unbiased_select, text, &[3, 6]);
    }

    #[test]
    fn finds_public_items_without_docs() {
        let text = "pub struct A { pub b: u8 }\n/// Docs.\n#[derive(C)]\npub enum D { E }\n#[f]\npub const fn g() {}\n\
                    pub(crate) fn h() {}\npub const I: u8 = 1;\nimpl A {\n    pub async fn j() {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    pub fn k() {}\n}";
        check(undocumented_items, text, &[1, 6, 10]);
        check_in("crates/testbed/src/a.rs", undocumented_items, text, &[]);
    }

    #[test]
    fn a_stray_task_is_found_whichever_way_it_is_spelled() {
        let bad = [
            "fn a() { tokio::spawn(b) }",
            "fn a() { tokio::task::spawn_blocking(b) }",
            "use tokio::{spawn, sync};",
            "use tokio::{sync, task::{self, JoinSet}};",
            "use tokio::task; fn a() { task::spawn(b) }",
            "macro_rules! a { () => { tokio::spawn(b) } }",
        ];
        for text in bad {
            check(stray_tasks, text, &[1]);
        }
        let fine = "use tokio::{sync, time};\nfn a() { Command::new(b).spawn() }\n#[cfg(test)]\nmod t { fn c() { tokio::spawn(d) } }";
        check(stray_tasks, fine, &[]);
    }

    #[test]
    fn tasks_may_start_in_their_homes_only() {
        let text = "fn a() { tokio::spawn(b) }";
        let places = [
            ("crates/controllers/src/runtime/driver.rs", true),
            ("crates/apiserver/src/server.rs", true),
            ("crates/apiserver/src/upkeep/compact.rs", true),
            ("crates/caretaker/src/up.rs", true),
            ("crates/machinery/tests/all.rs", true),
            ("crates/apiserver/src/servers.rs", false),
            ("crates/apiserver/src/verbs/watch.rs", false),
            ("crates/controllers/src/gc.rs", false),
            ("crates/simulator/src/actor.rs", false),
        ];
        for (path, allowed) in places {
            check_in(path, stray_tasks, text, if allowed { &[] } else { &[1] });
        }
    }

    #[test]
    fn a_test_that_cannot_fail_is_found() {
        let bad = [
            ("#[test]\nfn assert_nothing() { let _ = a(); }", 2),
            (
                "#[tokio::test(start_paused = true)]\nasync fn a() { b().await.unwrap_or_default(); }",
                2,
            ),
            (
                "proptest! {\n/// Docs.\n#[test]\nfn a(b in 0..9) { c(b); } }",
                4,
            ),
        ];
        for (text, line) in bad {
            check(empty_tests, text, &[line]);
        }
    }

    #[test]
    fn a_test_that_can_fail_is_not_found() {
        let fine = [
            "#[test]\nfn a() { assert_eq!(b(), 1); }",
            "#[test]\nfn a() { b().unwrap(); }",
            "#[test]\nfn a() -> Result<(), E> { b()?; Ok(()) }",
            "#[test]\nfn a() { check_table(&[]); }",
            "#[should_panic(expected = \"b\")]\n#[test]\nfn a() { b(); }",
            "#[test]\n#[should_panic]\nfn a() { b(); }",
            "proptest! { #[test]\nfn a(b in 0..9) { prop_assert!(c(b)); } }",
            "#[test]\nfn no_text_makes_it_panic() { let _ = a(); }",
            "fn not_a_test() { a(); }",
        ];
        for text in fine {
            check(empty_tests, text, &[]);
        }
    }
}
