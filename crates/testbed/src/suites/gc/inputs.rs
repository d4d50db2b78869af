//! Inputs that went wrong for others, by the rows of `docs/inputs.md` that a client can bring about: owners in
//! rings, references that contradict themselves, dependents that cannot go, a collector that was not there.

use serde_json::{Value, json};

use super::conflicting::{child, cluster_child, known_owner, unserved};
use super::{all, background, controller, foreground, held, orphan, pod};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, blocking, owned};
use crate::objects::{CONFIG_MAPS, PODS, mk_bound_pod, mk_config_map, mk_pod, with};

pub(super) const CASES: &[TestCase] = &[
    case!(input_g01_rings_that_live_are_never_collected),
    case!(input_g01_a_ring_loses_only_the_owner_outside_it),
    case!(input_g01_rings_are_broken_in_the_foreground),
    // DEVIATION(self-owner): an object that blocks its own deletion in the foreground is a ring of one, and broken like any.
    case!(input_g01_an_owner_of_itself_goes_in_the_foreground; "self-owner"),
    case!(input_g02_one_uid_with_two_names_keeps_the_child),
    case!(input_g02_one_owner_referred_to_twice_is_waited_for),
    case!(input_g02_an_owner_made_again_is_another_one),
    case!(input_g03_a_dependent_elsewhere_goes_and_then_its_owner),
    case!(input_g03_a_cluster_scoped_dependent_keeps_its_owner),
    case!(input_g04_a_dependent_by_an_unserved_version_keeps_its_owner),
    case!(input_g07_held_dependents_are_deleted_once),
    case!(input_g07_dependents_with_a_long_grace_are_deleted_once),
    case!(
        input_g09_owners_deleted_while_no_collector_runs,
        FreshControllers
    ),
];

/// Makes a ring of ConfigMaps, each owned by the one before and the first by the last.
async fn ring(
    env: &Environment,
    prefix: &str,
    size: usize,
    mark: fn(Value) -> Value,
) -> CheckResult<Vec<CreatedObject>> {
    let first = env
        .make(&CONFIG_MAPS, mk_config_map(&format!("{prefix}-0")))
        .await?;
    let mut ring = vec![first];
    for number in 1..size {
        let owner = mark(ring[number - 1].reference());
        let member = owned(mk_config_map(&format!("{prefix}-{number}")), &[owner]);
        ring.push(env.make(&CONFIG_MAPS, member).await?);
    }
    let last = mark(ring[size - 1].reference());
    env.change(&ring[0], json!({"metadata": {"ownerReferences": [last]}}))
        .await?;
    Ok(ring)
}

async fn input_g01_rings_that_live_are_never_collected(env: &Environment) -> CheckResult {
    let mut members = Vec::new();
    for (prefix, size) in [("self", 1), ("two", 2), ("three", 3), ("hundred", 100)] {
        members.extend(ring(env, prefix, size, |reference| reference).await?);
    }
    env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    env.remain(&[&members[0], &members[1], &members[3], &members[6]])
        .await?;
    env.untouched(&all(&members)).await?;
    // Deleted in the background a ring falls apart: the others have lost their only owner, one after the other.
    env.delete(&members[6], background()).await?;
    env.goes(&all(&members[6..])).await?;
    env.untouched(&all(&members[..6])).await
}

async fn input_g01_a_ring_loses_only_the_owner_outside_it(env: &Environment) -> CheckResult {
    let outside = env.make(&CONFIG_MAPS, mk_config_map("outside")).await?;
    let ring = ring(env, "r", 3, |reference| reference).await?;
    let owners = [ring[2].reference(), outside.reference()];
    env.change(&ring[0], json!({"metadata": {"ownerReferences": owners}}))
        .await?;
    env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    env.delete(&outside, background()).await?;
    env.until(async || env.owned_by(&ring[0], &[&ring[2]]).await)
        .await?;
    env.remain(&all(&ring)).await
}

async fn input_g01_rings_are_broken_in_the_foreground(env: &Environment) -> CheckResult {
    for (prefix, size) in [("two", 2), ("three", 3), ("thirty", 30)] {
        let ring = ring(env, prefix, size, blocking).await?;
        env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
        env.delete(&ring[0], foreground()).await?;
        env.goes(&all(&ring)).await?;
    }
    Ok(())
}

async fn input_g01_an_owner_of_itself_goes_in_the_foreground(env: &Environment) -> CheckResult {
    let ring = ring(env, "self", 1, blocking).await?;
    env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    env.delete(&ring[0], foreground()).await?;
    env.goes(&all(&ring)).await
}

async fn input_g02_one_uid_with_two_names_keeps_the_child(env: &Environment) -> CheckResult {
    let owner = env.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    let misnamed = with(owner.reference(), json!({"name": "other"}));
    let pairs = [
        ("good-first", [owner.reference(), misnamed.clone()]),
        ("bad-first", [misnamed, owner.reference()]),
    ];
    let mut children = Vec::new();
    for (name, owners) in pairs {
        let child = owned(mk_config_map(name), &owners);
        children.push(env.make(&CONFIG_MAPS, child).await?);
    }
    env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    // The Go collector takes both references off, as they have one uid: only that the child stays is common ground.
    env.remain(&[&owner, &children[0], &children[1]]).await
}

