//! The metrics that only Pod GC has, under upstream's names.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{PodGcKey, PodGcReason, PodSweep};
use crate::runtime::call::{ApiAnswer, ApiCall, FailureKind};
use crate::runtime::controller::DriverStep;
use crate::runtime::metrics::{ControllerMetrics, MetricSet, register_metrics};

/// Pods that were deleted without a grace period, and failures of that. Clones share the same metrics.
#[derive(Debug, Clone, Default)]
pub struct PodGcMetrics {
    /// Exposed as `pod_gc_collector_force_delete_pods_total`.
    pub forced_pods: Family<ForcedLabels, Counter>,
    /// Exposed as `pod_gc_collector_force_delete_pod_errors_total`.
    pub forced_pod_errors: Family<ForcedLabels, Counter>,
}

/// The namespace of a Pod, and the sweep that removed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ForcedLabels {
    pub namespace: String,
    /// `terminated`, `out-of-service`, `orphaned` or `unscheduled`.
    pub reason: &'static str,
}

// === impl PodGcMetrics ===

impl MetricSet for PodGcMetrics {
    fn register(&self, registry: &mut Registry) {
        register_metrics! { registry, self;
            forced_pods "pod_gc_collector_force_delete_pods" "Pods that were removed by force, or should have been";
            forced_pod_errors "pod_gc_collector_force_delete_pod_errors" "Pods that could not be removed by force";
        }
    }
}

/// Counts as upstream: each attempt to remove a Pod once, when it has ended, and whether it failed. A conflict does not
/// count, because the Pod is judged again at once.
pub(super) fn measure(step: &DriverStep<'_, PodGcKey, PodGcReason>, metrics: &ControllerMetrics) {
    let DriverStep::Answered {
        call,
        answer,
        because,
        ..
    } = step
    else {
        return;
    };
    let Some(reason) = because.sweep().map(PodSweep::as_str) else {
        return;
    };
    let has_failed = match answer {
        // The read after a conflict has the reason of the write.
        _ if call.is_read() => return,
        ApiAnswer::Failed(failure) if failure.kind == FailureKind::Conflict => return,
        ApiAnswer::Failed(_) => true,
        // The delete after the mark counts.
        ApiAnswer::Object(_) if matches!(call, ApiCall::Patch { .. }) => return,
        ApiAnswer::Object(_) | ApiAnswer::Page(_) | ApiAnswer::Done | ApiAnswer::Absent(_) => false,
    };
    let labels = ForcedLabels {
        namespace: call.target().namespace.to_string(),
        reason,
    };
    let set = metrics.of::<PodGcMetrics>();
    set.forced_pods.get_or_create(&labels).inc();
    let errors = set.forced_pod_errors.get_or_create(&labels);
    errors.inc_by(has_failed.into());
}
