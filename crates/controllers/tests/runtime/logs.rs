//! The log as an operator reads it: failed requests, and the start, sync, restart and stop of controllers.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use caretaker_apiserver::listen::{ApiListener, BearerToken, ListenTransport, TOKEN_BYTES};
use caretaker_apiserver::{ApiServer, ApiService, UserIdentity};
use caretaker_controllers::runtime::clients::{ClusterChoice, ClusterClients};
use caretaker_controllers::runtime::driver::DriverOptions;
use caretaker_controllers::runtime::events::EventSink;
use caretaker_controllers::runtime::evidence::{EvidenceTrail, WriteStatus};
use caretaker_controllers::runtime::feed_set::{FeedSet, FeedSetOptions, KindInterest};
use caretaker_controllers::runtime::kind::KindState;
use caretaker_controllers::runtime::manager::{ControllerManager, SharedParts};
use caretaker_controllers::runtime::metrics::ControllerMetrics;
use caretaker_controllers::runtime::record::RecordView;
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::Method;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::driver_toy::ToyController;
use crate::driver_world::{DriverWorld, PATH, RequestFate, START, mk_reply, user};
use crate::world;

/// The log of this thread: one line per event, after the span it happened in.
#[derive(Clone)]
struct CapturedLog {
    level: Level,
    state: Arc<Mutex<LogState>>,
}

#[derive(Default)]
struct LogState {
    lines: Vec<String>,
    spans: Vec<String>,
    entered: Vec<usize>,
}

/// Fields as `name=value` in one text.
struct FieldText(String);

impl CapturedLog {
    fn start(level: Level) -> (Self, DefaultGuard) {
        let log = Self {
            level,
            state: Arc::default(),
        };
        let guard = tracing::subscriber::set_default(log.clone());
        (log, guard)
    }

    /// The lines that contain all of `parts`.
    fn lines(&self, parts: &[&str]) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let lines = state.lines.iter();
        lines
            .filter(|line| parts.iter().all(|part| line.contains(part)))
            .cloned()
            .collect()
    }
}

impl Subscriber for CapturedLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("caretaker_controllers")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = FieldText(span.metadata().name().to_owned());
        span.record(&mut text);
        let mut state = self.state.lock().unwrap();
        state.spans.push(text.0);
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = FieldText(event.metadata().level().to_string());
        event.record(&mut text);
        let mut state = self.state.lock().unwrap();
        let span = state.entered.last().map(|span| state.spans[*span].clone());
        let line = format!("{} {}", span.unwrap_or_default(), text.0);
        state.lines.push(line);
    }

    fn enter(&self, span: &Id) {
        let index = usize::try_from(span.into_u64()).unwrap() - 1;
        self.state.lock().unwrap().entered.push(index);
    }

    fn exit(&self, _: &Id) {
        self.state.lock().unwrap().entered.pop();
    }
}

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

fn refusal(code: u16, message: &str) -> String {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message});
    status.to_string()
}

const WEBHOOK: &str = "admission webhook \\\"quota\\\" denied the request";

