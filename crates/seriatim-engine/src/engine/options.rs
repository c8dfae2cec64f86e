//! Settings of an engine, each with its reason.

use std::time::Duration;

use seriatim_types::TrustLevel;

/// Settings of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Which writes are conditional: they check first that nothing is stored at their place.
    pub trust_level: TrustLevel,
    /// Values of all partitions that may be unflushed. Bounds memory.
    pub unflushed_max: usize,
    /// The same, in bytes.
    pub unflushed_bytes_max: usize,
    /// The number of unflushed values of a partition that starts a flush.
    pub flush_at: usize,
    /// The longest time until a value is flushed. A flush does not sync the store.
    pub flush_interval: Duration,
    /// The number of events, over all partitions, that the log may have and the store has not made durable. At half of it
    /// the store is synced; at all of it no group is opened. A partition has a share of its own. Bounds recovery after a
    /// crash.
    pub uncheckpointed_events_max: u64,
    /// The same, in bytes.
    pub uncheckpointed_bytes_max: u64,
    /// Numbers that are kept in memory, over all partitions.
    pub cache_numbers: usize,
    /// How long commands wait while a partition recovers or is backlogged; then they are refused as busy. Reads wait as
    /// long while it recovers.
    pub begin_wait: Duration,
    /// Commands that may wait in a partition.
    pub queue_max: usize,
    /// Bytes of the commands that are not answered, over all partitions. A command that is alone in its partition is
    /// accepted at any size. Bounds memory: a command may have megabytes, and thousands may wait.
    pub queue_bytes_max: usize,
    /// How long an idempotency key is remembered. `None`: permanently.
    pub idempotency_window: Option<Duration>,
    /// How long to wait before storage is tried again after a failure; varied at random by up to a quarter.
    pub retry: Duration,
    /// How long each step of closing waits for storage.
    pub close_timeout: Duration,
    /// Workspaces whose kind is kept in memory.
    pub cached_workspaces: usize,
    /// Named block sequences that are kept open, each with a block in memory. If there are more, the least recently used one
    /// is closed and gives back its unused numbers.
    pub open_blocks: usize,
    /// The number of partitions of the built-in applications `series` and `workflows` when a storage is created: 1 to
    /// [`BUILT_IN_PARTITIONS_MAX`](crate::limits::BUILT_IN_PARTITIONS_MAX). An existing storage keeps its number.
    pub built_in_partitions: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trust_level: TrustLevel::VerifyAll,
            unflushed_max: 50_000,
            // The file store gathers the same amount again before it writes.
            unflushed_bytes_max: 32 << 20,
            flush_at: 10_000,
            flush_interval: Duration::from_millis(500),
            uncheckpointed_events_max: 200_000,
            uncheckpointed_bytes_max: 128 << 20,
            cache_numbers: 100_000,
            begin_wait: Duration::from_millis(200),
            queue_max: 4_096,
            // About eight commands of the largest size, or a full queue of the usual size.
            queue_bytes_max: 64 << 20,
            idempotency_window: None,
            retry: Duration::from_millis(500),
            close_timeout: Duration::from_secs(30),
            cached_workspaces: 100_000,
            open_blocks: 1_000,
            built_in_partitions: 8,
        }
    }
}
