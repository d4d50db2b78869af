//! An embedded server, a faulty connection to it, and a driver with the toy controller.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use caretaker_apiserver::{ApiServer, ApiService, UserIdentity};
use caretaker_controllers::runtime::controller::ObservedChange;
use caretaker_controllers::runtime::driver::{
    Driver, DriverEnd, DriverHandle, DriverOptions, DriverParts,
};
use caretaker_controllers::runtime::effects::{ClientRateLimit, Effects};
use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::evidence::EvidenceTrail;
use caretaker_controllers::runtime::kind::{ApiKind, KindCatalog, KindId, KindScope, KindVerbs};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::{ObjectRecord, RecordBody, RecordMeta};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower_service::Service;

use crate::driver_toy::ToyController;

pub(crate) const START: &str = "2026-03-01T12:00:00Z";
pub(crate) const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// What happens to a request.
pub(crate) enum RequestFate {
    Pass,
    /// The request arrives this much later.
    Late(Duration),
    /// The request does not arrive, and this is its reply.
    Reply(Response<Full<Bytes>>),
    /// The request does not arrive and has no reply.
    Lost,
    /// The request arrives, and its reply is lost.
    Ghost,
    /// Another client rewrites the object just before the request arrives.
    Overtaken,
}

type FateRule = Box<dyn FnMut(&Method, &str) -> RequestFate + Send>;

/// The connection to the server.
#[derive(Clone)]
pub(crate) struct DriverWire {
    server: ApiService,
    rule: Arc<Mutex<FateRule>>,
    log: Arc<Mutex<Vec<(Method, String, Instant)>>>,
    pub(crate) in_flight: Arc<Mutex<(usize, usize)>>,
}

pub(crate) struct DriverWorld {
    pub(crate) clock: Clock,
    pub(crate) wire: DriverWire,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) trail: EvidenceTrail,
    pub(crate) changes: mpsc::Sender<ObservedChange>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) handle: DriverHandle<ToyController>,
    pub(crate) driver: JoinHandle<DriverEnd>,
    pub(crate) decisions: Arc<std::sync::atomic::AtomicUsize>,
    server: ApiService,
}

impl DriverWorld {
    pub(crate) fn new() -> Self {
        Self::with(DriverOptions::default())
    }

    pub(crate) fn with(options: DriverOptions) -> Self {
        Self::of(ToyController::default(), options)
    }

    pub(crate) fn of(toy: ToyController, options: DriverOptions) -> Self {
        Self::start(toy, options, mk_clock(), None)
    }

    /// A driver and a server with this clock.
    pub(crate) fn with_clock(clock: Clock, options: DriverOptions) -> Self {
        Self::start(ToyController::default(), options, clock, None)
    }

    /// A driver whose client sends few requests.
    pub(crate) fn limited(limit: ClientRateLimit) -> Self {
        let (toy, options) = (ToyController::default(), DriverOptions::default());
        Self::start(toy, options, mk_clock(), Some(limit))
    }

    fn start(
        toy: ToyController,
        options: DriverOptions,
        clock: Clock,
        limit: Option<ClientRateLimit>,
    ) -> Self {
        let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(7));
        let server = server.service(UserIdentity::admin());
        let wire = DriverWire {
            server: server.clone(),
            rule: Arc::new(Mutex::new(Box::new(|_, _| RequestFate::Pass))),
            log: Arc::default(),
            in_flight: Arc::default(),
        };
        let client = kube::Client::new(wire.clone(), "default");
        let metrics = ControllerMetrics::new();
        let trail = EvidenceTrail::new();
        let (events, recorder) = EventSink::new(
            kube::Client::new(server.clone(), "default"),
            clock.clone(),
            metrics.clone(),
        );
        tokio::spawn(recorder.run());
        let (_, catalog) = watch::channel(Arc::new(mk_catalog()));
        let mut effects = Effects::new(client, catalog, metrics.clone());
        if let Some(limit) = limit {
            effects = effects.limited(limit);
        }
        let parts = DriverParts {
            effects,
            clock: clock.clone(),
            events,
            evidence: trail.clone(),
            metrics: metrics.clone(),
            options,
        };
        let decisions = toy.decisions.clone();
        let (changes, receiver) = mpsc::channel(1024);
        let driver = Driver::new(toy, receiver, parts);
        let handle = driver.handle();
        let (stop, stopped) = watch::channel(false);
        let driver = tokio::spawn(driver.run(stopped));
        tokio::spawn(feed(server.clone(), changes.clone()));
        Self {
            clock,
            wire,
            metrics,
            trail,
            changes,
            stop,
            handle,
            driver,
            decisions,
            server,
        }
    }

    /// Sets the rule for all further requests.
    pub(crate) fn rule(&self, rule: impl FnMut(&Method, &str) -> RequestFate + Send + 'static) {
        *self.wire.rule.lock().unwrap() = Box::new(rule);
    }

    /// A request of a user, which always arrives.
    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        user(&self.server, method, path, body).await
    }

    pub(crate) async fn create(&self, name: &str, finalizers: &[&str]) {
        let body = json!({"metadata": {"name": name, "finalizers": finalizers}});
        let (code, answer) = self.call(Method::POST, PATH, &body).await;
        assert_eq!(code, 201, "{answer}");
    }

    pub(crate) async fn has(&self, name: &str) -> bool {
        let path = format!("{PATH}/{name}");
        self.call(Method::GET, &path, &Value::Null).await.0 == 200
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        let (_, list) = self.call(Method::GET, PATH, &Value::Null).await;
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .filter(|name| name != "kube-root-ca.crt")
            .collect()
    }

    pub(crate) async fn pass(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs)).await;
    }

    /// The requests of the driver so far: method, name of the object, seconds since the first one.
    pub(crate) fn log(&self) -> Vec<(String, String, f64)> {
        let log = self.wire.log.lock().unwrap();
        let first = log.first().map(|(_, _, at)| *at);
        log.iter()
            .map(|(method, path, at)| {
                let name = path.rsplit('/').next().unwrap().to_owned();
                let secs = at.duration_since(first.unwrap()).as_secs_f64();
                (method.to_string(), name, secs)
            })
            .collect()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        let log = self.log();
        log.iter().filter(|(own, ..)| own == method).count()
    }
}

