//! The TTL controllers beside each other: how late finished Jobs go that expire together, or one after the other.
//!
//! Each case runs in legs on a fresh real server each, with one program under test; the driver makes Jobs whose time comes
//! half a minute or more later, and sees when each is deleted. Nobody collects: a Job deleted in the foreground stays, which
//! is the same for both.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::driver::Driver;
use super::legs::Results;
use super::peers::{Limit, Programs, Settings, Side, TTL, UnderTest};
use super::requests::Requests;
use super::run::{Kit, Report, Run, settle};
use super::{Figure, Unit, digits, grouped};
use crate::real::{Identity, Instance, Options};

/// Jobs that expire together, both at their defaults.
pub const BURST_AT_DEFAULTS: usize = 1_000;
/// The same where only workers limit.
pub const BURST: usize = 5_000;
/// Jobs that expire one after the other, a second apart.
const STEADY: usize = 60;
/// Requests under way where nothing else limits.
pub const WORKERS: u32 = 20;

/// Where the Jobs are.
const NAMESPACE: &str = "bench";
/// Clients that make them.
const MAKERS: usize = 32;
/// Jobs that can be made each second, at the least; their time comes when all are there.
const MADE_PER_SEC: usize = 100;
/// Time for both programs to see what was made last.
const SPARE_SECS: usize = 15;
/// How long a program has for what it does after its start.
const SETTLE: Duration = Duration::from_secs(2);

const P50: &str = "lateness, p50";
const P99: &str = "lateness, p99";
const MAX: &str = "lateness, max";
const PER_JOB: &str = "requests per Job";

/// What is measured.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// So many Jobs in every burst, instead of each case's own number.
    pub jobs: Option<usize>,
    /// Requests under way where nothing else limits.
    pub workers: u32,
    /// How.
    pub run: Run,
}

/// Jobs under one setting.
#[derive(Clone, Copy, Debug)]
struct Case {
    jobs: usize,
    /// Seconds from one to the next.
    apart: u32,
    settings: Settings,
    /// The p99 of ours is at most this part of the peer's, as its denominator.
    part: Option<f64>,
}

/// What `load ttl-run` prints.
#[derive(Debug, Deserialize)]
struct Ended {
    count: usize,
    secs: f64,
    p50_secs: f64,
    p99_secs: f64,
    max_secs: f64,
    early: usize,
    own_requests: BTreeMap<String, f64>,
    cpu_secs: f64,
}

/// Measures both TTL controllers.
pub fn ttl(wanted: &Wanted) -> Result<Report> {
    let cases = cases(wanted);
    let kit = Kit::build("ttl", &wanted.run)?;
    let results = kit.measure(&cases, Case::title, |case, side| {
        leg(&kit.programs, &kit.driver, case, side)
    })?;
    let tables = cases.iter();
    let tables = tables.map(|case| results.table(&case.title(), Side::Peer.word()));
    Ok(Report {
        tables: tables.collect(),
        verdicts: cases
            .iter()
            .filter_map(|case| case.verdict(&results))
            .collect(),
        notes: notes(wanted),
        took: kit.started.elapsed(),
        csv: kit.csv,
    })
}

fn cases(wanted: &Wanted) -> Vec<Case> {
    let settings = |limit, workers| Settings { limit, workers };
    let defaults = settings(Limit::Default, None);
    let free = settings(Limit::None, Some(wanted.workers));
    let burst = |jobs, settings, part| Case {
        jobs: wanted.jobs.unwrap_or(jobs),
        apart: 0,
        settings,
        part: Some(part),
    };
    let steady = Case {
        jobs: STEADY,
        apart: 1,
        settings: defaults,
        part: None,
    };
    vec![
        burst(BURST_AT_DEFAULTS, defaults, 20.0),
        burst(BURST, free, 2.0),
        steady,
    ]
}

/// What has to be said beside the numbers.
fn notes(wanted: &Wanted) -> Vec<String> {
    let mut notes = vec![
        "at defaults the Go program sends at most 20 requests each second, ours as many as its 5 workers manage".to_owned(),
        "lateness is from the time that finish and TTL give, by the server's clock, to the event that the Job is being deleted"
            .to_owned(),
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
        let jobs = grouped(&self.jobs.to_string());
        let how = match self.settings.workers {
            None => "defaults".to_owned(),
            Some(workers) => format!("unlimited, {workers} workers"),
        };
        match self.apart {
            0 => format!("{jobs} Jobs at once, {how}"),
            apart => format!("{jobs} Jobs {apart} s apart, {how}"),
        }
    }

    /// Whether the budget is met, if there is one.
    fn verdict(&self, results: &Results) -> Option<String> {
        let (part, title) = (self.part?, self.title());
        let Some(ratio) = results.ratio(&title, P99) else {
            return Some(format!("{title}: not measured on both sides"));
        };
        let is_met = if ratio <= 1.0 / part {
            "met"
        } else {
            "NOT met"
        };
        let ratio = digits(ratio.recip());
        Some(format!(
            "{title}: p99 lateness is 1/{ratio} of the Go program's; at most 1/{part} was wanted: {is_met}"
        ))
    }

    /// The arguments of the driver.
    fn load(&self) -> String {
        let Self { jobs, apart, .. } = self;
        let lead = jobs.div_ceil(MADE_PER_SEC) + SPARE_SECS;
        format!(
            "ttl-run {NAMESPACE} --jobs {jobs} --apart {apart} --lead {lead} --clients {MAKERS}"
        )
    }
}

