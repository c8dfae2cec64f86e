//! What is flushed is in the store, and durable when the store says so: limits, syncs and replays follow that.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_engine::{Engine, Options, PartitionState};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Batch, ClusteringRange, Durability, Key, Log, Pair, Store, StoreBackend, StoreError, Write,
};
use seriatim_storage_file::{StoreOptions, TreeStore};

use support::{invoice, open_with, options, workspace};

/// What a store has been told, and how much of it is durable.
#[derive(Debug, Default)]
struct Disk {
    batches: Vec<Vec<Write>>,
    durable: usize,
    syncs: usize,
    /// Syncs under way at once, and the most there were.
    syncing: usize,
    most_syncing: usize,
    refuses_syncs: bool,
    /// How often it was opened. What an earlier process still does is refused.
    lives: usize,
}

/// A store that gathers what it is told until it is synced.
#[derive(Debug)]
struct Gathering {
    env: Env,
    seen: MemoryStore,
    disk: Arc<Mutex<Disk>>,
    life: usize,
}

impl Gathering {
    /// Begins with what is durable.
    async fn open(env: &Env, disk: &Arc<Mutex<Disk>>) -> Store {
        let seen = MemoryStore::new();
        let (batches, life) = {
            let mut disk = disk.lock().unwrap();
            let durable = disk.durable;
            disk.batches.truncate(durable);
            (disk.lives, disk.syncing) = (disk.lives + 1, 0);
            (disk.batches.clone(), disk.lives)
        };
        for writes in batches {
            let mut batch = Batch::new();
            writes.into_iter().for_each(|write| batch.push(write));
            seen.write(batch, Durability::Buffered).await.unwrap();
        }
        Store::new(Self { env: env.clone(), seen, disk: disk.clone(), life })
    }

    /// The disk, if the process lives.
    fn disk(&self) -> Result<MutexGuard<'_, Disk>, StoreError> {
        let gone = || StoreError::Unavailable("the process is gone".to_owned());
        Some(self.disk.lock().unwrap()).filter(|disk| disk.lives == self.life).ok_or_else(gone)
    }
}

