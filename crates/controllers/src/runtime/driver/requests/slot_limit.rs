//! How many requests a driver may have in flight: as many as it has workers, fewer while the API server pushes back.
//!
//! The server pushes back when it answers 429, or 503 with a `Retry-After`, and when requests take twice as long as they
//! took at best in the last five minutes. The limit then halves, down to a quarter of the workers, and later grows back
//! by equal steps. A refused request keeps its slot for the `Retry-After`, as in client-go, whose workers sleep: otherwise
//! fast refusals would make the driver ask faster. A state machine without I/O; `requests` owns it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::kind::KindId;

/// The limit never falls below one in this many workers: a driver that stops altogether would not see the server recover.
const SHARE_MIN: usize = 4;

/// The time between two steps of growth, and the number of steps from zero to all workers.
const GROW_EVERY: Duration = Duration::from_secs(1);
const GROW_STEPS: usize = 20;

/// How long a refused request keeps its slot if the server does not say so, as in client-go.
const HOLD: Duration = Duration::from_secs(1);

/// The longest time that a refused request keeps its slot. Its key waits for the whole `Retry-After`.
const HOLD_MAX: Duration = Duration::from_secs(30);

/// A median is that of at least this many latencies and this time, so that neither single slow requests nor a short
/// hiccup count too much.
const LATENCIES: usize = 32;
const LATENCY_WINDOW: Duration = Duration::from_secs(1);

/// The most latencies of one median.
const LATENCIES_MAX: usize = 4_096;

/// Medians of more than this many times the lowest one are a sign of load, if there are several in a row.
const LOAD_FACTOR: u32 = 2;
const LOADED_MEDIANS: u32 = 2;

/// A lower median is never a sign of load: our own 20 requests in flight can make such a difference on a healthy server,
/// and fewer of them cost a third of the throughput without a gain for other clients.
const LATENCY_NOISE: Duration = Duration::from_millis(25);

/// How long a median counts as the lowest one: a server that became slower for good is used fully again after that.
const LOWEST_MAX: Duration = Duration::from_secs(300);

/// Medians of this time are remembered as one number.
const LOWEST_EVERY: Duration = Duration::from_secs(60);

/// The limit of one driver, and what it is based on.
#[derive(Debug)]
pub(super) struct SlotLimit {
    workers: usize,
    allowed: usize,
    /// When the limit last fell. Answers to earlier requests do not lower it again: they show the same load.
    fell: Option<Instant>,
    /// When the limit last changed.
    changed: Option<Instant>,
    /// Until when refused requests keep their slots.
    held: Vec<Instant>,
    /// Reads and writes of a kind take different times, as do kinds with webhooks.
    latencies: BTreeMap<LatencyClass, LatencyHistory>,
}

/// Requests whose latencies can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LatencyClass {
    pub(super) kind: KindId,
    pub(super) is_read: bool,
}

/// What an answer says about the load of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadSignal {
    /// The server refused the request because of its load, with this `Retry-After`.
    Refused(Option<Duration>),
    /// The server processed the request in this time.
    Served(LatencyClass, Duration),
    /// There is no answer, which may have any cause.
    Unknown,
}

/// A change of the limit that is worth a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitChange {
    /// The limit fell from all workers to this number.
    Falls(usize),
    /// The limit is that of all workers again.
    Restored,
}

/// The latencies of one class.
#[derive(Debug, Default)]
struct LatencyHistory {
    /// Those since the last median, and the time of the first one.
    latest: Vec<Duration>,
    begin: Option<Instant>,
    /// The lowest median of each [`LOWEST_EVERY`], with its begin, oldest first. Medians under a lowered limit are left
    /// out: fewer requests in flight take less time, and the limit would never grow back.
    lowest: VecDeque<(Instant, Duration)>,
    /// How many medians in a row are a sign of load.
    loaded: u32,
}

// === impl SlotLimit ===

impl SlotLimit {
    pub(super) fn new(workers: usize) -> Self {
        let workers = workers.max(1);
        Self {
            workers,
            allowed: workers,
            fell: None,
            changed: None,
            held: Vec::new(),
            latencies: BTreeMap::new(),
        }
    }

    /// How many requests may be in flight, including the refused ones that keep their slots.
    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Whether one more request may be sent while `in_flight` have no answer.
    pub(super) fn has_free_slot(&self, in_flight: usize, now: Instant) -> bool {
        let held = self.held.iter().filter(|until| **until > now);
        in_flight + held.count() < self.allowed
    }

    /// When the next refused request gives its slot back.
    pub(super) fn next_free(&self, now: Instant) -> Option<Instant> {
        let held = self.held.iter().filter(|until| **until > now);
        held.min().copied()
    }

