//! Backups of a storage that is in use, and restoring them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use seriatim_env::Env;
use seriatim_storage::{
    BackupError, BackupReport, DestinationError, Digest, Entries, Header, Holder, Key, Log, LogError,
    LogIdentity, Owner, ReadLimit, Take,
};
use seriatim_storage_file::{
    FileOptions, FileStorage, LogOptions, OpenError, RestoreError, restore, stage_restore,
};
use seriatim_types::{
    ErrorKind, Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

/// Small segments, so that a backup includes the change from one to the next.
fn options() -> FileOptions {
    let log = LogOptions { segment_bytes: 16 << 10, ..LogOptions::default() };
    FileOptions { log, free_bytes_min: 0, ..FileOptions::default() }
}

async fn open(directory: &Path) -> Result<FileStorage, OpenError> {
    FileStorage::open(&Env::real(), directory, options()).await
}

fn partition(id: u16) -> Partition {
    Partition::new(1, id)
}

fn entries(owner: &Owner, body: &str) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(body.as_bytes()),
        draws: &[],
        raises: &[],
    };
    entries.push(&header, Digest::ZERO, body.as_bytes()).unwrap();
    entries
}

/// Appends one entry at the tail.
async fn append(log: &Log, owner: &Owner, body: &str) {
    let at = log.tail(owner.partition()).await.unwrap();
    log.append(owner, at, &entries(owner, body)).await.unwrap();
}

async fn bodies(log: &Log, partition: Partition) -> Vec<String> {
    let (mut bodies, mut from) = (Vec::new(), PartitionOffset::FIRST);
    loop {
        let read = log.read(partition, from, ReadLimit::default()).await.unwrap();
        if read.is_empty() {
            return bodies;
        }
        bodies.extend(read.iter().map(|(_, entry)| String::from_utf8(entry.body().to_vec()).unwrap()));
        from = read.next();
    }
}

/// A storage with 300 entries in two partitions, over several segments, and its backup.
async fn backed_up(directory: &Path) -> (PathBuf, BackupReport) {
    let storage = open(&directory.join("data")).await.unwrap();
    let owners = storage.log().take_all(&[partition(0), partition(1)]).await.unwrap();
    for turn in 0..150 {
        for owner in &owners {
            append(storage.log(), owner, &format!("turn {turn}")).await;
        }
    }
    storage.store().put(Key::new(b"derived", b""), b"value").await.unwrap();
    let backup = directory.join("backup");
    let report = storage.backup(&backup).await.unwrap();
    storage.close().await.unwrap();
    (backup, report)
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_restored_backup_has_the_same_log_and_an_empty_store() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (backup, report) = backed_up(directory).await;
    assert_eq!((report.frames, report.entries), (301, 300));
    let tails: Vec<_> = report.tails.iter().map(|(partition, tail)| (*partition, tail.get())).collect();
    assert_eq!(tails, [(partition(0), 151), (partition(1), 151)]);
    let segments = names(&backup.join("log"));
    assert!(segments.len() > 3 && segments.iter().all(|name| name.ends_with(".segment")), "{segments:?}");
    let lengths = segments.iter().map(|name| backup.join("log").join(name).metadata().unwrap().len());
    assert_eq!(lengths.sum::<u64>(), report.bytes);

    let again = directory.join("again");
    assert_eq!(restore(&Env::real(), &backup, &again).await.unwrap(), report);
    let indexes = names(&again.join("log")).iter().filter(|name| name.ends_with(".index")).count();
    assert_eq!(indexes, segments.len() - 1, "opening does not have to read the verified segments again");
    let storage = open(&again).await.unwrap();
    for id in 0..2 {
        let expected: Vec<_> = (0..150).map(|turn| format!("turn {turn}")).collect();
        assert_eq!(bodies(storage.log(), partition(id)).await, expected);
    }
    assert_eq!(storage.store().get(Key::new(b"derived", b"")).await.unwrap(), None);

    // The restored storage accepts appends, and its backup has them too.
    let owner = storage.log().take(partition(0)).await.unwrap();
    assert_eq!(owner.epoch().get(), 2);
    for turn in 0..100 {
        append(storage.log(), &owner, &format!("later {turn}")).await;
    }
    let later = storage.backup(&directory.join("later")).await.unwrap();
    assert_eq!((later.frames, later.entries), (402, 400));
    storage.close().await.unwrap();
    assert_eq!(names(directory), ["again", "backup", "data", "later"]);
}

