//! The collector dies at every request it makes, and nothing comes of it; and what the checkers see when it is broken.

use caretaker_machinery::rng::Rng;
use caretaker_sim::crash::scenarios::SCENARIOS;
use caretaker_sim::crash::{Scenario, crash_everywhere, crash_twice, play};
use caretaker_sim::wire::{Asked, Fate, Meddler, Reply};
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
        println!("{}: {runs} runs", scenario.name);
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
