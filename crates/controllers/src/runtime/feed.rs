//! The list and the watch of one kind, as a state machine without I/O.
//!
//! [`KindFeed::step`] takes what happened and returns what to request next; `task` sends requests and changes.
//! A feed first lists by a watch that begins with all objects, where the server has that, otherwise and later page by
//! page; then it follows the watch. It holds the uids it has shown, nothing else: what a complete new list does not show any more is
//! `Missing`, and an incomplete one says nothing about what it did not show. It does what client-go's reflector does
//! (1.36), and defines what that leaves open: both forms of 410, watches that end at once, silence, tokens that loop,
//! and resourceVersions that go back.
//!
//! - `task`: the I/O. `request`: list and watch requests. `wire`: what the server's bytes mean.
//! - `listing`: how a feed lists; `retry`: how it reacts to failures. Following a watch is in this file.

mod listing;
mod request;
mod retry;
mod task;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use caretaker_machinery::rng::Rng;
use jiff::Timestamp;

use super::controller::ObservedChange;
use super::kind::{KindId, KindState};
use super::record::{ObjectRecord, RecordView, Revision, Uid, UnreadableObject};
use listing::PagedList;
use retry::FeedBackoff;
use wire::{WatchEvent, read_event};

pub(crate) use task::{FeedCommand, FeedSetup, FeedTask};

/// Objects asked for at once, as client-go does.
const PAGE_LIMIT: u32 = 500;
/// Pages of one list: ten million objects. A server that has more pages than that is making them up.
const PAGES_MAX: u32 = 20_000;
/// How long a watch is asked to last; spread, so that not all of them end together.
const WATCH_LENGTH: std::ops::Range<Duration> = Duration::from_secs(300)..Duration::from_secs(600);
/// Between the starts of two watches, however short the first one was.
const WATCH_SPACING: Duration = Duration::from_secs(1);
/// A watch without event and bookmark for so long is dead: servers send a bookmark every minute.
const WATCH_IDLE: Duration = Duration::from_secs(90);
/// A list by watch without a line for so long comes from a server that does not know how it should end.
const STREAM_IDLE: Duration = Duration::from_secs(10);
/// Lists by watch that may break before the kind is listed page by page.
const STREAM_BREAKS_MAX: u32 = 3;
/// Watches in a row that may be silent, or fail to open, before a new list finds out why.
const SILENT_MAX: u32 = 2;
/// See [`SILENT_MAX`].
const OPEN_FAILURES_MAX: u32 = 5;
/// Watches in a row that may end as soon as they begin before the kind counts as failing.
const USELESS_MAX: u32 = 1;
/// Names of unreadable objects that are remembered, so that each is reported once.
const UNREADABLE_NAMES_MAX: usize = 1_000;

/// The list and the watch of one kind.
pub struct KindFeed {
    kind: KindId,
    view: RecordView,
    rng: Rng,
    state: KindState,
    phase: FeedPhase,
    /// Where to watch from; nothing if a list has to come first.
    position: Option<Revision>,
    /// The highest version that any list, event or bookmark of the collection had.
    highest: Option<u64>,
    /// A version went back, and a list from the quorum has to tell why.
    ///
    /// DEVIATION(restored-store): upstream does not look. What it learned before a restore stays in its graph.
    is_suspect: bool,
    /// What was shown and not taken back.
    shown: BTreeSet<Uid>,
    /// While listing: what was shown earlier and has not come up yet.
    unlisted: BTreeSet<Uid>,
    /// Whether lists by watch are worth trying.
    streams: bool,
    /// Whether lists come in pages.
    pages: bool,
    stream_breaks: u32,
    retry: FeedBackoff,
    /// When the last watch was asked for.
    last_start: Option<Duration>,
    /// Lines of the current watch.
    lines: u64,
    silent: u32,
    /// Watches in a row that could not be opened.
    open_failures: u32,
    /// Watches in a row that ended as soon as they began.
    useless: u32,
    /// Names of unreadable objects that have been reported.
    reported: BTreeSet<String>,
}

