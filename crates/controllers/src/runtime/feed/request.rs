//! The list and watch requests of a feed, and the lines of a watch.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use caretaker_machinery::status::Status;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;

use super::super::clients::is_stream_error;
use super::super::effects::{described, reason, retry_after, shortened};
use super::super::feed_set::ServerTrouble;
use super::super::kind::ApiKind;
use super::super::record::{RecordView, Revision};
use super::FeedSetup;

/// Requests metadata only, as protocol buffers or as JSON. Servers that support neither send whole objects, which are
/// decoded in the same way.
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same for lists, whose metadata has a kind of its own.
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The start of the content type of protocol buffers.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The size of the length prefix of a frame, in bytes.
const LENGTH: usize = 4;

/// The longest wait for the head of a response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for a whole page. Servers time out after a minute.
const PAGE_TIMEOUT: Duration = Duration::from_secs(90);
/// The largest page, in bytes. Five hundred of the largest objects take 750 MiB, and some servers ignore the limit.
const PAGE_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// The longest line of a watch, in bytes. The largest object that etcd accepts has 1.5 MiB.
const LINE_MAX: usize = 16 * 1024 * 1024;
/// The largest body of a refusal that is read for its message, in bytes.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// The longest wait for the body of a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a list or a watch has no answer, or not the wanted one.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    /// The answer has a code other than 200.
    #[error("the server answered {status}{message}")]
    Refused {
        status: u16,
        /// The message of the server's Status after a colon; empty if the answer has none.
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("no answer within {} s", HEAD_TIMEOUT.as_secs())]
    NoAnswer,
    #[error("the page took longer than {} s", PAGE_TIMEOUT.as_secs())]
    PageTimeout,
    /// The request has not left this process.
    #[error("{0}")]
    Connect(String),
    /// The connection broke, or the server reset the request.
    #[error("{0}")]
    Lost(String),
    #[error("the answer broke off: {0}")]
    Broken(String),
    #[error("the request is malformed: {0}")]
    Request(#[from] http::Error),
}

/// The lines of the body of a watch, or its frames if it has protocol buffers. Each is at most [`LINE_MAX`] long.
pub(super) struct WatchLines {
    body: Body,
    buffer: BytesMut,
    /// The length of the start of the buffer that has no line end.
    searched: usize,
    /// Whether the rest of the current line is skipped.
    is_skipping: bool,
    /// Whether there are frames instead of lines.
    is_framed: bool,
    /// How many bytes of the current frame are still to be skipped.
    left_out: usize,
}

/// A line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchLine {
    Text(Bytes),
    /// A line that is too long and was skipped.
    Overlong,
}

/// Requests a page of a list.
pub(super) async fn page(
    feed: &FeedSetup,
    limit: Option<u32>,
    token: Option<&str>,
) -> Result<Bytes, FeedError> {
    let uri = list_path(&feed.kind, limit, token);
    let accept = match feed.view {
        RecordView::Metadata => METADATA_LIST,
        RecordView::Full => "application/json",
    };
    let answer = async {
        let response = send(feed, &uri, accept).await?;
        let body = Limited::new(response.into_body(), PAGE_BYTES_MAX).collect();
        let body = body
            .await
            .map_err(|error| FeedError::Broken(reason(&*error)));
        Ok(body?.to_bytes())
    };
    let timeout = tokio::time::timeout(PAGE_TIMEOUT, answer).await;
    timeout.unwrap_or(Err(FeedError::PageTimeout))
}

/// The path of a page of all objects of a kind.
pub(crate) fn list_path(kind: &ApiKind, limit: Option<u32>, token: Option<&str>) -> String {
    let mut path = kind.path("", "");
    let mut separator = '?';
    if let Some(limit) = limit {
        let _ = write!(path, "?limit={limit}");
        separator = '&';
    }
    if let Some(token) = token {
        let _ = write!(path, "{separator}continue={}", escaped(token));
    }
    path
}

