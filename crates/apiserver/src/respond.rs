//! Responses: objects, lists and errors as bytes in the negotiated format.
//!
//! An object's bytes are copied without parsing, unless it is stored in another version than the requested one or the
//! client wants YAML. Protobuf is encoded from the same bytes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use caretaker_machinery::proto::{self, ProtoEnvelope};
use caretaker_machinery::status::Status;
use futures::{Stream, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::ServedKind;
use crate::negotiate::{MetaVersion, ResponseEncoding, ResponseForm, ResponseFormat};
use crate::protobuf;
use crate::store::{ObjectPage, StoredObject};
use crate::strategy::convert;
use crate::tables::{self, IncludeObject};

/// Bytes of a piece of a list. A list is sent in pieces, so that a large one is never in memory twice.
const PIECE_BYTES: usize = 64 * 1024;

/// The body of a response.
pub struct ResponseBody(BodyContent);

enum BodyContent {
    Whole(Option<Bytes>),
    Stream(PieceStream),
    /// A stream that goes on until its client or the server stops.
    Endless(PieceStream),
}

type PieceStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The metadata of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListHeader {
    pub(crate) revision: String,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
}

// === impl ResponseBody ===

impl ResponseBody {
    pub(crate) fn empty() -> Self {
        Self(BodyContent::Whole(None))
    }

    fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(BodyContent::Whole(Some(bytes.into())))
    }

    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::forwarded(stream.map(Ok))
    }

    /// A body without an end of its own, such as that of a watch. It ends when the server stops.
    pub(crate) fn endless(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(BodyContent::Endless(Box::pin(stream.map(Ok))))
    }

    /// Ends an endless body when `stop` is ready; changes no other body.
    pub(crate) fn until(self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        match self.0 {
            BodyContent::Endless(stream) => Self::forwarded(stream.take_until(Box::pin(stop))),
            other => Self(other),
        }
    }

    /// A body whose pieces come from elsewhere. An error breaks the connection off, or the stream of an h2 connection.
    pub fn forwarded(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(BodyContent::Stream(Box::pin(stream)))
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        Self::whole(text)
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.0 {
            BodyContent::Whole(bytes) => {
                Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok))
            }
            BodyContent::Stream(stream) | BodyContent::Endless(stream) => {
                stream.as_mut().poll_next(context)
            }
        };
        next.map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, BodyContent::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.0 {
            BodyContent::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            BodyContent::Stream(_) | BodyContent::Endless(_) => http_body::SizeHint::default(),
        }
    }
}

