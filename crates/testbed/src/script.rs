//! Random scripts for a garbage collector: objects with owners, deletes of all sorts, finalizers taken off.
//!
//! A seed determines a script. The same script is performed on a real server once with the Go collector and once with
//! ours ([`perform`]), and both have to leave the same objects behind, wherever the end does not depend on who is
//! faster; [`model`] knows where that is, and what the end is.

pub mod model;
pub mod perform;

use std::collections::BTreeSet;
use std::fmt;

use caretaker_machinery::rng::Rng;

/// The finalizer of somebody else, who takes it off late or never.
pub const HOLD: &str = "example.com/hold";
/// The finalizer of an owner whose dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents stay.
pub const ORPHAN: &str = "orphan";

/// Fewest objects of a script, and how many more there may be.
const OBJECTS: (usize, usize) = (20, 21);
/// Most pieces that the deletes are cut into; after each the collector is left alone until it rests.
const PIECES_MAX: usize = 4;
/// How far before an object its owners are numbered, mostly; the fewer, the longer the chains.
const NEAR: usize = 8;
/// How often another owner is looked for when the first cannot be reached.
const SEARCHES: usize = 4;

/// What happens, in order.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it was made from.
    pub seed: u64,
    /// All objects; they are made first.
    pub objects: Vec<Object>,
    /// What the user does. Between two pieces the collector comes to rest.
    pub pieces: Vec<Vec<Step>>,
}

/// An object to make.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Whether it lives in the second namespace.
    pub is_away: bool,
    /// The finalizer it is made with.
    pub finalizer: Option<&'static str>,
    /// Its owners.
    pub references: Vec<Reference>,
}

/// The kinds of a script's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A core kind.
    ConfigMap,
    /// Another one.
    Secret,
    /// A third one.
    ServiceAccount,
    /// A custom kind in namespaces.
    Gadget,
    /// A kind in no namespace.
    PriorityClass,
}

/// A reference to an owner, right or wrong.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The owner with this number; none if there never was one.
    pub owner: Option<usize>,
    /// What the reference says the owner is.
    pub kind: Kind,
    /// What else is wrong about it.
    pub mistake: Option<Mistake>,
    /// Whether it blocks the owner's end.
    pub blocks: bool,
    /// Whether the owner manages the object.
    pub controls: bool,
}

/// What a reference may say wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Another name.
    Name,
    /// A version that nobody serves.
    Version,
}

/// How somebody deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As the kind has it.
    Unsaid,
    /// The owner first.
    Background,
    /// The dependents first.
    Foreground,
    /// The owner only.
    Orphan,
}

/// What the user does; objects by their number.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Deletes an object, if it is still there.
    Delete(usize, Policy),
    /// Takes [`HOLD`] off an object, if it is still there.
    Release(usize),
}

// === impl Script ===

impl Script {
    /// The script of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let count = OBJECTS.0 + rng.below(OBJECTS.1);
        let mut objects: Vec<Object> = (0..count).map(|_| object(&mut rng)).collect();
        for number in 0..count {
            objects[number].references = references(&objects, number, &mut rng);
        }
        let mut pieces = deletes(&objects, &mut rng);
        let held = (0..count).filter(|number| objects[*number].finalizer == Some(HOLD));
        let released: Vec<usize> = held.filter(|_| one_in(2, &mut rng)).collect();
        pieces.push(released.into_iter().map(Step::Release).collect());
        Self {
            seed,
            objects,
            pieces,
        }
    }

    /// The name of an object.
    pub fn name(&self, number: usize) -> String {
        format!("o{number}")
    }
}

/// An object without owners.
fn object(rng: &mut Rng) -> Object {
    const KINDS: [Kind; 8] = [
        Kind::ConfigMap,
        Kind::ConfigMap,
        Kind::Secret,
        Kind::Secret,
        Kind::ServiceAccount,
        Kind::Gadget,
        Kind::Gadget,
        Kind::PriorityClass,
    ];
    let kind = KINDS[rng.below(KINDS.len())];
    Object {
        kind,
        is_away: kind.is_namespaced() && one_in(8, rng),
        finalizer: match rng.below(40) {
            0..=4 => Some(HOLD),
            5 => Some(FOREGROUND),
            6 => Some(ORPHAN),
            _ => None,
        },
        references: Vec::new(),
    }
}

/// The owners of an object: mostly such as were numbered before it, so that trees are common and rings are not.
fn references(objects: &[Object], number: usize, rng: &mut Rng) -> Vec<Reference> {
    let mut references: Vec<Reference> = Vec::new();
    let wanted = [0, 1, 1, 1, 2, 2, 3][rng.below(7)];
    let mut controlled = false;
    for _ in 0..wanted {
        let Some(mut reference) = reference(objects, number, rng) else {
            continue;
        };
        // Two references to one owner are judged one by one here and together there (`references-one-by-one`).
        let is_second = references
            .iter()
            .any(|known| known.owner == reference.owner && known.owner.is_some());
        if is_second {
            continue;
        }
        reference.controls = !controlled && one_in(4, rng);
        controlled |= reference.controls;
        references.push(reference);
    }
    references
}

