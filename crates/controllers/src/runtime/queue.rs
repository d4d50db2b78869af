//! The work queue of one controller: keys that are due, in their order, and keys that wait for a time, for a backoff, or
//! for another key.
//!
//! A plain struct with the semantics of client-go's workqueue (1.36): a key is queued once however often it is added,
//! is never in process twice, and is decided again if it was added while in process; a delay only moves earlier;
//! failures back off per key. Parking is new: a key waits behind another key, so that a read that many keys need is sent
//! once. The driver owns the queue and passes the time; the queue has no tasks and no locks. Its times are steady, so that a
//! clock that is set back delays no key.

mod backoff;

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::time::Duration;

use caretaker_machinery::clock::SteadyTime;
use jiff::{SignedDuration, Timestamp};

pub use backoff::{FORBIDDEN_RETRY_MAX, RETRY_MAX, RETRY_MIN, RetryBucket, RetryLimits};

/// The keys of one controller that will be decided.
#[derive(Debug)]
pub struct WorkQueue<K> {
    entries: BTreeMap<K, KeyState<K>>,
    /// Keys that are due, first come, first served, with the time since which they are.
    ready: VecDeque<(K, SteadyTime)>,
    /// Keys that are due and that other keys wait for.
    awaited: VecDeque<(K, SteadyTime)>,
    /// Parked keys in their order, by the key that they wait behind.
    parked: BTreeMap<K, BTreeMap<u64, K>>,
    /// Keys that are due because the key that they waited behind was released.
    groups: BTreeMap<K, ReleasedGroup<K>>,
    /// The order of groups. May name groups that are gone.
    released: VecDeque<K>,
    delayed: BTreeMap<(SteadyTime, u64), K>,
    /// The last sequence number, which keeps parked and delayed keys in their order.
    sequence: u64,
    /// Whether a group had the last turn: groups and single keys take turns, so that neither starves the other.
    group_had_turn: bool,
    retries: RetryLimits,
    /// The time at which the bucket is full again.
    bucket_until: Option<SteadyTime>,
    processing: usize,
    counts: QueueCounts,
}

/// The state of one key.
#[derive(Debug)]
struct KeyState<K> {
    place: KeyPlace<K>,
    /// The key was taken out and is not done yet.
    processing: bool,
    /// The key was added while in process.
    dirty: bool,
    failures: u32,
    delay: Option<KeyDelay>,
    /// The server refuses requests before this time.
    not_before: Option<SteadyTime>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyPlace<K> {
    Nowhere,
    Queued,
    /// Behind this key, under this sequence number, in `parked` or in `groups`.
    Behind(K, u64),
}

#[derive(Debug, Clone, Copy)]
struct KeyDelay {
    at: SteadyTime,
    sequence: u64,
    /// Whether this is a backoff; else it is a time that the controller asked for.
    is_backoff: bool,
}

#[derive(Debug)]
struct ReleasedGroup<K> {
    keys: BTreeMap<u64, K>,
    since: SteadyTime,
    is_futile: bool,
}

/// A key that was taken out of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueKey<K> {
    /// The key, which is in process until [`WorkQueue::done`] or [`WorkQueue::park`].
    pub key: K,
    /// The time since which it was due.
    pub since: SteadyTime,
    /// The key that this one waited behind, if that one had no request and will not be decided soon: waiting behind it
    /// again would be in vain.
    pub in_vain: Option<K>,
}

/// Why the keys behind a key are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseCause {
    /// A request of that key was answered.
    Answered,
    /// That key has no request to send.
    Idle,
}

/// The totals and the size of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Keys that became due.
    pub adds: u64,
    /// Failures of keys.
    pub retries: u64,
    /// Keys due now.
    pub due: usize,
    /// Keys that wait behind others.
    pub parked: usize,
}

// === impl WorkQueue ===