/// What happened to a feed.
#[derive(Debug, Clone, Copy)]
pub enum FeedInput<'a> {
    /// The wait is over; the first input of all.
    Due,
    /// List again: there is a new listener, or the objects are wanted in another form.
    Again,
    /// A page of a list came.
    Page(&'a [u8]),
    /// A request was refused.
    Refused {
        status: u16,
        /// How long the server wants not to be asked.
        retry_after: Option<Duration>,
    },
    /// A request was not answered, or not to its end.
    Unanswered,
    /// A watch was opened.
    Opened,
    /// A line of a watch came.
    Line(&'a [u8]),
    /// A line of a watch was too long to be taken.
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
    /// Nothing came for too long.
    Idle,
}

/// When something happened.
#[derive(Debug, Clone, Copy)]
pub struct FeedTime {
    /// Transport time since the feed began.
    pub elapsed: Duration,
    /// Domain time.
    pub now: Timestamp,
}

/// What a feed asks its task to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedAction {
    /// Nothing for this time.
    Wait(Duration),
    /// Ask for a page of the list.
    List {
        /// The most objects to ask for; all if there is none.
        limit: Option<u32>,
        /// Where the last page ended.
        token: Option<Box<str>>,
    },
    /// Open a watch.
    Watch {
        /// After which version; nothing asks for all objects first.
        after: Option<Revision>,
        /// How long it shall last.
        length: Duration,
    },
    /// Take the next line; nothing within this time means that the watch is dead.
    Read(Duration),
}

/// What a step of a feed found out.
#[derive(Debug, Clone, PartialEq)]
pub enum FeedOutput {
    /// A change of the kind or its objects.
    Change(ObservedChange),
    /// The server does not know the kind: discovery should look.
    NotServed,
    /// An object, named if it could be, is not readable. Reported once per name.
    Unreadable(UnreadableObject),
    /// A line was skipped because of its length.
    Overlong,
}

/// What the feed is waiting for.
enum FeedPhase {
    /// The end of a wait, at this time.
    Resting(Duration),
    /// The answer to a list by watch.
    OpeningStream,
    /// The rest of the objects of a list by watch.
    Streaming,
    /// A page.
    Listing(PagedList),
    /// The answer to a watch.
    OpeningWatch,
    /// The next event.
    Watching,
}

// === impl KindFeed ===

impl KindFeed {
    /// A feed that has not asked for anything. Its first input is [`FeedInput::Due`].
    #[must_use]
    pub fn new(kind: KindId, view: RecordView, rng: Rng, now: Timestamp) -> Self {
        Self {
            kind,
            view,
            rng,
            state: KindState::Syncing(now),
            phase: FeedPhase::Resting(Duration::ZERO),
            position: None,
            highest: None,
            is_suspect: false,
            shown: BTreeSet::new(),
            unlisted: BTreeSet::new(),
            streams: true,
            pages: true,
            stream_breaks: 0,
            retry: FeedBackoff::default(),
            last_start: None,
            lines: 0,
            silent: 0,
            open_failures: 0,
            useless: 0,
            reported: BTreeSet::new(),
        }
    }

    /// How well the kind is known.
    /// The state of the kind, as listeners know it.
    #[must_use]
    pub fn state(&self) -> KindState {
        self.state
    }

