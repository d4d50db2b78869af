//! Prints the demo on stdout at reading speed.
//!
//! A terminal gets bold titles (unless `NO_COLOR` is set), line drawing characters if the locale has them, and pauses.
//! Any other output is plain ASCII without pauses, for scripts and documents.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::{Context, Result};

pub(crate) const SHORT_PAUSE: Duration = Duration::from_millis(400);

pub(crate) const LONG_PAUSE: Duration = Duration::from_millis(900);

pub(crate) struct DemoPrinter {
    out: Box<dyn Write>,
    style: PrintStyle,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PrintStyle {
    has_bold: bool,
    has_unicode: bool,
    has_pauses: bool,
}

/// An object of a tree.
#[derive(Debug)]
pub(crate) struct TreeObject {
    pub(crate) label: String,
    pub(crate) uid: String,
    pub(crate) owners: Vec<String>,
}

// === impl DemoPrinter ===

impl DemoPrinter {
    pub(crate) fn stdout() -> Self {
        let style = PrintStyle::of(io::stdout().is_terminal(), |name| env::var(name).ok());
        Self::new(Box::new(io::stdout()), style)
    }

    pub(crate) fn new(out: Box<dyn Write>, style: PrintStyle) -> Self {
        Self { out, style }
    }

    /// A bold line without indentation.
    pub(crate) fn title(&mut self, text: &str) -> Result<()> {
        let text = self.bold(text);
        self.print(&text)
    }

    /// An indented bold line.
    pub(crate) fn strong(&mut self, text: &str) -> Result<()> {
        let text = self.bold(text);
        self.text(&text)
    }

    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        let mut lines = text.split('\n');
        lines.try_for_each(|line| match line {
            "" => self.print(""),
            _ => self.print(&format!("  {line}")),
        })
    }

    /// Lines as they are.
    pub(crate) fn print(&mut self, text: &str) -> Result<()> {
        let printed = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
        printed.context("cannot write to stdout")
    }

    /// Objects below their owners.
    pub(crate) fn tree(&mut self, objects: &[TreeObject]) -> Result<()> {
        for line in tree(objects, self.style.has_unicode) {
            self.text(&format!("  {line}"))?;
        }
        Ok(())
    }

    pub(crate) async fn pause(&self, time: Duration) {
        if self.style.has_pauses {
            tokio::time::sleep(time).await;
        }
    }

    fn bold(&self, text: &str) -> String {
        match self.style.has_bold {
            true => format!("\x1b[1m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

// === impl PrintStyle ===

impl PrintStyle {
    /// An empty variable counts as unset.
    fn of(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        if !is_terminal {
            return Self::default();
        }
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(variable);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            has_bold: !is_dumb && variable("NO_COLOR").is_none(),
            has_unicode: !is_dumb && (locale.contains("utf-8") || locale.contains("utf8")),
            has_pauses: true,
        }
    }
}

/// Lines of a tree. Objects without a listed owner are roots; siblings keep their order.
fn tree(objects: &[TreeObject], has_unicode: bool) -> Vec<String> {
    let (branch, last, down) = match has_unicode {
        true => ("├─ ", "└─ ", "│  "),
        false => ("|- ", "`- ", "|  "),
    };
    let is_listed = |uid: &&String| objects.iter().any(|object| object.uid == **uid);
    // An object with several owners appears once, below the first of them.
    let owner_of = |object: &TreeObject| object.owners.iter().find(is_listed).cloned();
    let children_of = |owner: Option<&String>| {
        let is_child = |object: &&TreeObject| owner_of(object).as_ref() == owner;
        objects.iter().filter(is_child).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    // A stack, the next object on top: the object, the prefix of its line, the prefix of its children.
    let roots = children_of(None).into_iter().rev();
    let mut stack: Vec<_> = roots
        .map(|root| (root, String::new(), String::new()))
        .collect();
    while let Some((object, prefix, below)) = stack.pop() {
        lines.push(format!("{prefix}{}", object.label));
        for (index, child) in children_of(Some(&object.uid)).into_iter().rev().enumerate() {
            let (corner, line) = if index == 0 {
                (last, "   ")
            } else {
                (branch, down)
            };
            stack.push((child, format!("{below}{corner}"), format!("{below}{line}")));
        }
    }
    lines
}

/// Whether an error is a closed pipe: the reader, `head` for example, has seen enough.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_shows_dependents_below_their_owner() {
        let owners = [
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("d", Some("b")),
            ("e", Some("a")),
            ("f", Some("not listed")),
        ];
        let objects = owners.map(|(name, owner)| TreeObject {
            label: format!("Pod {name}"),
            uid: name.to_owned(),
            owners: owner.map(str::to_owned).into_iter().collect(),
        });
        let expected = [
            "Pod a",
            "|- Pod b",
            "|  |- Pod c",
            "|  `- Pod d",
            "`- Pod e",
            "Pod f",
        ];
        assert_eq!(tree(&objects, false), expected);
        assert_eq!(tree(&objects, true)[3..5], ["│  └─ Pod d", "└─ Pod e"]);
    }

    #[test]
    fn bold_unicode_and_pauses_are_for_terminals() {
        // terminal, NO_COLOR, TERM, LANG
        let cases = [
            ((true, "", "xterm", "en_US.UTF-8"), (true, true, true)),
            ((true, "1", "xterm", "C.utf8"), (false, true, true)),
            ((true, "", "xterm", "C"), (true, false, true)),
            ((true, "", "xterm", ""), (true, false, true)),
            ((true, "", "dumb", "C.UTF-8"), (false, false, true)),
            ((true, "", "", "C.UTF-8"), (false, false, true)),
            ((false, "", "xterm", "C.UTF-8"), (false, false, false)),
        ];
        for (environment, expected) in cases {
            let (is_terminal, no_color, term, lang) = environment;
            let style = PrintStyle::of(is_terminal, |name| match name {
                "NO_COLOR" => Some(no_color.to_owned()),
                "TERM" => Some(term.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            });
            let seen = (style.has_bold, style.has_unicode, style.has_pauses);
            assert_eq!(seen, expected, "{environment:?}");
        }
    }
}
