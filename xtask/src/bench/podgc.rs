//! Pod GC beside Pod GC: how fast Pods go that have terminated and are too many, or whose Node does not exist.
//!
//! Each case runs in legs on a fresh real server each, with one program under test. The Pods are there before it starts and
//! the driver watches while it does, because its first round comes at once. Time counts from the first Pod that goes to
//! the last: rounds and quarantine are the same for both, and not what is measured.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::driver::Driver;
use super::legs::Results;
use super::peers::{Limit, POD_GC, POD_GC_KEEPS, Programs, Settings, Side};
use super::requests::Requests;
use super::run::{Kit, Report, Run, settle};
use super::{Figure, Unit, digits, grouped};
use crate::real::{Identity, Instance, Options};

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
const SETTLE: Duration = Duration::from_secs(3);
/// How long everyone has for what is left to do after the last Pod.
const AFTERMATH: Duration = Duration::from_secs(1);

const RATE: &str = "Pods/s";
const PER_POD: &str = "requests per Pod";

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
    /// Ours removes at least so many times as many each second.
    factor: f64,
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

/// Measures both.
pub fn podgc(wanted: &Wanted) -> Result<Report> {
    let cases = cases(wanted);
    let kit = Kit::build("podgc", &wanted.run)?;
    let results = kit.measure(&cases, Case::title, |case, side| {
        leg(&kit.programs, &kit.driver, case, side)
    })?;
    let tables = cases.iter();
    let tables = tables.map(|case| results.table(&case.title(), Side::Peer.word()));
    Ok(Report {
        tables: tables.collect(),
        verdicts: cases.iter().map(|case| case.verdict(&results)).collect(),
        notes: notes(wanted),
        took: kit.started.elapsed(),
        csv: kit.csv,
    })
}

fn cases(wanted: &Wanted) -> Vec<Case> {
    let case = |why, pods, limit, factor| Case {
        why,
        pods: wanted.pods.unwrap_or(pods),
        limit,
        factor,
    };
    vec![
        case(Why::Terminated, AT_DEFAULTS, Limit::Default, 10.0),
        case(Why::Terminated, UNLIMITED, Limit::None, 1.3),
        case(Why::NodeMissing, AT_DEFAULTS, Limit::Default, 10.0),
        case(Why::NodeMissing, AT_DEFAULTS, Limit::None, 1.5),
    ]
}

/// What has to be said beside the numbers.
fn notes(wanted: &Wanted) -> Vec<String> {
    let mut notes = vec![
        "at defaults the Go program sends at most 20 requests each second, ours as many as 20 under way manage".to_owned(),
        "without a limit the Go program deletes all terminated Pods at once, and orphans one after the other".to_owned(),
    ];
    if wanted.run.is_quick {
        notes.push("ours was built without optimising: these are no figures".to_owned());
    }
    notes
}

// === impl Case ===

impl Case {
    /// Its name in tables and files.
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

    /// Whether the budget is met.
    fn verdict(&self, results: &Results) -> String {
        let (factor, title) = (self.factor, self.title());
        let Some(ratio) = results.ratio(&title, RATE) else {
            return format!("{title}: not measured on both sides");
        };
        let is_met = if ratio >= factor { "met" } else { "NOT met" };
        let ratio = digits(ratio);
        format!("{title}: {ratio} × the Go program's Pods/s; {factor} × was wanted: {is_met}")
    }

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

/// One leg: a fresh server, one program on it, and what became of the Pods.
fn leg(programs: &Programs, driver: &Driver, case: &Case, side: Side) -> Result<Vec<Figure>> {
    let name = format!("bench-podgc-{}", std::process::id());
    let server = Instance::start(&name, &Options::default())?;
    let client = server.client(Identity::Admin)?;
    let kubeconfig = server.kubeconfig(Identity::Admin);
    let _: usize = driver.drive(side.word(), &kubeconfig, &case.plant())?;
    let before = Requests::of(&client)?;
    let settings = Settings {
        limit: case.limit,
        workers: None,
    };
    let (removed, under_test) = thread::scope(|scope| {
        let watching =
            scope.spawn(|| driver.drive::<Removed>(side.word(), &kubeconfig, &case.watch()));
        settle(SETTLE)?;
        let under_test = programs.start(side, &POD_GC, settings, &server)?;
        let removed = watching.join().map_err(|_| anyhow!("the driver panicked"));
        anyhow::Ok((removed?.context("the Pods did not go")?, under_test))
    })?;
    settle(AFTERMATH)?;
    let requests = Requests::of(&client)?.since(&before);
    let pods = removed.count as f64;
    let verbs = requests.on(&["pods", "nodes"], &removed.own_requests);
    let all: f64 = verbs.values().sum();
    let mut figures = vec![
        Figure::new(RATE, pods / removed.secs, Unit::PerSecond),
        Figure::new("first Pod after", removed.first_secs, Unit::Seconds),
        Figure::new(PER_POD, all / pods, Unit::Count),
    ];
    for (verb, count) in verbs {
        figures.push(Figure::new(format!("  {verb}"), count / pods, Unit::Count));
    }
    let cpu = under_test.cpu_secs()?;
    figures.extend([
        Figure::new("controller's CPU time each", cpu / pods, Unit::Seconds),
        Figure::new("resident memory", under_test.resident_bytes()?, Unit::Bytes),
        Figure::new("driver's CPU time", removed.cpu_secs, Unit::Seconds),
    ]);
    drop(under_test);
    server.stop()?;
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::super::legs::Leg;
    use super::*;

    fn wanted(pods: Option<usize>) -> Wanted {
        Wanted {
            pods,
            run: Run {
                legs: "AB".parse().unwrap(),
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

    #[test]
    fn a_budget_is_met_or_not() {
        let case = cases(&wanted(None))[0];
        let leg = |side, rate| Leg {
            case: case.title(),
            side,
            number: 1,
            figures: vec![Figure::new(RATE, rate, Unit::PerSecond)],
        };
        for (ours, end) in [(200.0, "wanted: met"), (199.0, "wanted: NOT met")] {
            let results = Results(vec![leg(Side::Peer, 20.0), leg(Side::Ours, ours)]);
            let verdict = case.verdict(&results);
            assert!(verdict.ends_with(end), "{verdict}");
        }
        let half = Results(vec![leg(Side::Ours, 4.0)]);
        assert!(case.verdict(&half).ends_with("both sides"));
    }
}
