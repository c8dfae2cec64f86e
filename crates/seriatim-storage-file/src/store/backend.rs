//! The port on layers and tables.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_storage::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError};

use super::layers::{Moment, Pushed};
use super::run::Run;
use super::shared::Shared;
use super::{TreeStore, ingest, key, read};

/// Up to how many keys or pairs something stays on the caller's thread: far less than a millisecond when blocks are cached.
const INLINE_MAX: usize = 64;

/// Up to how many writes a batch is sorted on the caller's thread.
const SORT_INLINE_MAX: usize = 2_048;

#[async_trait]
impl StoreBackend for TreeStore {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        read_at(&self.shared, |moment| read::get(moment, &key::encode(key)))
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.len() <= INLINE_MAX {
            let mut physical = Vec::new();
            return read_at(&self.shared, |moment| {
                let mut get = |key: &Key<'_>| {
                    key::encode_into(*key, &mut physical);
                    read::get(moment, &physical)
                };
                keys.iter().map(&mut get).collect()
            });
        }
        let physical: Vec<_> = keys.iter().map(|key| key::encode(*key)).collect();
        let shared = self.shared.clone();
        let get_all = move || {
            read_at(&shared, |moment| physical.iter().map(|physical| read::get(moment, physical)).collect())
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
        let page = move || read_at(&shared, |moment| read::page(moment, &range, limit));
        if limit <= INLINE_MAX { page() } else { self.shared.env.blocking(page).await }
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        if durability == Durability::Synced {
            // While it is still certain that nothing was written.
            self.shared.check_space()?;
        }
        let number = if batch.is_empty() { self.written() } else { push(&self.shared, batch).await? };
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => {
                let synced = ingest::make_durable(&self.shared, number).await;
                synced.map_err(|error| match error {
                    StoreError::Closed => error,
                    _ => StoreError::InDoubt(format!("written, but not known to be durable: {error}")),
                })
            }
        }
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.shared.layers.moment()?;
        ingest::make_durable(&self.shared, self.written()).await
    }

    fn written(&self) -> u64 {
        self.shared.layers.written()
    }

    fn durable(&self) -> u64 {
        self.shared.layers.durable()
    }

    /// Ingests all that is gathered, waits for a step of compaction that is under way, and releases the directory. Once
    /// begun it continues to its end, also if the caller is gone.
    async fn close(&self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        shared.layers.close_writes();
        shared.stop.cancel();
        let closing = self.shared.env.spawn(async move {
            if shared.layers.moment().is_err() {
                return Ok(());
            }
            let ingested = ingest::make_durable(&shared, shared.layers.written()).await;
            let own = shared.clone();
            shared.env.blocking(move || own.shut()).await;
            // Of two that close at once the later one finds it closed.
            ingested.or_else(|error| if error == StoreError::Closed { Ok(()) } else { Err(error) })
        });
        closing.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }
}

/// Puts what a batch leaves on top of all else, when there is room. Returns which write it was.
async fn push(shared: &Arc<Shared>, batch: Batch) -> Result<u64, StoreError> {
    // In the order in which they came: what waits for room is not overtaken by what a later owner of the same keys writes.
    let _turn = shared.pushing.lock().await;
    let mut run = if batch.len() <= SORT_INLINE_MAX {
        Run::new(batch)
    } else {
        shared.env.blocking(move || Run::new(batch)).await
    };
    loop {
        match shared.layers.push(run, shared.env.instant())? {
            Pushed::Done { number, keeper } => {
                ingest::keep(shared, keeper);
                return Ok(number);
            }
            Pushed::Full(back) => {
                ingest::make_room(shared).await?;
                run = back;
            }
        }
    }
}

/// Reads the store as it is at one moment.
fn read_at<T>(
    shared: &Shared,
    mut read: impl FnMut(&Moment) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let moment = shared.layers.moment()?;
    let failed = match read(&moment) {
        Err(error) => error,
        done => return done,
    };
    // Opening the tree again removes tables that only former moments have. It is waited for here.
    drop(shared.tree()?);
    let later = shared.layers.moment()?;
    if later.tables.is_of_same_tree(&moment.tables) { Err(failed) } else { read(&later) }
}
