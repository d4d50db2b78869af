//! Rule S15: log lines, metrics and evidence show no content of objects. A process of its own, because the test needs the
//! log lines of every task.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use caretaker_controllers::podgc;
use caretaker_testbed::controllers::COLLECTOR;
use caretaker_testbed::environment::Environment;
use caretaker_testbed::fixtures::owned;
use caretaker_testbed::objects::{
    CONFIG_MAPS, PODS, SECRETS, mk_config_map, mk_object, mk_pod, with,
};
use caretaker_testbed::suites::cron::{BATCH, CONTROLLERS, VOLCANO};
use caretaker_testbed::wire::{FakeReply, RequestFate, RequestSender, Wire, WireRequest};
use serde_json::{Value, json};
use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

/// A word that occurs in the content of every object, and in no identity.
const CANARY: &str = "hunter2";

/// Collects the text of log lines.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<u8>>>);

// === impl LogCapture ===

impl LogCapture {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The object with the canary in its labels and annotations.
fn marked(object: Value) -> Value {
    let metadata = json!({"labels": {"app": CANARY}, "annotations": {"note": CANARY}});
    with(object, json!({ "metadata": metadata }))
}

/// A Pod's spec with the canary.
fn marked_pod_spec() -> Value {
    let env = json!([{"name": "PASSWORD", "value": CANARY}]);
    json!({"containers": [{"name": "c", "image": CANARY, "env": env}], "restartPolicy": "Never"})
}

/// Answers the first requests of each sort with content that cannot be used.
fn answers_with_unusable_content() -> impl FnMut(&WireRequest<'_>) -> RequestFate + Send {
    let broken = format!(r#"{{"kind":"Secret","data":{{"k":"{CANARY}"#);
    let broken = move |status| FakeReply {
        content_type: "application/json".to_owned(),
        ..FakeReply::text(status, &broken)
    };
    let metadata = json!({"name": "bad", "namespace": "logs", "uid": "u", "resourceVersion": "5",
        "finalizers": CANARY, "labels": CANARY});
    let unreadable = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    let event = json!({"type": "ADDED", "object": unreadable});
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    move |asked| {
        let sort = match asked {
            WireRequest {
                is_effect: true, ..
            } => asked.method.as_str(),
            _ if asked.uri.contains("/secrets") => "watch",
            _ => return RequestFate::Pass,
        };
        let count = seen.entry(sort.to_owned()).or_default();
        *count += 1;
        match (sort, *count) {
            ("watch", 1) => {
                let mut reply = FakeReply::json(200, &event);
                reply.text.push('\n');
                RequestFate::Reply(reply)
            }
            ("watch", 2) | ("GET", 1) => RequestFate::Reply(broken(200)),
            ("POST", 1) => RequestFate::Instead(broken(201)),
            ("DELETE" | "PATCH", 1) => RequestFate::Instead(broken(200)),
            _ => RequestFate::Pass,
        }
    }
}

/// Creates objects for every controller and waits until they have acted on them.
async fn work(env: &Environment) {
    let template =
        json!({"template": {"metadata": {"labels": {"app": CANARY}}, "spec": marked_pod_spec()}});
    for dialect in [&BATCH, &VOLCANO] {
        dialect.define(env).await.unwrap();
        let job = marked(dialect.mk_job("done"));
        let job = with(job, json!({"spec": {"ttlSecondsAfterFinished": 0}}));
        let job = match dialect.is_volcano() {
            true => with(job, json!({"spec": {"note": CANARY}})),
            false => with(job, json!({ "spec": template })),
        };
        let job = env.make(&dialect.jobs, job).await.unwrap();
        dialect.end(env, &job, "Complete", 10).await.unwrap();
        let spec = json!({"jobTemplate": {"metadata": {"annotations": {"note": CANARY}}}});
        let tick = dialect.overdue(env, "tick", spec).await.unwrap();
        dialect.started(env, &tick.job).await.unwrap();
        env.goes(&[&job]).await.unwrap();
    }
    let pod = with(marked(mk_pod("p")), json!({"spec": marked_pod_spec()}));
    let pod = with(pod, json!({"spec": {"nodeName": "absent"}}));
    let pod = env.make(&PODS, pod).await.unwrap();
    for policy in ["Background", "Foreground", "Orphan"] {
        let name = policy.to_lowercase();
        let owner = with(mk_config_map(&name), json!({"data": {"k": CANARY}}));
        let owner = env.make(&CONFIG_MAPS, marked(owner)).await.unwrap();
        let child = with(
            mk_object("v1", "Secret", &name),
            json!({"stringData": {"k": CANARY}}),
        );
        let child = owned(marked(child), &[owner.reference()]);
        let child = env.make(&SECRETS, child).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let options = json!({"propagationPolicy": policy});
        env.delete(&owner, options).await.unwrap();
        env.goes(&[&owner]).await.unwrap();
        if policy != "Orphan" {
            env.goes(&[&child]).await.unwrap();
        }
    }
    env.goes(&[&pod]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_log_line_shows_the_content_of_an_object() {
    let capture = LogCapture::default();
    let writer = capture.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let env = Environment::recorded("logs").await.unwrap();
    let injector = Box::new(answers_with_unusable_content());
    let client = env.target().client();
    let wire = Wire::new(
        client,
        RequestSender::Controllers,
        env.log(),
        Some(injector),
    );
    let names = [&[COLLECTOR, podgc::NAME], CONTROLLERS].concat().join(",");
    let target = env.target().through(wire.client());
    let controllers = target.controllers(&names).unwrap();
    work(&env).await;
    let logged = capture.text();
    let lines_with = |word: &str| logged.lines().filter(|line| line.contains(word)).count();
    // Without these lines the test would prove nothing.
    for (word, min) in [
        ("sending request", 15),
        ("caretaker::evidence", 15),
        ("object cannot be decoded", 1),
        ("request failed", 1),
        ("controller synced", names.split(',').count()),
    ] {
        assert!(lines_with(word) >= min, "{word}: {}", lines_with(word));
    }
    let shown: Vec<&str> = logged
        .lines()
        .filter(|line| line.contains(CANARY))
        .collect();
    assert_eq!(shown, [""; 0]);
    let evidence = controllers.evidence.recent();
    let evidence = serde_json::to_string(&evidence.iter().map(|e| &**e).collect::<Vec<_>>());
    let pages = [controllers.metrics.encode(), evidence.unwrap()];
    for page in pages {
        assert!(!page.is_empty() && !page.contains(CANARY), "{page}");
    }
}
