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
    let items = names.iter().map(|name| {
        json!({"metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "resourceVersion": "3"}})
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

/// A6, on the embedded server: what happened between two watches is found by a list, in either form of 410.
#[tokio::test(start_paused = true)]
async fn after_a_410_the_difference_is_told() {
    let gone: [fn() -> FakeReply; 2] = [
        || FakeReply::Text(410, "too old".to_owned()),
        || FakeReply::Lines(vec![expired()], StreamEnd::End(Duration::ZERO)),
    ];
    for gone in gone {
        let world = FeedWorld::new();
        let mut ear = world.config_maps();
        ear.until("configmaps synced").await;
        for name in ["a", "b"] {
            world.create(name).await;
        }
        ear.until("configmaps b applied").await;
        ear.heard();
        // Watches end within ten minutes; the next ones are refused while things happen.
        let is_resumed =
            |uri: &str| uri.starts_with("/api/v1/configmaps?") && uri.contains("resourceVersion=");
        world.rule("cut", move |uri| {
            is_resumed(uri).then(|| FakeReply::Text(503, String::new()))
        });
        ear.until("configmaps failing").await;
        world.delete("a").await;
        world.create("c").await;
        let mut tries = 0;
        world.rule("cut", move |uri| {
            tries += usize::from(is_resumed(uri));
            (is_resumed(uri) && tries == 1).then(gone)
        });
        ear.during(60).await;
        // An open watch counts as health until its first line says otherwise.
        let difference = [
            "configmaps b applied",
            "configmaps c applied",
            "configmaps a missing",
        ];
        let heard = ear.heard();
        let about_objects = |words: &&String| {
            ["applied", "missing"]
                .iter()
                .any(|end| words.ends_with(end))
        };
        let told: Vec<&String> = heard.iter().filter(about_objects).collect();
        assert_eq!(told, difference);
        assert_eq!(
            heard
                .iter()
                .filter(|words| *words == "configmaps synced")
                .count(),
            1
        );
        world.delete("b").await;
        ear.until("configmaps b deleted").await;
    }
}

/// A9: forbidden, granted, revoked; and nobody else notices.
#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_taken_up_when_it_is_allowed() {
    let forbid = |uri: &str| {
        let is_hit = uri.starts_with("/api/v1/configmaps?");
        is_hit.then(|| FakeReply::Text(403, r#"{"kind":"Status","code":403}"#.to_owned()))
    };
    let world = FeedWorld::with(|world| world.rule("forbid", forbid));
    world.create("a").await;
    let mut ear = world.everything();
    ear.until("configmaps forbidden").await;
    ear.until("secrets synced").await;
    ear.during(300).await;
    assert_eq!(world.state("", "configmaps"), Some(KindState::Forbidden));
    assert!(world.asked("/configmaps?").len() < 25);
    ear.heard();
    world.lift("forbid");
    ear.until("configmaps synced").await;
    ear.until("configmaps a applied").await;
    ear.heard();
    world.rule("forbid", forbid);
    ear.until("configmaps forbidden").await;
    world.lift("forbid");
    ear.until("configmaps synced").await;
    assert!(!ear.changes.iter().any(|heard| heard.ends_with("missing")));
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
                page(51, &["a", "c"]),
                FakeReply::Lines(vec![line("MODIFIED", "c", 52)], StreamEnd::Hang),
            ],
        );
    });
    let mut ear = world.config_maps();
    ear.during(30).await;
    let heard = ear.heard();
    let tail: Vec<&str> = heard.iter().skip(6).map(String::as_str).collect();
    let expected = [
        "configmaps a applied",
        "configmaps c applied",
        "configmaps b missing",
        "configmaps c applied",
    ];
    assert_eq!(tail, expected, "{heard:#?}");
    assert!(world.asked("/configmaps?limit=500").len() == 2);
}

/// A13: etcd was restored; A20's cousin for all kinds at once.
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
    let mut ear = world.config_maps();
    ear.during(30).await;
    let heard = ear.heard();
    let tail: Vec<&str> = heard.iter().skip(6).map(String::as_str).collect();
    let expected = [
        "configmaps frozen",
        "configmaps a applied",
        "configmaps d applied",
        "configmaps b missing",
        "configmaps c missing",
        "configmaps synced",
        "configmaps d applied",
    ];
    assert_eq!(tail, expected, "{heard:#?}");
}

