//! Settings of the store.

use std::fmt;
use std::sync::Arc;

/// Asked before each write. An error, (bytes free, bytes that must stay free), refuses it.
pub type SpaceCheck = Arc<dyn Fn() -> Result<(), (u64, u64)> + Send + Sync>;

/// Settings of a [`FjallStore`](super::FjallStore). They bind whoever opens it, not the directory: another value may be
/// chosen each time.
#[derive(Clone)]
pub struct StoreOptions {
    /// From how many bytes of sealed journals on memtables are flushed for no other reason than to be rid of them.
    /// The engine reads its journal when it opens, so this bounds how long opening takes after a crash. 64 MiB is the
    /// least the engine knows, and less is taken for that.
    pub journal_bytes: u64,
    /// When a memtable is written out. Up to three are in memory; what they hold is inserted again when opening after a
    /// crash, which costs most of that time. Smaller ones mean more compaction.
    pub memtable_bytes: u64,
    /// Blocks of files kept in memory, for all reads together. Recent writes are read from memtables without it.
    pub cache_bytes: u64,
    /// Refuses writes before the disk is full. `None` lets every write through.
    pub space_check: Option<SpaceCheck>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { journal_bytes: 64 << 20, memtable_bytes: 8 << 20, cache_bytes: 32 << 20, space_check: None }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("journal_bytes", &self.journal_bytes)
            .field("memtable_bytes", &self.memtable_bytes)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}
