//! The Bulletin port: small values by key, durable, written without a condition.
//!
//! It is for data that is neither the truth nor derived from it, such as the offset that an asynchronous projector has
//! reached. Losing the store must not lose that offset, and it changes too often to be stored in the log. A bulletin is
//! stored next to its log and is closed with it: [`Log::bulletin`](crate::Log::bulletin).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_types::ErrorKind;

/// The largest key of a bulletin. Seriatim's own keys are under 150 bytes.
pub const BULLETIN_KEY_BYTES_MAX: usize = 256;

/// The largest value on a bulletin. Seriatim's own values have at most 25 bytes. A bulletin is written as a whole, so values are
/// small.
pub const BULLETIN_VALUE_BYTES_MAX: usize = 1_024;

/// Why a bulletin did not read or write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BulletinError {
    /// The storage below does not work. The value that was to be written may be stored or not.
    #[error("the bulletin is unavailable: {0}")]
    Unavailable(String),
    /// The stored bulletin is damaged, or has a newer format.
    #[error("the bulletin cannot be read: {0}")]
    Corrupt(String),
    /// A key, a value or all of them together exceed a limit. Nothing was written.
    #[error("a {what} may have {max} bytes, this one has {found}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How much is allowed.
        max: usize,
        /// How much it was.
        found: usize,
    },
    /// The bulletin's log has been closed. Open it again.
    #[error("the bulletin is closed with its log: open the log again")]
    Closed,
}

impl BulletinError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) => ErrorKind::Unavailable,
            Self::Corrupt(_) => ErrorKind::Corrupt,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Closed => ErrorKind::Closed,
        }
    }
}

/// What a bulletin is stored in. Callers use [`Bulletin`], which checks sizes.
#[async_trait]
pub trait BulletinBackend: Send + Sync + fmt::Debug + 'static {
    /// The value that was written last under a key.
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError>;

    /// Writes a value under a key and replaces the previous one. The value is durable before this returns. A write that has
    /// begun is completed also if its future is dropped.
    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError>;

    /// All pairs whose key begins with `prefix`, ascending by key.
    async fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, BulletinError>;

    /// Removes a key, durably. Removing a key that is not there is allowed.
    async fn remove(&self, key: &str) -> Result<(), BulletinError>;
}

/// Small values by key. Clones are the same bulletin.
///
/// A value that [`Bulletin::put`] has written is durable: it is there after a crash and after the log is opened again.
///
/// ```
/// use seriatim_storage::{Log, memory::MemoryLog};
///
/// # seriatim_env::simulate(1, |_| async {
/// let log = Log::new(MemoryLog::new());
/// log.bulletin().put("mail", b"17").await?;
/// assert_eq!(log.bulletin().get("mail").await?.as_deref(), Some(&b"17"[..]));
/// # Ok::<(), seriatim_storage::BulletinError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Bulletin {
    backend: Arc<dyn BulletinBackend>,
}

impl Bulletin {
    /// A bulletin on this backend.
    #[must_use]
    pub fn new(backend: Arc<dyn BulletinBackend>) -> Self {
        Self { backend }
    }

    /// The value that was written last under a key, or `None`.
    ///
    /// # Errors
    ///
    /// [`BulletinError`], except `TooLarge`.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        self.backend.get(key).await
    }

    /// Writes a value under a key and replaces the previous one. The value is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`BulletinError::TooLarge`] and [`BulletinError::Closed`]: nothing was written. After any other error either the
    /// previous or the new value is stored; write it again.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        check("key of a bulletin", BULLETIN_KEY_BYTES_MAX, key.len())?;
        check("value on a bulletin", BULLETIN_VALUE_BYTES_MAX, value.len())?;
        self.backend.put(key, value).await
    }

    /// All pairs whose key begins with `prefix`, ascending by key.
    ///
    /// # Errors
    ///
    /// [`BulletinError`], except `TooLarge`.
    pub async fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, BulletinError> {
        self.backend.list(prefix).await
    }

    /// Removes a key. The removal is durable when this returns. Removing a key that is not there is allowed.
    ///
    /// # Errors
    ///
    /// [`BulletinError`], except `TooLarge`. The value may have been removed; remove it again.
    pub async fn remove(&self, key: &str) -> Result<(), BulletinError> {
        self.backend.remove(key).await
    }
}

fn check(what: &'static str, max: usize, found: usize) -> Result<(), BulletinError> {
    if found > max { Err(BulletinError::TooLarge { what, max, found }) } else { Ok(()) }
}
