//! Runs a driver by hand, one decision or one answer at a time, so that tests of controllers choose the order.
//!
//! The parts are those of [`Driver::run`]: the same queue, the same gate, the same requests.

use std::time::Duration;

use super::Driver;
use super::requests::KeyProgress;
use crate::runtime::controller::{Controller, ObservedChange};
use crate::runtime::queue::DueKey;

// === impl Driver ===

impl<C: Controller> Driver<C> {
    pub(crate) fn controller(&self) -> &C {
        &self.controller
    }

    pub(crate) fn controller_mut(&mut self) -> &mut C {
        &mut self.controller
    }

    pub(crate) fn take_change(&mut self, change: &ObservedChange) {
        self.observe(change);
    }

    /// Makes a key due, as a relist could.
    pub(crate) fn wake(&mut self, key: C::Key) {
        self.queue.add(key, self.clock.now().steady);
    }

    /// Decides the next due key and sends its request, if it has one. False: no key is due.
    pub(crate) fn decide_next(&mut self) -> bool {
        let now = self.clock.now();
        if self.clock.was_set(now) {
            self.queue.expire_timers(now.steady);
        }
        let Some(due) = self.queue.pop(now.steady) else {
            return false;
        };
        self.report.work_started(&due, now.steady);
        let DueKey { key, in_vain, .. } = due;
        self.decide(key, KeyProgress::new(in_vain), now);
        true
    }

    pub(crate) fn has_request(&self) -> bool {
        self.in_flight.len() > 0
    }

    /// Waits for an answer, then takes the changes of `shown_first`, then the answer.
    pub(crate) async fn take_answer(&mut self, shown_first: impl FnOnce() -> Vec<ObservedChange>) {
        if let Some(finished) = self.in_flight.next().await {
            for change in shown_first() {
                self.observe(&change);
            }
            self.answered(finished);
        }
    }

    /// The time until the next key becomes due.
    pub(crate) fn next_due_in(&self) -> Option<Duration> {
        let due = self.queue.next_due()?;
        Some(due.since(self.clock.now().steady))
    }

    /// Whether a key is due now.
    pub(crate) fn is_due(&mut self) -> bool {
        self.queue.promote(self.clock.now().steady);
        self.queue.counts().due > 0
    }
}
