//! The TTL controllers beside each other: how late finished Jobs go that expire together, or one after the other.
//!
//! Nobody collects: a Job deleted in the foreground stays, which is the same for both. Volcano's Jobs are measured with
//! ours alone, because its Go program cannot be built from package registries.

use anyhow::Result;

use super::bounds::Bound;
use super::grouped;
use super::peers::{Limit, Settings, Subject, TTL, VOLCANO_TTL};
use super::run::{Kit, Measurable, Report, Run};
use super::timed::{P99, Timed};

/// Jobs that expire together, both at their defaults.
pub const BURST_AT_DEFAULTS: usize = 1_000;
/// The same where only workers limit.
pub const BURST: usize = 5_000;
/// Jobs that expire one after the other, a second apart.
const STEADY: usize = 60;
/// Requests under way where nothing else limits.
pub const WORKERS: u32 = 20;
/// The same for Volcano's Jobs: as many as its Go program had when it was measured.
const VOLCANO_WORKERS: u32 = 50;

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
    timed: Timed,
    /// Seconds from one to the next.
    apart: u32,
    bound: Option<Bound>,
}

/// Measures both TTL controllers.
pub fn ttl(wanted: &Wanted) -> Result<Report> {
    let cases = wanted.run.choose(cases(wanted))?;
    let kit = Kit::build("ttl", &wanted.run)?;
    let results = kit.measure(&cases, |case, stand| {
        case.timed
            .measure(stand, &format!(" --apart {}", case.apart))
    })?;
    Ok(kit.verdicts(&cases, &results, P99, &NOTES))
}

/// What has to be said beside the numbers.
const NOTES: [&str; 3] = [
    "at defaults the Go program sends at most 20 requests each second, ours as many as its 5 workers manage",
    "lateness is from the time that finish and TTL give, by the server's clock, to the event that the Job is being deleted",
    "Volcano's own controller was measured once, elsewhere, on a machine of this size: 1,000 Jobs expiring together p99 37.8 s at defaults, 6.7 s with 50 workers and no limit; these are not from this run",
];

fn cases(wanted: &Wanted) -> Vec<Case> {
    let settings = |limit, workers| Settings { limit, workers };
    let defaults = settings(Limit::Default, None);
    let free = |workers| settings(Limit::None, Some(workers));
    let burst = |subject, jobs, settings, part: Option<f64>| Case {
        timed: timed(subject, wanted.jobs.unwrap_or(jobs), settings),
        apart: 0,
        bound: part.map(|part| Bound::PartOfPeer(P99, part)),
    };
    let steady = Case {
        timed: timed(&TTL, STEADY, defaults),
        apart: 1,
        bound: None,
    };
    vec![
        burst(&TTL, BURST_AT_DEFAULTS, defaults, Some(20.0)),
        burst(&TTL, BURST, free(wanted.workers), Some(2.0)),
        steady,
        burst(&VOLCANO_TTL, BURST_AT_DEFAULTS, defaults, None),
        burst(&VOLCANO_TTL, BURST_AT_DEFAULTS, free(VOLCANO_WORKERS), None),
    ]
}

fn timed(subject: &'static Subject, count: usize, settings: Settings) -> Timed {
    Timed {
        subject,
        settings,
        load: "ttl-run",
        count,
        is_volcano: !subject.has_peer,
        each: "Job",
        kinds: &["jobs"],
    }
}

// === impl Case ===

impl Measurable for Case {
    fn title(&self) -> String {
        let jobs = grouped(&self.timed.count.to_string());
        let whose = if self.timed.is_volcano {
            "Volcano "
        } else {
            ""
        };
        let how = self.timed.how();
        match self.apart {
            0 => format!("{jobs} {whose}Jobs at once, {how}"),
            apart => format!("{jobs} {whose}Jobs {apart} s apart, {how}"),
        }
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

    fn wanted(jobs: Option<usize>) -> Wanted {
        Wanted {
            jobs,
            workers: WORKERS,
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
    fn every_case_has_a_name_and_time_enough_to_be_made() {
        let all = cases(&wanted(None));
        let titles: Vec<String> = all.iter().map(Case::title).collect();
        let expected = [
            "1,000 Jobs at once, defaults",
            "5,000 Jobs at once, unlimited, 20 workers",
            "60 Jobs 1 s apart, defaults",
            "1,000 Volcano Jobs at once, defaults",
            "1,000 Volcano Jobs at once, unlimited, 50 workers",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            all[1].timed.args(),
            "ttl-run bench --count 5000 --lead 65 --clients 32"
        );
        assert_eq!(
            all[3].timed.args(),
            "ttl-run bench --count 1000 --lead 25 --clients 32 --volcano"
        );
        assert_eq!(cases(&wanted(Some(50)))[0].timed.count, 50);
    }
}
