//! Feeds on servers that misbehave: the rows A of `docs/inputs.md`.

use std::time::Duration;

use caretaker_controllers::runtime::kind::KindState;
use serde_json::{Value, json};

use crate::world::{FakeReply, FeedWorld, StreamEnd};

/// A line of a watch.
fn line(event: &str, name: &str, revision: u64) -> String {
    let metadata = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"),
        "resourceVersion": revision.to_string()});
    json!({"type": event, "object": {"metadata": metadata}}).to_string()
}

/// The end of a list by watch.
fn end(revision: u64) -> String {
    let metadata = json!({"resourceVersion": revision.to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"}});
    json!({"type": "BOOKMARK", "object": {"metadata": metadata}}).to_string()
}

fn expired() -> String {
    json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
        .to_string()
}

/// A page with all objects.
fn page(revision: u64, names: &[&str]) -> FakeReply {
    let items: Vec<(&str, u64)> = names.iter().map(|name| (*name, 3)).collect();
    page_of(revision, &items)
}

/// A list of objects with their versions.
fn page_of(revision: u64, items: &[(&str, u64)]) -> FakeReply {
    let items = items.iter().map(|(name, version)| {
        json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string()}})
    });
    let list = json!({"kind": "PartialObjectMetadataList",
        "metadata": {"resourceVersion": revision.to_string()}, "items": items.collect::<Vec<_>>()});
    FakeReply::Text(200, list.to_string())
}

/// Answers the requests for ConfigMaps one after the other; the last answer hangs.
fn script(world: &FeedWorld, answers: Vec<FakeReply>) {
    let mut answers = answers.into_iter();
    world.rule("script", move |uri| {
        let is_asked = uri.starts_with("/api/v1/configmaps?");
        is_asked.then(|| answers.next().unwrap_or(FakeReply::Silence))
    });
}

fn list_by_watch(names: &[&str], revision: u64, more: &[String], finish: StreamEnd) -> FakeReply {
    let mut lines: Vec<String> = names.iter().map(|name| line("ADDED", name, 3)).collect();
    lines.push(end(revision));
    lines.extend_from_slice(more);
    FakeReply::Lines(lines, finish)
}

/// A6, on the embedded server: after either form of 410 a list shows the changes between two watches.
#[tokio::test(start_paused = true)]
async fn after_a_410_a_list_shows_the_difference() {
    let gone: [fn() -> FakeReply; 2] = [
        || FakeReply::Text(410, "too old".to_owned()),
        || FakeReply::Lines(vec![expired()], StreamEnd::End(Duration::ZERO)),
    ];
    for gone in gone {
        let world = FeedWorld::new();
        let mut recorder = world.config_maps();
        recorder.until("configmaps synced").await;
        for name in ["a", "b"] {
            world.create(name).await;
        }
        recorder.until("configmaps b applied").await;
        recorder.take();
        // Watches end within ten minutes; the next ones are refused while things happen.
        let is_resumed =
            |uri: &str| uri.starts_with("/api/v1/configmaps?") && uri.contains("resourceVersion=");
        world.rule("cut", move |uri| {
            is_resumed(uri).then(|| FakeReply::Text(503, String::new()))
        });
        recorder.until("configmaps failing").await;
        world.delete("a").await;
        world.create("c").await;
        let mut tries = 0;
        world.rule("cut", move |uri| {
            tries += usize::from(is_resumed(uri));
            (is_resumed(uri) && tries == 1).then(gone)
        });
        recorder.during(60).await;
        // An open watch counts as healthy until its first line is an error.
        let difference = [
            "configmaps b applied",
            "configmaps c applied",
            "configmaps a missing",
        ];
        let seen = recorder.take();
        let about_objects = |words: &&String| {
            ["applied", "missing"]
                .iter()
                .any(|end| words.ends_with(end))
        };
        let shown: Vec<&String> = seen.iter().filter(about_objects).collect();
        assert_eq!(shown, difference);
        assert_eq!(
            seen.iter()
                .filter(|words| *words == "configmaps synced")
                .count(),
            1
        );
        world.delete("b").await;
        recorder.until("configmaps b deleted").await;
    }
}

