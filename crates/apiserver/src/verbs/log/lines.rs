//! The lines of a simulated container's log, made from the status and the annotations of its Pod.

use caretaker_machinery::status::Status;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::Value;

use crate::metadata::{self, ObjectTree, value_at};

/// The prefix of the annotations that control the simulation.
const ANNOTATIONS: &str = "simulate.caretaker.dev/";
/// The fields of a Pod's status that list containers.
const STATUSES: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) at: Timestamp,
    pub(super) message: String,
}

/// One run of a container; a restart begins another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContainerRun {
    started: Timestamp,
    end: Option<RunEnd>,
    restarts: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RunEnd {
    at: Timestamp,
    code: i64,
    reason: String,
}

// === impl LogLine ===

impl LogLine {
    pub(super) fn text(&self, timestamps: bool) -> String {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(9));
        let message = &self.message;
        match timestamps {
            true => format!("{} {message}\n", PRINTER.timestamp_to_string(&self.at)),
            false => format!("{message}\n"),
        }
    }
}

// === impl ContainerRun ===

impl ContainerRun {
    /// Returns the run of a container whose log is shown: the present one, or the one before. A container that waits for
    /// its restart shows its last run.
    pub(super) fn of(pod: &ObjectTree, container: &str, previous: bool) -> Result<Self, Status> {
        let name = metadata::text(pod, "name");
        let status = status_of(pod, container);
        let restarts = status["restartCount"].as_i64().unwrap_or(0);
        let last = Self::ended(&status["lastState"]["terminated"], restarts - 1);
        if previous {
            return last.ok_or_else(|| {
                Status::bad_request(format!(
                    "previous terminated container {container:?} in pod {name:?} not found"
                ))
            });
        }
        let state = &status["state"];
        if let Some(started) = time(&state["running"]["startedAt"]) {
            return Ok(Self {
                started,
                end: None,
                restarts,
            });
        }
        let shown = Self::ended(&state["terminated"], restarts).or(last);
        shown.ok_or_else(|| {
            let reason = state["waiting"]["reason"].as_str();
            let reason = reason.unwrap_or("ContainerCreating");
            Status::bad_request(format!(
                "container {container:?} in pod {name:?} is waiting to start: {reason}"
            ))
        })
    }

    /// Returns the same run as the Pod shows it now. A run that is not shown any more has ended.
    pub(super) fn now(&self, pod: &ObjectTree, container: &str) -> Self {
        let status = status_of(pod, container);
        let ends = [
            &status["state"]["terminated"],
            &status["lastState"]["terminated"],
        ];
        let mut ends = ends
            .into_iter()
            .filter_map(|ended| Self::ended(ended, self.restarts));
        if let Some(ended) = ends.find(|ended| ended.started == self.started) {
            return ended;
        }
        match time(&status["state"]["running"]["startedAt"]) {
            Some(started) if started == self.started => self.clone(),
            _ => Self {
                end: Some(RunEnd {
                    at: self.started,
                    code: 0,
                    reason: String::new(),
                }),
                ..self.clone()
            },
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn ended(terminated: &Value, restarts: i64) -> Option<Self> {
        let started = time(&terminated["startedAt"])?;
        Some(Self {
            started,
            end: Some(RunEnd {
                at: time(&terminated["finishedAt"]).unwrap_or(started),
                code: terminated["exitCode"].as_i64().unwrap_or(0),
                reason: terminated["reason"].as_str().unwrap_or_default().to_owned(),
            }),
            restarts,
        })
    }
}

/// Returns the lines of one run, in the order of time.
pub(super) fn of_run(pod: &ObjectTree, container: &str, run: &ContainerRun) -> Vec<LogLine> {
    let mut lines = Vec::new();
    let mut say = |at: Timestamp, message: String| lines.push(LogLine { at, message });
    let (namespace, name) = (
        metadata::text(pod, "namespace"),
        metadata::text(pod, "name"),
    );
    if run.restarts <= 0 {
        let node = value_at(pod, "/spec/nodeName").as_str().unwrap_or_default();
        let at = scheduled(pod).unwrap_or(run.started).min(run.started);
        say(
            at,
            format!("Pod {namespace}/{name} is scheduled to Node {node}"),
        );
        let image = status_of(pod, container)["image"]
            .as_str()
            .unwrap_or_default();
        say(run.started, format!("image {image} is pulled"));
        say(run.started, format!("container {container} is started"));
    } else {
        let restarts = run.restarts;
        say(
            run.started,
            format!("container {container} is started again, restart {restarts}"),
        );
    }
    let simulation = simulation(pod);
    say(
        run.started,
        format!("this is a simulation, no process runs{simulation}"),
    );
    if let Some(end) = run.end.as_ref().filter(|end| !end.reason.is_empty()) {
        let RunEnd { at, code, reason } = end;
        say(
            *at,
            format!("container {container} has ended with exit code {code} ({reason})"),
        );
    }
    lines
}

/// Returns the annotations that control the simulation of a Pod, as the end of a line.
fn simulation(pod: &ObjectTree) -> String {
    let annotations = metadata::get(pod, "annotations").and_then(Value::as_object);
    let annotations = annotations.into_iter().flatten();
    let said: Vec<String> = annotations
        .filter_map(|(key, value)| {
            let key = key.strip_prefix(ANNOTATIONS)?;
            // A line break would look like a line of its own.
            let value = value.as_str().unwrap_or_default().escape_debug();
            Some(format!("{key}={value}"))
        })
        .collect();
    match said.as_slice() {
        [] => String::new(),
        said => format!(": {}", said.join(", ")),
    }
}

fn status_of<'a>(pod: &'a ObjectTree, container: &str) -> &'a Value {
    let status = value_at(pod, "/status");
    let statuses = STATUSES
        .iter()
        .filter_map(|field| status[*field].as_array())
        .flatten();
    let mut statuses = statuses.filter(|known| known["name"] == container);
    statuses.next().unwrap_or(&Value::Null)
}

