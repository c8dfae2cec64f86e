//! The storage ports on local files: what `file:` means, and the default.
//!
//! ```text
//!   seriatim-data/
//!     SERIATIM     what this folder is, and its format
//!     LOCK         held by the process that uses it
//!     log/         segment files: the truth; and the bulletin
//!     store/       sorted tables: everything that is derived
//!     cells/       fjall: what is written on condition, if a program that embeds it does so
//!     scratch/     while the doctor looks
//! ```
//!
//! [`FileStorage::open`] gives a [`Log`](seriatim_storage::Log), a [`Store`](seriatim_storage::Store) and
//! [`Cells`](seriatim_storage::Cells);
//! [`Storage::new`](seriatim_storage::Storage::new) makes it a storage of any kind. [`FileStorage::backup`] copies the log while it is in use, and
//! [`restore`] makes a new storage of such a copy. The bytes are described in `docs/storage-format.md`.
#![forbid(unsafe_code)]

mod backup;
mod bulletin;
mod cells;
mod directory;
pub mod disk;
mod error;
mod log;
mod scratch;
mod space;
mod storage;
mod store;

pub use backup::{RestoreError, StagedRestore, restore, stage_restore};
pub use cells::FileCells;
pub use error::OpenError;
pub use log::{FileLog, LogOptions};
pub use space::SpaceProbe;
pub use storage::{FileOptions, FileStorage};
pub use store::{SpaceCheck, StoreOptions, TreeStore};
