//! The Jobs of one CronJob, in every order in which they are looked at.
//!
//! A CronJob may have a hundred thousand finished Jobs, and each request of its is decided anew. So nothing here is searched
//! for: what runs, what is in doubt, what goes next, the latest success and the latest slot are each kept in an order of
//! their own. The index changes it; a Job that changes is taken out and put back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::dialects::AgeBy;
use super::facts::{JobFacts, Outcome};
use crate::runtime::record::{Revision, Uid};

/// A Job that a CronJob owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) name: Arc<str>,
    pub(super) revision: Revision,
    pub(super) facts: JobFacts,
    pub(super) is_deleting: bool,
    /// Its delete was acknowledged.
    pub(super) is_going: bool,
    /// A fresh list did not show it.
    pub(super) is_doubtful: bool,
}

/// What depends on the kind and on the settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// In which order finished Jobs go.
    pub(super) age: AgeBy,
    /// Whether aborted Jobs have finished.
    pub(super) are_aborted_over: bool,
}

/// The Jobs of a CronJob.
#[derive(Debug)]
pub(super) struct Family {
    rules: Rules,
    jobs: BTreeMap<Uid, Job>,
    /// A name has one Job, unless the end of the one before was not shown yet.
    names: BTreeSet<(Arc<str>, Uid)>,
    unfinished: BTreeSet<Uid>,
    doubtful: BTreeSet<Uid>,
    succeeded: BTreeSet<Turn>,
    failed: BTreeSet<Turn>,
    /// When Jobs succeeded, and how many did then.
    successes: BTreeMap<Timestamp, usize>,
    /// The slots that Jobs are named after, and how many are.
    slots: BTreeMap<Timestamp, usize>,
}

/// When it is a finished Job's turn to go: the oldest first, those of unknown age last, then by name.
type Turn = (Timestamp, Arc<str>, Uid);

// === impl Job ===

impl Job {
    /// Whether it runs no more.
    pub(super) fn has_finished(&self, rules: Rules) -> bool {
        match self.facts.outcome {
            Outcome::Unfinished => false,
            Outcome::Succeeded | Outcome::Failed => true,
            Outcome::Aborted => rules.are_aborted_over,
        }
    }

    fn turn(&self, rules: Rules, uid: &Uid) -> Turn {
        let since = match rules.age {
            AgeBy::Creation => self.facts.created,
            AgeBy::Start => self.facts.started,
        };
        let since = since.unwrap_or(Timestamp::MAX);
        (since, self.name.clone(), uid.clone())
    }

    /// When it succeeded, if it has and says so.
    pub(super) fn success(&self) -> Option<Timestamp> {
        self.facts
            .ended
            .filter(|_| self.facts.outcome == Outcome::Succeeded)
    }
}

// === impl Family ===

impl Family {
    pub(super) fn new(rules: Rules) -> Self {
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

    pub(super) fn get(&self, uid: &Uid) -> Option<&Job> {
        self.jobs.get(uid)
    }

    /// The Jobs of a name.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &Uid> {
        let from = (Arc::from(name), Uid::Uuid([0; 16]));
        let known = self.names.range(from..);
        known
            .take_while(move |(known, _)| **known == *name)
            .map(|(_, uid)| uid)
    }

    /// Those that have not finished, also if they are being deleted.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (&Uid, &Job)> {
        self.unfinished
            .iter()
            .filter_map(|uid| self.jobs.get_key_value(uid))
    }

    /// One that is in doubt.
    pub(super) fn doubtful(&self) -> Option<&Job> {
        self.doubtful.first().and_then(|uid| self.jobs.get(uid))
    }

    /// Those that ended like this and are more than are kept, in the order in which they go.
    pub(super) fn beyond(
        &self,
        outcome: Outcome,
        kept: usize,
    ) -> impl Iterator<Item = (&Uid, &Job)> {
        let ended = match outcome {
            Outcome::Succeeded => Some(&self.succeeded),
            Outcome::Failed => Some(&self.failed),
            Outcome::Unfinished | Outcome::Aborted => None,
        };
        let over = ended.map_or(0, |ended| ended.len().saturating_sub(kept));
        let ended = ended.into_iter().flatten().take(over);
        ended.filter_map(|(_, _, uid)| self.jobs.get_key_value(uid))
    }

    /// When the last one succeeded.
    pub(super) fn last_success(&self) -> Option<Timestamp> {
        self.successes.last_key_value().map(|(time, _)| *time)
    }

    /// The latest slot that one is named after, up to a time.
    pub(super) fn last_slot(&self, until: Timestamp) -> Option<Timestamp> {
        self.slots
            .range(..=until)
            .next_back()
            .map(|(slot, _)| *slot)
    }

    /// Takes a Job in, and gives what was known of it before.
    pub(super) fn put(&mut self, uid: &Uid, job: Job) -> Option<Job> {
        let before = self.take(uid);
        self.names.insert((job.name.clone(), uid.clone()));
        if !job.has_finished(self.rules) {
            self.unfinished.insert(uid.clone());
        }
        if job.is_doubtful {
            self.doubtful.insert(uid.clone());
        }
        let turn = job.turn(self.rules, uid);
        if let Some(ended) = self.ended(&job) {
            ended.insert(turn);
        }
        count(&mut self.successes, job.success());
        count(&mut self.slots, job.facts.slot);
        self.jobs.insert(uid.clone(), job);
        before
    }

    /// Takes a Job out.
    pub(super) fn take(&mut self, uid: &Uid) -> Option<Job> {
        let job = self.jobs.remove(uid)?;
        self.names.remove(&(job.name.clone(), uid.clone()));
        self.unfinished.remove(uid);
        self.doubtful.remove(uid);
        let turn = job.turn(self.rules, uid);
        if let Some(ended) = self.ended(&job) {
            ended.remove(&turn);
        }
        uncount(&mut self.successes, job.success());
        uncount(&mut self.slots, job.facts.slot);
        Some(job)
    }

    /// Where a Job waits for its turn to go, unless it is going already.
    fn ended(&mut self, job: &Job) -> Option<&mut BTreeSet<Turn>> {
        match job.facts.outcome {
            _ if job.is_deleting || job.is_going => None,
            Outcome::Succeeded => Some(&mut self.succeeded),
            Outcome::Failed => Some(&mut self.failed),
            Outcome::Unfinished | Outcome::Aborted => None,
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
