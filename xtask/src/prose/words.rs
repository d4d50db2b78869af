//! Banned words and doc comments of one or two words.
//!
//! The words hide who acts. A plain sentence names the actor: the driver, the API server, the user. The list is put
//! together from parts, so that this file passes the rule itself.

use super::files::TextFile;

/// Refused in comments, strings, identifiers and pages, in any case and as parts of identifiers.
pub const BANNED_WORDS: [&str; 7] = [
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("any", "body"),
    concat!("who", "ever"),
    concat!("who", "m"),
    concat!("to", "ld"),
    concat!("so", " ", "many"),
];
/// Endings of files in which the words are looked for.
const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".yaml", ".yml"];
/// Text of Kubernetes that contains a banned word: a path, and a part of the line that holds it.
const UPSTREAM_TEXTS: [(&str, &str); 0] = [];
/// A doc comment needs more words than this.
const SHORT_WORDS_MAX: usize = 2;

/// A place where a banned word stands.
#[derive(Debug, PartialEq, Eq)]
pub struct WordFinding {
    pub path: String,
    pub line: usize,
    pub word: &'static str,
}

/// A word of a text or of an identifier, in lower case.
struct TextWord {
    line: usize,
    lower: String,
    /// No more than spaces, underscores and comment marks stand between this word and the one before.
    is_joined: bool,
}

/// The banned words of a file, in comments, strings and identifiers alike.
pub fn banned(file: &TextFile) -> Vec<WordFinding> {
    if !ENDINGS.iter().any(|ending| file.path.ends_with(ending)) {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let is_upstream = |line: usize| {
        let mut texts = UPSTREAM_TEXTS.iter();
        texts.any(|(path, text)| file.path == *path && lines[line - 1].contains(text))
    };
    let found = banned_in(&file.text);
    let ours = found.into_iter().filter(|(line, _)| !is_upstream(*line));
    ours.map(|(line, word)| WordFinding {
        path: file.path.clone(),
        line,
        word,
    })
    .collect()
}

/// The lines on which a doc comment of one or two words begins.
pub fn short_docs(file: &TextFile) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut first, mut count) = (0, None);
    for (number, line) in (1..).zip(file.text.lines().chain([""])) {
        match (line.trim_start().strip_prefix("///"), &mut count) {
            (Some(text), Some(words)) => *words += text.split_whitespace().count(),
            (Some(text), none) => {
                first = number;
                *none = Some(text.split_whitespace().count());
            }
            (None, Some(words)) => {
                if *words <= SHORT_WORDS_MAX {
                    found.push(first);
                }
                count = None;
            }
            (None, None) => {}
        }
    }
    found
}

/// The text of a line that is only a comment.
pub(super) fn comment_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//")
}

/// Occurrences of a word in a line of text, as a whole word.
pub(super) fn occurrences(text: &str, word: &str) -> usize {
    let lower = text.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let hits = lower.match_indices(word);
    hits.filter(|(at, _)| {
        !lower[..*at].ends_with(is_word) && !lower[at + word.len()..].starts_with(is_word)
    })
    .count()
}

/// The verb that stands in for log, report, emit, send or return.
pub(super) fn is_verb_of_telling(word: &str) -> bool {
    ["tell", "tells"].contains(&word.to_lowercase().as_str())
}

fn banned_in(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut before = String::new();
    for word in words_of(text) {
        let pair = if word.is_joined {
            format!("{before} {}", word.lower)
        } else {
            String::new()
        };
        let banned = BANNED_WORDS
            .into_iter()
            .find(|banned| *banned == word.lower || *banned == pair);
        found.extend(banned.map(|banned| (word.line, banned)));
        before = word.lower;
    }
    found
}

/// Splits a text at everything that is no letter or digit, and identifiers at their capitals.
fn words_of(text: &str) -> Vec<TextWord> {
    let mut words: Vec<TextWord> = Vec::new();
    let (mut line, mut is_inside, mut is_joined, mut was_lower) = (1, false, true, false);
    for c in text.chars() {
        if c.is_alphanumeric() {
            let begins = !is_inside || (was_lower && c.is_uppercase());
            if begins {
                words.push(TextWord {
                    line,
                    lower: String::new(),
                    is_joined,
                });
                is_joined = true;
            }
            if let Some(word) = words.last_mut() {
                word.lower.extend(c.to_lowercase());
            }
        } else if !(c.is_whitespace() || "_/!\\*`".contains(c)) {
            is_joined = false;
        }
        is_inside = c.is_alphanumeric();
        was_lower = c.is_lowercase();
        line += usize::from(c == '\n');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        let found = banned(&TextFile::new(path, text));
        found.iter().map(|one| one.line).collect()
    }

    #[test]
    fn finds_each_word_in_comments_strings_identifiers_and_pages() {
        for word in BANNED_WORDS {
            let snake = word.replace(' ', "_");
            let camel: String = word
                .split(' ')
                .map(|part| part[..1].to_uppercase() + &part[1..])
                .collect();
            let text = format!(
                "// It is {word}.\nlet a = \"{}\";\nfn was_{snake}_here() {{}}\nstruct Is{camel};\nis{camel}Now",
                word.to_uppercase()
            );
            assert_eq!(lines_of("a.rs", &text), [1, 2, 3, 4, 5], "{text}");
            assert_eq!(lines_of("docs/a.md", &text).len(), 5);
            assert!(lines_of("data/a.txt", &text).is_empty());
        }
    }

    #[test]
    fn finds_two_words_across_a_line_break() {
        let [first, second] = ["so", "many"];
        assert_eq!(
            lines_of("a.rs", &format!("/// {first}\n    /// {second}")),
            [2]
        );
        assert!(lines_of("a.md", &format!("{first}. {second}")).is_empty());
    }

    #[test]
    fn leaves_longer_words_alone() {
        let [ends, begins] = [BANNED_WORDS[5], BANNED_WORDS[0]];
        let text = format!("re{ends} un{ends} {begins}'s2x {ends}er");
        assert_eq!(lines_of("a.rs", &text), [1], "only the possessive is one");
    }

    #[test]
    fn counts_whole_words_in_a_comment() {
        let word = BANNED_WORDS[5];
        assert_eq!(occurrences(&format!("{word}, un{word} {word}_x"), word), 1);
    }

    #[test]
    fn finds_doc_comments_of_one_or_two_words() {
        let text = "/// Why.\nstruct A;\n    /// The rest.\n/// Three words here.\nb\n/// One\n/// two three.\n\
                    //! Two words.\n// Not docs.\n///\nc\n/// Last.";
        let file = TextFile::new("a.rs", text);
        assert_eq!(short_docs(&file), [1, 10, 12]);
    }
}
