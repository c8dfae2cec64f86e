//! A storage whose log is elsewhere: the local directory can be lost, and the log can move to another kind of storage.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use seriatim::engine::doctor::{Doctor, Treatment};
use seriatim::engine::{App, Change, Engine, NextRequest, Options, Request, Unfence, definition::shop};
use seriatim::env::Env;
use seriatim::storage::memory::MemoryLog;
use seriatim::storage::{Holder, Log, Storage};
use seriatim::storage_file::{FileOptions, FileStorage, SharedStorage, restore_log, stage_restore};

async fn open(log: &MemoryLog, local: &Path) -> Storage {
    let (log, options) = (Log::new(log.reopen()), FileOptions::default().local());
    Storage::new(SharedStorage::open(&Env::real(), log, local, options).await.unwrap())
}

async fn engine(storage: &Storage) -> Engine {
    let (log, store) = (storage.log().clone(), storage.store().clone());
    Engine::open(Env::real(), log, store, [App::new(shop())], Options::default()).await.unwrap()
}

/// Draws numbers under keys; what was drawn before under a key is repeated. Returns the numbers, and whether they were repeated.
async fn draw(engine: &Engine, from: u64, count: u64) -> Vec<(u64, u64, bool)> {
    let (workspace, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
    let mut numbers = Vec::new();
    for key in from..from + count {
        let request = Request::changes([Change::create("Invoice", 1).field("total", "1.00")]);
        let request = request.idempotency_key(format!("invoice-{key}"));
        let invoice = engine.submit("shop", workspace.id, &request).await.unwrap();
        let next = NextRequest { idempotency_key: Some(format!("series-{key}")), ..NextRequest::default() };
        let series = engine.series().next("acme", &next).await.unwrap();
        assert_eq!(series.repeated, invoice.repeated);
        numbers.push((
            invoice.number(1, "number").unwrap().try_into().unwrap(),
            series.number,
            series.repeated,
        ));
    }
    numbers
}

/// The numbers from `from` on, in order.
fn numbers(from: u64, count: u64, repeated: bool) -> Vec<(u64, u64, bool)> {
    (from..from + count).map(|number| (number, number, repeated)).collect()
}

async fn check(storage: &Storage) {
    let (log, store) = (storage.log().clone(), storage.store().clone());
    let scratch = storage.scratch().await.unwrap();
    let doctor = Doctor::new(Env::real(), log, store, []).with_accepted();
    let report = doctor.run(scratch.store(), Treatment::Check, &mut |_| {}).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(report.checked.events > 0);
    scratch.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_comes_back_from_the_log_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (log, local) = (MemoryLog::new(), folder.path().join("local"));
    let storage = open(&log, &local).await;
    let first = engine(&storage).await;
    assert_eq!(draw(&first, 1, 20).await, numbers(1, 20, false));
    let token = first.tokens().create(&["*:admin".parse().unwrap()], None).await.unwrap();
    first.close().await;
    storage.close().await.unwrap();

    std::fs::remove_dir_all(&local).unwrap();
    let storage = open(&log, &local).await;
    let second = engine(&storage).await;
    assert_eq!(draw(&second, 1, 20).await, numbers(1, 20, true), "the keys are known");
    assert_eq!(draw(&second, 21, 5).await, numbers(21, 5, false), "the numbers continue");
    assert!(second.tokens().verify(token.secret.reveal()).is_some(), "the token is known");
    second.close().await;
    check(&storage).await;
    storage.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_moves_to_files_and_back() {
    let (env, folder) = (Env::real(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    let log = MemoryLog::new();
    let storage = open(&log, &at("local")).await;
    let first = engine(&storage).await;
    draw(&first, 1, 10).await;
    storage.as_backup().unwrap().backup(&at("backup")).await.unwrap();
    first.close().await;
    storage.close().await.unwrap();

    let staged = stage_restore(&env, &at("backup"), &at("files")).await.unwrap();
    let files = staged.open(FileOptions::default()).await.unwrap();
    Engine::fence(env.clone(), files.log().clone(), files.store().clone()).await.unwrap();
    files.close().await.unwrap();
    staged.finish().await.unwrap();
    let files = FileStorage::open(&env, &at("files"), FileOptions::default()).await.unwrap();
    let files = Storage::new(files);
    let second = engine(&files).await;
    assert!(second.unfence(&Unfence::Complete).await.unwrap().is_none());
    assert_eq!(draw(&second, 1, 10).await, numbers(1, 10, true));
    assert_eq!(draw(&second, 11, 10).await, numbers(11, 10, false));
    second.close().await;
    check(&files).await;
    files.as_backup().unwrap().backup(&at("second backup")).await.unwrap();
    files.close().await.unwrap();

    let elsewhere = MemoryLog::new();
    let log = Log::new(elsewhere.reopen());
    let restored = restore_log(&env, &at("second backup"), &log, &Holder::new("restore")).await.unwrap();
    restored.finish().await.unwrap();
    let storage = open(&elsewhere, &at("another local")).await;
    let third = engine(&storage).await;
    assert_eq!(draw(&third, 1, 20).await, numbers(1, 20, true));
    assert_eq!(draw(&third, 21, 3).await, numbers(21, 3, false));
    third.close().await;
    check(&storage).await;
    storage.close().await.unwrap();
}
