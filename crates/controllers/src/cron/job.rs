//! The Job of a slot, made of a CronJob's template.
//!
//! Mirrors `getJobFromTemplate2` and Volcano's `getJobFromTemplate`: labels, annotations and spec of the template, the
//! slot in an annotation, and the CronJob as the one owner and controller.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::dialects::Dialect;
use super::index::Cron;
use super::slots;
use crate::runtime::record::Uid;

/// The whole Job as it is posted.
pub(super) fn of_slot(row: &Dialect, uid: &Uid, cron: &Cron, slot: Timestamp) -> Value {
    let mut template: Value = serde_json::from_slice(&cron.spec.template).unwrap_or_default();
    let mut part = |path: &str| template.pointer_mut(path).map(Value::take);
    let map = |part: Option<Value>| match part {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let spec = part("/spec").unwrap_or_default();
    let labels = map(part("/metadata/labels"));
    let mut annotations = map(part("/metadata/annotations"));
    annotations.insert(row.stamp.to_owned(), stamp(cron, slot).into());
    let mut metadata = json!({
        "name": slots::name(&cron.name, slot),
        "namespace": &*cron.namespace,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": row.api_version,
            "kind": "CronJob",
            "name": &*cron.name,
            "uid": uid.to_string(),
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    if !labels.is_empty() {
        metadata["labels"] = labels.into();
    }
    json!({
        "apiVersion": row.api_version,
        "kind": "Job",
        "metadata": metadata,
        "spec": spec,
    })
}

/// The slot in the zone that the CronJob names, in UTC if it names none, whatever zone its schedule is read in.
fn stamp(cron: &Cron, slot: Timestamp) -> String {
    match &cron.spec.zone {
        Some(Ok(zone)) if *zone != TimeZone::UTC => {
            let zoned = slot.to_zoned(zone.clone());
            match zoned.offset().seconds() {
                0 => format!("{slot:.0}"),
                _ => zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            }
        }
        _ => format!("{slot:.0}"),
    }
}
