//! An owned key.

use std::fmt;
use std::sync::Arc;

use seriatim_types::Partition;

use super::Key;

/// A key of the store, with both parts in one piece of memory. A clone shares the memory.
///
/// ```text
/// [ length of the partition key: u16 | partition key | clustering key ]
/// ```
///
/// The length makes ("ab", "c") and ("a", "bc") different keys. In the order of these bytes, the keys of one partition are
/// together, in the order of their clustering keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(Arc<[u8]>);

/// Keys up to this size are made without a second allocation.
const SHORT_BYTES: usize = 64;

impl StoreKey {
    /// The key with these parts.
    ///
    /// # Panics
    ///
    /// If the partition key has more than 65,535 bytes, which no store accepts.
    #[must_use]
    pub fn new(partition: &[u8], clustering: &[u8]) -> Self {
        let length = u16::try_from(partition.len())
            .expect("a store accepts partition keys of 4,096 bytes")
            .to_be_bytes();
        let (start, size) = (2 + partition.len(), 2 + partition.len() + clustering.len());
        // Nearly all keys are short. They are joined on the stack, so that one allocation is enough.
        let (mut short, mut long) = ([0; SHORT_BYTES], Vec::new());
        let bytes = if size <= SHORT_BYTES {
            &mut short[..size]
        } else {
            long.resize(size, 0);
            &mut long[..]
        };
        bytes[..2].copy_from_slice(&length);
        bytes[2..start].copy_from_slice(partition);
        bytes[start..].copy_from_slice(clustering);
        Self(Arc::from(&*bytes))
    }

    /// The key with these bytes; `None` if they are not a key.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::parts(bytes).map(|_| Self(bytes.into()))
    }

    /// The parts of a key with these bytes; `None` if they are not a key.
    #[must_use]
    pub fn parts(bytes: &[u8]) -> Option<Key<'_>> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (partition, clustering) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        Some(Key::new(partition, clustering))
    }

    /// The whole key: the length and both parts.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn split(&self) -> usize {
        2 + usize::from(u16::from_be_bytes([self.0[0], self.0[1]]))
    }

    /// The partition key.
    #[must_use]
    pub fn partition(&self) -> &[u8] {
        &self.0[2..self.split()]
    }

    /// The clustering key.
    #[must_use]
    pub fn clustering(&self) -> &[u8] {
        &self.0[self.split()..]
    }

    /// Both parts as a [`Key`].
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        let (partition, clustering) = self.0.split_at(self.split());
        Key::new(&partition[2..], clustering)
    }

    /// How many bytes the key has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

impl From<Key<'_>> for StoreKey {
    fn from(key: Key<'_>) -> Self {
        Self::new(key.partition, key.clustering)
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The partition key (as application and partition, if it has that form), then the first letter of the clustering key, which
/// says what kind of value it is, then the rest in hexadecimal.
impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match <[u8; 6]>::try_from(self.partition()) {
            Ok([a, b, c, d, e, g]) => {
                let (application, partition) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, g]));
                write!(f, "{}/", Partition::new(application, partition))?;
            }
            Err(_) => write!(f, "{}/", self.partition().escape_ascii())?,
        }
        let Some((family, rest)) = self.clustering().split_first() else { return Ok(()) };
        write!(f, "{}:", family.escape_ascii())?;
        rest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_a_key_do_not_change() {
        assert_eq!(StoreKey::new(b"ab", b"c").as_bytes(), b"\x00\x02abc");
        assert_eq!(StoreKey::new(b"a", b"bc").as_bytes(), b"\x00\x01abc");
        assert_eq!(StoreKey::new(b"", b"").as_bytes(), b"\x00\x00");
        assert_eq!(StoreKey::new(&[7; 258], b"").as_bytes()[..3], [1, 2, 7]);
    }

    #[test]
    fn bytes_that_are_not_a_key_are_refused() {
        for bytes in [&b""[..], b"\x00", b"\x00\x01", b"\x00\x03ab"] {
            assert_eq!(StoreKey::from_bytes(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn keys_of_one_partition_are_together() {
        let (a, b) = (StoreKey::new(b"ab", b"c"), StoreKey::new(b"a", b"bc"));
        assert_ne!(a, b);
        let mut keys = [StoreKey::new(b"b", b"1"), StoreKey::new(b"aa", b"2"), StoreKey::new(b"b", b"0")];
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["b/0:", "b/1:", "aa/2:"]);
    }

    proptest! {
        #[test]
        fn a_key_decodes_to_its_parts(partition in vec(any::<u8>(), 0..300), clustering in vec(any::<u8>(), 0..300)) {
            let key = StoreKey::new(&partition, &clustering);
            prop_assert_eq!((key.partition(), key.clustering()), (&partition[..], &clustering[..]));
            prop_assert_eq!(key.as_key(), Key::new(&partition, &clustering));
            prop_assert_eq!(StoreKey::from_bytes(key.as_bytes()), Some(key));
        }
    }
}
