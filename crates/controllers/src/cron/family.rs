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

#[cfg(test)]
mod tests {
    use caretaker_machinery::rng::Rng;

    use super::*;

    const OUTCOMES: [Outcome; 4] = [
        Outcome::Unfinished,
        Outcome::Succeeded,
        Outcome::Failed,
        Outcome::Aborted,
    ];

    /// A Job of random properties, of which there are few, so that many are equal.
    fn draw(rng: &mut Rng) -> Job {
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
        };
        Job {
            name: format!("j{}", rng.below(20)).into(),
            revision: Revision::default(),
            facts,
            is_deleting: rng.below(8) == 0,
            is_going: rng.below(8) == 0,
            is_doubtful: rng.below(8) == 0,
        }
    }

    /// What is found in the orders is what a search of all Jobs finds.
    fn check(family: &Family, known: &BTreeMap<Uid, Job>) {
        let rules = family.rules;
        let uids = |is_meant: &dyn Fn(&Job) -> bool| -> Vec<&Uid> {
            let meant = known.iter().filter(|(_, job)| is_meant(job));
            meant.map(|(uid, _)| uid).collect()
        };
        let unfinished: Vec<&Uid> = family.unfinished().map(|(uid, _)| uid).collect();
        assert_eq!(unfinished, uids(&|job| !job.has_finished(rules)));
        let is_any_doubtful = !uids(&|job| job.is_doubtful).is_empty();
        assert_eq!(family.doubtful().is_some(), is_any_doubtful);
        assert!(family.doubtful().is_none_or(|job| job.is_doubtful));
        for name in (0..20).map(|number| format!("j{number}")) {
            let named: Vec<&Uid> = family.named(&name).collect();
            assert_eq!(named, uids(&|job| *job.name == *name));
        }
        assert_eq!(
            family.last_success(),
            known.values().filter_map(Job::success).max()
        );
        let until = Timestamp::from_second(4).unwrap();
        let slots = known.values().filter_map(|job| job.facts.slot);
        assert_eq!(
            family.last_slot(until),
            slots.filter(|slot| *slot <= until).max()
        );
        for outcome in OUTCOMES {
            let is_over = matches!(outcome, Outcome::Succeeded | Outcome::Failed);
            let mut ended = uids(&|job| {
                is_over && job.facts.outcome == outcome && !job.is_deleting && !job.is_going
            });
            ended.sort_by_key(|uid| known[*uid].turn(rules, uid));
            ended.truncate(ended.len().saturating_sub(3));
            let beyond: Vec<&Uid> = family.beyond(outcome, 3).map(|(uid, _)| uid).collect();
            assert_eq!(beyond, ended);
        }
        assert_eq!(family.is_empty(), known.is_empty());
    }

    #[test]
    fn orders_find_what_a_search_would_find() {
        for seed in 0..8 {
            let mut rng = Rng::seeded(seed);
            let rules = Rules {
                age: [AgeBy::Creation, AgeBy::Start][rng.below(2)],
                are_aborted_over: rng.below(2) == 0,
            };
            let (mut family, mut known) = (Family::new(rules), BTreeMap::new());
            for step in 0..300 {
                let uid = Uid::from(format!("u{}", rng.below(30)).as_str());
                // They come more often than they go, and then all of them go.
                if rng.below(3) > 0 && step < 200 {
                    let job = draw(&mut rng);
                    assert_eq!(family.put(&uid, job.clone()), known.insert(uid, job));
                } else {
                    assert_eq!(family.take(&uid), known.remove(&uid));
                }
                check(&family, &known);
            }
        }
    }
}
