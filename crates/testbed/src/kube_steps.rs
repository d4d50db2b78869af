//! Everyday steps of kube, the Rust client, on a server behind a kubeconfig.
//!
//! Every step prints a line, `ok NAME` or `FAILED NAME: why`, and the first that fails ends the run; the last line has their
//! number. `cargo xtask conformance interop` runs them.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{
    Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "kube-rs";
/// Most looks at something that another process does, and the pause between two.
const LOOKS_MAX: usize = 600;
const LOOK_STEP: Duration = Duration::from_millis(100);

/// Runs all steps and prints them.
///
/// # Errors
/// If a step fails, after its line.
pub async fn run(client: Client) -> anyhow::Result<()> {
    let steps = [
        "create a Namespace",
        "create, replace and patch a ConfigMap; an old resourceVersion is a conflict",
        "watch events",
        "list in pages",
        "a Deployment becomes available and is scaled",
        "evict a Pod",
        "hold a Lease",
        "delete the Namespace and see it go",
    ];
    for (number, name) in steps.iter().enumerate() {
        let outcome = step(&client, number).await;
        let mut out = std::io::stdout().lock();
        match &outcome {
            Ok(()) => writeln!(out, "ok {name}")?,
            Err(why) => writeln!(out, "FAILED {name}: {why:#}")?,
        }
        outcome?;
    }
    writeln!(std::io::stdout().lock(), "steps {}", steps.len())?;
    Ok(())
}

async fn step(client: &Client, number: usize) -> anyhow::Result<()> {
    match number {
        0 => create_namespace(client).await,
        1 => config_map(client).await,
        2 => watch(client).await,
        3 => pages(client).await,
        4 => deployment(client).await,
        5 => evict(client).await,
        6 => lease(client).await,
        _ => delete_namespace(client).await,
    }
}

fn mk<K: DeserializeOwned>(tree: Value) -> anyhow::Result<K> {
    serde_json::from_value(tree).context("the object of a step")
}

async fn create_namespace(client: &Client) -> anyhow::Result<()> {
    let namespace = mk(json!({"metadata": {"name": NAMESPACE}}))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(())
}

async fn config_map(client: &Client) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = mk(json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))?;
    let params = PostParams::default();
    let mut made = maps.create(&params, &map).await?;
    made.data
        .get_or_insert_default()
        .insert("k".into(), "w".into());
    maps.replace("a", &params, &made).await?;
    match maps.replace("a", &params, &made).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => anyhow::bail!("no conflict: {other:?}"),
    }
    let patch = Patch::Merge(json!({"data": {"l": "m"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await?;
    let data = patched.data.unwrap_or_default();
    ensure!(data.len() == 2 && data["k"] == "w", "data: {data:?}");
    Ok(())
}

async fn watch(client: &Client) -> anyhow::Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let list = maps.list(&ListParams::default()).await?;
    let version = list
        .metadata
        .resource_version
        .context("the list has no version")?;
    let map = mk(json!({"metadata": {"name": "b"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    maps.delete("b", &DeleteParams::default()).await?;
    let params = WatchParams::default().fields("metadata.name=b").timeout(20);
    let mut events = maps.watch(&params, &version).await?.boxed();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(_) => seen.push("added"),
            WatchEvent::Deleted(_) => {
                seen.push("deleted");
                break;
            }
            _ => {}
        }
    }
    ensure!(seen == ["added", "deleted"], "events: {seen:?}");
    Ok(())
}

async fn pages(client: &Client) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for number in 0..5 {
        let secret = json!({"metadata": {"name": format!("s-{number}"), "labels": {"p": "y"}}});
        secrets.create(&PostParams::default(), &mk(secret)?).await?;
    }
    let (mut names, mut params) = (Vec::new(), ListParams::default().labels("p=y").limit(2));
    loop {
        let page = secrets.list(&params).await?;
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    ensure!(names.len() == 5, "{names:?}");
    let selected = ListParams::default().labels("p=y");
    secrets
        .delete_collection(&DeleteParams::default(), &selected)
        .await?;
    ensure!(
        secrets.list(&selected).await?.items.is_empty(),
        "Secrets are left"
    );
    Ok(())
}

async fn deployment(client: &Client) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    let deployment = json!({"metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
    deployments
        .create(&PostParams::default(), &mk(deployment)?)
        .await?;
    available(&deployments, 1).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    deployments
        .patch_scale("web", &PatchParams::default(), &patch)
        .await?;
    available(&deployments, 2).await
}

async fn available(deployments: &Api<Deployment>, count: i32) -> anyhow::Result<()> {
    for _ in 0..LOOKS_MAX {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        if status.available_replicas == Some(count) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
    anyhow::bail!("{count} replicas did not become available")
}

async fn evict(client: &Client) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let list = pods.list(&ListParams::default().labels("app=web")).await?;
    let pod = list.items.first().context("no Pod")?;
    pods.evict(&pod.name_any(), &EvictParams::default()).await?;
    for _ in 0..LOOKS_MAX {
        let now = pods.get_opt(&pod.name_any()).await?;
        if now.is_none_or(|now| now.uid() != pod.uid()) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
    anyhow::bail!("the Pod did not end")
}

async fn lease(client: &Client) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = json!({"metadata": {"name": "lock"},
        "spec": {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.123456Z"}});
    let made = leases.create(&PostParams::default(), &mk(lease)?).await?;
    let spec = made.spec.context("no spec")?;
    let renewed = serde_json::to_value(spec.renew_time)?;
    ensure!(
        renewed == "2026-01-01T00:00:00.123456Z",
        "renewTime: {renewed}"
    );
    Ok(())
}

async fn delete_namespace(client: &Client) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .delete(NAMESPACE, &DeleteParams::default())
        .await?;
    for _ in 0..LOOKS_MAX {
        if namespaces.get_opt(NAMESPACE).await?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(LOOK_STEP).await;
    }
    anyhow::bail!("the Namespace did not end")
}
