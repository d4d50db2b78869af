//! Flags that change decisions about objects. `run` and `up` apply them; `explain` predicts with them.
//!
//! One definition gives a flag the same meaning and default in all commands.

use std::time::Duration;

use caretaker_controllers::podgc;
use clap::Args;
use jiff::tz::TimeZone;

use super::schedule::time_zone;
use super::values::{InvalidNumber, duration, number};
use crate::wiring;

#[derive(Debug, Args)]
pub(crate) struct ZoneFlag {
    /// Time zone of CronJobs without one, like Europe/Berlin [default: the local zone]
    #[arg(long, value_name = "ZONE", value_parser = time_zone)]
    default_time_zone: Option<TimeZone>,
}

/// How long finished objects are kept, and how many.
#[derive(Debug, Args)]
pub(crate) struct RetentionFlags {
    /// Terminated Pods to keep in the cluster; 0 or less means no limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 12_500,
        value_parser = pods,
        allow_negative_numbers = true
    )]
    terminated_pod_gc_threshold: i32,

    /// Terminated Pods to keep in each namespace; 0 or less means no limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = pods,
        allow_negative_numbers = true
    )]
    terminated_pod_gc_threshold_per_namespace: i32,

    /// Delete aborted Volcano Jobs after this time; a longer TTL of the Job wins [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl_after_aborted: Option<Duration>,
}

/// A number of Pods.
fn pods(text: &str) -> Result<i32, InvalidNumber> {
    number::<i32, { i32::MIN as i64 }, { i32::MAX as i64 }>(text)
}

// === impl ZoneFlag ===

impl ZoneFlag {
    /// The value of the flag, or the local zone.
    pub(crate) fn find(&self) -> TimeZone {
        let given = self.default_time_zone.clone();
        given.unwrap_or_else(wiring::local_zone)
    }
}

// === impl RetentionFlags ===

impl RetentionFlags {
    /// The settings of Pod GC that these flags contain.
    pub(crate) fn pod_gc(&self) -> podgc::PodGcSettings {
        let kept = |threshold: i32| usize::try_from(threshold).ok().filter(|kept| *kept > 0);
        podgc::PodGcSettings {
            threshold: kept(self.terminated_pod_gc_threshold),
            threshold_per_namespace: kept(self.terminated_pod_gc_threshold_per_namespace),
            ..podgc::PodGcSettings::default()
        }
    }

    /// The flags about Pods, for the output of `explain`.
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

    /// The flag about aborted Jobs, for the output of `explain`.
    pub(crate) fn of_aborted(&self) -> String {
        match self.ttl_after_aborted {
            Some(after) => format!("--ttl-after-aborted={after:?}"),
            None => "no --ttl-after-aborted".to_owned(),
        }
    }
}
