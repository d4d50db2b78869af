//! Answers the admin server: health, metrics, evidence and the ownership graph, read from watches and controllers.

use std::time::Duration;

use caretaker_controllers::gc::metrics::GcMetrics;
use caretaker_controllers::gc::view::{GraphSelection, GraphView};
use caretaker_controllers::gc::{GarbageCollector, dot};
use caretaker_controllers::runtime::evidence::{Evidence, EvidenceTrail};
use caretaker_controllers::runtime::feed_set::FeedSet;
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::manager::CurrentHandle;
use caretaker_controllers::runtime::metrics::{ControllerMetrics, KindLabels};
use caretaker_controllers::runtime::record::Uid;

use super::launcher::{RunningController, query};
use crate::admin::{BoxedAnswer, DiagnosticsSource, GraphPage, HealthCheck, HealthReport};

/// A controller whose due work waits for longer counts as stuck; `/livez` fails then.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Detail of a controller that panicked a moment ago.
const RESTARTING: &str = "the controller is restarting";

/// Holds the sources of all pages.
pub(super) struct ControllerDiagnostics {
    pub(super) feeds: FeedSet,
    pub(super) metrics: ControllerMetrics,
    pub(super) evidence: EvidenceTrail,
    pub(super) controllers: Vec<Box<dyn RunningController>>,
    /// Owner of the graph; `None` if it is off.
    pub(super) collector: Option<CurrentHandle<GarbageCollector>>,
}

// === impl ControllerDiagnostics ===

impl ControllerDiagnostics {
    fn alive(&self) -> HealthReport {
        let mut checks = vec![check("ping", true, String::new())];
        checks.extend(self.controllers.iter().map(|controller| {
            let overdue = controller.overdue();
            let detail = match overdue {
                None => RESTARTING.to_owned(),
                Some(overdue) if overdue > STUCK_AFTER => {
                    format!("due work has waited for {} s", overdue.as_secs())
                }
                Some(_) => String::new(),
            };
            let is_well = overdue.is_none_or(|overdue| overdue <= STUCK_AFTER);
            check(controller.name(), is_well, detail)
        }));
        HealthReport { checks }
    }

    /// A kind whose first list is under way makes the process unready. A kind that cannot be listed is reported only.
    fn ready(&self) -> HealthReport {
        let catalog = self.feeds.catalog().borrow().clone();
        let states = self.feeds.states();
        // Only the garbage collector watches kinds that every cluster has.
        let is_found = catalog.iter().next().is_some() || self.controllers.is_empty();
        let is_found = is_found && (self.collector.is_none() || !states.is_empty());
        let mut checks = vec![check("discovery", is_found, String::new())];
        checks.extend(self.controllers.iter().map(|controller| {
            let is_there = controller.overdue().is_some();
            let detail = if is_there { "" } else { RESTARTING };
            check(controller.name(), is_there, detail.to_owned())
        }));
        for (kind, state) in states {
            let Some(kind) = catalog.get(kind) else {
                continue;
            };
            let is_ready = !matches!(state, KindState::Syncing(_) | KindState::Frozen);
            checks.push(check(&format!("kind/{kind}"), is_ready, words(state)));
        }
        HealthReport { checks }
    }

    /// Updates the metrics that are read from state rather than counted.
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
        for controller in &self.controllers {
            controller.update(&self.metrics).await;
        }
    }
}

impl DiagnosticsSource for ControllerDiagnostics {
    fn livez(&self) -> BoxedAnswer<'_, HealthReport> {
        Box::pin(async { self.alive() })
    }

    fn readyz(&self) -> BoxedAnswer<'_, HealthReport> {
        Box::pin(async { self.ready() })
    }

    fn metrics(&self) -> BoxedAnswer<'_, String> {
        Box::pin(async {
            self.refresh().await;
            self.metrics.encode()
        })
    }

    fn actions(&self) -> BoxedAnswer<'_, String> {
        Box::pin(async {
            let recent = self.evidence.recent();
            let records: Vec<&Evidence> = recent.iter().map(|record| &**record).collect();
            serde_json::to_string(&records).unwrap_or_default()
        })
    }

    fn graph(&self, uids: Vec<String>) -> BoxedAnswer<'_, Option<GraphPage>> {
        Box::pin(async move {
            let part = if uids.is_empty() {
                GraphSelection::Related
            } else {
                GraphSelection::Around(uids.iter().map(|uid| Uid::from(uid.as_str())).collect())
            };
            let collector = self.collector.as_ref()?;
            let view = query(collector, move |collector| {
                GraphView::of(collector.index(), &part)
            });
            let view = view.await?;
            Some(GraphPage {
                dot: dot::dot(&view),
                json: serde_json::to_string(&view).ok()?,
            })
        })
    }
}

fn check(name: &str, ok: bool, detail: String) -> HealthCheck {
    HealthCheck {
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
