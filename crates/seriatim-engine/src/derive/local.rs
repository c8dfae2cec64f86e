//! The local state of a partition: all its keys in one store.

use seriatim_storage::{Batch, ClusteringRange, Durability, LogIdentity, Store, StoreError, StoreKey};
use seriatim_types::Partition;

use super::checkpoint::Checkpoint;
use super::keys;

/// How much a store has of a partition.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LocalSize {
    /// Keys, the checkpoint included.
    pub keys: u64,
    /// Bytes of the clustering parts of the keys, and of the values.
    pub bytes: u64,
}

impl LocalSize {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.keys += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

/// Measures what a store has of a partition. Reads all of it, page by page. While the partition is written, the result is an
/// approximation.
///
/// # Errors
///
/// [`StoreError`].
pub async fn measure(store: &Store, partition: Partition) -> Result<LocalSize, StoreError> {
    let mut scan = store.scan(&keys::storage(partition), ClusteringRange::all());
    let mut size = LocalSize::default();
    loop {
        let page = scan.next_page().await?;
        if page.is_empty() {
            return Ok(size);
        }
        page.iter().for_each(|(key, value)| size.add(key, value));
    }
}

/// Removes everything that a store has of a partition, durably, and returns how much that was. Nothing may write to the partition
/// meanwhile: no engine has it open on this store.
///
/// The checkpoint is replaced first, durably, by one that declares the values incomplete. So a crash never leaves a checkpoint
/// without its values, nor values that would count as derived: the next recovery removes the rest.
///
/// # Errors
///
/// [`StoreError`]. What is left is incomplete: call it again, or let the next recovery of the partition remove it.
pub async fn remove(store: &Store, partition: Partition) -> Result<LocalSize, StoreError> {
    let (storage, checkpoint) = (keys::storage(partition), keys::checkpoint(partition));
    let (mut scan, mut size) = (store.scan(&storage, ClusteringRange::all()), LocalSize::default());
    loop {
        // A page has a bounded number of pairs, and so has a batch.
        let page = scan.next_page().await?;
        if page.is_empty() {
            break;
        }
        if size == LocalSize::default() {
            let mut batch = Batch::new();
            Checkpoint::put_incomplete(&mut batch, partition);
            store.write(batch, Durability::Synced).await?;
        }
        let mut batch = Batch::new();
        for (key, value) in &page {
            size.add(key, value);
            let key = StoreKey::new(&storage, key);
            if key != checkpoint {
                batch.remove(key.as_key());
            }
        }
        store.write(batch, Durability::Buffered).await?;
    }
    let mut batch = Batch::new();
    batch.remove(keys::checkpoint_of_format_1(partition).as_key());
    if size != LocalSize::default() {
        batch.remove(checkpoint.as_key());
    }
    store.write(batch, Durability::Synced).await?;
    Ok(size)
}

/// Reports that a recovery removes values that cannot be used. `of`: the other log that they were derived from.
pub(super) fn warn_useless(partition: Partition, of: Option<LogIdentity>, log: LogIdentity) {
    match of {
        Some(of) => {
            tracing::warn!(%partition, %of, %log, "the stored values were derived from another log: they are removed, and the partition is derived from its log again");
        }
        None => {
            tracing::warn!(%partition, "the stored values are incomplete, because removing or loading them was interrupted: they are removed, and the partition is derived from its log again");
        }
    }
}
