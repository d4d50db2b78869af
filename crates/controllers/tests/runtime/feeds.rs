//! Feeds as their subscribers have them.

use std::time::Duration;

use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::record::RecordView;
use serde_json::{Value, json};

use crate::world::{ChangeRecorder, FeedWorld};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn mk_definition(versions: &[&str]) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions = versions.iter().enumerate().map(|(place, name)| {
        json!({"name": name, "served": true, "storage": place == 0, "schema": {"openAPIV3Schema": schema}})
    });
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions.collect::<Vec<_>>()}})
}

fn mk_widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}})
}

/// Where something was heard first.
fn place(ear: &ChangeRecorder, words: &str) -> usize {
    let place = ear.changes.iter().position(|heard| heard == words);
    place.unwrap_or_else(|| panic!("{words} was not heard: {:#?}", ear.changes))
}

#[tokio::test(start_paused = true)]
async fn everything_that_can_be_deleted_is_listed_and_watched() {
    let world = FeedWorld::new();
    world.create("a").await;
    let mut ear = world.everything();
    ear.during(1).await;
    assert_eq!(ear.changes[0], "catalog");
    let deletable = ear.catalog.iter().filter(|(_, kind)| kind.is_deletable());
    let deletable: Vec<String> = deletable.map(|(_, kind)| kind.to_string()).collect();
    assert!(deletable.len() > 40, "{deletable:?}");
    for kind in deletable {
        let is_ignored = kind.starts_with("events");
        for state in ["syncing", "synced"] {
            let words = format!("{kind} {state}");
            let times = ear.changes.iter().filter(|heard| **heard == words).count();
            assert_eq!(times, usize::from(!is_ignored), "{words}");
        }
    }
    let order = [
        "configmaps syncing",
        "configmaps a applied",
        "configmaps synced",
    ];
    let places = order.map(|words| place(&ear, words));
    assert!(places.is_sorted(), "{places:?}");
    let synced = world.feeds.states();
    assert!(synced.iter().all(|(_, state)| *state == KindState::Synced));
    assert_eq!(
        (world.feeds.sync_errors(), world.feeds.unreadable()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_told_as_it_happens() {
    let world = FeedWorld::new();
    let mut ear = world.config_maps();
    ear.until("configmaps synced").await;
    world.create("a").await;
    ear.until("configmaps a applied").await;
    ear.heard();
    let path = "/api/v1/namespaces/default/configmaps/a";
    world.must("PATCH", path, json!({"data": {"x": "y"}})).await;
    world.delete("a").await;
    ear.until("configmaps a deleted").await;
    assert_eq!(
        ear.heard(),
        ["configmaps a applied", "configmaps a deleted"]
    );
    let revisions: Vec<_> = ear
        .records
        .iter()
        .map(|record| &record.meta.revision)
        .collect();
    assert!(
        revisions.windows(2).all(|pair| pair[0].is_before(pair[1])),
        "{revisions:?}"
    );
    // Watches end and are continued: an hour of nothing is nothing to tell.
    ear.during(3600).await;
    assert!(ear.heard().is_empty());
    let lists = world
        .asked("/configmaps")
        .into_iter()
        .filter(|uri| !uri.contains("resourceVersion="));
    assert_eq!(lists.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_kind_is_watched_at_once() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    ear.during(60).await;
    ear.heard();
    let before = world.elapsed();
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    ear.until("widgets.example.com synced").await;
    assert!(world.elapsed() - before < Duration::from_secs(1));
    let order = [
        "catalog",
        "widgets.example.com syncing",
        "widgets.example.com w applied",
        "widgets.example.com synced",
    ];
    let places = order.map(|words| place(&ear, words));
    assert!(places.is_sorted(), "{places:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_goes_shows_the_end_of_its_objects_first_and_may_come_back() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    ear.until("widgets.example.com w applied").await;
    let id = ear.catalog.id("example.com", "widgets").unwrap();
    ear.during(60).await;
    ear.heard();
    world
        .must(
            "DELETE",
            &format!("{CRDS}/widgets.example.com"),
            Value::Null,
        )
        .await;
    let gone = "widgets.example.com gone";
    ear.until(gone).await;
    let deleted = place(&ear, "widgets.example.com w deleted");
    assert!(deleted < place(&ear, gone), "{:#?}", ear.changes);
    assert_eq!(world.state("example.com", "widgets"), None);
    ear.during(60).await;
    ear.heard();

    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    ear.until("widgets.example.com synced").await;
    assert_eq!(ear.catalog.id("example.com", "widgets"), Some(id));
    assert!(!ear.changes.iter().any(|heard| heard.ends_with("missing")));
    world.must("POST", WIDGETS, mk_widget("w")).await;
    ear.until("widgets.example.com w applied").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_prefers_another_version_is_asked_for_in_it() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    ear.until("widgets.example.com w applied").await;
    ear.during(60).await;
    ear.heard();
    let spec = mk_definition(&["v1", "v2"])["spec"].take();
    let path = format!("{CRDS}/widgets.example.com");
    world.must("PATCH", &path, json!({"spec": spec})).await;
    ear.until("widgets.example.com w applied").await;
    // The same object in the same place: nobody is told that the kind was unknown for a moment.
    assert!(
        !ear.changes
            .iter()
            .any(|heard| heard.starts_with("widgets.example.com s"))
    );
    let asked = world.asked("/widgets?");
    assert!(
        asked
            .last()
            .unwrap()
            .starts_with("/apis/example.com/v2/widgets?"),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_does_not_exist_is_waited_for() {
    let world = FeedWorld::new();
    let mut ear = world.kinds(&[("example.com", "widgets")], RecordView::Metadata);
    ear.during(100).await;
    assert_eq!(ear.heard(), ["catalog"]);
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    ear.until("widgets.example.com synced").await;
    assert_eq!(ear.heard().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_late_gets_everything_and_the_others_get_it_again() {
    let world = FeedWorld::new();
    world.create("a").await;
    let mut early = world.config_maps();
    early.until("configmaps synced").await;
    early.heard();
    let mut late = world.config_maps();
    late.until("configmaps synced").await;
    let all = [
        "catalog",
        "configmaps syncing",
        "configmaps a applied",
        "configmaps synced",
    ];
    assert_eq!(late.heard(), all);
    early.during(1).await;
    assert_eq!(early.heard(), ["configmaps a applied"]);
    world.delete("a").await;
    for ear in [&mut early, &mut late] {
        ear.until("configmaps a deleted").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_one_wants_in_full_is_watched_once_and_in_full() {
    let world = FeedWorld::new();
    world.create("a").await;
    let mut collector = world.config_maps();
    collector.until("configmaps a applied").await;
    collector.heard();
    let mut reader = world.kinds(&[("", "configmaps")], RecordView::Full);
    reader.until("configmaps a in full applied").await;
    collector.until("configmaps a in full applied").await;
    collector.during(10).await;
    reader.during(10).await;
    world.asked("");
    world.create("b").await;
    reader.until("configmaps b in full applied").await;
    collector.until("configmaps b in full applied").await;
    collector.during(1000).await;
    assert!(!collector.changes.contains(&"configmaps syncing".to_owned()));
    let asked = world.asked("/configmaps");
    assert!((1..5).contains(&asked.len()), "{asked:?}");
    assert!(
        asked.iter().all(|uri| uri.contains("resourceVersion=")),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_does_not_listen_holds_up_its_own_kinds_only() {
    let world = FeedWorld::new();
    let slow = world.config_maps();
    for number in 0..1_200 {
        world.create(&format!("c{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut other = world.kinds(&[("", "secrets")], RecordView::Metadata);
    other.until("secrets synced").await;
    let mut same = world.config_maps();
    same.during(60).await;
    assert!(!same.changes.contains(&"configmaps synced".to_owned()));
    // Once it is gone, everything goes on.
    drop(slow);
    same.until("configmaps synced").await;
    same.until("configmaps c1199 applied").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_has_not_spoken_yet_counts_as_in_its_first_list() {
    let world = FeedWorld::new();
    let slow = world.config_maps();
    for number in 0..1_200 {
        world.create(&format!("c{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The feed of the one kind waits for somebody who does not listen.
    let mut ear = world.kinds(&[("", "configmaps"), ("", "secrets")], RecordView::Metadata);
    ear.until("secrets synced").await;
    let order = ["catalog", "configmaps syncing", "secrets synced"];
    let places = order.map(|words| place(&ear, words));
    assert!(places.is_sorted(), "{places:?}");
    drop(slow);
    ear.until("configmaps synced").await;
    let syncing = ear
        .changes
        .iter()
        .filter(|heard| heard.ends_with("syncing"));
    assert_eq!(syncing.count(), 2, "each kind says it once");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_wants_any_more_is_not_watched_any_more() {
    let world = FeedWorld::new();
    let mut ear = world.config_maps();
    ear.until("configmaps synced").await;
    drop(ear);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.feeds.states(), []);
    world.asked("");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(world.asked("/configmaps").is_empty());
    let mut ear = world.config_maps();
    ear.until("configmaps synced").await;
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_there_is_nothing_to_hear() {
    let world = FeedWorld::new();
    let mut ear = world.everything();
    ear.until("configmaps synced").await;
    world.feeds.stop().await;
    ear.during(1).await;
    assert!(ear.has_ended());
    world.asked("");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(world.asked("").is_empty());
    let mut late = world.everything();
    late.during(1).await;
    assert!(late.has_ended() && late.changes.is_empty());
    world.feeds.stop().await;
}

/// What is heard in a quarter of an hour with some changes, with the time of each.
fn story() -> Vec<(Duration, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let world = FeedWorld::new();
        let mut tries = 0;
        world.rule("trouble", move |uri| {
            tries += 1;
            let is_hit = uri.contains("watch=1") && tries % 7 == 0;
            is_hit.then(|| crate::world::FakeReply::Text(503, "later".to_owned()))
        });
        let mut ear = world.everything();
        let mut heard = Vec::new();
        for round in 0..15 {
            world.create(&format!("a{round}")).await;
            if round == 3 {
                world.must("POST", CRDS, mk_definition(&["v1"])).await;
            }
            let until = world.elapsed() + Duration::from_secs(60);
            while ear.hear(until.saturating_sub(world.elapsed())).await {
                heard.extend(
                    ear.heard()
                        .into_iter()
                        .map(|words| (world.elapsed(), words)),
                );
            }
        }
        heard
    })
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let story_now = story();
    assert!(story_now.len() > 150, "{}", story_now.len());
    assert!(
        story_now
            .iter()
            .any(|(_, words)| words.ends_with("failing"))
    );
    assert_eq!(story_now, story());
}
