//! A log in memory that breaks one promise of the port.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{Either, select};
use seriatim_env::watch;
use seriatim_storage::memory::MemoryLog;
use seriatim_storage::{
    Append, AppendFuture, BulletinBackend, BulletinError, Entries, Held, Holder, Log, LogBackend, LogError,
    LogIdentity, ReadEntries, ReadLimit, Take, TakeOver, TakenPartition,
};
use seriatim_types::sync::Mutex;
use seriatim_types::{Epoch, Partition, PartitionOffset};

use crate::conformance::{LogFixture, SharedLogFixture, yield_once};

/// The promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// None: the log keeps all promises.
    None,
    /// A read returns only what was appended through the same handle.
    ReadsOwnAppends,
    /// A read returns nothing after the partition was taken a second time.
    ReadsNothingAfterATakeOver,
    /// The tail counts only what was appended through the same handle.
    CountsOwnAppends,
    /// A handle answers with the last take that was made through it.
    RemembersOwnTakes,
    /// The holder has no name.
    ForgetsNames,
    /// The holder has no name for a handle that was opened after the take.
    ForgetsNamesOnReopen,
    /// A handle that waits for an entry is never woken.
    NeverWakes,
    /// A handle that waits for an entry is woken by hints only.
    WakesByHintOnly,
    /// A hint counts as an entry.
    BelievesHints,
    /// The owner is checked against the last take of the same handle.
    ChecksOwnersByHandle,
    /// The owner is not checked if its epoch is much lower than the present one.
    ForgetsOldEpochs,
    /// The epoch is compared and raised in two steps.
    ComparesThenTakes,
    /// A take-over succeeds if the epoch is lower than expected.
    TakesIfLower,
    /// If one partition is refused, all are.
    TakesAllOrNone,
    /// A refusal does not have the id of the take.
    ForgetsTakeIds,
    /// A refusal has the take of the one that asks.
    EchoesTakes,
    /// Every take that has ever succeeded succeeds again.
    RecognizesOldTakes,
    /// A refused take-over raises the epoch.
    RaisesTheEpochOnRefusal,
    /// After a refused take-over, late appends are written.
    DecidesNothingOnRefusal,
    /// Appends are written after a take that did not count them.
    WritesAfterATake,
    /// Closing one handle closes all.
    ClosesAllHandles,
    /// Closing one handle ends the waiting of all.
    ClosesAllFollowers,
    /// Each handle has an identity of its own.
    IdentityByHandle,
    /// The last identity that was to be created is the identity.
    LastIdentityWins,
    /// The identity is compared and written in two steps.
    ComparesThenIdentifies,
    /// Asking for the identity creates one.
    IdentifiesOnRead,
    /// Each handle has a bulletin of its own.
    BulletinByHandle,
    /// A list is not in order.
    ListsInReverse,
    /// Nothing is removed from the bulletin.
    RemovesNothing,
}

/// What all handles share besides the log.
#[derive(Debug, Default)]
struct SharedState {
    was_refused: AtomicBool,
    is_closed: watch::Sender<bool>,
    identity: Mutex<Option<LogIdentity>>,
    takes: Mutex<Vec<(Partition, Take, TakenPartition)>>,
}

/// Opens handles on a log with a flaw.
#[derive(Debug)]
pub(super) struct BrokenFixture {
    flaw: Flaw,
    memory: MemoryLog,
    shared: Arc<SharedState>,
}

impl BrokenFixture {
    pub(super) fn new(flaw: Flaw) -> Self {
        Self { flaw, memory: MemoryLog::new(), shared: Arc::default() }
    }

    fn handle(&self) -> Log {
        Log::new(self.backend())
    }

    pub(super) fn backend(&self) -> impl LogBackend + use<> {
        BrokenLog {
            flaw: self.flaw,
            memory: self.memory.reopen(),
            bulletin: MemoryLog::new(),
            shared: self.shared.clone(),
            own: Mutex::default(),
            hinted: watch::Sender::new(PartitionOffset::FIRST),
        }
    }
}

impl LogFixture for BrokenFixture {
    async fn open(&self) -> Log {
        self.handle()
    }

    fn always_verifies(&self) -> bool {
        false
    }
}

impl SharedLogFixture for BrokenFixture {
    async fn open(&self) -> Log {
        self.handle()
    }
}

/// What was done through one handle.
#[derive(Debug, Default)]
struct Own {
    tails: BTreeMap<Partition, PartitionOffset>,
    held: BTreeMap<Partition, Held>,
    identity: Option<LogIdentity>,
}

#[derive(Debug)]
struct BrokenLog {
    flaw: Flaw,
    memory: MemoryLog,
    bulletin: MemoryLog,
    shared: Arc<SharedState>,
    own: Mutex<Own>,
    hinted: watch::Sender<PartitionOffset>,
}

