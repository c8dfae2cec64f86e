//! What the engine keeps under a physical key: the value, and when it expires.
//!
//! ```text
//! [ 0: u8 | value ]                               for ever
//! [ 1: u8 | expires, ms since 1970: u64 | value ] until then
//! ```

use seriatim_storage::StoreError;
use seriatim_types::Timestamp;

const FOR_EVER: u8 = 0;
const EXPIRES: u8 = 1;

/// A value as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub(super) value: &'a [u8],
    /// From this moment on it counts as absent.
    pub(super) expires: Option<Timestamp>,
}

impl<'a> Stored<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + self.value.len());
        match self.expires {
            None => bytes.push(FOR_EVER),
            Some(expires) => {
                bytes.push(EXPIRES);
                bytes.extend_from_slice(&expires.as_millis().to_be_bytes());
            }
        }
        bytes.extend_from_slice(self.value);
        bytes
    }

    /// Refuses, as damaged, what [`encode`](Self::encode) cannot have made.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, StoreError> {
        let stored = match bytes.split_first() {
            Some((&FOR_EVER, value)) => Some(Self { value, expires: None }),
            Some((&EXPIRES, rest)) => rest.split_first_chunk().map(|(millis, value)| {
                let expires = Some(Timestamp::from_millis(u64::from_be_bytes(*millis)));
                Self { value, expires }
            }),
            _ => None,
        };
        stored.ok_or_else(|| {
            let start = bytes.get(..9).unwrap_or(bytes);
            StoreError::Corrupt(format!("a stored value begins with {start:02x?}, which is none of ours"))
        })
    }

    /// The value, if it has not expired by `now`, which is asked for only if it matters.
    pub(super) fn live(&self, now: impl FnOnce() -> Timestamp) -> Option<&'a [u8]> {
        let expired = self.expires.is_some_and(|expires| now() >= expires);
        (!expired).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(0x0102_0304);

    #[test]
    fn the_bytes_of_a_value_stay_what_they_are() {
        let stored = Stored { value: b"tea", expires: None };
        assert_eq!(stored.encode(), b"\x00tea");
        let stored = Stored { value: b"tea", expires: Some(AT) };
        assert_eq!(stored.encode(), b"\x01\x00\x00\x00\x00\x01\x02\x03\x04tea");
        assert_eq!(Stored { value: b"", expires: None }.encode(), b"\x00");
    }

    #[test]
    fn a_damaged_value_is_refused() {
        for bytes in [&b""[..], b"\x02tea", b"\x01\x00\x00\x00\x00\x01\x02\x03"] {
            assert!(matches!(Stored::decode(bytes), Err(StoreError::Corrupt(_))), "{bytes:?}");
        }
    }

    #[test]
    fn a_value_is_gone_from_the_moment_it_expires() {
        let stored = Stored { value: b"tea", expires: Some(AT) };
        assert_eq!(stored.live(|| Timestamp::from_millis(AT.as_millis() - 1)), Some(&b"tea"[..]));
        assert_eq!(stored.live(|| AT), None);
        let stored = Stored { value: b"tea", expires: None };
        assert_eq!(stored.live(|| unreachable!("the clock is not asked")), Some(&b"tea"[..]));
    }

    proptest! {
        #[test]
        fn a_value_comes_back(value in vec(any::<u8>(), 0..300), expires in any::<Option<u64>>()) {
            let stored = Stored { value: &value, expires: expires.map(Timestamp::from_millis) };
            let bytes = stored.encode();
            prop_assert_eq!(Stored::decode(&bytes), Ok(stored));
        }
    }
}
