//! Finds the object that `TYPE/NAME` means.
//!
//! A type is what kubectl takes: resource, singular, short name or kind, alone or with its group or with version and
//! group. Where kubectl takes the first of several groups that have a type, here all of them are asked: the name mostly
//! decides, and otherwise the user has to.

use std::sync::Arc;

use anyhow::{Result, bail};
use caretaker_controllers::runtime::call::{Answer, Call, Target};
use caretaker_controllers::runtime::controller::Change;
use caretaker_controllers::runtime::kind::{Catalog, Kind, KindId, Scope};
use caretaker_controllers::runtime::record::Record;

use super::Look;
use crate::args::ObjectName;

/// What was found.
pub(super) enum Found {
    /// The object, as it is now.
    Here(Arc<Record>),
    /// Nothing, at these places.
    Absent(Vec<Target>),
}

impl Look {
    /// Reads the object that a user means, and takes note of it: its kind may be one that cannot be listed.
    pub(super) async fn find(&mut self, object: &ObjectName) -> Result<Found> {
        let kinds = meant(&self.catalog, &object.kind);
        if kinds.is_empty() {
            bail!("the server has no type {:?}", object.kind);
        }
        let places: Vec<Target> = kinds
            .iter()
            .map(|id| place(&self.catalog, *id, &self.namespace, &object.name))
            .collect();
        let (mut here, mut failure) = (Vec::<Arc<Record>>::new(), None);
        for target in &places {
            let call = Call::Get {
                target: target.clone(),
            };
            match self.effects.perform(&call).await.answer {
                Answer::Object(record) => here.push(record),
                Answer::Absent(_) | Answer::Done => {}
                Answer::Failed(why) => {
                    failure.get_or_insert((target, why));
                }
            }
        }
        // Some objects are served by two groups, events for one: that is still one object.
        here.dedup_by(|other, first| other.meta.uid == first.meta.uid);
        match (here.as_slice(), failure) {
            ([record], _) => {
                self.observe(&Change::Applied(record.clone()));
                Ok(Found::Here(record.clone()))
            }
            ([], Some((target, why))) => {
                let object = described(&self.catalog, target);
                bail!("{object} cannot be read: {why}")
            }
            ([], None) => Ok(Found::Absent(places)),
            (several, _) => {
                let types = several.iter().map(|record| record.kind);
                bail!(ambiguity(&self.catalog, object, types))
            }
        }
    }
}

/// The kinds that a type can mean. What can be deleted goes before what only looks like it: `pods` are not those of
/// metrics.k8s.io.
fn meant(catalog: &Catalog, text: &str) -> Vec<KindId> {
    let text = text.to_lowercase();
    let (name, place) = text.split_once('.').unwrap_or((&text, ""));
    let named = catalog
        .iter()
        .filter(|(_, kind)| is_called(kind, name) && is_in(kind, place));
    let all: Vec<(KindId, bool)> = named.map(|(id, kind)| (id, kind.is_deletable())).collect();
    let is_any_deletable = all.iter().any(|(_, is_deletable)| *is_deletable);
    let chosen = all
        .iter()
        .filter(|(_, is_deletable)| *is_deletable || !is_any_deletable);
    chosen.map(|(id, _)| *id).collect()
}

fn is_called(kind: &Kind, name: &str) -> bool {
    let mut aliases = kind.aliases.iter();
    *kind.resource == *name
        || kind.kind.to_lowercase() == name
        || aliases.any(|alias| **alias == *name)
}

/// Whether a kind is in a group, `apps`, or in a version of it, `v1.apps`, or just `v1` for core.
fn is_in(kind: &Kind, place: &str) -> bool {
    let mut versions = kind.versions.iter();
    let group = &*kind.group;
    place.is_empty()
        || place == group
        || versions.any(|version| match place.strip_prefix(&**version) {
            Some("") => group.is_empty(),
            Some(rest) => rest.strip_prefix('.') == Some(group),
            None => false,
        })
}

fn place(catalog: &Catalog, kind: KindId, namespace: &str, name: &str) -> Target {
    let is_namespaced = catalog
        .get(kind)
        .is_some_and(|kind| kind.scope == Scope::Namespaced);
    Target {
        kind,
        namespace: if is_namespaced { namespace } else { "" }.into(),
        name: name.into(),
    }
}

/// That there is nothing, in words.
pub(super) fn absence(catalog: &Catalog, places: &[Target]) -> String {
    let named: Vec<String> = places
        .iter()
        .map(|target| described(catalog, target))
        .collect();
    format!("there is no {}", named.join(" and no "))
}

/// `deployments.apps "web" in namespace shop`.
fn described(catalog: &Catalog, target: &Target) -> String {
    let kind = catalog
        .get(target.kind)
        .map_or_else(String::new, ToString::to_string);
    let name = &target.name;
    if target.namespace.is_empty() {
        format!("{kind} {name:?}")
    } else {
        format!("{kind} {name:?} in namespace {}", target.namespace)
    }
}

fn ambiguity(
    catalog: &Catalog,
    object: &ObjectName,
    types: impl Iterator<Item = KindId>,
) -> String {
    let ObjectName { kind, name } = object;
    let full: Vec<String> = types
        .filter_map(|id| catalog.get(id))
        .map(|kind| format!("{kind}/{name}"))
        .collect();
    format!("{kind}/{name} can be {}: say which", full.join(" or "))
}

#[cfg(test)]
mod tests;
