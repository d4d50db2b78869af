//! Pod GC: broken versions that the checkers notice, and its metrics.

use caretaker_controllers::podgc::NAME;
use caretaker_testbed::controllers::ControllerSource;
use caretaker_testbed::crash::run;
use caretaker_testbed::environment::Environment;
use caretaker_testbed::objects::{PODS, mk_pod, with};
use caretaker_testbed::target::Target;
use caretaker_testbed::wire::{RequestFate, WireRequest};
use http::Method;
use serde_json::json;

use crate::{convergent_case, drops_preconditions};

/// Patches more of a Pod's status than its failure.
fn patches_too_much(asked: &WireRequest<'_>) -> RequestFate {
    if *asked.method != Method::PATCH {
        return RequestFate::Pass;
    }
    let mut body = asked.body.clone();
    body["status"]["hostIP"] = json!("10.0.0.1");
    RequestFate::Body(body)
}

/// Changes requests so that they break a rule, and the rule.
type Mutant<'a> = (fn(&WireRequest<'_>) -> RequestFate, &'a str);

#[tokio::test(start_paused = true)]
async fn checkers_notice_a_broken_pod_gc() {
    let mutants: [Mutant<'_>; 2] = [
        (drops_preconditions, ": S2: "),
        (patches_too_much, ": S8: "),
    ];
    let case = convergent_case("a_node_that_goes");
    for (mutant, rule) in mutants {
        let run = run(case, &|_| Some(Box::new(mutant))).await;
        let found = run.unwrap_or_else(|why| panic!("{why}")).violations;
        assert!(found.iter().any(|why| why.contains(rule)), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn removed_pods_are_counted_by_namespace_and_reason() {
    let target = Target::embedded();
    let env = Environment::new(&target, &ControllerSource::Running, "counted".to_owned()).await;
    let orphan = with(mk_pod("orphan"), json!({"spec": {"nodeName": "gone"}}));
    let orphan = env.make(&PODS, orphan).await.unwrap();
    let controllers = target.controllers(NAME).unwrap();
    env.goes(&[&orphan]).await.unwrap();
    // The answer may arrive after the watch event.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let text = controllers.metrics.encode();
    let labels = r#"{namespace="counted",reason="orphaned"}"#;
    for line in [
        format!("pod_gc_collector_force_delete_pods_total{labels} 1"),
        format!("pod_gc_collector_force_delete_pod_errors_total{labels} 0"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    env.clean_up().await;
}
