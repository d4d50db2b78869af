//! Tables of Leases and Pods, and requests to a server in process.

use caretaker_apiserver::{ApiServer, UserIdentity as Caller};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use serde_json::json;

use super::PeerPolicy::{DryRun, TakeOver};
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
fn a_lease_expires_by_the_servers_clock() {
    let facts = |holder: &str, renewed: Option<&str>, duration_secs| LeaseFacts {
        holder: holder.into(),
        renewed: renewed.map(|time| time.parse().unwrap()),
        duration_secs,
    };
    let cases = [
        (
            facts("a", Some("2026-03-01T11:59:50.123456Z"), Some(15)),
            true,
        ),
        (facts("a", Some("2026-03-01T11:59:45Z"), Some(15)), true),
        (
            facts("a", Some("2026-03-01T11:59:44.999999Z"), Some(15)),
            false,
        ),
        (facts("a", Some("2026-03-01T11:59:44Z"), None), false),
        (facts("a", Some("2026-03-01T11:59:46Z"), None), true),
        (facts("a", Some("2026-03-01T11:00:00Z"), Some(3600)), true),
        // The server's Date is cut to seconds.
        (facts("a", Some("2026-03-01T12:00:00.9Z"), Some(15)), true),
        (facts("", Some("2026-03-01T11:59:59Z"), Some(1)), false),
        (facts("a", None, Some(15)), false),
        (facts("a", Some("2026-03-01T12:00:00Z"), Some(-1)), false),
    ];
    for (lease, expected) in cases {
        assert_eq!(
            is_alive(&lease, NOW.parse().unwrap()),
            expected,
            "{lease:?}"
        );
    }
}

#[test]
fn each_response_about_the_lease_has_its_sighting() {
    let alive = mk_lease("host_1", "2026-03-01T11:59:55Z");
    let dead = mk_lease("host_1", "2026-03-01T11:00:00Z");
    let cases = [
        (200, Some(NOW), &alive, PeerSighting::Alive("host_1".into())),
        (200, Some(NOW), &dead, PeerSighting::Absent),
        (200, Some(NOW), &json!({"spec": {}}), PeerSighting::Absent),
        (200, None, &json!({"spec": {}}), PeerSighting::Absent),
        (
            200,
            None,
            &dead,
            PeerSighting::Unanswered("the response has no Date".into()),
        ),
        (
            404,
            Some(NOW),
            &json!("404 page not found"),
            PeerSighting::Absent,
        ),
        (
            403,
            Some(NOW),
            &json!({}),
            PeerSighting::Forbidden("403".into()),
        ),
        (
            401,
            Some(NOW),
            &json!({}),
            PeerSighting::Forbidden("401".into()),
        ),
        (
            503,
            Some(NOW),
            &json!({}),
            PeerSighting::Unanswered("503".into()),
        ),
    ];
    for (status, date, body, expected) in cases {
        let response = mk_response(status, date, body);
        assert_eq!(holder(&response), expected, "{status} {body}");
    }
    let strange = mk_response(200, Some(NOW), &json!({"spec": {"renewTime": "yesterday"}}));
    assert!(matches!(holder(&strange), PeerSighting::Unanswered(_)));
}

#[test]
fn one_running_pod_of_volcano_is_enough() {
    let pod = |name: &str, phase: &str| json!({"metadata": {"namespace": "volcano-system", "name": name}, "status": {"phase": phase}});
    let list = |pods: &[Value]| json!({"items": pods});
    let alive = PeerSighting::Alive("Pod volcano-system/b".into());
    let cases = [
        (200, list(&[]), PeerSighting::Absent),
        (
            200,
            list(&[pod("a", "Pending"), pod("b", "Running")]),
            alive,
        ),
        (
            200,
            list(&[pod("a", "Succeeded"), json!({"metadata": {"name": "c"}})]),
            PeerSighting::Absent,
        ),
        (403, list(&[]), PeerSighting::Forbidden("403".into())),
    ];
    for (status, body, expected) in cases {
        assert_eq!(
            running(&mk_response(status, None, &body)),
            expected,
            "{body}"
        );
    }
}

