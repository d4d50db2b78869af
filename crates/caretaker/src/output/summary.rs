//! Summary lines on stderr: what the controllers wrote, one line per cascade or per reason.
//!
//! [`ActionSummary`] takes one evidence record per write. Writes of the garbage collector are grouped by the root of the
//! cascade: a Deployment's ReplicaSets and their Pods make one line about the Deployment. Writes of other controllers
//! are grouped by reason. A group is printed when no record has been added for [`GROUP_IDLE`], and every
//! [`PROGRESS_INTERVAL`] while it lasts. Failed writes are not printed here: the driver logs them with the API server's
//! message. Everything here is a function of records and steady times, so that a clock that is set back delays no line;
//! `controller_set` prints the lines. All maps are bounded: what is evicted appears under a nearer cause, or twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use caretaker_controllers::gc;
use caretaker_controllers::runtime::controller::ObjectIdentity;
use caretaker_controllers::runtime::evidence::{Evidence, WriteStatus};
use caretaker_machinery::clock::SteadyTime;
use jiff::{SignedDuration, Timestamp};

use super::action::WriteAction;
use super::counted;

/// A group is complete after this pause: longer than a slow request, short enough to wait for.
const GROUP_IDLE: Duration = Duration::from_millis(500);

/// Interval of the lines about a group that goes on.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Groups at the same time. One more prints the group that has been idle for longest.
const GROUPS_MAX: usize = 1000;

/// Objects whose root is remembered. A cascade needs its inner nodes until their dependents are gone. A few megabytes.
const ROOTS_MAX: usize = 20_000;

/// Holds the groups that are not printed yet.
#[derive(Debug, Default)]
pub(crate) struct ActionSummary {
    groups: BTreeMap<GroupKey, ActionGroup>,
    /// By object, the root of the cascade that deleted it.
    roots: RecentMap<String, Arc<ObjectIdentity>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    controller: &'static str,
    /// The root's key for the garbage collector, else the reason.
    topic: String,
    is_dry_run: bool,
}

#[derive(Debug)]
struct ActionGroup {
    root: Arc<ObjectIdentity>,
    reason: &'static str,
    start: SteadyTime,
    last: SteadyTime,
    /// Time of the last progress line; at first the time of the first record.
    printed: SteadyTime,
    requests: u64,
    /// By action: the count, and the first object.
    actions: BTreeMap<WriteAction, (u64, ObjectIdentity)>,
}

/// The latest entries of a map, up to a maximum.
#[derive(Debug)]
struct RecentMap<K, V> {
    entries: BTreeMap<K, V>,
    order: VecDeque<K>,
}

// === impl ActionSummary ===

impl ActionSummary {
    /// Adds a record of this time. The line is of a group that had to make room, and is to be printed at once.
    pub(crate) fn add(&mut self, record: &Evidence, at: SteadyTime) -> Option<String> {
        let mut evicted = None;
        let (action, reason) = WriteAction::of(record);
        let root = self.root_of(record);
        let is_gc = record.controller == gc::NAME;
        if is_gc && action == WriteAction::Delete && record.cause.is_some() {
            let object = key_of(&record.target).to_owned();
            self.roots.insert(object, Arc::clone(&root), ROOTS_MAX);
        }
        let key = GroupKey {
            controller: record.controller,
            topic: if is_gc { key_of(&root) } else { reason }.to_owned(),
            is_dry_run: record.status == WriteStatus::DryRun,
        };
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            evicted = self.evict();
        }
        let group = self.groups.entry(key);
        let group = group.or_insert_with(|| ActionGroup::new(root, record, at));
        group.add(record, at, action, reason);
        evicted
    }

    /// When the next line is due if no record is added.
    pub(crate) fn due(&self) -> Option<SteadyTime> {
        self.groups.values().map(ActionGroup::due).min()
    }

    /// The lines that are due, in the order in which their groups began.
    pub(crate) fn take_due(&mut self, now: SteadyTime) -> Vec<String> {
        let mut due = Vec::new();
        self.groups.retain(|key, group| {
            let is_over = now >= group.last.later(GROUP_IDLE);
            if is_over || now >= group.printed.later(PROGRESS_INTERVAL) {
                group.printed = now;
                let line = group.line(key, is_over);
                due.extend(line.map(|line| (group.start, line)));
            }
            !is_over
        });
        due.sort_by_key(|(start, _)| *start);
        due.into_iter().map(|(_, line)| line).collect()
    }

    /// All lines that are left, at the stop.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.take_due(SteadyTime::at(Timestamp::MAX))
    }

    /// The root of the cascade as far as it is remembered, else the nearest cause.
    fn root_of(&self, record: &Evidence) -> Arc<ObjectIdentity> {
        let cause = record.cause.as_ref().unwrap_or(&record.target);
        match self.roots.entries.get(key_of(cause)) {
            Some(root) => Arc::clone(root),
            None => Arc::new(cause.clone()),
        }
    }

    fn evict(&mut self) -> Option<String> {
        let oldest = self.groups.iter().min_by_key(|(_, group)| group.last);
        let key = oldest.map(|(key, _)| key.clone())?;
        self.groups.remove(&key)?.line(&key, false)
    }
}

