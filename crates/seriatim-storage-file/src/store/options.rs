//! Settings of the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Asked before anything is written to disk. An error, (bytes free, bytes that must stay free), refuses it.
pub type SpaceCheck = Arc<dyn Fn() -> Result<(), (u64, u64)> + Send + Sync>;

/// Settings of a [`TreeStore`](super::TreeStore). They bind whoever opens it, not the directory: another value may be
/// chosen each time.
#[derive(Clone)]
pub struct StoreOptions {
    /// How many bytes of buffered writes, keys and values, are gathered before they are written to tables. Twice as many are
    /// gathered at most, and one batch more; in memory each write takes about 100 bytes besides. Less means more compaction.
    pub gather_bytes: usize,
    /// How long a buffered write stays in memory at most.
    pub gather_time: Duration,
    /// Blocks of files kept in memory, for all reads together. What is gathered is read without it.
    pub cache_bytes: u64,
    /// Refuses to write before the disk is full. `None` lets everything through.
    pub space_check: Option<SpaceCheck>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            gather_bytes: 16 << 20,
            gather_time: Duration::from_secs(60),
            cache_bytes: 32 << 20,
            space_check: None,
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("gather_bytes", &self.gather_bytes)
            .field("gather_time", &self.gather_time)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}
