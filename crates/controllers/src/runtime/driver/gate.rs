//! The checks between a decision and the API, as rows. The first row that does not let a write pass decides about it.
//!
//! Reads always pass, because they change nothing. Two rows are the driver's own: kinds whose resourceVersions went back,
//! and `--dry-run`. Every other row is a [`WriteHold`], whose state another task sets while the driver runs: the watch for
//! other controller managers, and leader election; pause and guard join in the same way. A held key rests. The gate
//! remembers it, and the driver decides it again when the state of a row changes, so that no write is lost and none is
//! sent on an old decision. Events are writes too: the driver emits none while a row holds back writes of all kinds.
//!
//! A request may wait between its decision and its connection. So each write carries a [`WriteFence`], by which the
//! connection pool checks the rows again immediately before it sends the request.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::options::DriverMode;
use super::watched_kinds::WatchedKinds;
use crate::runtime::call::{ApiCall, CallTarget, JudgedVersion};

/// The reason of a row whose time has run out.
const TIME_OVER: &str = "the time has run out for which this process could be sure that it leads";

/// The reason of a row whose task has ended: the condition cannot be checked any more, so writes stay held back.
const WATCH_ENDED: &str = "the task that checks this condition has ended";

/// A row of the gate whose state another task sets. Clones share the state.
#[derive(Debug, Clone)]
pub struct WriteHold {
    name: &'static str,
    state: watch::Receiver<HoldState>,
    purpose: HoldPurpose,
}

/// The rows that a write has to pass once more before it is sent, as an extension of its request.
#[derive(Debug, Clone)]
pub(crate) struct WriteFence(Arc<[WriteHold]>);

/// Whether the operator wants a row to hold back writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldPurpose {
    /// The process was started to write: it is not ready while the row holds.
    Trouble,
    /// The process was started as a standby, or is paused: it is ready all the same.
    Intended,
}

/// What a [`WriteHold`] does with writes. The texts are sentences for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldState {
    /// Writes are sent.
    Pass,
    /// Writes are sent until this time. Then they wait, even if the task has not set another state: the whole process may
    /// have been stopped for a while.
    PassUntil(Instant),
    /// Another replica does the work. Writes wait, without a record, and the process is ready all the same.
    Standby(Arc<str>),
    /// Writes wait, without a record, until the state changes.
    Wait(Arc<str>),
    /// Writes are recorded as in a dry run, and wait.
    Record(Arc<str>),
}

/// The rows of one driver, and the keys whose writes they hold back.
pub(super) struct WriteGate<K> {
    rows: Vec<GateRow>,
    /// Each held key, with the last write that was recorded for it.
    held: BTreeMap<K, Option<RecordedWrite>>,
}

/// The result of the rows for one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GateOutcome {
    Pass,
    /// The write is not sent now; the key backs off.
    Later,
    /// The write is not sent until a row changes.
    Wait,
    /// The same, and the write is recorded.
    Record,
}

#[derive(Debug)]
enum GateRow {
    FrozenKinds,
    DryRun,
    Hold(WriteHold),
}

/// A write as evidence identifies it: one record per object and judged version.
type RecordedWrite = (CallTarget, Option<JudgedVersion>);

// === impl WriteHold ===

impl WriteHold {
    /// A row with this name. If the sender is dropped, the row holds back all writes for good.
    #[must_use]
    pub fn new(
        name: &'static str,
        purpose: HoldPurpose,
        state: watch::Receiver<HoldState>,
    ) -> Self {
        Self {
            name,
            state,
            purpose,
        }
    }

    /// Whether the operator wants this row to hold. That the task has ended is never intended.
    #[must_use]
    pub fn purpose(&self) -> HoldPurpose {
        match self.state.has_changed() {
            Ok(_) if matches!(*self.state.borrow(), HoldState::Standby(_)) => HoldPurpose::Intended,
            Ok(_) => self.purpose,
            Err(_) => HoldPurpose::Trouble,
        }
    }