async fn input_g02_one_owner_referred_to_twice_is_waited_for(env: &Environment) -> CheckResult {
    let owner = controller(env, "owner").await?;
    let owners = [owner.reference(), blocking(owner.reference())];
    let child = owned(held(mk_pod("child")), &owners);
    let child = env.make(&PODS, child).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, foreground()).await?;
    env.until(async || env.deleting(&[&child]).await).await?;
    env.stays(async || env.deleting(&[&owner, &child]).await)
        .await?;
    env.release(&child).await?;
    env.goes(&[&owner, &child]).await
}

async fn input_g02_an_owner_made_again_is_another_one(env: &Environment) -> CheckResult {
    let before = env.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    env.delete(&before, background()).await?;
    let after = env.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    let lost = owned(mk_config_map("lost"), &[before.reference()]);
    let lost = env.make(&CONFIG_MAPS, lost).await?;
    let kept = owned(mk_config_map("kept"), &[after.reference()]);
    let kept = env.make(&CONFIG_MAPS, kept).await?;
    env.goes(&[&lost]).await?;
    env.remain(&[&kept, &after]).await
}

async fn input_g03_a_dependent_elsewhere_goes_and_then_its_owner(env: &Environment) -> CheckResult {
    let owner = known_owner(env, &env.second_ns().await?).await?;
    let elsewhere = child(env, "elsewhere", blocking(owner.reference())).await?;
    env.delete(&owner, foreground()).await?;
    env.goes(&[&elsewhere, &owner]).await
}

async fn input_g03_a_cluster_scoped_dependent_keeps_its_owner(env: &Environment) -> CheckResult {
    let owner = known_owner(env, env.ns()).await?;
    let dependent = cluster_child(env, "dependent", blocking(owner.reference())).await?;
    keeps_its_owner(env, &dependent, &owner).await
}

async fn input_g04_a_dependent_by_an_unserved_version_keeps_its_owner(
    env: &Environment,
) -> CheckResult {
    let owner = known_owner(env, env.ns()).await?;
    let reference = unserved(blocking(owner.reference()));
    let dependent = child(env, "dependent", reference).await?;
    keeps_its_owner(env, &dependent, &owner).await
}

/// The dependent is not collected, so its owner waits in the foreground until a user deletes the dependent.
async fn keeps_its_owner(
    env: &Environment,
    dependent: &CreatedObject,
    owner: &CreatedObject,
) -> CheckResult {
    env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    env.delete(owner, foreground()).await?;
    env.stays(async || env.deleting(&[owner]).await).await?;
    env.untouched(&[dependent]).await?;
    env.delete(dependent, background()).await?;
    env.goes(&[dependent, owner]).await
}

/// The collector does not write to an object that is being deleted.
async fn left_alone(env: &Environment, made: &CreatedObject) -> CheckResult {
    env.until(async || env.deleting(&[made]).await).await?;
    let rv = env.there(made).await?["metadata"]["resourceVersion"].clone();
    env.stays(
        async || match env.there(made).await?["metadata"]["resourceVersion"] == rv {
            true => Ok(()),
            false => Err(format!("{} was written to again", made.path())),
        },
    )
    .await
}

async fn input_g07_held_dependents_are_deleted_once(env: &Environment) -> CheckResult {
    let owner = controller(env, "owner").await?;
    let child = owned(held(mk_pod("child")), &[owner.reference()]);
    let child = env.make(&PODS, child).await?;
    let other = pod(env, "other", &[owner.reference()]).await?;
    env.delete(&owner, background()).await?;
    env.goes(&[&owner, &other]).await?;
    left_alone(env, &child).await?;
    env.release(&child).await?;
    env.goes(&[&child]).await
}

async fn input_g07_dependents_with_a_long_grace_are_deleted_once(env: &Environment) -> CheckResult {
    let owner = controller(env, "owner").await?;
    let grace = json!({"spec": {"terminationGracePeriodSeconds": 1_000_000_000}});
    let child = owned(with(mk_bound_pod("child"), grace), &[owner.reference()]);
    let child = env.make(&PODS, child).await?;
    env.delete(&owner, background()).await?;
    // The node that would end it does not exist.
    left_alone(env, &child).await
}

async fn input_g09_owners_deleted_while_no_collector_runs(env: &Environment) -> CheckResult {
    let (gone, waiting, leaving) = (
        controller(env, "gone").await?,
        controller(env, "waiting").await?,
        controller(env, "leaving").await?,
    );
    let lost = pod(env, "lost", &[gone.reference()]).await?;
    let waited_for = pod(env, "waited-for", &[blocking(waiting.reference())]).await?;
    let freed = pod(env, "freed", &[leaving.reference()]).await?;
    env.delete(&gone, background()).await?;
    env.delete(&waiting, foreground()).await?;
    env.delete(&leaving, orphan()).await?;
    env.start_controllers().await?;
    env.goes(&[&lost, &waited_for, &waiting, &leaving]).await?;
    env.owned_by(&freed, &[]).await?;
    env.remain(&[&freed]).await
}
