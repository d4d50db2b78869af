//! Random ownership: objects with owners, deletes with every policy, and finalizers that are removed late.
//!
//! A seed determines a script. [`run`] executes it on a server, [`model`] predicts the end of every object or says that it
//! is a race. Large scripts run on a real server once with the Go collector and once with ours
//! (`cargo xtask conformance gc-random`) and have to end alike. Small ones run under faults and under lagging watches (see
//! [`crate::chaos`]).

pub mod model;
pub mod run;

use std::collections::BTreeSet;
use std::fmt;

use caretaker_machinery::rng::Rng;

/// The user's finalizer, which is removed late or never.
pub const HOLD: &str = "example.com/hold";
/// The finalizer of an owner that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are orphaned.
pub const ORPHAN: &str = "orphan";

/// Largest distance of most owners' numbers from their dependent's; a smaller one makes longer chains.
const NEAR: usize = 8;
/// Number of owners that are tried until one is reachable.
const SEARCHES: usize = 4;

/// The size of scripts, and what they contain.
#[derive(Clone, Copy, Debug)]
pub struct ScriptShape {
    /// Fewest objects, and the number of sizes above it.
    objects: (usize, usize),
    /// Most rounds of deletes; after each the runner waits until the collector rests.
    rounds_max: usize,
    /// Whether there are finalizers, a second namespace and wrong references.
    has_oddities: bool,
}

/// Objects to create and the user's requests, in order.
#[derive(Clone, Debug)]
pub struct OwnershipScript {
    pub seed: u64,
    /// All objects; they are created first.
    pub objects: Vec<ScriptObject>,
    /// The user's requests. Between two rounds the runner waits until the collector rests.
    pub rounds: Vec<Vec<ScriptStep>>,
}

/// An object to create.
#[derive(Clone, Debug)]
pub struct ScriptObject {
    pub kind: ScriptKind,
    /// Whether it is in the second namespace.
    pub is_away: bool,
    /// The finalizer that it is created with.
    pub finalizer: Option<&'static str>,
    pub references: Vec<ScriptReference>,
}

/// The kinds of a script's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    ConfigMap,
    Secret,
    ServiceAccount,
    /// A namespaced custom kind.
    Gadget,
    /// A cluster-scoped kind.
    PriorityClass,
}

/// A reference to an owner, right or wrong.
#[derive(Clone, Copy, Debug)]
pub struct ScriptReference {
    /// The owner's number; `None` for an owner that never existed.
    pub owner: Option<usize>,
    /// The kind that the reference states, rightly or wrongly.
    pub kind: ScriptKind,
    pub mistake: Option<ReferenceMistake>,
    /// The field `blockOwnerDeletion`.
    pub blocks: bool,
    /// The field `controller`.
    pub controls: bool,
}

/// What a reference states wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceMistake {
    Name,
    /// A version that the server does not serve.
    Version,
}

/// The `propagationPolicy` of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletePolicy {
    /// The kind's default.
    Unsaid,
    Background,
    Foreground,
    Orphan,
}

/// A request of the user; objects by their number.
#[derive(Clone, Copy, Debug)]
pub enum ScriptStep {
    /// Deletes an object, if it still exists.
    Delete(usize, DeletePolicy),
    /// Removes [`HOLD`] from an object, if it still exists.
    Release(usize),
}

// === impl OwnershipScript ===

impl OwnershipScript {
    /// The script of a seed.
    pub fn of(seed: u64, shape: ScriptShape) -> Self {
        let mut rng = Rng::seeded(seed);
        let (min, sizes) = shape.objects;
        let count = min + rng.below(sizes);
        let mut objects: Vec<ScriptObject> = (0..count).map(|_| object(&mut rng)).collect();
        if !shape.has_oddities {
            for object in &mut objects {
                (object.is_away, object.finalizer) = (false, None);
            }
        }
        for number in 0..count {
            objects[number].references = references(&objects, number, shape, &mut rng);
        }
        let mut rounds = deletes(&objects, shape.rounds_max, &mut rng);
        let held = (0..count).filter(|number| objects[*number].finalizer == Some(HOLD));
        let released: Vec<usize> = held.filter(|_| one_in(2, &mut rng)).collect();
        rounds.push(released.into_iter().map(ScriptStep::Release).collect());
        Self {
            seed,
            objects,
            rounds,
        }
    }

    pub fn name(&self, number: usize) -> String {
        format!("o{number}")
    }
}

