//! The local state of a partition: exported while the partition continues, loaded elsewhere, removed, and all of that interrupted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use serde_json::json;
use seriatim_engine::doctor::{Doctor, Report, Treatment};
use seriatim_engine::local::{self, ExportError, LoadError, LocalSize};
use seriatim_engine::{Change, Engine, Options, Request};
use seriatim_env::{Env, Shutdown, Task, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{Log, Store};
use seriatim_storage_file::{FileOptions, FileStorage};
use seriatim_storage_testing::faulty::{Fault, Faults, FaultyLog, FaultyStore, Operation, Operations};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, RecordId, WorkspaceId};
use support::{customer, invoice, open_with, options, till, workspace};

/// Flushes as soon as anything waits.
fn often() -> Options {
    Options { flush_interval: Duration::from_micros(1), flush_at: 1, ..options() }
}

fn partition_of(engine: &Engine, workspace: WorkspaceId) -> Partition {
    let application = engine.schema("till").unwrap().id();
    Partition { application, id: engine.partition_of("till", workspace).unwrap() }
}

/// The whole stream of a partition.
async fn export(engine: &Engine, partition: Partition) -> Result<Vec<Bytes>, ExportError> {
    let mut export = engine.export_local(partition).await?;
    let mut stream = Vec::new();
    while let Some(bytes) = export.next().await? {
        stream.push(bytes);
    }
    Ok(stream)
}

async fn load(store: &Store, engine: &Engine, partition: Partition, stream: &[Bytes]) -> PartitionOffset {
    let expected = engine.expected_local(partition).await.unwrap();
    let parts = stream::iter(stream.iter().cloned().map(Ok::<Bytes, String>));
    local::load(store, expected, parts).await.unwrap()
}

async fn examine(env: &Env, log: &Log, store: &Store) -> Report {
    let scratch = Store::new(MemoryStore::new());
    let doctor = Doctor::new(env.clone(), log.clone(), store.clone(), [till()]);
    doctor.run(&scratch, Treatment::Check, &mut |_| {}).await.unwrap()
}

/// Numbers of frames of changes in a stream.
fn changes(stream: &[Bytes]) -> usize {
    stream.iter().filter(|frame| frame[8] == b'C').count()
}

/// A till with some customers, whose records and rows clients change all the time.
struct Busy {
    engine: Engine,
    partition: Partition,
    stop: Shutdown,
    clients: Vec<Task<u64>>,
}

impl Busy {
    async fn start(env: &Env, engine: Engine, customers: usize, clients: u64) -> Self {
        let shop = workspace(&engine, "shop").await;
        let mut known = Vec::new();
        for number in 0..customers {
            known.push(engine.submit("till", shop, &customer(&format!("{number}"))).await.unwrap().ids[0].1);
        }
        let (known, stop) = (Arc::new(known), env.shutdown().child_token());
        let partition = partition_of(&engine, shop);
        let client = |client: u64| {
            let (engine, known, stop) = (engine.clone(), known.clone(), stop.clone());
            env.spawn(async move { change(&engine, shop, &known, client, &stop).await })
        };
        let clients = (0..clients).map(client).collect();
        Self { engine, partition, stop, clients }
    }

    /// Returns how many commands were executed.
    async fn stop(self) -> u64 {
        self.stop.cancel();
        let mut executed = 0;
        for client in self.clients {
            executed += client.await.unwrap();
        }
        self.engine.close().await;
        executed
    }
}

/// Changes records at the beginning and at the end of the keys, adds others, and uses idempotency keys.
async fn change(engine: &Engine, shop: WorkspaceId, known: &[RecordId], client: u64, stop: &Shutdown) -> u64 {
    let mut executed = 0;
    while !stop.is_cancelled() {
        let record = known[usize::try_from(executed * 7 + client).unwrap() % known.len()];
        let update = Change::update(record).field("name", format!("{client} {executed}"));
        let bill = Request::new("Bill").args(json!({"customers": [record.get()]}));
        let requests = [
            Request::changes([update]),
            invoice("2.50").idempotency_key(format!("{client} {executed}")),
            bill,
        ];
        for request in requests {
            // Busy ones are refused, which is allowed.
            executed += u64::from(engine.submit("till", shop, &request).await.is_ok());
        }
    }
    executed
}

