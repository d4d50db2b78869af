//! The `pattern` of strings: Go's regular expressions, matched by the `regex` crate in linear time.
//!
//! Both dialects come from RE2 and agree almost everywhere. Differences are translated here, or refused with Go's message: in
//! Go, `\d`, `\w`, `\s` and `\b` are ASCII-only; `\Q…\E` and octal escapes exist; within brackets `[`, `&&`, `--` and `~~`
//! are plain characters; `{,5}` is text; `**` and more than a thousand repetitions are errors; the flags `x`, `u` and `R` do
//! not exist.
//! DEVIATION(pattern-size): a pattern that compiles to more than 10 MiB is refused; Go limits the number of repetitions.

use regex::{Regex, RegexBuilder};

/// Largest compiled pattern.
const COMPILED_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Deepest nesting of groups; Go has the same limit.
const DEPTH_MAX: u32 = 1000;
/// Largest repetition count; Go has the same limit.
const REPEAT_MAX: u32 = 1000;

/// The compiled pattern of a schema.
#[derive(Debug)]
pub(super) struct GoPattern {
    source: String,
    compiled: Result<Regex, PatternError>,
}

/// A pattern is not a valid regular expression. The messages are Go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("error parsing regexp: missing argument to repetition operator: `{0}`")]
    MissingOperand(String),
    #[error("error parsing regexp: invalid nested repetition operator: `{0}`")]
    NestedRepetition(String),
    #[error("error parsing regexp: invalid repeat count: `{0}`")]
    RepeatCount(String),
    #[error("error parsing regexp: unexpected ): `{0}`")]
    UnexpectedParenthesis(String),
    #[error("error parsing regexp: missing closing ): `{0}`")]
    MissingParenthesis(String),
    #[error("error parsing regexp: missing closing ]: `{0}`")]
    MissingBracket(String),
    #[error("error parsing regexp: missing closing ]")]
    UnterminatedClass,
    #[error("error parsing regexp: invalid character class range: `{0}`")]
    ClassRange(String),
    #[error("error parsing regexp: invalid named capture: `{0}`")]
    NamedCapture(String),
    #[error("error parsing regexp: invalid or unsupported Perl syntax: `{0}`")]
    PerlSyntax(String),
    #[error("error parsing regexp: invalid escape sequence: `{0}`")]
    EscapeSequence(String),
    #[error("error parsing regexp: trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("error parsing regexp: expression too large")]
    TooLarge,
    /// Any other error of the `regex` crate, in its words.
    #[error("error parsing regexp: {0}")]
    Syntax(String),
}

// === impl GoPattern ===

impl GoPattern {
    pub(super) fn compile(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            compiled: compile(source),
        }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// An invalid pattern matches nothing.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }

    /// The message for a text that does not match.
    pub(super) fn mismatch(&self) -> String {
        match &self.compiled {
            Ok(_) => format!("should match '{}'", self.source),
            Err(why) => format!(
                "should match '{}, but pattern is invalid: {why}'",
                self.source
            ),
        }
    }
}

/// Compiles a pattern in Go's syntax.
pub(super) fn compile(source: &str) -> Result<Regex, PatternError> {
    let translated = PatternTranslator {
        whole: source,
        rest: source,
        out: String::new(),
        depth: 0,
    }
    .read()?;
    RegexBuilder::new(&translated)
        .size_limit(COMPILED_BYTES_MAX)
        .nest_limit(DEPTH_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
            other => {
                let why = other.to_string();
                let last = why
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                PatternError::Syntax(last)
            }
        })
}

/// Translates Go's syntax to that of the `regex` crate.
struct PatternTranslator<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    depth: u32,
}

