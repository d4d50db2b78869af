//! The CronJob controllers beside each other: how late the Jobs of CronJobs are whose slot comes in the same minute.
//!
//! Nobody runs the Jobs. Volcano's CronJobs are measured with ours alone, because its Go program cannot be built from
//! package registries.

use anyhow::Result;

use super::bounds::Bound;
use super::grouped;
use super::peers::{CRON, Limit, Settings, Subject, VOLCANO_CRON};
use super::run::{Kit, Measurable, Report, Run};
use super::timed::{P99, Timed};

/// CronJobs in one minute, both at their defaults.
pub const AT_DEFAULTS: usize = 500;
/// The same where only workers limit.
pub const UNLIMITED: usize = 2_000;
/// Requests under way where nothing else limits.
pub const WORKERS: u32 = 50;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// So many CronJobs in every case, instead of each one's own number.
    pub cron_jobs: Option<usize>,
    /// Requests under way where nothing else limits.
    pub workers: u32,
    /// How.
    pub run: Run,
}

/// CronJobs under one setting.
#[derive(Clone, Copy, Debug)]
struct Case {
    timed: Timed,
    bound: Option<Bound>,
}

/// What has to be said beside the numbers.
const NOTES: [&str; 3] = [
    "at defaults the Go program sends at most 20 requests each second, ours as many as its 5 workers manage",
    "lateness is from the slot, by the server's clock, to the event that the Job is there; the Go program waits 100 ms after a slot by design",
    "Volcano's own controller was measured once, elsewhere, on a machine of this size: 500 CronJobs in one minute p99 18.1 s at defaults, 2.9 s with 50 workers and no limit; these are not from this run",
];

/// Measures both CronJob controllers.
pub fn cron(wanted: &Wanted) -> Result<Report> {
    let cases = wanted.run.choose(cases(wanted))?;
    let kit = Kit::build("cron", &wanted.run)?;
    let results = kit.measure(&cases, |case, stand| case.timed.measure(stand, ""))?;
    Ok(kit.verdicts(&cases, &results, P99, &NOTES))
}

fn cases(wanted: &Wanted) -> Vec<Case> {
    let defaults = Settings {
        limit: Limit::Default,
        workers: None,
    };
    let free = Settings {
        limit: Limit::None,
        workers: Some(wanted.workers),
    };
    let case = |subject: &'static Subject, count, settings, part: Option<f64>| Case {
        timed: Timed {
            subject,
            settings,
            load: "cron-run",
            count: wanted.cron_jobs.unwrap_or(count),
            is_volcano: !subject.has_peer,
            each: "tick",
            kinds: &["cronjobs", "jobs", "events"],
        },
        bound: part.map(|part| Bound::PartOfPeer(P99, part)),
    };
    vec![
        case(&CRON, AT_DEFAULTS, defaults, Some(20.0)),
        case(&CRON, UNLIMITED, free, Some(2.0)),
        case(&VOLCANO_CRON, AT_DEFAULTS, defaults, None),
        case(&VOLCANO_CRON, AT_DEFAULTS, free, None),
        case(&VOLCANO_CRON, UNLIMITED, free, None),
    ]
}

// === impl Case ===

impl Measurable for Case {
    fn title(&self) -> String {
        let count = grouped(&self.timed.count.to_string());
        let whose = if self.timed.is_volcano {
            "Volcano "
        } else {
            ""
        };
        format!("{count} {whose}CronJobs, {}", self.timed.how())
    }

    fn has_peer(&self) -> bool {
        self.timed.subject.has_peer
    }

    fn bound(&self) -> Option<Bound> {
        self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_and_a_load() {
        let wanted = Wanted {
            cron_jobs: None,
            workers: WORKERS,
            run: Run {
                legs: "AB".parse().unwrap(),
                only: None,
                csv: None,
                is_quick: true,
                is_rehearsal: false,
            },
        };
        let all = cases(&wanted);
        let titles: Vec<String> = all.iter().map(Case::title).collect();
        let expected = [
            "500 CronJobs, defaults",
            "2,000 CronJobs, unlimited, 50 workers",
            "500 Volcano CronJobs, defaults",
            "500 Volcano CronJobs, unlimited, 50 workers",
            "2,000 Volcano CronJobs, unlimited, 50 workers",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            all[2].timed.args(),
            "cron-run bench --count 500 --lead 20 --clients 32 --volcano"
        );
        let (both, alone) = (all[0].has_peer(), all[2].has_peer());
        assert_eq!((both, alone), (true, false));
        let some = Wanted {
            cron_jobs: Some(7),
            ..wanted
        };
        assert!(cases(&some).iter().all(|case| case.timed.count == 7));
    }
}
