//! Predicts the end of a script with a small model that runs many times, each time in another order.
//!
//! The model applies what the server, `attemptToDeleteItem`, `processDeletingDependentsItem` and `attemptToOrphan` do to
//! objects, one step at a time and always on the current state: no caches, no queues, no lag. Any object with pending work
//! may be next, and so may the user. An end that all orders share is determined. Where orders differ, the end is a race and
//! nothing is expected. [`ModelScope`] chooses whose deviations are among the orders.

use caretaker_machinery::rng::Rng;

use super::{
    DeletePolicy, FOREGROUND, HOLD, ORPHAN, OwnershipScript, ReferenceMistake, ScriptReference,
    ScriptStep, shuffle,
};

/// Number of orders that are tried. Ten times as many found next to nothing more.
const ORDERS: usize = 400;
/// Longest order; every step removes something, so no order comes near.
const STEPS_MAX: usize = 10_000;

/// The implementations whose ends are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelScope {
    /// Ours: it breaks rings, retries unreachable owners and judges objects by their current state.
    Caretaker,
    /// Ours, while the user's first round begins before it has observed all objects.
    CaretakerUnsettled,
    /// Ours and the Go collector: half of the orders have each deviation.
    Both,
}

/// The end of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEnd {
    pub presence: ObjectPresence,
    pub finalizers: Vec<String>,
    /// The numbers of the script's references that are left, and whether each blocks.
    pub references: Vec<(usize, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPresence {
    Gone,
    There,
    Deleting,
}

/// The expected end of an object; `None` where it is a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedEnd {
    pub presence: Option<ObjectPresence>,
    pub finalizers: Option<Vec<String>>,
    /// As in [`ObjectEnd`].
    pub references: Option<Vec<(usize, bool)>>,
}

/// The expected ends of all objects of a script.
pub fn expected(script: &OwnershipScript, scope: ModelScope) -> Vec<ExpectedEnd> {
    let mut rng = Rng::seeded(script.seed);
    let mut all: Option<Vec<ExpectedEnd>> = None;
    for order in 0..ORDERS {
        let ends = ModelWorld::new(script, scope, order, rng.fork()).run();
        let known = all.get_or_insert_with(|| ends.iter().map(ExpectedEnd::of).collect());
        for (known, end) in known.iter_mut().zip(&ends) {
            known.meet(end);
        }
    }
    all.unwrap_or_default()
}

#[derive(Clone, Debug)]
struct ModelObject {
    is_deleting: bool,
    finalizers: Vec<&'static str>,
    /// The number of the script's reference, and whether it blocks.
    references: Vec<(usize, bool)>,
    /// Whether it had an unreachable owner. The Go collector does not come back to it, or late.
    is_given_up: bool,
    /// Whether it has ever waited for its dependents. The Go collector remembers that for ever (`level-triggered`).
    has_waited: bool,
}

/// The objects under one order.
struct ModelWorld<'s> {
    script: &'s OwnershipScript,
    things: Vec<Option<ModelObject>>,
    /// For each object, the numbers of the objects that refer to its uid.
    dependents: Vec<Vec<usize>>,
    rng: Rng,
    /// The order in which objects are tried; the number behind the last object is the user.
    order: Vec<usize>,
    is_order_kept: bool,
    breaks_rings: bool,
    gives_up: bool,
    forgets_waiting: bool,
    /// Whether a delete that the collector has decided may arrive after the user's. Ours has a version precondition.
    sends_stale_deletes: bool,
    /// Whether objects are still being created: an owner may be gone before its dependents exist.
    is_making: bool,
    /// Whether the first round begins meanwhile.
    starts_early: bool,
    /// The rest of the user's round, last request first.
    todo: Vec<ScriptStep>,
}

/// The state of an owner, as the object sees it.
enum OwnerState {
    Unreachable,
    Absent,
    Alive(usize),
}

/// The states of all owners of an object.
#[derive(Default)]
struct OwnerSummary {
    is_any_solid: bool,
    is_any_waiting: bool,
    /// The numbers of the references that are removed if the object stays.
    loose: Vec<usize>,
}

// === impl ExpectedEnd ===

