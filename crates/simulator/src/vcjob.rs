//! Simulated controller of Volcano Jobs (`batch.volcano.sh`): their Pods, their PodGroup and their phases.
//!
//! - `dependents`: the Pods and the PodGroup of a Job.
//! - `status`: the status of a Job.
//!
//! Simulates Volcano's Job controller and scheduler, reduced to object lifecycles. Policies, plugins, volumes and partitions
//! are ignored. Commands are executed. No container runs.
//! DEVIATION(volcano-commands): a Command is deleted after it was executed, not before, so that a crash repeats it instead of
//! losing it.
//! DEVIATION(volcano-missing-queue): a Job whose Queue does not exist is Pending with a reason, and has an Event. Volcano's
//! webhooks refuse such a Job; without them it stays without a phase.

mod dependents;
mod status;
#[cfg(test)]
mod tests;

use caretaker_controllers::runtime::controller::EventNote;
use caretaker_controllers::runtime::record::Uid;
use jiff::Timestamp;
use serde_json::Value;

use self::dependents::{VolcanoTask, tasks};
use self::status::{TaskCounts, VolcanoPhase};
use crate::actor::{
    Actor, ActorDecision, NamespacedName, make, owner_key, request, request_or_rest, rest, retry,
    set_status, wait_until,
};
use crate::annotations::{
    COUNTERS, FOREVER, KEPT, OUTCOME, PodBehaviour, RUN_SECONDS, START_SECONDS, VolcanoJobOutcome,
};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::events::{identity, on_state};
use crate::objects::{change, delete, later, time_at, write_status};
use crate::pod::{PODS, is_active};

const JOBS: GroupResource = ("batch.volcano.sh", "jobs");
const POD_GROUPS: GroupResource = ("scheduling.volcano.sh", "podgroups");
const QUEUES: GroupResource = ("scheduling.volcano.sh", "queues");
const COMMANDS: GroupResource = ("bus.volcano.sh", "commands");

/// Default of `maxRetry`: restarts before a Job fails.
const RETRIES_DEFAULT: i64 = 3;

/// Actions of Commands, the phases in which they apply, and the phase they lead to.
const ACTIONS: [(&str, &[VolcanoPhase], VolcanoPhase); 5] = [
    ("AbortJob", ALIVE, VolcanoPhase::Aborting),
    ("TerminateJob", ALIVE, VolcanoPhase::Terminating),
    ("CompleteJob", ALIVE, VolcanoPhase::Completing),
    ("RestartJob", ALIVE, VolcanoPhase::Restarting),
    (
        "ResumeJob",
        &[VolcanoPhase::Aborting, VolcanoPhase::Aborted],
        VolcanoPhase::Restarting,
    ),
];
const ALIVE: &[VolcanoPhase] = &[VolcanoPhase::Pending, VolcanoPhase::Running];

/// Simulates Volcano's Job controller.
#[derive(Debug)]
pub(crate) struct VolcanoJobActor;

/// A Job with its tasks, Pods and PodGroup.
struct VolcanoJob<'a> {
    cache: &'a ObjectCache,
    object: &'a ObjectSnapshot,
    tasks: Vec<VolcanoTask>,
    pods: Vec<&'a ObjectSnapshot>,
    group: Option<&'a ObjectSnapshot>,
}

// === impl VolcanoJobActor ===

impl Actor for VolcanoJobActor {
    const NAME: &'static str = "simulated-volcano-jobs";
    const KINDS: &'static [GroupResource] = &[JOBS, PODS, POD_GROUPS, QUEUES, COMMANDS];

