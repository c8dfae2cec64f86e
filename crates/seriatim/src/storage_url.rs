//! Opens a storage by its URL: the only place that knows every kind of storage.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use seriatim_env::Env;
use seriatim_storage::Storage;
use seriatim_storage::memory::MemoryStorage;
use seriatim_storage_file::{FileOptions, FileStorage, OpenError};
use seriatim_types::ErrorKind;

/// Where data is stored: `memory:`, or `file:` and a path.
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
/// let error = "cassandra://localhost:9042/numbers".parse::<StorageUrl>().unwrap_err();
/// assert_eq!(error.to_string(), "cassandra://localhost:9042/numbers: cassandra is not supported yet; use file: or memory:");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StorageUrl {
    /// In the memory of this process. The data is lost when the process ends.
    Memory,
    /// In this folder.
    File(PathBuf),
}

/// Schemes that are planned.
const LATER: [&str; 3] = ["cassandra", "s3", "object+file"];

/// A text that does not name a storage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseStorageUrlError {
    /// It has no scheme.
    #[error("{0:?} does not say what kind of storage it is: write file:{0} for a folder")]
    NoScheme(String),
    /// A scheme that is planned.
    #[error("{url}: {scheme} is not supported yet; use file: or memory:")]
    NotYet {
        /// The whole text.
        url: String,
        /// Its scheme.
        scheme: &'static str,
    },
    /// An unknown scheme.
    #[error("{0}: there is no such kind of storage; use file: or memory:")]
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

        let url = || text.to_owned();
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
            _ => Err(match LATER.into_iter().find(|later| *later == scheme) {
                Some(scheme) => Bad::NotYet { url: url(), scheme },
                None => Bad::Unknown(url()),
            }),
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
        }
    }
}

impl StorageUrl {
    /// Opens the storage; `options` are for one on files.
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
    /// As [`FileStorage::open`]. A storage in memory is always new and opens without errors.
    pub async fn open(&self, env: &Env, options: FileOptions) -> Result<Storage, OpenError> {
        match self {
            Self::Memory => Ok(Storage::new(MemoryStorage::new())),
            Self::File(directory) => FileStorage::open(env, directory, options).await.map(Storage::new),
        }
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
                "cassandra://host:9042/k",
                Err("cassandra://host:9042/k: cassandra is not supported yet; use file: or memory:"),
            ),
            ("s3://bucket/prefix", Err("s3://bucket/prefix: s3 is not supported yet; use file: or memory:")),
            (
                "object+file:./dir",
                Err("object+file:./dir: object+file is not supported yet; use file: or memory:"),
            ),
            ("redis://host", Err("redis://host: there is no such kind of storage; use file: or memory:")),
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

    proptest! {
        #[test]
        fn a_url_is_read_as_it_was_written(path in "[/.a-z:]{1,12}") {
            let url = StorageUrl::File(path.into());
            prop_assert_eq!(url.to_string().parse(), Ok(url));
        }
    }
}