impl ExpectedEnd {
    fn of(end: &ObjectEnd) -> Self {
        Self {
            presence: Some(end.presence),
            finalizers: Some(end.finalizers.clone()),
            references: Some(end.references.clone()),
        }
    }

    /// Describes how an end differs from this one where it is determined.
    pub fn difference(&self, end: &ObjectEnd) -> Option<String> {
        let presence = self.presence.filter(|presence| *presence != end.presence);
        let finalizers = self
            .finalizers
            .as_ref()
            .filter(|own| **own != end.finalizers);
        let references = self
            .references
            .as_ref()
            .filter(|own| **own != end.references);
        let is_fine = presence.is_none() && finalizers.is_none() && references.is_none();
        (!is_fine).then(|| format!("{end:?} instead of {self:?}"))
    }

    fn meet(&mut self, end: &ObjectEnd) {
        if self.presence != Some(end.presence) {
            self.presence = None;
        }
        if self.finalizers.as_ref() != Some(&end.finalizers) {
            self.finalizers = None;
        }
        if self.references.as_ref() != Some(&end.references) {
            self.references = None;
        }
        if self.presence.is_none() {
            (self.finalizers, self.references) = (None, None);
        }
    }
}

// === impl ModelWorld ===

impl<'s> ModelWorld<'s> {
    fn new(script: &'s OwnershipScript, scope: ModelScope, number: usize, rng: Rng) -> Self {
        let is_ours = scope != ModelScope::Both;
        let mut dependents = vec![Vec::new(); script.objects.len()];
        for (dependent, object) in script.objects.iter().enumerate() {
            for owner in object.references.iter().filter_map(|own| own.owner) {
                dependents[owner].push(dependent);
            }
        }
        let thing = |object: &super::ScriptObject| ModelObject {
            is_deleting: false,
            finalizers: object.finalizer.into_iter().collect(),
            references: object
                .references
                .iter()
                .map(|own| own.blocks)
                .enumerate()
                .collect(),
            is_given_up: false,
            has_waited: false,
        };
        Self {
            script,
            things: script.objects.iter().map(thing).map(Some).collect(),
            dependents,
            rng,
            order: (0..=script.objects.len()).collect(),
            is_order_kept: number.is_multiple_of(2),
            breaks_rings: is_ours || number % 4 < 2,
            gives_up: !is_ours && number % 8 < 4,
            forgets_waiting: is_ours || number % 16 < 8,
            sends_stale_deletes: !is_ours,
            is_making: true,
            starts_early: scope == ModelScope::CaretakerUnsettled,
            todo: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<ObjectEnd> {
        let mut rounds = self.script.rounds.as_slice();
        if self.starts_early
            && let Some((first, later)) = rounds.split_first()
        {
            self.todo = first.iter().rev().copied().collect();
            rounds = later;
        }
        self.rest();
        self.is_making = false;
        for round in rounds {
            self.todo = round.iter().rev().copied().collect();
            self.rest();
        }
        let ends = self
            .things
            .iter()
            .map(|thing| thing.as_ref().map_or_else(ObjectEnd::gone, ObjectEnd::of));
        ends.collect()
    }

    /// Executes steps until the collector and the user have none left.
    fn rest(&mut self) {
        shuffle(&mut self.order, &mut self.rng);
        let mut steps = 0;
        while (0..self.order.len()).any(|at| self.act(self.order[at])) {
            if !self.is_order_kept {
                shuffle(&mut self.order, &mut self.rng);
            }
            steps += 1;
            assert!(steps < STEPS_MAX, "seed {} has no end", self.script.seed);
        }
    }

    /// One step of the collector with an object, or of the user; false if there is none.
    fn act(&mut self, number: usize) -> bool {
        if number == self.things.len() {
            return self.user();
        }
        let Some(thing) = &self.things[number] else {
            return false;
        };
        let has = |finalizer| thing.finalizers.contains(&finalizer);
        match thing.is_deleting {
            true if has(ORPHAN) => self.orphan(number),
            true if has(FOREGROUND) => self.wait(number),
            true => false,
            false => self.judge(number),
        }
    }

    fn user(&mut self) -> bool {
        let Some(step) = self.todo.pop() else {
            return false;
        };
        match step {
            ScriptStep::Delete(number, policy) => {
                let stale = self.stale(number);
                self.delete(number, policy);
                if let Some(policy) = stale {
                    self.delete(number, policy);
                }
            }
            ScriptStep::Release(number) => self.take_off(number, HOLD),
        }
        true
    }

    /// The server's part of a delete: the policy becomes a finalizer; an object without finalizers is gone.
    fn delete(&mut self, number: usize, policy: DeletePolicy) {
        let Some(thing) = &mut self.things[number] else {
            return;
        };
        thing.is_deleting = true;
        let own = match policy {
            DeletePolicy::Unsaid => None,
            DeletePolicy::Background => Some(""),
            DeletePolicy::Foreground => Some(FOREGROUND),
            DeletePolicy::Orphan => Some(ORPHAN),
        };
        if let Some(own) = own {
            thing
                .finalizers
                .retain(|known| *known == HOLD || *known == own);
            if !own.is_empty() && !thing.finalizers.contains(&own) {
                thing.finalizers.push(own);
            }
        }
        thing.has_waited |= thing.finalizers.contains(&FOREGROUND);
        self.take_off(number, "");
    }

    fn take_off(&mut self, number: usize, finalizer: &str) {
        if let Some(thing) = &mut self.things[number] {
            thing.finalizers.retain(|known| *known != finalizer);
            if thing.is_deleting && thing.finalizers.is_empty() {
                self.things[number] = None;
            }
        }
    }

    /// Releases one dependent of an orphaning owner, or removes the owner's finalizer when none is left.
    fn orphan(&mut self, number: usize) -> bool {
        let all: Vec<usize> = self
            .dependents_of(number)
            .map(|(dependent, _)| dependent)
            .collect();
        // Ours remembers an owner that it released and orphans its late dependents too.
        if all.is_empty() || (!self.starts_early && self.is_early()) {
            self.take_off(number, ORPHAN);
            return true;
        }
        let dependent = all[self.rng.below(all.len())];
        let references = &self.script.objects[dependent].references;
        if let Some(thing) = &mut self.things[dependent] {
            thing
                .references
                .retain(|(at, _)| references[*at].owner != Some(number));
        }
        true
    }

    /// Whether an owner that is collected during creation is gone before its dependents are created.
    fn is_early(&mut self) -> bool {
        self.is_making && self.rng.below(2) == 0
    }

    /// One step of an owner that waits for its dependents.
    fn wait(&mut self, number: usize) -> bool {
        if !self.dependents_of(number).any(|(_, blocks)| blocks) || self.is_early() {
            self.take_off(number, FOREGROUND);
            return true;
        }
        let in_ring = self.breaks_rings && self.waits_for(number, number);
        in_ring && self.unblock(number)
    }

    /// Whether a chain of waiting, blocking dependents leads from an object to `first`.
    fn waits_for(&self, number: usize, first: usize) -> bool {
        let (mut seen, mut open) = (vec![false; self.things.len()], vec![number]);
        while let Some(at) = open.pop() {
            for (dependent, blocks) in self.dependents_of(at) {
                if !blocks || !self.is_waiting(dependent) {
                    continue;
                }
                if dependent == first {
                    return true;
                }
                if !std::mem::replace(&mut seen[dependent], true) {
                    open.push(dependent);
                }
            }
        }
        false
    }

    /// Clears `blockOwnerDeletion` of all references; false if none had it.
    fn unblock(&mut self, number: usize) -> bool {
        let references = self.things[number]
            .iter_mut()
            .flat_map(|thing| &mut thing.references);
        let mut changed = false;
        for (_, blocks) in references {
            changed |= std::mem::take(blocks);
        }
        changed
    }

    /// One step with an object that is not being deleted.
    fn judge(&mut self, number: usize) -> bool {
        let owners = self.owners(number);
        let Some(thing) = &mut self.things[number] else {
            return false;
        };
        if thing.references.is_empty() || (self.gives_up && thing.is_given_up) {
            return false;
        }
        let Some(owners) = owners else {
            thing.is_given_up = true;
            return false;
        };
        if owners.is_any_solid {
            let loose = owners.loose;
            thing.references.retain(|(at, _)| !loose.contains(at));
            return !loose.is_empty();
        }
        self.collect(number, owners.is_any_waiting);
        true
    }

    /// The states of an object's owners; `None` if one of them is unreachable.
    fn owners(&self, number: usize) -> Option<OwnerSummary> {
        let mut owners = OwnerSummary::default();
        for (at, _) in &self.things[number].as_ref()?.references {
            match self.owner(number, &self.script.objects[number].references[*at]) {
                OwnerState::Unreachable => return None,
                OwnerState::Alive(owner) if self.is_waiting(owner) => {
                    owners.is_any_waiting = true;
                    owners.loose.push(*at);
                }
                OwnerState::Alive(_) => owners.is_any_solid = true,
                OwnerState::Absent => owners.loose.push(*at),
            }
        }
        Some(owners)
    }

    /// Deletes an object without a living owner.
    fn collect(&mut self, number: usize, waiting: bool) {
        let seems_ring = self
            .dependents_of(number)
            .any(|(at, _)| self.seems_waiting(at));
        if waiting && seems_ring && self.unblock(number) {
            return;
        }
        self.delete(number, self.policy(number, waiting));
    }

    /// The policy for an object without a living owner: by its finalizers, unless an owner waits for it.
    fn policy(&self, number: usize, waiting: bool) -> DeletePolicy {
        let thing = self.things[number].as_ref();
        let has = |finalizer| thing.is_some_and(|thing| thing.finalizers.contains(&finalizer));
        if waiting && self.dependents_of(number).next().is_some() {
            DeletePolicy::Foreground
        } else if has(ORPHAN) {
            DeletePolicy::Orphan
        } else if has(FOREGROUND) {
            DeletePolicy::Foreground
        } else {
            DeletePolicy::Background
        }
    }

    /// A delete that the Go collector has decided and not yet sent. A user's delete in between does not stop it, because
    /// the owners are still the same, and then the collector's policy holds.
    fn stale(&mut self, number: usize) -> Option<DeletePolicy> {
        if !self.sends_stale_deletes {
            return None;
        }
        let thing = self.things[number].as_ref()?;
        let is_judged = !thing.is_deleting && !thing.references.is_empty();
        let owners = self.owners(number).filter(|owners| !owners.is_any_solid)?;
        let is_sent = is_judged && self.rng.below(2) == 0;
        is_sent.then(|| self.policy(number, owners.is_any_waiting))
    }

    fn owner(&self, number: usize, reference: &ScriptReference) -> OwnerState {
        let object = &self.script.objects[number];
        let is_too_low = !object.kind.is_namespaced() && reference.kind.is_namespaced();
        if reference.mistake == Some(ReferenceMistake::Version) || is_too_low {
            return OwnerState::Unreachable;
        }
        let found = reference.owner.filter(|owner| {
            let there = &self.script.objects[*owner];
            let is_named = there.kind == reference.kind && reference.mistake.is_none();
            is_named && object.reaches(there) && self.things[*owner].is_some()
        });
        found.map_or(OwnerState::Absent, OwnerState::Alive)
    }

    /// The objects that refer to an object's uid, rightly or wrongly, and whether they block it.
    fn dependents_of(&self, number: usize) -> impl Iterator<Item = (usize, bool)> {
        self.dependents[number].iter().filter_map(move |dependent| {
            let references = &self.script.objects[*dependent].references;
            let thing = self.things[*dependent].as_ref()?;
            let mut own = thing.references.iter();
            let (_, blocks) = own.find(|(at, _)| references[*at].owner == Some(number))?;
            Some((*dependent, *blocks))
        })
    }

    /// Whether the collector takes an object for a waiting one.
    fn seems_waiting(&self, number: usize) -> bool {
        let has_waited = self.things[number]
            .as_ref()
            .is_some_and(|thing| thing.has_waited);
        self.is_waiting(number) || (has_waited && !self.forgets_waiting)
    }

    fn is_waiting(&self, number: usize) -> bool {
        let thing = self.things[number].as_ref();
        thing.is_some_and(|thing| thing.is_deleting && thing.finalizers.contains(&FOREGROUND))
    }
}

// === impl ObjectEnd ===

impl ObjectEnd {
    pub fn gone() -> Self {
        Self {
            presence: ObjectPresence::Gone,
            finalizers: Vec::new(),
            references: Vec::new(),
        }
    }

    fn of(thing: &ModelObject) -> Self {
        Self {
            presence: match thing.is_deleting {
                true => ObjectPresence::Deleting,
                false => ObjectPresence::There,
            },
            finalizers: thing.finalizers.iter().map(ToString::to_string).collect(),
            references: thing.references.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ScriptKind, ScriptObject};
    use super::*;

    const DELETE: fn(usize, DeletePolicy) -> ScriptStep = ScriptStep::Delete;
    use DeletePolicy::{Background, Foreground, Orphan};

    /// Objects by the numbers of their owners, all of which they block; those in `held` have [`HOLD`].
    fn script(owners: &[&[usize]], held: &[usize], rounds: &[&[ScriptStep]]) -> OwnershipScript {
        let reference = |owner: &usize| ScriptReference {
            owner: Some(*owner),
            kind: ScriptKind::ConfigMap,
            mistake: None,
            blocks: true,
            controls: false,
        };
        let object = |(number, owners): (usize, &&[usize])| ScriptObject {
            kind: ScriptKind::ConfigMap,
            is_away: false,
            finalizer: held.contains(&number).then_some(HOLD),
            references: owners.iter().map(reference).collect(),
        };
        OwnershipScript {
            seed: 1,
            objects: owners.iter().enumerate().map(object).collect(),
            rounds: rounds.iter().map(|round| round.to_vec()).collect(),
        }
    }

    /// One letter for each object: gone, there, deleting, or a race.
    fn letters(script: &OwnershipScript, scope: ModelScope) -> String {
        let letter = |expected: &ExpectedEnd| match expected.presence {
            Some(ObjectPresence::Gone) => 'g',
            Some(ObjectPresence::There) => 't',
            Some(ObjectPresence::Deleting) => 'd',
            None => '?',
        };
        expected(script, scope).iter().map(letter).collect()
    }

    #[test]
    fn separates_determined_ends_from_races() {
        let chain: &[&[usize]] = &[&[], &[0], &[1]];
        let two: &[&[usize]] = &[&[], &[], &[0, 1]];
        let ring: &[&[usize]] = &[&[1], &[0]];
        let first = [DELETE(0, Background)];
        let both = [DELETE(0, Background), DELETE(1, Orphan)];
        let waiting = [DELETE(0, Foreground), DELETE(1, Foreground)];
        let switched = [DELETE(0, Foreground), DELETE(0, Orphan)];
        let table: &[(&str, OwnershipScript)] = &[
            ("ggg", script(chain, &[], &[&first])),
            ("ggg", script(chain, &[], &[&[DELETE(0, Foreground)]])),
            ("gtt", script(chain, &[], &[&[DELETE(0, Orphan)]])),
            ("dtt", script(chain, &[0], &[&first])),
            (
                "ggg",
                script(chain, &[0], &[&first, &[ScriptStep::Release(0)]]),
            ),
            ("ddg", script(chain, &[1], &[&[DELETE(0, Foreground)]])),
            // The Go collector's delete may arrive after the user's, and then no owner waits.
            (
                "gd?",
                script(chain, &[1], &[&[first[0], DELETE(1, Foreground)]]),
            ),
            ("gtt", script(two, &[], &[&first])),
            ("gg?", script(two, &[], &[&both])),
            ("ggt", script(two, &[], &[&both[..1], &both[1..]])),
            ("ggg", script(two, &[], &[&both[1..], &both[..1]])),
            ("tt", script(ring, &[], &[])),
            ("gg", script(ring, &[], &[&[DELETE(0, Foreground)]])),
            ("??", script(ring, &[], &[&waiting])),
            ("g??", script(chain, &[], &[&switched])),
            ("?", script(&[&[0]], &[], &[&[DELETE(0, Foreground)]])),
        ];
        for (letters_meant, script) in table {
            let letters = letters(script, ModelScope::Both);
            assert_eq!(letters, *letters_meant, "{script}");
        }
        // Ours has no race where the Go collector's deviations are the only other orders.
        let waiting = script(ring, &[], &[&waiting]);
        assert_eq!(letters(&waiting, ModelScope::Caretaker), "gg");
    }
}
