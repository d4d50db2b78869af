//! Deletes that change their course: another policy, a finalizer taken off by hand, dependents that come late. These
//! are the rows of `docs/inputs.md` about owners that are being deleted while something happens to them.

use serde_json::json;

use super::{HOLD, background, controller, foreground, held, mk_controller, orphan, pod};
use crate::objects::{PODS, REPLICATION_CONTROLLERS, mk_pod};
use crate::suites::play::play;
use crate::suites::stage::{Made, Stage, blocking, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(input_g08_a_dependent_that_comes_late_is_collected),
    play!(input_g08_the_foreground_finalizer_is_taken_off_by_hand),
    play!(input_g16_foreground_becomes_orphan),
    play!(input_g16_foreground_becomes_background),
    play!(input_g16_orphan_becomes_foreground),
    play!(input_g16_orphan_becomes_background),
];

/// An owner that is being deleted in the foreground and waits for a Pod that cannot go.
async fn waiting(stage: &Stage) -> Checked<(Made, Made)> {
    let owner = controller(stage, "owner").await?;
    let child = owned(held(mk_pod("child")), &[blocking(owner.reference())]);
    let child = stage.make(&PODS, child).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, foreground()).await?;
    stage
        .until(async || stage.deleting(&[&owner, &child]).await)
        .await?;
    Ok((owner, child))
}

async fn input_g08_a_dependent_that_comes_late_is_collected(stage: &Stage) -> Checked {
    let (owner, child) = waiting(stage).await?;
    let late = pod(stage, "late", &[blocking(owner.reference())]).await?;
    stage.release(&child).await?;
    stage.goes(&[&child, &late, &owner]).await
}

async fn input_g08_the_foreground_finalizer_is_taken_off_by_hand(stage: &Stage) -> Checked {
    let (owner, child) = waiting(stage).await?;
    let late = pod(stage, "late", &[owner.reference()]).await?;
    stage.release(&owner).await?;
    stage.gone(&[&owner]).await?;
    stage.goes(&[&late]).await?;
    stage
        .stays(async || stage.deleting(&[&child]).await)
        .await?;
    stage.release(&child).await?;
    stage.goes(&[&child]).await
}

async fn input_g16_foreground_becomes_orphan(stage: &Stage) -> Checked {
    let (owner, child) = waiting(stage).await?;
    stage.delete(&owner, orphan()).await?;
    stage.goes(&[&owner]).await?;
    // It cannot be saved any more, but it has no owner.
    stage.owned_by(&child, &[]).await?;
    stage.deleting(&[&child]).await?;
    stage.release(&child).await?;
    stage.goes(&[&child]).await
}

async fn input_g16_foreground_becomes_background(stage: &Stage) -> Checked {
    let (owner, child) = waiting(stage).await?;
    stage.delete(&owner, background()).await?;
    stage.gone(&[&owner]).await?;
    stage
        .stays(async || stage.deleting(&[&child]).await)
        .await?;
    stage.release(&child).await?;
    stage.goes(&[&child]).await
}

/// An owner that has orphaned its Pod and is held by a finalizer of the play, and the Pod.
async fn orphaned(stage: &Stage) -> Checked<(Made, Made)> {
    let owner = held(mk_controller("owner"));
    let owner = stage.make(&REPLICATION_CONTROLLERS, owner).await?;
    let child = pod(stage, "child", &[blocking(owner.reference())]).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, orphan()).await?;
    stage
        .until(async || stage.held_by(&owner, &[HOLD]).await)
        .await?;
    stage.owned_by(&child, &[]).await?;
    Ok((owner, child))
}

async fn input_g16_orphan_becomes_foreground(stage: &Stage) -> Checked {
    let (owner, child) = orphaned(stage).await?;
    let late = pod(stage, "late", &[blocking(owner.reference())]).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, foreground()).await?;
    stage.goes(&[&late]).await?;
    stage
        .until(async || stage.held_by(&owner, &[HOLD]).await)
        .await?;
    stage.release(&owner).await?;
    stage.goes(&[&owner]).await?;
    stage.remain(&[&child]).await
}

async fn input_g16_orphan_becomes_background(stage: &Stage) -> Checked {
    let (owner, child) = orphaned(stage).await?;
    let late = pod(stage, "late", &[owner.reference()]).await?;
    stage.delete(&owner, background()).await?;
    stage.remain(&[&late, &child]).await?;
    stage
        .change(&owner, json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.goes(&[&owner, &late]).await?;
    stage.remain(&[&child]).await
}
