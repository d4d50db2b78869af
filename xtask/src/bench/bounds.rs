//! What a number has to be, and the plain sentence in which that ends: met, not met, or not measured.

use super::legs::Results;
use super::peers::Side;
use super::{Unit, digits, ratio};

/// What is demanded of our median in one case.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// A figure is no more than a number.
    AtMost(&'static str, f64, Unit),
    /// A figure is at least so many times the peer's.
    TimesPeer(&'static str, f64),
    /// A figure is at most this part of the peer's; the part as its denominator.
    PartOfPeer(&'static str, f64),
    /// A figure is at least so many times another of ours.
    TimesOwn(&'static str, &'static str, f64),
    /// A figure is at most so many times another of ours.
    AtMostTimesOwn(&'static str, &'static str, f64),
}

// === impl Bound ===

impl Bound {
    /// Whether it holds in a case.
    pub(super) fn verdict(&self, case: &str, results: &Results) -> String {
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

    /// The figure it is about.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Self::AtMost(what, ..)
            | Self::TimesPeer(what, _)
            | Self::PartOfPeer(what, _)
            | Self::TimesOwn(what, ..)
            | Self::AtMostTimesOwn(what, ..) => what,
        }
    }

    /// Whether it holds, and the numbers it was judged by.
    fn judged(&self, case: &str, results: &Results) -> Option<(bool, String)> {
        let ours = |what| results.median(case, Side::Ours, what);
        Some(match *self {
            Self::AtMost(what, most, unit) => {
                let own = ours(what)?;
                let peer = results.median(case, Side::Peer, what);
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

/// How a verdict begins.
pub(super) fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

/// Whether ours is as many times the peer's as it should be.
pub(super) fn times(found: f64, factor: f64) -> (bool, String) {
    let numbers = format!("{} (at least {factor} ×)", of_peers(found));
    (found >= factor, numbers)
}

/// `2.50 × Go's`, or `1/40 of Go's` when it is less.
pub(super) fn of_peers(found: f64) -> String {
    let of = if found < 1.0 { "of " } else { "" };
    format!("{} {of}Go's", ratio(found, 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::Figure;
    use super::super::legs::Leg;
    use super::*;

    #[test]
    fn a_bound_is_met_or_not_or_not_measured() {
        let leg = |side, value| Leg {
            case: "c".to_owned(),
            side,
            number: 1,
            figures: vec![
                Figure::new("late", value, Unit::Seconds),
                Figure::new("own", 2.0, Unit::Seconds),
            ],
        };
        let results = Results(vec![leg(Side::Peer, 100.0), leg(Side::Ours, 4.0)]);
        let table = [
            (
                Bound::AtMost("late", 4.0, Unit::Seconds),
                "met: late, c: 4.00 s (at most 4.00 s; Go 100 s)",
            ),
            (
                Bound::PartOfPeer("late", 20.0),
                "met: late, c: 1/25.0 of Go's (at most 1/20)",
            ),
            (
                Bound::PartOfPeer("late", 30.0),
                "not met: late, c: 1/25.0 of Go's (at most 1/30)",
            ),
            (
                Bound::TimesPeer("late", 1.5),
                "not met: late, c: 1/25.0 of Go's (at least 1.5 ×)",
            ),
            (
                Bound::TimesOwn("late", "own", 2.0),
                "met: late, c: 2.00 × the own (at least 2 ×)",
            ),
            (
                Bound::AtMostTimesOwn("late", "own", 1.3),
                "not met: late, c: 2.00 × the own (at most 1.3 ×)",
            ),
            (Bound::TimesPeer("other", 1.0), "not measured: other, c"),
        ];
        for (bound, sentence) in table {
            assert_eq!(bound.verdict("c", &results), sentence);
        }
        let half = Results(vec![leg(Side::Ours, 4.0)]);
        let verdict = Bound::PartOfPeer("late", 20.0).verdict("c", &half);
        assert_eq!(verdict, "not measured: late, c");
    }
}
