//! The last failed request about each object, so that `explain` can repeat why nothing happens.
//!
//! Drivers write it, reads included; the admin server shows it. An entry goes away when a write of the object succeeds,
//! or a request of the same kind as the failed one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use crate::runtime::bounded_map::BoundedMap;

/// How many failures are kept. Those that failed last are kept longest.
const FAILURES_MAX: usize = 1_000;

/// The last failed request of a controller about an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedCall {
    pub at: Timestamp,
    pub controller: &'static str,
    /// `get`, `list`, `create`, `delete` or `patch`.
    pub verb: &'static str,
    /// The object as in `deployments.apps shop/web`.
    pub object: String,
    /// The HTTP code; nothing if there was no answer.
    pub code: Option<u16>,
    /// The server's message, or why there was no answer.
    pub error: String,
    /// The time from the failure to the next attempt.
    pub retry_in_secs: f64,
    /// How many requests in a row have failed.
    pub failures: u64,
}

/// The failures of all controllers.
#[derive(Debug)]
pub(super) struct FailedCalls {
    calls: Mutex<BoundedMap<(String, &'static str), FailedCall>>,
}

// === impl FailedCalls ===

impl FailedCalls {
    /// Keeps a failure instead of the last one of the same controller and object, and counts both.
    pub(super) fn failed(&self, mut call: FailedCall) {
        let key = (call.object.clone(), call.controller);
        let mut calls = self.lock();
        call.failures += calls.get(&key).map_or(0, |last| last.failures);
        calls.insert(key, call);
    }

    pub(super) fn succeeded(&self, controller: &'static str, object: &str, verb: &str) {
        let is_read = matches!(verb, "get" | "list");
        let key = (object.to_owned(), controller);
        let mut calls = self.lock();
        let is_over = |last: &FailedCall| !is_read || last.verb == verb;
        if calls.get(&key).is_some_and(is_over) {
            calls.remove(&key);
        }
    }

    pub(super) fn has_any(&self) -> bool {
        self.lock().values().next().is_some()
    }

    /// The failures about one of these objects.
    pub(super) fn about(&self, objects: &[&str]) -> Vec<FailedCall> {
        let calls = self.lock();
        let calls = calls.values();
        calls
            .filter(|call| objects.contains(&call.object.as_str()))
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BoundedMap<(String, &'static str), FailedCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for FailedCalls {
    fn default() -> Self {
        Self {
            calls: Mutex::new(BoundedMap::new(FAILURES_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_call(object: &str, verb: &'static str) -> FailedCall {
        FailedCall {
            at: Timestamp::UNIX_EPOCH,
            controller: "gc",
            verb,
            object: object.to_owned(),
            code: Some(403),
            error: "forbidden".to_owned(),
            retry_in_secs: 1.0,
            failures: 1,
        }
    }

    #[test]
    fn the_last_failure_stays_until_a_request_of_its_kind_succeeds() {
        let calls = FailedCalls::default();
        calls.failed(mk_call("a", "delete"));
        calls.failed(mk_call("a", "delete"));
        calls.failed(mk_call("b", "get"));
        let about = calls.about(&["a"]);
        assert_eq!((about.len(), about[0].failures), (1, 2));
        calls.succeeded("gc", "a", "get");
        calls.succeeded("ttl", "a", "delete");
        assert_eq!(calls.about(&["a", "b", "c"]).len(), 2);
        calls.succeeded("gc", "a", "delete");
        calls.succeeded("gc", "b", "get");
        assert_eq!(calls.about(&["a", "b"]), []);
    }

    #[test]
    fn old_failures_make_room() {
        let calls = FailedCalls::default();
        for number in 0..=FAILURES_MAX {
            calls.failed(mk_call(&number.to_string(), "delete"));
        }
        assert_eq!(calls.about(&["0"]), []);
        assert_eq!(calls.about(&["1"]).len(), 1);
    }
}