    fn decide(
        &self,
        cache: &ObjectCache,
        object: &ObjectSnapshot,
        now: Timestamp,
    ) -> ActorDecision {
        if object.is_deleting() {
            return rest("the Job is being deleted");
        }
        let job = VolcanoJob::of(cache, object);
        if let Some(decision) = job.execute_command(now) {
            return decision;
        }
        if let Some(decision) = job.wait_for_queue(now) {
            return decision;
        }
        match VolcanoPhase::of(object) {
            None => job.begin(now),
            Some(VolcanoPhase::Pending) if status::lacks_queue(object) => job.begin(now),
            Some(VolcanoPhase::Pending | VolcanoPhase::Running) => job.work(now),
            Some(
                phase @ (VolcanoPhase::Restarting
                | VolcanoPhase::Aborting
                | VolcanoPhase::Terminating
                | VolcanoPhase::Completing),
            ) => job.stop(phase, now),
            Some(
                VolcanoPhase::Completed
                | VolcanoPhase::Failed
                | VolcanoPhase::Terminated
                | VolcanoPhase::Aborted,
            ) => job.finish(),
        }
    }

    /// A Command affects its target Job; a Queue affects the Jobs that wait for it.
    fn affected(&self, cache: &ObjectCache, object: &ObjectSnapshot) -> Vec<NamespacedName> {
        let is_of = |named: GroupResource| {
            cache
                .served(named)
                .is_some_and(|(id, _)| id == object.kind())
        };
        if is_of(COMMANDS) {
            let target = object.text("/target/name");
            return vec![NamespacedName::new(&object.meta().namespace, target)];
        }
        if is_of(QUEUES) {
            let waiting = cache
                .all(JOBS)
                .filter(|job| VolcanoPhase::of(job).is_none() || status::lacks_queue(job));
            return waiting.map(ObjectSnapshot::key).collect();
        }
        owner_key(object).into_iter().collect()
    }
}

// === impl VolcanoJob ===

impl<'a> VolcanoJob<'a> {
    fn of(cache: &'a ObjectCache, object: &'a ObjectSnapshot) -> Self {
        let group = dependents::group_name(object);
        let group = cache.get(
            POD_GROUPS,
            &NamespacedName::new(&object.meta().namespace, &group),
        );
        let owned = |group: &&ObjectSnapshot| group.is_controlled_by(object);
        Self {
            cache,
            object,
            tasks: tasks(object),
            pods: cache.controlled_by(object, PODS).collect(),
            group: group.filter(owned),
        }
    }

    /// Executes the oldest Command for this Job, and deletes it when it no longer applies.
    fn execute_command(&self, now: Timestamp) -> Option<ActorDecision> {
        let is_for_us = |command: &&ObjectSnapshot| {
            let uid = Uid::from(command.text("/target/uid"));
            !command.is_deleting() && uid == self.object.meta().uid
        };
        let namespace = &self.object.meta().namespace;
        let commands = self.cache.all(COMMANDS);
        let commands = commands.filter(|command| command.meta().namespace == *namespace);
        let command = commands.filter(is_for_us).min_by_key(|command| {
            (
                time_at(command.at("/metadata/creationTimestamp")),
                command.key(),
            )
        })?;
        let action = command.text("/action");
        let phase = VolcanoPhase::of(self.object);
        let mut known = ACTIONS.iter();
        let known = known.find(|(name, from, _)| {
            *name == action && phase.is_some_and(|phase| from.contains(&phase))
        });
        Some(match known {
            Some((_, _, to)) => self.stop_with_phase(*to, now, "a Command requests it"),
            None => {
                let why = "the Command was executed or does not apply";
                request(delete(command), why)
            }
        })
    }

    /// A new Job whose Queue does not exist is Pending with a reason, and an Event names the Queue.
    fn wait_for_queue(&self, now: Timestamp) -> Option<ActorDecision> {
        let is_new = VolcanoPhase::of(self.object).is_none() || status::lacks_queue(self.object);
        let queue = dependents::queue(self.object);
        let key = NamespacedName::new("", queue);
        if !is_new || self.cache.get(QUEUES, &key).is_some() {
            return None;
        }
        let why = format!("the Queue {queue} does not exist");
        let status = status::without_queue(self.object, self.min_available(), &why, now);
        let decision = match write_status(self.object, &status) {
            Some(call) => request(call, "the Queue of the Job does not exist"),
            None => retry(why.clone()),
        };
        let about = identity(self.cache, self.object);
        let message = format!("{why}; the Job starts when it is created");
        let event = EventNote::warning(about, status::QUEUE_MISSING, message);
        Some(on_state(decision, [event]))
    }

