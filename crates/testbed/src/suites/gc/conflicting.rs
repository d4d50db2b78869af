//! The outcomes of upstream's TestConflictingData, as far as a client can bring them about, under its numbers.
//!
//! "Child first" is a matter of the order in which the collector observes objects. A client gets there with an owner of a kind that was
//! defined a moment ago: the collector sees the child at once and the owner when it has found the kind. A collector
//! that finds it at once has to come to the same end. "Owner first" is an owner the collector is known to have seen.

use serde_json::{Value, json};

use super::background;
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, CustomKind, owned};
use crate::objects::{CLUSTER_ROLES, CONFIG_MAPS, SECRETS, mk_config_map, mk_object, with};

pub(super) const CASES: &[TestCase] = &[
    case!(
        conflicting_data_01_child_of_cluster_scoped_owner_stays,
        Crds
    ),
    case!(
        conflicting_data_02_child_first_owner_in_other_namespace,
        Crds
    ),
    case!(conflicting_data_03_owner_first_in_other_namespace),
    case!(conflicting_data_04_cluster_scoped_child_first, Crds),
    case!(conflicting_data_05_cluster_scoped_child_second),
    case!(
        conflicting_data_06_owner_by_version_that_is_not_preferred,
        Crds
    ),
    case!(conflicting_data_07_child_first_version_not_served, Crds),
    case!(conflicting_data_08_owner_first_version_not_served, Crds),
    case!(conflicting_data_09_absent_owner_by_unserved_version_first),
    case!(conflicting_data_10_absent_owner_by_served_version_first),
    case!(conflicting_data_11_wrong_kind_before_owner_is_seen, Crds),
    case!(conflicting_data_12_wrong_kind_after_owner_is_seen),
    case!(conflicting_data_13_wrong_kind_after_good_child, Crds),
    case!(conflicting_data_14_cluster_scoped_child_first_owner_absent),
    case!(
        conflicting_data_15_cluster_scoped_child_first_owner_late,
        Crds
    ),
    case!(conflicting_data_16_cluster_scoped_child_second_owner_absent),
];

/// Makes a ConfigMap with one owner.
pub(super) async fn child(
    env: &Environment,
    name: &str,
    owner: Value,
) -> CheckResult<CreatedObject> {
    env.make(&CONFIG_MAPS, owned(mk_config_map(name), &[owner]))
        .await
}

/// Makes an object in no namespace with one owner.
pub(super) async fn cluster_child(
    env: &Environment,
    name: &str,
    owner: Value,
) -> CheckResult<CreatedObject> {
    let role = mk_object("rbac.authorization.k8s.io/v1", "ClusterRole", name);
    env.make(&CLUSTER_ROLES, owned(role, &[owner])).await
}

/// An owner of a kind that the collector has yet to find.
async fn late_owner(env: &Environment) -> CheckResult<(CustomKind, CreatedObject)> {
    let kind = env.define(json!({})).await?;
    let owner = env.make(&kind.resource, kind.object("owner")).await?;
    Ok((kind, owner))
}

/// An owner that the collector has seen.
pub(super) async fn known_owner(env: &Environment, ns: &str) -> CheckResult<CreatedObject> {
    let owner = env
        .make_in(ns, &CONFIG_MAPS, mk_config_map("owner"))
        .await?;
    env.seen(&CONFIG_MAPS, mk_config_map("c")).await?;
    Ok(owner)
}

/// These stay while the collector finds the kind, and afterwards.
async fn remain_when_found(
    env: &Environment,
    kind: &CustomKind,
    made: &[&CreatedObject],
) -> CheckResult {
    env.seen(&kind.resource, kind.object("c")).await?;
    env.remain(made).await
}

async fn conflicting_data_01_child_of_cluster_scoped_owner_stays(env: &Environment) -> CheckResult {
    let kind = env.define(json!({"spec": {"scope": "Cluster"}})).await?;
    let owner = env.make(&kind.resource, kind.object("owner")).await?;
    let child = child(env, "child", owner.reference()).await?;
    remain_when_found(env, &kind, &[&child, &owner]).await?;
    env.delete(&owner, background()).await?;
    env.goes(&[&child]).await
}

async fn conflicting_data_02_child_first_owner_in_other_namespace(
    env: &Environment,
) -> CheckResult {
    let b = env.second_ns().await?;
    let kind = env.define(json!({})).await?;
    let owner = env
        .make_in(&b, &kind.resource, kind.object("owner"))
        .await?;
    // Upstream warns as well, if it sees the owner before the child is gone.
    let child = child(env, "child", owner.reference()).await?;
    env.goes(&[&child]).await?;
    remain_when_found(env, &kind, &[&owner]).await
}

async fn conflicting_data_03_owner_first_in_other_namespace(env: &Environment) -> CheckResult {
    let b = env.second_ns().await?;
    let owner = known_owner(env, &b).await?;
    let child = child(env, "child", owner.reference()).await?;
    env.goes(&[&child]).await?;
    env.until(async || env.warned(&child, &owner).await).await?;
    env.remain(&[&owner]).await
}

async fn conflicting_data_04_cluster_scoped_child_first(env: &Environment) -> CheckResult {
    let (kind, owner) = late_owner(env).await?;
    let child = cluster_child(env, "child", owner.reference()).await?;
    remain_when_found(env, &kind, &[&child, &owner]).await?;
    env.until(async || env.warned(&child, &owner).await).await?;
    env.untouched(&[&child, &owner]).await
}

