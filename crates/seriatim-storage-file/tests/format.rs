//! The format promise: folders that earlier format versions wrote can be opened and used. They are kept in `tests/stored`:
//! `format-1` has a log and a store of version 1, and `log-2` has a log of version 2, with an identity.
//!
//! They are never written again. A new format version gets a separate folder, made once with
//!
//! ```text
//! SERIATIM_STORE_FORMAT=crates/seriatim-storage-file/tests/stored/log-N \
//!     cargo test -p seriatim-storage-file --test format
//! ```
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use seriatim_env::Env;
use seriatim_storage::{
    ClusteringRange, Digest, Draw, Durability, Entries, Header, Holder, Key, LogIdentity, Owner, Raise,
    ReadLimit, Take,
};
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions};
use seriatim_types::{
    Number, Partition, PartitionOffset, SequenceId, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

const EVENTS: u64 = 40;
const PARTITION: Partition = Partition::new(1, 2);
const IDENTITY: LogIdentity = LogIdentity::from_bytes(*b"the stored log 2");

fn holder() -> Take {
    Take::new(Holder::new("node ä"), 0x0102_0304_0506_0708)
}

fn options() -> FileOptions {
    let log = LogOptions { segment_bytes: 8 << 10, ..LogOptions::default() };
    FileOptions { log, free_bytes_min: 0, ..FileOptions::default() }
}

fn body(event: u64) -> Vec<u8> {
    format!("event {event} {}", "x".repeat(usize::try_from(event).unwrap() * 7)).into_bytes()
}

/// Adds one event. Its number is drawn for it; the tenth event also has a raise.
fn push(entries: &mut Entries, event: u64, previous: Digest) -> Digest {
    let body = body(event);
    let draw = Draw { sequence: SequenceId::new(3), first: Number::new(event), count: 1 };
    let raise = Raise { sequence: SequenceId::new(4), next: Number::new(5_001) };
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(2),
        workspace_offset: WorkspaceOffset::new(event).unwrap(),
        time: Timestamp::from_millis(1_767_225_600_000 + event),
        body_digest: Digest::of(&body),
        draws: &[draw],
        raises: if event == 10 { &[raise] } else { &[] },
    };
    entries.push(&header, previous, &body).unwrap()
}

async fn append(storage: &FileStorage, owner: &Owner, event: u64, previous: Digest) -> Digest {
    let mut entries = Entries::new(owner.next_append_id());
    let chain = push(&mut entries, event, previous);
    storage.log().append(owner, PartitionOffset::new(event).unwrap(), &entries).await.unwrap();
    chain
}