impl<K: Clone + Ord> WorkQueue<K> {
    /// A queue without keys.
    #[must_use]
    pub fn new(retries: RetryLimits) -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: VecDeque::new(),
            awaited: VecDeque::new(),
            parked: BTreeMap::new(),
            groups: BTreeMap::new(),
            released: VecDeque::new(),
            delayed: BTreeMap::new(),
            sequence: 0,
            group_had_turn: false,
            retries,
            bucket_until: None,
            processing: 0,
            counts: QueueCounts::default(),
        }
    }

    /// Makes `key` due, unless it is due already. A key in process becomes due when it is done. A parked key becomes due
    /// at once, because its next decision may be another one. A key with a `Retry-After` becomes due after that.
    pub fn add(&mut self, key: K, now: SteadyTime) {
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.not_before {
            Some(until) if now < until => return self.delay(key, until, true),
            _ => entry.not_before = None,
        }
        if entry.processing {
            self.counts.adds += u64::from(!entry.dirty);
            entry.dirty = true;
            return;
        }
        match &entry.place {
            KeyPlace::Queued => return,
            KeyPlace::Behind(behind, sequence) => {
                if !unpark(&mut self.parked, behind, *sequence) {
                    return;
                }
                self.counts.parked -= 1;
            }
            KeyPlace::Nowhere => {}
        }
        entry.place = KeyPlace::Queued;
        self.ready.push_back((key, now));
        self.counts.adds += 1;
        self.counts.due += 1;
    }

    /// Makes `key` due at `at`, unless it has an earlier time already. Only one time is kept, because each decision of a
    /// key asks for its next time again.
    pub fn add_at(&mut self, key: K, at: SteadyTime, now: SteadyTime) {
        if at <= now {
            self.add(key, now);
        } else {
            self.delay(key, at, false);
        }
    }

    /// Makes `key` due at `at`, or earlier if it is added. This is no failure, and keys behind it keep waiting.
    pub fn defer(&mut self, key: &K, at: SteadyTime) {
        self.delay(key.clone(), at, true);
    }

    /// Removes the time that `key` asked for, and forgets its failures.
    pub fn clear_timer(&mut self, key: &K) {
        let entry = self.entries.get_mut(key);
        let void = entry.and_then(|entry| entry.delay.take_if(|delay| !delay.is_backoff));
        if let Some(delay) = void {
            self.delayed.remove(&(delay.at, delay.sequence));
        }
        self.reset_backoff(key);
    }

    /// Takes out the next key, which is in process from now on.
    pub fn pop(&mut self, now: SteadyTime) -> Option<DueKey<K>> {
        self.promote(now);
        let mut due = self.next()?;
        self.counts.due -= 1;
        self.processing += 1;
        let entry = self.entries.entry(due.key.clone()).or_default();
        entry.place = KeyPlace::Nowhere;
        entry.processing = true;
        // This is the retry that the backoff was for.
        if let Some(delay) = entry.delay.take_if(|delay| delay.is_backoff) {
            self.delayed.remove(&(delay.at, delay.sequence));
        }
        due.in_vain = due.in_vain.filter(|behind| {
            let entry = self.entries.get(behind);
            !entry.is_some_and(KeyState::is_coming)
        });
        Some(due)
    }

    /// Forgets that `key` was added while in process, because it is decided again now.
    pub fn clear_dirty(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.dirty = false;
        }
    }

    /// Ends the processing of `key`, which becomes due if it was added meanwhile. If it will not be decided again soon,
    /// the keys behind it are released, because they would wait in vain.
    pub fn done(&mut self, key: &K, now: SteadyTime) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        self.processing -= usize::from(entry.processing);
        entry.processing = false;
        if entry.dirty {
            entry.dirty = false;
            // It was counted when it was added.
            let adds = self.counts.adds;
            self.add(key.clone(), now);
            self.counts.adds = adds;
        }
        if !self.entries.get(key).is_some_and(KeyState::is_coming) {
            self.release(key, ReleaseCause::Idle, now);
        }
        self.tidy(key);
    }

    /// Parks `key`, which is in process, until `behind` is released, and makes `behind` due unless it will be decided
    /// soon. Refuses to park a key behind itself or in a circle.
    ///
    /// Keys that were released together with `key` and are still due are parked again too, before `key`: they all need
    /// the same read, so a million of them cost one decision.
    #[must_use]
    pub fn park(&mut self, key: &K, behind: &K, now: SteadyTime) -> bool {
        if self.waits_for(behind, key) {
            return false;
        }
        if let Some(group) = self.groups.remove(behind) {
            self.counts.due -= group.keys.len();
            self.counts.parked += group.keys.len();
            if self.released.front() == Some(behind) {
                self.released.pop_front();
            }
            let parked = self.parked.entry(behind.clone()).or_default();
            let mut keys = group.keys;
            keys.append(parked);
            *parked = keys;
        }
        self.sequence += 1;
        let entry = self.entries.entry(key.clone()).or_default();
        self.processing -= usize::from(entry.processing);
        entry.processing = false;
        entry.dirty = false;
        entry.place = KeyPlace::Behind(behind.clone(), self.sequence);
        let parked = self.parked.entry(behind.clone()).or_default();
        parked.insert(self.sequence, key.clone());
        self.counts.parked += 1;

        self.prioritize(behind, now);
        true
    }

    /// Makes `key` due before all keys that no other key waits for, unless it will be decided soon: a backoff stays.
    pub fn prioritize(&mut self, key: &K, now: SteadyTime) {
        let entry = self.entries.entry(key.clone()).or_default();
        if !entry.is_coming() {
            entry.place = KeyPlace::Queued;
            self.awaited.push_back((key.clone(), now));
            self.counts.adds += 1;
            self.counts.due += 1;
        }
    }

    /// Makes all keys due that wait behind `key`, in their order.
    pub fn release(&mut self, key: &K, why: ReleaseCause, now: SteadyTime) {
        let Some(keys) = self.parked.remove(key) else {
            return;
        };
        self.counts.parked -= keys.len();
        self.counts.due += keys.len();
        self.counts.adds += keys.len() as u64;
        let is_futile = why == ReleaseCause::Idle;
        match self.groups.entry(key.clone()) {
            btree_map::Entry::Occupied(mut group) => {
                group.get_mut().keys.extend(keys);
                group.get_mut().is_futile = is_futile;
            }
            btree_map::Entry::Vacant(place) => {
                self.released.push_back(key.clone());
                place.insert(ReleasedGroup {
                    keys,
                    since: now,
                    is_futile,
                });
            }
        }
    }

    /// The time at which the next delayed key becomes due.
    #[must_use]
    pub fn next_due(&self) -> Option<SteadyTime> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    /// The time since which the oldest due key has been due.
    #[must_use]
    pub fn oldest(&self) -> Option<SteadyTime> {
        let group = self
            .released
            .iter()
            .find_map(|behind| self.groups.get(behind));
        let fronts = [
            self.ready.front().map(|(_, since)| *since),
            self.awaited.front().map(|(_, since)| *since),
            group.map(|group| group.since),
        ];
        fronts.into_iter().flatten().min()
    }

    /// The totals so far.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        self.counts
    }

    /// The number of keys in process.
    #[must_use]
    pub fn in_process(&self) -> usize {
        self.processing
    }

    /// The number of failures of `key` in a row.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    fn next(&mut self) -> Option<DueKey<K>> {
        let single = |(key, since)| DueKey {
            key,
            since,
            in_vain: None,
        };
        if let Some(next) = self.awaited.pop_front() {
            return Some(single(next));
        }
        if !self.group_had_turn || self.ready.is_empty() {
            self.group_had_turn = true;
            if let Some(next) = self.next_of_groups() {
                return Some(next);
            }
        }
        self.group_had_turn = false;
        self.ready.pop_front().map(single)
    }

    fn next_of_groups(&mut self) -> Option<DueKey<K>> {
        while let Some(behind) = self.released.front() {
            if let Some(group) = self.groups.get_mut(behind)
                && let Some((_, key)) = group.keys.pop_first()
            {
                return Some(DueKey {
                    key,
                    since: group.since,
                    in_vain: group.is_futile.then(|| behind.clone()),
                });
            }
            self.groups.remove(behind);
            self.released.pop_front();
        }
        None
    }

    /// Makes all keys due whose delay is over. Afterwards [`WorkQueue::next_due`] lies in the future.
    pub fn promote(&mut self, now: SteadyTime) {
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= now
        {
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.delay = None;
            }
            self.add(key, now);
        }
    }

    /// Makes all keys due that wait for a time of the controller, because its clock was corrected.
    pub fn expire_timers(&mut self, now: SteadyTime) {
        let delayed = std::mem::take(&mut self.delayed);
        self.expire(delayed, false, now);
    }

    /// Makes those of the delayed keys due that wait for a backoff, or those that do not. The others wait on.
    fn expire(
        &mut self,
        delayed: BTreeMap<(SteadyTime, u64), K>,
        is_backoff: bool,
        now: SteadyTime,
    ) {
        for (slot, key) in delayed {
            match self.entries.get_mut(&key) {
                Some(entry)
                    if entry
                        .delay
                        .is_some_and(|delay| delay.is_backoff == is_backoff) =>
                {
                    entry.delay = None;
                    self.add(key, now);
                }
                _ => {
                    self.delayed.insert(slot, key);
                }
            }
        }
    }

    fn delay(&mut self, key: K, at: SteadyTime, is_backoff: bool) {
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(delay) = entry.delay {
            if delay.at <= at {
                return;
            }
            self.delayed.remove(&(delay.at, delay.sequence));
        }
        self.sequence += 1;
        let sequence = self.sequence;
        entry.delay = Some(KeyDelay {
            at,
            sequence,
            is_backoff,
        });
        self.delayed.insert((at, sequence), key);
    }

    /// Whether `key` is `other`, or waits behind it, directly or not.
    fn waits_for(&self, key: &K, other: &K) -> bool {
        let mut at = key;
        while at != other {
            match self.entries.get(at).map(|entry| &entry.place) {
                Some(KeyPlace::Behind(behind, _)) => at = behind,
                _ => return false,
            }
        }
        true
    }

    /// Drops the state of a key that is idle.
    fn tidy(&mut self, key: &K) {
        let idle = |entry: &KeyState<K>| {
            entry.place == KeyPlace::Nowhere
                && !entry.processing
                && entry.failures == 0
                && entry.delay.is_none()
        };
        if self.entries.get(key).is_some_and(idle) {
            self.entries.remove(key);
        }
    }
}