impl<'a> PatternTranslator<'a> {
    fn read(mut self) -> Result<String, PatternError> {
        // Whether the previous token can be repeated, and whether it was a repetition.
        let mut repeatable = false;
        let mut repeated: Option<&'a str> = None;
        while let Some(next) = self.rest.chars().next() {
            let before = self.rest;
            let operator =
                matches!(next, '*' | '+' | '?') || next == '{' && repetition(self.rest).is_some();
            if operator {
                let shown = self.repetition()?;
                if !repeatable {
                    return Err(PatternError::MissingOperand(shown.to_owned()));
                }
                if let Some(first) = repeated {
                    let both = &first[..first.len() - self.rest.len()];
                    return Err(PatternError::NestedRepetition(both.to_owned()));
                }
                repeated = Some(before);
                continue;
            }
            repeated = None;
            repeatable = match next {
                '(' => self.open()?,
                ')' => {
                    self.depth = self
                        .depth
                        .checked_sub(1)
                        .ok_or_else(|| PatternError::UnexpectedParenthesis(before.to_owned()))?;
                    self.take(1);
                    true
                }
                '|' => {
                    self.take(1);
                    false
                }
                '[' => self.class().map(|()| true)?,
                '\\' => self.escape()?,
                '{' | '}' | ']' => {
                    self.out.push('\\');
                    self.take(1);
                    true
                }
                other => {
                    self.take(other.len_utf8());
                    true
                }
            };
        }
        if self.depth > 0 {
            return Err(PatternError::MissingParenthesis(self.whole.to_owned()));
        }
        Ok(self.out)
    }

    /// Copies `length` bytes.
    fn take(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.out.push_str(taken);
        self.rest = rest;
    }

    fn skip(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn repetition(&mut self) -> Result<&'a str, PatternError> {
        let length = repetition(self.rest).map_or(1, |(length, _)| length);
        let shown = &self.rest[..length];
        if let Some((_, (min, max))) = repetition(self.rest)
            && (min > REPEAT_MAX || max.is_some_and(|max| max > REPEAT_MAX || max < min))
        {
            return Err(PatternError::RepeatCount(shown.to_owned()));
        }
        self.take(length);
        if self.rest.starts_with('?') {
            self.take(1);
        }
        Ok(shown)
    }

    /// Translates the start of a group, or flags. Returns whether it can be repeated.
    fn open(&mut self) -> Result<bool, PatternError> {
        let Some(inner) = self.rest.strip_prefix("(?") else {
            self.depth += 1;
            self.take(1);
            return Ok(false);
        };
        if inner.starts_with("P<")
            || inner.starts_with('<') && !inner.starts_with("<=") && !inner.starts_with("<!")
        {
            let end = self
                .rest
                .find('>')
                .ok_or_else(|| PatternError::NamedCapture(self.rest.to_owned()))?;
            let name = self.rest[..end].rsplit('<').next().unwrap_or_default();
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(PatternError::NamedCapture(self.rest[..=end].to_owned()));
            }
            self.depth += 1;
            // Drop the name: it has no effect, and Go allows names that the crate does not.
            self.skip(end + 1);
            self.out.push('(');
            return Ok(false);
        }
        let flags = inner
            .find(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-'))
            .unwrap_or(inner.len());
        let end = inner[flags..].chars().next();
        let is_sane = inner[..flags].matches('-').count() <= 1 && !inner[..flags].ends_with('-');
        match end {
            Some(':') if is_sane => {
                self.depth += 1;
                self.take(2 + flags + 1);
            }
            Some(')') if is_sane && flags > 0 => self.take(2 + flags + 1),
            None => return Err(PatternError::MissingParenthesis(self.whole.to_owned())),
            Some(other) => {
                let shown = &self.rest[..2 + flags + other.len_utf8()];
                return Err(PatternError::PerlSyntax(shown.to_owned()));
            }
        }
        Ok(false)
    }

    /// Translates an escape outside of brackets. Returns whether it can be repeated.
    fn escape(&mut self) -> Result<bool, PatternError> {
        if self.rest.starts_with("\\Q") {
            let (literal, length) = match self.rest[2..].find("\\E") {
                Some(end) => (&self.rest[2..2 + end], end + 4),
                None => (&self.rest[2..], self.rest.len()),
            };
            self.out.push_str(&regex::escape(literal));
            self.skip(length);
            return Ok(!literal.is_empty());
        }
        match self.rest[1..].chars().next() {
            Some('A' | 'z') => self.take(2),
            Some(boundary @ ('b' | 'B')) => {
                self.out.push_str(&format!(r"(?-u:\{boundary})"));
                self.skip(2);
            }
            _ => {
                let item = self.class_escape()?;
                self.out.push_str(&item.written());
            }
        }
        Ok(true)
    }

