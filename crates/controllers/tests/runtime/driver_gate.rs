//! The gate of a driver: conditions that other tasks set hold back writes while they last.

use std::time::Duration;

use caretaker_controllers::runtime::driver::{DriverOptions, HoldPurpose, HoldState, WriteHold};
use caretaker_controllers::runtime::evidence::WriteStatus;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::driver_toy::FINALIZER;
use crate::driver_world::DriverWorld;

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A driver whose gate has one row with this state.
fn mk_world(state: HoldState) -> (DriverWorld, watch::Sender<HoldState>) {
    let (sender, receiver) = watch::channel(state);
    let options = DriverOptions {
        holds: vec![WriteHold::new("test", HoldPurpose::Trouble, receiver)],
        ..DriverOptions::default()
    };
    (DriverWorld::with(options), sender)
}

async fn event_count(world: &DriverWorld) -> usize {
    let (_, list) = world.call(Method::GET, EVENTS, &Value::Null).await;
    list["items"].as_array().unwrap().len()
}

fn statuses(world: &DriverWorld) -> Vec<WriteStatus> {
    let recent = world.trail.recent();
    recent.iter().map(|evidence| evidence.status).collect()
}

#[tokio::test(start_paused = true)]
async fn held_writes_are_sent_when_the_row_opens() {
    let (world, row) = mk_world(HoldState::Wait("unknown".into()));
    world.create("doomed-a", &[]).await;
    world.create("held", &[FINALIZER]).await;
    world.create("child-1-of-x", &[]).await;
    world.create("noted-a", &[]).await;
    world.pass(3600).await;
    assert_eq!(world.names().await.len(), 4);
    assert_eq!(world.count("GET"), world.log().len(), "{:?}", world.log());
    assert_eq!((statuses(&world), event_count(&world).await), (vec![], 0));

    row.send_replace(HoldState::Record("beside another manager".into()));
    world.pass(60).await;
    assert_eq!(statuses(&world), [WriteStatus::DryRun; 3]);
    assert_eq!(world.names().await.len(), 4);
    // Another text is no news: the same writes are not recorded again.
    row.send_replace(HoldState::Record("another holder".into()));
    world.pass(60).await;
    assert_eq!((statuses(&world).len(), event_count(&world).await), (3, 0));

    row.send_replace(HoldState::Pass);
    world.pass(1).await;
    assert_eq!(world.names().await, ["held", "noted-a"]);
    assert_eq!((statuses(&world).len(), event_count(&world).await), (6, 1));
}

#[tokio::test(start_paused = true)]
async fn writes_stop_when_the_row_closes() {
    let (world, row) = mk_world(HoldState::Pass);
    world.create("doomed-a", &[]).await;
    world.pass(11).await;
    assert_eq!(world.names().await, Vec::<String>::new());
    world.create("doomed-b", &[]).await;
    world.pass(9).await;
    row.send_replace(HoldState::Record("beside another manager".into()));
    world.pass(3600).await;
    assert_eq!(world.names().await, ["doomed-b"]);
    assert_eq!(world.count("DELETE"), 1);
    // A held key is not stuck: it waits for the row, not for the driver.
    assert!(world.handle.stats().overdue().is_zero());
    let patch = json!({"data": {"a": "b"}});
    let path = format!("{}/doomed-b", crate::driver_world::PATH);
    world.call(Method::PATCH, &path, &patch).await;
    world.pass(1).await;
    row.send_replace(HoldState::Pass);
    world.pass(1).await;
    assert_eq!(world.names().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_task_has_ended_holds_for_good() {
    let (world, row) = mk_world(HoldState::Pass);
    world.create("doomed-a", &[]).await;
    drop(row);
    world.pass(3600).await;
    assert_eq!(world.names().await, ["doomed-a"]);
    assert_eq!(world.log().len(), 0, "{:?}", world.log());
}

/// A process that was stopped for a while goes on with a state that nothing has renewed.
#[tokio::test(start_paused = true)]
async fn writes_stop_when_the_time_of_the_row_runs_out() {
    let limit = |secs| HoldState::PassUntil(Instant::now() + Duration::from_secs(secs));
    let (world, row) = mk_world(limit(15));
    world.create("doomed-a", &[]).await;
    world.pass(11).await;
    assert_eq!(world.names().await, Vec::<String>::new());
    world.create("doomed-b", &[]).await;
    world.pass(3600).await;
    assert_eq!(world.names().await, ["doomed-b"]);
    assert_eq!(world.count("DELETE"), 1);
    row.send_replace(limit(15));
    world.pass(1).await;
    assert_eq!(world.names().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_standby_records_nothing_and_writes_at_once_when_it_leads() {
    let (world, row) = mk_world(HoldState::Standby("one leads".into()));
    world.create("doomed-a", &[]).await;
    world.pass(3600).await;
    assert_eq!(world.names().await, ["doomed-a"]);
    assert_eq!((statuses(&world), world.count("DELETE")), (vec![], 0));
    row.send_replace(HoldState::PassUntil(
        Instant::now() + Duration::from_secs(10),
    ));
    world.pass(1).await;
    assert_eq!(world.names().await, Vec::<String>::new());
}
