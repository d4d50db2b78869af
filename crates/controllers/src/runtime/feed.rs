//! The list and the watch of one kind, as a state machine without I/O.
//!
//! [`KindFeed::step`] takes an input and returns the next action; `task` sends the requests and the changes. A feed first
//! lists by a watch that begins with all objects, where the server supports it, otherwise and later page by page; then it
//! follows the watch. It holds only the uids that it has shown. An object that a complete new list does not show is
//! `Missing`; an incomplete list proves nothing about the objects that it did not show. The feed behaves like client-go's
//! reflector (1.36), and defines the cases that the reflector leaves open: 410 as a status or as an ERROR event, watches
//! that end at once, silent watches, tokens that loop, and resourceVersions that go back.
//!
//! - `task`: the I/O. `request`: list and watch requests. `wire`: decodes events and pages.
//! - `listing`: lists all objects; `retry`: reacts to failures. Following a watch is in this file.

mod listing;
mod request;
mod retry;
mod task;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use jiff::Timestamp;

use super::controller::{FeedProgress, ObservedChange};
use super::kind::{KindId, KindState};
use super::record::{ObjectRecord, RecordView, Revision, Uid, UnreadableObject};
use listing::PagedList;
use retry::FeedBackoff;
use wire::{WatchEvent, read_event};

pub(crate) use request::{list_path, refusal_message};
pub(crate) use task::{FeedCommand, FeedSetup, FeedTask};
pub(crate) use wire::read_metadata_page;

/// Objects per page, as in client-go.
pub(crate) const PAGE_LIMIT: u32 = 500;
/// The most pages of one list: ten million objects. A server that sends more is broken.
const PAGES_MAX: u32 = 20_000;
/// The requested length of a watch. It is random, so that not all watches end together.
const WATCH_LENGTH: std::ops::Range<Duration> = Duration::from_secs(300)..Duration::from_secs(600);
/// The shortest time between the starts of two watches.
const WATCH_SPACING: Duration = Duration::from_secs(1);
/// How much earlier than asked for a watch may end in ordinary operation: `timeoutSeconds` is rounded down.
const EARLY_MAX: Duration = Duration::from_secs(2);
/// The time over which watches resume that a server ends early. A server that shuts down ends all of them together.
const RESUME_SPREAD: Duration = Duration::from_secs(1);
/// A watch without an event or a bookmark for this time is dead: servers send a bookmark every minute.
const WATCH_IDLE: Duration = Duration::from_secs(90);
/// A list by watch without a line for this time comes from a server that does not send its final bookmark.
const STREAM_IDLE: Duration = Duration::from_secs(10);
/// How many lists by watch may break before the kind is listed page by page.
const STREAM_BREAKS_MAX: u32 = 3;
/// How many watches in a row may be silent before the kind is listed again.
const SILENT_MAX: u32 = 2;
/// How many watches in a row may fail to open before the kind is listed again.
const OPEN_FAILURES_MAX: u32 = 5;
/// How many watches in a row may end as soon as they begin before the kind counts as failing.
const SHORT_WATCHES_MAX: u32 = 1;
/// How many names of unreadable objects are remembered, so that each is reported once.
const UNREADABLE_NAMES_MAX: usize = 1_000;

