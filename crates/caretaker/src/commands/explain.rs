//! `caretaker explain`: why an object lives, why it is stuck, what happens to it next.
//!
//! The collector's own decision about the object, with the reads it asks for carried out as the driver would, and what
//! the other controllers that look after its kind decide. What they would write is told and not done.

mod crons;
mod pods;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use caretaker_controllers::gc::{Key, Reason};
use caretaker_controllers::runtime::call::{Answer, Call, Propagation, Target};
use caretaker_controllers::runtime::controller::{
    Change, Controller, Identity, Next, Verdict, Wake,
};
use caretaker_controllers::runtime::effects::Performed;
use caretaker_controllers::runtime::kind::Kind;
use caretaker_controllers::runtime::record::{Record, View};
use caretaker_controllers::ttl::{self, Rules, Ttl};

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
    let opinions = look.opinions(&record).await;
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
    async fn opinions(&mut self, record: &Record) -> Vec<Opinion> {
        let mut ends: Vec<Ttl> = ttl::KINDS
            .iter()
            .map(|row| Ttl::new(row, Rules::default()))
            .collect();
        let catalog = Change::Catalog(self.catalog.clone());
        for end in &mut ends {
            end.observe(&catalog, self.clock.now(), &mut Wake::default());
        }
        ends.retain(|end| !end.keys(record).is_empty());
        if ends.is_empty() {
            let opinion = match self.opinion_on_cron_job(record).await {
                Some(opinion) => Some(opinion),
                None => self.opinion_on_pod(record).await,
            };
            return opinion.into_iter().collect();
        }
        let call = Call::Get {
            target: Target {
                kind: record.kind,
                namespace: record.meta.namespace.clone(),
                name: record.meta.name.clone(),
            },
        };
        let effects = self.effects.clone().showing(View::Full);
        let Performed { answer, date, .. } = effects.perform(&call).await;
        let Answer::Object(record) = answer else {
            return Vec::new();
        };
        let now = date.unwrap_or_else(|| self.clock.now());
        let opinions = ends.iter().filter_map(|end| {
            let verdict = end.explain(&record, now)?;
            let policy = Propagation::Foreground;
            Some(Opinion::of_an_end(end.name(), verdict, policy))
        });
        opinions.collect()
    }

    /// Carries out the read that a decision asks for. Returns why it was not answered.
    async fn ask(&mut self, key: &Key) -> Option<String> {
        let Next::Call(call @ Call::Get { .. }) = self.collector.decide(key, self.clock.now()).next
        else {
            return Some("there is nothing to ask".to_owned());
        };
        let answer = self.effects.perform(&call).await.answer;
        let wake = &mut Wake::default();
        self.collector
            .answered(key, &call, &answer, self.clock.now(), wake);
        match answer {
            Answer::Failed(failure) => Some(failure.to_string()),
            Answer::Object(_) | Answer::Absent(_) | Answer::Done => None,
        }
    }
}
