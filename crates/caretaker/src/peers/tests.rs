//! Leases and Pods as tables, and one look at a server in process.

use caretaker_apiserver::{ApiServer, Identity as Caller};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use serde_json::{Value, json};

use super::Manners::{StandBack, TakeOver};
use super::*;

const NOW: &str = "2026-03-01T12:00:00Z";

fn mk_answer(status: u16, date: Option<&str>, body: &Value) -> Answer {
    Answer {
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
fn a_holder_lives_for_the_duration_of_its_lease_by_the_servers_clock() {
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
fn what_the_server_answers_about_the_lease() {
    let alive = mk_lease("host_1", "2026-03-01T11:59:55Z");
    let dead = mk_lease("host_1", "2026-03-01T11:00:00Z");
    let cases = [
        (200, Some(NOW), &alive, Sighting::Alive("host_1".into())),
        (200, Some(NOW), &dead, Sighting::Absent),
        (200, Some(NOW), &json!({"spec": {}}), Sighting::Absent),
        (200, None, &json!({"spec": {}}), Sighting::Absent),
        (
            200,
            None,
            &dead,
            Sighting::Unanswered("no Date in its answer".into()),
        ),
        (
            404,
            Some(NOW),
            &json!("404 page not found"),
            Sighting::Absent,
        ),
        (
            403,
            Some(NOW),
            &json!({}),
            Sighting::Forbidden("403".into()),
        ),
        (
            401,
            Some(NOW),
            &json!({}),
            Sighting::Forbidden("401".into()),
        ),
        (
            503,
            Some(NOW),
            &json!({}),
            Sighting::Unanswered("503".into()),
        ),
    ];
    for (status, date, body, expected) in cases {
        let answer = mk_answer(status, date, body);
        assert_eq!(holder(&answer), expected, "{status} {body}");
    }
    let strange = mk_answer(200, Some(NOW), &json!({"spec": {"renewTime": "yesterday"}}));
    assert!(matches!(holder(&strange), Sighting::Unanswered(_)));
}

#[test]
fn one_running_pod_of_volcano_is_enough() {
    let pod = |name: &str, phase: &str| json!({"metadata": {"namespace": "volcano-system", "name": name}, "status": {"phase": phase}});
    let list = |pods: &[Value]| json!({"items": pods});
    let alive = Sighting::Alive("Pod volcano-system/b".into());
    let cases = [
        (200, list(&[]), Sighting::Absent),
        (
            200,
            list(&[pod("a", "Pending"), pod("b", "Running")]),
            alive,
        ),
        (
            200,
            list(&[pod("a", "Succeeded"), json!({"metadata": {"name": "c"}})]),
            Sighting::Absent,
        ),
        (403, list(&[]), Sighting::Forbidden("403".into())),
    ];
    for (status, body, expected) in cases {
        assert_eq!(running(&mk_answer(status, None, &body)), expected, "{body}");
    }
}

#[test]
fn a_controller_acts_where_nobody_else_does_its_work() {
    let alive = || Sighting::Alive("a".into());
    let forbidden = || Sighting::Forbidden("403".into());
    let unanswered = || Sighting::Unanswered("503".into());
    // Kubernetes, Volcano, then whether the collector and Volcano's TTL may act.
    let cases = [
        (Sighting::Absent, Sighting::Absent, true, true),
        (alive(), Sighting::Absent, false, true),
        (Sighting::Absent, alive(), true, false),
        (forbidden(), forbidden(), true, true),
        (unanswered(), Sighting::Absent, false, true),
    ];
    for (kubernetes, volcano, collector, ttl) in cases {
        let peers = Peers {
            kubernetes,
            volcano,
        };
        assert_eq!(
            peers.let_act(GARBAGE_COLLECTOR, StandBack),
            collector,
            "{peers:?}"
        );
        assert_eq!(peers.let_act(VOLCANO_TTL, StandBack), ttl, "{peers:?}");
        assert!(peers.let_act(GARBAGE_COLLECTOR, TakeOver));
        let again = matches!(peers.kubernetes, Sighting::Unanswered(_));
        assert_eq!(peers.is_unanswered(), again, "{peers:?}");
    }
}

#[test]
fn sentences_name_both_ways_out() {
    let peers = |kubernetes| Peers {
        kubernetes,
        volcano: Sighting::Alive("Pod volcano-system/b".into()),
    };
    let all: Controllers = "*".parse().unwrap();
    let kubernetes: Controllers = "*,-gc-controller,-cronjob".parse().unwrap();
    let alive = peers(Sighting::Alive("host_1".into()));
    let told = alive.sentences(&all, StandBack);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[1].contains("--controllers=*,-cronjob-controller,-gc-controller"),
        "{told:?}"
    );
    assert!(told[1].contains("Pod volcano-system/b"), "{told:?}");
    for word in [
        "host_1",
        "only shows",
        "--take-over",
        "--controllers=*,-cronjob-controller,-garbage-collector-controller",
    ] {
        assert!(told[0].contains(word), "{word}: {}", told[0]);
    }
    let over = alive.sentences(&all, TakeOver);
    assert!(over[0].contains("acts beside it"), "{over:?}");
    let forbidden = peers(Sighting::Forbidden("403".into())).sentences(&all, StandBack);
    assert!(
        forbidden[0].contains("403") && forbidden[0].contains("kube-system"),
        "{forbidden:?}"
    );
    let unanswered = peers(Sighting::Unanswered("503".into())).sentences(&all, StandBack);
    assert!(
        unanswered[0].contains("503") && unanswered[0].contains("only shows"),
        "{unanswered:?}"
    );
    assert_eq!(
        peers(Sighting::Absent).sentences(&kubernetes, StandBack),
        Vec::<String>::new()
    );
    assert_eq!(
        alive.sentences(&"none".parse().unwrap(), StandBack),
        Vec::<String>::new()
    );
}

#[test]
fn who_stands_back_for_whom_is_documented() {
    let docs = include_str!("../../../../docs/operations.md");
    let alive = || Sighting::Alive("a".into());
    let peers = Peers {
        kubernetes: alive(),
        volcano: alive(),
    };
    let told = peers.sentences(&"*".parse().unwrap(), StandBack);
    for (original, told) in [&KUBERNETES, &VOLCANO].into_iter().zip(told) {
        let row = format!("| {} |", original.name);
        let row = docs.lines().find(|line| line.starts_with(&row)).unwrap();
        let flag = told
            .split_whitespace()
            .find(|word| word.starts_with("--controllers="));
        let flag = flag.unwrap().trim_end_matches(',');
        assert!(row.contains(&format!("`{flag}`")), "{flag}: {row}");
        for unit in original.units {
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
async fn a_server_is_asked_for_both() {
    let clock = Clock::driven(NOW.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(1));
    let client = Client::new(server.service(Caller::admin()), "default");
    let nobody = Peers {
        kubernetes: Sighting::Absent,
        volcano: Sighting::Absent,
    };
    assert_eq!(find(&client).await, nobody);

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
    assert_eq!(seen.kubernetes, Sighting::Alive("host_1".into()));
    assert_eq!(seen.volcano, Sighting::Absent);

    let patch = http::Request::patch("/api/v1/namespaces/default/pods/vc/status")
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(br#"{"status":{"phase":"Running"}}"#.to_vec()))
        .unwrap();
    assert_eq!(client.send(patch).await.unwrap().status().as_u16(), 200);
    clock.jump(SignedDuration::from_secs(60)).unwrap();
    let seen = find(&client).await;
    assert_eq!(seen.kubernetes, Sighting::Absent);
    assert_eq!(seen.volcano, Sighting::Alive("Pod default/vc".into()));
}