/// Makes the response of a failure, or of the success of a delete.
pub(crate) fn status(status: &Status, format: ResponseFormat) -> Response<ResponseBody> {
    let code = if status.code == 0 { 200 } else { status.code };
    let tree = serde_json::to_value(status).unwrap_or_default();
    let mut response = value(code, &tree, format);
    let seconds = status
        .details
        .as_ref()
        .map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Makes the response of a tree that is not stored.
pub(crate) fn value(code: u16, tree: &Value, format: ResponseFormat) -> Response<ResponseBody> {
    if format.encoding == ResponseEncoding::Protobuf {
        return message(code, protobuf::encode(tree), format);
    }
    let bytes = serde_json::to_vec(tree).unwrap_or_default();
    encoded(code, bytes, format)
}

/// Makes the response of one object.
pub(crate) fn object(
    code: u16,
    kind: &ServedKind,
    object: &StoredObject,
    format: ResponseFormat,
    tables: &tables::TableContext,
) -> Response<ResponseBody> {
    if format.encoding == ResponseEncoding::Protobuf {
        let metadata = format.form.metadata();
        return message(code, protobuf::object(kind, object, metadata), format);
    }
    let bytes = match format.form {
        ResponseForm::Metadata(version) => metadata_bytes(object, version),
        ResponseForm::Table(version) => {
            let meta = ListHeader {
                revision: revision_text(object),
                ..ListHeader::default()
            };
            tables.table(kind, version, std::iter::once(object), &meta)
        }
        _ => object_bytes(kind, object),
    };
    encoded(code, bytes, format)
}

/// Makes the response of a list, which is streamed in pieces.
pub(crate) async fn list(
    kind: Arc<ServedKind>,
    page: ObjectPage,
    meta: &ListHeader,
    format: ResponseFormat,
    tables: &tables::TableContext,
) -> Response<ResponseBody> {
    if let ResponseForm::Table(version) = format.form {
        let objects = page.objects.iter().map(AsRef::as_ref);
        let bytes = tables.table(&kind, version, objects, meta);
        return encoded(200, bytes, format);
    }
    let metadata = format.form.metadata();
    if format.encoding == ResponseEncoding::Protobuf {
        return match protobuf_list(&kind, page, meta, metadata).await {
            Ok(pieces) => {
                let body = ResponseBody::stream(futures::stream::iter(pieces));
                build(200, format.content_type(), body)
            }
            Err(error) => status(&protobuf::internal_error(&error), format),
        };
    }
    let mut items = page.objects.into_iter().enumerate();
    let mut piece = list_head(&kind, meta, metadata);
    let mut done = false;
    let pieces = std::iter::from_fn(move || {
        if done {
            return None;
        }
        let mut bytes = std::mem::take(&mut piece);
        while bytes.len() < PIECE_BYTES {
            let Some((index, object)) = items.next() else {
                bytes.extend_from_slice(b"]}");
                done = true;
                break;
            };
            push_item(&mut bytes, index, &kind, &object, metadata);
        }
        Some(Bytes::from(bytes))
    });
    if format.encoding != ResponseEncoding::Json {
        let pieces: Vec<Bytes> = pieces.collect();
        return encoded(200, pieces.concat(), format);
    }
    let body = ResponseBody::stream(futures::stream::iter(pieces));
    build(200, format.content_type(), body)
}

/// Encodes a list. Its message begins with its length, so it is encoded as a whole before it is sent, with pauses for other
/// tasks.
async fn protobuf_list(
    kind: &ServedKind,
    page: ObjectPage,
    meta: &ListHeader,
    metadata: Option<MetaVersion>,
) -> Result<Vec<Bytes>, serde_json::Error> {
    let mut pieces = vec![Bytes::new()];
    let mut piece = protobuf::list_head(&meta.to_value())?;
    let mut length = 0;
    for object in page.objects {
        let message = match metadata {
            Some(_) => protobuf::metadata_message(&object)?,
            None => protobuf::object_message(kind, &object)?,
        };
        proto::push_message(&mut piece, 2, &message);
        if piece.len() >= PIECE_BYTES {
            length += piece.len();
            pieces.push(std::mem::take(&mut piece).into());
            tokio::task::yield_now().await;
        }
    }
    length += piece.len();
    let (api_version, list_kind) = list_names(kind, metadata);
    let envelope = ProtoEnvelope {
        api_version: &api_version,
        kind: list_kind,
        raw: &[],
    };
    let (head, tail) = envelope.around(length);
    piece.extend_from_slice(&tail);
    pieces.push(piece.into());
    pieces[0] = head.into();
    Ok(pieces)
}

/// Makes the response of a watch.
pub(crate) fn watch(
    events: impl Stream<Item = Bytes> + Send + 'static,
    format: ResponseFormat,
) -> Response<ResponseBody> {
    build(200, format.stream_type(), ResponseBody::endless(events))
}

/// Makes the response to an unknown path, with the text of Go's file server.
pub(crate) fn not_found_page() -> Response<ResponseBody> {
    let body = ResponseBody::whole("404 page not found\n");
    build(404, "text/plain; charset=utf-8", body)
}

/// Makes a response of plain text.
pub(crate) fn text(text: &str) -> Response<ResponseBody> {
    let body = ResponseBody::whole(text.to_owned());
    build(200, "text/plain; charset=utf-8", body)
}

/// Makes the response of a JSON document that is no object of the API.
pub(crate) fn document(media_type: &'static str, content: &Value) -> Response<ResponseBody> {
    build(200, media_type, ResponseBody::whole(content.to_string()))
}

/// Makes a response of bytes.
pub(crate) fn bytes(media_type: &'static str, content: Vec<u8>) -> Response<ResponseBody> {
    build(200, media_type, ResponseBody::whole(content))
}

/// Makes the response of the metrics.
pub(crate) fn metrics(text: &str) -> Response<ResponseBody> {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    build(200, content_type, ResponseBody::whole(text.to_owned()))
}

/// Adds a `Warning` header for each warning, with the text quoted.
pub(crate) fn add_warnings(response: &mut Response<ResponseBody>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Adds the headers of every response. The date comes from the server's clock, because the times in objects do.
pub(crate) fn add_common_headers(response: &mut Response<ResponseBody>, now: Timestamp) {
    let headers = response.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
    }
    let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    if let Ok(date) = HeaderValue::from_str(&date) {
        headers.insert(header::DATE, date);
    }
}

/// Returns an object as JSON in the version of `kind`.
pub(crate) fn object_bytes(kind: &ServedKind, object: &StoredObject) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(object.bytes.len() + 64);
    push_object(&mut bytes, kind, object);
    bytes
}

