//! What can go wrong with a store.

use seriatim_types::ErrorKind;

/// Why a store did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The storage underneath does not work. Nothing was written.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored is damaged, foreign or contradicts itself.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// A newer Seriatim wrote it.
    #[error("the store has format version {found}, and this program reads up to {known}: use a newer one")]
    Newer {
        /// The version that it has.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A key or value is larger than a limit allows. Nothing was written.
    #[error("a {what} may have {max} bytes, this one has {found}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How much is allowed.
        max: usize,
        /// How much it was.
        found: usize,
    },
    /// Less space is left than the threshold that keeps the disk from filling up. Nothing was written.
    #[error(
        "{free_bytes} bytes are free on the store's disk, and {needed_bytes} must stay free (free_bytes_min): make room"
    )]
    DiskNearlyFull {
        /// What is free.
        free_bytes: u64,
        /// What has to stay free.
        needed_bytes: u64,
    },
    /// The write may have happened and it may not, or happened and is not durable. Read it back.
    #[error("a write to the store is in doubt: {0}")]
    InDoubt(String),
    /// It has been closed.
    #[error("the store is closed")]
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