/// Exports several times under load. Each copy is exactly what the log says up to its checkpoint, and continues from there.
async fn assert_exports_are_of_one_state(
    env: &Env,
    busy: &Busy,
    log: &Log,
    exports: usize,
) -> (usize, Vec<Store>) {
    let (mut changed, mut copies) = (0, Vec::new());
    for number in 0..exports {
        let stream = export(&busy.engine, busy.partition).await.unwrap();
        changed += changes(&stream);
        let copy = Store::new(MemoryStore::new());
        let checkpoint = load(&copy, &busy.engine, busy.partition, &stream).await;
        let report = examine(env, log, &copy).await;
        assert!(report.is_clean(), "export {number}, checkpoint {checkpoint}: {report:?}");
        assert!(report.checked.values() > 0, "{report:?}");
        copies.push(copy);
    }
    (changed, copies)
}

#[test]
fn an_export_during_flushes_is_of_one_state() {
    let mut changed = 0;
    for seed in 1..=12 {
        changed += simulate(seed, |env| async move {
            let (log, store) = (MemoryLog::new(), MemoryStore::new());
            let faults = Faults::new(&env);
            faults.delay(Operations::ALL, Duration::from_micros(20));
            let slow_log = Log::new(FaultyLog::new(Arc::new(log.reopen()), &faults));
            let slow_store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
            let engine = open_with(&env, slow_log, slow_store, often()).await;
            let busy = Busy::start(&env, engine, 30, 3).await;
            let plain = Log::new(log.reopen());
            let (changed, copies) = assert_exports_are_of_one_state(&env, &busy, &plain, 4).await;
            assert!(busy.stop().await > 0);
            for copy in copies {
                let engine = open_with(&env, Log::new(log.copy()), copy.clone(), often()).await;
                engine.close().await;
                let report = examine(&env, &Log::new(log.copy()), &copy).await;
                assert!(report.is_clean() && report.unapplied == 0, "{report:?}");
            }
            changed
        });
    }
    assert!(changed > 10, "flushes ended during the exports: {changed}");
}

#[test]
fn an_export_on_several_threads_is_of_one_state_and_continues_by_replay() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let (env, directory) = (Env::real(), tempfile::tempdir().unwrap());
        let storage = FileStorage::open(&env, directory.path(), FileOptions::default()).await.unwrap();
        let options =
            Options { flush_interval: Duration::from_millis(1), flush_at: 20, ..Options::default() };
        let engine = open_with(&env, storage.log().clone(), storage.store().clone(), options).await;
        let busy = Busy::start(&env, engine, 500, 8).await;
        let (changed, copies) = assert_exports_are_of_one_state(&env, &busy, storage.log(), 8).await;
        let executed = busy.stop().await;
        println!("{executed} commands, {changed} frames of changes in 8 exports");
        assert!(changed > 0, "flushes ended during the exports");
        for copy in copies {
            let engine = open_with(&env, storage.log().clone(), copy.clone(), options).await;
            engine.close().await;
            let report = examine(&env, storage.log(), &copy).await;
            assert!(report.is_clean() && report.unapplied == 0, "{report:?}");
        }
        storage.close().await.unwrap();
    });
}

#[test]
fn a_large_value_that_changes_during_an_export_is_whole_in_the_copy() {
    for seed in 1..=1 {
        simulate(seed, |env| async move {
            let (log, store) = (MemoryLog::new(), MemoryStore::new());
            let faults = Faults::new(&env);
            faults.delay(Operations::ALL, Duration::from_micros(20));
            let slow_store = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
            let engine = open_with(&env, Log::new(log.reopen()), slow_store, often()).await;
            let shop = workspace(&engine, "shop").await;
            let large = |letter: &str| json!(letter.repeat(5 << 20));
            let create = Change::create("Invoice", 1).field("extra", large("a"));
            let id = engine.submit("till", shop, &Request::changes([create])).await.unwrap().ids[0].1;
            let partition = partition_of(&engine, shop);
            let changing = env.spawn({
                let engine = engine.clone();
                async move {
                    for letter in ["b", "c", "small", "d"] {
                        let extra = if letter == "small" { json!(letter) } else { large(letter) };
                        let update = Request::changes([Change::update(id).field("extra", extra)]);
                        engine.submit("till", shop, &update).await.unwrap();
                    }
                }
            });
            for _ in 0..3 {
                let stream = export(&engine, partition).await.unwrap();
                let copy = Store::new(MemoryStore::new());
                load(&copy, &engine, partition, &stream).await;
                let report = examine(&env, &Log::new(log.reopen()), &copy).await;
                assert!(report.is_clean(), "{report:?}");
            }
            changing.await.unwrap();
            engine.close().await;
        });
    }
}

