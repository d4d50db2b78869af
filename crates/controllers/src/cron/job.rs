//! The Job of a slot, or one made by hand, of a CronJob's template.
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

/// Who has a Job made, and what distinguishes it from the others of its template.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The CronJob.
    pub cron_job: &'a str,
    /// Its namespace, which is the Job's too.
    pub namespace: &'a str,
    /// Its identity.
    pub uid: &'a str,
    /// The Job's name.
    pub name: &'a str,
    /// The annotation that says what it was made for.
    pub mark: (&'a str, &'a str),
    /// Whether the CronJob waits for the Job's end when it is deleted in the foreground; to say so takes a right of its own.
    pub blocks_owner: bool,
}

/// The Job of a slot as it is posted.
pub(super) fn of_slot(row: &Dialect, uid: &Uid, cron: &Cron, slot: Timestamp) -> Value {
    let template = serde_json::from_slice(&cron.spec.template).unwrap_or_default();
    let order = Order {
        cron_job: &cron.name,
        namespace: &cron.namespace,
        uid: &uid.to_string(),
        name: &slots::name(&cron.name, slot),
        mark: (row.stamp, &stamp(cron, slot)),
        blocks_owner: true,
    };
    of_template(row, template, &order)
}

/// A Job of a CronJob's template, whole.
pub fn of_template(row: &Dialect, mut template: Value, order: &Order<'_>) -> Value {
    let mut part = |path: &str| template.pointer_mut(path).map(Value::take);
    let map = |part: Option<Value>| match part {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let spec = part("/spec").unwrap_or_default();
    let labels = map(part("/metadata/labels"));
    let mut annotations = map(part("/metadata/annotations"));
    annotations.insert(order.mark.0.to_owned(), order.mark.1.into());
    let mut owner = json!({
        "apiVersion": row.api_version,
        "kind": "CronJob",
        "name": order.cron_job,
        "uid": order.uid,
        "controller": true,
    });
    if order.blocks_owner {
        owner["blockOwnerDeletion"] = true.into();
    }
    let mut metadata = json!({
        "name": order.name,
        "namespace": order.namespace,
        "annotations": annotations,
        "ownerReferences": [owner],
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
