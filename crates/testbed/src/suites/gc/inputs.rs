//! Inputs that went wrong for others, by the rows of `docs/inputs.md` that a client can bring about: owners in
//! rings, references that contradict themselves, dependents that cannot go, a collector that was not there.

use serde_json::{Value, json};

use super::{all, background, controller, foreground, held, orphan, pod};
use crate::objects::{CONFIG_MAPS, PODS, mk_bound_pod, mk_config_map, mk_pod, with};
use crate::suites::play::play;
use crate::suites::stage::{Made, Stage, blocking, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(input_g01_rings_that_live_are_never_collected),
    play!(input_g01_a_ring_loses_only_the_owner_outside_it),
    play!(input_g01_rings_are_broken_in_the_foreground),
    // DEVIATION(self-owner): an object that blocks its own deletion in the foreground is a ring of one, and broken like any.
    play!(input_g01_an_owner_of_itself_goes_in_the_foreground; "self-owner"),
    play!(input_g02_one_uid_with_two_names_keeps_the_child),
    play!(input_g02_one_owner_referred_to_twice_is_waited_for),
    play!(input_g02_an_owner_made_again_is_another_one),
    play!(input_g07_held_dependents_are_deleted_once),
    play!(input_g07_dependents_with_a_long_grace_are_deleted_once),
    play!(
        input_g09_owners_deleted_while_nobody_collects,
        FreshCollector
    ),
];

/// Makes a ring of ConfigMaps, each owned by the one before and the first by the last.
async fn ring(
    stage: &Stage,
    prefix: &str,
    size: usize,
    mark: fn(Value) -> Value,
) -> Checked<Vec<Made>> {
    let first = stage
        .make(&CONFIG_MAPS, mk_config_map(&format!("{prefix}-0")))
        .await?;
    let mut ring = vec![first];
    for number in 1..size {
        let owner = mark(ring[number - 1].reference());
        let member = owned(mk_config_map(&format!("{prefix}-{number}")), &[owner]);
        ring.push(stage.make(&CONFIG_MAPS, member).await?);
    }
    let last = mark(ring[size - 1].reference());
    stage
        .change(&ring[0], json!({"metadata": {"ownerReferences": [last]}}))
        .await?;
    Ok(ring)
}

async fn input_g01_rings_that_live_are_never_collected(stage: &Stage) -> Checked {
    let mut members = Vec::new();
    for (prefix, size) in [("self", 1), ("two", 2), ("three", 3), ("hundred", 100)] {
        members.extend(ring(stage, prefix, size, |reference| reference).await?);
    }
    stage.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    stage
        .remain(&[&members[0], &members[1], &members[3], &members[6]])
        .await?;
    stage.untouched(&all(&members)).await?;
    // Deleted in the background a ring falls apart: the others have lost their only owner, one after the other.
    stage.delete(&members[6], background()).await?;
    stage.goes(&all(&members[6..])).await?;
    stage.untouched(&all(&members[..6])).await
}

async fn input_g01_a_ring_loses_only_the_owner_outside_it(stage: &Stage) -> Checked {
    let outside = stage.make(&CONFIG_MAPS, mk_config_map("outside")).await?;
    let ring = ring(stage, "r", 3, |reference| reference).await?;
    let owners = [ring[2].reference(), outside.reference()];
    stage
        .change(&ring[0], json!({"metadata": {"ownerReferences": owners}}))
        .await?;
    stage.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    stage.delete(&outside, background()).await?;
    stage
        .until(async || stage.owned_by(&ring[0], &[&ring[2]]).await)
        .await?;
    stage.remain(&all(&ring)).await
}

async fn input_g01_rings_are_broken_in_the_foreground(stage: &Stage) -> Checked {
    for (prefix, size) in [("two", 2), ("three", 3), ("thirty", 30)] {
        let ring = ring(stage, prefix, size, blocking).await?;
        stage.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
        stage.delete(&ring[0], foreground()).await?;
        stage.goes(&all(&ring)).await?;
    }
    Ok(())
}

async fn input_g01_an_owner_of_itself_goes_in_the_foreground(stage: &Stage) -> Checked {
    let ring = ring(stage, "self", 1, blocking).await?;
    stage.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    stage.delete(&ring[0], foreground()).await?;
    stage.goes(&all(&ring)).await
}

