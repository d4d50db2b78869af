//! The cases of upstream's integration tests that define kinds: the collector has to find them while it runs.

use futures::future::try_join_all;
use serde_json::json;

use super::{background, controller, foreground, pod};
use crate::case::{CheckResult, TestCase, case};
use crate::environment::Environment;
use crate::fixtures::{CreatedObject, owned};
use crate::objects::{CONFIG_MAPS, PODS, mk_config_map, mk_pod};
use crate::session::Ask;

pub(super) const CASES: &[TestCase] = &[
    case!(integration_custom_resource_cascading_deletion, Crds),
    case!(integration_mixed_relationships, Crds),
    case!(integration_crd_deletion_cascading, Crds),
    case!(a_deleted_definition_takes_a_thousand_dependents, Crds),
    case!(
        integration_cascading_delete_on_crd_conversion_failure,
        Crds,
        RealOnly,
        FreshControllers
    ),
];

async fn integration_custom_resource_cascading_deletion(env: &Environment) -> CheckResult {
    let kind = env.define(json!({})).await?;
    let owner = env.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(kind.object("child"), &[owner.reference()]);
    let child = env.make(&kind.resource, child).await?;
    env.delete(&owner, foreground()).await?;
    env.goes(&[&child, &owner]).await
}

async fn integration_mixed_relationships(env: &Environment) -> CheckResult {
    let kind = env.define(json!({})).await?;
    let custom_owner = env.make(&kind.resource, kind.object("owner")).await?;
    let child = owned(mk_config_map("child"), &[custom_owner.reference()]);
    let child = env.make(&CONFIG_MAPS, child).await?;
    let owner = env.make(&CONFIG_MAPS, mk_config_map("owner")).await?;
    let custom_child = owned(kind.object("child"), &[owner.reference()]);
    let custom_child = env.make(&kind.resource, custom_child).await?;
    env.delete(&custom_owner, foreground()).await?;
    env.delete(&owner, foreground()).await?;
    env.goes(&[&child, &custom_owner, &custom_child, &owner])
        .await
}

async fn integration_crd_deletion_cascading(env: &Environment) -> CheckResult {
    for _ in 0..2 {
        let kind = env.define(json!({})).await?;
        let owner = env.make(&kind.resource, kind.object("owner")).await?;
        let child = owned(mk_config_map("child"), &[owner.reference()]);
        let child = env.make(&CONFIG_MAPS, child).await?;
        env.seen(&kind.resource, kind.object("c")).await?;
        env.untouched(&[&owner, &child]).await?;
        env.delete(&kind.definition, json!({})).await?;
        env.goes(&[&kind.definition, &child]).await?;
    }
    Ok(())
}

/// Discovery drops the kind while the cascade of its objects still runs.
async fn a_deleted_definition_takes_a_thousand_dependents(env: &Environment) -> CheckResult {
    const OWNERS: usize = 50;
    const DEPENDENTS: usize = 20;
    let kind = env.define(json!({})).await?;
    let kind = &kind;
    let families = (0..OWNERS).map(|number| async move {
        let owner = kind.object(&format!("owner-{number}"));
        let owner = env.make(&kind.resource, owner).await?;
        let mut family = Vec::new();
        for child in 0..DEPENDENTS {
            let child = mk_config_map(&format!("child-{number}-{child}"));
            let child = owned(child, &[owner.reference()]);
            family.push(env.make(&CONFIG_MAPS, child).await?);
        }
        Ok::<_, String>(family)
    });
    let dependents = try_join_all(families).await?.concat();
    env.seen(&kind.resource, kind.object("c")).await?;
    env.delete(&kind.definition, json!({})).await?;
    let gone: Vec<&CreatedObject> = dependents.iter().collect();
    env.goes(&[&[&kind.definition], gone.as_slice()].concat())
        .await
}

async fn integration_cascading_delete_on_crd_conversion_failure(env: &Environment) -> CheckResult {
    let free = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let webhook = json!({"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]});
    let versions = json!([
        {"name": "v1", "served": true, "storage": false, "schema": free},
        {"name": "v1beta1", "served": true, "storage": true, "schema": free},
    ]);
    let spec =
        json!({"versions": versions, "conversion": {"strategy": "Webhook", "webhook": webhook}});
    let kind = env.define(json!({ "spec": spec })).await?;
    env.make(&kind.resource, kind.object("stored")).await?;
    // A watch of the preferred version needs a conversion, and the webhook does not answer.
    let preferred = format!("/apis/{}/v1/gadgets", kind.group);
    env.send(Ask::get(preferred), &[500]).await?;
    env.start_controllers().await?;
    let owner = controller(env, "owner").await?;
    let child = pod(env, "child", &[owner.reference()]).await?;
    env.seen(&PODS, mk_pod("c")).await?;
    env.delete(&owner, background()).await?;
    env.goes(&[&owner, &child]).await
}