#[tokio::test]
async fn a_storage_with_nothing_in_it_can_be_backed_up() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let storage = open(&directory.join("data")).await.unwrap();
    // An empty folder is accepted.
    fs::create_dir(directory.join("backup")).unwrap();
    let report = storage.backup(&directory.join("backup")).await.unwrap();
    assert_eq!((report.frames, report.entries, report.tails.len()), (0, 0, 0));
    restore(&Env::real(), &directory.join("backup"), &directory.join("again")).await.unwrap();
    assert!(open(&directory.join("again")).await.unwrap().log().partitions().await.unwrap().is_empty());
}

/// Appends to partitions 0 and 1 alternately, each append after the previous one was acknowledged, until it is stopped.
/// Counts the acknowledged ones. Another task appends to a third partition, so that frames have several appends.
struct Writers {
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: Vec<seriatim_env::Task<()>>,
}

impl Writers {
    async fn start(env: &Env, log: &Log) -> Self {
        let owners = log.take_all(&[partition(0), partition(1), partition(2)]).await.unwrap();
        let [first, second, other]: [Owner; 3] = owners.try_into().ok().unwrap();
        let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let alternate = {
            let (log, acknowledged, stop) = (log.clone(), acknowledged.clone(), stop.clone());
            async move {
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    append(&log, if turn % 2 == 0 { &first } else { &second }, &turn.to_string()).await;
                    acknowledged.store(turn + 1, Ordering::Release);
                }
            }
        };
        let other_writer = {
            let (log, stop) = (log.clone(), stop.clone());
            async move {
                let mut turn = 0;
                while !stop.load(Ordering::Relaxed) {
                    append(&log, &other, &format!("{turn} {}", "x".repeat(turn % 900))).await;
                    turn += 1;
                }
            }
        };
        Self { acknowledged, stop, tasks: vec![env.spawn(alternate), env.spawn(other_writer)] }
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_during_appends_is_one_prefix_over_all_partitions() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let env = Env::real();
    let storage = open(&directory.join("data")).await.unwrap();
    let writers = Writers::start(&env, storage.log()).await;
    let rounds = if std::env::var_os("SERIATIM_FULL").is_some() { 60 } else { 12 };
    let mut kept = Vec::new();
    for round in 0..rounds {
        // Each backup begins later in the log than the previous one, at any frame boundary.
        let later = PartitionOffset::new(1 + round * 20).unwrap();
        storage.log().follow(partition(2), later).next(ReadLimit::entries(1)).await.unwrap();
        let acknowledged = writers.acknowledged.load(Ordering::Acquire);
        let backup = directory.join(format!("backup-{round}"));
        let report = storage.backup(&backup).await.unwrap();
        kept.push((backup, acknowledged, report));
    }
    writers.stop().await;
    let whole = bodies(storage.log(), partition(2)).await;
    storage.close().await.unwrap();

    for (round, (backup, acknowledged, report)) in kept.into_iter().enumerate() {
        let again = directory.join(format!("again-{round}"));
        assert_eq!(restore(&env, &backup, &again).await.unwrap(), report);
        let restored = open(&again).await.unwrap();
        let first = bodies(restored.log(), partition(0)).await;
        let second = bodies(restored.log(), partition(1)).await;
        let other = bodies(restored.log(), partition(2)).await;
        restored.close().await.unwrap();
        // An append that followed an acknowledgement is there only if the acknowledged one is.
        let turns = first.len() + second.len();
        assert!(first.len() == second.len() || first.len() == second.len() + 1);
        for turn in 0..turns {
            assert_eq!([&first, &second][turn % 2][turn / 2], turn.to_string());
        }
        assert!(turns as u64 >= acknowledged, "{turns} of {acknowledged} in round {round}");
        assert_eq!(other[..], whole[..other.len()]);
        assert_eq!((turns + other.len()) as u64, report.entries);
    }
}

#[tokio::test]
async fn a_destination_that_cannot_be_used_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let storage = open(&directory.join("data")).await.unwrap();
    fs::create_dir(directory.join("full")).unwrap();
    fs::write(directory.join("full/thesis.txt"), "years of work").unwrap();
    fs::write(directory.join("file"), "").unwrap();
    let destinations = [
        ("full", "is not empty: choose an empty folder or one that does not exist"),
        ("data", "is not empty"),
        ("data/backup", "it is inside"),
        ("file", "it is not a folder"),
        ("..", "is not empty"),
    ];
    for (destination, text) in destinations {
        let error = storage.backup(&directory.join(destination)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(text), "{destination}: {error}");
    }
    assert_eq!(names(&directory.join("full")), ["thesis.txt"]);
    assert_eq!(names(directory), ["data", "file", "full"]);
}

