//! Versions that go back, and those that are no numbers.

use super::*;

/// A12: the list comes from a replica that lags behind.
#[test]
fn a_lagging_replica_freezes_nothing() {
    let mut script = FeedScript::watching();
    script.line(&event("ADDED", "c", 50));
    script.said();
    script.pass(130);
    script.line(&error(410, "Expired"));
    script.page(&page(40, "", &[("a", 3), ("old", 39)]));
    // The objects are not shown; the same list again follows.
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
            FeedScript::watching_by_pages()
        } else {
            FeedScript::watching()
        };
        script.line(&event("ADDED", "c", 50));
        script.said();
        script.pass(130);
        script.line(&error(410, "Expired"));
        // In both forms of the list, no object of a restored store is shown before the kind is frozen.
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
        script.put(FeedInput::Opened);
        script.line(&event("ADDED", "e", 42));
        assert_eq!(script.said(), ["applied e@42"]);
    }
}

/// etcd was restored with raised revisions: the versions of lists grow, those of objects go back.
#[test]
fn an_object_that_is_back_in_an_earlier_version_freezes_the_kind() {
    let mut script = FeedScript::watching();
    script.line(&event("MODIFIED", "a", 50));
    script.line(&event("DELETED", "b", 51));
    script.said();
    script.pass(130);
    script.line(&error(410, "Expired"));
    script.page(&page(1_000, "t", &[("b", 2)]));
    script.page(&page(1_000, "", &[("a", 3)]));
    assert_eq!(script.said(), ["applied b@2", "frozen"]);
    script.page(&page(1_001, "", &[("b", 2), ("a", 3)]));
    assert_eq!(script.said(), ["applied b@2", "applied a@3", "synced"]);
    // Once is enough: the versions that are known now are those of the restored store.
    script.pass_waits();
    script.put(FeedInput::Opened);
    script.line(&event("MODIFIED", "a", 1_002));
    script.line(&error(410, "Expired"));
    script.pass_waits();
    script.page(&page(1_003, "", &[("b", 2), ("a", 1_002)]));
    assert_eq!(
        script.said(),
        ["applied a@1002", "applied b@2", "applied a@1002", "synced"]
    );
}

/// A14: an event of an older version than one that was seen.
#[test]
fn an_event_or_bookmark_that_goes_back_causes_a_list() {
    let table = [
        event("MODIFIED", "a", 9),
        event("DELETED", "a", 9),
        bookmark(9),
        end(9),
    ];
    for line in table {
        let mut script = FeedScript::watching();
        script.line(&line);
        assert!(script.said().is_empty(), "{line}");
        assert!(script.is_listing_by_page());
        script.page(&page(60, "", &[("a", 3), ("b", 2)]));
        assert_eq!(script.said(), ["applied a@3", "applied b@2", "synced"]);
    }
    // The same version twice is no step back.
    let mut script = FeedScript::watching();
    script.line(&event("MODIFIED", "a", 11));
    script.line(&event("MODIFIED", "a", 11));
    assert_eq!(script.said(), ["applied a@11", "applied a@11"]);
}

/// A13: versions that are no numbers can be neither higher nor lower.
#[test]
fn non_numeric_versions_are_sent_back_unchanged() {
    let mut script = FeedScript::new();
    script.refuse(422);
    let mut list = page(1, "", &[("a", 3)]);
    list["metadata"]["resourceVersion"] = "v-7".into();
    script.page(&list);
    script.pass_waits();
    assert_eq!(script.watches_after().as_deref(), Some("v-7"));
    script.put(FeedInput::Opened);
    let mut line = event("ADDED", "b", 1);
    line["object"]["metadata"]["resourceVersion"] = "v-3".into();
    script.line(&line);
    line["object"]["metadata"]["resourceVersion"] = Value::Null;
    script.line(&line);
    script.pass(400);
    script.end(WatchEnd::Clean);
    assert_eq!(script.watches_after().as_deref(), Some("v-3"));
}
