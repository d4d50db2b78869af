//! Performs the chapters: creates and deletes objects through the API, waits for the controllers' evidence, prints it.
//!
//! Every wait has a limit. A write that does not happen within it fails the demo with a sentence that names the write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use caretaker_controllers::runtime::evidence::{Evidence, EvidenceTrail};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::chapters::{ChapterStep, DemoChapter, ExpectedWrites};
use super::printer::{DemoPrinter, LONG_PAUSE, SHORT_PAUSE, TreeObject};
use crate::controller_set::ControllerSet;
use crate::output::action::WriteAction;
use crate::output::counted;

/// The kinds that trees show and that are counted, in this order.
const SHOWN_KINDS: [(&str, &str); 7] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
];

/// Limit of a wait. Most take milliseconds; the longest is two minutes of the demo's clock.
const STEP_MAX: Duration = Duration::from_secs(15);

/// Without a write for this time the controllers count as idle: a second of the demo's clock.
const IDLE_AFTER: Duration = Duration::from_millis(50);

const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct DemoRunner<'a> {
    client: kube::Client,
    controllers: &'a ControllerSet,
    printer: &'a mut DemoPrinter,
    trail: EvidenceTrail,
    records: broadcast::Receiver<Arc<Evidence>>,
    /// Writes of the controllers since the last step that created or deleted objects.
    writes: Vec<Arc<Evidence>>,
    reads_before: u64,
    since: Instant,
    namespace: String,
    /// Owner references to the created objects, by name.
    created: BTreeMap<String, Value>,
}

// === impl DemoRunner ===

impl<'a> DemoRunner<'a> {
    pub(crate) fn new(
        client: kube::Client,
        controllers: &'a ControllerSet,
        printer: &'a mut DemoPrinter,
    ) -> Self {
        let trail = controllers.evidence();
        Self {
            client,
            controllers,
            printer,
            records: trail.subscribe(),
            trail,
            writes: Vec::new(),
            reads_before: 0,
            since: Instant::now(),
            namespace: String::new(),
            created: BTreeMap::new(),
        }
    }

