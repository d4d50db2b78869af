//! The task of one subscriber: tells it the catalog and introduces it to the feeds it wants.
//!
//! A task of its own, because a subscriber that does not keep up must hold up nobody else, and because the catalog has to
//! come before the changes of the kinds that are new in it. It also says that a kind is in its first list, before any feed
//! says more, and that it is gone if its feed crashed: a feed cannot say so itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use caretaker_machinery::clock::Clock;
use tokio::sync::{mpsc, watch};

use super::super::controller::Change;
use super::super::feed::Command;
use super::super::kind::{Catalog, KindId, KindState};
use super::Interest;

/// What there is to listen to.
#[derive(Clone, Default)]
pub(super) struct Plan {
    /// Nothing before the first discovery.
    pub(super) catalog: Option<Arc<Catalog>>,
    pub(super) feeds: BTreeMap<KindId, Running>,
    /// The generation of each kind's feed that crashed last.
    pub(super) crashed: BTreeMap<KindId, u64>,
}

/// A running feed, as others see it.
#[derive(Clone)]
pub(super) struct Running {
    /// Never the same twice, so that a feed that was started anew is joined anew.
    pub(super) generation: u64,
    /// Few commands, all by our own tasks: one per subscriber, discovery and stop.
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

/// One subscriber, and what it has been told.
struct Courier {
    interest: Interest,
    sender: mpsc::Sender<Change>,
    clock: Clock,
    told: Option<Arc<Catalog>>,
    /// The feeds it was introduced to, by their generation.
    joined: BTreeMap<KindId, u64>,
    /// Kinds that it was told are in their first list, and whose feeds it has not joined since.
    announced: BTreeSet<KindId>,
}

/// The subscriber does not listen any more.
type Deaf = mpsc::error::SendError<Change>;

/// Runs until the subscriber or all feeds are gone. Returns the subscriber's number.
pub(super) async fn run(
    number: u64,
    interest: Interest,
    sender: mpsc::Sender<Change>,
    clock: Clock,
    mut plan: watch::Receiver<Arc<Plan>>,
) -> u64 {
    let mut courier = Courier {
        interest,
        sender,
        clock,
        told: None,
        joined: BTreeMap::new(),
        announced: BTreeSet::new(),
    };
    loop {
        let current = plan.borrow_and_update().clone();
        if let Some(catalog) = &current.catalog
            && courier.follow(&current, catalog).await.is_err()
        {
            return number;
        }
        tokio::select! {
            biased;
            () = courier.sender.closed() => return number,
            changed = plan.changed() => if changed.is_err() {
                return number;
            },
        }
    }
}

// === impl Courier ===

impl Courier {
    /// Tells what is new in a plan, then introduces the subscriber to the feeds that are new in it.
    async fn follow(&mut self, plan: &Plan, catalog: &Arc<Catalog>) -> Result<(), Deaf> {
        if self.told.as_ref() != Some(catalog) {
            self.sender.send(Change::Catalog(catalog.clone())).await?;
            self.told = Some(catalog.clone());
        }
        self.mourn(plan, catalog).await?;
        let feeds = plan.feeds.iter();
        let new: Vec<(KindId, &Running)> = feeds
            .filter(|(id, running)| {
                self.wants(catalog, **id) && self.joined.get(id) != Some(&running.generation)
            })
            .map(|(id, running)| (*id, running))
            .collect();
        // All of them before the first joins: whoever knows of no list under way takes a kind for complete.
        for (id, _) in &new {
            self.announce(*id).await?;
        }
        for (id, running) in new {
            self.announced.remove(&id);
            self.joined.insert(id, running.generation);
            // A feed that has ended meanwhile will be replaced in the next plan.
            let _ = running.commands.send(Command::Join(self.sender.clone()));
        }
        Ok(())
    }

    /// Says what feeds that crashed cannot say: that what they have shown does not hold any more.
    async fn mourn(&mut self, plan: &Plan, catalog: &Catalog) -> Result<(), Deaf> {
        for (id, generation) in &plan.crashed {
            if self.joined.get(id) == Some(generation) {
                self.joined.remove(id);
                self.tell(*id, KindState::Gone).await?;
                if self.wants(catalog, *id) {
                    self.announce(*id).await?;
                }
            }
        }
        // A kind that went before its feed was started again.
        let left: Vec<KindId> = self.announced.iter().copied().collect();
        for id in left {
            if !self.wants(catalog, id) {
                self.announced.remove(&id);
                self.tell(id, KindState::Gone).await?;
            }
        }
        Ok(())
    }

    async fn announce(&mut self, id: KindId) -> Result<(), Deaf> {
        if self.announced.insert(id) {
            let state = KindState::Syncing(self.clock.now());
            self.tell(id, state).await?;
        }
        Ok(())
    }

    async fn tell(&self, id: KindId, state: KindState) -> Result<(), Deaf> {
        self.sender.send(Change::Kind(id, state)).await
    }

    fn wants(&self, catalog: &Catalog, id: KindId) -> bool {
        let kind = catalog.get(id);
        kind.is_some_and(|kind| self.interest.includes(kind))
    }
}