/// Returns the metadata of an object as JSON.
pub(crate) fn metadata_bytes(object: &StoredObject, version: MetaVersion) -> Vec<u8> {
    let meta = object.meta();
    let mut bytes = Vec::with_capacity(meta.len() + 96);
    bytes.extend_from_slice(br#"{"apiVersion":""#);
    bytes.extend_from_slice(version.api_version().as_bytes());
    bytes.extend_from_slice(br#"","kind":"PartialObjectMetadata","metadata":"#);
    bytes.extend_from_slice(meta);
    bytes.push(b'}');
    bytes
}

fn push_object(bytes: &mut Vec<u8>, kind: &ServedKind, object: &StoredObject) {
    bytes.extend_from_slice(b"{\"apiVersion\":\"");
    if !kind.group.is_empty() {
        bytes.extend_from_slice(kind.group.as_bytes());
        bytes.push(b'/');
    }
    bytes.extend_from_slice(kind.version.as_bytes());
    bytes.extend_from_slice(b"\",\"kind\":\"");
    bytes.extend_from_slice(kind.kind.as_bytes());
    bytes.extend_from_slice(b"\",");
    push_content(bytes, kind, object);
}

/// Writes the members of an object, without the opening brace.
fn push_content(bytes: &mut Vec<u8>, kind: &ServedKind, object: &StoredObject) {
    match convert::from_stored(kind, object) {
        Some(converted) => {
            let converted = serde_json::to_vec(&converted).unwrap_or_default();
            bytes.extend_from_slice(&converted[1..]);
        }
        None => bytes.extend_from_slice(&object.bytes[1..]),
    }
}

/// Items of built-in lists carry no apiVersion and kind; those of custom kinds do.
fn push_item(
    bytes: &mut Vec<u8>,
    index: usize,
    kind: &ServedKind,
    object: &StoredObject,
    metadata: Option<MetaVersion>,
) {
    if index > 0 {
        bytes.push(b',');
    }
    if let Some(version) = metadata {
        bytes.extend_from_slice(&metadata_bytes(object, version));
    } else if kind.custom.is_some() {
        push_object(bytes, kind, object);
    } else {
        bytes.push(b'{');
        push_content(bytes, kind, object);
    }
}

/// Returns the apiVersion and the kind of a list.
fn list_names(kind: &ServedKind, metadata: Option<MetaVersion>) -> (String, &str) {
    match metadata {
        Some(version) => (version.api_version().into(), "PartialObjectMetadataList"),
        None => (kind.api_version(), &kind.list_kind),
    }
}

fn list_head(kind: &ServedKind, meta: &ListHeader, metadata: Option<MetaVersion>) -> Vec<u8> {
    let (api_version, list_kind) = list_names(kind, metadata);
    let meta = serde_json::to_string(&meta.to_value()).unwrap_or_default();
    format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{list_kind}\",\"metadata\":{meta},\"items\":[")
        .into_bytes()
}

// === impl ListHeader ===

impl ListHeader {
    pub(crate) fn to_value(&self) -> Value {
        let mut meta = serde_json::Map::new();
        if !self.revision.is_empty() {
            meta.insert("resourceVersion".into(), self.revision.clone().into());
        }
        if let Some(token) = &self.continue_token {
            meta.insert("continue".into(), token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            meta.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(meta)
    }
}

fn revision_text(object: &StoredObject) -> String {
    if object.rev.0 == 0 {
        String::new()
    } else {
        object.rev.to_string()
    }
}

/// Makes a response of JSON in the encoding of the format.
fn encoded(code: u16, bytes: Vec<u8>, format: ResponseFormat) -> Response<ResponseBody> {
    let parsed = || serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
    let bytes = match format.encoding {
        ResponseEncoding::Json | ResponseEncoding::Protobuf => bytes,
        ResponseEncoding::PrettyJson => serde_json::to_vec_pretty(&parsed()).unwrap_or_default(),
        ResponseEncoding::Yaml => serde_saphyr::to_string(&parsed())
            .unwrap_or_default()
            .into_bytes(),
    };
    build(code, format.content_type(), ResponseBody::whole(bytes))
}

/// Makes a response of an envelope.
fn message(
    code: u16,
    bytes: Result<Vec<u8>, serde_json::Error>,
    format: ResponseFormat,
) -> Response<ResponseBody> {
    match bytes {
        Ok(bytes) => build(code, format.content_type(), ResponseBody::whole(bytes)),
        Err(error) => status(&protobuf::internal_error(&error), ResponseFormat::JSON),
    }
}

pub(crate) fn build(
    code: u16,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// The parameter of `includeObject`.
impl IncludeObject {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None | Some("" | "Metadata") => Ok(IncludeObject::Metadata),
            Some("None") => Ok(IncludeObject::None),
            Some("Object") => Ok(IncludeObject::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}
