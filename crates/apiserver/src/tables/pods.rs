//! Cells of Pods: ready containers, status, restarts.
//!
//! The status is one word for all containers. While init containers run, it describes the current one (`Init:1/2`,
//! `Init:CrashLoopBackOff`); afterwards the first container that does not run. A sidecar is an init container that keeps
//! running: it counts like the other containers once it has started. Mirrors the printer of kube-apiserver 1.36.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{self, items, text};
use crate::metadata::is_true;

/// Summary of the containers of a Pod.
#[derive(Debug, Default)]
struct ContainerSummary {
    word: String,
    ready: usize,
    restarts: RestartCount,
}

#[derive(Debug, Default, Clone, Copy)]
struct RestartCount {
    count: i64,
    /// When the container that was restarted last had ended.
    last: Option<Timestamp>,
}

/// Ready containers and all containers, without init containers that end.
pub(super) fn ready(pod: &Value) -> Value {
    let all = items(&pod["spec"]["containers"]).count() + sidecars(pod).count();
    format!("{}/{all}", look(pod).ready).into()
}

/// The status of a Pod as one word.
pub(super) fn status(pod: &Value) -> Value {
    let (status, phase) = (&pod["status"], text(&pod["status"]["phase"]));
    let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
    if deleted && status["reason"] == "NodeLost" {
        "Unknown".into()
    } else if deleted && !["Succeeded", "Failed"].contains(&phase) {
        "Terminating".into()
    } else {
        look(pod).word.into()
    }
}

/// The number of restarts and the age of the last one.
pub(super) fn restarts(pod: &Value, now: Timestamp) -> Value {
    let RestartCount { count, last } = look(pod).restarts;
    match last.filter(|_| count != 0) {
        Some(last) => format!("{count} ({} ago)", cells::since(last, now)).into(),
        None => count.to_string().into(),
    }
}

/// Satisfied readiness gates and all readiness gates.
pub(super) fn readiness_gates(pod: &Value) -> Value {
    let gates = items(&pod["spec"]["readinessGates"]);
    let (mut all, mut passed) = (0, 0);
    for gate in gates {
        all += 1;
        passed += usize::from(holds(pod, text(&gate["conditionType"])));
    }
    if all == 0 {
        return cells::NONE.into();
    }
    format!("{passed}/{all}").into()
}

/// The row condition `Completed` of a finished Pod.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(&pod["status"]["phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn look(pod: &Value) -> ContainerSummary {
    let mut look = ContainerSummary {
        word: first_word(pod),
        ..ContainerSummary::default()
    };
    let mut sidecars = RestartCount::default();
    if let Some(word) = look_at_inits(pod, &mut look, &mut sidecars) {
        look.word = word;
        if !holds(pod, "Initialized") {
            return look;
        }
    }
    // Restarts of init containers no longer count after initialization.
    look.restarts = sidecars;
    look_at_containers(pod, &mut look);
    look
}

/// The status of a Pod without information about its containers.
fn first_word(pod: &Value) -> String {
    let status = &pod["status"];
    let gated = |condition: &Value| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    };
    if items(&status["conditions"]).any(gated) {
        return "SchedulingGated".into();
    }
    match text(&status["reason"]) {
        "" => text(&status["phase"]).into(),
        reason => reason.into(),
    }
}

/// Examines the init containers up to the current one; returns its status, if it decides that of the Pod.
fn look_at_inits(
    pod: &Value,
    look: &mut ContainerSummary,
    stay: &mut RestartCount,
) -> Option<String> {
    let all = items(&pod["spec"]["initContainers"]).count();
    for (index, container) in items(&pod["status"]["initContainerStatuses"]).enumerate() {
        let is_sidecar = sidecars(pod).any(|name| *name == container["name"]);
        look.restarts.add(container);
        if is_sidecar {
            stay.add(container);
        }
        let ended = &container["state"]["terminated"];
        if ended["exitCode"] == 0 {
            continue;
        }
        if is_sidecar && container["started"] == true {
            look.ready += usize::from(container["ready"] == true);
            continue;
        }
        let word = match text(&container["state"]["waiting"]["reason"]) {
            _ if ended.is_object() => end_of(ended),
            "" | "PodInitializing" => format!("{index}/{all}"),
            reason => reason.to_owned(),
        };
        return Some(format!("Init:{word}"));
    }
    None
}

fn look_at_containers(pod: &Value, look: &mut ContainerSummary) {
    let (mut first, mut some_run) = (None, false);
    for container in items(&pod["status"]["containerStatuses"]) {
        look.restarts.add(container);
        let state = &container["state"];
        let word = match text(&state["waiting"]["reason"]) {
            "" if state["terminated"].is_object() => Some(end_of(&state["terminated"])),
            "" => None,
            reason => Some(reason.to_owned()),
        };
        if word.is_none() && container["ready"] == true && state["running"].is_object() {
            some_run = true;
            look.ready += 1;
        }
        first = first.or(word);
    }
    look.word = first.unwrap_or_else(|| std::mem::take(&mut look.word));
    if look.word == "Completed" && some_run {
        let word = if holds(pod, "Ready") {
            "Running"
        } else {
            "NotReady"
        };
        look.word = word.to_owned();
    }
}

