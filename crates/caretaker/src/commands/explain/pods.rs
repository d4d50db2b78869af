//! The verdict of Pod GC about a Pod, with all Nodes and Pods.
//!
//! A new controller sees a missing Node as missing since now. A running one may have seen it earlier and act sooner, so
//! the times are estimates.

use caretaker_controllers::podgc::{self, PodGcController, PodGcKey, PodGcReason};
use caretaker_controllers::runtime::call::ApiCall;
use caretaker_controllers::runtime::controller::{
    Controller, NextStep, ObservedChange, Verdict, WakeList,
};
use caretaker_controllers::runtime::record::ObjectRecord;
use jiff::Timestamp;

use super::super::ClusterSnapshot;
use super::{answer_call, content};
use crate::args::ExplainFlags;
use crate::output::explained::ControllerVerdict;

impl ClusterSnapshot {
    /// `None` for other kinds.
    pub(super) async fn verdict_on_pod(
        &mut self,
        record: &ObjectRecord,
        args: &ExplainFlags,
    ) -> Option<ControllerVerdict> {
        let mut gc = self.with_catalog(PodGcController::new(args.retention.pod_gc()));
        let mut keys = gc.keys(record).into_iter();
        let key = keys.find(|key| matches!(key, PodGcKey::Pod(_)))?;
        let (record, now) = self.full_object(record).await?;
        let observe = |change: &ObservedChange| {
            gc.observe(change, now, &mut WakeList::default());
            gc.index().is_complete()
        };
        self.feed(podgc::interest(), observe).await;
        let verdict = self.judge_pod(&mut gc, &key, now).await;
        let has_ended = ["Succeeded", "Failed"].map(Into::into);
        let has_ended = has_ended.contains(&content(&record)["status"]["phase"]);
        let assumed = has_ended.then(|| args.retention.of_pods());
        let verdict = ControllerVerdict::of(podgc::NAME, verdict);
        Some(verdict.assuming(assumed.into_iter().flatten()))
    }

    /// Reads the Pod's Node if the decision needs it.
    async fn judge_pod(
        &self,
        gc: &mut PodGcController,
        key: &PodGcKey,
        now: Timestamp,
    ) -> Verdict<PodGcKey, PodGcReason> {
        let verdict = gc.decide(key, now);
        let NextStep::After(reads) = &verdict.next else {
            return verdict;
        };
        for read in reads {
            if let NextStep::Call(call @ ApiCall::Get { target }) = &gc.decide(read, now).next {
                let answer = self.read_full(target.clone()).await.answer;
                answer_call(gc, read, (call, &answer), now);
            }
        }
        gc.decide(key, now)
    }
}
