//! What the numbers have to be, as rows, and what has to be said beside them.
//!
//! Every budget ends in one plain sentence: met, not met, or not measured. Where there is no budget, a sentence still
//! says which collector was faster, so that nobody has to look for the case in which the other one wins.

use super::super::bounds::{Bound, of_peers, times, word};
use super::super::doubts::doubts;
use super::super::legs::Results;
use super::super::peers::Side;
use super::super::run::Measurable as _;
use super::super::stand::{PEAK_BYTES, REQUEST_RATE, SERVER_CPU, STEADY_BYTES};
use super::super::{Unit, digits};
use super::leg::{BYTES_PER_OBJECT, EMPTY_BYTES, PER_OBJECT, PLAIN_RATE, RATE, READY};
use super::{Case, Mode, Wanted, Workload};

/// How far a rate may be from the budget that both were given before that is said.
const BUDGET_SLACK: f64 = 1.1;

/// One budget.
struct Budget {
    workloads: &'static [Workload],
    /// In this mode only.
    mode: Option<Mode>,
    demand: Demand,
}

/// What is demanded.
enum Demand {
    /// Of every case.
    Each(Bound),
    /// Of all cases that differ in workers only: a figure is at least so many times the peer's, each side at its best.
    BestTimesPeer(&'static str, f64),
}

const BUDGETS: [Budget; 12] = [
    row(
        &[Workload::Flat, Workload::Chain],
        None,
        Demand::Each(Bound::AtMost(PER_OBJECT, 1.05, Unit::Count)),
    ),
    row(
        &[Workload::Foreground],
        None,
        Demand::Each(Bound::AtMost(PER_OBJECT, 1.1, Unit::Count)),
    ),
    row(
        &[Workload::Flat],
        Some(Mode::Equal),
        Demand::Each(Bound::TimesPeer(RATE, 1.9)),
    ),
    row(
        &[Workload::Flat],
        Some(Mode::Unlimited),
        Demand::BestTimesPeer(RATE, 1.3),
    ),
    row(
        &[Workload::Flat],
        Some(Mode::Unlimited),
        Demand::Each(Bound::TimesOwn(RATE, PLAIN_RATE, 0.8)),
    ),
    row(
        &[Workload::Flat],
        Some(Mode::Unlimited),
        Demand::Each(Bound::PartOfPeer(SERVER_CPU, 2.0)),
    ),
    row(
        &[Workload::Flat],
        Some(Mode::Defaults),
        Demand::Each(Bound::TimesPeer(RATE, 25.0)),
    ),
    row(
        &[Workload::Start],
        None,
        Demand::Each(Bound::AtMost(BYTES_PER_OBJECT, 250.0, Unit::Bytes)),
    ),
    row(
        &[Workload::Start],
        None,
        Demand::Each(Bound::PartOfPeer(BYTES_PER_OBJECT, 8.0)),
    ),
    row(
        &[Workload::Start],
        None,
        Demand::Each(Bound::AtMost(EMPTY_BYTES, 20e6, Unit::Bytes)),
    ),
    row(
        &[Workload::Start],
        None,
        Demand::Each(Bound::PartOfPeer(READY, 3.0)),
    ),
    row(
        &[Workload::Start],
        None,
        Demand::Each(Bound::AtMostTimesOwn(PEAK_BYTES, STEADY_BYTES, 1.3)),
    ),
];

const fn row(workloads: &'static [Workload], mode: Option<Mode>, demand: Demand) -> Budget {
    Budget {
        workloads,
        mode,
        demand,
    }
}

/// One sentence for each budget and case, and one for each cascade without a budget of its own.
pub(super) fn verdicts(cases: &[Case], results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for budget in &BUDGETS {
        let meant: Vec<&Case> = cases.iter().filter(|case| budget.is_for(case)).collect();
        match budget.demand {
            Demand::BestTimesPeer(_, _) if meant.is_empty() => {}
            Demand::BestTimesPeer(what, factor) => {
                sentences.push(best_times_peer(&meant, results, what, factor));
            }
            Demand::Each(bound) => {
                let each = meant.iter();
                sentences.extend(each.map(|case| bound.verdict(&case.title(), results)));
            }
        }
    }
    let timed = cases.iter().filter(|case| {
        let is_judged = |budget: &Budget| {
            let is_of_rate = matches!(
                budget.demand,
                Demand::Each(Bound::TimesPeer(RATE, _)) | Demand::BestTimesPeer(RATE, _)
            );
            is_of_rate && budget.is_for(case)
        };
        case.workload != Workload::Start && !BUDGETS.iter().any(is_judged)
    });
    sentences.extend(timed.filter_map(|case| comparison(&case.title(), results)));
    // Two bounds on one figure that was not measured are one sentence.
    sentences.dedup();
    sentences
}

/// What has to be known to read the numbers.
pub(super) fn notes(wanted: &Wanted, cases: &[Case], results: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    if cases.iter().any(|case| case.mode == Mode::Defaults) {
        notes.push("defaults: theirs is a rate limit (40 requests a second), ours is none; that ratio says little about either program".to_owned());
    }
    if cases.iter().any(|case| case.mode == Mode::Equal) {
        let budget = wanted.budget;
        notes.push(format!("equal budget: both may send {budget} requests a second; the Go collector is given half of it because it doubles its flag"));
    }
    notes.push("medians over the legs; a fresh kube-apiserver and etcd (with fsync) in each; both collectors are the same ordinary user, subject to Priority and Fairness; requests are those on ConfigMaps and Events as the API server counted them, without the driver's".to_owned());
    if cases.iter().any(|case| case.workload == Workload::Start) {
        notes.push("memory of the garbage collector alone, while the budget for an empty cluster is for all controllers; the Go collector's start ends when its informers have synced, ours when the graph is complete".to_owned());
    }
    for case in cases {
        notes.extend(doubts(&case.title(), RATE, results));
        notes.extend(budget_doubts(wanted, case, results));
    }
    notes
}

// === impl Budget ===

impl Budget {
    fn is_for(&self, case: &Case) -> bool {
        self.workloads.contains(&case.workload) && self.mode.is_none_or(|mode| mode == case.mode)
    }
}

/// The same workload at several numbers of workers: the best of each side.
fn best_times_peer(cases: &[&Case], results: &Results, what: &str, factor: f64) -> String {
    let best = |side| {
        let measured = cases.iter().filter_map(|case| {
            let value = results.median(&case.title(), side, what)?;
            Some((value, case.settings.workers.unwrap_or_default()))
        });
        measured.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let of = cases.first().map_or("", |case| case.workload.word());
    let (Some((ours, our_workers)), Some((peer, peer_workers))) =
        (best(Side::Ours), best(Side::Peer))
    else {
        return format!("not measured: {what}, {of}, unlimited");
    };
    let (is_met, numbers) = times(ours / peer, factor);
    let verdict = word(is_met);
    format!(
        "{verdict}: {what}, {of}, unlimited, each at its best ({our_workers} workers, Go {peer_workers}): {numbers}"
    )
}

/// Who is faster where no budget says by how much.
fn comparison(case: &str, results: &Results) -> Option<String> {
    let found = results.ratio(case, RATE)?;
    let who = if found >= 1.0 {
        "ours is faster"
    } else {
        "the Go collector is faster"
    };
    let shown = of_peers(found);
    Some(format!("no budget: {RATE}, {case}: {shown}; {who}"))
}

/// Whether the budget that both were given was what limited them.
fn budget_doubts(wanted: &Wanted, case: &Case, results: &Results) -> Vec<String> {
    let (title, budget) = (case.title(), f64::from(wanted.budget));
    let mut doubts = Vec::new();
    for side in [Side::Ours, Side::Peer] {
        let rate = results.median(&title, side, REQUEST_RATE);
        let Some(rate) = rate.filter(|_| case.mode == Mode::Equal) else {
            continue;
        };
        let (who, shown) = (side.word(), digits(rate));
        if rate > budget * BUDGET_SLACK {
            doubts.push(format!(
                "{title}, {who}: {shown} requests/s are more than its budget"
            ));
        } else if rate * BUDGET_SLACK < budget {
            doubts.push(format!(
                "{title}, {who}: {shown} requests/s: not the budget was the limit"
            ));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::super::super::Figure;
    use super::super::super::legs::Leg;
    use super::super::super::peers::{Limit, Settings};
    use super::super::super::run::Run;
    use super::super::super::stand::{DRIVER_BUSY, OTHERS, STEAL};
    use super::*;

    fn case(workload: Workload, mode: Mode, workers: Option<u32>) -> Case {
        let limit = Limit::None;
        Case {
            workload,
            mode,
            objects: 5_000,
            settings: Settings { limit, workers },
        }
    }

    /// A figure's name, our number and the peer's.
    type Row = (&'static str, f64, f64);

    /// A leg of each side with the numbers of its figures.
    fn results(cases: &[(Case, &[Row])]) -> (Vec<Case>, Results) {
        let leg = |case: &Case, side, figures: &[Row]| Leg {
            case: case.title(),
            side,
            number: 1,
            figures: figures
                .iter()
                .map(|(what, ours, peer)| {
                    let value = if side == Side::Ours { *ours } else { *peer };
                    Figure::new(*what, value, Unit::Count)
                })
                .collect(),
        };
        let legs = cases.iter().flat_map(|(case, figures)| {
            [Side::Ours, Side::Peer].map(|side| leg(case, side, figures))
        });
        let legs = legs.collect();
        (cases.iter().map(|(case, _)| *case).collect(), Results(legs))
    }

    #[test]
    fn every_budget_ends_in_a_sentence() {
        let (cases, results) = results(&[
            (
                case(Workload::Flat, Mode::Equal, None),
                &[(RATE, 300.0, 200.0), (PER_OBJECT, 1.0, 2.0)],
            ),
            (
                case(Workload::Orphan, Mode::Equal, None),
                &[(RATE, 100.0, 200.0)],
            ),
            (
                case(Workload::Chain, Mode::Equal, None),
                &[(RATE, 500.0, 200.0)],
            ),
            (
                case(Workload::Start, Mode::Unlimited, None),
                &[
                    (BYTES_PER_OBJECT, 200.0, 3_600.0),
                    (EMPTY_BYTES, 25e6, 91e6),
                    (READY, 1.0, 2.0),
                    (PEAK_BYTES, 12.0, 9.0),
                    (STEADY_BYTES, 10.0, 9.0),
                ],
            ),
        ]);
        let expected = [
            "met: requests per object, flat 5,000, equal budget: 1.00 (at most 1.05; Go 2.00)",
            "not measured: requests per object, chain 5,000, equal budget",
            "not met: objects/s, flat 5,000, equal budget: 1.50 × Go's (at least 1.9 ×)",
            "met: resident memory per object, start at 5,000: 200 B (at most 250 B; Go 3.60 kB)",
            "met: resident memory per object, start at 5,000: 1/18.0 of Go's (at most 1/8)",
            "not met: resident memory, empty cluster, start at 5,000: 25.0 MB (at most 20.0 MB; Go 91.0 MB)",
            "not met: start to complete graph, start at 5,000: 1/2.00 of Go's (at most 1/3)",
            "met: resident memory, peak, start at 5,000: 1.20 × the resident memory, steady (at most 1.3 ×)",
            "no budget: objects/s, orphan 5,000, equal budget: 1/2.00 of Go's; the Go collector is faster",
            "no budget: objects/s, chain 5,000, equal budget: 2.50 × Go's; ours is faster",
        ];
        assert_eq!(verdicts(&cases, &results), expected);
    }

    #[test]
    fn unlimited_each_side_counts_with_its_best_number_of_workers() {
        let mk = |workers| case(Workload::Flat, Mode::Unlimited, Some(workers));
        let (cases, results) = results(&[
            (
                mk(20),
                &[(RATE, 1_000.0, 600.0), (PLAIN_RATE, 1_100.0, 1_100.0)],
            ),
            (
                mk(100),
                &[(RATE, 900.0, 800.0), (PLAIN_RATE, 1_400.0, 1_400.0)],
            ),
        ]);
        let sentences = verdicts(&cases, &results);
        let expected = [
            "not measured: requests per object, flat 5,000, unlimited, 20 workers",
            "not measured: requests per object, flat 5,000, unlimited, 100 workers",
            "not met: objects/s, flat, unlimited, each at its best (20 workers, Go 100): 1.25 × Go's (at least 1.3 ×)",
            "met: objects/s, flat 5,000, unlimited, 20 workers: 0.91 × the plain client's deletes/s (at least 0.8 ×)",
            "not met: objects/s, flat 5,000, unlimited, 100 workers: 0.64 × the plain client's deletes/s (at least 0.8 ×)",
        ];
        assert_eq!(sentences[..5], expected);
    }

    #[test]
    fn what_casts_doubt_on_a_number_is_said() {
        let equal = case(Workload::Flat, Mode::Equal, None);
        let wanted = Wanted {
            workloads: Vec::new(),
            modes: Vec::new(),
            objects: None,
            workers: Vec::new(),
            budget: 400,
            run: Run {
                legs: "AB".parse().unwrap(),
                only: None,
                csv: None,
                is_quick: true,
                is_rehearsal: false,
            },
        };
        let (_, results) = results(&[(
            equal,
            &[
                (STEAL, 0.03, 0.0),
                (OTHERS, 0.1, 0.5),
                (DRIVER_BUSY, 0.2, 0.95),
                (REQUEST_RATE, 300.0, 800.0),
            ],
        )]);
        let expected = [
            "flat 5,000, equal budget, ours: stolen by the host 3 %: run it again",
            "flat 5,000, equal budget, Go: taken by other programs 50 %: something else ran; run it again",
            "flat 5,000, equal budget, Go: driver busy 95 %: the driver may be the limit",
            "flat 5,000, equal budget, ours: 300 requests/s: not the budget was the limit",
            "flat 5,000, equal budget, Go: 800 requests/s are more than its budget",
        ];
        let notes = notes(&wanted, &[equal], &results);
        assert_eq!(notes[notes.len() - expected.len()..], expected);
        assert!(notes[0].contains("400 requests a second"), "{notes:?}");
    }
}
