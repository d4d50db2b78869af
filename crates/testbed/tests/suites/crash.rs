//! Broken collectors, and the safety rules by which the checkers notice them.

use caretaker_testbed::crash::run;
use caretaker_testbed::wire::{FakeReply, RequestFate, WireRequest};
use http::Method;
use serde_json::{Value, json};

use crate::{convergent_case, drops_preconditions};

fn is_owner_read(asked: &WireRequest<'_>) -> bool {
    *asked.method == Method::GET && asked.is_effect
}

/// Takes a page-not-found for every owner, and for the proof that rule S1 asks for.
fn believes_a_text_404(asked: &WireRequest<'_>) -> RequestFate {
    if !is_owner_read(asked) {
        return RequestFate::Pass;
    }
    let mut parts = asked.uri.rsplit('/');
    let (name, resource) = (parts.next().unwrap(), parts.next().unwrap());
    let proof = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "details": {"name": name, "kind": resource}, "code": 404});
    RequestFate::Reply(FakeReply::json(404, &proof))
}

/// The same page, as starting servers send it.
fn gets_a_text_404(asked: &WireRequest<'_>) -> RequestFate {
    match is_owner_read(asked) {
        true => RequestFate::Reply(FakeReply::text(404, "404 page not found\n")),
        false => RequestFate::Pass,
    }
}

/// Writes a field that is not the collector's with every patch.
fn patches_labels(asked: &WireRequest<'_>) -> RequestFate {
    if *asked.method != Method::PATCH {
        return RequestFate::Pass;
    }
    let mut body = asked.body.clone();
    body["metadata"]["labels"] = json!({"seen": "yes"});
    RequestFate::Body(body)
}

/// Removes every finalizer instead of one.
fn removes_all_finalizers(asked: &WireRequest<'_>) -> RequestFate {
    if *asked.method != Method::PATCH {
        return RequestFate::Pass;
    }
    let mut body = asked.body.clone();
    body["metadata"]["finalizers"] = Value::Null;
    RequestFate::Body(body)
}

/// Believes that dependents are orphaned although their references were not removed.
fn believes_orphaned(asked: &WireRequest<'_>) -> RequestFate {
    let metadata = &asked.body["metadata"];
    if *asked.method != Method::PATCH || metadata.get("ownerReferences").is_none() {
        return RequestFate::Pass;
    }
    let name = asked.uri.rsplit('/').next().unwrap();
    let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {
        "name": name, "namespace": "crash", "uid": metadata["uid"], "resourceVersion": "1000000"}});
    RequestFate::Reply(FakeReply::json(200, &object))
}

async fn violations(name: &str, mutant: fn(&WireRequest<'_>) -> RequestFate) -> Vec<String> {
    let run = run(convergent_case(name), &|_| Some(Box::new(mutant))).await;
    run.unwrap_or_else(|why| panic!("{why}")).violations
}

fn check_rule(found: &[String], rule: &str) {
    let word = format!(": {rule}: ");
    assert!(found.iter().any(|found| found.contains(&word)), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn deletes_without_preconditions_are_noticed() {
    let found = violations("background_fan", drops_preconditions).await;
    check_rule(&found, "S2");
}

#[tokio::test(start_paused = true)]
async fn a_text_404_taken_for_proof_is_noticed() {
    let name = "unlisted_owner";
    check_rule(&violations(name, believes_a_text_404).await, "S1");
    // A collector that does not take it for proof breaks no rule.
    let none: Vec<String> = Vec::new();
    assert_eq!(violations(name, gets_a_text_404).await, none);
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_anything_else_is_noticed() {
    check_rule(&violations("orphan", patches_labels).await, "S4");
}

#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_of_another_client_is_noticed() {
    check_rule(&violations("orphan", removes_all_finalizers).await, "S4");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_before_its_dependents_are_orphaned_is_noticed() {
    check_rule(&violations("orphan", believes_orphaned).await, "S3");
}