#[tokio::test]
async fn a_backup_is_refused_if_too_little_space_would_stay_free() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let options = FileOptions { free_bytes_min: 1_000, ..options() };
    let probe = Box::new(|_: &Path| Ok(5_000));
    let (env, data) = (Env::real(), directory.join("data"));
    FileStorage::open(&env, &data, options.clone()).await.unwrap().close().await.unwrap();
    let storage = FileStorage::open_with_probe(&env, &data, options, probe).await.unwrap();
    let error = storage.backup(&directory.join("backup")).await.unwrap_err();
    let BackupError::Destination(DestinationError::NoRoom { free_bytes, needed_bytes, .. }) = error else {
        panic!("{error}");
    };
    assert_eq!((free_bytes, needed_bytes), (5_000, 4_096 + 1_000));
    assert_eq!(names(directory), ["data"]);
}

#[tokio::test]
async fn a_log_that_is_closed_cannot_be_backed_up() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(&directory.path().join("data")).await.unwrap();
    storage.log().close().await.unwrap();
    let error = storage.backup(&directory.path().join("backup")).await.unwrap_err();
    assert_eq!(error, BackupError::Log(LogError::Closed));
}

#[tokio::test]
async fn damage_in_the_storage_is_found_by_a_backup_and_no_backup_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    backed_up(directory).await;
    fs::remove_dir_all(directory.join("backup")).unwrap();
    let storage = open(&directory.join("data")).await.unwrap();
    flip(&directory.join("data/log/0000000002.segment"), 4_096 + 1_000);
    let error = storage.backup(&directory.join("backup")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("of 0000000002.segment: the segment is damaged"), "{error}");
    assert_eq!(names(directory), ["data"]);
}

#[tokio::test]
async fn a_backup_is_not_opened_as_a_storage() {
    let directory = tempfile::tempdir().unwrap();
    let (backup, _) = backed_up(directory.path()).await;
    let before = names(&backup);
    let error = open(&backup).await.unwrap_err();
    assert!(matches!(error, OpenError::Backup { .. }), "{error}");
    assert!(error.to_string().ends_with("is a backup: restore it into another folder"), "{error}");
    assert_eq!(names(&backup), before);
}

fn copy(backup: &Path, to: &Path) {
    fs::create_dir_all(to.join("log")).unwrap();
    fs::copy(backup.join("BACKUP"), to.join("BACKUP")).unwrap();
    for name in names(&backup.join("log")) {
        fs::copy(backup.join("log").join(&name), to.join("log").join(&name)).unwrap();
    }
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_backup_is_refused_with_file_and_byte_and_nothing_is_restored() {
    type Damage = fn(&Path);
    let damages: [(&str, ErrorKind, Damage); 12] = [
        ("there is no complete frame at byte 4096 of 0000000001.segment", ErrorKind::Corrupt, |backup| {
            flip(&backup.join("log/0000000001.segment"), 4_096);
        }),
        ("there is no complete frame at byte 4096 of 0000000002.segment", ErrorKind::Corrupt, |backup| {
            flip(&backup.join("log/0000000002.segment"), 4_096 + 60);
        }),
        ("0000000003.segment has a header whose checksum does not match", ErrorKind::Corrupt, |backup| {
            flip(&backup.join("log/0000000003.segment"), 25);
        }),
        ("0000000003.segment ends inside its header", ErrorKind::Corrupt, |backup| {
            fs::write(backup.join("log/0000000003.segment"), "").unwrap();
        }),
        ("0000000002.segment is missing from", ErrorKind::Corrupt, |backup| {
            fs::remove_file(backup.join("log/0000000002.segment")).unwrap();
        }),
        // The last frames are missing, and the rest is complete: only the manifest shows that.
        ("is missing from", ErrorKind::Corrupt, |backup| {
            fs::remove_file(backup.join("log").join(names(&backup.join("log")).last().unwrap())).unwrap();
        }),
        ("there is no complete frame at byte", ErrorKind::Corrupt, |backup| {
            let last = backup.join("log").join(names(&backup.join("log")).last().unwrap());
            let length = fs::metadata(&last).unwrap().len();
            fs::OpenOptions::new().write(true).open(last).unwrap().set_len(length - 8).unwrap();
        }),
        ("BACKUP: its checksum does not match", ErrorKind::Corrupt, |backup| {
            let text = fs::read_to_string(backup.join("BACKUP")).unwrap();
            fs::write(backup.join("BACKUP"), text.replace("entries 300", "entries 301")).unwrap();
        }),
        ("has format 2, and this program reads formats up to 1", ErrorKind::Corrupt, |backup| {
            let text = fs::read_to_string(backup.join("BACKUP")).unwrap();
            fs::write(backup.join("BACKUP"), text.replace("format 1", "format 2")).unwrap();
        }),
        ("has format 3, and this program reads formats up to 2", ErrorKind::Corrupt, |backup| {
            let mut bytes = fs::read(backup.join("log/0000000001.segment")).unwrap();
            bytes[15] = 3;
            fs::write(backup.join("log/0000000001.segment"), bytes).unwrap();
        }),
        ("is not a backup of seriatim: it has no file BACKUP", ErrorKind::Invalid, |backup| {
            fs::remove_file(backup.join("BACKUP")).unwrap();
        }),
        (
            "is not a backup of seriatim: its file BACKUP is not one of a backup",
            ErrorKind::Invalid,
            |backup| {
                fs::write(backup.join("BACKUP"), b"\xff dear").unwrap();
            },
        ),
    ];
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (whole, _) = backed_up(directory).await;
    for (turn, (text, kind, damage)) in damages.into_iter().enumerate() {
        let backup = directory.join("damaged-backup");
        copy(&whole, &backup);
        damage(&backup);
        let error = restore(&Env::real(), &backup, &directory.join("again")).await.unwrap_err();
        assert!(error.to_string().contains(text), "{turn}: {error}");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("damaged-backup"), "{error}");
        assert_eq!(names(directory), ["backup", "damaged-backup", "data"], "{error}");
        fs::remove_dir_all(backup).unwrap();
    }
}