async fn input_g02_one_uid_with_two_names_keeps_the_child(stage: &Stage) -> Checked {
    let owner = stage.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    let misnamed = with(owner.reference(), json!({"name": "other"}));
    let pairs = [
        ("good-first", [owner.reference(), misnamed.clone()]),
        ("bad-first", [misnamed, owner.reference()]),
    ];
    let mut children = Vec::new();
    for (name, owners) in pairs {
        let child = owned(mk_config_map(name), &owners);
        children.push(stage.make(&CONFIG_MAPS, child).await?);
    }
    stage.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    // The Go collector takes both references off, as they have one uid: only that the child stays is common ground.
    stage.remain(&[&owner, &children[0], &children[1]]).await
}

async fn input_g02_one_owner_referred_to_twice_is_waited_for(stage: &Stage) -> Checked {
    let owner = controller(stage, "owner").await?;
    let owners = [owner.reference(), blocking(owner.reference())];
    let child = owned(held(mk_pod("child")), &owners);
    let child = stage.make(&PODS, child).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, foreground()).await?;
    stage
        .until(async || stage.deleting(&[&child]).await)
        .await?;
    stage
        .stays(async || stage.deleting(&[&owner, &child]).await)
        .await?;
    stage.release(&child).await?;
    stage.goes(&[&owner, &child]).await
}

async fn input_g02_an_owner_made_again_is_another_one(stage: &Stage) -> Checked {
    let before = stage.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    stage.delete(&before, background()).await?;
    let after = stage.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    let lost = owned(mk_config_map("lost"), &[before.reference()]);
    let lost = stage.make(&CONFIG_MAPS, lost).await?;
    let kept = owned(mk_config_map("kept"), &[after.reference()]);
    let kept = stage.make(&CONFIG_MAPS, kept).await?;
    stage.goes(&[&lost]).await?;
    stage.remain(&[&kept, &after]).await
}

/// Nobody writes to an object that is being deleted already.
async fn left_alone(stage: &Stage, made: &Made) -> Checked {
    stage.until(async || stage.deleting(&[made]).await).await?;
    let rv = stage.there(made).await?["metadata"]["resourceVersion"].clone();
    stage
        .stays(
            async || match stage.there(made).await?["metadata"]["resourceVersion"] == rv {
                true => Ok(()),
                false => Err(format!("{} was written to again", made.path())),
            },
        )
        .await
}

async fn input_g07_held_dependents_are_deleted_once(stage: &Stage) -> Checked {
    let owner = controller(stage, "owner").await?;
    let child = owned(held(mk_pod("child")), &[owner.reference()]);
    let child = stage.make(&PODS, child).await?;
    let other = pod(stage, "other", &[owner.reference()]).await?;
    stage.delete(&owner, background()).await?;
    stage.goes(&[&owner, &other]).await?;
    left_alone(stage, &child).await?;
    stage.release(&child).await?;
    stage.goes(&[&child]).await
}

async fn input_g07_dependents_with_a_long_grace_are_deleted_once(stage: &Stage) -> Checked {
    let owner = controller(stage, "owner").await?;
    let grace = json!({"spec": {"terminationGracePeriodSeconds": 1_000_000_000}});
    let child = owned(with(mk_bound_pod("child"), grace), &[owner.reference()]);
    let child = stage.make(&PODS, child).await?;
    stage.delete(&owner, background()).await?;
    // The node that would end it does not exist.
    left_alone(stage, &child).await
}

async fn input_g09_owners_deleted_while_nobody_collects(stage: &Stage) -> Checked {
    let (gone, waiting, leaving) = (
        controller(stage, "gone").await?,
        controller(stage, "waiting").await?,
        controller(stage, "leaving").await?,
    );
    let lost = pod(stage, "lost", &[gone.reference()]).await?;
    let waited_for = pod(stage, "waited-for", &[blocking(waiting.reference())]).await?;
    let freed = pod(stage, "freed", &[leaving.reference()]).await?;
    stage.delete(&gone, background()).await?;
    stage.delete(&waiting, foreground()).await?;
    stage.delete(&leaving, orphan()).await?;
    stage.start_collector().await?;
    stage
        .goes(&[&lost, &waited_for, &waiting, &leaving])
        .await?;
    stage.owned_by(&freed, &[]).await?;
    stage.remain(&[&freed]).await
}