    /// How many objects have been shown and not taken back.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shown.len() + self.unlisted.len()
    }

    /// Whether no object is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a watch is open and its events are shown as they come.
    pub(crate) fn is_watching(&self) -> bool {
        matches!(self.phase, FeedPhase::Watching)
    }

    /// Objects are wanted in another form from now on. [`FeedInput::Again`] must follow.
    pub(crate) fn set_view(&mut self, view: RecordView) {
        self.view = view;
    }

    /// Takes note of what happened, adds what follows from it to `out`, and returns what to do next.
    ///
    /// After an input that does not fit what it is waiting for, the feed pauses and starts over.
    pub fn step(
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
            (FeedPhase::Streaming | FeedPhase::Watching, FeedInput::Overlong) => {
                out.push(FeedOutput::Overlong);
                self.lines += 1;
                FeedAction::Read(self.idle())
            }
            (FeedPhase::Listing(_), FeedInput::Page(page)) => self.page(page, at, out),
            (
                _,
                FeedInput::Refused {
                    status,
                    retry_after,
                },
            ) => self.refused(status, retry_after, at, out),
            (_, FeedInput::Unanswered) => self.unanswered(at, out),
            _ => self.rest(WATCH_SPACING, at),
        }
    }

    /// Begins with a list or a watch.
    fn begin(&mut self, at: FeedTime) -> FeedAction {
        // A page tells its version before its objects, a list by watch after them: with a version to compare it with,
        // the objects of a store that was restored must not be shown before the kind is frozen.
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
        FeedAction::Watch {
            after: self.position.clone(),
            length: self.rng.duration(WATCH_LENGTH),
        }
    }

    /// A listener needs everything once more. A backoff is waited to its end.
    fn again(&mut self, at: FeedTime) -> FeedAction {
        self.position = None;
        self.open_failures = 0;
        self.useless = 0;
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

    /// Whether a version is lower than one that was seen already. Then it is not taken note of.
    fn goes_back(&mut self, revision: &Revision) -> bool {
        let Revision::Number(number) = *revision else {
            return false;
        };
        match self.highest {
            Some(highest) if number < highest => true,
            _ => {
                self.highest = Some(number);
                false
            }
        }
    }

    fn set_state(&mut self, state: KindState, out: &mut Vec<FeedOutput>) {
        self.state = state;
        out.push(FeedOutput::Change(ObservedChange::Kind(self.kind, state)));
    }

    fn show(&mut self, record: ObjectRecord, out: &mut Vec<FeedOutput>) {
        self.unlisted.remove(&record.meta.uid);
        self.shown.insert(record.meta.uid.clone());
        out.push(FeedOutput::Change(ObservedChange::Applied(Arc::new(
            record,
        ))));
    }

    fn take_back(&mut self, record: ObjectRecord, out: &mut Vec<FeedOutput>) {
        self.unlisted.remove(&record.meta.uid);
        self.shown.remove(&record.meta.uid);
        out.push(FeedOutput::Change(ObservedChange::Deleted(Arc::new(
            record,
        ))));
    }

    /// An object exists and cannot be read: it is not missing.
    fn unreadable(&mut self, object: UnreadableObject, out: &mut Vec<FeedOutput>) {
        if let Some(uid) = &object.uid
            && self.unlisted.remove(uid)
        {
            self.shown.insert(uid.clone());
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
        // After watches that came to nothing, this one has to come to something first.
        if self.useless == 0 {
            self.recovered(out);
        }
        FeedAction::Read(WATCH_IDLE)
    }

    fn watch_line(&mut self, line: &[u8], at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        self.lines += 1;
        self.silent = 0;
        let Some(event) = read_event(self.kind, self.view, line) else {
            // The line may have been about any object, so what is known now may be wrong.
            return self.expired(at);
        };
        if let Some(revision) = event.revision()
            && !self.moves_to(revision)
        {
            self.is_suspect = true;
            return self.expired(at);
        }
        match event {
            WatchEvent::Applied(record) => self.show(record, out),
            WatchEvent::Deleted(record) => self.take_back(record, out),
            WatchEvent::Unreadable(object) => self.unreadable(object, out),
            WatchEvent::UnreadableEnd(object) => self.lose(object, out),
            WatchEvent::Error { status } => return self.watch_error(status, at, out),
            WatchEvent::Bookmark { .. } | WatchEvent::Unknown => {}
        }
        self.useless = 0;
        self.recovered(out);
        FeedAction::Read(WATCH_IDLE)
    }

    fn watch_ended(
        &mut self,
        end: WatchEnd,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        let lived = self
            .last_start
            .map_or(at.elapsed, |start| at.elapsed.saturating_sub(start));
        if self.lines == 0 && lived < WATCH_SPACING {
            return self.came_to_nothing(at, out);
        }
        self.useless = 0;
        match end {
            WatchEnd::Clean => self.begin(at),
            WatchEnd::Broken => self.back_off(None, at),
            WatchEnd::Idle if self.lines > 0 => self.begin(at),
            WatchEnd::Idle => {
                // A server whose history ends before our version is silent, too.
                self.silent += 1;
                if self.silent >= SILENT_MAX {
                    self.silent = 0;
                    self.forget_position();
                }
                self.begin(at)
            }
        }
    }

    /// A watch ended as soon as it began.
    fn came_to_nothing(&mut self, at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        self.useless += 1;
        if self.useless > USELESS_MAX {
            self.trouble(KindState::Failing(at.now), out);
        }
        if self.useless >= OPEN_FAILURES_MAX {
            self.forget_position();
        }
        self.back_off(None, at)
    }

    fn recovered(&mut self, out: &mut Vec<FeedOutput>) {
        if matches!(self.state, KindState::Failing(_) | KindState::Forbidden) {
            self.set_state(KindState::Synced, out);
        }
    }

    /// An object that cannot be read was deleted: listeners that know it learn that it is missing.
    fn lose(&mut self, object: UnreadableObject, out: &mut Vec<FeedOutput>) {
        if let Some(uid) = &object.uid
            && (self.shown.remove(uid) || self.unlisted.remove(uid))
        {
            out.push(FeedOutput::Change(ObservedChange::Missing(
                self.kind,
                uid.clone(),
            )));
        }
        self.unreadable(object, out);
    }

    fn watch_error(&mut self, status: u16, at: FeedTime, out: &mut Vec<FeedOutput>) -> FeedAction {
        match status {
            401 | 403 | 404 | 405 | 410 | 504 => self.refused(status, None, at, out),
            // From the same place once more, as client-go does.
            429 | 500 => self.back_off(None, at),
            _ => self.expired(at),
        }
    }

    /// Takes note of how far the watch has come. False: it went back.
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

    fn idle(&self) -> Duration {
        match self.phase {
            FeedPhase::Streaming => STREAM_IDLE,
            _ => WATCH_IDLE,
        }
    }
}

#[cfg(test)]
mod tests;