/// An engine with some work done and flushed.
async fn idle(env: &Env, log: &MemoryLog, store: Store) -> (Engine, Partition) {
    let engine = open_with(env, Log::new(log.reopen()), store.clone(), options()).await;
    let shop = workspace(&engine, "shop").await;
    for name in ["Ada", "Grace", "Barbara"] {
        engine.submit("till", shop, &customer(name)).await.unwrap();
    }
    let partition = partition_of(&engine, shop);
    engine.close().await;
    (open_with(env, Log::new(log.reopen()), store, options()).await, partition)
}

/// An engine with more records than the first page of a scan has, all of them flushed.
async fn with_held_writes(env: &Env, faults: &Faults) -> (Engine, MemoryLog, WorkspaceId, Vec<RecordId>) {
    let (log, store) = (MemoryLog::new(), MemoryStore::new());
    let faulty = Store::new(FaultyStore::new(Arc::new(store.reopen()), faults));
    let (engine, _) = idle(env, &log, faulty.clone()).await;
    let shop = engine.workspace_named("till", "shop").await.unwrap().unwrap();
    let mut known = Vec::new();
    for number in 0..40 {
        known.push(engine.submit("till", shop, &customer(&format!("{number}"))).await.unwrap().ids[0].1);
    }
    engine.close().await;
    let engine = open_with(env, Log::new(log.reopen()), faulty, options()).await;
    // Opening writes to the registry. Its flush must not be taken for the one that a test waits for.
    flushed(env, &engine, "sys").await;
    (engine, log, shop, known)
}

async fn flushed(env: &Env, engine: &Engine, application: &str) {
    while engine.partitions(application).unwrap().iter().any(|state| state.unflushed > 0) {
        env.sleep(Duration::from_millis(1)).await;
    }
}

async fn assert_is_of_one_state(
    env: &Env,
    engine: &Engine,
    log: &MemoryLog,
    at: Partition,
    stream: &[Bytes],
) {
    let copy = Store::new(MemoryStore::new());
    load(&copy, engine, at, stream).await;
    let report = examine(env, &Log::new(log.reopen()), &copy).await;
    assert!(report.is_clean() && report.checked.values() > 0, "{report:?}");
}

#[test]
fn a_flush_that_is_under_way_when_the_last_page_is_read_belongs_to_the_stream() {
    simulate(1, |env| async move {
        let faults = Faults::new(&env);
        let (engine, log, shop, known) = with_held_writes(&env, &faults).await;
        let partition = partition_of(&engine, shop);
        let mut export = engine.export_local(partition).await.unwrap();
        // The header and the first page.
        let mut stream = vec![export.next().await.unwrap().unwrap(), export.next().await.unwrap().unwrap()];
        let hold = faults.hold_answers(Operation::Write);
        let [first, last] = [known[0], known[39]].map(|id| Change::update(id).field("name", "changed"));
        engine.submit("till", shop, &Request::changes([first, last])).await.unwrap();
        // The store has it, and the flusher does not know that.
        hold.reached(1).await;
        let rest = async {
            while let Some(bytes) = export.next().await.unwrap() {
                stream.push(bytes);
            }
        };
        // What can be read is read before the flush is answered.
        let release = async { hold.release() };
        futures_util::future::join(rest, release).await;
        assert_eq!(changes(&stream), 1);
        assert_is_of_one_state(&env, &engine, &log, partition, &stream).await;
        engine.close().await;
    });
}

#[test]
fn a_flush_that_is_under_way_when_an_export_begins_belongs_to_the_stream() {
    simulate(1, |env| async move {
        let faults = Faults::new(&env);
        let (engine, log, shop, known) = with_held_writes(&env, &faults).await;
        let partition = partition_of(&engine, shop);
        let hold = faults.hold(Operation::Write);
        let update = Change::update(known[0]).field("name", "changed");
        engine.submit("till", shop, &Request::changes([update])).await.unwrap();
        hold.reached(1).await;
        let release = async {
            // The export has its turns first. It must not use them to read anything.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            hold.release();
        };
        let (export, ()) = futures_util::future::join(engine.export_local(partition), release).await;
        let mut export = export.unwrap();
        // The header and the first page. If the flush had not ended yet, it would end before the next page.
        let mut stream = vec![export.next().await.unwrap().unwrap(), export.next().await.unwrap().unwrap()];
        flushed(&env, &engine, "till").await;
        while let Some(bytes) = export.next().await.unwrap() {
            stream.push(bytes);
        }
        assert_eq!(changes(&stream), 0, "it ended before the first page was read");
        assert_is_of_one_state(&env, &engine, &log, partition, &stream).await;
        engine.close().await;
    });
}

