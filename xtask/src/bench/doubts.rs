//! Reasons not to believe the numbers of a case: they are said below the table, and the case is measured again.

use super::legs::Results;
use super::peers::Side;
use super::stand::{DRIVER_BUSY, OTHERS, STEAL};
use super::{Unit, digits};

/// A leg from which the host took more than this does not count.
const STEAL_MAX: f64 = 0.02;
/// A leg beside which others took more than this of a processor does not count.
const OTHERS_MAX: f64 = 0.15;
/// From this share of a processor on the driver, which is one thread, may be what limits.
const BUSY_MAX: f64 = 0.9;
/// Legs of one side that differ by more than this factor are worth a second run.
const SPREAD_MAX: f64 = 1.25;

/// The doubts about a case whose main figure is `figure`.
pub(super) fn doubts(case: &str, figure: &str, results: &Results) -> Vec<String> {
    let mut doubts = Vec::new();
    for side in [Side::Ours, Side::Peer] {
        let who = side.word();
        let mut above = |what: &'static str, most: f64, so: &str| {
            let worst = results.largest(case, side, what).unwrap_or_default();
            if worst > most {
                let shown = Unit::Busy.shown(worst);
                doubts.push(format!("{case}, {who}: {what} {shown}: {so}"));
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
