//! The outcomes of upstream's TestConflictingData, as far as a client can bring them about, under its numbers.
//!
//! "Child first" is a matter of when the collector sees whom. A client gets there with an owner of a kind that was
//! defined a moment ago: the collector sees the child at once and the owner when it has found the kind. A collector
//! that finds it at once has to come to the same end. "Owner first" is an owner the collector is known to have seen.

use serde_json::{Value, json};

use super::background;
use crate::objects::{CLUSTER_ROLES, CONFIG_MAPS, SECRETS, mk_config_map, mk_object, with};
use crate::suites::play::play;
use crate::suites::stage::{Kind, Made, Stage, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(
        conflicting_data_01_child_of_cluster_scoped_owner_stays,
        Crds
    ),
    play!(
        conflicting_data_02_child_first_owner_in_other_namespace,
        Crds
    ),
    play!(conflicting_data_03_owner_first_in_other_namespace),
    play!(conflicting_data_04_cluster_scoped_child_first, Crds),
    play!(conflicting_data_05_cluster_scoped_child_second),
    play!(
        conflicting_data_06_owner_by_version_that_is_not_preferred,
        Crds
    ),
    play!(conflicting_data_07_child_first_version_not_served, Crds),
    play!(conflicting_data_08_owner_first_version_not_served, Crds),
    play!(conflicting_data_09_absent_owner_by_unserved_version_first),
    play!(conflicting_data_10_absent_owner_by_served_version_first),
    play!(conflicting_data_11_wrong_kind_before_owner_is_seen, Crds),
    play!(conflicting_data_12_wrong_kind_after_owner_is_seen),
    play!(conflicting_data_13_wrong_kind_after_good_child, Crds),
    play!(conflicting_data_14_cluster_scoped_child_first_owner_absent),
    play!(
        conflicting_data_15_cluster_scoped_child_first_owner_late,
        Crds
    ),
    play!(conflicting_data_16_cluster_scoped_child_second_owner_absent),
];

/// Makes a ConfigMap with one owner.
async fn child(stage: &Stage, name: &str, owner: Value) -> Checked<Made> {
    stage
        .make(&CONFIG_MAPS, owned(mk_config_map(name), &[owner]))
        .await
}

/// Makes an object in no namespace with one owner.
async fn cluster_child(stage: &Stage, name: &str, owner: Value) -> Checked<Made> {
    let role = mk_object("rbac.authorization.k8s.io/v1", "ClusterRole", name);
    stage.make(&CLUSTER_ROLES, owned(role, &[owner])).await
}

/// An owner of a kind that the collector has yet to find.
async fn late_owner(stage: &Stage) -> Checked<(Kind, Made)> {
    let kind = stage.define(json!({})).await?;
    let owner = stage.make(&kind.resource, kind.object("owner")).await?;
    Ok((kind, owner))
}

/// An owner that the collector has seen.
async fn known_owner(stage: &Stage, ns: &str) -> Checked<Made> {
    let owner = stage
        .make_in(ns, &CONFIG_MAPS, mk_config_map("owner"))
        .await?;
    stage.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    Ok(owner)
}

/// These stay while the collector finds the kind, and afterwards.
async fn remain_when_found(stage: &Stage, kind: &Kind, made: &[&Made]) -> Checked {
    stage.seen(&kind.resource, kind.object("c")).await?;
    stage.remain(made).await
}

async fn conflicting_data_01_child_of_cluster_scoped_owner_stays(stage: &Stage) -> Checked {
    let kind = stage.define(json!({"spec": {"scope": "Cluster"}})).await?;
    let owner = stage.make(&kind.resource, kind.object("owner")).await?;
    let child = child(stage, "child", owner.reference()).await?;
    remain_when_found(stage, &kind, &[&child, &owner]).await?;
    stage.delete(&owner, background()).await?;
    stage.goes(&[&child]).await
}

async fn conflicting_data_02_child_first_owner_in_other_namespace(stage: &Stage) -> Checked {
    let b = stage.second_ns().await?;
    let kind = stage.define(json!({})).await?;
    let owner = stage
        .make_in(&b, &kind.resource, kind.object("owner"))
        .await?;
    // Upstream warns as well, if it sees the owner before the child is gone.
    let child = child(stage, "child", owner.reference()).await?;
    stage.goes(&[&child]).await?;
    remain_when_found(stage, &kind, &[&owner]).await
}

async fn conflicting_data_03_owner_first_in_other_namespace(stage: &Stage) -> Checked {
    let b = stage.second_ns().await?;
    let owner = known_owner(stage, &b).await?;
    let child = child(stage, "child", owner.reference()).await?;
    stage.goes(&[&child]).await?;
    stage
        .until(async || stage.warned(&child, &owner).await)
        .await?;
    stage.remain(&[&owner]).await
}

async fn conflicting_data_04_cluster_scoped_child_first(stage: &Stage) -> Checked {
    let (kind, owner) = late_owner(stage).await?;
    let child = cluster_child(stage, "child", owner.reference()).await?;
    remain_when_found(stage, &kind, &[&child, &owner]).await?;
    stage
        .until(async || stage.warned(&child, &owner).await)
        .await?;
    stage.untouched(&[&child, &owner]).await
}

async fn conflicting_data_05_cluster_scoped_child_second(stage: &Stage) -> Checked {
    let owner = known_owner(stage, stage.ns()).await?;
    let child = cluster_child(stage, "child", owner.reference()).await?;
    stage
        .until(async || stage.warned(&child, &owner).await)
        .await?;
    stage.remain(&[&child, &owner]).await
}

