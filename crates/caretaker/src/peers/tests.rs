//! Tables of Leases and Pods, and requests to a server in process.

use caretaker_apiserver::{ApiServer, UserIdentity as Caller};
use caretaker_controllers::runtime::clients::ClusterClients;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::header;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::PeerPolicy::{DryRun, TakeOver};
use super::look::{LeaseFacts, PeerLook, PeerResponse};
use super::*;

const NOW: &str = "2026-03-01T12:00:00Z";

fn mk_response(status: u16, date: Option<&str>, body: &Value) -> PeerResponse {
    PeerResponse {
        status,
        date: date.map(|date| date.parse().unwrap()),
        body: body.to_string().into_bytes(),
    }
}

fn mk_lease(holder: &str, renewed: &str) -> Value {
    json!({"metadata": {"name": "kube-controller-manager"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}})
}

#[test]
fn each_response_about_the_lease_has_its_look() {
    let lease = mk_lease("host_1", "2026-03-01T11:59:55Z");
    let facts = LeaseFacts {
        holder: "host_1".into(),
        renewed: "2026-03-01T11:59:55Z".parse().ok(),
        duration_secs: Some(15),
    };
    let date = NOW.parse().ok();
    let status = json!({"kind": "Status", "message": "leases is forbidden"});
    let cases = [
        (200, &lease, PeerLook::Lease(facts, date)),
        (
            200,
            &json!({"spec": {}}),
            PeerLook::Lease(LeaseFacts::default(), date),
        ),
        (404, &json!("404 page not found"), PeerLook::Missing),
        (403, &json!({}), PeerLook::Forbidden("403".into())),
        (
            403,
            &status,
            PeerLook::Forbidden("403: leases is forbidden".into()),
        ),
        (401, &json!({}), PeerLook::Unauthorized("401".into())),
        (503, &json!({}), PeerLook::Failed("503".into())),
    ];
    for (status, body, expected) in cases {
        let response = mk_response(status, Some(NOW), body);
        assert_eq!(look::lease(&response), expected, "{status} {body}");
    }
    let strange = mk_response(200, Some(NOW), &json!({"spec": {"renewTime": "yesterday"}}));
    assert!(matches!(look::lease(&strange), PeerLook::Failed(_)));
}

#[test]
fn one_running_pod_of_volcano_is_enough() {
    let pod = |name: &str, phase: &str| json!({"metadata": {"namespace": "volcano-system", "name": name}, "status": {"phase": phase}});
    let list = |pods: &[Value]| json!({"items": pods});
    let cases = [
        (200, list(&[]), PeerLook::Missing),
        (
            200,
            list(&[pod("a", "Pending"), pod("b", "Running")]),
            PeerLook::Pod("Pod volcano-system/b".into()),
        ),
        (
            200,
            list(&[pod("a", "Succeeded"), json!({"metadata": {"name": "c"}})]),
            PeerLook::Missing,
        ),
        (403, list(&[]), PeerLook::Forbidden("403".into())),
    ];
    for (status, body, expected) in cases {
        let response = mk_response(status, None, &body);
        assert_eq!(look::running_pod(&response), expected, "{body}");
    }
}

/// A Pod that crashes again and again is Running and not ready.
#[test]
fn a_ready_pod_of_kubernetes_is_a_sign_of_life() {
    let pod = |phase: &str, ready: &str| {
        let conditions =
            json!([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}]);
        json!({"metadata": {"namespace": "kube-system", "name": "kcm-a"},
            "status": {"phase": phase, "conditions": conditions}})
    };
    let sign = PeerLook::Pod("Pod kube-system/kcm-a".into());
    let table = [
        (pod("Running", "True"), sign),
        (pod("Running", "False"), PeerLook::Missing),
        (pod("Failed", "True"), PeerLook::Missing),
        (json!({"status": {"phase": "Running"}}), PeerLook::Missing),
    ];
    for (pod, expected) in table {
        let response = mk_response(200, None, &json!({"items": [pod]}));
        assert_eq!(look::ready_pod(&response), expected, "{pod}");
    }
}

#[test]
fn one_look_that_shows_a_manager_is_enough() {
    let alive = || PeerStanding::Alive("a".into());
    let unknown = || PeerStanding::Unknown("503".into());
    let forbidden = || PeerStanding::Forbidden("403".into());
    let absent = || PeerStanding::Absent;
    let table = [
        ([absent(), alive()], alive()),
        ([alive(), PeerStanding::Alive("b".into())], alive()),
        ([alive(), unknown()], alive()),
        ([absent(), unknown()], unknown()),
        ([forbidden(), unknown()], unknown()),
        ([forbidden(), absent()], absent()),
        ([forbidden(), forbidden()], forbidden()),
        ([absent(), absent()], absent()),
    ];
    for (looks, expected) in table {
        assert_eq!(PeerStanding::combined(&looks), expected, "{looks:?}");
    }
}

