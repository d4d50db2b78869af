//! The wire format: tags, numbers and lengths.
//!
//! The errors are those of upstream's generated decoders (gogo/protobuf, `generated.pb.go`). Lengths are checked against
//! the bytes that exist, so a length costs no memory.

use crate::quantity::QuantityError;

/// The type of a field on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

/// The number of the next field and its type on the wire, which may be invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireTag {
    pub(super) number: u32,
    pub(super) wire: u8,
}

/// Why bytes are not a message of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// There are no bytes at all.
    #[error("empty data")]
    NoData,
    /// The bytes do not begin as every object does.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoPrefix,
    /// Nothing follows the prefix.
    #[error("empty body")]
    NoBody,
    /// The bytes end within a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length has more than 63 bits.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// An unknown field ends a group that it did not begin.
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    /// An unknown field has a type that does not exist.
    #[error("proto: illegal wireType {0}")]
    UnknownWireType(u8),
    /// A message contains the end of a group.
    #[error("proto: {0}: wiretype end group for non-group")]
    GroupEnd(&'static str),
    /// A field has the number 0, or a number beyond 31 bits.
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    IllegalTag {
        /// The name of the message.
        message: &'static str,
        number: i32,
        /// The number together with the type.
        tag: u64,
    },
    /// A field has another type than the table says.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The type that was found.
        wire: u8,
        /// The field's name in Go.
        field: String,
    },
    /// A text is no quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// JSON cannot express the value of a field.
    #[error("{field}: {why}")]
    Value {
        /// The field's name in Go.
        field: String,
        why: String,
    },
    /// Messages contain each other too often.
    #[error("proto: nested too deeply")]
    TooDeep,
    /// The object has more values than the decoder accepts.
    #[error("proto: too many values")]
    TooManyValues,
}

/// Reads a message from its beginning.
#[derive(Debug, Clone)]
pub(super) struct WireReader<'a> {
    rest: &'a [u8],
}

// === impl WireReader ===

impl<'a> WireReader<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the tag of the next field of a message; none at its end.
    pub(super) fn next_tag(
        &mut self,
        message: &'static str,
    ) -> Result<Option<WireTag>, ProtoError> {
        if self.is_empty() {
            return Ok(None);
        }
        let (tag, raw) = self.raw_tag()?;
        match (tag.wire, i32::try_from(tag.number)) {
            (4, _) => Err(ProtoError::GroupEnd(message)),
            (_, Ok(1..)) => Ok(Some(tag)),
            _ => Err(ProtoError::IllegalTag {
                message,
                number: tag.number.cast_signed(),
                tag: raw,
            }),
        }
    }

    /// Reads the tag of the next field of a map entry, in which upstream checks nothing.
    pub(super) fn entry_tag(&mut self) -> Result<Option<WireTag>, ProtoError> {
        if self.is_empty() {
            return Ok(None);
        }
        self.raw_tag().map(|(tag, _)| Some(tag))
    }

    /// Returns the tag, whose number upstream cuts to 32 bits, and the number that it was read from.
    fn raw_tag(&mut self) -> Result<(WireTag, u64), ProtoError> {
        let raw = self.varint()?;
        let tag = WireTag {
            number: (raw >> 3) as u32,
            wire: (raw & 7) as u8,
        };
        Ok((tag, raw))
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut number = 0_u64;
        for (at, shift) in (0..64).step_by(7).enumerate() {
            let byte = *self.rest.get(at).ok_or(ProtoError::Truncated)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(ProtoError::Overflow)
    }

    /// Reads a length and the bytes that follow.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], ProtoError> {
        let length = self.varint()?;
        if i64::try_from(length).is_err() {
            return Err(ProtoError::NegativeLength);
        }
        let length = usize::try_from(length).map_err(|_| ProtoError::Truncated)?;
        self.take(length)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, ProtoError> {
        let bytes = self.take(8)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], ProtoError> {
        let split = self.rest.split_at_checked(length);
        let (taken, rest) = split.ok_or(ProtoError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips the value of an unknown field, a group with everything in it included.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), ProtoError> {
        let (mut wire, mut groups) = (wire, 0_usize);
        loop {
            match wire {
                0 => self.varint().map(|_| ())?,
                1 => self.take(8).map(|_| ())?,
                2 => self.bytes().map(|_| ())?,
                3 => groups += 1,
                4 => groups = groups.checked_sub(1).ok_or(ProtoError::EndOfGroup)?,
                5 => self.take(4).map(|_| ())?,
                other => return Err(ProtoError::UnknownWireType(other)),
            }
            if groups == 0 {
                return Ok(());
            }
            wire = self.raw_tag()?.0.wire;
        }
    }
}

/// Appends a number.
pub(super) fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn push_tag(out: &mut Vec<u8>, number: u32, wire: WireType) {
    push_varint(out, u64::from(number) << 3 | wire as u64);
}

/// Appends a field of bytes: a text or a message.
pub(super) fn push_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    push_tag(out, number, WireType::Bytes);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Turns everything from `start` on into a field of bytes.
pub(super) fn enclose(out: &mut Vec<u8>, start: usize, number: u32) {
    let length = out.len() - start;
    push_tag(out, number, WireType::Bytes);
    push_varint(out, length as u64);
    out[start..].rotate_left(length);
}
