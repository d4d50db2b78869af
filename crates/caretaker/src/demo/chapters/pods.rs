//! Chapter three: Pods that nobody else removes, because they have ended and are too many, or because their Node is gone.
//!
//! The threshold is the demo's own: the usual one is 12,500.

use anyhow::Result;
use caretaker_simulator::NODE_LABEL;
use caretaker_simulator::life::{FOREVER, RUN_SECONDS};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::demo::scene::{Kind, Thing};
use crate::demo::screen::Pause;
use crate::demo::story::Story;

const NAMESPACE: &str = "pods";

static POD: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
};
static NODE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
};
static KINDS: [&Kind; 1] = [&POD];

/// How many Pods that have ended are kept.
pub(crate) const KEPT: usize = 4;

/// How many more there are.
const MORE: usize = 2;

const RACK: &str = "rack-7";

/// Tells the chapter.
pub(super) async fn tell(story: &mut Story<'_>) -> Result<()> {
    story.enter(NAMESPACE, &KINDS).await?;
    too_many(story).await?;
    no_node(story).await
}

/// Pods that have ended stay to be looked at, as long as they are not too many.
async fn too_many(story: &mut Story<'_>) -> Result<()> {
    story.screen().strong("Too many that have ended")?;
    let all = KEPT + MORE;
    story.say(&format!(
        "Pods that have ended can be looked at, until there are too many: here more than {KEPT}, usually 12500.
{all} Pods run for a second:
"
    ))?;
    let mark = story.mark();
    let mut pods = Vec::new();
    for number in 1..=all {
        let body = pod(&format!("short-{number}"), "1", None);
        pods.push(story.create(&POD, NAMESPACE, &body).await?);
    }
    let over = |story: &Story<'_>| -> Vec<(Thing, &str)> {
        let ended = pods.iter().filter(|pod| story.ended(pod).is_some());
        ended.map(|pod| (pod.clone(), "Terminated")).collect()
    };
    let missing = |story: &Story<'_>| {
        let over = over(story);
        let missing = MORE.checked_sub(over.len()).filter(|missing| *missing > 0);
        let count = missing.map(|missing| format!("{missing} Pods too many did not go"));
        count.or_else(|| story.lives(&over))
    };
    let took = story.until(&mark, missing).await?;
    let tally = story.tally(&mark, took).await?;
    let over = over(story);
    story.chronicle(&over)?;
    let line = format!("The controller: {}; {KEPT} Pods are left.", tally.work());
    story.screen().strong(&line)?;
    story.pause(Pause::Long).await;
    Ok(())
}

/// A Pod whose Node is gone has nobody who could end it.
async fn no_node(story: &mut Story<'_>) -> Result<()> {
    story.say("")?;
    story.screen().strong("No Node any more")?;
    story.say(
        "A Pod runs on a Node, and the Node is deleted. Nobody is left who could end the Pod. When the Node has been
missing for 40 s and the server does not know it either, the Pod is marked as failed and removed.
",
    )?;
    let node = story.create(&NODE, "", &rack()).await?;
    let body = pod("stranded", FOREVER, Some(RACK));
    let stranded = story.create(&POD, NAMESPACE, &body).await?;
    story.appear(&[&stranded]).await?;
    let mark = story.mark();
    story.say(&format!("  As with: kubectl delete node {RACK}\n"))?;
    story.pause(Pause::Short).await;
    story.delete(&node, &DeleteParams::default()).await?;
    let ends = [(stranded, "NodeGone")];
    let took = story.until(&mark, |story| story.lives(&ends)).await?;
    story.chronicle(&ends)?;
    let tally = story.tally(&mark, took).await?;
    let line = format!("The controller: {tally}");
    story.screen().strong(&line)?;
    story.pause(Pause::Long).await;
    Ok(())
}

fn pod(name: &str, run_seconds: &str, node: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {RUN_SECONDS: run_seconds}},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": node,
            "containers": [{"name": "main", "image": "shop/web"}],
        },
    })
}

fn rack() -> Value {
    json!({
        "metadata": {"name": RACK, "labels": {NODE_LABEL: "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}
