//! The storage ports on local files: the storage of `file:` URLs, and the default.
//!
//! ```text
//!   seriatim-data/
//!     SERIATIM     marks the folder as a storage; its format
//!     LOCK         locked by the process that uses the folder
//!     log/         segment files, the source of truth; and the bulletin
//!     store/       sorted tables: everything that is derived
//!     cells/       a fjall database for cells, if a program that embeds the storage uses them
//!     scratch/     while the doctor runs
//! ```
//!
//! [`FileStorage::open`] gives a [`Log`](seriatim_storage::Log), a [`Store`](seriatim_storage::Store) and
//! [`Cells`](seriatim_storage::Cells). [`Storage::new`](seriatim_storage::Storage::new) makes it a storage of any kind.
//! [`FileStorage::backup`] copies the log while it is in use, and [`restore`] makes a new storage from such a copy. The
//! bytes are described in `docs/storage-format.md`.
#![forbid(unsafe_code)]

mod backup;
mod bulletin;
mod cells;
mod directory;
pub mod disk;
mod error;
mod identity;
mod local;
mod log;
mod scratch;
mod space;
mod storage;
mod store;

pub use backup::{RestoreError, RestoredLog, StagedRestore, backup_log, restore, restore_log, stage_restore};
pub use cells::FileCells;
pub use error::OpenError;
pub use local::{LocalOptions, SharedStorage};
pub use log::{FileLog, LogOptions};
pub use space::SpaceProbe;
pub use storage::{FileOptions, FileStorage};
pub use store::{SpaceCheck, StoreOptions, TreeStore};
