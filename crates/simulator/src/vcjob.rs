//! Jobs of Volcano (`batch.volcano.sh`): their Pods, their PodGroup and their way through the phases.
//!
//! - `made`: what belongs to a Job: Pods by task and number, and the PodGroup.
//! - `status`: what a Job says of itself.
//!
//! Plays the parts of Volcano's Job controller and of its scheduler, as far as lifecycles need them.
//! Policies, plugins, volumes and partitions are not looked at. Commands are obeyed. No container runs.
//! DEVIATION(volcano-commands): a Command goes after it was obeyed, not before, so that a crash repeats it instead of
//! losing it.

mod made;
mod status;
#[cfg(test)]
mod tests;

use caretaker_controllers::runtime::record::Uid;
use jiff::Timestamp;
use serde_json::Value;

use self::made::{Task, tasks};
use self::status::{Counts, Phase};
use crate::actor::{Actor, Decision, Key, ask, at, owner_key, rest, retry};
use crate::life::{COUNTERS, End, FOREVER, KEPT, Life, OUTCOME, RUN_SECONDS, START_SECONDS};
use crate::objects::{change, create, delete, later, time_at, write_status};
use crate::pod::{PODS, is_active};
use crate::world::{Named, Object, World};

const JOBS: Named = ("batch.volcano.sh", "jobs");
const POD_GROUPS: Named = ("scheduling.volcano.sh", "podgroups");
const QUEUES: Named = ("scheduling.volcano.sh", "queues");
const COMMANDS: Named = ("bus.volcano.sh", "commands");

/// Restarts before a Job fails, if it does not say.
const RETRIES_DEFAULT: i64 = 3;

/// What can be commanded, in which phases it means something, and to which it leads.
const ACTIONS: [(&str, &[Phase], Phase); 5] = [
    ("AbortJob", ALIVE, Phase::Aborting),
    ("TerminateJob", ALIVE, Phase::Terminating),
    ("CompleteJob", ALIVE, Phase::Completing),
    ("RestartJob", ALIVE, Phase::Restarting),
    (
        "ResumeJob",
        &[Phase::Aborting, Phase::Aborted],
        Phase::Restarting,
    ),
];
const ALIVE: &[Phase] = &[Phase::Pending, Phase::Running];

/// The controller of Volcano's Jobs.
#[derive(Debug)]
pub(crate) struct VolcanoJobs;

/// A Job and what belongs to it.
struct Job<'a> {
    world: &'a World,
    object: &'a Object,
    tasks: Vec<Task>,
    pods: Vec<&'a Object>,
    group: Option<&'a Object>,
}

// === impl VolcanoJobs ===

impl Actor for VolcanoJobs {
    const NAME: &'static str = "simulated-volcano-jobs";
    const KINDS: &'static [Named] = &[JOBS, PODS, POD_GROUPS, QUEUES, COMMANDS];

    fn decide(&self, world: &World, object: &Object, now: Timestamp) -> Decision {
        if object.is_deleting() {
            return rest("it is being deleted");
        }
        let job = Job::of(world, object);
        if let Some(decision) = job.obey(now) {
            return decision;
        }
        match Phase::of(object) {
            None => job.begin(now),
            Some(Phase::Pending | Phase::Running) => job.work(now),
            Some(
                phase @ (Phase::Restarting
                | Phase::Aborting
                | Phase::Terminating
                | Phase::Completing),
            ) => job.stop(phase, now),
            Some(Phase::Completed | Phase::Failed | Phase::Terminated | Phase::Aborted) => {
                job.settle()
            }
        }
    }

    /// A Command concerns the Job it is for, a Queue those that wait for it.
    fn affected(&self, world: &World, object: &Object) -> Vec<Key> {
        let is_of = |named: Named| {
            world
                .served(named)
                .is_some_and(|(id, _)| id == object.kind())
        };
        if is_of(COMMANDS) {
            let target = object.text("/target/name");
            return vec![Key::new(&object.meta().namespace, target)];
        }
        if is_of(QUEUES) {
            let waiting = world.all(JOBS).filter(|job| Phase::of(job).is_none());
            return waiting.map(Object::key).collect();
        }
        owner_key(object).into_iter().collect()
    }
}

// === impl Job ===

