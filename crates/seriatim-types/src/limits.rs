//! Every limit of the storage ports, each with its reason. A limit that users can set is a setting; its default is in the
//! component that reads it.

/// One entry, header and body. Split a larger event into several, or store its data elsewhere and refer to it. 8 MiB is far
/// less than a segment, and fits into a row of a remote store.
pub const ENTRY_BYTES_MAX: usize = 8 << 20;

/// All entries of one append. Bounds a frame, and with it the memory of the committer and of a reader.
pub const APPEND_BYTES_MAX: usize = 16 << 20;

/// Entries of one append. They fit into a remote batch after one split; and one answer decides about no more than these.
pub const APPEND_ENTRIES_MAX: usize = 65_536;

/// Draws in one entry's header: runs of (sequence, first, count). Enough for 100 changes with several drawn fields each.
pub const DRAWS_MAX: usize = 4_096;

/// Raises in one entry's header.
pub const RAISES_MAX: usize = 4_096;

/// What one read of the log returns at most, in bytes, unless a single entry is larger. Bounds a reader's memory.
pub const READ_BYTES_MAX: usize = 4 << 20;

/// The partition part of a store key. Seriatim's own are under 40 bytes; with this bound a length fits into two bytes.
pub const PARTITION_KEY_BYTES_MAX: usize = 4_096;

/// The clustering part of a store key. Embedded databases accept keys of 64 KiB, which must hold both parts.
pub const CLUSTERING_KEY_BYTES_MAX: usize = 32_768;

/// One stored value.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// What one page of a scan holds at most, in pairs, whatever limit the caller gives. Bounds a reader's memory.
pub const SCAN_PAGE_PAIRS_MAX: usize = 1_024;

/// What one page of a scan holds at most, in bytes, unless a single pair is larger.
pub const SCAN_PAGE_BYTES_MAX: usize = 4 << 20;
