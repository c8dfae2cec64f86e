//! Where blocks are stored: in memory, and on files.

use std::path::Path;
use std::sync::Arc;

use seriatim_blocks::{
    BlockAllocator, BlockKey, BlockOptions, BlockSize, BlockStore, NumberRange, StoredBlocks,
};
use seriatim_env::Env;
use seriatim_storage::Cells;
use seriatim_storage::memory::MemoryCells;
use seriatim_storage_file::FileCells;

/// Cells in memory.
pub(super) fn in_memory() -> Cells {
    Cells::new(MemoryCells::new())
}

/// Cells on files.
pub(super) fn on_files(directory: &Path) -> Cells {
    Cells::new(FileCells::new(Env::real(), directory))
}

/// The block sequence of this name.
pub(super) fn blocks(cells: &Cells, name: &str) -> StoredBlocks {
    let key = BlockKey::new(b"bench", name.as_bytes());
    StoredBlocks::new(Env::real(), cells.clone(), key, NumberRange::default())
}

/// An allocator on the block sequence of this name, with its first block reserved.
pub(super) async fn allocator(
    cells: &Cells,
    name: &str,
    size: BlockSize,
) -> anyhow::Result<Arc<BlockAllocator>> {
    open(Arc::new(blocks(cells, name)), size).await
}

/// An allocator on these blocks, with the first of them reserved.
pub(super) async fn open(
    blocks: Arc<dyn BlockStore>,
    size: BlockSize,
) -> anyhow::Result<Arc<BlockAllocator>> {
    let options = BlockOptions { size, ..BlockOptions::default() };
    let allocator = BlockAllocator::open(Env::real(), blocks, options).await?;
    allocator.allocate_one().await?;
    Ok(Arc::new(allocator))
}