impl<'a> Job<'a> {
    fn of(world: &'a World, object: &'a Object) -> Self {
        let group = made::group_name(object);
        let group = world.get(POD_GROUPS, &Key::new(&object.meta().namespace, &group));
        let owned = |group: &&Object| group.controller() == Some(&object.meta().uid);
        Self {
            world,
            object,
            tasks: tasks(object),
            pods: world.of(object, PODS).collect(),
            group: group.filter(owned),
        }
    }

    /// The oldest Command for this Job is obeyed, and removed when there is nothing to do about it any more.
    fn obey(&self, now: Timestamp) -> Option<Decision> {
        let is_for_us = |command: &&Object| {
            let uid = Uid::from(command.text("/target/uid"));
            !command.is_deleting() && uid == self.object.meta().uid
        };
        let namespace = &self.object.meta().namespace;
        let commands = self.world.all(COMMANDS);
        let commands = commands.filter(|command| command.meta().namespace == *namespace);
        let command = commands.filter(is_for_us).min_by_key(|command| {
            (
                time_at(command.at("/metadata/creationTimestamp")),
                command.key(),
            )
        })?;
        let action = command.text("/action");
        let phase = Phase::of(self.object);
        let mut known = ACTIONS.iter();
        let known = known.find(|(name, from, _)| {
            *name == action && phase.is_some_and(|phase| from.contains(&phase))
        });
        Some(match known {
            Some((_, _, to)) => self.turn(*to, now, "it is commanded to"),
            None => ask(delete(command), "it was obeyed, or means nothing now"),
        })
    }

    /// A new Job waits for its Queue, then says that it waits for Pods.
    fn begin(&self, now: Timestamp) -> Decision {
        let queue = made::queue(self.object);
        if self.world.get(QUEUES, &Key::new("", queue)).is_none() {
            return retry(format!("there is no Queue {queue}"));
        }
        let status = status::begun(
            self.object,
            made::min_available(self.object, &self.tasks),
            now,
        );
        self.write(&status, "it begins")
    }

    /// Makes what is missing, counts what is there, and ends when it is time.
    fn work(&self, now: Timestamp) -> Decision {
        if let Some(decision) = self.make() {
            return decision;
        }
        let end = End::of(self.object.at("/metadata/annotations"));
        let counts = Counts::of(&self.pods);
        let due = self.due(end, &counts);
        match (end, due) {
            (Some(End::Terminated), Some(due)) if due <= now => {
                return self.turn(Phase::Terminating, now, "its annotation says so");
            }
            (Some(End::Aborted), Some(due)) if due <= now => {
                return self.turn(Phase::Aborting, now, "its annotation says so");
            }
            _ => {}
        }
        let phase = self.next_phase(end, &counts);
        let status = status::worked(
            self.object,
            phase,
            &counts,
            made::min_available(self.object, &self.tasks),
            now,
        );
        if let Some(call) = write_status(self.object, &status) {
            return ask(call, "its Pods have changed");
        }
        if let Some(group) = self.group
            && phase == Phase::Running
            && group.text("/status/phase") == "Inqueue"
        {
            return self.schedule(group, "Running");
        }
        match (due, self.taken()) {
            (Some(due), _) => at(due, "its Pods are at work"),
            // Upstream waits in silence for a Pod that it takes for made.
            (None, Some(name)) => retry(format!("a Pod of somebody else's is called {name}")),
            (None, None) => rest("its Pods are at work"),
        }
    }

    /// The PodGroup, its place in the queue, then the Pods, one after the other.
    fn make(&self) -> Option<Decision> {
        let Some(group) = self.group else {
            let group = made::group(self.object, &self.tasks);
            return Some(self.create(POD_GROUPS, &made::group_name(self.object), group));
        };
        if matches!(group.text("/status/phase"), "" | "Pending") {
            return Some(self.schedule(group, "Inqueue"));
        }
        let mut missing = self
            .wanted()
            .filter(|(_, _, name)| self.pod(name).is_none());
        let (task, number, name) = missing.next()?;
        let pod = made::pod(self.object, task, number);
        Some(self.create(PODS, &name, pod))
    }

    /// A name of one of its Pods that somebody else's has.
    fn taken(&self) -> Option<String> {
        let is_foreign = |name: &str| {
            let pod = self.pod(name);
            pod.is_some_and(|pod| pod.controller() != Some(&self.object.meta().uid))
        };
        let mut names = self.wanted().map(|(_, _, name)| name);
        names.find(|name| is_foreign(name))
    }

