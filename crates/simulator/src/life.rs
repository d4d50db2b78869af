//! How a simulated object lives, by its annotations: how long it takes to start, how long it runs, and how it ends.

use serde_json::Value;

/// How long a bound Pod takes until it runs, in seconds; 1 if not said.
pub const START_SECONDS: &str = "simulate.caretaker.dev/start-seconds";
/// How long it runs, in seconds, or `forever`; 5 if not said.
pub const RUN_SECONDS: &str = "simulate.caretaker.dev/run-seconds";
/// How a Pod ends: `succeeded` or `failed`.
pub const OUTCOME: &str = "simulate.caretaker.dev/outcome";
/// How a Volcano Job ends: `Completed`, `Failed`, `Terminated` or `Aborted`.
pub const END: &str = "simulate.caretaker.dev/end";
/// What becomes of the counters of a Volcano Job that is over: [`KEPT`], or wiped if not said.
pub const COUNTERS: &str = "simulate.caretaker.dev/counters";
/// The value of [`COUNTERS`] for counters that stay.
pub const KEPT: &str = "kept";
/// The value of [`RUN_SECONDS`] for what does not end by itself.
pub const FOREVER: &str = "forever";

const START_DEFAULT_SECS: i64 = 1;
const RUN_DEFAULT_SECS: i64 = 5;

/// How a Pod lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// Until it runs.
    pub(crate) start_secs: i64,
    /// Until it ends; nothing if it does not.
    pub(crate) run_secs: Option<i64>,
    /// How it ends.
    pub(crate) outcome: Outcome,
    /// Somebody has said how it runs or ends.
    pub(crate) is_said: bool,
}

/// How a Pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed,
}

/// How a Volcano Job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Failed,
    Terminated,
    Aborted,
}

// === impl Life ===

impl Life {
    /// What annotations say; what is no number or no known word counts as not said.
    pub(crate) fn of(annotations: &Value) -> Self {
        let said = |name: &str| annotations[name].as_str();
        let secs = |name: &str| said(name)?.parse::<u32>().ok().map(i64::from);
        let outcome = match said(OUTCOME) {
            Some("succeeded") => Some(Outcome::Succeeded),
            Some("failed") => Some(Outcome::Failed),
            _ => None,
        };
        let is_endless = said(RUN_SECONDS) == Some(FOREVER);
        let run_secs = secs(RUN_SECONDS);
        Self {
            start_secs: secs(START_SECONDS).unwrap_or(START_DEFAULT_SECS),
            run_secs: (!is_endless).then(|| run_secs.unwrap_or(RUN_DEFAULT_SECS)),
            outcome: outcome.unwrap_or(Outcome::Succeeded),
            is_said: is_endless || run_secs.is_some() || outcome.is_some(),
        }
    }
}

// === impl End ===

impl End {
    /// What annotations say.
    pub(crate) fn of(annotations: &Value) -> Option<Self> {
        match annotations[END].as_str()? {
            "Completed" => Some(Self::Completed),
            "Failed" => Some(Self::Failed),
            "Terminated" => Some(Self::Terminated),
            "Aborted" => Some(Self::Aborted),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_say_how_a_pod_lives_and_nonsense_says_nothing() {
        let default = Life {
            start_secs: 1,
            run_secs: Some(5),
            outcome: Outcome::Succeeded,
            is_said: false,
        };
        let cases = [
            (json!(null), default),
            (
                json!({START_SECONDS: "0", RUN_SECONDS: "7", OUTCOME: "failed"}),
                Life {
                    start_secs: 0,
                    run_secs: Some(7),
                    outcome: Outcome::Failed,
                    is_said: true,
                },
            ),
            (
                json!({RUN_SECONDS: FOREVER}),
                Life {
                    run_secs: None,
                    is_said: true,
                    ..default
                },
            ),
            (
                json!({START_SECONDS: "-1", RUN_SECONDS: "1.5", OUTCOME: "Failed"}),
                default,
            ),
            (json!({RUN_SECONDS: "99999999999999999999"}), default),
        ];
        for (annotations, expected) in cases {
            assert_eq!(Life::of(&annotations), expected, "{annotations}");
        }
    }
}
