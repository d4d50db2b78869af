//! The narrator: tells people what controllers did, in one line for what belongs together.
//!
//! It hears one [`Fact`] per request and groups them by what began it: a Deployment's ReplicaSets go because of the
//! Deployment, their Pods because of the ReplicaSets, and all of it is told of the Deployment; what nothing began but
//! itself is told together with its likes. A group is told when nothing has been added to it for a moment, and in between
//! when it takes long. Everything is a function of facts and
//! times; who prints the lines, and when, is decided elsewhere. Each table in here is bounded: what is forgotten is told
//! of a nearer cause, or twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use caretaker_controllers::runtime::controller::Identity;
use jiff::Timestamp;

use super::counted;

/// A group is complete when nothing was added for so long: more than a slow request, less than impatience.
pub(crate) const QUIET: Duration = Duration::from_millis(500);

/// What goes on for longer is told so far, again and again.
pub(crate) const SO_FAR: Duration = Duration::from_secs(5);

/// Groups at the same time. With one more, the one that was quiet for longest is told.
const GROUPS_MAX: usize = 1000;

/// Objects whose root is remembered: a cascade's inner nodes are needed as long as their dependents are not gone. A few
/// megabytes.
const ROOTS_MAX: usize = 20_000;

/// Failures that are remembered in order to be told once.
const FAILURES_MAX: usize = 1000;

/// What is printed of a server's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// One request of a controller and what came of it, or a request that was not sent under `--dry-run`.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// When it was answered.
    pub(crate) at: Timestamp,
    /// How long that took.
    pub(crate) took: Duration,
    /// Whose it was.
    pub(crate) controller: &'static str,
    /// What it did.
    pub(crate) deed: Deed,
    /// To what.
    pub(crate) object: Identity,
    /// Because of what: the owner, mostly.
    pub(crate) cause: Option<Identity>,
    /// In two or three words, `owner deleted`; may be empty.
    pub(crate) why: &'static str,
    /// Whether it is told with what happens for the same reason, rather than with what has the same root.
    pub(crate) alike: bool,
    /// What came of it.
    pub(crate) outcome: Outcome,
}

/// What a request does, in the words of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    /// Deletes an object because of what it is itself.
    Sweep,
    /// Deletes an object because of what it belongs to.
    Collect,
    /// Removes the reference to an owner that goes without its dependents.
    Orphan,
    /// Removes the reference to an owner that is gone, from an object that others own as well.
    Detach,
    /// Makes a reference block its owner no more.
    Unblock,
    /// Removes the finalizer that an owner waited for.
    Release,
    /// Writes into an object that it is about to go.
    Mark,
    /// Makes an object that was to be made at this time.
    Start,
    /// Writes into an object's status what has been done for it.
    Record,
    /// Reads: costs a request and changes nothing.
    Look,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What was asked for.
    Done,
    /// Nothing: the object was gone already, or changed meanwhile and is judged again.
    Moot,
    /// It was not sent.
    Rehearsed,
    /// It failed.
    Failed {
        /// The HTTP status, if there was an answer.
        status: Option<u16>,
        /// What the server said, or why it was not reached.
        message: String,
    },
}

/// Holds what was heard and not told yet.
#[derive(Debug, Default)]
pub(crate) struct Narrator {
    groups: BTreeMap<Key, Group>,
    /// By object, the root of the cascade that took it.
    roots: Recent<String, Arc<Identity>>,
    /// By object and status.
    failures: Recent<(String, Option<u16>), ()>,
}

/// What facts have in common that are told together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    controller: &'static str,
    root: String,
    rehearsed: bool,
}

/// What was heard about one root.
#[derive(Debug)]
struct Group {
    root: Arc<Identity>,
    why: &'static str,
    start: Timestamp,
    last: Timestamp,
    /// When it was told, or when it began.
    told: Timestamp,
    requests: u64,
    /// By deed: how many, and the first of them.
    deeds: BTreeMap<Deed, (u64, Identity)>,
}

