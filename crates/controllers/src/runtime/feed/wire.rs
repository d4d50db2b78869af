//! Decodes the events of a watch and the pages of a list. Pure functions of their bytes.

use caretaker_machinery::proto::{MAGIC, MalformedProto, ProtoEnvelope, ProtoFields};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::call::ObjectPage;
use super::super::kind::KindId;
use super::super::record::{
    ObjectRecord, RecordView, Revision, UnreadableObject, decode, decode_partial, watch_event,
};

/// The first byte of a frame: the tag of its first field, the type of the event. No line of JSON begins with it.
const FRAME_START: u8 = 0x0a;

/// The annotation by which a bookmark ends a list by watch.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// An event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WatchEvent {
    /// The event is ADDED or MODIFIED.
    Applied(ObjectRecord),
    /// The event is DELETED.
    Deleted(ObjectRecord),
    /// The event is ADDED or MODIFIED, and its object cannot be decoded.
    Unreadable(UnreadableObject),
    /// The event is DELETED, and its object cannot be decoded.
    UnreadableEnd(UnreadableObject),
    Bookmark {
        /// The watch has shown all events up to this version.
        revision: Revision,
        /// Whether this ends the list that the watch began with.
        is_end: bool,
    },
    /// An error after the watch was opened, with its HTTP status; 0 if the status is unknown.
    Error { status: u16 },
    /// A type of event that later versions of Kubernetes may add.
    Unknown,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct ListPage<'a> {
    pub(super) revision: Revision,
    pub(super) token: Option<Box<str>>,
    pub(super) items: Vec<EncodedObject<'a>>,
}

