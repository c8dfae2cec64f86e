//! An engine in a process of its own, killed under load, again and again: nothing acknowledged is lost, nothing is there
//! twice, no number is missing.
//!
//! `cargo test -p seriatim-engine --test kill` kills it a few times; with `SERIATIM_FULL=1` it is 100 times, with 10,000
//! workspaces besides the hot ones (add `--release -- --nocapture` to see it work).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use seriatim_engine::{Change, Engine, Event, Options, Request, Value};
use seriatim_env::Env;
use seriatim_storage::{Log, ReadLimit};
use seriatim_storage_file::{FileOptions, FileStorage, LogOptions};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, WorkspaceId};

const CHILD_DIRECTORY: &str = "SERIATIM_KILL_DIRECTORY";
const HOT: usize = 3;
const WRITERS: usize = 24;

fn is_full() -> bool {
    std::env::var_os("SERIATIM_FULL").is_some()
}

fn kills() -> usize {
    if is_full() { 100 } else { 6 }
}

fn cold() -> usize {
    if is_full() { 10_000 } else { 300 }
}

async fn open(env: &Env, directory: &Path) -> (FileStorage, Engine) {
    // Small segments, so that kills hit the change from one to the next.
    let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let options = FileOptions { log, free_bytes_min: 0, ..FileOptions::default() };
    let storage = FileStorage::open(env, directory, options).await.unwrap();
    let often = Options { flush_interval: Duration::from_millis(20), ..support::options() };
    let engine = support::open_with(env, storage.log().clone(), storage.store().clone(), often).await;
    (storage, engine)
}

#[test]
fn kill_9_under_load_loses_nothing_repeats_nothing_and_leaves_no_gap() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(directory) = std::env::var_os(CHILD_DIRECTORY) {
        runtime.block_on(submit_without_end(Path::new(&directory)));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut promises = Promises::new();
    let mut events = 0;
    for kill in 0..kills() {
        promises.append(&mut work_until_killed(directory.path(), kill));
        events = runtime.block_on(check(directory.path(), &promises));
        println!("kill {kill}: {} commands acknowledged so far, {events} events", promises.len());
    }
    println!(
        "{} kills, {HOT} hot and {} cold workspaces: {} acknowledged, {events} events; 0 lost, 0 twice, 0 gaps",
        kills(),
        cold(),
        promises.len()
    );
}

/// What each acknowledged command was told: by its key, the workspace, the offset and the number.
type Promises = BTreeMap<String, (u64, u64, i64)>;

/// Starts an engine, and kills it when it has acknowledged some commands, or now and then while it opens.
fn work_until_killed(directory: &Path, kill: usize) -> Promises {
    let mut child = spawn_engine(directory);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut promises = Promises::new();
    let enough = if kill % 4 == 3 { 0 } else { 100 + kill * 37 % 400 };
    let mut killed = false;
    for line in lines.map_while(Result::ok) {
        // The last line may be cut off by the kill: then it was not said.
        promises.extend(parse(&line));
        let started = line.ends_with("opening");
        if !killed && (promises.len() >= enough.max(1) || (enough == 0 && started)) {
            child.kill().unwrap();
            killed = true;
        }
    }
    let status = child.wait().unwrap();
    assert!(killed, "the engine ended by itself: {status}");
    promises
}

fn parse(line: &str) -> Option<(String, (u64, u64, i64))> {
    let mut words = line.split(' ').skip_while(|word| *word != "ack").skip(1);
    let place = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let key = words.next()?.strip_suffix(';')?;
    Some((key.to_owned(), place))
}

