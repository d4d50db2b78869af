//! Chaos runs are reproducible; and a fault that a seed once found.

use std::time::Duration;

use caretaker_testbed::chaos::{Disturbance, run};
use caretaker_testbed::checkers::KnownKind;
use caretaker_testbed::controllers::COLLECTOR;
use caretaker_testbed::controllers::process::ProcessOptions;
use caretaker_testbed::environment::Environment;
use caretaker_testbed::fixtures::owned;
use caretaker_testbed::objects::{CONFIG_MAPS, SECRETS, mk_config_map, mk_object};
use caretaker_testbed::wire::{FakeReply, RequestFate, WireRequest};
use jiff::SignedDuration;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_its_run() {
    for disturbance in [Disturbance::Faults, Disturbance::Lag] {
        let first = run(1, disturbance).await;
        assert!(first.is_ok(), "{first:?}");
        assert_eq!(first, run(1, disturbance).await);
    }
}

/// A chaos seed found that the collector took a kind whose first list had failed for an empty one: it removed the orphan
/// finalizer of the owner, and then collected the dependent that it had not observed.
#[tokio::test(start_paused = true)]
async fn a_first_list_that_fails_still_holds_an_orphaning_owner_back() {
    let env = Environment::recorded("first-list").await.unwrap();
    let owner = env
        .make(&CONFIG_MAPS, mk_config_map("owner"))
        .await
        .unwrap();
    let child = owned(mk_object("v1", "Secret", "child"), &[owner.reference()]);
    let child = env.make(&SECRETS, child).await.unwrap();
    let orphan = json!({"propagationPolicy": "Orphan"});
    env.delete(&owner, orphan).await.unwrap();
    let mut failures = 3;
    let fails_first = move |asked: &WireRequest<'_>| {
        if asked.is_effect || !asked.uri.contains("/secrets") || failures == 0 {
            return RequestFate::Pass;
        }
        failures -= 1;
        RequestFate::Reply(FakeReply::failure(503, "ServiceUnavailable"))
    };
    let kinds = [
        KnownKind::new(CONFIG_MAPS, "v1", "ConfigMap"),
        KnownKind::new(SECRETS, "v1", "Secret"),
    ];
    let options = ProcessOptions {
        names: &[COLLECTOR],
        kinds: &kinds,
        discovery: Duration::from_secs(30),
        ahead: SignedDuration::ZERO,
    };
    let _controllers = env
        .start_process(&options, Some(Box::new(fails_first)))
        .unwrap();
    env.goes(&[&owner]).await.unwrap();
    env.remain(&[&child]).await.unwrap();
    env.owned_by(&child, &[]).await.unwrap();
    let broken = env.violations(&kinds).await.unwrap();
    assert!(broken.is_empty(), "{broken:?}");
}
