//! A driver whose server, connection or competing client misbehaves (faults A3–A9, A11, A17, A21).

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use caretaker_controllers::runtime::driver::clock_skew::TimeSource;
use caretaker_controllers::runtime::driver::{CONFLICTS_AT_ONCE, DriverOptions};
use caretaker_controllers::runtime::effects::{ClientRateLimit, REQUEST_TIMEOUT};
use caretaker_controllers::runtime::evidence::WriteStatus;
use caretaker_controllers::runtime::queue::RetryBucket;
use caretaker_machinery::clock::Clock;
use http::{Method, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::driver_toy::{FINALIZER, ToyController};
use crate::driver_world::{DriverWorld, PATH, RequestFate, START, mk_reply};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Gives the first `times` requests of a method the fate `fate`; later requests pass.
fn first(
    times: usize,
    wanted: Method,
    fate: impl Fn() -> RequestFate + Send + 'static,
) -> impl FnMut(&Method, &str) -> RequestFate + Send + 'static {
    let mut left = times;
    move |method, _| {
        if *method != wanted || left == 0 {
            return RequestFate::Pass;
        }
        left -= 1;
        fate()
    }
}

fn outcomes(world: &DriverWorld) -> Vec<WriteStatus> {
    let evidence = world.trail.recent();
    evidence.iter().map(|evidence| evidence.status).collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_conflict_the_object_is_read_and_judged_again_at_once() {
    let world = DriverWorld::new();
    world.rule(first(3, Method::DELETE, || RequestFate::Overtaken));
    world.create("doomed-a", &[]).await;
    world.pass(11).await;
    assert!(!world.has("doomed-a").await);
    let log = world.log();
    let verbs: Vec<&str> = log.iter().map(|(method, ..)| method.as_str()).collect();
    let expected = ["DELETE", "GET", "DELETE", "GET", "DELETE", "GET", "DELETE"];
    assert_eq!(verbs, expected);
    assert_eq!(log.last().unwrap().2, 0.0, "no key waited: {log:?}");
    let conflict = WriteStatus::Code(409);
    assert_eq!(
        outcomes(&world),
        [conflict, conflict, conflict, WriteStatus::Code(200)]
    );
    assert_eq!(world.trail.recent()[3].requests, 7);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_all_the_time_backs_off() {
    let world = DriverWorld::new();
    let times = CONFLICTS_AT_ONCE as usize + 1;
    world.rule(first(times, Method::DELETE, || RequestFate::Overtaken));
    world.create("doomed-a", &[]).await;
    world.pass(12).await;
    assert!(!world.has("doomed-a").await);
    assert_eq!(world.count("DELETE"), times + 1);
    assert_eq!(world.count("GET"), times - 1, "the last one backs off");
    let log = world.log();
    let waited = log[log.len() - 1].2 - log[log.len() - 2].2;
    assert!(waited >= 0.005, "changes do not cut it short: {log:?}");
    let starved = r#"caretaker_conflicts_starved_total{controller="toy-controller"} 1"#;
    assert!(world.metrics.encode().contains(starved));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_replaced_under_a_patch_is_judged_anew() {
    let world = DriverWorld::new();
    let replaced = Arc::new(Mutex::new(0));
    let count = replaced.clone();
    world.rule(move |method, _| {
        if *method == Method::PATCH && *count.lock().unwrap() == 0 {
            *count.lock().unwrap() += 1;
            return RequestFate::Overtaken;
        }
        RequestFate::Pass
    });
    world.create("held", &[FINALIZER]).await;
    world.pass(1).await;
    assert_eq!(*replaced.lock().unwrap(), 1);
    let (_, object) = world
        .call(Method::GET, &format!("{PATH}/held"), &json!(null))
        .await;
    assert_eq!(object["metadata"]["finalizers"], json!(null));
    assert_eq!((world.count("PATCH"), world.count("GET")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let table = [
        (429, "7", 7.0, 8.0),
        (503, "3", 3.0, 4.0),
        (429, "1000000000", 60.0, 61.0),
        (429, "-1", 0.005, 1.0),
        (429, "0", 0.005, 1.0),
        (500, "", 0.005, 1.0),
    ];
    for (code, header, at_least, at_most) in table {
        let world = DriverWorld::new();
        world.rule(first(1, Method::DELETE, move || {
            let mut reply = mk_reply(code, "text/plain", "no");
            let value = header.parse().unwrap();
            reply.headers_mut().insert("retry-after", value);
            RequestFate::Reply(reply)
        }));
        world.create("doomed-a", &[]).await;
        world.pass(11).await;
        // Changes in between do not end the wait.
        let touch = json!({"data": {"a": "b"}});
        world
            .call(Method::PATCH, &format!("{PATH}/doomed-a"), &touch)
            .await;
        world.pass(90).await;
        assert!(!world.has("doomed-a").await);
        let wait = world.log()[1].2;
        assert!(
            (at_least..at_most).contains(&wait),
            "{code} {header}: {wait}"
        );
    }
}

/// A worker of client-go sleeps for the `Retry-After`, so that refusals slow all keys down and not just their own.
#[tokio::test(start_paused = true)]
async fn a_server_that_pushes_back_gets_fewer_requests() {
    let workers = 20;
    for (code, header) in [(429, "1"), (429, ""), (503, "1")] {
        let world = DriverWorld::with(DriverOptions {
            workers,
            ..DriverOptions::default()
        });
        world.rule(first(usize::MAX, Method::DELETE, move || {
            let mut reply = mk_reply(code, "text/plain", "no");
            let value = header.parse().unwrap();
            reply.headers_mut().insert("retry-after", value);
            RequestFate::Reply(reply)
        }));
        for number in 0..300 {
            world.create(&format!("doomed-{number}"), &[]).await;
        }
        world.pass(20).await;
        let deletes = world.count("DELETE");
        let (burst, quarter) = (workers + workers / 2, workers / 4);
        assert!(
            (quarter * 8..=burst + quarter * 10).contains(&deletes),
            "{code} {header}: {deletes} DELETEs in 10 s"
        );
        world.rule(|_, _| RequestFate::Pass);
        world.pass(30).await;
        assert_eq!(world.names().await, Vec::<String>::new(), "{code} {header}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_requests_back_off() {
    let world = DriverWorld::new();
    world.rule(first(usize::MAX, Method::DELETE, || {
        RequestFate::Reply(mk_reply(500, "text/plain", "no"))
    }));
    world.create("doomed-a", &[]).await;
    world.pass(600).await;
    let count = world.count("DELETE");
    assert!(
        (20..=25).contains(&count),
        "{count} requests in ten minutes"
    );
    world.rule(|_, _| RequestFate::Pass);
    world.pass(60).await;
    assert!(
        !world.has("doomed-a").await,
        "and none waits for longer than a minute"
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_that_changes_nothing_is_not_repeated_at_once() {
    let world = DriverWorld::new();
    world.create("curious-a", &[]).await;
    world.pass(600).await;
    let count = world.count("GET");
    assert!((20..=25).contains(&count), "{count} reads in ten minutes");
    assert!(!world.driver.is_finished());
}

/// What undoes the toy's patches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PatchUndo {
    /// A webhook: the answer shows the object as it was, in the same version.
    Webhook,
    /// Another client: the finalizer is put back right after each patch.
    Client,
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_undone_is_repeated_at_growing_intervals() {
    for (undo, has_turns) in [
        (PatchUndo::Webhook, false),
        (PatchUndo::Webhook, true),
        (PatchUndo::Client, false),
        (PatchUndo::Client, true),
    ] {
        let toy = ToyController::with_turns(has_turns);
        let world = DriverWorld::of(toy, DriverOptions::default());
        world.create("held", &[FINALIZER]).await;
        let path = format!("{PATH}/held");
        let (_, object) = world.call(Method::GET, &path, &json!(null)).await;
        world.rule(move |method, _| match (undo, method) {
            (PatchUndo::Webhook, &Method::PATCH) => {
                RequestFate::Reply(mk_reply(200, "application/json", &object.to_string()))
            }
            _ => RequestFate::Late(Duration::from_millis(1)),
        });
        // Ten minutes.
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(1));
        for wait in [short; 400].into_iter().chain([long; 598]) {
            tokio::time::sleep(wait).await;
            if undo == PatchUndo::Client {
                let back = json!({"metadata": {"finalizers": [FINALIZER]}});
                world.call(Method::PATCH, &path, &back).await;
            }
        }
        let count = world.count("PATCH");
        assert!(
            (20..=25).contains(&count),
            "{undo:?}, turns {has_turns}: {count} patches in ten minutes"
        );
        let (_, events) = world.call(Method::GET, EVENTS, &json!(null)).await;
        let event = &events["items"][0];
        assert_eq!(event["reason"], "WriteUndone", "{events}");
        assert_eq!(event["involvedObject"]["name"], "held");
        let repeated = format!(
            r#"caretaker_writes_repeated_total{{controller="toy-controller"}} {}"#,
            count - 2
        );
        assert!(world.metrics.encode().contains(&repeated), "{repeated}");
        // Another write of the same key does not wait.
        world.rule(|_, _| RequestFate::Pass);
        let other = json!({"metadata": {"finalizers": [FINALIZER, "example.com/other"]}});
        world.call(Method::PATCH, &path, &other).await;
        world.pass(1).await;
        assert_eq!(world.count("PATCH"), count + 1, "{undo:?} {has_turns}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_delays_no_retry() {
    let world = DriverWorld::new();
    world.rule(first(usize::MAX, Method::PATCH, || {
        RequestFate::Reply(mk_reply(500, "text/plain", "no"))
    }));
    world.create("held", &[FINALIZER]).await;
    world.pass(90).await;
    world.clock.jump(SignedDuration::from_hours(-1)).unwrap();
    world.rule(|_, _| RequestFate::Pass);
    world.pass(60).await;
    let (_, object) = world
        .call(Method::GET, &format!("{PATH}/held"), &json!(null))
        .await;
    assert_eq!(object["metadata"]["finalizers"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_delays_no_time_of_the_controller() {
    let world = DriverWorld::new();
    world.create("doomed-a", &[]).await;
    world.pass(5).await;
    world.clock.jump(SignedDuration::from_hours(-1)).unwrap();
    world.create("doomed-b", &[]).await;
    world.pass(6).await;
    assert_eq!(world.names().await, ["doomed-b"]);
    world.pass(5).await;
    assert_eq!(world.names().await, [""; 0]);
}

thread_local! {
    /// When the machine started, and how far its clock was set since.
    static MACHINE: Cell<Option<(Instant, SignedDuration)>> = const { Cell::new(None) };
}

fn machine_time() -> Timestamp {
    let (start, set) = MACHINE
        .get()
        .unwrap_or((Instant::now(), SignedDuration::ZERO));
    START.parse::<Timestamp>().unwrap() + start.elapsed() + set
}

#[tokio::test(start_paused = true)]
async fn a_time_on_an_object_follows_a_wall_clock_that_is_set() {
    let start = Instant::now();
    MACHINE.set(Some((start, SignedDuration::ZERO)));
    let options = DriverOptions {
        timing: TimeSource::Own,
        ..DriverOptions::default()
    };
    let world = DriverWorld::with_clock(Clock::wall(machine_time), options);
    world.create("doomed-a", &[]).await;
    world.pass(2).await;
    MACHINE.set(Some((start, SignedDuration::from_hours(-1))));
    world.pass(600).await;
    assert!(world.has("doomed-a").await, "its time has not come");
    MACHINE.set(Some((start, SignedDuration::ZERO)));
    world.pass(11).await;
    assert!(!world.has("doomed-a").await, "its time came again");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_own_rate_limit_is_no_slowness_of_the_server() {
    let limit = ClientRateLimit { qps: 0.1, burst: 1 };
    let world = DriverWorld::limited(limit);
    for number in 0..20 {
        world.create(&format!("doomed-{number}"), &[]).await;
    }
    for _ in 0..30 {
        world.pass(10).await;
        let stats = world.handle.stats();
        assert!(stats.overdue() < Duration::from_secs(20), "{stats:?}");
    }
    assert_eq!(world.names().await, [""; 0]);
    let slowest = world.trail.recent().iter().map(|own| own.ms).max();
    assert!(slowest < Some(1_000), "{slowest:?} ms");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_the_rate_limit_is_decided_when_its_request_can_be_sent() {
    let limit = ClientRateLimit { qps: 0.1, burst: 1 };
    let world = DriverWorld::limited(limit);
    for number in 0..3 {
        world.create(&format!("doomed-{number}"), &[]).await;
    }
    world.pass(15).await;
    assert_eq!(world.log().len(), 1, "{:?}", world.log());
    let left = world.names().await;
    let path = format!("{PATH}/{}", left[0]);
    let (code, _) = world.call(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(code, 200);
    world.pass(60).await;
    assert_eq!(world.names().await, [""; 0]);
    let names: Vec<String> = world.log().into_iter().map(|(_, name, _)| name).collect();
    assert!(!names.contains(&left[0]), "the user deleted it: {names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_denied_delete_is_retried_and_recorded() {
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "admission webhook \"x\" denied the request",
    });
    let world = DriverWorld::new();
    world.rule(first(2, Method::DELETE, move || {
        RequestFate::Reply(mk_reply(403, "application/json", &denied.to_string()))
    }));
    world.create("doomed-a", &[]).await;
    world.pass(12).await;
    assert!(!world.has("doomed-a").await);
    let denied = WriteStatus::Code(403);
    assert_eq!(outcomes(&world), [denied, denied, WriteStatus::Code(200)]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_bucket_delays_retries() {
    let world = DriverWorld::with(DriverOptions {
        retry_bucket: Some(RetryBucket { qps: 0.1, burst: 1 }),
        ..DriverOptions::default()
    });
    world.rule(first(3, Method::DELETE, || {
        RequestFate::Reply(mk_reply(500, "text/plain", "no"))
    }));
    world.create("doomed-a", &[]).await;
    world.pass(60).await;
    let log = world.log();
    let waits: Vec<f64> = log.iter().map(|(_, _, at)| at.round()).collect();
    assert_eq!(waits, [0.0, 0.0, 10.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn only_a_proof_makes_an_owner_absent() {
    let mk_status = |name: &str, kind: &str| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
            "details": {"name": name, "kind": kind},
        })
        .to_string()
    };
    let good = mk_status("x", "configmaps");
    let table: [(&str, Response<_>); 9] = [
        ("a page", mk_reply(404, "text/plain", "404 page not found")),
        (
            "another name",
            mk_reply(404, "application/json", &mk_status("y", "configmaps")),
        ),
        (
            "another kind",
            mk_reply(404, "application/json", &mk_status("x", "secrets")),
        ),
        (
            "half of it",
            mk_reply(404, "application/json", &good[..good.len() - 9]),
        ),
        ("HTML", mk_reply(502, "text/html", "<html>")),
        ("forbidden", mk_reply(403, "application/json", &good)),
        ("gone", mk_reply(410, "application/json", &good)),
        ("a good answer", mk_reply(200, "application/json", &good)),
        ("an empty one", mk_reply(200, "application/json", "")),
    ];
    for (name, reply) in table {
        let world = DriverWorld::new();
        world.rule(move |method, _| match *method {
            Method::GET => RequestFate::Reply(reply.clone()),
            _ => RequestFate::Pass,
        });
        for number in 0..50 {
            world.create(&format!("child-{number}-of-x"), &[]).await;
        }
        world.pass(300).await;
        assert_eq!(world.count("DELETE"), 0, "{name}");
        let count = world.count("GET");
        assert!((15..25).contains(&count), "{name}: {count} questions");
        world.rule(|_, _| RequestFate::Pass);
        world.pass(61).await;
        assert_eq!(world.names().await.len(), 0, "{name}: with a proof they go");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_answer_was_lost_is_harmless() {
    let world = DriverWorld::new();
    world.rule(first(1, Method::DELETE, || RequestFate::Ghost));
    world.create("doomed-a", &["example.com/other"]).await;
    world.pass(15).await;
    let path = format!("{PATH}/doomed-a");
    let (_, object) = world.call(Method::GET, &path, &json!(null)).await;
    assert!(
        object["metadata"]["deletionTimestamp"].is_string(),
        "it had its effect"
    );
    let free = json!({"metadata": {"finalizers": null}});
    world.call(Method::PATCH, &path, &free).await;
    world.pass(60).await;
    assert!(!world.has("doomed-a").await);
    assert_eq!(outcomes(&world)[0], WriteStatus::NoAnswer);
    assert!(world.log().len() <= 3, "{:?}", world.log());
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_repeated_finds_the_object_gone() {
    let world = DriverWorld::new();
    // No watch event shows the delete before the driver sends the next request.
    world.rule(first(1, Method::DELETE, || {
        RequestFate::Late(REQUEST_TIMEOUT * 2)
    }));
    world.create("doomed-a", &[]).await;
    world.pass(20).await;
    let path = format!("{PATH}/doomed-a");
    world.call(Method::DELETE, &path, &json!(null)).await;
    world.create("doomed-a", &[]).await;
    world.pass(120).await;
    assert!(!world.has("doomed-a").await);
    assert_eq!(
        outcomes(&world),
        [WriteStatus::NoAnswer, WriteStatus::Code(200)]
    );
    let evidence = world.trail.recent();
    assert_ne!(evidence[0].uid, evidence[1].uid, "each by its own uid");
}

#[tokio::test(start_paused = true)]
async fn a_patch_whose_answer_was_lost_is_not_repeated() {
    let world = DriverWorld::new();
    world.rule(first(1, Method::PATCH, || RequestFate::Ghost));
    world.create("held", &[FINALIZER]).await;
    world.pass(120).await;
    let (_, object) = world
        .call(Method::GET, &format!("{PATH}/held"), &json!(null))
        .await;
    assert_eq!(object["metadata"]["finalizers"], json!(null));
    assert_eq!(world.count("PATCH"), 1, "{:?}", world.log());
    assert_eq!(outcomes(&world), [WriteStatus::NoAnswer]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_delays_only_its_own_key() {
    let world = DriverWorld::new();
    world.rule(|_, path| {
        if path.ends_with("slow") {
            return RequestFate::Lost;
        }
        RequestFate::Late(Duration::from_millis(10))
    });
    world.create("doomed-slow", &[]).await;
    for number in 0..100 {
        world.create(&format!("doomed-{number}"), &[]).await;
    }
    world.pass(12).await;
    assert_eq!(world.names().await, ["doomed-slow"]);
    world.pass(600).await;
    let slow = world
        .log()
        .iter()
        .filter(|(_, name, _)| name == "doomed-slow")
        .count();
    assert!(
        (10..=25).contains(&slow),
        "{slow} requests, each given up in time"
    );
    world.rule(|_, _| RequestFate::Pass);
    world.pass(120).await;
    assert!(!world.has("doomed-slow").await);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_object_leaves_slots_to_its_kind() {
    for workers in [3, 5, 20] {
        let world = DriverWorld::with(DriverOptions {
            workers,
            ..DriverOptions::default()
        });
        world.rule(|_, path| match path.ends_with("slow") {
            true => RequestFate::Lost,
            false => RequestFate::Pass,
        });
        world.create("doomed-slow", &[]).await;
        world.pass(13).await;
        assert_eq!(world.count("DELETE"), 1, "it hangs");
        for number in 0..100 {
            world.create(&format!("doomed-{number}"), &[]).await;
        }
        world.pass(12).await;
        assert_eq!(world.names().await, ["doomed-slow"], "{workers} workers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_kind_leaves_slots_to_other_kinds() {
    let world = DriverWorld::new();
    world.rule(|_, path| match path.contains("/secrets/") {
        true => RequestFate::Lost,
        false => RequestFate::Pass,
    });
    for number in 0..200 {
        world.create(&format!("far-{number}"), &[]).await;
    }
    // The first requests have to hang before the kind counts as slow.
    world.pass(60).await;
    for number in 0..50 {
        world.create(&format!("doomed-{number}"), &[]).await;
    }
    world.pass(12).await;
    let names = world.names().await;
    let doomed = names.iter().filter(|name| name.starts_with("doomed-"));
    assert_eq!(doomed.count(), 0);
    // Keys that had to wait are served later.
    world.rule(|_, _| RequestFate::Pass);
    world.pass(120).await;
    let log = world.log();
    let asked: BTreeSet<&str> = log
        .iter()
        .filter(|(verb, ..)| verb == "GET")
        .map(|(_, name, _)| name.as_str())
        .collect();
    assert_eq!(asked.len(), 200);
}