#[tokio::test]
async fn a_storage_and_a_missing_folder_are_no_backups() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    backed_up(directory).await;
    for source in ["data", "missing", "data/SERIATIM"] {
        let error =
            restore(&Env::real(), &directory.join(source), &directory.join("again")).await.unwrap_err();
        assert!(matches!(error, RestoreError::NotABackup { .. }), "{source}: {error}");
    }
    let error = restore(&Env::real(), &directory.join("backup"), &directory.join("data")).await.unwrap_err();
    assert!(matches!(error, RestoreError::Destination(DestinationError::NotEmpty { .. })), "{error}");
    let error =
        restore(&Env::real(), &directory.join("backup"), &directory.join("backup/in")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(names(directory), ["backup", "data"]);
}

#[tokio::test]
async fn a_staged_restore_can_be_changed_before_it_is_finished_and_is_removed_if_it_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (backup, report) = backed_up(directory).await;
    let again = directory.join("again");
    let staged = stage_restore(&Env::real(), &backup, &again).await.unwrap();
    assert_eq!(staged.report(), &report);
    drop(staged);
    assert_eq!(names(directory), ["backup", "data"]);

    let staged = stage_restore(&Env::real(), &backup, &again).await.unwrap();
    let storage = staged.open(FileOptions::default()).await.unwrap();
    let owner = storage.log().take(partition(9)).await.unwrap();
    append(storage.log(), &owner, "fenced").await;
    storage.close().await.unwrap();
    assert!(!again.exists());
    staged.finish().await.unwrap();
    let storage = open(&again).await.unwrap();
    assert_eq!(bodies(storage.log(), partition(9)).await, ["fenced"]);
    assert_eq!(bodies(storage.log(), partition(0)).await.len(), 150);
    assert_eq!(names(directory), ["again", "backup", "data"]);
}

