//! Feeds on a healthy server, as subscribers see them.

use std::time::Duration;

use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::record::RecordView;
use serde_json::{Value, json};

use crate::world::{ChangeRecorder, FakeReply, FeedWorld};

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

/// The index of the first change that is equal to `words`.
fn place(recorder: &ChangeRecorder, words: &str) -> usize {
    let place = recorder.changes.iter().position(|seen| seen == words);
    place.unwrap_or_else(|| panic!("{words} was not seen: {:#?}", recorder.changes))
}

#[tokio::test(start_paused = true)]
async fn everything_that_can_be_deleted_is_listed_and_watched() {
    let world = FeedWorld::new();
    world.create("a").await;
    let mut recorder = world.everything();
    recorder.during(1).await;
    assert_eq!(recorder.changes[0], "catalog");
    let deletable = recorder
        .catalog
        .iter()
        .filter(|(_, kind)| kind.is_deletable());
    let deletable: Vec<String> = deletable.map(|(_, kind)| kind.to_string()).collect();
    assert!(deletable.len() > 40, "{deletable:?}");
    for kind in deletable {
        let is_ignored = kind.starts_with("events");
        for state in ["syncing", "synced"] {
            let words = format!("{kind} {state}");
            let times = recorder
                .changes
                .iter()
                .filter(|seen| **seen == words)
                .count();
            assert_eq!(times, usize::from(!is_ignored), "{words}");
        }
    }
    let order = [
        "configmaps syncing",
        "configmaps a applied",
        "configmaps synced",
    ];
    let places = order.map(|words| place(&recorder, words));
    assert!(places.is_sorted(), "{places:?}");
    let synced = world.feeds.states();
    assert!(synced.iter().all(|(_, state)| *state == KindState::Synced));
    assert_eq!(
        (world.feeds.sync_errors(), world.feeds.unreadable()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_in_their_order() {
    let world = FeedWorld::new();
    let mut recorder = world.config_maps();
    recorder.until("configmaps synced").await;
    world.create("a").await;
    recorder.until("configmaps a applied").await;
    recorder.take();
    let path = "/api/v1/namespaces/default/configmaps/a";
    world.must("PATCH", path, json!({"data": {"x": "y"}})).await;
    world.delete("a").await;
    recorder.until("configmaps a deleted").await;
    assert_eq!(
        recorder.take(),
        ["configmaps a applied", "configmaps a deleted"]
    );
    let revisions: Vec<_> = recorder
        .records
        .iter()
        .map(|record| &record.meta.revision)
        .collect();
    assert!(
        revisions.windows(2).all(|pair| pair[0].is_before(pair[1])),
        "{revisions:?}"
    );
    // Watches end and continue: an hour without changes sends none.
    recorder.during(3600).await;
    assert!(recorder.take().is_empty());
    let lists = world
        .asked("/configmaps")
        .into_iter()
        .filter(|uri| !uri.contains("resourceVersion="));
    assert_eq!(lists.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn metadata_is_read_as_protobuf() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.during(1).await;
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    world.create("a").await;
    recorder.until("widgets.example.com w applied").await;
    world.delete("a").await;
    recorder.until("configmaps a deleted").await;
    for kind in ["/configmaps?", "/widgets?"] {
        let media_types = world.media_types(kind);
        let is_protobuf = |it: &String| it.starts_with("application/vnd.kubernetes.protobuf");
        assert!(
            media_types.iter().all(is_protobuf),
            "{kind}: {media_types:?}"
        );
        assert!(!media_types.is_empty(), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_kind_is_watched_at_once() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.during(60).await;
    recorder.take();
    let before = world.elapsed();
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    recorder.until("widgets.example.com synced").await;
    assert!(world.elapsed() - before < Duration::from_secs(1));
    let order = [
        "catalog",
        "widgets.example.com syncing",
        "widgets.example.com w applied",
        "widgets.example.com synced",
    ];
    let places = order.map(|words| place(&recorder, words));
    assert!(places.is_sorted(), "{places:?}");
}

/// C12: discovery that has not changed is neither sent nor published again.
#[tokio::test(start_paused = true)]
async fn unchanged_discovery_is_not_read_again() {
    let world = FeedWorld::new();
    let mut recorder = world.config_maps();
    recorder.during(100).await;
    assert_eq!(world.statuses("/api"), [200, 304, 304, 304]);
    assert_eq!(world.statuses("/apis"), [200, 304, 304, 304]);
    let catalogs = |recorder: &mut ChangeRecorder| {
        let changes = recorder.take();
        changes.iter().filter(|change| *change == "catalog").count()
    };
    assert_eq!(catalogs(&mut recorder), 1);
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    recorder.during(60).await;
    assert_eq!(catalogs(&mut recorder), 1);
    let statuses = world.statuses("/apis");
    let sent = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(sent, 2, "{statuses:?}");
    assert!(
        world
            .statuses("/api")
            .iter()
            .skip(1)
            .all(|status| *status == 304)
    );
}

/// A round that failed in part is followed by a full one, although the roots have not changed.
#[tokio::test(start_paused = true)]
async fn a_root_that_failed_once_is_found_again() {
    let world = FeedWorld::new();
    let mut recorder = world.config_maps();
    recorder.until("configmaps synced").await;
    world.rule("broken", |uri| {
        (uri == "/apis").then(|| FakeReply::Text(503, String::new()))
    });
    recorder.during(40).await;
    assert!(world.feeds.discovery_trouble().is_some());
    world.lift("broken");
    recorder.during(40).await;
    assert_eq!(world.feeds.discovery_trouble(), None);
    assert_eq!(world.statuses("/apis")[..2], [200, 304]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_kind_shows_its_deletes_first_and_may_return() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    recorder.until("widgets.example.com w applied").await;
    let id = recorder.catalog.id("example.com", "widgets").unwrap();
    recorder.during(60).await;
    recorder.take();
    world
        .must(
            "DELETE",
            &format!("{CRDS}/widgets.example.com"),
            Value::Null,
        )
        .await;
    let gone = "widgets.example.com gone";
    recorder.until(gone).await;
    let deleted = place(&recorder, "widgets.example.com w deleted");
    assert!(deleted < place(&recorder, gone), "{:#?}", recorder.changes);
    assert_eq!(world.state("example.com", "widgets"), None);
    recorder.during(60).await;
    recorder.take();

    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    recorder.until("widgets.example.com synced").await;
    assert_eq!(recorder.catalog.id("example.com", "widgets"), Some(id));
    assert!(
        !recorder
            .changes
            .iter()
            .any(|seen| seen.ends_with("missing"))
    );
    world.must("POST", WIDGETS, mk_widget("w")).await;
    recorder.until("widgets.example.com w applied").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_requested_in_its_new_preferred_version() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    world.must("POST", WIDGETS, mk_widget("w")).await;
    recorder.until("widgets.example.com w applied").await;
    recorder.during(60).await;
    recorder.take();
    let spec = mk_definition(&["v1", "v2"])["spec"].take();
    let path = format!("{CRDS}/widgets.example.com");
    world.must("PATCH", &path, json!({"spec": spec})).await;
    recorder.until("widgets.example.com w applied").await;
    // Subscribers keep the objects and get no state that says that the kind was gone for a moment.
    assert!(
        !recorder
            .changes
            .iter()
            .any(|seen| seen.starts_with("widgets.example.com s"))
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
async fn a_kind_may_appear_after_the_subscription() {
    let world = FeedWorld::new();
    let mut recorder = world.kinds(&[("example.com", "widgets")], RecordView::Metadata);
    recorder.during(100).await;
    assert_eq!(recorder.take(), ["catalog"]);
    world.must("POST", CRDS, mk_definition(&["v1"])).await;
    recorder.until("widgets.example.com synced").await;
    assert_eq!(recorder.take().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_causes_a_list_for_all_subscribers() {
    let world = FeedWorld::new();
    world.create("a").await;
    let mut early = world.config_maps();
    early.until("configmaps synced").await;
    early.take();
    let mut late = world.config_maps();
    late.until("configmaps synced").await;
    let all = [
        "catalog",
        "configmaps syncing",
        "configmaps a applied",
        "configmaps synced",
    ];
    assert_eq!(late.take(), all);
    early.during(1).await;
    assert_eq!(early.take(), ["configmaps a applied"]);
    world.delete("a").await;
    for recorder in [&mut early, &mut late] {
        recorder.until("configmaps a deleted").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_watched_once_in_the_fullest_view() {
    let world = FeedWorld::new();
    world.create("a").await;
    let mut collector = world.config_maps();
    collector.until("configmaps a applied").await;
    collector.take();
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
async fn a_slow_subscriber_delays_only_its_own_kinds() {
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
    // Once the slow subscriber is gone, the kind continues.
    drop(slow);
    same.until("configmaps synced").await;
    same.until("configmaps c1199 applied").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_an_answer_counts_as_syncing() {
    let world = FeedWorld::new();
    let slow = world.config_maps();
    for number in 0..1_200 {
        world.create(&format!("c{number}")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The feed of one kind waits for a subscriber that does not read.
    let mut recorder = world.kinds(&[("", "configmaps"), ("", "secrets")], RecordView::Metadata);
    recorder.until("secrets synced").await;
    let order = ["catalog", "configmaps syncing", "secrets synced"];
    let places = order.map(|words| place(&recorder, words));
    assert!(places.is_sorted(), "{places:?}");
    drop(slow);
    recorder.until("configmaps synced").await;
    let syncing = recorder
        .changes
        .iter()
        .filter(|seen| seen.ends_with("syncing"));
    assert_eq!(syncing.count(), 2, "each kind says it once");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_subscribers_is_not_watched() {
    let world = FeedWorld::new();
    let mut recorder = world.config_maps();
    recorder.until("configmaps synced").await;
    drop(recorder);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.feeds.states(), []);
    world.asked("");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(world.asked("/configmaps").is_empty());
    let mut recorder = world.config_maps();
    recorder.until("configmaps synced").await;
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_change_arrives() {
    let world = FeedWorld::new();
    let mut recorder = world.everything();
    recorder.until("configmaps synced").await;
    world.feeds.stop().await;
    recorder.during(1).await;
    assert!(recorder.has_ended());
    world.asked("");
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(world.asked("").is_empty());
    let mut late = world.everything();
    late.during(1).await;
    assert!(late.has_ended() && late.changes.is_empty());
    world.feeds.stop().await;
}

/// The changes of a quarter of an hour, with the time of each.
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
        let mut recorder = world.everything();
        let mut seen = Vec::new();
        for round in 0..15 {
            world.create(&format!("a{round}")).await;
            if round == 3 {
                world.must("POST", CRDS, mk_definition(&["v1"])).await;
            }
            let until = world.elapsed() + Duration::from_secs(60);
            while recorder
                .receive(until.saturating_sub(world.elapsed()))
                .await
            {
                seen.extend(
                    recorder
                        .take()
                        .into_iter()
                        .map(|words| (world.elapsed(), words)),
                );
            }
        }
        seen
    })
}

#[test]
fn the_same_seed_gives_the_same_changes() {
    let story_now = story();
    assert!(story_now.len() > 150, "{}", story_now.len());
    assert!(
        story_now
            .iter()
            .any(|(_, words)| words.ends_with("failing"))
    );
    assert_eq!(story_now, story());
}