/// One leg: a fresh server, one program on it, and what became of the Jobs.
fn leg(programs: &Programs, driver: &Driver, case: &Case, side: Side) -> Result<Vec<Figure>> {
    let name = format!("bench-ttl-{}", std::process::id());
    let server = Instance::start(&name, &Options::default())?;
    let client = server.client(Identity::Admin)?;
    let under_test = programs.start(side, &TTL, case.settings, &server)?;
    settle(SETTLE)?;
    let requests = Requests::of(&client)?;
    let cpu = under_test.cpu_secs()?;
    let kubeconfig = server.kubeconfig(Identity::Admin);
    let ended: Ended = driver.drive(side.word(), &kubeconfig, &case.load())?;
    let requests = Requests::of(&client)?.since(&requests);
    let figures = figures(&ended, &requests, &under_test, cpu)?;
    drop(under_test);
    server.stop()?;
    Ok(figures)
}

fn figures(
    ended: &Ended,
    requests: &Requests,
    under_test: &UnderTest,
    cpu_before: f64,
) -> Result<Vec<Figure>> {
    let jobs = ended.count as f64;
    let verbs = requests.on(&["jobs"], &ended.own_requests);
    let all: f64 = verbs.values().sum();
    let mut figures = vec![
        Figure::new(P50, ended.p50_secs, Unit::Seconds),
        Figure::new(P99, ended.p99_secs, Unit::Seconds),
        Figure::new(MAX, ended.max_secs, Unit::Seconds),
        Figure::new("deleted before their time", ended.early as f64, Unit::Count),
        Figure::new("Jobs/s", jobs / ended.secs, Unit::PerSecond),
        Figure::new(PER_JOB, all / jobs, Unit::Count),
    ];
    for (verb, count) in verbs {
        figures.push(Figure::new(format!("  {verb}"), count / jobs, Unit::Count));
    }
    let cpu = under_test.cpu_secs()? - cpu_before;
    figures.extend([
        Figure::new("controller's CPU time each", cpu / jobs, Unit::Seconds),
        Figure::new("resident memory", under_test.resident_bytes()?, Unit::Bytes),
        Figure::new("driver's CPU time", ended.cpu_secs, Unit::Seconds),
    ]);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::super::legs::Leg;
    use super::*;

    fn wanted(jobs: Option<usize>) -> Wanted {
        Wanted {
            jobs,
            workers: WORKERS,
            run: Run {
                legs: "AB".parse().unwrap(),
                csv: None,
                is_quick: true,
                is_rehearsal: false,
            },
        }
    }

    #[test]
    fn three_cases_have_a_name_each_and_time_enough_to_be_made() {
        let all = cases(&wanted(None));
        let titles: Vec<String> = all.iter().map(Case::title).collect();
        let expected = [
            "1,000 Jobs at once, defaults",
            "5,000 Jobs at once, unlimited, 20 workers",
            "60 Jobs 1 s apart, defaults",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            all[1].load(),
            "ttl-run bench --jobs 5000 --apart 0 --lead 65 --clients 32"
        );
        assert_eq!(cases(&wanted(Some(50)))[0].jobs, 50);
    }

    #[test]
    fn a_budget_is_met_or_not() {
        let case = cases(&wanted(None))[0];
        let leg = |side, p99| Leg {
            case: case.title(),
            side,
            number: 1,
            figures: vec![Figure::new(P99, p99, Unit::Seconds)],
        };
        for (ours, end) in [(4.0, "20 was wanted: met"), (6.0, "20 was wanted: NOT met")] {
            let results = Results(vec![leg(Side::Peer, 100.0), leg(Side::Ours, ours)]);
            let verdict = case.verdict(&results).unwrap();
            assert!(verdict.ends_with(end), "{verdict}");
        }
        let half = Results(vec![leg(Side::Ours, 4.0)]);
        assert!(case.verdict(&half).unwrap().ends_with("both sides"));
    }
}