/// The latest entries of a map, so many at most.
#[derive(Debug)]
struct Recent<K, V> {
    entries: BTreeMap<K, V>,
    order: VecDeque<K>,
}

// === impl Narrator ===

impl Narrator {
    /// Takes note of a fact. What comes back is to be printed at once: failures, and groups there is no room for.
    pub(crate) fn hear(&mut self, fact: Fact) -> Vec<String> {
        let mut lines = Vec::new();
        if let Outcome::Failed { status, message } = &fact.outcome {
            let once = (key_of(&fact.object).to_owned(), *status);
            if self.failures.insert(once, (), FAILURES_MAX) {
                lines.push(failure(&fact, *status, message));
            }
        }
        let root = self.root_of(&fact);
        if fact.deed == Deed::Collect && fact.cause.is_some() {
            let object = key_of(&fact.object).to_owned();
            self.roots.insert(object, Arc::clone(&root), ROOTS_MAX);
        }
        let key = Key {
            controller: fact.controller,
            root: if fact.alike { fact.why } else { key_of(&root) }.to_owned(),
            rehearsed: fact.outcome == Outcome::Rehearsed,
        };
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            lines.extend(self.make_room());
        }
        let group = self.groups.entry(key);
        group.or_insert_with(|| Group::new(root, &fact)).add(fact);
        lines
    }

    /// When there is something to tell, if nothing more is heard.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.groups.values().map(Group::due).min()
    }

    /// The lines that are due, in the order in which their stories began.
    pub(crate) fn tell(&mut self, now: Timestamp) -> Vec<String> {
        let mut told = Vec::new();
        self.groups.retain(|key, group| {
            let is_over = now >= later(group.last, QUIET);
            if is_over || now >= later(group.told, SO_FAR) {
                group.told = now;
                let line = group.line(key.rehearsed, if is_over { "" } else { " so far," });
                told.extend(line.map(|line| (group.start, line)));
            }
            !is_over
        });
        told.sort_by_key(|(start, _)| *start);
        told.into_iter().map(|(_, line)| line).collect()
    }

    /// Everything that has not been told, at the end.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.tell(Timestamp::MAX)
    }

    /// What began it all, as far as it is remembered.
    fn root_of(&self, fact: &Fact) -> Arc<Identity> {
        let near = fact.cause.as_ref().unwrap_or(&fact.object);
        match self.roots.entries.get(key_of(near)) {
            Some(root) => Arc::clone(root),
            None => Arc::new(near.clone()),
        }
    }

    fn make_room(&mut self) -> Option<String> {
        let oldest = self.groups.iter().min_by_key(|(_, group)| group.last);
        let key = oldest.map(|(key, _)| key.clone())?;
        self.groups.remove(&key)?.line(key.rehearsed, " so far,")
    }
}

// === impl Group ===

impl Group {
    fn new(root: Arc<Identity>, fact: &Fact) -> Self {
        let took = jiff::SignedDuration::try_from(fact.took).unwrap_or_default();
        Self {
            root,
            why: "",
            start: fact.at.checked_sub(took).unwrap_or(fact.at),
            last: fact.at,
            told: fact.at,
            requests: 0,
            deeds: BTreeMap::new(),
        }
    }

    fn add(&mut self, fact: Fact) {
        self.last = self.last.max(fact.at);
        if fact.outcome != Outcome::Rehearsed {
            self.requests += 1;
        }
        if !matches!(fact.outcome, Outcome::Done | Outcome::Rehearsed) || fact.deed == Deed::Look {
            return;
        }
        let has_why = matches!(fact.deed, Deed::Sweep | Deed::Mark | Deed::Collect);
        if has_why && self.why.is_empty() {
            self.why = fact.why;
        }
        let counted = self.deeds.entry(fact.deed);
        counted.or_insert_with(|| (0, fact.object)).0 += 1;
    }

    fn due(&self) -> Timestamp {
        later(self.last, QUIET).min(later(self.told, SO_FAR))
    }

