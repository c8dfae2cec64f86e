//! Errors of a store.

use seriatim_types::ErrorKind;

/// Why a store did not read or write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The storage below does not work. Nothing was written. An operator has to fix the cause.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The stored data is damaged, of another kind, or contradicts itself. A store can be derived from its log again.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// A newer Seriatim wrote the store. Use a program of that version.
    #[error(
        "the store has format version {found}, and this program reads versions up to {known}: use a newer program"
    )]
    Newer {
        /// The version of the store.
        found: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// A key or value exceeds a limit. Nothing was written.
    #[error("a {what} may have {max} bytes, this one has {found}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How much is allowed.
        max: usize,
        /// How much it was.
        found: usize,
    },
    /// Less disk space is free than must stay free, so that the disk does not fill up. Nothing was written. Free some space.
    #[error(
        "{free_bytes} bytes are free on the store's disk, and {needed_bytes} must stay free (free_bytes_min): free some disk space"
    )]
    DiskNearlyFull {
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that must stay free.
        needed_bytes: u64,
    },
    /// The write may have been done or not, or it was done and is not durable. Read the value to find out.
    #[error("a write to the store is in doubt: {0}")]
    InDoubt(String),
    /// The store has been closed. Open it again.
    #[error("the store is closed: open it again")]
    Closed,
}

impl StoreError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) | Self::DiskNearlyFull { .. } => ErrorKind::Unavailable,
            Self::Corrupt(_) | Self::Newer { .. } => ErrorKind::Corrupt,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::InDoubt(_) => ErrorKind::InDoubt,
            Self::Closed => ErrorKind::Closed,
        }
    }
}
