//! Random graphs, random deletes and random faults: what is left is what the model says, and every write was allowed.

use caretaker_testbed::chaos::{Told, play};

/// How many seeds are played. Each that ever failed has a test of its own.
const SEEDS: u64 = 50;

#[tokio::test(start_paused = true)]
async fn whatever_happens_the_end_is_what_the_model_says() {
    let mut all = Told::default();
    for seed in 0..SEEDS {
        let told = play(seed).await.unwrap_or_else(|why| panic!("{why}"));
        all.objects += told.objects;
        all.left += told.left;
        all.calls += told.calls;
        all.deaths += told.deaths;
    }
    // Runs in which nothing happens prove nothing.
    assert!(all.left > 40 && all.objects - all.left > 80, "{all:?}");
    assert!(all.calls > 200 && all.deaths > 5, "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_run() {
    let told = play(1).await;
    assert!(told.is_ok(), "{told:?}");
    assert_eq!(told, play(1).await);
}

#[tokio::test(start_paused = true)]
async fn seed_172_a_first_list_that_fails_once_still_holds_an_owner_back() {
    let told = play(172).await;
    assert!(told.is_ok(), "{told:?}");
}
