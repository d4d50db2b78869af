//! `caretaker explain`: why an object lives, why it is stuck, what happens to it next.
//!
//! The collector's own decision about the object, with the reads it asks for carried out as the driver would, and what
//! the other controllers that look after its kind decide: [`jobs`], [`crons`], [`pods`]. What they would write is told and
//! not done. With which flags they run cannot be seen from here, so these are flags of this command, too, and what a
//! decision rests on is told with it.

mod crons;
mod jobs;
mod pods;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use caretaker_controllers::gc::{Key, ORPHAN_HOLD_MAX, Reason};
use caretaker_controllers::runtime::call::{Answer, Call, Target};
use caretaker_controllers::runtime::controller::{
    CallAnswer, Change, Controller, Identity, Next, Verdict, Wake,
};
use caretaker_controllers::runtime::effects::Performed;
use caretaker_controllers::runtime::feed_set::Interest;
use caretaker_controllers::runtime::kind::Kind;
use caretaker_controllers::runtime::record::{Body, Record, View};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::Look;
use super::find::{self, Found};
use crate::args::{self, Explain};
use crate::output::explained::{Explained, Opinion};

/// How many questions one explanation may ask. An object has one owner, mostly; ten thousand are possible.
const READS_MAX: usize = 200;

/// What is decided about an object, and why questions before it were not answered, if so.
struct Judgement {
    verdict: Verdict<Key, Reason>,
    unanswered: Option<String>,
}

/// The explanation as it is to be printed.
pub(super) async fn run(args: &Explain) -> Result<String> {
    let mut look = Look::take(&args.place).await?;
    let record = match look.find(&args.object).await? {
        Found::Here(record) => record,
        Found::Absent(places) => bail!(find::absence(&look.catalog, &places)),
    };
    let Some(Judgement {
        verdict,
        unanswered,
    }) = look.judge(&record).await
    else {
        bail!("nothing is ever decided about it");
    };
    let opinions = look.opinions(&record, args).await;
    let index = look.collector.index();
    let kind = look.catalog.get(record.kind);
    let meta = &record.meta;
    let explained = Explained {
        object: Identity {
            api_version: kind.map(Kind::api_version).unwrap_or_default(),
            kind: kind.map(|kind| kind.kind.to_string()).unwrap_or_default(),
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
        },
        resource: kind.map(ToString::to_string).unwrap_or_default(),
        is_collected: index.kind_state(record.kind).is_some(),
        deletion: meta.deletion,
        finalizers: meta.finalizers.iter().map(ToString::to_string).collect(),
        ties: index.ties(&meta.uid, look.clock.now()).unwrap_or_default(),
        verdict,
        unanswered,
        opinions,
    };
    Ok(match args.output {
        Some(args::Output::Json) => serde_json::to_string_pretty(&explained.json())? + "\n",
        None => explained.text(),
    })
}

impl Look {
    /// Decides about an object, reading what has to be read, until something would be written or nothing is to do.
    async fn judge(&mut self, record: &Record) -> Option<Judgement> {
        let key = self.collector.keys(record).into_iter().next()?;
        // What was asked and not answered, and why.
        let mut failed: BTreeMap<Key, String> = BTreeMap::new();
        let mut reads = 0;
        loop {
            let verdict = self.collector.decide(&key, self.clock.now());
            let questions = match &verdict.next {
                Next::After(keys) => keys.clone(),
                Next::Call(call) if call.is_read() => vec![key.clone()],
                _ => Vec::new(),
            };
            let open = questions.iter().find(|key| !failed.contains_key(key));
            let unanswered = match open {
                Some(open) if reads < READS_MAX => {
                    reads += 1;
                    if let Some(why) = self.ask(open).await {
                        failed.insert(open.clone(), why);
                    }
                    continue;
                }
                Some(_) => Some(format!(
                    "more than {READS_MAX} owners would have to be asked for"
                )),
                None => questions.first().and_then(|key| failed.remove(key)),
            };
            return Some(Judgement {
                verdict,
                unanswered,
            });
        }
    }

    /// What the other controllers decide, those that look after its kind, from the object as it is now and by the
    /// server's time.
    async fn opinions(&mut self, record: &Record, args: &Explain) -> Vec<Opinion> {
        let mut opinion = self.opinion_on_job(record, args).await;
        if opinion.is_none() {
            opinion = self.opinion_on_cron_job(record, args).await;
        }
        if opinion.is_none() {
            opinion = self.opinion_on_pod(record, args).await;
        }
        opinion.into_iter().collect()
    }

    /// A controller that knows which kinds there are.
    fn taught<C: Controller>(&self, mut controller: C) -> C {
        let catalog = Change::Catalog(self.catalog.clone());
        controller.observe(&catalog, self.clock.now(), &mut Wake::default());
        controller
    }

    /// The whole object, and what time it is for the server. Nothing if it is gone, or may not be read.
    async fn whole(&self, record: &Record) -> Option<(Arc<Record>, Timestamp)> {
        let target = Target {
            kind: record.kind,
            namespace: record.meta.namespace.clone(),
            name: record.meta.name.clone(),
        };
        let Performed { answer, date, .. } = self.read_whole(target).await;
        match answer {
            Answer::Object(record) => Some((record, date.unwrap_or_else(|| self.clock.now()))),
            _ => None,
        }
    }

    async fn read_whole(&self, target: Target) -> Performed {
        let effects = self.effects.clone().showing(View::Full);
        effects.perform(&Call::Get { target }).await
    }

    /// Shows the objects of some kinds, until somebody has seen enough, or for as long as the collector would wait. What is
    /// not known then is said by whoever decides.
    async fn show(&mut self, interest: Interest, mut has_seen_enough: impl FnMut(&Change) -> bool) {
        let mut changes = self.feeds.subscribe(interest);
        let deadline = Instant::now() + ORPHAN_HOLD_MAX;
        loop {
            let change = tokio::select! {
                biased;
                change = changes.recv() => change,
                // Somebody who does not listen would hold up the feeds.
                Some(_) = self.changes.recv() => continue,
                () = sleep_until(deadline) => None,
            };
            if change.is_none_or(|change| has_seen_enough(&change)) {
                return;
            }
        }
    }

    /// Carries out the read that a decision asks for. Returns why it was not answered.
    async fn ask(&mut self, key: &Key) -> Option<String> {
        let Next::Call(call @ Call::Get { .. }) = self.collector.decide(key, self.clock.now()).next
        else {
            return Some("there is nothing to ask".to_owned());
        };
        let answer = self.effects.perform(&call).await.answer;
        let wake = &mut Wake::default();
        self.collector.answered(CallAnswer {
            key,
            call: &call,
            answer: &answer,
            now: self.clock.now(),
            wake,
        });
        match answer {
            Answer::Failed(failure) => Some(failure.to_string()),
            Answer::Object(_) | Answer::Absent(_) | Answer::Done => None,
        }
    }
}

/// What is in an object.
fn content(record: &Record) -> Value {
    match &record.body {
        Body::Json(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
        Body::None => Value::Null,
    }
}

/// Whether it is a Job of Volcano that was put aside.
fn is_aborted(record: &Record) -> bool {
    content(record)["status"]["state"]["phase"] == "Aborted"
}