    /// Nothing, if nothing was done.
    fn line(&self, rehearsed: bool, so_far: &str) -> Option<String> {
        let mut parts: Vec<String> = Vec::new();
        for (deed, (count, first)) in &self.deeds {
            // What an end consists of need not be told twice.
            let is_part = matches!(deed, Deed::Release | Deed::Mark) && !parts.is_empty();
            if is_part || *deed == Deed::Record {
                continue;
            }
            let verb = deed.verb(rehearsed);
            let what = match (count, parts.is_empty()) {
                (2.., _) if matches!(deed, Deed::Sweep | Deed::Mark | Deed::Start) => {
                    counted(usize::try_from(*count).unwrap_or(usize::MAX), &first.kind)
                }
                (1, true) if first.uid == self.root.uid => first.to_string(),
                (1, true) => format!("{first} of {}", self.root),
                (1, false) => first.to_string(),
                (_, true) => format!("{count} objects of {}", self.root),
                (_, false) => count.to_string(),
            };
            let because = match deed {
                Deed::Orphan => " (orphaned)",
                Deed::Detach => " (it has other owners)",
                Deed::Sweep | Deed::Mark | Deed::Collect if !self.why.is_empty() => {
                    &format!(" ({})", self.why)
                }
                _ => "",
            };
            parts.push(format!("{verb} {what}{because}"));
        }
        if parts.is_empty() {
            return None;
        }
        let parts = parts.join(", ");
        if rehearsed {
            return Some(format!("{parts}{}", so_far.trim_end_matches(',')));
        }
        let took = elapsed(self.start, self.last);
        let plural = if self.requests == 1 { "" } else { "s" };
        let requests = self.requests;
        Some(format!(
            "{parts}{so_far} in {took}, {requests} request{plural}"
        ))
    }
}

// === impl Deed ===

impl Deed {
    fn verb(self, rehearsed: bool) -> &'static str {
        match (self, rehearsed) {
            (Self::Sweep, false) => "deleted",
            (Self::Sweep, true) => "would delete",
            (Self::Collect, false) => "collected",
            (Self::Collect, true) => "would collect",
            (Self::Orphan | Self::Detach, false) => "kept",
            (Self::Orphan | Self::Detach, true) => "would keep",
            (Self::Unblock, false) => "unblocked",
            (Self::Unblock, true) => "would unblock",
            (Self::Release, false) => "released",
            (Self::Release, true) => "would release",
            (Self::Mark, false) => "marked",
            (Self::Mark, true) => "would mark",
            (Self::Start, false) => "started",
            (Self::Start, true) => "would start",
            (Self::Record, _) => "recorded",
            (Self::Look, _) => "looked at",
        }
    }
}

// === impl Recent ===

impl<K: Ord + Clone, V> Recent<K, V> {
    /// Whether the key is new.
    fn insert(&mut self, key: K, value: V, max: usize) -> bool {
        let is_new = self.entries.insert(key.clone(), value).is_none();
        if is_new {
            self.order.push_back(key);
        }
        if self.order.len() > max
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
        is_new
    }
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }
}

/// What tells an object from all others.
fn key_of(object: &Identity) -> &str {
    if object.uid.is_empty() {
        &object.name
    } else {
        &object.uid
    }
}

fn failure(fact: &Fact, status: Option<u16>, message: &str) -> String {
    let verb = match fact.deed {
        Deed::Sweep | Deed::Collect => "delete",
        Deed::Look => "read",
        Deed::Start => "create",
        _ => "change",
    };
    let line = message.lines().next().unwrap_or_default();
    let message: String = line.chars().take(MESSAGE_CHARS_MAX).collect();
    let status = status.map_or_else(String::new, |status| format!("{status}: "));
    format!("cannot {verb} {}: {status}{message}", fact.object)
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A stretch of time for people.
fn elapsed(start: Timestamp, end: Timestamp) -> String {
    let millis = end.duration_since(start).as_millis().max(0);
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests;