async fn conflicting_data_06_owner_by_version_that_is_not_preferred(stage: &Stage) -> Checked {
    let free = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = json!([
        {"name": "v1", "served": true, "storage": true, "schema": free},
        {"name": "v1beta1", "served": true, "storage": false, "schema": free},
    ]);
    let kind = stage
        .define(json!({"spec": {"versions": versions}}))
        .await?;
    let owner = stage.make(&kind.resource, kind.object("owner")).await?;
    let old = json!({"apiVersion": format!("{}/v1beta1", kind.group)});
    let by_old = child(stage, "by-old", with(owner.reference(), old)).await?;
    let by_new = child(stage, "by-new", owner.reference()).await?;
    remain_when_found(stage, &kind, &[&by_old, &by_new]).await?;
    stage.delete(&owner, background()).await?;
    stage.goes(&[&by_old, &by_new]).await
}

/// A reference to an owner by a version of its kind that is not served.
fn unserved(owner: Value) -> Value {
    let group = owner["apiVersion"]
        .as_str()
        .and_then(|all| all.split_once('/'));
    let version = group.map_or("v9".to_owned(), |(group, _)| format!("{group}/v9"));
    with(owner, json!({"apiVersion": version}))
}

async fn conflicting_data_07_child_first_version_not_served(stage: &Stage) -> Checked {
    let (kind, owner) = late_owner(stage).await?;
    let child = child(stage, "child", unserved(owner.reference())).await?;
    remain_when_found(stage, &kind, &[&child, &owner]).await
}

async fn conflicting_data_08_owner_first_version_not_served(stage: &Stage) -> Checked {
    let (kind, owner) = late_owner(stage).await?;
    stage.seen(&kind.resource, kind.object("c")).await?;
    let child = child(stage, "child", unserved(owner.reference())).await?;
    stage.remain(&[&child, &owner]).await
}

async fn conflicting_data_09_absent_owner_by_unserved_version_first(stage: &Stage) -> Checked {
    let owner = stage.absent();
    let by_unserved = child(stage, "by-unserved", unserved(owner.clone())).await?;
    let by_served = child(stage, "by-served", owner).await?;
    stage.goes(&[&by_served]).await?;
    stage.remain(&[&by_unserved]).await
}

async fn conflicting_data_10_absent_owner_by_served_version_first(stage: &Stage) -> Checked {
    let owner = stage.absent();
    let by_served = child(stage, "by-served", owner.clone()).await?;
    let by_unserved = child(stage, "by-unserved", unserved(owner)).await?;
    stage.goes(&[&by_served]).await?;
    stage.remain(&[&by_unserved]).await
}

/// A reference with the uid and name of an owner, but of a kind that it is not.
fn mistaken(owner: &Made) -> Value {
    with(
        owner.reference(),
        json!({"apiVersion": "v1", "kind": "Secret"}),
    )
}

async fn conflicting_data_11_wrong_kind_before_owner_is_seen(stage: &Stage) -> Checked {
    let (kind, owner) = late_owner(stage).await?;
    let bad = child(stage, "bad", mistaken(&owner)).await?;
    let good = child(stage, "good", owner.reference()).await?;
    stage.goes(&[&bad]).await?;
    remain_when_found(stage, &kind, &[&good, &owner]).await
}

async fn conflicting_data_12_wrong_kind_after_owner_is_seen(stage: &Stage) -> Checked {
    let owner = known_owner(stage, stage.ns()).await?;
    // Of two kinds, so that their order is nobody's promise.
    let good = owned(mk_object("v1", "Secret", "good"), &[owner.reference()]);
    let good = stage.make(&SECRETS, good).await?;
    let bad = child(stage, "bad", mistaken(&owner)).await?;
    stage.goes(&[&bad]).await?;
    stage.remain(&[&good, &owner]).await
}

async fn conflicting_data_13_wrong_kind_after_good_child(stage: &Stage) -> Checked {
    let (kind, owner) = late_owner(stage).await?;
    let good = child(stage, "good", owner.reference()).await?;
    let bad = child(stage, "bad", mistaken(&owner)).await?;
    stage.goes(&[&bad]).await?;
    remain_when_found(stage, &kind, &[&good, &owner]).await
}

async fn conflicting_data_14_cluster_scoped_child_first_owner_absent(stage: &Stage) -> Checked {
    let owner = stage.absent();
    let bad = cluster_child(stage, "bad", owner.clone()).await?;
    let good = child(stage, "good", owner).await?;
    stage.goes(&[&good]).await?;
    stage.remain(&[&bad]).await
}

async fn conflicting_data_15_cluster_scoped_child_first_owner_late(stage: &Stage) -> Checked {
    let (kind, owner) = late_owner(stage).await?;
    let bad = cluster_child(stage, "bad", owner.reference()).await?;
    let good = child(stage, "good", owner.reference()).await?;
    remain_when_found(stage, &kind, &[&good, &bad, &owner]).await?;
    stage
        .until(async || stage.warned(&bad, &owner).await)
        .await?;
    stage.untouched(&[&good, &bad, &owner]).await
}

async fn conflicting_data_16_cluster_scoped_child_second_owner_absent(stage: &Stage) -> Checked {
    let owner = stage.absent();
    let good = child(stage, "good", owner.clone()).await?;
    let bad = cluster_child(stage, "bad", owner).await?;
    stage.goes(&[&good]).await?;
    stage.remain(&[&bad]).await
}
