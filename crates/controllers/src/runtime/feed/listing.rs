//! Lists all objects of a kind: by a watch that begins with them, or page by page.

use std::mem;

use super::super::controller::{FeedProgress, ObservedChange};
use super::super::kind::KindState;
use super::super::record::{ObjectRecord, Revision};
use super::wire::{ListPage, WatchEvent, read_event, read_page};
use super::{
    FeedAction, FeedOutput, FeedPhase, FeedTime, KindFeed, PAGE_LIMIT, PAGES_MAX,
    STREAM_BREAKS_MAX, STREAM_IDLE, WATCH_IDLE, WatchEnd,
};

/// A list in pages that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct PagedList {
    /// The token of the requested page; `None` for the first one.
    token: Option<Box<str>>,
    /// The version of the first page, from which the watch continues.
    revision: Option<Revision>,
    pages: u32,
    /// Whether all objects are requested at once, because the token of the last attempt expired.
    is_whole: bool,
    /// An earlier token. It is replaced at powers of two, so that a loop of any length repeats it at some time.
    landmark: Option<Box<str>>,
}

// === impl PagedList ===

impl PagedList {
    /// Whether `token` is a new one. A repeated token means that the server loops.
    fn leads_on(&mut self, token: &str) -> bool {
        self.pages += 1;
        if self.landmark.as_deref() == Some(token) || self.pages > PAGES_MAX {
            return false;
        }
        if self.pages.is_power_of_two() {
            self.landmark = Some(token.into());
        }
        true
    }
}

// === impl KindFeed ===

impl KindFeed {
    /// Marks all objects as not listed yet. The list removes the marks of the objects that it shows; objects that still
    /// have one at its end are missing. A list that does not end makes no object missing.
    pub(super) fn set_aside(&mut self) {
        self.unlisted.append(&mut self.shown);
    }

    pub(super) fn begin_list(&mut self) -> FeedAction {
        self.begin_paged(PagedList::default())
    }

    /// Lists all objects at once: the list takes longer than the server keeps its history. Only this list, as in
    /// client-go, because one answer with all objects may be too much for the server or for us.
    pub(super) fn begin_whole_list(&mut self) -> FeedAction {
        self.begin_paged(PagedList {
            is_whole: true,
            ..PagedList::default()
        })
    }

    fn begin_paged(&mut self, listing: PagedList) -> FeedAction {
        self.set_aside();
        let limit = self.limit(&listing);
        self.phase = FeedPhase::Listing(listing);
        FeedAction::List { limit, token: None }
    }

    /// The version of a list went back. The same list again shows whether a replica lagged or the store was restored.
    fn check(&mut self) -> FeedAction {
        self.is_suspect = true;
        self.retry.set_loss();
        self.begin_list()
    }

    /// Reports a list that is not the first one, before its objects are shown.
    fn relist_begins(&self, out: &mut Vec<FeedOutput>) {
        if self.was_listed {
            self.report_progress(FeedProgress::Relists, out);
        }
    }

    /// Whether a page other than the first was requested, of a list that is requested in pages.
    pub(super) fn has_token(&self) -> bool {
        matches!(&self.phase, FeedPhase::Listing(listing) if listing.token.is_some() && !listing.is_whole)
    }

    fn limit(&self, listing: &PagedList) -> Option<u32> {
        (self.pages && !listing.is_whole).then_some(PAGE_LIMIT)
    }

    pub(super) fn page(
        &mut self,
        bytes: &[u8],
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        let FeedPhase::Listing(mut listing) =
            mem::replace(&mut self.phase, FeedPhase::Resting(at.elapsed))
        else {
            return self.begin(at);
        };
        let Ok(page) = read_page(bytes) else {
            return self.fail(None, at, out);
        };
        if listing.revision.is_none() {
            if !page.revision.is_exact() {
                return self.fail(None, at, out);
            }
            if self.goes_back(&page.revision) {
                if !self.is_suspect {
                    return self.check();
                }
                // A version went back before, and this list is lower too: the store was restored from a backup.
                self.highest = page.revision.number();
                self.set_state(KindState::Frozen, out);
            }
            listing.revision = Some(page.revision.clone());
            self.relist_begins(out);
        }
        if !self.show_page(&page, out) {
            self.set_state(KindState::Frozen, out);
            return self.begin_list();
        }
        match (page.token, listing.revision.take()) {
            (None, Some(revision)) => {
                self.listed(revision, at, out);
                self.begin(at)
            }
            (Some(token), revision) if listing.leads_on(&token) => {
                listing.revision = revision;
                listing.token = Some(token.clone());
                let limit = self.limit(&listing);
                self.phase = FeedPhase::Listing(listing);
                FeedAction::List {
                    limit,
                    token: Some(token),
                }
            }
            _ => {
                self.pages = false;
                self.fail(None, at, out)
            }
        }
    }

