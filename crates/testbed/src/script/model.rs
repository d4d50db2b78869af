//! What a collector may make of a script, by a small model that is played many times in another order each time.
//!
//! The model knows objects and what the server and `attemptToDeleteItem`, `processDeletingDependentsItem` and
//! `attemptToOrphan` do with them, one step at a time and always with what is true now: no caches, no queues, no lag.
//! Any object that something follows for may be next, and so may the user. What ends the same in every order is
//! determined; where orders differ, the end is a race, and nothing is expected of anybody. Deviations of ours are
//! orders too: half of them break rings, and half see only what an object is now.

use caretaker_machinery::rng::Rng;

use super::{FOREGROUND, HOLD, Mistake, ORPHAN, Policy, Reference, Script, Step, shuffle};

/// How many orders are tried. Ten times as many have found next to nothing more.
const ORDERS: usize = 400;
/// Longest order; every step takes something away, so none comes near.
const STEPS_MAX: usize = 10_000;

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whether it is there, and whether it is being deleted.
    pub is: Presence,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its references: the number of the owner's, and whether it blocks.
    pub references: Vec<(usize, bool)>,
}

/// Whether an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is not.
    Gone,
    /// It is.
    There,
    /// It is, but somebody has deleted it.
    Deleting,
}

/// What must become of an object; `None` where that is a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Whether it is there.
    pub is: Option<Presence>,
    /// Its finalizers.
    pub finalizers: Option<Vec<String>>,
    /// Its references, as in [`End`].
    pub references: Option<Vec<(usize, bool)>>,
}

/// What must become of all objects of a script.
pub fn expected(script: &Script) -> Vec<Expected> {
    let mut rng = Rng::seeded(script.seed);
    let mut all: Option<Vec<Expected>> = None;
    for order in 0..ORDERS {
        let ends = World::new(script, order, rng.fork()).play();
        let known = all.get_or_insert_with(|| ends.iter().map(Expected::of).collect());
        for (known, end) in known.iter_mut().zip(&ends) {
            known.meet(end);
        }
    }
    all.unwrap_or_default()
}

/// An object of the model.
#[derive(Clone, Debug)]
struct Thing {
    is_deleting: bool,
    finalizers: Vec<&'static str>,
    /// The number of the script's reference, and whether it blocks.
    references: Vec<(usize, bool)>,
    /// Whether it had an owner that nobody can look for. The Go collector does not come back to it, or late.
    is_given_up: bool,
    /// Whether it has ever waited for its dependents. The Go collector never forgets that (`level-triggered`).
    has_waited: bool,
}

/// One order.
struct World<'s> {
    script: &'s Script,
    things: Vec<Option<Thing>>,
    /// For each object, who refers to its uid.
    dependents: Vec<Vec<usize>>,
    rng: Rng,
    /// Who comes first if several could; the user is behind the last object.
    order: Vec<usize>,
    is_order_kept: bool,
    breaks_rings: bool,
    gives_up: bool,
    forgets_waiting: bool,
    /// Whether the objects are still being made: an owner may be gone before its dependents are there.
    is_making: bool,
    /// What the user still has to do in this piece, last first.
    todo: Vec<Step>,
}

/// What an owner is for an object.
enum Owner {
    Unreachable,
    Absent,
    Alive(usize),
}

/// How an object stands with all its owners.
#[derive(Default)]
struct Owners {
    is_any_solid: bool,
    is_any_waiting: bool,
    /// The numbers of references that go if the object stays.
    loose: Vec<usize>,
}

// === impl Expected ===

impl Expected {
    fn of(end: &End) -> Self {
        Self {
            is: Some(end.is),
            finalizers: Some(end.finalizers.clone()),
            references: Some(end.references.clone()),
        }
    }

    /// What an end has that this one forbids, in words.
    pub fn unlike(&self, end: &End) -> Option<String> {
        let is = self.is.filter(|is| *is != end.is);
        let finalizers = self
            .finalizers
            .as_ref()
            .filter(|own| **own != end.finalizers);
        let references = self
            .references
            .as_ref()
            .filter(|own| **own != end.references);
        let is_fine = is.is_none() && finalizers.is_none() && references.is_none();
        (!is_fine).then(|| format!("{end:?} instead of {self:?}"))
    }

    fn meet(&mut self, end: &End) {
        if self.is != Some(end.is) {
            self.is = None;
        }
        if self.finalizers.as_ref() != Some(&end.finalizers) {
            self.finalizers = None;
        }
        if self.references.as_ref() != Some(&end.references) {
            self.references = None;
        }
        if self.is.is_none() {
            (self.finalizers, self.references) = (None, None);
        }
    }
}

// === impl World ===