/// An encoded object of a page.
#[derive(Debug, Clone, Copy)]
pub(super) enum EncodedObject<'a> {
    Json(&'a RawValue),
    Protobuf(&'a [u8]),
}

/// The bytes are no list of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotAList;

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type")]
    event: String,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BookmarkObject {
    #[serde(default)]
    metadata: Option<BookmarkMetadata>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: Option<String>,
    annotations: Option<EndOfList>,
}

/// The annotation by which a bookmark ends a list by watch.
#[derive(Default, Deserialize)]
struct EndOfList {
    #[serde(default, rename = "k8s.io/initial-events-end")]
    end: Option<String>,
}

#[derive(Default, Deserialize)]
struct StatusObject {
    code: Option<u16>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct JsonList<'a> {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: Option<ListMetadata>,
    /// Optional twice: an empty list may be written as null, but a document without `items` is no list.
    #[serde(borrow, default, deserialize_with = "present")]
    items: Option<Option<Vec<&'a RawValue>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    token: Option<Box<str>>,
}

/// Decodes a page of a list of metadata; `None` if it is no list.
pub(crate) fn read_metadata_page(kind: KindId, bytes: &[u8]) -> Option<ObjectPage> {
    let page = read_page(bytes).ok()?;
    let items = page.items.iter();
    let items = items.filter_map(|item| item.decode(kind, RecordView::Metadata).ok());
    Some(ObjectPage {
        items: items.collect(),
        revision: page.revision,
        token: page.token,
    })
}

/// Decodes a line of JSON or a frame of protocol buffers; `None` if it is no event.
pub(super) fn read_event(kind: KindId, view: RecordView, line: &[u8]) -> Option<WatchEvent> {
    if line.first() == Some(&FRAME_START) {
        return read_frame(kind, line).ok();
    }
    let line: JsonEvent<'_> = serde_json::from_slice(line).ok()?;
    let object = line.object.map_or("null", RawValue::get).as_bytes();
    match line.event.as_str() {
        "ADDED" | "MODIFIED" | "DELETED" => {
            let decoded = decode(kind, object, view);
            Some(WatchEvent::about(&line.event, decoded))
        }
        "BOOKMARK" => {
            let bookmark: BookmarkObject = serde_json::from_slice(object).ok()?;
            let metadata = bookmark.metadata.unwrap_or_default();
            let end = metadata.annotations.and_then(|annotations| annotations.end);
            Some(WatchEvent::Bookmark {
                revision: revision(metadata.resource_version.as_deref()),
                is_end: end.as_deref() == Some("true"),
            })
        }
        "ERROR" => {
            let status: Option<StatusObject> = serde_json::from_slice(object).ok()?;
            Some(WatchEvent::Error {
                status: status.as_ref().map_or(0, status_code),
            })
        }
        _ => Some(WatchEvent::Unknown),
    }
}

fn read_frame(kind: KindId, frame: &[u8]) -> Result<WatchEvent, MalformedProto> {
    let (event, object) = watch_event(frame)?;
    let message = ProtoEnvelope::open(object)?.raw;
    Ok(match event {
        "ADDED" | "MODIFIED" | "DELETED" => WatchEvent::about(event, decode_partial(kind, message)),
        "BOOKMARK" => read_bookmark(message)?,
        "ERROR" => WatchEvent::Error {
            status: status_code(&read_status(message)?),
        },
        _ => WatchEvent::Unknown,
    })
}

/// Decodes a bookmark: a `PartialObjectMetadata` with a version and perhaps an annotation.
fn read_bookmark(message: &[u8]) -> Result<WatchEvent, MalformedProto> {
    let (mut revision, mut is_end) = ("", false);
    for field in ProtoFields::of(message) {
        let (1, metadata) = field? else { continue };
        for field in ProtoFields::of(metadata.bytes()?) {
            match field? {
                (6, value) => revision = value.text()?,
                (12, annotation) => {
                    let annotation = ProtoFields::of(annotation.bytes()?);
                    is_end |=
                        annotation.clone().text(1)? == END_OF_LIST && annotation.text(2)? == "true";
                }
                _ => {}
            }
        }
    }
    Ok(WatchEvent::Bookmark {
        revision: Revision::from(revision),
        is_end,
    })
}

fn read_status(message: &[u8]) -> Result<StatusObject, MalformedProto> {
    let mut status = StatusObject::default();
    for field in ProtoFields::of(message) {
        match field? {
            (4, reason) => status.reason = Some(reason.text()?.to_owned()),
            (6, code) => status.code = u16::try_from(code.number()?).ok(),
            _ => {}
        }
    }
    Ok(status)
}

/// Decodes a page of a list.
pub(super) fn read_page(bytes: &[u8]) -> Result<ListPage<'_>, NotAList> {
    if bytes.starts_with(MAGIC) {
        return read_protobuf_page(bytes).map_err(|MalformedProto| NotAList);
    }
    let list: JsonList<'_> = serde_json::from_slice(bytes).map_err(|_| NotAList)?;
    if list.kind.as_deref() == Some("Status") {
        return Err(NotAList);
    }
    let metadata = list.metadata.unwrap_or_default();
    let items = list.items.ok_or(NotAList)?.unwrap_or_default();
    Ok(ListPage {
        revision: revision(metadata.resource_version.as_deref()),
        token: metadata.token.filter(|token| !token.is_empty()),
        items: items.into_iter().map(EncodedObject::Json).collect(),
    })
}

fn read_protobuf_page(bytes: &[u8]) -> Result<ListPage<'_>, MalformedProto> {
    let ProtoEnvelope {
        kind, raw: list, ..
    } = ProtoEnvelope::open(bytes)?;
    if kind != "PartialObjectMetadataList" {
        return Err(MalformedProto);
    }
    let mut page = ListPage {
        revision: Revision::default(),
        token: None,
        items: Vec::new(),
    };
    for field in ProtoFields::of(list) {
        match field? {
            (1, metadata) => {
                let metadata = ProtoFields::of(metadata.bytes()?);
                page.revision = Revision::from(metadata.clone().text(2)?);
                let token = metadata.text(3)?;
                page.token = (!token.is_empty()).then(|| token.into());
            }
            (2, item) => page.items.push(EncodedObject::Protobuf(item.bytes()?)),
            _ => {}
        }
    }
    Ok(page)
}

// === impl EncodedObject ===

impl EncodedObject<'_> {
    pub(super) fn decode(
        &self,
        kind: KindId,
        view: RecordView,
    ) -> Result<ObjectRecord, UnreadableObject> {
        match self {
            Self::Json(text) => decode(kind, text.get().as_bytes(), view),
            Self::Protobuf(message) => decode_partial(kind, message),
        }
    }
}

// === impl WatchEvent ===

