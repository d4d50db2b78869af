//! The cases of upstream's integration tests that define kinds: the collector has to find them while it runs.

use serde_json::json;

use super::{background, controller, foreground, pod};
use crate::objects::{CONFIG_MAPS, PODS, mk_config_map, mk_pod};
use crate::session::Ask;
use crate::suites::play::play;
use crate::suites::stage::{Stage, owned};
use crate::suites::{Checked, Play};

pub(super) const PLAYS: &[Play] = &[
    play!(integration_custom_resource_cascading_deletion, Crds),
    play!(integration_mixed_relationships, Crds),
    play!(integration_crd_deletion_cascading, Crds),
    play!(
        integration_cascading_delete_on_crd_conversion_failure,
        Crds,
        RealOnly,
        FreshCollector
    ),
];

async fn integration_custom_resource_cascading_deletion(stage: &Stage) -> Checked {
    let kind = stage.define(json!({})).await?;
    let owner = stage.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(kind.object("child"), &[owner.reference()]);
    let child = stage.make(&kind.resource, child).await?;
    stage.delete(&owner, foreground()).await?;
    stage.goes(&[&child, &owner]).await
}

async fn integration_mixed_relationships(stage: &Stage) -> Checked {
    let kind = stage.define(json!({})).await?;
    let custom_owner = stage.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(mk_config_map("child"), &[custom_owner.reference()]);
    let child = stage.make(&CONFIG_MAPS, child).await?;
    let owner = stage.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    let custom_child = owned(kind.object("child"), &[owner.reference()]);
    let custom_child = stage.make(&kind.resource, custom_child).await?;
    stage.delete(&custom_owner, foreground()).await?;
    stage.delete(&owner, foreground()).await?;
    stage
        .goes(&[&child, &custom_owner, &custom_child, &owner])
        .await
}

async fn integration_crd_deletion_cascading(stage: &Stage) -> Checked {
    for _ in 0..2 {
        let kind = stage.define(json!({})).await?;
        let owner = stage.make(&kind.resource, kind.object("owner")).await?;
        let child = owned(mk_config_map("child"), &[owner.reference()]);
        let child = stage.make(&CONFIG_MAPS, child).await?;
        stage.seen(&kind.resource, kind.object("c")).await?;
        stage.untouched(&[&owner, &child]).await?;
        stage.delete(&kind.definition, json!({})).await?;
        stage.goes(&[&kind.definition, &child]).await?;
    }
    Ok(())
}

async fn integration_cascading_delete_on_crd_conversion_failure(stage: &Stage) -> Checked {
    let free = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let webhook = json!({"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]});
    let versions = json!([
        {"name": "v1", "served": true, "storage": false, "schema": free},
        {"name": "v1beta1", "served": true, "storage": true, "schema": free},
    ]);
    let spec =
        json!({"versions": versions, "conversion": {"strategy": "Webhook", "webhook": webhook}});
    let kind = stage.define(json!({ "spec": spec })).await?;
    stage.make(&kind.resource, kind.object("stored")).await?;
    // Whoever watches the preferred version has to convert what is stored, and nobody answers.
    let preferred = format!("/apis/{}/v1/gadgets", kind.group);
    stage.send(Ask::get(preferred), &[500]).await?;
    stage.start_collector().await?;
    let owner = controller(stage, "owner").await?;
    let child = pod(stage, "child", &[owner.reference()]).await?;
    stage.seen(&PODS, mk_pod("c")).await?;
    stage.delete(&owner, background()).await?;
    stage.goes(&[&owner, &child]).await
}