    /// A new Job enters the phase Pending.
    fn begin(&self, now: Timestamp) -> ActorDecision {
        let status = status::initial(self.object, self.min_available(), now);
        set_status(self.object, &status, "the Job starts")
    }

    /// Creates missing dependents, updates the status, and stops the Job when it is due.
    fn work(&self, now: Timestamp) -> ActorDecision {
        if let Some(decision) = self.make() {
            return decision;
        }
        let end = VolcanoJobOutcome::of(self.object.at("/metadata/annotations"));
        let counts = TaskCounts::of(&self.pods);
        let due = self.due(end, &counts);
        if due.is_some_and(|due| due <= now) {
            let phase = match end {
                Some(VolcanoJobOutcome::Terminated) => VolcanoPhase::Terminating,
                _ => VolcanoPhase::Aborting,
            };
            return self.stop_with_phase(phase, now, "an annotation requests it");
        }
        let phase = self.next_phase(end, &counts);
        let status = status::updated(self.object, phase, &counts, self.min_available(), now);
        if let Some(call) = write_status(self.object, &status) {
            return request(call, "the status does not match the Pods");
        }
        if let Some(group) = self.group
            && phase == VolcanoPhase::Running
            && group.text("/status/phase") == "Inqueue"
        {
            return self.schedule(group, "Running");
        }
        match (due, self.taken()) {
            (Some(due), _) => wait_until(due, "the Pods are running"),
            // Upstream takes this Pod for its own and waits forever.
            (None, Some(name)) => retry(format!("the Pod {name} belongs to another owner")),
            (None, None) => rest("the Pods are running"),
        }
    }

    /// Creates the PodGroup, enqueues it, then creates the Pods one by one.
    fn make(&self) -> Option<ActorDecision> {
        let Some(group) = self.group else {
            let group = dependents::group(self.object, &self.tasks);
            return Some(self.create(POD_GROUPS, &dependents::group_name(self.object), group));
        };
        if matches!(group.text("/status/phase"), "" | "Pending") {
            return Some(self.schedule(group, "Inqueue"));
        }
        let mut missing = self
            .wanted()
            .filter(|(_, _, name)| self.pod(name).is_none());
        let (task, number, name) = missing.next()?;
        let pod = dependents::pod(self.object, task, number);
        Some(self.create(PODS, &name, pod))
    }

    /// The name of a wanted Pod that exists with another owner.
    fn taken(&self) -> Option<String> {
        let is_foreign = |name: &str| {
            let pod = self.pod(name);
            pod.is_some_and(|pod| !pod.is_controlled_by(self.object))
        };
        let mut names = self.wanted().map(|(_, _, name)| name);
        names.find(|name| is_foreign(name))
    }

    /// The Pods that should exist: task, index and name.
    fn wanted(&self) -> impl Iterator<Item = (&VolcanoTask, usize, String)> {
        let tasks = self.tasks.iter().filter(|task| self.may_start(task));
        tasks.flat_map(|task| {
            let name = |number| dependents::pod_name(self.object, task, number);
            (0..task.replicas).map(move |number| (task, number, name(number)))
        })
    }

    fn pod(&self, name: &str) -> Option<&ObjectSnapshot> {
        let namespace = &self.object.meta().namespace;
        self.cache.get(PODS, &NamespacedName::new(namespace, name))
    }