#[tokio::test(start_paused = true)]
async fn a_failed_write_shows_the_servers_message() {
    let (log, _guard) = CapturedLog::start(Level::WARN);
    let world = DriverWorld::new();
    world.rule(|method, _| match *method {
        Method::DELETE => {
            let body = refusal(403, "admission webhook \"quota\" denied the request");
            RequestFate::Reply(mk_reply(403, "application/json", &body))
        }
        _ => RequestFate::Pass,
    });
    world.create("doomed-a", &[]).await;
    world.pass(11).await;

    let evidence = world.trail.recent();
    let evidence = serde_json::to_value(&*evidence[0]).unwrap();
    assert_eq!(evidence["status"], 403);
    let message = "admission webhook \"quota\" denied the request";
    assert_eq!(evidence["error"], message);

    let lines = log.lines(&["request failed; it will be retried"]);
    for part in [
        "WARN",
        "controller=\"toy-controller\"",
        "object=\"configmaps default/doomed-a\"",
        "verb=\"delete\"",
        "code=403",
        WEBHOOK,
        "retry_in_secs=0.005",
    ] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
    assert_eq!(lines.len(), 1, "a repetition waits ten seconds: {lines:?}");
    world.pass(60).await;
    let lines = log.lines(&["request failed; it will be retried"]);
    let tries = world.count("DELETE");
    assert!((2..=4).contains(&lines.len()), "{tries}: {lines:?}");
    assert!(tries > 8, "every repetition in the log: {tries}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_logged() {
    let (log, _guard) = CapturedLog::start(Level::WARN);
    let world = DriverWorld::new();
    world.rule(|method, _| match *method {
        Method::GET => {
            let body = refusal(500, "etcdserver: request timed out");
            RequestFate::Reply(mk_reply(500, "application/json", &body))
        }
        _ => RequestFate::Pass,
    });
    world.create("curious-a", &[]).await;
    world.pass(1).await;
    let parts = ["configmaps default/curious-a", "code=500", "verb=\"get\""];
    let lines = log.lines(&parts);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("etcdserver: request timed out"));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_shows_the_reason() {
    let (log, _guard) = CapturedLog::start(Level::WARN);
    let world = DriverWorld::new();
    world.rule(|_, _| RequestFate::Lost);
    world.create("doomed-a", &[]).await;
    world.pass(50).await;
    let evidence = world.trail.recent();
    assert_eq!(evidence[0].status, WriteStatus::NoAnswer);
    assert_eq!(evidence[0].error.as_deref(), Some("no answer within 30 s"));
    assert_eq!(log.lines(&["no answer within 30 s"]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_request_has_a_span_with_controller_object_and_attempt() {
    let (log, _guard) = CapturedLog::start(Level::DEBUG);
    let world = DriverWorld::new();
    let mut failures = 1;
    world.rule(move |_, _| match failures {
        0 => RequestFate::Pass,
        _ => {
            failures -= 1;
            RequestFate::Reply(mk_reply(503, "text/plain", "no"))
        }
    });
    world.create("doomed-a", &[]).await;
    world.pass(20).await;
    let span = r#"request controller="toy-controller" verb="delete" object=configmaps default/doomed-a attempt="#;
    let first = log.lines(&[&format!("{span}1 "), "request failed"]);
    assert_eq!(first.len(), 1, "{first:?}");
    let second = log.lines(&[&format!("{span}2 "), "request answered", "code=200"]);
    assert_eq!(second.len(), 1, "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_waits_is_logged_with_its_reason_and_time() {
    let (log, _guard) = CapturedLog::start(Level::DEBUG);
    let world = DriverWorld::new();
    world.create("doomed-a", &[]).await;
    world.create("plain", &[]).await;
    world.pass(1).await;
    let lines = log.lines(&["decision: wait"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["key=doomed-a", "reason=", "until=20"] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
    assert!(log.lines(&["key=plain"]).is_empty(), "that is for `trace`");
}

/// A toy controller under a manager, and its server.
fn start_manager() -> (ControllerManager, ApiService) {
    let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(7));
    let server = server.service(UserIdentity::admin());
    let client = kube::Client::new(server.clone(), "default");
    let options = FeedSetOptions::default();
    let mut manager = ControllerManager::new(SharedParts {
        client: client.clone(),
        feeds: FeedSet::start(client, clock.clone(), Rng::seeded(2), options),
        clock,
        events: EventSink::none(),
        evidence: EvidenceTrail::new(),
        metrics: ControllerMetrics::new(),
        limit: None,
    });
    let interest = KindInterest::Kinds {
        kinds: vec![("".into(), "configmaps".into())],
        view: RecordView::Metadata,
    };
    manager.start(interest, DriverOptions::default(), ToyController::default);
    (manager, server)
}

async fn set_poison(server: &ApiService, is_there: bool) {
    if is_there {
        let object = json!({"metadata": {"name": "panic-now"}});
        user(server, Method::POST, PATH, &object).await;
    } else {
        let path = format!("{PATH}/panic-now");
        user(server, Method::DELETE, &path, &serde_json::Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_again_restarts_at_growing_intervals() {
    let (log, _guard) = CapturedLog::start(Level::INFO);
    let (manager, server) = start_manager();
    set_poison(&server, true).await;
    sleep(Duration::from_secs(600)).await;
    let panics = log.lines(&["ERROR", "controller panicked"]);
    assert!(panics.len() < 20, "{} restarts", panics.len());
    let waits: Vec<&str> = panics
        .iter()
        .filter_map(|line| line.split("restart_in_secs=").nth(1)?.split(' ').next())
        .collect();
    assert_eq!(
        waits[..9],
        ["1", "2", "4", "8", "16", "32", "60", "60", "60"]
    );

    // A controller that has run for a while starts over.
    set_poison(&server, false).await;
    sleep(Duration::from_secs(1_000)).await;
    let before = log.lines(&["controller starting"]).len();
    set_poison(&server, true).await;
    sleep(Duration::from_millis(1_500)).await;
    let starts = log.lines(&["controller starting"]).len();
    assert_eq!(starts - before, 1);
    manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_controllers_start_sync_panic_and_stop_are_logged() {
    let (log, _guard) = CapturedLog::start(Level::INFO);
    let (manager, server) = start_manager();
    sleep(Duration::from_secs(10)).await;
    let toy = "controller=\"toy-controller\"";
    assert_eq!(log.lines(&["INFO", toy, "controller starting"]).len(), 1);
    assert_eq!(
        log.lines(&["INFO", "kind=configmaps", "kind synced"]).len(),
        1
    );
    let synced = log.lines(&["INFO", toy, "kinds=1", "controller synced"]);
    assert_eq!(synced.len(), 1);

    set_poison(&server, true).await;
    sleep(Duration::from_millis(500)).await;
    set_poison(&server, false).await;
    sleep(Duration::from_secs(10)).await;
    let panics = log.lines(&[
        "ERROR",
        toy,
        "controller panicked; restarting with an empty index",
    ]);
    assert_eq!(panics.len(), 1, "{panics:?}");
    assert!(
        panics[0].contains("panic=\"too much for a toy\""),
        "{panics:?}"
    );
    assert_eq!(log.lines(&["controller starting"]).len(), 2);

    manager.stop().await;
    let stopped = log.lines(&["INFO", toy, "end=Stopped", "controller stopped"]);
    assert_eq!(stopped.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_list_is_logged_with_kind_and_message() {
    let (log, _guard) = CapturedLog::start(Level::WARN);
    let world = world::FeedWorld::with(|world| {
        world.rule("forbidden", |uri| {
            let body = refusal(403, "configmaps is forbidden: User \"system:anonymous\"");
            uri.contains("/configmaps")
                .then_some(world::FakeReply::Text(403, body))
        });
    });
    let _ear = world.config_maps();
    sleep(Duration::from_secs(5)).await;
    let parts = ["kind=configmaps", "not allowed to list or watch", "403"];
    let lines = log.lines(&parts);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("configmaps is forbidden: User"),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_logged_once() {
    let (log, _guard) = CapturedLog::start(Level::WARN);
    let world = world::FeedWorld::with(|world| {
        world.rule("unauthorized", |uri| {
            let is_list = uri.contains("/configmaps") || uri.contains("/secrets");
            is_list.then(|| world::FakeReply::Text(401, refusal(401, "Unauthorized")))
        });
    });
    let kinds = [("", "configmaps"), ("", "secrets")];
    let _recorder = world.kinds(&kinds, RecordView::Metadata);
    sleep(Duration::from_secs(300)).await;
    for (group, resource) in kinds {
        let state = world.state(group, resource);
        assert_eq!(state, Some(KindState::Forbidden), "{resource}");
    }
    let lines = log.lines(&["WARN"]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("API server refuses the credentials"),
        "{lines:?}"
    );
}

/// One line stands for all kinds: an operator needs no line for each of them.
#[tokio::test]
async fn a_server_that_goes_away_is_logged_once() {
    let (log, _guard) = CapturedLog::start(Level::WARN);
    let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
    let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(7));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = BearerToken::from_random([7; TOKEN_BYTES]);
    let listener = ApiListener::new(socket, ListenTransport::Plain, token).unwrap();
    let kubeconfig = Path::new(env!("CARGO_TARGET_TMPDIR")).join("logs-away.yaml");
    std::fs::write(&kubeconfig, listener.kubeconfig()).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listener.serve(server, async { drop(stopped.await) }));
    let choice = ClusterChoice {
        kubeconfig: Some(kubeconfig),
        ..ClusterChoice::default()
    };
    let clients = ClusterClients::from_kubeconfig(&choice, &clock)
        .await
        .unwrap();
    let options = FeedSetOptions::default();
    let feeds = FeedSet::start(clients.watches(), clock, Rng::seeded(7), options);
    let all = KindInterest::Deletable {
        ignored: Vec::new(),
    };
    let mut changes = feeds.subscribe(all);
    tokio::spawn(async move { while changes.recv().await.is_some() {} });
    let until = async |wanted: fn(&KindState) -> bool| {
        let has_all = |states: &[(_, KindState)]| {
            states.len() > 20 && states.iter().all(|(_, state)| wanted(state))
        };
        while !has_all(&feeds.states()) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    until(|state| *state == KindState::Synced).await;
    drop(stop);
    serving.await.unwrap();
    until(|state| matches!(state, KindState::Failing(_))).await;
    let lines = log.lines(&["cannot"]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("cannot reach the API server"),
        "{lines:?}"
    );
    assert!(lines[0].contains("refused"), "{lines:?}");
}
