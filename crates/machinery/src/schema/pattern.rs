//! Patterns: Go's regular expressions, matched by the `regex` crate in linear time.
//!
//! Both come from RE2 and mean the same almost everywhere. The rest is rewritten here while a pattern is read, or refused
//! in Go's words: `\d`, `\w`, `\s` and `\b` are of ASCII in Go; `\Q…\E` and octal escapes exist only there; within brackets
//! `[`, `&&`, `--` and `~~` are plain characters there; `{,5}` is text; `**` and more than a thousand repetitions are
//! errors; the flags `x`, `u` and `R` do not exist.
//! DEVIATION(pattern-size): a pattern that compiles to more than 10 MiB is refused; Go's limit is on what is repeated.

use regex::{Regex, RegexBuilder};

/// What a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 10 * 1024 * 1024;
/// How deep groups may be nested, as in Go.
const DEPTH_MAX: u32 = 1000;
/// How often something may be repeated, as in Go.
const REPEAT_MAX: u32 = 1000;

/// A pattern of a schema.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    compiled: Result<Regex, String>,
}

// === impl Pattern ===

impl Pattern {
    pub(super) fn compile(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            compiled: compile(source),
        }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// A pattern that is none matches nothing.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }

    /// What is said of a text that does not match.
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

/// The expression, or why it is none, in Go's words.
pub(super) fn compile(source: &str) -> Result<Regex, String> {
    let translated = Reader {
        whole: source,
        rest: source,
        out: String::new(),
        depth: 0,
    }
    .read();
    let translated = translated.map_err(|why| format!("error parsing regexp: {why}"))?;
    RegexBuilder::new(&translated)
        .size_limit(COMPILED_BYTES_MAX)
        .nest_limit(DEPTH_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "error parsing regexp: expression too large".to_owned()
            }
            other => {
                let why = other.to_string();
                let last = why
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                format!("error parsing regexp: {last}")
            }
        })
}

