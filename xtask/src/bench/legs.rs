//! Legs: the same case once with one side and once with the other, in turns, and what they came to.
//!
//! A-B-B-A takes off what drifts evenly during a run. A leg has a fresh server each time, so that no leg finds what
//! another left behind. Figures are compared by their medians; every single one goes into the file of raw numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::peers::Side;
use super::{Figure, Table};

/// Legs of one case are counted in letters; more than a night's worth is a mistake.
const LEGS_MAX: usize = 100;

/// Which side runs when: `ABBA`, where A is the peer and B is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order(pub(super) Vec<Side>);

/// One leg's figures.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// What was measured; the same for all legs of a case.
    pub(super) case: String,
    pub(super) side: Side,
    /// Its place among the legs of its case.
    pub(super) number: usize,
    pub(super) figures: Vec<Figure>,
}

/// All legs of a run.
#[derive(Debug, Default)]
pub(super) struct Results(pub(super) Vec<Leg>);

// === impl Order ===

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(letters: &str) -> Result<Self> {
        let side = |letter| match letter {
            'A' | 'a' => Ok(Side::Peer),
            'B' | 'b' => Ok(Side::Ours),
            other => bail!("{other:?} is neither A (the Go program) nor B (ours)"),
        };
        let sides: Vec<Side> = letters.chars().map(side).collect::<Result<_>>()?;
        if sides.is_empty() || sides.len() > LEGS_MAX {
            bail!("between one leg and {LEGS_MAX}, such as ABBA");
        }
        Ok(Self(sides))
    }
}

// === impl Results ===

impl Results {
    /// The middle of what the legs of one side came to; nothing if none measured it.
    pub(super) fn median(&self, case: &str, side: Side, what: &str) -> Option<f64> {
        let mut values: Vec<f64> = self.values(case, side, what).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        Some((values[low] + values[high]) / 2.0)
    }

    /// How many times the peer's median ours is.
    pub(super) fn ratio(&self, case: &str, what: &str) -> Option<f64> {
        let ours = self.median(case, Side::Ours, what)?;
        let peer = self.median(case, Side::Peer, what)?;
        (peer > 0.0).then_some(ours / peer)
    }

    /// The medians of one case beside each other.
    pub(super) fn table(&self, case: &str, peer: &'static str) -> Table {
        let of = |side| {
            let mut seen = Vec::<Figure>::new();
            for figure in self.legs(case, side).flat_map(|leg| &leg.figures) {
                if !seen.iter().any(|other| other.what == figure.what)
                    && let Some(value) = self.median(case, side, &figure.what)
                {
                    seen.push(Figure::new(&figure.what, value, figure.unit));
                }
            }
            seen
        };
        Table {
            title: case.to_owned(),
            peer,
            ours: of(Side::Ours),
            real: of(Side::Peer),
            notes: Vec::new(),
        }
    }

    /// The largest of what the legs of one side came to.
    pub(super) fn largest(&self, case: &str, side: Side, what: &str) -> Option<f64> {
        self.values(case, side, what).max_by(f64::total_cmp)
    }

    /// How far the legs of one side are apart: the largest as a multiple of the smallest.
    pub(super) fn spread(&self, case: &str, side: Side, what: &str) -> Option<f64> {
        let smallest = self.values(case, side, what).min_by(f64::total_cmp)?;
        let largest = self.largest(case, side, what)?;
        (smallest > 0.0).then_some(largest / smallest)
    }

    /// Every number there is, a line each, under comment lines that say where they come from.
    pub(super) fn csv(&self, origin: &BTreeMap<&str, String>) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for (what, value) in origin {
            let _ = writeln!(text, "# {what}: {}", value.trim());
        }
        let _ = writeln!(text, "case,side,leg,figure,value,unit");
        for leg in &self.0 {
            for Figure { what, value, unit } in &leg.figures {
                let (case, side) = (quoted(&leg.case), leg.side.word());
                let (what, unit) = (quoted(what.trim_start()), unit.word());
                let _ = writeln!(text, "{case},{side},{},{what},{value},{unit}", leg.number);
            }
        }
        text
    }

    fn legs(&self, case: &str, side: Side) -> impl Iterator<Item = &Leg> {
        let legs = self.0.iter();
        legs.filter(move |leg| leg.case == case && leg.side == side)
    }

    fn values(&self, case: &str, side: Side, what: &str) -> impl Iterator<Item = f64> {
        let figures = self.legs(case, side).flat_map(|leg| &leg.figures);
        let named = figures.filter(move |figure| figure.what.trim_start() == what.trim_start());
        named.map(|figure| figure.value)
    }
}

/// A field that holds a comma stands in quotes.
fn quoted(field: &str) -> String {
    if field.contains([',', '"']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    fn leg(side: Side, number: usize, rate: f64) -> Leg {
        Leg {
            case: "flat, unlimited".to_owned(),
            side,
            number,
            figures: vec![
                Figure::new("objects/s", rate, Unit::PerSecond),
                Figure::new("  memory", 1e6, Unit::Bytes),
            ],
        }
    }

    fn results() -> Results {
        Results(vec![
            leg(Side::Peer, 1, 100.0),
            leg(Side::Ours, 2, 500.0),
            leg(Side::Ours, 3, 300.0),
            leg(Side::Peer, 4, 60.0),
            leg(Side::Peer, 5, 20.0),
        ])
    }

    #[test]
    fn the_order_of_legs_is_read_from_letters() {
        let order: Order = "AbbA".parse().unwrap();
        assert_eq!(order.0, [Side::Peer, Side::Ours, Side::Ours, Side::Peer]);
        for wrong in ["", "ABC", &"A".repeat(LEGS_MAX + 1)] {
            assert!(wrong.parse::<Order>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn legs_are_compared_by_their_medians() {
        let (results, case) = (results(), "flat, unlimited");
        assert_eq!(results.median(case, Side::Peer, "objects/s"), Some(60.0));
        assert_eq!(results.median(case, Side::Ours, "objects/s"), Some(400.0));
        assert_eq!(results.median("chain", Side::Ours, "objects/s"), None);
        assert_eq!(results.ratio(case, "objects/s"), Some(400.0 / 60.0));
        assert_eq!(results.spread(case, Side::Peer, "objects/s"), Some(5.0));
        let table = results.table(case, "Go").to_string();
        let text = "flat, unlimited        ours          Go       ratio
objects/s               400        60.0      6.67 ×
  memory            1.00 MB     1.00 MB      1.00 ×
";
        assert_eq!(table, text);
    }

    #[test]
    fn raw_numbers_are_one_line_each_with_their_origin_above() {
        let origin = [("commit", "abc\n".to_owned())].into();
        let results = Results(vec![leg(Side::Ours, 2, 500.5)]);
        let text = "# commit: abc
case,side,leg,figure,value,unit
\"flat, unlimited\",ours,2,objects/s,500.5,1/s
\"flat, unlimited\",ours,2,memory,1000000,B
";
        assert_eq!(results.csv(&origin), text);
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