    /// The name of the row, for health pages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The state at this moment. It is never [`HoldState::PassUntil`].
    #[must_use]
    pub fn state(&self) -> HoldState {
        if self.state.has_changed().is_err() {
            return HoldState::Wait(WATCH_ENDED.into());
        }
        match self.state.borrow().clone() {
            HoldState::PassUntil(until) if Instant::now() < until => HoldState::Pass,
            HoldState::PassUntil(_) => HoldState::Wait(TIME_OVER.into()),
            state => state,
        }
    }

    async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The row holds for good.
            std::future::pending::<()>().await;
        }
    }
}

// === impl HoldState ===

impl HoldState {
    /// Why writes are held back; nothing if they are sent.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pass | Self::PassUntil(_) => None,
            Self::Standby(why) | Self::Wait(why) | Self::Record(why) => Some(why),
        }
    }
}

// === impl WriteFence ===

impl WriteFence {
    pub(crate) fn new(holds: &[WriteHold]) -> Self {
        Self(holds.into())
    }

    /// Why a write must not be sent now; nothing if it may.
    pub(crate) fn reason(&self) -> Option<String> {
        let mut states = self.0.iter().map(WriteHold::state);
        states.find_map(|state| state.reason().map(str::to_owned))
    }
}

// === impl WriteGate ===

impl<K: Clone + Ord> WriteGate<K> {
    pub(super) fn new(mode: DriverMode, holds: Vec<WriteHold>) -> Self {
        let mut rows = vec![GateRow::FrozenKinds];
        if mode == DriverMode::DryRun {
            rows.push(GateRow::DryRun);
        }
        rows.extend(holds.into_iter().map(GateRow::Hold));
        Self {
            rows,
            held: BTreeMap::new(),
        }
    }

    /// What becomes of a request.
    pub(super) fn check(&self, call: &ApiCall, kinds: &WatchedKinds) -> GateOutcome {
        if call.is_read() {
            return GateOutcome::Pass;
        }
        let outcomes = self.rows.iter().map(|row| row.check(call, kinds));
        let mut stops = outcomes.filter(|outcome| *outcome != GateOutcome::Pass);
        stops.next().unwrap_or(GateOutcome::Pass)
    }

    /// Whether a row holds back the writes of all kinds, Events included.
    pub(super) fn holds_all(&self) -> bool {
        self.rows.iter().any(GateRow::holds_all)
    }

    /// Remembers a key that has to be decided again when a row changes.
    pub(super) fn hold(&mut self, key: &K) {
        self.held.entry(key.clone()).or_default();
    }

    /// The same for a key whose write is recorded. False: the write was recorded already.
    pub(super) fn record(&mut self, key: &K, call: &ApiCall) -> bool {
        let write = (call.target().clone(), call.judged().cloned());
        let recorded = self.held.entry(key.clone()).or_default();
        let is_new = recorded.as_ref() != Some(&write);
        *recorded = Some(write);
        is_new
    }

    /// The key has no write that is held back.
    pub(super) fn forget(&mut self, key: &K) {
        self.held.remove(key);
    }

    /// Returns when the state of a row has changed. May be cancelled and called again.
    pub(super) async fn changed(&mut self) {
        let mut holds = Vec::new();
        for row in &mut self.rows {
            if let GateRow::Hold(hold) = row {
                holds.push(hold.changed().boxed());
            }
        }
        if holds.is_empty() {
            std::future::pending::<()>().await;
        }
        select_all(holds).await;
    }

    /// All held keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.held.keys()
    }
}

// === impl GateRow ===

impl GateRow {
    fn check(&self, call: &ApiCall, kinds: &WatchedKinds) -> GateOutcome {
        match self {
            Self::FrozenKinds if kinds.is_frozen(call.target().kind) => GateOutcome::Later,
            Self::FrozenKinds => GateOutcome::Pass,
            Self::DryRun => GateOutcome::Record,
            Self::Hold(hold) => match hold.state() {
                HoldState::Pass | HoldState::PassUntil(_) => GateOutcome::Pass,
                HoldState::Standby(_) | HoldState::Wait(_) => GateOutcome::Wait,
                HoldState::Record(_) => GateOutcome::Record,
            },
        }
    }

    fn holds_all(&self) -> bool {
        match self {
            Self::FrozenKinds => false,
            Self::DryRun => true,
            Self::Hold(hold) => hold.state() != HoldState::Pass,
        }
    }
}
