//! Holds the Jobs of one CronJob, sorted for each question that a decision asks.
//!
//! A CronJob may own a hundred thousand finished Jobs, and every request needs a new decision, so no decision may scan all
//! Jobs. Running Jobs, doubtful Jobs, the next Job to prune, the latest success and the latest slot each have their own
//! sorted set. The index changes it: a Job that changed is taken out and put back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::dialects::JobAgeBy;
use super::facts::{JobFacts, JobProgress};
use crate::runtime::record::{Revision, Uid};

/// A Job that a CronJob owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnedJob {
    pub(super) name: Arc<str>,
    pub(super) revision: Revision,
    pub(super) facts: JobFacts,
    pub(super) is_deleting: bool,
    /// Whether the API server acknowledged our delete.
    pub(super) is_going: bool,
    /// Whether a relist did not show the Job.
    pub(super) is_doubtful: bool,
}

/// How finished Jobs are judged, by kind and settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobRules {
    /// The time by which the oldest finished Job is pruned first.
    pub(super) age: JobAgeBy,
    /// Whether aborted Jobs count as finished.
    pub(super) are_aborted_over: bool,
}

/// All Jobs of one owner, finished ones included.
#[derive(Debug)]
pub(super) struct OwnedJobs {
    rules: JobRules,
    jobs: BTreeMap<Uid, OwnedJob>,
    /// A name may have two Jobs while the DELETED event of the first is on its way.
    names: BTreeSet<(Arc<str>, Uid)>,
    unfinished: BTreeSet<Uid>,
    doubtful: BTreeSet<Uid>,
    succeeded: BTreeSet<PruneKey>,
    failed: BTreeSet<PruneKey>,
    /// The number of Jobs by the time of their success.
    successes: BTreeMap<Timestamp, usize>,
    /// The number of Jobs by the slot that they are named after.
    slots: BTreeMap<Timestamp, usize>,
}

/// The order in which finished Jobs are pruned: the oldest first, Jobs of unknown age last, then by name.
type PruneKey = (Timestamp, Arc<str>, Uid);

// === impl Job ===

impl OwnedJob {
    pub(super) fn has_finished(&self, rules: JobRules) -> bool {
        match self.facts.outcome {
            JobProgress::Unfinished => false,
            JobProgress::Succeeded | JobProgress::Failed => true,
            JobProgress::Aborted => rules.are_aborted_over,
        }
    }

    fn prune_key(&self, rules: JobRules, uid: &Uid) -> PruneKey {
        let since = match rules.age {
            JobAgeBy::Creation => self.facts.created,
            JobAgeBy::Start => self.facts.started,
        };
        let since = since.unwrap_or(Timestamp::MAX);
        (since, self.name.clone(), uid.clone())
    }

    /// Whether the controller created it for a slot: it has the name of a slot until `until`, and no user started it.
    pub(super) fn is_of_slot(&self, until: Timestamp) -> bool {
        let slot = self.facts.slot.filter(|_| !self.facts.is_by_hand);
        slot.is_some_and(|slot| slot <= until)
    }

    /// The time of its success, if it succeeded and has one.
    pub(super) fn success(&self) -> Option<Timestamp> {
        self.facts
            .ended
            .filter(|_| self.facts.outcome == JobProgress::Succeeded)
    }
}

// === impl OwnedJobs ===

