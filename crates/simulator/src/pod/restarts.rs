//! Containers that fail again and again: restarted at once for the first time, then after a back-off.
//!
//! The back-off is the kubelet's: 10 seconds, doubled with each restart up to five minutes. It does not end, because a
//! simulated container never runs long enough to be forgiven.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::events;
use super::status::{ContainerReadiness, ContainerState};
use crate::actor::{ActorDecision, rest, set_status, wait_until};
use crate::cache::{ObjectCache, ObjectSnapshot};
use crate::events::on_success;
use crate::objects::{later, time, time_at};

const BACKOFF_FIRST_SECS: i64 = 10;
const BACKOFF_SECS_MAX: i64 = 300;

/// Lets the containers of a running Pod fail `run_secs` after their start, and restarts them.
pub(super) fn crash(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    run_secs: i64,
    now: Timestamp,
) -> ActorDecision {
    let Some(container) = pod.items("/status/containerStatuses").first() else {
        return rest("the Pod has no containers");
    };
    let restarts = container["restartCount"].as_i64().unwrap_or(0);
    if let Some(started) = time_at(&container["state"]["running"]["startedAt"]) {
        let over = later(started, run_secs);
        if over > now {
            return wait_until(over, "the containers are running");
        }
        let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": time(started),
            "finishedAt": time(now)}});
        return match restarts {
            0 => restart(cache, pod, 1, last, now),
            _ => back_off(cache, pod, restarts, last, now),
        };
    }
    let last = &container["lastState"];
    let ended = time_at(&last["terminated"]["finishedAt"]).unwrap_or(now);
    let due = later(ended, back_off_secs(restarts));
    if due > now {
        return wait_until(due, "the containers wait to be restarted");
    }
    restart(cache, pod, restarts.saturating_add(1), last.clone(), now)
}

fn back_off_secs(restarts: i64) -> i64 {
    let doublings = u32::try_from(restarts.saturating_sub(1))
        .unwrap_or(0)
        .min(10);
    (BACKOFF_FIRST_SECS << doublings).min(BACKOFF_SECS_MAX)
}

fn restart(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    restarts: i64,
    last: Value,
    now: Timestamp,
) -> ActorDecision {
    let state = ContainerState {
        last,
        restarts,
        ..ContainerState::running(now)
    };
    let decision = set_status(pod, &state.status_of(pod, now), "the containers restart");
    on_success(decision, events::restarted(cache, pod))
}

fn back_off(
    cache: &ObjectCache,
    pod: &ObjectSnapshot,
    restarts: i64,
    last: Value,
    now: Timestamp,
) -> ActorDecision {
    let wait = go_duration(back_off_secs(restarts));
    let name = pod.text("/spec/containers/0/name");
    let message = format!(
        "back-off {wait} restarting failed container={name} pod={}",
        events::long_name(pod)
    );
    let state = ContainerState {
        state: json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}),
        last,
        restarts,
        readiness: ContainerReadiness::Waiting,
    };
    let decision = set_status(
        pod,
        &state.status_of(pod, now),
        "the containers have failed",
    );
    on_success(decision, events::backed_off(cache, pod))
}

/// Seconds as Go writes a duration: `40s`, `1m20s`.
fn go_duration(secs: i64) -> String {
    match (secs / 60, secs % 60) {
        (0, secs) => format!("{secs}s"),
        (minutes, secs) => format!("{minutes}m{secs}s"),
    }
}