/// A9: a kind that is forbidden, granted and revoked affects no other kind.
#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_watched_once_it_is_allowed() {
    let forbid = |uri: &str| {
        let is_hit = uri.starts_with("/api/v1/configmaps?");
        is_hit.then(|| FakeReply::Text(403, r#"{"kind":"Status","code":403}"#.to_owned()))
    };
    let world = FeedWorld::with(|world| world.rule("forbid", forbid));
    world.create("a").await;
    let mut recorder = world.everything();
    recorder.until("configmaps forbidden").await;
    recorder.until("secrets synced").await;
    recorder.during(300).await;
    assert_eq!(world.state("", "configmaps"), Some(KindState::Forbidden));
    assert!(world.asked("/configmaps?").len() < 25);
    recorder.take();
    world.lift("forbid");
    recorder.until("configmaps synced").await;
    recorder.until("configmaps a applied").await;
    recorder.take();
    world.rule("forbid", forbid);
    recorder.until("configmaps forbidden").await;
    world.lift("forbid");
    recorder.until("configmaps synced").await;
    assert!(
        !recorder
            .changes
            .iter()
            .any(|seen| seen.ends_with("missing"))
    );
}

/// A12: a replica that lags behind.
#[tokio::test(start_paused = true)]
async fn a_stale_list_is_checked_and_freezes_nothing() {
    let world = FeedWorld::with(|world| {
        let more = [line("ADDED", "c", 50), expired()];
        script(
            world,
            vec![
                list_by_watch(&["a", "b"], 40, &more, StreamEnd::Hang),
                page(30, &["a", "old"]),
                page_of(51, &[("a", 3), ("c", 50)]),
                FakeReply::Lines(vec![line("MODIFIED", "c", 52)], StreamEnd::Hang),
            ],
        );
    });
    let mut recorder = world.config_maps();
    recorder.during(30).await;
    let seen = recorder.take();
    let expected = [
        "catalog",
        "configmaps syncing",
        "configmaps a applied",
        "configmaps b applied",
        "configmaps synced",
        "configmaps c applied",
        "configmaps a applied",
        "configmaps c applied",
        "configmaps b missing",
        "configmaps c applied",
    ];
    assert_eq!(seen, expected);
    assert!(world.asked("/configmaps?limit=500").len() == 2);
}

/// A13: etcd was restored from a backup.
#[tokio::test(start_paused = true)]
async fn a_restored_store_freezes_the_kind_and_a_fresh_list_thaws_it() {
    let world = FeedWorld::with(|world| {
        let more = [line("ADDED", "c", 50), expired()];
        script(
            world,
            vec![
                list_by_watch(&["a", "b"], 40, &more, StreamEnd::Hang),
                page(30, &["a"]),
                page(31, &["a", "d"]),
                FakeReply::Lines(vec![line("MODIFIED", "d", 32)], StreamEnd::Hang),
            ],
        );
    });
    let mut recorder = world.config_maps();
    recorder.during(30).await;
    let seen = recorder.take();
    let expected = [
        "catalog",
        "configmaps syncing",
        "configmaps a applied",
        "configmaps b applied",
        "configmaps synced",
        "configmaps c applied",
        "configmaps frozen",
        "configmaps a applied",
        "configmaps d applied",
        "configmaps b missing",
        "configmaps c missing",
        "configmaps synced",
        "configmaps d applied",
    ];
    assert_eq!(seen, expected);
}

/// A8, A11: the reply of a proxy proves nothing about objects.
#[tokio::test(start_paused = true)]
async fn a_malformed_list_makes_the_kind_fail_and_no_object_missing() {
    let table: [(u16, &str); 6] = [
        (404, "404 page not found"),
        (502, "<html>bad gateway</html>"),
        (200, "<html>welcome</html>"),
        (200, r#"{"kind":"Status","status":"Failure","code":500}"#),
        (
            200,
            r#"{"kind":"List","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"#,
        ),
        (200, ""),
    ];
    for (status, text) in table {
        let world = FeedWorld::new();
        world.create("a").await;
        let mut recorder = world.config_maps();
        recorder.until("configmaps synced").await;
        world.rule("nonsense", move |uri| {
            let is_hit = uri.starts_with("/api/v1/configmaps?");
            // For the whole list, or in the middle of a list in pages.
            let is_stream = uri.contains("sendInitialEvents") && status == 200;
            is_hit.then(|| {
                if is_stream {
                    FakeReply::Text(422, String::new())
                } else {
                    FakeReply::Text(status, text.to_owned())
                }
            })
        });
        if status == 404 {
            world.asked("");
        }
        recorder.during(700).await;
        let state = world.state("", "configmaps");
        assert!(
            matches!(state, Some(KindState::Failing(_))),
            "{status} {text}: {state:?}"
        );
        assert!(
            !recorder
                .changes
                .iter()
                .any(|seen| seen.ends_with("missing")),
            "{:?}",
            recorder.changes
        );
        if status == 404 {
            // More often than every half minute.
            assert!(world.asked("/apis").len() > 30);
        }
        recorder.take();
        world.lift("nonsense");
        recorder.until("configmaps synced").await;
    }
}

/// Input A14, rule S13.
#[tokio::test(start_paused = true)]
async fn an_unreadable_object_hides_no_other() {
    let world = FeedWorld::with(|world| {
        let bad = r#"{"type":"ADDED","object":{"metadata":{"name":"bad","uid":"uid-bad","finalizers":7}}}"#;
        let deep = format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"name":"deep","uid":"u","resourceVersion":"4","managedFields":{}1{}}}}}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let lines = vec![
            line("ADDED", "a", 3),
            bad.to_owned(),
            deep,
            line("ADDED", "b", 5),
            end(10),
            bad.to_owned(),
            line("ADDED", "c", 11),
        ];
        script(world, vec![FakeReply::Lines(lines, StreamEnd::Hang)]);
    });
    let mut recorder = world.config_maps();
    recorder.until("configmaps c applied").await;
    let expected = [
        "catalog",
        "configmaps syncing",
        "configmaps a applied",
        "configmaps deep applied",
        "configmaps b applied",
        "configmaps synced",
        "configmaps c applied",
    ];
    assert_eq!(recorder.take(), expected);
    assert_eq!(world.feeds.unreadable(), 1);
}

