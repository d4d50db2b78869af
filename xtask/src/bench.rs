//! Benchmarks: ours beside the real one, in one run, as a table.
//!
//! A figure is a name, a number and its unit; a table puts the figures of both sides beside each other and says their
//! ratio. What is measured and how stands in the files below: `apiserver` for the servers, `gc` for the collectors, `cron`,
//! `podgc` and `ttl` for the other controllers. What every benchmark of a controller needs is shared: `run` (cases in legs, and the
//! report), `peers` (the programs under test, as data), `stand` (a server, and what a phase on it cost everyone), `timed` (legs of those
//! who act when a time comes), `legs` (who runs when, medians, CSV), `bounds` and `doubts` (what the numbers have to be, and when not to
//! believe them), `sampling` and `requests` (`/proc` and the server's metrics), `driver` (the load).
//! Nothing here says when or where a run was: that is for whoever quotes it.

mod apiserver;
mod bounds;
pub mod cron;
mod doubts;
mod driver;
pub mod gc;
mod legs;
mod peers;
pub mod podgc;
mod requests;
mod run;
mod sampling;
mod server;
mod stand;
mod timed;
pub mod ttl;

pub use apiserver::{LISTED, Wanted, apiserver};
pub use legs::Order;
pub use run::{Report, Run};

use std::fmt;

/// Width of a column of numbers, and of the first column at least.
const COLUMN: usize = 12;

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured; the same on both sides.
    pub what: String,
    /// The number, in the unit.
    pub value: f64,
    /// What the number counts.
    pub unit: Unit,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, shown in the unit that suits.
    Seconds,
    /// Bytes, shown in the unit that suits.
    Bytes,
    /// Something each second.
    PerSecond,
    /// So many of something.
    Count,
    /// A share, mostly of one processor; no ratio is shown of it.
    Busy,
}

/// The figures of two sides and what has to be said about them.
#[derive(Debug)]
pub struct Table {
    /// What all of it is about; shown where the first column has no heading otherwise.
    pub title: String,
    /// What the other side is called.
    pub peer: &'static str,
    /// Of ours.
    pub ours: Vec<Figure>,
    /// Of the other side; those that it shares with ours are matched by name.
    pub real: Vec<Figure>,
    /// Sentences without which the numbers mislead.
    pub notes: Vec<String>,
}

// === impl Figure ===

impl Figure {
    /// A number with its name and unit.
    pub fn new(what: impl Into<String>, value: f64, unit: Unit) -> Self {
        let what = what.into();
        Self { what, value, unit }
    }
}

// === impl Unit ===

impl Unit {
    /// How a file of raw numbers names it.
    fn word(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::PerSecond => "1/s",
            Self::Count => "",
            Self::Busy => "share",
        }
    }

    fn shown(self, value: f64) -> String {
        let scaled = |steps: &[(f64, &str)]| {
            let fits = steps
                .iter()
                .find(|(size, _)| value >= *size)
                .or(steps.last());
            fits.map_or_else(String::new, |(size, unit)| {
                format!("{} {unit}", digits(value / size))
            })
        };
        match self {
            Self::Seconds => scaled(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]),
            Self::Bytes => scaled(&[(1e6, "MB"), (1e3, "kB"), (1.0, "B")]),
            Self::PerSecond | Self::Count => digits(value),
            Self::Busy => format!("{:.0} %", value * 100.0),
        }
    }
}

// === impl Table ===

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = self.ours.iter().chain(&self.real);
        let longest = both.map(|figure| figure.what.chars().count()).max();
        let first = longest
            .unwrap_or_default()
            .max(self.title.chars().count())
            .max(COLUMN);
        let mut line = |cells: [&str; 4]| {
            let [what, ours, real, ratio] = cells;
            let text = format!("{what:<first$}{ours:>COLUMN$}{real:>COLUMN$}{ratio:>COLUMN$}");
            writeln!(f, "{}", text.trim_end())
        };
        line([&self.title, "ours", self.peer, "ratio"])?;
        let only_real = self.real.iter();
        let only_real = only_real.filter(|real| value(&self.ours, &real.what).is_none());
        for Figure { what, unit, .. } in self.ours.iter().chain(only_real) {
            let (ours, real) = (value(&self.ours, what), value(&self.real, what));
            let shown =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| unit.shown(it));
            let both = ours.zip(real).filter(|_| *unit != Unit::Busy);
            let ratio = both.map(|(ours, real)| ratio(ours, real));
            line([what, &shown(ours), &shown(real), &ratio.unwrap_or_default()])?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "- {note}"))
    }
}

/// The number of that name.
fn value(figures: &[Figure], what: &str) -> Option<f64> {
    let named = figures.iter().find(|figure| figure.what == what);
    named.map(|figure| figure.value)
}

/// How many times the second number the first is: `2.5 ×`, or `1/40` when it is less.
fn ratio(ours: f64, real: f64) -> String {
    if ours <= 0.0 || real <= 0.0 {
        String::new()
    } else if ours >= real {
        format!("{} ×", digits(ours / real))
    } else {
        format!("1/{}", digits(real / ours))
    }
}

/// A number with as many digits as mean something: two after small ones, none after large ones.
fn digits(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

/// The digits of a whole number in groups of three.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_the_digits_that_mean_something() {
        let table = [
            (Unit::Seconds, 2.904, "2.90 s"),
            (Unit::Seconds, 0.0301, "30.1 ms"),
            (Unit::Seconds, 0.000_21, "210 µs"),
            (Unit::Seconds, 0.0, "0.00 µs"),
            (Unit::Bytes, 1_250_000_000.0, "1,250 MB"),
            (Unit::Bytes, 999.0, "999 B"),
            (Unit::PerSecond, 1480.4, "1,480"),
            (Unit::PerSecond, 1_234_567.0, "1,234,567"),
            (Unit::Busy, 0.426, "43 %"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.shown(value), text);
        }
    }

    #[test]
    fn a_ratio_says_how_many_times_or_which_part() {
        let table = [
            (10.0, 4.0, "2.50 ×"),
            (4.0, 4.0, "1.00 ×"),
            (0.02, 3.0, "1/150"),
            (1.0, 0.0, ""),
            (0.0, 1.0, ""),
        ];
        for (ours, real, text) in table {
            assert_eq!(ratio(ours, real), text, "{ours} and {real}");
        }
    }

    #[test]
    fn a_table_matches_figures_by_name_and_ends_with_its_notes() {
        let mk = |what: &str, value, unit| Figure::new(what, value, unit);
        let table = Table {
            title: String::new(),
            peer: "real",
            ours: vec![
                mk("time to ready", 0.02, Unit::Seconds),
                mk("creates/s to 100,000 objects", 9000.0, Unit::PerSecond),
                mk("driver busy", 0.9, Unit::Busy),
            ],
            real: vec![
                mk("driver busy", 0.3, Unit::Busy),
                mk("time to ready", 3.0, Unit::Seconds),
                mk("fsyncs", 7.0, Unit::Count),
            ],
            notes: vec!["say so".to_owned()],
        };
        let text = "                                    ours        real       ratio
time to ready                    20.0 ms      3.00 s       1/150
creates/s to 100,000 objects       9,000           -
driver busy                         90 %        30 %
fsyncs                                 -        7.00
- say so
";
        assert_eq!(table.to_string(), text);
    }
}