impl OwnedJobs {
    pub(super) fn new(rules: JobRules) -> Self {
        Self {
            rules,
            jobs: BTreeMap::new(),
            names: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            succeeded: BTreeSet::new(),
            failed: BTreeSet::new(),
            successes: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&OwnedJob> {
        self.jobs.get(uid)
    }

    pub(super) fn uids_of_name(&self, name: &str) -> impl Iterator<Item = &Uid> {
        let from = (Arc::from(name), Uid::Uuid([0; 16]));
        let known = self.names.range(from..);
        known
            .take_while(move |(known, _)| **known == *name)
            .map(|(_, uid)| uid)
    }

    /// The Jobs that have not finished, also while they are being deleted.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (&Uid, &OwnedJob)> {
        self.unfinished
            .iter()
            .filter_map(|uid| self.jobs.get_key_value(uid))
    }

    pub(super) fn doubtful(&self) -> Option<&OwnedJob> {
        self.doubtful.first().and_then(|uid| self.jobs.get(uid))
    }

    /// The Jobs with this outcome over a history limit, in the order in which they are pruned.
    pub(super) fn beyond(
        &self,
        outcome: JobProgress,
        kept: usize,
    ) -> impl Iterator<Item = (&Uid, &OwnedJob)> {
        let ended = self.ended(outcome);
        let over = ended.map_or(0, |ended| ended.len().saturating_sub(kept));
        let ended = ended.into_iter().flatten().take(over);
        ended.filter_map(|(_, _, uid)| self.jobs.get_key_value(uid))
    }

    pub(super) fn last_success(&self) -> Option<Timestamp> {
        self.successes.last_key_value().map(|(time, _)| *time)
    }

    /// The number of Jobs with this outcome that are pruned after a Job.
    pub(super) fn younger(&self, outcome: JobProgress, uid: &Uid) -> usize {
        let ended = self.ended(outcome).into_iter().flatten().rev();
        ended.take_while(|(_, _, known)| known != uid).count()
    }

    /// The youngest Job with this outcome over a history limit: the last one to be pruned.
    pub(super) fn youngest_beyond(&self, outcome: JobProgress, kept: usize) -> Option<&OwnedJob> {
        let (_, _, uid) = self.ended(outcome)?.iter().rev().nth(kept)?;
        self.jobs.get(uid)
    }

    /// The latest slot that a Job is named after, not later than `until`.
    pub(super) fn last_slot(&self, until: Timestamp) -> Option<Timestamp> {
        self.slots
            .range(..=until)
            .next_back()
            .map(|(slot, _)| *slot)
    }

    /// Stores a Job and returns the version before.
    pub(super) fn put(&mut self, uid: &Uid, job: OwnedJob) -> Option<OwnedJob> {
        let before = self.take(uid);
        self.names.insert((job.name.clone(), uid.clone()));
        if !job.has_finished(self.rules) {
            self.unfinished.insert(uid.clone());
        }
        if job.is_doubtful {
            self.doubtful.insert(uid.clone());
        }
        let key = job.prune_key(self.rules, uid);
        if let Some(order) = self.prune_order(&job) {
            order.insert(key);
        }
        count(&mut self.successes, job.success());
        count(&mut self.slots, job.facts.slot);
        self.jobs.insert(uid.clone(), job);
        before
    }

    pub(super) fn take(&mut self, uid: &Uid) -> Option<OwnedJob> {
        let job = self.jobs.remove(uid)?;
        self.names.remove(&(job.name.clone(), uid.clone()));
        self.unfinished.remove(uid);
        self.doubtful.remove(uid);
        let key = job.prune_key(self.rules, uid);
        if let Some(order) = self.prune_order(&job) {
            order.remove(&key);
        }
        uncount(&mut self.successes, job.success());
        uncount(&mut self.slots, job.facts.slot);
        Some(job)
    }

    /// The Jobs with this outcome, in the order in which they are pruned.
    fn ended(&self, outcome: JobProgress) -> Option<&BTreeSet<PruneKey>> {
        match outcome {
            JobProgress::Succeeded => Some(&self.succeeded),
            JobProgress::Failed => Some(&self.failed),
            JobProgress::Unfinished | JobProgress::Aborted => None,
        }
    }

    /// The prune order that a Job belongs to; none if it runs or is being deleted.
    fn prune_order(&mut self, job: &OwnedJob) -> Option<&mut BTreeSet<PruneKey>> {
        match job.facts.outcome {
            _ if job.is_deleting || job.is_going => None,
            JobProgress::Succeeded => Some(&mut self.succeeded),
            JobProgress::Failed => Some(&mut self.failed),
            JobProgress::Unfinished | JobProgress::Aborted => None,
        }
    }
}

fn count(times: &mut BTreeMap<Timestamp, usize>, time: Option<Timestamp>) {
    if let Some(time) = time {
        *times.entry(time).or_default() += 1;
    }
}

fn uncount(times: &mut BTreeMap<Timestamp, usize>, time: Option<Timestamp>) {
    let Some(time) = time else {
        return;
    };
    if let Some(left) = times.get_mut(&time) {
        *left -= 1;
        if *left == 0 {
            times.remove(&time);
        }
    }
}

#[cfg(test)]
mod tests {
    use caretaker_machinery::rng::Rng;