/// The status of a terminated container as one word.
fn end_of(ended: &Value) -> String {
    let number = |field: &str| ended[field].as_i64().unwrap_or_default();
    match (text(&ended["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Names of the sidecars.
fn sidecars(pod: &Value) -> impl Iterator<Item = &Value> {
    items(&pod["spec"]["initContainers"])
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| &container["name"])
}

fn holds(pod: &Value, condition: &str) -> bool {
    is_true(&pod["status"], condition)
}

// === impl RestartCount ===

impl RestartCount {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or_default();
        let ended = text(&container["lastState"]["terminated"]["finishedAt"]);
        self.last = self.last.max(ended.parse().ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_pod(phase: &str, states: &[Value]) -> Value {
        let containers: Value = states.iter().map(|_| json!({"image": "i"})).collect();
        json!({"spec": {"containers": containers}, "status": {"phase": phase, "containerStatuses": states}})
    }

    /// A Pod with one waiting container, and init containers with these restart policies and states.
    fn mk_starting(policies: &[&str], states: &[Value]) -> Value {
        let mut pod = mk_pod("Pending", &[waits("PodInitializing")]);
        let name = |at: usize| format!("i{at}");
        let policies = policies.iter().enumerate();
        pod["spec"]["initContainers"] = policies
            .map(|(at, policy)| json!({"name": name(at), "restartPolicy": policy}))
            .collect();
        let states = states.iter().cloned().enumerate();
        pod["status"]["initContainerStatuses"] = states
            .map(|(at, state)| with(state, json!({"name": name(at)})))
            .collect();
        pod
    }

    fn with(mut object: Value, rest: Value) -> Value {
        if let (Value::Object(members), Value::Object(rest)) = (&mut object, rest) {
            members.extend(rest);
        }
        object
    }

    fn deleted(pod: Value) -> Value {
        with(
            pod,
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        )
    }

    fn satisfied(mut pod: Value, condition: &str) -> Value {
        pod["status"]["conditions"] = json!([{"type": condition, "status": "True"}]);
        pod
    }

    fn runs() -> Value {
        json!({"ready": true, "started": true, "state": {"running": {}}})
    }

    fn unready() -> Value {
        with(runs(), json!({"ready": false}))
    }

    fn waits(reason: &str) -> Value {
        json!({"state": {"waiting": {"reason": reason}}})
    }

    fn ended(code: i64, signal: i64, reason: &str) -> Value {
        json!({"state": {"terminated": {"exitCode": code, "signal": signal, "reason": reason}}})
    }

    fn again(state: Value, count: i64, finished: &str) -> Value {
        let last = json!({"terminated": {"exitCode": 1, "finishedAt": finished}});
        with(state, json!({"restartCount": count, "lastState": last}))
    }

    /// Compares ready, status and restarts.
    fn assert_shown(pod: &Value, expected: [&str; 3]) {
        let now = "2026-01-01T00:05:16Z".parse().unwrap();
        let shown = [ready(pod), status(pod), restarts(pod, now)];
        assert_eq!(shown, expected.map(Value::from), "{pod}");
    }

    #[test]
    fn status_is_that_of_the_first_container_that_does_not_run() {
        let (five, ten) = ("2026-01-01T00:00:16Z", "2025-12-31T23:55:16Z");
        let cases = [
            (mk_pod("Pending", &[]), ["0/0", "Pending", "0"]),
            (
                mk_pod("Pending", &[waits("ContainerCreating")]),
                ["0/1", "ContainerCreating", "0"],
            ),
            (mk_pod("Pending", &[waits("")]), ["0/1", "Pending", "0"]),
            (
                mk_pod("Running", &[runs(), unready()]),
                ["1/2", "Running", "0"],
            ),
            (
                mk_pod("Running", &[again(waits("CrashLoopBackOff"), 5, five)]),
                ["0/1", "CrashLoopBackOff", "5 (5m ago)"],
            ),
            (
                mk_pod("Running", &[again(runs(), 1, five), again(runs(), 2, ten)]),
                ["2/2", "Running", "3 (5m ago)"],
            ),
            (
                mk_pod("Running", &[again(runs(), 2, "")]),
                ["1/1", "Running", "2"],
            ),
            (
                mk_pod("Running", &[again(runs(), 0, five)]),
                ["1/1", "Running", "0"],
            ),
            (
                mk_pod(
                    "Pending",
                    &[waits("ErrImagePull"), waits("ContainerCreating")],
                ),
                ["0/2", "ErrImagePull", "0"],
            ),
            (
                mk_pod("Failed", &[ended(1, 0, "Error")]),
                ["0/1", "Error", "0"],
            ),
            (
                mk_pod("Failed", &[ended(3, 0, "")]),
                ["0/1", "ExitCode:3", "0"],
            ),
            (
                mk_pod("Failed", &[ended(137, 9, "")]),
                ["0/1", "Signal:9", "0"],
            ),
            (
                mk_pod("Succeeded", &[ended(0, 0, "Completed")]),
                ["0/1", "Completed", "0"],
            ),
            (
                mk_pod("Running", &[ended(0, 0, "Completed"), runs()]),
                ["1/2", "NotReady", "0"],
            ),
            (
                satisfied(
                    mk_pod("Running", &[ended(0, 0, "Completed"), runs()]),
                    "Ready",
                ),
                ["1/2", "Running", "0"],
            ),
        ];
        for (pod, expected) in cases {
            assert_shown(&pod, expected);
        }
    }

    #[test]
    fn reason_precedes_phase_and_gate_precedes_both() {
        let mut pod = mk_pod("Failed", &[]);
        pod["status"]["reason"] = "Evicted".into();
        assert_shown(&pod, ["0/0", "Evicted", "0"]);
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        assert_shown(&pod, ["0/0", "SchedulingGated", "0"]);
    }

    #[test]
    fn starting_pod_shows_its_current_init_container() {
        let five = "2026-01-01T00:00:16Z";
        let done = || again(ended(0, 0, "Completed"), 3, five);
        let cases = [
            (mk_starting(&["", ""], &[]), ["0/1", "PodInitializing", "0"]),
            (
                mk_starting(&["", ""], &[runs(), waits("PodInitializing")]),
                ["0/1", "Init:0/2", "0"],
            ),
            (
                mk_starting(&["", ""], &[done(), waits("PodInitializing")]),
                ["0/1", "Init:1/2", "3 (5m ago)"],
            ),
            (
                mk_starting(
                    &["", ""],
                    &[again(waits("CrashLoopBackOff"), 4, five), runs()],
                ),
                ["0/1", "Init:CrashLoopBackOff", "4 (5m ago)"],
            ),
            (
                mk_starting(&[""], &[ended(1, 0, "Error")]),
                ["0/1", "Init:Error", "0"],
            ),
            (
                mk_starting(&[""], &[ended(2, 0, "")]),
                ["0/1", "Init:ExitCode:2", "0"],
            ),
            (
                mk_starting(&[""], &[ended(137, 9, "")]),
                ["0/1", "Init:Signal:9", "0"],
            ),
            (
                mk_starting(&[""], &[done()]),
                ["0/1", "PodInitializing", "0"],
            ),
            (
                satisfied(mk_starting(&[""], &[runs()]), "Initialized"),
                ["0/1", "PodInitializing", "0"],
            ),
        ];
        for (pod, expected) in cases {
            assert_shown(&pod, expected);
        }
    }

    #[test]
    fn sidecar_counts_once_started() {
        let five = "2026-01-01T00:00:16Z";
        let starts = || with(unready(), json!({"started": false}));
        let cases = [
            (
                mk_starting(&["Always"], &[starts()]),
                ["0/2", "Init:0/1", "0"],
            ),
            (
                mk_starting(&["Always", ""], &[runs(), runs()]),
                ["1/2", "Init:1/2", "0"],
            ),
            (
                mk_starting(&["Always", ""], &[unready(), runs()]),
                ["0/2", "Init:1/2", "0"],
            ),
            (
                mk_starting(&["Always"], &[again(runs(), 2, five)]),
                ["1/2", "PodInitializing", "2 (5m ago)"],
            ),
            (
                mk_starting(&["Always"], &[ended(1, 0, "Error")]),
                ["0/2", "Init:Error", "0"],
            ),
        ];
        for (pod, expected) in cases {
            assert_shown(&pod, expected);
        }
    }

    #[test]
    fn deleted_pod_is_terminating_unless_finished_or_node_lost() {
        let lost = |phase: &str| {
            let mut pod = mk_pod(phase, &[]);
            pod["status"]["reason"] = "NodeLost".into();
            pod
        };
        let cases = [
            (deleted(mk_pod("Running", &[runs()])), "Terminating"),
            (deleted(mk_pod("Pending", &[])), "Terminating"),
            (
                deleted(mk_pod("Succeeded", &[ended(0, 0, "Completed")])),
                "Completed",
            ),
            (deleted(lost("Running")), "Unknown"),
            (deleted(lost("Failed")), "Unknown"),
            (lost("Running"), "NodeLost"),
        ];
        for (pod, word) in cases {
            assert_eq!(status(&pod), word, "{pod}");
        }
    }

    #[test]
    fn row_condition_shows_finished_pod() {
        let reason =
            |phase: &str| conditions(&mk_pod(phase, &[])).map(|all| all[0]["reason"].clone());
        assert_eq!(reason("Succeeded"), Some("Succeeded".into()));
        assert_eq!(reason("Failed"), Some("Failed".into()));
        assert_eq!(reason("Running"), None);
    }

    #[test]
    fn counts_readiness_gates_by_condition() {
        let mut pod = satisfied(mk_pod("Running", &[runs()]), "a");
        assert_eq!(readiness_gates(&pod), "<none>");
        pod["spec"]["readinessGates"] = json!([{"conditionType": "a"}, {"conditionType": "b"}]);
        assert_eq!(readiness_gates(&pod), "1/2");
    }
}
