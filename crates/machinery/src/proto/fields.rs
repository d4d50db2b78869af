//! A reader for callers that know the meaning of the few fields they read. Nothing here recurses, so the depth of a
//! message does not matter.

use super::wire::{ProtoError, WireReader};

/// Iterates over the fields of one message in wire order.
#[derive(Debug, Clone)]
pub struct ProtoFields<'a> {
    wire: WireReader<'a>,
}

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtoValue<'a> {
    /// A varint: a number or a boolean.
    Number(u64),
    /// A string, bytes or a nested message.
    Bytes(&'a [u8]),
    /// A fixed-width value of four or eight bytes. No field that is read here has one.
    Fixed,
}

/// The bytes are not a message, or a field does not have the expected type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf")]
pub struct MalformedProto;

// === impl MalformedProto ===

impl From<ProtoError> for MalformedProto {
    fn from(_: ProtoError) -> Self {
        Self
    }
}

// === impl ProtoFields ===

impl<'a> ProtoFields<'a> {
    /// Starts at the first field of `message`.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        Self {
            wire: WireReader::of(message),
        }
    }

    /// The string in field `number`; empty if there is none. If the field occurs several times, the last one counts.
    ///
    /// # Errors
    /// If the message is malformed or the field is not a string.
    pub fn text(self, number: u32) -> Result<&'a str, MalformedProto> {
        let mut text = "";
        for field in self {
            match field? {
                (found, value) if found == number => text = value.text()?,
                _ => {}
            }
        }
        Ok(text)
    }

    fn read(&mut self) -> Result<Option<(u32, ProtoValue<'a>)>, MalformedProto> {
        let Some(tag) = self.wire.next_tag("")? else {
            return Ok(None);
        };
        let value = match tag.wire {
            0 => ProtoValue::Number(self.wire.varint()?),
            1 => self.wire.take(8).map(|_| ProtoValue::Fixed)?,
            2 => ProtoValue::Bytes(self.wire.bytes()?),
            5 => self.wire.take(4).map(|_| ProtoValue::Fixed)?,
            // Groups, which are deprecated and unused, and undefined wire types.
            _ => return Err(MalformedProto),
        };
        Ok(Some((tag.number, value)))
    }
}

impl<'a> Iterator for ProtoFields<'a> {
    type Item = Result<(u32, ProtoValue<'a>), MalformedProto>;

    /// Ends after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        let field = self.read();
        if field.is_err() {
            self.wire = WireReader::of(&[]);
        }
        field.transpose()
    }
}

// === impl ProtoValue ===

impl<'a> ProtoValue<'a> {
    /// The value as a string.
    ///
    /// # Errors
    /// If it is a number or not UTF-8.
    pub fn text(self) -> Result<&'a str, MalformedProto> {
        std::str::from_utf8(self.bytes()?).map_err(|_| MalformedProto)
    }

    /// The value as bytes.
    ///
    /// # Errors
    /// If it is a number.
    pub fn bytes(self) -> Result<&'a [u8], MalformedProto> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(MalformedProto),
        }
    }

    /// The value as a number.
    ///
    /// # Errors
    /// If it is not a varint.
    pub fn number(self) -> Result<u64, MalformedProto> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(MalformedProto),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u32, ProtoValue<'_>)>, MalformedProto> {
        ProtoFields::of(bytes).collect()
    }

    #[test]
    fn reads_fields_in_order() {
        let bytes = [
            0x0a, 2, b'a', b'b', 0x10, 0x96, 0x01, 0x0a, 0, 0x3d, 1, 2, 3, 4, 0x41, 1, 2, 3, 4, 5,
            6, 7, 8,
        ];
        let expected = [
            (1, ProtoValue::Bytes(b"ab")),
            (2, ProtoValue::Number(150)),
            (1, ProtoValue::Bytes(b"")),
            (7, ProtoValue::Fixed),
            (8, ProtoValue::Fixed),
        ];
        assert_eq!(read(&bytes), Ok(expected.to_vec()));
        assert_eq!(read(&[]), Ok(Vec::new()));
        let most = [&[0x08][..], &[0xff; 9], &[1]].concat();
        assert_eq!(read(&most), Ok(vec![(1, ProtoValue::Number(u64::MAX))]));
    }

    #[test]
    fn truncated_or_malformed_messages_are_errors() {
        let table: [&[u8]; 8] = [
            &[0x0a],
            &[0x0a, 3, b'a', b'b'],
            &[0x10],
            &[0x10, 0x80],
            &[0x3d, 1, 2, 3],
            &[0x0b],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[
                0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1,
            ],
        ];
        for bytes in table {
            assert_eq!(read(bytes), Err(MalformedProto), "{bytes:?}");
        }
    }

    #[test]
    fn values_of_another_type_are_errors() {
        assert_eq!(ProtoValue::Bytes(b"\xff").text(), Err(MalformedProto));
        assert_eq!(ProtoValue::Number(1).text(), Err(MalformedProto));
        assert_eq!(ProtoValue::Bytes(b"").number(), Err(MalformedProto));
        assert_eq!(ProtoFields::of(b"\x0a\x01a\x0a\x01b").text(1), Ok("b"));
        assert_eq!(ProtoFields::of(b"\x08\x01").text(1), Err(MalformedProto));
    }
}