    /// The Pods that should be there: their task, their number in it, and their name.
    fn wanted(&self) -> impl Iterator<Item = (&Task, usize, String)> {
        let tasks = self.tasks.iter().filter(|task| self.may_start(task));
        tasks.flat_map(|task| {
            let name = |number| made::pod_name(self.object, task, number);
            (0..task.replicas).map(move |number| (task, number, name(number)))
        })
    }

    fn pod(&self, name: &str) -> Option<&Object> {
        let namespace = &self.object.meta().namespace;
        self.world.get(PODS, &Key::new(namespace, name))
    }

    /// A task that depends on others waits until enough of their Pods are ready or have succeeded.
    fn may_start(&self, task: &Task) -> bool {
        let is_met = |name: &String| {
            let Some(other) = self.tasks.iter().find(|other| other.name == *name) else {
                return true;
            };
            let is_there =
                |pod: &&&Object| pod.is_true("Ready") || pod.text("/status/phase") == "Succeeded";
            let of_task = self
                .pods
                .iter()
                .filter(|pod| made::task_of(pod) == other.name);
            of_task.filter(is_there).count() >= other.min_available
        };
        let mut needed = task.depends_on.iter();
        if task.depends_on_any {
            task.depends_on.is_empty() || needed.any(is_met)
        } else {
            needed.all(is_met)
        }
    }

    /// When a Job that is to be ended from outside is; it runs as long as its Pods would have.
    fn due(&self, end: Option<End>, counts: &Counts) -> Option<Timestamp> {
        let is_killed = matches!(end, Some(End::Terminated | End::Aborted));
        let replicas = made::replicas(&self.tasks);
        let is_running =
            Phase::of(self.object) == Some(Phase::Running) && counts.running == replicas;
        if !is_killed || !is_running || Counts::told(self.object) != *counts {
            return None;
        }
        let since = time_at(self.object.at("/status/state/lastTransitionTime"))?;
        let own = self.object.at("/metadata/annotations");
        let first = self.tasks.first().map_or(
            &Value::Null,
            |task| &task.template["metadata"]["annotations"],
        );
        let said = if own[RUN_SECONDS].is_string() {
            own
        } else {
            first
        };
        Some(later(since, Life::of(said).run_secs?))
    }

    /// Where a Job that works is, by its Pods.
    fn next_phase(&self, end: Option<End>, counts: &Counts) -> Phase {
        let replicas = made::replicas(&self.tasks);
        let min_available = made::min_available(self.object, &self.tasks);
        let is_running = Phase::of(self.object) == Some(Phase::Running);
        if !is_running {
            let begun = counts.running + counts.succeeded + counts.failed;
            return if begun >= min_available {
                Phase::Running
            } else {
                Phase::Pending
            };
        }
        let min_success = self.object.number("/spec/minSuccess");
        let min_success = min_success.and_then(|count| usize::try_from(count).ok());
        if replicas == 0 {
            Phase::Running
        } else if min_success.is_some_and(|enough| counts.succeeded >= enough) {
            Phase::Completed
        } else if counts.succeeded + counts.failed == replicas {
            match end {
                Some(End::Failed) => Phase::Failed,
                Some(End::Completed) => Phase::Completed,
                _ if self.has_failed(counts, min_available, min_success) => Phase::Failed,
                _ => Phase::Completed,
            }
        } else if counts.pending > replicas.saturating_sub(min_available) {
            Phase::Pending
        } else {
            Phase::Running
        }
    }

    /// Upstream's rule for a Job whose Pods have all ended.
    fn has_failed(
        &self,
        counts: &Counts,
        min_available: usize,
        min_success: Option<usize>,
    ) -> bool {
        let said = || self.tasks.iter().filter(|task| task.says_min_available);
        let is_whole = min_available >= made::total(said().map(|task| task.min_available));
        let lacks = |task: &Task| {
            let ended = self
                .pods
                .iter()
                .filter(|pod| made::task_of(pod) == task.name);
            let succeeded = ended.filter(|pod| pod.text("/status/phase") == "Succeeded");
            succeeded.count() < task.min_available
        };
        is_whole && said().any(lacks)
            || min_success.is_some_and(|enough| counts.succeeded < enough)
            || counts.succeeded < min_available
    }

