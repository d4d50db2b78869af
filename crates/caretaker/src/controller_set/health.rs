//! The health of the process: facts about the server, the kinds and the controllers go in, the checks of `/livez` and
//! `/readyz` come out.
//!
//! `/livez` fails only for trouble that a restart can mend. `/readyz` fails while the process does not do the work that
//! it was started for, and says why. A process that was started to stand back, as with `--dry-run` or as a standby, is
//! ready, and `?verbose` says so. One kind that cannot be listed is shown and does not count, because most clusters have one.
//! Both pages are served without a token: details name kinds, states and times, and quote no answer of the server.

use std::time::Duration;

use caretaker_controllers::runtime::clients::RefusedCredentials;
use caretaker_controllers::runtime::driver::{DriverMode, HoldPurpose};
use caretaker_controllers::runtime::kind::KindState;
use jiff::Timestamp;

use crate::admin::{HealthCheck, HealthReport};
use crate::peers::ServerContact;

/// A controller whose due work waits for longer counts as stuck; `/livez` fails then.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Credentials that the server refuses for longer, although they were read again, are not renewed by this process. A new
/// process may be another Pod with other files.
const CREDENTIALS_REFUSED_MAX: Duration = Duration::from_secs(300);

/// A controller that has panicked this many times and is down again is in a crash loop.
const PANICS_MAX: u64 = 5;

/// Detail of a controller that panicked a moment ago.
const RESTARTING: &str = "the controller is restarting";

/// The facts that health is judged by.
pub(super) struct HealthFacts {
    pub(super) now: Timestamp,
    /// `None` for a server in this process.
    pub(super) contact: Option<ServerContact>,
    /// Set while the server refuses the credentials of all requests.
    pub(super) refused: Option<RefusedCredentials>,
    pub(super) discovery: DiscoveryFacts,
    pub(super) mode: DriverMode,
    pub(super) controllers: Vec<ControllerFacts>,
    pub(super) kinds: Vec<KindFacts>,
}

pub(super) struct DiscoveryFacts {
    /// Whether the kinds that the controllers need are known.
    pub(super) is_complete: bool,
    /// Why discovery fails, and since when.
    pub(super) trouble: Option<String>,
}

pub(super) struct ControllerFacts {
    pub(super) name: &'static str,
    /// How long its oldest due work has waited; `None` while it restarts.
    pub(super) overdue: Option<Duration>,
    /// How many times it has panicked.
    pub(super) panics: u64,
    /// The rows of its gate that hold back writes.
    pub(super) holds: Vec<(HoldPurpose, String)>,
}

pub(super) struct KindFacts {
    pub(super) name: String,
    pub(super) state: KindState,
    /// Whether its watch is open and shows nothing, not even bookmarks.
    pub(super) is_blind: bool,
}

// === impl HealthFacts ===

impl HealthFacts {
    /// The checks of `/livez`.
    pub(super) fn alive(&self) -> HealthReport {
        let mut checks = vec![pass("ping", String::new())];
        if let Some(RefusedCredentials { since, reloads }) = self.refused {
            let lasted = Duration::try_from(self.now.duration_since(since)).unwrap_or_default();
            let detail = format!(
                "the API server has refused the credentials since {since:.0}; they were read again {reloads} times"
            );
            let is_final = reloads > 0 && lasted >= CREDENTIALS_REFUSED_MAX;
            checks.push(check("credentials", !is_final, detail));
        }
        checks.extend(self.controllers.iter().map(ControllerFacts::alive));
        HealthReport { checks }
    }

    /// The checks of `/readyz`.
    pub(super) fn ready(&self) -> HealthReport {
        let mut checks = Vec::new();
        if let Some(contact) = &self.contact {
            let trouble = contact.trouble();
            checks.push(check(
                "server",
                trouble.is_none(),
                trouble.unwrap_or_default(),
            ));
        }
        checks.push(self.discovery.check());
        let controllers = self.controllers.iter();
        checks.extend(controllers.map(|controller| controller.ready(self.mode)));
        checks.extend(self.watches());
        checks.extend(self.kinds.iter().map(KindFacts::check));
        HealthReport { checks }
    }