#[test]
fn a_controller_writes_where_no_other_manager_does_its_work() {
    let alive = || PeerSighting::Alive("a".into());
    let forbidden = || PeerSighting::Forbidden("403".into());
    let unanswered = || PeerSighting::Unanswered("503".into());
    // Kubernetes, Volcano, then whether the garbage collector and Volcano's TTL may write.
    let cases = [
        (PeerSighting::Absent, PeerSighting::Absent, true, true),
        (alive(), PeerSighting::Absent, false, true),
        (PeerSighting::Absent, alive(), true, false),
        (forbidden(), forbidden(), true, true),
        (unanswered(), PeerSighting::Absent, false, true),
    ];
    for (kubernetes, volcano, collector, ttl) in cases {
        let peers = PeerManagers {
            kubernetes,
            volcano,
        };
        assert_eq!(
            peers.may_act(GARBAGE_COLLECTOR, DryRun),
            collector,
            "{peers:?}"
        );
        assert_eq!(peers.may_act(VOLCANO_TTL, DryRun), ttl, "{peers:?}");
        assert!(peers.may_act(GARBAGE_COLLECTOR, TakeOver));
        let again = matches!(peers.kubernetes, PeerSighting::Unanswered(_));
        assert_eq!(peers.is_unanswered(), again, "{peers:?}");
    }
}

#[test]
fn sentences_name_the_flags_to_set() {
    let peers = |kubernetes| PeerManagers {
        kubernetes,
        volcano: PeerSighting::Alive("Pod volcano-system/b".into()),
    };
    let all: ControllerSelection = "*".parse().unwrap();
    let kubernetes: ControllerSelection = "*,-gc-controller,-cronjob".parse().unwrap();
    let alive = peers(PeerSighting::Alive("host_1".into()));
    let sentences = alive.sentences(&all, DryRun);
    assert_eq!(sentences.len(), 2, "{sentences:?}");
    assert!(
        sentences[1].contains("--controllers=*,-cronjob-controller,-gc-controller"),
        "{sentences:?}"
    );
    assert!(
        sentences[1].contains("Pod volcano-system/b"),
        "{sentences:?}"
    );
    for word in [
        "host_1",
        "as a dry run",
        "--take-over",
        "--controllers=*,-cronjob-controller,-garbage-collector-controller",
    ] {
        assert!(sentences[0].contains(word), "{word}: {}", sentences[0]);
    }
    let over = alive.sentences(&all, TakeOver);
    assert!(over[0].contains("--take-over is set"), "{over:?}");
    let forbidden = peers(PeerSighting::Forbidden("403".into())).sentences(&all, DryRun);
    assert!(
        forbidden[0].contains("403") && forbidden[0].contains("kube-system"),
        "{forbidden:?}"
    );
    let unanswered = peers(PeerSighting::Unanswered("503".into())).sentences(&all, DryRun);
    assert!(
        unanswered[0].contains("503") && unanswered[0].contains("as a dry run"),
        "{unanswered:?}"
    );
    assert_eq!(
        peers(PeerSighting::Absent).sentences(&kubernetes, DryRun),
        Vec::<String>::new()
    );
    assert_eq!(
        alive.sentences(&"none".parse().unwrap(), DryRun),
        Vec::<String>::new()
    );
}

#[test]
fn shared_controllers_are_documented() {
    let docs = include_str!("../../../../docs/operations.md");
    let alive = || PeerSighting::Alive("a".into());
    let peers = PeerManagers {
        kubernetes: alive(),
        volcano: alive(),
    };
    let sentences = peers.sentences(&"*".parse().unwrap(), DryRun);
    for (manager, sentences) in [&KUBERNETES, &VOLCANO].into_iter().zip(sentences) {
        let row = format!("| {} |", manager.name);
        let row = docs.lines().find(|line| line.starts_with(&row)).unwrap();
        let flag = sentences
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
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(1));
    let client = Client::new(server.service(Caller::admin()), "default");
    let none = PeerManagers {
        kubernetes: PeerSighting::Absent,
        volcano: PeerSighting::Absent,
    };
    assert_eq!(find(&client).await, none);

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
    let seen = find(&client).await;
    assert_eq!(seen.kubernetes, PeerSighting::Alive("host_1".into()));
    assert_eq!(seen.volcano, PeerSighting::Absent);

    let patch = http::Request::patch("/api/v1/namespaces/default/pods/vc/status")
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(br#"{"status":{"phase":"Running"}}"#.to_vec()))
        .unwrap();
    assert_eq!(client.send(patch).await.unwrap().status().as_u16(), 200);
    clock.jump(SignedDuration::from_secs(60)).unwrap();
    let seen = find(&client).await;
    assert_eq!(seen.kubernetes, PeerSighting::Absent);
    assert_eq!(seen.volcano, PeerSighting::Alive("Pod default/vc".into()));
}
