//! A cut of a log has the cause of everything in it, while appends continue.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use seriatim_env::{Env, simulate};
use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{
    Append, AppendFuture, BulletinBackend, Digest, Entries, Header, Held, Log, LogBackend, LogError,
    LogIdentity, Owner, ReadEntries, ReadLimit, Take, TakeOver,
};
use seriatim_types::{
    Epoch, Partition, PartitionOffset, Timestamp, WorkspaceId, WorkspaceKind, WorkspaceOffset,
};

const PARTITIONS: u16 = 4;

/// A log whose calls take different times, so that appends happen between two reads of tails.
#[derive(Debug)]
struct Slow {
    env: Env,
    log: MemoryLog,
}

impl Slow {
    async fn pause(&self) {
        self.env.sleep(std::time::Duration::from_micros(self.env.random() % 1_000)).await;
    }
}

#[async_trait]
impl LogBackend for Slow {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        self.log.take_over(partitions, take).await
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.pause().await;
        let held = self.log.holder(partition).await;
        self.pause().await;
        held
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.log.identity(create).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let answer = self.log.append(append);
        let (env, wait) = (self.env.clone(), self.env.random() % 500);
        Box::pin(async move {
            env.sleep(std::time::Duration::from_micros(wait)).await;
            answer.await
        })
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
        self.log.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        self.log.close().await
    }
}

fn partition(id: u16) -> Partition {
    Partition::new(3, id)
}

/// An entry whose body says how long each partition was when it was made: what it may follow from.
fn entry(owner: &Owner, seen: &[u64]) -> Entries {
    let body: Vec<u8> = seen.iter().flat_map(|tail| tail.to_be_bytes()).collect();
    let header = Header {
        workspace: WorkspaceId::FIRST,
        kind: WorkspaceKind::new(1),
        workspace_offset: WorkspaceOffset::FIRST,
        time: Timestamp::from_millis(0),
        body_digest: Digest::of(&body),
        draws: &[],
        raises: &[],
    };
    let mut entries = Entries::new(owner.next_append_id());
    entries.push(&header, Digest::ZERO, &body).unwrap();
    entries
}

/// Appends to a partition until it is told to end. Each entry follows from everything that is acknowledged at that time.
async fn write(log: Log, id: u16, acknowledged: Arc<[std::sync::atomic::AtomicU64]>, end: Arc<AtomicBool>) {
    let owner = log.take(partition(id)).await.unwrap();
    let mut at = PartitionOffset::FIRST;
    while !end.load(Ordering::Relaxed) {
        let seen: Vec<u64> = acknowledged.iter().map(|tail| tail.load(Ordering::Relaxed)).collect();
        at = log.append(&owner, at, &entry(&owner, &seen)).await.unwrap().next();
        acknowledged[usize::from(id)].store(at.get(), Ordering::Relaxed);
    }
}

async fn check(log: &Log, cut: impl Fn(Partition) -> u64) {
    for id in 0..PARTITIONS {
        let read = log.read(partition(id), PartitionOffset::FIRST, ReadLimit::default()).await.unwrap();
        for (at, entry) in read.iter().take_while(|(at, _)| at.get() < cut(partition(id))) {
            for (cause, tail) in (0..PARTITIONS).zip(entry.body().chunks(8)) {
                let tail = u64::from_be_bytes(tail.try_into().unwrap());
                assert!(
                    tail <= cut(partition(cause)),
                    "entry {at} of partition {id} follows from everything before {tail} of partition {cause}, and the cut \
                     ends at {}",
                    cut(partition(cause))
                );
            }
        }
    }
}

fn under_load(seed: u64, cut_naively: bool) {
    simulate(seed, |env| async move {
        let log = Log::new(Slow { env: env.clone(), log: MemoryLog::new() });
        let acknowledged: Arc<[_]> = (0..PARTITIONS).map(|_| std::sync::atomic::AtomicU64::new(1)).collect();
        let end = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..PARTITIONS)
            .map(|id| env.spawn(write(log.clone(), id, acknowledged.clone(), end.clone())))
            .collect();
        env.sleep(std::time::Duration::from_millis(5)).await;
        for _ in 0..20 {
            let before: Vec<u64> = acknowledged.iter().map(|tail| tail.load(Ordering::Relaxed)).collect();
            if cut_naively {
                let mut tails = Vec::new();
                for id in 0..PARTITIONS {
                    tails.push(log.holder(partition(id)).await.unwrap().unwrap().tail.get());
                }
                check(&log, |partition| tails[usize::from(partition.id.get())]).await;
            } else {
                let cut = log.cut().await.unwrap();
                check(&log, |partition| cut[&partition].tail.get()).await;
                for (id, before) in (0..PARTITIONS).zip(before) {
                    assert!(
                        cut[&partition(id)].tail.get() >= before,
                        "what was acknowledged before is in the cut"
                    );
                }
            }
        }
        end.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

#[test]
fn a_cut_has_the_cause_of_everything_in_it() {
    for seed in 0..50 {
        under_load(seed, false);
    }
}

#[test]
#[should_panic(expected = "follows from everything before")]
fn tails_that_are_read_one_after_the_other_are_not_a_cut() {
    under_load(1, true);
}

#[test]
fn a_log_that_another_process_appends_to_all_the_time_has_no_cut() {
    simulate(1, |env| async move {
        let shared = MemoryLog::new();
        let log = Log::new(Slow { env: env.clone(), log: shared.reopen() });
        let other = Log::new(Slow { env: env.clone(), log: shared.reopen() });
        let acknowledged: Arc<[_]> = (0..PARTITIONS).map(|_| std::sync::atomic::AtomicU64::new(1)).collect();
        let end = Arc::new(AtomicBool::new(false));
        let writer = env.spawn(write(other, 0, acknowledged, end.clone()));
        env.sleep(std::time::Duration::from_millis(5)).await;
        let refused = log.cut().await.unwrap_err();
        assert!(refused.to_string().contains("another process appends to partition 3/0"), "{refused}");
        end.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        assert_eq!(log.cut().await.unwrap()[&partition(0)].tail, log.tail(partition(0)).await.unwrap());
    });
}
