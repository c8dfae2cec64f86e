//! Following logs, by hand and by asynchronous projectors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_engine::definition::shop;
use seriatim_engine::{
    App, AsyncProjector, Change, Engine, Options, PartitionStatus, Projected, Request, Unfence,
};
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::{MemoryLog, MemoryStore};
use seriatim_storage::{
    Append, AppendFuture, BulletinBackend, BulletinError, Held, Key, Log, LogBackend, LogError, LogIdentity,
    ReadEntries, ReadLimit, Store, Take, TakeOver,
};
use seriatim_types::{Epoch, ErrorKind, Partition, PartitionOffset, WorkspaceId, WorkspaceOffset};

/// Remembers what it was given; fails once at each event that has a number divisible by three.
#[derive(Debug, Clone, Default)]
struct Mail {
    sent: Arc<Mutex<Vec<u64>>>,
    failed: Arc<Mutex<Vec<u64>>>,
}

#[async_trait]
impl AsyncProjector for Mail {
    fn name(&self) -> &str {
        "mail"
    }

    async fn take(&self, event: Projected<'_>) -> Result<(), String> {
        let offset = event.place.workspace_offset.get();
        let mut failed = self.failed.lock().unwrap();
        if offset.is_multiple_of(3) && !failed.contains(&offset) {
            failed.push(offset);
            return Err("the mail server is away".to_owned());
        }
        self.sent.lock().unwrap().push(offset);
        Ok(())
    }
}

async fn open(env: &Env, log: &MemoryLog, store: &MemoryStore, mail: &Mail) -> Engine {
    let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
    let app = App::new(shop()).async_projector(mail.clone());
    let engine = Engine::open(env.clone(), log, store, [app], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

/// The shop without its projector.
async fn silent(env: &Env, log: &MemoryLog, store: &MemoryStore) -> Engine {
    let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
    let app = App::new(shop());
    let engine = Engine::open(env.clone(), log, store, [app], Options::default()).await.unwrap();
    assert!(engine.wait_ready(Duration::from_secs(60)).await);
    engine
}

#[test]
fn an_asynchronous_projector_continues_from_its_offset_and_repeats_what_failed() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let mail = Mail::default();
        for life in 1..=3 {
            let engine = open(&env, &log, &store, &mail).await;
            let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
            for _ in 0..10 {
                let request = Request::changes([Change::create("Invoice", 1)]);
                engine.submit("shop", corner.id, &request).await.unwrap();
            }
            // Three failures of each ten, half a second apart.
            env.sleep(Duration::from_secs(10)).await;
            assert_eq!(*mail.sent.lock().unwrap(), (1..=10 * life).collect::<Vec<u64>>());
            engine.close().await;
        }
        assert_eq!(mail.failed.lock().unwrap().len(), 10);
    });
}

#[test]
fn nothing_is_handed_over_for_a_partition_that_was_taken_over() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let mail = Mail::default();
        let engine = open(&env, &log, &store, &mail).await;
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        invoice(&engine, corner.id).await;
        sent(&env, &mail, 1).await;
        // Another engine takes the log over. The first one finds that out with its next command.
        let other = silent(&env, &log, &MemoryStore::new()).await;
        let request = Request::changes([Change::create("Invoice", 1)]);
        engine.submit("shop", corner.id, &request).await.unwrap_err();
        let partition = usize::from(engine.partition_of("shop", corner.id).unwrap().get());
        let status = || engine.partitions("shop").unwrap()[partition].status.clone();
        assert!(matches!(status(), PartitionStatus::Elsewhere { holder: Some(_) }), "{:?}", status());
        invoice(&other, corner.id).await;
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(*mail.sent.lock().unwrap(), [1], "the log belongs to the other engine");
        other.close().await;
        engine.close().await;
    });
}

