//! The metrics that only the garbage collector has. The metrics endpoint refreshes the gauges from the index.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{GarbageCollector, NAME};
use crate::runtime::metrics::{ControllerLabel, MetricSet, register_metrics};

/// The size of the graph, owner lookups, and failed syncs. Clones share the same metrics.
#[derive(Debug, Clone, Default)]
pub struct GcMetrics {
    graph_nodes: Family<ControllerLabel, Gauge>,
    graph_edges: Family<ControllerLabel, Gauge>,
    graph_virtual_nodes: Family<ControllerLabel, Gauge>,
    owner_lookups: Family<LookupLabels, Counter>,
    /// `garbagecollector_controller_resources_sync_error_total`, counted by the feeds.
    pub sync_errors: Counter,
}

/// The labels of `caretaker_owner_lookups_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LookupLabels {
    controller: &'static str,
    /// `alive`, `absent` or `failed`.
    result: &'static str,
}

// === impl GcMetrics ===

impl GcMetrics {
    /// Sets the gauges and counters from a collector's index.
    pub fn refresh(&self, collector: &GarbageCollector) {
        let label = ControllerLabel { controller: NAME };
        let (size, lookups) = (collector.index().size(), collector.lookups());
        for (gauge, value) in [
            (&self.graph_nodes, size.nodes),
            (&self.graph_edges, size.edges),
            (&self.graph_virtual_nodes, size.virtual_nodes),
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
                controller: NAME,
                result,
            };
            let counter = self.owner_lookups.get_or_create_owned(&labels);
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }
}

impl MetricSet for GcMetrics {
    fn register(&self, registry: &mut Registry) {
        register_metrics! { registry, self;
            sync_errors "garbagecollector_controller_resources_sync_error" "Syncs of resources that did not succeed";
            graph_nodes "caretaker_graph_nodes" "Objects in the graph";
            graph_edges "caretaker_graph_edges" "Ownerships in the graph";
            graph_virtual_nodes "caretaker_graph_virtual_nodes" "Owners in the graph that were never seen";
            owner_lookups "caretaker_owner_lookups" "Lookups of owners by result";
        }
    }
}
