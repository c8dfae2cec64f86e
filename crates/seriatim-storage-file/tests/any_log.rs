//! Backups into and out of logs of any kind, through their port, and local state next to a log elsewhere.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{
    Digest, Entries, Header, Holder, Key, Log, LogIdentity, Owner, ReadLimit, Storage, Take,
};
use seriatim_storage_file::{
    FileOptions, FileStorage, OpenError, RestoreError, SharedStorage, backup_log, restore, restore_log,
};
use seriatim_types::{
    ErrorKind, Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

const IDENTITY: LogIdentity = LogIdentity::from_bytes([7; 16]);

fn entries(owner: &Owner, bodies: &[Vec<u8>]) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    for body in bodies {
        let header = Header {
            workspace: WorkspaceId::FIRST,
            kind: WorkspaceKind::new(1),
            workspace_offset: WorkspaceOffset::FIRST,
            time: Timestamp::from_millis(5),
            body_digest: Digest::of(body),
            draws: &[],
            raises: &[],
        };
        entries.push(&header, Digest::ZERO, body).unwrap();
    }
    entries
}

async fn append(log: &Log, owner: &Owner, bodies: &[Vec<u8>]) {
    let at = log.tail(owner.partition()).await.unwrap();
    log.append(owner, at, &entries(owner, bodies)).await.unwrap();
}

/// Several owners, groups of several entries, a large one, a partition without entries, and a bulletin.
async fn fill(log: &Log) {
    assert_eq!(log.identify(IDENTITY).await.unwrap(), IDENTITY);
    log.take(Partition::new(9, 9)).await.unwrap();
    for round in 0..5_u8 {
        for id in 0..4 {
            let owner = log.take(Partition::new(3, id)).await.unwrap();
            append(log, &owner, &[vec![round; 10], vec![], vec![round; 40_000]]).await;
            append(log, &owner, &vec![vec![9]; 700]).await;
        }
    }
    log.bulletin().put("projector/3/0/mail", b"17").await.unwrap();
}

/// Everything that a log contains.
#[derive(Debug, PartialEq, Eq)]
struct Whole {
    identity: Option<LogIdentity>,
    /// The epoch, and the bytes of all entries.
    partitions: BTreeMap<Partition, (u64, Vec<u8>)>,
    bulletin: Vec<(String, Vec<u8>)>,
}

async fn whole(log: &Log) -> Whole {
    let mut partitions = BTreeMap::new();
    for partition in log.partitions().await.unwrap() {
        let (mut bytes, mut next) = (Vec::new(), PartitionOffset::FIRST);
        loop {
            let read = log.read(partition, next, ReadLimit::default()).await.unwrap();
            if read.is_empty() {
                break;
            }
            (next, _) = (read.next(), bytes.extend_from_slice(read.as_bytes()));
        }
        let epoch = log.holder(partition).await.unwrap().unwrap().epoch.get();
        partitions.insert(partition, (epoch, bytes));
    }
    let bulletin = log.bulletin().list("").await.unwrap();
    let bulletin = bulletin.into_iter().map(|(key, value)| (key, value.to_vec())).collect();
    Whole { identity: log.identity().await.unwrap(), partitions, bulletin }
}

async fn open_files(directory: &Path) -> FileStorage {
    FileStorage::open(&Env::real(), directory, FileOptions::default()).await.unwrap()
}

fn holder() -> Holder {
    Holder::new("restore")
}

#[tokio::test]
async fn a_log_is_the_same_after_a_backup_to_files_and_back() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    let memory = Log::new(MemoryLog::new());
    fill(&memory).await;
    let original = whole(&memory).await;

    // Memory -> backup -> files.
    let report = backup_log(&env, &memory, &at("backup")).await.unwrap();
    assert_eq!(restore(&env, &at("backup"), &at("files")).await.unwrap(), report);
    let files = open_files(&at("files")).await;
    assert_eq!(whole(files.log()).await, original);

    // Files -> backup, in both ways -> memory.
    files.backup(&at("backup of files")).await.unwrap();
    backup_log(&env, files.log(), &at("backup through the port")).await.unwrap();
    files.close().await.unwrap();
    for backup in ["backup of files", "backup through the port"] {
        let memory = Log::new(MemoryLog::new());
        let restored = restore_log(&env, &at(backup), &memory, &holder()).await.unwrap();
        restored.finish().await.unwrap();
        assert_eq!(restored.report().entries, report.entries, "{backup}");
        assert_eq!(whole(&memory).await, original, "{backup}");
        // The next epoch is later than all that entries have.
        let owner = memory.take(Partition::new(3, 0)).await.unwrap();
        append(&memory, &owner, &[vec![1]]).await;
    }
}

#[tokio::test]
async fn a_log_larger_than_a_segment_is_restored() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let memory = Log::new(MemoryLog::new());
    let owner = memory.take(Partition::new(3, 0)).await.unwrap();
    for round in 0..20_u8 {
        append(&memory, &owner, &[vec![round; 4 << 20]]).await;
    }
    let backup = folder.path().join("backup");
    backup_log(&env, &memory, &backup).await.unwrap();
    assert!(backup.join("log/0000000002.segment").exists());
    let copy = Log::new(MemoryLog::new());
    restore_log(&env, &backup, &copy, &holder()).await.unwrap().finish().await.unwrap();
    assert_eq!(whole(&copy).await, whole(&memory).await);
    restore(&env, &backup, &folder.path().join("files")).await.unwrap();
    let files = open_files(&folder.path().join("files")).await;
    assert_eq!(whole(files.log()).await, whole(&memory).await);
}