/// Waits until so many events were handed over.
async fn sent(env: &Env, mail: &Mail, count: usize) {
    while mail.sent.lock().unwrap().len() < count {
        env.sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn nothing_is_handed_over_again_when_the_store_was_deleted() {
    simulate(1, |env| async move {
        let log = MemoryLog::new();
        let mail = Mail::default();
        for life in 1..=2 {
            let engine = open(&env, &log, &MemoryStore::new(), &mail).await;
            let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
            for _ in 0..10 {
                invoice(&engine, corner.id).await;
            }
            sent(&env, &mail, 10 * life).await;
            engine.close().await;
        }
        assert_eq!(*mail.sent.lock().unwrap(), (1..=20).collect::<Vec<u64>>());
    });
}

#[test]
fn an_offset_of_an_earlier_program_is_taken_over_from_the_store_once() {
    simulate(1, |env| async move {
        let (log, store, mail) = (MemoryLog::new(), MemoryStore::new(), Mail::default());
        let engine = silent(&env, &log, &store).await;
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for _ in 0..5 {
            invoice(&engine, corner.id).await;
        }
        let partition = engine.partition_of("shop", corner.id).unwrap();
        let mut key = b"eo".to_vec();
        key.extend(engine.schema("shop").unwrap().id().get().to_be_bytes());
        key.extend(partition.get().to_be_bytes());
        let key = Key::new(&key, b"mail");
        engine.store().put(key, &3_u64.to_be_bytes()).await.unwrap();
        engine.close().await;
        for _ in 0..2 {
            let engine = open(&env, &log, &store, &mail).await;
            sent(&env, &mail, 3).await;
            engine.close().await;
            assert_eq!(*mail.sent.lock().unwrap(), [3, 4, 5]);
            let store = Store::new(store.reopen());
            assert_eq!(store.get(key).await.unwrap(), None, "it is kept in one place");
        }
    });
}

#[test]
fn what_follows_the_end_of_a_log_that_was_cut_is_handed_over() {
    simulate(1, |env| async move {
        let (log, store, mail) = (MemoryLog::new(), MemoryStore::new(), Mail::default());
        let engine = silent(&env, &log, &store).await;
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        invoice(&engine, corner.id).await;
        let partition = engine.partition_of("shop", corner.id).unwrap();
        let application = engine.schema("shop").unwrap().id();
        engine.close().await;
        let key = format!("projector/{application}/{partition}/mail");
        Log::new(log.reopen()).bulletin().put(&key, &1_000_u64.to_be_bytes()).await.unwrap();
        let engine = open(&env, &log, &store, &mail).await;
        invoice(&engine, corner.id).await;
        sent(&env, &mail, 1).await;
        assert_eq!(*mail.sent.lock().unwrap(), [2]);
        engine.close().await;
    });
}

#[test]
fn an_offset_of_another_log_counts_as_none_and_one_without_a_log_as_one_of_this_log() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let engine = silent(&env, &log, &store).await;
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for _ in 0..5 {
            invoice(&engine, corner.id).await;
        }
        let partition = engine.partition_of("shop", corner.id).unwrap();
        let application = engine.schema("shop").unwrap().id();
        engine.close().await;
        let key = format!("projector/{application}/{partition}/mail");
        let plain = Log::new(log.reopen());
        let this = plain.identity().await.unwrap().unwrap();
        let stored = |log: &[u8]| [&[1][..], &4_u64.to_be_bytes(), log].concat();
        for (value, first) in
            [(4_u64.to_be_bytes().to_vec(), 4), (stored(this.as_bytes()), 4), (stored(&[9; 16]), 1)]
        {
            plain.bulletin().put(&key, &value).await.unwrap();
            let mail = Mail::default();
            let engine = open(&env, &log, &store, &mail).await;
            sent(&env, &mail, usize::try_from(6 - first).unwrap()).await;
            engine.close().await;
            assert_eq!(*mail.sent.lock().unwrap(), (first..=5).collect::<Vec<u64>>());
            let kept = plain.bulletin().get(&key).await.unwrap().unwrap();
            assert_eq!(kept[..], [&[1][..], &6_u64.to_be_bytes(), this.as_bytes()].concat());
        }
    });
}

/// A log that counts what is posted beside it.
#[derive(Debug, Clone)]
struct CountingLog {
    log: MemoryLog,
    posts: Arc<AtomicUsize>,
}

#[async_trait]
impl LogBackend for CountingLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        self.log.take_over(partitions, take).await
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.log.holder(partition).await
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.log.identity(create).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        self.log.append(append)
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        self.log.read(partition, from, limit).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.log.tail(partition).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        self.log.committed(partition, offset).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.log.partitions().await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        Arc::new(self.clone())
    }

    async fn close(&self) -> Result<(), LogError> {
        self.log.close().await
    }
}

#[async_trait]
impl BulletinBackend for CountingLog {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        BulletinBackend::get(&self.log, key).await
    }

    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        self.posts.fetch_add(1, Ordering::Relaxed);
        BulletinBackend::put(&self.log, key, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, BulletinError> {
        BulletinBackend::list(&self.log, prefix).await
    }

    async fn remove(&self, key: &str) -> Result<(), BulletinError> {
        BulletinBackend::remove(&self.log, key).await
    }
}

#[test]
fn a_busy_projector_keeps_its_offset_ten_times_a_second_and_an_idle_one_not_at_all() {
    simulate(1, |env| async move {
        let posts = Arc::new(AtomicUsize::new(0));
        let log = CountingLog { log: MemoryLog::new(), posts: posts.clone() };
        let store = Store::new(MemoryStore::new());
        let mail = Mail { failed: Arc::new(Mutex::new((0..1_000).collect())), ..Mail::default() };
        let app = App::new(shop()).async_projector(mail.clone());
        let engine =
            Engine::open(env.clone(), Log::new(log), store, [app], Options::default()).await.unwrap();
        assert!(engine.wait_ready(Duration::from_secs(60)).await);
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for _ in 0..200 {
            invoice(&engine, corner.id).await;
            env.sleep(Duration::from_millis(10)).await;
        }
        sent(&env, &mail, 200).await;
        let busy = posts.load(Ordering::Relaxed);
        assert!((10..=21).contains(&busy), "{busy} posts in two seconds");
        env.sleep(Duration::from_secs(60)).await;
        let idle = posts.load(Ordering::Relaxed);
        assert!(idle <= busy + 1, "the last one is kept once");
        engine.close().await;
        assert_eq!(posts.load(Ordering::Relaxed), idle, "all was kept");
    });
}

