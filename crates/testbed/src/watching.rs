//! Watches of a conversation: opened at one point, read at another.
//!
//! A [`Watch`] holds the response and reads lines when asked; in between the events wait in the connection. Reading
//! waits long for events that are due and a moment for events that are not, so that both a missing and a surplus event
//! show in the record. Bookmarks in between are left out unless one is asked for: a server sends them when it likes.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

use crate::objects::Resource;
use crate::session::{Answer, Ask, Session, recorded_headers};

/// Longest wait for an event that is due.
const DUE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a bookmark: they come about once a minute.
const BOOKMARK_MAX: Duration = Duration::from_secs(80);
/// How long a watch must be silent to count as silent.
const SILENCE: Duration = Duration::from_millis(400);

/// An open watch.
pub struct Watch {
    request: String,
    body: Option<Body>,
    unread: Vec<u8>,
}

// === impl Session ===

impl Session {
    /// Watches a collection; the answer's head is written down now, its events when they are read.
    pub async fn watch(&mut self, resource: &Resource, query: &str) -> Watch {
        let separator = if query.is_empty() { "" } else { "&" };
        let path = format!("{}?watch=true{separator}{query}", self.path(resource));
        self.watch_with(Ask::get(path)).await
    }

    /// Watches a collection from the version of an answer.
    pub async fn watch_from(&mut self, resource: &Resource, answer: &Answer) -> Watch {
        self.watch(resource, &format!("resourceVersion={}", answer.rv()))
            .await
    }

    /// Watches with any request.
    pub async fn watch_with(&mut self, ask: Ask) -> Watch {
        let mut record = self.opened(&ask);
        let request = record["request"].as_str().unwrap_or_default().to_owned();
        let (answer, body) = match open(self, ask).await {
            Ok(opened) => opened,
            Err(error) => (Answer::failed(&format!("{error:#}")), None),
        };
        record.insert("status".into(), answer.status.into());
        let headers = recorded_headers(&answer, &[]);
        if !headers.is_empty() {
            record.insert("headers".into(), headers.into());
        }
        if !answer.body.is_null() {
            record.insert("body".into(), answer.body);
        }
        self.record(record.into());
        Watch {
            request,
            body,
            unread: Vec::new(),
        }
    }

    /// Reads `due` events, then makes sure that no more follow, and writes them down.
    pub async fn take(&mut self, watch: &mut Watch, due: usize) -> Vec<Value> {
        self.read(watch, due, SILENCE).await
    }

    /// Reads until the server ends the watch, and writes the events down.
    pub async fn take_all(&mut self, watch: &mut Watch) -> Vec<Value> {
        self.read(watch, 0, DUE_MAX).await
    }

    /// Waits for one event, as long as a bookmark may take, and writes it down; more may follow.
    pub async fn take_one_slowly(&mut self, watch: &mut Watch) {
        let event = tokio::time::timeout(BOOKMARK_MAX, watch.next())
            .await
            .ok()
            .flatten();
        self.record_events(&watch.request, event.as_slice(), "left");
    }

    /// Reads `due` events without writing them down: for events whose order is undefined.
    pub async fn take_quietly(&self, watch: &mut Watch, due: usize) -> Vec<Value> {
        read(watch, due, SILENCE).await.0
    }

    async fn read(&mut self, watch: &mut Watch, due: usize, silence: Duration) -> Vec<Value> {
        let (events, end) = read(watch, due, silence).await;
        self.record_events(&watch.request, &events, end);
        events
    }
}

async fn read(watch: &mut Watch, due: usize, silence: Duration) -> (Vec<Value>, &'static str) {
    let mut events = Vec::new();
    let end = loop {
        let patience = if events.len() < due { DUE_MAX } else { silence };
        match tokio::time::timeout(patience, watch.next()).await {
            Ok(Some(event)) if is_progress(&event) => {}
            Ok(Some(event)) => events.push(event),
            Ok(None) => break "ended",
            Err(_) if events.len() < due => break "events missing",
            Err(_) => break "open",
        }
    };
    (events, end)
}

async fn open(session: &Session, ask: Ask) -> anyhow::Result<(Answer, Option<Body>)> {
    let response =
        tokio::time::timeout(DUE_MAX, session.admin().send(ask.into_request()?)).await??;
    let (parts, body) = response.into_parts();
    let status = parts.status.as_u16();
    if status == 200 {
        return Ok((Answer::read(status, &parts.headers, b""), Some(body)));
    }
    let bytes = body.collect_bytes().await?;
    Ok((Answer::read(status, &parts.headers, &bytes), None))
}

// === impl Watch ===

impl Watch {
    /// The next line as JSON (or as a string, if it is none); nothing at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.unread.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(parse(&line));
            }
            let frame = self.body.as_mut()?.frame().await;
            match frame {
                Some(Ok(frame)) => self
                    .unread
                    .extend(frame.data_ref().map(AsRef::as_ref).unwrap_or_default()),
                Some(Err(_)) | None => {
                    self.body = None;
                    let rest = std::mem::take(&mut self.unread);
                    return (!rest.is_empty()).then(|| parse(&rest));
                }
            }
        }
    }
}

/// Whether an event is a bookmark that says nothing but how far the watch is; they come when the server sees fit.
fn is_progress(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && !event.to_string().contains("k8s.io/initial-events-end")
}

fn parse(line: &[u8]) -> Value {
    serde_json::from_slice(line)
        .unwrap_or_else(|_| String::from_utf8_lossy(line).into_owned().into())
}