/// Reads Go's syntax and writes the crate's.
struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<String, String> {
        // What came last: an operand, a repetition, or nothing that could be repeated.
        let mut repeatable = false;
        let mut repeated: Option<&'a str> = None;
        while let Some(next) = self.rest.chars().next() {
            let before = self.rest;
            let operator =
                matches!(next, '*' | '+' | '?') || next == '{' && repetition(self.rest).is_some();
            if operator {
                let shown = self.repetition()?;
                if !repeatable {
                    return Err(format!(
                        "missing argument to repetition operator: `{shown}`"
                    ));
                }
                if let Some(first) = repeated {
                    let both = &first[..first.len() - self.rest.len()];
                    return Err(format!("invalid nested repetition operator: `{both}`"));
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
                        .ok_or_else(|| format!("unexpected ): `{before}`"))?;
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
            return Err(format!("missing closing ): `{}`", self.whole));
        }
        Ok(self.out)
    }

    /// Passes on `length` bytes.
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

    fn repetition(&mut self) -> Result<&'a str, String> {
        let length = repetition(self.rest).map_or(1, |(length, _)| length);
        let shown = &self.rest[..length];
        if let Some((_, (min, max))) = repetition(self.rest)
            && (min > REPEAT_MAX || max.is_some_and(|max| max > REPEAT_MAX || max < min))
        {
            return Err(format!("invalid repeat count: `{shown}`"));
        }
        self.take(length);
        if self.rest.starts_with('?') {
            self.take(1);
        }
        Ok(shown)
    }

    /// A group, or flags for what follows. Answers whether what was read can be repeated.
    fn open(&mut self) -> Result<bool, String> {
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
                .ok_or_else(|| format!("invalid named capture: `{}`", self.rest))?;
            let name = self.rest[..end].rsplit('<').next().unwrap_or_default();
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(format!("invalid named capture: `{}`", &self.rest[..=end]));
            }
            self.depth += 1;
            // Names mean nothing here, and Go allows some that the crate does not.
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
            None => return Err(format!("missing closing ): `{}`", self.whole)),
            Some(other) => {
                let shown = &self.rest[..2 + flags + other.len_utf8()];
                return Err(format!("invalid or unsupported Perl syntax: `{shown}`"));
            }
        }
        Ok(false)
    }

    /// An escape outside of brackets. Answers whether it can be repeated.
    fn escape(&mut self) -> Result<bool, String> {
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

    /// What stands in brackets, written anew without anything that the crate takes for an operator.
    fn class(&mut self) -> Result<(), String> {
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
                return Err(format!("missing closing ]: `{whole}`"));
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
                    return Err(format!("invalid character class range: `{name}`"));
                }
                items.push_str(name);
                continue;
            }
            let start = self.rest;
            let low = self.class_item()?;
            let is_range =
                self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1;
            let (Item::Char(low), true) = (&low, is_range) else {
                items.push_str(&low.written());
                continue;
            };
            self.skip(1);
            let high = self.class_item()?;
            let Item::Char(high) = high.clone() else {
                return Err(format!(
                    "invalid character class range: `{}`",
                    &start[..start.len() - self.rest.len()]
                ));
            };
            if high < *low {
                return Err(format!(
                    "invalid character class range: `{}`",
                    &start[..start.len() - self.rest.len()]
                ));
            }
            items.push_str(&format!(
                r"\x{{{:x}}}-\x{{{:x}}}",
                u32::from(*low),
                u32::from(high)
            ));
        }
        let caret = if negated { "^" } else { "" };
        self.out.push_str(&format!("[{caret}{items}]"));
        Ok(())
    }

    fn class_item(&mut self) -> Result<Item, String> {
        match self.rest.chars().next() {
            Some('\\') => self.class_escape(),
            Some(other) => {
                self.skip(other.len_utf8());
                Ok(Item::Char(other))
            }
            None => Err("missing closing ]".to_owned()),
        }
    }

    /// An escape that names a character or a class of them.
    fn class_escape(&mut self) -> Result<Item, String> {
        let start = self.rest;
        let Some(next) = self.rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression".to_owned());
        };
        self.skip(1 + next.len_utf8());
        let shown = |rest: &str| start[..start.len() - rest.len()].to_owned();
        let item = match next {
            'a' => Item::Char('\x07'),
            'f' => Item::Char('\x0c'),
            't' => Item::Char('\t'),
            'n' => Item::Char('\n'),
            'r' => Item::Char('\r'),
            'v' => Item::Char('\x0b'),
            'd' => Item::Class("[0-9]".into()),
            'D' => Item::Class("[^0-9]".into()),
            's' => Item::Class(r"[\t\n\x0c\r ]".into()),
            'S' => Item::Class(r"[^\t\n\x0c\r ]".into()),
            'w' => Item::Class("[0-9A-Za-z_]".into()),
            'W' => Item::Class("[^0-9A-Za-z_]".into()),
            'p' | 'P' => {
                let length = match self.rest.strip_prefix('{') {
                    Some(_) => self.rest.find('}').map_or(0, |end| end + 1),
                    None => self.rest.chars().next().map_or(0, char::len_utf8),
                };
                self.skip(length);
                Item::Class(shown(self.rest))
            }
            'x' | '0'..='7' => match self.code(next) {
                Some(character) => Item::Char(character),
                None => return Err(format!("invalid escape sequence: `{}`", shown(self.rest))),
            },
            other if other.is_ascii_punctuation() => Item::Char(other),
            _ => return Err(format!("invalid escape sequence: `{}`", shown(self.rest))),
        };
        Ok(item)
    }

    /// The character of `\x7F`, `\x{10FFFF}`, `\123` or `\0`.
    fn code(&mut self, first: char) -> Option<char> {
        let (digits, radix) = if first == 'x' && self.rest.starts_with('{') {
            let end = self.rest.find('}')?;
            let digits = &self.rest[1..end];
            self.skip(end + 1);
            (digits.to_owned(), 16)
        } else if first == 'x' {
            let digits = self.rest.get(..2)?;
            (
                self.skip(2).to_owned(),
                if digits.is_empty() { 0 } else { 16 },
            )
        } else {
            let more = self
                .rest
                .bytes()
                .take(2)
                .take_while(|byte| (b'0'..=b'7').contains(byte))
                .count();
            // Go has no back references, so a single digit but zero is an error.
            if first != '0' && more == 0 {
                return None;
            }
            (format!("{first}{}", self.skip(more)), 8)
        };
        let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        is_number
            .then(|| {
                u32::from_str_radix(&digits, radix)
                    .ok()
                    .and_then(char::from_u32)
            })
            .flatten()
    }
}

/// A character or a class of them.
#[derive(Clone)]
enum Item {
    Char(char),
    Class(String),
}

impl Item {
    /// As it stands by itself, and in brackets: nested ones mean what they hold.
    fn written(&self) -> String {
        match self {
            Item::Char(character) => format!(r"\x{{{:x}}}", u32::from(*character)),
            Item::Class(class) => class.clone(),
        }
    }
}

/// Classes of characters by name.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// The length of `{2}`, `{2,}` or `{2,3}` at the start of a text, and its bounds.
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

    /// A pattern, a text that it matches and one that it does not.
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
    fn patterns_mean_what_they_mean_in_go() {
        for (source, good, bad) in ROWS {
            let pattern = Pattern::compile(source);
            assert!(pattern.compiled.is_ok(), "{source}: {:?}", pattern.compiled);
            assert!(pattern.matches(good), "{source}: {good}");
            assert!(!pattern.matches(bad), "{source}: {bad}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
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
            let error = compile(source).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: {why}"), "{source}");
        }
    }

    #[test]
    fn no_pattern_takes_long_to_compile_or_to_match() {
        for source in [
            "(x+x+)+y",
            "(a|aa)+$",
            "((((a{100}){100}){100}){100}){100}",
            &"(".repeat(100_000),
            &"(a?){50}".repeat(40),
        ] {
            let pattern = Pattern::compile(source);
            assert!(!pattern.matches(&"x".repeat(100_000)) || source.contains("a?"));
        }
    }
}