impl BrokenLog {
    fn check_open(&self) -> Result<(), LogError> {
        let closed = self.flaw == Flaw::ClosesAllHandles && *self.shared.is_closed.borrow();
        if closed { Err(LogError::Closed) } else { Ok(()) }
    }

    fn own_tail(&self, partition: Partition) -> PartitionOffset {
        self.own.lock().tails.get(&partition).copied().unwrap_or(PartitionOffset::FIRST)
    }

    /// Writes an append when it is awaited, without a check in some cases.
    fn append_later(&self, append: OwnedAppend, verified: bool) -> AppendFuture {
        let (flaw, memory) = (self.flaw, self.memory.clone());
        let of_own_take =
            self.own.lock().held.get(&append.partition).is_some_and(|own| own.epoch == append.epoch);
        let was_refused = self.shared.was_refused.load(Ordering::SeqCst);
        Box::pin(async move {
            for _ in 0..3 {
                yield_once().await;
            }
            let held = memory.holder(append.partition).await.ok().flatten();
            let skips = match flaw {
                Flaw::ChecksOwnersByHandle => of_own_take,
                Flaw::ForgetsOldEpochs => held.is_some_and(|held| held.epoch.get() > append.epoch.get() + 8),
                Flaw::DecidesNothingOnRefusal => was_refused,
                _ => true,
            };
            append.submit(&memory, verified && !skips).await
        })
    }

    async fn take_over_one(
        &self,
        partition: Partition,
        expected: Option<Epoch>,
        take: &Take,
    ) -> Result<TakeOver, LogError> {
        let present = self.memory.holder(partition).await?.map(|held| held.epoch);
        let expected = match self.flaw {
            Flaw::ComparesThenTakes if present == expected => {
                for _ in 0..5 {
                    yield_once().await;
                }
                self.memory.holder(partition).await?.map(|held| held.epoch)
            }
            Flaw::TakesIfLower if present < expected => present,
            _ => expected,
        };
        let answer = self.memory.take_over(&[(partition, expected)], take).await?.remove(0);
        let TakeOver::Refused(mut held) = answer else { return Ok(answer) };
        self.shared.was_refused.fetch_or(held.as_ref().map(|held| held.epoch) > expected, Ordering::SeqCst);
        match self.flaw {
            // Another one was faster between the two steps. Take it from that one.
            Flaw::ComparesThenTakes if present == expected => {
                let present = held.map(|held| held.epoch);
                return Ok(self.memory.take_over(&[(partition, present)], take).await?.remove(0));
            }
            Flaw::RaisesTheEpochOnRefusal => {
                let present = held.as_ref().map(|held| held.epoch);
                self.memory.take_over(&[(partition, present)], take).await?;
            }
            Flaw::ForgetsTakeIds => {
                if let Some(held) = &mut held {
                    held.take.id = 0;
                }
            }
            Flaw::EchoesTakes => {
                if let Some(held) = &mut held {
                    held.take = take.clone();
                }
            }
            Flaw::RecognizesOldTakes => {
                let takes = self.shared.takes.lock();
                let earlier = takes.iter().find(|(taken, by, _)| (*taken, by) == (partition, take));
                if let Some((_, _, taken)) = earlier {
                    return Ok(TakeOver::Taken(*taken));
                }
            }
            _ => {}
        }
        Ok(TakeOver::Refused(held))
    }
}

