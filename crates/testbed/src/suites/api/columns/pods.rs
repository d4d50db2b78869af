//! Pods: how many containers are ready, the word for their state, and how often something was started again.

use super::*;

const NAMED: [&str; 2] = ["c", "d"];

/// A Pod with a status.
fn pod(name: &str, spec: Value, status: Value) -> Value {
    with(
        mk_pod(name),
        Value::from_iter([("spec", spec), ("status", status)]),
    )
}

/// A Pod whose containers are in these states.
fn pod_of(name: &str, phase: &str, states: &[Value]) -> Value {
    let names = NAMED.iter().take(states.len());
    let containers: Value = names
        .map(|name| json!({"name": name, "image": "i"}))
        .collect();
    let statuses: Value = states
        .iter()
        .zip(NAMED)
        .map(|(state, name)| with(state.clone(), json!({"name": name})))
        .collect();
    pod(
        name,
        json!({"containers": containers}),
        json!({"phase": phase, "containerStatuses": statuses}),
    )
}

/// A Pod with containers that run before its own one.
fn pod_after(name: &str, inits: &[Value], states: &[Value]) -> Value {
    let named =
        |(at, state): (usize, &Value)| with(state.clone(), json!({"name": format!("i{at}")}));
    let statuses: Value = states.iter().enumerate().map(named).collect();
    let inits: Value = inits
        .iter()
        .enumerate()
        .map(named)
        .map(|init| with(init, json!({"image": "i"})))
        .collect();
    let waits = state(json!({"waiting": {"reason": "PodInitializing"}}));
    let status = json!({"initContainerStatuses": statuses});
    let own = pod_of(name, "Pending", &[waits]);
    with(
        own,
        json!({"spec": {"initContainers": inits}, "status": status}),
    )
}

fn state(state: Value) -> Value {
    let mut container = json!({"ready": false, "restartCount": 0, "image": "i", "imageID": ""});
    container["state"] = state;
    container
}

fn runs() -> Value {
    with(
        state(json!({"running": {"startedAt": EARLIER}})),
        json!({"ready": true, "started": true}),
    )
}

fn ended(code: u8, reason: &str) -> Value {
    state(
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": EARLIER, "finishedAt": EARLIER}}),
    )
}

fn waits(reason: &str) -> Value {
    state(json!({"waiting": {"reason": reason}}))
}

/// Restarted several times, the last time after it ended then.
fn again(state: Value, restarts: u8, ended: &str) -> Value {
    let last = json!({"terminated": {"exitCode": 1, "startedAt": EARLIER, "finishedAt": ended}});
    with(state, json!({"restartCount": restarts, "lastState": last}))
}

fn holds(condition: &str) -> Value {
    json!({"type": condition, "status": "True"})
}

