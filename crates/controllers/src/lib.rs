//! The controllers and the runtime they share.
//!
//! A delete takes the same way in every controller X. [`runtime::feed`] sends a change; `X.rs` takes it (`observe`) into
//! `X/index`; `X/decide` asks for a request; [`runtime::driver`] checks the request and sends it (`driver/requests`)
//! through [`runtime::effects`]; `X.rs` takes the answer (`answered`).
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