    /// Whether the watches of all kinds together show what happens.
    fn watches(&self) -> Option<HealthCheck> {
        let all = self.kinds.len();
        if all == 0 {
            return None;
        }
        let count = |is: fn(&KindFacts) -> bool| self.kinds.iter().filter(|kind| is(kind)).count();
        let forbidden = count(|kind| kind.state == KindState::Forbidden);
        let failing = count(|kind| matches!(kind.state, KindState::Failing(_)));
        let blind = count(|kind| kind.is_blind);
        Some(if forbidden + failing == all {
            let detail = format!(
                "no kind can be watched: {forbidden} of {all} are forbidden, {failing} fail; the log has the errors"
            );
            check("watches", false, detail)
        } else if blind * 2 > all {
            let detail = format!(
                "{blind} of {all} watches are open and show nothing, not even bookmarks: the server or a proxy in \
                 between does not send events"
            );
            check("watches", false, detail)
        } else {
            pass("watches", String::new())
        })
    }
}

// === impl DiscoveryFacts ===

impl DiscoveryFacts {
    fn check(&self) -> HealthCheck {
        let detail = self.trouble.clone();
        let is_well = self.is_complete && detail.is_none();
        check("discovery", is_well, detail.unwrap_or_default())
    }
}

// === impl ControllerFacts ===

impl ControllerFacts {
    fn alive(&self) -> HealthCheck {
        match self.overdue {
            None if self.panics >= PANICS_MAX => {
                let detail = format!(
                    "it has panicked {} times; the log has the reasons",
                    self.panics
                );
                check(self.name, false, detail)
            }
            None => pass(self.name, RESTARTING.to_owned()),
            Some(overdue) if overdue > STUCK_AFTER => {
                let detail = format!("due work has waited for {} s", overdue.as_secs());
                check(self.name, false, detail)
            }
            Some(_) => pass(self.name, String::new()),
        }
    }

    fn ready(&self, mode: DriverMode) -> HealthCheck {
        if self.overdue.is_none() {
            return check(self.name, false, RESTARTING.to_owned());
        }
        if mode == DriverMode::DryRun {
            return pass(self.name, "dry run".to_owned());
        }
        let is_intended = |(purpose, _): &(HoldPurpose, String)| *purpose == HoldPurpose::Intended;
        let reasons: Vec<&str> = self.holds.iter().map(|(_, why)| why.as_str()).collect();
        check(
            self.name,
            self.holds.iter().all(is_intended),
            reasons.join("; "),
        )
    }
}

// === impl KindFacts ===

impl KindFacts {
    fn check(&self) -> HealthCheck {
        let is_ready = !matches!(self.state, KindState::Syncing(_) | KindState::Frozen);
        let blind = if self.is_blind {
            ", and its watch shows nothing"
        } else {
            ""
        };
        let detail = words(self.state) + blind;
        check(&format!("kind/{}", self.name), is_ready, detail)
    }
}

/// The state of a kind as metrics name it.
pub(super) fn word(state: KindState) -> &'static str {
    match state {
        KindState::Syncing(_) => "syncing",
        KindState::Synced => "synced",
        KindState::Frozen => "frozen",
        KindState::Forbidden => "forbidden",
        KindState::Failing(_) => "failing",
        KindState::Gone => "gone",
    }
}

fn words(state: KindState) -> String {
    match state {
        KindState::Syncing(since) | KindState::Failing(since) => {
            format!("{} since {since:.0}", word(state))
        }
        _ => word(state).to_owned(),
    }
}

fn pass(name: &str, detail: String) -> HealthCheck {
    check(name, true, detail)
}

