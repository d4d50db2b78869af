//! The metrics of the connections. The pools count; the admin server serves the page.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ConnectionPurpose;
use crate::runtime::metrics::{MetricSet, register_metrics};

/// The open connections, and the attempts that failed. Clones count into the same metrics.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct ConnectionMetrics {
    open: Family<ConnectionLabels, Gauge>,
    failures: Family<PurposeLabel, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConnectionLabels {
    /// `watches`, `requests` or `lease`.
    purpose: &'static str,
    /// `h2` or `http/1.1`.
    protocol: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PurposeLabel {
    purpose: &'static str,
}

/// Counts a connection as open until it is dropped.
pub(super) struct OpenConnection(Gauge);

// === impl ConnectionMetrics ===

impl ConnectionMetrics {
    pub(super) fn count_failure(&self, purpose: ConnectionPurpose) {
        let purpose = purpose.label();
        self.failures.get_or_create(&PurposeLabel { purpose }).inc();
    }
}

impl MetricSet for ConnectionMetrics {
    fn register(&self, registry: &mut Registry) {
        register_metrics! { registry, self;
            open "caretaker_connections" "Open connections to the API server, by purpose and protocol";
            failures "caretaker_connection_failures" "Connections to the API server that could not be opened";
        }
    }
}

// === impl OpenConnection ===

impl OpenConnection {
    pub(super) fn new(
        metrics: &ConnectionMetrics,
        purpose: ConnectionPurpose,
        protocol: &'static str,
    ) -> Self {
        let purpose = purpose.label();
        let labels = ConnectionLabels { purpose, protocol };
        let gauge = metrics.open.get_or_create_owned(&labels);
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
