//! What a chapter is told with: objects are created and deleted through the API like anybody's, what becomes of them is
//! waited for, and what the controllers did is known by their evidence.
//!
//! A chapter is sentences and data; the numbers in it are counted and measured here. Nothing is waited for without a
//! limit, and what does not happen within it ends the story with a sentence that names it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use caretaker_controllers::runtime::evidence::{Evidence, Trail};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use super::scene::{Kind, Scene, Sight, Thing};
use super::screen::{Pause, Screen};
use crate::crew::Crew;

/// What has not happened by then does not happen: it takes milliseconds, also on a busy machine.
pub(crate) const STEP_MAX: Duration = Duration::from_secs(15);

/// When controllers have done nothing for so long, they are done: a second of their clock.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// How often it is looked whether controllers have seen something.
const LOOK_EVERY: Duration = Duration::from_millis(2);

static NAMESPACE: Kind = Kind {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
};

/// A story while it is told.
pub(crate) struct Story<'a> {
    client: kube::Client,
    screen: &'a mut Screen,
    crew: &'a Crew,
    trail: Trail,
    told: broadcast::Receiver<Arc<Evidence>>,
    /// What the controllers wrote since the story began.
    writes: Vec<Arc<Evidence>>,
    scene: Option<Scene>,
}

/// A moment from which on things are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    at: Instant,
    reads: u64,
    writes: usize,
}

/// What was counted and measured. Sums are over what a chapter chose to add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Objects that a controller did something about.
    pub(crate) objects: u64,
    /// Requests of controllers, reads among them.
    pub(crate) requests: u64,
    /// Until all of it had happened.
    pub(crate) took: Duration,
}

// === impl Story ===

impl<'a> Story<'a> {
    /// A story about the server that `client` leads to, with this crew at work.
    pub(crate) fn new(client: kube::Client, crew: &'a Crew, screen: &'a mut Screen) -> Self {
        let trail = crew.evidence();
        let told = trail.subscribe();
        Self {
            client,
            screen,
            crew,
            trail,
            told,
            writes: Vec::new(),
            scene: None,
        }
    }

    /// Where it is told.
    pub(crate) fn screen(&mut self) -> &mut Screen {
        self.screen
    }