/// A14: the connection breaks after each event, and no change is lost or sent twice.
#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_after_each_event_loses_none() {
    let world = FeedWorld::with(|world| {
        let mut answers = vec![list_by_watch(&["a"], 10, &[], StreamEnd::Break)];
        for revision in 11..20 {
            let finish = if revision < 19 {
                StreamEnd::Break
            } else {
                StreamEnd::Hang
            };
            answers.push(FakeReply::Lines(
                vec![line("MODIFIED", "a", revision)],
                finish,
            ));
        }
        script(world, answers);
    });
    let mut recorder = world.config_maps();
    let applied = |seen: &[String]| {
        seen.iter()
            .filter(|seen| *seen == "configmaps a applied")
            .count()
    };
    while applied(&recorder.changes) < 10 {
        assert!(
            recorder.receive(Duration::from_secs(60)).await,
            "{:?}",
            recorder.changes
        );
    }
    assert!(!recorder.changes.contains(&"configmaps failing".to_owned()));
    let asked = world.asked("/configmaps?");
    let resumed: Vec<&str> = asked
        .iter()
        .filter_map(|uri| uri.split("resourceVersion=").nth(1))
        .collect();
    assert_eq!(
        resumed,
        ["10", "11", "12", "13", "14", "15", "16", "17", "18"]
    );
}

