//! Where the story is told: lines on stdout, at the pace of a reader.
//!
//! On a terminal there are colours (unless `NO_COLOR` is set), connected lines in trees if the locale can show them, and
//! pauses. Anywhere else it is plain ASCII without a pause, so that the same command serves scripts and the README.

use std::env;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::{Context, Result};

use super::scene::Sight;

/// After a line or two.
const SHORT_PAUSE: Duration = Duration::from_millis(400);

/// After something that has to be looked at.
const LONG_PAUSE: Duration = Duration::from_millis(900);

/// Every line of a chapter but its title begins with this.
const INDENT: &str = "  ";

/// Where lines go, and how they look.
pub(crate) struct Screen {
    out: Box<dyn Write>,
    look: Look,
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) ink: Ink,
    pub(crate) strokes: Strokes,
    pub(crate) pace: Pace,
}

/// Whether words are emphasised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Coloured,
}

/// What trees are drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strokes {
    Ascii,
    Lines,
}

/// Whether somebody reads along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Reading,
    AtOnce,
}

/// How long a pause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    Short,
    Long,
}

/// What the environment says about the look.
#[derive(Debug, Default)]
struct Surroundings {
    is_terminal: bool,
    no_color: Option<String>,
    term: Option<String>,
    /// The first of the variables that decide on characters and is not empty.
    locale: Option<String>,
}

// === impl Screen ===

impl Screen {
    /// The process's stdout, with the look that suits it.
    pub(crate) fn stdout() -> Self {
        let look = Look::suited_to(&Surroundings::read());
        Self::new(Box::new(io::stdout()), look)
    }

    /// Any other place.
    pub(crate) fn new(out: Box<dyn Write>, look: Look) -> Self {
        Self { out, look }
    }

    /// A title.
    pub(crate) fn title(&mut self, text: &str) -> Result<()> {
        let text = self.look.ink.bold(text);
        self.print(&text)
    }

    /// Whole lines as they are.
    pub(crate) fn text(&mut self, text: &str) -> Result<()> {
        self.print(text)
    }

    /// A line.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            return self.print("");
        }
        self.print(&format!("{INDENT}{text}"))
    }

    /// A line that has to be noticed.
    pub(crate) fn strong(&mut self, text: &str) -> Result<()> {
        let text = self.look.ink.bold(text);
        self.line(&text)
    }

    /// Objects, each under the one that owns it.
    pub(crate) fn tree(&mut self, sights: &[&Sight]) -> Result<()> {
        for line in tree(sights, self.look.strokes) {
            self.line(&format!("{INDENT}{line}"))?;
        }
        Ok(())
    }

    /// Lets a reader read.
    pub(crate) async fn pause(&self, pause: Pause) {
        let time = match (self.look.pace, pause) {
            (Pace::AtOnce, _) => return,
            (Pace::Reading, Pause::Short) => SHORT_PAUSE,
            (Pace::Reading, Pause::Long) => LONG_PAUSE,
        };
        tokio::time::sleep(time).await;
    }

    fn print(&mut self, text: &str) -> Result<()> {
        let printed = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
        printed.context("nobody reads what is printed")
    }
}

// === impl Look ===

impl Look {
    /// Nothing that could not be in a plain text file.
    pub(crate) const PLAIN: Self = Self {
        ink: Ink::Plain,
        strokes: Strokes::Ascii,
        pace: Pace::AtOnce,
    };

    fn suited_to(surroundings: &Surroundings) -> Self {
        if !surroundings.is_terminal {
            return Self::PLAIN;
        }
        let is_dumb = surroundings
            .term
            .as_deref()
            .is_none_or(|term| term == "dumb");
        let is_unwanted = surroundings.no_color.is_some();
        let locale = surroundings.locale.as_deref().unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let has_lines = !is_dumb && (locale.contains("utf-8") || locale.contains("utf8"));
        Self {
            ink: if is_dumb || is_unwanted {
                Ink::Plain
            } else {
                Ink::Coloured
            },
            strokes: if has_lines {
                Strokes::Lines
            } else {
                Strokes::Ascii
            },
            pace: Pace::Reading,
        }
    }
}

// === impl Ink ===

