//! S8: a Pod is removed by force only if one of Pod GC's four reasons held when that took effect, and before that only its
//! end is written into it.
//!
//! Restated from upstream's sweeps rather than from our controller: terminated and more than are kept, ending on a Node
//! that is not ready and out of service, bound to a Node that has been gone for the quarantine, ending and never bound.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::judged;
use crate::checkers::history::{ObjectHistory, StoredObject};
use crate::objects::with;
use crate::target::TERMINATED_PODS_KEPT;
use crate::wire::{RecordedRequest, RequestSender};

/// How long a Node has to be gone, restated.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Whether a delete is one of those that leave a Pod no time.
pub(super) fn is_forced(act: &RecordedRequest) -> bool {
    act.method == Method::DELETE && act.body["gracePeriodSeconds"] == 0
}

/// Whether a patch writes into what a Pod says about itself.
pub(super) fn is_mark(act: &RecordedRequest) -> bool {
    act.method == Method::PATCH && act.path.ends_with("/status")
}

pub(super) fn delete(
    history: &ObjectHistory,
    act: &RecordedRequest,
    acts: &[RecordedRequest],
) -> Result<(), String> {
    let preconditions = &act.body["preconditions"];
    let (uid, revision) = (&preconditions["uid"], &preconditions["resourceVersion"]);
    let Some((before, after)) = judged(history, uid, revision)? else {
        return Ok(());
    };
    is_wanted(history, before, after.revision, act, acts)
}

pub(super) fn patch(
    history: &ObjectHistory,
    act: &RecordedRequest,
    acts: &[RecordedRequest],
) -> Result<(), String> {
    let metadata = &act.body["metadata"];
    let (uid, revision) = (&metadata["uid"], &metadata["resourceVersion"]);
    let Some((before, after)) = judged(history, uid, revision)? else {
        return Ok(());
    };
    if ["Succeeded", "Failed"].contains(&phase(before)) {
        return Err("S8: it said already how it ended".to_owned());
    }
    if phase(after) != "Failed" || rest(before) != rest(after) {
        return Err("S8: more was written than that it failed".to_owned());
    }
    is_wanted(history, before, after.revision, act, acts)
}

fn is_wanted(
    history: &ObjectHistory,
    pod: &StoredObject,
    at: u64,
    act: &RecordedRequest,
    acts: &[RecordedRequest],
) -> Result<(), String> {
    let there = history.before(at);
    let of = |kind: &'static str| {
        let known = history.kinds().iter().position(|known| known.kind == kind);
        there
            .values()
            .filter(move |stored| Some(stored.known) == known)
    };
    let terminated = of("Pod").filter(|pod| is_terminated(pod)).count();
    if is_terminated(pod) && terminated > TERMINATED_PODS_KEPT {
        return Ok(());
    }
    let name = pod.object["spec"]["nodeName"].as_str().unwrap_or_default();
    if name.is_empty() {
        return match pod.is_deleting() {
            true => Ok(()),
            false => Err("S8: no rule says that it ends".to_owned()),
        };
    }
    match of("Node").find(|node| node.name() == name) {
        Some(node) if is_lost(node) && pod.is_deleting() => Ok(()),
        Some(_) => Err(format!("S8: its Node {name} was there")),
        None if is_quarantined(name, act, acts) => {
            Err(format!("S8: its Node {name} had only just gone"))
        }
        None => Ok(()),
    }
}

fn phase(pod: &StoredObject) -> &str {
    pod.object["status"]["phase"].as_str().unwrap_or_default()
}

fn is_terminated(pod: &StoredObject) -> bool {
    !["Pending", "Running", "Unknown"].contains(&phase(pod))
}

fn is_lost(node: &StoredObject) -> bool {
    let has = |list: &Value, wanted: &dyn Fn(&Value) -> bool| {
        list.as_array().into_iter().flatten().any(wanted)
    };
    let (spec, status) = (&node.object["spec"], &node.object["status"]);
    let is_ready = has(&status["conditions"], &|condition| {
        condition["type"] == "Ready" && condition["status"] == "True"
    });
    let is_tainted = has(&spec["taints"], &|taint| {
        taint["key"] == "node.kubernetes.io/out-of-service"
    });
    !is_ready && is_tainted
}

/// Whether the Node was deleted less than a quarantine ago.
fn is_quarantined(name: &str, act: &RecordedRequest, acts: &[RecordedRequest]) -> bool {
    let path = format!("/nodes/{name}");
    let mut deletes = acts.iter().filter(|other| {
        other.who == RequestSender::User
            && other.method == Method::DELETE
            && other.path.ends_with(&path)
    });
    deletes.any(|delete| act.sent.saturating_duration_since(delete.sent) < QUARANTINE)
}