/// The list and the watch of one kind.
pub struct KindFeed {
    kind: KindId,
    view: RecordView,
    rng: Rng,
    state: KindState,
    phase: FeedPhase,
    /// The version to watch from; `None` if a list has to come first.
    position: Option<Revision>,
    /// Whether a list was applied since the feed began.
    was_listed: bool,
    /// The highest version of any list, event or bookmark of the collection.
    highest: Option<u64>,
    /// A version went back. The same list again has to show the reason: a replica lagged, or the store was restored.
    ///
    /// DEVIATION(restored-store): upstream does not check this. Objects from before a restore stay in its graph.
    is_suspect: bool,
    /// The objects that were shown and not deleted since, and in which version; 0 if that is no number.
    shown: BTreeMap<Uid, u64>,
    /// During a list: objects that were shown earlier and that the list has not shown yet.
    unlisted: BTreeMap<Uid, u64>,
    /// Whether the server supports lists by watch, as far as is known.
    streams: bool,
    /// Whether lists are requested in pages: not from a server whose tokens loop.
    pages: bool,
    stream_breaks: u32,
    retry: FeedBackoff,
    /// When the last watch was requested.
    last_start: Option<Duration>,
    /// The number of lines of the current watch that prove that the server has our version.
    lines: u64,
    /// Whether a list or a watch has shown that the server has our version, and no connection was lost since. Otherwise a
    /// bookmark that repeats our version proves nothing: a restarted server may repeat the version that the client sent.
    is_proven: bool,
    /// Whether the last watch ended early and no answer came since: the server shuts down, or it has removed the kind.
    is_loss_unclear: bool,
    /// When the current watch should end by its `timeoutSeconds`.
    ends: Duration,
    silent: u32,
    /// Whether the last watch that could show events was silent, and no later one has shown a line.
    is_blind: bool,
    /// Watches in a row that could not be opened.
    open_failures: u32,
    /// Watches in a row that ended as soon as they began.
    short_watches: u32,
    /// Names of unreadable objects that have been reported.
    reported: BTreeSet<String>,
}

/// An input of a feed: the result of a request or of a wait.
#[derive(Debug, Clone, Copy)]
pub enum FeedInput<'a> {
    /// The wait is over. This is also the first input.
    Due,
    /// List again: there is a new listener, or the view has changed.
    Again,
    /// A page of a list has arrived.
    Page(&'a [u8]),
    /// A request was refused with this status and `Retry-After`.
    Refused(u16, Option<Duration>),
    /// A request has no complete answer.
    Unanswered,
    /// There is no connection to the server. This says nothing about the request: the server keeps the history, and a
    /// list of every kind when it is back would only make its start harder.
    Unreachable,
    /// A watch was opened.
    Opened,
    /// A line of a watch has arrived.
    Line(&'a [u8]),
    /// A line of a watch was too long and was skipped.
    Overlong,
    /// A watch ended.
    Ended(WatchEnd),
}

/// How a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    Clean,
    /// The connection broke off.
    Broken,
    /// No line arrived for too long.
    Idle,
}

/// The time of an input, by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct FeedTime {
    /// The time since the feed began, by tokio's clock. Waits and timeouts use it.
    pub elapsed: Duration,
    /// The steady time of the process's clock. States of kinds use it.
    pub now: Timestamp,
}

/// The action that a feed asks of its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedAction {
    /// Wait for this time.
    Wait(Duration),
    /// Request a page of the list.
    List {
        /// The limit of objects; all objects if `None`.
        limit: Option<u32>,
        /// The `continue` token of the last page.
        token: Option<Box<str>>,
    },
    /// Request a watch.
    Watch {
        /// The version to watch from; `None` requests all objects first.
        after: Option<Revision>,
        /// The `timeoutSeconds` of the request.
        length: Duration,
    },
    /// Read the next line. If none arrives within this time, the watch is dead.
    Read(Duration),
}

/// An output of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedOutput {
    /// A change of the kind or its objects.
    Change(ObservedChange),
    /// The server does not serve the kind: discovery should run.
    NotServed,
    /// An object cannot be decoded. Reported once per name.
    Unreadable(UnreadableObject),
    /// A line was skipped because of its length. A list follows.
    Overlong,
}

/// The phase of a feed, which is the input that it waits for.
enum FeedPhase {
    /// Waits until this time.
    Resting(Duration),
    /// Waits for the response to a list by watch.
    OpeningStream,
    /// Reads the objects of a list by watch.
    Streaming,
    /// Waits for a page.
    Listing(PagedList),
    /// Waits for the response to a watch.
    OpeningWatch,
    /// Reads the events of a watch.
    Watching,
}

// === impl KindFeed ===

impl KindFeed {
    /// A feed that has requested nothing yet. Its first input is [`FeedInput::Due`].
    #[must_use]
    pub fn new(kind: KindId, view: RecordView, rng: Rng, now: Timestamp) -> Self {
        Self {
            kind,
            view,
            rng,
            state: KindState::Syncing(now),
            phase: FeedPhase::Resting(Duration::ZERO),
            position: None,
            was_listed: false,
            highest: None,
            is_suspect: false,
            shown: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            streams: true,
            pages: true,
            stream_breaks: 0,
            retry: FeedBackoff::default(),
            last_start: None,
            lines: 0,
            is_proven: false,
            is_loss_unclear: false,
            ends: Duration::ZERO,
            silent: 0,
            is_blind: false,
            open_failures: 0,
            short_watches: 0,
            reported: BTreeSet::new(),
        }
    }