#[test]
fn a_controller_writes_where_no_other_manager_does_its_work() {
    let cases = [
        (PeerStanding::Absent, "passes"),
        (PeerStanding::Forbidden("403".into()), "passes"),
        (PeerStanding::Alive("a".into()), "records"),
        (PeerStanding::Unknown("503".into()), "waits"),
    ];
    for (standing, expected) in cases {
        let word = match standing.hold(&KUBERNETES) {
            HoldState::Pass | HoldState::PassUntil(_) => "passes",
            HoldState::Wait(_) | HoldState::Standby(_) => "waits",
            HoldState::Record(_) => "records",
        };
        assert_eq!(word, expected, "{standing:?}");
    }
}

fn sentence(manager: &PeerManager, standing: &PeerStanding, policy: PeerPolicy) -> Option<String> {
    manager.sentence(standing, manager.units, policy, false)
}

#[test]
fn sentences_name_the_flags_to_set() {
    let alive = PeerStanding::Alive("host_1".into());
    let line = sentence(&KUBERNETES, &alive, DryRun).unwrap();
    for word in [
        "host_1",
        "as a dry run",
        "--take-over",
        "--controllers=*,-cronjob-controller,-garbage-collector-controller",
    ] {
        assert!(line.contains(word), "{word}: {line}");
    }
    let line = sentence(&VOLCANO, &alive, DryRun).unwrap();
    let flag = "--controllers=*,-cronjob-controller,-gc-controller";
    assert!(line.contains(flag), "{line}");
    let over = sentence(&KUBERNETES, &alive, TakeOver).unwrap();
    assert!(over.contains("--take-over is set"), "{over}");
    let forbidden = PeerStanding::Forbidden("403".into());
    let line = sentence(&KUBERNETES, &forbidden, DryRun).unwrap();
    assert!(
        line.contains("403") && line.contains("kube-system"),
        "{line}"
    );
    let unknown = PeerStanding::Unknown("503".into());
    let line = sentence(&KUBERNETES, &unknown, DryRun).unwrap();
    assert!(
        line.contains("503") && line.contains("do not write yet"),
        "{line}"
    );
    assert_eq!(sentence(&KUBERNETES, &PeerStanding::Absent, DryRun), None);
    let gone = KUBERNETES.sentence(&PeerStanding::Absent, &[BATCH_TTL], DryRun, true);
    assert!(
        gone.unwrap()
            .ends_with("so these controllers write: ttl-after-finished-controller")
    );
    assert_eq!(KUBERNETES.shared(&[VOLCANO_TTL, BATCH_TTL]), [BATCH_TTL]);
}

#[test]
fn shared_controllers_are_documented() {
    let docs = include_str!("../../../../docs/operations.md");
    for manager in [&KUBERNETES, &VOLCANO] {
        let row = format!("| {} |", manager.name);
        let row = docs.lines().find(|line| line.starts_with(&row)).unwrap();
        let line = sentence(manager, &PeerStanding::Alive("a".into()), DryRun).unwrap();
        let flag = line
            .split_whitespace()
            .find(|word| word.starts_with("--controllers="));
        let flag = flag.unwrap().trim_end_matches(',');
        assert!(row.contains(&format!("`{flag}`")), "{flag}: {row}");
        for unit in manager.units {
            assert!(row.contains(&format!("`{unit}`")), "{unit}: {row}");
        }
    }
}

async fn create(client: &Client, path: &str, object: &Value) {
    let request = http::Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(object.to_string().into_bytes()))
        .unwrap();
    let status = client.send(request).await.unwrap().status();
    assert_eq!(status.as_u16(), 201, "{path}");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_queried_for_both() {
    let clock = Clock::driven(NOW.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock, Rng::seeded(1));
    let client = Client::new(server.service(Caller::admin()), "default");
    let look = async |manager: &PeerManager, place: usize| {
        let plan = &manager.looks[place];
        look::look(&client, plan.path, plan.read).await
    };
    for (manager, place) in [(&KUBERNETES, 0), (&KUBERNETES, 1), (&VOLCANO, 0)] {
        assert_eq!(look(manager, place).await, PeerLook::Missing);
    }

    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    create(
        &client,
        leases,
        &mk_lease("host_1", "2026-03-01T12:00:00.000000Z"),
    )
    .await;
    let pod = json!({"metadata": {"name": "vc", "labels": {"app": "volcano-controller"}},
        "spec": {"containers": [{"name": "a", "image": "a"}]}});
    create(&client, "/api/v1/namespaces/default/pods", &pod).await;
    let seen = look(&KUBERNETES, 0).await;
    assert!(
        matches!(&seen, PeerLook::Lease(lease, Some(_)) if lease.holder == "host_1"),
        "{seen:?}"
    );
    assert_eq!(look(&VOLCANO, 0).await, PeerLook::Missing);
    run_pod(&client, "default/pods/vc").await;
    assert_eq!(
        look(&VOLCANO, 0).await,
        PeerLook::Pod("Pod default/vc".into())
    );
}