#[test]
fn a_fenced_copy_hands_nothing_over_until_it_is_unfenced() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let mail = Mail::default();
        let engine = open(&env, &log, &store, &Mail::default()).await;
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        engine.close().await;
        // So that there is an event that was not handed over.
        let silent = silent(&env, &log, &store).await;
        for _ in 0..2 {
            invoice(&silent, corner.id).await;
        }
        silent.close().await;
        Engine::fence(env.clone(), Log::new(log.reopen()), Store::new(store.reopen())).await.unwrap();
        let engine = open(&env, &log, &store, &mail).await;
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(
            *mail.sent.lock().unwrap(),
            Vec::<u64>::new(),
            "what it would send may have been sent already"
        );
        engine.unfence(&Unfence::Complete).await.unwrap();
        sent(&env, &mail, 2).await;
        assert_eq!(*mail.sent.lock().unwrap(), [1, 2]);
        engine.close().await;
    });
}

async fn invoice(engine: &Engine, workspace: WorkspaceId) {
    let request = Request::changes([Change::create("Invoice", 1)]);
    engine.submit("shop", workspace, &request).await.unwrap();
}

#[test]
fn a_follower_gets_what_is_there_and_then_what_comes() {
    simulate(1, |env| async move {
        let engine = open(&env, &MemoryLog::new(), &MemoryStore::new(), &Mail::default()).await;
        let corner = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
        let other = engine.create_workspace("shop", "store", None).await.unwrap().0.id;
        for _ in 0..5 {
            invoice(&engine, corner).await;
        }
        let from = WorkspaceOffset::new(2).unwrap();
        let mut follower = engine.follow_workspace("shop", corner, from).await.unwrap();
        assert_eq!(follower.next(3).await.unwrap().len(), 3);
        assert_eq!(follower.next(3).await.unwrap().len(), 1);
        assert_eq!(follower.offset().get(), 6);
        // What happens elsewhere does not wake it.
        invoice(&engine, other).await;
        assert!(env.timeout(Duration::from_secs(60), follower.next(3)).await.is_err());
        let waiting =
            env.spawn(async move { follower.next(3).await.unwrap()[0].place.workspace_offset.get() });
        env.sleep(Duration::from_secs(1)).await;
        invoice(&engine, corner).await;
        assert_eq!(waiting.await.unwrap(), 6);

        let partition = engine.partition_of("shop", corner).unwrap();
        let mut follower = engine.follow_partition("shop", partition, PartitionOffset::FIRST).unwrap();
        assert_eq!(follower.next(100).await.unwrap().len(), 6);
        assert_eq!(follower.offset().get(), 7);

        let mut late =
            engine.follow_workspace("shop", corner, WorkspaceOffset::new(7).unwrap()).await.unwrap();
        let waiting = env.spawn(async move { late.next(1).await.unwrap_err().kind() });
        env.sleep(Duration::from_secs(1)).await;
        engine.close().await;
        assert_eq!(waiting.await.unwrap(), ErrorKind::Closed, "the wait has an end");
    });
}

/// Remembers what it was given; panics once at the second event.
#[derive(Debug, Clone, Default)]
struct Panicking {
    sent: Arc<Mutex<Vec<u64>>>,
    panicked: Arc<AtomicUsize>,
}

#[async_trait]
impl AsyncProjector for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    async fn take(&self, event: Projected<'_>) -> Result<(), String> {
        let offset = event.place.workspace_offset.get();
        assert!(offset != 2 || self.panicked.fetch_add(1, Ordering::Relaxed) > 0, "as it was told");
        self.sent.lock().unwrap().push(offset);
        Ok(())
    }
}

#[test]
fn an_asynchronous_projector_that_panics_gets_the_event_again() {
    simulate(1, |env| async move {
        let (log, store) = (MemoryLog::new(), MemoryStore::new());
        let projector = Panicking::default();
        let app = App::new(shop()).async_projector(projector.clone());
        let (log, store) = (Log::new(log.reopen()), Store::new(store.reopen()));
        let engine = Engine::open(env.clone(), log, store, [app], Options::default()).await.unwrap();
        let (corner, _) = engine.create_workspace("shop", "store", Some("corner")).await.unwrap();
        for _ in 0..3 {
            let request = Request::changes([Change::create("Invoice", 1)]);
            engine.submit("shop", corner.id, &request).await.unwrap();
        }
        env.sleep(Duration::from_secs(10)).await;
        assert_eq!(*projector.sent.lock().unwrap(), [1, 2, 3]);
        engine.close().await;
    });
}
