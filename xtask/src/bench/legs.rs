//! Legs: the same case with one side and with the other, in turns, and their results.
//!
//! The order A-B-B-A cancels a drift that is even during a run. Each leg has a new server, so that no leg finds objects of
//! another. Figures are compared by their medians; the file of raw numbers holds all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::peers::BenchSide;
use super::{BenchFigure, FigureTable};

/// More legs of one case than fit into a night are a mistake.
const LEGS_MAX: usize = 100;

/// The order of the sides: `ABBA`, where A is the peer and B is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegOrder(pub(super) Vec<BenchSide>);

/// The figures of one leg.
#[derive(Clone, Debug)]
pub(super) struct LegFigures {
    /// The title of the case; the same for all its legs.
    pub(super) case: String,
    pub(super) side: BenchSide,
    /// Its number among the legs of its case, from 1.
    pub(super) number: usize,
    pub(super) figures: Vec<BenchFigure>,
}

/// The figures of all legs of a run.
#[derive(Debug, Default)]
pub(super) struct LegResults(pub(super) Vec<LegFigures>);

// === impl LegOrder ===

impl FromStr for LegOrder {
    type Err = anyhow::Error;

    fn from_str(letters: &str) -> Result<Self> {
        let side = |letter| match letter {
            'A' | 'a' => Ok(BenchSide::Peer),
            'B' | 'b' => Ok(BenchSide::Ours),
            other => bail!("{other:?} is neither A (the Go program) nor B (ours)"),
        };
        let sides: Vec<BenchSide> = letters.chars().map(side).collect::<Result<_>>()?;
        if sides.is_empty() || sides.len() > LEGS_MAX {
            bail!("between one leg and {LEGS_MAX}, such as ABBA");
        }
        Ok(Self(sides))
    }
}

// === impl LegResults ===

impl LegResults {
    /// The median of a figure over the legs of one side; nothing if none measured it.
    pub(super) fn median(&self, case: &str, side: BenchSide, what: &str) -> Option<f64> {
        let mut values: Vec<f64> = self.values(case, side, what).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        Some((values[low] + values[high]) / 2.0)
    }

    /// Our median as a multiple of the peer's.
    pub(super) fn ratio(&self, case: &str, what: &str) -> Option<f64> {
        let ours = self.median(case, BenchSide::Ours, what)?;
        let peer = self.median(case, BenchSide::Peer, what)?;
        (peer > 0.0).then_some(ours / peer)
    }

    /// The best median of a figure over the cases of one side whose titles begin alike, and the rest of its title.
    pub(super) fn best(&self, titles: &str, side: BenchSide, what: &str) -> Option<(f64, &str)> {
        let legs = self.0.iter().filter(|leg| leg.side == side);
        let medians = legs.filter_map(|leg| {
            let rest = leg.case.strip_prefix(titles)?.trim_start_matches(", ");
            Some((self.median(&leg.case, side, what)?, rest))
        });
        medians.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The table of the medians of one case.
    pub(super) fn table(&self, case: &str, peer: &'static str) -> FigureTable {
        let of = |side| {
            let mut seen = Vec::<BenchFigure>::new();
            for figure in self.legs(case, side).flat_map(|leg| &leg.figures) {
                if !seen.iter().any(|other| other.what == figure.what)
                    && let Some(value) = self.median(case, side, &figure.what)
                {
                    seen.push(BenchFigure::new(&figure.what, value, figure.unit));
                }
            }
            seen
        };
        FigureTable {
            title: case.to_owned(),
            peer,
            ours: of(BenchSide::Ours),
            real: of(BenchSide::Peer),
            notes: Vec::new(),
        }
    }

    /// The largest value of a figure over the legs of one side.
    pub(super) fn largest(&self, case: &str, side: BenchSide, what: &str) -> Option<f64> {
        self.values(case, side, what).max_by(f64::total_cmp)
    }

    /// The largest value of a figure as a multiple of the smallest, over the legs of one side.
    pub(super) fn spread(&self, case: &str, side: BenchSide, what: &str) -> Option<f64> {
        let smallest = self.values(case, side, what).min_by(f64::total_cmp)?;
        let largest = self.largest(case, side, what)?;
        (smallest > 0.0).then_some(largest / smallest)
    }

    /// All numbers, a line each, under comment lines with the origin of the run.
    pub(super) fn csv(&self, origin: &BTreeMap<&str, String>) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for (what, value) in origin {
            let _ = writeln!(text, "# {what}: {}", value.trim());
        }
        let _ = writeln!(text, "case,side,leg,figure,value,unit");
        for leg in &self.0 {
            for BenchFigure { what, value, unit } in &leg.figures {
                let (case, side) = (quoted(&leg.case), leg.side.word());
                let (what, unit) = (quoted(what.trim_start()), unit.word());
                let _ = writeln!(text, "{case},{side},{},{what},{value},{unit}", leg.number);
            }
        }
        text
    }