/// A8, A11: whatever a proxy says about a kind is not about its objects.
#[tokio::test(start_paused = true)]
async fn nonsense_instead_of_a_list_makes_the_kind_fail_and_nothing_missing() {
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
        let mut ear = world.config_maps();
        ear.until("configmaps synced").await;
        world.rule("nonsense", move |uri| {
            let is_hit = uri.starts_with("/api/v1/configmaps?");
            // As a whole, or in the middle of a list by pages.
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
        ear.during(700).await;
        let state = world.state("", "configmaps");
        assert!(
            matches!(state, Some(KindState::Failing(_))),
            "{status} {text}: {state:?}"
        );
        assert!(
            !ear.changes.iter().any(|heard| heard.ends_with("missing")),
            "{:?}",
            ear.changes
        );
        if status == 404 {
            // More often than every half minute.
            assert!(world.asked("/apis").len() > 30);
        }
        ear.heard();
        world.lift("nonsense");
        ear.until("configmaps synced").await;
    }
}

/// A14, S13.
#[tokio::test(start_paused = true)]
async fn one_bad_object_hides_no_other() {
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
    let mut ear = world.config_maps();
    ear.until("configmaps c applied").await;
    let expected = [
        "catalog",
        "configmaps syncing",
        "configmaps a applied",
        "configmaps deep applied",
        "configmaps b applied",
        "configmaps synced",
        "configmaps c applied",
    ];
    assert_eq!(ear.heard(), expected);
    assert_eq!(world.feeds.unreadable(), 1);
}

/// A14: the connection breaks after each event, and nothing is lost or told twice.
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
    let mut ear = world.config_maps();
    let applied = |heard: &[String]| {
        heard
            .iter()
            .filter(|heard| *heard == "configmaps a applied")
            .count()
    };
    while applied(&ear.changes) < 10 {
        assert!(ear.hear(Duration::from_secs(60)).await, "{:?}", ear.changes);
    }
    assert!(!ear.changes.contains(&"configmaps failing".to_owned()));
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
    let mut ear = world.config_maps();
    ear.until("configmaps synced").await;
    ear.heard();
    ear.until("configmaps a applied").await;
    assert_eq!(world.elapsed().as_secs(), 90);
}

