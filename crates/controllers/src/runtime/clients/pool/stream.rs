//! One request on a connection, and the error that says whether the server may have processed it.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::task::noop_waker_ref;
use h2::Reason;
use h2::client::SendRequest;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, header};

use super::StreamSlot;
use super::body::PooledBody;
use super::http1::{self, Http1Sender};
use crate::runtime::effects::reason;

/// Headers that describe an HTTP/1.1 connection; HTTP/2 forbids them.
const CONNECTION_HEADERS: [HeaderName; 4] = [
    header::CONNECTION,
    header::HOST,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The sender of a connection in the pool.
pub(super) enum ConnectionSender {
    Http2(SendRequest<Bytes>),
    /// `None` while a request has it.
    Http1(Option<Http1Sender>),
}

/// The sender that one request uses.
pub(super) enum StreamSender {
    Http2(SendRequest<Bytes>),
    Http1(Option<Http1Sender>),
}

/// Why a connection was given up by this side; set once.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionFate(Arc<OnceLock<String>>);

/// Why a request has no response, or not all of it.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum StreamError {
    /// The connection takes no requests any more.
    #[error("the connection is closed: {0}")]
    Unsent(String),
    /// The server has not processed the request, and says so.
    #[error("the server did not take the request: {0}")]
    Refused(String),
    #[error("the server reset the request: {0}")]
    Reset(String),
    #[error("the connection broke: {0}")]
    Broken(String),
}

// === impl ConnectionSender ===

impl ConnectionSender {
    /// Whether the connection takes no more streams: it is closed, or the server sent GOAWAY.
    pub(super) fn is_closing(&mut self) -> bool {
        match self {
            Self::Http2(sender) => {
                let mut context = Context::from_waker(noop_waker_ref());
                matches!(sender.poll_ready(&mut context), Poll::Ready(Err(_)))
            }
            Self::Http1(sender) => sender.as_ref().is_some_and(Http1Sender::is_closed),
        }
    }

    /// Whether a request took the connection and did not give it back: it was cancelled.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Http1(None))
    }

    /// How many streams the server allows now.
    pub(super) fn limit(&self) -> usize {
        match self {
            Self::Http2(sender) => sender.current_max_send_streams(),
            Self::Http1(_) => 1,
        }
    }

    pub(super) fn take(&mut self) -> StreamSender {
        match self {
            Self::Http2(sender) => StreamSender::Http2(sender.clone()),
            Self::Http1(sender) => StreamSender::Http1(sender.take()),
        }
    }
}

// === impl ConnectionFate ===

impl ConnectionFate {
    pub(super) fn set(&self, why: String) {
        // The first reason stays.
        let _ = self.0.set(why);
    }

    pub(super) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

// === impl StreamError ===

impl StreamError {
    /// Whether the server surely has not processed the request, so that it may be sent again.
    pub(super) fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Unsent(_) | Self::Refused(_))
    }

    /// The error of a stream whose request has left. Streams that GOAWAY does not cover and refused streams have not been
    /// processed (RFC 9113, 6.8 and 8.7).
    pub(super) fn of_http2(error: &h2::Error, fate: &ConnectionFate) -> Self {
        let why = fate.get().map_or_else(|| error.to_string(), str::to_owned);
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        if error.is_remote() && (error.is_go_away() || is_refused) {
            Self::Refused(why)
        } else if error.is_reset() {
            Self::Reset(why)
        } else {
            Self::Broken(why)
        }
    }
}

/// Sends a request and waits for the head of its response.
pub(super) async fn send(
    sender: StreamSender,
    slot: StreamSlot,
    head: &Parts,
    body: &Bytes,
) -> Result<Response<PooledBody>, StreamError> {
    match sender {
        StreamSender::Http2(sender) => send_http2(sender, slot, head, body).await,
        StreamSender::Http1(Some(sender)) => send_http1(sender, slot, head, body).await,
        StreamSender::Http1(None) => Err(StreamError::Unsent("it is in use".to_owned())),
    }
}

async fn send_http2(
    mut sender: SendRequest<Bytes>,
    slot: StreamSlot,
    head: &Parts,
    body: &Bytes,
) -> Result<Response<PooledBody>, StreamError> {
    let sent = sender.send_request(http2_head(head, body), body.is_empty());
    let (response, mut upload) = sent.map_err(|error| StreamError::Unsent(error.to_string()))?;
    if !body.is_empty() {
        // If this fails, the response fails with the same error.
        let _ = upload.send_data(body.clone(), true);
    }
    match response.await {
        Ok(response) => Ok(response.map(|stream| PooledBody::http2(stream, slot))),
        Err(error) => Err(StreamError::of_http2(&error, &slot.fate)),
    }
}

async fn send_http1(
    mut sender: Http1Sender,
    mut slot: StreamSlot,
    head: &Parts,
    body: &Bytes,
) -> Result<Response<PooledBody>, StreamError> {
    let sent = sender.try_send_request(http1::request(head, body)).await;
    slot.lent = Some(sender);
    match sent {
        Ok(response) => Ok(response.map(|body| PooledBody::http1(body, slot))),
        Err(error) => {
            let why = reason(error.error());
            Err(match error.message() {
                Some(_) => StreamError::Unsent(why),
                None => StreamError::Broken(why),
            })
        }
    }
}

fn http2_head(head: &Parts, body: &Bytes) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    let headers = request.headers_mut();
    for name in &CONNECTION_HEADERS {
        headers.remove(name);
    }
    if !body.is_empty() {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    request
}
