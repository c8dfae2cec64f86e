//! The store port on runs in memory and tables on disk.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError};

use super::layers::{PushOutcome, Snapshot};
use super::run::Run;
use super::state::StoreState;
use super::{TreeStore, ingest, key, read};

/// Up to how many keys or pairs a read runs on the caller's thread. It takes far less than a millisecond if blocks are
/// cached.
const INLINE_MAX: usize = 64;

/// Up to how many writes a batch is sorted on the caller's thread.
const SORT_INLINE_MAX: usize = 2_048;

#[async_trait]
impl StoreBackend for TreeStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        read_at(&self.shared, |snapshot| read::get(snapshot, &key::encode(key)))
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.len() <= INLINE_MAX {
            let mut physical = Vec::new();
            return read_at(&self.shared, |snapshot| {
                let mut get = |key: &Key<'_>| {
                    key::encode_into(*key, &mut physical);
                    read::get(snapshot, &physical)
                };
                keys.iter().map(&mut get).collect()
            });
        }
        let physical: Vec<_> = keys.iter().map(|key| key::encode(*key)).collect();
        let shared = self.shared.clone();
        let get_all = move || {
            read_at(&shared, |snapshot| {
                physical.iter().map(|physical| read::get(snapshot, physical)).collect()
            })
        };
        self.shared.env.blocking(get_all).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let range: Range<Vec<u8>> = key::range(partition, range);
        let shared = self.shared.clone();
        let page = move || read_at(&shared, |snapshot| read::page(snapshot, &range, limit));
        if limit <= INLINE_MAX { page() } else { self.shared.env.blocking(page).await }
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        if durability == Durability::Synced {
            // Checked while it is certain that nothing was written.
            self.shared.check_space()?;
        }
        let number = if batch.is_empty() { self.written() } else { push(&self.shared, batch).await? };
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => {
                let synced = ingest::make_durable(&self.shared, number).await;
                synced.map_err(|error| match error {
                    StoreError::Closed => error,
                    _ => {
                        StoreError::InDoubt(format!("the batch was written, but may not be durable: {error}"))
                    }
                })
            }
        }
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.shared.layers.snapshot()?;
        ingest::make_durable(&self.shared, self.written()).await
    }

    fn written(&self) -> u64 {
        self.shared.layers.written()
    }

    fn durable(&self) -> u64 {
        self.shared.layers.durable()
    }

    /// Ingests everything that is gathered, waits for a step of compaction in progress, and releases the directory. A close
    /// that has begun is completed also if its future is dropped.
    async fn close(&self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        shared.layers.close_writes();
        shared.stop.cancel();
        let closing = self.shared.env.spawn(async move {
            if shared.layers.snapshot().is_err() {
                return Ok(());
            }
            let ingested = ingest::make_durable(&shared, shared.layers.written()).await;
            let own = shared.clone();
            shared.env.blocking(move || own.close_now()).await;
            // If two callers close at the same time, the later one finds the store closed.
            ingested.or_else(|error| if error == StoreError::Closed { Ok(()) } else { Err(error) })
        });
        closing.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }
}

/// Puts a batch, as a run, on top of all others, when there is room. Returns the number of this write.
async fn push(shared: &Arc<StoreState>, batch: Batch) -> Result<u64, StoreError> {
    // In the order of the calls: a write that waits for room is not overtaken by a later write to the same keys.
    let _turn = shared.pushing.lock().await;
    let mut run = if batch.len() <= SORT_INLINE_MAX {
        Run::new(batch)
    } else {
        shared.env.blocking(move || Run::new(batch)).await
    };
    loop {
        match shared.layers.push(run, shared.env.instant())? {
            PushOutcome::Done { number, need } => {
                ingest::serve_task(shared, need);
                return Ok(number);
            }
            PushOutcome::Full(back) => {
                ingest::make_room(shared).await?;
                run = back;
            }
        }
    }
}

/// Reads one state of the store.
fn read_at<T>(
    shared: &StoreState,
    mut read: impl FnMut(&Snapshot) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let snapshot = shared.layers.snapshot()?;
    let failed = match read(&snapshot) {
        Err(error) => error,
        done => return done,
    };
    // Opening the tree again removes tables that only earlier snapshots have. Wait here until that is done.
    drop(shared.tree()?);
    let later = shared.layers.snapshot()?;
    if later.tables.is_of_same_tree(&snapshot.tables) { Err(failed) } else { read(&later) }
}
