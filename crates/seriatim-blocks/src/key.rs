//! The key of a block sequence.

use std::fmt;

use bytes::Bytes;
use seriatim_storage::{Key, Write};

/// The key under which blocks are stored. Each key is a separate block sequence.
///
/// ```
/// use seriatim_blocks::BlockKey;
///
/// let key = BlockKey::new(b"ids", b"orders");
/// assert_eq!(key.to_string(), "ids/orders");
/// assert_eq!(BlockKey::new(b"\x01\x02", b"").to_string(), r"\x01\x02/");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlockKey {
    pub(crate) partition: Bytes,
    pub(crate) clustering: Bytes,
}

impl BlockKey {
    /// The key with these parts.
    #[must_use]
    pub fn new(partition: &[u8], clustering: &[u8]) -> Self {
        Self { partition: Bytes::copy_from_slice(partition), clustering: Bytes::copy_from_slice(clustering) }
    }

    pub(crate) fn as_key(&self) -> Key<'_> {
        Key::new(&self.partition, &self.clustering)
    }

    pub(crate) fn removal(&self) -> Write {
        Write { key: self.as_key().into(), value: None }
    }
}

impl fmt::Display for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.partition.escape_ascii(), self.clustering.escape_ascii())
    }
}