    /// Translates a bracket expression. All characters are escaped, so that the crate finds no operators in it.
    fn class(&mut self) -> Result<(), PatternError> {
        let whole = self.rest;
        self.skip(1);
        let negated = self.rest.starts_with('^');
        if negated {
            self.skip(1);
        }
        let mut items = String::new();
        let mut first = true;
        loop {
            let Some(next) = self.rest.chars().next() else {
                return Err(PatternError::MissingBracket(whole.to_owned()));
            };
            if next == ']' && !first {
                self.skip(1);
                break;
            }
            first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest.find(":]")
            {
                let name = self.skip(end + 2);
                if !POSIX.contains(&name[2..end].trim_start_matches('^')) {
                    return Err(PatternError::ClassRange(name.to_owned()));
                }
                items.push_str(name);
                continue;
            }
            let start = self.rest;
            let low = self.class_item()?;
            let is_range =
                self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1;
            let (ClassItem::Char(low), true) = (&low, is_range) else {
                items.push_str(&low.written());
                continue;
            };
            self.skip(1);
            let (low, high) = match self.class_item()? {
                ClassItem::Char(high) if high >= *low => (u32::from(*low), u32::from(high)),
                _ => {
                    let range = &start[..start.len() - self.rest.len()];
                    return Err(PatternError::ClassRange(range.to_owned()));
                }
            };
            items.push_str(&format!(r"\x{{{low:x}}}-\x{{{high:x}}}"));
        }
        let caret = if negated { "^" } else { "" };
        self.out.push_str(&format!("[{caret}{items}]"));
        Ok(())
    }

    fn class_item(&mut self) -> Result<ClassItem, PatternError> {
        match self.rest.chars().next() {
            Some('\\') => self.class_escape(),
            Some(other) => {
                self.skip(other.len_utf8());
                Ok(ClassItem::Char(other))
            }
            None => Err(PatternError::UnterminatedClass),
        }
    }

    /// Parses an escape for a character or a character class.
    fn class_escape(&mut self) -> Result<ClassItem, PatternError> {
        let start = self.rest;
        let Some(next) = self.rest[1..].chars().next() else {
            return Err(PatternError::TrailingBackslash);
        };
        self.skip(1 + next.len_utf8());
        let shown = |rest: &str| start[..start.len() - rest.len()].to_owned();
        let item = match next {
            'a' => ClassItem::Char('\x07'),
            'f' => ClassItem::Char('\x0c'),
            't' => ClassItem::Char('\t'),
            'n' => ClassItem::Char('\n'),
            'r' => ClassItem::Char('\r'),
            'v' => ClassItem::Char('\x0b'),
            'd' => ClassItem::Class("[0-9]".into()),
            'D' => ClassItem::Class("[^0-9]".into()),
            's' => ClassItem::Class(r"[\t\n\x0c\r ]".into()),
            'S' => ClassItem::Class(r"[^\t\n\x0c\r ]".into()),
            'w' => ClassItem::Class("[0-9A-Za-z_]".into()),
            'W' => ClassItem::Class("[^0-9A-Za-z_]".into()),
            'p' | 'P' => {
                let length = match self.rest.strip_prefix('{') {
                    Some(_) => self.rest.find('}').map_or(0, |end| end + 1),
                    None => self.rest.chars().next().map_or(0, char::len_utf8),
                };
                self.skip(length);
                ClassItem::Class(shown(self.rest))
            }
            'x' | '0'..='7' => match self.code(next) {
                Some(character) => ClassItem::Char(character),
                None => return Err(PatternError::EscapeSequence(shown(self.rest))),
            },
            other if other.is_ascii_punctuation() => ClassItem::Char(other),
            _ => return Err(PatternError::EscapeSequence(shown(self.rest))),
        };
        Ok(item)
    }

