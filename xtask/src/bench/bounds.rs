//! Bounds on the figures of a case, each of which ends in a verdict (met, not met, or not measured), and reasons to
//! doubt the figures, which are printed below the table.

use super::legs::LegResults;
use super::peers::BenchSide;
use super::stand::{DRIVER_BUSY, OTHERS, STEAL};
use super::{FigureUnit, digits, ratio};

/// A leg from which the host took more than this does not count.
const STEAL_MAX: f64 = 0.02;
/// A leg beside which other programs took more than this of a processor does not count.
const OTHERS_MAX: f64 = 0.15;
/// From this share of a processor on, the driver, which is one thread, may be the limit.
pub(super) const BUSY_MAX: f64 = 0.9;
/// Legs of one side that differ by more than this factor are worth a second run.
const SPREAD_MAX: f64 = 1.25;

/// A bound on our median in one case.
#[derive(Clone, Copy, Debug)]
pub(super) enum FigureBound {
    /// A figure is no more than a number.
    AtMost(&'static str, f64, FigureUnit),
    /// A figure is at least this multiple of the peer's.
    TimesPeer(&'static str, f64),
    /// A figure is at most this part of the peer's; the part as its denominator.
    PartOfPeer(&'static str, f64),
    /// A figure is at least this multiple of another of ours.
    TimesOwn(&'static str, &'static str, f64),
    /// A figure is at most this multiple of another of ours.
    AtMostTimesOwn(&'static str, &'static str, f64),
}

// === impl FigureBound ===

impl FigureBound {
    /// The sentence that says whether the bound holds in a case.
    pub(super) fn verdict(&self, case: &str, results: &LegResults) -> String {
        let measured = self.judged(case, results);
        let what = self.what();
        measured.map_or_else(
            || format!("not measured: {what}, {case}"),
            |(is_met, numbers)| {
                let verdict = word(is_met);
                format!("{verdict}: {what}, {case}: {numbers}")
            },
        )
    }

    /// The name of the bounded figure.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::AtMost(what, ..)
            | Self::TimesPeer(what, _)
            | Self::PartOfPeer(what, _)
            | Self::TimesOwn(what, ..)
            | Self::AtMostTimesOwn(what, ..) => what,
        }
    }

    /// Returns whether the bound holds, and the compared numbers.
    fn judged(&self, case: &str, results: &LegResults) -> Option<(bool, String)> {
        let ours = |what| results.median(case, BenchSide::Ours, what);
        Some(match *self {
            Self::AtMost(what, most, unit) => {
                let own = ours(what)?;
                let peer = results.median(case, BenchSide::Peer, what);
                let peer = peer.map_or_else(|| "-".to_owned(), |peer| unit.shown(peer));
                let (own_shown, most_shown) = (unit.shown(own), unit.shown(most));
                let numbers = format!("{own_shown} (at most {most_shown}; Go {peer})");
                (own <= most, numbers)
            }
            Self::TimesPeer(what, factor) => times(results.ratio(case, what)?, factor),
            Self::PartOfPeer(what, part) => {
                let found = results.ratio(case, what)?;
                let numbers = format!("{} (at most 1/{part})", of_peers(found));
                (found * part <= 1.0, numbers)
            }
            Self::TimesOwn(what, other, factor) => {
                let (found, other_value) = (ours(what)?, ours(other)?);
                let times = digits(found / other_value);
                let numbers = format!("{times} × the {other} (at least {factor} ×)");
                (found >= factor * other_value, numbers)
            }
            Self::AtMostTimesOwn(what, other, factor) => {
                let (found, other_value) = (ours(what)?, ours(other)?);
                let times = digits(found / other_value);
                let numbers = format!("{times} × the {other} (at most {factor} ×)");
                (found <= factor * other_value, numbers)
            }
        })
    }
}

pub(super) fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

/// Compares the ratio of our figure to the peer's with the demanded one.
pub(super) fn times(found: f64, factor: f64) -> (bool, String) {
    let numbers = format!("{} (at least {factor} ×)", of_peers(found));
    (found >= factor, numbers)
}

/// `2.50 × Go's`, or `1/40 of Go's` when it is less.
pub(super) fn of_peers(found: f64) -> String {
    let of = if found < 1.0 { "of " } else { "" };
    format!("{} {of}Go's", ratio(found, 1.0))
}

/// The reasons to doubt a case whose main figure is `figure`.
pub(super) fn doubts(case: &str, figure: &str, results: &LegResults) -> Vec<String> {
    let mut doubts = Vec::new();
    for side in [BenchSide::Ours, BenchSide::Peer] {
        let who = side.word();
        let mut above = |what: &'static str, most: f64, advice: &str| {
            let worst = results.largest(case, side, what).unwrap_or_default();
            if worst > most {
                let shown = FigureUnit::Busy.shown(worst);
                doubts.push(format!("{case}, {who}: {what} {shown}: {advice}"));
            }
        };
        above(STEAL, STEAL_MAX, "run it again");
        above(OTHERS, OTHERS_MAX, "something else ran; run it again");
        above(DRIVER_BUSY, BUSY_MAX, "the driver may be the limit");
        let spread = results.spread(case, side, figure);
        if let Some(spread) = spread.filter(|it| *it > SPREAD_MAX) {
            let shown = digits(spread);
            doubts.push(format!("{case}, {who}: its legs differ by {shown} ×"));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::super::BenchFigure;
    use super::super::legs::LegFigures;
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
}