    /// Whether enough Pods of the tasks that this task depends on are ready or have succeeded.
    fn may_start(&self, task: &VolcanoTask) -> bool {
        let is_met = |name: &String| {
            let Some(other) = self.tasks.iter().find(|other| other.name == *name) else {
                return true;
            };
            let is_there = |pod: &&&ObjectSnapshot| {
                pod.is_true("Ready") || pod.text("/status/phase") == "Succeeded"
            };
            let of_task = self
                .pods
                .iter()
                .filter(|pod| dependents::task_of(pod) == other.name);
            of_task.filter(is_there).count() >= other.min_available
        };
        let mut needed = task.depends_on.iter();
        if task.depends_on_any {
            task.depends_on.is_empty() || needed.any(is_met)
        } else {
            needed.all(is_met)
        }
    }

    /// The time at which an annotation terminates or aborts the Job: after the run time of its Pods.
    fn due(&self, end: Option<VolcanoJobOutcome>, counts: &TaskCounts) -> Option<Timestamp> {
        let is_killed = matches!(
            end,
            Some(VolcanoJobOutcome::Terminated | VolcanoJobOutcome::Aborted)
        );
        let replicas = dependents::replicas(&self.tasks);
        let is_running = VolcanoPhase::of(self.object) == Some(VolcanoPhase::Running)
            && counts.running == replicas;
        if !is_killed || !is_running || TaskCounts::from_status(self.object) != *counts {
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
        Some(later(since, PodBehaviour::of(said).run_secs?))
    }

    /// The phase of a pending or running Job, derived from its Pods.
    fn next_phase(&self, end: Option<VolcanoJobOutcome>, counts: &TaskCounts) -> VolcanoPhase {
        let replicas = dependents::replicas(&self.tasks);
        let min_available = self.min_available();
        let is_running = VolcanoPhase::of(self.object) == Some(VolcanoPhase::Running);
        if !is_running {
            let begun = counts.running + counts.succeeded + counts.failed;
            return if begun >= min_available {
                VolcanoPhase::Running
            } else {
                VolcanoPhase::Pending
            };
        }
        let min_success = self.object.number("/spec/minSuccess");
        let min_success = min_success.and_then(|count| usize::try_from(count).ok());
        if replicas == 0 {
            VolcanoPhase::Running
        } else if min_success.is_some_and(|enough| counts.succeeded >= enough) {
            VolcanoPhase::Completed
        } else if counts.succeeded + counts.failed == replicas {
            match end {
                Some(VolcanoJobOutcome::Failed) => VolcanoPhase::Failed,
                Some(VolcanoJobOutcome::Completed) => VolcanoPhase::Completed,
                _ if self.has_failed(counts, min_available, min_success) => VolcanoPhase::Failed,
                _ => VolcanoPhase::Completed,
            }
        } else if counts.pending > replicas.saturating_sub(min_available) {
            VolcanoPhase::Pending
        } else {
            VolcanoPhase::Running
        }
    }

    /// Upstream's rule for a Job whose Pods have all finished.
    fn has_failed(
        &self,
        counts: &TaskCounts,
        min_available: usize,
        min_success: Option<usize>,
    ) -> bool {
        let said = || self.tasks.iter().filter(|task| task.has_min_available);
        let is_whole = min_available >= dependents::total(said().map(|task| task.min_available));
        let lacks = |task: &VolcanoTask| {
            let ended = self
                .pods
                .iter()
                .filter(|pod| dependents::task_of(pod) == task.name);
            let succeeded = ended.filter(|pod| pod.text("/status/phase") == "Succeeded");
            succeeded.count() < task.min_available
        };
        is_whole && said().any(lacks)
            || min_success.is_some_and(|enough| counts.succeeded < enough)
            || counts.succeeded < min_available
    }

    /// Deletes Pods and PodGroup, and enters the final phase when they are gone.
    fn stop(&self, phase: VolcanoPhase, now: Timestamp) -> ActorDecision {
        let retries = self.object.number("/status/retryCount").unwrap_or(0);
        let retries_max = self
            .object
            .number("/spec/maxRetry")
            .unwrap_or(RETRIES_DEFAULT);
        // A restarting Job deletes all Pods, except after its last retry.
        let is_anew = phase == VolcanoPhase::Restarting && retries < retries_max;
        let is_victim = |pod: &&&ObjectSnapshot| !pod.is_deleting() && (is_anew || is_active(pod));
        if let Some(pod) = self.pods.iter().find(is_victim) {
            return request(delete(pod), "the Job is stopping");
        }
        if let Some(group) = self.group {
            return request(delete(group), "the Job is stopping");
        }
        let counts = TaskCounts::stopped(&self.pods);
        let next = match phase {
            _ if counts.terminating > 0 => phase,
            VolcanoPhase::Aborting => VolcanoPhase::Aborted,
            VolcanoPhase::Terminating => VolcanoPhase::Terminated,
            VolcanoPhase::Completing => VolcanoPhase::Completed,
            _ if is_anew => VolcanoPhase::Pending,
            _ => VolcanoPhase::Failed,
        };
        let status = status::updated(self.object, next, &counts, self.min_available(), now);
        let (call, why) = (write_status(self.object, &status), "Pods are terminating");
        request_or_rest(call, why, why)
    }

    /// Deletes all dependents of a finished Job except finished Pods. Like upstream, it clears the counters, unless an
    /// annotation keeps them.
    fn finish(&self) -> ActorDecision {
        if let Some(pod) = self.pods.iter().find(|pod| is_active(pod)) {
            return request(delete(pod), "the Job is finished");
        }
        let kept = keeps_counters(self.object).then(|| TaskCounts::from_status(self.object));
        let status = status::finished(self.object, &kept.unwrap_or_default());
        if let Some(call) = write_status(self.object, &status) {
            return request(call, "the Job is finished");
        }
        let why = "the Job is finished";
        request_or_rest(self.group.map(delete), why, why)
    }

    /// Enters a phase in which the Pods are deleted.
    fn stop_with_phase(
        &self,
        phase: VolcanoPhase,
        now: Timestamp,
        why: &'static str,
    ) -> ActorDecision {
        let counts = TaskCounts::stopped(&self.pods);
        let status = status::stopping(self.object, phase, &counts, now);
        set_status(self.object, &status, why)
    }

    /// Sets the phase of a PodGroup, like the scheduler.
    fn schedule(&self, group: &ObjectSnapshot, phase: &str) -> ActorDecision {
        let mut status = group.at("/status").clone();
        status["phase"] = phase.into();
        // PodGroups have no status subresource.
        request_or_rest(
            change(group, None, "status", &status),
            "all Pods of the Job can be scheduled",
            "the PodGroup is up to date",
        )
    }

    fn create(&self, named: GroupResource, name: &str, object: Value) -> ActorDecision {
        let why = "a dependent of the Job is missing";
        make(self.cache, self.object, named, (name, object), why)
    }

    fn min_available(&self) -> usize {
        dependents::min_available(self.object, &self.tasks)
    }
}

/// Whether an annotation keeps the counters of a finished Job.
fn keeps_counters(job: &ObjectSnapshot) -> bool {
    job.at("/metadata/annotations")[COUNTERS] == KEPT
}

/// The annotations that a Job passes on to its Pods.
fn pod_annotations(job: &ObjectSnapshot) -> Vec<(&'static str, Value)> {
    let own = job.at("/metadata/annotations");
    let passed = [START_SECONDS, RUN_SECONDS, OUTCOME];
    let mut behaviour: Vec<(&'static str, Value)> = passed
        .into_iter()
        .filter(|name| own[*name].is_string())
        .map(|name| (name, own[name].clone()))
        .collect();
    match VolcanoJobOutcome::of(own) {
        Some(VolcanoJobOutcome::Failed) => behaviour.push((OUTCOME, "failed".into())),
        // The Pods run until the Job is stopped.
        Some(VolcanoJobOutcome::Terminated | VolcanoJobOutcome::Aborted) => {
            behaviour.push((RUN_SECONDS, FOREVER.into()));
        }
        Some(VolcanoJobOutcome::Completed) | None => {}
    }
    behaviour
}
