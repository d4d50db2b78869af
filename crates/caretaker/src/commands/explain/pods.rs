//! What Pod GC decides about a Pod: by the Nodes and the other Pods there are.
//!
//! It is learned anew for this, so a Node that is missing seems to be since now: times are the earliest possible.

use caretaker_controllers::podgc::{self, Key, PodGc, Reason};
use caretaker_controllers::runtime::call::Call;
use caretaker_controllers::runtime::controller::{
    CallAnswer, Change, Controller, Next, Verdict, Wake,
};
use caretaker_controllers::runtime::record::Record;
use jiff::Timestamp;

use super::super::Look;
use super::content;
use crate::args::Explain;
use crate::output::explained::Opinion;

impl Look {
    /// Nothing if it is no Pod.
    pub(super) async fn opinion_on_pod(
        &mut self,
        record: &Record,
        args: &Explain,
    ) -> Option<Opinion> {
        let mut gc = self.taught(PodGc::new(args.limits.pod_gc()));
        let mut keys = gc.keys(record).into_iter();
        let key = keys.find(|key| matches!(key, Key::Pod(_)))?;
        let (record, now) = self.whole(record).await?;
        let learn = |change: &Change| {
            gc.observe(change, now, &mut Wake::default());
            gc.index().is_complete()
        };
        self.show(podgc::interest(), learn).await;
        let verdict = self.judge_pod(&mut gc, &key, now).await;
        let has_ended = ["Succeeded", "Failed"].map(Into::into);
        let has_ended = has_ended.contains(&content(&record)["status"]["phase"]);
        let assumed = has_ended.then(|| args.limits.of_pods());
        let opinion = Opinion::of(podgc::NAME, verdict);
        Some(opinion.assuming(assumed.into_iter().flatten()))
    }

    /// Asks for the Pod's Node, if that is what is to be done first.
    async fn judge_pod(&self, gc: &mut PodGc, key: &Key, now: Timestamp) -> Verdict<Key, Reason> {
        let verdict = gc.decide(key, now);
        let Next::After(questions) = &verdict.next else {
            return verdict;
        };
        for question in questions {
            if let Next::Call(call @ Call::Get { target }) = &gc.decide(question, now).next {
                let answer = self.read_whole(target.clone()).await.answer;
                gc.answered(CallAnswer {
                    key: question,
                    call,
                    answer: &answer,
                    now,
                    wake: &mut Wake::default(),
                });
            }
        }
        gc.decide(key, now)
    }
}
