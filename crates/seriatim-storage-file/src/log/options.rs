//! Settings of the log.

/// Settings of the log on files, each with a default that suits most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// How much a segment file reserves. Opening reads one segment, so this bounds the time it takes; 64 MiB are read
    /// in well under 0.1 s. An append larger than a segment gets one of its own size. Default 64 MiB.
    pub segment_bytes: u32,
    /// How many bytes may wait for the committer before appends are refused as busy. They wait in memory and are
    /// written as one frame. Default 32 MiB.
    pub queue_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, queue_bytes: 32 << 20 }
    }
}