impl WatchEvent {
    /// The event about an object, `DELETED` or another one.
    fn about(event: &str, decoded: Result<ObjectRecord, UnreadableObject>) -> Self {
        match (event, decoded) {
            ("DELETED", Ok(record)) => Self::Deleted(record),
            ("DELETED", Err(object)) => Self::UnreadableEnd(object),
            (_, Ok(record)) => Self::Applied(record),
            (_, Err(object)) => Self::Unreadable(object),
        }
    }

    /// The version of the event, if it has one.
    pub(super) fn revision(&self) -> Option<&Revision> {
        match self {
            Self::Applied(record) | Self::Deleted(record) => Some(&record.meta.revision),
            Self::Unreadable(object) | Self::UnreadableEnd(object) => object.revision.as_ref(),
            Self::Bookmark { revision, .. } => Some(revision),
            Self::Error { .. } | Self::Unknown => None,
        }
    }
}

fn revision(text: Option<&str>) -> Revision {
    Revision::from(text.unwrap_or_default())
}

/// The HTTP status of a `Status`. Some servers send only the reason.
fn status_code(status: &StatusObject) -> u16 {
    match (status.code, status.reason.as_deref()) {
        (Some(code), _) if code != 0 => code,
        (_, Some("Expired" | "Gone")) => 410,
        (_, Some("Timeout")) => 504,
        (_, Some("Forbidden")) => 403,
        (_, Some("TooManyRequests")) => 429,
        (_, Some("InternalError")) => 500,
        _ => 0,
    }
}

fn present<'de: 'a, 'a, D>(deserializer: D) -> Result<Option<Option<Vec<&'a RawValue>>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: KindId = KindId(0);

    fn event(frame: &[u8]) -> Option<WatchEvent> {
        read_event(KIND, RecordView::Metadata, frame)
    }

    /// A bookmark that ends a list, as kube-apiserver 1.36.3 wrote it.
    const BOOKMARK: &[u8] = b"\x0a\x08BOOKMARK\x12\x6f\x0a\x6dk8s\0\x0a\x27\x0a\x0emeta.k8s.io/v1\
        \x12\x15PartialObjectMetadata\x12\x3a\x0a\x38\x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\x0550362\x38\0\x42\0\
        \x62\x21\x0a\x19k8s.io/initial-events-end\x12\x04true\x1a\0\x22\0";

    #[test]
    fn a_bookmark_is_read_as_servers_write_it() {
        let expected = WatchEvent::Bookmark {
            revision: Revision::Number(50_362),
            is_end: true,
        };
        assert_eq!(event(BOOKMARK), Some(expected));
        let mut other = BOOKMARK.to_vec();
        let value = other.windows(4).position(|part| part == b"true").unwrap();
        other[value..value + 4].copy_from_slice(b"nope");
        let expected = WatchEvent::Bookmark {
            revision: Revision::Number(50_362),
            is_end: false,
        };
        assert_eq!(event(&other), Some(expected));
        assert_eq!(event(&BOOKMARK[..40]), None, "cut off");
    }

    #[test]
    fn an_error_is_read_in_both_forms() {
        let frame = b"\x0a\x05ERROR\x12\x1c\x0a\x1ak8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x06\x30\x9a\x03\x22\x01x";
        assert_eq!(event(frame), Some(WatchEvent::Error { status: 410 }));
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert_eq!(event(line), Some(WatchEvent::Error { status: 410 }));
    }

    #[test]
    fn a_page_is_read_as_servers_write_it() {
        let page = b"k8s\0\x0a\x2b\x0a\x0emeta.k8s.io/v1\x12\x19PartialObjectMetadataList\
            \x12\x1c\x0a\x09\x0a\0\x12\x02\x34\x32\x1a\x01c\x12\x0f\x0a\x0d\x0a\x01a\x2a\x01u\x32\x01\x37\x3a\x02\0\0";
        let page = read_page(page).unwrap();
        assert_eq!(page.revision, Revision::Number(42));
        assert_eq!(page.token.as_deref(), Some("c"));
        let records: Vec<ObjectRecord> = page
            .items
            .iter()
            .map(|item| item.decode(KIND, RecordView::Metadata).unwrap())
            .collect();
        assert_eq!((records.len(), &*records[0].meta.name), (1, "a"));
        let status = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\0";
        assert!(read_page(status).is_err());
    }
}
