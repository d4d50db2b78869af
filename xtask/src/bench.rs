//! Benchmarks: ours beside the Go programs, in one run, as tables.
//!
//! A figure is a name, a number and its unit; a table shows the figures of both sides and their ratio. `apiserver`
//! measures the servers. `cases` is the table of the benchmarks of controllers, `run` runs its cases in legs and makes
//! the report, `leg` runs one leg. They use `peers` (the programs under test, as data), `stand` (a server and the cost of
//! a phase on it), `legs` (order, medians, CSV), `bounds` (verdicts and doubts), `sampling` and `requests` (`/proc` and
//! the server's metrics) and `driver` (the load). A report does not contain the date or the machine of a run.

mod apiserver;
mod bounds;
mod cases;
mod driver;
mod leg;
mod legs;
mod peers;
mod requests;
mod run;
mod sampling;
mod stand;

pub use apiserver::{LISTED, apiserver};
pub use cases::{
    BenchOptions, BenchTopic, CRON_WORKERS, GC_WORKERS, GcWorkload, LimitMode, REQUEST_BUDGET,
    TTL_WORKERS,
};
pub use driver::{GraphMemoryOutput, OBJECTS_IN_MEMORY, graph_memory};
pub use legs::LegOrder;
pub use run::{BenchReport, BenchRun, measure};

use std::fmt;

/// Width of a column of numbers, and the least width of the first column.
const COLUMN: usize = 12;

/// A measured number with its name and unit.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchFigure {
    /// The name of the figure; the same on both sides.
    pub what: String,
    pub value: f64,
    pub unit: FigureUnit,
}

/// The unit of a figure, which decides how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// Seconds, shown as s, ms or µs.
    Seconds,
    /// Bytes, shown as MB, kB or B.
    Bytes,
    PerSecond,
    Count,
    /// A share, mostly of one processor. The table shows no ratio of it.
    Busy,
}

/// The figures of two sides, with notes.
#[derive(Debug)]
pub struct FigureTable {
    /// The heading of the first column.
    pub title: String,
    /// The heading of the other side's column.
    pub peer: &'static str,
    pub ours: Vec<BenchFigure>,
    /// The figures of the other side, matched with ours by name.
    pub real: Vec<BenchFigure>,
    /// Facts without which the numbers mislead.
    pub notes: Vec<String>,
}

// === impl BenchFigure ===

impl BenchFigure {
    /// A number with its name and unit.
    pub fn new(what: impl Into<String>, value: f64, unit: FigureUnit) -> Self {
        let what = what.into();
        Self { what, value, unit }
    }
}

// === impl FigureUnit ===

impl FigureUnit {
    /// The unit's word in a file of raw numbers.
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

// === impl FigureTable ===

impl fmt::Display for FigureTable {
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
        for BenchFigure { what, unit, .. } in self.ours.iter().chain(only_real) {
            let (ours, real) = (value(&self.ours, what), value(&self.real, what));
            let shown =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| unit.shown(it));
            let both = ours.zip(real).filter(|_| *unit != FigureUnit::Busy);
            let ratio = both.map(|(ours, real)| ratio(ours, real));
            line([what, &shown(ours), &shown(real), &ratio.unwrap_or_default()])?;
        }
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "- {note}"))
    }
}

/// The value of the figure with this name.
fn value(figures: &[BenchFigure], what: &str) -> Option<f64> {
    let named = figures.iter().find(|figure| figure.what == what);
    named.map(|figure| figure.value)
}

/// The ratio of two numbers: `2.5 ×`, or `1/40` when it is less than one.
fn ratio(ours: f64, real: f64) -> String {
    if ours <= 0.0 || real <= 0.0 {
        String::new()
    } else if ours >= real {
        format!("{} ×", digits(ours / real))
    } else {
        format!("1/{}", digits(real / ours))
    }
}

/// A number with two decimals when it is small and none when it is large.
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
    fn numbers_are_shown_with_significant_digits() {
        let table = [
            (FigureUnit::Seconds, 2.904, "2.90 s"),
            (FigureUnit::Seconds, 0.0301, "30.1 ms"),
            (FigureUnit::Seconds, 0.000_21, "210 µs"),
            (FigureUnit::Seconds, 0.0, "0.00 µs"),
            (FigureUnit::Bytes, 1_250_000_000.0, "1,250 MB"),
            (FigureUnit::Bytes, 999.0, "999 B"),
            (FigureUnit::PerSecond, 1480.4, "1,480"),
            (FigureUnit::PerSecond, 1_234_567.0, "1,234,567"),
            (FigureUnit::Busy, 0.426, "43 %"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.shown(value), text);
        }
    }

    #[test]
    fn a_ratio_is_a_multiple_or_a_part() {
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
        let mk = |what: &str, value, unit| BenchFigure::new(what, value, unit);
        let table = FigureTable {
            title: String::new(),
            peer: "real",
            ours: vec![
                mk("time to ready", 0.02, FigureUnit::Seconds),
                mk(
                    "creates/s to 100,000 objects",
                    9000.0,
                    FigureUnit::PerSecond,
                ),
                mk("driver busy", 0.9, FigureUnit::Busy),
            ],
            real: vec![
                mk("driver busy", 0.3, FigureUnit::Busy),
                mk("time to ready", 3.0, FigureUnit::Seconds),
                mk("fsyncs", 7.0, FigureUnit::Count),
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
