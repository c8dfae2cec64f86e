//! An event as the caller gives it: encoded and hashed.

use seriatim_storage::Digest;
use seriatim_types::{PartitionOffset, Timestamp, WorkspaceOffset};

/// An event to be numbered. Its body is opaque to the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// When it was made.
    pub time: Timestamp,
    /// Its bytes.
    pub body: &'a [u8],
    /// SHA-256 of its bytes.
    pub body_digest: Digest,
}

impl<'a> Event<'a> {
    /// An event with this body, which is hashed here.
    #[must_use]
    pub fn new(time: Timestamp, body: &'a [u8]) -> Self {
        Self { time, body, body_digest: Digest::of(body) }
    }
}

/// Where a staged event will be after its group is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged {
    /// Its place in the partition log.
    pub partition_offset: PartitionOffset,
    /// Its place in the workspace's log.
    pub workspace_offset: WorkspaceOffset,
    /// The head of the workspace's chain after it.
    pub chain: Digest,
}