async fn conflicting_data_05_cluster_scoped_child_second(env: &Environment) -> CheckResult {
    let owner = known_owner(env, env.ns()).await?;
    let child = cluster_child(env, "child", owner.reference()).await?;
    env.until(async || env.warned(&child, &owner).await).await?;
    env.remain(&[&child, &owner]).await
}

async fn conflicting_data_06_owner_by_version_that_is_not_preferred(
    env: &Environment,
) -> CheckResult {
    let free = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = json!([
        {"name": "v1", "served": true, "storage": true, "schema": free},
        {"name": "v1beta1", "served": true, "storage": false, "schema": free},
    ]);
    let kind = env.define(json!({"spec": {"versions": versions}})).await?;
    let owner = env.make(&kind.resource, kind.object("owner")).await?;
    let old = json!({"apiVersion": format!("{}/v1beta1", kind.group)});
    let by_old = child(env, "by-old", with(owner.reference(), old)).await?;
    let by_new = child(env, "by-new", owner.reference()).await?;
    remain_when_found(env, &kind, &[&by_old, &by_new]).await?;
    env.delete(&owner, background()).await?;
    env.goes(&[&by_old, &by_new]).await
}

/// A reference to an owner by a version of its kind that is not served.
pub(super) fn unserved(owner: Value) -> Value {
    let group = owner["apiVersion"]
        .as_str()
        .and_then(|all| all.split_once('/'));
    let version = group.map_or("v9".to_owned(), |(group, _)| format!("{group}/v9"));
    with(owner, json!({"apiVersion": version}))
}

async fn conflicting_data_07_child_first_version_not_served(env: &Environment) -> CheckResult {
    let (kind, owner) = late_owner(env).await?;
    let child = child(env, "child", unserved(owner.reference())).await?;
    remain_when_found(env, &kind, &[&child, &owner]).await
}

async fn conflicting_data_08_owner_first_version_not_served(env: &Environment) -> CheckResult {
    let (kind, owner) = late_owner(env).await?;
    env.seen(&kind.resource, kind.object("c")).await?;
    let child = child(env, "child", unserved(owner.reference())).await?;
    env.remain(&[&child, &owner]).await
}

async fn conflicting_data_09_absent_owner_by_unserved_version_first(
    env: &Environment,
) -> CheckResult {
    let owner = env.absent();
    let by_unserved = child(env, "by-unserved", unserved(owner.clone())).await?;
    let by_served = child(env, "by-served", owner).await?;
    env.goes(&[&by_served]).await?;
    env.remain(&[&by_unserved]).await
}

async fn conflicting_data_10_absent_owner_by_served_version_first(
    env: &Environment,
) -> CheckResult {
    let owner = env.absent();
    let by_served = child(env, "by-served", owner.clone()).await?;
    let by_unserved = child(env, "by-unserved", unserved(owner)).await?;
    env.goes(&[&by_served]).await?;
    env.remain(&[&by_unserved]).await
}

/// A reference with the uid and name of an owner, but of a kind that it is not.
fn mistaken(owner: &CreatedObject) -> Value {
    with(
        owner.reference(),
        json!({"apiVersion": "v1", "kind": "Secret"}),
    )
}

async fn conflicting_data_11_wrong_kind_before_owner_is_seen(env: &Environment) -> CheckResult {
    let (kind, owner) = late_owner(env).await?;
    let bad = child(env, "bad", mistaken(&owner)).await?;
    let good = child(env, "good", owner.reference()).await?;
    env.goes(&[&bad]).await?;
    remain_when_found(env, &kind, &[&good, &owner]).await
}

async fn conflicting_data_12_wrong_kind_after_owner_is_seen(env: &Environment) -> CheckResult {
    let owner = known_owner(env, env.ns()).await?;
    // Of two kinds, so that their order is undefined.
    let good = owned(mk_object("v1", "Secret", "good"), &[owner.reference()]);
    let good = env.make(&SECRETS, good).await?;
    let bad = child(env, "bad", mistaken(&owner)).await?;
    env.goes(&[&bad]).await?;
    env.remain(&[&good, &owner]).await
}

async fn conflicting_data_13_wrong_kind_after_good_child(env: &Environment) -> CheckResult {
    let (kind, owner) = late_owner(env).await?;
    let good = child(env, "good", owner.reference()).await?;
    let bad = child(env, "bad", mistaken(&owner)).await?;
    env.goes(&[&bad]).await?;
    remain_when_found(env, &kind, &[&good, &owner]).await
}

async fn conflicting_data_14_cluster_scoped_child_first_owner_absent(
    env: &Environment,
) -> CheckResult {
    let owner = env.absent();
    let bad = cluster_child(env, "bad", owner.clone()).await?;
    let good = child(env, "good", owner).await?;
    env.goes(&[&good]).await?;
    env.remain(&[&bad]).await
}

async fn conflicting_data_15_cluster_scoped_child_first_owner_late(
    env: &Environment,
) -> CheckResult {
    let (kind, owner) = late_owner(env).await?;
    let bad = cluster_child(env, "bad", owner.reference()).await?;
    let good = child(env, "good", owner.reference()).await?;
    remain_when_found(env, &kind, &[&good, &bad, &owner]).await?;
    env.until(async || env.warned(&bad, &owner).await).await?;
    env.untouched(&[&good, &bad, &owner]).await
}

async fn conflicting_data_16_cluster_scoped_child_second_owner_absent(
    env: &Environment,
) -> CheckResult {
    let owner = env.absent();
    let good = child(env, "good", owner.clone()).await?;
    let bad = cluster_child(env, "bad", owner).await?;
    env.goes(&[&good]).await?;
    env.remain(&[&bad]).await
}
