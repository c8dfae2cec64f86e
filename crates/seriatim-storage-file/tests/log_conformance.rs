//! The log on files passes the conformance suite.

use seriatim_env::Env;
use seriatim_storage::Log;
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions};
use seriatim_storage_testing::conformance::LogFixture;

struct Folder {
    directory: tempfile::TempDir,
    segment_bytes: u32,
}

impl LogFixture for Folder {
    async fn open(&self) -> Log {
        let log = LogOptions { segment_bytes: self.segment_bytes, ..LogOptions::default() };
        let options = FileOptions { log, ..FileOptions::default() };
        let storage = FileStorage::open(&Env::real(), self.directory.path(), options).await;
        let storage = storage.expect("it opens");
        // Only the log is tested. It has the folder's lock, so the store is closed first.
        storage.store().close().await.expect("the store closes");
        storage.log().clone()
    }
}

fn folder(segment_bytes: u32) -> Folder {
    Folder { directory: tempfile::tempdir().expect("a folder"), segment_bytes }
}

mod with_segments_of_default_size {
    seriatim_storage_testing::log_conformance!(super::folder(64 << 20));
}

mod with_tiny_segments {
    seriatim_storage_testing::log_conformance!(super::folder(8 << 10));
}
