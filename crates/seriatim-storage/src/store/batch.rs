//! Several writes that are done together.

use bytes::Bytes;
use seriatim_types::limits;

use super::{Key, StoreError, StoreKey, check_size};

/// One write of a batch. The store shares key and value by reference count instead of copying them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: StoreKey,
    /// The new value, or `None` to remove the key.
    pub value: Option<Bytes>,
}

/// Writes to any number of partitions. Of several writes to one key, the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    writes: Vec<Write>,
    /// The length of a partition key that is too long to be stored in a [`StoreKey`]. A batch with such a key is refused.
    too_long: Option<usize>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, copying it.
    pub fn put(&mut self, key: Key<'_>, value: &[u8]) {
        self.set(key, Some(Bytes::copy_from_slice(value)));
    }

    /// Removes a key. A key that does not exist is allowed.
    pub fn remove(&mut self, key: Key<'_>) {
        self.set(key, None);
    }

    fn set(&mut self, key: Key<'_>, value: Option<Bytes>) {
        if key.partition.len() > usize::from(u16::MAX) {
            self.too_long = Some(key.partition.len());
        } else {
            self.push(Write { key: key.into(), value });
        }
    }

    /// Adds a write without copying its key and value.
    pub fn push(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// How many writes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// The writes, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Write> {
        self.writes.iter()
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        if let Some(found) = self.too_long {
            check_size("partition key", limits::PARTITION_KEY_BYTES_MAX, found)?;
        }
        self.writes.iter().try_for_each(|write| {
            write.key.as_key().check()?;
            check_size("value", limits::VALUE_BYTES_MAX, write.value.as_ref().map_or(0, Bytes::len))
        })
    }
}

impl IntoIterator for Batch {
    type Item = Write;
    type IntoIter = std::vec::IntoIter<Write>;

    fn into_iter(self) -> Self::IntoIter {
        self.writes.into_iter()
    }
}