#[tokio::test]
async fn of_two_restores_to_one_destination_the_second_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (backup, _) = backed_up(directory).await;
    let again = directory.join("again");
    let first = stage_restore(&Env::real(), &backup, &again).await.unwrap();
    let second = stage_restore(&Env::real(), &backup, &again).await.unwrap();
    first.finish().await.unwrap();
    let error = second.finish().await.unwrap_err();
    assert!(matches!(error, RestoreError::Destination(DestinationError::NotEmpty { .. })), "{error}");
    assert_eq!(bodies(open(&again).await.unwrap().log(), partition(0)).await.len(), 150);
    assert_eq!(names(directory), ["again", "backup", "data"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bulletin_of_a_backup_is_never_ahead_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Arc::new(open(&directory.path().join("data")).await.unwrap());
    let env = Env::real();
    let stop = Arc::new(AtomicBool::new(false));
    // As with a projector: an entry is committed, and then its offset is written to the bulletin.
    let writing = {
        let (storage, stop) = (storage.clone(), stop.clone());
        env.spawn(async move {
            let owner = storage.log().take(partition(0)).await.unwrap();
            while !stop.load(Ordering::Relaxed) {
                append(storage.log(), &owner, "x").await;
                let tail = storage.log().tail(partition(0)).await.unwrap();
                storage.log().bulletin().put("seen", &tail.get().to_be_bytes()).await.unwrap();
            }
        })
    };
    while storage.log().bulletin().get("seen").await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    for round in 0..8 {
        let [backup, copy] = ["backup", "copy"].map(|name| directory.path().join(format!("{name}-{round}")));
        storage.backup(&backup).await.unwrap();
        restore(&env, &backup, &copy).await.unwrap();
        let restored = open(&copy).await.unwrap();
        let tail = restored.log().tail(partition(0)).await.unwrap().get();
        let seen = restored.log().bulletin().get("seen").await.unwrap().unwrap();
        let seen = u64::from_be_bytes(seen[..].try_into().unwrap());
        assert!(seen <= tail, "{seen} was posted, and the log ends at {tail}");
        restored.close().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    writing.await.unwrap();
}

#[tokio::test]
async fn a_backup_with_a_damaged_bulletin_is_refused_and_one_without_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(&directory.path().join("data")).await.unwrap();
    storage.log().bulletin().put("seen", b"17").await.unwrap();
    let backup = directory.path().join("backup");
    storage.backup(&backup).await.unwrap();
    storage.close().await.unwrap();
    let (env, copy) = (Env::real(), directory.path().join("copy"));
    let bulletin = backup.join("log").join("bulletin");
    flip(&bulletin, 20);
    let error = restore(&env, &backup, &copy).await.unwrap_err();
    assert!(error.to_string().contains("log/bulletin: its checksum does not match"), "{error}");
    assert!(!copy.exists());
    fs::remove_file(&bulletin).unwrap();
    restore(&env, &backup, &copy).await.unwrap();
    let restored = open(&copy).await.unwrap();
    assert_eq!(restored.log().bulletin().get("seen").await, Ok(None));
    restored.close().await.unwrap();
}

#[tokio::test]
async fn a_restored_storage_has_the_identity_and_the_holders_of_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let storage = open(&directory.path().join("data")).await.unwrap();
    let (first, second) = (LogIdentity::from_bytes([1; 16]), LogIdentity::from_bytes([2; 16]));
    let (env, backups) = (Env::real(), ["none", "one"].map(|name| directory.path().join(name)));
    // An existing storage without an identity gets one at the first call that creates it, and so does a copy of it.
    storage.backup(&backups[0]).await.unwrap();
    assert_eq!(storage.log().identity().await, Ok(None));
    assert_eq!(storage.log().identify(first).await, Ok(first));
    let take = Take::new(Holder::new("node 1"), 17);
    storage.log().take_over(partition(0), None, &take).await.unwrap();
    storage.backup(&backups[1]).await.unwrap();
    storage.close().await.unwrap();
    for (backup, expected) in backups.iter().zip([second, first]) {
        let copy = backup.with_extension("restored");
        restore(&env, backup, &copy).await.unwrap();
        let restored = open(&copy).await.unwrap();
        assert_eq!(restored.log().identify(second).await, Ok(expected));
        let held = restored.log().holder(partition(0)).await.unwrap();
        assert_eq!(held.map(|held| held.take), (expected == first).then(|| take.clone()));
        restored.close().await.unwrap();
    }
    flip(&backups[1].join("log").join("identity"), 20);
    let error = restore(&env, &backups[1], &directory.path().join("copy")).await.unwrap_err();
    assert!(error.to_string().contains("log/identity: its checksum does not match"), "{error}");
}

#[tokio::test]
async fn an_interrupted_restore_is_refused_also_under_its_destinations_name() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (backup, report) = backed_up(directory).await;
    let again = directory.join("again");
    let staged = stage_restore(&Env::real(), &backup, &again).await.unwrap();
    let refused = async |path: &Path| {
        let error = open(path).await.unwrap_err();
        assert!(matches!(error, OpenError::UnfinishedRestore { .. }), "{error}");
        assert!(error.to_string().contains("remove it and restore the backup again"), "{error}");
        let error = FileStorage::discard_store(&Env::real(), path).await.unwrap_err();
        assert!(matches!(error, OpenError::UnfinishedRestore { .. }), "{error}");
    };
    // Between staging and fencing, and between fencing and finishing.
    refused(staged.directory()).await;
    staged.open(FileOptions::default()).await.unwrap().close().await.unwrap();
    refused(staged.directory()).await;
    // A crash leaves the folder, and a user may rename it.
    let left = directory.join("left");
    fs::rename(staged.directory(), &left).unwrap();
    refused(&left).await;
    drop(staged);
    assert_eq!(restore(&Env::real(), &backup, &again).await.unwrap(), report);
    assert_eq!(names(&again), ["SERIATIM", "log"]);
    open(&again).await.unwrap().close().await.unwrap();
}