/// Opens a watch; without a version, one that begins with all objects.
pub(super) async fn watch(
    feed: &FeedSetup,
    after: Option<&Revision>,
    length: Duration,
) -> Result<WatchLines, FeedError> {
    let mut uri = feed.kind.path("", "");
    let seconds = length.as_secs();
    let _ = write!(
        uri,
        "?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}"
    );
    match after {
        Some(revision) => {
            let _ = write!(uri, "&resourceVersion={}", escaped(&revision.to_string()));
        }
        None => uri.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
    }
    let accept = match feed.view {
        RecordView::Metadata => METADATA,
        RecordView::Full => "application/json",
    };
    let response = send(feed, &uri, accept).await?;
    let media = response.headers().get(header::CONTENT_TYPE);
    let is_framed = media.is_some_and(|media| media.as_bytes().starts_with(PROTOBUF.as_bytes()));
    Ok(WatchLines::new(response.into_body(), is_framed))
}

/// Sends a request and counts it.
async fn send(feed: &FeedSetup, uri: &str, accept: &str) -> Result<Response<Body>, FeedError> {
    let request = Request::get(uri)
        .header(header::ACCEPT, accept)
        // Since 1.37 servers compress watches event by event, and common decoders stop after the first event.
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Body::empty())?;
    let answer = tokio::time::timeout(HEAD_TIMEOUT, feed.client.send(request)).await;
    let status = answer.as_ref().ok().and_then(|sent| sent.as_ref().ok());
    let status = status.map(|response| response.status().as_u16());
    feed.metrics.request(&Method::GET, status);
    let response = answer.map_err(|_| FeedError::NoAnswer)?;
    let response = response.map_err(|error| match is_stream_error(&error) {
        true => FeedError::Lost(described(&error)),
        false => FeedError::Connect(described(&error)),
    })?;
    if response.status() == 200 {
        return Ok(response);
    }
    Err(FeedError::Refused {
        status: response.status().as_u16(),
        retry_after: retry_after(response.headers()),
        message: refusal_message(response.into_body()).await,
    })
}

/// The message of a `Status` after a colon; empty if the body has none. The status code is known already, so a body that
/// is late, broken or long does no harm.
pub(crate) async fn refusal_message(body: Body) -> String {
    let body = Limited::new(body, REFUSAL_BYTES_MAX).collect();
    let Ok(Ok(body)) = tokio::time::timeout(REFUSAL_TIMEOUT, body).await else {
        return String::new();
    };
    match serde_json::from_slice::<Status>(&body.to_bytes()) {
        Ok(status) if !status.message.is_empty() => format!(": {}", shortened(&status.message)),
        _ => String::new(),
    }
}

/// Percent-encodes the value of a query parameter.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

// === impl FeedError ===

impl FeedError {
    /// The trouble that requests for other kinds have as well.
    pub(super) fn server_trouble(&self) -> Option<ServerTrouble> {
        match self {
            Self::Connect(_) => Some(ServerTrouble::Unreachable),
            Self::Refused { status: 401, .. } => Some(ServerTrouble::Unauthorized),
            _ => None,
        }
    }
}

// === impl WatchLines ===