fn spawn_engine(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill_9_under_load_loses_nothing_repeats_nothing_and_leaves_no_gap", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn say(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

async fn submit_without_end(directory: &Path) {
    let env = Env::real();
    say("opening\n");
    let (_storage, engine) = open(&env, directory).await;
    let mut workspaces = Vec::with_capacity(HOT + cold());
    // A name leads to the same workspace in every life; those that are missing are made, many at a time.
    for names in (0..HOT + cold()).collect::<Vec<_>>().chunks(256) {
        let made: Vec<_> = names
            .iter()
            .map(|name| {
                let (engine, name) = (engine.clone(), name.to_string());
                env.spawn(async move { support::workspace(&engine, &name).await })
            })
            .collect();
        for made in made {
            workspaces.push(made.await.unwrap());
        }
    }
    let workspaces = Arc::new(workspaces);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| env.spawn(write(env.clone(), engine.clone(), workspaces.clone(), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Every third command goes to a cold workspace.
async fn write(env: Env, engine: Engine, workspaces: Arc<Vec<WorkspaceId>>, writer: usize) {
    for n in 0.. {
        let place = match n % 3 {
            0 => HOT + usize::try_from(env.random_below(cold() as u64)).unwrap(),
            _ => (writer + n) % HOT,
        };
        let key = format!("{}.{writer}.{n}", std::process::id());
        let changes =
            [Change::create("Invoice", 1).field("total", "2.50"), Change::create("InvoiceLine", 2).parent(1)];
        let request = Request::changes(changes).idempotency_key(&*key);
        let answer = loop {
            match engine.submit("till", workspaces[place], &request).await {
                Ok(answer) => break answer,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
        };
        let number = answer.number(1, "number").unwrap();
        say(&format!("ack {} {} {number} {key};\n", workspaces[place], answer.workspace_offset));
    }
}

/// Every acknowledged command is where it was said to be, with its number; everything is there once and dense, and the
/// view has counted it. Returns how many events there are.
async fn check(directory: &Path, promises: &Promises) -> u64 {
    let env = Env::real();
    let (storage, engine) = open(&env, directory).await;
    let mut found = Found::default();
    for partition in storage.log().partitions().await.unwrap() {
        found.scan(storage.log(), partition, &engine).await;
    }
    for (key, place) in promises {
        assert_eq!(found.keys.get(key), Some(place), "acknowledged and not there: {key}");
    }
    let mut events = 0;
    for (workspace, count) in &found.events {
        let rows = engine.view("till", *workspace, "count", &[], None, 2).await.unwrap();
        assert_eq!(
            rows.first().map(|(_, row)| row.clone()),
            Some(json!(count)),
            "each event is counted once"
        );
        events += count;
    }
    engine.close().await;
    storage.close().await.unwrap();
    events
}

#[derive(Default)]
struct Found {
    keys: Promises,
    /// How many events each workspace of the till has.
    events: BTreeMap<WorkspaceId, u64>,
}

impl Found {
    async fn scan(&mut self, log: &Log, partition: Partition, engine: &Engine) {
        let is_till = engine.schema("till").unwrap().id() == partition.application;
        let mut next: BTreeMap<(WorkspaceId, Option<u16>), u64> = BTreeMap::new();
        let mut from = PartitionOffset::FIRST;
        loop {
            let read = log.read(partition, from, ReadLimit::default()).await.unwrap();
            if read.is_empty() {
                return;
            }
            for (offset, entry) in read.iter() {
                assert!(entry.body_is_intact());
                let expected = next.entry((entry.workspace(), None)).or_insert(1);
                assert_eq!(entry.workspace_offset().get(), *expected, "{offset} of {partition}");
                *expected += 1;
                for draw in entry.draws() {
                    let key = (entry.workspace(), Some(draw.sequence.get()));
                    let expected = next.entry(key).or_insert(draw.first.get());
                    assert_eq!(draw.first.get(), *expected, "{draw:?} at {offset} of {partition}");
                    *expected += draw.count;
                }
                if is_till {
                    let event = Event::decode(entry.body()).unwrap();
                    let count = self.events.entry(entry.workspace()).or_default();
                    *count += 1;
                    // One invoice in each event: the numbers begin at 1 and rise with the offset.
                    let number = i64::try_from(*count).unwrap();
                    assert!(
                        event
                            .created()
                            .any(|row| row.fields.iter().any(|(_, value)| *value == Value::Integer(number)))
                    );
                    let place = (entry.workspace().get(), entry.workspace_offset().get(), number);
                    let key = event.idempotency.unwrap().key.to_string();
                    assert_eq!(self.keys.insert(key, place), None, "twice at {offset} of {partition}");
                }
            }
            from = read.next();
        }
    }
}
