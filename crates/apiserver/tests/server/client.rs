//! A client in process, which calls the service directly.

use std::num::NonZeroU32;

use caretaker_apiserver::{ApiServer, ApiService, ResponseBody, ServerOptions, UserIdentity};
use caretaker_machinery::clock::{Clock, REAL_TIME};
use caretaker_machinery::rng::Rng;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower_service::Service;

pub(crate) const START: &str = "2026-03-01T12:00:00Z";

/// A server with its own clock.
pub(crate) struct World {
    pub(crate) clock: Clock,
    service: ApiService,
}

/// A running watch.
pub(crate) struct Watch {
    body: ResponseBody,
    rest: Vec<u8>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::at_speed(seed, REAL_TIME)
    }

    /// A server whose clock runs `speed` times as fast as tokio's time.
    pub(crate) fn at_speed(seed: u64, speed: NonZeroU32) -> Self {
        let clock = Clock::driven(START.parse().unwrap(), speed);
        let server = ApiServer::ephemeral(clock.clone(), Rng::seeded(seed));
        Self::of(clock, &server)
    }

    /// A server with the objects and tasks of a cluster.
    pub(crate) fn cluster(options: ServerOptions) -> Self {
        let clock = Clock::driven(START.parse().unwrap(), REAL_TIME);
        let server = ApiServer::start(clock.clone(), Rng::seeded(3), options);
        Self::of(clock, &server)
    }

    fn of(clock: Clock, server: &ApiServer) -> Self {
        Self {
            clock,
            service: server.service(UserIdentity::admin()),
        }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
    ) -> Response<ResponseBody> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(Full::<bytes::Bytes>::from(body.to_owned()))
            .unwrap();
        self.service.clone().call(request).await.unwrap()
    }

    /// Sends bytes by PUT; returns the status code.
    pub(crate) async fn put_bytes(&self, path: &str, content_type: &str, body: Vec<u8>) -> u16 {
        let request = Request::builder()
            .method("PUT")
            .uri(path)
            .header("content-type", content_type)
            .body(Full::<bytes::Bytes>::from(body))
            .unwrap();
        let response = self.service.clone().call(request).await.unwrap();
        response.status().as_u16()
    }

    /// Sends JSON; returns the status code and the body.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let content_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let response = self.send(method, path, content_type, &body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Sends JSON that must succeed.
    pub(crate) async fn must(&self, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.call(method, path, body).await;
        assert!(code < 300, "{method} {path}: {answer}");
        answer
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let response = self.send("GET", path, "", "").await;
        assert_eq!(response.status(), 200);
        Watch {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    /// Polls until the object does not exist.
    pub(crate) async fn until_gone(&self, path: &str) {
        for _ in 0..1000 {
            if self.call("GET", path, Value::Null).await.0 == 404 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{path} is still there");
    }
}

impl Watch {
    /// Returns the next line; none at the end.
    pub(crate) async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Some(self.rest.drain(..=end).collect());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// Returns the type and the object of the next event.
    pub(crate) async fn event(&mut self) -> Option<(String, Value)> {
        let line = self.line().await?;
        let mut event: Value = serde_json::from_slice(&line).unwrap();
        Some((
            event["type"].as_str().unwrap().to_owned(),
            event["object"].take(),
        ))
    }
}