fn scheduled(pod: &ObjectTree) -> Option<Timestamp> {
    let conditions = value_at(pod, "/status/conditions").as_array();
    let mut conditions = conditions.into_iter().flatten();
    let scheduled = conditions.find(|known| known["type"] == "PodScheduled")?;
    time(&scheduled["lastTransitionTime"])
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::mk_tree;

    fn mk_pod(container: &Value) -> ObjectTree {
        mk_tree(&json!({"metadata": {"name": "p", "namespace": "ns",
            "annotations": {"simulate.caretaker.dev/run-seconds": "7", "other": "x"}},
            "spec": {"nodeName": "n"},
            "status": {"conditions": [{"type": "PodScheduled", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "containerStatuses": [container]}}))
    }

    fn mk_status(state: &Value, last: &Value, restarts: i64) -> Value {
        json!({"name": "c", "image": "i", "restartCount": restarts, "state": state, "lastState": last})
    }

    fn mk_end(start: u32, code: i64) -> Value {
        json!({"terminated": {"startedAt": format!("2026-01-01T00:00:{start:02}Z"),
            "finishedAt": format!("2026-01-01T00:00:{:02}Z", start + 5), "exitCode": code, "reason": "Error"}})
    }

    fn log(pod: &ObjectTree, previous: bool) -> Result<String, String> {
        let run = ContainerRun::of(pod, "c", previous).map_err(|status| status.message)?;
        let lines = of_run(pod, "c", &run);
        Ok(lines.iter().map(|line| line.text(false)).collect())
    }

    #[test]
    fn shows_the_life_of_a_container() {
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:01Z"}});
        let first = "Pod ns/p is scheduled to Node n\nimage i is pulled\ncontainer c is started\n\
            this is a simulation, no process runs: run-seconds=7\n";
        let again = "container c is started again, restart 2\n\
            this is a simulation, no process runs: run-seconds=7\n";
        let end = "container c has ended with exit code 1 (Error)\n";
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let not_found = "previous terminated container \"c\" in pod \"p\" not found";
        let cases = [
            (running.clone(), json!({}), 0, false, Ok(first.to_owned())),
            (
                mk_end(1, 1),
                json!({}),
                0,
                false,
                Ok(format!("{first}{end}")),
            ),
            (
                running.clone(),
                mk_end(1, 1),
                2,
                false,
                Ok(again.to_owned()),
            ),
            (
                running.clone(),
                mk_end(1, 1),
                1,
                true,
                Ok(format!("{first}{end}")),
            ),
            (
                waiting("CrashLoopBackOff"),
                mk_end(1, 1),
                3,
                false,
                Ok(format!("{again}{end}")),
            ),
            (running, json!({}), 0, true, Err(not_found.to_owned())),
            (
                waiting("PodInitializing"),
                json!({}),
                0,
                false,
                Err("container \"c\" in pod \"p\" is waiting to start: PodInitializing".to_owned()),
            ),
        ];
        for (state, last, restarts, previous, expected) in cases {
            let pod = mk_pod(&mk_status(&state, &last, restarts));
            assert_eq!(log(&pod, previous), expected, "{state} {last} {restarts}");
        }
    }

    #[test]
    fn a_run_ends_when_it_is_terminated_or_replaced() {
        let running =
            |start: u32| json!({"running": {"startedAt": format!("2026-01-01T00:00:{start:02}Z")}});
        let pod = mk_pod(&mk_status(&running(1), &json!({}), 0));
        let run = ContainerRun::of(&pod, "c", false).unwrap();
        assert!(!run.now(&pod, "c").has_ended());
        for (state, last, lines) in [
            (mk_end(1, 1), json!({}), 5),
            (running(9), mk_end(1, 1), 5),
            (running(9), json!({}), 4),
        ] {
            let pod = mk_pod(&mk_status(&state, &last, 1));
            let run = run.now(&pod, "c");
            assert!(run.has_ended());
            assert_eq!(of_run(&pod, "c", &run).len(), lines);
        }
    }

    #[test]
    fn times_have_nanoseconds_and_annotations_no_line_breaks() {
        let line = LogLine {
            at: "2026-01-01T00:00:01Z".parse().unwrap(),
            message: "m".into(),
        };
        assert_eq!(line.text(true), "2026-01-01T00:00:01.000000000Z m\n");
        let pod =
            mk_tree(&json!({"metadata": {"annotations": {"simulate.caretaker.dev/a": "x\ny"}}}));
        assert_eq!(simulation(&pod), ": a=x\\ny");
    }
}