fn check(name: &str, ok: bool, detail: String) -> HealthCheck {
    HealthCheck {
        name: name.to_owned(),
        ok,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    /// The trouble, the checks of `/readyz` and of `/livez` that fail, and a part of the sentence.
    type TroubleCase = (
        fn(&mut HealthFacts),
        &'static [&'static str],
        &'static [&'static str],
        &'static str,
    );

    const TROUBLES: &[TroubleCase] = &[
        (|_| {}, &[], &[], ""),
        (
            |facts| facts.contact = Some(ServerContact::Unknown),
            &["server"],
            &[],
            "has not answered yet",
        ),
        (
            |facts| facts.contact = Some(ServerContact::Silent(NOW)),
            &["server"],
            &[],
            "has not answered since 1970",
        ),
        (
            |facts| facts.contact = Some(ServerContact::Unauthorized(NOW)),
            &["server"],
            &[],
            "refused the credentials (401)",
        ),
        (
            |facts| {
                facts.contact = Some(ServerContact::Unauthorized(NOW));
                facts.refused = refused(7);
                facts.now = Timestamp::from_second(300).unwrap();
            },
            &["server"],
            &["credentials"],
            "refused the credentials (401)",
        ),
        (
            |facts| {
                facts.refused = refused(7);
                facts.now = Timestamp::from_second(299).unwrap();
            },
            &[],
            &[],
            "",
        ),
        (
            |facts| {
                facts.refused = refused(0);
                facts.now = Timestamp::from_second(300).unwrap();
            },
            &[],
            &[],
            "",
        ),
        (
            |facts| facts.discovery.trouble = Some("/apis: answered 503".into()),
            &["discovery"],
            &[],
            "/apis: answered 503",
        ),
        (
            |facts| facts.discovery.is_complete = false,
            &["discovery"],
            &[],
            "",
        ),
        (
            |facts| facts.controllers[0].overdue = None,
            &["gc"],
            &[],
            "restarting",
        ),
        (
            |facts| {
                facts.controllers[0].overdue = None;
                facts.controllers[0].panics = 5;
            },
            &["gc"],
            &["gc"],
            "restarting",
        ),
        (|facts| facts.controllers[0].panics = 5, &[], &[], ""),
        (
            |facts| facts.controllers[0].overdue = Some(Duration::from_secs(61)),
            &[],
            &["gc"],
            "",
        ),
        (
            |facts| {
                facts.controllers[0].holds = vec![(HoldPurpose::Trouble, "kcm is active".into())];
            },
            &["gc"],
            &[],
            "kcm is active",
        ),
        (
            |facts| {
                facts.controllers[0].holds = vec![
                    (HoldPurpose::Intended, "host_2 leads".into()),
                    (HoldPurpose::Trouble, "kcm is active".into()),
                ];
            },
            &["gc"],
            &[],
            "host_2 leads; kcm is active",
        ),
        (
            |facts| facts.kinds[0].state = KindState::Forbidden,
            &[],
            &[],
            "",
        ),
        (
            |facts| {
                for kind in &mut facts.kinds {
                    kind.state = KindState::Failing(NOW);
                }
                facts.kinds[0].state = KindState::Forbidden;
            },
            &["watches"],
            &[],
            "1 of 3 are forbidden, 2 fail",
        ),
        (
            |facts| {
                facts.kinds[0].is_blind = true;
                facts.kinds[1].is_blind = true;
            },
            &["watches"],
            &[],
            "2 of 3 watches are open and show nothing",
        ),
    ];

    fn refused(reloads: u32) -> Option<RefusedCredentials> {
        let since = NOW;
        Some(RefusedCredentials { since, reloads })
    }

    fn mk_facts() -> HealthFacts {
        HealthFacts {
            now: NOW,
            contact: Some(ServerContact::Answers),
            refused: None,
            discovery: DiscoveryFacts {
                is_complete: true,
                trouble: None,
            },
            mode: DriverMode::Act,
            controllers: vec![ControllerFacts {
                name: "gc",
                overdue: Some(Duration::ZERO),
                panics: 0,
                holds: Vec::new(),
            }],
            kinds: ["a", "b", "c"]
                .map(|name| KindFacts {
                    name: name.to_owned(),
                    state: KindState::Synced,
                    is_blind: false,
                })
                .into(),
        }
    }

    /// The names of the checks that fail.
    fn failed(report: &HealthReport) -> Vec<&str> {
        let failed = report.checks.iter().filter(|check| !check.ok);
        failed.map(|check| check.name.as_str()).collect()
    }

    #[test]
    fn each_trouble_fails_its_check_and_says_why() {
        for (number, (change, unready, dead, sentence)) in TROUBLES.iter().enumerate() {
            let mut facts = mk_facts();
            change(&mut facts);
            let (ready, alive) = (facts.ready(), facts.alive());
            assert_eq!(failed(&ready), *unready, "case {number}");
            assert_eq!(failed(&alive), *dead, "case {number}");
            let details: Vec<&str> = ready
                .checks
                .iter()
                .filter(|check| !check.ok)
                .map(|check| check.detail.as_str())
                .collect();
            assert!(details.concat().contains(sentence), "{number}: {details:?}");
        }
    }

    #[test]
    fn a_dry_run_and_a_standby_are_ready_and_shown() {
        let cases = [
            (DriverMode::DryRun, HoldPurpose::Trouble, "dry run"),
            (DriverMode::Act, HoldPurpose::Intended, "host_2 leads"),
        ];
        for (mode, purpose, shown) in cases {
            let mut facts = mk_facts();
            facts.mode = mode;
            facts.controllers[0].holds = vec![(purpose, "host_2 leads".into())];
            let ready = facts.ready();
            assert_eq!(failed(&ready), Vec::<&str>::new());
            let gc = ready.checks.iter().find(|check| check.name == "gc");
            assert_eq!(gc.unwrap().detail, shown);
        }
    }
}
