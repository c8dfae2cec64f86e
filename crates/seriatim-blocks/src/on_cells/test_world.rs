//! Cells that several writers share, each with faults of its own; and some with odd manners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::MemoryCells;
use seriatim_storage::{Cells, CellsBackend, Key, StoreError, StoreKey};
use seriatim_storage_testing::faulty::{Faults, FaultyCells};
use seriatim_types::Number;

use crate::{Block, BlockKey, Demand, NumberRange, StoredBlocks};

pub(super) const KEY: Key<'static> = Key::new(b"ids", b"orders");

pub(super) struct World {
    pub(super) env: Env,
    memory: MemoryCells,
}

impl World {
    pub(super) fn new(env: Env) -> Self {
        let memory = MemoryCells::new();
        Self { env, memory }
    }

    pub(super) fn writer(&self) -> (StoredBlocks, Faults) {
        self.writer_of(NumberRange::default())
    }

    pub(super) fn writer_of(&self, range: NumberRange) -> (StoredBlocks, Faults) {
        let faults = Faults::new(&self.env);
        let cells = Cells::new(FaultyCells::new(Arc::new(self.memory.clone()), &faults));
        (StoredBlocks::new(self.env.clone(), cells, key(), range), faults)
    }

    pub(super) fn odd_writer(&self, manner: Manner) -> (StoredBlocks, Odd) {
        let odd = Odd { memory: self.memory.clone(), manner, asked: Arc::default(), kept: Arc::default() };
        let cells = Cells::new(odd.clone());
        (StoredBlocks::new(self.env.clone(), cells, key(), NumberRange::default()), odd)
    }

    /// Makes this the value, whatever is there.
    pub(super) async fn set(&self, value: Option<&[u8]>) {
        let there = self.memory.get(KEY).await.unwrap();
        assert!(self.memory.compare_and_set(KEY, there.as_deref(), value).await.unwrap());
    }

    pub(super) fn raw(&self) -> Cells {
        Cells::new(self.memory.clone())
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

/// A key, the value that it is expected to have, and its new one.
type Kept = (StoreKey, Option<Bytes>, Option<Bytes>);

/// Cells with odd manners.
#[derive(Debug, Clone)]
pub(super) struct Odd {
    memory: MemoryCells,
    manner: Manner,
    asked: Arc<AtomicU64>,
    kept: Arc<Mutex<Option<Kept>>>,
}

impl Odd {
    /// The late write happens now, if it still can: says whether it did.
    pub(super) async fn land(&self) -> bool {
        let (key, expected, value) = self.kept.lock().unwrap().clone().unwrap();
        self.memory.compare_and_set(key.as_key(), expected.as_deref(), value.as_deref()).await.unwrap()
    }
}

#[async_trait]
impl CellsBackend for Odd {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.memory.get(key).await
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
                let [expected, value] = [expected, value].map(|value| value.map(Bytes::copy_from_slice));
                *self.kept.lock().unwrap() = Some((key.into(), expected, value));
                Err(StoreError::InDoubt("it is on its way".to_owned()))
            }
            Manner::Late(_) => self.memory.compare_and_set(key, expected, value).await,
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await
    }
}