#[async_trait]
impl LogBackend for BrokenLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        self.check_open()?;
        if self.flaw == Flaw::TakesAllOrNone {
            let mut present = Vec::new();
            for (partition, expected) in partitions {
                let held = self.memory.holder(*partition).await?;
                present.push((held.as_ref().map(|held| held.epoch) == *expected, held));
            }
            if present.iter().any(|(matches, _)| !matches) {
                return Ok(present.into_iter().map(|(_, held)| TakeOver::Refused(held)).collect());
            }
        }
        let mut answers = Vec::new();
        for (partition, expected) in partitions {
            let answer = self.take_over_one(*partition, *expected, take).await?;
            if let TakeOver::Taken(taken) = answer {
                let held = Held { epoch: taken.epoch, take: take.clone(), tail: taken.tail };
                self.own.lock().held.insert(*partition, held);
                self.shared.takes.lock().push((*partition, take.clone(), taken));
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.check_open()?;
        let mut held = self.memory.holder(partition).await?;
        let own = self.own.lock().held.get(&partition).cloned();
        let forgets = match self.flaw {
            Flaw::ForgetsNames => true,
            Flaw::ForgetsNamesOnReopen => own.is_none(),
            _ => false,
        };
        if let Some(held) = held.as_mut().filter(|_| forgets) {
            held.take.holder = Holder::unnamed();
        }
        Ok(if self.flaw == Flaw::RemembersOwnTakes { own } else { held })
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.check_open()?;
        let present = self.memory.identity(None).await?;
        match self.flaw {
            Flaw::IdentityByHandle => {
                let mut own = self.own.lock();
                own.identity = own.identity.or(create);
                Ok(own.identity)
            }
            Flaw::LastIdentityWins => {
                let mut identity = self.shared.identity.lock();
                *identity = create.or(*identity);
                Ok(*identity)
            }
            Flaw::ComparesThenIdentifies => {
                let present = *self.shared.identity.lock();
                yield_once().await;
                let new = present.or(create);
                *self.shared.identity.lock() = new;
                Ok(new)
            }
            Flaw::IdentifiesOnRead => {
                let new = LogIdentity::from_bytes([9; 16]);
                self.memory.identity(create.or(present).or(Some(new))).await
            }
            _ => self.memory.identity(create).await,
        }
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        if let Err(LogError::Closed) = self.check_open() {
            return Box::pin(async { Err(seriatim_storage::AppendError::Closed) });
        }
        let Append { partition, epoch, at, entries, verified } = append;
        let next = at.advance(entries.len() as u64).unwrap();
        let own = OwnedAppend { partition, epoch, at, entries: entries.clone() };
        match self.flaw {
            // These are written when they are awaited, so that they are in progress meanwhile.
            Flaw::ChecksOwnersByHandle
            | Flaw::ForgetsOldEpochs
            | Flaw::DecidesNothingOnRefusal
            | Flaw::WritesAfterATake => self.append_later(own, verified),
            _ => {
                let answer = own.submit(&self.memory, verified);
                let tails = &mut self.own.lock().tails;
                tails.insert(partition, next.max(tails.get(&partition).copied().unwrap_or(next)));
                answer
            }
        }
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        self.check_open()?;
        let epoch = self.memory.holder(partition).await?.map(|held| held.epoch);
        let hidden = match self.flaw {
            Flaw::ReadsOwnAppends => from >= self.own_tail(partition),
            Flaw::ReadsNothingAfterATakeOver => epoch > Some(Epoch::FIRST),
            _ => false,
        };
        if hidden { Ok(ReadEntries::new(from)) } else { self.memory.read(partition, from, limit).await }
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.check_open()?;
        match self.flaw {
            Flaw::CountsOwnAppends => Ok(self.own_tail(partition)),
            _ => self.memory.tail(partition).await,
        }
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let is_there = self.memory.tail(partition).await? > offset;
        let mut hinted = self.hinted.subscribe();
        let mut closed = self.shared.is_closed.subscribe();
        let there = self.memory.committed(partition, offset);
        match self.flaw {
            Flaw::NeverWakes if !is_there => std::future::pending().await,
            Flaw::WakesByHintOnly if !is_there => {
                let _ = hinted.wait_for(|hint| *hint > offset).await;
                Ok(())
            }
            Flaw::BelievesHints => match select(pin!(hinted.wait_for(|hint| *hint > offset)), there).await {
                Either::Left(_) => Ok(()),
                Either::Right((there, _)) => there,
            },
            Flaw::ClosesAllFollowers => match select(pin!(closed.wait_for(|closed| *closed)), there).await {
                Either::Left(_) => Err(LogError::Closed),
                Either::Right((there, _)) => there,
            },
            _ => there.await,
        }
    }

    fn hint_tail(&self, _: Partition, tail: PartitionOffset) {
        self.hinted.send_replace(tail);
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.memory.partitions().await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        let memory = if self.flaw == Flaw::BulletinByHandle { &self.bulletin } else { &self.memory };
        Arc::new(BrokenBulletin { flaw: self.flaw, memory: memory.clone() })
    }

    async fn close(&self) -> Result<(), LogError> {
        self.shared.is_closed.send_replace(true);
        self.memory.close().await
    }
}

/// An append that owns its entries.
struct OwnedAppend {
    partition: Partition,
    epoch: Epoch,
    at: PartitionOffset,
    entries: Entries,
}

impl OwnedAppend {
    fn submit(&self, memory: &MemoryLog, verified: bool) -> AppendFuture {
        let Self { partition, epoch, at, ref entries } = *self;
        memory.append(Append { partition, epoch, at, entries, verified })
    }
}

#[derive(Debug)]
struct BrokenBulletin {
    flaw: Flaw,
    memory: MemoryLog,
}

#[async_trait]
impl BulletinBackend for BrokenBulletin {
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BulletinError> {
        self.memory.get(key).await
    }

    async fn put(&self, key: &str, value: &[u8]) -> Result<(), BulletinError> {
        self.memory.put(key, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes)>, BulletinError> {
        let mut listed = self.memory.list(prefix).await?;
        if self.flaw == Flaw::ListsInReverse {
            listed.reverse();
        }
        Ok(listed)
    }

    async fn remove(&self, key: &str) -> Result<(), BulletinError> {
        if self.flaw == Flaw::RemovesNothing { Ok(()) } else { self.memory.remove(key).await }
    }
}