/// A14: a connection that is open and dead.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_after_ninety_seconds() {
    let world = FeedWorld::with(|world| {
        let resumed = FakeReply::Lines(vec![line("MODIFIED", "a", 11)], StreamEnd::Hang);
        script(
            world,
            vec![list_by_watch(&["a"], 10, &[], StreamEnd::Hang), resumed],
        );
    });
    let mut recorder = world.config_maps();
    recorder.until("configmaps synced").await;
    recorder.take();
    recorder.until("configmaps a applied").await;
    assert_eq!(world.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_feed_respects_retry_after_in_both_forms() {
    for retry_after in ["20", "Sun, 01 Mar 2026 12:00:20 GMT"] {
        let world = FeedWorld::new();
        let good = list_by_watch(&["a"], 5, &[], StreamEnd::Hang);
        script(&world, vec![FakeReply::Busy(retry_after), good]);
        let mut recorder = world.config_maps();
        recorder.during(19).await;
        assert_eq!(world.asked("/api/v1/configmaps?").len(), 1, "{retry_after}");
        recorder.during(4).await;
        assert_eq!(world.asked("/api/v1/configmaps?").len(), 1, "{retry_after}");
    }
}

/// A19: a server that has neither aggregated discovery nor lists by watch.
#[tokio::test(start_paused = true)]
async fn an_old_server_is_supported() {
    let world = FeedWorld::with(|world| {
        world.rule("legacy", |uri| {
            let is_root = uri == "/api" || uri == "/apis";
            if is_root {
                return Some(FakeReply::Accept("application/json"));
            }
            uri.contains("sendInitialEvents")
                .then(|| FakeReply::Text(422, String::new()))
        });
    });
    let modern = FeedWorld::new();
    let (mut old, mut new) = (world.everything(), modern.everything());
    for number in 0..3 {
        world.create(&format!("a{number}")).await;
    }
    old.during(5).await;
    new.during(5).await;
    assert_eq!(old.catalog, new.catalog);
    assert!(old.changes.contains(&"configmaps a2 applied".to_owned()));
    assert!(
        world
            .feeds
            .states()
            .iter()
            .all(|(_, state)| *state == KindState::Synced)
    );
    world.create("late").await;
    old.until("configmaps late applied").await;
}

/// The part of upstream's TestGarbageCollectorSync that concerns feeds.
#[tokio::test(start_paused = true)]
async fn a_kind_that_never_answers_delays_no_other_and_is_counted_once() {
    let silent = |uri: &str| {
        uri.starts_with("/api/v1/configmaps?")
            .then_some(FakeReply::Silence)
    };
    let world = FeedWorld::with(|world| world.rule("silent", silent));
    let mut recorder = world.everything();
    recorder.during(5).await;
    let synced = world
        .feeds
        .states()
        .into_iter()
        .filter(|(_, state)| *state == KindState::Synced);
    assert_eq!(synced.count() + 1, world.feeds.states().len());
    assert_eq!(world.feeds.sync_errors(), 0);
    recorder.during(300).await;
    assert_eq!(world.feeds.sync_errors(), 1);
    world.lift("silent");
    recorder.until("configmaps synced").await;
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_changes_nothing() {
    let fail = |uri: &str| {
        uri.starts_with("/api")
            .then(|| FakeReply::Text(503, String::new()))
    };
    let world = FeedWorld::with(|world| world.rule("down", fail));
    let mut recorder = world.config_maps();
    recorder.during(10).await;
    assert!(recorder.changes.is_empty() && world.feeds.sync_errors() > 3);
    world.lift("down");
    recorder.until("configmaps synced").await;
    recorder.take();
    let errors = world.feeds.sync_errors();
    world.rule("down", |uri| {
        (uri == "/api" || uri == "/apis").then(|| FakeReply::Text(503, String::new()))
    });
    recorder.during(100).await;
    assert!(world.feeds.sync_errors() > errors && recorder.changes.is_empty());
    world.create("a").await;
    recorder.until("configmaps a applied").await;
}

/// The aggregated document with one group changed by `change`.
fn with_group(mut document: Value, name: &str, change: fn(&mut Value)) -> Value {
    for group in document["items"].as_array_mut().into_iter().flatten() {
        if group["metadata"]["name"] == name {
            change(group);
        }
    }
    document
}

/// A19: some groups fail, and a group is removed and returns.
#[tokio::test(start_paused = true)]
async fn a_stale_group_stays_and_a_removed_group_is_gone() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.until("jobs.batch synced").await;
    recorder.during(60).await;
    recorder.take();
    world.rule("apis", |uri| {
        let stale = |document| {
            with_group(document, "batch", |group| {
                group["versions"][0]["freshness"] = "Stale".into();
            })
        };
        (uri == "/apis").then_some(FakeReply::Altered(stale))
    });
    recorder.during(100).await;
    assert!(recorder.changes.is_empty(), "{:?}", recorder.changes);
    assert_eq!(world.state("batch", "jobs"), Some(KindState::Synced));

    world.rule("apis", |uri| {
        let without =
            |document| with_group(document, "batch", |group| group["versions"] = json!([]));
        (uri == "/apis").then_some(FakeReply::Altered(without))
    });
    recorder.until("jobs.batch gone").await;
    assert_eq!(world.state("batch", "jobs"), None);
    world.lift("apis");
    recorder.until("jobs.batch synced").await;
}

/// A feed that was started again does not know which objects its predecessor has shown.
#[tokio::test(start_paused = true)]
async fn after_a_feed_panics_its_kind_is_listed_again() {
    let world = FeedWorld::new();
    for name in ["a", "b"] {
        world.create(name).await;
    }
    let mut recorder = world.config_maps();
    recorder.until("configmaps synced").await;
    recorder.take();
    let mut crashes = 1;
    world.rule("crash", move |uri| {
        let is_hit = crashes > 0 && uri.starts_with("/api/v1/configmaps?");
        crashes -= usize::from(is_hit);
        is_hit.then_some(FakeReply::Crash)
    });
    // The watch ends within ten minutes, and the next one makes the feed panic.
    recorder.until("configmaps gone").await;
    world.delete("a").await;
    recorder.during(60).await;
    let expected = [
        "configmaps gone",
        "configmaps syncing",
        "configmaps b applied",
        "configmaps synced",
    ];
    let mut seen = recorder.take();
    seen.retain(|words| !words.contains("kube-root"));
    assert_eq!(seen, expected);
}

/// The feed that would report `Gone` has panicked, so the subscription has to send it.
#[tokio::test(start_paused = true)]
async fn a_kind_removed_while_its_feed_is_down_is_reported_as_gone() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.until("jobs.batch synced").await;
    world.rule("crash", |uri| {
        let is_hit = uri.starts_with("/apis/batch/v1/jobs?");
        is_hit.then_some(FakeReply::Crash)
    });
    recorder.until("jobs.batch gone").await;
    world.rule("apis", |uri| {
        let without =
            |document| with_group(document, "batch", |group| group["versions"] = json!([]));
        (uri == "/apis").then_some(FakeReply::Altered(without))
    });
    recorder.during(1).await;
    recorder.take();
    recorder.during(60).await;
    let about_jobs = |words: &&String| words.starts_with("jobs.batch");
    let seen = recorder.take();
    let last = seen.iter().rfind(about_jobs);
    assert_eq!(last.map(String::as_str), Some("jobs.batch gone"));
}

