//! `caretaker graph`: what hangs on what.

use anyhow::{Result, bail};
use caretaker_controllers::gc::dot;
use caretaker_controllers::gc::view::{Part, View};
use caretaker_controllers::runtime::record::Uid;

use super::Look;
use super::find::{self, Found};
use crate::args::{Drawing, Graph, ObjectName};
use crate::output::tree::{self, Namespaces};

/// The graph as it is to be printed.
pub(super) async fn run(args: &Graph) -> Result<String> {
    let mut look = Look::take(&args.place).await?;
    let part = match &args.object {
        Some(object) => {
            let begin = beginning(&mut look, object).await?;
            match (args.up, args.down) {
                (true, _) => Part::Above(begin),
                (_, true) => Part::Below(begin),
                _ => Part::Through(begin),
            }
        }
        None if args.all_namespaces => Part::Related,
        None => Part::Namespace(look.namespace.clone()),
    };
    let view = View::of(look.collector.index(), &part);
    if view.nodes.is_empty() {
        let place = match part {
            Part::Namespace(namespace) => format!("in namespace {namespace}"),
            _ => "here".to_owned(),
        };
        eprintln!("caretaker: nothing {place} owns anything or is owned");
    }
    Ok(match args.output {
        Drawing::Tree => {
            let namespaces = if args.all_namespaces {
                Namespaces::All
            } else {
                Namespaces::But(&look.namespace)
            };
            tree::tree(&view, namespaces)
        }
        Drawing::Json => serde_json::to_string_pretty(&view)? + "\n",
        Drawing::Dot => dot::dot(&view),
    })
}

/// The object to begin with. One that is gone will do as long as others refer to it.
async fn beginning(look: &mut Look, object: &ObjectName) -> Result<Vec<Uid>> {
    match look.find(object).await? {
        Found::Here(record) => Ok(vec![record.meta.uid.clone()]),
        Found::Absent(places) => {
            let index = look.collector.index();
            let known: Vec<Uid> = places
                .iter()
                .flat_map(|place| index.known_as(place))
                .collect();
            if known.is_empty() {
                bail!(find::absence(&look.catalog, &places));
            }
            Ok(known)
        }
    }
}
