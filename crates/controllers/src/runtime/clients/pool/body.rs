//! The body of a response. It holds its stream's place in the pool until it ends or is dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::StreamSlot;
use super::stream::{ConnectionFate, StreamError};
use crate::runtime::effects::reason;

/// A response body that arrives in pieces. Dropping it cancels its stream and no other.
pub(in super::super) struct PooledBody {
    // Before the slot: the stream ends before another one takes its place.
    source: BodySource,
    /// `None` after the end.
    slot: Option<StreamSlot>,
    connection: u64,
    fate: ConnectionFate,
}

enum BodySource {
    Http2(RecvStream),
    Http1(Incoming),
}

// === impl PooledBody ===

impl PooledBody {
    pub(super) fn http2(stream: RecvStream, slot: StreamSlot) -> Self {
        Self::new(BodySource::Http2(stream), slot)
    }

    pub(super) fn http1(body: Incoming, slot: StreamSlot) -> Self {
        Self::new(BodySource::Http1(body), slot)
    }

    fn new(source: BodySource, slot: StreamSlot) -> Self {
        Self {
            source,
            connection: slot.id,
            fate: slot.fate.clone(),
            slot: Some(slot),
        }
    }

    /// The connection that brought the response.
    pub(super) fn connection(&self) -> u64 {
        self.connection
    }

    fn poll_source(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        match &mut self.source {
            BodySource::Http2(stream) => {
                // Trailers are of no use here. A reset is an error even if its reason is NO_ERROR: a list that was cut
                // off must not look complete.
                let data = ready!(stream.poll_data(cx)).map(|data| {
                    let bytes = data?;
                    stream.flow_control().release_capacity(bytes.len())?;
                    Ok(Frame::data(bytes))
                });
                let fate = &self.fate;
                Poll::Ready(
                    data.map(|data| data.map_err(|error| StreamError::of_http2(&error, fate))),
                )
            }
            BodySource::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|error| StreamError::Broken(reason(&error))),
        }
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let frame = ready!(self.poll_source(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.slot = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Http2(stream) => stream.is_end_stream(),
            BodySource::Http1(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Http2(_) => SizeHint::default(),
            BodySource::Http1(body) => body.size_hint(),
        }
    }
}
