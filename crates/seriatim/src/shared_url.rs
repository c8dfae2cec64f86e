//! URLs of logs that several processes can share: the kinds of logs elsewhere, each behind a cargo feature.

use std::fmt;

use seriatim_env::Env;
use seriatim_storage::Log;
use seriatim_types::ErrorKind;

use crate::storage_url::ParseStorageUrlError;

/// The schemes of shared logs, and the cargo feature that each needs.
pub(crate) const SCHEMES: [(&str, &str); 5] = [
    ("cassandra", "cassandra"),
    ("s3", "object"),
    ("gs", "object"),
    ("az", "object"),
    ("object+file", "object"),
];

/// The URL of a log that is stored elsewhere, where several processes can share it. It is printed without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedUrl(Kind);

/// Which kind of log it is. Without the features there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {}

/// Why a shared log was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OpenLogError {
    kind: ErrorKind,
    message: String,
}

impl OpenLogError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl SharedUrl {
    /// Reads the URL of a kind that this program was built with.
    pub(crate) fn read(
        text: &str,
        scheme: &'static str,
        feature: &'static str,
    ) -> Result<Self, ParseStorageUrlError> {
        Err(ParseStorageUrlError::NotBuilt { url: crate::storage_url::redacted(text), scheme, feature })
    }

    /// Opens the log.
    ///
    /// # Errors
    ///
    /// [`OpenLogError`].
    #[expect(clippy::unused_async, reason = "every kind of log is opened by requests")]
    pub async fn open(&self, _env: &Env) -> Result<Log, OpenLogError> {
        match self.0 {}
    }
}

impl fmt::Display for SharedUrl {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}