impl WatchLines {
    fn new(body: Body, is_framed: bool) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            is_skipping: false,
            is_framed,
            left_out: 0,
        }
    }

    /// The next line; nothing at the end. What follows the last line end is a line that was cut off, and dropped.
    /// May be cancelled and called again.
    pub(super) async fn next(&mut self) -> Result<Option<WatchLine>, FeedError> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(FeedError::Broken(reason(&error))),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.buffer.extend_from_slice(&bytes);
                    }
                }
            }
        }
    }

    /// A line or a frame that is in the buffer as a whole.
    fn take(&mut self) -> Option<WatchLine> {
        if self.is_framed {
            self.take_frame()
        } else {
            self.take_line()
        }
    }

    fn take_frame(&mut self) -> Option<WatchLine> {
        let left_out = self.left_out.min(self.buffer.len());
        self.buffer.advance(left_out);
        self.left_out -= left_out;
        let length = self.buffer.first_chunk::<LENGTH>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > LINE_MAX {
            self.buffer.advance(LENGTH);
            self.left_out = length;
            return Some(WatchLine::Overlong);
        }
        if self.buffer.len() < LENGTH + length {
            return None;
        }
        self.buffer.advance(LENGTH);
        Some(WatchLine::Text(self.buffer.split_to(length).freeze()))
    }

    fn take_line(&mut self) -> Option<WatchLine> {
        loop {
            let Some(end) = self.buffer[self.searched..]
                .iter()
                .position(|&byte| byte == b'\n')
            else {
                if self.is_skipping || self.buffer.len() > LINE_MAX {
                    self.is_skipping = true;
                    self.buffer = BytesMut::new();
                }
                self.searched = self.buffer.len();
                return None;
            };
            let end = self.searched + end;
            self.searched = 0;
            let mut line = self.buffer.split_to(end + 1);
            line.truncate(end);
            let is_overlong = std::mem::take(&mut self.is_skipping) || line.len() > LINE_MAX;
            if is_overlong {
                return Some(WatchLine::Overlong);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(WatchLine::Text(line.freeze()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<WatchLine> {
        pieces_of(WatchLines::new(Body::empty(), false), pieces)
    }

    fn frames(pieces: &[&[u8]]) -> Vec<WatchLine> {
        pieces_of(WatchLines::new(Body::empty(), true), pieces)
    }

    fn pieces_of(mut lines: WatchLines, pieces: &[&[u8]]) -> Vec<WatchLine> {
        let mut found = Vec::new();
        for piece in pieces {
            lines.buffer.extend_from_slice(piece);
            while let Some(line) = lines.take() {
                found.push(line);
            }
        }
        found
    }

    fn text(text: &'static str) -> WatchLine {
        WatchLine::Text(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_are_joined_from_any_chunks() {
        assert_eq!(lines(&[b"ab\ncd\n"]), [text("ab"), text("cd")]);
        assert_eq!(
            lines(&[b"a", b"b", b"\nc", b"d\n"]),
            [text("ab"), text("cd")]
        );
        assert_eq!(lines(&[b"\n \r\n\nab\r\n"]), [text("ab\r")]);
        assert_eq!(lines(&[b"ab\ncut off"]), [text("ab")]);
    }

    #[test]
    fn frames_are_joined_from_any_chunks() {
        assert_eq!(
            frames(&[b"\0\0\0\x02ab\0\0\0\x01\n"]),
            [text("ab"), text("\n")]
        );
        assert_eq!(
            frames(&[b"\0\0", b"\0\x02a", b"b\0", b"\0\0\0"]),
            [text("ab"), text("")]
        );
        assert_eq!(frames(&[b"\0\0\0\x03ab"]), []);
    }

    #[test]
    fn an_overlong_frame_is_skipped_without_buffering() {
        let length = u32::try_from(LINE_MAX).unwrap() + 1;
        let whole = vec![b'x'; LINE_MAX + 1];
        let (one, other) = whole.split_at(7);
        let found = frames(&[&length.to_be_bytes(), one, other, b"\0\0\0\x01b"]);
        assert_eq!(found, [WatchLine::Overlong, text("b")]);
    }

    #[test]
    fn an_overlong_line_is_skipped_without_buffering() {
        let piece = vec![b'x'; LINE_MAX / 2 + 1];
        let found = lines(&[b"a\n", &piece, &piece, &piece, b"x\nb\n"]);
        assert_eq!(found, [text("a"), WatchLine::Overlong, text("b")]);
        let mut at_once = vec![b'x'; LINE_MAX + 1];
        at_once.extend_from_slice(b"\nb\n");
        assert_eq!(lines(&[&at_once]), [WatchLine::Overlong, text("b")]);

        let mut lines = WatchLines::new(Body::empty(), false);
        lines.buffer.extend_from_slice(&vec![b'x'; LINE_MAX + 1]);
        assert_eq!(lines.take(), None);
        assert!(lines.buffer.is_empty() && lines.is_skipping);
    }

    #[test]
    fn a_token_is_escaped() {
        assert_eq!(escaped("aZ9-._~"), "aZ9-._~");
        assert_eq!(escaped("a=b&c d/é"), "a%3Db%26c%20d%2F%C3%A9");
    }
}