/// A Pod without what may be written into it.
fn rest(pod: &StoredObject) -> Value {
    let mut object = with(
        pod.object.clone(),
        json!({
            "metadata": { "resourceVersion": null, "managedFields": null },
            "status": { "phase": null, "observedGeneration": null },
        }),
    );
    let conditions = object.pointer_mut("/status/conditions");
    if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
        conditions.retain(|condition| condition["type"] != "DisruptionTarget");
        if conditions.is_empty() {
            object = with(object, json!({ "status": { "conditions": null } }));
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::checkers::KnownKind;
    use crate::checkers::rules::violations;
    use crate::objects::{NODES, PODS};

    fn stored(revision: u64, known: usize, name: &str, rest: Value) -> StoredObject {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": revision.to_string()});
        StoredObject {
            revision,
            is_gone: false,
            object: with(json!({ "metadata": metadata }), rest),
            known,
        }
    }

    fn pod(revision: u64, rest: Value) -> StoredObject {
        stored(revision, 0, "pod", rest)
    }

    fn bound(phase: &str) -> Value {
        json!({"spec": {"nodeName": "node"}, "status": {"phase": phase}})
    }

    fn deleting(pod: Value) -> Value {
        let time = "2026-01-01T00:00:00Z";
        with(pod, json!({"metadata": {"deletionTimestamp": time}}))
    }

    fn node(ready: &str, taint: &str) -> StoredObject {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let rest =
            json!({"spec": {"taints": [{"key": taint}]}, "status": {"conditions": conditions}});
        stored(1, 1, "node", rest)
    }

    fn act(
        who: RequestSender,
        method: Method,
        path: &str,
        body: Value,
        sent: Instant,
    ) -> RecordedRequest {
        RecordedRequest {
            who,
            sent,
            method,
            path: path.to_owned(),
            body,
            status: 200,
            answer: Value::Null,
        }
    }

    fn forced(sent: Instant) -> RecordedRequest {
        let preconditions = json!({"uid": "pod", "resourceVersion": "2"});
        let body = json!({"gracePeriodSeconds": 0, "preconditions": preconditions});
        act(
            RequestSender::Controllers,
            Method::DELETE,
            "/pods/pod",
            body,
            sent,
        )
    }

    fn check(stored: Vec<StoredObject>, acts: &[RecordedRequest], rule: Option<&str>) {
        let kinds = [
            KnownKind::new(PODS, "v1", "Pod"),
            KnownKind::new(NODES, "v1", "Node"),
        ];
        let found = violations(&ObjectHistory::new(&kinds, stored), acts);
        match rule {
            None => assert_eq!(found, Vec::<String>::new()),
            Some(rule) => assert!(found.iter().any(|why| why.contains(rule)), "{found:?}"),
        }
    }

    /// A delete without grace of a Pod that looks like this, beside this Node.
    fn check_delete(pod_then: Value, node: Option<StoredObject>, rule: Option<&str>) {
        let gone = StoredObject {
            is_gone: true,
            ..pod(3, pod_then.clone())
        };
        let mut all = vec![pod(2, pod_then), gone];
        all.extend(node);
        check(all, &[forced(Instant::now())], rule);
    }

    #[tokio::test(start_paused = true)]
    async fn each_reason_is_a_reason_and_nothing_else_is() {
        let tainted = "node.kubernetes.io/out-of-service";
        let unbound = json!({"status": {"phase": "Pending"}});
        check_delete(bound("Running"), None, None);
        check_delete(deleting(unbound.clone()), None, None);
        check_delete(
            deleting(bound("Running")),
            Some(node("False", tainted)),
            None,
        );
        for (pod, node) in [
            (unbound, None),
            (bound("Running"), Some(node("True", ""))),
            (bound("Failed"), Some(node("True", ""))),
            (bound("Running"), Some(node("False", tainted))),
            (deleting(bound("Running")), Some(node("True", tainted))),
            (deleting(bound("Running")), Some(node("False", "other"))),
        ] {
            check_delete(pod, node, Some("S8"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_has_just_gone_is_no_reason_yet() {
        let user = act(
            RequestSender::User,
            Method::DELETE,
            "/nodes/node",
            Value::Null,
            Instant::now(),
        );
        for (secs, rule) in [(39, Some("only just gone")), (41, None)] {
            let later = forced(user.sent + Duration::from_secs(secs));
            let gone = StoredObject {
                is_gone: true,
                ..pod(3, bound("Running"))
            };
            let all = vec![pod(2, bound("Running")), gone];
            check(all, &[user.clone(), later], rule);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_says_that_it_failed_and_nothing_else() {
        let metadata = json!({"uid": "pod", "resourceVersion": "2"});
        let body = json!({ "metadata": metadata });
        let path = "/pods/pod/status";
        let mark = act(
            RequestSender::Controllers,
            Method::PATCH,
            path,
            body,
            Instant::now(),
        );
        let condition = json!({"status": {"conditions": [{"type": "DisruptionTarget"}]}});
        let marked = with(bound("Failed"), condition);
        for (before, after, rule) in [
            (bound("Running"), marked.clone(), None),
            (bound("Running"), bound("Failed"), None),
            (bound("Running"), bound("Succeeded"), Some("S8")),
            (bound("Succeeded"), marked, Some("S8")),
            (
                bound("Running"),
                with(bound("Failed"), json!({"status": {"hostIP": "::"}})),
                Some("S8"),
            ),
        ] {
            let all = vec![pod(2, before), pod(3, after)];
            check(all, std::slice::from_ref(&mark), rule);
        }
    }
}
