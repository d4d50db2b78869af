//! Calls on the embedded server: their answers, and that the server checks uid and version.

use std::sync::Arc;

use caretaker_apiserver::{ApiServer, UserIdentity};
use caretaker_controllers::runtime::call::{
    AbsenceProof, ApiAnswer, ApiCall, CallTarget, FailureKind, JudgedVersion, PatchForm,
};
use caretaker_controllers::runtime::effects::{ClientRateLimit, Effects, PerformedCall};
use caretaker_controllers::runtime::kind::{KindCatalog, KindId};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::{ObjectRecord, RecordBody as Shown, RecordView, Uid};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::Request;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::driver_toy::mk_delete;
use crate::driver_world::{PATH, START, mk_catalog};

struct EffectsBench {
    client: kube::Client,
    effects: Effects,
    catalog: watch::Sender<Arc<KindCatalog>>,
}

impl EffectsBench {
    fn new() -> Self {
        let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
        let server = ApiServer::ephemeral(clock, Rng::seeded(7));
        let client = kube::Client::new(server.service(UserIdentity::admin()), "default");
        let (catalog, receiver) = watch::channel(Arc::new(mk_catalog()));
        let effects = Effects::new(client.clone(), receiver, ControllerMetrics::new());
        Self {
            client,
            effects,
            catalog,
        }
    }

    async fn create(&self, name: &str) {
        let body = json!({"metadata": {"name": name, "finalizers": ["example.com/a"]}});
        let request = Request::post(PATH)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        assert_eq!(self.client.send(request).await.unwrap().status(), 201);
    }

    async fn get(&self, name: &str) -> PerformedCall {
        let target = mk_target(name);
        self.effects.perform(&ApiCall::Get { target }).await
    }

    async fn record(&self, name: &str) -> Arc<ObjectRecord> {
        match self.get(name).await.answer {
            ApiAnswer::Object(record) => record,
            other => panic!("{other:?}"),
        }
    }
}

fn mk_target(name: &str) -> CallTarget {
    CallTarget {
        kind: KindId(0),
        namespace: "default".into(),
        name: name.into(),
    }
}

fn mk_patch(judged: JudgedVersion) -> ApiCall {
    ApiCall::Patch {
        target: mk_target("a"),
        judged,
        subresource: None,
        form: PatchForm::Merge,
        patch: json!({"metadata": {"finalizers": null}}),
    }
}

fn failed(performed: &PerformedCall) -> Option<FailureKind> {
    match &performed.answer {
        ApiAnswer::Failed(failure) => Some(failure.kind),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_and_its_absence_is_proven() {
    let bench = EffectsBench::new();
    bench.create("a").await;
    let performed = bench.get("a").await;
    assert_eq!(performed.status, Some(200));
    assert_eq!(performed.date, Some(START.parse().unwrap()));
    let record = bench.record("a").await;
    assert_eq!(record.meta.finalizers, ["example.com/a".into()]);

    let performed = bench.get("b").await;
    assert_eq!(performed.answer, ApiAnswer::Absent(AbsenceProof::NotFound));
    assert_eq!(performed.status, Some(404));
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_for_a_kind_that_is_not_served() {
    let bench = EffectsBench::new();
    bench
        .catalog
        .send_modify(|catalog| *catalog = Arc::new(catalog.with([])));
    let performed = bench.get("b").await;
    assert_eq!(failed(&performed), Some(FailureKind::NotServed));
    assert_eq!(performed.status, None);
}

#[tokio::test(start_paused = true)]
async fn the_server_checks_uid_and_version() {
    let bench = EffectsBench::new();
    bench.create("a").await;
    let record = bench.record("a").await;
    let mut other_uid = (*record).clone();
    other_uid.meta.uid = Uid::from("00000000-0000-4000-8000-000000000000");
    let mut other_version = (*record).clone();
    other_version.meta.revision = "1".into();
    for other in [&other_uid, &other_version] {
        let performed = bench.effects.perform(&mk_delete(other)).await;
        assert_eq!(failed(&performed), Some(FailureKind::Conflict));
        let judged = JudgedVersion {
            uid: other.meta.uid.clone(),
            revision: other.meta.revision.clone(),
        };
        let performed = bench.effects.perform(&mk_patch(judged)).await;
        assert_eq!(
            failed(&performed),
            Some(FailureKind::Conflict),
            "{performed:?}"
        );
    }
    assert_eq!(bench.record("a").await, record, "nothing happened to it");
}

#[tokio::test(start_paused = true)]
async fn a_delete_and_a_patch_return_the_object() {
    let bench = EffectsBench::new();
    bench.create("a").await;
    let record = bench.record("a").await;
    let going = match bench.effects.perform(&mk_delete(&record)).await.answer {
        ApiAnswer::Object(record) => record,
        other => panic!("{other:?}"),
    };
    assert!(going.meta.deletion.is_some(), "its finalizer holds it");
    let judged = JudgedVersion {
        uid: going.meta.uid.clone(),
        revision: going.meta.revision.clone(),
    };
    let performed = bench.effects.perform(&mk_patch(judged.clone())).await;
    assert!(
        matches!(performed.answer, ApiAnswer::Object(_)),
        "{performed:?}"
    );
    for call in [mk_delete(&going), mk_patch(judged)] {
        let performed = bench.effects.perform(&call).await;
        assert_eq!(
            performed.answer,
            ApiAnswer::Absent(AbsenceProof::NotFound),
            "{call:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_rate_limit_holds() {
    let bench = EffectsBench::new();
    let effects = bench
        .effects
        .clone()
        .limited(ClientRateLimit { qps: 2.0, burst: 4 });
    let start = Instant::now();
    for _ in 0..10 {
        let target = mk_target("b");
        effects.perform(&ApiCall::Get { target }).await;
    }
    assert_eq!(start.elapsed().as_millis(), 3000);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_created_once_and_returned_in_the_requested_view() {
    let bench = EffectsBench::new();
    let effects = bench.effects.clone().showing(RecordView::Full);
    let create = ApiCall::Create {
        target: mk_target("a"),
        subresource: None,
        object: json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
    };
    let made = effects.perform(&create).await;
    let ApiAnswer::Object(record) = made.answer else {
        panic!("{made:?}");
    };
    let Shown::Json(bytes) = &record.body else {
        panic!("no body");
    };
    let object: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(object["data"]["k"], "v");
    let again = effects.perform(&create).await;
    assert_eq!(failed(&again), Some(FailureKind::Conflict));
}
