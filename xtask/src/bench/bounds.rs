//! Bounds on the figures of a case, each of which ends in a verdict (met, not met, or not measured), and reasons to
//! doubt the figures, which are printed below the table.

use super::cases::{BenchCase, LimitMode};
use super::leg::OBJECT_RATE;
use super::legs::LegResults;
use super::peers::BenchSide;
use super::stand::{DRIVER_BUSY, OTHERS, REQUEST_RATE, STEAL};
use super::{FigureUnit, digits, ratio};

/// A leg from which the host took more than this does not count.
const STEAL_MAX: f64 = 0.02;
/// A leg beside which other programs took more than this of a processor does not count.
const OTHERS_MAX: f64 = 0.15;
/// From this share of a processor on, the driver, which is one thread, may be the limit.
pub(super) const BUSY_MAX: f64 = 0.9;
/// Legs of one side that differ by more than this factor are worth a second run.
const SPREAD_MAX: f64 = 1.25;
/// The factor by which a rate may differ from the equal budget without a note.
const BUDGET_SLACK: f64 = 1.1;

/// A bound on our median in one case.
#[derive(Clone, Copy, Debug)]
pub(super) enum FigureBound {
    /// A figure is no more than a number.
    AtMost(&'static str, f64, FigureUnit),
    /// A figure is at least this multiple of the peer's.
    TimesPeer(&'static str, f64),
    /// Over all cases that differ in workers only, a figure is at least this multiple of the peer's, each side at its best.
    BestTimesPeer(&'static str, f64),
    /// A figure is at most this part of the peer's; the part as its denominator.
    PartOfPeer(&'static str, f64),
    /// A figure is at least this multiple of another of ours.
    TimesOwn(&'static str, &'static str, f64),
    /// A figure is at most this multiple of another of ours.
    AtMostTimesOwn(&'static str, &'static str, f64),
}

/// One sentence for each bound of a case. A cascade without a bound on its rate gets a sentence about the faster
/// collector, so that the cases in which the Go collector wins are listed too.
pub(super) fn verdicts(cases: &[BenchCase], results: &LegResults) -> Vec<String> {
    let mut sentences = Vec::<String>::new();
    for case in cases {
        let (title, bounds) = (case.title(), case.row.bounds.iter());
        let is_judged = bounds.clone().any(|bound| bound.what() == OBJECT_RATE);
        let compared = comparison(&title, results).filter(|_| !is_judged);
        let judged = bounds.map(|bound| bound.verdict(&title, results));
        for sentence in judged.chain(compared) {
            // Two bounds on one figure that was not measured, or cases that differ in workers only, are one sentence.
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    sentences
}

// === impl FigureBound ===

impl FigureBound {
    /// The sentence that says whether the bound holds in a case.
    fn verdict(&self, case: &str, results: &LegResults) -> String {
        let case = match self {
            Self::BestTimesPeer(..) => case.rsplit_once(", ").map_or(case, |(same, _)| same),
            _ => case,
        };
        let what = self.what();
        match self.judged(case, results) {
            Some((true, numbers)) => format!("met: {what}, {case}: {numbers}"),
            Some((false, numbers)) => format!("not met: {what}, {case}: {numbers}"),
            None => format!("not measured: {what}, {case}"),
        }
    }

    /// The name of the bounded figure.
    fn what(&self) -> &'static str {
        match self {
            Self::AtMost(what, ..)
            | Self::TimesPeer(what, _)
            | Self::BestTimesPeer(what, _)
            | Self::PartOfPeer(what, _)
            | Self::TimesOwn(what, ..)
            | Self::AtMostTimesOwn(what, ..) => what,
        }
    }

    /// Returns whether the bound holds, and the compared numbers.
    fn judged(&self, case: &str, results: &LegResults) -> Option<(bool, String)> {
        let of = |side, what| results.median(case, side, what);
        let own_times = |what, other| {
            let found = of(BenchSide::Ours, what)? / of(BenchSide::Ours, other)?;
            Some((found, format!("{} × the {other}", digits(found))))
        };
        Some(match *self {
            Self::AtMost(what, most, unit) => {
                let own = of(BenchSide::Ours, what)?;
                let peer = of(BenchSide::Peer, what);
                let peer = peer.map_or_else(|| "-".to_owned(), |peer| unit.shown(peer));
                let (shown, most_shown) = (unit.shown(own), unit.shown(most));
                let numbers = format!("{shown} (at most {most_shown}; Go {peer})");
                (own <= most, numbers)
            }
            Self::TimesPeer(what, factor) => {
                let found = results.ratio(case, what)?;
                let numbers = format!("{} (at least {factor} ×)", of_peers(found));
                (found >= factor, numbers)
            }
            Self::BestTimesPeer(what, factor) => {
                let (ours, with) = results.best(case, BenchSide::Ours, what)?;
                let (peer, peer_with) = results.best(case, BenchSide::Peer, what)?;
                let shown = of_peers(ours / peer);
                let numbers = format!(
                    "{shown}, each at its best ({with}, Go {peer_with}; at least {factor} ×)"
                );
                (ours / peer >= factor, numbers)
            }
            Self::PartOfPeer(what, part) => {
                let found = results.ratio(case, what)?;
                let numbers = format!("{} (at most 1/{part})", of_peers(found));
                (found * part <= 1.0, numbers)
            }
            Self::TimesOwn(what, other, factor) => {
                let (found, shown) = own_times(what, other)?;
                (found >= factor, format!("{shown} (at least {factor} ×)"))
            }
            Self::AtMostTimesOwn(what, other, factor) => {
                let (found, shown) = own_times(what, other)?;
                (found <= factor, format!("{shown} (at most {factor} ×)"))
            }
        })
    }
}

/// `2.50 × Go's`, or `1/40 of Go's` when it is less.
fn of_peers(found: f64) -> String {
    let of = if found < 1.0 { "of " } else { "" };
    format!("{} {of}Go's", ratio(found, 1.0))
}

/// The faster collector in a case without a bound on its rate.
fn comparison(case: &str, results: &LegResults) -> Option<String> {
    let found = results.ratio(case, OBJECT_RATE)?;
    let who = if found >= 1.0 {
        "ours is faster"
    } else {
        "the Go collector is faster"
    };
    let shown = of_peers(found);
    Some(format!("no budget: {OBJECT_RATE}, {case}: {shown}; {who}"))
}

/// The reasons to doubt cases whose main figure is `figure`.
pub(super) fn doubts(figure: &str, cases: &[BenchCase], results: &LegResults) -> Vec<String> {
    let sides = [BenchSide::Ours, BenchSide::Peer];
    let legs = cases.iter().flat_map(|case| sides.map(|side| (case, side)));
    legs.flat_map(|(case, side)| {
        let place = format!("{}, {}", case.title(), side.word());
        let reasons = reasons_to_doubt(figure, case, side, results);
        reasons
            .into_iter()
            .map(move |why| format!("{place}: {why}"))
    })
    .collect()
}

fn reasons_to_doubt(
    figure: &str,
    case: &BenchCase,
    side: BenchSide,
    results: &LegResults,
) -> Vec<String> {
    let (title, mut reasons) = (case.title(), Vec::new());
    for (what, most, advice) in [
        (STEAL, STEAL_MAX, "run it again"),
        (OTHERS, OTHERS_MAX, "something else ran; run it again"),
        (DRIVER_BUSY, BUSY_MAX, "the driver may be the limit"),
    ] {
        let worst = results.largest(&title, side, what).unwrap_or_default();
        if worst > most {
            let shown = FigureUnit::Busy.shown(worst);
            reasons.push(format!("{what} {shown}: {advice}"));
        }
    }
    let spread = results.spread(&title, side, figure);
    if let Some(spread) = spread.filter(|it| *it > SPREAD_MAX) {
        reasons.push(format!("its legs differ by {} ×", digits(spread)));
    }
    let rate = results.median(&title, side, REQUEST_RATE);
    if let Some(rate) = rate.filter(|_| case.settings.mode == LimitMode::Equal) {
        let (budget, shown) = (f64::from(case.settings.budget), digits(rate));
        if rate > budget * BUDGET_SLACK {
            reasons.push(format!("{shown} requests/s are more than its budget"));
        } else if rate * BUDGET_SLACK < budget {
            reasons.push(format!("{shown} requests/s: not the budget was the limit"));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::super::BenchFigure;
    use super::super::cases::{BenchOptions, BenchTopic};
    use super::super::leg::PLAIN_RATE;
    use super::super::legs::LegFigures;
    use super::super::run::BenchRun;
    use super::super::stand::REQUESTS_PER_OBJECT;
    use super::*;

    #[test]
    fn a_bound_is_met_or_not_or_not_measured() {
        let leg = |side, value| LegFigures {
            case: "c".to_owned(),
            side,
            number: 1,
            figures: vec![
                BenchFigure::new("late", value, FigureUnit::Seconds),
                BenchFigure::new("own", 2.0, FigureUnit::Seconds),
            ],
        };
        let results = LegResults(vec![leg(BenchSide::Peer, 100.0), leg(BenchSide::Ours, 4.0)]);
        let table = [
            (
                FigureBound::AtMost("late", 4.0, FigureUnit::Seconds),
                "met: late, c: 4.00 s (at most 4.00 s; Go 100 s)",
            ),
            (
                FigureBound::PartOfPeer("late", 20.0),
                "met: late, c: 1/25.0 of Go's (at most 1/20)",
            ),
            (
                FigureBound::PartOfPeer("late", 30.0),
                "not met: late, c: 1/25.0 of Go's (at most 1/30)",
            ),
            (
                FigureBound::TimesPeer("late", 1.5),
                "not met: late, c: 1/25.0 of Go's (at least 1.5 ×)",
            ),
            (
                FigureBound::TimesOwn("late", "own", 2.0),
                "met: late, c: 2.00 × the own (at least 2 ×)",
            ),
            (
                FigureBound::AtMostTimesOwn("late", "own", 1.3),
                "not met: late, c: 2.00 × the own (at most 1.3 ×)",
            ),
            (
                FigureBound::TimesPeer("other", 1.0),
                "not measured: other, c",
            ),
        ];
        for (bound, sentence) in table {
            assert_eq!(bound.verdict("c", &results), sentence);
        }
        let half = LegResults(vec![leg(BenchSide::Ours, 4.0)]);
        let verdict = FigureBound::PartOfPeer("late", 20.0).verdict("c", &half);
        assert_eq!(verdict, "not measured: late, c");
    }

    /// A figure's name, our number and the peer's.
    type Row = (&'static str, f64, f64);

    /// The cases of the collector with 5,000 objects, by their titles, and a leg of each side with these figures.
    fn measured(rows: &[(&str, &[Row])]) -> (Vec<BenchCase>, LegResults) {
        let options = BenchOptions::new(None, vec![20, 100], BenchRun::quick("AB"));
        let all = options.cases(BenchTopic::Gc);
        let (mut cases, mut legs) = (Vec::new(), Vec::new());
        for (title, figures) in rows {
            cases.extend(all.iter().find(|case| case.title() == *title));
            for side in [BenchSide::Ours, BenchSide::Peer] {
                let figure = |(what, ours, peer): &Row| {
                    let value = if side == BenchSide::Ours { ours } else { peer };
                    BenchFigure::new(*what, *value, FigureUnit::Count)
                };
                legs.push(LegFigures {
                    case: (*title).to_owned(),
                    side,
                    number: 1,
                    figures: figures.iter().map(figure).collect(),
                });
            }
        }
        assert_eq!(cases.len(), rows.len());
        (cases, LegResults(legs))
    }

    #[test]
    fn every_bound_and_every_other_cascade_gets_a_sentence() {
        let (cases, results) = measured(&[
            (
                "flat 5,000, equal budget",
                &[(OBJECT_RATE, 300.0, 200.0), (REQUESTS_PER_OBJECT, 1.0, 2.0)],
            ),
            ("orphan 5,000, equal budget", &[(OBJECT_RATE, 100.0, 200.0)]),
            ("chain 5,000, equal budget", &[]),
        ]);
        let expected = [
            "met: requests per object, flat 5,000, equal budget: 1.00 (at most 1.05; Go 2.00)",
            "not met: objects/s, flat 5,000, equal budget: 1.50 × Go's (at least 1.9 ×)",
            "no budget: objects/s, orphan 5,000, equal budget: 1/2.00 of Go's; the Go collector is faster",
            "not measured: requests per object, chain 5,000, equal budget",
        ];
        assert_eq!(verdicts(&cases, &results), expected);
    }

    #[test]
    fn each_side_counts_with_its_best_number_of_workers() {
        let (cases, results) = measured(&[
            (
                "flat 5,000, unlimited, 20 workers",
                &[
                    (OBJECT_RATE, 1_000.0, 600.0),
                    (PLAIN_RATE, 1_100.0, 1_100.0),
                ],
            ),
            (
                "flat 5,000, unlimited, 100 workers",
                &[(OBJECT_RATE, 900.0, 800.0), (PLAIN_RATE, 1_400.0, 1_400.0)],
            ),
        ]);
        let expected = [
            "not measured: requests per object, flat 5,000, unlimited, 20 workers",
            "not met: objects/s, flat 5,000, unlimited: 1.25 × Go's, each at its best (20 workers, Go 100 workers; at least 1.3 ×)",
            "met: objects/s, flat 5,000, unlimited, 20 workers: 0.91 × the plain client's deletes/s (at least 0.8 ×)",
            "not measured: API server's CPU time each, flat 5,000, unlimited, 20 workers",
            "not measured: requests per object, flat 5,000, unlimited, 100 workers",
            "not met: objects/s, flat 5,000, unlimited, 100 workers: 0.64 × the plain client's deletes/s (at least 0.8 ×)",
            "not measured: API server's CPU time each, flat 5,000, unlimited, 100 workers",
        ];
        assert_eq!(verdicts(&cases, &results), expected);
    }

    #[test]
    fn doubts_are_listed() {
        let (cases, results) = measured(&[(
            "flat 5,000, equal budget",
            &[
                (STEAL, 0.03, 0.0),
                (OTHERS, 0.1, 0.5),
                (DRIVER_BUSY, 0.2, 0.95),
                (REQUEST_RATE, 300.0, 800.0),
            ],
        )]);
        let expected = [
            "flat 5,000, equal budget, ours: stolen by the host 3 %: run it again",
            "flat 5,000, equal budget, ours: 300 requests/s: not the budget was the limit",
            "flat 5,000, equal budget, Go: taken by other programs 50 %: something else ran; run it again",
            "flat 5,000, equal budget, Go: driver busy 95 %: the driver may be the limit",
            "flat 5,000, equal budget, Go: 800 requests/s are more than its budget",
        ];
        assert_eq!(doubts(OBJECT_RATE, &cases, &results), expected);
    }
}
