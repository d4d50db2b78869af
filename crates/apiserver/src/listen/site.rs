//! The interface between a listener and what it serves.
//!
//! The Kubernetes API is one site, the admin server of the binary is another. Connections, TLS and the token are the
//! same for both.

use std::future::Future;

use caretaker_machinery::status::Status;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::negotiate::ResponseFormat;
use crate::respond::{self, ResponseBody};
use crate::server::UserIdentity;

/// The checks that a request has to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessCheck {
    /// The host that it names, and the token.
    Guarded,
    /// The token only, for pages that may be reached under any host name.
    Token,
    /// No check. A connection that shows no token at all is closed after the same wait as any other.
    Open,
}

/// A service behind a listener.
pub trait HttpSite: Send + Sync + 'static {
    /// Returns the checks for a path.
    fn access_check(&self, path: &str) -> AccessCheck;

    /// Serves a request that passed its checks. There is no identity if the token was not checked.
    fn serve(
        &self,
        identity: Option<UserIdentity>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;

    /// Returns the response to a request that failed its checks, or whose handler panicked.
    fn refuse(&self, status: &Status) -> Response<ResponseBody> {
        respond::status(status, ResponseFormat::JSON)
    }
}