// === impl KeyState ===

impl<K> KeyState<K> {
    /// Whether this key will be decided soon without a further change: it is due, in process, parked or backing off. A
    /// time of the controller does not count, because it may be years away.
    fn is_coming(&self) -> bool {
        self.processing
            || !matches!(self.place, KeyPlace::Nowhere)
            || self.delay.is_some_and(|delay| delay.is_backoff)
    }
}

impl<K> Default for KeyState<K> {
    fn default() -> Self {
        Self {
            place: KeyPlace::Nowhere,
            processing: false,
            dirty: false,
            failures: 0,
            delay: None,
            not_before: None,
        }
    }
}

/// The time from `since` to `now`; zero if the clock was set back.
pub(crate) fn age(now: Timestamp, since: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// Adds `wait` to `time`, up to [`Timestamp::MAX`].
pub(crate) fn later(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// Removes one key from those parked behind `behind`. False: it is not there.
fn unpark<K: Ord>(parked: &mut BTreeMap<K, BTreeMap<u64, K>>, behind: &K, sequence: u64) -> bool {
    let Some(keys) = parked.get_mut(behind) else {
        return false;
    };
    let found = keys.remove(&sequence).is_some();
    if keys.is_empty() {
        parked.remove(behind);
    }
    found
}

#[cfg(test)]
mod tests;
