//! Protocol buffers, as far as reading needs them: a message is a run of numbered fields, each a number or bytes.
//!
//! What a field means stands where it is read. Nothing here recurses, so neither depth nor size of a message matters;
//! what is cut off or contradicts itself is an error. [`envelope`] is what Kubernetes puts around an object.

use std::fmt;

/// What every object begins with that a server writes in this form.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// The fields of one message, in the order they were written.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number or a truth value.
    Number(u64),
    /// A text, or a message.
    Bytes(&'a [u8]),
    /// Eight or four bytes in one piece, which Kubernetes uses for nothing that is read here.
    Fixed,
}

/// Not a message, or not the one that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// The message that an envelope holds, and the kind that it says it is.
///
/// # Errors
/// It does not begin as an envelope does, or is cut off.
pub fn envelope(bytes: &[u8]) -> Result<(&[u8], &str), Malformed> {
    let unknown = bytes.strip_prefix(MAGIC).ok_or(Malformed)?;
    let (mut kind, mut raw) = ("", &[][..]);
    for field in Fields::of(unknown) {
        match field? {
            (1, Value::Bytes(typed)) => kind = Fields::of(typed).text(2)?,
            (2, Value::Bytes(message)) => raw = message,
            _ => {}
        }
    }
    Ok((raw, kind))
}

// === impl Fields ===

impl<'a> Fields<'a> {
    /// Of this message.
    #[must_use]
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The text of a field; empty if there is none. The last one counts.
    ///
    /// # Errors
    /// The message is malformed, or the field holds something else.
    pub fn text(self, number: u32) -> Result<&'a str, Malformed> {
        let mut text = "";
        for field in self {
            match field? {
                (found, value) if found == number => text = value.text()?,
                _ => {}
            }
        }
        Ok(text)
    }

    fn read(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            // Groups, which nobody writes any more, and what does not exist.
            _ => return Err(Malformed),
        };
        Ok((number, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else {
                return Err(Malformed);
            };
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    /// After an error there is nothing more.
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

// === impl Value ===

impl<'a> Value<'a> {
    /// As a text.
    ///
    /// # Errors
    /// It is a number, or no UTF-8.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// As bytes.
    ///
    /// # Errors
    /// It is a number.
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(Malformed),
        }
    }

    /// As a number.
    ///
    /// # Errors
    /// It is none.
    pub fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Malformed),
        }
    }
}

// === impl Malformed ===

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed protobuf")
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, Malformed> {
        Fields::of(bytes).collect()
    }

    #[test]
    fn fields_are_read_in_order_and_unknown_ones_are_no_trouble() {
        let bytes = [
            0x0a, 2, b'a', b'b', 0x10, 0x96, 0x01, 0x0a, 0, 0x3d, 1, 2, 3, 4, 0x41, 1, 2, 3, 4, 5,
            6, 7, 8,
        ];
        let expected = [
            (1, Value::Bytes(b"ab")),
            (2, Value::Number(150)),
            (1, Value::Bytes(b"")),
            (7, Value::Fixed),
            (8, Value::Fixed),
        ];
        assert_eq!(read(&bytes), Ok(expected.to_vec()));
        assert_eq!(read(&[]), Ok(Vec::new()));
        let most = [&[0x08][..], &[0xff; 9], &[1]].concat();
        assert_eq!(read(&most), Ok(vec![(1, Value::Number(u64::MAX))]));
    }

    #[test]
    fn what_is_cut_off_or_nonsense_is_an_error() {
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
            assert_eq!(read(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn an_envelope_says_what_it_holds() {
        let bytes = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x03abc\x1a\0\x22\0";
        assert_eq!(envelope(bytes), Ok((&b"abc"[..], "Status")));
        for bytes in [&b"k8s"[..], b"{}", b"", b"k8s\0\x12\x05abc"] {
            assert_eq!(envelope(bytes), Err(Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn values_are_what_they_are() {
        assert_eq!(Value::Bytes(b"\xff").text(), Err(Malformed));
        assert_eq!(Value::Number(1).text(), Err(Malformed));
        assert_eq!(Value::Bytes(b"").number(), Err(Malformed));
        assert_eq!(Fields::of(b"\x0a\x01a\x0a\x01b").text(1), Ok("b"));
        assert_eq!(Fields::of(b"\x08\x01").text(1), Err(Malformed));
    }
}
