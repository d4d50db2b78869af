//! The faults of a run: each request meets one with some probability, drawn from the run's seed.
//!
//! Every fault is one that a server, a proxy or a network has been seen to do. None lies about facts: an answer that
//! says something false about an object in a well-formed way is nobody's fault and not the controllers' to survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::json;

use crate::wire::{Asked, Fate, Meddler, Moment, Reply};

/// One request about an object in so many meets a fault.
const EFFECTS: usize = 3;
/// One watch in so many does.
const WATCHES: usize = 4;
/// One other request in so many does.
const OTHERS: usize = 12;
/// One faulty request about an object in so many is the controllers' last.
const DEATHS: usize = 6;
/// The longest that a request is held up.
const LATE_MAX: Duration = Duration::from_secs(3);
/// The longest that a watch lasts which breaks.
const WATCH_MAX: Duration = Duration::from_secs(40);

/// Draws faults until it is told to stop.
pub struct Faults {
    rng: Rng,
    is_calm: Arc<AtomicBool>,
}

// === impl Faults ===

impl Faults {
    /// Faults that end when `is_calm` says so.
    pub fn new(rng: Rng, is_calm: Arc<AtomicBool>) -> Self {
        Self { rng, is_calm }
    }

    fn late(&mut self) -> Fate {
        Fate::Late(self.rng.duration(Duration::from_millis(1)..LATE_MAX))
    }

    fn busy(&mut self) -> Reply {
        let waits = [
            None,
            Some("0"),
            Some("1"),
            Some("3"),
            Some("-1"),
            Some("soon"),
        ];
        let wait = waits[self.rng.below(waits.len())];
        Reply {
            retry_after: wait.map(ToOwned::to_owned),
            ..Reply::failure(429, "TooManyRequests")
        }
    }

    fn broken(&mut self) -> Reply {
        match self.rng.below(4) {
            0 => Reply::failure(500, "InternalError"),
            1 => Reply::failure(503, "ServiceUnavailable"),
            2 => Reply::text(502, "<html>Bad Gateway</html>"),
            _ => Reply::failure(504, "Timeout"),
        }
    }

    fn effect(&mut self, method: &Method) -> Fate {
        if self.rng.below(DEATHS) == 0 {
            let moments = [Moment::Before, Moment::Inside, Moment::After];
            return Fate::End(moments[self.rng.below(moments.len())]);
        }
        let is_read = *method == Method::GET;
        match self.rng.below(8) {
            0 | 1 => self.late(),
            2 => Fate::Reply(self.busy()),
            3 => Fate::Reply(self.broken()),
            4 => Fate::Instead(self.broken()),
            5 => Fate::Ghost,
            6 => Fate::Swallowed,
            _ if !is_read => Fate::Reply(Reply::failure(409, "Conflict")),
            _ if self.rng.below(2) == 0 => Fate::Reply(Reply::text(404, "404 page not found\n")),
            _ => Fate::Reply(Reply::failure(403, "Forbidden")),
        }
    }

    fn watch(&mut self) -> Fate {
        let expired = Reply::failure(410, "Expired");
        match self.rng.below(6) {
            0 => Fate::Reply(expired),
            1 => {
                let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
                let event = json!({"type": "ERROR", "object": status});
                let mut reply = Reply::json(200, &event);
                reply.text.push('\n');
                Fate::Reply(reply)
            }
            2 => self.late(),
            3 => Fate::Reply(self.broken()),
            _ => Fate::Cut(self.rng.duration(Duration::ZERO..WATCH_MAX)),
        }
    }

    fn other(&mut self) -> Fate {
        match self.rng.below(4) {
            0 => self.late(),
            1 => Fate::Reply(self.busy()),
            2 => Fate::Reply(Reply::text(404, "404 page not found\n")),
            _ => Fate::Reply(self.broken()),
        }
    }
}

impl Meddler for Faults {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if self.is_calm.load(Ordering::Relaxed) || *asked.method == Method::POST {
            return Fate::Pass;
        }
        let one_in = match asked {
            Asked {
                is_effect: true, ..
            } => EFFECTS,
            Asked { is_watch: true, .. } => WATCHES,
            _ => OTHERS,
        };
        if self.rng.below(one_in) > 0 {
            return Fate::Pass;
        }
        match asked {
            Asked {
                is_effect: true,
                method,
                ..
            } => self.effect(method),
            Asked { is_watch: true, .. } => self.watch(),
            _ => self.other(),
        }
    }
}
