//! What servers write: the lines of a watch and the pages of a list, as pure functions of their bytes.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::kind::KindId;
use super::super::record::{Record, Revision, Unreadable, View, decode};

/// A line of a watch.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// An object exists.
    Applied(Record),
    /// An object ended.
    Deleted(Record),
    /// An object exists and cannot be read.
    Unreadable(Unreadable),
    /// An object ended and cannot be read.
    UnreadableEnd(Unreadable),
    /// How far the watch has come.
    Bookmark {
        /// All up to this has been told.
        revision: Revision,
        /// Whether this ends the list that the watch began with.
        is_end: bool,
    },
    /// What would have been an HTTP status before the watch began.
    Error {
        /// The status.
        status: u16,
    },
    /// Of a later Kubernetes, perhaps.
    Unknown,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) revision: Revision,
    pub(super) token: Option<Box<str>>,
    pub(super) items: Vec<&'a RawValue>,
}

/// Something else than a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoList;

#[derive(Deserialize)]
struct Line<'a> {
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

#[derive(Deserialize)]
struct StatusObject {
    #[serde(default)]
    code: Option<u16>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: Option<ListMetadata>,
    /// Twice optional: an empty list may be written as null, but something without items is no list.
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

/// Reads a line. Nothing: it is not what a watch consists of.
pub(super) fn read_event(kind: KindId, view: View, line: &[u8]) -> Option<Event> {
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let object = line.object.map_or("null", RawValue::get).as_bytes();
    match line.event.as_str() {
        "ADDED" | "MODIFIED" => Some(match decode(kind, object, view) {
            Ok(record) => Event::Applied(record),
            Err(object) => Event::Unreadable(object),
        }),
        "DELETED" => Some(match decode(kind, object, view) {
            Ok(record) => Event::Deleted(record),
            Err(object) => Event::UnreadableEnd(object),
        }),
        "BOOKMARK" => {
            let bookmark: BookmarkObject = serde_json::from_slice(object).ok()?;
            let metadata = bookmark.metadata.unwrap_or_default();
            let end = metadata.annotations.and_then(|annotations| annotations.end);
            Some(Event::Bookmark {
                revision: revision(metadata.resource_version.as_deref()),
                is_end: end.as_deref() == Some("true"),
            })
        }
        "ERROR" => {
            let status: Option<StatusObject> = serde_json::from_slice(object).ok()?;
            Some(Event::Error {
                status: status.as_ref().map_or(0, status_code),
            })
        }
        _ => Some(Event::Unknown),
    }
}

/// Reads a page.
pub(super) fn read_page(bytes: &[u8]) -> Result<Page<'_>, NoList> {
    let list: List<'_> = serde_json::from_slice(bytes).map_err(|_| NoList)?;
    if list.kind.as_deref() == Some("Status") {
        return Err(NoList);
    }
    let metadata = list.metadata.unwrap_or_default();
    Ok(Page {
        revision: revision(metadata.resource_version.as_deref()),
        token: metadata.token.filter(|token| !token.is_empty()),
        items: list.items.ok_or(NoList)?.unwrap_or_default(),
    })
}

// === impl Event ===

impl Event {
    /// How far the watch has come with this, if it says so.
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

/// Some servers give the reason only.
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
