//! `--controllers`: which controllers run, written as kube-controller-manager and vc-controller-manager write it.
//!
//! A list without `*` turns on what it names and nothing else; the first word about a controller counts, and `*` decides
//! for those that no word is about. Ours in addition: `-*` and `none` for no controller, and the two halves of
//! `cronjob-controller`. Controllers of the originals that are not ours may be named, so that their manifests start, and
//! a warning says that nothing comes of it.

use std::str::FromStr;

/// The collector of what belongs to nobody any more.
pub(crate) const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// The remover of Pods that nobody else removes.
pub(crate) const POD_GC: &str = "pod-garbage-collector-controller";

/// The one that ends Jobs of `batch/v1`.
pub(crate) const BATCH_TTL: &str = "ttl-after-finished-controller";

/// The one that ends Jobs of Volcano.
pub(crate) const VOLCANO_TTL: &str = "gc-controller";

/// The one that makes Jobs of `batch/v1` on schedules.
pub(crate) const BATCH_CRON: &str = "cronjob-controller/batch";

/// The one that makes Jobs of Volcano on schedules.
pub(crate) const VOLCANO_CRON: &str = "cronjob-controller/volcano";

/// What can be turned on and off.
const UNITS: [Unit; 6] = [
    Unit::half(BATCH_CRON, "cronjob-controller", "cronjob"),
    Unit::half(VOLCANO_CRON, "cronjob-controller", "cronjob"),
    Unit::whole(GARBAGE_COLLECTOR, "garbagecollector"),
    Unit::whole(VOLCANO_TTL, ""),
    Unit::whole(POD_GC, "podgc"),
    Unit::whole(BATCH_TTL, "ttl-after-finished"),
];

/// The controllers of the originals that are not ours: name and whose it is.
const FOREIGN: &str = include_str!("../../data/foreign-controllers.txt");

/// Which controllers are on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Controllers {
    /// In the order in which they were written.
    words: Vec<Word>,
}

/// One controller, or that half of one which looks after one kind.
#[derive(Debug)]
struct Unit {
    name: &'static str,
    controller: &'static str,
    /// Upstream's older name; empty if there is none.
    alias: &'static str,
}

/// One word of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    on: bool,
    about: String,
}

// === impl Unit ===

impl Unit {
    const fn whole(name: &'static str, alias: &'static str) -> Self {
        Self {
            name,
            controller: name,
            alias,
        }
    }

    const fn half(name: &'static str, controller: &'static str, alias: &'static str) -> Self {
        Self {
            name,
            controller,
            alias,
        }
    }

    fn is_called(&self, name: &str) -> bool {
        !name.is_empty() && [self.name, self.controller, self.alias].contains(&name)
    }
}

// === impl Controllers ===

impl Controllers {
    /// The lists of a flag that was given several times, as one: Go's list flags add up.
    pub(crate) fn merged(lists: &[Self]) -> Self {
        let words = lists.iter().flat_map(|list| list.words.iter().cloned());
        Self {
            words: words.collect(),
        }
    }

    /// What is on, in the order of the names. Both halves of a controller go by its own name.
    #[cfg(test)]
    fn names(&self) -> Vec<&'static str> {
        shorten(UNITS.iter().filter(|unit| self.is_on(unit)))
    }

    /// What is on, halves by their own names.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        let names = UNITS.iter().map(|unit| unit.name);
        names.filter(|name| self.runs(name)).collect()
    }

    /// Whether the unit of this name is on.
    pub(crate) fn runs(&self, name: &str) -> bool {
        let on = |unit: &Unit| unit.name == name && self.is_on(unit);
        UNITS.iter().any(on)
    }

    /// What was asked for by name and belongs to somebody else.
    pub(crate) fn foreign(&self) -> Vec<&str> {
        let words = self.words.iter().filter(|word| word.on);
        let names = words.map(|word| word.about.as_str());
        names.filter(|name| is_foreign(name)).collect()
    }

    /// The first word about a unit.
    fn about(&self, unit: &Unit) -> Option<&Word> {
        self.words.iter().find(|word| unit.is_called(&word.about))
    }

    fn is_on(&self, unit: &Unit) -> bool {
        let all = || self.words.iter().find(|word| word.about == "*");
        let word = self.about(unit).or_else(all);
        word.is_some_and(|word| word.on)
    }
}

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(|word| word.trim().parse());
        Ok(Self {
            words: words.collect::<Result<_, _>>()?,
        })
    }
}

// === impl Word ===

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return "-*".parse();
        }
        let (on, name) = match text.strip_prefix('-') {
            Some(name) => (false, name),
            // Volcano writes a plus where Kubernetes writes nothing.
            None => (true, text.strip_prefix('+').unwrap_or(text)),
        };
        let is_ours = UNITS.iter().any(|unit| unit.is_called(name));
        if name != "*" && !is_ours && !is_foreign(name) {
            let known = shorten(&UNITS).join(", ");
            return Err(format!(
                "there is no controller {name:?}; there are {known}, and * for all"
            ));
        }
        Ok(Self {
            on,
            about: name.to_owned(),
        })
    }
}