    use super::*;

    const OUTCOMES: [JobProgress; 4] = [
        JobProgress::Unfinished,
        JobProgress::Succeeded,
        JobProgress::Failed,
        JobProgress::Aborted,
    ];

    /// A random Job. Few values are possible, so that many Jobs are equal.
    fn draw(rng: &mut Rng) -> OwnedJob {
        let outcome = OUTCOMES[rng.below(OUTCOMES.len())];
        let mut time = || {
            let secs = i64::try_from(rng.below(8)).unwrap();
            (secs > 0).then(|| Timestamp::from_second(secs).unwrap())
        };
        let facts = JobFacts {
            outcome,
            ended: time(),
            started: time(),
            created: time(),
            slot: time(),
            is_by_hand: false,
        };
        OwnedJob {
            name: format!("j{}", rng.below(20)).into(),
            revision: Revision::default(),
            facts,
            is_deleting: rng.below(8) == 0,
            is_going: rng.below(8) == 0,
            is_doubtful: rng.below(8) == 0,
        }
    }

    /// Compares every sorted set with a scan of all Jobs.
    fn check(jobs: &OwnedJobs, known: &BTreeMap<Uid, OwnedJob>) {
        let rules = jobs.rules;
        let uids = |is_meant: &dyn Fn(&OwnedJob) -> bool| -> Vec<&Uid> {
            let meant = known.iter().filter(|(_, job)| is_meant(job));
            meant.map(|(uid, _)| uid).collect()
        };
        let unfinished: Vec<&Uid> = jobs.unfinished().map(|(uid, _)| uid).collect();
        assert_eq!(unfinished, uids(&|job| !job.has_finished(rules)));
        let is_any_doubtful = !uids(&|job| job.is_doubtful).is_empty();
        assert_eq!(jobs.doubtful().is_some(), is_any_doubtful);
        assert!(jobs.doubtful().is_none_or(|job| job.is_doubtful));
        for name in (0..20).map(|number| format!("j{number}")) {
            let named: Vec<&Uid> = jobs.uids_of_name(&name).collect();
            assert_eq!(named, uids(&|job| *job.name == *name));
        }
        assert_eq!(
            jobs.last_success(),
            known.values().filter_map(OwnedJob::success).max()
        );
        let until = Timestamp::from_second(4).unwrap();
        let slots = known.values().filter_map(|job| job.facts.slot);
        assert_eq!(
            jobs.last_slot(until),
            slots.filter(|slot| *slot <= until).max()
        );
        for outcome in OUTCOMES {
            let is_over = matches!(outcome, JobProgress::Succeeded | JobProgress::Failed);
            let mut ended = uids(&|job| {
                is_over && job.facts.outcome == outcome && !job.is_deleting && !job.is_going
            });
            ended.sort_by_key(|uid| known[*uid].prune_key(rules, uid));
            ended.truncate(ended.len().saturating_sub(3));
            let youngest = ended.last().map(|uid| &known[*uid]);
            assert_eq!(jobs.youngest_beyond(outcome, 3), youngest);
            let beyond: Vec<&Uid> = jobs.beyond(outcome, 3).map(|(uid, _)| uid).collect();
            assert_eq!(beyond, ended);
        }
        assert_eq!(jobs.is_empty(), known.is_empty());
    }

    #[test]
    fn sorted_sets_agree_with_a_scan() {
        for seed in 0..8 {
            let mut rng = Rng::seeded(seed);
            let rules = JobRules {
                age: [JobAgeBy::Creation, JobAgeBy::Start][rng.below(2)],
                are_aborted_over: rng.below(2) == 0,
            };
            let (mut jobs, mut known) = (OwnedJobs::new(rules), BTreeMap::new());
            for step in 0..300 {
                let uid = Uid::from(format!("u{}", rng.below(30)).as_str());
                // First more Jobs come than go, then all go.
                if rng.below(3) > 0 && step < 200 {
                    let job = draw(&mut rng);
                    assert_eq!(jobs.put(&uid, job.clone()), known.insert(uid, job));
                } else {
                    assert_eq!(jobs.take(&uid), known.remove(&uid));
                }
                check(&jobs, &known);
            }
        }
    }
}
