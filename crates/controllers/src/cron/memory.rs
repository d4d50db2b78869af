//! Facts about one CronJob that the controller learned from the answers to its own requests.
//!
//! None of them is needed for safety: after a restart the memory is empty, and the controller decides from the objects
//! alone. The index and `answers` change it; `decide` and `status` read it. Each fact is a state with its data, so that
//! facts that exclude each other cannot be stored together.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::reason::SkipReason;
use super::slots;
use super::status::CronStatus;
use crate::runtime::call::{CallTarget, JudgedVersion};
use crate::runtime::record::{Revision, Uid};

/// How long a read of the CronJob counts as current: the time until the next request is sent, and no more.
const CONFIRMED_FOR: SignedDuration = SignedDuration::from_secs(1);

/// Holds what earlier requests for one CronJob revealed.
#[derive(Debug, Default)]
pub(super) struct CronMemory {
    /// The step whose request failed last. A decision tries all other steps before it.
    pub(super) failed: Option<FailedStep>,
    pub(super) slot: SlotState,
    pub(super) status: StatusWrite,
    pub(super) schedule: ScheduleOrigin,
    /// A Job that we created and that the API server stored without any controller. It is deleted once.
    pub(super) unowned_job: Option<(CallTarget, JudgedVersion)>,
    /// Jobs in `status.active` that we deleted: when they leave the list, no Event reports them as missing.
    pub(super) deleted_active: BTreeSet<Uid>,
}

/// A step of a decision whose request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FailedStep {
    /// The delete of this Job, which is over a history limit.
    Prune(Uid),
    /// The create of the slot's Job, the read before it, or the delete of the Job that it replaces.
    Start,
    /// The write of the status.
    Record,
    /// The read of a Job that a list did not show.
    Ask,
}

/// What requests revealed about the slot that is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SlotState {
    #[default]
    Untried,
    /// The API server returned the CronJob at this time, so its `lastScheduleTime` is current.
    Confirmed { at: Timestamp },
    /// The slot of this minute cannot have a Job of ours.
    Blocked { minute: i64, why: SkipReason },
}

/// The last write of the status, as far as its answer or a watch revealed anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum StatusWrite {
    #[default]
    Settled,
    /// The status changed. The version before it is kept until our write is answered: a watch may show the new status
    /// before the answer arrives, and the Events compare both.
    Replaced {
        revision: Revision,
        status: CronStatus,
    },
    /// The API server accepted this status and stored another one. The same status is not written again.
    NotKept(CronStatus),
}

/// Where the schedule comes from. Upstream reports an unreadable schedule differently after an edit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ScheduleOrigin {
    #[default]
    FirstSeen,
    Edited,
}

// === impl CronMemory ===

impl CronMemory {
    /// The user changed schedule or time zone: a slot of the old schedule blocks none of the new one.
    pub(super) fn schedule_edited(&mut self) {
        self.schedule = ScheduleOrigin::Edited;
        if matches!(self.slot, SlotState::Blocked { .. }) {
            self.slot = SlotState::Untried;
        }
    }

    /// A create was answered: the next one needs a read of its own.
    pub(super) fn create_answered(&mut self) {
        if matches!(self.slot, SlotState::Confirmed { .. }) {
            self.slot = SlotState::Untried;
        }
    }
}

// === impl SlotState ===

impl SlotState {
    /// Whether the CronJob was read so recently that a Job may be created.
    pub(super) fn is_confirmed(self, now: Timestamp) -> bool {
        match self {
            Self::Confirmed { at } => now.duration_since(at).abs() <= CONFIRMED_FOR,
            Self::Untried | Self::Blocked { .. } => false,
        }
    }

    /// Why a slot cannot have a Job of ours, if it cannot.
    pub(super) fn blocked(self, slot: Timestamp) -> Option<SkipReason> {
        match self {
            Self::Blocked { minute, why } if minute == slots::minute(slot) => Some(why),
            Self::Untried | Self::Confirmed { .. } | Self::Blocked { .. } => None,
        }
    }
}

// === impl StatusWrite ===

impl StatusWrite {
    /// The status that a write replaced, if the write was made from this version.
    pub(super) fn replaced(&self, written_from: &Revision) -> Option<&CronStatus> {
        match self {
            Self::Replaced { revision, status } if revision == written_from => Some(status),
            Self::Settled | Self::Replaced { .. } | Self::NotKept(_) => None,
        }
    }
}
