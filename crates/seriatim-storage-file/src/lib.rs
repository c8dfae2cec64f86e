//! Both storage ports on local files: what `file:` means, and the default.
//!
//! ```text
//!   seriatim-data/
//!     SERIATIM     what this folder is, and its format
//!     LOCK         held by the process that uses it
//!     log/         segment files: the truth; and the bulletin
//!     store/       fjall: everything that is derived
//!     scratch/     while the doctor looks
//! ```
//!
//! [`FileStorage::open`] gives a [`Log`](seriatim_storage::Log) and a [`Store`](seriatim_storage::Store);
//! [`Storage::open`] does so for any [`StorageUrl`]. [`FileStorage::backup`] copies the log while it is in use, and
//! [`restore`] makes a new storage of such a copy. The bytes are described in `docs/storage-format.md`.
#![forbid(unsafe_code)]

mod backup;
mod bulletin;
mod directory;
pub mod disk;
mod error;
mod log;
mod scratch;
mod space;
mod storage;
mod store;
mod url;

pub use backup::{
    BackupError, BackupReport, DestinationError, RestoreError, StagedRestore, restore, stage_restore,
};
pub use error::OpenError;
pub use log::{FileLog, LogOptions};
pub use scratch::ScratchStore;
pub use space::SpaceProbe;
pub use storage::{FileOptions, FileStorage, Room};
pub use store::{SpaceCheck, StoreOptions, TreeStore};
pub use url::{ParseStorageUrlError, Storage, StorageUrl};
