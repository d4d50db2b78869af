//! Servers that refuse, fail, or do not have the kind.

use super::*;

/// A9: kinds that are forbidden, granted later, revoked later.
#[test]
fn a_forbidden_kind_is_reported_and_retried_slowly() {
    for status in [401, 403, 405] {
        let mut script = FeedScript::new();
        for _ in 0..6 {
            script.refuse(status);
            script.pass_waits();
        }
        assert_eq!(script.said(), ["forbidden"]);
        script.refuse(status);
        assert!(script.pass_waits() >= Duration::from_secs(15));
        script.put(FeedInput::Opened);
        script.line(&end(10));
        assert_eq!(script.said(), ["synced"]);

        script.pass(400);
        script.end(WatchEnd::Clean);
        script.refuse(status);
        assert_eq!(script.said(), ["forbidden"]);
        script.pass_waits();
        assert_eq!(script.watches_after().as_deref(), Some("10"));
        script.put(FeedInput::Opened);
        assert_eq!(script.said(), ["synced"]);
        script.line(&error(status, "Forbidden"));
        assert_eq!(script.said(), ["forbidden"]);

        let mut script = FeedScript::new();
        script.refuse(422);
        script.refuse(status);
        assert_eq!(script.said(), ["forbidden"]);
    }
}

#[test]
fn a_failing_kind_resumes_its_watch() {
    for status in [0, 429, 500, 502, 503] {
        let mut script = FeedScript::watching();
        script.pass(400);
        script.end(WatchEnd::Clean);
        for _ in 0..4 {
            match status {
                0 => script.put(FeedInput::Unanswered),
                status => script.refuse(status),
            }
            script.pass_waits();
            assert_eq!(script.watches_after().as_deref(), Some("10"), "{status}");
        }
        assert_eq!(script.said(), ["failing since 400"]);
        script.put(FeedInput::Opened);
        assert_eq!(script.said(), ["synced"]);
    }
}

#[test]
fn retry_after_may_extend_the_wait() {
    let mut script = FeedScript::new();
    let wish = Duration::from_secs(40);
    script.put(FeedInput::Refused(429, Some(wish)));
    assert_eq!(script.next, FeedAction::Wait(wish));
    assert!(script.pass_waits() == wish && script.is_listing_by_watch());
}

#[test]
fn a_kind_that_is_not_served_starts_discovery() {
    let mut script = FeedScript::watching();
    script.pass(400);
    script.end(WatchEnd::Clean);
    script.refuse(404);
    assert_eq!(script.said(), ["not served", "failing since 400"]);
    script.pass_waits();
    assert!(script.is_listing_by_page());
    script.refuse(404);
    assert_eq!(script.said(), ["not served"]);
    assert_eq!(script.feed.object_count(), 2);
}
