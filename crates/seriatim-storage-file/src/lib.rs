//! Both storage ports on local files.
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
