//! Lists by watch and in pages, and what breaks them off.

use super::*;

#[test]
fn a_list_by_watch_turns_into_the_watch() {
    let mut script = FeedScript::new();
    assert!(script.is_listing_by_watch());
    script.put(FeedInput::Opened);
    assert_eq!(script.next, FeedAction::Read(STREAM_IDLE));
    script.line(&event("ADDED", "a", 7));
    script.line(&event("ADDED", "b", 3));
    // A server that lags sends the changes before the end of the list.
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
    assert_eq!(script.feed.object_count(), 0);
    script.line(&bookmark(20));
    script.pass(400);
    script.end(WatchEnd::Clean);
    script.pass_waits();
    assert_eq!(script.watches_after().as_deref(), Some("20"));
    assert!(script.said().is_empty());
}

#[test]
fn a_server_that_cannot_list_by_watch_is_asked_for_pages() {
    for status in [400, 406, 415, 422] {
        let mut script = FeedScript::new();
        script.refuse(status);
        assert!(script.is_listing_by_page(), "{status}");
        assert!(script.said().is_empty());
        script.page(&page(10, "t", &[("a", 3)]));
        assert_eq!(
            script.next,
            FeedAction::List {
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
    let table: [FeedCase; 5] = [
        ("silence", |script| script.end(WatchEnd::Idle)),
        ("the end of the watch", |script| script.end(WatchEnd::Clean)),
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
        let mut script = FeedScript::new();
        script.put(FeedInput::Opened);
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
    let mut script = FeedScript::new();
    for _ in 0..3 {
        assert!(script.is_listing_by_watch());
        script.put(FeedInput::Opened);
        script.line(&event("ADDED", "a", 3));
        script.end(WatchEnd::Broken);
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

/// A6, A24: an incomplete list proves nothing about the objects that it did not show.
#[test]
fn a_list_that_breaks_off_reports_no_object_as_missing() {
    let table: [FeedCase; 6] = [
        ("500", |script| script.refuse(500)),
        ("no answer", |script| script.put(FeedInput::Unanswered)),
        ("truncated JSON", |script| {
            script.put(FeedInput::Page(b"{\"metadata\":{},\"items\":[{\"meta"));
        }),
        ("a page of HTML", |script| {
            script.put(FeedInput::Page(b"<html>"));
        }),
        ("a Status with 200", |script| {
            script.page(&json!({"kind": "Status", "items": []}));
        }),
        ("something without items", |script| {
            script.page(&json!({"metadata": {"resourceVersion": "9"}}));
        }),
    ];
    for (what, happens) in table {
        let mut script = FeedScript::watching_by_pages();
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
fn a_list_whose_token_expires_is_requested_without_pages() {
    let mut script = FeedScript::watching_by_pages();
    script.line(&error(410, "Expired"));
    script.page(&page(20, "t", &[("c", 15)]));
    script.refuse(410);
    assert_eq!(
        script.next,
        FeedAction::List {
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
fn an_expired_token_costs_one_list_its_pages() {
    let mut script = FeedScript::watching_by_pages();
    script.line(&error(410, "Expired"));
    script.page(&page(20, "t", &[("c", 15)]));
    script.refuse(410);
    // The full list fails: the next attempt comes in pages.
    script.refuse(500);
    script.pass_waits();
    assert!(script.is_listing_by_page(), "{:?}", script.next);
    script.page(&page(20, "t", &[("c", 15)]));
    script.refuse(410);
    script.page(&page(30, "", &[("a", 3)]));
    script.pass_waits();
    script.put(FeedInput::Opened);
    // So does the next list.
    script.pass(600);
    script.line(&error(410, "Expired"));
    script.pass_waits();
    assert!(script.is_listing_by_page(), "{:?}", script.next);
}

#[test]
fn looping_tokens_are_detected() {
    for cycle in [1, 2, 3, 7, 100] {
        let mut script = FeedScript::watching_by_pages();
        script.line(&error(410, "Expired"));
        script.said();
        let mut pages = 0;
        while let FeedAction::List { limit: Some(_), .. } = script.next {
            let token = format!("t{}", pages % cycle);
            script.page(&page(20, &token, &[("c", 15)]));
            pages += 1;
            assert!(pages < 1000, "a cycle of {cycle} was not noticed");
        }
        assert!(!script.said().iter().any(|said| said.starts_with("missing")));
        script.pass_waits();
        assert_eq!(
            script.next,
            FeedAction::List {
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
        let mut script = FeedScript::new();
        script.refuse(422);
        script.page(&json!({"metadata": metadata, "items": []}));
        assert_eq!(script.said(), ["failing since 0"], "{metadata}");
    }
    let mut script = FeedScript::new();
    script.refuse(422);
    script.page(&json!({"metadata": {"resourceVersion": "5", "continue": null}, "items": null}));
    assert_eq!(script.said(), ["synced"]);
}

#[test]
fn a_new_listener_causes_a_list_at_once_except_during_a_backoff() {
    let mut script = FeedScript::watching();
    script.put(FeedInput::Again);
    assert!(script.is_listing_by_page());
    script.page(&page(10, "t", &[("a", 3)]));
    script.put(FeedInput::Again);
    assert!(script.is_listing_by_page());
    script.page(&page(10, "", &[("a", 3)]));
    assert_eq!(
        script.said(),
        ["applied a@3", "applied a@3", "missing uid-b", "synced"]
    );

    script.pass_waits();
    script.put(FeedInput::Opened);
    script.pass(400);
    script.end(WatchEnd::Clean);
    script.refuse(503);
    let FeedAction::Wait(wait) = script.next else {
        panic!("{:?}", script.next);
    };
    script.elapsed += wait / 2;
    script.put(FeedInput::Again);
    assert_eq!(script.next, FeedAction::Wait(wait - wait / 2));
    script.pass_waits();
    assert!(script.is_listing_by_page());
}

#[test]
fn a_failing_first_list_reports_the_kind_as_failing() {
    let mut script = FeedScript::new();
    script.put(FeedInput::Unanswered);
    assert_eq!(script.said(), ["failing since 0"]);
    script.pass_waits();
    script.put(FeedInput::Unanswered);
    script.pass_waits();
    assert!(script.said().is_empty());
    script.put(FeedInput::Opened);
    script.line(&end(1));
    assert_eq!(script.said(), ["synced"]);
}
