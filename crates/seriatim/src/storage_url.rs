//! Opens a storage by its URL: the only place that knows every kind of storage.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use seriatim_env::Env;
use seriatim_storage::Storage;
use seriatim_storage::memory::MemoryStorage;
use seriatim_storage_file::{FileOptions, FileStorage, OpenError, SharedStorage};
use seriatim_types::ErrorKind;

use crate::shared_url::{OpenLogError, SCHEMES, SharedUrl};

/// Where data is stored: `memory:`, `file:` and a path, or the URL of a log elsewhere.
///
/// The path is used as it is written, without percent-encoding; a relative path is relative to the working directory.
///
/// ```
/// use seriatim::StorageUrl;
///
/// let url: StorageUrl = "file:./seriatim-data".parse().unwrap();
/// assert_eq!(url, StorageUrl::File("./seriatim-data".into()));
/// assert_eq!(url.to_string(), "file:./seriatim-data");
///
/// let error = "redis://host".parse::<StorageUrl>().unwrap_err();
/// assert!(error.to_string().starts_with("redis://host: there is no such kind of storage"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageUrl {
    /// In the memory of this process. The data is lost when the process ends.
    Memory,
    /// In this folder.
    File(PathBuf),
    /// The log is elsewhere, where several processes can share it. What is derived is in a local directory.
    Shared(SharedUrl),
}

/// A text that does not name a storage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseStorageUrlError {
    /// It has no scheme.
    #[error("{0:?} does not say what kind of storage it is: write file:{0} for a folder")]
    NoScheme(String),
    /// A scheme that this program was built without.
    #[error(
        "{url}: this program was built without {scheme}: build it from source with `cargo build --release -p seriatim --features {feature}`"
    )]
    NotBuilt {
        /// The whole text, without secrets.
        url: String,
        /// Its scheme.
        scheme: &'static str,
        /// The cargo feature that it needs.
        feature: &'static str,
    },
    /// The URL of a shared log is not valid.
    #[error("{url}: {reason}")]
    Shared {
        /// The whole text, without secrets.
        url: String,
        /// What is wrong, and how to write it.
        reason: String,
    },
    /// An unknown scheme.
    #[error(
        "{0}: there is no such kind of storage; use file:, memory:, cassandra:, s3:, gs:, az: or object+file:"
    )]
    Unknown(String),
    /// `file:` without a path.
    #[error("{0} names no folder: write file:./data or file:/var/lib/data")]
    NoPath(String),
    /// `file:` with the name of a machine.
    #[error("{0} names another machine: write file:/path for a folder on this one")]
    Host(String),
    /// `memory:` followed by more text.
    #[error("{0}: nothing can follow memory:")]
    NotOnlyMemory(String),
}

impl ParseStorageUrlError {
    /// What the caller can do about the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

impl FromStr for StorageUrl {
    type Err = ParseStorageUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        use ParseStorageUrlError as Bad;

        let url = || redacted(text);
        // A path may contain a colon too, but no slash precedes the colon of a scheme.
        let scheme = text.split_once(':').filter(|(scheme, _)| !scheme.is_empty() && !scheme.contains('/'));
        let (scheme, rest) = scheme.ok_or_else(|| Bad::NoScheme(url()))?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(Bad::NotOnlyMemory(url())),
            "file" => {
                // The long form: two slashes, then nothing or the name of a machine, then the path.
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() {
                    Err(Bad::NoPath(url()))
                } else if path.len() < rest.len() && !path.starts_with('/') {
                    Err(Bad::Host(url()))
                } else {
                    Ok(Self::File(path.into()))
                }
            }
            _ => match SCHEMES.into_iter().find(|(shared, _)| *shared == scheme) {
                Some((scheme, feature)) => SharedUrl::read(text, scheme, feature).map(Self::Shared),
                None => Err(Bad::Unknown(url())),
            },
        }
    }
}

impl fmt::Display for StorageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            // Without these slashes, the first two of the path would be read as the start of a machine's name.
            Self::File(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                write!(f, "file://{}", path.display())
            }
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Shared(url) => url.fmt(f),
        }
    }
}

/// A text without what may be secret in a URL: the name and password before the host, and everything after a question mark.
#[must_use]
pub fn redacted(text: &str) -> String {
    let (text, query) = text.split_once('?').map_or((text, ""), |(text, _)| (text, "?…"));
    let Some((scheme, rest)) = text.split_once("://") else { return format!("{text}{query}") };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{path}{query}")
}

/// How a storage is opened.
#[derive(Debug, Clone, Default)]
pub struct StorageOptions {
    /// For files: those of the storage itself, or of the local directory.
    pub files: FileOptions,
    /// The directory for what is derived from a shared log. A storage of another kind has none.
    pub local: Option<PathBuf>,
}

impl From<FileOptions> for StorageOptions {
    fn from(files: FileOptions) -> Self {
        Self { files, local: None }
    }
}

