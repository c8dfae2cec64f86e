//! Every limit of the storage ports, each with its reason. A limit that users can set is a setting, and its default
//! stands with the component that has it.

/// One entry, header and body. A bigger event belongs into several, or into a blob that an event points to; 8 MiB keeps
/// a frame well inside a segment and a row well inside what remote stores take.
pub const ENTRY_BYTES_MAX: usize = 8 << 20;

/// All entries of one append. Bounds a frame, and with it the memory of the committer and of a reader.
pub const APPEND_BYTES_MAX: usize = 16 << 20;

/// Entries of one append. Fits a remote batch after one split, and bounds what one answer settles.
pub const APPEND_ENTRIES_MAX: usize = 65_536;

/// Draws in one entry's header: (sequence, first, count) runs. 100 changes with a few drawn fields each, and room.
pub const DRAWS_MAX: usize = 4_096;

/// Raises in one entry's header.
pub const RAISES_MAX: usize = 4_096;

/// What one read of the log returns at most, in bytes, unless a single entry is larger. Bounds a reader's memory.
pub const READ_BYTES_MAX: usize = 4 << 20;

/// The partition part of a store key. Real ones are under 40 bytes; the bound lets a length fit two bytes.
pub const PARTITION_KEY_BYTES_MAX: usize = 4_096;

/// The clustering part of a store key. Embedded engines take keys of 64 KiB together with ours.
pub const CLUSTERING_KEY_BYTES_MAX: usize = 32_768;

/// One stored value.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// What one page of a scan holds at most, in pairs, whatever the caller asked for. Bounds a reader's memory.
pub const SCAN_PAGE_PAIRS_MAX: usize = 1_024;

/// What one page of a scan holds at most, in bytes, unless a single pair is larger.
pub const SCAN_PAGE_BYTES_MAX: usize = 4 << 20;
