//! Several `caretaker run` on one server: one of them leads, and another takes over.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::HttpClient;
use crate::peers::{RunProcess, create_garbage, wait_deleted};
use crate::process::UpProcess;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/caretaker";

/// Short times, so that a takeover takes seconds.
const FLAGS: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// Time limit that only a process that does nothing exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

const LEADS: &str = "this process leads (";
const STANDBY: &str = "leads: it holds the Lease kube-system/caretaker";

fn holder(client: &HttpClient) -> String {
    let (_, lease) = client.get(LEASE);
    let holder = lease["spec"]["holderIdentity"].as_str();
    holder.unwrap_or_default().to_owned()
}

/// The messages of the Events about the Lease.
fn lease_events(client: &HttpClient) -> Vec<String> {
    let path = "/api/v1/namespaces/kube-system/events?fieldSelector=reason=LeaderElection";
    let (_, list) = client.get(path);
    let events = list["items"].as_array().cloned().unwrap_or_default();
    let about_lease = |event: &&Value| event["involvedObject"]["kind"] == "Lease";
    let messages = events.iter().filter(about_lease);
    messages
        .filter_map(|event| event["message"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_standby_takes_over_from_a_leader_that_is_killed_or_stopped() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    let start = || RunProcess::start(&up, &up.kubeconfig(), &FLAGS);
    let mut one = start();
    one.process.error_line_with(LEADS, PATIENCE);
    let first = holder(&client);
    let mut two = start();
    two.process.error_line_with(STANDBY, PATIENCE);
    two.wait_ready(200, STANDBY);
    create_garbage(&client, "a");
    wait_deleted(&client, "a");

    one.process.signal(Signal::KILL);
    two.process.error_line_with(LEADS, PATIENCE);
    assert_ne!(holder(&client), first);
    create_garbage(&client, "b");
    wait_deleted(&client, "b");

    // A clean exit releases the Lease.
    let mut three = start();
    three.process.error_line_with(STANDBY, PATIENCE);
    two.process.signal(Signal::TERM);
    three.process.error_line_with(LEADS, PATIENCE);
    create_garbage(&client, "c");
    wait_deleted(&client, "c");
    assert_eq!(two.process.end().code, 0);

    let last = holder(&client);
    three.process.signal(Signal::TERM);
    assert_eq!(three.process.end().code, 0);
    assert_eq!(holder(&client), "");

    let events = lease_events(&client);
    for (identity, what) in [
        (&first, "became leader"),
        (&last, "became leader"),
        (&last, "stopped leading"),
    ] {
        let message = format!("{identity} {what}");
        assert!(events.contains(&message), "{message}: {events:#?}");
    }
    // A killed process emits nothing.
    assert!(!events.contains(&format!("{first} stopped leading")));
}

#[test]
fn a_leader_whose_lease_is_given_to_another_stops_writing() {
    let up = UpProcess::start(&["--controllers=none"]);
    let client = HttpClient::of(&up.kubeconfig());
    let mut run = RunProcess::start(&up, &up.kubeconfig(), &FLAGS);
    run.process.error_line_with(LEADS, PATIENCE);
    // The leader renews at any moment.
    loop {
        let (_, mut lease) = client.get(LEASE);
        lease["spec"]["holderIdentity"] = json!("somewhere-else");
        lease["spec"]["leaseDurationSeconds"] = json!(3600);
        if client.try_put(LEASE, &lease) == 200 {
            break;
        }
    }
    let line = run.process.error_line_with("leads no more", PATIENCE);
    assert!(line.contains("somewhere-else leads"), "{line}");
    create_garbage(&client, "a");
    run.wait_ready(200, "somewhere-else leads");
    assert_eq!(client.get("/api/v1/namespaces/default/configmaps/a").0, 200);
    // The Lease is deleted by hand: the process leads again and does what waited.
    client.delete(LEASE);
    run.process.error_line_with(LEADS, PATIENCE);
    wait_deleted(&client, "a");
}