    /// Performs a chapter in its own namespace.
    pub(crate) async fn run(&mut self, number: usize, chapter: &DemoChapter) -> Result<()> {
        let title = format!("{number}. {} ({})", chapter.title, chapter.controllers);
        self.printer.title(&format!("\n{title}"))?;
        // A heading brings its own empty line.
        if !matches!(chapter.steps.first(), Some(ChapterStep::Heading(_))) {
            self.printer.print("")?;
        }
        self.printer.pause(SHORT_PAUSE).await;
        self.namespace = chapter.namespace.clone();
        let name = json!({"name": chapter.namespace});
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": name}))
            .await?;
        for step in &chapter.steps {
            self.perform(step, chapter).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, step: &ChapterStep, chapter: &DemoChapter) -> Result<()> {
        match step {
            ChapterStep::Heading(text) => {
                self.printer.text("")?;
                self.printer.strong(text)?;
            }
            ChapterStep::Say(lines) => self.printer.text(&lines.join("\n"))?,
            ChapterStep::Create(name) => {
                self.mark();
                for object in chapter.objects.get(name).context("unknown objects")? {
                    self.create(object).await?;
                }
            }
            ChapterStep::AwaitObjects(count) => self.await_objects(*count).await?,
            ChapterStep::AwaitSync => self.await_sync().await?,
            ChapterStep::ShowTree => {
                let objects = self.list().await?;
                self.printer.tree(&objects)?;
                self.printer.pause(LONG_PAUSE).await;
            }
            ChapterStep::Delete {
                command,
                object,
                policy,
            } => {
                self.printer.text(&format!("\n  $ {command}\n"))?;
                self.printer.pause(SHORT_PAUSE).await;
                self.mark();
                let created = self.created.get(object).context("unknown object")?;
                let deleted = self.api(created)?.delete(object, &policy.params()).await;
                deleted.with_context(|| format!("cannot delete {object}"))?;
            }
            ChapterStep::Expect {
                writes,
                objects_left,
            } => {
                let took = self.await_writes(writes).await?;
                if let Some(count) = objects_left {
                    self.await_objects(*count).await?;
                }
                self.print_writes(writes)?;
                let tally = self.tally(took).await?;
                self.printer.strong(&format!("The controllers: {tally}"))?;
                self.printer.pause(LONG_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Starts counting writes, reads and time.
    fn mark(&mut self) {
        while self.records.try_recv().is_ok() {}
        self.writes.clear();
        self.reads_before = self.trail.reads();
        self.since = Instant::now();
    }

    async fn create(&mut self, manifest: &Value) -> Result<()> {
        let (kind, name) = (&manifest["kind"], &manifest["metadata"]["name"]);
        let mut object = manifest.clone();
        let owner = object
            .as_object_mut()
            .and_then(|members| members.remove("owner"));
        if let Some(owner) = owner.as_ref().and_then(Value::as_str) {
            let owner = self.created.get(owner).context("unknown owner")?;
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        let object = serde_json::from_value(object).context("invalid manifest")?;
        let api = self.api(manifest)?;
        let created = api.create(&PostParams::default(), &object).await;
        let created = created.with_context(|| format!("cannot create {kind} {name}"))?;
        let reference = json!({
            "apiVersion": manifest["apiVersion"],
            "kind": kind,
            "name": name,
            "uid": created.metadata.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        });
        let name = created.metadata.name.unwrap_or_default();
        self.created.insert(name, reference);
        Ok(())
    }

    /// The objects of the namespace, by kind and name.
    async fn list(&self) -> Result<Vec<TreeObject>> {
        let mut objects = Vec::new();
        for (api_version, kind) in SHOWN_KINDS {
            let api = self.api(&json!({"apiVersion": api_version, "kind": kind}))?;
            let list = api.list(&ListParams::default()).await;
            let list = list.with_context(|| format!("cannot list {kind}"))?;
            objects.extend(list.items.into_iter().map(|object| {
                let owners = object.metadata.owner_references.unwrap_or_default();
                let name = object.metadata.name.unwrap_or_default();
                TreeObject {
                    label: format!("{kind} {name}"),
                    uid: object.metadata.uid.unwrap_or_default(),
                    owners: owners.into_iter().map(|owner| owner.uid).collect(),
                }
            }));
        }
        Ok(objects)
    }

    async fn await_objects(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + STEP_MAX;
        loop {
            let found = self.list().await?.len();
            if found == count {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let (namespace, secs) = (&self.namespace, STEP_MAX.as_secs());
                bail!("namespace {namespace} has {found} objects after {secs} s, expected {count}");
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn await_sync(&self) -> Result<()> {
        let objects = self.list().await?;
        let uids: Vec<&str> = objects.iter().map(|object| object.uid.as_str()).collect();
        let synced = async {
            while !self.controllers.has_seen(&uids).await {
                sleep(POLL_INTERVAL).await;
            }
        };
        let synced = timeout(STEP_MAX, synced).await;
        synced.context("the garbage collector did not see the new objects")
    }

    /// Waits until every expected write has succeeded. Returns the time since the last mark.
    async fn await_writes(&mut self, expected: &[ExpectedWrites]) -> Result<Duration> {
        let deadline = Instant::now() + STEP_MAX;
        loop {
            let is_missing = |writes: &&ExpectedWrites| self.count(writes) < writes.2;
            let Some(missing) = expected.iter().find(is_missing) else {
                return Ok(self.since.elapsed());
            };
            if !self.next_write(deadline).await? {
                let (found, secs) = (self.count(missing), STEP_MAX.as_secs());
                let ExpectedWrites(object, rule, count) = missing;
                bail!("{found} of {count} expected writes to {object} ({rule}) within {secs} s");
            }
        }
    }

    /// The number of successful writes that match an expectation.
    fn count(&self, expected: &ExpectedWrites) -> usize {
        let writes = self.writes.iter();
        writes.filter(|write| expected.matches(write)).count()
    }

    /// Receives one evidence record; `false` at the deadline.
    async fn next_write(&mut self, deadline: Instant) -> Result<bool> {
        match timeout_at(deadline, self.records.recv()).await {
            Err(_) => return Ok(false),
            Ok(Err(RecvError::Closed)) => bail!("the controllers have stopped"),
            Ok(Err(RecvError::Lagged(_))) => {}
            Ok(Ok(write)) => self.writes.push(write),
        }
        Ok(true)
    }

    /// Prints the expected writes in the order of their answers.
    fn print_writes(&mut self, expected: &[ExpectedWrites]) -> Result<()> {
        let is_expected = |write: &Evidence| expected.iter().any(|writes| writes.matches(write));
        let shown = self.writes.iter().filter(|write| is_expected(write));
        for (index, write) in shown.enumerate() {
            let (_, verb) = WriteAction::of(write).0.words();
            let object = name_of(write);
            let line = format!("{}. {verb:<9} {object:<23} {}", index + 1, write.reason);
            self.printer.text(&line)?;
        }
        Ok(())
    }

    /// Waits until the controllers are idle, and sums up their work since the last mark. `took` is the time until the
    /// expected writes: requests after these count as work, but the wait for idle controllers is not part of the time.
    async fn tally(&mut self, took: Duration) -> Result<String> {
        let deadline = Instant::now() + STEP_MAX;
        while self.next_write(Instant::now() + IDLE_AFTER).await? {
            if Instant::now() >= deadline {
                bail!("the controllers did not become idle");
            }
        }
        let done = self.writes.iter().filter(|write| write.done);
        let mut uids: Vec<&str> = done.map(|write| write.uid.as_str()).collect();
        uids.sort_unstable();
        uids.dedup();
        let reads = self.trail.reads().saturating_sub(self.reads_before);
        let requests = usize::try_from(reads)? + self.writes.len();
        Ok(tally_line(uids.len(), requests, took))
    }

    /// The API of the kind that a manifest or a reference names.
    fn api(&self, object: &Value) -> Result<Api<DynamicObject>> {
        let text = |key: &str| object[key].as_str().context("no apiVersion or kind");
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.client.clone();
        Ok(match kind {
            "Namespace" | "Node" => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, &self.namespace, &resource),
        })
    }
}

// === impl ExpectedWrites ===

impl ExpectedWrites {
    fn matches(&self, write: &Evidence) -> bool {
        let Self(object, rule, _) = self;
        write.done && write.because["rule"] == **rule && name_of(write).starts_with(object)
    }
}

/// `5 objects, 6 requests (1.20 requests per object), 3.1 ms`.
fn tally_line(objects: usize, requests: usize, took: Duration) -> String {
    let hundredths = requests * 100 / objects.max(1);
    let share = format!(
        "{}.{:02} requests per object",
        hundredths / 100,
        hundredths % 100
    );
    let (objects, requests) = (counted(objects, "object"), counted(requests, "request"));
    let secs = took.as_secs_f64();
    let (time, unit) = if secs < 1.0 {
        (secs * 1e3, "ms")
    } else {
        (secs, "s")
    };
    format!("{objects}, {requests} ({share}), {time:.1} {unit}")
}

/// `Deployment web`, without the namespace.
fn name_of(write: &Evidence) -> String {
    format!("{} {}", write.target.kind, write.target.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_has_two_decimals_and_one_unit() {
        let cases = [
            (
                (1, 1, 999),
                "1 object, 1 request (1.00 requests per object), 1.0 ms",
            ),
            (
                (6, 8, 9_980),
                "6 objects, 8 requests (1.33 requests per object), 10.0 ms",
            ),
            (
                (0, 0, 1_280_000),
                "0 objects, 0 requests (0.00 requests per object), 1.3 s",
            ),
        ];
        for ((objects, requests, micros), expected) in cases {
            let took = Duration::from_micros(micros);
            assert_eq!(tally_line(objects, requests, took), expected);
        }
    }
}
