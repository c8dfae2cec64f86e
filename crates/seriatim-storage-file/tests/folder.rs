//! The folder of a storage: its lock, its format, and folders that are not storages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::{AppendError, Batch, Digest, Durability, Entries, Header, Key, Owner, StoreError};
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions, OpenError};
use seriatim_types::{ErrorKind, Partition, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

async fn open(directory: &Path) -> Result<FileStorage, OpenError> {
    FileStorage::open(&Env::real(), directory, FileOptions::default()).await
}

fn entries(owner: &Owner) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(b"tea"),
        draws: &[],
        raises: &[],
    };
    entries.push(&header, Digest::ZERO, b"tea").unwrap();
    entries
}

#[tokio::test]
async fn a_second_opening_is_refused_and_names_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).await.unwrap();
    let error = open(directory.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&format!("is in use by process {}", std::process::id())), "{error}");
    first.close().await.unwrap();
    open(directory.path()).await.unwrap();
}

#[tokio::test]
async fn dropping_without_closing_unlocks_the_folder() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await.unwrap());
    open(directory.path()).await.unwrap();
}

#[tokio::test]
async fn a_folder_of_another_program_is_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.txt"), "years of work").unwrap();
    let error = open(directory.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("it contains thesis.txt and no SERIATIM"), "{error}");
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.txt"]);
}

#[tokio::test]
async fn a_newer_format_is_refused_with_its_own_error() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).await.unwrap().close().await.unwrap();
    let marker = directory.path().join("SERIATIM");
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "seriatim storage\nformat 1\n");
    std::fs::write(&marker, "seriatim storage\nformat 2\n").unwrap();
    let error = open(directory.path()).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    std::fs::write(&marker, "something else").unwrap();
    let error = open(directory.path()).await.unwrap_err();
    assert!(error.to_string().contains("its file SERIATIM is not one of a storage"), "{error}");
}

#[tokio::test]
async fn a_file_in_the_place_of_the_folder_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "").unwrap();
    assert_eq!(open(&path).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_full_segment_gets_an_index_that_opening_does_not_rebuild() {
    let directory = tempfile::tempdir().unwrap();
    let log = LogOptions { segment_bytes: 8 << 10, ..LogOptions::default() };
    let options = FileOptions { log, ..FileOptions::default() };
    let storage = FileStorage::open(&Env::real(), directory.path(), options.clone()).await.unwrap();
    let owner = storage.log().take(Partition::new(1, 0)).await.unwrap();
    let mut at = owner.tail();
    for _ in 0..100 {
        at = storage.log().append(&owner, at, &entries(&owner)).await.unwrap().next();
    }
    storage.close().await.unwrap();
    let index = directory.path().join("log/0000000001.index");
    let written = (std::fs::read(&index).unwrap(), std::fs::metadata(&index).unwrap().modified().unwrap());
    assert!(written.0.starts_with(b"SERIAIDX"));
    FileStorage::open(&Env::real(), directory.path(), options).await.unwrap().close().await.unwrap();
    let after = (std::fs::read(&index).unwrap(), std::fs::metadata(&index).unwrap().modified().unwrap());
    assert_eq!(written, after);
}

#[tokio::test]
async fn a_nearly_full_disk_refuses_durable_writes_and_reads_continue() {
    let directory = tempfile::tempdir().unwrap();
    let options = FileOptions { free_bytes_min: 1_000, ..FileOptions::default() };
    let made = FileStorage::open(&Env::real(), directory.path(), options.clone()).await.unwrap();
    made.close().await.unwrap();
    let probe = Box::new(|_: &Path| Ok(999));
    let storage = FileStorage::open_with_probe(&Env::real(), directory.path(), options, probe).await.unwrap();
    let key = Key::new(b"partition", b"");
    let mut batch = Batch::new();
    batch.put(key, b"value");
    let error = storage.store().write(batch, Durability::Synced).await.unwrap_err();
    assert_eq!(error, StoreError::DiskNearlyFull { free_bytes: 999, needed_bytes: 1_000 });
    assert_eq!(storage.store().get(key).await.unwrap(), None);

    // Taking a partition needs only a few bytes of the space that is already reserved, and is allowed.
    let owner = storage.log().take(Partition::new(1, 0)).await.unwrap();
    let error = storage.log().append(&owner, owner.tail(), &entries(&owner)).await.unwrap_err();
    assert_eq!(error, AppendError::DiskNearlyFull { free_bytes: 999, needed_bytes: 1_000 });
    assert_eq!(storage.log().tail(owner.partition()).await.unwrap(), owner.tail());
}

#[tokio::test]
async fn a_new_storage_is_not_created_if_it_could_accept_no_write() {
    let directory = tempfile::tempdir().unwrap();
    let options = FileOptions { free_bytes_min: 1_000, ..FileOptions::default() };
    let needed = 1_000 + u64::from(options.log.segment_bytes);
    let open = |path: &'static str, free: u64| {
        let (place, options) = (directory.path().join(path), options.clone());
        async move {
            let probe = Box::new(move |there: &Path| {
                assert!(there.is_dir(), "{} does not exist", there.display());
                Ok(free)
            });
            FileStorage::open_with_probe(&Env::real(), &place, options, probe).await
        }
    };
    for place in ["", "new", "below/new"] {
        let error = open(place, needed - 1).await.unwrap_err();
        let is_expected = matches!(error, OpenError::DiskNearlyFull { free_bytes, needed_bytes, .. }
            if free_bytes == needed - 1 && needed_bytes == needed);
        assert!(is_expected, "{error}");
        assert_eq!(names(directory.path()), Vec::<String>::new());
    }
    open("below/new", needed).await.unwrap().close().await.unwrap();
    open("below/new", 0).await.unwrap().close().await.unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_storage_whose_log_is_missing_is_refused() {
    for lost in ["log", "log/0000000001.segment"] {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path()).await.unwrap().close().await.unwrap();
        let path = directory.path().join(lost);
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
        for _ in 0..2 {
            let error = open(directory.path()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let text = error.to_string();
            assert!(text.contains("there are no segments in") && text.contains("restore a backup"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_first_start_that_was_interrupted_anywhere_can_be_repeated() {
    let whole = tempfile::tempdir().unwrap();
    open(whole.path()).await.unwrap().close().await.unwrap();
    assert_eq!(names(whole.path()), ["LOCK", "SERIATIM", "log", "store"]);

    let marker = "seriatim storage\nformat 1\n";
    // What exists after each step: the marker, incomplete or complete, then folders, then a segment with its temporary name.
    for (text, made) in
        [("", &[][..]), ("seria", &[]), (marker, &[]), (marker, &["store"]), (marker, &["store", "log"])]
    {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("LOCK"), "").unwrap();
        std::fs::write(directory.path().join("SERIATIM.new"), text).unwrap();
        made.iter().for_each(|name| std::fs::create_dir(directory.path().join(name)).unwrap());
        if made.contains(&"log") {
            std::fs::write(directory.path().join("log/0000000001.segment.new"), "half").unwrap();
        }
        let storage = open(directory.path()).await.unwrap();
        let owner = storage.log().take(Partition::new(1, 0)).await.unwrap();
        storage.log().append(&owner, owner.tail(), &entries(&owner)).await.unwrap();
        storage.close().await.unwrap();
        assert_eq!(names(directory.path()), ["LOCK", "SERIATIM", "log", "store"]);
        let storage = open(directory.path()).await.unwrap();
        assert_eq!(storage.log().tail(Partition::new(1, 0)).await.unwrap().get(), 2);
    }
}
