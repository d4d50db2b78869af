mod anything;
mod listing;
mod objects;
mod trouble;
mod versions;
mod watching;

use serde_json::{Value, json};

use super::*;

const KIND: KindId = KindId(1);

/// The name of a fault, and the inputs that it causes.
type FeedCase = (&'static str, fn(&mut FeedScript));

/// A feed with a clock, and its outputs since the last check.
struct FeedScript {
    feed: KindFeed,
    elapsed: Duration,
    next: FeedAction,
    said: Vec<String>,
    progress: Vec<FeedProgress>,
}

impl FeedScript {
    fn new() -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let feed = KindFeed::new(KIND, RecordView::Metadata, Rng::seeded(7), now);
        let mut script = Self {
            feed,
            elapsed: Duration::ZERO,
            next: FeedAction::Wait(Duration::ZERO),
            said: Vec::new(),
            progress: Vec::new(),
        };
        script.put(FeedInput::Due);
        script
    }

    /// A feed that watches from version 10 and has shown `a` and `b`.
    fn watching() -> Self {
        let mut script = Self::new();
        script.put(FeedInput::Opened);
        script.line(&event("ADDED", "a", 3));
        script.line(&event("ADDED", "b", 2));
        script.line(&end(10));
        assert_eq!(script.said(), ["applied a@3", "applied b@2", "synced"]);
        assert_eq!(script.next, FeedAction::Read(WATCH_IDLE));
        script
    }

    /// The same, but on a server that lists only by pages.
    fn watching_by_pages() -> Self {
        let mut script = Self::new();
        script.refuse(422);
        script.page(&page(10, "", &[("a", 3), ("b", 2)]));
        script.pass_waits();
        script.put(FeedInput::Opened);
        assert_eq!(script.said(), ["applied a@3", "applied b@2", "synced"]);
        script
    }

    fn put(&mut self, input: FeedInput<'_>) {
        let at = FeedTime {
            elapsed: self.elapsed,
            now: Timestamp::UNIX_EPOCH + self.elapsed,
        };
        let mut out = Vec::new();
        self.next = self.feed.step(input, at, &mut out);
        for output in &out {
            match output {
                FeedOutput::Change(ObservedChange::Progress(_, progress)) => {
                    self.progress.push(progress.clone());
                }
                output => self.said.push(render(output)),
            }
        }
    }

    fn line(&mut self, line: &Value) {
        self.put(FeedInput::Line(line.to_string().as_bytes()));
    }

    fn page(&mut self, page: &Value) {
        assert!(
            matches!(self.next, FeedAction::List { .. }),
            "{:?}",
            self.next
        );
        self.put(FeedInput::Page(page.to_string().as_bytes()));
    }

    fn refuse(&mut self, status: u16) {
        self.put(FeedInput::Refused(status, None));
    }

    fn end(&mut self, end: WatchEnd) {
        self.put(FeedInput::Ended(end));
    }

    /// Waits as long as the feed wants, and says how long that was.
    fn pass_waits(&mut self) -> Duration {
        let from = self.elapsed;
        while let FeedAction::Wait(wait) = self.next {
            self.elapsed += wait;
            self.put(FeedInput::Due);
        }
        self.elapsed - from
    }

    fn pass(&mut self, seconds: u64) {
        self.elapsed += Duration::from_secs(seconds);
    }

    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn is_listing_by_watch(&self) -> bool {
        matches!(self.next, FeedAction::Watch { after: None, .. })
    }

    fn is_listing_by_page(&self) -> bool {
        self.next
            == (FeedAction::List {
                limit: Some(500),
                token: None,
            })
    }

    fn watches_after(&self) -> Option<String> {
        match &self.next {
            FeedAction::Watch { after, .. } => after.as_ref().map(ToString::to_string),
            _ => None,
        }
    }
}

fn render(output: &FeedOutput) -> String {
    let record = |record: &ObjectRecord| format!("{}@{}", record.meta.name, record.meta.revision);
    match output {
        FeedOutput::Change(ObservedChange::Applied(object)) => {
            format!("applied {}", record(object))
        }
        FeedOutput::Change(ObservedChange::Deleted(object)) => {
            format!("deleted {}", record(object))
        }
        FeedOutput::Change(ObservedChange::Missing(_, uid)) => format!("missing {uid}"),
        FeedOutput::Change(ObservedChange::Kind(_, state)) => match state {
            KindState::Failing(since) => format!("failing since {}", since.as_second()),
            KindState::Syncing(_) => "syncing".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        },
        FeedOutput::Change(ObservedChange::Catalog(_)) => "catalog".to_owned(),
        FeedOutput::Change(ObservedChange::Progress(_, progress)) => format!("{progress:?}"),
        FeedOutput::NotServed => "not served".to_owned(),
        FeedOutput::Unreadable(object) => {
            format!("unreadable {}", object.name.as_deref().unwrap_or("?"))
        }
        FeedOutput::Overlong => "overlong".to_owned(),
    }
}

fn object(name: &str, revision: u64) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": revision.to_string()}})
}

fn event(event: &str, name: &str, revision: u64) -> Value {
    json!({"type": event, "object": object(name, revision)})
}

fn bookmark(revision: u64) -> Value {
    json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": revision.to_string()}}})
}

fn end(revision: u64) -> Value {
    let mut line = bookmark(revision);
    line["object"]["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    line
}

fn error(code: u16, reason: &str) -> Value {
    json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason}})
}

fn page(revision: u64, token: &str, items: &[(&str, u64)]) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|(name, revision)| object(name, *revision))
        .collect();
    let metadata = json!({"resourceVersion": revision.to_string(), "continue": token});
    json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items})
}