/// A19: a server that has neither aggregated discovery nor lists by watch.
#[tokio::test(start_paused = true)]
async fn an_old_server_is_understood() {
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

/// Upstream's TestGarbageCollectorSync, what of it concerns feeds.
#[tokio::test(start_paused = true)]
async fn a_kind_that_never_answers_delays_no_other_and_is_counted_once() {
    let silent = |uri: &str| {
        uri.starts_with("/api/v1/configmaps?")
            .then_some(FakeReply::Silence)
    };
    let world = FeedWorld::with(|world| world.rule("silent", silent));
    let mut ear = world.everything();
    ear.during(5).await;
    let synced = world
        .feeds
        .states()
        .into_iter()
        .filter(|(_, state)| *state == KindState::Synced);
    assert_eq!(synced.count() + 1, world.feeds.states().len());
    assert_eq!(world.feeds.sync_errors(), 0);
    ear.during(300).await;
    assert_eq!(world.feeds.sync_errors(), 1);
    world.lift("silent");
    ear.until("configmaps synced").await;
}

#[tokio::test(start_paused = true)]
async fn a_discovery_that_fails_changes_nothing() {
    let fail = |uri: &str| {
        uri.starts_with("/api")
            .then(|| FakeReply::Text(503, String::new()))
    };
    let world = FeedWorld::with(|world| world.rule("down", fail));
    let mut ear = world.config_maps();
    ear.during(10).await;
    assert!(ear.changes.is_empty() && world.feeds.sync_errors() > 3);
    world.lift("down");
    ear.until("configmaps synced").await;
    ear.heard();
    let errors = world.feeds.sync_errors();
    world.rule("down", |uri| {
        (uri == "/api" || uri == "/apis").then(|| FakeReply::Text(503, String::new()))
    });
    ear.during(100).await;
    assert!(world.feeds.sync_errors() > errors && ear.changes.is_empty());
    world.create("a").await;
    ear.until("configmaps a applied").await;
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

/// A19: some groups fail, a group vanishes, and returns.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_stale_stays_and_one_that_is_gone_goes() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    ear.until("jobs.batch synced").await;
    ear.during(60).await;
    ear.heard();
    world.rule("apis", |uri| {
        let stale = |document| {
            with_group(document, "batch", |group| {
                group["versions"][0]["freshness"] = "Stale".into();
            })
        };
        (uri == "/apis").then_some(FakeReply::Altered(stale))
    });
    ear.during(100).await;
    assert!(ear.changes.is_empty(), "{:?}", ear.changes);
    assert_eq!(world.state("batch", "jobs"), Some(KindState::Synced));

    world.rule("apis", |uri| {
        let without =
            |document| with_group(document, "batch", |group| group["versions"] = json!([]));
        (uri == "/apis").then_some(FakeReply::Altered(without))
    });
    ear.until("jobs.batch gone").await;
    assert_eq!(world.state("batch", "jobs"), None);
    world.lift("apis");
    ear.until("jobs.batch synced").await;
}

/// A feed that was started anew does not know what its predecessor has shown.
#[tokio::test(start_paused = true)]
async fn after_the_crash_of_a_feed_everything_about_its_kind_is_told_anew() {
    let world = FeedWorld::new();
    for name in ["a", "b"] {
        world.create(name).await;
    }
    let mut ear = world.config_maps();
    ear.until("configmaps synced").await;
    ear.heard();
    let mut crashes = 1;
    world.rule("crash", move |uri| {
        let is_hit = crashes > 0 && uri.starts_with("/api/v1/configmaps?");
        crashes -= usize::from(is_hit);
        is_hit.then_some(FakeReply::Crash)
    });
    // Its watch ends within ten minutes, and the next one is its end.
    ear.until("configmaps gone").await;
    world.delete("a").await;
    ear.during(60).await;
    let expected = [
        "configmaps gone",
        "configmaps syncing",
        "configmaps b applied",
        "configmaps synced",
    ];
    let mut heard = ear.heard();
    heard.retain(|words| !words.contains("kube-root"));
    assert_eq!(heard, expected);
}

/// A kind that goes after its feed crashed has nobody else to say so.
#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_while_its_feed_is_down_is_told_to_be_gone() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    ear.until("jobs.batch synced").await;
    world.rule("crash", |uri| {
        let is_hit = uri.starts_with("/apis/batch/v1/jobs?");
        is_hit.then_some(FakeReply::Crash)
    });
    ear.until("jobs.batch gone").await;
    world.rule("apis", |uri| {
        let without =
            |document| with_group(document, "batch", |group| group["versions"] = json!([]));
        (uri == "/apis").then_some(FakeReply::Altered(without))
    });
    ear.during(1).await;
    ear.heard();
    ear.during(60).await;
    let about_jobs = |words: &&String| words.starts_with("jobs.batch");
    let heard = ear.heard();
    let last = heard.iter().rfind(about_jobs);
    assert_eq!(last.map(String::as_str), Some("jobs.batch gone"));
}

/// A19: a server that is down takes its group's discovery and its kinds' watches with it.
#[tokio::test(start_paused = true)]
async fn a_stale_group_whose_kinds_fail_as_well_stays() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    ear.until("jobs.batch synced").await;
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
    ear.until("jobs.batch failing").await;
    ear.heard();
    ear.during(100).await;
    let gone = "jobs.batch gone".to_owned();
    assert!(!ear.changes.contains(&gone), "{:?}", ear.changes);
    let state = world.state("batch", "jobs");
    assert!(matches!(state, Some(KindState::Failing(_))), "{state:?}");
    world.lift("down");
    ear.until("jobs.batch synced").await;
}

/// Discovery says that a kind is gone while it is not: the watch is given up after a few seconds all the same.
#[tokio::test(start_paused = true)]
async fn a_kind_that_discovery_has_lost_is_watched_for_a_few_seconds_more() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    ear.until("jobs.batch synced").await;
    world.rule("apis", |uri| {
        let without =
            |document| with_group(document, "batch", |group| group["versions"] = json!([]));
        (uri == "/apis").then_some(FakeReply::Altered(without))
    });
    ear.heard();
    ear.until("catalog").await;
    let lost = world.elapsed();
    ear.until("jobs.batch gone").await;
    assert_eq!((world.elapsed() - lost).as_secs(), 5);
    world.lift("apis");
    world.feeds.refresh();
    ear.until("jobs.batch synced").await;
}
