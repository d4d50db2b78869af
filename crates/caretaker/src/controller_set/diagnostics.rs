//! Answers the admin server: health, metrics, evidence and the ownership graph, read from watches and controllers.

use caretaker_controllers::gc::metrics::GcMetrics;
use caretaker_controllers::gc::view::{GraphSelection, GraphView};
use caretaker_controllers::gc::{GarbageCollector, dot};
use caretaker_controllers::runtime::clients::ClusterClients;
use caretaker_controllers::runtime::driver::{DriverMode, HoldPurpose, WriteHold};
use caretaker_controllers::runtime::evidence::{Evidence, EvidenceTrail};
use caretaker_controllers::runtime::feed_set::FeedSet;
use caretaker_controllers::runtime::manager::CurrentHandle;
use caretaker_controllers::runtime::metrics::{ControllerMetrics, KindLabels};
use caretaker_controllers::runtime::record::Uid;

use caretaker_machinery::clock::Clock;
use tokio::sync::watch;

use super::health::{ControllerFacts, DiscoveryFacts, HealthFacts, KindFacts, word};
use super::launcher::{RunningController, query};
use crate::admin::{BoxedAnswer, DiagnosticsSource, GraphPage, HealthReport};
use crate::peers::ServerContact;

/// Holds the sources of all pages.
pub(super) struct ControllerDiagnostics {
    pub(super) feeds: FeedSet,
    pub(super) metrics: ControllerMetrics,
    pub(super) evidence: EvidenceTrail,
    pub(super) controllers: Vec<Box<dyn RunningController>>,
    /// Owner of the graph; `None` if it is off.
    pub(super) collector: Option<CurrentHandle<GarbageCollector>>,
    pub(super) mode: DriverMode,
    pub(super) clock: Clock,
    /// Whether the API server answers; `None` for a server in this process.
    pub(super) contact: Option<watch::Receiver<ServerContact>>,
    pub(super) clients: ClusterClients,
}

// === impl ControllerDiagnostics ===

impl ControllerDiagnostics {
    fn facts(&self) -> HealthFacts {
        let catalog = self.feeds.catalog().borrow().clone();
        let states = self.feeds.states();
        // Only the garbage collector watches kinds that every cluster has.
        let is_found = catalog.iter().next().is_some() || self.controllers.is_empty();
        let is_complete = is_found && (self.collector.is_none() || !states.is_empty());
        let controllers = self.controllers.iter();
        let kinds = states.into_iter();
        HealthFacts {
            now: self.clock.now(),
            contact: self.contact.as_ref().map(|state| state.borrow().clone()),
            refused: self.clients.refused_credentials(),
            discovery: DiscoveryFacts {
                is_complete,
                trouble: self.feeds.discovery_trouble(),
            },
            mode: self.mode,
            controllers: controllers
                .map(|controller| ControllerFacts {
                    name: controller.name(),
                    overdue: controller.overdue(),
                    panics: self.metrics.restarts(controller.name()),
                    holds: holding(controller.holds()),
                })
                .collect(),
            kinds: kinds
                .filter_map(|(id, state)| {
                    Some(KindFacts {
                        name: catalog.get(id)?.to_string(),
                        state,
                        is_blind: self.feeds.is_blind(id),
                    })
                })
                .collect(),
        }
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
        Box::pin(async { self.facts().alive() })
    }

    fn readyz(&self) -> BoxedAnswer<'_, HealthReport> {
        Box::pin(async { self.facts().ready() })
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

    fn failures(&self, objects: Vec<String>) -> BoxedAnswer<'_, String> {
        Box::pin(async move {
            let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
            serde_json::to_string(&self.evidence.failures(&objects)).unwrap_or_default()
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

/// The rows that hold back writes: their purpose and their reason.
fn holding(holds: &[WriteHold]) -> Vec<(HoldPurpose, String)> {
    let holding = holds.iter().filter_map(|hold| {
        let reason = hold.state().reason()?.to_owned();
        Some((hold.purpose(), reason))
    });
    holding.collect()
}
