use serde_json::{Value, json};

use super::*;

const KIND: KindId = KindId(1);

/// A fault, and how a feed experiences it.
type Case = (&'static str, fn(&mut Script));

/// A feed with a clock, and what it said since somebody last listened.
struct Script {
    feed: Feed,
    elapsed: Duration,
    next: Next,
    said: Vec<String>,
}

impl Script {
    fn new() -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let feed = Feed::new(KIND, View::Metadata, Rng::seeded(7), now);
        let mut script = Self {
            feed,
            elapsed: Duration::ZERO,
            next: Next::Wait(Duration::ZERO),
            said: Vec::new(),
        };
        script.put(Input::Due);
        script
    }

    /// A feed that watches from version 10 and has shown `a` and `b`.
    fn watching() -> Self {
        let mut script = Self::new();
        script.put(Input::Opened);
        script.line(&event("ADDED", "a", 3));
        script.line(&event("ADDED", "b", 2));
        script.line(&end(10));
        assert_eq!(script.said(), ["applied a@3", "applied b@2", "synced"]);
        assert_eq!(script.next, Next::Read(WATCH_IDLE));
        script
    }

    /// The same, but on a server that lists only by pages.
    fn watching_by_pages() -> Self {
        let mut script = Self::new();
        script.refuse(422);
        script.page(&page(10, "", &[("a", 3), ("b", 2)]));
        script.pass_waits();
        script.put(Input::Opened);
        assert_eq!(script.said(), ["applied a@3", "applied b@2", "synced"]);
        script
    }

    fn put(&mut self, input: Input<'_>) {
        let at = Moment {
            elapsed: self.elapsed,
            now: Timestamp::UNIX_EPOCH + self.elapsed,
        };
        let mut out = Vec::new();
        self.next = self.feed.step(input, at, &mut out);
        self.said.extend(out.iter().map(render));
    }

    fn line(&mut self, line: &Value) {
        self.put(Input::Line(line.to_string().as_bytes()));
    }

    fn page(&mut self, page: &Value) {
        assert!(matches!(self.next, Next::List { .. }), "{:?}", self.next);
        self.put(Input::Page(page.to_string().as_bytes()));
    }

    fn refuse(&mut self, status: u16) {
        self.put(Input::Refused {
            status,
            retry_after: None,
        });
    }

    fn end(&mut self, end: End) {
        self.put(Input::Ended(end));
    }

    /// Waits as long as the feed wants, and says how long that was.
    fn pass_waits(&mut self) -> Duration {
        let from = self.elapsed;
        while let Next::Wait(wait) = self.next {
            self.elapsed += wait;
            self.put(Input::Due);
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
        matches!(self.next, Next::Watch { after: None, .. })
    }

    fn is_listing_by_page(&self) -> bool {
        self.next
            == (Next::List {
                limit: Some(500),
                token: None,
            })
    }

    fn watches_after(&self) -> Option<String> {
        match &self.next {
            Next::Watch { after, .. } => after.as_ref().map(ToString::to_string),
            _ => None,
        }
    }
}

fn render(output: &Output) -> String {
    let record = |record: &Record| format!("{}@{}", record.meta.name, record.meta.revision);
    match output {
        Output::Change(Change::Applied(object)) => format!("applied {}", record(object)),
        Output::Change(Change::Deleted(object)) => format!("deleted {}", record(object)),
        Output::Change(Change::Missing(_, uid)) => format!("missing {uid}"),
        Output::Change(Change::Kind(_, state)) => match state {
            KindState::Failing(since) => format!("failing since {}", since.as_second()),
            KindState::Syncing(_) => "syncing".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        },
        Output::Change(Change::Catalog(_)) => "catalog".to_owned(),
        Output::NotServed => "not served".to_owned(),
        Output::Unreadable(object) => {
            format!("unreadable {}", object.name.as_deref().unwrap_or("?"))
        }
        Output::Overlong => "overlong".to_owned(),
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

#[test]
fn a_list_by_watch_turns_into_the_watch() {
    let mut script = Script::new();
    assert!(script.is_listing_by_watch());
    script.put(Input::Opened);
    assert_eq!(script.next, Next::Read(STREAM_IDLE));
    script.line(&event("ADDED", "a", 7));
    script.line(&event("ADDED", "b", 3));
    // A server that is behind sends what happens meanwhile before the end.
    script.line(&event("DELETED", "a", 9));
    assert_eq!(
        script.feed.state(),
        KindState::Syncing(Timestamp::UNIX_EPOCH)
    );
    script.line(&end(10));
    script.line(&event("MODIFIED", "b", 11));
    script.line(&event("DELETED", "b", 12));
    script.line(&event("DELETED", "stranger", 13));
    let said = [
        "applied a@7",
        "applied b@3",
        "deleted a@9",
        "synced",
        "applied b@11",
        "deleted b@12",
        "deleted stranger@13",
    ];
    assert_eq!(script.said(), said);
    assert!(script.feed.is_empty());
    script.line(&bookmark(20));
    script.pass(400);
    script.end(End::Clean);
    assert_eq!(script.watches_after().as_deref(), Some("20"));
    assert!(script.said().is_empty());
}

#[test]
fn watches_are_asked_to_last_five_to_ten_minutes() {
    let mut lengths = BTreeSet::new();
    let mut script = Script::watching();
    for _ in 0..20 {
        script.pass(400);
        script.end(End::Clean);
        let Next::Watch { length, .. } = script.next else {
            panic!("{:?}", script.next);
        };
        assert!(WATCH_LENGTH.contains(&length));
        lengths.insert(length.as_secs());
        script.put(Input::Opened);
    }
    assert!(lengths.len() > 10, "{lengths:?}");
}

#[test]
fn a_server_that_cannot_list_by_watch_is_asked_for_pages() {
    for status in [400, 406, 415, 422] {
        let mut script = Script::new();
        script.refuse(status);
        assert!(script.is_listing_by_page(), "{status}");
        assert!(script.said().is_empty());
        script.page(&page(10, "t", &[("a", 3)]));
        assert_eq!(
            script.next,
            Next::List {
                limit: Some(500),
                token: Some("t".into())
            }
        );
        script.page(&page(10, "", &[("b", 4)]));
        assert_eq!(script.said(), ["applied a@3", "applied b@4", "synced"]);
        script.pass_waits();
        assert_eq!(script.watches_after().as_deref(), Some("10"));
        // For good: the next list comes in pages as well.
        script.refuse(410);
        assert!(script.is_listing_by_page());
    }
}

#[test]
fn a_server_that_sends_no_end_is_asked_for_pages() {
    let table: [Case; 5] = [
        ("silence", |script| script.end(End::Idle)),
        ("the end of the watch", |script| script.end(End::Clean)),
        ("a bookmark that is no end", |script| {
            script.line(&bookmark(9));
        }),
        ("an end without version", |script| {
            let mut line = end(0);
            line["object"]["metadata"]["resourceVersion"] = Value::Null;
            script.line(&line);
        }),
        ("an error of its own", |script| {
            script.line(&error(500, "InternalError"));
        }),
    ];
    for (what, happens) in table {
        let mut script = Script::new();
        script.put(Input::Opened);
        script.line(&event("ADDED", "a", 3));
        script.line(&event("ADDED", "b", 4));
        happens(&mut script);
        assert!(script.is_listing_by_page(), "{what}: {:?}", script.next);
        script.page(&page(10, "", &[("a", 3)]));
        assert_eq!(
            script.said(),
            [
                "applied a@3",
                "applied b@4",
                "applied a@3",
                "missing uid-b",
                "synced"
            ]
        );
    }
}

#[test]
fn a_list_by_watch_that_breaks_thrice_is_replaced_by_pages() {
    let mut script = Script::new();
    for _ in 0..3 {
        assert!(script.is_listing_by_watch());
        script.put(Input::Opened);
        script.line(&event("ADDED", "a", 3));
        script.end(End::Broken);
        assert!(script.pass_waits() >= Duration::from_millis(800));
    }
    assert!(script.is_listing_by_page());
    assert_eq!(
        script.said(),
        [
            "applied a@3",
            "failing since 0",
            "applied a@3",
            "applied a@3"
        ]
    );
}

/// A6: 410 in either form, and the 504 of a version that is too large.
#[test]
fn what_is_not_in_the_servers_history_is_listed_anew() {
    let table: [Case; 6] = [
        ("410 in the stream", |script| {
            script.line(&error(410, "Expired"));
        }),
        ("410 without its number", |script| {
            script.line(&error(0, "Gone"));
        }),
        ("504 in the stream", |script| {
            script.line(&error(504, "Timeout"));
        }),
        ("a line that is no JSON", |script| {
            script.put(Input::Line(b"{\"type\":\"ADD"));
        }),
        ("410 as a status", |script| {
            script.end(End::Clean);
            script.refuse(410);
        }),
        ("504 as a status", |script| {
            script.end(End::Clean);
            script.refuse(504);
        }),
    ];
    for (what, happens) in table {
        for mut script in [Script::watching(), Script::watching_by_pages()] {
            script.line(&event("ADDED", "c", 11));
            script.pass(2);
            happens(&mut script);
            script.said();
            script.pass_waits();
            if script.is_listing_by_watch() {
                script.put(Input::Opened);
                script.line(&event("ADDED", "b", 2));
                script.line(&event("ADDED", "a", 12));
                script.line(&end(20));
            } else {
                script.page(&page(20, "", &[("b", 2), ("a", 12)]));
            }
            let said = script.said();
            assert_eq!(
                said,
                ["applied b@2", "applied a@12", "missing uid-c", "synced"],
                "{what}"
            );
        }
    }
}

#[test]
fn a_storm_of_410_slows_down() {
    let mut script = Script::watching_by_pages();
    let mut waits = Vec::new();
    for _ in 0..8 {
        script.line(&error(410, "Expired"));
        waits.push(script.pass_waits());
        script.page(&page(20, "", &[("a", 3)]));
        script.pass_waits();
        script.put(Input::Opened);
    }
    assert_eq!(waits[0], Duration::ZERO);
    assert!(waits[7] >= Duration::from_secs(15), "{waits:?}");
    // Two good minutes later it is as if nothing had been.
    script.pass(130);
    script.line(&error(410, "Expired"));
    assert!(script.is_listing_by_page());
}

/// A14: watches that end as soon as they begin are no hot loop.
#[test]
fn short_watches_are_at_least_a_second_apart() {
    let mut script = Script::watching();
    for revision in 11..20 {
        script.line(&event("MODIFIED", "a", revision));
        script.end(End::Clean);
        let from = script.elapsed;
        script.pass_waits();
        assert_eq!(script.elapsed - from, WATCH_SPACING);
        script.put(Input::Opened);
    }
    assert!(!script.said().contains(&"failing since 9".to_owned()));
}

/// A8: a proxy that answers everything with 200 and a page of its own.
#[test]
fn watches_that_come_to_nothing_make_the_kind_fail_and_lead_to_a_list() {
    for end in [End::Clean, End::Broken] {
        let mut script = Script::watching();
        script.pass(400);
        script.end(End::Clean);
        for _ in 0..4 {
            script.put(Input::Opened);
            script.end(end);
            script.pass_waits();
            assert_eq!(script.watches_after().as_deref(), Some("10"));
        }
        let said = script.said();
        assert!(
            said.len() == 1 && said[0].starts_with("failing since 40"),
            "{said:?}"
        );
        // One line, and all is well.
        script.put(Input::Opened);
        script.line(&bookmark(11));
        assert_eq!(script.said(), ["synced"]);
        script.pass(100);
        script.end(End::Clean);
        for _ in 0..5 {
            script.put(Input::Opened);
            script.end(end);
            script.pass_waits();
        }
        assert!(script.is_listing_by_page());
    }
}

#[test]
fn silence_is_answered_with_a_new_watch_and_then_with_a_list() {
    let mut script = Script::watching();
    for _ in 0..3 {
        // A watch that said something is simply continued.
        script.line(&bookmark(12));
        script.pass(90);
        script.end(End::Idle);
        assert_eq!(script.watches_after().as_deref(), Some("12"));
        script.put(Input::Opened);
    }
    script.pass(90);
    script.end(End::Idle);
    assert_eq!(script.watches_after().as_deref(), Some("12"));
    script.put(Input::Opened);
    script.pass(90);
    script.end(End::Idle);
    assert!(script.is_listing_by_page());
}

/// A9: kinds that are forbidden, granted later, revoked later.
#[test]
fn a_forbidden_kind_says_so_and_is_asked_for_slowly() {
    for status in [401, 403, 405] {
        let mut script = Script::new();
        for _ in 0..6 {
            script.refuse(status);
            script.pass_waits();
        }
        assert_eq!(script.said(), ["forbidden"]);
        script.refuse(status);
        assert!(script.pass_waits() >= Duration::from_secs(15));
        script.put(Input::Opened);
        script.line(&end(10));
        assert_eq!(script.said(), ["synced"]);

        script.pass(400);
        script.end(End::Clean);
        script.refuse(status);
        assert_eq!(script.said(), ["forbidden"]);
        script.pass_waits();
        assert_eq!(script.watches_after().as_deref(), Some("10"));
        script.put(Input::Opened);
        assert_eq!(script.said(), ["synced"]);
        script.line(&error(status, "Forbidden"));
        assert_eq!(script.said(), ["forbidden"]);

        let mut script = Script::new();
        script.refuse(422);
        script.refuse(status);
        assert_eq!(script.said(), ["forbidden"]);
    }
}

#[test]
fn a_failing_kind_says_since_when_and_goes_on_where_it_was() {
    for status in [0, 429, 500, 502, 503] {
        let mut script = Script::watching();
        script.pass(400);
        script.end(End::Clean);
        for _ in 0..4 {
            match status {
                0 => script.put(Input::Unanswered),
                status => script.refuse(status),
            }
            script.pass_waits();
            assert_eq!(script.watches_after().as_deref(), Some("10"), "{status}");
        }
        assert_eq!(script.said(), ["failing since 400"]);
        script.put(Input::Opened);
        assert_eq!(script.said(), ["synced"]);
    }
}

#[test]
fn a_watch_that_cannot_be_opened_again_and_again_is_replaced_by_a_list() {
    let mut script = Script::watching();
    script.pass(400);
    script.end(End::Clean);
    for _ in 0..5 {
        script.refuse(500);
        script.pass_waits();
    }
    assert!(script.is_listing_by_page());
    // A version that the server cannot even read: at once.
    let mut script = Script::watching();
    script.pass(400);
    script.end(End::Clean);
    script.refuse(400);
    script.pass_waits();
    assert!(script.is_listing_by_page());
}

#[test]
fn a_server_may_ask_for_a_longer_pause() {
    let mut script = Script::new();
    let wish = Duration::from_secs(40);
    script.put(Input::Refused {
        status: 429,
        retry_after: Some(wish),
    });
    assert_eq!(script.next, Next::Wait(wish));
    assert!(script.pass_waits() == wish && script.is_listing_by_watch());
}

#[test]
fn a_kind_that_is_not_served_makes_discovery_look() {
    let mut script = Script::watching();
    script.pass(400);
    script.end(End::Clean);
    script.refuse(404);
    assert_eq!(script.said(), ["not served", "failing since 400"]);
    script.pass_waits();
    assert!(script.is_listing_by_page());
    script.refuse(404);
    assert_eq!(script.said(), ["not served"]);
    assert_eq!(script.feed.len(), 2);
}

/// A6, A24: what a list did not get to says nothing.
#[test]
fn a_list_that_breaks_off_makes_nothing_missing() {
    let table: [Case; 6] = [
        ("500", |script| script.refuse(500)),
        ("no answer", |script| script.put(Input::Unanswered)),
        ("truncated JSON", |script| {
            script.put(Input::Page(b"{\"metadata\":{},\"items\":[{\"meta"));
        }),
        ("a page of HTML", |script| {
            script.put(Input::Page(b"<html>"));
        }),
        ("a Status with 200", |script| {
            script.page(&json!({"kind": "Status", "items": []}));
        }),
        ("something without items", |script| {
            script.page(&json!({"metadata": {"resourceVersion": "9"}}));
        }),
    ];
    for (what, happens) in table {
        let mut script = Script::watching_by_pages();
        script.line(&error(410, "Expired"));
        script.page(&page(20, "t", &[("c", 15)]));
        happens(&mut script);
        script.pass_waits();
        assert!(script.is_listing_by_page(), "{what}");
        assert_eq!(script.said(), ["applied c@15", "failing since 1"], "{what}");
        script.page(&page(30, "", &[("b", 2)]));
        assert_eq!(
            script.said(),
            ["applied b@2", "missing uid-a", "missing uid-c", "synced"],
            "{what}"
        );
    }
}

#[test]
fn a_list_that_outlives_the_servers_history_is_asked_for_in_one_piece() {
    let mut script = Script::watching_by_pages();
    script.line(&error(410, "Expired"));
    script.page(&page(20, "t", &[("c", 15)]));
    script.refuse(410);
    assert_eq!(
        script.next,
        Next::List {
            limit: None,
            token: None
        }
    );
    script.page(&page(30, "", &[("a", 3)]));
    assert_eq!(
        script.said(),
        [
            "applied c@15",
            "applied a@3",
            "missing uid-b",
            "missing uid-c",
            "synced"
        ]
    );
}

#[test]
fn tokens_that_lead_round_are_noticed() {
    for cycle in [1, 2, 3, 7, 100] {
        let mut script = Script::watching_by_pages();
        script.line(&error(410, "Expired"));
        script.said();
        let mut pages = 0;
        while let Next::List { limit: Some(_), .. } = script.next {
            let token = format!("t{}", pages % cycle);
            script.page(&page(20, &token, &[("c", 15)]));
            pages += 1;
            assert!(pages < 1000, "a cycle of {cycle} was not noticed");
        }
        assert!(!script.said().iter().any(|said| said.starts_with("missing")));
        script.pass_waits();
        assert_eq!(
            script.next,
            Next::List {
                limit: None,
                token: None
            }
        );
    }
}

#[test]
fn an_empty_list_may_be_null_but_must_have_a_version() {
    for metadata in [
        json!({}),
        json!({"resourceVersion": ""}),
        json!({"resourceVersion": "0"}),
        Value::Null,
    ] {
        let mut script = Script::new();
        script.refuse(422);
        script.page(&json!({"metadata": metadata, "items": []}));
        assert_eq!(script.said(), ["failing since 0"], "{metadata}");
    }
    let mut script = Script::new();
    script.refuse(422);
    script.page(&json!({"metadata": {"resourceVersion": "5", "continue": null}, "items": null}));
    assert_eq!(script.said(), ["synced"]);
}

/// A12: the list comes from a replica that lags behind.
#[test]
fn a_lagging_replica_freezes_nothing() {
    let mut script = Script::watching();
    script.line(&event("ADDED", "c", 50));
    script.said();
    script.pass(130);
    script.line(&error(410, "Expired"));
    script.page(&page(40, "", &[("a", 3), ("old", 39)]));
    // Not believed, and not shown: the quorum is asked, once.
    assert!(script.is_listing_by_page(), "{:?}", script.next);
    assert!(script.said().is_empty());
    script.page(&page(51, "", &[("a", 3), ("c", 50)]));
    assert_eq!(
        script.said(),
        ["applied a@3", "applied c@50", "missing uid-b", "synced"]
    );
    script.pass_waits();
    assert_eq!(script.watches_after().as_deref(), Some("51"));
}

/// A13: etcd was restored from a backup.
#[test]
fn a_restored_store_freezes_the_kind_until_a_fresh_list_has_been_applied() {
    for by_pages in [false, true] {
        let mut script = if by_pages {
            Script::watching_by_pages()
        } else {
            Script::watching()
        };
        script.line(&event("ADDED", "c", 50));
        script.said();
        script.pass(130);
        script.line(&error(410, "Expired"));
        // Whatever the first list came by: nothing of another history is shown before the kind is frozen.
        script.page(&page(40, "", &[("wrong", 3)]));
        assert!(script.said().is_empty(), "by pages: {by_pages}");
        script.page(&page(40, "t", &[("a", 3)]));
        // Failures do not thaw it.
        script.refuse(500);
        script.pass_waits();
        script.page(&page(41, "", &[("a", 3), ("d", 41)]));
        let said = script.said();
        let expected = [
            "frozen",
            "applied a@3",
            "applied a@3",
            "applied d@41",
            "missing uid-b",
            "missing uid-c",
            "synced",
        ];
        assert_eq!(said, expected, "by pages: {by_pages}");
        script.pass_waits();
        assert_eq!(script.watches_after().as_deref(), Some("41"));
        script.put(Input::Opened);
        script.line(&event("ADDED", "e", 42));
        assert_eq!(script.said(), ["applied e@42"]);
    }
}

/// A14: an event of an older version than one that was seen.
#[test]
fn an_event_or_bookmark_that_goes_back_is_not_believed() {
    let table = [
        event("MODIFIED", "a", 9),
        event("DELETED", "a", 9),
        bookmark(9),
        end(9),
    ];
    for line in table {
        let mut script = Script::watching();
        script.line(&line);
        assert!(script.said().is_empty(), "{line}");
        assert!(script.is_listing_by_page());
        script.page(&page(60, "", &[("a", 3), ("b", 2)]));
        assert_eq!(script.said(), ["applied a@3", "applied b@2", "synced"]);
    }
    // The same version twice is no step back.
    let mut script = Script::watching();
    script.line(&event("MODIFIED", "a", 11));
    script.line(&event("MODIFIED", "a", 11));
    assert_eq!(script.said(), ["applied a@11", "applied a@11"]);
}

/// A13: versions that are no numbers can be neither higher nor lower.
#[test]
fn versions_that_are_no_numbers_are_passed_on_as_they_are() {
    let mut script = Script::new();
    script.refuse(422);
    let mut list = page(1, "", &[("a", 3)]);
    list["metadata"]["resourceVersion"] = "v-7".into();
    script.page(&list);
    script.pass_waits();
    assert_eq!(script.watches_after().as_deref(), Some("v-7"));
    script.put(Input::Opened);
    let mut line = event("ADDED", "b", 1);
    line["object"]["metadata"]["resourceVersion"] = "v-3".into();
    script.line(&line);
    line["object"]["metadata"]["resourceVersion"] = Value::Null;
    script.line(&line);
    script.pass(400);
    script.end(End::Clean);
    assert_eq!(script.watches_after().as_deref(), Some("v-3"));
}

/// A16: deleted and created again under the same name.
#[test]
fn an_object_is_its_uid() {
    let mut script = Script::watching();
    script.line(&error(410, "Expired"));
    script.pass_waits();
    let mut list = page(13, "", &[("a", 12), ("b", 2)]);
    list["items"][0]["metadata"]["uid"] = "another".into();
    script.page(&list);
    assert_eq!(
        script.said(),
        ["applied a@12", "applied b@2", "missing uid-a", "synced"]
    );
}

#[test]
fn an_object_that_cannot_be_read_is_told_once_and_holds_up_nothing() {
    let mut script = Script::watching();
    let mut bad = event("MODIFIED", "a", 11);
    bad["object"]["metadata"]["finalizers"] = "x".into();
    script.line(&bad);
    bad["object"]["metadata"]["resourceVersion"] = "12".into();
    script.line(&bad);
    script.line(&json!({"type": "MODIFIED", "object": 7}));
    script.line(&json!({"type": "MODIFIED"}));
    script.line(&event("MODIFIED", "b", 13));
    assert_eq!(
        script.said(),
        ["unreadable a", "unreadable ?", "applied b@13"]
    );
    // It is not missing if a list shows it, readable or not.
    script.line(&error(410, "Expired"));
    script.pass_waits();
    let mut list = page(14, "", &[]);
    list["items"] = json!([bad["object"]]);
    script.page(&list);
    assert_eq!(script.said(), ["missing uid-b", "synced"]);
    script.pass_waits();
    script.put(Input::Opened);
    // Its end is not an observed one, but it is not there any more.
    bad["type"] = "DELETED".into();
    bad["object"]["metadata"]["resourceVersion"] = "15".into();
    script.line(&bad);
    assert_eq!(script.said(), ["missing uid-a"]);
    script.pass(400);
    script.end(End::Clean);
    assert_eq!(script.watches_after().as_deref(), Some("15"));
}

#[test]
fn one_bad_item_of_a_page_does_not_hide_the_others() {
    let mut script = Script::watching_by_pages();
    script.line(&error(410, "Expired"));
    let mut list = page(20, "", &[("a", 3), ("b", 2), ("c", 15)]);
    list["items"][0]["metadata"]["ownerReferences"] = json!({"not": "a list"});
    list["items"]
        .as_array_mut()
        .unwrap()
        .push(json!("not an object"));
    script.page(&list);
    let said = [
        "unreadable a",
        "applied b@2",
        "applied c@15",
        "unreadable ?",
        "synced",
    ];
    assert_eq!(script.said(), said);
}

#[test]
fn lines_of_no_use_are_passed_over() {
    for mut script in [Script::new(), Script::watching()] {
        if script.is_listing_by_watch() {
            script.put(Input::Opened);
        }
        let reading = script.next.clone();
        script.put(Input::Overlong);
        assert_eq!(script.said(), ["overlong"]);
        script.line(&json!({"type": "SOMETHING", "object": {}}));
        assert_eq!((script.next, script.said.len()), (reading, 0));
    }
}

#[test]
fn whoever_joins_gets_everything_at_once_but_not_against_a_backoff() {
    let mut script = Script::watching();
    script.put(Input::Again);
    assert!(script.is_listing_by_page());
    script.page(&page(10, "t", &[("a", 3)]));
    script.put(Input::Again);
    assert!(script.is_listing_by_page());
    script.page(&page(10, "", &[("a", 3)]));
    assert_eq!(
        script.said(),
        ["applied a@3", "applied a@3", "missing uid-b", "synced"]
    );

    script.pass_waits();
    script.put(Input::Opened);
    script.pass(400);
    script.end(End::Clean);
    script.refuse(503);
    let Next::Wait(wait) = script.next else {
        panic!("{:?}", script.next);
    };
    script.elapsed += wait / 2;
    script.put(Input::Again);
    assert_eq!(script.next, Next::Wait(wait - wait / 2));
    script.pass_waits();
    assert!(script.is_listing_by_page());
}

#[test]
fn the_first_list_that_fails_says_so() {
    let mut script = Script::new();
    script.put(Input::Unanswered);
    assert_eq!(script.said(), ["failing since 0"]);
    script.pass_waits();
    script.put(Input::Unanswered);
    script.pass_waits();
    assert!(script.said().is_empty());
    script.put(Input::Opened);
    script.line(&end(1));
    assert_eq!(script.said(), ["synced"]);
}

proptest::proptest! {
    /// Whatever happens in whatever order: no panic, no request without a pause between failures, and nothing is
    /// missing but at the end of a complete list.
    #[test]
    fn nothing_that_happens_makes_a_feed_panic_or_jump_to_conclusions(
        steps in proptest::collection::vec((0_u8..16, 0_u64..12, "[a-d]"), 0..200),
    ) {
        let mut script = Script::new();
        for (what, number, name) in steps {
            script.elapsed += Duration::from_millis(100 * number);
            match what {
                0 | 1 => { script.pass_waits(); }
                2 => script.put(Input::Opened),
                3 => script.line(&event("ADDED", &name, number)),
                4 => script.line(&event("DELETED", &name, number)),
                5 => script.line(&end(number)),
                6 => script.line(&bookmark(number)),
                7 => script.put(Input::Page(page(number, "", &[(&name, number)]).to_string().as_bytes())),
                8 => script.put(Input::Page(page(number, &name, &[(&name, number)]).to_string().as_bytes())),
                9 => script.refuse([200, 400, 401, 404, 410, 429, 500, 504][usize::try_from(number).unwrap() % 8]),
                10 => script.put(Input::Unanswered),
                11 => script.end([End::Clean, End::Broken, End::Idle][usize::try_from(number).unwrap() % 3]),
                12 => script.put(Input::Again),
                13 => script.line(&error([410, 500, 504, 0][usize::try_from(number).unwrap() % 4], "")),
                14 => script.put(Input::Line(name.as_bytes())),
                _ => script.put(Input::Overlong),
            }
            let said = script.said();
            let missing = said.iter().position(|said| said.starts_with("missing"));
            let synced = said.iter().rposition(|said| said == "synced");
            proptest::prop_assert!(missing.is_none() || synced > missing, "{:?}", said);
        }
    }
}
