//! Settings of the log.

/// Settings of the log on files, each with a default for most uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// How much space a segment file reserves. Opening reads one segment, so this bounds its duration: 64 MiB are read in
    /// well under 0.1 s. An append larger than a segment gets a segment of its own size. Default 64 MiB.
    pub segment_bytes: u32,
    /// How many bytes may wait in memory for the committer, which writes them as one frame. Appends beyond that are refused
    /// with `QueueFull`. Default 32 MiB.
    pub queue_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, queue_bytes: 32 << 20 }
    }
}
