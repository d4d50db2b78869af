//! The task of one subscriber: sends it the catalog and joins it to the feeds it wants.
//!
//! A task of its own, because a slow subscriber must not hold up another one, and because the catalog has to come before
//! the changes of the kinds that are new in it. It also sends `Syncing` for a kind before its feed sends more, and `Gone`
//! if the feed panicked: a feed cannot send that itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use caretaker_machinery::clock::Clock;
use tokio::sync::{mpsc, watch};

use super::super::controller::ObservedChange;
use super::super::feed::FeedCommand;
use super::super::kind::{KindCatalog, KindId, KindState};
use super::KindInterest;

/// The feeds that can be joined.
#[derive(Clone, Default)]
pub(super) struct FeedPlan {
    /// `None` before the first round of discovery.
    pub(super) catalog: Option<Arc<KindCatalog>>,
    pub(super) feeds: BTreeMap<KindId, RunningFeed>,
    /// The generation of each kind's feed that crashed last.
    pub(super) crashed: BTreeMap<KindId, u64>,
}

/// A running feed, as others see it.
#[derive(Clone)]
pub(super) struct RunningFeed {
    /// Never the same twice, so that a feed that was started anew is joined anew.
    pub(super) generation: u64,
    /// Few commands, all by our own tasks: one per subscriber, discovery and stop.
    pub(super) commands: mpsc::UnboundedSender<FeedCommand>,
}

/// One subscriber, and what it has received.
struct FeedSubscription {
    interest: KindInterest,
    sender: mpsc::Sender<ObservedChange>,
    clock: Clock,
    sent_catalog: Option<Arc<KindCatalog>>,
    /// The feeds it has joined, by their generation.
    joined: BTreeMap<KindId, u64>,
    /// Kinds that it got `Syncing` for, and whose feeds it has not joined since.
    announced: BTreeSet<KindId>,
}

/// The subscriber has dropped its channel.
type SubscriberGone = mpsc::error::SendError<ObservedChange>;

/// Runs until the subscriber or all feeds are gone. Returns the subscriber's number.
pub(super) async fn run(
    number: u64,
    interest: KindInterest,
    sender: mpsc::Sender<ObservedChange>,
    clock: Clock,
    mut plan: watch::Receiver<Arc<FeedPlan>>,
) -> u64 {
    let mut subscription = FeedSubscription {
        interest,
        sender,
        clock,
        sent_catalog: None,
        joined: BTreeMap::new(),
        announced: BTreeSet::new(),
    };
    loop {
        let current = plan.borrow_and_update().clone();
        if let Some(catalog) = &current.catalog
            && subscription.follow(&current, catalog).await.is_err()
        {
            return number;
        }
        tokio::select! {
            biased;
            () = subscription.sender.closed() => return number,
            changed = plan.changed() => if changed.is_err() {
                return number;
            },
        }
    }
}

// === impl FeedSubscription ===

impl FeedSubscription {
    /// Sends what is new in a plan, then joins the feeds that are new in it.
    async fn follow(
        &mut self,
        plan: &FeedPlan,
        catalog: &Arc<KindCatalog>,
    ) -> Result<(), SubscriberGone> {
        if self.sent_catalog.as_ref() != Some(catalog) {
            self.sender
                .send(ObservedChange::Catalog(catalog.clone()))
                .await?;
            self.sent_catalog = Some(catalog.clone());
        }
        self.retract(plan, catalog).await?;
        let feeds = plan.feeds.iter();
        let new: Vec<(KindId, &RunningFeed)> = feeds
            .filter(|(id, running)| {
                self.wants(catalog, **id) && self.joined.get(id) != Some(&running.generation)
            })
            .map(|(id, running)| (*id, running))
            .collect();
        // `Syncing` is sent for all kinds before the first feed is joined, because a controller takes its kinds as
        // complete once none of them is syncing.
        for (id, _) in &new {
            self.announce(*id).await?;
        }
        for (id, running) in new {
            self.announced.remove(&id);
            self.joined.insert(id, running.generation);
            // A feed that has ended meanwhile will be replaced in the next plan.
            let _ = running
                .commands
                .send(FeedCommand::Join(self.sender.clone()));
        }
        Ok(())
    }

    /// Sends `Gone` for feeds that panicked: the objects they have shown are not known any more.
    async fn retract(
        &mut self,
        plan: &FeedPlan,
        catalog: &KindCatalog,
    ) -> Result<(), SubscriberGone> {
        for (id, generation) in &plan.crashed {
            if self.joined.get(id) == Some(generation) {
                self.joined.remove(id);
                self.send_state(*id, KindState::Gone).await?;
                if self.wants(catalog, *id) {
                    self.announce(*id).await?;
                }
            }
        }
        // The kind was removed before its feed was started again.
        let left: Vec<KindId> = self.announced.iter().copied().collect();
        for id in left {
            if !self.wants(catalog, id) {
                self.announced.remove(&id);
                self.send_state(id, KindState::Gone).await?;
            }
        }
        Ok(())
    }

    async fn announce(&mut self, id: KindId) -> Result<(), SubscriberGone> {
        if self.announced.insert(id) {
            let state = KindState::Syncing(self.clock.steady().timestamp());
            self.send_state(id, state).await?;
        }
        Ok(())
    }

    async fn send_state(&self, id: KindId, state: KindState) -> Result<(), SubscriberGone> {
        self.sender.send(ObservedChange::Kind(id, state)).await
    }

    fn wants(&self, catalog: &KindCatalog, id: KindId) -> bool {
        let kind = catalog.get(id);
        kind.is_some_and(|kind| self.interest.includes(kind))
    }
}
