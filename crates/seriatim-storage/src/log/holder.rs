//! Who holds a partition, and what identifies a log.

use std::fmt;
use std::sync::Arc;

use seriatim_types::{Epoch, PartitionOffset};

/// The name of a holder is at most this long: a name of a node and the number of its start.
pub const HOLDER_BYTES_MAX: usize = 255;

/// The name of the one that holds a partition. It is unique for each start of a process.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(Arc<str>);

impl Holder {
    /// A holder with this name. A name of more than [`HOLDER_BYTES_MAX`] bytes is cut.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name[..name.floor_char_boundary(HOLDER_BYTES_MAX)].into())
    }

    /// The holder of partitions that were taken without a name.
    #[must_use]
    pub fn unnamed() -> Self {
        Self::new("")
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({})", self.0)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(no name)" } else { &self.0 })
    }
}

/// One take of partitions: by whom, and a random id. If the reply to a take is lost, the id shows whether it succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Who takes.
    pub holder: Holder,
    /// A random number. No two takes of a holder have the same one.
    pub id: u64,
}

impl Take {
    /// A take by this holder, with a random number.
    #[must_use]
    pub fn new(holder: Holder, id: u64) -> Self {
        Self { holder, id }
    }
}

/// How a partition is held at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// The take that raised it.
    pub take: Take,
    /// The offset that the next append goes to.
    pub tail: PartitionOffset,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} holds it with epoch {}", self.take.holder, self.epoch)
    }
}

/// What tells one log from every other, also from a log that was made anew at the same place. A backup has the identity of its
/// log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogIdentity([u8; 16]);

impl LogIdentity {
    /// The identity with these bytes. Those of a new log are random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for LogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogIdentity({self})")
    }
}