impl Ink {
    fn bold(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\x1b[1m{text}\x1b[0m"),
        }
    }
}

// === impl Surroundings ===

impl Surroundings {
    fn read() -> Self {
        // An empty value means the same as none, for all of them.
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"];
        Self {
            is_terminal: io::stdout().is_terminal(),
            no_color: variable("NO_COLOR"),
            term: variable("TERM"),
            locale: locale.into_iter().find_map(variable),
        }
    }
}

/// Lines of a tree: those whose owner is not among them begin it. Siblings keep their order.
fn tree(sights: &[&Sight], strokes: Strokes) -> Vec<String> {
    let (branch, last, down, blank) = match strokes {
        Strokes::Ascii => ("|- ", "`- ", "|  ", "   "),
        Strokes::Lines => ("├─ ", "└─ ", "│  ", "   "),
    };
    let is_there = |uid: &&String| sights.iter().any(|sight| sight.thing.uid == **uid);
    // One line for an object, also if it has several owners.
    let owner_of = |sight: &Sight| sight.owners.iter().find(is_there).cloned();
    let mut lines = Vec::new();
    // What is still to be drawn, the next one at the end: the object, what its line begins with, and its dependents'.
    let mut open: Vec<(&Sight, String, String)> = Vec::new();
    let roots = sights
        .iter()
        .filter(|sight| owner_of(sight).is_none())
        .rev();
    open.extend(roots.map(|root| (*root, String::new(), String::new())));
    while let Some((sight, start, below)) = open.pop() {
        lines.push(format!("{start}{}", sight.thing));
        let is_dependent = |other: &&&Sight| owner_of(other).as_ref() == Some(&sight.thing.uid);
        let dependents: Vec<_> = sights.iter().filter(is_dependent).collect();
        for (place, dependent) in dependents.iter().rev().enumerate() {
            let (corner, line) = if place == 0 {
                (last, blank)
            } else {
                (branch, down)
            };
            let parts = (format!("{below}{corner}"), format!("{below}{line}"));
            open.push((dependent, parts.0, parts.1));
        }
    }
    lines
}

/// Whether something failed because nobody reads what is printed any more.
pub(super) fn is_unread(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::super::scene::{Kind, Thing};
    use super::*;

    static POD: Kind = Kind {
        group: "",
        version: "v1",
        kind: "Pod",
        plural: "pods",
    };

    fn mk_sight(name: &str, owner: Option<&str>) -> Sight {
        Sight {
            thing: Thing {
                kind: &POD,
                namespace: "shop".to_owned(),
                name: name.to_owned(),
                uid: name.to_owned(),
            },
            revision: 1,
            owners: owner.map(str::to_owned).into_iter().collect(),
        }
    }

    #[test]
    fn a_tree_shows_dependents_under_their_owner_and_strangers_at_its_edge() {
        let owned = [
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("d", Some("b")),
            ("e", Some("a")),
            ("f", Some("not shown")),
        ];
        let sights = owned.map(|(name, owner)| mk_sight(name, owner));
        let sights: Vec<&Sight> = sights.iter().collect();
        let expected = [
            "Pod a",
            "|- Pod b",
            "|  |- Pod c",
            "|  `- Pod d",
            "`- Pod e",
            "Pod f",
        ];
        assert_eq!(tree(&sights, Strokes::Ascii), expected);
        let lines = tree(&sights, Strokes::Lines);
        assert_eq!(lines[3..5], ["│  └─ Pod d", "└─ Pod e"]);
    }

    #[test]
    fn colours_lines_and_pauses_are_for_terminals_that_want_them() {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        // terminal, NO_COLOR, TERM, locale
        let cases = [
            ((true, "", "xterm", "en_US.UTF-8"), (true, true, true)),
            ((true, "1", "xterm", "C.utf8"), (false, true, true)),
            ((true, "", "xterm", "C"), (true, false, true)),
            ((true, "", "xterm", ""), (true, false, true)),
            ((true, "", "dumb", "C.UTF-8"), (false, false, true)),
            ((true, "", "", "C.UTF-8"), (false, false, true)),
            ((false, "", "xterm", "C.UTF-8"), (false, false, false)),
        ];
        for ((is_terminal, no_color, term, locale), expected) in cases {
            let look = Look::suited_to(&Surroundings {
                is_terminal,
                no_color: text(no_color),
                term: text(term),
                locale: text(locale),
            });
            let seen = (
                look.ink == Ink::Coloured,
                look.strokes == Strokes::Lines,
                look.pace == Pace::Reading,
            );
            assert_eq!(seen, expected, "{is_terminal} {no_color} {term} {locale}");
        }
    }
}
