//! Two servers with the same seed return the same bytes. Simulations rely on it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::World;

/// Runs concurrent writers and watchers, and returns all bytes of the watches.
async fn play(seed: u64) -> Vec<u8> {
    let world = std::sync::Arc::new(World::new(seed));
    let path = "/api/v1/namespaces/default/configmaps";
    let mut watches = Vec::new();
    for query in [
        "?watch=1&timeoutSeconds=100",
        "?watch=1&timeoutSeconds=130&allowWatchBookmarks=1",
        "?watch=1&labelSelector=odd&timeoutSeconds=90",
    ] {
        let mut watch = world.watch(&format!("{path}{query}")).await;
        watches.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(line) = watch.line().await {
                seen.extend(line);
            }
            seen
        }));
    }
    let mut writers = Vec::new();
    for writer in 0..4 {
        let world = world.clone();
        writers.push(tokio::spawn(async move {
            for round in 0..25_u64 {
                let (_, created) = world.call("POST", path, json!({"metadata": {"generateName": format!("w{writer}-")}})).await;
                let name = created["metadata"]["name"].as_str().unwrap().to_owned();
                tokio::time::sleep(Duration::from_millis(7 * round + writer)).await;
                let labels = if round % 2 == 1 { json!({"odd": "1"}) } else { Value::Null };
                world.call("PATCH", &format!("{path}/{name}"), json!({"metadata": {"labels": labels}, "data": {"round": round.to_string()}})).await;
                if round % 3 == 0 {
                    world.call("DELETE", &format!("{path}/{name}"), Value::Null).await;
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut seen = Vec::new();
    for watch in watches {
        seen.extend(watch.await.unwrap());
    }
    let list = world.must("GET", path, Value::Null).await;
    seen.extend(list.to_string().bytes());
    seen
}

fn in_a_runtime_of_its_own(seed: u64) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play(seed))
}

#[test]
fn equal_seeds_give_equal_bytes_and_other_seeds_do_not() {
    let first = in_a_runtime_of_its_own(1);
    assert!(first.len() > 10_000);
    assert!(
        first == in_a_runtime_of_its_own(1),
        "two runs of one seed differ"
    );
    assert!(
        first != in_a_runtime_of_its_own(2),
        "two seeds gave the same bytes"
    );
}
