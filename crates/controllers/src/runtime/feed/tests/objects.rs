//! The identity of objects, and objects that cannot be decoded.

use super::*;

/// A16: deleted and created again under the same name.
#[test]
fn objects_are_identified_by_uid() {
    let mut script = FeedScript::watching();
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
fn an_unreadable_object_is_reported_once_and_blocks_nothing() {
    let mut script = FeedScript::watching();
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
    script.put(FeedInput::Opened);
    // Its delete was not shown with an object, so it is only missing.
    bad["type"] = "DELETED".into();
    bad["object"]["metadata"]["resourceVersion"] = "15".into();
    script.line(&bad);
    assert_eq!(script.said(), ["missing uid-a"]);
    script.pass(400);
    script.end(WatchEnd::Clean);
    assert_eq!(script.watches_after().as_deref(), Some("15"));
}

#[test]
fn an_unreadable_item_hides_no_other_item_of_its_page() {
    let mut script = FeedScript::watching_by_pages();
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
fn unknown_lines_are_ignored() {
    for mut script in [FeedScript::new(), FeedScript::watching()] {
        if script.is_listing_by_watch() {
            script.put(FeedInput::Opened);
        }
        let reading = script.next.clone();
        script.line(&json!({"type": "SOMETHING", "object": {}}));
        assert_eq!((script.next, script.said.len()), (reading, 0));
    }
}

/// The line may have been about any object. A list shows which objects have changed or are gone.
#[test]
fn an_overlong_line_causes_a_list() {
    let mut script = FeedScript::watching();
    script.put(FeedInput::Overlong);
    assert_eq!(script.said(), ["overlong"]);
    assert!(script.is_listing_by_page(), "{:?}", script.next);
    script.page(&page(12, "", &[("a", 11)]));
    assert_eq!(script.said(), ["applied a@11", "missing uid-b", "synced"]);
    // An object that is always too long does not cause one list after the other.
    let mut waited = Duration::ZERO;
    for revision in 13..20 {
        waited += script.pass_waits();
        script.put(FeedInput::Opened);
        script.put(FeedInput::Overlong);
        waited += script.pass_waits();
        script.page(&page(revision, "", &[("a", 11)]));
    }
    assert!(waited > Duration::from_secs(60), "{waited:?}");
}

#[test]
fn an_overlong_line_of_a_list_by_watch_causes_a_list_in_pages() {
    let mut script = FeedScript::new();
    script.put(FeedInput::Opened);
    script.line(&event("ADDED", "a", 3));
    script.put(FeedInput::Overlong);
    assert!(script.is_listing_by_page(), "{:?}", script.next);
    script.page(&page(10, "", &[("a", 3), ("long", 4)]));
    assert_eq!(
        script.said(),
        [
            "applied a@3",
            "overlong",
            "applied a@3",
            "applied long@4",
            "synced"
        ]
    );
}
