//! The bytes of events and records: integers of variable length, and texts with their length before them.

use bytes::{Buf, BufMut};

/// Bytes that cannot be read, with the name of the part that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has no valid {0}")]
pub struct BadBytes(pub(crate) &'static str);

/// Writes to the end of a buffer.
pub(crate) trait Write: BufMut {
    /// Seven bits to a byte, low ones first; the high bit says that more follow.
    #[inline]
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.put_u8(value.to_le_bytes()[0]);
    }

    /// Numbers near zero need few bytes, positive or negative.
    #[inline]
    fn put_signed(&mut self, value: i64) {
        self.put_varint((value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
    }

    #[inline]
    fn put_text(&mut self, text: &str) {
        self.put_varint(text.len() as u64);
        self.put_slice(text.as_bytes());
    }
}

impl Write for Vec<u8> {}

/// Reads bytes from the start. Each step names what it reads, for the error message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, BadBytes> {
        self.0.try_get_u8().map_err(|_| BadBytes(what))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, BadBytes> {
        self.0.try_get_u64().map_err(|_| BadBytes(what))
    }

    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, BadBytes> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(BadBytes(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // One form for each value: no padding with empty bytes.
                return if byte == 0 && shift > 0 { Err(BadBytes(what)) } else { Ok(value) };
            }
        }
        Err(BadBytes(what))
    }

    pub(crate) fn small(&mut self, what: &'static str) -> Result<u16, BadBytes> {
        u16::try_from(self.varint(what)?).map_err(|_| BadBytes(what))
    }

    pub(crate) fn signed(&mut self, what: &'static str) -> Result<i64, BadBytes> {
        let value = self.varint(what)?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A count of items of at least one byte each. It is never larger than the bytes that remain, so damaged bytes cannot
    /// cause a large allocation.
    pub(crate) fn count(&mut self, what: &'static str) -> Result<usize, BadBytes> {
        let count = usize::try_from(self.varint(what)?).map_err(|_| BadBytes(what))?;
        if count > self.0.len() { Err(BadBytes(what)) } else { Ok(count) }
    }

    pub(crate) fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], BadBytes> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(BadBytes(what))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self, what: &'static str) -> Result<&'a str, BadBytes> {
        let count = self.count(what)?;
        std::str::from_utf8(self.bytes(count, what)?).map_err(|_| BadBytes(what))
    }

    pub(crate) fn end(self) -> Result<(), BadBytes> {
        if self.0.is_empty() { Ok(()) } else { Err(BadBytes("end")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_and_text_round_trip(value: u64, signed: i64, text: String) {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            bytes.put_signed(signed);
            bytes.put_text(&text);
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.varint("value"), Ok(value));
            prop_assert_eq!(reader.signed("signed"), Ok(signed));
            prop_assert_eq!(reader.text("text"), Ok(text.as_str()));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            let _ = reader.varint("value");
            let _ = reader.text("text");
        }
    }

    #[test]
    fn a_value_has_one_form() {
        for (bytes, value) in
            [(&[0u8][..], Ok(0)), (&[0x80, 0], Err(BadBytes("n"))), (&[0xff; 10], Err(BadBytes("n")))]
        {
            assert_eq!(Reader(bytes).varint("n"), value);
        }
    }
}
