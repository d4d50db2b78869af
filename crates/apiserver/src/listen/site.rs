//! What a listener serves: something that says who may ask for a path, and answers.
//!
//! The Kubernetes API is one site, the admin server of the binary is another; connections, TLS and the token are the
//! same for both.

use std::future::Future;

use caretaker_machinery::status::Status;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::negotiate::Format;
use crate::respond::{self, Body};
use crate::server::{ApiServer, Identity};

/// What is checked before a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The host it names, and the token.
    Guarded,
    /// The token. For pages that do not care under which name they are reached.
    Token,
    /// Nothing. A connection that only sees open doors is cut as early as that of any stranger.
    Open,
}

/// Something that answers requests.
pub trait Site: Send + Sync + 'static {
    /// Who may ask for a path.
    fn door(&self, path: &str) -> Door;

    /// Answers a request that came through its door; nobody has shown anything at an open one.
    fn answer(
        &self,
        identity: Option<Identity>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Answers a request that did not come through its door, or that broke on the way.
    fn refuse(&self, status: &Status) -> Response<Body> {
        respond::status(status, Format::JSON)
    }
}

impl Site for ApiServer {
    fn door(&self, _path: &str) -> Door {
        Door::Guarded
    }

    async fn answer(
        &self,
        identity: Option<Identity>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        match identity {
            Some(identity) => Self::answer(self, identity, request).await,
            None => self.refuse(&Status::failure(401, "Unauthorized", "Unauthorized")),
        }
    }

    fn refuse(&self, status: &Status) -> Response<Body> {
        let mut response = respond::status(status, Format::JSON);
        respond::stamp(&mut response, self.inner.clock.now());
        response
    }
}