pub(super) async fn columns_of_pods_that_run(s: &mut Session) {
    nothing(s, &PODS).await;
    let bound = json!({"spec": {"nodeName": "node-1"}, "status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}, {"ip": "fd00::1"}]}});
    let gates = json!([{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}, {"conditionType": "example.com/c"}]);
    let passed = json!([holds("example.com/a"), {"type": "example.com/b", "status": "False"}]);
    let undated = json!({"lastState": {"terminated": {"finishedAt": null}}});
    let objects = [
        mk_pod("a-new"),
        with(pod_of("b-runs", "Running", &[runs()]), bound),
        pod_of(
            "c-one-of-two",
            "Running",
            &[runs(), with(runs(), json!({"ready": false}))],
        ),
        pod_of("d-again", "Running", &[again(runs(), 2, EARLIER)]),
        pod_of(
            "e-again-undated",
            "Running",
            &[with(again(runs(), 2, EARLIER), undated)],
        ),
        pod_of(
            "f-both-again",
            "Running",
            &[again(runs(), 2, EARLIER), again(runs(), 3, LATER)],
        ),
        pod_of(
            "g-crashes",
            "Running",
            &[again(waits("CrashLoopBackOff"), 5, EARLIER)],
        ),
        pod("h-no-states", json!({}), json!({"phase": "Running"})),
        pod(
            "i-reason",
            json!({}),
            json!({"phase": "Running", "reason": "Because"}),
        ),
        pod(
            "j-nominated",
            json!({}),
            json!({"nominatedNodeName": "node-2"}),
        ),
        pod(
            "k-gates",
            json!({"readinessGates": gates}),
            json!({"conditions": passed}),
        ),
    ];
    shown(s, &PODS, objects).await;
}

pub(super) async fn columns_of_pods_that_start(s: &mut Session) {
    let gated = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
    let ungated = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    let (one, two) = ([json!({})], [json!({}), json!({})]);
    let signalled = with(
        ended(0, ""),
        json!({"state": {"terminated": {"exitCode": 137, "signal": 9}}}),
    );
    let initialized = json!({"status": {"conditions": [holds("Initialized")]}});
    let objects = [
        pod(
            "a-gated",
            json!({"schedulingGates": [{"name": "example.com/g"}]}),
            json!({"conditions": [gated]}),
        ),
        pod(
            "b-unschedulable",
            json!({}),
            json!({"conditions": [ungated]}),
        ),
        pod_of("c-creates", "Pending", &[waits("ContainerCreating")]),
        pod_of(
            "d-pulls",
            "Pending",
            &[waits("ErrImagePull"), waits("ContainerCreating")],
        ),
        pod_of("e-waits", "Pending", &[state(json!({"waiting": {}}))]),
        pod_after("f-first", &two, &[runs(), waits("PodInitializing")]),
        pod_after(
            "g-second",
            &two,
            &[ended(0, "Completed"), waits("PodInitializing")],
        ),
        pod_after(
            "h-init-crashes",
            &two,
            &[
                again(waits("CrashLoopBackOff"), 4, EARLIER),
                waits("PodInitializing"),
            ],
        ),
        pod_after("i-init-fails", &one, &[ended(1, "Error")]),
        pod_after("j-init-code", &one, &[ended(2, "")]),
        pod_after("k-init-signal", &one, &[signalled]),
        pod_after("l-init-again", &one, &[again(runs(), 3, EARLIER)]),
        pod_after(
            "m-all-done",
            &one,
            &[again(ended(0, "Completed"), 3, EARLIER)],
        ),
        with(
            pod_after("n-initialized", &one, &[again(runs(), 3, EARLIER)]),
            initialized,
        ),
        pod_after("o-none-known", &two, &[]),
    ];
    shown(s, &PODS, objects).await;
}

pub(super) async fn columns_of_pods_with_sidecars(s: &mut Session) {
    let always = json!({"restartPolicy": "Always"});
    let (one, two) = ([always.clone()], [always, json!({})]);
    let unready = || with(runs(), json!({"ready": false}));
    let unstarted = || with(unready(), json!({"started": false}));
    let main = json!({"status": {"phase": "Running", "containerStatuses": [with(again(runs(), 1, EARLIER), json!({"name": "c"}))]}});
    let objects = [
        pod_after("a-starts", &one, &[unstarted()]),
        pod_after("b-waits", &one, &[waits("ErrImagePull")]),
        pod_after("c-then-init", &two, &[runs(), runs()]),
        pod_after("d-unready-then-init", &two, &[unready(), runs()]),
        with(pod_after("e-beside", &one, &[runs()]), main.clone()),
        with(pod_after("f-unready", &one, &[unready()]), main.clone()),
        with(
            pod_after("g-again", &one, &[again(runs(), 2, LATER)]),
            main.clone(),
        ),
        with(
            pod_after("h-only-sidecar-again", &one, &[again(runs(), 2, EARLIER)]),
            json!({"status": {"phase": "Running"}}),
        ),
        with(
            pod_after(
                "i-init-again-too",
                &two,
                &[
                    again(runs(), 2, EARLIER),
                    again(ended(0, "Completed"), 4, LATER),
                ],
            ),
            main.clone(),
        ),
        with(
            pod_after(
                "j-fell",
                &one,
                &[again(
                    with(ended(1, "Error"), json!({"started": false})),
                    2,
                    EARLIER,
                )],
            ),
            main.clone(),
        ),
        with(
            pod_after(
                "k-ended-well",
                &one,
                &[with(ended(0, "Completed"), json!({"started": false}))],
            ),
            main.clone(),
        ),
        with(
            with(
                pod_after(
                    "l-fell-initialized",
                    &one,
                    &[with(ended(1, "Error"), json!({"started": false}))],
                ),
                main,
            ),
            json!({"status": {"conditions": [holds("Initialized")]}}),
        ),
    ];
    shown(s, &PODS, objects).await;
}

pub(super) async fn columns_of_pods_that_end(s: &mut Session) {
    let signal = with(
        ended(137, ""),
        json!({"state": {"terminated": {"signal": 9}}}),
    );
    let ready = json!({"status": {"conditions": [holds("Ready")]}});
    let lost = |phase: &str| json!({"phase": phase, "reason": "NodeLost"});
    let objects = [
        pod_of("a-succeeded", "Succeeded", &[ended(0, "Completed")]),
        pod_of("b-failed", "Failed", &[ended(1, "Error")]),
        pod_of("c-code", "Failed", &[ended(3, "")]),
        pod_of("d-signal", "Failed", &[signal]),
        pod_of("e-code-zero", "Succeeded", &[ended(0, "")]),
        pod(
            "f-evicted",
            json!({}),
            json!({"phase": "Failed", "reason": "Evicted"}),
        ),
        pod_of("g-half", "Running", &[ended(0, "Completed"), runs()]),
        with(
            pod_of("h-half-ready", "Running", &[ended(0, "Completed"), runs()]),
            ready,
        ),
        pod_of("i-half-failed", "Running", &[ended(1, "Error"), runs()]),
        pod_of(
            "j-first-counts",
            "Failed",
            &[ended(2, "Error"), ended(137, "OOMKilled")],
        ),
        pod_of("k-second-failed", "Running", &[runs(), ended(1, "Error")]),
        deleted(pod_of("l-terminates", "Running", &[runs()])),
        deleted(mk_pod("m-pending-terminates")),
        deleted(pod_of(
            "n-succeeded-deleted",
            "Succeeded",
            &[ended(0, "Completed")],
        )),
        deleted(pod_of("o-failed-deleted", "Failed", &[ended(1, "Error")])),
        deleted(pod("p-node-lost", json!({}), lost("Running"))),
        deleted(pod("q-failed-node-lost", json!({}), lost("Failed"))),
        pod("r-node-lost-not-deleted", json!({}), lost("Running")),
        pod("s-unknown", json!({}), json!({"phase": "Unknown"})),
        deleted(pod_after("t-init-terminates", &[json!({})], &[runs()])),
    ];
    shown(s, &PODS, objects).await;
}

pub(super) async fn columns_of_pods_in_a_watch(s: &mut Session) {
    given(s, &PODS, pod_of("a", "Running", &[runs()])).await;
    let mut watch = watching(s, &PODS, "").await;
    s.take(&mut watch, 2).await;
    given(s, &PODS, mk_pod("b")).await;
    given(s, &PODS, pod_of("c", "Succeeded", &[ended(0, "Completed")])).await;
    s.take(&mut watch, 3).await;
}