fn reference(objects: &[Object], number: usize, rng: &mut Rng) -> Option<Reference> {
    let blocks = one_in(2, rng);
    let mut reference = Reference {
        owner: None,
        kind: [Kind::ConfigMap, Kind::Gadget, Kind::PriorityClass][rng.below(3)],
        mistake: None,
        blocks,
        controls: false,
    };
    if one_in(20, rng) {
        return Some(reference);
    }
    let any = |rng: &mut Rng| match one_in(8, rng) || number == 0 {
        true => rng.below(objects.len()),
        false => number - 1 - rng.below(number.min(NEAR)),
    };
    let is_reachable = |owner: &usize| objects[number].reaches(&objects[*owner]);
    let wants_reachable = !one_in(20, rng);
    let mut candidates = (0..SEARCHES).map(|_| any(rng));
    let owner = match wants_reachable {
        true => candidates.find(is_reachable)?,
        false => candidates.next()?,
    };
    reference.owner = Some(owner);
    reference.kind = objects[owner].kind;
    match rng.below(60) {
        0 => reference.mistake = Some(Mistake::Name),
        1 => reference.mistake = Some(Mistake::Version),
        2 => reference.kind = Kind::ServiceAccount,
        _ => {}
    }
    Some(reference)
}

/// Deletes of half of all owners and a few others, some of them twice, in a few pieces.
fn deletes(objects: &[Object], rng: &mut Rng) -> Vec<Vec<Step>> {
    let references = objects.iter().flat_map(|object| &object.references);
    let owners: BTreeSet<usize> = references.filter_map(|own| own.owner).collect();
    let often = |number: &usize| if owners.contains(number) { 2 } else { 8 };
    let numbers = (0..objects.len()).filter(|number| one_in(often(number), rng));
    let mut numbers: Vec<usize> = numbers.collect();
    shuffle(&mut numbers, rng);
    let pieces = 1 + rng.below(PIECES_MAX);
    let mut steps = vec![Vec::new(); pieces];
    for (at, number) in numbers.into_iter().enumerate() {
        let piece = &mut steps[at % pieces];
        piece.push(Step::Delete(number, policy(rng)));
        if one_in(4, rng) {
            piece.push(Step::Delete(number, policy(rng)));
        }
    }
    steps
}

fn policy(rng: &mut Rng) -> Policy {
    const POLICIES: [Policy; 6] = [
        Policy::Unsaid,
        Policy::Background,
        Policy::Foreground,
        Policy::Foreground,
        Policy::Foreground,
        Policy::Orphan,
    ];
    POLICIES[rng.below(POLICIES.len())]
}

/// True once in so many times.
fn one_in(times: usize, rng: &mut Rng) -> bool {
    rng.below(times) == 0
}

/// Every order is equally likely.
fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
}

// === impl Object ===

impl Object {
    /// Whether a reference of this object can lead to another one.
    pub fn reaches(&self, owner: &Self) -> bool {
        let is_near = self.kind.is_namespaced() && self.is_away == owner.is_away;
        !owner.kind.is_namespaced() || is_near
    }
}

// === impl Kind ===

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::Gadget,
        Self::PriorityClass,
    ];

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(self) -> bool {
        self != Self::PriorityClass
    }
}

// === impl Policy ===

impl Policy {
    /// The word in delete options.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Unsaid => None,
            Self::Background => Some("Background"),
            Self::Foreground => Some("Foreground"),
            Self::Orphan => Some("Orphan"),
        }
    }
}

// === impl Display ===

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (number, object) in self.objects.iter().enumerate() {
            writeln!(f, "  make {} {object}", self.name(number))?;
        }
        for piece in &self.pieces {
            writeln!(f, "  rest")?;
            for step in piece {
                match step {
                    Step::Delete(number, policy) => {
                        writeln!(f, "  delete {} {policy:?}", self.name(*number))?;
                    }
                    Step::Release(number) => writeln!(f, "  release {}", self.name(*number))?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)?;
        if self.is_away {
            write!(f, " away")?;
        }
        if let Some(finalizer) = self.finalizer {
            write!(f, " {finalizer}")?;
        }
        for reference in &self.references {
            match reference.owner {
                Some(owner) => write!(f, " < o{owner} {:?}", reference.kind)?,
                None => write!(f, " < nobody {:?}", reference.kind)?,
            }
            if let Some(mistake) = reference.mistake {
                write!(f, " wrong {mistake:?}")?;
            }
            for (is_so, word) in [
                (reference.blocks, " blocks"),
                (reference.controls, " controls"),
            ] {
                f.write_str(if is_so { word } else { "" })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_script() {
        assert_eq!(Script::of(7).to_string(), Script::of(7).to_string());
        assert_ne!(Script::of(7).to_string(), Script::of(8).to_string());
    }

    #[test]
    fn scripts_have_everything_that_can_go_wrong() {
        let scripts: Vec<Script> = (0..50).map(Script::of).collect();
        let text: String = scripts.iter().map(ToString::to_string).collect();
        let parts = [
            " away",
            " < nobody ",
            " wrong Name",
            " wrong Version",
            " blocks",
            " controls",
            HOLD,
            FOREGROUND,
            ORPHAN,
            "release ",
            " Unsaid",
            " Background",
            " Foreground",
            " Orphan",
            "PriorityClass",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}");
        }
        let references = scripts.iter().flat_map(|script| {
            let objects = script.objects.iter();
            objects.flat_map(move |object| {
                object
                    .references
                    .iter()
                    .map(move |own| (script, object, own))
            })
        });
        let stray = references.filter(|(script, object, own)| {
            own.owner
                .is_some_and(|owner| !object.reaches(&script.objects[owner]))
        });
        assert!(stray.count() > 10);
    }
}
