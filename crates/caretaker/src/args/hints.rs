//! Better words for common mistakes on the command line: the message names the line that works.
//!
//! clap says which argument it did not expect. Here stands why: a command without `--`, a schedule without quotes.

use std::ffi::OsString;

use caretaker_machinery::cron::CronSchedule;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A schedule for the advice if the user's cannot be recognised: the shell may have replaced its stars.
const EXAMPLE: &str = "30 2 * * *";

/// A sentence about this error, if its cause is known. `arguments` begin with the program's name.
pub(super) fn hint(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unexpected)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .filter_map(|word| word.to_str())
        .collect();
    match words.as_slice() {
        ["up", rest @ ..] if !unexpected.starts_with('-') => {
            let place = rest.iter().position(|word| word == unexpected)?;
            let (flags, command) = rest.split_at(place);
            let line = [&["caretaker", "up"], flags, &["--"], command].concat();
            Some(format!("a command comes after --, as in: {}", shell(&line)))
        }
        ["schedule", "next", rest @ ..] if !unexpected.starts_with("--") => {
            let words = rest.iter().take_while(|word| !word.starts_with("--"));
            let joined = Vec::from_iter(words.copied()).join(" ");
            let schedule = match CronSchedule::parse(&joined) {
                Ok(_) => joined.as_str(),
                Err(_) => EXAMPLE,
            };
            Some(format!(
                "a schedule is one argument and needs quotes, as in: caretaker schedule next '{schedule}'"
            ))
        }
        _ => None,
    }
}

/// Words as a line for a shell.
fn shell(words: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c);
    let quoted = words.iter().map(
        |word| match word.chars().all(is_plain) && !word.is_empty() {
            true => (*word).to_owned(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        },
    );
    quoted.collect::<Vec<_>>().join(" ")
}
