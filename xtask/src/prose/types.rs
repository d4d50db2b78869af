//! Definitions of types outside tests, and the figures of their names.

use std::collections::BTreeMap;
use std::fmt;

use super::files::TextFile;

const KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "type"];

/// The place of a definition of a struct, enum, trait or type alias.
#[derive(Debug)]
pub(super) struct TypeDefinition {
    pub(super) name: String,
    pub(super) keyword: &'static str,
    pub(super) path: String,
    pub(super) line: usize,
    crate_name: String,
    /// A `type X` inside an impl or a trait. Its name is given by the trait.
    pub(super) is_associated: bool,
}

/// The figures of a set of definitions.
#[derive(Debug, Default)]
pub(super) struct TypeFigures {
    pub(super) count: usize,
    shared: usize,
    words: usize,
}

// === impl TypeDefinition ===

impl TypeDefinition {
    pub(super) fn is_in(&self, crate_name: &str) -> bool {
        self.crate_name == crate_name
    }
}

// === impl TypeFigures ===

impl TypeFigures {
    /// The figures of those of the definitions that are `wanted`. A name is shared if any two in `all` that pass
    /// the same associated-or-not filter have it.
    pub(super) fn of(all: &[TypeDefinition], wanted: impl Fn(&TypeDefinition) -> bool) -> Self {
        let with_associated = all.iter().any(|one| one.is_associated && wanted(one));
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for definition in all {
            if with_associated || !definition.is_associated {
                *uses.entry(&definition.name).or_default() += 1;
            }
        }
        let mut figures = Self::default();
        for definition in all.iter().filter(|one| wanted(one)) {
            figures.count += 1;
            figures.shared += usize::from(uses.get(definition.name.as_str()) > Some(&1));
            figures.words += definition
                .name
                .chars()
                .filter(char::is_ascii_uppercase)
                .count();
        }
        figures
    }

    pub(super) fn shared_percent(&self) -> f64 {
        100.0 * ratio(self.shared, self.count)
    }

    pub(super) fn words_per_name(&self) -> f64 {
        ratio(self.words, self.count)
    }
}

impl fmt::Display for TypeFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} definitions of struct, enum, trait or type, {:.1} % with a shared name, {:.2} words a name",
            self.count,
            self.shared_percent(),
            self.words_per_name()
        )
    }
}

/// The definitions of a file outside its tests.
pub(super) fn definitions(file: &TextFile) -> Vec<TypeDefinition> {
    let lines = (1..).zip(file.shipped_text().lines());
    lines
        .filter_map(|(line, text)| {
            let (keyword, name) = defined_in(text)?;
            Some(TypeDefinition {
                name: name.to_owned(),
                keyword,
                path: file.path.clone(),
                line,
                crate_name: file.crate_name().to_owned(),
                is_associated: keyword == "type" && text.starts_with(' '),
            })
        })
        .collect()
}

/// The keyword and the name of the type that a line begins to define.
fn defined_in(line: &str) -> Option<(&'static str, &str)> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1.trim_start(),
            None => public.trim_start(),
        };
    }
    let (word, rest) = rest.split_once(' ')?;
    let keyword = KEYWORDS.into_iter().find(|keyword| *keyword == word)?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    name.starts_with(|c: char| c.is_ascii_uppercase())
        .then_some((keyword, name))
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    // Counts of lines of code are far below 2^53.
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_definitions_and_their_figures() {
        let text = "pub struct A;\npub(crate) enum TwoWords {\n    One,\n}\nimpl T for A {\n    type Key = u8;\n}\n\
                    // struct Comment\nlet structure = 1;\n#[cfg(test)]\nmod tests {\n    struct InTests;\n}\n";
        let mut all = definitions(&TextFile::new("crates/a/src/a.rs", text));
        all.extend(definitions(&TextFile::new(
            "crates/b/src/b.rs",
            "trait A {}\nstruct Key(u8);\n",
        )));
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["A", "TwoWords", "Key", "A", "Key"]);
        let figures = TypeFigures::of(&all, |_| true);
        assert_eq!((figures.count, figures.shared, figures.words), (5, 4, 6));
        let proper = TypeFigures::of(&all, |one| !one.is_associated);
        assert_eq!((proper.count, proper.shared, proper.words), (4, 2, 5));
        let in_b = TypeFigures::of(&all, |one| one.is_in("b"));
        assert_eq!(in_b.count, 2);
    }
}
