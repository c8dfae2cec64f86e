//! The contestants: allocators of numbers.

use std::future::Future;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use common::storage::config::{LocalObjectStoreConfig, SlateDbStorageConfig};
use common::{ObjectStoreConfig, Record, SequenceAllocator, Storage, StorageBuilder, StorageConfig};
use seriatim_blocks::BlockAllocator;
use seriatim_types::sync::{Mutex, MutexGuard};

const KEY: &[u8] = &[0x01, 0x02];

/// Repeats the code four times. In a loop, the state that is kept across awaits would cost as much as an addition.
macro_rules! four_times {
    ($body:expr) => {
        $body;
        $body;
        $body;
        $body;
    };
}

/// Something that threads share and take numbers from, one by one.
pub(super) trait Numbers: Send + Sync + 'static {
    /// Takes 4 × `count` numbers, one by one.
    fn take_fours(&self, count: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Something whose calls are timed one by one.
pub(super) trait TakeOne: Send + Sync + 'static {
    /// Takes one number.
    fn take_one(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The lower bound: one atomic addition.
#[derive(Debug, Default)]
pub(super) struct FetchAdd(AtomicU64);

impl Numbers for FetchAdd {
    async fn take_fours(&self, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            four_times!(black_box(self.0.fetch_add(1, Ordering::Relaxed)));
        }
        Ok(())
    }
}

impl TakeOne for FetchAdd {
    async fn take_one(&self) -> anyhow::Result<()> {
        black_box(self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

/// The allocator of Seriatim.
pub(super) struct Ours(pub(super) Arc<BlockAllocator>);

impl Numbers for Ours {
    async fn take_fours(&self, count: u64) -> anyhow::Result<()> {
        let allocator: &BlockAllocator = &self.0;
        for _ in 0..count {
            four_times!(black_box(allocator.allocate_one().await?));
        }
        Ok(())
    }
}

impl TakeOne for Ours {
    async fn take_one(&self) -> anyhow::Result<()> {
        black_box(self.0.allocate_one().await?);
        Ok(())
    }
}

/// The peer's storage. On files it is SlateDB on a local object store, which does not sync files.
pub(super) async fn storage(directory: Option<&Path>) -> anyhow::Result<Arc<dyn Storage>> {
    let config = match directory {
        None => StorageConfig::InMemory,
        Some(directory) => StorageConfig::SlateDb(SlateDbStorageConfig {
            path: "blocks".to_owned(),
            object_store: ObjectStoreConfig::Local(LocalObjectStoreConfig {
                path: directory.to_string_lossy().into_owned(),
            }),
            settings_path: None,
            block_cache: None,
            meta_cache: None,
        }),
    };
    Ok(StorageBuilder::new(&config).await?.build().await?)
}

async fn load(storage: &Arc<dyn Storage>) -> anyhow::Result<SequenceAllocator> {
    Ok(SequenceAllocator::load(storage.as_ref(), Bytes::from_static(KEY)).await?)
}

/// The peer in a tokio mutex that is held until the block is written: the safe way.
pub(super) struct TokioMutex {
    allocator: tokio::sync::Mutex<SequenceAllocator>,
    storage: Arc<dyn Storage>,
    /// Whether to wait until a block is durable.
    durable: bool,
}

impl TokioMutex {
    pub(super) async fn new(storage: &Arc<dyn Storage>, durable: bool) -> anyhow::Result<Self> {
        let allocator = tokio::sync::Mutex::new(load(storage).await?);
        Ok(Self { allocator, storage: storage.clone(), durable })
    }
}

impl Numbers for TokioMutex {
    async fn take_fours(&self, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            four_times!({
                let mut allocator = self.allocator.lock().await;
                let (number, record) = allocator.allocate_one();
                if let Some(record) = record {
                    write(&self.storage, record, self.durable).await?;
                }
                black_box(number)
            });
        }
        Ok(())
    }
}

/// The peer in a std mutex. It cannot be held while the block is written, so numbers are given out before their block is
/// stored: the fast and unsafe way.
pub(super) struct StdMutex {
    allocator: Mutex<SequenceAllocator>,
    storage: Arc<dyn Storage>,
}

impl StdMutex {
    pub(super) async fn new(storage: &Arc<dyn Storage>) -> anyhow::Result<Self> {
        let allocator = Mutex::new(load(storage).await?);
        Ok(Self { allocator, storage: storage.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, SequenceAllocator> {
        self.allocator.lock()
    }
}

impl Numbers for StdMutex {
    async fn take_fours(&self, count: u64) -> anyhow::Result<()> {
        for _ in 0..count {
            four_times!({
                let (number, record) = self.lock().allocate_one();
                if let Some(record) = record {
                    write(&self.storage, record, false).await?;
                }
                black_box(number)
            });
        }
        Ok(())
    }
}

async fn write(storage: &Arc<dyn Storage>, record: Record, durable: bool) -> anyhow::Result<()> {
    storage.put(vec![record.into()]).await?;
    if durable {
        // Faster than waiting for the timer of the storage.
        storage.flush().await?;
    }
    Ok(())
}
