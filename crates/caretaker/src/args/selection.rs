//! `--controllers`: the controllers that run, in the syntax of kube-controller-manager and vc-controller-manager.
//!
//! A list without `*` enables the controllers that it names and no others. The first word about a controller counts; `*`
//! decides about controllers without a word. Our additions: `-*` and `none` for no controller, and the two halves of
//! `cronjob-controller`. Upstream's other controllers may be named, so that existing manifests start; a warning says that
//! they do not run here.

use std::str::FromStr;

/// Deletes objects whose owners are gone.
pub(crate) const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";

/// Deletes terminated Pods above a threshold, and Pods without a Node.
pub(crate) const POD_GC: &str = "pod-garbage-collector-controller";

/// Deletes finished Jobs of `batch/v1` after their TTL.
pub(crate) const BATCH_TTL: &str = "ttl-after-finished-controller";

/// Deletes finished Jobs of Volcano after their TTL.
pub(crate) const VOLCANO_TTL: &str = "gc-controller";

/// Creates Jobs of `batch/v1` on schedules.
pub(crate) const BATCH_CRON: &str = "cronjob-controller/batch";

/// Creates Jobs of Volcano on schedules.
pub(crate) const VOLCANO_CRON: &str = "cronjob-controller/volcano";

/// Everything that can be enabled and disabled.
const UNITS: [ControllerUnit; 6] = [
    ControllerUnit::half(BATCH_CRON, "cronjob-controller", "cronjob"),
    ControllerUnit::half(VOLCANO_CRON, "cronjob-controller", "cronjob"),
    ControllerUnit::whole(GARBAGE_COLLECTOR, "garbagecollector"),
    ControllerUnit::whole(VOLCANO_TTL, ""),
    ControllerUnit::whole(POD_GC, "podgc"),
    ControllerUnit::whole(BATCH_TTL, "ttl-after-finished"),
];

/// Upstream's other controllers: the name, and the manager that has it.
const UPSTREAM_ONLY: &str = include_str!("../../data/foreign-controllers.txt");

/// The value of `--controllers`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ControllerSelection {
    /// In the order of the list.
    words: Vec<ListWord>,
}

/// A controller, or the half of a controller that serves one kind.
#[derive(Debug)]
struct ControllerUnit {
    name: &'static str,
    controller: &'static str,
    /// Upstream's older name; empty if there is none.
    alias: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ListWord {
    on: bool,
    about: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {name:?}; known controllers: {known}; * means all")]
pub(crate) struct UnknownController {
    name: String,
    known: String,
}

// === impl ControllerUnit ===

impl ControllerUnit {
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

// === impl ControllerSelection ===

impl ControllerSelection {
    /// Joins the lists of a repeated flag: Go's list flags add up.
    pub(crate) fn merged(lists: &[Self]) -> Self {
        let words = lists.iter().flat_map(|list| list.words.iter().cloned());
        Self {
            words: words.collect(),
        }
    }

    /// The enabled controllers, sorted by name. Two enabled halves appear as one controller.
    #[cfg(test)]
    fn names(&self) -> Vec<&'static str> {
        shorten(UNITS.iter().filter(|unit| self.is_on(unit)))
    }

    /// The enabled controllers; halves appear by their own names.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        let names = UNITS.iter().map(|unit| unit.name);
        names.filter(|name| self.runs(name)).collect()
    }

    /// Whether the controller or half of this name is enabled.
    pub(crate) fn runs(&self, name: &str) -> bool {
        let on = |unit: &ControllerUnit| unit.name == name && self.is_on(unit);
        UNITS.iter().any(on)
    }

    /// The named controllers that only upstream has.
    pub(crate) fn upstream_only(&self) -> Vec<&str> {
        let words = self.words.iter().filter(|word| word.on);
        let names = words.map(|word| word.about.as_str());
        names.filter(|name| is_upstream_only(name)).collect()
    }

    fn about(&self, unit: &ControllerUnit) -> Option<&ListWord> {
        self.words.iter().find(|word| unit.is_called(&word.about))
    }

    fn is_on(&self, unit: &ControllerUnit) -> bool {
        let all = || self.words.iter().find(|word| word.about == "*");
        let word = self.about(unit).or_else(all);
        word.is_some_and(|word| word.on)
    }
}

impl FromStr for ControllerSelection {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let words = text.split(',').map(|word| word.trim().parse());
        Ok(Self {
            words: words.collect::<Result<_, _>>()?,
        })
    }
}

// === impl ListWord ===

impl FromStr for ListWord {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        if text == "none" {
            return "-*".parse();
        }
        let (on, name) = match text.strip_prefix('-') {
            Some(name) => (false, name),
            // vc-controller-manager accepts a plus sign.
            None => (true, text.strip_prefix('+').unwrap_or(text)),
        };
        let is_ours = UNITS.iter().any(|unit| unit.is_called(name));
        if name != "*" && !is_ours && !is_upstream_only(name) {
            return Err(UnknownController {
                name: name.to_owned(),
                known: shorten(&UNITS).join(", "),
            });
        }
        Ok(Self {
            on,
            about: name.to_owned(),
        })
    }
}

fn is_upstream_only(name: &str) -> bool {
    let lines = UPSTREAM_ONLY.lines().filter(|line| !line.starts_with('#'));
    let mut names = lines.filter_map(|line| line.split('\t').next());
    names.any(|known| known == name)
}

/// Names for messages: two enabled halves appear as one controller.
fn shorten<'a>(units: impl IntoIterator<Item = &'a ControllerUnit>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    let mut last: Option<&ControllerUnit> = None;
    for unit in units {
        // The two halves of a controller are neighbours in the table.
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

    fn mk(text: &str) -> ControllerSelection {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_enables_the_controllers_it_names() {
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
    fn running_lists_both_halves_of_a_controller() {
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
        assert!(!mk("*").runs("unknown"));
    }

    #[test]
    fn upstreams_other_controllers_may_be_named() {
        let kubeadm = mk("*,bootstrapsigner,tokencleaner");
        assert_eq!(kubeadm.names(), ALL);
        assert_eq!(kubeadm.upstream_only(), ["bootstrapsigner", "tokencleaner"]);
        let volcano = mk("*,-sharding-controller");
        assert_eq!(
            (volcano.names(), volcano.upstream_only()),
            (ALL.to_vec(), vec![])
        );
        for unit in &UNITS {
            assert!(
                ![unit.name, unit.controller, unit.alias]
                    .into_iter()
                    .any(is_upstream_only)
            );
        }
    }

    #[test]
    fn a_repeated_flag_adds_up() {
        let lists = [mk("gc-controller"), mk("*,-podgc")];
        let merged = ControllerSelection::merged(&lists);
        assert_eq!(merged.names(), mk("gc-controller,*,-podgc").names());
        assert_eq!(ControllerSelection::merged(&[]).names(), Vec::<&str>::new());
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_names() {
        for text in [
            "",
            "unknown",
            "-unknown",
            "-none",
            "*,,",
            "gc-controller;*",
            "--*",
            "cronjob-controller/",
            "gc-controller/batch",
        ] {
            let error = text.parse::<ControllerSelection>().unwrap_err().to_string();
            assert!(
                ALL.iter().all(|name| error.contains(name)),
                "{text}: {error}"
            );
        }
    }
}
