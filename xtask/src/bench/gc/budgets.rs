//! The bounds on the figures, as rows, and the notes below the tables.
//!
//! Every budget ends in one verdict: met, not met, or not measured. A cascade without a budget gets a sentence about the
//! faster collector, so that the cases in which the Go collector wins are listed too.

use super::super::bounds::{FigureBound, doubts, of_peers, times, word};
use super::super::legs::LegResults;
use super::super::peers::BenchSide;
use super::super::run::Measurable as _;
use super::super::stand::{PEAK_BYTES, REQUEST_RATE, SERVER_CPU, STEADY_BYTES};
use super::super::{FigureUnit, digits};
use super::leg::{BYTES_PER_OBJECT, EMPTY_BYTES, PER_OBJECT, PLAIN_RATE, RATE, READY};
use super::{GcBenchOptions, GcCase, GcMode, GcWorkload};

/// The factor by which a rate may differ from the equal budget without a note.
const BUDGET_SLACK: f64 = 1.1;

/// A demand on some workloads.
struct GcBudget {
    workloads: &'static [GcWorkload],
    /// Only in this mode, or in all.
    mode: Option<GcMode>,
    demand: BudgetDemand,
}

enum BudgetDemand {
    /// Every case keeps the bound.
    Each(FigureBound),
    /// Over all cases that differ in workers only, a figure is at least this multiple of the peer's, each side at its best.
    BestTimesPeer(&'static str, f64),
}

#[rustfmt::skip]
const BUDGETS: [GcBudget; 12] = [
    row(&[GcWorkload::Flat, GcWorkload::Chain], None, each(FigureBound::AtMost(PER_OBJECT, 1.05, FigureUnit::Count))),
    row(&[GcWorkload::Foreground], None, each(FigureBound::AtMost(PER_OBJECT, 1.1, FigureUnit::Count))),
    row(&[GcWorkload::Flat], Some(GcMode::Equal), each(FigureBound::TimesPeer(RATE, 1.9))),
    row(&[GcWorkload::Flat], Some(GcMode::Unlimited), BudgetDemand::BestTimesPeer(RATE, 1.3)),
    row(&[GcWorkload::Flat], Some(GcMode::Unlimited), each(FigureBound::TimesOwn(RATE, PLAIN_RATE, 0.8))),
    row(&[GcWorkload::Flat], Some(GcMode::Unlimited), each(FigureBound::PartOfPeer(SERVER_CPU, 2.0))),
    row(&[GcWorkload::Flat], Some(GcMode::Defaults), each(FigureBound::TimesPeer(RATE, 25.0))),
    row(&[GcWorkload::Start], None, each(FigureBound::AtMost(BYTES_PER_OBJECT, 250.0, FigureUnit::Bytes))),
    row(&[GcWorkload::Start], None, each(FigureBound::PartOfPeer(BYTES_PER_OBJECT, 8.0))),
    row(&[GcWorkload::Start], None, each(FigureBound::AtMost(EMPTY_BYTES, 20e6, FigureUnit::Bytes))),
    row(&[GcWorkload::Start], None, each(FigureBound::PartOfPeer(READY, 3.0))),
    row(&[GcWorkload::Start], None, each(FigureBound::AtMostTimesOwn(PEAK_BYTES, STEADY_BYTES, 1.3))),
];

const fn each(bound: FigureBound) -> BudgetDemand {
    BudgetDemand::Each(bound)
}

const fn row(
    workloads: &'static [GcWorkload],
    mode: Option<GcMode>,
    demand: BudgetDemand,
) -> GcBudget {
    GcBudget {
        workloads,
        mode,
        demand,
    }
}

/// One sentence for each budget and case, and one for each cascade without a budget of its own.
pub(super) fn verdicts(cases: &[GcCase], results: &LegResults) -> Vec<String> {
    let mut sentences = Vec::new();
    for budget in &BUDGETS {
        let meant: Vec<&GcCase> = cases.iter().filter(|case| budget.is_for(case)).collect();
        match budget.demand {
            BudgetDemand::BestTimesPeer(_, _) if meant.is_empty() => {}
            BudgetDemand::BestTimesPeer(what, factor) => {
                sentences.push(best_times_peer(&meant, results, what, factor));
            }
            BudgetDemand::Each(bound) => {
                let each = meant.iter();
                sentences.extend(each.map(|case| bound.verdict(&case.title(), results)));
            }
        }
    }
    let timed = cases.iter().filter(|case| {
        let is_judged = |budget: &GcBudget| {
            let is_of_rate = matches!(
                budget.demand,
                BudgetDemand::Each(FigureBound::TimesPeer(RATE, _))
                    | BudgetDemand::BestTimesPeer(RATE, _)
            );
            is_of_rate && budget.is_for(case)
        };
        case.workload != GcWorkload::Start && !BUDGETS.iter().any(is_judged)
    });
    sentences.extend(timed.filter_map(|case| comparison(&case.title(), results)));
    // Two bounds on one figure that was not measured are one sentence.
    sentences.dedup();
    sentences
}

/// Facts without which the numbers mislead, and doubts about them.
pub(super) fn notes(
    wanted: &GcBenchOptions,
    cases: &[GcCase],
    results: &LegResults,
) -> Vec<String> {
    let mut notes = Vec::new();
    if cases.iter().any(|case| case.mode == GcMode::Defaults) {
        notes.push("defaults: theirs is a rate limit (40 requests a second), ours is none; that ratio says little about either program".to_owned());
    }
    if cases.iter().any(|case| case.mode == GcMode::Equal) {
        let budget = wanted.budget;
        notes.push(format!("equal budget: both may send {budget} requests a second; the Go collector is given half of it because it doubles its flag"));
    }
    notes.push("medians over the legs; a fresh kube-apiserver and etcd (with fsync) in each; both collectors are the same ordinary user, subject to Priority and Fairness; requests are those on ConfigMaps and Events as the API server counted them, without the driver's".to_owned());
    if cases.iter().any(|case| case.workload == GcWorkload::Start) {
        notes.push("memory of the garbage collector alone, while the budget for an empty cluster is for all controllers; the Go collector's start ends when its informers have synced, ours when the graph is complete".to_owned());
    }
    for case in cases {
        notes.extend(doubts(&case.title(), RATE, results));
        notes.extend(budget_doubts(wanted, case, results));
    }
    notes
}

// === impl GcBudget ===

impl GcBudget {
    fn is_for(&self, case: &GcCase) -> bool {
        self.workloads.contains(&case.workload) && self.mode.is_none_or(|mode| mode == case.mode)
    }
}

/// The verdict on a workload at several numbers of workers, with the best of each side.
fn best_times_peer(cases: &[&GcCase], results: &LegResults, what: &str, factor: f64) -> String {
    let best = |side| {
        let measured = cases.iter().filter_map(|case| {
            let value = results.median(&case.title(), side, what)?;
            Some((value, case.settings.workers.unwrap_or_default()))
        });
        measured.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let of = cases.first().map_or("", |case| case.workload.word());
    let (Some((ours, our_workers)), Some((peer, peer_workers))) =
        (best(BenchSide::Ours), best(BenchSide::Peer))
    else {
        return format!("not measured: {what}, {of}, unlimited");
    };
    let (is_met, numbers) = times(ours / peer, factor);
    let verdict = word(is_met);
    format!(
        "{verdict}: {what}, {of}, unlimited, each at its best ({our_workers} workers, Go {peer_workers}): {numbers}"
    )
}

/// The faster collector in a case without a budget.
fn comparison(case: &str, results: &LegResults) -> Option<String> {
    let found = results.ratio(case, RATE)?;
    let who = if found >= 1.0 {
        "ours is faster"
    } else {
        "the Go collector is faster"
    };
    let shown = of_peers(found);
    Some(format!("no budget: {RATE}, {case}: {shown}; {who}"))
}

/// Doubts about whether the equal budget was the limit.
fn budget_doubts(wanted: &GcBenchOptions, case: &GcCase, results: &LegResults) -> Vec<String> {
    let (title, budget) = (case.title(), f64::from(wanted.budget));
    let mut doubts = Vec::new();
    for side in [BenchSide::Ours, BenchSide::Peer] {
        let rate = results.median(&title, side, REQUEST_RATE);
        let Some(rate) = rate.filter(|_| case.mode == GcMode::Equal) else {
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
    use super::super::super::BenchFigure;
    use super::super::super::legs::LegFigures;
    use super::super::super::peers::{RequestLimit, SubjectSettings};
    use super::super::super::run::BenchRun;
    use super::super::super::stand::{DRIVER_BUSY, OTHERS, STEAL};
    use super::*;

    fn case(workload: GcWorkload, mode: GcMode, workers: Option<u32>) -> GcCase {
        let limit = RequestLimit::None;
        GcCase {
            workload,
            mode,
            objects: 5_000,
            settings: SubjectSettings { limit, workers },
        }
    }

    /// A figure's name, our number and the peer's.
    type Row = (&'static str, f64, f64);

    /// A leg of each side with the numbers of its figures.
    fn results(cases: &[(GcCase, &[Row])]) -> (Vec<GcCase>, LegResults) {
        let leg = |case: &GcCase, side, figures: &[Row]| LegFigures {
            case: case.title(),
            side,
            number: 1,
            figures: figures
                .iter()
                .map(|(what, ours, peer)| {
                    let value = if side == BenchSide::Ours {
                        *ours
                    } else {
                        *peer
                    };
                    BenchFigure::new(*what, value, FigureUnit::Count)
                })
                .collect(),
        };
        let legs = cases.iter().flat_map(|(case, figures)| {
            [BenchSide::Ours, BenchSide::Peer].map(|side| leg(case, side, figures))
        });
        let legs = legs.collect();
        (
            cases.iter().map(|(case, _)| *case).collect(),
            LegResults(legs),
        )
    }

    #[test]
    fn every_budget_and_every_other_cascade_gets_a_sentence() {
        let (cases, results) = results(&[
            (
                case(GcWorkload::Flat, GcMode::Equal, None),
                &[(RATE, 300.0, 200.0), (PER_OBJECT, 1.0, 2.0)],
            ),
            (
                case(GcWorkload::Orphan, GcMode::Equal, None),
                &[(RATE, 100.0, 200.0)],
            ),
            (case(GcWorkload::Chain, GcMode::Equal, None), &[]),
        ]);
        let expected = [
            "met: requests per object, flat 5,000, equal budget: 1.00 (at most 1.05; Go 2.00)",
            "not measured: requests per object, chain 5,000, equal budget",
            "not met: objects/s, flat 5,000, equal budget: 1.50 × Go's (at least 1.9 ×)",
            "no budget: objects/s, orphan 5,000, equal budget: 1/2.00 of Go's; the Go collector is faster",
        ];
        assert_eq!(verdicts(&cases, &results), expected);
    }

    #[test]
    fn each_side_counts_with_its_best_number_of_workers() {
        let mk = |workers| case(GcWorkload::Flat, GcMode::Unlimited, Some(workers));
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
    fn doubts_are_listed() {
        let equal = case(GcWorkload::Flat, GcMode::Equal, None);
        let wanted = GcBenchOptions {
            workloads: Vec::new(),
            modes: Vec::new(),
            objects: None,
            workers: Vec::new(),
            budget: 400,
            run: BenchRun::quick("AB"),
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
