//! The length of watches, and what follows when they end.

use super::*;

#[test]
fn watches_last_five_to_ten_minutes() {
    let mut lengths = BTreeSet::new();
    let mut script = FeedScript::watching();
    for _ in 0..20 {
        script.pass(400);
        script.end(WatchEnd::Clean);
        script.pass_waits();
        let FeedAction::Watch { length, .. } = script.next else {
            panic!("{:?}", script.next);
        };
        assert!(WATCH_LENGTH.contains(&length));
        lengths.insert(length.as_secs());
        script.put(FeedInput::Opened);
    }
    assert!(lengths.len() > 10, "{lengths:?}");
}

/// A6: 410 in either form, and the 504 of a version that is too large.
#[test]
fn an_expired_watch_is_followed_by_a_list() {
    let table: [FeedCase; 6] = [
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
            script.put(FeedInput::Line(b"{\"type\":\"ADD"));
        }),
        ("410 as a status", |script| {
            script.end(WatchEnd::Clean);
            script.refuse(410);
        }),
        ("504 as a status", |script| {
            script.end(WatchEnd::Clean);
            script.refuse(504);
        }),
    ];
    for (what, happens) in table {
        for mut script in [FeedScript::watching(), FeedScript::watching_by_pages()] {
            script.line(&event("ADDED", "c", 11));
            script.pass(2);
            happens(&mut script);
            script.said();
            script.pass_waits();
            if script.is_listing_by_watch() {
                script.put(FeedInput::Opened);
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
    let mut script = FeedScript::watching_by_pages();
    let mut waits = Vec::new();
    for _ in 0..8 {
        script.line(&error(410, "Expired"));
        waits.push(script.pass_waits());
        script.page(&page(20, "", &[("a", 3)]));
        script.pass_waits();
        script.put(FeedInput::Opened);
    }
    assert_eq!(waits[0], Duration::ZERO);
    assert!(waits[7] >= Duration::from_secs(15), "{waits:?}");
    // Two minutes without a failure reset the backoff.
    script.pass(130);
    script.line(&error(410, "Expired"));
    assert!(script.is_listing_by_page());
}

/// A14: watches that end as soon as they begin are no hot loop.
#[test]
fn short_watches_are_at_least_a_second_apart() {
    let mut script = FeedScript::watching();
    for revision in 11..20 {
        script.line(&event("MODIFIED", "a", revision));
        script.end(WatchEnd::Clean);
        let from = script.elapsed;
        script.pass_waits();
        assert_eq!(script.elapsed - from, WATCH_SPACING);
        script.put(FeedInput::Opened);
    }
    assert!(!script.said().contains(&"failing since 9".to_owned()));
}

/// A8: a proxy that answers everything with 200 and a page of its own.
#[test]
fn watches_that_end_at_once_make_the_kind_fail_and_cause_a_list() {
    for end in [WatchEnd::Clean, WatchEnd::Broken] {
        let mut script = FeedScript::watching();
        script.pass(400);
        script.end(WatchEnd::Clean);
        script.pass_waits();
        for _ in 0..4 {
            script.put(FeedInput::Opened);
            script.end(end);
            script.pass_waits();
            assert_eq!(script.watches_after().as_deref(), Some("10"));
        }
        let said = script.said();
        assert!(
            said.len() == 1 && said[0].starts_with("failing since 40"),
            "{said:?}"
        );
        // One line makes the kind recover.
        script.put(FeedInput::Opened);
        script.line(&bookmark(11));
        assert_eq!(script.said(), ["synced"]);
        script.pass(100);
        script.end(WatchEnd::Clean);
        script.pass_waits();
        for _ in 0..5 {
            script.put(FeedInput::Opened);
            script.end(end);
            script.pass_waits();
        }
        assert!(script.is_listing_by_page());
    }
}

#[test]
fn a_silent_watch_is_followed_by_a_new_watch_and_then_by_a_list() {
    let mut script = FeedScript::watching();
    for revision in 12..15 {
        // A watch that showed a new version is continued.
        script.line(&bookmark(revision));
        script.pass(90);
        script.end(WatchEnd::Idle);
        let after = script.watches_after();
        assert_eq!(after, Some(revision.to_string()));
        script.put(FeedInput::Opened);
    }
    script.pass(90);
    script.end(WatchEnd::Idle);
    assert_eq!(script.watches_after().as_deref(), Some("14"));
    script.put(FeedInput::Opened);
    script.pass(90);
    script.end(WatchEnd::Idle);
    assert!(script.is_listing_by_page());
}

/// A server that restarted without its history may send bookmarks with the version that the client asked for.
#[test]
fn bookmarks_that_repeat_the_asked_version_are_no_sign_of_life() {
    let table: [FeedCase; 3] = [
        ("early end", |script| script.end(WatchEnd::Clean)),
        ("broken connection", |script| script.end(WatchEnd::Broken)),
        ("server away", |script| {
            script.end(WatchEnd::Broken);
            script.pass_waits();
            script.put(FeedInput::Unanswered);
        }),
    ];
    for (what, ends) in table {
        let mut script = FeedScript::watching();
        script.pass(200);
        ends(&mut script);
        for _ in 0..SILENT_MAX {
            script.pass_waits();
            assert_eq!(script.watches_after().as_deref(), Some("10"), "{what}");
            script.put(FeedInput::Opened);
            script.pass(60);
            script.line(&bookmark(10));
            assert_eq!(
                script.next,
                FeedAction::Read(Duration::from_secs(30)),
                "{what}: the bookmark does not extend the wait"
            );
            script.pass(30);
            script.end(WatchEnd::Idle);
        }
        script.pass_waits();
        assert!(script.is_listing_by_page(), "{what}");
    }
}

/// A cluster without any writes is not listed again, as long as no connection is lost.
#[test]
fn bookmarks_that_repeat_the_version_of_a_list_are_a_sign_of_life() {
    for mut script in [FeedScript::watching(), FeedScript::watching_by_pages()] {
        for _ in 0..10 {
            for _ in 0..10 {
                script.pass(60);
                script.line(&bookmark(10));
                assert_eq!(script.next, FeedAction::Read(WATCH_IDLE));
            }
            script.end(WatchEnd::Clean);
            assert_eq!(script.watches_after().as_deref(), Some("10"));
            script.put(FeedInput::Opened);
        }
        // After a lost connection a new version proves that the server has ours.
        script.end(WatchEnd::Broken);
        script.pass_waits();
        script.put(FeedInput::Opened);
        for _ in 0..2 {
            script.line(&bookmark(11));
            assert_eq!(script.next, FeedAction::Read(WATCH_IDLE));
        }
    }
}

#[test]
fn a_list_follows_several_watches_that_cannot_be_opened() {
    let mut script = FeedScript::watching();
    script.pass(400);
    script.end(WatchEnd::Clean);
    script.pass_waits();
    for _ in 0..5 {
        script.refuse(500);
        script.pass_waits();
    }
    assert!(script.is_listing_by_page());
    // A version that the server cannot parse causes a list at once.
    let mut script = FeedScript::watching();
    script.pass(400);
    script.end(WatchEnd::Clean);
    script.pass_waits();
    script.refuse(400);
    script.pass_waits();
    assert!(script.is_listing_by_page());
}

/// A server that is away for long keeps its history; a list of every kind would only make its start harder.
#[test]
fn no_list_follows_a_server_that_was_away() {
    let mut script = FeedScript::watching();
    script.end(WatchEnd::Broken);
    for _ in 0..4 * OPEN_FAILURES_MAX {
        script.pass_waits();
        assert_eq!(script.watches_after().as_deref(), Some("10"));
        script.put(FeedInput::Unreachable);
    }
    let said = script.said();
    assert!(
        said.len() == 1 && said[0].starts_with("failing since"),
        "{said:?}"
    );
    script.pass_waits();
    assert_eq!(script.watches_after().as_deref(), Some("10"));
    script.put(FeedInput::Opened);
    assert_eq!(script.said(), ["synced"]);

    // The first list is still a list by watch.
    let mut script = FeedScript::new();
    for _ in 0..4 * STREAM_BREAKS_MAX {
        script.put(FeedInput::Unreachable);
        script.pass_waits();
        assert!(script.is_listing_by_watch());
    }
}

/// A server that shuts down, or a load balancer that moves its clients, ends all watches at the same time.
#[test]
fn watches_that_a_server_ends_together_resume_one_after_the_other() {
    let waits: BTreeSet<Duration> = (0..57)
        .map(|seed| {
            let mut script = FeedScript::watching();
            script.feed.rng = Rng::seeded(seed);
            script.pass(100);
            script.end(WatchEnd::Clean);
            let wait = script.pass_waits();
            assert_eq!(script.watches_after().as_deref(), Some("10"));
            wait
        })
        .collect();
    assert!(waits.len() > 50, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait < RESUME_SPREAD));
    assert!(waits.last().unwrap() > &(RESUME_SPREAD / 2), "{waits:?}");
}

/// The collector waits until a feed reaches a version, and distrusts proofs of absence when a feed lists again.
#[test]
fn reports_how_far_it_has_followed_the_history() {
    let up_to = |number| FeedProgress::UpTo(Revision::Number(number));
    for mut script in [FeedScript::watching(), FeedScript::watching_by_pages()] {
        assert_eq!(script.progress, [up_to(10)]);
        script.line(&event("ADDED", "c", 11));
        script.line(&bookmark(20));
        script.line(&error(410, "Expired"));
        script.pass_waits();
        assert_eq!(
            script.progress,
            [up_to(10), up_to(20), FeedProgress::Interrupted],
            "nothing was listed yet"
        );
        script.page(&page(30, "more", &[("a", 3)]));
        assert_eq!(script.progress.last(), Some(&FeedProgress::Relists));
        script.page(&page(30, "", &[("b", 2)]));
        assert_eq!(
            script.progress[3..],
            [FeedProgress::Relists, up_to(30)],
            "the list is complete"
        );
    }
}

/// A server that comes back may have another history. A watch that ends in time is no sign of that.
#[test]
fn reports_a_lost_watch_once() {
    let table: [(FeedCase, usize); 4] = [
        (("broken", |script| script.end(WatchEnd::Broken)), 1),
        (("silent", |script| script.end(WatchEnd::Idle)), 1),
        (("ended early", |script| script.end(WatchEnd::Clean)), 0),
        (
            ("ended in time", |script| {
                script.pass(600);
                script.end(WatchEnd::Clean);
            }),
            0,
        ),
    ];
    let lost = |script: &FeedScript| {
        let progress = script.progress.iter();
        progress
            .filter(|it| **it == FeedProgress::Interrupted)
            .count()
    };
    for ((name, cause), count) in table {
        let mut script = FeedScript::watching();
        script.pass(10);
        cause(&mut script);
        assert_eq!(lost(&script), count, "{name}");
        for _ in 0..3 {
            script.pass_waits();
            script.put(FeedInput::Unanswered);
        }
        assert_eq!(lost(&script), 1, "{name}");
    }
}

/// When a definition is deleted, the server ends the watch of its kind early and then answers 404. Its history is the same.
#[test]
fn a_removed_kind_is_no_lost_watch() {
    let mut script = FeedScript::watching();
    script.pass(10);
    script.end(WatchEnd::Clean);
    for _ in 0..3 {
        script.pass_waits();
        script.put(FeedInput::Refused(404, None));
    }
    assert!(!script.progress.contains(&FeedProgress::Interrupted));
}