    fn legs(&self, case: &str, side: BenchSide) -> impl Iterator<Item = &LegFigures> {
        let legs = self.0.iter();
        legs.filter(move |leg| leg.case == case && leg.side == side)
    }

    fn values(&self, case: &str, side: BenchSide, what: &str) -> impl Iterator<Item = f64> {
        let figures = self.legs(case, side).flat_map(|leg| &leg.figures);
        let named = figures.filter(move |figure| figure.what.trim_start() == what.trim_start());
        named.map(|figure| figure.value)
    }
}

/// Puts a field that contains a comma or a quote into quotes.
fn quoted(field: &str) -> String {
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FigureUnit;
    use super::*;

    fn leg(side: BenchSide, number: usize, rate: f64) -> LegFigures {
        LegFigures {
            case: "flat, unlimited".to_owned(),
            side,
            number,
            figures: vec![
                BenchFigure::new("objects/s", rate, FigureUnit::PerSecond),
                BenchFigure::new("  memory", 1e6, FigureUnit::Bytes),
            ],
        }
    }

    fn results() -> LegResults {
        LegResults(vec![
            leg(BenchSide::Peer, 1, 100.0),
            leg(BenchSide::Ours, 2, 500.0),
            leg(BenchSide::Ours, 3, 300.0),
            leg(BenchSide::Peer, 4, 60.0),
            leg(BenchSide::Peer, 5, 20.0),
        ])
    }

    #[test]
    fn the_order_of_legs_is_read_from_letters() {
        let order: LegOrder = "AbbA".parse().unwrap();
        assert_eq!(
            order.0,
            [
                BenchSide::Peer,
                BenchSide::Ours,
                BenchSide::Ours,
                BenchSide::Peer
            ]
        );
        for wrong in ["", "ABC", &"A".repeat(LEGS_MAX + 1)] {
            assert!(wrong.parse::<LegOrder>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn legs_are_compared_by_their_medians() {
        let (results, case) = (results(), "flat, unlimited");
        assert_eq!(
            results.median(case, BenchSide::Peer, "objects/s"),
            Some(60.0)
        );
        assert_eq!(
            results.median(case, BenchSide::Ours, "objects/s"),
            Some(400.0)
        );
        assert_eq!(results.median("chain", BenchSide::Ours, "objects/s"), None);
        assert_eq!(results.ratio(case, "objects/s"), Some(400.0 / 60.0));
        assert_eq!(
            results.spread(case, BenchSide::Peer, "objects/s"),
            Some(5.0)
        );
        let table = results.table(case, "Go").to_string();
        let text = "flat, unlimited        ours          Go       ratio
objects/s               400        60.0      6.67 ×
  memory            1.00 MB     1.00 MB      1.00 ×
";
        assert_eq!(table, text);
    }

    #[test]
    fn raw_numbers_follow_their_origin_line_by_line() {
        let origin = [("commit", "abc\n".to_owned())].into();
        let results = LegResults(vec![leg(BenchSide::Ours, 2, 500.5)]);
        let text = "# commit: abc
case,side,leg,figure,value,unit
\"flat, unlimited\",ours,2,objects/s,500.5,1/s
\"flat, unlimited\",ours,2,memory,1000000,B
";
        assert_eq!(results.csv(&origin), text);
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