impl Service<Request<kube::client::Body>> for DriverWire {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let fate = self.rule.lock().unwrap()(&method, &path);
        let mut log = self.log.lock().unwrap();
        log.push((method, path.clone(), Instant::now()));
        let wire = self.clone();
        Box::pin(async move {
            {
                let mut flying = wire.in_flight.lock().unwrap();
                flying.0 += 1;
                flying.1 = flying.1.max(flying.0);
            }
            let answer = wire.meet(fate, request, &path).await;
            wire.in_flight.lock().unwrap().0 -= 1;
            Ok(answer)
        })
    }
}

impl DriverWire {
    async fn meet(
        &self,
        fate: RequestFate,
        request: Request<kube::client::Body>,
        path: &str,
    ) -> Response<Full<Bytes>> {
        match fate {
            RequestFate::Pass => {}
            RequestFate::Late(by) => tokio::time::sleep(by).await,
            RequestFate::Reply(response) => return response,
            RequestFate::Lost => std::future::pending().await,
            RequestFate::Ghost => {
                self.arrive(request).await;
                return std::future::pending().await;
            }
            RequestFate::Overtaken => {
                // Time stands still here, so a time as value would change nothing the second time.
                let count = self.log.lock().unwrap().len();
                let patch = json!({"data": {"touched": count.to_string()}});
                user(&self.server, Method::PATCH, path, &patch).await;
            }
        }
        self.arrive(request).await
    }

    async fn arrive(&self, request: Request<kube::client::Body>) -> Response<Full<Bytes>> {
        let response = self.server.clone().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, Full::new(body))
    }
}

pub(crate) fn mk_clock() -> Clock {
    Clock::driven(START.parse().unwrap(), REAL_TIME)
}

pub(crate) async fn user(
    server: &ApiService,
    method: Method,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let content_type = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Full::<Bytes>::from(body))
        .unwrap();
    let response = server.clone().call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// A made-up reply.
pub(crate) fn mk_reply(code: u16, content_type: &str, body: &str) -> Response<Full<Bytes>> {
    Response::builder()
        .status(code)
        .header("content-type", content_type)
        .body(Full::from(body.to_owned()))
        .unwrap()
}

/// A catalog of ConfigMaps and Secrets.
pub(crate) fn mk_catalog() -> KindCatalog {
    let kinds = [("ConfigMap", "configmaps"), ("Secret", "secrets")];
    KindCatalog::default().with(kinds.map(|(kind, resource)| ApiKind {
        group: "".into(),
        version: "v1".into(),
        kind: kind.into(),
        resource: resource.into(),
        scope: KindScope::Namespaced,
        verbs: KindVerbs {
            get: true,
            list: true,
            watch: true,
            delete: true,
        },
        versions: vec!["v1".into()],
        aliases: Vec::new(),
    }))
}

/// Sends the changes of ConfigMaps to the driver, from one watch that never ends.
async fn feed(server: ApiService, changes: mpsc::Sender<ObservedChange>) {
    let request = Request::builder()
        .uri(format!("{PATH}?watch=1&timeoutSeconds=1000000"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = server.clone().call(request).await.unwrap();
    let mut body = response.into_body();
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        rest.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let record = Arc::new(mk_record(&event["object"]));
            let change = match event["type"].as_str().unwrap() {
                "ADDED" | "MODIFIED" => ObservedChange::Applied(record),
                "DELETED" => ObservedChange::Deleted(record),
                other => panic!("{other}"),
            };
            if changes.send(change).await.is_err() {
                return;
            }
        }
    }
}

pub(crate) fn mk_record(object: &Value) -> ObjectRecord {
    let meta = &object["metadata"];
    let text = |name: &str| meta[name].as_str().unwrap_or_default().to_owned();
    let finalizers = meta["finalizers"].as_array().cloned().unwrap_or_default();
    ObjectRecord {
        kind: KindId(0),
        meta: RecordMeta {
            name: text("name").into(),
            namespace: text("namespace").into(),
            uid: text("uid").as_str().into(),
            revision: text("resourceVersion").as_str().into(),
            deletion: text("deletionTimestamp").parse().ok(),
            finalizers: finalizers
                .iter()
                .map(|own| own.as_str().unwrap().into())
                .collect(),
            owners: Vec::new(),
        },
        body: RecordBody::None,
    }
}
