//! What Pod GC decides about a Pod: by the Nodes and the other Pods there are, and with upstream's threshold.
//!
//! It is learned anew for this, so a Node that is missing seems to be since now: times are the earliest possible.

use caretaker_controllers::gc::ORPHAN_HOLD_MAX;
use caretaker_controllers::podgc::{self, Key, PodGc, Reason, Settings};
use caretaker_controllers::runtime::call::Call;
use caretaker_controllers::runtime::controller::{Change, Controller, Next, Verdict, Wake};
use caretaker_controllers::runtime::record::{Record, View};
use tokio::time::{Instant, sleep_until};

use super::super::Look;
use crate::output::explained::Opinion;

impl Look {
    /// Nothing if it is no Pod.
    pub(super) async fn opinion_on_pod(&mut self, record: &Record) -> Option<Opinion> {
        let mut gc = PodGc::new(Settings::default());
        let catalog = Change::Catalog(self.catalog.clone());
        gc.observe(&catalog, self.clock.now(), &mut Wake::default());
        let mut keys = gc.keys(record).into_iter();
        let key = keys.find(|key| matches!(key, Key::Pod(_)))?;
        self.learn_pods(&mut gc).await;
        let verdict = self.judge_pod(&mut gc, &key).await;
        Some(Opinion::of(podgc::NAME, verdict))
    }

    async fn learn_pods(&mut self, gc: &mut PodGc) {
        let mut changes = self.feeds.subscribe(podgc::interest());
        let deadline = Instant::now() + ORPHAN_HOLD_MAX;
        while !gc.index().is_complete() {
            let change = tokio::select! {
                biased;
                change = changes.recv() => change,
                // Somebody who does not listen would hold up the feeds.
                Some(_) = self.changes.recv() => continue,
                // What is not known then is said.
                () = sleep_until(deadline) => None,
            };
            let Some(change) = change else {
                return;
            };
            gc.observe(&change, self.clock.now(), &mut Wake::default());
        }
    }

    /// Asks for the Pod's Node, if that is what is to be done first.
    async fn judge_pod(&self, gc: &mut PodGc, key: &Key) -> Verdict<Key, Reason> {
        let verdict = gc.decide(key, self.clock.now());
        let Next::After(questions) = &verdict.next else {
            return verdict;
        };
        let effects = self.effects.clone().showing(View::Full);
        for question in questions {
            if let Next::Call(call @ Call::Get { .. }) = gc.decide(question, self.clock.now()).next
            {
                let answer = effects.perform(&call).await.answer;
                let wake = &mut Wake::default();
                gc.answered(question, &call, &answer, self.clock.now(), wake);
            }
        }
        gc.decide(key, self.clock.now())
    }
}
