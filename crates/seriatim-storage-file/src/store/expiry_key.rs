//! Which value expires when: a key of the expiry index. Its value is empty.
//!
//! ```text
//! [ expires, ms since 1970: u64 | physical key ]
//! ```
//!
//! Ordered by time, so that what is due comes first.

use std::ops::RangeTo;

use seriatim_types::Timestamp;

/// The bytes of an index key.
pub(super) fn encode(expires: Timestamp, physical: &[u8]) -> Vec<u8> {
    [&expires.as_millis().to_be_bytes(), physical].concat()
}

/// When what expires; `None` if the bytes are no index key.
pub(super) fn decode(bytes: &[u8]) -> Option<(Timestamp, &[u8])> {
    let (millis, physical) = bytes.split_first_chunk()?;
    Some((Timestamp::from_millis(u64::from_be_bytes(*millis)), physical))
}

/// The index keys of everything that has expired by `now`.
pub(super) fn due(now: Timestamp) -> RangeTo<Vec<u8>> {
    ..now.as_millis().saturating_add(1).to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_an_index_key_stay_what_they_are() {
        let key = encode(Timestamp::from_millis(0x0102), b"\x00\x01ab");
        assert_eq!(key, b"\x00\x00\x00\x00\x00\x00\x01\x02\x00\x01ab");
        assert_eq!(decode(b"\x00\x00\x00"), None);
    }

    proptest! {
        #[test]
        fn an_index_key_comes_back(millis in any::<u64>(), physical in vec(any::<u8>(), 0..50)) {
            let expires = Timestamp::from_millis(millis);
            let bytes = encode(expires, &physical);
            prop_assert_eq!(decode(&bytes), Some((expires, &physical[..])));
        }

        #[test]
        fn due_is_what_has_expired(millis in 0..6_u64, now in 0..6_u64, physical in vec(any::<u8>(), 0..4)) {
            let key = encode(Timestamp::from_millis(millis), &physical);
            prop_assert_eq!(due(Timestamp::from_millis(now)).contains(&key), millis <= now);
        }
    }
}
