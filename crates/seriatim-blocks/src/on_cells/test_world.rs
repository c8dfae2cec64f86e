//! Cells that several writers share. Each writer has its own faults, and some have cells with special behaviour.

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

    pub(super) fn special_writer(&self, behaviour: Behaviour) -> (StoredBlocks, SpecialCells) {
        let cells_backend = SpecialCells {
            memory: self.memory.clone(),
            behaviour,
            calls: Arc::default(),
            late_write: Arc::default(),
        };
        let cells = Cells::new(cells_backend.clone());
        (StoredBlocks::new(self.env.clone(), cells, key(), NumberRange::default()), cells_backend)
    }

    /// Sets the value, whatever it was before.
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
pub(super) enum Behaviour {
    /// Another writer is always faster.
    AlwaysTaken,
    /// This conditional write, counted from 1, is not answered, and is done when [`SpecialCells::complete_late_write`] is
    /// called.
    Late(u64),
}

/// A key, its expected value, and its new value.
type LateWrite = (StoreKey, Option<Bytes>, Option<Bytes>);

/// Cells with special behaviour.
#[derive(Debug, Clone)]
pub(super) struct SpecialCells {
    memory: MemoryCells,
    behaviour: Behaviour,
    calls: Arc<AtomicU64>,
    late_write: Arc<Mutex<Option<LateWrite>>>,
}

impl SpecialCells {
    /// Does the late write, if its condition still holds. Returns whether it did.
    pub(super) async fn complete_late_write(&self) -> bool {
        let (key, expected, value) = self.late_write.lock().unwrap().clone().unwrap();
        self.memory.compare_and_set(key.as_key(), expected.as_deref(), value.as_deref()).await.unwrap()
    }
}

#[async_trait]
impl CellsBackend for SpecialCells {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.memory.get(key).await
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match self.behaviour {
            Behaviour::AlwaysTaken => Ok(false),
            Behaviour::Late(nth) if nth == calls => {
                let [expected, value] = [expected, value].map(|value| value.map(Bytes::copy_from_slice));
                *self.late_write.lock().unwrap() = Some((key.into(), expected, value));
                Err(StoreError::InDoubt("the write is delayed".to_owned()))
            }
            Behaviour::Late(_) => self.memory.compare_and_set(key, expected, value).await,
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.memory.close().await
    }
}