    /// The state of the kind, as listeners know it.
    #[must_use]
    pub fn state(&self) -> KindState {
        self.state
    }

    /// The number of objects that were shown and not deleted since.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.shown.len() + self.unlisted.len()
    }

    /// Whether a watch is open and a list was applied before it.
    pub(crate) fn is_watching(&self) -> bool {
        matches!(self.phase, FeedPhase::Watching)
    }

    /// Whether the watch shows nothing, not even bookmarks.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Sets how much of each object is requested from now on. [`FeedInput::Again`] must follow.
    pub(crate) fn set_view(&mut self, view: RecordView) {
        self.view = view;
    }

    /// Takes an input, appends its outputs to `out`, and returns the next action.
    ///
    /// After an input that does not fit the phase, the feed pauses and starts over.
    pub fn step(
        &mut self,
        input: FeedInput<'_>,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        let was_proven = self.is_proven;
        let is_clean_end = matches!(input, FeedInput::Ended(WatchEnd::Clean));
        let is_due = matches!(input, FeedInput::Due | FeedInput::Again);
        let is_removed = matches!(input, FeedInput::Refused(404, _));
        let next = self.take(input, at, out);
        let is_lost = was_proven && !self.is_proven;
        if is_clean_end {
            self.is_loss_unclear |= is_lost;
        } else if is_removed {
            // The server removes a kind and keeps its history: what the watch showed before is still true.
            self.is_loss_unclear = false;
        } else if is_lost || (self.is_loss_unclear && !is_due) {
            self.is_loss_unclear = false;
            self.report_progress(FeedProgress::Interrupted, out);
        }
        next
    }

    fn take(
        &mut self,
        input: FeedInput<'_>,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        match (&self.phase, input) {
            (_, FeedInput::Again) => self.again(at),
            (FeedPhase::Resting(_), FeedInput::Due) => self.begin(at),
            (FeedPhase::OpeningStream, FeedInput::Opened) => {
                self.lines = 0;
                self.phase = FeedPhase::Streaming;
                FeedAction::Read(STREAM_IDLE)
            }
            (FeedPhase::Streaming, FeedInput::Line(line)) => self.stream_line(line, at, out),
            (FeedPhase::Streaming, FeedInput::Ended(end)) => self.stream_ended(end, at, out),
            (FeedPhase::OpeningWatch, FeedInput::Opened) => self.watch_opened(at, out),
            (FeedPhase::Watching, FeedInput::Line(line)) => self.watch_line(line, at, out),
            (FeedPhase::Watching, FeedInput::Ended(end)) => self.watch_ended(end, at, out),
            (FeedPhase::Streaming, FeedInput::Overlong) => {
                out.push(FeedOutput::Overlong);
                self.begin_list()
            }
            (FeedPhase::Watching, FeedInput::Overlong) => {
                out.push(FeedOutput::Overlong);
                // The line may have been about any object, so the known objects may be outdated.
                self.expired(at)
            }
            (FeedPhase::Listing(_), FeedInput::Page(page)) => self.page(page, at, out),
            (_, FeedInput::Refused(status, wait)) => self.refused(status, wait, at, out),
            (_, FeedInput::Unanswered) => self.unanswered(at, out),
            (_, FeedInput::Unreachable) => self.fail(None, at, out),
            _ => self.rest(WATCH_SPACING, at),
        }
    }

    /// Begins with a list or a watch.
    fn begin(&mut self, at: FeedTime) -> FeedAction {
        // A page has its version before its objects, a list by watch after them. The objects of a restored store must not
        // be shown before the kind is frozen, so a list whose version can be compared is requested in pages.
        let by_page = self.is_suspect || !self.streams || self.highest.is_some();
        if self.position.is_none() && by_page {
            return self.begin_list();
        }
        // A list by watch is the start of a watch as well.
        if let Some(last) = self.last_start {
            let due = last + WATCH_SPACING;
            if due > at.elapsed {
                return self.rest(due - at.elapsed, at);
            }
        }
        self.last_start = Some(at.elapsed);
        self.phase = if self.position.is_some() {
            FeedPhase::OpeningWatch
        } else {
            self.set_aside();
            FeedPhase::OpeningStream
        };
        let length = self.rng.duration(WATCH_LENGTH);
        self.ends = at.elapsed + length;
        FeedAction::Watch {
            after: self.position.clone(),
            length,
        }
    }

    /// Lists all objects again for a listener. A backoff is not cut short.
    fn again(&mut self, at: FeedTime) -> FeedAction {
        self.position = None;
        self.open_failures = 0;
        self.short_watches = 0;
        if let FeedPhase::Resting(until) = self.phase
            && self.retry.is_failing()
        {
            return self.rest(until.saturating_sub(at.elapsed), at);
        }
        self.last_start = None;
        self.begin(at)
    }

    fn rest(&mut self, wait: Duration, at: FeedTime) -> FeedAction {
        self.phase = FeedPhase::Resting(at.elapsed.saturating_add(wait));
        FeedAction::Wait(wait)
    }

    /// Whether a version is lower than the highest one so far. If it is not, it becomes the highest one.
    fn goes_back(&mut self, revision: &Revision) -> bool {
        let number = revision.number();
        if number.is_some() && number < self.highest {
            return true;
        }
        self.highest = number.or(self.highest);
        false
    }

    fn set_state(&mut self, state: KindState, out: &mut Vec<FeedOutput>) {
        self.state = state;
        out.push(FeedOutput::Change(ObservedChange::Kind(self.kind, state)));
    }

    fn report_progress(&self, progress: FeedProgress, out: &mut Vec<FeedOutput>) {
        out.push(FeedOutput::Change(ObservedChange::Progress(
            self.kind, progress,
        )));
    }

    fn show(&mut self, record: ObjectRecord, out: &mut Vec<FeedOutput>) {
        let version = record.meta.revision.number().unwrap_or_default();
        self.unlisted.remove(&record.meta.uid);
        self.shown.insert(record.meta.uid.clone(), version);
        let applied = ObservedChange::Applied(Arc::new(record));
        out.push(FeedOutput::Change(applied));
    }

    fn show_deleted(&mut self, record: ObjectRecord, out: &mut Vec<FeedOutput>) {
        self.unlisted.remove(&record.meta.uid);
        self.shown.remove(&record.meta.uid);
        let deleted = ObservedChange::Deleted(Arc::new(record));
        out.push(FeedOutput::Change(deleted));
    }

    /// Reports an object that exists and cannot be decoded. It does not count as missing.
    fn unreadable(&mut self, object: UnreadableObject, out: &mut Vec<FeedOutput>) {
        if let Some(uid) = &object.uid
            && let Some(version) = self.unlisted.remove(uid)
        {
            self.shown.insert(uid.clone(), version);
        }
        let name = object.name.clone().unwrap_or_default();
        if self.reported.len() < UNREADABLE_NAMES_MAX && self.reported.insert(name) {
            out.push(FeedOutput::Unreadable(object));
        }
    }

    fn watch_opened(&mut self, at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        self.lines = 0;
        self.open_failures = 0;
        self.retry.opened(at.elapsed);
        self.phase = FeedPhase::Watching;
        // After watches that ended at once, this watch has to show a line before the kind counts as recovered.
        if self.short_watches == 0 {
            self.recovered(out);
        }
        FeedAction::Read(WATCH_IDLE)
    }

    fn watch_line(&mut self, line: &[u8], at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        let Some(event) = read_event(self.kind, self.view, line) else {
            // The line may have been about any object, so the known objects may be outdated.
            return self.expired(at);
        };
        if !self.is_proven && self.repeats_position(&event) {
            return FeedAction::Read(self.proof_wait(at));
        }
        self.is_proven = true;
        self.lines += 1;
        self.silent = 0;
        self.is_blind = false;
        if let Some(revision) = event.revision()
            && !self.moves_to(revision)
        {
            self.is_suspect = true;
            return self.expired(at);
        }
        match event {
            WatchEvent::Applied(record) => self.show(record, out),
            WatchEvent::Deleted(record) => self.show_deleted(record, out),
            WatchEvent::Unreadable(object) => self.unreadable(object, out),
            WatchEvent::UnreadableEnd(object) => self.delete_unreadable(object, out),
            WatchEvent::Error { status } => return self.watch_error(status, at, out),
            WatchEvent::Bookmark { revision, .. } => {
                self.report_progress(FeedProgress::UpTo(revision), out);
            }
            WatchEvent::Unknown => {}
        }
        self.short_watches = 0;
        self.recovered(out);
        FeedAction::Read(WATCH_IDLE)
    }

    fn watch_ended(
        &mut self,
        end: WatchEnd,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        // A server that shuts down ends its watches early.
        let is_early = at.elapsed + EARLY_MAX < self.ends;
        self.is_proven &= end == WatchEnd::Clean && !is_early;
        let lived = self.since_start(at);
        if self.lines == 0 && lived < WATCH_SPACING {
            return self.ended_at_once(at, out);
        }
        self.short_watches = 0;
        match end {
            WatchEnd::Clean if is_early => {
                let wait = self.rng.duration(Duration::ZERO..RESUME_SPREAD);
                self.rest(wait, at)
            }
            WatchEnd::Clean => self.begin(at),
            WatchEnd::Broken => self.back_off(None, at),
            WatchEnd::Idle if self.lines > 0 => self.begin(at),
            WatchEnd::Idle => {
                // A server whose history ends before our version is silent as well.
                self.silent += 1;
                self.is_blind = true;
                if self.silent >= SILENT_MAX {
                    self.silent = 0;
                    self.forget_position();
                }
                self.begin(at)
            }
        }
    }

    /// A watch ended as soon as it began.
    fn ended_at_once(&mut self, at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        self.short_watches += 1;
        if self.short_watches > SHORT_WATCHES_MAX {
            self.degrade(KindState::Failing(at.now), out);
        }
        if self.short_watches >= OPEN_FAILURES_MAX {
            self.forget_position();
        }
        self.back_off(None, at)
    }

    /// Whether an event is a bookmark with the version that the watch began with.
    fn repeats_position(&self, event: &WatchEvent) -> bool {
        matches!(event, WatchEvent::Bookmark { revision, .. } if Some(revision) == self.position.as_ref())
    }

    /// How long a watch may still take to prove that the server has our version.
    fn proof_wait(&self, at: FeedTime) -> Duration {
        WATCH_IDLE.saturating_sub(self.since_start(at))
    }

    /// The time since the current watch was requested.
    fn since_start(&self, at: FeedTime) -> Duration {
        at.elapsed
            .saturating_sub(self.last_start.unwrap_or_default())
    }

    fn recovered(&mut self, out: &mut Vec<FeedOutput>) {
        if matches!(self.state, KindState::Failing(_) | KindState::Forbidden) {
            self.set_state(KindState::Synced, out);
        }
    }

    /// An object that cannot be decoded was deleted: listeners that know it get `Missing`.
    fn delete_unreadable(&mut self, object: UnreadableObject, out: &mut Vec<FeedOutput>) {
        if let Some(uid) = &object.uid
            && (self.shown.remove(uid).is_some() || self.unlisted.remove(uid).is_some())
        {
            let missing = ObservedChange::Missing(self.kind, uid.clone());
            out.push(FeedOutput::Change(missing));
        }
        self.unreadable(object, out);
    }

    fn watch_error(&mut self, status: u16, at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        match status {
            401 | 403 | 404 | 405 | 410 | 504 => self.refused(status, None, at, out),
            // Watch from the same version again, as client-go does.
            429 | 500 => self.back_off(None, at),
            _ => self.expired(at),
        }
    }

    /// Moves the position of the watch to a version. False: the version went back.
    fn moves_to(&mut self, revision: &Revision) -> bool {
        if matches!(revision, Revision::Odd(text) if text.is_empty()) {
            return true;
        }
        if self.goes_back(revision) {
            return false;
        }
        self.position = Some(revision.clone());
        true
    }
}

#[cfg(test)]
mod tests;
