//! How a feed follows a watch.

use super::super::controller::Change;
use super::super::kind::KindState;
use super::super::record::{Revision, Unreadable};
use super::wire::{Event, read_event};
use super::{
    End, Feed, Moment, Next, OPEN_FAILURES_MAX, Output, Phase, SILENT_MAX, USELESS_MAX, WATCH_IDLE,
    WATCH_SPACING,
};

// === impl Feed ===

impl Feed {
    pub(super) fn watch_opened(&mut self, at: Moment, out: &mut Vec<Output>) -> Next {
        self.lines = 0;
        self.open_failures = 0;
        self.retry.opened(at.elapsed);
        self.phase = Phase::Watching;
        // After watches that came to nothing, this one has to come to something first.
        if self.useless == 0 {
            self.recovered(out);
        }
        Next::Read(WATCH_IDLE)
    }

    pub(super) fn watch_line(&mut self, line: &[u8], at: Moment, out: &mut Vec<Output>) -> Next {
        self.lines += 1;
        self.silent = 0;
        let Some(event) = read_event(self.kind, self.view, line) else {
            // Nobody knows what this line said, so what is known now is not what it should be.
            return self.expired(at);
        };
        if let Some(revision) = event.revision()
            && !self.moves_to(revision)
        {
            self.is_suspect = true;
            return self.expired(at);
        }
        match event {
            Event::Applied(record) => self.show(record, out),
            Event::Deleted(record) => self.take_back(record, out),
            Event::Unreadable(object) => self.unreadable(object, out),
            Event::UnreadableEnd(object) => self.lose(object, out),
            Event::Error { status } => return self.watch_error(status, at, out),
            Event::Bookmark { .. } | Event::Unknown => {}
        }
        self.useless = 0;
        self.recovered(out);
        Next::Read(WATCH_IDLE)
    }

    pub(super) fn watch_ended(&mut self, end: End, at: Moment, out: &mut Vec<Output>) -> Next {
        let lived = self
            .last_start
            .map_or(at.elapsed, |start| at.elapsed.saturating_sub(start));
        if self.lines == 0 && lived < WATCH_SPACING {
            return self.came_to_nothing(at, out);
        }
        self.useless = 0;
        match end {
            End::Clean => self.begin(at),
            End::Broken => self.back_off(None, at),
            End::Idle if self.lines > 0 => self.begin(at),
            End::Idle => {
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
    fn came_to_nothing(&mut self, at: Moment, out: &mut Vec<Output>) -> Next {
        self.useless += 1;
        if self.useless > USELESS_MAX {
            self.trouble(KindState::Failing(at.now), out);
        }
        if self.useless >= OPEN_FAILURES_MAX {
            self.forget_position();
        }
        self.back_off(None, at)
    }

    fn recovered(&mut self, out: &mut Vec<Output>) {
        if matches!(self.state, KindState::Failing(_) | KindState::Forbidden) {
            self.set_state(KindState::Synced, out);
        }
    }

    /// An object went that could not be read: whoever knows it learns that it is not there any more.
    pub(super) fn lose(&mut self, object: Unreadable, out: &mut Vec<Output>) {
        if let Some(uid) = &object.uid
            && (self.shown.remove(uid) || self.unlisted.remove(uid))
        {
            out.push(Output::Change(Change::Missing(self.kind, uid.clone())));
        }
        self.unreadable(object, out);
    }

    fn watch_error(&mut self, status: u16, at: Moment, out: &mut Vec<Output>) -> Next {
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
}
