//! Keys, and ranges of keys.

use bytes::Bytes;
use seriatim_types::limits;

use super::{StoreError, check_size};

/// A key: its partition, and its place in the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a> {
    /// Values with the same partition key are stored together.
    pub partition: &'a [u8],
    /// Orders the values of a partition, by bytes.
    pub clustering: &'a [u8],
}

impl<'a> Key<'a> {
    /// The key with these parts.
    #[must_use]
    pub const fn new(partition: &'a [u8], clustering: &'a [u8]) -> Self {
        Self { partition, clustering }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        check_size("partition key", limits::PARTITION_KEY_BYTES_MAX, self.partition.len())?;
        check_size("clustering key", limits::CLUSTERING_KEY_BYTES_MAX, self.clustering.len())
    }
}

/// Clustering keys from `start`, inclusive, to `finish`, exclusive. By default the whole partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusteringRange {
    /// The first key of the range; empty means the first key of the partition.
    pub start: Bytes,
    /// The first key after the range; `None` means no end.
    pub finish: Option<Bytes>,
}

impl ClusteringRange {
    /// Every key.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// From `start`, inclusive, to `finish`, exclusive. If `finish` is not greater than `start`, the range is empty.
    #[must_use]
    pub fn new(start: &[u8], finish: &[u8]) -> Self {
        Self { start: Bytes::copy_from_slice(start), finish: Some(Bytes::copy_from_slice(finish)) }
    }

    /// From `start`, inclusive, to the end.
    #[must_use]
    pub fn from(start: &[u8]) -> Self {
        Self { start: Bytes::copy_from_slice(start), finish: None }
    }

    /// From the beginning to `finish`, exclusive.
    #[must_use]
    pub fn until(finish: &[u8]) -> Self {
        Self::new(&[], finish)
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        // The smallest key after all that begin with the prefix: raise the last byte that is not 0xff. All 0xff: no finish.
        let finish = prefix.iter().rposition(|&byte| byte != u8::MAX).map(|last| {
            let mut finish = prefix[..=last].to_vec();
            finish[last] += 1;
            Bytes::from(finish)
        });
        Self { start: Bytes::copy_from_slice(prefix), finish }
    }

    /// Whether no key can be in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finish.as_ref().is_some_and(|finish| *finish <= self.start)
    }

    /// Whether a clustering key is in the range.
    #[must_use]
    pub fn contains(&self, clustering: &[u8]) -> bool {
        clustering >= &self.start[..] && self.finish.as_ref().is_none_or(|finish| clustering < &finish[..])
    }

    /// A bound may be one byte longer than a key, because that is the smallest bound after the longest key.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let longest = self.start.len().max(self.finish.as_ref().map_or(0, Bytes::len));
        check_size("bound of a scan", limits::CLUSTERING_KEY_BYTES_MAX + 1, longest)
    }

    /// The part of the range after `clustering`.
    #[must_use]
    pub(super) fn after(&self, clustering: &[u8]) -> Self {
        // The smallest key after another one is that key with a zero byte added.
        let start = [clustering, &[0]].concat();
        Self { start: start.into(), finish: self.finish.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_exactly_what_begins_with_it() {
        let range = ClusteringRange::prefix(b"ab");
        for (key, inside) in [(&b"aa\xff"[..], false), (b"ab", true), (b"ab\xff\xff", true), (b"ac", false)] {
            assert_eq!(range.contains(key), inside, "{key:?}");
        }
        let range = ClusteringRange::prefix(b"a\xff");
        assert!(range.contains(b"a\xff\xff") && !range.contains(b"b"));
        assert_eq!(ClusteringRange::prefix(b"\xff\xff").finish, None);
        assert_eq!(ClusteringRange::prefix(b""), ClusteringRange::all());
    }

    #[test]
    fn a_range_whose_finish_is_not_after_its_start_is_empty() {
        assert!(ClusteringRange::new(b"b", b"a").is_empty());
        assert!(ClusteringRange::new(b"a", b"a").is_empty());
        assert!(ClusteringRange::until(b"").is_empty());
        assert!(!ClusteringRange::new(b"a", b"a\0").is_empty());
        assert!(!ClusteringRange::all().is_empty());
    }
}
