//! The faults between `caretaker run` and the server, drawn from the seed and counted by kind.
//!
//! Each seed has its own mixture: some faults do not occur in it, and the others are more or less frequent. Honest
//! faults hide or delay the truth. Lying ones state something false about a list: an older list, or an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::{Value, json};

use crate::wire::{FakeReply, FaultInjector, RequestFate, WireRequest};

/// Longest delay of a request.
const LATE_MAX: Duration = Duration::from_millis(1500);
/// Longest time until a watch breaks, ends or pauses.
const WATCH_MAX: Duration = Duration::from_secs(8);
/// Longest pause of a watch.
const STALL_MAX: Duration = Duration::from_secs(6);
/// Most bytes of an answer that breaks off.
const BYTES_MAX: usize = 4_000;
/// The reason of the Event that announces an incomplete release of an owner.
const MAY_REMAIN: &str = "DependentsMayRemain";
/// One in this number of lists is a lie, in seeds that lie.
const LIES_ONE_IN: usize = 3;

/// The resources of the users' objects.
const RESOURCES: [&str; 6] = [
    "configmaps",
    "secrets",
    "serviceaccounts",
    "leases",
    "gadgets",
    "widgets",
];

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    Late,
    /// The answer breaks off, or a watch ends early.
    Cut,
    /// A watch pauses.
    Stall,
    /// No answer; half of these requests are carried out.
    Silence,
    Garbled,
    Unauthorized,
    Forbidden,
    Conflict,
    Expired,
    Busy,
    /// 500, 502, 503 or 504 without effect.
    Failure,
    /// The same, but the server has carried the request out.
    FailureAfterEffect,
    /// 404 as plain text.
    TextNotFound,
    StaleList,
    EmptyList,
}

