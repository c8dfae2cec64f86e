//! Where blocks are kept: in memory, and on files.

use std::path::Path;
use std::sync::Arc;

use seriatim_blocks::{
    BlockAllocator, BlockKey, BlockOptions, BlockSize, BlockStore, NumberRange, StoredBlocks,
};
use seriatim_env::Env;
use seriatim_storage::Store;
use seriatim_storage::memory::MemoryStore;
use seriatim_storage_file::{StoreOptions, TreeStore};

/// A store in memory.
pub(super) fn in_memory() -> Store {
    Store::new(MemoryStore::new())
}

/// A store on files. Must be called inside a runtime.
pub(super) fn on_files(directory: &Path) -> anyhow::Result<Store> {
    Ok(Store::new(TreeStore::open(Env::real(), directory, StoreOptions::default())?))
}

/// The block sequence of this name.
pub(super) fn blocks(store: &Store, name: &str) -> StoredBlocks {
    let key = BlockKey::new(b"bench", name.as_bytes());
    StoredBlocks::new(Env::real(), store.clone(), key, NumberRange::default())
}

/// An allocator on the block sequence of this name, its first block reserved.
pub(super) async fn allocator(
    store: &Store,
    name: &str,
    size: BlockSize,
) -> anyhow::Result<Arc<BlockAllocator>> {
    open(Arc::new(blocks(store, name)), size).await
}

/// An allocator on these blocks, the first of them reserved.
pub(super) async fn open(
    blocks: Arc<dyn BlockStore>,
    size: BlockSize,
) -> anyhow::Result<Arc<BlockAllocator>> {
    let options = BlockOptions { size, ..BlockOptions::default() };
    let allocator = BlockAllocator::open(Env::real(), blocks, options).await?;
    allocator.allocate_one().await?;
    Ok(Arc::new(allocator))
}