#[async_trait]
impl StoreBackend for Gathering {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.seen.get(key).await
    }

    async fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.seen.get_many(keys).await
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: &ClusteringRange,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        self.seen.scan_page(partition, range, limit).await
    }

    async fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        self.disk()?.batches.push(batch.clone().into_iter().collect());
        self.seen.write(batch, durability).await
    }

    async fn sync(&self) -> Result<(), StoreError> {
        let written = {
            let mut disk = self.disk()?;
            if disk.refuses_syncs {
                return Err(StoreError::Unavailable("the disk is full".to_owned()));
            }
            disk.syncs += 1;
            disk.syncing += 1;
            disk.most_syncing = disk.most_syncing.max(disk.syncing);
            disk.batches.len()
        };
        self.env.sleep(Duration::from_millis(20)).await;
        let mut disk = self.disk()?;
        disk.syncing -= 1;
        disk.durable = disk.durable.max(written);
        Ok(())
    }

    fn written(&self) -> u64 {
        self.disk.lock().unwrap().batches.len() as u64
    }

    fn durable(&self) -> u64 {
        self.disk.lock().unwrap().durable as u64
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn states(engine: &Engine) -> Vec<PartitionState> {
    engine.all_partitions().into_iter().map(|(_, state)| state).collect()
}

/// Events that are not durably derived, over all partitions, by the bytes of the log.
fn bytes_ahead(engine: &Engine) -> u64 {
    states(engine).iter().map(|state| state.uncheckpointed_bytes).sum()
}

async fn flushed(env: &Env, engine: &Engine) {
    while states(engine).iter().any(|state| state.unflushed > 0) {
        env.sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn the_timer_hands_over_and_closing_syncs_once() {
    simulate(1, |env| async move {
        let disk = Arc::default();
        let (log, store) = (MemoryLog::new(), Gathering::open(&env, &disk).await);
        let engine = open_with(&env, Log::new(log.reopen()), store, options()).await;
        let shop = workspace(&engine, "shop").await;
        for _ in 0..10 {
            engine.submit("till", shop, &invoice("1")).await.unwrap();
        }
        flushed(&env, &engine).await;
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(disk.lock().unwrap().syncs, 0, "nothing is near its bound");
        for state in states(&engine) {
            assert_eq!(state.checkpoint, state.next_offset, "everything is handed over");
        }
        assert!(bytes_ahead(&engine) > 0, "nothing of it is durable");
        engine.close().await;
        assert_eq!(disk.lock().unwrap().syncs, 1, "one sync for all partitions");
    });
}

#[test]
fn the_store_is_synced_in_time_and_a_crash_replays_no_more_than_may_be_ahead() {
    const AHEAD_MAX: u64 = 8 << 10;
    for seed in 1..=5 {
        simulate(seed, |env| async move {
            let disk = Arc::default();
            let (log, options) =
                (MemoryLog::new(), Options { uncheckpointed_bytes_max: AHEAD_MAX, ..options() });
            let mut done = 0;
            for life in 1..=4 {
                let store = Gathering::open(&env, &disk).await;
                let engine = open_with(&env, Log::new(log.reopen()), store, options).await;
                let shop = workspace(&engine, "shop").await;
                let rows = engine.view("till", shop, "count", &[], None, 10).await.unwrap();
                assert_eq!(rows.first().map_or(0, |(_, row)| row.as_u64().unwrap()), done, "life {life}");
                for _ in 0..60 {
                    if engine.submit("till", shop, &invoice("1")).await.is_ok() {
                        done += 1;
                    }
                    // A group may be open when the bound is reached.
                    assert!(bytes_ahead(&engine) < AHEAD_MAX * 3 / 2, "{}", bytes_ahead(&engine));
                    env.sleep(Duration::from_millis(7)).await;
                }
                // The process is gone, and with it what was not durable.
                std::mem::forget(engine);
            }
            assert!(done > 200, "{done}");
            let disk = disk.lock().unwrap();
            assert!(disk.syncs > 4, "{}", disk.syncs);
            assert_eq!(disk.most_syncing, 1, "one sync at a time, for all partitions");
        });
    }
}

/// Ten commands a second are too few to fill anything: what bounds a replay then is the time that the store gathers writes.
/// The store is the one on files. `SERIATIM_FULL=1` makes it an hour.
#[test]
fn a_crash_at_ten_commands_a_second_replays_what_came_in_about_a_minute() {
    let minutes: u64 = if std::env::var_os("SERIATIM_FULL").is_some() { 60 } else { 5 };
    let directory = tempfile::tempdir().unwrap();
    let (before, after) = (directory.path().join("before"), directory.path().join("after"));
    simulate(1, |env| async move {
        let log = MemoryLog::new();
        let store =
            |place: &Path| Store::new(TreeStore::open(env.clone(), place, StoreOptions::default()).unwrap());
        let engine = open_with(&env, Log::new(log.reopen()), store(&before), Options::default()).await;
        let shop = workspace(&engine, "shop").await;
        for command in 0..minutes * 600 {
            engine.submit("till", shop, &invoice("1")).await.unwrap();
            env.sleep(Duration::from_millis(100)).await;
            if command % 100 == 0 {
                let ahead: u64 = states(&engine).iter().map(|state| state.uncheckpointed_events).sum();
                assert!(ahead <= 620, "{ahead} events would be replayed after {command} commands");
            }
        }
        // What a killed process leaves: the files as they are. Nothing is being written at this moment.
        copy_directory(&before, &after);
        let engine = open_with(&env, Log::new(log.reopen()), store(&after), Options::default()).await;
        let replayed: u64 = states(&engine).iter().map(|state| state.uncheckpointed_events).sum();
        println!("{replayed} of {} events were replayed", minutes * 600);
        assert!((1..=620).contains(&replayed), "{replayed}");
        let rows = engine.view("till", shop, "count", &[], None, 10).await.unwrap();
        assert_eq!(rows[0].1.as_u64(), Some(minutes * 600), "nothing is counted twice or lost");
    });
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), &place).unwrap();
        }
    }
}

#[test]
fn a_store_that_cannot_sync_is_named_and_bounds_what_would_be_replayed() {
    simulate(1, |env| async move {
        let disk: Arc<Mutex<Disk>> = Arc::default();
        let (log, store) = (MemoryLog::new(), Gathering::open(&env, &disk).await);
        let options = Options { uncheckpointed_events_max: 20, ..options() };
        let engine = open_with(&env, Log::new(log.reopen()), store, options).await;
        let shop = workspace(&engine, "shop").await;
        disk.lock().unwrap().refuses_syncs = true;
        let mut done = 0;
        while engine.submit("till", shop, &invoice("1")).await.is_ok() {
            done += 1;
            assert!(done < 100, "the log is too far ahead");
            env.sleep(Duration::from_millis(30)).await;
        }
        let failing = || states(&engine).into_iter().find_map(|state| state.store_failure);
        while failing().is_none() {
            env.sleep(Duration::from_millis(1)).await;
        }
        assert!(failing().unwrap().contains("the disk is full"));
        disk.lock().unwrap().refuses_syncs = false;
        while engine.submit("till", shop, &invoice("1")).await.is_err() {
            env.sleep(Duration::from_millis(10)).await;
        }
        while failing().is_some() {
            env.sleep(Duration::from_millis(1)).await;
        }
        engine.close().await;
    });
}
