//! The controllers and the runtime they share.
//!
//! One delete is walked in five files, the same for every controller X: [`runtime::feed`] → `X/index` → `X/decide` →
//! [`runtime::driver`] → [`runtime::effects`].
//!
//! - [`runtime`]: feeds bring changes, a driver asks a controller what follows, effects carry it out.
//! - [`cron`]: makes Jobs on the schedules of CronJobs.
//! - [`gc`]: the garbage collector over the ownership graph of all kinds.
//! - [`podgc`]: removes Pods that no kubelet or owner will remove.
//! - [`ttl`]: deletes finished Jobs when their TTL has expired.

use runtime::metrics::ControllerMetrics;

pub mod cron;
pub mod gc;
pub mod podgc;
pub mod runtime;
#[cfg(test)]
mod test_world;
pub mod ttl;

/// Registers the metrics of all controllers, so that the metrics page shows them before they are first counted.
pub fn register_metrics(metrics: &ControllerMetrics) {
    let _ = metrics.of::<gc::metrics::GcMetrics>();
    let _ = metrics.of::<ttl::metrics::TtlMetrics>();
    let _ = metrics.of::<podgc::metrics::PodGcMetrics>();
    let _ = metrics.of::<cron::metrics::CronMetrics>();
}
