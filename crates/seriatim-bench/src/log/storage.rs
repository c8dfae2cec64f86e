//! The storage that is measured: opened here and nowhere else.

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage_file::{FileOptions, FileStorage};

/// How the log's files end.
pub(super) const SEGMENT_EXTENSION: &str = "segment";

/// Opens a directory, made if it is not there, with the settings that everybody gets.
pub(super) async fn open(directory: &Path) -> anyhow::Result<FileStorage> {
    Ok(FileStorage::open(&Env::real(), directory, FileOptions::default()).await?)
}