#[test]
fn an_idle_partition_has_one_sorted_run_without_changes() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let (engine, partition) = idle(&env, &log, Store::new(store.reopen())).await;
        let stream = export(&engine, partition).await.unwrap();
        let kinds: Vec<u8> = stream.iter().map(|frame| frame[8]).collect();
        assert_eq!(kinds, b"HPT");
        let copy = Store::new(MemoryStore::new());
        let checkpoint = load(&copy, &engine, partition, &stream).await;
        assert_eq!(checkpoint, Log::new(log.reopen()).tail(partition).await.unwrap());
        let (here, there) = (local::measure(&copy, partition), Store::new(store.reopen()));
        let size = here.await.unwrap();
        assert_eq!(size, local::measure(&there, partition).await.unwrap());
        assert!(size.keys > 10 && size.bytes > 100, "{size:?}");
        engine.close().await;
    });
}

#[test]
fn a_partition_without_events_is_exported_and_loaded() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let (engine, partition) = idle(&env, &log, Store::new(store.reopen())).await;
        let empty = Partition::new(partition.application.get(), 1 - partition.id.get());
        let stream = export(&engine, empty).await.unwrap();
        let copy = Store::new(MemoryStore::new());
        assert_eq!(load(&copy, &engine, empty, &stream).await, PartitionOffset::FIRST);
        assert_eq!(local::measure(&copy, empty).await.unwrap(), LocalSize::default());
        engine.close().await;
    });
}

#[test]
fn what_cannot_be_exported_is_refused() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let faults = Faults::new(&env);
        let faulty = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
        let (engine, partition) = idle(&env, &log, faulty).await;
        for unknown in [Partition::new(99, 0), Partition::new(partition.application.get(), 2)] {
            let error = export(&engine, unknown).await.unwrap_err();
            assert_eq!((error.kind(), error), (ErrorKind::NotFound, ExportError::Unknown(unknown)));
        }
        let first = engine.export_local(partition).await.unwrap();
        let error = export(&engine, partition).await.unwrap_err();
        assert_eq!((error.kind(), error), (ErrorKind::Busy, ExportError::InProgress(partition)));
        drop(first);
        let mut failing = engine.export_local(partition).await.unwrap();
        faults.fail(Operation::Write, Fault::LoseReply);
        let shop = engine.workspace_named("till", "shop").await.unwrap().unwrap();
        engine.submit("till", shop, &customer("Katherine")).await.unwrap();
        // The flush fails before the export ends.
        let store_failed = || engine.partitions("till").unwrap().iter().any(|it| it.store_failure.is_some());
        while !store_failed() {
            env.sleep(Duration::from_millis(1)).await;
        }
        let error = loop {
            match failing.next().await {
                Ok(frame) => assert!(frame.is_some(), "the export has ended without an error"),
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), error), (ErrorKind::Busy, ExportError::FlushFailed(partition)));
        drop(failing);
        assert_eq!(export(&engine, partition).await.unwrap_err(), ExportError::FlushFailed(partition));
        faults.heal();
        while store_failed() {
            env.sleep(Duration::from_millis(1)).await;
        }
        let stream = export(&engine, partition).await.unwrap();
        let copy = Store::new(MemoryStore::new());
        load(&copy, &engine, partition, &stream).await;
        let report = examine(&env, &Log::new(log.reopen()), &copy).await;
        assert!(report.is_clean(), "{report:?}");
        engine.close().await;
    });
}