/// An object without owners.
fn object(rng: &mut Rng) -> ScriptObject {
    const KINDS: [ScriptKind; 8] = [
        ScriptKind::ConfigMap,
        ScriptKind::ConfigMap,
        ScriptKind::Secret,
        ScriptKind::Secret,
        ScriptKind::ServiceAccount,
        ScriptKind::Gadget,
        ScriptKind::Gadget,
        ScriptKind::PriorityClass,
    ];
    let kind = KINDS[rng.below(KINDS.len())];
    ScriptObject {
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

/// The owners of an object. Most have a lower number, so that trees are common and rings are rare.
fn references(
    objects: &[ScriptObject],
    number: usize,
    shape: ScriptShape,
    rng: &mut Rng,
) -> Vec<ScriptReference> {
    let mut references: Vec<ScriptReference> = Vec::new();
    let wanted = [0, 1, 1, 1, 2, 2, 3][rng.below(7)];
    let mut controlled = false;
    for _ in 0..wanted {
        let Some(mut reference) = reference(objects, number, rng) else {
            continue;
        };
        if !shape.has_oddities && !reference.is_right(objects, number) {
            continue;
        }
        // The Go collector judges two references to one owner together, ours judges each (`references-one-by-one`).
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

fn reference(objects: &[ScriptObject], number: usize, rng: &mut Rng) -> Option<ScriptReference> {
    let blocks = one_in(2, rng);
    let mut reference = ScriptReference {
        owner: None,
        kind: [
            ScriptKind::ConfigMap,
            ScriptKind::Gadget,
            ScriptKind::PriorityClass,
        ][rng.below(3)],
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
        0 => reference.mistake = Some(ReferenceMistake::Name),
        1 => reference.mistake = Some(ReferenceMistake::Version),
        2 => reference.kind = ScriptKind::ServiceAccount,
        _ => {}
    }
    Some(reference)
}

/// Deletes of half of all owners and a few other objects, some of them twice.
fn deletes(objects: &[ScriptObject], rounds_max: usize, rng: &mut Rng) -> Vec<Vec<ScriptStep>> {
    let references = objects.iter().flat_map(|object| &object.references);
    let owners: BTreeSet<usize> = references.filter_map(|own| own.owner).collect();
    let often = |number: &usize| if owners.contains(number) { 2 } else { 8 };
    let numbers = (0..objects.len()).filter(|number| one_in(often(number), rng));
    let mut numbers: Vec<usize> = numbers.collect();
    shuffle(&mut numbers, rng);
    let rounds = 1 + rng.below(rounds_max);
    let mut steps = vec![Vec::new(); rounds];
    for (at, number) in numbers.into_iter().enumerate() {
        let round = &mut steps[at % rounds];
        round.push(ScriptStep::Delete(number, policy(rng)));
        if one_in(4, rng) {
            round.push(ScriptStep::Delete(number, policy(rng)));
        }
    }
    steps
}

fn policy(rng: &mut Rng) -> DeletePolicy {
    const POLICIES: [DeletePolicy; 6] = [
        DeletePolicy::Unsaid,
        DeletePolicy::Background,
        DeletePolicy::Foreground,
        DeletePolicy::Foreground,
        DeletePolicy::Foreground,
        DeletePolicy::Orphan,
    ];
    POLICIES[rng.below(POLICIES.len())]
}

/// True with probability 1 / `times`.
fn one_in(times: usize, rng: &mut Rng) -> bool {
    rng.below(times) == 0
}

/// A uniformly random order.
fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last + 1));
    }
}

// === impl ScriptShape ===

impl ScriptShape {
    /// For comparisons of two collectors.
    pub const LARGE: Self = Self {
        objects: (20, 21),
        rounds_max: 4,
        has_oddities: true,
    };
    /// For many runs under faults.
    pub const SMALL: Self = Self {
        objects: (3, 9),
        rounds_max: 1,
        has_oddities: false,
    };
}

// === impl ScriptReference ===

impl ScriptReference {
    /// Whether the reference states the truth about a reachable owner, or about one that never existed.
    fn is_right(&self, objects: &[ScriptObject], number: usize) -> bool {
        let object = &objects[number];
        let is_reachable = match self.owner {
            Some(owner) => object.reaches(&objects[owner]) && objects[owner].kind == self.kind,
            None => object.kind.is_namespaced() || !self.kind.is_namespaced(),
        };
        is_reachable && self.mistake.is_none()
    }
}

// === impl ScriptObject ===

impl ScriptObject {
    /// Whether a reference of this object can resolve to another one.
    pub fn reaches(&self, owner: &Self) -> bool {
        let is_near = self.kind.is_namespaced() && self.is_away == owner.is_away;
        !owner.kind.is_namespaced() || is_near
    }
}

// === impl ScriptKind ===

impl ScriptKind {
    pub const ALL: [Self; 5] = [
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::Gadget,
        Self::PriorityClass,
    ];

    pub fn is_namespaced(self) -> bool {
        self != Self::PriorityClass
    }
}

// === impl DeletePolicy ===

impl DeletePolicy {
    /// The value of `propagationPolicy`.
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

impl fmt::Display for OwnershipScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        for (number, object) in self.objects.iter().enumerate() {
            writeln!(f, "  create {} {object}", self.name(number))?;
        }
        for round in &self.rounds {
            writeln!(f, "  rest")?;
            for step in round {
                match step {
                    ScriptStep::Delete(number, policy) => {
                        writeln!(f, "  delete {} {policy:?}", self.name(*number))?;
                    }
                    ScriptStep::Release(number) => writeln!(f, "  release {}", self.name(*number))?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for ScriptObject {
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
                None => write!(f, " < absent {:?}", reference.kind)?,
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
    fn a_seed_determines_its_script() {
        let text = |seed| OwnershipScript::of(seed, ScriptShape::LARGE).to_string();
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(8));
    }

    #[test]
    fn large_scripts_contain_every_oddity_and_small_ones_none() {
        let of = |shape| move |seed| OwnershipScript::of(seed, shape);
        let scripts: Vec<OwnershipScript> = (0..50).map(of(ScriptShape::LARGE)).collect();
        let small: String = (0..50)
            .map(of(ScriptShape::SMALL))
            .map(|script| script.to_string())
            .collect();
        let text: String = scripts.iter().map(ToString::to_string).collect();
        let parts = [
            " away",
            " < absent ",
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
        for oddity in [" away", " wrong ", HOLD, FOREGROUND, ORPHAN, "release "] {
            assert!(!small.contains(oddity), "{oddity}");
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
