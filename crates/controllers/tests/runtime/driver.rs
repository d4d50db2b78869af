//! A driver on a healthy server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use caretaker_controllers::runtime::controller::ObservedChange;
use caretaker_controllers::runtime::driver::{DriverEnd, DriverMode, DriverOptions, SHUTDOWN_MAX};
use caretaker_controllers::runtime::evidence::WriteStatus;
use caretaker_controllers::runtime::kind::{KindId, KindState};
use http::Method;
use serde_json::json;
use tokio::time::Instant;

use crate::driver_toy::{FINALIZER, ToyController};
use crate::driver_world::{DriverWorld, PATH, RequestFate, mk_record};

#[tokio::test(start_paused = true)]
async fn an_object_is_deleted_when_it_is_due_and_not_before() {
    let world = DriverWorld::new();
    world.create("doomed-a", &[]).await;
    world.create("b", &[]).await;
    world.pass(9).await;
    assert!(world.has("doomed-a").await && world.log().is_empty());
    world.pass(2).await;
    assert_eq!(world.names().await, ["b"]);
    assert_eq!(world.log().len(), 1, "{:?}", world.log());

    let evidence = world.trail.recent();
    assert_eq!(evidence.len(), 1);
    let line = serde_json::to_value(&*evidence[0]).unwrap();
    assert_eq!(line["controller"], "toy-controller");
    assert_eq!(line["verb"], "delete");
    assert_eq!(line["object"], "configmaps default/doomed-a");
    assert_eq!(
        line["because"],
        json!({"rule": "Doomed", "message": "its time has come"})
    );
    assert_eq!(line["status"], 200);
    assert_eq!(line["key"], "doomed-a");
    assert_eq!(evidence[0].target.to_string(), "ConfigMap default/doomed-a");
    assert!(evidence[0].done && evidence[0].requests == 1);
}