    /// Shows the objects of a page. False: an object is back in an earlier version, although the version of the list did
    /// not go back. The store was restored with raised revisions, so listeners must forget the versions that they know.
    fn show_page(&mut self, page: &ListPage<'_>, out: &mut Vec<FeedOutput>) -> bool {
        for item in &page.items {
            match item.decode(self.kind, self.view) {
                Ok(record) if self.is_back_in_time(&record) => return false,
                Ok(record) => self.show(record, out),
                Err(object) => self.unreadable(object, out),
            }
        }
        true
    }

    /// Whether an object was shown in a later version before. A frozen kind takes every version.
    fn is_back_in_time(&self, record: &ObjectRecord) -> bool {
        let known = self.unlisted.get(&record.meta.uid);
        let known = known.copied().unwrap_or_default();
        self.state != KindState::Frozen && record.meta.revision.is_before(&Revision::Number(known))
    }

    /// A list is complete: objects that it did not show are missing.
    fn listed(&mut self, revision: Revision, at: FeedTime, out: &mut Vec<FeedOutput>) {
        for uid in mem::take(&mut self.unlisted).into_keys() {
            out.push(FeedOutput::Change(ObservedChange::Missing(self.kind, uid)));
        }
        self.report_progress(FeedProgress::UpTo(revision.clone()), out);
        self.was_listed = true;
        self.is_proven = true;
        self.position = Some(revision);
        self.is_suspect = false;
        self.silent = 0;
        self.open_failures = 0;
        self.short_watches = 0;
        self.stream_breaks = 0;
        self.retry.synced(at.elapsed);
        // Also if the kind was synced before, because a listener may have joined since.
        self.set_state(KindState::Synced, out);
    }

    pub(super) fn stream_line(
        &mut self,
        line: &[u8],
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        self.lines += 1;
        if self.lines == 1 {
            self.relist_begins(out);
        }
        match read_event(self.kind, self.view, line) {
            Some(WatchEvent::Applied(record)) => self.show(record, out),
            Some(WatchEvent::Deleted(record)) => self.show_deleted(record, out),
            Some(WatchEvent::Unreadable(object)) => self.unreadable(object, out),
            Some(WatchEvent::UnreadableEnd(object)) => self.delete_unreadable(object, out),
            Some(WatchEvent::Bookmark {
                revision,
                is_end: true,
            }) if revision.is_exact() => {
                if self.goes_back(&revision) {
                    return self.check();
                }
                self.listed(revision, at, out);
                self.phase = FeedPhase::Watching;
                return FeedAction::Read(WATCH_IDLE);
            }
            Some(WatchEvent::Bookmark { .. }) => {
                // A bookmark before the end of the list: the server does not support lists by watch.
                self.streams = false;
                return self.begin(at);
            }
            Some(WatchEvent::Error {
                status: status @ (401 | 403 | 404 | 405 | 410 | 429 | 504),
            }) => {
                return self.refused(status, None, at, out);
            }
            Some(WatchEvent::Error { .. }) => {
                self.streams = false;
                return self.begin(at);
            }
            Some(WatchEvent::Unknown) => {}
            None => return self.stream_ended(WatchEnd::Broken, at, out),
        }
        FeedAction::Read(STREAM_IDLE)
    }

    pub(super) fn stream_ended(
        &mut self,
        end: WatchEnd,
        at: FeedTime,
        out: &mut Vec<FeedOutput>,
    ) -> FeedAction {
        match end {
            WatchEnd::Clean | WatchEnd::Idle => {
                self.streams = false;
                self.begin(at)
            }
            WatchEnd::Broken => {
                self.stream_broke();
                self.fail(None, at, out)
            }
        }
    }

    pub(super) fn stream_broke(&mut self) {
        self.stream_breaks += 1;
        if self.stream_breaks >= STREAM_BREAKS_MAX {
            self.streams = false;
        }
    }
}
