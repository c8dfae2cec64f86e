//! Cells with faults, in memory or on files, and allocators on them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use seriatim_blocks::{
    Block, BlockAllocator, BlockKey, BlockOptions, BlockSize, NumberRange, OpenError, StoredBlocks,
};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::MemoryCells;
use seriatim_storage::{Cells, CellsBackend, Key};
use seriatim_storage_file::FileCells;
use seriatim_storage_testing::faulty::{Faults, FaultyCells, Operation};
use seriatim_types::Number;

pub const KEY: Key<'static> = Key::new(b"ids", b"orders");

/// Cells with controlled faults. Clones are the same cells.
#[derive(Clone)]
pub struct TestCells {
    pub env: Env,
    pub faults: Faults,
    backend: Arc<dyn CellsBackend>,
}

impl TestCells {
    pub fn new(env: Env, backend: Arc<dyn CellsBackend>) -> Self {
        let faults = Faults::new(&env);
        Self { env, faults, backend }
    }

    pub fn memory(env: Env) -> Self {
        let backend = Arc::new(MemoryCells::new());
        Self::new(env, backend)
    }

    /// The same cells with separate faults, as another process has them.
    pub fn elsewhere(&self) -> Self {
        Self::new(self.env.clone(), self.backend.clone())
    }

    pub fn cells(&self) -> Cells {
        Cells::new(FaultyCells::new(self.backend.clone(), &self.faults))
    }

    /// The cells without faults and counts.
    pub fn raw(&self) -> Cells {
        Cells::from_arc(self.backend.clone())
    }

    /// Sets the value of the key, whatever it was before.
    pub async fn set(&self, value: &[u8]) {
        let there = self.raw().get(KEY).await.unwrap();
        assert!(self.backend.compare_and_set(KEY, there.as_deref(), Some(value)).await.unwrap());
    }

    pub fn blocks(&self, range: NumberRange) -> StoredBlocks {
        let key = BlockKey::new(KEY.partition, KEY.clustering);
        StoredBlocks::new(self.env.clone(), self.cells(), key, range)
    }

    pub async fn open(&self) -> BlockAllocator {
        self.open_sized(BlockSize::default()).await
    }

    pub async fn open_fixed(&self, size: u64) -> BlockAllocator {
        self.open_sized(BlockSize::Fixed(size)).await
    }

    pub async fn open_sized(&self, size: BlockSize) -> BlockAllocator {
        self.open_blocks(self.blocks(NumberRange::default()), size).await.unwrap()
    }

    pub async fn open_range(&self, first: u64, last: u64, size: u64) -> BlockAllocator {
        let range = NumberRange::new(Number::new(first), Number::new(last)).unwrap();
        self.open_blocks(self.blocks(range), BlockSize::Fixed(size)).await.unwrap()
    }

    pub async fn open_blocks(
        &self,
        blocks: StoredBlocks,
        size: BlockSize,
    ) -> Result<BlockAllocator, OpenError> {
        let options = BlockOptions { size, ..BlockOptions::default() };
        BlockAllocator::open(self.env.clone(), Arc::new(blocks), options).await
    }

    /// How many durable writes were requested.
    pub fn writes(&self) -> u64 {
        self.faults.count(Operation::CompareAndSet)
    }

    /// The block that is stored: the first sixteen bytes of the value.
    pub async fn stored(&self) -> Option<Block> {
        let value = self.raw().get(KEY).await.unwrap();
        value.map(|value| Block::decode(&value[..16]).unwrap())
    }
}

pub fn block(base: u64, size: u64) -> Block {
    Block::new(Number::new(base), size).unwrap()
}

pub async fn one(allocator: &BlockAllocator) -> u64 {
    allocator.allocate_one().await.unwrap().get()
}

/// Polls once. Returns whether the future has to wait.
pub async fn has_to_wait<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// Runs a scenario in memory, in a simulation.
pub fn in_memory<F: Future<Output = ()>>(scenario: impl FnOnce(TestCells) -> F) {
    simulate(1, |env| scenario(TestCells::memory(env)));
}

/// Runs a scenario on real files.
pub fn on_files<F: Future<Output = ()>>(scenario: impl FnOnce(TestCells) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let env = Env::real();
        let cells = FileCells::new(env.clone(), directory.path());
        let cells = TestCells::new(env, Arc::new(cells));
        let raw = cells.raw();
        scenario(cells).await;
        raw.close().await.unwrap();
    });
}

/// Runs scenarios on all kinds of cells. A new backend is added here.
#[macro_export]
macro_rules! on_every_store {
    ($($scenario:ident)*) => {
        mod in_memory {
            $(#[test] fn $scenario() { $crate::support::in_memory(super::$scenario); })*
        }
        mod on_files {
            $(#[test] fn $scenario() { $crate::support::on_files(super::$scenario); })*
        }
    };
}