    /// Takes the signal of a request that was sent at `sent`.
    pub(super) fn observe(
        &mut self,
        signal: LoadSignal,
        sent: Instant,
        now: Instant,
    ) -> Option<LimitChange> {
        self.held.retain(|until| *until > now);
        if let LoadSignal::Refused(wait) = signal {
            self.held.push(now + wait.unwrap_or(HOLD).min(HOLD_MAX));
        }
        let is_new = self.fell.is_none_or(|fell| sent >= fell);
        match signal {
            LoadSignal::Refused(_) if is_new => self.fall(now),
            LoadSignal::Served(class, took) if is_new => {
                let is_full = self.allowed == self.workers;
                let history = self.latencies.entry(class).or_default();
                match history.add(took, is_full, now) {
                    true => self.fall(now),
                    false => self.grow(now),
                }
            }
            LoadSignal::Refused(_) | LoadSignal::Served(..) | LoadSignal::Unknown => None,
        }
    }

    fn fall(&mut self, now: Instant) -> Option<LimitChange> {
        let was_full = self.allowed == self.workers;
        let least = self.workers.div_ceil(SHARE_MIN);
        self.allowed = (self.allowed / 2).max(least);
        (self.fell, self.changed) = (Some(now), Some(now));
        for history in self.latencies.values_mut() {
            history.restart();
        }
        (was_full && self.allowed < self.workers).then_some(LimitChange::Falls(self.allowed))
    }

    fn grow(&mut self, now: Instant) -> Option<LimitChange> {
        if self.allowed == self.workers {
            return None;
        }
        let since = self.changed.map_or(Duration::ZERO, |changed| now - changed);
        let steps = since.as_secs() / GROW_EVERY.as_secs();
        if steps == 0 {
            return None;
        }
        let step = self.workers.div_ceil(GROW_STEPS);
        let grown = usize::try_from(steps).map_or(self.workers, |steps| steps.saturating_mul(step));
        self.allowed = self.allowed.saturating_add(grown).min(self.workers);
        self.changed = Some(now);
        (self.allowed == self.workers).then_some(LimitChange::Restored)
    }
}

// === impl LatencyHistory ===

impl LatencyHistory {
    /// Adds a latency. Returns whether it completes a median that shows load. `is_full`: the limit is not lowered.
    fn add(&mut self, took: Duration, is_full: bool, now: Instant) -> bool {
        let begin = *self.begin.get_or_insert(now);
        self.latest.push(took);
        let count = self.latest.len();
        let is_long = count >= LATENCIES && now.duration_since(begin) >= LATENCY_WINDOW;
        if !is_long && count < LATENCIES_MAX {
            return false;
        }
        self.latest.sort_unstable();
        let median = self.latest[count / 2];
        self.latest.clear();
        self.begin = None;
        if is_full {
            self.remember(median, now);
        }
        self.lowest
            .retain(|(begin, _)| now.duration_since(*begin) <= LOWEST_MAX);
        let lowest = self.lowest.iter().map(|(_, lowest)| *lowest).min();
        let is_loaded =
            median > LATENCY_NOISE && lowest.is_some_and(|lowest| median > lowest * LOAD_FACTOR);
        self.loaded = if is_loaded { self.loaded + 1 } else { 0 };
        self.loaded >= LOADED_MEDIANS
    }

    fn remember(&mut self, median: Duration, now: Instant) {
        match self.lowest.back_mut() {
            Some((begin, lowest)) if now.duration_since(*begin) < LOWEST_EVERY => {
                *lowest = median.min(*lowest);
            }
            _ => self.lowest.push_back((now, median)),
        }
    }

