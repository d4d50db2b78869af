//! What the admin server is told: health, metrics, evidence and the graph, asked of those who know.

use std::time::Duration;

use caretaker_controllers::gc::metrics::GcMetrics;
use caretaker_controllers::gc::view::{Part, View};
use caretaker_controllers::gc::{GarbageCollector, dot};
use caretaker_controllers::runtime::evidence::{Evidence, Trail};
use caretaker_controllers::runtime::feed_set::FeedSet;
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::manager::CurrentHandle;
use caretaker_controllers::runtime::metrics::{KindLabels, Metrics};
use caretaker_controllers::runtime::record::Uid;

use super::member::{Member, ask};
use crate::admin::{Backstage, Check, Graph, Health, Soon};

/// A process that has not answered or decided for so long does not do its work.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// What there is to say of a controller that broke a moment ago.
const AWAY: &str = "it is being started again";

/// Everybody who knows something.
pub(super) struct Stage {
    pub(super) feeds: FeedSet,
    pub(super) metrics: Metrics,
    pub(super) evidence: Trail,
    /// All controllers.
    pub(super) members: Vec<Box<dyn Member>>,
    /// The one that has the graph; nothing if it is off.
    pub(super) collector: Option<CurrentHandle<GarbageCollector>>,
}

// === impl Stage ===

impl Stage {
    fn alive(&self) -> Health {
        let mut checks = vec![check("ping", true, String::new())];
        checks.extend(self.members.iter().map(|member| {
            let overdue = member.overdue();
            let detail = match overdue {
                None => AWAY.to_owned(),
                Some(overdue) if overdue > STUCK_AFTER => {
                    format!("nothing has moved for {} s", overdue.as_secs())
                }
                Some(_) => String::new(),
            };
            let is_well = overdue.is_none_or(|overdue| overdue <= STUCK_AFTER);
            check(member.name(), is_well, detail)
        }));
        Health { checks }
    }

    /// A kind that cannot be listed is told and holds up nobody; one whose first list is still read does.
    fn ready(&self) -> Health {
        let catalog = self.feeds.catalog().borrow().clone();
        let states = self.feeds.states();
        // Only the collector wants kinds that are always there.
        let is_found = catalog.iter().next().is_some() || self.members.is_empty();
        let is_found = is_found && (self.collector.is_none() || !states.is_empty());
        let mut checks = vec![check("discovery", is_found, String::new())];
        checks.extend(self.members.iter().map(|member| {
            let is_there = member.overdue().is_some();
            let detail = if is_there { "" } else { AWAY };
            check(member.name(), is_there, detail.to_owned())
        }));
        for (kind, state) in states {
            let Some(kind) = catalog.get(kind) else {
                continue;
            };
            let is_ready = !matches!(state, KindState::Syncing(_) | KindState::Frozen);
            checks.push(check(&format!("kind/{kind}"), is_ready, words(state)));
        }
        Health { checks }
    }

    /// What is known here and counted elsewhere is brought up to date when somebody looks.
    async fn refresh(&self) {
        let families = self.metrics.families();
        let catalog = self.feeds.catalog().borrow().clone();
        families.kind_state.clear();
        for (kind, state) in self.feeds.states() {
            if let Some(kind) = catalog.get(kind) {
                let labels = KindLabels {
                    group: kind.group.to_string(),
                    resource: kind.resource.to_string(),
                    state: word(state),
                };
                families.kind_state.get_or_create(&labels).set(1);
            }
        }
        let errors = self.metrics.of::<GcMetrics>().sync_errors;
        errors.inc_by(self.feeds.sync_errors().saturating_sub(errors.get()));
        for member in &self.members {
            member.count(&self.metrics).await;
        }
    }
}

impl Backstage for Stage {
    fn livez(&self) -> Soon<'_, Health> {
        Box::pin(async { self.alive() })
    }

    fn readyz(&self) -> Soon<'_, Health> {
        Box::pin(async { self.ready() })
    }

    fn metrics(&self) -> Soon<'_, String> {
        Box::pin(async {
            self.refresh().await;
            self.metrics.encode()
        })
    }

    fn actions(&self) -> Soon<'_, String> {
        Box::pin(async {
            let recent = self.evidence.recent();
            let records: Vec<&Evidence> = recent.iter().map(|record| &**record).collect();
            serde_json::to_string(&records).unwrap_or_default()
        })
    }

    fn graph(&self, uids: Vec<String>) -> Soon<'_, Option<Graph>> {
        Box::pin(async move {
            let part = if uids.is_empty() {
                Part::Related
            } else {
                Part::Around(uids.iter().map(|uid| Uid::from(uid.as_str())).collect())
            };
            let collector = self.collector.as_ref()?;
            let view = ask(collector, move |collector| {
                View::of(collector.index(), &part)
            });
            let view = view.await?;
            Some(Graph {
                dot: dot::dot(&view),
                json: serde_json::to_string(&view).ok()?,
            })
        })
    }
}

fn check(name: &str, ok: bool, detail: String) -> Check {
    Check {
        name: name.to_owned(),
        ok,
        detail,
    }
}

fn word(state: KindState) -> &'static str {
    match state {
        KindState::Syncing(_) => "syncing",
        KindState::Synced => "synced",
        KindState::Frozen => "frozen",
        KindState::Forbidden => "forbidden",
        KindState::Failing(_) => "failing",
        KindState::Gone => "gone",
    }
}

fn words(state: KindState) -> String {
    match state {
        KindState::Syncing(since) | KindState::Failing(since) => {
            format!("{} since {since:.0}", word(state))
        }
        _ => word(state).to_owned(),
    }
}
