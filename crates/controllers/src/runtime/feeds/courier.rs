//! The task of one subscriber: tells it the catalog and introduces it to the feeds it wants.
//!
//! A task of its own, because a subscriber that does not keep up must hold up nobody else, and because the catalog has to
//! come before the changes of the kinds that are new in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::super::controller::Change;
use super::super::feed::Command;
use super::super::kind::{Catalog, KindId};
use super::Interest;

/// What there is to listen to.
#[derive(Clone, Default)]
pub(super) struct Plan {
    /// Nothing before the first discovery.
    pub(super) catalog: Option<Arc<Catalog>>,
    pub(super) feeds: BTreeMap<KindId, Running>,
}

/// A running feed, as others see it.
#[derive(Clone)]
pub(super) struct Running {
    /// Never the same twice, so that a feed that was started anew is joined anew.
    pub(super) generation: u64,
    /// Few commands, all by our own tasks: one per subscriber, discovery and stop.
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

/// Runs until the subscriber or all feeds are gone. Returns the subscriber's number.
pub(super) async fn run(
    number: u64,
    interest: Interest,
    sender: mpsc::Sender<Change>,
    mut plan: watch::Receiver<Arc<Plan>>,
) -> u64 {
    let mut told: Option<Arc<Catalog>> = None;
    let mut joined: BTreeMap<KindId, u64> = BTreeMap::new();
    loop {
        let current = plan.borrow_and_update().clone();
        if let Some(catalog) = &current.catalog {
            if told.as_ref() != Some(catalog) {
                if sender.send(Change::Catalog(catalog.clone())).await.is_err() {
                    return number;
                }
                told = Some(catalog.clone());
            }
            joined.retain(|id, _| current.feeds.contains_key(id));
            for (id, running) in &current.feeds {
                let is_wanted = catalog
                    .get(*id)
                    .is_some_and(|kind| interest.view(kind).is_some());
                if is_wanted && joined.insert(*id, running.generation) != Some(running.generation) {
                    // A feed that has ended meanwhile will be replaced in the next plan.
                    let _ = running.commands.send(Command::Join(sender.clone()));
                }
            }
        }
        tokio::select! {
            biased;
            () = sender.closed() => return number,
            changed = plan.changed() => if changed.is_err() {
                return number;
            },
        }
    }
}
