//! Random graphs, random deletes, watches that lag and interleave: the end is what a simple model says it must be.
//!
//! The model knows nothing of queues and events. From who was deleted how, it says who must go and who must stay; where
//! an owner goes with orphans and another one without, upstream's outcome depends on who is first, and so does ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use caretaker_machinery::rng::Rng;

use super::world::{NODES, PODS, RCS, SETS, World, blocking, object, to};
use crate::runtime::call::Propagation;
use crate::runtime::kind::KindId;

const CASES: u64 = 3_000;

struct Script {
    owners: BTreeMap<String, Vec<String>>,
    deletes: BTreeMap<String, Propagation>,
}

fn kind_of(name: &str) -> KindId {
    match name.as_bytes()[0] {
        b'n' => NODES,
        b'r' => RCS,
        b's' => SETS,
        _ => PODS,
    }
}

fn script(rng: &mut Rng) -> Script {
    let count = 2 + rng.below(9);
    let kinds = ["n", "r", "s", "p", "p", "p"];
    let names: Vec<String> = (0..count)
        .map(|number| format!("{}{number}", kinds[rng.below(kinds.len())]))
        .collect();
    let mut owners = BTreeMap::new();
    for name in &names {
        let mut own = Vec::new();
        for _ in 0..rng.below(3) {
            let owner = &names[rng.below(count)];
            // Objects of the cluster cannot be owned from a namespace.
            let is_reachable = kind_of(name) != NODES || kind_of(owner) == NODES;
            if is_reachable {
                own.push(owner.clone());
            } else if rng.below(4) == 0 {
                own.push("nabsent".to_owned());
            }
        }
        own.dedup();
        owners.insert(name.clone(), own);
    }
    let policies = [
        Propagation::Background,
        Propagation::Foreground,
        Propagation::Orphan,
    ];
    let deletes = names
        .iter()
        .filter(|_| rng.below(4) == 0)
        .map(|name| {
            (
                name.clone(),
                policies[(name.len() + name.as_bytes()[1] as usize) % 3],
            )
        })
        .collect();
    Script { owners, deletes }
}

/// Who must go, and who may.
fn model(script: &Script) -> (BTreeSet<String>, BTreeSet<String>) {
    (grown(script, false), grown(script, true))
}

/// Everybody who was deleted, and whoever has no other owners. What an owner leaves behind as orphans goes only if
/// `orphans_may_go`: when the same object loses all its other owners too, or when the owner itself is collected before
/// its user deletes it.
fn grown(script: &Script, orphans_may_go: bool) -> BTreeSet<String> {
    let mut gone: BTreeSet<String> = script.deletes.keys().cloned().collect();
    let is_orphaning = |name: &str| script.deletes.get(name) == Some(&Propagation::Orphan);
    loop {
        let is_lost = |owner: &String| {
            let is_gone = gone.contains(owner) || !script.owners.contains_key(owner);
            is_gone && (orphans_may_go || !is_orphaning(owner))
        };
        let is_collected = |name: &str| {
            let owners = script.owners.get(name).map_or(&[][..], Vec::as_slice);
            !owners.is_empty() && owners.iter().all(is_lost)
        };
        let takes_along = |owner: &String| !is_orphaning(owner) || is_collected(owner);
        let more = script.owners.iter().find(|(name, owners)| {
            !gone.contains(*name) && is_collected(name) && owners.iter().any(takes_along)
        });
        match more {
            Some((name, _)) => gone.insert(name.clone()),
            None => return gone,
        };
    }
}

/// Plays the script with events and decisions in a random order.
fn play(script: &Script, rng: &mut Rng) -> World {
    let mut world = World::new();
    let mut names: Vec<&String> = script.owners.keys().collect();
    while !names.is_empty() {
        let name = names.swap_remove(rng.below(names.len()));
        let owners: Vec<_> = script.owners[name]
            .iter()
            .map(|owner| {
                let reference = to(kind_of(owner), owner);
                if rng.below(2) == 0 {
                    blocking(reference)
                } else {
                    reference
                }
            })
            .collect();
        world.create(object(kind_of(name), name, &owners));
    }
    // Objects whose owner never existed may go from the start.
    if rng.below(2) == 0 {
        world.settle();
    }
    let mut deletes: Vec<(&String, Propagation)> = script
        .deletes
        .iter()
        .map(|(name, policy)| (name, *policy))
        .collect();
    let mut idle = 0;
    while idle < 40 || !deletes.is_empty() {
        let moved = match rng.below(6) {
            0 if !deletes.is_empty() => {
                let (name, policy) = deletes.swap_remove(rng.below(deletes.len()));
                if world.exists(name) {
                    world.delete(name, policy);
                }
                true
            }
            kind @ 1..=4 => world.deliver([PODS, RCS, SETS, NODES][kind - 1]),
            _ => world.step(),
        };
        idle = if moved { 0 } else { idle + 1 };
    }
    world.pass(Duration::from_secs(300));
    world
}

#[test]
fn the_end_is_what_the_model_says() {
    for seed in 0..CASES {
        let mut rng = Rng::seeded(seed);
        let script = script(&mut rng);
        let mut world = play(&script, &mut rng);
        let (must_go, may_go) = model(&script);
        for name in script.owners.keys() {
            let is_there = world.exists(name);
            let told = format!(
                "seed {seed}: {name} in {:?} {:?}",
                script.owners, script.deletes
            );
            assert!(!(must_go.contains(name) && is_there), "must go: {told}");
            assert!(may_go.contains(name) || is_there, "must stay: {told}");
        }
        assert!(world.is_quiet(), "seed {seed}");
        for object in world.objects() {
            assert!(
                object.meta.deletion.is_none(),
                "seed {seed}: stuck {object:?}"
            );
        }
    }
}
