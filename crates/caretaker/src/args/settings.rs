//! Settings that decide what becomes of an object: flags of those who run controllers and of those who ask what these
//! would do. One definition, so that a flag means the same and has the same default in all of them.

use std::time::Duration;

use caretaker_controllers::podgc;
use clap::Args;
use jiff::tz::TimeZone;

use super::schedule::time_zone;
use super::values::duration;
use crate::wiring;

/// The zone of CronJobs that name none.
#[derive(Debug, Args)]
pub(crate) struct Zone {
    /// The zone of CronJobs that name none, like Europe/Berlin [default: the machine's]
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    default_time_zone: Option<TimeZone>,
}

/// How long and how many of what has ended are kept.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Terminated Pods that are kept, all namespaces together; none is removed for their number if it is 0 or less
    #[arg(
        long,
        value_name = "N",
        default_value_t = 12_500,
        allow_negative_numbers = true
    )]
    terminated_pod_gc_threshold: i32,

    /// Terminated Pods that are kept of each namespace; no limit if it is 0 or less
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    terminated_pod_gc_threshold_per_namespace: i32,

    /// Delete Volcano Jobs so long after they were aborted; a longer TTL of their own counts [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl_after_aborted: Option<Duration>,
}

// === impl Zone ===

impl Zone {
    /// What was said, or the machine's zone.
    pub(crate) fn find(&self) -> TimeZone {
        let said = self.default_time_zone.clone();
        said.unwrap_or_else(wiring::local_zone)
    }
}

// === impl Limits ===

impl Limits {
    /// How Pod GC works, as far as it is said here.
    pub(crate) fn pod_gc(&self) -> podgc::Settings {
        let kept = |threshold: i32| usize::try_from(threshold).ok().filter(|kept| *kept > 0);
        podgc::Settings {
            threshold: kept(self.terminated_pod_gc_threshold),
            threshold_per_namespace: kept(self.terminated_pod_gc_threshold_per_namespace),
            ..podgc::Settings::default()
        }
    }

    /// What is said about Pods, as flags.
    pub(crate) fn of_pods(&self) -> Vec<String> {
        let flag = |name: &str, kept: i32| format!("--terminated-pod-gc-threshold{name}={kept}");
        vec![
            flag("", self.terminated_pod_gc_threshold),
            flag(
                "-per-namespace",
                self.terminated_pod_gc_threshold_per_namespace,
            ),
        ]
    }

    /// What is said about Jobs that were aborted, as a flag.
    pub(crate) fn of_aborted(&self) -> String {
        match self.ttl_after_aborted {
            Some(after) => format!("--ttl-after-aborted={after:?}"),
            None => "no --ttl-after-aborted".to_owned(),
        }
    }
}