// === impl ActionGroup ===

impl ActionGroup {
    fn new(root: Arc<ObjectIdentity>, record: &Evidence, at: SteadyTime) -> Self {
        let millis = i64::try_from(record.ms).unwrap_or(i64::MAX);
        Self {
            root,
            reason: "",
            start: at.after(SignedDuration::from_millis(-millis)),
            last: at,
            printed: at,
            requests: 0,
            actions: BTreeMap::new(),
        }
    }

    fn add(
        &mut self,
        record: &Evidence,
        at: SteadyTime,
        action: WriteAction,
        reason: &'static str,
    ) {
        self.last = self.last.max(at);
        let is_dry_run = record.status == WriteStatus::DryRun;
        if !is_dry_run {
            self.requests += u64::from(record.requests.max(1));
        }
        if record.done || is_dry_run {
            if self.reason.is_empty() {
                self.reason = reason;
            }
            let counted = self.actions.entry(action);
            counted.or_insert_with(|| (0, record.target.clone())).0 += 1;
        }
    }

    fn due(&self) -> SteadyTime {
        let idle = self.last.later(GROUP_IDLE);
        idle.min(self.printed.later(PROGRESS_INTERVAL))
    }

    /// `None` if nothing was done that a user needs to know.
    fn line(&self, key: &GroupKey, is_over: bool) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        for (action, (count, first)) in &self.actions {
            // A release or a mark is a step of the deletion that the line names already.
            let is_step = matches!(action, WriteAction::Release | WriteAction::Mark);
            if *action == WriteAction::RecordStatus || (is_step && !parts.is_empty()) {
                continue;
            }
            let objects = self.objects(key, *count, first, parts.is_empty());
            let reason = match action {
                WriteAction::Detach => "other owners remain",
                WriteAction::Delete | WriteAction::Mark => self.reason,
                _ => "",
            };
            let (verb, past) = action.words();
            let mut part = match key.is_dry_run {
                true => format!("would {verb} {objects}"),
                false => format!("{past} {objects}"),
            };
            if !reason.is_empty() {
                part.push_str(&format!(" ({reason})"));
            }
            parts.push(part);
        }
        if parts.is_empty() {
            return None;
        }
        let mut line = parts.join(", ");
        if !is_over {
            line.push_str(" so far");
        }
        if !key.is_dry_run {
            let plural = if self.requests == 1 { "" } else { "s" };
            let took = elapsed(self.last.since(self.start));
            line.push_str(&format!(" in {took}, {} request{plural}", self.requests));
        }
        Some(line)
    }

    /// `Pod shop/web-1 of ReplicaSet shop/web`, `2 Jobs`, `3 objects of Deployment shop/web`.
    fn objects(
        &self,
        key: &GroupKey,
        count: u64,
        first: &ObjectIdentity,
        is_first: bool,
    ) -> String {
        match count {
            1 if !is_first || first.uid == self.root.uid => first.to_string(),
            1 => format!("{first} of {}", self.root),
            _ if key.controller != gc::NAME => {
                counted(usize::try_from(count).unwrap_or(usize::MAX), &first.kind)
            }
            _ if is_first => format!("{count} objects of {}", self.root),
            _ => count.to_string(),
        }
    }
}

// === impl RecentMap ===

impl<K: Ord + Clone, V> RecentMap<K, V> {
    fn insert(&mut self, key: K, value: V, max: usize) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > max
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

impl<K, V> Default for RecentMap<K, V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

/// The uid, or the name of an object that has none.
fn key_of(object: &ObjectIdentity) -> &str {
    if object.uid.is_empty() {
        &object.name
    } else {
        &object.uid
    }
}

/// `80 ms`, `1.5 s`, `2 min 3 s`.
fn elapsed(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests;