/// Sets the status of a Pod as its kubelet would.
async fn run_pod(client: &Client, path: &str) {
    let body = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let patch = http::Request::patch(format!("/api/v1/namespaces/{path}/status"))
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap();
    assert_eq!(client.send(patch).await.unwrap().status().as_u16(), 200);
}

/// With `--leader-elect=false` it has no Lease, or one that is not renewed any more.
#[tokio::test(start_paused = true)]
async fn a_manager_without_leader_election_is_seen_by_its_pod() {
    let clock = Clock::driven(NOW.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(1));
    let client = Client::new(server.service(Caller::admin()), "default");
    let clients = ClusterClients::in_process(client.clone());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    create(
        &client,
        leases,
        &mk_lease("a", "2026-02-01T12:00:00.000000Z"),
    )
    .await;
    let pod = json!({"metadata": {"name": "kcm", "labels": {"component": "kube-controller-manager"}},
        "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let pods = "/api/v1/namespaces/kube-system/pods";
    create(&client, pods, &pod).await;
    run_pod(&client, "kube-system/pods/kcm").await;
    let peers = PeerWatch::start(&clients, &clock, &[GARBAGE_COLLECTOR], DryRun);
    let hold = peers.hold(GARBAGE_COLLECTOR).unwrap();
    let pass = async |secs: u64| tokio::time::sleep(Duration::from_secs(secs)).await;
    pass(3600).await;
    let HoldState::Record(why) = hold.state() else {
        panic!("{hold:?}")
    };
    assert!(why.contains("Pod kube-system/kcm"), "{why}");
    let delete = http::Request::delete(format!("{pods}/kcm?gracePeriodSeconds=0"));
    let deleted = client.send(delete.body(Body::empty()).unwrap()).await;
    assert_eq!(deleted.unwrap().status().as_u16(), 200);
    pass(50).await;
    assert_eq!(hold.state(), HoldState::Pass);
}

/// The gate follows the Lease for the life of the process, in both directions.
#[tokio::test(start_paused = true)]
async fn the_lease_is_watched_all_the_time() {
    let clock = Clock::driven(NOW.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(1));
    let client = Client::new(server.service(Caller::admin()), "default");
    let clients = ClusterClients::in_process(client.clone());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    // Renewed 20 s ago: a manager between two leaders.
    create(
        &client,
        leases,
        &mk_lease("a", "2026-03-01T11:59:40.000000Z"),
    )
    .await;
    let peers = PeerWatch::start(&clients, &clock, &[GARBAGE_COLLECTOR], DryRun);
    let hold = peers.hold(GARBAGE_COLLECTOR).unwrap();
    let pass = async |secs: u64| tokio::time::sleep(Duration::from_secs(secs)).await;
    assert!(matches!(hold.state(), HoldState::Wait(_)));
    pass(5).await;
    assert!(matches!(hold.state(), HoldState::Record(_)), "{hold:?}");
    let renew = async || {
        let body = json!({"spec": {"renewTime": format!("{:.6}", clock.now())}});
        let patch = http::Request::patch(format!("{leases}/kube-controller-manager"))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        assert_eq!(client.send(patch).await.unwrap().status().as_u16(), 200);
    };
    for _ in 0..60 {
        renew().await;
        pass(2).await;
        assert!(matches!(hold.state(), HoldState::Record(_)), "{hold:?}");
    }
    pass(27).await;
    assert!(matches!(hold.state(), HoldState::Record(_)), "{hold:?}");
    pass(7).await;
    assert_eq!(hold.state(), HoldState::Pass);
    pass(3600).await;
    assert_eq!(hold.state(), HoldState::Pass);
    renew().await;
    pass(4).await;
    assert!(matches!(hold.state(), HoldState::Record(_)), "{hold:?}");
    assert!(peers.hold(VOLCANO_TTL).is_none());
    drop(peers);
    pass(1).await;
    assert!(matches!(hold.state(), HoldState::Wait(_)), "{hold:?}");
}