#[test]
fn a_stream_is_loaded_only_into_a_store_without_the_partition() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let (engine, partition) = idle(&env, &log, Store::new(store.reopen())).await;
        let stream = export(&engine, partition).await.unwrap();
        let copy = Store::new(MemoryStore::new());
        load(&copy, &engine, partition, &stream).await;
        let before = local::measure(&copy, partition).await.unwrap();
        let expected = engine.expected_local(partition).await.unwrap();
        let parts = stream::iter(stream.iter().cloned().map(Ok::<Bytes, String>));
        let error = local::load(&copy, expected, parts).await.unwrap_err();
        assert_eq!((error.kind(), error), (ErrorKind::Conflict, LoadError::NotEmpty(partition)));
        assert_eq!(local::measure(&copy, partition).await.unwrap(), before);
        // A stream that could not be read to its end leaves nothing.
        let copy = Store::new(MemoryStore::new());
        let parts = [Ok(stream[0].clone()), Ok(stream[1].clone()), Err("the connection was lost")];
        let error = local::load(&copy, expected, stream::iter(parts)).await.unwrap_err();
        assert_eq!(error, LoadError::Read("the connection was lost".to_owned()));
        assert_eq!(local::measure(&copy, partition).await.unwrap(), LocalSize::default());
        engine.close().await;
    });
}

#[test]
fn removing_a_partition_leaves_nothing_of_it_and_everything_of_the_others() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let (engine, partition) = idle(&env, &log, Store::new(store.reopen())).await;
        engine.close().await;
        let (store, sys) = (Store::new(store.reopen()), Partition::new(1, 0));
        let (size, others) =
            (local::measure(&store, partition).await.unwrap(), local::measure(&store, sys).await.unwrap());
        assert_eq!(local::remove(&store, partition).await.unwrap(), size);
        assert_eq!(local::measure(&store, partition).await.unwrap(), LocalSize::default());
        assert_eq!(local::measure(&store, sys).await.unwrap(), others);
        assert_eq!(local::remove(&store, partition).await.unwrap(), LocalSize::default());
    });
}

/// What is interrupted by a crash.
#[derive(Debug, Clone, Copy)]
enum Interrupted {
    Remove,
    Load,
}

/// Removes or loads a partition until its store crashes at a write. Returns whether it had so many.
async fn interrupt(env: Env, what: Interrupted, fault: Fault, nth: u64) -> bool {
    let when = format!("{what:?}, write {nth}, {fault:?}");
    let (log, store) = (MemoryLog::new(), MemoryStore::new());
    let (engine, partition) = idle(&env, &log, Store::new(store.reopen())).await;
    let shop = engine.workspace_named("till", "shop").await.unwrap().unwrap();
    for number in 0..300 {
        engine.submit("till", shop, &customer(&format!("{number}"))).await.unwrap();
    }
    engine.close().await;
    let engine = open_with(&env, Log::new(log.reopen()), Store::new(store.reopen()), options()).await;
    let stream = export(&engine, partition).await.unwrap();
    let expected = engine.expected_local(partition).await.unwrap();
    engine.close().await;
    if matches!(what, Interrupted::Load) {
        local::remove(&Store::new(store.reopen()), partition).await.unwrap();
    }
    let faults = Faults::new(&env);
    faults.crash_at(Operation::Write, nth, fault);
    let faulty = Store::new(FaultyStore::new(Arc::new(store.reopen()), &faults));
    match what {
        Interrupted::Remove => drop(local::remove(&faulty, partition).await),
        Interrupted::Load => {
            let parts = stream::iter(stream.into_iter().map(Ok::<Bytes, String>));
            drop(local::load(&faulty, expected, parts).await);
        }
    }
    let plain = Log::new(log.reopen());
    let report = examine(&env, &plain, &Store::new(store.reopen())).await;
    assert!(report.is_clean(), "{when}: {report:?}");
    let engine = open_with(&env, Log::new(log.reopen()), Store::new(store.reopen()), options()).await;
    engine.submit("till", shop, &customer("later")).await.unwrap();
    engine.close().await;
    let report = examine(&env, &plain, &Store::new(store.reopen())).await;
    assert!(report.is_clean() && report.unapplied == 0, "{when}: {report:?}");
    faults.has_crashed()
}

#[test]
fn a_crash_while_a_partition_is_removed_or_loaded_never_leaves_values_that_count() {
    for what in [Interrupted::Remove, Interrupted::Load] {
        for fault in [Fault::LoseRequest, Fault::LoseReply] {
            let mut crashes = 0;
            while simulate(1, |env| interrupt(env, what, fault, crashes + 1)) {
                crashes += 1;
            }
            assert!(crashes >= 3, "{what:?}, {fault:?}: {crashes}");
        }
    }
}
