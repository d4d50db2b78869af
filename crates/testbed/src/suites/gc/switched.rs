//! Deletes that change their course: another policy, a finalizer taken off by hand, dependents that come late. These
//! are the rows of `docs/inputs.md` about owners that are being deleted while something happens to them.

use serde_json::json;

use super::{HOLD, background, controller, foreground, held, mk_controller, orphan, pod};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{PODS, REPLICATION_CONTROLLERS, mk_pod};

pub(super) const CASES: &[TestCase] = &[
    case!(input_g08_a_dependent_that_comes_late_is_collected),
    case!(input_g08_the_foreground_finalizer_is_taken_off_by_hand),
    case!(input_g16_foreground_becomes_orphan),
    case!(input_g16_foreground_becomes_background),
    case!(input_g16_orphan_becomes_foreground),
    case!(input_g16_orphan_becomes_background),
];

/// An owner that is being deleted in the foreground and waits for a Pod that cannot go.
async fn waiting(env: &Environment) -> CheckResult<(CreatedObject, CreatedObject)> {
    let owner = controller(env, "owner").await?;
    let child = owned(held(mk_pod("child")), &[blocking(owner.reference())]);
    let child = env.make(&PODS, child).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, foreground()).await?;
    env.until(async || env.deleting(&[&owner, &child]).await)
        .await?;
    Ok((owner, child))
}

async fn input_g08_a_dependent_that_comes_late_is_collected(env: &Environment) -> CheckResult {
    let (owner, child) = waiting(env).await?;
    let late = pod(env, "late", &[blocking(owner.reference())]).await?;
    env.release(&child).await?;
    env.goes(&[&child, &late, &owner]).await
}

async fn input_g08_the_foreground_finalizer_is_taken_off_by_hand(env: &Environment) -> CheckResult {
    let (owner, child) = waiting(env).await?;
    let late = pod(env, "late", &[owner.reference()]).await?;
    env.release(&owner).await?;
    env.gone(&[&owner]).await?;
    env.goes(&[&late]).await?;
    env.stays(async || env.deleting(&[&child]).await).await?;
    env.release(&child).await?;
    env.goes(&[&child]).await
}

async fn input_g16_foreground_becomes_orphan(env: &Environment) -> CheckResult {
    let (owner, child) = waiting(env).await?;
    env.delete(&owner, orphan()).await?;
    env.goes(&[&owner]).await?;
    // It cannot be saved any more, but it has no owner.
    env.owned_by(&child, &[]).await?;
    env.deleting(&[&child]).await?;
    env.release(&child).await?;
    env.goes(&[&child]).await
}

async fn input_g16_foreground_becomes_background(env: &Environment) -> CheckResult {
    let (owner, child) = waiting(env).await?;
    env.delete(&owner, background()).await?;
    env.gone(&[&owner]).await?;
    env.stays(async || env.deleting(&[&child]).await).await?;
    env.release(&child).await?;
    env.goes(&[&child]).await
}

/// An owner that has orphaned its Pod and is held by a finalizer of the case, and the Pod.
async fn orphaned(env: &Environment) -> CheckResult<(CreatedObject, CreatedObject)> {
    let owner = held(mk_controller("owner"));
    let owner = env.make(&REPLICATION_CONTROLLERS, owner).await?;
    let child = pod(env, "child", &[blocking(owner.reference())]).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, orphan()).await?;
    env.until(async || env.held_by(&owner, &[HOLD]).await)
        .await?;
    env.owned_by(&child, &[]).await?;
    Ok((owner, child))
}

async fn input_g16_orphan_becomes_foreground(env: &Environment) -> CheckResult {
    let (owner, child) = orphaned(env).await?;
    let late = pod(env, "late", &[blocking(owner.reference())]).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, foreground()).await?;
    env.goes(&[&late]).await?;
    env.until(async || env.held_by(&owner, &[HOLD]).await)
        .await?;
    env.release(&owner).await?;
    env.goes(&[&owner]).await?;
    env.remain(&[&child]).await
}

async fn input_g16_orphan_becomes_background(env: &Environment) -> CheckResult {
    let (owner, child) = orphaned(env).await?;
    let late = pod(env, "late", &[owner.reference()]).await?;
    env.delete(&owner, background()).await?;
    env.remain(&[&late, &child]).await?;
    env.change(&owner, json!({"metadata": {"finalizers": null}}))
        .await?;
    env.goes(&[&owner, &late]).await?;
    env.remain(&[&child]).await
}
