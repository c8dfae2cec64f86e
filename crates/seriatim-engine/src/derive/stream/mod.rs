//! The local state of a partition as a stream of bytes: for another server, or for a file.
//!
//! ```text
//! store ──► pages, in the order of their keys ──┐
//!                                               ├──► frames: header, pairs and changes, trailer ──► another store
//! flusher ──► what was flushed meanwhile ───────┘
//! ```
//!
//! The partition continues while it is exported. A page that was read before a flush may have older values than a page that was
//! read after it. So each flush that ends during the export is also part of the stream, after the pages that may not have it. The
//! result is the state after the last of these flushes, whose checkpoint is in the trailer. See `tap` for how the flusher reports,
//! and `export` for why that is consistent.

mod export;
mod format;
mod load;
mod tap;

pub(crate) use export::Export;
pub use export::ExportError;
pub use load::{Expected, LoadError, Loader, load};
pub(super) use tap::Tap;

#[cfg(test)]
mod tests;