/// Why a storage was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenStorageError {
    /// The folder of the storage, or the local directory, cannot be opened.
    #[error(transparent)]
    Files(#[from] OpenError),
    /// The shared log cannot be opened.
    #[error(transparent)]
    Log(#[from] OpenLogError),
    /// A shared log without a local directory.
    #[error(
        "{0} is a log elsewhere, and what is derived from it is stored in a local directory: name one with --local DIR"
    )]
    NoLocal(String),
    /// A local directory for a storage that has its own place for what is derived.
    #[error("{0} stores what is derived next to its log, so it has no local directory: leave --local out")]
    NeedlessLocal(String),
}

impl OpenStorageError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Files(error) => error.kind(),
            Self::Log(error) => error.kind(),
            Self::NoLocal(_) | Self::NeedlessLocal(_) => ErrorKind::Invalid,
        }
    }
}

impl StorageUrl {
    /// Opens the storage.
    ///
    /// ```
    /// use seriatim::StorageUrl;
    /// use seriatim::env::Env;
    /// use seriatim::storage_file::FileOptions;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let url: StorageUrl = "memory:".parse()?;
    /// let storage = url.open(&Env::real(), FileOptions::default()).await?;
    /// assert!(storage.log().partitions().await?.is_empty());
    /// storage.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OpenStorageError`]. A storage in memory is always new and opens without errors.
    pub async fn open(
        &self,
        env: &Env,
        options: impl Into<StorageOptions>,
    ) -> Result<Storage, OpenStorageError> {
        let StorageOptions { files, local } = options.into();
        match (self, local) {
            (Self::Memory | Self::File(_), Some(_)) => Err(OpenStorageError::NeedlessLocal(self.to_string())),
            (Self::Memory, None) => Ok(Storage::new(MemoryStorage::new())),
            (Self::File(directory), None) => {
                Ok(Storage::new(FileStorage::open(env, directory, files).await?))
            }
            (Self::Shared(url), None) => Err(OpenStorageError::NoLocal(url.to_string())),
            (Self::Shared(url), Some(local)) => {
                let log = url.open(env).await?;
                Ok(Storage::new(SharedStorage::open(env, log, &local, files.local()).await?))
            }
        }
    }

    /// Whether several processes can use the log at the same time.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_url_names_a_storage_or_the_error_says_what_is_wrong() {
        let file = |path: &str| Ok(StorageUrl::File(path.into()));
        let table = [
            ("memory:", Ok(StorageUrl::Memory)),
            ("file:./data", file("./data")),
            ("file:data", file("data")),
            ("file:/var/lib/data", file("/var/lib/data")),
            ("file:///var/lib/data", file("/var/lib/data")),
            ("file:./a:b", file("./a:b")),
            ("file:../with space", file("../with space")),
            ("memory:x", Err("memory:x: nothing can follow memory:")),
            ("file:", Err("file: names no folder: write file:./data or file:/var/lib/data")),
            ("file://", Err("file:// names no folder: write file:./data or file:/var/lib/data")),
            (
                "file://host/data",
                Err("file://host/data names another machine: write file:/path for a folder on this one"),
            ),
            (
                "redis://me:secret@host/1?password=secret",
                Err(
                    "redis://…@host/1?…: there is no such kind of storage; use file:, memory:, cassandra:, s3:, gs:, az: or object+file:",
                ),
            ),
            (
                "./data",
                Err("\"./data\" does not say what kind of storage it is: write file:./data for a folder"),
            ),
            (
                "./a:b",
                Err("\"./a:b\" does not say what kind of storage it is: write file:./a:b for a folder"),
            ),
            ("", Err("\"\" does not say what kind of storage it is: write file: for a folder")),
        ];
        for (text, expected) in table {
            let parsed = text.parse::<StorageUrl>();
            assert_eq!(parsed.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_scheme_that_was_left_out_names_its_feature_and_no_secret() {
        for (scheme, feature) in SCHEMES {
            let text = format!("{scheme}://me:secret@host/place?key=secret");
            match text.parse::<StorageUrl>() {
                Err(error @ ParseStorageUrlError::NotBuilt { .. }) => {
                    let error = error.to_string();
                    assert!(error.contains(&format!("--features {feature}`")), "{error}");
                    assert!(!error.contains("secret"), "{error}");
                }
                other => {
                    let printed = other.map_or_else(|error| error.to_string(), |url| url.to_string());
                    assert!(!printed.contains("secret"), "{printed}");
                }
            }
        }
    }

    #[test]
    fn a_text_is_printed_without_secrets() {
        let table = [
            ("cassandra://me:se@cret@host:9042/k", "cassandra://…@host:9042/k"),
            ("cassandra://host,other:9042/k?password=secret", "cassandra://host,other:9042/k?…"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("file:./a", "file:./a"),
        ];
        for (text, expected) in table {
            assert_eq!(redacted(text), expected);
        }
    }

    proptest! {
        #[test]
        fn a_url_is_read_as_it_was_written(path in "[/.a-z:]{1,12}") {
            let url = StorageUrl::File(path.into());
            prop_assert_eq!(url.to_string().parse(), Ok(url));
        }
    }
}