#[tokio::test]
async fn a_backup_is_restored_only_into_an_empty_log_and_a_damaged_one_writes_nothing() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let backup = folder.path().join("backup");
    let memory = Log::new(MemoryLog::new());
    fill(&memory).await;
    backup_log(&env, &memory, &backup).await.unwrap();
    let before = whole(&memory).await;
    let refused = restore_log(&env, &backup, &memory, &holder()).await.unwrap_err();
    assert_eq!(refused, RestoreError::LogNotEmpty);
    assert_eq!(whole(&memory).await, before);

    // A log with another identity is somebody else's, also without entries.
    let other = Log::new(MemoryLog::new());
    other.identify(LogIdentity::from_bytes([1; 16])).await.unwrap();
    assert_eq!(restore_log(&env, &backup, &other, &holder()).await.unwrap_err(), RestoreError::LogNotEmpty);
    assert_eq!(whole(&other).await.bulletin, [], "it can still be opened");

    let segment = backup.join("log/0000000001.segment");
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let empty = Log::new(MemoryLog::new());
    let refused = restore_log(&env, &backup, &empty, &holder()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert_eq!(whole(&empty).await, whole(&Log::new(MemoryLog::new())).await);
}

#[tokio::test]
async fn a_log_whose_restore_was_interrupted_is_not_opened() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let (backup, local) = (folder.path().join("backup"), folder.path().join("local"));
    let memory = Log::new(MemoryLog::new());
    fill(&memory).await;
    backup_log(&env, &memory, &backup).await.unwrap();
    let copy = Log::new(MemoryLog::new());
    let restored = restore_log(&env, &backup, &copy, &holder()).await.unwrap();
    let options = || FileOptions::default().local();
    let refused = SharedStorage::open(&env, copy.clone(), &local, options()).await.unwrap_err();
    assert_eq!(refused, OpenError::UnfinishedLog);
    assert_eq!(restore_log(&env, &backup, &copy, &holder()).await.unwrap_err(), RestoreError::LogNotEmpty);
    restored.finish().await.unwrap();
    let storage = Storage::new(SharedStorage::open(&env, copy, &local, options()).await.unwrap());
    storage.close().await.unwrap();
}

#[tokio::test]
async fn local_state_is_locked_kept_for_its_log_and_removed_for_another() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let local = folder.path().join("local");
    let options = || FileOptions::default().local();
    let open = async |log: &MemoryLog| {
        SharedStorage::open(&Env::real(), Log::new(log.reopen()), &local, options()).await.map(Storage::new)
    };
    let (first, second) = (MemoryLog::new(), MemoryLog::new());
    for (log, identity) in [(&first, 1), (&second, 2)] {
        Log::new(log.reopen()).identify(LogIdentity::from_bytes([identity; 16])).await.unwrap();
    }
    let key = Key::new(b"p", b"c");
    let storage = open(&first).await.unwrap();
    storage.store().put(key, b"value").await.unwrap();
    let held = open(&first).await.unwrap_err();
    assert!(held.to_string().contains("is in use by process"), "{held}");
    let backup = storage.as_backup().unwrap().backup(&local.join("inside")).await.unwrap_err();
    assert_eq!(backup.kind(), ErrorKind::Invalid, "{backup}");
    let scratch = storage.scratch().await.unwrap();
    scratch.close().await.unwrap();
    storage.store().sync().await.unwrap();
    storage.close().await.unwrap();

    let storage = open(&first).await.unwrap();
    assert_eq!(storage.store().get(key).await.unwrap().as_deref(), Some(&b"value"[..]));
    storage.close().await.unwrap();
    let storage = open(&second).await.unwrap();
    assert_eq!(storage.store().get(key).await.unwrap(), None, "it was derived from another log");
    storage.close().await.unwrap();

    // A storage is not local state, and local state is not a storage.
    let refused = FileStorage::open(&env, &local, FileOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    open_files(&folder.path().join("files")).await.close().await.unwrap();
    let log = Log::new(first.reopen());
    let refused = SharedStorage::open(&env, log, &folder.path().join("files"), options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::ForeignLocal { .. }), "{refused}");
}

#[tokio::test]
async fn a_take_of_another_process_does_not_hide_its_entries_from_a_backup() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let shared = MemoryLog::new();
    let (own, other) = (Log::new(shared.reopen()), Log::new(shared.reopen()));
    let partition = Partition::new(3, 0);
    let owner = own.take(partition).await.unwrap();
    append(&own, &owner, &[vec![1]]).await;
    let take = Take::new(Holder::new("other"), 1);
    let deposer = other.take_over(partition, Some(owner.epoch()), &take).await.unwrap();
    append(&other, &deposer, &[vec![2], vec![3]]).await;
    let report = backup_log(&env, &own, &folder.path().join("backup")).await.unwrap();
    assert_eq!(report.entries, 3);
}
