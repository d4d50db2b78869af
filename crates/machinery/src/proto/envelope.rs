//! The message around an object (`runtime.Unknown`), the parts of a list, and the events of a watch.

use super::wire::{ProtoError, WireReader, enclose, push_bytes, push_varint};

/// The prefix of every Kubernetes object in protobuf encoding.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// An object that is not decoded yet, with the names of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtoEnvelope<'a> {
    /// The group and version; empty if the sender left it out.
    pub api_version: &'a str,
    /// The kind; empty if the sender left it out.
    pub kind: &'a str,
    /// The message of the object.
    pub raw: &'a [u8],
}

// === impl ProtoEnvelope ===

impl<'a> ProtoEnvelope<'a> {
    /// Reads an envelope.
    ///
    /// # Errors
    /// If the bytes do not start with [`MAGIC`], or the message after it is malformed.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ProtoError> {
        if bytes.is_empty() {
            return Err(ProtoError::NoData);
        }
        let message = bytes.strip_prefix(MAGIC).ok_or(ProtoError::NoPrefix)?;
        if message.is_empty() {
            return Err(ProtoError::NoBody);
        }
        let mut envelope = Self {
            api_version: "",
            kind: "",
            raw: &[],
        };
        each_field(
            message,
            "Unknown",
            &["TypeMeta", "Raw", "ContentEncoding", "ContentType"],
            |number, bytes| match number {
                1 => envelope.read_type(bytes),
                2 => {
                    envelope.raw = bytes;
                    Ok(())
                }
                _ => Ok(()),
            },
        )?;
        Ok(envelope)
    }

    fn read_type(&mut self, message: &'a [u8]) -> Result<(), ProtoError> {
        each_field(
            message,
            "TypeMeta",
            &["APIVersion", "Kind"],
            |number, bytes| {
                // A name that is no text names no type.
                let name = std::str::from_utf8(bytes).unwrap_or("\u{fffd}");
                match number {
                    1 => self.api_version = name,
                    _ => self.kind = name,
                }
                Ok(())
            },
        )
    }

    /// Writes the envelope.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut bytes, tail) = self.around(self.raw.len());
        bytes.extend_from_slice(self.raw);
        bytes.extend_from_slice(&tail);
        bytes
    }

    /// Returns the bytes before and after a message of `length` bytes that is written separately.
    #[must_use]
    pub fn around(&self, length: usize) -> (Vec<u8>, [u8; 4]) {
        let mut head = MAGIC.to_vec();
        push_bytes(&mut head, 1, self.api_version.as_bytes());
        push_bytes(&mut head, 2, self.kind.as_bytes());
        enclose(&mut head, MAGIC.len(), 1);
        push_varint(&mut head, 2 << 3 | 2);
        push_varint(&mut head, length as u64);
        // The encoding and the content type are empty.
        (head, [3 << 3 | 2, 0, 4 << 3 | 2, 0])
    }
}

/// Appends a message to the one that contains it, as field `number`.
pub fn push_message(outer: &mut Vec<u8>, number: u32, message: &[u8]) {
    push_bytes(outer, number, message);
}

/// Returns one event of a watch: its length in four bytes, and a message with the type and the object in its envelope.
#[must_use]
pub fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(object.len() + 32);
    frame.extend_from_slice(&[0; 4]);
    push_bytes(&mut frame, 1, event.as_bytes());
    let start = frame.len();
    push_bytes(&mut frame, 1, object);
    enclose(&mut frame, start, 2);
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Calls `found` with the number and the bytes of each field of a message that has only fields of bytes.
fn each_field<'a>(
    message: &'a [u8],
    name: &'static str,
    fields: &[&str],
    mut found: impl FnMut(u32, &'a [u8]) -> Result<(), ProtoError>,
) -> Result<(), ProtoError> {
    let mut wire = WireReader::of(message);
    while let Some(tag) = wire.next_tag(name)? {
        match fields.get(tag.number as usize - 1) {
            None => wire.skip(tag.wire)?,
            Some(_) if tag.wire == 2 => found(tag.number, wire.bytes()?)?,
            Some(field) => {
                return Err(ProtoError::WrongWireType {
                    wire: tag.wire,
                    field: (*field).to_owned(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_and_writes_envelopes() {
        let bytes = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x03abc\x1a\0\x22\0";
        let envelope = ProtoEnvelope {
            api_version: "v1",
            kind: "Status",
            raw: b"abc",
        };
        assert_eq!(ProtoEnvelope::open(bytes), Ok(envelope));
        assert_eq!(envelope.to_bytes(), bytes);
    }

    #[test]
    fn refuses_other_bytes_in_the_words_of_upstream() {
        let table: [(&[u8], &str); 8] = [
            (b"", "empty data"),
            (b"k8s\0", "empty body"),
            (
                b"k8s",
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
            (
                b"{}",
                "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            ),
            (b"k8s\0\x12\x05abc", "unexpected EOF"),
            (
                b"k8s\0\x08\x05",
                "proto: wrong wireType = 0 for field TypeMeta",
            ),
            (
                b"k8s\0\x0a\x02\x08\x05",
                "proto: wrong wireType = 0 for field APIVersion",
            ),
            (
                b"k8s\0\x0c",
                "proto: Unknown: wiretype end group for non-group",
            ),
        ];
        for (bytes, why) in table {
            let error = ProtoEnvelope::open(bytes).unwrap_err();
            assert_eq!(error.to_string(), why, "{bytes:?}");
        }
    }

    #[test]
    fn frames_an_event() {
        assert_eq!(
            watch_frame("ADDED", b"abc"),
            b"\0\0\0\x0e\x0a\x05ADDED\x12\x05\x0a\x03abc"
        );
    }
}
