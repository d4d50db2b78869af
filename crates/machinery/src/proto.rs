//! A reader for protocol buffers: a message is a sequence of numbered fields, each a number or bytes.
//!
//! The callers know the meaning of the fields. Nothing here recurses, so the depth and size of a message do not matter; a
//! truncated or malformed message is an error. [`envelope`] reads the wrapper that Kubernetes puts around an object.

/// The prefix of every Kubernetes object in protobuf encoding.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Iterates over the fields of one message in wire order.
#[derive(Debug, Clone)]
pub struct ProtoFields<'a> {
    rest: &'a [u8],
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

/// Reads an envelope: the message in it, and the kind that it names.
///
/// # Errors
/// If the bytes do not start with [`MAGIC`] or are truncated.
pub fn envelope(bytes: &[u8]) -> Result<(&[u8], &str), MalformedProto> {
    let unknown = bytes.strip_prefix(MAGIC).ok_or(MalformedProto)?;
    let (mut kind, mut raw) = ("", &[][..]);
    for field in ProtoFields::of(unknown) {
        match field? {
            (1, ProtoValue::Bytes(typed)) => kind = ProtoFields::of(typed).text(2)?,
            (2, ProtoValue::Bytes(message)) => raw = message,
            _ => {}
        }
    }
    Ok((raw, kind))
}

// === impl ProtoFields ===

impl<'a> ProtoFields<'a> {
    /// Starts at the first field of `message`.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
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

    fn read(&mut self) -> Result<(u32, ProtoValue<'a>), MalformedProto> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| MalformedProto)?;
        let value = match tag & 7 {
            0 => ProtoValue::Number(self.varint()?),
            1 => self.take(8).map(|_| ProtoValue::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| MalformedProto)?;
                ProtoValue::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| ProtoValue::Fixed)?,
            // Groups, which are deprecated and unused, and undefined wire types.
            _ => return Err(MalformedProto),
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MalformedProto> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MalformedProto)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, MalformedProto> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else {
                return Err(MalformedProto);
            };
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(MalformedProto)
    }
}

impl<'a> Iterator for ProtoFields<'a> {
    type Item = Result<(u32, ProtoValue<'a>), MalformedProto>;

    /// Ends after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
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
    fn reads_envelopes() {
        let bytes = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x03abc\x1a\0\x22\0";
        assert_eq!(envelope(bytes), Ok((&b"abc"[..], "Status")));
        for bytes in [&b"k8s"[..], b"{}", b"", b"k8s\0\x12\x05abc"] {
            assert_eq!(envelope(bytes), Err(MalformedProto), "{bytes:?}");
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
