//! Opens the storage that is measured.

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage};

/// The file extension of the log's segments.
pub(super) const SEGMENT_EXTENSION: &str = "segment";

/// Opens a directory with the default settings, and creates it if it does not exist.
pub(super) async fn open(directory: &Path) -> anyhow::Result<FileStorage> {
    Ok(FileStorage::open(&Env::real(), directory, FileOptions::default()).await?)
}
