//! Settings of an engine, each with its reason.

use std::time::Duration;

use seriatim_types::TrustLevel;

/// How an engine behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Which writes look first whether something is there.
    pub trust_level: TrustLevel,
    /// Values that may wait to be handed to the store, over all partitions. Bounds memory.
    pub unflushed_max: usize,
    /// The same, in bytes.
    pub unflushed_bytes_max: usize,
    /// So many waiting values of a partition start a flush.
    pub flush_at: usize,
    /// What waits is handed to the store after so long at the latest. That does not sync the store.
    pub flush_interval: Duration,
    /// No group is opened while the logs of all partitions together are more events than this ahead of what the store has made
    /// durable; at half of it the store is synced. A partition has a share of its own. Bounds recovery after a crash.
    pub uncheckpointed_events_max: u64,
    /// The same, in bytes.
    pub uncheckpointed_bytes_max: u64,
    /// Numbers that are kept in memory, over all partitions.
    pub cache_numbers: usize,
    /// How long commands wait while a partition recovers or is backlogged, before they are refused as busy; and how long
    /// reads wait while it recovers.
    pub begin_wait: Duration,
    /// Commands that may wait in a partition.
    pub queue_max: usize,
    /// Bytes of the commands that are not answered, over all partitions. One that is alone in its partition is taken
    /// whatever its size. Bounds memory: a command may have megabytes, and thousands may wait.
    pub queue_bytes_max: usize,
    /// How long an idempotency key is remembered; `None`: as long as the log.
    pub idempotency_window: Option<Duration>,
    /// How long to wait after storage has failed, give or take a quarter.
    pub retry: Duration,
    /// How long closing waits for storage.
    pub close_patience: Duration,
    /// Descriptors of workspaces that are kept in memory.
    pub cached_workspaces: usize,
    /// Named block sequences that are kept open, each with a block in memory; the one that was used longest ago is closed
    /// and gives back what it holds.
    pub open_blocks: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trust_level: TrustLevel::VerifyAll,
            unflushed_max: 50_000,
            // The store on files gathers as much again before it writes it.
            unflushed_bytes_max: 32 << 20,
            flush_at: 10_000,
            flush_interval: Duration::from_millis(500),
            uncheckpointed_events_max: 200_000,
            uncheckpointed_bytes_max: 128 << 20,
            cache_numbers: 100_000,
            begin_wait: Duration::from_millis(200),
            queue_max: 4_096,
            // Some eight of the largest commands, or all of the usual ones.
            queue_bytes_max: 64 << 20,
            idempotency_window: None,
            retry: Duration::from_millis(500),
            close_patience: Duration::from_secs(30),
            cached_workspaces: 100_000,
            open_blocks: 1_000,
        }
    }
}
