//! `caretaker graph`: owners and dependents.

use anyhow::{Error, Result, bail};
use caretaker_controllers::gc::dot;
use caretaker_controllers::gc::view::{GraphSelection, GraphView};
use caretaker_controllers::runtime::record::Uid;

use super::ClusterSnapshot;
use super::find::{self, FoundObject};
use crate::args::{GraphFlags, GraphFormat, ObjectArgument};
use crate::output::tree::{self, ShownNamespaces};
use crate::wiring::notice;

pub(super) async fn run(args: &GraphFlags) -> Result<String> {
    let mut snapshot = ClusterSnapshot::take(&args.cluster).await?;
    let object = args.object().map_err(Error::msg)?;
    let part = match &object {
        Some(object) => {
            let start = start_uids(&mut snapshot, object).await?;
            match (args.up, args.down) {
                (true, _) => GraphSelection::Above(start),
                (_, true) => GraphSelection::Below(start),
                _ => GraphSelection::Through(start),
            }
        }
        None if args.all_namespaces => GraphSelection::Related,
        None => GraphSelection::Namespace(snapshot.namespace.clone()),
    };
    let view = GraphView::of(snapshot.collector.index(), &part);
    if view.nodes.is_empty() {
        let place = match part {
            GraphSelection::Namespace(namespace) => {
                check_namespace(&mut snapshot, &namespace).await?;
                format!(" in namespace {namespace}")
            }
            _ => String::new(),
        };
        notice(&format!("no objects with owners or dependents{place}"));
    }
    Ok(match args.output {
        GraphFormat::Tree => {
            let namespaces = if args.all_namespaces {
                ShownNamespaces::All
            } else {
                ShownNamespaces::But(&snapshot.namespace)
            };
            tree::tree(&view, namespaces)
        }
        GraphFormat::Json => serde_json::to_string_pretty(&view)? + "\n",
        GraphFormat::Dot => dot::dot(&view),
    })
}

/// Fails if there is no such namespace. A namespace that may not be read counts as there.
async fn check_namespace(snapshot: &mut ClusterSnapshot, namespace: &str) -> Result<()> {
    let object = ObjectArgument {
        kind: "namespaces".to_owned(),
        name: namespace.to_owned(),
    };
    match snapshot.find(&object).await {
        Ok(FoundObject::Absent(_)) => bail!("there is no namespace {namespace}"),
        Ok(FoundObject::Here(_)) | Err(_) => Ok(()),
    }
}

/// The uids of the object. An object that is gone counts while references to it exist.
async fn start_uids(snapshot: &mut ClusterSnapshot, object: &ObjectArgument) -> Result<Vec<Uid>> {
    match snapshot.find(object).await? {
        FoundObject::Here(record) => Ok(vec![record.meta.uid.clone()]),
        FoundObject::Absent(places) => {
            let index = snapshot.collector.index();
            let known: Vec<Uid> = places
                .iter()
                .flat_map(|place| index.uids_named(place))
                .collect();
            if known.is_empty() {
                bail!(find::not_found(&snapshot.catalog, &places));
            }
            Ok(known)
        }
    }
}
