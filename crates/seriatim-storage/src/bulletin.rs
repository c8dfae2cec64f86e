//! The Bulletin port: small values by key, durable and unconditional.
//!
//! For what is neither truth nor derived from it, such as how far an asynchronous projector has come: losing the store
//! must not lose it, and it is too small and changes too often for the log. It lies beside the log and is closed with it:
//! [`Log::bulletin`](crate::Log::bulletin).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_types::ErrorKind;

/// A key of a bulletin. Ours are under 150 bytes.
pub const BULLETIN_KEY_BYTES_MAX: usize = 256;

/// A value on a bulletin. Ours have 8 bytes; a bulletin is written whole.
pub const BULLETIN_VALUE_BYTES_MAX: usize = 1_024;

/// Why a bulletin did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BulletinError {
    /// The storage underneath does not work. A value that was to be posted may be there or not.
    #[error("the bulletin is unavailable: {0}")]
    Unavailable(String),
    /// What is stored is damaged, or of a newer format.
    #[error("the bulletin cannot be read: {0}")]
    Corrupt(String),
    /// A key, a value or all of them together are larger than a limit allows. Nothing was posted.
    #[error("a {what} may have {max} bytes, this one has {found}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How much is allowed.
        max: usize,
        /// How much it was.
        found: usize,
    },
    /// Its log has been closed.
    #[error("the bulletin is closed")]
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

/// Where a bulletin lives. Callers use [`Bulletin`], which checks sizes.
#[async_trait]
pub trait BulletinBackend: Send + Sync + fmt::Debug + 'static {
    /// The value that was posted last under a key.
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError>;

    /// Posts a value under a key, in place of the one before it. Durable before it returns. Once begun, it goes on to its
    /// end, also if the future is dropped.
    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError>;
}

/// Small values by key. Clones are the same bulletin.
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

    /// The value that was posted last under a key.
    ///
    /// # Errors
    ///
    /// [`BulletinError`].
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        self.backend.get(key).await
    }

    /// Posts a value under a key, in place of the one before it. Durable when it returns.
    ///
    /// # Errors
    ///
    /// [`BulletinError`]: the value of before may still be there.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        check("key of a bulletin", BULLETIN_KEY_BYTES_MAX, key.len())?;
        check("value on a bulletin", BULLETIN_VALUE_BYTES_MAX, value.len())?;
        self.backend.put(key, value).await
    }
}

fn check(what: &'static str, max: usize, found: usize) -> Result<(), BulletinError> {
    if found > max { Err(BulletinError::TooLarge { what, max, found }) } else { Ok(()) }
}
