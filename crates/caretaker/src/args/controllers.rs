//! `--controllers`: which controllers run, written as kube-controller-manager writes it.
//!
//! No controller exists yet. The list is read all the same, so that scripts can be written now and a misspelt name is
//! found now.

use std::str::FromStr;

/// The names of the controllers, as upstream has them.
const NAMES: [&str; 5] = [
    "cronjob-controller",
    "garbage-collector-controller",
    "gc-controller",
    "pod-garbage-collector-controller",
    "ttl-after-finished-controller",
];

/// Which controllers are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controllers {
    names: Vec<&'static str>,
    /// Whether somebody asked for one by name, rather than for whatever there is.
    pub(crate) by_name: bool,
}

// === impl Controllers ===

impl Controllers {
    /// The controllers that are on, in the order of their names.
    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }
}

/// A list without `*` turns on what it names and nothing else; the first word about a controller counts.
impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        for word in &words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if name != "*" && !NAMES.contains(&name) {
                let known = NAMES.join(", ");
                return Err(format!(
                    "there is no controller {name:?}; there are {known}, and * for all"
                ));
            }
        }
        let is_on = |name: &&'static str| {
            let says = |word: &&&str| word.strip_prefix('-').unwrap_or(word) == *name;
            match words.iter().find(says) {
                Some(word) => !word.starts_with('-'),
                None => words.contains(&"*"),
            }
        };
        Ok(Self {
            names: NAMES.into_iter().filter(is_on).collect(),
            by_name: words.iter().any(|word| NAMES.contains(word)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_turns_on_what_it_says() {
        let cases: [(&str, &[&str]); 8] = [
            ("*", &NAMES),
            ("-*", &[]),
            ("gc-controller", &["gc-controller"]),
            (
                "gc-controller, cronjob-controller",
                &["cronjob-controller", "gc-controller"],
            ),
            ("*,-cronjob-controller", &NAMES[1..]),
            ("-cronjob-controller,*", &NAMES[1..]),
            ("-cronjob-controller", &[]),
            ("gc-controller,-gc-controller", &["gc-controller"]),
        ];
        for (text, expected) in cases {
            let controllers: Controllers = text.parse().unwrap();
            assert_eq!(controllers.names(), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        for text in [
            "",
            "job-controller",
            "-job-controller",
            "*,,",
            "gc-controller;*",
            "--*",
        ] {
            let error = text.parse::<Controllers>().unwrap_err();
            assert!(
                NAMES.iter().all(|name| error.contains(name)),
                "{text}: {error}"
            );
        }
    }
}
