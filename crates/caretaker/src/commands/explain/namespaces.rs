//! What keeps a namespace that is being deleted.
//!
//! The objects come from the lists of all kinds that the garbage collector watches, so objects are found that the
//! namespace controller has not reported yet. The conditions are those of the namespace itself.

use caretaker_controllers::runtime::record::{ObjectRecord, Uid};
use serde_json::Value;

use super::super::ClusterSnapshot;
use super::content;
use crate::output::explained::{NamespaceCondition, NamespaceContent, RemainingObject};

/// The entry of `spec.finalizers` that the namespace controller removes when the namespace is empty.
const OWN_FINALIZER: &str = "kubernetes";

impl ClusterSnapshot {
    /// `None` for other kinds, and for a namespace that is not being deleted.
    pub(super) async fn namespace_content(
        &self,
        record: &ObjectRecord,
    ) -> Option<NamespaceContent> {
        let kind = self.catalog.get(record.kind)?;
        if (&*kind.group, &*kind.resource) != ("", "namespaces") || record.meta.deletion.is_none() {
            return None;
        }
        let objects = self.collector.index().objects_in(&record.meta.name);
        let objects = objects.into_iter().map(|object| {
            let held = self.held.get(&Uid::from(object.uid.as_str()));
            let finalizers = held.map_or(&[][..], |held| &held.meta.finalizers);
            RemainingObject {
                finalizers: finalizers.iter().map(ToString::to_string).collect(),
                object,
            }
        });
        let mut objects: Vec<RemainingObject> = objects.collect();
        objects.sort_by_cached_key(|remaining| {
            (remaining.finalizers.is_empty(), remaining.object.clone())
        });
        let full = self.full_object(record).await;
        let full = full.map_or(Value::Null, |(record, _)| content(&record));
        Some(NamespaceContent {
            objects,
            spec_finalizers: spec_finalizers(&full),
            conditions: conditions(&full),
        })
    }
}

fn spec_finalizers(namespace: &Value) -> Vec<String> {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    let names = finalizers.into_iter().flatten().filter_map(Value::as_str);
    let foreign = names.filter(|name| *name != OWN_FINALIZER);
    foreign.map(str::to_owned).collect()
}

/// The conditions that hold. All conditions of a terminating namespace report a failure or what remains.
fn conditions(namespace: &Value) -> Vec<NamespaceCondition> {
    let conditions = namespace["status"]["conditions"].as_array();
    let holding = conditions.into_iter().flatten();
    let holding = holding.filter(|condition| condition["status"] == "True");
    let text =
        |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    holding
        .map(|condition| NamespaceCondition {
            reason: text(condition, "reason"),
            message: text(condition, "message"),
        })
        .collect()
}