    /// Parses `\x7F`, `\x{10FFFF}`, `\123` or `\0`.
    fn code(&mut self, first: char) -> Option<char> {
        let (digits, radix) = if first == 'x' && self.rest.starts_with('{') {
            let end = self.rest.find('}')?;
            let digits = &self.rest[1..end];
            self.skip(end + 1);
            (digits.to_owned(), 16)
        } else if first == 'x' {
            self.rest.get(..2)?;
            (self.skip(2).to_owned(), 16)
        } else {
            let more = self
                .rest
                .bytes()
                .take(2)
                .take_while(|byte| (b'0'..=b'7').contains(byte))
                .count();
            // Go has no back references, so a single digit other than zero is an error.
            if first != '0' && more == 0 {
                return None;
            }
            (format!("{first}{}", self.skip(more)), 8)
        };
        if !digits.chars().all(|digit| digit.is_digit(radix)) {
            return None;
        }
        char::from_u32(u32::from_str_radix(&digits, radix).ok()?)
    }
}

/// A character or a character class.
enum ClassItem {
    Char(char),
    Class(String),
}

impl ClassItem {
    /// In the crate's syntax, both alone and within brackets.
    fn written(&self) -> String {
        match self {
            ClassItem::Char(character) => format!(r"\x{{{:x}}}", u32::from(*character)),
            ClassItem::Class(class) => class.clone(),
        }
    }
}

/// Names of the POSIX character classes.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// Parses `{2}`, `{2,}` or `{2,3}` at the start of a text: its length and its bounds.
fn repetition(text: &str) -> Option<(usize, (u32, Option<u32>))> {
    let end = text.strip_prefix('{')?.find('}')? + 1;
    let (min, max) = match text[1..end].split_once(',') {
        None => (&text[1..end], Some(&text[1..end])),
        Some((min, "")) => (min, None),
        Some((min, max)) => (min, Some(max)),
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u32::MAX))
    };
    let max = match max {
        None => None,
        Some(max) => Some(number(max)?),
    };
    Some((end + 1, (number(min)?, max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pattern, a text that matches it and one that does not.
    const ROWS: &[(&str, &str, &str)] = &[
        ("^a+$", "aaa", "ab"),
        (r"^\d+$", "123", "٣"),
        (r"^\w+$", "a_1", "é"),
        (r"^[\d-]+$", "1-2", "a"),
        (r"^[^\s]+$", "ab", "a b"),
        (r"\bfoo\b", "a foo b", "afoo"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^[[]$", "[", "]"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^[]a]+$", "]a", "b"),
        (r"^a{,5}$", "a{,5}", "aa"),
        (r"^a{2,3}$", "aa", "a"),
        (r"^\x41\x{42}\103$", "ABC", "abc"),
        (r"^\p{Lu}\pL$", "Éa", "éa1"),
        (r"^[\p{Greek}]$", "λ", "l"),
        (r"(?i)^abc$", "ABC", "abd"),
        (r"^(?P<x>a)(?<y>b)$", "ab", "a"),
        (r"^[[:alpha:]]$", "a", "1"),
        (r"^a*?b??$", "aab", "c"),
        (r"^\<$", "<", ">"),
        (r"^a|b$", "ax", "xa"),
        (r"^\.\-\/$", ".-/", "a-/"),
        (r"^[+-]?[0-9]$", "-1", "1-"),
        (r"^[a\]b]$", "]", "c"),
        (r"^}$", "}", "{"),
    ];

    #[test]
    fn patterns_match_like_go() {
        for (source, good, bad) in ROWS {
            let pattern = GoPattern::compile(source);
            assert!(pattern.compiled.is_ok(), "{source}: {:?}", pattern.compiled);
            assert!(pattern.matches(good), "{source}: {good}");
            assert!(!pattern.matches(bad), "{source}: {bad}");
        }
    }

    #[test]
    fn refuses_what_go_refuses_with_its_messages() {
        let rows = [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `)`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            ("a\\", "trailing backslash at end of expression"),
        ];
        for (source, why) in rows {
            let error = compile(source).unwrap_err().to_string();
            assert_eq!(error, format!("error parsing regexp: {why}"), "{source}");
        }
    }

    #[test]
    fn compiling_and_matching_is_fast() {
        for source in [
            "(x+x+)+y",
            "(a|aa)+$",
            "((((a{100}){100}){100}){100}){100}",
            &"(".repeat(100_000),
            &"(a?){50}".repeat(40),
        ] {
            let pattern = GoPattern::compile(source);
            assert!(!pattern.matches(&"x".repeat(100_000)) || source.contains("a?"));
        }
    }
}
