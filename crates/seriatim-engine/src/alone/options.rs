//! Settings, each with its reason.

use std::time::Duration;

/// How a sequencer that is used alone behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// No group is opened while more workspaces than this are unflushed. Bounds memory and one write.
    pub unflushed_max: usize,
    /// A flush starts when this many workspaces are unflushed.
    pub flush_at: usize,
    /// A flush starts after this interval at the latest.
    pub flush_interval: Duration,
    /// No group is opened while the log is more events than this ahead of the checkpoint. Bounds the next recovery.
    pub uncheckpointed_events_max: u64,
    /// The same, in bytes.
    pub uncheckpointed_bytes_max: u64,
    /// How many numbers the cache keeps. [`Factory`](super::Factory) divides it among its partitions.
    pub cache_numbers: usize,
    /// How long to wait after storage has failed, plus or minus a quarter.
    pub retry: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            unflushed_max: 500,
            flush_at: 100,
            flush_interval: Duration::from_millis(500),
            uncheckpointed_events_max: 200_000,
            uncheckpointed_bytes_max: 128 << 20,
            cache_numbers: 100_000,
            retry: Duration::from_millis(500),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_designs() {
        let options = Options::default();
        assert_eq!(options.unflushed_max, 500);
        assert_eq!(options.flush_at, 100);
        assert_eq!(options.flush_interval, Duration::from_millis(500));
        assert_eq!(options.cache_numbers, 100_000);
        assert_eq!(options.retry, Duration::from_millis(500));
    }
}
