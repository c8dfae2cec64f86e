//! A store that fails as it is told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Mutex as AsyncMutex;

use super::{Fault, Faults, Operation};
use crate::store::check_generation;
use crate::{Batch, ClusteringRange, Durability, Key, Pair, StoreBackend, StoreError};

/// A store around another one, with [`Faults`].
#[derive(Debug, Clone)]
pub struct FaultyStore {
    backend: Arc<dyn StoreBackend>,
    faults: Faults,
    unsynced: Arc<Unsynced>,
    /// One reopening at a time, and no write meanwhile.
    reopening: Arc<AsyncMutex<()>>,
}

/// What undoes each of the last buffered batches, oldest first. Empty unless [`Faults::lose_on_reopen`] asks for it.
#[derive(Debug, Default)]
struct Unsynced(Mutex<VecDeque<Batch>>);

impl Unsynced {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Batch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, undo: Batch, max: usize) {
        let mut undos = self.lock();
        undos.push_back(undo);
        while undos.len() > max {
            undos.pop_front();
        }
    }
}

impl FaultyStore {
    /// This backend, steered by these faults.
    #[must_use]
    pub fn new(backend: Arc<dyn StoreBackend>, faults: &Faults) -> Self {
        Self { backend, faults: faults.clone(), unsynced: Arc::default(), reopening: Arc::default() }
    }

    /// The batch that brings back what these keys have.
    async fn undo(&self, batch: &Batch) -> Result<Batch, StoreError> {
        let keys: Vec<_> = batch.iter().map(|write| write.key.as_key()).collect();
        let mut undo = Batch::new();
        for (key, value) in keys.iter().zip(self.backend.get_many(&keys).await?) {
            match value {
                Some(value) => undo.put(*key, &value),
                None => undo.remove(*key),
            }
        }
        Ok(undo)
    }

    async fn write_through(&self, mut batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let _reopening = self.reopening.lock().await;
        // The backend counts its own generations.
        check_generation(batch.take_generation(), self.generation())?;
        let max = self.faults.lost_batches();
        let undo =
            if max > 0 && durability == Durability::Buffered { Some(self.undo(&batch).await?) } else { None };
        self.backend.write(batch, durability).await?;
        match undo {
            Some(undo) => self.unsynced.push(undo, max),
            None if durability == Durability::Synced => self.unsynced.lock().clear(),
            None => {}
        }
        Ok(())
    }

    async fn open_again(&self) -> Result<u64, StoreError> {
        let _reopening = self.reopening.lock().await;
        self.backend.reopen().await?;
        if self.faults.is_poisoned() {
            // Once before and once after: what is read while batches are taken back belongs to neither generation.
            self.faults.raise_generation();
            let undos = std::mem::take(&mut *self.unsynced.lock());
            for undo in undos.into_iter().rev() {
                self.backend.write(undo, Durability::Buffered).await?;
            }
            self.faults.reopen();
        }
        Ok(self.generation())
    }
}

/// The error of something that only looked.
pub(super) fn unread(fault: Fault) -> StoreError {
    StoreError::Unavailable(fault.reason().to_owned())
}

/// The error of something that changes the store.
pub(super) fn unwritten(fault: Fault) -> StoreError {
    if fault.is_definite() { unread(fault) } else { StoreError::InDoubt(fault.reason().to_owned()) }
}

#[async_trait]
impl StoreBackend for FaultyStore {
    fn batches_are_atomic(&self) -> bool {
        self.backend.batches_are_atomic()
    }

    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.faults.around(Operation::Get, self.backend.get(key), unread).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.faults.around(Operation::GetMany, self.backend.get_many(keys), unread).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let page = self.backend.scan_page(partition, range, limit);
        self.faults.around(Operation::ScanPage, page, unread).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let write = self.write_through(batch, durability);
        self.faults.around(Operation::Write, write, unwritten).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let sync = async {
            self.backend.sync().await?;
            self.unsynced.lock().clear();
            Ok(())
        };
        self.faults.around(Operation::Sync, sync, unwritten).await
    }

    fn written(&self) -> u64 {
        self.backend.written()
    }

    fn durable(&self) -> u64 {
        self.backend.durable()
    }

    fn generation(&self) -> u64 {
        self.backend.generation() + self.faults.reopened()
    }

    async fn reopen(&self) -> Result<u64, StoreError> {
        self.faults.around(Operation::Reopen, self.open_again(), unread).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.faults.around(Operation::CloseStore, self.backend.close(), unread).await
    }
}
