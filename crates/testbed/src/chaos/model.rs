//! Random graphs and deletes, and who must be gone in the end: a simple model that knows nothing of queues and events.
//!
//! It says the same as the model of the collector's own property test, and is written down a second time: there it judges
//! decisions, here what is left on a server. Where an owner goes with orphans and another one without, the outcome
//! depends on who is first, upstream as here; such objects may go and need not.

use std::collections::{BTreeMap, BTreeSet};

use caretaker_machinery::rng::Rng;

/// Fewest objects of a graph.
const OBJECTS_MIN: usize = 3;
/// Most objects of a graph, one less.
const OBJECTS_SPAN: usize = 9;

/// What sort of object something is, by the first letter of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// `m`: in a namespace.
    Map,
    /// `s`: in a namespace.
    Secret,
    /// `r`: in none.
    Role,
    /// `g`: in a namespace, of a custom kind.
    Gadget,
}

/// How something is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Dependents go afterwards.
    Background,
    /// Dependents go before.
    Foreground,
    /// Dependents stay.
    Orphan,
}

/// A graph, and what users do to it.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The owners of every object; some do not exist.
    pub owners: BTreeMap<String, Vec<String>>,
    /// What is deleted, and how.
    pub deletes: BTreeMap<String, Policy>,
}

// === impl Sort ===

impl Sort {
    /// The sort of an object.
    pub fn of(name: &str) -> Self {
        match name.as_bytes().first() {
            Some(b's') => Self::Secret,
            Some(b'r') => Self::Role,
            Some(b'g') => Self::Gadget,
            _ => Self::Map,
        }
    }
}

// === impl Policy ===

impl Policy {
    /// As requests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

// === impl Script ===

impl Script {
    /// A random one.
    pub fn draw(rng: &mut Rng) -> Self {
        let count = OBJECTS_MIN + rng.below(OBJECTS_SPAN);
        let names: Vec<String> = (0..count)
            .map(|number| format!("{}{number}", ["m", "s", "g", "r"][rng.below(4)]))
            .collect();
        let mut script = Self::default();
        for name in &names {
            let mut own = Vec::new();
            for _ in 0..rng.below(3) {
                let owner = &names[rng.below(count)];
                let is_reachable = Sort::of(name) != Sort::Role || Sort::of(owner) == Sort::Role;
                if rng.below(12) == 0 {
                    own.push("absent".to_owned());
                } else if is_reachable && !own.contains(owner) {
                    own.push(owner.clone());
                }
            }
            script.owners.insert(name.clone(), own);
            let policies = [Policy::Background, Policy::Foreground, Policy::Orphan];
            if rng.below(3) == 0 {
                let policy = policies[rng.below(policies.len())];
                script.deletes.insert(name.clone(), policy);
            }
        }
        script
    }

    /// Who must go, and who may.
    pub fn model(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        (self.gone(false), self.gone(true))
    }

    /// Who goes, if an owner that leaves orphans counts as lost or not. One that the collector may delete before its
    /// user does leaves nobody.
    fn gone(&self, is_orphaning_lost: bool) -> BTreeSet<String> {
        let mut collected = BTreeSet::new();
        let leaves = |owner: &String| self.deletes.get(owner) == Some(&Policy::Orphan);
        loop {
            let is_lost = |owner: &String| match leaves(owner) {
                true => is_orphaning_lost,
                false => {
                    let is_there = self.owners.contains_key(owner);
                    !is_there || self.deletes.contains_key(owner) || collected.contains(owner)
                }
            };
            let is_left = |owner: &String| leaves(owner) && !collected.contains(owner);
            let next = self.owners.iter().find(|(name, owners)| {
                let goes = owners.iter().all(is_lost) && !owners.iter().all(is_left);
                goes && !collected.contains(*name)
            });
            match next {
                Some((name, _)) => collected.insert(name.clone()),
                None => break,
            };
        }
        collected.extend(self.deletes.keys().cloned());
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_script(owners: &[(&str, &[&str])], deletes: &[(&str, Policy)]) -> Script {
        let all = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Script {
            owners: owners
                .iter()
                .map(|(name, own)| (name.to_string(), all(own)))
                .collect(),
            deletes: deletes
                .iter()
                .map(|(name, how)| (name.to_string(), *how))
                .collect(),
        }
    }

    #[test]
    fn the_model_says_who_goes() {
        use Policy::{Background, Foreground, Orphan};
        type Row<'a> = (
            &'a [(&'a str, &'a [&'a str])],
            &'a [(&'a str, Policy)],
            &'a str,
            &'a str,
        );
        let table: [Row<'_>; 8] = [
            (
                &[("a", &[]), ("b", &["a"])],
                &[("a", Background)],
                "ab",
                "ab",
            ),
            (
                &[("a", &[]), ("b", &["a"]), ("c", &["b"])],
                &[("a", Foreground)],
                "abc",
                "abc",
            ),
            (&[("a", &[]), ("b", &["a"])], &[("a", Orphan)], "a", "a"),
            (
                &[("a", &[]), ("b", &["a", "c"]), ("c", &[])],
                &[("a", Background)],
                "a",
                "a",
            ),
            (
                &[("a", &[]), ("b", &["a", "c"]), ("c", &[])],
                &[("a", Orphan), ("c", Background)],
                "ac",
                "abc",
            ),
            (&[("a", &["absent"]), ("b", &["a"])], &[], "ab", "ab"),
            (
                &[("a", &["absent"]), ("b", &["a"])],
                &[("a", Orphan)],
                "a",
                "ab",
            ),
            (&[("a", &["b"]), ("b", &["a"])], &[], "", ""),
        ];
        for (owners, deletes, must, may) in table {
            let (must_go, may_go) = mk_script(owners, deletes).model();
            let word = |names: BTreeSet<String>| names.into_iter().collect::<String>();
            assert_eq!(
                (word(must_go).as_str(), word(may_go).as_str()),
                (must, may),
                "{owners:?} {deletes:?}"
            );
        }
    }
}