async fn store(directory: &Path) {
    let storage = FileStorage::open(&Env::real(), directory, options()).await.unwrap();
    storage.log().identify(IDENTITY).await.unwrap();
    let owner = storage.log().take_over(PARTITION, None, &holder()).await.unwrap();
    let mut chain = Digest::ZERO;
    for event in 1..=EVENTS {
        chain = append(&storage, &owner, event, chain).await;
    }
    let mut batch = seriatim_storage::Batch::new();
    for key in 0..20_u8 {
        batch.put(Key::new(b"partition", &[key]), &[key; 10]);
    }
    batch.put(Key::new(b"", b""), b"");
    storage.store().write(batch, Durability::Synced).await.unwrap();
    storage.close().await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Copies a stored folder to where it can be changed.
fn stored(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored").join(name), directory.path());
    directory
}

/// Checks all events of a stored log. Returns the head of the chain.
async fn check_log(storage: &FileStorage) -> Digest {
    assert_eq!(storage.log().partitions().await.unwrap(), [PARTITION]);
    let read = storage.log().read(PARTITION, PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
    assert_eq!(read.len() as u64, EVENTS);
    let mut chain = Digest::ZERO;
    for (offset, entry) in read.iter() {
        let event = offset.get();
        assert_eq!(entry.body(), body(event));
        assert!(entry.body_is_intact() && entry.continues(chain));
        assert_eq!(entry.workspace_offset().get(), event);
        assert_eq!(entry.draws().map(|draw| draw.first.get()).collect::<Vec<_>>(), [event]);
        assert_eq!(
            entry.raises().map(|raise| raise.next.get()).sum::<u64>(),
            if event == 10 { 5_001 } else { 0 }
        );
        chain = entry.chain();
    }
    assert_eq!(chain.to_string(), CHAIN_HEAD);
    chain
}

#[tokio::test]
async fn a_folder_of_format_1_can_be_opened_read_and_appended_to() {
    if let Some(directory) = std::env::var_os("SERIATIM_STORE_FORMAT") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        return store(&root.join(directory)).await;
    }
    let directory = stored("format-1");
    let storage = FileStorage::open(&Env::real(), directory.path(), options()).await.unwrap();
    let chain = check_log(&storage).await;

    // None of these keys is one of the engine's (`seriatim-engine`), so they are kept, in the store and as cells.
    for number in 0..20_u8 {
        let value = storage.cells().get(Key::new(b"partition", &[number])).await.unwrap();
        assert_eq!(value.as_deref(), Some(&[number; 10][..]));
    }
    assert_eq!(storage.cells().get(Key::new(b"", b"")).await.unwrap().as_deref(), Some(&b""[..]));
    let left = storage.store().scan(b"partition", ClusteringRange::all()).all().await.unwrap();
    assert_eq!(left.len(), 20);

    let owner = storage.log().take(PARTITION).await.unwrap();
    assert_eq!((owner.epoch().get(), owner.tail().get()), (2, EVENTS + 1));
    append(&storage, &owner, EVENTS + 1, chain).await;
    storage.close().await.unwrap();
}

#[tokio::test]
async fn a_log_of_version_2_has_its_identity_and_its_holder() {
    let directory = stored("log-2");
    let storage = FileStorage::open(&Env::real(), directory.path(), options()).await.unwrap();
    let chain = check_log(&storage).await;
    assert_eq!(storage.log().identity().await, Ok(Some(IDENTITY)));
    let held = storage.log().holder(PARTITION).await.unwrap().unwrap();
    assert_eq!((held.epoch.get(), held.take, held.tail.get()), (1, holder(), EVENTS + 1));
    let owner = storage.log().take(PARTITION).await.unwrap();
    append(&storage, &owner, EVENTS + 1, chain).await;
    storage.close().await.unwrap();
}

/// The format versions of a segment's header and of the frames in it.
fn versions(segment: &Path) -> (u32, Vec<u32>) {
    let bytes = std::fs::read(segment).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut frames) = (4_096, Vec::new());
    while bytes.len() > at && bytes[at..at + 8] == bytes[24..32] {
        frames.push(number(at + 16));
        at += (32 + usize::try_from(number(at + 12)).unwrap()).next_multiple_of(8);
    }
    (number(12), frames)
}

#[tokio::test]
async fn what_is_added_to_a_log_of_version_1_has_version_2_so_that_an_earlier_program_refuses_it() {
    let directory = stored("format-1");
    let segment = directory.path().join("log/0000000004.segment");
    let (header, before) = versions(&segment);
    assert!(header == 1 && !before.is_empty() && before.iter().all(|version| *version == 1));

    // Opening alone changes nothing, and neither does a look at the holder, who has no name in version 1.
    let storage = FileStorage::open(&Env::real(), directory.path(), options()).await.unwrap();
    let held = storage.log().holder(PARTITION).await.unwrap().unwrap();
    assert_eq!(
        (held.epoch.get(), held.take, held.tail.get()),
        (1, Take::new(Holder::unnamed(), 0), EVENTS + 1)
    );
    storage.close().await.unwrap();
    assert_eq!(versions(&segment), (1, before.clone()));

    let storage = FileStorage::open(&Env::real(), directory.path(), options()).await.unwrap();
    storage.log().take_over(PARTITION, Some(held.epoch), &holder()).await.unwrap();
    storage.close().await.unwrap();
    assert_eq!(versions(&segment), (1, [&before[..], &[2]].concat()));
    let storage = FileStorage::open(&Env::real(), directory.path(), options()).await.unwrap();
    let held = storage.log().holder(PARTITION).await.unwrap().unwrap();
    assert_eq!((held.epoch.get(), held.take), (2, holder()));
    check_log(&storage).await;
    storage.close().await.unwrap();
}

/// The head of the workspace's chain in the stored folder.
const CHAIN_HEAD: &str = "9a29367fde48f0ecdfd38fac51e6e0f3557ea860c91d00b15e3fa9573ed34b52";
