//! Predicts the end of every object from the requests of the users that the server accepted.
//!
//! The model knows neither the controllers' code nor their requests. It applies the rules of Kubernetes to what the users
//! asked for, in the order of the server's revisions. A dependent goes if all its owners are lost: absent, or deleted in
//! the foreground. A dependent of an owner that was deleted with `Orphan` loses that reference first. Where the end
//! depends on how fast a collector is, both ends are right ([`ExpectedFate::Either`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::ownership::DeletePolicy;

/// A request of a user that the server accepted.
#[derive(Clone, Debug)]
pub struct UserDeed {
    /// The revision of the server's answer; 0 if a delete was answered without one.
    pub revision: u64,
    pub uid: String,
    pub act: UserAct,
}

#[derive(Clone, Debug)]
pub enum UserAct {
    /// A create, or a patch that replaced all references.
    Wrote {
        references: Vec<ModelReference>,
        /// Whether the object was being deleted when the server accepted the request.
        is_deleting: bool,
    },
    Deleted(DeletePolicy),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReference {
    pub uid: String,
    pub target: ReferenceTarget,
}

/// What a reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceTarget {
    /// An object that existed and that the dependent can reach.
    Owner,
    /// No object: the owner never existed, or it is in another namespace.
    Nothing,
    /// A kind that the server does not serve, or a namespaced owner of a cluster-scoped object. A collector has to presume
    /// that the owner exists.
    UnknownKind,
}

/// The end of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedFate {
    Stays,
    Goes,
    /// A race that the rules allow to end either way.
    Either,
}

/// All objects that users created, by uid, and what may and must happen to them.
#[derive(Debug, Default)]
pub struct OwnershipModel {
    objects: BTreeMap<String, DeedObject>,
    excuses: OrphanExcuses,
    /// Objects that a collector may delete.
    may_go: BTreeSet<String>,
    /// Objects that a collector has to delete.
    must_go: BTreeSet<String>,
}

/// Where an `Orphan` deletion promises nothing, by uid.
#[derive(Clone, Debug, Default)]
pub struct OrphanExcuses {
    /// Owners whose release was announced as incomplete.
    pub owners: BTreeSet<String>,
    /// Dependents of kinds of which an empty list was served: a new process cannot know of them.
    pub dependents: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct DeedObject {
    /// The references of the last accepted write, and its revision.
    references: Vec<ModelReference>,
    written: u64,
    deletes: Vec<(u64, DeletePolicy)>,
    /// The references and their revision before the write that found the object in deletion, though no user had deleted it.
    condemned: Option<(Vec<ModelReference>, u64)>,
}

/// What a reference means for its object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerOutlook {
    Stays,
    Lost,
    MayBeLost,
    /// The reference is removed, and the owner counts no more.
    Orphans,
}

// === impl OwnershipModel ===

impl OwnershipModel {
    pub fn of(deeds: &[UserDeed], excuses: OrphanExcuses) -> Self {
        let mut deeds: Vec<&UserDeed> = deeds.iter().collect();
        deeds.sort_by_key(|deed| deed.revision);
        let mut model = Self {
            excuses,
            ..Self::default()
        };
        for deed in deeds {
            let object = model.objects.entry(deed.uid.clone()).or_default();
            object.take(deed);
        }
        model.find_possible();
        model.must_go = model.certain();
        model
    }

