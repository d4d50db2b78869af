//! Deletes of Pods: the grace period, and what a finalizer adds to it.

use serde_json::{Value, json};

use super::grace;
use crate::objects::*;
use crate::session::Session;

pub(super) async fn delete_of_an_unscheduled_pod_takes_two_writes(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let made = s.post(&PODS, mk_pod("a")).await;
    let mut watch = s.watch_from(&PODS, &made).await;
    s.delete(&PODS, "a").await;
    s.get(&PODS, "a").await;
    s.take(&mut watch, 2).await;
}

pub(super) async fn delete_of_a_bound_pod_waits_for_its_grace(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let made = s.post(&PODS, mk_bound_pod("a")).await;
    let mut watch = s.watch_from(&PODS, &made).await;
    s.delete(&PODS, "a").await;
    s.get(&PODS, "a").await;
    s.take(&mut watch, 1).await;
}

pub(super) async fn delete_of_a_bound_pod_again_can_only_shorten_the_grace(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, mk_bound_pod("a")).await;
    s.delete_with(&PODS, "a", grace(20)).await;
    s.note("no grace given").delete(&PODS, "a").await;
    for (note, options) in [
        ("longer", grace(25)),
        ("shorter", grace(10)),
        ("the same", grace(10)),
    ] {
        s.note(note).delete_with(&PODS, "a", options).await;
    }
}

pub(super) async fn delete_of_a_bound_pod_with_grace_0_deletes_at_once(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let made = s.post(&PODS, mk_bound_pod("a")).await;
    let mut watch = s.watch_from(&PODS, &made).await;
    s.delete_with(&PODS, "a", grace(0)).await;
    s.get(&PODS, "a").await;
    s.take(&mut watch, 2).await;
}

pub(super) async fn delete_of_a_bound_pod_that_is_waiting_with_grace_0_deletes(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, mk_bound_pod("a")).await;
    let going = s.delete(&PODS, "a").await;
    let mut watch = s.watch_from(&PODS, &going).await;
    s.delete_with(&PODS, "a", grace(0)).await;
    s.get(&PODS, "a").await;
    s.take(&mut watch, 2).await;
}

pub(super) async fn delete_of_a_finished_pod_is_immediate(s: &mut Session) {
    s.hide(&["spec", "status"]);
    for phase in ["Succeeded", "Failed"] {
        s.post(&PODS, mk_bound_pod("a")).await;
        s.merge_patch(&PODS, "a/status", json!({"status": {"phase": phase}}))
            .await;
        s.delete(&PODS, "a").await;
        s.get(&PODS, "a").await;
    }
}

pub(super) async fn delete_of_a_bound_pod_with_a_finalizer_needs_both(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, mk_held_pod("a")).await;
    s.delete(&PODS, "a").await;
    s.note("grace ends, the finalizer holds")
        .delete_with(&PODS, "a", grace(0))
        .await;
    s.merge_patch(&PODS, "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.get(&PODS, "a").await;
}

pub(super) async fn delete_of_a_bound_pod_whose_finalizer_goes_first_waits_for_grace(
    s: &mut Session,
) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, mk_held_pod("a")).await;
    s.delete(&PODS, "a").await;
    s.merge_patch(&PODS, "a", json!({"metadata": {"finalizers": null}}))
        .await;
    s.get(&PODS, "a").await;
    s.delete_with(&PODS, "a", grace(0)).await;
    s.get(&PODS, "a").await;
}

pub(super) async fn delete_with_a_negative_grace_means_one_second(s: &mut Session) {
    s.hide(&["spec", "status"]);
    s.post(&PODS, mk_bound_pod("a")).await;
    s.delete_with(&PODS, "a", grace(-5)).await;
}

pub(super) async fn delete_of_a_pod_takes_the_grace_of_its_spec(s: &mut Session) {
    s.hide(&["spec", "status"]);
    let object = with(
        mk_bound_pod("a"),
        json!({"spec": {"terminationGracePeriodSeconds": 77}}),
    );
    s.post(&PODS, object).await;
    s.delete(&PODS, "a").await;
    let changes = json!({"spec": {"terminationGracePeriodSeconds": 0}});
    s.post(&PODS, with(mk_bound_pod("b"), changes)).await;
    s.delete(&PODS, "b").await;
    s.get(&PODS, "b").await;
}

fn mk_held_pod(name: &str) -> Value {
    with(
        mk_bound_pod(name),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
}
