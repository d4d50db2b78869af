//! Pod GC dies at every request it makes, is broken on purpose, and is counted.

use caretaker_controllers::podgc::NAME;
use caretaker_testbed::collector::Collector;
use caretaker_testbed::crash::scenarios::podgc::SCENARIOS;
use caretaker_testbed::crash::{crash_everywhere, play};
use caretaker_testbed::objects::{PODS, mk_pod, with};
use caretaker_testbed::suites::stage::Stage;
use caretaker_testbed::target::Target;
use caretaker_testbed::wire::{Asked, Fate, Meddler};
use http::Method;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_pod_gc_that_dies_at_any_request_ends_like_one_that_lives() {
    for scenario in SCENARIOS {
        let runs = crash_everywhere(scenario).await;
        let runs = runs.unwrap_or_else(|why| panic!("{why}"));
        assert!(runs >= 3, "{}: only {runs} runs", scenario.name);
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

/// Says more than that a Pod failed.
struct Chatty;

impl Meddler for Chatty {
    fn fate(&mut self, asked: &Asked<'_>) -> Fate {
        if *asked.method != Method::PATCH {
            return Fate::Pass;
        }
        let mut body = asked.body.clone();
        body["status"]["hostIP"] = json!("10.0.0.1");
        Fate::Body(body)
    }
}

/// Makes one that is broken, and the rule it breaks.
type Mutant<'a> = (fn() -> Box<dyn Meddler>, &'a str);

#[tokio::test(start_paused = true)]
async fn a_pod_gc_that_is_broken_is_noticed() {
    let mutants: [Mutant<'_>; 2] = [
        (|| Box::new(Careless), ": S2: "),
        (|| Box::new(Chatty), ": S8: "),
    ];
    let mut all = SCENARIOS.iter();
    let scenario = all
        .find(|scenario| scenario.name == "a_node_that_goes")
        .unwrap();
    assert_eq!(scenario.controllers, [NAME]);
    for (mutant, rule) in mutants {
        let run = play(scenario, &|_| Some(mutant())).await;
        let found = run.unwrap_or_else(|why| panic!("{why}")).violations;
        assert!(found.iter().any(|why| why.contains(rule)), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_is_counted_by_namespace_and_reason() {
    let target = Target::embedded();
    let stage = Stage::set(&target, &Collector::Standing, "counted".to_owned()).await;
    let orphan = with(mk_pod("orphan"), json!({"spec": {"nodeName": "gone"}}));
    let orphan = stage.make(&PODS, orphan).await.unwrap();
    let controllers = target.controllers(NAME).unwrap();
    stage.goes(&[&orphan]).await.unwrap();
    // The answer may come after the watch's word.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let text = controllers.metrics.encode();
    let labels = r#"{namespace="counted",reason="orphaned"}"#;
    for line in [
        format!("pod_gc_collector_force_delete_pods_total{labels} 1"),
        format!("pod_gc_collector_force_delete_pod_errors_total{labels} 0"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    stage.strike().await;
}
