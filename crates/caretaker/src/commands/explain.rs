//! `caretaker explain`: why an object exists, what blocks its deletion, and what the controllers would do next.
//!
//! Runs the garbage collector's decision about the object and sends its reads, as the driver would. The other controllers
//! of the kind decide in [`jobs`], [`crons`] and [`pods`]; [`namespaces`] lists what keeps a namespace, [`nodes`] the
//! Pods of a Node. Writes are
//! described and not sent. The flags of the running controllers are unknown here, so this command has the same flags, and
//! the output names the values it assumed.

mod crons;
mod failures;
mod jobs;
mod namespaces;
mod nodes;
mod pods;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Error, Result, bail};
use caretaker_controllers::gc::explain::ObjectRelations;
use caretaker_controllers::gc::{GcKey, GcReason, KIND_WAIT_MAX};
use caretaker_controllers::runtime::call::{ApiAnswer, ApiCall, CallTarget};
use caretaker_controllers::runtime::controller::{
    AnsweredCall, Controller, EventNote, NextStep, ObjectIdentity, ObservedChange, Verdict,
    WakeList,
};
use caretaker_controllers::runtime::effects::PerformedCall;
use caretaker_controllers::runtime::feed_set::KindInterest;
use caretaker_controllers::runtime::kind::ApiKind;
use caretaker_controllers::runtime::record::{ObjectRecord, RecordBody, RecordView};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::ClusterSnapshot;
use super::find::{self, FoundObject};
use crate::admin::known;
use crate::args::{self, ExplainFlags};
use crate::output::explained::{ControllerVerdict, ObjectExplanation, ReportedFailure};
use crate::up::kubeconfig;
use crate::wiring::notice;

/// Reads per explanation. Most objects have one owner; ten thousand are possible.
const READS_MAX: usize = 200;

/// The garbage collector's verdict, and why a read that it needs failed.
struct GcJudgement {
    verdict: Verdict<GcKey, GcReason>,
    unanswered: Option<String>,
}