#[tokio::test(start_paused = true)]
async fn removes_one_finalizer_and_keeps_the_others() {
    let world = DriverWorld::new();
    world.create("a", &["example.com/other", FINALIZER]).await;
    world.pass(1).await;
    let path = format!("{PATH}/a");
    let (_, object) = world.call(Method::GET, &path, &json!(null)).await;
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["example.com/other"])
    );
    assert_eq!(world.count("PATCH"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_keys_wait_for_one_read() {
    let world = DriverWorld::new();
    world.rule(|method, _| match *method {
        Method::GET => RequestFate::Late(Duration::from_secs(3)),
        _ => RequestFate::Pass,
    });
    for number in 0..1000 {
        world.create(&format!("child-{number}-of-x"), &[]).await;
    }
    world.pass(2).await;
    assert_eq!(world.log().len(), 1, "only the question");
    world.pass(60).await;
    assert_eq!(world.names().await, [""; 0]);
    assert_eq!((world.count("GET"), world.count("DELETE")), (1, 1000));
    assert_eq!(world.trail.reads(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outdated_answer_causes_another_read_without_backoff() {
    let world = DriverWorld::new();
    world.rule(|_, _| RequestFate::Late(Duration::from_millis(10)));
    for number in 0..1000 {
        world.create(&format!("sure-{number}-of-x"), &[]).await;
    }
    world.pass(2).await;
    assert_eq!(world.names().await, [""; 0]);
    assert_eq!(world.count("DELETE"), 1000);
    let questions = world.count("GET");
    // Deletes that were in flight when the answer expired are based on the same answer.
    assert!((8..=10).contains(&questions), "{questions}");
    let retries = r#"workqueue_retries_total{name="toy-controller"} 0"#;
    assert!(world.metrics.encode().contains(retries));
    let decisions = world.decisions.load(Ordering::Relaxed);
    assert!(
        decisions < 4_200,
        "{decisions}: those who wait are not asked one by one"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_in_vain_backs_off() {
    let world = DriverWorld::new();
    for number in 0..10 {
        world.create(&format!("vain-{number}"), &[]).await;
    }
    world.pass(3600).await;
    let decisions = world.decisions.load(Ordering::Relaxed);
    assert!((500..5000).contains(&decisions), "{decisions}");
    assert_eq!(world.log(), []);
}

#[tokio::test(start_paused = true)]
async fn dependents_of_an_existing_owner_stay() {
    let world = DriverWorld::new();
    world.create("x", &[]).await;
    for number in 0..10 {
        world.create(&format!("child-{number}-of-x"), &[]).await;
    }
    world.pass(60).await;
    assert_eq!(world.names().await.len(), 11);
    assert_eq!((world.count("GET"), world.log().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_records_each_write_once_per_version_and_sends_none() {
    let world = DriverWorld::with(DriverOptions {
        mode: DriverMode::DryRun,
        ..DriverOptions::default()
    });
    world.create("doomed-a", &[]).await;
    world.create("held", &[FINALIZER]).await;
    world.create("child-1-of-x", &[]).await;
    world.pass(3600).await;
    assert_eq!(world.names().await.len(), 3);
    assert_eq!(world.count("GET"), world.log().len(), "{:?}", world.log());
    let mut seen: Vec<_> = world
        .trail
        .recent()
        .iter()
        .map(|evidence| (evidence.verb, evidence.target.name.clone(), evidence.status))
        .collect();
    seen.sort_by(|a, b| a.1.cmp(&b.1));
    let expected = [
        ("delete", "child-1-of-x".to_owned(), WriteStatus::DryRun),
        ("delete", "doomed-a".to_owned(), WriteStatus::DryRun),
        ("patch", "held".to_owned(), WriteStatus::DryRun),
    ];
    assert_eq!(seen, expected);

    let path = format!("{PATH}/doomed-a");
    let (_, object) = world.call(Method::GET, &path, &json!(null)).await;
    let again = ObservedChange::Applied(Arc::new(mk_record(&object)));
    world.changes.send(again).await.unwrap();
    world.pass(3600).await;
    assert_eq!(world.trail.recent().len(), 3, "it is the same version");

    let patch = json!({"data": {"a": "b"}});
    world.call(Method::PATCH, &path, &patch).await;
    world.pass(3600).await;
    assert_eq!(world.trail.recent().len(), 4, "it is another version now");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_kind_is_not_written_to_until_it_thaws() {
    let world = DriverWorld::new();
    let state = |state| ObservedChange::Kind(KindId(0), state);
    world.changes.send(state(KindState::Frozen)).await.unwrap();
    world.create("doomed-a", &[]).await;
    world.create("held", &[FINALIZER]).await;
    world.create("child-1-of-x", &[]).await;
    world.pass(300).await;
    assert_eq!(world.names().await.len(), 3);
    assert_eq!((world.count("GET"), world.log().len()), (1, 1), "reads go");
    world.changes.send(state(KindState::Synced)).await.unwrap();
    world.pass(61).await;
    assert_eq!(world.names().await, ["held"]);
    assert_eq!(world.count("PATCH"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_timer_is_never_in_the_future_backs_off() {
    let world = DriverWorld::new();
    world.create("waiting-a", &[]).await;
    world.pass(60).await;
    let first = world.decisions.load(Ordering::Relaxed);
    world.pass(3600).await;
    let more = world.decisions.load(Ordering::Relaxed) - first;
    assert!((50..=61).contains(&more), "{more} decisions in an hour");
    assert_eq!(world.log(), []);
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_are_in_flight_than_there_are_workers() {
    for workers in [1, 4] {
        let world = DriverWorld::with(DriverOptions {
            workers,
            ..DriverOptions::default()
        });
        world.rule(|_, _| RequestFate::Late(Duration::from_millis(100)));
        for number in 0..40 {
            world.create(&format!("doomed-{number}"), &[]).await;
        }
        world.pass(60).await;
        assert_eq!(world.names().await, [""; 0]);
        let (now, most) = *world.wire.in_flight.lock().unwrap();
        assert_eq!((now, most), (0, workers));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_at_the_end_of_the_queue_all_write_once_before_any_writes_twice() {
    for (has_turns, order) in [
        (
            false,
            ["PATCH", "DELETE", "PATCH", "DELETE", "PATCH", "DELETE"],
        ),
        (
            true,
            ["PATCH", "PATCH", "PATCH", "DELETE", "DELETE", "DELETE"],
        ),
    ] {
        let toy = ToyController::with_turns(has_turns);
        let options = DriverOptions {
            workers: 1,
            ..DriverOptions::default()
        };
        let world = DriverWorld::of(toy, options);
        world.rule(|_, _| RequestFate::Late(Duration::from_secs(20)));
        for name in ["doomed-a", "doomed-b", "doomed-c"] {
            world.create(name, &[FINALIZER]).await;
        }
        world.pass(300).await;
        let log = world.log();
        let methods: Vec<&str> = log.iter().map(|(method, ..)| method.as_str()).collect();
        assert_eq!(methods, order, "{has_turns}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_decision_and_answer_is_measured_by_the_controller() {
    let world = DriverWorld::new();
    world.create("doomed-a", &[FINALIZER]).await;
    world.pass(60).await;
    let steps = world
        .handle
        .query(|toy, _| toy.steps.clone())
        .await
        .unwrap();
    for step in ["decided Finalizer", "answered patch", "answered delete"] {
        assert!(steps.iter().any(|found| found == step), "{step}: {steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_answers_and_sends_nothing_new() {
    let world = DriverWorld::with(DriverOptions {
        workers: 2,
        ..DriverOptions::default()
    });
    world.rule(|_, _| RequestFate::Late(Duration::from_secs(4)));
    for number in 0..10 {
        world.create(&format!("doomed-{number}"), &[]).await;
    }
    world.pass(11).await;
    assert_eq!(world.log().len(), 2);
    let before = Instant::now();
    world.stop.send_replace(true);
    assert_eq!(world.driver.await.unwrap(), DriverEnd::Stopped);
    assert!(before.elapsed() < Duration::from_secs(4));
    let evidence = world.trail.recent();
    assert_eq!(evidence.len(), 2, "what was sent is on record");
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_ever() {
    let world = DriverWorld::new();
    world.rule(|_, _| RequestFate::Lost);
    world.create("doomed-a", &[]).await;
    world.pass(11).await;
    let before = Instant::now();
    world.stop.send_replace(true);
    assert_eq!(world.driver.await.unwrap(), DriverEnd::Stopped);
    assert_eq!(before.elapsed(), SHUTDOWN_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_controller_ends_its_driver() {
    let world = DriverWorld::new();
    world.create("panic-now", &[]).await;
    let error = world.driver.await.unwrap_err();
    assert!(error.is_panic());
    assert_eq!(world.handle.query(|toy, _| toy.len()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_running_controller_can_be_queried() {
    let world = DriverWorld::new();
    for number in 0..10 {
        world.create(&format!("doomed-{number}"), &[]).await;
    }
    world.pass(1).await;
    let (count, now) = world
        .handle
        .query(|toy, now| (toy.len(), now))
        .await
        .unwrap();
    assert!(count >= 10);
    assert_eq!(now, world.clock.now());
}

#[tokio::test(start_paused = true)]
async fn the_handle_shows_how_long_work_has_been_waiting() {
    let world = DriverWorld::with(DriverOptions {
        workers: 1,
        queue: Some("toys"),
        ..DriverOptions::default()
    });
    world.rule(|_, _| RequestFate::Late(Duration::from_secs(20)));
    world.create("doomed-a", &[]).await;
    world.create("doomed-b", &[]).await;
    world.pass(15).await;
    let ages = world.handle.stats();
    assert_eq!(ages.call.unwrap().as_secs(), 5);
    assert_eq!(ages.due.unwrap().as_secs(), 5);
    assert_eq!(ages.longest.as_secs(), 5);
    assert_eq!(ages.overdue().as_secs(), 5);
    let text = world.metrics.encode();
    for line in [
        r#"workqueue_depth{name="toys"} 1"#,
        r#"workqueue_longest_running_processor_seconds{name="toys"} 5.0"#,
        r#"workqueue_unfinished_work_seconds{name="toys"} 5.0"#,
        r#"caretaker_oldest_item_seconds{controller="toy-controller"} 5.0"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    world.pass(100).await;
    let ages = world.handle.stats();
    assert_eq!(
        (ages.call, ages.due, ages.overdue()),
        (None, None, Duration::ZERO)
    );
    let text = world.metrics.encode();
    let deletes = r#"caretaker_deletes_total{controller="toy-controller",group="",resource="configmaps",policy="background",result="deleted"} 2"#;
    let requests = r#"rest_client_requests_total{method="DELETE",code="200"} 2"#;
    let depth = r#"workqueue_depth{name="toys"} 0"#;
    let slots = r#"caretaker_request_slots{controller="toy-controller"} 1"#;
    for line in [deletes, requests, depth, slots] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
}