    /// Begins a new median: those before belong to another limit.
    fn restart(&mut self) {
        self.latest.clear();
        self.begin = None;
        self.loaded = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: LatencyClass = LatencyClass {
        kind: KindId(0),
        is_read: true,
    };
    const WRITES: LatencyClass = LatencyClass {
        kind: KindId(0),
        is_read: false,
    };

    /// A limit and a clock.
    struct LimitScript {
        limit: SlotLimit,
        now: Instant,
    }

    impl LimitScript {
        fn new(workers: usize) -> Self {
            Self {
                limit: SlotLimit::new(workers),
                now: Instant::now(),
            }
        }

        fn pass(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
        }

        /// A request that is sent now and answered at once.
        fn observe(&mut self, signal: LoadSignal) -> Option<LimitChange> {
            self.limit.observe(signal, self.now, self.now)
        }

        fn refuse(&mut self) -> Option<LimitChange> {
            self.observe(LoadSignal::Refused(None))
        }

        /// Requests of one class until a median is complete.
        fn serve(&mut self, class: LatencyClass, millis: u64) {
            for _ in 0..LATENCIES {
                self.pass(40);
                let took = Duration::from_millis(millis);
                self.observe(LoadSignal::Served(class, took));
            }
        }
    }

    #[test]
    fn halves_down_to_a_quarter() {
        let table: [(usize, &[usize]); 6] = [
            (1, &[1, 1]),
            (2, &[1, 1]),
            (3, &[1, 1]),
            (5, &[2, 2]),
            (20, &[10, 5, 5]),
            (100, &[50, 25, 25]),
        ];
        for (workers, expected) in table {
            let mut script = LimitScript::new(workers);
            for expected in expected {
                script.pass(1);
                script.refuse();
                assert_eq!(script.limit.allowed(), *expected, "{workers} workers");
            }
        }
    }

    #[test]
    fn grows_back_by_equal_steps() {
        for (workers, step) in [(20, 1), (100, 5)] {
            let mut script = LimitScript::new(workers);
            script.refuse();
            script.pass(1);
            script.refuse();
            let mut allowed = script.limit.allowed();
            assert_eq!(allowed, workers / 4);
            while allowed < workers {
                script.pass(999);
                script.observe(LoadSignal::Served(READS, Duration::ZERO));
                assert_eq!(script.limit.allowed(), allowed);
                script.pass(1);
                let change = script.observe(LoadSignal::Served(READS, Duration::ZERO));
                allowed += step;
                assert_eq!(script.limit.allowed(), allowed);
                assert_eq!(change == Some(LimitChange::Restored), allowed == workers);
            }
        }
        // A pause counts as well.
        let mut script = LimitScript::new(20);
        script.refuse();
        script.pass(60_000);
        script.observe(LoadSignal::Served(READS, Duration::ZERO));
        assert_eq!(script.limit.allowed(), 20);
    }

    #[test]
    fn requests_from_before_a_fall_do_not_lower_the_limit_again() {
        let mut script = LimitScript::new(20);
        let sent = script.now;
        script.pass(100);
        for _ in 0..20 {
            let refused = LoadSignal::Refused(None);
            script.limit.observe(refused, sent, script.now);
        }
        assert_eq!(script.limit.allowed(), 10);
        script.pass(1_500);
        let refused = LoadSignal::Refused(None);
        script.limit.observe(refused, script.now, script.now);
        assert_eq!(script.limit.allowed(), 5);
    }

    #[test]
    fn refused_requests_keep_their_slots() {
        let table = [(None, 1_000), (Some(7), 7_000), (Some(60), 30_000)];
        for (wait, held) in table {
            let mut script = LimitScript::new(8);
            let refused = LoadSignal::Refused(wait.map(Duration::from_secs));
            let sent = script.now;
            script.pass(1);
            for _ in 0..4 {
                script.limit.observe(refused, sent, script.now);
            }
            assert_eq!(script.limit.allowed(), 4);
            assert!(!script.limit.has_free_slot(0, script.now), "all are held");
            let free = script.limit.next_free(script.now);
            assert_eq!(free, Some(script.now + Duration::from_millis(held)));
            script.pass(held);
            assert_eq!(script.limit.next_free(script.now), None);
            assert!(script.limit.has_free_slot(1, script.now));
        }
    }

    #[test]
    fn latencies_lower_the_limit() {
        // The median of a quiet time, the one after it, and the limit that follows.
        let table = [
            (20, 20, 20),
            (20, 40, 20),
            (20, 41, 10),
            (1, 25, 20),
            (1, 26, 10),
            (0, 8, 20),
        ];
        for (quiet, loaded, expected) in table {
            let mut script = LimitScript::new(20);
            script.serve(WRITES, quiet);
            script.serve(WRITES, loaded);
            assert_eq!(script.limit.allowed(), 20, "one median is no sign");
            script.serve(WRITES, loaded);
            assert_eq!(script.limit.allowed(), expected, "{quiet} ms, {loaded} ms");
        }
    }

    #[test]
    fn a_load_that_lasts_lowers_the_limit_to_a_quarter_for_five_minutes() {
        let mut script = LimitScript::new(20);
        script.serve(WRITES, 20);
        let start = script.now;
        let mut seen = Vec::new();
        while script.now - start < LOWEST_MAX {
            script.serve(WRITES, 100);
            seen.push(script.limit.allowed());
        }
        assert!(
            seen[2..].iter().all(|allowed| (5..=12).contains(allowed)),
            "{seen:?}"
        );
        assert!(seen.contains(&5), "{seen:?}");
        for _ in 0..20 {
            script.serve(WRITES, 100);
        }
        assert_eq!(script.limit.allowed(), 20, "the server is slower for good");
    }

    #[test]
    fn reads_writes_and_kinds_are_compared_with_their_own_past() {
        let mut script = LimitScript::new(20);
        let other = LatencyClass {
            kind: KindId(1),
            ..WRITES
        };
        script.serve(READS, 20);
        script.serve(WRITES, 100);
        script.serve(other, 1_000);
        script.serve(READS, 20);
        assert_eq!(script.limit.allowed(), 20);
        script.serve(other, 2_001);
        script.serve(other, 2_001);
        assert_eq!(script.limit.allowed(), 10);
    }

    #[test]
    fn refusals_and_lost_requests_are_no_latencies() {
        let mut script = LimitScript::new(20);
        script.serve(WRITES, 20);
        for _ in 0..LATENCIES {
            script.observe(LoadSignal::Unknown);
        }
        assert_eq!(script.limit.allowed(), 20);
        assert_eq!(script.refuse(), Some(LimitChange::Falls(10)));
        script.pass(1);
        assert_eq!(script.refuse(), None, "the log has one line for both");
        script.pass(60_000);
        script.serve(WRITES, 30);
        assert_eq!(script.limit.allowed(), 20);
    }
}
