//! Chapter two: Jobs that go some time after they have finished, one of Kubernetes and one of Volcano.
//!
//! Both are run by simulated controllers, so they finish by themselves; what their TTL controllers and the collector then do
//! is told from their evidence.

use anyhow::Result;
use serde_json::{Value, json};

use crate::demo::scene::{Kind, Thing};
use crate::demo::screen::Pause;
use crate::demo::story::Story;

const NAMESPACE: &str = "batch";

static JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "Job",
    plural: "jobs",
};
static VOLCANO_JOB: Kind = Kind {
    group: "batch.volcano.sh",
    version: "v1alpha1",
    kind: "Job",
    plural: "jobs",
};
static POD_GROUP: Kind = Kind {
    group: "scheduling.volcano.sh",
    version: "v1beta1",
    kind: "PodGroup",
    plural: "podgroups",
};
static POD: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
};
static KINDS: [&Kind; 4] = [&JOB, &VOLCANO_JOB, &POD_GROUP, &POD];

/// How long they stay, in seconds of the server's clock.
const TTL_SECS: u32 = 10;

/// Pods of each Job.
const PODS: usize = 2;

/// Tells the chapter.
pub(super) async fn tell(story: &mut Story<'_>) -> Result<()> {
    story.enter(NAMESPACE, &KINDS).await?;
    story.say(&format!(
        "From here on Nodes, Pods and Jobs are simulated: they live and end, but no container runs.
A Job may say how long it stays after it has finished. Two of them, one of Kubernetes and one of Volcano;
each runs for 5 s and stays for {TTL_SECS} s:
"
    ))?;
    let mark = story.mark();
    let jobs = [
        story.create(&JOB, NAMESPACE, &job()).await?,
        story
            .create(&VOLCANO_JOB, NAMESPACE, &volcano_job())
            .await?,
    ];
    // Volcano's has a PodGroup besides.
    let cast = [(&jobs[0], PODS), (&jobs[1], PODS + 1)];
    let missing = |story: &Story<'_>| {
        let mut cast = cast.iter();
        let (job, _) = cast.find(|(job, owned)| story.owned(job).len() < *owned)?;
        Some(format!("{job} was not begun"))
    };
    story.until(&mark, missing).await?;
    story.show()?;
    story.pause(Pause::Long).await;

    // The PodGroup is Volcano's own affair.
    let owned = jobs.iter().flat_map(|job| story.owned(job));
    let owned = owned.filter(|thing| *thing.kind == POD);
    let mut ends: Vec<(Thing, &str)> = owned.map(|thing| (thing, "OwnerWaiting")).collect();
    ends.extend(jobs.map(|job| (job, "Expired")));
    let took = story.until(&mark, |story| story.lives(&ends)).await?;
    story
        .say("\nThey finish, their time passes, and they go; what they made goes before them:\n")?;
    story.chronicle(&ends)?;
    let tally = story.tally(&mark, took).await?;
    let (work, share) = (tally.work(), tally.requests_per_object());
    let line = format!("The controllers: {work}; {share} requests per object.");
    story.screen().strong(&line)?;
    story.pause(Pause::Long).await;
    Ok(())
}

fn template() -> Value {
    json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "shop/report"}],
    }})
}

fn job() -> Value {
    json!({"metadata": {"name": "report"}, "spec": {
        "ttlSecondsAfterFinished": TTL_SECS,
        "parallelism": PODS,
        "completions": PODS,
        "template": template(),
    }})
}

fn volcano_job() -> Value {
    json!({"metadata": {"name": "training"}, "spec": {
        "ttlSecondsAfterFinished": TTL_SECS,
        "minAvailable": PODS,
        "tasks": [{"name": "worker", "replicas": PODS, "template": template()}],
    }})
}
