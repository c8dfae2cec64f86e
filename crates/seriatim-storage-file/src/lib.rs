//! Both storage ports on local files: what `file:` means, and the default.
//!
//! ```text
//!   seriatim-data/
//!     SERIATIM     what this folder is, and its format
//!     LOCK         held by the process that uses it
//!     log/         segment files: the truth
//!     store/       fjall: everything that is derived
//! ```
//!
//! [`FileStorage::open`] gives a [`Log`](seriatim_storage::Log) and a [`Store`](seriatim_storage::Store). The bytes are
//! described in `docs/storage-format.md`.
#![forbid(unsafe_code)]

mod directory;
pub mod disk;
mod error;
mod log;
mod space;
mod storage;
mod store;

pub use error::OpenError;
pub use log::{FileLog, LogOptions};
pub use space::SpaceProbe;
pub use storage::{FileOptions, FileStorage};
pub use store::{FjallStore, SpaceCheck, StoreOptions};
