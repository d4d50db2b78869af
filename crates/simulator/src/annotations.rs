//! Annotations that control the simulation: how long a Pod takes to start, how long it runs, and how it ends.

use serde::Deserialize;
use serde_json::Value;

/// Seconds until a bound Pod runs; default 1.
pub const START_SECONDS: &str = "simulate.caretaker.dev/start-seconds";
/// Seconds that a Pod runs, or `forever`; default 5.
pub const RUN_SECONDS: &str = "simulate.caretaker.dev/run-seconds";
/// Seconds that the containers of a deleted Pod take to stop, at most its grace period; default 1.
pub const STOP_SECONDS: &str = "simulate.caretaker.dev/stop-seconds";
/// Outcome of a Pod: `succeeded` (default), `failed`, or `crashing` for containers that fail again and again.
pub const OUTCOME: &str = "simulate.caretaker.dev/outcome";
/// Outcome of a Volcano Job: `Completed`, `Failed`, `Terminated` or `Aborted`.
pub const END: &str = "simulate.caretaker.dev/end";
/// Whether a finished Volcano Job keeps its counters: [`KEPT`]. By default they are cleared.
pub const COUNTERS: &str = "simulate.caretaker.dev/counters";
/// The value of [`COUNTERS`] that keeps the counters.
pub const KEPT: &str = "kept";
/// The value of [`RUN_SECONDS`] for a Pod that does not end by itself.
pub const FOREVER: &str = "forever";

const START_DEFAULT_SECS: i64 = 1;
const RUN_DEFAULT_SECS: i64 = 5;
const STOP_DEFAULT_SECS: i64 = 1;

/// The simulated behaviour of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PodBehaviour {
    /// Seconds between binding and start.
    pub(crate) start_secs: i64,
    /// Seconds between start and end; `None` if it does not end.
    pub(crate) run_secs: Option<i64>,
    /// Seconds between deletion and stop.
    pub(crate) stop_secs: i64,
    pub(crate) outcome: PodOutcome,
    /// An annotation sets the duration or the outcome.
    pub(crate) is_explicit: bool,
}

/// The outcome of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodOutcome {
    Succeeded,
    Failed,
    /// Its containers fail and are restarted, unless its `restartPolicy` is `Never`.
    Crashing,
}

/// The outcome of a Volcano Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum VolcanoJobOutcome {
    Completed,
    Failed,
    Terminated,
    Aborted,
}

// === impl PodBehaviour ===

impl PodBehaviour {
    /// Reads annotations. Invalid values are ignored.
    pub(crate) fn of(annotations: &Value) -> Self {
        let said = |name: &str| annotations[name].as_str();
        let secs = |name: &str| said(name)?.parse::<u32>().ok().map(i64::from);
        let outcome = match said(OUTCOME) {
            Some("succeeded") => Some(PodOutcome::Succeeded),
            Some("failed") => Some(PodOutcome::Failed),
            Some("crashing") => Some(PodOutcome::Crashing),
            _ => None,
        };
        let is_endless = said(RUN_SECONDS) == Some(FOREVER);
        let run_secs = secs(RUN_SECONDS);
        Self {
            start_secs: secs(START_SECONDS).unwrap_or(START_DEFAULT_SECS),
            run_secs: (!is_endless).then(|| run_secs.unwrap_or(RUN_DEFAULT_SECS)),
            stop_secs: secs(STOP_SECONDS).unwrap_or(STOP_DEFAULT_SECS),
            outcome: outcome.unwrap_or(PodOutcome::Succeeded),
            is_explicit: is_endless || run_secs.is_some() || outcome.is_some(),
        }
    }
}

// === impl VolcanoJobOutcome ===

impl VolcanoJobOutcome {
    /// Reads annotations; `None` if there is no valid one.
    pub(crate) fn of(annotations: &Value) -> Option<Self> {
        Self::deserialize(&annotations[END]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_annotations_and_ignores_invalid_values() {
        let default = PodBehaviour {
            start_secs: 1,
            run_secs: Some(5),
            stop_secs: 1,
            outcome: PodOutcome::Succeeded,
            is_explicit: false,
        };
        let cases = [
            (json!(null), default),
            (
                json!({START_SECONDS: "0", RUN_SECONDS: "7", STOP_SECONDS: "9", OUTCOME: "failed"}),
                PodBehaviour {
                    start_secs: 0,
                    run_secs: Some(7),
                    stop_secs: 9,
                    outcome: PodOutcome::Failed,
                    is_explicit: true,
                },
            ),
            (
                json!({RUN_SECONDS: FOREVER}),
                PodBehaviour {
                    run_secs: None,
                    is_explicit: true,
                    ..default
                },
            ),
            (
                json!({START_SECONDS: "-1", RUN_SECONDS: "1.5", STOP_SECONDS: "x", OUTCOME: "Failed"}),
                default,
            ),
            (json!({RUN_SECONDS: "99999999999999999999"}), default),
        ];
        for (annotations, expected) in cases {
            assert_eq!(PodBehaviour::of(&annotations), expected, "{annotations}");
        }
    }
}