    /// Some lines.
    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        let mut lines = text.split('\n');
        lines.try_for_each(|line| self.screen.line(line))
    }

    /// Lets a reader read.
    pub(crate) async fn pause(&self, pause: Pause) {
        self.screen.pause(pause).await;
    }

    /// Makes a namespace, and looks at these kinds in it from now on, if there are any.
    pub(crate) async fn enter(
        &mut self,
        namespace: &str,
        kinds: &'static [&'static Kind],
    ) -> Result<()> {
        let body = json!({"metadata": {"name": namespace}});
        self.create(&NAMESPACE, "", &body).await?;
        self.scene = match kinds {
            [] => None,
            _ => Some(Scene::open(&self.client, namespace, kinds).await?),
        };
        Ok(())
    }

    /// Creates an object. `body` is all of it but its kind.
    pub(crate) async fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        body: &Value,
    ) -> Result<Thing> {
        let object = manifest(kind, body)?;
        let api = kind.api(self.client.clone(), namespace);
        let created = api.create(&PostParams::default(), &object).await;
        let created = created.with_context(|| format!("cannot create a {}", kind.kind))?;
        Thing::of(kind, &created).with_context(|| format!("a {} has no uid", kind.kind))
    }

    /// Deletes an object, as any user would.
    pub(crate) async fn delete(&self, thing: &Thing, how: &DeleteParams) -> Result<()> {
        let api = thing.kind.api(self.client.clone(), &thing.namespace);
        let deleted = api.delete(&thing.name, how).await;
        deleted.with_context(|| format!("cannot delete {thing}"))?;
        Ok(())
    }

    /// What belongs to an object, as far as it is there and looked at.
    pub(crate) fn owned(&self, owner: &Thing) -> Vec<Thing> {
        let all = self.scene.iter().flat_map(Scene::all);
        let owned = all.filter(|sight| sight.owners.contains(&owner.uid));
        owned.map(|sight| sight.thing.clone()).collect()
    }

    /// Says in which order objects have ended, and why: the rule is the word that evidence must have.
    pub(crate) fn chronicle(&mut self, ends: &[(Thing, &str)]) -> Result<()> {
        let mut lines = Vec::new();
        for (thing, rule) in ends {
            let sight = self.ended(thing).context("it has not ended")?;
            let because = self.because(thing, rule).unwrap_or_default();
            let thing = thing.to_string();
            lines.push((sight.revision, format!("gone  {thing:<24}{because}")));
        }
        self.number(lines)
    }

    /// What controllers did because of an object, in their order.
    pub(crate) fn deeds(&self, cause: &Thing) -> Vec<Arc<Evidence>> {
        let is_cause = |write: &&Arc<Evidence>| {
            let named = write.cause.as_ref();
            write.done && named.is_some_and(|named| named.uid == cause.uid)
        };
        self.writes.iter().filter(is_cause).cloned().collect()
    }

    /// Numbers lines in the order of what they begin with: revisions, or times.
    pub(crate) fn number<O: Ord>(&mut self, mut lines: Vec<(O, String)>) -> Result<()> {
        lines.sort();
        for (place, (_, line)) in lines.iter().enumerate() {
            self.say(&format!("{}. {line}", place + 1))?;
        }
        Ok(())
    }

    /// The first of these that has not ended for its reason.
    pub(crate) fn lives(&self, ends: &[(Thing, &str)]) -> Option<String> {
        let is_over = |(thing, rule): &&(Thing, &str)| {
            self.ended(thing).is_some() && self.because(thing, rule).is_some()
        };
        let (thing, _) = ends.iter().find(|end| !is_over(end))?;
        Some(format!("{thing} did not go"))
    }

    /// Draws what is there.
    pub(crate) fn show(&mut self) -> Result<()> {
        let scene = self.scene.as_ref().context("nothing is looked at")?;
        self.screen.tree(&scene.all())
    }

    /// From here on is counted.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            at: Instant::now(),
            reads: self.trail.reads(),
            writes: self.writes.len(),
        }
    }

    /// Waits until the controllers are done, and says what they did since. `took` is what the reader waited for; a last
    /// look of theirs belongs to the work and not to the wait.
    pub(crate) async fn tally(&mut self, mark: &Mark, took: Duration) -> Result<Tally> {
        let settled = async {
            while let Some(step) = self.step(Instant::now() + SETTLED_AFTER).await {
                step?;
            }
            Ok::<(), anyhow::Error>(())
        };
        let settled = tokio::time::timeout(STEP_MAX, settled).await;
        settled.context("the controllers do not come to rest")??;

        let writes = self.writes.get(mark.writes..).unwrap_or_default();
        let done = writes.iter().filter(|write| write.done);
        let mut uids: Vec<&str> = done.map(|write| write.uid.as_str()).collect();
        uids.sort_unstable();
        uids.dedup();
        let reads = self.trail.reads().saturating_sub(mark.reads);
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        Ok(Tally {
            objects: count(uids.len()),
            requests: reads + count(writes.len()),
            took,
        })
    }

    /// Waits until nothing is missing any more, and says how long it took since `mark`. `missing` names what is, for the
    /// sentence that ends a story in which it goes on missing.
    pub(crate) async fn until(
        &mut self,
        mark: &Mark,
        missing: impl Fn(&Self) -> Option<String>,
    ) -> Result<Duration> {
        let deadline = Instant::now() + STEP_MAX;
        while let Some(what) = missing(self) {
            match self.step(deadline).await {
                Some(step) => step?,
                None => bail!("within {} s {what}", STEP_MAX.as_secs()),
            }
        }
        Ok(mark.at.elapsed())
    }

    /// Waits until these objects are there, for the controllers too. What somebody deletes before that, they may see gone
    /// before they see what depended on it.
    pub(crate) async fn appear(&mut self, things: &[&Thing]) -> Result<()> {
        let missing = |story: &Self| {
            let mut things = things.iter();
            let thing = things.find(|thing| story.present(thing).is_none())?;
            Some(format!("{thing} did not appear"))
        };
        self.until(&self.mark(), missing).await?;
        let uids: Vec<&str> = things.iter().map(|thing| thing.uid.as_str()).collect();
        let seen = async {
            while !self.crew.has_seen(&uids).await {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let seen = tokio::time::timeout(STEP_MAX, seen).await;
        seen.context("the controllers do not see what was created")
    }

    /// Takes note of the next thing that happens; nothing, if nothing does before the deadline.
    async fn step(&mut self, deadline: Instant) -> Option<Result<()>> {
        let seen = async {
            match &mut self.scene {
                Some(scene) => scene.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            told = self.told.recv() => match told {
                Ok(write) => self.writes.push(write),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Some(Err(anyhow!("the controllers have ended"))),
            },
            seen = seen => return Some(seen),
            () = tokio::time::sleep_until(deadline) => return None,
        }
        Some(Ok(()))
    }

    /// How an object looks, if it is there.
    pub(crate) fn present(&self, thing: &Thing) -> Option<&Sight> {
        self.scene.as_ref()?.present(thing)
    }

    /// How an object ended, if it has.
    pub(crate) fn ended(&self, thing: &Thing) -> Option<&Sight> {
        self.scene.as_ref()?.ended(thing)
    }

    /// Why a controller did something about an object: its own sentence, from its evidence. `rule` is the word for
    /// programs in it.
    pub(crate) fn because(&self, thing: &Thing, rule: &str) -> Option<&str> {
        let is_meant = |write: &&Arc<Evidence>| {
            write.done && write.uid == thing.uid && write.because["rule"] == rule
        };
        let write = self.writes.iter().rev().find(is_meant)?;
        Some(&write.reason)
    }
}

// === impl Tally ===

impl Tally {
    /// Takes in another one.
    pub(crate) fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.requests += other.requests;
        self.took += other.took;
    }

    /// `5 objects, 6 requests`.
    pub(crate) fn work(&self) -> String {
        let objects = plural(self.objects, "object");
        format!("{objects}, {}", plural(self.requests, "request"))
    }

    /// `1.25`.
    pub(crate) fn requests_per_object(&self) -> String {
        let objects = self.objects.max(1);
        let hundredths = (self.requests * 100 + objects / 2) / objects;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

/// `5 objects, 6 requests, 3.1 ms`.
impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.work(), elapsed(self.took))
    }
}

fn plural(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

fn manifest(kind: &Kind, body: &Value) -> Result<DynamicObject> {
    let mut object = body.clone();
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    serde_json::from_value(object).with_context(|| format!("this is no {}", kind.kind))
}

/// A stretch of time for people.
fn elapsed(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..1_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_people_say_them() {
        let mk_tally = |objects, requests, micros| Tally {
            objects,
            requests,
            took: Duration::from_micros(micros),
        };
        let cases = [
            (mk_tally(1, 1, 999), "1 object, 1 request, 0.9 ms", "1.00"),
            (
                mk_tally(6, 8, 9_950),
                "6 objects, 8 requests, 9.9 ms",
                "1.33",
            ),
            (
                mk_tally(3, 5, 10_000),
                "3 objects, 5 requests, 10 ms",
                "1.67",
            ),
            (
                mk_tally(0, 0, 1_250_000),
                "0 objects, 0 requests, 1.2 s",
                "0.00",
            ),
        ];
        for (tally, sentence, share) in cases {
            assert_eq!(tally.to_string(), sentence);
            assert_eq!(tally.requests_per_object(), share);
        }
    }
}