pub(super) async fn run(args: &ExplainFlags) -> Result<String> {
    let mut snapshot = ClusterSnapshot::take(&args.cluster).await?;
    let object = args.object().map_err(Error::msg)?;
    let record = match snapshot.find(&object).await? {
        FoundObject::Here(record) => record,
        FoundObject::Absent(places) => bail!(find::not_found(&snapshot.catalog, &places)),
    };
    let Some(GcJudgement {
        verdict,
        unanswered,
    }) = snapshot.judge(&record).await
    else {
        bail!("no controller handles objects of this kind");
    };
    let verdicts = snapshot.controller_verdicts(&record, args).await;
    let remaining = snapshot.namespace_content(&record).await;
    let pods = snapshot.pods_of_node(&record).await;
    let index = snapshot.collector.index();
    let kind = snapshot.catalog.get(record.kind);
    let meta = &record.meta;
    let relations = index
        .relations(&meta.uid, snapshot.clock.now())
        .unwrap_or_default();
    let admin = args.admin_kubeconfig.as_deref();
    let failures = snapshot.failures(admin, &record, &relations).await;
    let explanation = ObjectExplanation {
        object: ObjectIdentity {
            api_version: kind.map(ApiKind::api_version).unwrap_or_default(),
            kind: kind.map(|kind| kind.kind.to_string()).unwrap_or_default(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
        },
        resource: kind.map(ToString::to_string).unwrap_or_default(),
        is_collected: index.kind_state(record.kind).is_some(),
        deletion: meta.deletion,
        finalizers: meta.finalizers.iter().map(ToString::to_string).collect(),
        relations,
        verdict,
        unanswered,
        verdicts,
        remaining,
        pods,
        failures,
    };
    Ok(match args.output {
        Some(args::OutputFormat::Json) => serde_json::to_string_pretty(&explanation.json())? + "\n",
        None => explanation.text(),
    })
}

impl ClusterSnapshot {
    /// Decides about an object and sends the reads, until the decision is a write or no action.
    async fn judge(&mut self, record: &ObjectRecord) -> Option<GcJudgement> {
        let key = self.collector.keys(record).into_iter().next()?;
        // Reads that failed, with the cause.
        let mut failed: BTreeMap<GcKey, String> = BTreeMap::new();
        let mut reads = 0;
        loop {
            let verdict = self.collector.decide(&key, self.clock.now());
            let reads_needed = match &verdict.next {
                NextStep::After(keys) => keys.clone(),
                NextStep::Call(call) if call.is_read() => vec![key.clone()],
                _ => Vec::new(),
            };
            let open = reads_needed.iter().find(|key| !failed.contains_key(key));
            let unanswered = match open {
                Some(open) if reads < READS_MAX => {
                    reads += 1;
                    if let Some(why) = self.read_owner(open).await {
                        failed.insert(open.clone(), why);
                    }
                    continue;
                }
                Some(_) => {
                    let why = format!("more than {READS_MAX} owners would have to be read");
                    Some(why)
                }
                None => reads_needed.first().and_then(|key| failed.remove(key)),
            };
            return Some(GcJudgement {
                verdict,
                unanswered,
            });
        }
    }

    /// The last failures about an object and its owners that running processes know: the one that the user named, or all
    /// of this user that can be found. Without an answer the explanation is still useful.
    async fn failures(
        &self,
        admin: Option<&Path>,
        record: &ObjectRecord,
        relations: &ObjectRelations,
    ) -> Vec<ReportedFailure> {
        let name = |kind: &ApiKind, namespace: &str, name: &str| match namespace {
            "" => format!("{kind} {name}"),
            namespace => format!("{kind} {namespace}/{name}"),
        };
        let meta = &record.meta;
        let own = self.catalog.get(record.kind);
        let own = own.map(|kind| name(kind, &meta.namespace, &meta.name));
        let owners = relations.owners.iter().take(failures::OWNERS_MAX);
        let owners = owners.filter_map(|relation| {
            let owner = &relation.owner;
            let mut kinds = self.catalog.iter().map(|(_, kind)| kind);
            let kind = kinds.find(|kind| {
                *kind.kind == *owner.kind && kind.api_version() == owner.api_version
            })?;
            Some(name(kind, &owner.namespace, &owner.name))
        });
        let objects: Vec<String> = own.into_iter().chain(owners).collect();
        let Some(admin) = admin else {
            let found = known::find(&kubeconfig::directory(), &self.server);
            let asked = found.iter().map(|path| failures::ask(path, &objects));
            // A process that was killed has left its file behind.
            let answers = futures::future::join_all(asked).await;
            return answers.into_iter().flatten().flatten().collect();
        };
        match failures::ask(admin, &objects).await {
            Ok(failures) => failures,
            Err(error) => {
                notice(&format!("{error:#}"));
                Vec::new()
            }
        }
    }

    /// The verdicts of the other controllers of its kind, with the current object and the server's time.
    async fn controller_verdicts(
        &mut self,
        record: &ObjectRecord,
        args: &ExplainFlags,
    ) -> Vec<ControllerVerdict> {
        if let Some(verdict) = self.verdict_on_job(record, args).await {
            let of_cron_job = self.cron_verdict_on_job(record, args).await;
            return [verdict].into_iter().chain(of_cron_job).collect();
        }
        let mut verdict = self.verdict_on_cron_job(record, args).await;
        if verdict.is_none() {
            verdict = self.verdict_on_pod(record, args).await;
        }
        verdict.into_iter().collect()
    }

    /// Gives a new controller the catalog of kinds.
    fn with_catalog<C: Controller>(&self, mut controller: C) -> C {
        let catalog = ObservedChange::Catalog(self.catalog.clone());
        controller.observe(&catalog, self.clock.now(), &mut WakeList::default());
        controller
    }

    /// The full object and the server's time; `None` if it cannot be read.
    async fn full_object(&self, record: &ObjectRecord) -> Option<(Arc<ObjectRecord>, Timestamp)> {
        let target = CallTarget {
            kind: record.kind,
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
        };
        let PerformedCall { answer, date, .. } = self.read_full(target).await;
        match answer {
            ApiAnswer::Object(record) => Some((record, date.unwrap_or_else(|| self.clock.now()))),
            _ => None,
        }
    }

    async fn read_full(&self, target: CallTarget) -> PerformedCall {
        let effects = self.effects.clone().showing(RecordView::Full);
        effects.perform(&ApiCall::Get { target }).await
    }

    /// Feeds the objects of some kinds to a controller until it has enough, or for as long as the garbage collector
    /// waits for a list. The verdict names what is still missing then.
    async fn feed(
        &mut self,
        interest: KindInterest,
        mut has_enough: impl FnMut(&ObservedChange) -> bool,
    ) {
        let mut changes = self.feeds.subscribe(interest);
        let deadline = Instant::now() + KIND_WAIT_MAX;
        loop {
            let change = tokio::select! {
                biased;
                change = changes.recv() => change,
                // An unread channel would block the watches.
                Some(_) = self.changes.recv() => continue,
                () = sleep_until(deadline) => None,
            };
            if change.is_none_or(|change| has_enough(&change)) {
                return;
            }
        }
    }

    /// Sends the read of a decision. Returns the error if it fails.
    async fn read_owner(&mut self, key: &GcKey) -> Option<String> {
        let call = match self.collector.decide(key, self.clock.now()).next {
            NextStep::Call(call) if call.is_read() => call,
            _ => return Some("the decision needs no read".to_owned()),
        };
        let answer = self.effects.perform(&call).await.answer;
        answer_call(&mut self.collector, key, (&call, &answer), self.clock.now());
        match answer {
            ApiAnswer::Failed(failure) => Some(failure.to_string()),
            ApiAnswer::Object(_) | ApiAnswer::Page(_) | ApiAnswer::Absent(_) | ApiAnswer::Done => {
                None
            }
        }
    }
}

/// Passes the answer of a call to a controller. Wake-ups are dropped: its next decision follows at once.
fn answer_call<C: Controller>(
    controller: &mut C,
    key: &C::Key,
    (call, answer): (&ApiCall, &ApiAnswer),
    now: Timestamp,
) -> Vec<EventNote> {
    controller.answered(AnsweredCall {
        key,
        call,
        answer,
        now,
        wake: &mut WakeList::default(),
    })
}

/// The JSON of a full object.
fn content(record: &ObjectRecord) -> Value {
    match &record.body {
        RecordBody::Json(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
        RecordBody::None => Value::Null,
    }
}

/// Whether it is an aborted Job of Volcano.
fn is_aborted(record: &ObjectRecord) -> bool {
    content(record)["status"]["state"]["phase"] == "Aborted"
}
