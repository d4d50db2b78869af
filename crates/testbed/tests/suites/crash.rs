//! The collector dies at every request it makes, and nothing comes of it; and what the checkers see when it is broken.

use caretaker_machinery::rng::Rng;
use caretaker_testbed::crash::scenarios::SCENARIOS;
use caretaker_testbed::crash::{Scenario, crash_everywhere, crash_twice, play};
use caretaker_testbed::wire::{Asked, Fate, Meddler, Reply};
use http::Method;
use serde_json::{Value, json};

/// How many pairs of crashes are drawn for each scenario.
const PAIRS: usize = 4;

fn scenario(name: &str) -> &'static Scenario {
    let mut all = SCENARIOS.iter();
    all.find(|scenario| scenario.name == name)
        .unwrap_or_else(|| panic!("{name} is no scenario"))
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_dies_at_any_request_ends_like_one_that_lives() {
    for scenario in SCENARIOS {
        let runs = crash_everywhere(scenario).await;
        let runs = runs.unwrap_or_else(|why| panic!("{why}"));
        assert!(runs >= 6, "{}: only {runs} runs", scenario.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_dies_twice_ends_like_one_that_lives() {
    for (seed, scenario) in (0..).zip(SCENARIOS) {
        let mut rng = Rng::seeded(seed);
        let done = crash_twice(scenario, PAIRS, |limit| rng.below(limit)).await;
        done.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// Forgets to say what a delete was judged from.
struct Careless;

impl Meddler for Careless {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if *asked.method != Method::DELETE {
            return Fate::Pass;
        }
        let mut body = asked.body.clone();
        body["preconditions"] = Value::Null;
        Fate::Body(body)
    }
}

/// Receives a page-not-found for every owner, and takes it for the proof that S1 asks for.
struct Gullible;

impl Meddler for Gullible {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if *asked.method != Method::GET || !asked.is_effect {
            return Fate::Pass;
        }
        let mut parts = asked.uri.rsplit('/');
        let (name, resource) = (parts.next().unwrap(), parts.next().unwrap());
        let proof = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
            "details": {"name": name, "kind": resource}, "code": 404});
        Fate::Reply(Reply::json(404, &proof))
    }
}

/// The same page, as servers that are starting send it.
struct Starting;

impl Meddler for Starting {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if *asked.method != Method::GET || !asked.is_effect {
            return Fate::Pass;
        }
        Fate::Reply(Reply::text(404, "404 page not found\n"))
    }
}

/// Writes to a field that is not the collector's whenever it patches.
struct Meddlesome;

impl Meddler for Meddlesome {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if *asked.method != Method::PATCH {
            return Fate::Pass;
        }
        let mut body = asked.body.clone();
        body["metadata"]["labels"] = json!({"seen": "yes"});
        Fate::Body(body)
    }
}

/// Takes every finalizer off, where it should take off one.
struct Hasty;

impl Meddler for Hasty {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if *asked.method != Method::PATCH {
            return Fate::Pass;
        }
        let mut body = asked.body.clone();
        body["metadata"]["finalizers"] = Value::Null;
        Fate::Body(body)
    }
}

/// Believes that dependents lost their references when nobody has taken them off.
struct Dreaming;

impl Meddler for Dreaming {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        let metadata = &asked.body["metadata"];
        if *asked.method != Method::PATCH || metadata.get("ownerReferences").is_none() {
            return Fate::Pass;
        }
        let name = asked.uri.rsplit('/').next().unwrap();
        let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {
            "name": name, "namespace": "crash", "uid": metadata["uid"], "resourceVersion": "1000000"}});
        Fate::Reply(Reply::json(200, &object))
    }
}

async fn complaints(name: &str, mutant: fn() -> Box<dyn Meddler>) -> Vec<String> {
    let run = play(scenario(name), &|_| Some(mutant())).await;
    run.unwrap_or_else(|why| panic!("{why}")).violations
}

fn check_rule(found: &[String], rule: &str) {
    let word = format!(": {rule}: ");
    assert!(found.iter().any(|found| found.contains(&word)), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn deletes_without_preconditions_are_noticed() {
    check_rule(
        &complaints("background_fan", || Box::new(Careless)).await,
        "S2",
    );
}

#[tokio::test(start_paused = true)]
async fn a_text_404_taken_for_proof_is_noticed() {
    let name = "unlisted_owner";
    check_rule(&complaints(name, || Box::new(Gullible)).await, "S1");
    // And what it looks like when it is not taken for proof.
    let none: Vec<String> = Vec::new();
    assert_eq!(complaints(name, || Box::new(Starting)).await, none);
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_anything_else_is_noticed() {
    check_rule(&complaints("orphan", || Box::new(Meddlesome)).await, "S4");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_somebody_else_that_goes_is_noticed() {
    let found = complaints("orphan", || Box::new(Hasty)).await;
    check_rule(&found, "S4");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_leaves_before_its_orphans_are_free_is_noticed() {
    check_rule(&complaints("orphan", || Box::new(Dreaming)).await, "S3");
}