    pub fn uids(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// The references that an object had after the last accepted write of a user.
    pub fn references(&self, uid: &str) -> &[ModelReference] {
        let object = self.objects.get(uid);
        object.map_or(&[], |object| &object.references)
    }

    pub fn fate(&self, uid: &str) -> ExpectedFate {
        let Some(object) = self.objects.get(uid) else {
            return ExpectedFate::Either;
        };
        let is_deleted = !object.deletes.is_empty() || object.condemned.is_some();
        match (is_deleted, self.may_go.contains(uid)) {
            (true, _) => ExpectedFate::Goes,
            (false, false) => ExpectedFate::Stays,
            (false, true) if self.must_go.contains(uid) => ExpectedFate::Goes,
            (false, true) => ExpectedFate::Either,
        }
    }

    /// The objects that were being deleted at a time when no owner of theirs could be lost.
    pub fn condemned_wrongly(&self) -> impl Iterator<Item = &str> {
        let objects = self.objects.iter().filter(|(uid, object)| {
            let before = object.condemned.as_ref();
            before.is_some_and(|(references, at)| !self.is_collectable(uid, references, *at))
        });
        objects.map(|(uid, _)| uid.as_str())
    }

    /// Fills [`Self::may_go`] until nothing changes. Rings whose owners all exist never enter it.
    fn find_possible(&mut self) {
        loop {
            let new = self.objects.iter().filter(|(uid, object)| {
                let is_new = !self.may_go.contains(uid.as_str());
                is_new && self.is_collectable(uid, &object.references, object.written)
            });
            let new: Vec<String> = new.map(|(uid, _)| uid.clone()).collect();
            if new.is_empty() {
                return;
            }
            self.may_go.extend(new);
        }
    }

    fn certain(&self) -> BTreeSet<String> {
        let mut certain = BTreeSet::new();
        loop {
            let new = self.objects.iter().filter(|(uid, object)| {
                let mut outlooks = object.references.iter();
                let is_lost = |own: &ModelReference| {
                    let outlook = self.outlook(uid, own, object.written);
                    outlook == OwnerOutlook::Lost || self.is_collected(&certain, own)
                };
                let is_owned = !object.references.is_empty();
                !certain.contains(uid.as_str()) && is_owned && outlooks.all(is_lost)
            });
            let new: Vec<String> = new.map(|(uid, _)| uid.clone()).collect();
            if new.is_empty() {
                return certain;
            }
            certain.extend(new);
        }
    }

    /// Whether the owner is certainly collected, and no user deleted it before.
    fn is_collected(&self, certain: &BTreeSet<String>, own: &ModelReference) -> bool {
        let owner = self.objects.get(&own.uid);
        let is_left = owner.is_some_and(|owner| owner.deletes.is_empty());
        own.target == ReferenceTarget::Owner && is_left && certain.contains(&own.uid)
    }

    /// Whether there can be a moment when all owners are lost.
    fn is_collectable(&self, uid: &str, references: &[ModelReference], written: u64) -> bool {
        let outlooks = references.iter().map(|own| self.outlook(uid, own, written));
        let outlooks: Vec<OwnerOutlook> = outlooks.collect();
        let is_lost =
            |own: &OwnerOutlook| matches!(own, OwnerOutlook::Lost | OwnerOutlook::MayBeLost);
        outlooks.iter().any(is_lost) && !outlooks.contains(&OwnerOutlook::Stays)
    }

    fn outlook(&self, uid: &str, reference: &ModelReference, written: u64) -> OwnerOutlook {
        let is_orphan = |(_, policy): &(u64, DeletePolicy)| *policy == DeletePolicy::Orphan;
        let owner = self.objects.get(&reference.uid);
        let owner = match (reference.target, owner) {
            (ReferenceTarget::UnknownKind, _) => return OwnerOutlook::Stays,
            // The object of that uid is in another namespace. The collector may remove the reference, as upstream does,
            // before it finds that the owner is absent from this one.
            (ReferenceTarget::Nothing, Some(other)) if other.deletes.iter().any(is_orphan) => {
                return OwnerOutlook::MayBeLost;
            }
            (ReferenceTarget::Nothing, _) | (ReferenceTarget::Owner, None) => {
                return OwnerOutlook::Lost;
            }
            (ReferenceTarget::Owner, Some(owner)) => owner,
        };
        let may_go = self.may_go.contains(&reference.uid) || owner.condemned.is_some();
        let orphaned = owner.deletes.iter().find(|delete| is_orphan(delete));
        match orphaned {
            None if !owner.deletes.is_empty() => OwnerOutlook::Lost,
            None if may_go => OwnerOutlook::MayBeLost,
            None => OwnerOutlook::Stays,
            Some((at, _)) => {
                let is_switched = !owner.deletes.iter().all(is_orphan);
                let is_late = *at < written;
                let is_excused = self.excuses.owners.contains(&reference.uid)
                    || self.excuses.dependents.contains(uid);
                match may_go || is_switched || is_late || is_excused {
                    true => OwnerOutlook::MayBeLost,
                    false => OwnerOutlook::Orphans,
                }
            }
        }
    }
}

// === impl DeedObject ===

impl DeedObject {
    fn take(&mut self, deed: &UserDeed) {
        match &deed.act {
            UserAct::Deleted(policy) => self.deletes.push((deed.revision, *policy)),
            UserAct::Wrote {
                references,
                is_deleting,
            } => {
                let before = std::mem::replace(&mut self.references, references.clone());
                let written = std::mem::replace(&mut self.written, deed.revision);
                let is_condemned = *is_deleting && self.deletes.is_empty();
                if is_condemned && self.condemned.is_none() {
                    self.condemned = Some((before, written));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeletePolicy::{Background, Foreground, Orphan};

    fn owner(uid: &str) -> ModelReference {
        let target = match uid {
            "unknown" => ReferenceTarget::UnknownKind,
            _ if uid == "nothing" || uid.starts_with('@') => ReferenceTarget::Nothing,
            _ => ReferenceTarget::Owner,
        };
        ModelReference {
            uid: uid.trim_start_matches('@').to_owned(),
            target,
        }
    }

    /// Deeds as words: `a<b,c` writes a with the owners b and c, `-a` deletes it in the background, `=a` in the
    /// foreground, `~a` with Orphan, and `!a<` finds it in deletion. An owner `@b` is in another namespace.
    fn deeds(words: &str) -> Vec<UserDeed> {
        let deed = |(at, word): (usize, &str)| {
            let (mark, rest) = word.split_at(1);
            let policy = [("-", Background), ("=", Foreground), ("~", Orphan)];
            let policy = policy.iter().find(|(own, _)| *own == mark);
            let rest = if policy.is_some() || mark == "!" {
                rest
            } else {
                word
            };
            let (uid, owners) = rest.split_once('<').unwrap_or((rest, ""));
            let owners = owners.split(',').filter(|own| !own.is_empty());
            let act = match policy {
                Some((_, policy)) => UserAct::Deleted(*policy),
                None => UserAct::Wrote {
                    references: owners.map(owner).collect(),
                    is_deleting: mark == "!",
                },
            };
            UserDeed {
                revision: at as u64 + 1,
                uid: uid.to_owned(),
                act,
            }
        };
        words.split(' ').enumerate().map(deed).collect()
    }

    /// A letter for each object, in the order of their uids: stays, goes, or either.
    fn letters(words: &str) -> String {
        let model = OwnershipModel::of(&deeds(words), OrphanExcuses::default());
        let letter = |uid| match model.fate(uid) {
            ExpectedFate::Stays => 's',
            ExpectedFate::Goes => 'g',
            ExpectedFate::Either => '?',
        };
        model.uids().map(letter).collect()
    }

    #[test]
    fn predicts_ends_by_the_users_requests() {
        let table = [
            ("a b<a c<b", "sss"),
            ("a b<a c<b -a", "ggg"),
            ("a b<a c<b =a", "ggg"),
            ("a b<a c<b ~a", "gss"),
            ("a b<a c<b ~b", "sgs"),
            // One owner that stays is enough.
            ("a b c<a,b -a", "gss"),
            ("a b c<a,b -a =b", "ggg"),
            // The reference to a may be removed while b still exists, or after.
            ("a b c<a,b -a ~b", "gg?"),
            // A new owner in time saves the object; the old one counts no more.
            ("a b c<a c<b -a", "gss"),
            ("a b c<a -a c<b", "gss"),
            // It was already being deleted when it got its new owner.
            ("a b c<a =a !c<b", "gsg"),
            // A reference that is written after the orphan deletion is not promised anything.
            ("a b<a ~a", "gs"),
            ("a b ~a b<a", "g?"),
            // The policy changes while the collector works.
            ("a b<a =a ~a", "g?"),
            ("a b<a ~a -a", "g?"),
            // a may be waiting for its dependents when the user's request arrives.
            ("o a<o b<a =o ~a", "g?g"),
            ("a<nothing b<nothing,c c", "gss"),
            ("a<unknown b<a", "ss"),
            ("a b<@a c<@a -a", "ggg"),
            // The reference may be removed before the collector finds that it leads to nothing.
            ("a b<@a c ~c", "sgg"),
            ("a b<@a c<b ~a", "g??"),
            // A ring has living owners until one of them is deleted.
            ("a<b b<a c<a", "sss"),
            ("a<b b<a c<a =a", "ggg"),
        ];
        for (words, expected) in table {
            assert_eq!(letters(words), expected, "{words}");
        }
    }

    #[test]
    fn a_deletion_without_a_lost_owner_is_wrong() {
        let wrong = |words| {
            let model = OwnershipModel::of(&deeds(words), OrphanExcuses::default());
            model.condemned_wrongly().count()
        };
        assert_eq!(wrong("a b c<a =a !c<b"), 0);
        assert_eq!(wrong("a b c<a !c<b"), 1);
        assert_eq!(wrong("a b c<a !c<b =a"), 0);
    }

    #[test]
    fn an_announced_release_and_an_empty_list_excuse_what_follows() {
        let fate_of_b = |owners: &[&str], dependents: &[&str]| {
            let set = |uids: &[&str]| uids.iter().map(ToString::to_string).collect();
            let excuses = OrphanExcuses {
                owners: set(owners),
                dependents: set(dependents),
            };
            OwnershipModel::of(&deeds("a b<a ~a"), excuses).fate("b")
        };
        assert_eq!(fate_of_b(&[], &["a"]), ExpectedFate::Stays);
        assert_eq!(fate_of_b(&["a"], &[]), ExpectedFate::Either);
        assert_eq!(fate_of_b(&[], &["b"]), ExpectedFate::Either);
    }
}
