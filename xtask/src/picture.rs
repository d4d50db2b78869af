//! The output that pages show, made by running the built binary: the demo's transcript, its picture, the README's sessions.
//!
//! Output that is copied by hand goes stale. `cargo xtask picture` writes `docs/demo.md` and `docs/demo.svg` from one run
//! of `caretaker demo`, and replaces each session of `README.md` between its two marks. It needs kubectl.

mod sessions;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{Binary, workspace};
use crate::interrupt;
use sessions::SESSIONS;

const DEMO_PAGE: &str = "docs/demo.md";
const DEMO_PICTURE: &str = "docs/demo.svg";
const README: &str = "README.md";

/// Lines of the demo that the picture shows: the first cascades, on one screen.
const PICTURE_LINES_MAX: usize = 46;

/// The text of `docs/demo.md` above the transcript.
const DEMO_HEAD: &str = "# The demo\n\n\
    `cargo run --release -- demo` starts an embedded API server with all five controllers and shows them at work. It needs\n\
    no cluster and takes less than a minute. `cargo xtask picture` made this transcript from one run.\n\n";

/// Files that were written, relative to the root of the repository.
pub type WrittenPages = Vec<PathBuf>;

/// Builds the binary, runs it and writes the pages.
///
/// # Errors
/// If the binary does not build, a command fails, or the README has no place for a session.
pub fn write(profile: &'static str) -> Result<WrittenPages> {
    interrupt::watch()?;
    let program = Binary::caretaker(profile).build()?;
    let demo = demo(&program)?;
    let mut readme = fs::read_to_string(workspace().join(README)).context(README)?;
    for session in &SESSIONS {
        let transcript = session.run(&program)?;
        readme = with_block(&readme, session.name, &transcript)
            .with_context(|| format!("{README} has no mark for the session {}", session.name))?;
        interrupt::check()?;
    }
    let page = format!("{DEMO_HEAD}```text\n{}\n```\n", demo.trim_end());
    let shown = first_screen(&demo);
    let picture = svg::render("caretaker demo", &shown);
    let pages = [(DEMO_PAGE, page), (DEMO_PICTURE, picture), (README, readme)];
    let mut written = WrittenPages::new();
    for (path, text) in pages {
        fs::write(workspace().join(path), text).with_context(|| format!("cannot write {path}"))?;
        written.push(path.into());
    }
    Ok(written)
}

fn demo(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("demo")
        .output()
        .context("cannot start caretaker demo")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "caretaker demo failed: {errors}");
    String::from_utf8(output.stdout).context("the demo printed bytes that are not UTF-8")
}

/// The lines of the picture: up to the last empty line that fits.
fn first_screen(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().take(PICTURE_LINES_MAX).collect();
    if let Some(end) = lines.iter().rposition(|line| line.is_empty()) {
        lines.truncate(end);
    }
    lines
}

/// The page with another text between the marks of a session; `None` if the marks are not there.
fn with_block(page: &str, name: &str, text: &str) -> Option<String> {
    let open = format!("<!-- session: {name} -->\n");
    let close = "<!-- end of session -->";
    let start = page.find(&open)? + open.len();
    let end = start + page[start..].find(close)?;
    let (before, after) = (&page[..start], &page[end..]);
    Some(format!(
        "{before}```console\n{}\n```\n{after}",
        text.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_session_is_replaced() {
        let page = "a\n<!-- session: x -->\nold\n<!-- end of session -->\n\
                    <!-- session: y -->\nother\n<!-- end of session -->\n";
        let new = with_block(page, "x", "$ new\n\n").unwrap();
        assert_eq!(
            new,
            "a\n<!-- session: x -->\n```console\n$ new\n```\n<!-- end of session -->\n\
             <!-- session: y -->\nother\n<!-- end of session -->\n"
        );
        assert_eq!(with_block(page, "z", ""), None);
    }

    #[test]
    fn the_picture_ends_with_a_whole_paragraph() {
        let text = format!("a\n\n{}", "b\n".repeat(PICTURE_LINES_MAX));
        assert_eq!(first_screen(&text), ["a"]);
        assert_eq!(first_screen("a\nb"), ["a", "b"]);
    }

    #[test]
    fn the_readme_has_a_place_for_every_session() {
        let readme = fs::read_to_string(workspace().join(README)).unwrap();
        for session in &SESSIONS {
            assert!(
                with_block(&readme, session.name, "").is_some(),
                "{}",
                session.name
            );
        }
    }
}
