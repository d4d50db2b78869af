//! Finds the object of `TYPE/NAME`.
//!
//! A type is what kubectl accepts: resource, singular, short name or kind, with or without group or version and group.
//! kubectl takes the first of several groups that have the type. Here all of them are read; the user has to choose if
//! several have the name.

use std::sync::Arc;

use anyhow::{Result, bail};
use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall, CallTarget};
use caretaker_controllers::runtime::controller::ObservedChange;
use caretaker_controllers::runtime::kind::{ApiKind, KindCatalog, KindId, KindScope};
use caretaker_controllers::runtime::record::ObjectRecord;

use super::ClusterSnapshot;
use crate::args::ObjectArgument;

pub(super) enum FoundObject {
    Here(Arc<ObjectRecord>),
    /// No object at these targets.
    Absent(Vec<CallTarget>),
}

impl ClusterSnapshot {
    /// Reads the object and adds it to the index: its kind may be one that cannot be listed.
    pub(super) async fn find(&mut self, object: &ObjectArgument) -> Result<FoundObject> {
        let kinds = kinds_of(&self.catalog, &object.kind);
        if kinds.is_empty() {
            bail!("the server has no resource type {:?}", object.kind);
        }
        let places: Vec<CallTarget> = kinds
            .iter()
            .map(|id| place(&self.catalog, *id, &self.namespace, &object.name))
            .collect();
        let (mut here, mut failure) = (Vec::<Arc<ObjectRecord>>::new(), None);
        for target in &places {
            let call = ApiCall::Get {
                target: target.clone(),
            };
            match self.effects.perform(&call).await.answer {
                ApiAnswer::Object(record) => here.push(record),
                ApiAnswer::Absent(_) | ApiAnswer::Page(_) | ApiAnswer::Done => {}
                ApiAnswer::Failed(why) => {
                    failure.get_or_insert((target, why));
                }
            }
        }
        // Two groups may serve the same object, for example an Event.
        here.dedup_by(|other, first| other.meta.uid == first.meta.uid);
        match (here.as_slice(), failure) {
            ([record], _) => {
                self.observe(&ObservedChange::Applied(record.clone()));
                Ok(FoundObject::Here(record.clone()))
            }
            ([], Some((target, why))) => {
                let (object, place) = described(&self.catalog, target);
                bail!("cannot read {object}{place}: {why}")
            }
            ([], None) => Ok(FoundObject::Absent(places)),
            (several, _) => {
                let types = several.iter().map(|record| record.kind);
                bail!(ambiguity(&self.catalog, object, types))
            }
        }
    }
}

/// The kinds of a type. Deletable kinds win: `pods` does not mean those of metrics.k8s.io.
fn kinds_of(catalog: &KindCatalog, text: &str) -> Vec<KindId> {
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

fn is_called(kind: &ApiKind, name: &str) -> bool {
    let mut aliases = kind.aliases.iter();
    *kind.resource == *name
        || kind.kind.to_lowercase() == name
        || aliases.any(|alias| **alias == *name)
}

/// Whether a kind is in a group, `apps`, or in a version of it, `v1.apps`, or `v1` for the core group.
fn is_in(kind: &ApiKind, place: &str) -> bool {
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

fn place(catalog: &KindCatalog, kind: KindId, namespace: &str, name: &str) -> CallTarget {
    let is_namespaced = catalog
        .get(kind)
        .is_some_and(|kind| kind.scope == KindScope::Namespaced);
    CallTarget {
        kind,
        namespace: if is_namespaced { namespace } else { "" }.into(),
        name: name.into(),
    }
}

/// `configmaps "owner" not found in namespace default`.
pub(super) fn not_found(catalog: &KindCatalog, targets: &[CallTarget]) -> String {
    let sentences = targets.iter().map(|target| {
        let (object, place) = described(catalog, target);
        format!("{object} not found{place}")
    });
    sentences.collect::<Vec<_>>().join("; ")
}

/// `deployments.apps "web"` and ` in namespace shop`.
fn described(catalog: &KindCatalog, target: &CallTarget) -> (String, String) {
    let object = format!("{} {:?}", type_name(catalog, target.kind), target.name);
    let place = match &*target.namespace {
        "" => String::new(),
        namespace => format!(" in namespace {namespace}"),
    };
    (object, place)
}

fn type_name(catalog: &KindCatalog, kind: KindId) -> String {
    let kind = catalog.get(kind);
    kind.map_or_else(String::new, ToString::to_string)
}

fn ambiguity(
    catalog: &KindCatalog,
    object: &ObjectArgument,
    types: impl Iterator<Item = KindId>,
) -> String {
    let ObjectArgument { kind, name } = object;
    let full: Vec<String> = types
        .filter_map(|id| catalog.get(id))
        .map(|kind| format!("{kind}/{name}"))
        .collect();
    format!("{kind}/{name} is ambiguous: use {}", full.join(" or "))
}

#[cfg(test)]
mod tests;