/// A19: a server that is down takes its group's discovery and its kinds' watches with it.
#[tokio::test(start_paused = true)]
async fn a_stale_group_whose_kinds_fail_as_well_stays() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.until("jobs.batch synced").await;
    world.rule("down", |uri| {
        let stale = |document| {
            with_group(document, "batch", |group| {
                group["versions"][0]["freshness"] = "Stale".into();
            })
        };
        match uri {
            "/apis" => Some(FakeReply::Altered(stale)),
            uri if uri.starts_with("/apis/batch/v1/jobs?") => {
                Some(FakeReply::Text(503, String::new()))
            }
            _ => None,
        }
    });
    recorder.until("jobs.batch failing").await;
    recorder.take();
    recorder.during(100).await;
    let gone = "jobs.batch gone".to_owned();
    assert!(!recorder.changes.contains(&gone), "{:?}", recorder.changes);
    let state = world.state("batch", "jobs");
    assert!(matches!(state, Some(KindState::Failing(_))), "{state:?}");
    world.lift("down");
    recorder.until("jobs.batch synced").await;
}

/// Discovery does not show a kind that is still served: its watch ends after a few seconds all the same.
#[tokio::test(start_paused = true)]
async fn a_removed_kind_is_watched_for_a_few_more_seconds() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.until("jobs.batch synced").await;
    world.rule("apis", |uri| {
        let without =
            |document| with_group(document, "batch", |group| group["versions"] = json!([]));
        (uri == "/apis").then_some(FakeReply::Altered(without))
    });
    recorder.take();
    recorder.until("catalog").await;
    let lost = world.elapsed();
    recorder.until("jobs.batch gone").await;
    assert_eq!((world.elapsed() - lost).as_secs(), 5);
    world.lift("apis");
    world.feeds.refresh();
    recorder.until("jobs.batch synced").await;
}
