//! The log on a simulated disk whose power can be cut.

mod copy;
mod crash;
mod damage;
mod space;
mod take;

use std::path::Path;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{AppendError, Digest, Entries, Header, Log, LogError, Owner, ReadLimit, Receipt};
use seriatim_types::{Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use super::*;
use crate::disk::SimulatedDisk;

const DIRECTORY: &str = "log";

/// Small segments, so that tests use many of them.
const OPTIONS: LogOptions = LogOptions { segment_bytes: 16 << 10, queue_bytes: 1 << 20 };

fn partition(id: u16) -> Partition {
    Partition::new(1, id)
}

fn open_backend(disk: &SimulatedDisk) -> Result<FileLog, LogError> {
    let space = FreeSpace::new(Path::new(DIRECTORY), 0, Box::new(|_| Ok(u64::MAX)));
    let (disk, space) = (Arc::new(disk.clone()), Arc::new(space));
    FileLog::open(&Env::real(), disk, Path::new(DIRECTORY), OPTIONS, space, OpenMode::CreateIfMissing, None)
}

fn open_log(disk: &SimulatedDisk) -> Result<Log, LogError> {
    open_backend(disk).map(Log::new)
}

/// A batch of entries whose bodies name the batch, so that an incomplete batch can be recognized.
fn batch(owner: &Owner, name: &str, count: usize) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    for index in 0..count {
        let body = format!("{name} {index}/{count}");
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
    }
    entries
}

async fn append(
    log: &Log,
    owner: &Owner,
    at: PartitionOffset,
    name: &str,
    count: usize,
) -> Result<Receipt, AppendError> {
    log.append(owner, at, &batch(owner, name, count)).await
}

/// All bodies of a partition.
async fn bodies(log: &Log, partition: Partition) -> Result<Vec<String>, LogError> {
    let mut bodies = Vec::new();
    let mut from = PartitionOffset::FIRST;
    loop {
        let read = log.read(partition, from, ReadLimit::default()).await?;
        if read.is_empty() {
            return Ok(bodies);
        }
        bodies.extend(read.iter().map(|(_, entry)| String::from_utf8(entry.body().to_vec()).unwrap()));
        from = read.next();
    }
}

#[tokio::test]
async fn entries_are_found_in_every_segment_after_a_reopen() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owners = log.take_all(&[partition(0), partition(1)]).await.unwrap();
    for round in 0..200 {
        for owner in &owners {
            let at = log.tail(owner.partition()).await.unwrap();
            append(&log, owner, at, &format!("{round}"), 1 + round % 3).await.unwrap();
        }
    }
    let before = (bodies(&log, partition(0)).await.unwrap(), bodies(&log, partition(1)).await.unwrap());
    assert_eq!(before.0.len(), 199 + 200);
    log.close().await.unwrap();
    let segments =
        disk.list(Path::new(DIRECTORY)).unwrap().iter().filter(|name| name.ends_with(".segment")).count();
    assert!(segments > 5, "{segments} segments");

    let log = open_log(&disk).unwrap();
    let after = (bodies(&log, partition(0)).await.unwrap(), bodies(&log, partition(1)).await.unwrap());
    assert_eq!(before, after);
    for from in [1, 2, 57, 200, 398, 399, 400] {
        let read =
            log.read(partition(0), PartitionOffset::new(from).unwrap(), ReadLimit::entries(1)).await.unwrap();
        let found = read.iter().next().map(|(_, entry)| String::from_utf8(entry.body().to_vec()).unwrap());
        assert_eq!(found.as_ref(), before.0.get(usize::try_from(from).unwrap() - 1), "offset {from}");
    }
}

#[tokio::test]
async fn an_append_larger_than_a_segment_gets_one_of_its_own_size() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    append(&log, &owner, owner.tail(), "large", 500).await.unwrap();
    append(&log, &owner, PartitionOffset::new(501).unwrap(), "small", 1).await.unwrap();
    log.close().await.unwrap();
    let log = open_log(&disk).unwrap();
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 501);
}

#[tokio::test]
async fn a_missing_or_damaged_index_is_rebuilt() {
    let disk = SimulatedDisk::new();
    let log = open_log(&disk).unwrap();
    let owner = log.take(partition(0)).await.unwrap();
    let mut at = owner.tail();
    for round in 0..60 {
        at = append(&log, &owner, at, &format!("{round}"), 10).await.unwrap().next();
    }
    log.close().await.unwrap();
    let names = disk.list(Path::new(DIRECTORY)).unwrap();
    let indexes: Vec<_> = names.iter().filter(|name| name.ends_with(".index")).collect();
    assert!(indexes.len() > 3);
    for (turn, name) in indexes.iter().enumerate() {
        let path = Path::new(DIRECTORY).join(name);
        match turn % 3 {
            0 => disk.remove(&path).unwrap(),
            1 => disk.damage(&path, 20, |bytes| bytes[0] ^= 1),
            _ => {}
        }
    }
    let log = open_log(&disk).unwrap();
    assert_eq!(bodies(&log, partition(0)).await.unwrap().len(), 600);
    assert_eq!(log.tail(partition(0)).await.unwrap(), at);
}
