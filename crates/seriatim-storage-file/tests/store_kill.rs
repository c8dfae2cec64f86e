//! A writer in a process of its own, killed or starved of space.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seriatim_env::Env;
use seriatim_storage::{Batch, Durability, Key, Store};
use seriatim_storage_file::{StoreOptions, TreeStore};
use seriatim_types::ErrorKind;

/// Set in the process that writes: where.
const DIRECTORY: &str = "SERIATIM_STORE_KILL_DIRECTORY";

/// Writes per batch: all of them are there, or none.
const BATCH: u64 = 5;

/// A small memtable, so that kills hit flushes too.
fn open(directory: &Path) -> Store {
    let options = StoreOptions { memtable_bytes: 128 << 10, ..StoreOptions::default() };
    Store::new(TreeStore::open(Env::real(), directory, options).unwrap())
}

fn rounds() -> u64 {
    if std::env::var_os("SERIATIM_FULL").is_some() { 50 } else { 5 }
}

/// The directory, in the process that is to write.
fn directory_of_child() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// The test of this name, in a process of its own, started by a shell with these commands first.
fn child(test: &str, directory: &Path, first: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{first} exec \"$0\" --exact {test} --nocapture")])
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Writes batches 0, 1, 2, …, every eighth one synced, and counts each in a conditional write. Says what it has done.
async fn write_for_ever(store: &Store) {
    let counter = Key::new(b"counter", b"");
    let mut next = match store.get(counter).await.unwrap() {
        Some(count) => number(&count),
        None => 0,
    };
    if next == 0 {
        store.insert_if_absent(counter, &0_u64.to_be_bytes()).await.unwrap();
    }
    loop {
        let mut batch = Batch::new();
        for part in 0..BATCH {
            batch.put(Key::new(&part.to_be_bytes(), &next.to_be_bytes()), &[7; 300]);
        }
        let durability = if next.is_multiple_of(8) { Durability::Synced } else { Durability::Buffered };
        store.write(batch, durability).await.unwrap();
        let counted = next + 1;
        assert!(store.compare_and_swap(counter, &next.to_be_bytes(), &counted.to_be_bytes()).await.unwrap());
        next = counted;
        say(&format!("done {next};"));
    }
}

#[tokio::test]
async fn kill_9_loses_nothing_acknowledged_and_halves_no_batch() {
    if let Some(directory) = directory_of_child() {
        return write_for_ever(&open(&directory)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut done = 0;
    for round in 0..rounds() {
        let test = "kill_9_loses_nothing_acknowledged_and_halves_no_batch";
        let mut child = child(test, directory.path(), "").spawn().unwrap();
        let enough = done + 20 + 37 * round;
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let said = line.strip_prefix("done ").and_then(|line| line.strip_suffix(';'));
            done = said.map_or(done, |said| said.parse().unwrap());
            if done >= enough {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(done >= enough, "the writer ended by itself");

        let store = open(directory.path());
        let counted = number(&store.get(Key::new(b"counter", b"")).await.unwrap().unwrap());
        assert!(counted >= done, "{done} were acknowledged and {counted} are there");
        let mut written = Vec::new();
        for part in 0..BATCH {
            let pairs = store.scan(&part.to_be_bytes(), Default::default()).all().await.unwrap();
            // A prefix: 0, 1, 2, … without a hole.
            assert!((0..).zip(&pairs).all(|(expected, (clustering, _))| number(clustering) == expected));
            written.push(pairs.len() as u64);
        }
        assert!(written.iter().all(|count| *count == written[0]), "half a batch is there: {written:?}");
        assert!((counted..=counted + 1).contains(&written[0]), "{counted} counted, {} there", written[0]);
        done = counted;
    }
}

/// Writes until the file-size limit that the shell has set stops it, and tells how it goes on.
async fn write_until_refused(store: &Store) {
    let mut acknowledged = 0_u64;
    let error = loop {
        let mut batch = Batch::new();
        batch.put(Key::new(b"p", &acknowledged.to_be_bytes()), &[7; 100_000]);
        match store.write(batch, Durability::Synced).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
    let key = Key::new(b"q", b"");
    for _ in 0..3 {
        let refused = store.put(key, b"").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        let refused = store.insert_if_absent(key, b"").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    }
    assert_eq!(store.get(key).await.unwrap(), None);
    assert!(store.get(Key::new(b"p", &0_u64.to_be_bytes())).await.unwrap().is_some());
    assert_eq!(store.close().await.unwrap_err().kind(), ErrorKind::InDoubt);
    say(&format!("acknowledged {acknowledged};"));
}

#[tokio::test]
async fn a_write_that_the_disk_refuses_is_in_doubt_and_the_last_one() {
    let test = "a_write_that_the_disk_refuses_is_in_doubt_and_the_last_one";
    if let Some(directory) = directory_of_child() {
        // A large memtable: the journal has to meet the limit, not a flush.
        let options = StoreOptions::default();
        let store = Store::new(TreeStore::open(Env::real(), &directory, options).unwrap());
        return write_until_refused(&store).await;
    }
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).close().await.unwrap();
    // 4 or 8 MiB, by the shell's idea of a block.
    let output = child(test, directory.path(), "trap '' XFSZ; ulimit -f 8192;").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line =
        said.lines().find_map(|line| line.strip_prefix("acknowledged ")).unwrap_or_else(|| panic!("{said}"));
    let acknowledged: u64 = line.strip_suffix(';').unwrap().parse().unwrap();
    assert!(acknowledged > 10);

    let store = open(directory.path());
    let there = store.scan(b"p", Default::default()).all().await.unwrap().len() as u64;
    assert!(there >= acknowledged, "{acknowledged} acknowledged, {there} there");
    store.put(Key::new(b"q", b""), b"").await.unwrap();
}
