//! Settings of the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Called before anything is written to disk. An error, (bytes free, bytes that must stay free), refuses the write.
pub type SpaceCheck = Arc<dyn Fn() -> Result<(), (u64, u64)> + Send + Sync>;

/// Settings of a [`TreeStore`](super::TreeStore). They are not stored in the directory: each opening may use other values.
#[derive(Clone)]
pub struct StoreOptions {
    /// How many bytes of buffered writes, keys and values, are gathered before they are written to tables. At most twice as
    /// many are in memory, plus one batch. Each write takes about 100 more bytes in memory. A smaller value means more
    /// compaction.
    pub gather_bytes: usize,
    /// The longest time that a buffered write stays only in memory.
    pub gather_time: Duration,
    /// The size of the cache for blocks of files, for all reads together. Gathered writes are read without it.
    pub cache_bytes: u64,
    /// Refuses to write before the disk is full. `None`: no check.
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
