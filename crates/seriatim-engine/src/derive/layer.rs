//! What follows from one stretch of the log.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use seriatim_sequencer::{Numbers, WorkspaceMap};
use seriatim_storage::ClusteringRange;
use seriatim_types::WorkspaceId;

use super::budget::Size;
use super::keys::StoreKey;

/// Values of one stretch of the log: for each key the last one.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) values: BTreeMap<StoreKey, Bytes>,
    pub(crate) numbers: WorkspaceMap<Numbers>,
    /// Approximate bytes of keys and values.
    bytes: usize,
}

/// Approximate bytes of the numbers of a workspace.
const NUMBERS_BYTES: usize = 200;

impl Layer {
    pub(crate) fn put(&mut self, key: StoreKey, value: Bytes) {
        let (key_bytes, value_bytes) = (key.size(), value.len());
        match self.values.insert(key, value) {
            None => self.bytes += key_bytes + value_bytes,
            Some(old) => self.bytes = self.bytes + value_bytes - old.len(),
        }
    }

    pub(crate) fn put_numbers(&mut self, workspace: WorkspaceId, numbers: &Numbers) {
        match self.numbers.get_mut(&workspace) {
            Some(present) => present.clone_from(numbers),
            None => {
                self.numbers.insert(workspace, numbers.clone());
                self.bytes += NUMBERS_BYTES;
            }
        }
    }

    /// Adds the values of an older layer that this one does not have.
    pub(crate) fn put_older(&mut self, older: &Self) {
        for (key, value) in &older.values {
            if !self.values.contains_key(key) {
                self.put(key.clone(), value.clone());
            }
        }
        for (workspace, numbers) in &older.numbers {
            if !self.numbers.contains_key(workspace) {
                self.put_numbers(*workspace, numbers);
            }
        }
    }

    pub(crate) fn size(&self) -> Size {
        Size { keys: self.values.len() + self.numbers.len(), bytes: self.bytes }
    }

    /// Adds its first values of a range to `into`, at most `limit`.
    pub(crate) fn snapshot(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
        into: &mut BTreeMap<Bytes, Bytes>,
    ) {
        let start = StoreKey::new(partition, &range.start);
        if range.is_empty() {
            return;
        }
        for (key, value) in self.values.range((Bound::Included(start), Bound::Unbounded)).take(limit) {
            if key.partition() != partition || !range.contains(key.clustering()) {
                break;
            }
            into.insert(Bytes::copy_from_slice(key.clustering()), value.clone());
        }
    }
}
