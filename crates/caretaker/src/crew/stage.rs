//! What the admin server is told: health, metrics, evidence and the graph, asked of those who know.

use std::time::Duration;

use caretaker_controllers::gc::view::{Part, View};
use caretaker_controllers::gc::{self, GarbageCollector, dot};
use caretaker_controllers::runtime::evidence::{Evidence, Trail};
use caretaker_controllers::runtime::feeds::Feeds;
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::manager::Post;
use caretaker_controllers::runtime::metrics::{ControllerLabel, KindLabels, LookupLabels, Metrics};
use caretaker_controllers::runtime::record::Uid;

use crate::admin::{Backstage, Check, Graph, Health, Soon};

/// A process that has not answered or decided for so long does not do its work.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// How long a busy controller may take before a page goes without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everybody who knows something.
pub(super) struct Stage {
    feeds: Feeds,
    metrics: Metrics,
    evidence: Trail,
    /// Nothing if it is off.
    collector: Option<Post<GarbageCollector>>,
}

// === impl Stage ===

impl Stage {
    pub(super) fn new(
        feeds: Feeds,
        metrics: Metrics,
        evidence: Trail,
        collector: Option<Post<GarbageCollector>>,
    ) -> Self {
        Self {
            feeds,
            metrics,
            evidence,
            collector,
        }
    }

    /// Asks the collector; nothing if it is off, being started again, or too busy.
    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&GarbageCollector) -> R + Send + 'static,
    ) -> Option<R> {
        let handle = self.collector.as_ref()?.borrow().clone()?;
        let answer = handle.ask(|collector, _| question(collector));
        tokio::time::timeout(PATIENCE, answer).await.ok()?
    }

    fn alive(&self) -> Health {
        let mut checks = vec![check("ping", true, String::new())];
        if let Some(collector) = &self.collector {
            let handle = collector.borrow().clone();
            let overdue = handle.map(|handle| handle.stats().overdue());
            let detail = match overdue {
                None => "it is being started again".to_owned(),
                Some(overdue) if overdue > STUCK_AFTER => {
                    format!("nothing has moved for {} s", overdue.as_secs())
                }
                Some(_) => String::new(),
            };
            let is_well = overdue.is_none_or(|overdue| overdue <= STUCK_AFTER);
            checks.push(check(gc::NAME, is_well, detail));
        }
        Health { checks }
    }

    /// A kind that cannot be listed is told and holds up nobody; one whose first list is still read does.
    fn ready(&self) -> Health {
        let catalog = self.feeds.catalog().borrow().clone();
        let states = self.feeds.states();
        let is_found = !states.is_empty() || self.collector.is_none();
        let mut checks = vec![check("discovery", is_found, String::new())];
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
        let errors = &families.sync_errors;
        errors.inc_by(self.feeds.sync_errors().saturating_sub(errors.get()));
        let asked = self.ask(|collector| (collector.index().size(), collector.lookups()));
        let Some((size, lookups)) = asked.await else {
            return;
        };
        let label = ControllerLabel {
            controller: gc::NAME,
        };
        for (gauge, value) in [
            (&families.graph_nodes, size.nodes),
            (&families.graph_edges, size.edges),
            (&families.graph_virtual_nodes, size.virtual_nodes),
        ] {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            gauge.get_or_create(&label).set(value);
        }
        for (result, count) in [
            ("alive", lookups.alive),
            ("absent", lookups.absent),
            ("failed", lookups.failed),
        ] {
            let labels = LookupLabels {
                controller: gc::NAME,
                result,
            };
            let counter = families.owner_lookups.get_or_create_owned(&labels);
            counter.inc_by(count.saturating_sub(counter.get()));
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
            let view = self
                .ask(move |collector| View::of(collector.index(), &part))
                .await?;
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
