//! The columns of built-in kinds: what `kubectl get` shows of objects in every state that has a word of its own.
//!
//! Each case watches a kind of which there is nothing, whose bookmark tells the columns and what stands in empty
//! ones, and then lists objects as a Table. Ages depend on when a case runs and are not written down; where it
//! matters which time a cell tells, one of them lies in the [future](LATER), which is `<invalid>` on every clock.

mod pods;
mod rest;
mod volumes;
mod workloads;

use http::Method;
use serde_json::{Map, Value, json};

use crate::case::{TestCase, api_case};
use crate::objects::*;
use crate::session::{Ask, Session};
use pods::*;
use rest::*;
use volumes::*;
use workloads::*;

pub(super) const CASES: &[TestCase] = &[
    api_case!(columns_of_claims_and_their_classes),
    api_case!(columns_of_pods_that_run),
    api_case!(columns_of_pods_that_start),
    api_case!(columns_of_pods_with_sidecars),
    api_case!(columns_of_pods_that_end),
    api_case!(columns_of_pods_in_a_watch),
    api_case!(columns_of_jobs_of_all_states),
    api_case!(columns_of_jobs_in_a_watch),
    api_case!(columns_of_cron_jobs),
    api_case!(columns_of_replica_sets),
    api_case!(columns_of_deployments),
    api_case!(columns_of_stateful_sets),
    api_case!(columns_of_daemon_sets),
    api_case!(columns_of_replication_controllers),
    api_case!(columns_of_core_events),
    api_case!(columns_of_events_of_the_other_group),
    api_case!(columns_of_nodes),
    api_case!(columns_of_namespaces),
    api_case!(columns_of_config_maps),
    api_case!(columns_of_secrets),
    api_case!(columns_of_services),
    api_case!(columns_of_endpoints),
    api_case!(columns_of_leases),
    api_case!(columns_of_priority_classes),
    api_case!(columns_of_volumes),
];

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// A time that has passed on every clock.
const EARLIER: &str = "2025-06-01T00:00:00Z";
/// A time that no clock here has reached.
const LATER: &str = "2999-01-01T00:00:00Z";
/// Columns that tell how long ago something was.
const AGES: [&str; 4] = ["Age", "Last Seen", "First Seen", "Last Schedule"];

/// Tells the columns of a kind, and an empty row.
async fn nothing(s: &mut Session, resource: &Resource) {
    let mut watch = watching(s, resource, "metadata.name%3Dnothing").await;
    s.take(&mut watch, 1).await;
}

async fn watching(s: &mut Session, resource: &Resource, fields: &str) -> crate::watching::Watch {
    let path = s.path(resource);
    let query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&includeObject=None";
    let ask = Ask::get(format!("{path}?watch=true&{query}&fieldSelector={fields}"));
    s.watch_with(ask.accept(TABLE)).await
}

/// Makes objects, gives them their status, deletes those that a finalizer holds, and shows all of them.
async fn shown(s: &mut Session, resource: &Resource, objects: impl IntoIterator<Item = Value>) {
    for object in objects {
        given(s, resource, object).await;
    }
    let mut path = format!("{}?includeObject=None", s.path(resource));
    if resource.scope() == Scope::Cluster {
        path.push_str(&format!("&labelSelector=of%3D{}", s.ns()));
    }
    s.ask(Ask::get(path).accept(TABLE).viewed(rows)).await;
}

async fn given(s: &mut Session, resource: &Resource, mut object: Value) {
    if resource.scope() == Scope::Cluster {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object["metadata"]["name"] = format!("{}-{name}", s.ns()).into();
        object["metadata"]["labels"]["of"] = s.ns().into();
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let item = s.item(resource, name);
    let mut asks = vec![Ask::post(s.path(resource), &object)];
    if let Some(status) = object.get("status") {
        let patch = json!({ "status": status });
        asks.push(Ask::merge_patch(format!("{item}/status"), &patch));
    }
    if !object["metadata"]["finalizers"].is_null() {
        asks.push(Ask::new(Method::DELETE, &item));
    }
    for ask in asks {
        let answer = s.quietly(ask).await;
        if answer.status >= 300 {
            s.record(json!({"refused": name, "body": answer.body}));
        }
    }
}

/// A Table's rows, cell by cell.
fn rows(table: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&table["columnDefinitions"]);
    let row = |row: &Value| {
        let cells = columns
            .iter()
            .zip(list(&row["cells"]))
            .map(|(column, cell)| {
                let name = column["name"].as_str().unwrap_or_default();
                (name.to_owned(), timeless(name, cell))
            });
        let mut cells: Map<String, Value> = cells.collect();
        if let Some(conditions) = row.get("conditions") {
            cells.insert("(conditions)".into(), conditions.clone());
        }
        cells
    };
    let rows = list(&table["rows"]);
    if rows.is_empty() {
        return table.clone();
    }
    rows.iter().map(row).collect()
}

fn timeless(column: &str, cell: Value) -> Value {
    match (column, cell.as_str()) {
        ("Restarts", Some(text)) => match text.split_once(" (") {
            Some((restarts, ago)) if ago.starts_with(is_digit) => {
                format!("{restarts} (AGE ago)").into()
            }
            _ => cell,
        },
        (_, Some(text)) if AGES.contains(&column) && text.starts_with(is_digit) => "AGE".into(),
        _ => cell,
    }
}

fn is_digit(first: char) -> bool {
    first.is_ascii_digit()
}

/// An object that stays when it is deleted, and is deleted because of it.
fn deleted(object: Value) -> Value {
    with(
        object,
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
}
