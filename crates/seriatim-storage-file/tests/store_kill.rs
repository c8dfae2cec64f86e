//! A writer in a separate process that is killed, or whose disk is full.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seriatim_env::Env;
use seriatim_storage::{Batch, Cells, ClusteringRange, Durability, Key, Store};
use seriatim_storage_file::{FileCells, StoreOptions, TreeStore};
use seriatim_types::ErrorKind;

/// The variable with the directory, set in the process that writes.
const DIRECTORY: &str = "SERIATIM_STORE_KILL_DIRECTORY";

/// Keys whose value is the number of the last batch, so that newer values replace older ones.
const SHARED: u64 = 5;

/// Few bytes are gathered, so that kills happen during ingestions and compactions too.
fn open(directory: &Path) -> Store {
    let options = StoreOptions { gather_bytes: 32 << 10, ..StoreOptions::default() };
    Store::new(TreeStore::open(Env::real(), &directory.join("store"), options).unwrap())
}

fn open_cells(directory: &Path) -> Cells {
    Cells::new(FileCells::new(Env::real(), &directory.join("cells")))
}

/// The directory, in the process that writes.
fn directory_of_child() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

/// The test of this name, in a separate process, started by a shell that runs these commands first.
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

/// Batch `number`: its number under the shared keys, one more key, and the removal of that key of the batch two before it.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for shared in 0..SHARED {
        batch.put(Key::new(b"shared", &shared.to_be_bytes()), &number.to_be_bytes());
    }
    batch.put(Key::new(b"own", &number.to_be_bytes()), &[7; 300]);
    if let Some(old) = number.checked_sub(2) {
        batch.remove(Key::new(b"own", &old.to_be_bytes()));
    }
    batch
}

/// Writes batches in order, every eighth one synced, from the one after the last stored one. Prints which ones are durable.
async fn write_until_killed(directory: &Path) {
    let (store, cells) = (open(directory), open_cells(directory));
    let first = 0_u64.to_be_bytes();
    let key = Key::new(b"shared", &first);
    let mut next = store.get(key).await.unwrap().map_or(0, |last| number(&last) + 1);
    let counter = Key::new(b"counter", b"");
    let mut counted = cells.get(counter).await.unwrap();
    loop {
        let synced = next.is_multiple_of(8);
        let durability = if synced { Durability::Synced } else { Durability::Buffered };
        store.write(batch(next), durability).await.unwrap();
        if synced {
            let value = next.to_be_bytes();
            let written = match &counted {
                None => cells.insert_if_absent(counter, &value).await.unwrap(),
                Some(before) => cells.compare_and_swap(counter, before, &value).await.unwrap(),
            };
            assert!(written);
            counted = Some(value.to_vec().into());
            print_line(&format!("durable {next};"));
        }
        next += 1;
    }
}

/// Checks that the store has exactly the content after one of the batches. Returns its number.
async fn check(store: &Store) -> Option<u64> {
    let shared = store.scan(b"shared", ClusteringRange::all()).all().await.unwrap();
    let own = store.scan(b"own", ClusteringRange::all()).all().await.unwrap();
    let own: Vec<_> = own.iter().map(|(clustering, _)| number(clustering)).collect();
    let Some((_, last)) = shared.first() else {
        assert!(own.is_empty());
        return None;
    };
    let last = number(last);
    assert_eq!(shared.len() as u64, SHARED);
    assert!(shared.iter().all(|(_, value)| number(value) == last), "a part of a batch is there: {shared:?}");
    assert_eq!(own, (last.saturating_sub(1)..=last).collect::<Vec<_>>());
    Some(last)
}

#[tokio::test]
async fn kill_9_loses_nothing_durable_and_splits_no_batch() {
    if let Some(directory) = directory_of_child() {
        return write_until_killed(&directory).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let (env, mut durable) = (Env::real(), None);
    for round in 0..50_u64 {
        let test = "kill_9_loses_nothing_durable_and_splits_no_batch";
        let mut child = child(test, directory.path(), "").spawn().unwrap();
        // Kill at once, or after some batches; and then after a random time.
        let mut rest = env.random_below(12);
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
            let said = line.strip_prefix("durable ").and_then(|line| line.strip_suffix(';'));
            let Some(said) = said else { continue };
            durable = Some(said.parse::<u64>().unwrap());
            if rest == 0 {
                let pause = std::time::Duration::from_micros(env.random_below(3_000));
                env.sleep(pause).await;
                child.kill().unwrap();
            }
            rest = rest.saturating_sub(1);
        }
        child.wait().unwrap();
        let durable = durable.expect("the writer ended by itself");
        let store = open(directory.path());
        let last = check(&store).await.unwrap();
        assert!(last >= durable, "{durable} was durable and {last} is there, in round {round}");
        let counted = open_cells(directory.path()).get(Key::new(b"counter", b"")).await.unwrap().unwrap();
        assert!(number(&counted) >= durable);
    }
}

/// Writes until the file-size limit that the shell has set is reached, and checks what follows.
async fn write_until_refused(store: &Store) {
    let mut acknowledged = 0_u64;
    let error = loop {
        let mut batch = Batch::new();
        batch.put(
            Key::new(b"p", &acknowledged.to_be_bytes()),
            &vec![7; usize::try_from(acknowledged + 1).unwrap() << 20],
        );
        match store.write(batch, Durability::Synced).await {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
    // A value that is too large for a file prevents every further ingestion.
    for _ in 0..3 {
        assert_eq!(store.sync().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    for number in 0..=acknowledged {
        assert!(store.get(Key::new(b"p", &number.to_be_bytes())).await.unwrap().is_some());
    }
    assert_eq!(store.close().await.unwrap_err().kind(), ErrorKind::Unavailable);
    print_line(&format!("acknowledged {acknowledged};"));
}

#[tokio::test]
async fn writes_that_the_disk_refuses_stay_in_memory_and_do_not_count_as_durable() {
    let test = "writes_that_the_disk_refuses_stay_in_memory_and_do_not_count_as_durable";
    if let Some(directory) = directory_of_child() {
        return write_until_refused(&open(&directory)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    open(directory.path()).close().await.unwrap();
    // 4 or 8 MiB, depending on the shell's block size.
    let output = child(test, directory.path(), "trap '' XFSZ; ulimit -f 8192;").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line =
        said.lines().find_map(|line| line.strip_prefix("acknowledged ")).unwrap_or_else(|| panic!("{said}"));
    let acknowledged: u64 = line.strip_suffix(';').unwrap().parse().unwrap();
    assert!(acknowledged >= 2);

    let store = open(directory.path());
    let there = store.scan(b"p", ClusteringRange::all()).all().await.unwrap().len() as u64;
    assert_eq!(there, acknowledged);
    store.put(Key::new(b"q", b""), b"").await.unwrap();
    store.sync().await.unwrap();
}