    /// Ends Pods and PodGroup, and says what the Job is when they are gone.
    fn stop(&self, phase: Phase, now: Timestamp) -> Decision {
        let retries = self.object.number("/status/retryCount").unwrap_or(0);
        let retries_max = self
            .object
            .number("/spec/maxRetry")
            .unwrap_or(RETRIES_DEFAULT);
        // A Job that begins again takes nothing along, except when it is the last time.
        let is_anew = phase == Phase::Restarting && retries < retries_max;
        let is_victim = |pod: &&&Object| !pod.is_deleting() && (is_anew || is_active(pod));
        if let Some(pod) = self.pods.iter().find(is_victim) {
            return ask(delete(pod), "the Job stops");
        }
        if let Some(group) = self.group {
            return ask(delete(group), "the Job stops");
        }
        let counts = Counts::stopped(&self.pods);
        let next = match phase {
            _ if counts.terminating > 0 => phase,
            Phase::Aborting => Phase::Aborted,
            Phase::Terminating => Phase::Terminated,
            Phase::Completing => Phase::Completed,
            _ if is_anew => Phase::Pending,
            _ => Phase::Failed,
        };
        let min_available = made::min_available(self.object, &self.tasks);
        let status = status::worked(self.object, next, &counts, min_available, now);
        match write_status(self.object, &status) {
            Some(call) => ask(call, "its Pods are going"),
            None => rest("its Pods are going"),
        }
    }

    /// What is over keeps nothing but its ended Pods. Its counters are wiped, as upstream does, unless it says otherwise.
    fn settle(&self) -> Decision {
        if let Some(pod) = self.pods.iter().find(|pod| is_active(pod)) {
            return ask(delete(pod), "the Job is over");
        }
        let kept = keeps_counters(self.object).then(|| Counts::told(self.object));
        let status = status::settled(self.object, &kept.unwrap_or_default());
        if let Some(call) = write_status(self.object, &status) {
            return ask(call, "the Job is over");
        }
        match self.group {
            Some(group) => ask(delete(group), "the Job is over"),
            None => rest("it is over"),
        }
    }

    /// Enters a phase in which Pods are ended.
    fn turn(&self, phase: Phase, now: Timestamp, why: &'static str) -> Decision {
        let counts = Counts::stopped(&self.pods);
        self.write(&status::turned(self.object, phase, &counts, now), why)
    }

    /// Does what a scheduler does: says where a PodGroup stands.
    fn schedule(&self, group: &Object, phase: &str) -> Decision {
        let mut status = group.at("/status").clone();
        status["phase"] = phase.into();
        // PodGroups have no status of their own path.
        match change(group, None, "status", &status) {
            Some(call) => ask(call, "there is room for all its Pods"),
            None => rest("it stands where it should"),
        }
    }

    fn create(&self, named: Named, name: &str, object: Value) -> Decision {
        create(self.world, self.object, named, name, object).map_or_else(
            || retry(format!("there are no {} here", named.1)),
            |call| ask(call, "the Job lacks it"),
        )
    }

    fn write(&self, status: &Value, why: &'static str) -> Decision {
        match write_status(self.object, status) {
            Some(call) => ask(call, why),
            None => rest("nothing about it changes"),
        }
    }
}

/// Whether an annotation says that the counters of a Job stay when it is over.
fn keeps_counters(job: &Object) -> bool {
    job.at("/metadata/annotations")[COUNTERS] == KEPT
}

/// Whether an annotation decides how the Pods of a Job live, and how.
fn pod_life(job: &Object) -> Vec<(&'static str, Value)> {
    let own = job.at("/metadata/annotations");
    let passed = [START_SECONDS, RUN_SECONDS, OUTCOME];
    let mut life: Vec<(&'static str, Value)> = passed
        .into_iter()
        .filter(|name| own[*name].is_string())
        .map(|name| (name, own[name].clone()))
        .collect();
    match End::of(own) {
        Some(End::Failed) => life.push((OUTCOME, "failed".into())),
        // They run until the Job is stopped.
        Some(End::Terminated | End::Aborted) => life.push((RUN_SECONDS, FOREVER.into())),
        Some(End::Completed) | None => {}
    }
    life
}