/// The fault mixture of a seed.
#[derive(Clone, Debug)]
pub struct FaultMix {
    /// The faults that occur.
    kinds: BTreeSet<FaultKind>,
    /// One in this number of requests about an object meets a fault.
    effects_one_in: usize,
    watches_one_in: usize,
    others_one_in: usize,
    pub lies: bool,
    /// The resources of which empty lists are served, in seeds that lie.
    emptied: [&'static str; 2],
}

/// What the injectors of a run share.
#[derive(Default)]
pub(super) struct TroubleState {
    is_calm: AtomicBool,
    counts: Mutex<BTreeMap<FaultKind, usize>>,
    /// The owners that a controller announced as released although some kinds could not be seen.
    announced: Mutex<BTreeSet<String>>,
    /// The first list of each collection, which stale answers repeat.
    first_lists: Mutex<BTreeMap<String, FakeReply>>,
    /// The collections of which an empty list was served.
    emptied: Mutex<BTreeSet<String>>,
}

/// Draws the faults of one process.
pub(super) struct TroubleInjector {
    rng: Rng,
    mix: FaultMix,
    state: Arc<TroubleState>,
}

// === impl FaultMix ===

impl FaultMix {
    pub fn of(rng: &mut Rng, lies: bool) -> Self {
        let drawn: Vec<FaultKind> = FaultKind::HONEST
            .into_iter()
            .filter(|_| rng.below(3) > 0)
            .collect();
        let emptied = [RESOURCES[rng.below(3)], RESOURCES[3 + rng.below(3)]];
        Self {
            emptied,
            kinds: drawn.into_iter().collect(),
            effects_one_in: 3 + rng.below(10),
            watches_one_in: 1 + rng.below(4),
            others_one_in: 3 + rng.below(12),
            lies,
        }
    }
}

// === impl TroubleState ===

impl TroubleState {
    /// Ends all faults, or lets them begin again.
    pub(super) fn set_calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> BTreeMap<FaultKind, usize> {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn announced(&self) -> BTreeSet<String> {
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The paths of the collections of which an empty list was served.
    pub(super) fn emptied(&self) -> BTreeSet<String> {
        self.emptied
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note_emptied(&self, path: &str) {
        self.count(FaultKind::EmptyList);
        let mut emptied = self.emptied.lock().unwrap_or_else(PoisonError::into_inner);
        emptied.insert(path.to_owned());
    }

    fn count(&self, kind: FaultKind) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(kind).or_default() += 1;
    }

    fn note_event(&self, event: &Value) {
        if event["reason"] == MAY_REMAIN
            && let Some(uid) = event["involvedObject"]["uid"].as_str()
        {
            let mut announced = self
                .announced
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            announced.insert(uid.to_owned());
        }
    }

    /// The first list of this collection, which is this one if none came before.
    fn first_list(&self, path: &str, list: &FakeReply) -> FakeReply {
        let mut lists = self
            .first_lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lists
            .entry(path.to_owned())
            .or_insert_with(|| list.clone())
            .clone()
    }
}

// === impl TroubleInjector ===

impl TroubleInjector {
    pub(super) fn new(rng: Rng, mix: FaultMix, state: Arc<TroubleState>) -> Self {
        Self { rng, mix, state }
    }

    /// A fault of the mixture that fits the request.
    fn draw(&mut self, fitting: &[FaultKind]) -> Option<FaultKind> {
        let own = fitting.iter().filter(|kind| self.mix.kinds.contains(kind));
        let own: Vec<FaultKind> = own.copied().collect();
        own.get(self.rng.below(own.len())).copied()
    }

    fn fate_of(&mut self, kind: FaultKind, is_watch: bool) -> RequestFate {
        let failure = |code, reason| RequestFate::Reply(FakeReply::failure(code, reason));
        match kind {
            FaultKind::Late => {
                RequestFate::Late(self.rng.duration(Duration::from_millis(1)..LATE_MAX))
            }
            FaultKind::Cut if is_watch && self.rng.below(2) == 0 => {
                RequestFate::Cut(self.rng.duration(Duration::ZERO..WATCH_MAX))
            }
            FaultKind::Cut => {
                let after = self.rng.duration(Duration::ZERO..WATCH_MAX);
                RequestFate::Broken(after, self.rng.below(BYTES_MAX))
            }
            FaultKind::Stall => RequestFate::Stalled(
                self.rng.duration(Duration::ZERO..WATCH_MAX),
                self.rng.duration(Duration::ZERO..STALL_MAX),
            ),
            FaultKind::Silence if self.rng.below(2) == 0 => RequestFate::Swallowed,
            FaultKind::Silence => RequestFate::Ghost,
            FaultKind::Garbled => RequestFate::Garbled(self.rng.fork()),
            FaultKind::Unauthorized => failure(401, "Unauthorized"),
            FaultKind::Forbidden => failure(403, "Forbidden"),
            FaultKind::Conflict => failure(409, "Conflict"),
            FaultKind::Expired if is_watch && self.rng.below(2) == 0 => {
                RequestFate::Reply(expired_event())
            }
            FaultKind::Expired => failure(410, "Expired"),
            FaultKind::Busy => RequestFate::Reply(self.busy()),
            FaultKind::Failure => RequestFate::Reply(self.failure()),
            FaultKind::FailureAfterEffect => RequestFate::Instead(self.failure()),
            FaultKind::TextNotFound => {
                RequestFate::Reply(FakeReply::text(404, "404 page not found\n"))
            }
            FaultKind::StaleList | FaultKind::EmptyList => RequestFate::Pass,
        }
    }

    fn busy(&mut self) -> FakeReply {
        let waits = [
            None,
            Some("0"),
            Some("1"),
            Some("2"),
            Some("-1"),
            Some("soon"),
        ];
        let wait = waits[self.rng.below(waits.len())];
        FakeReply {
            retry_after: wait.map(ToOwned::to_owned),
            ..FakeReply::failure(429, "TooManyRequests")
        }
    }

    fn failure(&mut self) -> FakeReply {
        match self.rng.below(4) {
            0 => FakeReply::failure(500, "InternalError"),
            1 => FakeReply::failure(503, "ServiceUnavailable"),
            2 => FakeReply::text(502, "<html>Bad Gateway</html>"),
            _ => FakeReply::failure(504, "Timeout"),
        }
    }

    /// Answers a list with an older one or with an empty one, or remembers it.
    fn lie(&mut self, path: String) -> RequestFate {
        let is_lie = self.rng.below(LIES_ONE_IN) == 0;
        let can_be_empty = self.mix.emptied.iter().any(|own| path.ends_with(own));
        let is_stale = !can_be_empty || self.rng.below(2) == 0;
        let is_old = self.rng.below(2) == 0;
        let state = self.state.clone();
        RequestFate::altered(move |reply| {
            if reply.status != 200 {
                return reply;
            }
            let first = state.first_list(&path, &reply);
            match (is_lie, is_stale) {
                (false, _) => reply,
                (true, true) => {
                    state.count(FaultKind::StaleList);
                    first
                }
                (true, false) => {
                    state.note_emptied(&path);
                    emptied(if is_old { first } else { reply })
                }
            }
        })
    }
}

impl FaultInjector for TroubleInjector {
    fn fate(&mut self, asked: &WireRequest<'_>) -> RequestFate {
        if *asked.method == Method::POST {
            self.state.note_event(asked.body);
            return RequestFate::Pass;
        }
        let path = asked.uri.split('?').next().unwrap_or_default();
        let is_collection = !asked.is_effect && !asked.is_watch && path.matches('/').count() > 3;
        if self.state.is_calm.load(Ordering::Relaxed) {
            return RequestFate::Pass;
        }
        let (one_in, fitting) = match asked {
            WireRequest {
                is_effect: true,
                method,
                ..
            } => (
                self.mix.effects_one_in,
                if **method == Method::GET {
                    FaultKind::READS
                } else {
                    FaultKind::WRITES
                },
            ),
            WireRequest { is_watch: true, .. } => (self.mix.watches_one_in, FaultKind::WATCHES),
            _ => (self.mix.others_one_in, FaultKind::OTHERS),
        };
        if self.rng.below(one_in) == 0
            && let Some(kind) = self.draw(fitting)
        {
            self.state.count(kind);
            return self.fate_of(kind, asked.is_watch);
        }
        match self.mix.lies {
            // Without a stream of first events the controllers have to list.
            true if asked.uri.contains("sendInitialEvents") => {
                RequestFate::Reply(FakeReply::failure(400, "BadRequest"))
            }
            true if is_collection && !asked.uri.contains("continue=") => self.lie(path.to_owned()),
            _ => RequestFate::Pass,
        }
    }
}

// === impl FaultKind ===

impl FaultKind {
    const HONEST: [Self; 13] = [
        Self::Late,
        Self::Cut,
        Self::Stall,
        Self::Silence,
        Self::Garbled,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Conflict,
        Self::Expired,
        Self::Busy,
        Self::Failure,
        Self::FailureAfterEffect,
        Self::TextNotFound,
    ];
    const WRITES: &[Self] = &[
        Self::Late,
        Self::Cut,
        Self::Silence,
        Self::Garbled,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Conflict,
        Self::Busy,
        Self::Failure,
        Self::FailureAfterEffect,
        Self::TextNotFound,
    ];
    const READS: &[Self] = &[
        Self::Late,
        Self::Cut,
        Self::Silence,
        Self::Garbled,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Busy,
        Self::Failure,
        Self::TextNotFound,
    ];
    const WATCHES: &[Self] = &[
        Self::Late,
        Self::Cut,
        Self::Stall,
        Self::Stall,
        Self::Garbled,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Expired,
        Self::Busy,
        Self::Failure,
    ];
    /// For lists and discovery.
    const OTHERS: &[Self] = &[
        Self::Late,
        Self::Cut,
        Self::Silence,
        Self::Garbled,
        Self::Unauthorized,
        Self::Forbidden,
        Self::Expired,
        Self::Busy,
        Self::Failure,
        Self::TextNotFound,
    ];
}

/// A watch whose only event says that its version is too old.
fn expired_event() -> FakeReply {
    let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
    let mut reply = FakeReply::json(200, &json!({"type": "ERROR", "object": status}));
    reply.text.push('\n');
    reply
}

/// The same list without its objects.
fn emptied(list: FakeReply) -> FakeReply {
    let Ok(mut value) = serde_json::from_str::<Value>(&list.text) else {
        return list;
    };
    value["items"] = json!([]);
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("continue");
        metadata.remove("remainingItemCount");
    }
    FakeReply::json(200, &value)
}
