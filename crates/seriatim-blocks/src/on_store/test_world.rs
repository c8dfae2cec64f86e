//! A store that several writers share, each with faults of its own; and one with odd manners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_env::{Env, simulate};
use seriatim_storage::faulty::{Faults, FaultyStore};
use seriatim_storage::memory::MemoryStore;
use seriatim_storage::{
    Batch, ClusteringRange, Durability, Key, Pair, Store, StoreBackend, StoreError, Write,
};
use seriatim_types::Number;

use crate::{Block, BlockKey, Demand, NumberRange, StoredBlocks};

pub(super) const KEY: Key<'static> = Key::new(b"ids", b"orders");

pub(super) struct World {
    pub(super) env: Env,
    memory: MemoryStore,
}

impl World {
    pub(super) fn new(env: Env) -> Self {
        let memory = MemoryStore::new();
        Self { env, memory }
    }

    pub(super) fn writer(&self) -> (StoredBlocks, Faults) {
        self.writer_of(NumberRange::default())
    }

    pub(super) fn writer_of(&self, range: NumberRange) -> (StoredBlocks, Faults) {
        let faults = Faults::new(&self.env);
        let store = Store::new(FaultyStore::new(Arc::new(self.memory.clone()), &faults));
        (StoredBlocks::new(self.env.clone(), store, key(), range), faults)
    }

    pub(super) fn odd_writer(&self, manner: Manner) -> (StoredBlocks, Odd) {
        let odd = Odd { memory: self.memory.clone(), manner, asked: Arc::default(), kept: Arc::default() };
        let store = Store::new(odd.clone());
        (StoredBlocks::new(self.env.clone(), store, key(), NumberRange::default()), odd)
    }

    pub(super) fn raw(&self) -> Store {
        Store::new(self.memory.clone())
    }
}

fn key() -> BlockKey {
    BlockKey::new(KEY.partition, KEY.clustering)
}

pub(super) fn of(size: u64) -> Demand {
    Demand { min: size, want: size, unused: 0 }
}

pub(super) fn block(base: u64, size: u64) -> Block {
    Block::new(Number::new(base), size).unwrap()
}

pub(super) fn world<F: Future<Output = ()>>(scenario: impl FnOnce(World) -> F) {
    simulate(1, |env| scenario(World::new(env)));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Somebody else is always faster.
    AlwaysTaken,
    /// This conditional write, counted from 1, gets no answer, and happens when [`Odd::land`] says so.
    Late(u64),
}

/// A write, and the value that it expects.
type Kept = (Option<Bytes>, Write);

/// A store with odd manners.
#[derive(Debug, Clone)]
pub(super) struct Odd {
    memory: MemoryStore,
    manner: Manner,
    asked: Arc<AtomicU64>,
    kept: Arc<Mutex<Option<Kept>>>,
}

impl Odd {
    /// The late write happens now, if it still can: says whether it did.
    pub(super) async fn land(&self) -> bool {
        let (expected, write) = self.kept.lock().unwrap().clone().unwrap();
        let value = write.value.as_deref();
        self.memory.compare_and_set(write.key.as_key(), expected.as_deref(), value).await.unwrap()
    }
}

#[async_trait]
impl StoreBackend for Odd {
    fn batches_are_atomic(&self) -> bool {
        true
    }

    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.memory.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.memory.get_many(keys).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.memory.scan_page(partition, range, limit).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.memory.write(batch, durability).await
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        match self.manner {
            Manner::AlwaysTaken => Ok(false),
            Manner::Late(nth) if nth == asked => {
                let write = Write { key: key.into(), value: value.map(Bytes::copy_from_slice) };
                *self.kept.lock().unwrap() = Some((expected.map(Bytes::copy_from_slice), write));
                Err(StoreError::InDoubt("it is on its way".to_owned()))
            }
            Manner::Late(_) => self.memory.compare_and_set(key, expected, value).await,
        }
    }

    async fn sync(&self) -> Result<(), StoreError> {
        self.memory.sync().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await
    }
}
