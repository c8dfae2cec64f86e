//! Unique rising numbers, leased in blocks: for ids that may have gaps and have to be very cheap.
//!
//! An allocator reserves a block of numbers with one durable write and gives them out from memory. After a crash the next
//! block starts after the last reserved one, so no number is given out twice; unused numbers are gaps. Any number of
//! threads share one allocator, and any number of processes share one key.
//!
//! ```
//! use std::sync::Arc;
//! use seriatim_blocks::{BlockAllocator, BlockKey, BlockOptions, NumberRange, StoredBlocks};
//! use seriatim_storage::{Cells, memory::MemoryCells};
//!
//! # seriatim_env::simulate(1, |env| async move {
//! let cells = Cells::new(MemoryCells::new());
//! let blocks = StoredBlocks::new(env.clone(), cells, BlockKey::new(b"ids", b"orders"), NumberRange::default());
//! let allocator = BlockAllocator::open(env, Arc::new(blocks), BlockOptions::default()).await?;
//!
//! assert_eq!(allocator.allocate_one().await?.get(), 0);
//! assert_eq!(allocator.allocate(100).await?.to_string(), "[1, 101)");
//! assert_eq!(allocator.peek_next().get(), 101);
//! let counts = allocator.close().await?;
//! assert_eq!((counts.allocated(), counts.given_back), (101, 4_096 - 101));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The parts:
//!
//! - [`BlockStore`] reserves blocks durably; [`StoredBlocks`] does so in one of the [`Cells`] of a storage.
//! - [`BlockAllocator`] reserves blocks in advance and gives out their numbers.
//! - [`BatchedBlocks`] is for callers that write the block in their own batch.
//!
//! The cargo feature `storage`, on by default, adds [`StoredBlocks`] and [`BatchedBlocks`] with their keys and ranges.
//! Without it this crate does not depend on the storage ports: a client that leases blocks from a server needs none.
//!
//! `docs/blocks.md` says when to use blocks, when a sequence and when a UUID, what is guaranteed and what is not.
//!
//! [`Cells`]: seriatim_storage::Cells
#![forbid(unsafe_code)]

mod allocator;
#[cfg(feature = "storage")]
mod batched;
mod block;
mod counts;
mod error;
mod fast_path;
#[cfg(feature = "storage")]
mod key;
mod metrics;
#[cfg(feature = "storage")]
mod on_cells;
mod options;
#[cfg(feature = "storage")]
mod range;
mod refill_policy;
mod store;
#[cfg(feature = "storage")]
mod stored_block;
mod stretch;
mod supply;
#[cfg(test)]
mod supply_tests;
mod sync;

pub use allocator::BlockAllocator;
#[cfg(feature = "storage")]
pub use batched::{BatchedBlocks, Claim};
pub use block::{BadBlock, Block};
pub use counts::Counts;
pub use error::{AllocateError, BlockOptionsError, BlockStoreError, OpenError};
#[cfg(feature = "storage")]
pub use key::BlockKey;
#[cfg(feature = "storage")]
pub use on_cells::StoredBlocks;
pub use options::{ALLOCATE_MAX, BlockOptions, BlockSize, DEFAULT_BLOCK_SIZE};
#[cfg(feature = "storage")]
pub use range::NumberRange;
pub use store::{BlockStore, Demand, LastBlock};
