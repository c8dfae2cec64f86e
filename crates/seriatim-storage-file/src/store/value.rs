//! What the engine keeps under a physical key.
//!
//! ```text
//! [ 0: u8 | value ]
//! [ 1: u8 | 8 bytes | value ]    an earlier version wrote it, with a time to live: the 8 bytes have no meaning any more
//! ```

use seriatim_storage::StoreError;

const PLAIN: u8 = 0;
const WITH_TIME: u8 = 1;

/// The stored form of a value.
pub(super) fn encode(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + value.len());
    bytes.push(PLAIN);
    bytes.extend_from_slice(value);
    bytes
}

/// The value that was stored. What no version can have written is damage.
pub(super) fn decode(bytes: &[u8]) -> Result<&[u8], StoreError> {
    let value = match bytes.split_first() {
        Some((&PLAIN, value)) => Some(value),
        Some((&WITH_TIME, rest)) => rest.split_first_chunk::<8>().map(|(_, value)| value),
        _ => None,
    };
    value.ok_or_else(|| {
        let start = bytes.get(..9).unwrap_or(bytes);
        StoreError::Corrupt(format!("a stored value begins with {start:02x?}, which is none of ours"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_a_value_stay_what_they_are() {
        assert_eq!(encode(b"tea"), b"\x00tea");
        assert_eq!(encode(b""), b"\x00");
        assert_eq!(
            decode(b"\x01\x00\x00\x00\x00\x01\x02\x03\x04tea"),
            Ok(&b"tea"[..]),
            "of an earlier version"
        );
    }

    #[test]
    fn a_damaged_value_is_refused() {
        for bytes in [&b""[..], b"\x02tea", b"\x01\x00\x00\x00\x00\x01\x02\x03"] {
            assert!(matches!(decode(bytes), Err(StoreError::Corrupt(_))), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_value_comes_back(value in vec(any::<u8>(), 0..300)) {
            let stored = encode(&value);
            prop_assert_eq!(decode(&stored), Ok(&value[..]));
        }
    }
}
