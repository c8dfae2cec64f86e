//! A writer in a separate process, killed under load, many times.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use seriatim_env::Env;
use seriatim_storage::{Digest, Entries, Header, Log, Owner, ReadLimit};
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions};
use seriatim_types::{Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset};

const CHILD_DIRECTORY: &str = "SERIATIM_KILL_DIRECTORY";
const WRITERS: usize = 8;
const PARTITIONS: u16 = 3;

/// Small segments, so that kills happen at the change from one to the next.
fn options() -> FileOptions {
    let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
    FileOptions { log, free_bytes_min: 0, ..FileOptions::default() }
}

fn rounds() -> u32 {
    if std::env::var_os("SERIATIM_FULL").is_some() { 50 } else { 6 }
}

#[test]
fn kill_9_under_load_loses_no_acknowledged_append_and_splits_no_batch() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(directory) = std::env::var_os(CHILD_DIRECTORY) {
        runtime.block_on(write_until_the_end(Path::new(&directory)));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::new();
    for round in 0..rounds() {
        acknowledged.append(&mut write_until_killed(directory.path(), round));
        let batches = runtime.block_on(check(directory.path(), &acknowledged));
        println!("round {round}: {} batches acknowledged so far, {batches} found", acknowledged.len());
    }
}

/// The place of each acknowledged batch: name → (partition, offset).
type Acknowledged = BTreeMap<String, (u16, u64)>;

/// Starts a writer, waits for some acknowledged appends, and kills it at an arbitrary time after that.
fn write_until_killed(directory: &Path, round: u32) -> Acknowledged {
    let mut child = spawn_writer(directory);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Acknowledged::new();
    let enough = 50 + round as usize * 37;
    let mut killed = false;
    for line in lines.map_while(Result::ok) {
        // The kill may cut off the last line. Then the batch does not count as acknowledged.
        if let Some((name, place)) = parse(&line) {
            acknowledged.insert(name, place);
        }
        if acknowledged.len() >= enough && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    let status = child.wait().unwrap();
    assert!(killed, "the writer ended by itself: {status}");
    acknowledged
}

fn parse(line: &str) -> Option<(String, (u16, u64))> {
    let mut words = line.strip_prefix("ack ")?.split(' ');
    let place = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next().filter(|name| name.ends_with(';'))?;
    Some((name.to_owned(), place))
}

fn spawn_writer(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill_9_under_load_loses_no_acknowledged_append_and_splits_no_batch",
            "--nocapture",
        ])
        .env(CHILD_DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn write_until_the_end(directory: &Path) {
    let env = Env::real();
    let storage = FileStorage::open(&env, directory, options()).await.unwrap();
    let log = storage.log().clone();
    let partitions: Vec<_> = (0..PARTITIONS).map(|id| Partition::new(1, id)).collect();
    let owners = log.take_all(&partitions).await.unwrap();
    let owners: Vec<_> =
        owners.into_iter().map(|owner| Arc::new((Mutex::new(owner.tail()), owner))).collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (log, owner) = (log.clone(), owners[writer % usize::from(PARTITIONS)].clone());
            env.spawn(async move { write(&log, &owner.0, &owner.1, writer).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn write(log: &Log, tail: &Mutex<PartitionOffset>, owner: &Owner, writer: usize) {
    for batch in 0.. {
        let name = format!("{}.{writer}.{batch};", std::process::id());
        let entries = entries(owner, &name, 1 + (batch + writer) % 7);
        let answer = {
            let mut tail = tail.lock().unwrap();
            let answer = log.append(owner, *tail, &entries);
            *tail = tail.advance(entries.len() as u64).unwrap();
            answer
        };
        let receipt = answer.await.unwrap();
        let line = format!("ack {} {} {name}\n", owner.partition().id, receipt.first());
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

fn entries(owner: &Owner, name: &str, count: usize) -> Entries {
    let mut entries = Entries::new(owner.next_append_id());
    for index in 0..count {
        let body = format!("{name} {index} {count} {}", "x".repeat(index * 31));
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

/// Checks that every acknowledged batch is at its place and that every batch is complete. Returns how many there are.
async fn check(directory: &Path, acknowledged: &Acknowledged) -> usize {
    let storage = FileStorage::open(&Env::real(), directory, options()).await.unwrap();
    let mut found = Acknowledged::new();
    for id in 0..PARTITIONS {
        check_partition(storage.log(), id, &mut found).await;
    }
    for (name, place) in acknowledged {
        assert_eq!(found.get(name), Some(place), "acknowledged and missing: {name}");
    }
    storage.close().await.unwrap();
    found.len()
}

async fn check_partition(log: &Log, id: u16, found: &mut Acknowledged) {
    let mut from = PartitionOffset::FIRST;
    let mut expected = 0;
    loop {
        let read = log.read(Partition::new(1, id), from, ReadLimit::default()).await.unwrap();
        if read.is_empty() {
            assert_eq!(expected, 0, "the last batch of partition {id} is not complete");
            return;
        }
        for (offset, entry) in read.iter() {
            assert!(entry.body_is_intact());
            let body = std::str::from_utf8(entry.body()).unwrap();
            let mut words = body.split(' ');
            let name = words.next().unwrap();
            let mut number = || words.next().unwrap().parse::<usize>().unwrap();
            let (index, count) = (number(), number());
            assert_eq!(index, expected, "a batch is not complete at {offset} of partition {id}: {body}");
            expected = (index + 1) % count;
            if index == 0 {
                assert_eq!(found.insert(name.to_owned(), (id, offset.get())), None, "twice: {body}");
            }
        }
        from = read.next();
    }
}
