//! Rust source as a flat list of tokens.
//!
//! Rules look at tokens instead of a syntax tree because a lexer also sees what is written inside macro calls
//! (`select!`, `proptest!`), while comments and string literals cannot be mistaken for code. What little structure the
//! rules need, attributes, items and function bodies, is read off the brackets.

use std::ops::{Range, RangeInclusive};

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// Holds one word, literal, bracket or punctuation mark; `::` counts as one mark.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Index of the bracket that closes this one; for anything but an opening bracket, its own index.
    pub(crate) close: usize,
}

/// Holds where an item with attributes stands, as indices of tokens. Doc comments are attributes.
pub(crate) struct Item {
    pub(crate) attributes: Range<usize>,
    /// From the first token after the attributes to the closing brace or the semicolon.
    pub(crate) body: RangeInclusive<usize>,
}

/// Holds where a function with a body stands, as indices of tokens.
pub(crate) struct Function {
    /// The word `fn`.
    pub(crate) start: usize,
    /// The closing brace.
    pub(crate) end: usize,
}

/// The tokens of `text`, or the line that is not Rust.
pub(crate) fn lex(text: &str) -> Result<Vec<Token>, usize> {
    let stream: TokenStream = text
        .parse()
        .map_err(|error: proc_macro2::LexError| error.span().start().line)?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    Ok(tokens)
}

/// Returns whether the tokens from `at` on are `words`.
pub(crate) fn reads(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    let here = tokens.get(at..).unwrap_or_default();
    here.len() >= words.len()
        && here
            .iter()
            .zip(words)
            .all(|(token, word)| token.text == *word)
}

/// Every item with attributes, those inside other items and inside macro calls included.
pub(crate) fn items(tokens: &[Token]) -> Vec<Item> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start = at;
        while reads(tokens, at, &["#", "["]) {
            at = tokens[at + 1].close + 1;
        }
        if at == start {
            at += 1;
        } else {
            items.push(Item {
                attributes: start..at,
                body: at..=item_end(tokens, at),
            });
        }
    }
    items
}

/// Every function that has a body, nested ones included.
pub(crate) fn functions(tokens: &[Token]) -> Vec<Function> {
    let named = |&start: &usize| tokens[start].text == "fn" && is_word(tokens.get(start + 1));
    let ends = (0..tokens.len()).filter(named).map(|start| Function {
        start,
        end: item_end(tokens, start),
    });
    ends.filter(|function| tokens[function.end].text == "}")
        .collect()
}

/// The attributes of an item, each as the indices of the tokens between its brackets.
pub(crate) fn attributes(tokens: &[Token], item: &Item) -> Vec<Range<usize>> {
    let opening = |&at: &usize| reads(tokens, at, &["#", "["]);
    let inner = |at: usize| at + 2..tokens[at + 1].close;
    item.attributes.clone().filter(opening).map(inner).collect()
}

/// The last token of the item that starts at `from`: where its body closes, its semicolon, or where its surroundings end.
fn item_end(tokens: &[Token], from: usize) -> usize {
    let mut at = from;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => return tokens[at].close,
            ";" => return at,
            "}" | ")" | "]" => break,
            _ => at = tokens[at].close + 1,
        }
    }
    at - 1
}

fn is_word(token: Option<&Token>) -> bool {
    token.is_some_and(|token| {
        token
            .text
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    })
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut after_colon = false;
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => flatten_group(&group, tokens),
            TokenTree::Punct(mark) if mark.as_char() == ':' && after_colon => {
                tokens
                    .last_mut()
                    .expect("a colon came before")
                    .text
                    .push(':');
                after_colon = false;
                continue;
            }
            TokenTree::Punct(mark) => {
                push(tokens, mark.to_string(), line);
                after_colon = mark.as_char() == ':' && mark.spacing() == Spacing::Joint;
                continue;
            }
            word_or_literal => push(tokens, word_or_literal.to_string(), line),
        }
        after_colon = false;
    }
}

fn flatten_group(group: &Group, tokens: &mut Vec<Token>) {
    let (open, close) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::None => return flatten(group.stream(), tokens),
    };
    let opened = tokens.len();
    push(tokens, open.to_string(), group.span_open().start().line);
    flatten(group.stream(), tokens);
    tokens[opened].close = tokens.len();
    push(tokens, close.to_string(), group.span_close().start().line);
}

fn push(tokens: &mut Vec<Token>, text: String, line: usize) {
    let close = tokens.len();
    tokens.push(Token { text, line, close });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code_and_macro_calls_are() {
        let tokens = lex("// fn a\nlet b = \"fn c\"; m! { d::e }").unwrap();
        let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "let", "b", "=", "\"fn c\"", ";", "m", "!", "{", "d", "::", "e", "}"
            ]
        );
        assert_eq!((tokens[0].line, tokens[7].close), (2, 11));
    }

    #[test]
    fn an_unbalanced_bracket_is_reported_with_its_line() {
        assert_eq!(lex("fn a() {}\n)").unwrap_err(), 2);
    }

    #[test]
    fn items_end_where_their_body_or_statement_ends() {
        let tokens =
            lex("#[a] fn f() -> [u8; 2] { 1 }\n#[b]\n#[c] const D: [u8; 1] = [0];\nfn g() {}")
                .unwrap();
        let found: Vec<(usize, String)> = items(&tokens)
            .iter()
            .map(|item| {
                (
                    attributes(&tokens, item).len(),
                    tokens[*item.body.end()].text.clone(),
                )
            })
            .collect();
        assert_eq!(found, [(1, "}".to_string()), (2, ";".to_string())]);
    }

    #[test]
    fn functions_are_found_with_their_bodies_only() {
        let tokens =
            lex("trait T { fn a(); fn b() { } }\ntype F = fn(u8) -> u8;\nm! { fn c() {\n} }")
                .unwrap();
        let names: Vec<&str> = functions(&tokens)
            .iter()
            .map(|function| tokens[function.start + 1].text.as_str())
            .collect();
        assert_eq!(names, ["b", "c"]);
    }
}