/// Whether an original has a controller of this name that is not ours.
fn is_foreign(name: &str) -> bool {
    let lines = FOREIGN.lines().filter(|line| !line.starts_with('#'));
    let mut names = lines.filter_map(|line| line.split('\t').next());
    names.any(|known| known == name)
}

/// Names for people: a controller whose halves are both there goes by its own name.
fn shorten<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    let mut last: Option<&Unit> = None;
    for unit in units {
        // Halves stand side by side in the table, and there are two of them.
        if last.is_some_and(|last| last.controller == unit.controller) {
            names.pop();
            names.push(unit.controller);
        } else {
            names.push(unit.name);
        }
        last = Some(unit);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 5] = [
        "cronjob-controller",
        "garbage-collector-controller",
        "gc-controller",
        "pod-garbage-collector-controller",
        "ttl-after-finished-controller",
    ];

    fn mk(text: &str) -> Controllers {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_turns_on_what_it_says() {
        let cases: &[(&str, &[&str])] = &[
            ("*", &ALL),
            ("-*", &[]),
            ("none", &[]),
            ("+*", &ALL),
            ("*,-*", &ALL),
            ("none,*", &[]),
            ("-*,gc-controller", &["gc-controller"]),
            ("gc-controller", &["gc-controller"]),
            ("+gc-controller", &["gc-controller"]),
            (
                "gc-controller, cronjob-controller",
                &["cronjob-controller", "gc-controller"],
            ),
            ("*,-cronjob-controller", &ALL[1..]),
            ("-cronjob-controller,*", &ALL[1..]),
            ("-cronjob-controller", &[]),
            ("gc-controller,-gc-controller", &["gc-controller"]),
            ("-gc-controller,gc-controller", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(mk(text).names(), *expected, "{text}");
        }
    }

    #[test]
    fn upstreams_older_names_and_halves_of_a_controller_are_known() {
        let cases: &[(&str, &[&str])] = &[
            ("garbagecollector", &["garbage-collector-controller"]),
            ("podgc", &["pod-garbage-collector-controller"]),
            ("ttl-after-finished", &["ttl-after-finished-controller"]),
            ("cronjob", &["cronjob-controller"]),
            ("cronjob-controller/batch", &["cronjob-controller/batch"]),
            (
                "cronjob-controller/volcano",
                &["cronjob-controller/volcano"],
            ),
            (
                "cronjob-controller,-cronjob-controller/batch",
                &["cronjob-controller"],
            ),
            (
                "-cronjob-controller/batch,cronjob-controller",
                &["cronjob-controller/volcano"],
            ),
            (
                "cronjob-controller/batch,cronjob-controller/volcano",
                &["cronjob-controller"],
            ),
            (
                "*,-garbagecollector,-podgc,-ttl-after-finished,-gc-controller",
                &["cronjob-controller"],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(mk(text).names(), *expected, "{text}");
        }
    }

    #[test]
    fn what_runs_goes_by_the_names_of_its_halves() {
        let cases: &[(&str, &[&str])] = &[
            ("none", &[]),
            ("garbagecollector", &[GARBAGE_COLLECTOR]),
            (
                "ttl-after-finished,gc-controller",
                &[VOLCANO_TTL, BATCH_TTL],
            ),
            ("cronjob,podgc", &[BATCH_CRON, VOLCANO_CRON, POD_GC]),
            (
                "*,-cronjob-controller/batch",
                &[
                    VOLCANO_CRON,
                    GARBAGE_COLLECTOR,
                    VOLCANO_TTL,
                    POD_GC,
                    BATCH_TTL,
                ],
            ),
        ];
        for (text, running) in cases {
            assert_eq!(mk(text).running(), *running, "{text}");
        }
        assert_eq!(mk("*").running().len(), UNITS.len());
        assert!(!mk("*").runs("nobody"));
    }

    #[test]
    fn controllers_of_the_originals_may_be_named() {
        let kubeadm = mk("*,bootstrapsigner,tokencleaner");
        assert_eq!(kubeadm.names(), ALL);
        assert_eq!(kubeadm.foreign(), ["bootstrapsigner", "tokencleaner"]);
        let volcano = mk("*,-sharding-controller");
        assert_eq!((volcano.names(), volcano.foreign()), (ALL.to_vec(), vec![]));
        for unit in &UNITS {
            assert!(
                ![unit.name, unit.controller, unit.alias]
                    .into_iter()
                    .any(is_foreign)
            );
        }
    }

    #[test]
    fn a_flag_that_is_given_twice_adds_up() {
        let lists = [mk("gc-controller"), mk("*,-podgc")];
        let merged = Controllers::merged(&lists);
        assert_eq!(merged.names(), mk("gc-controller,*,-podgc").names());
        assert_eq!(Controllers::merged(&[]).names(), Vec::<&str>::new());
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        for text in [
            "",
            "nobody",
            "-nobody",
            "-none",
            "*,,",
            "gc-controller;*",
            "--*",
            "cronjob-controller/",
            "gc-controller/batch",
        ] {
            let error = text.parse::<Controllers>().unwrap_err();
            assert!(
                ALL.iter().all(|name| error.contains(name)),
                "{text}: {error}"
            );
        }
    }
}
