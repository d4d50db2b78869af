//! The disturbances of a chaos run, drawn from the run's seed.
//!
//! Every fault is one that a server, a proxy or a network has been seen to cause. None states something false about an
//! object in a well-formed answer: controllers need not survive that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::json;

use crate::wire::{CrashMoment, FakeReply, FaultInjector, RequestFate, WireRequest};

/// One in this number of requests about an object meets a fault.
const EFFECTS: usize = 3;
/// The same for watches.
const WATCHES: usize = 4;
/// The same for other requests.
const OTHERS: usize = 12;
/// One in this number of faults of requests about an object is a crash.
const CRASHES: usize = 6;
/// Longest delay of a request.
const LATE_MAX: Duration = Duration::from_secs(3);
/// Longest life of a watch that breaks.
const WATCH_MAX: Duration = Duration::from_secs(40);

/// Draws faults, except while `is_calm`.
pub struct Faults {
    rng: Rng,
    is_calm: Arc<AtomicBool>,
}

/// Delays every event of every watch, and every request about an object.
pub struct WatchLag {
    rng: Rng,
    max: Duration,
}

// === impl WatchLag ===

impl WatchLag {
    /// Each event is delayed by up to `max`, after the one before it.
    pub fn new(rng: Rng, max: Duration) -> Self {
        Self { rng, max }
    }
}

impl FaultInjector for WatchLag {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate {
        if asked.is_watch {
            RequestFate::Lag(self.rng.fork(), self.max)
        } else if asked.is_effect {
            RequestFate::Late(self.rng.duration(Duration::ZERO..LATE_MAX))
        } else {
            RequestFate::Pass
        }
    }
}

// === impl Faults ===

impl Faults {
    pub fn new(rng: Rng, is_calm: Arc<AtomicBool>) -> Self {
        Self { rng, is_calm }
    }

    fn late(&mut self) -> RequestFate {
        RequestFate::Late(self.rng.duration(Duration::from_millis(1)..LATE_MAX))
    }

    fn busy(&mut self) -> FakeReply {
        let waits = [
            None,
            Some("0"),
            Some("1"),
            Some("3"),
            Some("-1"),
            Some("soon"),
        ];
        let wait = waits[self.rng.below(waits.len())];
        FakeReply {
            retry_after: wait.map(ToOwned::to_owned),
            ..FakeReply::failure(429, "TooManyRequests")
        }
    }

    fn broken(&mut self) -> FakeReply {
        match self.rng.below(4) {
            0 => FakeReply::failure(500, "InternalError"),
            1 => FakeReply::failure(503, "ServiceUnavailable"),
            2 => FakeReply::text(502, "<html>Bad Gateway</html>"),
            _ => FakeReply::failure(504, "Timeout"),
        }
    }

    fn effect(&mut self, method: &Method) -> RequestFate {
        if self.rng.below(CRASHES) == 0 {
            let moments = [CrashMoment::Before, CrashMoment::Inside, CrashMoment::After];
            return RequestFate::End(moments[self.rng.below(moments.len())]);
        }
        let is_read = *method == Method::GET;
        match self.rng.below(8) {
            0 | 1 => self.late(),
            2 => RequestFate::Reply(self.busy()),
            3 => RequestFate::Reply(self.broken()),
            4 => RequestFate::Instead(self.broken()),
            5 => RequestFate::Ghost,
            6 => RequestFate::Swallowed,
            _ if !is_read => RequestFate::Reply(FakeReply::failure(409, "Conflict")),
            _ if self.rng.below(2) == 0 => {
                RequestFate::Reply(FakeReply::text(404, "404 page not found\n"))
            }
            _ => RequestFate::Reply(FakeReply::failure(403, "Forbidden")),
        }
    }

    fn watch(&mut self) -> RequestFate {
        let expired = FakeReply::failure(410, "Expired");
        match self.rng.below(6) {
            0 => RequestFate::Reply(expired),
            1 => {
                let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
                let event = json!({"type": "ERROR", "object": status});
                let mut reply = FakeReply::json(200, &event);
                reply.text.push('\n');
                RequestFate::Reply(reply)
            }
            2 => self.late(),
            3 => RequestFate::Reply(self.broken()),
            _ => RequestFate::Cut(self.rng.duration(Duration::ZERO..WATCH_MAX)),
        }
    }

    fn other(&mut self) -> RequestFate {
        match self.rng.below(4) {
            0 => self.late(),
            1 => RequestFate::Reply(self.busy()),
            2 => RequestFate::Reply(FakeReply::text(404, "404 page not found\n")),
            _ => RequestFate::Reply(self.broken()),
        }
    }
}

impl FaultInjector for Faults {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate {
        if self.is_calm.load(Ordering::Relaxed) || *asked.method == Method::POST {
            return RequestFate::Pass;
        }
        let one_in = match asked {
            WireRequest {
                is_effect: true, ..
            } => EFFECTS,
            WireRequest { is_watch: true, .. } => WATCHES,
            _ => OTHERS,
        };
        if self.rng.below(one_in) > 0 {
            return RequestFate::Pass;
        }
        match asked {
            WireRequest {
                is_effect: true,
                method,
                ..
            } => self.effect(method),
            WireRequest { is_watch: true, .. } => self.watch(),
            _ => self.other(),
        }
    }
}