impl<'s> World<'s> {
    fn new(script: &'s Script, number: usize, rng: Rng) -> Self {
        let mut dependents = vec![Vec::new(); script.objects.len()];
        for (dependent, object) in script.objects.iter().enumerate() {
            for owner in object.references.iter().filter_map(|own| own.owner) {
                dependents[owner].push(dependent);
            }
        }
        let thing = |object: &super::Object| Thing {
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
            breaks_rings: number % 4 < 2,
            gives_up: number % 8 < 4,
            forgets_waiting: number % 16 < 8,
            is_making: true,
            todo: Vec::new(),
        }
    }

    fn play(mut self) -> Vec<End> {
        self.rest();
        self.is_making = false;
        for piece in &self.script.pieces {
            self.todo = piece.iter().rev().copied().collect();
            self.rest();
        }
        let ends = self
            .things
            .iter()
            .map(|thing| thing.as_ref().map_or_else(End::gone, End::of));
        ends.collect()
    }

    /// Lets whoever can do something do it, until nobody can.
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

    /// One step of the collector with an object, or of the user; false if nothing is to be done.
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
            Step::Delete(number, policy) => {
                let stale = self.stale(number);
                self.delete(number, policy);
                if let Some(policy) = stale {
                    self.delete(number, policy);
                }
            }
            Step::Release(number) => self.take_off(number, HOLD),
        }
        true
    }

    /// What the server does with a delete: the policy becomes a finalizer, and without any the object is gone.
    fn delete(&mut self, number: usize, policy: Policy) {
        let Some(thing) = &mut self.things[number] else {
            return;
        };
        thing.is_deleting = true;
        let own = match policy {
            Policy::Unsaid => None,
            Policy::Background => Some(""),
            Policy::Foreground => Some(FOREGROUND),
            Policy::Orphan => Some(ORPHAN),
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

    /// An owner that leaves its dependents behind: one of them, or at last its own finalizer.
    fn orphan(&mut self, number: usize) -> bool {
        let all: Vec<usize> = self
            .dependents_of(number)
            .map(|(dependent, _)| dependent)
            .collect();
        if all.is_empty() || self.is_early() {
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

    /// Whether an owner that is collected while objects are being made is gone before its dependents are made.
    fn is_early(&mut self) -> bool {
        self.is_making && self.rng.below(2) == 0
    }

    /// An owner that waits for its dependents.
    fn wait(&mut self, number: usize) -> bool {
        if !self.dependents_of(number).any(|(_, blocks)| blocks) || self.is_early() {
            self.take_off(number, FOREGROUND);
            return true;
        }
        let in_ring = self.breaks_rings && self.waits_for(number, number);
        in_ring && self.unblock(number)
    }

    /// Whether an object that waits is, over others that wait, an owner of `first` that `first` blocks.
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

    /// Makes an object block none of its owners; false if it does not anyway.
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

    /// An object that nobody has deleted.
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

    /// How an object stands with its owners; unknown if one of them cannot be looked for.
    fn owners(&self, number: usize) -> Option<Owners> {
        let mut owners = Owners::default();
        for (at, _) in &self.things[number].as_ref()?.references {
            match self.owner(number, &self.script.objects[number].references[*at]) {
                Owner::Unreachable => return None,
                Owner::Alive(owner) if self.is_waiting(owner) => {
                    owners.is_any_waiting = true;
                    owners.loose.push(*at);
                }
                Owner::Alive(_) => owners.is_any_solid = true,
                Owner::Absent => owners.loose.push(*at),
            }
        }
        Some(owners)
    }

    /// An object without a living owner.
    fn collect(&mut self, number: usize, waiting: bool) {
        let seems_ring = self
            .dependents_of(number)
            .any(|(at, _)| self.seems_waiting(at));
        if waiting && seems_ring && self.unblock(number) {
            return;
        }
        self.delete(number, self.policy(number, waiting));
    }

    /// How an object without a living owner goes: as the finalizers say that it has, unless an owner waits.
    fn policy(&self, number: usize, waiting: bool) -> Policy {
        let thing = self.things[number].as_ref();
        let has = |finalizer| thing.is_some_and(|thing| thing.finalizers.contains(&finalizer));
        if waiting && self.dependents_of(number).next().is_some() {
            Policy::Foreground
        } else if has(ORPHAN) {
            Policy::Orphan
        } else if has(FOREGROUND) {
            Policy::Foreground
        } else {
            Policy::Background
        }
    }

    /// A delete that the Go collector has decided and not yet sent. A user's delete in between does not stop it, because
    /// the owners are still the same, and then the collector's policy holds.
    fn stale(&mut self, number: usize) -> Option<Policy> {
        let thing = self.things[number].as_ref()?;
        let is_judged = !thing.is_deleting && !thing.references.is_empty();
        let owners = self.owners(number).filter(|owners| !owners.is_any_solid)?;
        let is_sent = is_judged && self.rng.below(2) == 0;
        is_sent.then(|| self.policy(number, owners.is_any_waiting))
    }

    /// Whom a reference leads to.
    fn owner(&self, number: usize, reference: &Reference) -> Owner {
        let object = &self.script.objects[number];
        let is_too_low = !object.kind.is_namespaced() && reference.kind.is_namespaced();
        if reference.mistake == Some(Mistake::Version) || is_too_low {
            return Owner::Unreachable;
        }
        let found = reference.owner.filter(|owner| {
            let there = &self.script.objects[*owner];
            let is_named = there.kind == reference.kind && reference.mistake.is_none();
            is_named && object.reaches(there) && self.things[*owner].is_some()
        });
        found.map_or(Owner::Absent, Owner::Alive)
    }

    /// Who refers to an object's uid, rightly or wrongly, and whether that blocks it.
    fn dependents_of(&self, number: usize) -> impl Iterator<Item = (usize, bool)> {
        self.dependents[number].iter().filter_map(move |dependent| {
            let references = &self.script.objects[*dependent].references;
            let thing = self.things[*dependent].as_ref()?;
            let mut own = thing.references.iter();
            let (_, blocks) = own.find(|(at, _)| references[*at].owner == Some(number))?;
            Some((*dependent, *blocks))
        })
    }

    /// Whether an object looks as if it were part of a ring.
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

// === impl End ===

impl End {
    /// Of an object that is not there any more.
    pub fn gone() -> Self {
        Self {
            is: Presence::Gone,
            finalizers: Vec::new(),
            references: Vec::new(),
        }
    }

    fn of(thing: &Thing) -> Self {
        Self {
            is: match thing.is_deleting {
                true => Presence::Deleting,
                false => Presence::There,
            },
            finalizers: thing.finalizers.iter().map(ToString::to_string).collect(),
            references: thing.references.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Object};
    use super::*;

    const DELETE: fn(usize, Policy) -> Step = Step::Delete;
    use Policy::{Background, Foreground, Orphan};

    /// Objects by the numbers of their owners, all of whom they block; those in `held` have [`HOLD`].
    fn script(owners: &[&[usize]], held: &[usize], pieces: &[&[Step]]) -> Script {
        let reference = |owner: &usize| Reference {
            owner: Some(*owner),
            kind: Kind::ConfigMap,
            mistake: None,
            blocks: true,
            controls: false,
        };
        let object = |(number, owners): (usize, &&[usize])| Object {
            kind: Kind::ConfigMap,
            is_away: false,
            finalizer: held.contains(&number).then_some(HOLD),
            references: owners.iter().map(reference).collect(),
        };
        Script {
            seed: 1,
            objects: owners.iter().enumerate().map(object).collect(),
            pieces: pieces.iter().map(|piece| piece.to_vec()).collect(),
        }
    }

    /// One letter for each object: gone, there, deleting, or a race.
    fn letters(script: &Script) -> String {
        let letter = |expected: &Expected| match expected.is {
            Some(Presence::Gone) => 'g',
            Some(Presence::There) => 't',
            Some(Presence::Deleting) => 'd',
            None => '?',
        };
        expected(script).iter().map(letter).collect()
    }

    #[test]
    fn what_is_determined_is_known_and_what_is_a_race_is_not() {
        let chain: &[&[usize]] = &[&[], &[0], &[1]];
        let two: &[&[usize]] = &[&[], &[], &[0, 1]];
        let ring: &[&[usize]] = &[&[1], &[0]];
        let first = [DELETE(0, Background)];
        let both = [DELETE(0, Background), DELETE(1, Orphan)];
        let waiting = [DELETE(0, Foreground), DELETE(1, Foreground)];
        let switched = [DELETE(0, Foreground), DELETE(0, Orphan)];
        let table: &[(&str, Script)] = &[
            ("ggg", script(chain, &[], &[&first])),
            ("ggg", script(chain, &[], &[&[DELETE(0, Foreground)]])),
            ("gtt", script(chain, &[], &[&[DELETE(0, Orphan)]])),
            ("dtt", script(chain, &[0], &[&first])),
            ("ggg", script(chain, &[0], &[&first, &[Step::Release(0)]])),
            ("ddg", script(chain, &[1], &[&[DELETE(0, Foreground)]])),
            // The collector's delete may come after the user's, and then nobody waits.
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
            assert_eq!(letters(script), *letters_meant, "{script}");
        }
    }
}
