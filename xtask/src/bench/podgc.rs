//! Pod GC beside Pod GC: how fast Pods go that have terminated and are too many, or whose Node does not exist.
//!
//! The Pods are there before the program starts and the driver watches while it does, because its first round comes at
//! once. Time counts from the first Pod that goes to the last: rounds and quarantine are the same for both, and not what
//! is measured.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::bounds::Bound;
use super::peers::{Limit, POD_GC, POD_GC_KEEPS, Settings};
use super::run::{Kit, Measurable, Report, Run, settle};
use super::stand::{Done, Stand};
use super::{Figure, Unit, grouped};

/// Pods that go, both at their defaults.
pub const AT_DEFAULTS: usize = 1_000;
/// Terminated Pods that go where nothing but parallelism limits.
pub const UNLIMITED: usize = 5_000;

/// Where the Pods are.
const NAMESPACE: &str = "bench";
/// The Node that does not exist.
const NODE: &str = "gone";
/// Clients that make them.
const MAKERS: usize = 32;
/// How long the driver has to begin to watch before the program starts.
const WATCHING: Duration = Duration::from_secs(3);

const RATE: &str = "Pods/s";

/// What is measured.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// So many Pods in every case, instead of each one's own number.
    pub pods: Option<usize>,
    /// How.
    pub run: Run,
}

/// Why the Pods go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Terminated,
    NodeMissing,
}

/// Pods under one setting.
#[derive(Clone, Copy, Debug)]
struct Case {
    why: Why,
    pods: usize,
    limit: Limit,
    bound: Bound,
}

/// What `load pods-run` prints.
#[derive(Debug, Deserialize)]
struct Removed {
    count: usize,
    secs: f64,
    first_secs: f64,
    own_requests: BTreeMap<String, f64>,
    cpu_secs: f64,
}

/// What has to be said beside the numbers.
const NOTES: [&str; 2] = [
    "at defaults the Go program sends at most 20 requests each second, ours as many as 20 under way manage",
    "without a limit the Go program deletes all terminated Pods at once, and orphans one after the other",
];

/// Measures both.
pub fn podgc(wanted: &Wanted) -> Result<Report> {
    let cases = wanted.run.choose(cases(wanted))?;
    let kit = Kit::build("podgc", &wanted.run)?;
    let results = kit.measure(&cases, leg)?;
    Ok(kit.verdicts(&cases, &results, RATE, &NOTES))
}

fn cases(wanted: &Wanted) -> Vec<Case> {
    let case = |why, pods, limit, factor| Case {
        why,
        pods: wanted.pods.unwrap_or(pods),
        limit,
        bound: Bound::TimesPeer(RATE, factor),
    };
    vec![
        case(Why::Terminated, AT_DEFAULTS, Limit::Default, 10.0),
        case(Why::Terminated, UNLIMITED, Limit::None, 1.3),
        case(Why::NodeMissing, AT_DEFAULTS, Limit::Default, 10.0),
        case(Why::NodeMissing, AT_DEFAULTS, Limit::None, 1.5),
    ]
}

// === impl Case ===

impl Measurable for Case {
    fn title(&self) -> String {
        let pods = grouped(&self.pods.to_string());
        let why = match self.why {
            Why::Terminated => "Pods over the threshold",
            Why::NodeMissing => "Pods on a missing Node",
        };
        let how = match self.limit {
            Limit::Default => "defaults",
            Limit::PerSecond(_) | Limit::None => "unlimited",
        };
        format!("{pods} {why}, {how}")
    }

    fn bound(&self) -> Option<Bound> {
        Some(self.bound)
    }
}

impl Case {
    /// How many stay.
    fn left(&self) -> usize {
        match self.why {
            Why::Terminated => POD_GC_KEEPS,
            Why::NodeMissing => 0,
        }
    }

    fn plant(&self) -> String {
        let pods = self.pods + self.left();
        let node = match self.why {
            Why::Terminated => String::new(),
            Why::NodeMissing => format!(" --node {NODE}"),
        };
        format!("pods-plant {NAMESPACE} --pods {pods}{node} --clients {MAKERS}")
    }

    fn watch(&self) -> String {
        format!("pods-run {NAMESPACE} --left {}", self.left())
    }
}

/// One leg: one program, and what became of the Pods.
fn leg(case: &Case, mut stand: Stand<'_>) -> Result<Vec<Figure>> {
    let _: usize = stand.drive(&case.plant())?;
    let phase = stand.begin(None)?;
    let settings = Settings {
        limit: case.limit,
        workers: None,
    };
    let (removed, program) = thread::scope(|scope| {
        let watching = scope.spawn(|| stand.drive::<Removed>(&case.watch()));
        settle(WATCHING)?;
        let program = stand.start(&POD_GC, settings)?;
        let removed = watching.join().map_err(|_| anyhow!("the driver panicked"));
        anyhow::Ok((removed?.context("the Pods did not go")?, program))
    })?;
    let rate = removed.count as f64 / removed.secs;
    stand.figure(RATE, rate, Unit::PerSecond);
    stand.figure("first Pod after", removed.first_secs, Unit::Seconds);
    let done = Done {
        count: removed.count,
        each: "Pod",
        secs: removed.secs,
        kinds: &["pods", "nodes"],
        own_requests: &removed.own_requests,
        driver_secs: removed.cpu_secs,
        making_secs: 0.0,
    };
    stand.end(&phase, &done, &program)?;
    drop(program);
    stand.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(pods: Option<usize>) -> Wanted {
        Wanted {
            pods,
            run: Run {
                legs: "AB".parse().unwrap(),
                only: None,
                csv: None,
                is_quick: true,
                is_rehearsal: false,
            },
        }
    }

    #[test]
    fn four_cases_have_a_name_and_a_load_each() {
        let all = cases(&wanted(None));
        let titles: Vec<String> = all.iter().map(Case::title).collect();
        let expected = [
            "1,000 Pods over the threshold, defaults",
            "5,000 Pods over the threshold, unlimited",
            "1,000 Pods on a missing Node, defaults",
            "1,000 Pods on a missing Node, unlimited",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            (all[0].plant(), all[0].watch()),
            (
                "pods-plant bench --pods 1100 --clients 32".to_owned(),
                "pods-run bench --left 100".to_owned()
            )
        );
        assert_eq!(
            (all[2].plant(), all[2].watch()),
            (
                "pods-plant bench --pods 1000 --node gone --clients 32".to_owned(),
                "pods-run bench --left 0".to_owned()
            )
        );
        assert_eq!(cases(&wanted(Some(50)))[1].pods, 50);
    }
}
