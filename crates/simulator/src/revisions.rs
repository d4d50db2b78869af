//! ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, in the order of their numbers.
//!
//! The last revision is that of the present template. A template that comes back gets its revision with a new number, so
//! that `kubectl rollout undo` and `history` work. Mirrors `pkg/controller/history`, `getStatefulSetRevisions` and
//! `constructHistory`, 1.36; revisions are not adopted, and equal ones are not merged.

use serde_json::{Value, json};

use crate::actor::{ActorDecision, NamespacedName, make, request, set_status};
use crate::cache::{GroupResource, ObjectCache, ObjectSnapshot};
use crate::objects::{delete, hashed, merge, time_at};

pub(crate) const CONTROLLER_REVISIONS: GroupResource = ("apps", "controllerrevisions");
/// Label of a Pod with its revision: the name of it (StatefulSet), or its hash (DaemonSet).
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// Characters of the owner's name in the name of a revision; upstream's.
const PREFIX_MAX: usize = 223;

/// How the revisions of one kind are named.
#[derive(Debug)]
pub(crate) struct RevisionNaming {
    /// The label of a revision with its hash.
    pub(crate) label: &'static str,
    /// The hash of the data of a revision and the number of collisions.
    pub(crate) hash: fn(&str, i64) -> String,
}

/// The naming of StatefulSets.
pub(crate) const OF_STATEFUL_SETS: RevisionNaming = RevisionNaming {
    label: "controller.kubernetes.io/hash",
    hash: data_hash,
};

/// The naming of DaemonSets. Upstream hashes a dump of Go structs; the hash here is another one.
pub(crate) const OF_DAEMON_SETS: RevisionNaming = RevisionNaming {
    label: REVISION_LABEL,
    hash: |data, collisions| match collisions {
        0 => hashed(data) + &hashed(&format!("{data}/")),
        _ => hashed(&format!("{data}{collisions}")) + &hashed(&format!("{data}{collisions}/")),
    },
};

/// Holds the revisions of one owner.
pub(crate) struct RevisionHistory<'a> {
    cache: &'a ObjectCache,
    owner: &'a ObjectSnapshot,
    /// By number, the oldest first.
    revisions: Vec<&'a ObjectSnapshot>,
}

// === impl RevisionHistory ===

impl<'a> RevisionHistory<'a> {
    pub(crate) fn of(cache: &'a ObjectCache, owner: &'a ObjectSnapshot) -> Self {
        let revisions = cache.controlled_by(owner, CONTROLLER_REVISIONS);
        let mut revisions: Vec<&ObjectSnapshot> =
            revisions.filter(|known| !known.is_deleting()).collect();
        let age = |known: &ObjectSnapshot| time_at(known.at("/metadata/creationTimestamp"));
        revisions.sort_by_key(|known| (number(known), age(known), known.key()));
        Self {
            cache,
            owner,
            revisions,
        }
    }

    /// The revision of the present template, or the request that makes it the last one.
    pub(crate) fn present(
        &self,
        naming: &RevisionNaming,
    ) -> Result<&'a ObjectSnapshot, ActorDecision> {
        let data = data(self.owner);
        let mut known = self.revisions.iter().rev();
        let equal = known.find(|known| *known.at("/data") == data);
        let last = self.revisions.last().map_or(0, |last| number(last));
        match equal {
            Some(equal) if number(equal) == last => Ok(equal),
            Some(equal) => {
                let patch = json!({"revision": last.saturating_add(1)});
                Err(request(
                    merge(equal, patch),
                    "an earlier template came back",
                ))
            }
            None => Err(self.record(naming, &data, last.saturating_add(1))),
        }
    }

    /// The revision of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&'a ObjectSnapshot> {
        let mut known = self.revisions.iter();
        known.find(|known| *known.meta().name == *name).copied()
    }

    /// Deletes the oldest revision beyond `spec.revisionHistoryLimit`. Only those that are not in use count.
    pub(crate) fn truncate(
        &self,
        is_used: impl Fn(&ObjectSnapshot) -> bool,
    ) -> Option<ActorDecision> {
        let limit = self.owner.number("/spec/revisionHistoryLimit")?;
        let limit = usize::try_from(limit).ok()?;
        let unused: Vec<_> = self
            .revisions
            .iter()
            .filter(|known| !is_used(known))
            .collect();
        let oldest = unused.first().filter(|_| unused.len() > limit)?;
        Some(request(
            delete(oldest),
            "the revision history limit is exceeded",
        ))
    }

    /// Creates a revision. If another object has its name, the next hash is another one.
    fn record(&self, naming: &RevisionNaming, data: &Value, number: i64) -> ActorDecision {
        let (meta, status) = (self.owner.meta(), self.owner.at("/status"));
        let collisions = status["collisionCount"].as_i64().unwrap_or(0);
        let hash = (naming.hash)(&go_json(data), collisions);
        let name = format!(
            "{}-{hash}",
            meta.name.get(..PREFIX_MAX).unwrap_or(&meta.name)
        );
        let key = NamespacedName::new(&meta.namespace, &name);
        if self.cache.get(CONTROLLER_REVISIONS, &key).is_some() {
            let mut status = status.clone();
            status["collisionCount"] = collisions.saturating_add(1).into();
            return set_status(
                self.owner,
                &status,
                "the name of the revision is not its own",
            );
        }
        let mut labels = self.owner.at("/spec/template/metadata/labels").clone();
        labels[naming.label] = hash.into();
        let mut revision =
            json!({"metadata": {"labels": labels}, "data": data, "revision": number});
        let annotations = self.owner.at("/metadata/annotations");
        if !annotations.is_null() {
            revision["metadata"]["annotations"] = annotations.clone();
        }
        let why = "the template has no revision";
        make(
            self.cache,
            self.owner,
            CONTROLLER_REVISIONS,
            (&name, revision),
            why,
        )
    }
}

/// The number of a revision.
pub(crate) fn number(revision: &ObjectSnapshot) -> i64 {
    revision.number("/revision").unwrap_or(0)
}

/// The template of a revision.
pub(crate) fn template(revision: &ObjectSnapshot) -> Value {
    let mut template = revision.at("/data/spec/template").clone();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    template
}

/// The data of the revision of an owner: a strategic merge patch that restores its template.
fn data(owner: &ObjectSnapshot) -> Value {
    let mut template = owner.at("/spec/template").clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// JSON as Go writes it: three characters of HTML and two line separators are escaped.
fn go_json(value: &Value) -> String {
    value
        .to_string()
        .chars()
        .fold(String::new(), |mut text, letter| {
            match letter {
                '<' => text.push_str("\\u003c"),
                '>' => text.push_str("\\u003e"),
                '&' => text.push_str("\\u0026"),
                '\u{2028}' => text.push_str("\\u2028"),
                '\u{2029}' => text.push_str("\\u2029"),
                letter => text.push(letter),
            }
            text
        })
}

/// The hash of upstream's `HashControllerRevision`: 32-bit FNV-1 of the data and the number of collisions, as letters.
fn data_hash(data: &str, collisions: i64) -> String {
    let text = format!("{data}{collisions}");
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| {
        sum.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    });
    safe_letters(&sum.to_string())
}

/// Replaces each character by a letter or digit that forms no words, like upstream's `SafeEncodeString`.
fn safe_letters(text: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let letters = text.bytes();
    let letters = letters.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
    letters.collect()
}

#[cfg(test)]
mod tests;
