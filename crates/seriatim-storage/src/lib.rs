//! The storage ports of Seriatim.
//!
//! - [`Log`]: the source of truth. Durable, append-only, one owner per partition.
//! - [`Store`]: ordered key-value pairs for everything that is derived from the log.
//! - [`Cells`]: values that several writers change, each write under a condition.
//! - [`Bulletin`]: small durable values next to the log, neither in it nor derived from it.
//!
//! [`Storage`] is an open storage of any kind: a log, a store, and parts that only some kinds have.
//!
//! Backends implement [`LogBackend`], [`StoreBackend`] and [`CellsBackend`]; [`memory`] has one of each. The
//! conformance suites of `seriatim-storage-testing` check whether a backend does what the ports promise.
//!
//! ```
//! use seriatim_storage::{Digest, Entries, Header, Log, ReadLimit, memory::MemoryLog};
//! use seriatim_types::{Partition, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};
//!
//! # seriatim_env::simulate(1, |_| async {
//! let log = Log::new(MemoryLog::new());
//! let owner = log.take(Partition::new(1, 0)).await?;
//!
//! let mut entries = Entries::new(owner.next_append_id());
//! let header = Header {
//!     workspace: WorkspaceId::FIRST,
//!     kind: WorkspaceKind::new(1),
//!     workspace_offset: WorkspaceOffset::FIRST,
//!     time: Timestamp::from_millis(0),
//!     body_digest: Digest::of(b"tea"),
//!     draws: &[],
//!     raises: &[],
//! };
//! entries.push(&header, Digest::ZERO, b"tea").unwrap();
//!
//! let receipt = log.append(&owner, owner.tail(), &entries).await.unwrap();
//! assert_eq!(receipt.first().get(), 1);
//!
//! let read = log.read(owner.partition(), receipt.first(), ReadLimit::default()).await?;
//! let (offset, entry) = read.iter().next().unwrap();
//! assert_eq!((offset.get(), entry.body()), (1, &b"tea"[..]));
//! # Ok::<(), seriatim_storage::LogError>(())
//! # }).unwrap();
//! ```
#![forbid(unsafe_code)]

mod bulletin;
mod cells;
mod digest;
mod entries;
mod entry;
mod log;
pub mod memory;
mod storage;
mod store;

pub use bulletin::{
    BULLETIN_KEY_BYTES_MAX, BULLETIN_VALUE_BYTES_MAX, Bulletin, BulletinBackend, BulletinError,
};
pub use cells::{Cells, CellsBackend};
pub use digest::{Digest, ParseDigestError};
pub use entries::{Entries, ReadEntries};
pub use entry::{BadEntry, Draw, ENTRY_VERSION, Entry, EntryMark, EntryTooLarge, Header, Raise, chain_head};
pub use log::{
    Append, AppendError, AppendFuture, Follower, HOLDER_BYTES_MAX, Held, Holder, Log, LogBackend, LogError,
    LogId, LogIdentity, Owner, ReadLimit, Receipt, Take, TakeOver, TakeOverError, TakenPartition,
};
pub use storage::{
    Backup, BackupError, BackupReport, CloseError, DestinationError, DiskSpace, ScratchStore, Storage,
    StorageBackend,
};
pub use store::{
    Batch, ClusteringRange, Durability, Key, Pair, Scan, Store, StoreBackend, StoreError, StoreKey, Write,
};
