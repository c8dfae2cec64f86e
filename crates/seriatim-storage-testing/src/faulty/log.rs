//! A log that fails as it is told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::oneshot;

use super::plan::Passage;
use super::{Fault, Faults, Operation};
use seriatim_storage::{
    Append, AppendError, AppendFuture, BulletinBackend, Entries, LogBackend, LogError, ReadEntries,
    ReadLimit, Taken,
};

/// A log around another one, with [`Faults`].
///
/// An append goes to the backend when it is called, unless something delays or holds it; then it goes there from a task
/// of its own, behind the appends to the same partition that were called before it, whether anybody waits for it or not.
/// So delays move no append before another. An append that a fault keeps from happening is left out, and those behind
/// it find another tail; one that is [`Fault::Late`] comes whenever it comes.
#[derive(Debug)]
pub struct FaultyLog {
    backend: Arc<dyn LogBackend>,
    faults: Faults,
    /// By partition, the end of the last append that was not submitted at once. Ends when it is submitted.
    queues: Mutex<BTreeMap<Partition, oneshot::Receiver<()>>>,
}

impl FaultyLog {
    /// This backend, steered by these faults.
    #[must_use]
    pub fn new(backend: Arc<dyn LogBackend>, faults: &Faults) -> Self {
        Self { backend, faults: faults.clone(), queues: Mutex::default() }
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<Partition, oneshot::Receiver<()>>> {
        self.queues.lock()
    }

    /// What an append has to wait for, if there is anything.
    fn turn(&self, partition: Partition) -> Option<oneshot::Receiver<()>> {
        let mut last = self.queues().remove(&partition)?;
        matches!(last.try_recv(), Err(oneshot::error::TryRecvError::Empty)).then_some(last)
    }

    /// Submits an append from a task: behind another one, or after a delay.
    fn submit_later(
        &self,
        append: OwnAppend,
        passage: Passage,
        turn: Option<oneshot::Receiver<()>>,
    ) -> AppendFuture {
        let Passage { fault, before, after } = passage;
        let (partition, at) = (append.partition, append.at);
        let (submitted, next_turn) = oneshot::channel();
        self.queues().insert(partition, next_turn);
        let (backend, env) = (self.backend.clone(), self.faults.env().clone());
        let task = self.faults.env().spawn(async move {
            if let Some(turn) = turn {
                // It ends in an error, when the append in front has been submitted.
                let _ = turn.await;
            }
            before.pass(&env).await;
            let answer = append.submit(&*backend);
            drop(submitted);
            let answer = answer.await;
            after.pass(&env).await;
            answer
        });
        Box::pin(async move {
            let answer = task.await.unwrap_or_else(|error| Err(in_doubt(partition, at, error.to_string())));
            fault.map_or(answer, |fault| Err(unappended(partition, at, fault)))
        })
    }

    /// Lets an append come when its caller has long been told that there is no answer.
    fn submit_late(&self, append: OwnAppend, up_to: Duration) {
        let (backend, env) = (self.backend.clone(), self.faults.env().clone());
        let micros = u64::try_from(up_to.as_micros()).unwrap_or(u64::MAX);
        self.faults.env().spawn(async move {
            env.sleep(Duration::from_micros(env.random_below(micros))).await;
            // Nobody is left to be told.
            let _ = append.submit(&*backend).await;
        });
    }
}

/// An append that outlives its call.
#[derive(Debug)]
struct OwnAppend {
    partition: Partition,
    epoch: Epoch,
    at: PartitionOffset,
    entries: Entries,
    verified: bool,
}

impl OwnAppend {
    fn of(append: &Append<'_>) -> Self {
        let Append { partition, epoch, at, entries, verified } = *append;
        Self { partition, epoch, at, entries: entries.clone(), verified }
    }

    fn submit(&self, backend: &dyn LogBackend) -> AppendFuture {
        backend.append(Append {
            partition: self.partition,
            epoch: self.epoch,
            at: self.at,
            entries: &self.entries,
            verified: self.verified,
        })
    }
}

fn in_doubt(partition: Partition, at: PartitionOffset, reason: String) -> AppendError {
    AppendError::InDoubt { partition, at, reason }
}

/// The error of an append.
fn unappended(partition: Partition, at: PartitionOffset, fault: Fault) -> AppendError {
    let reason = fault.reason().to_owned();
    match fault {
        Fault::Busy => AppendError::QueueFull { queued_bytes: 0 },
        Fault::Refuse => AppendError::Stopped(reason),
        Fault::LoseRequest | Fault::LoseReply | Fault::Late(_) | Fault::Panic => {
            in_doubt(partition, at, reason)
        }
    }
}

/// The error of everything else.
fn unavailable(fault: Fault) -> LogError {
    LogError::Unavailable(fault.reason().to_owned())
}

#[async_trait]
impl LogBackend for FaultyLog {
    async fn take(&self, partitions: &[Partition]) -> Result<Vec<Taken>, LogError> {
        let take = self.backend.take(partitions);
        self.faults.around(Operation::Take, take, unavailable).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (partition, at) = (append.partition, append.at);
        let passage = self.faults.meet(Operation::Append);
        let env = self.faults.env().clone();
        if let Some(fault @ Fault::Late(up_to)) = passage.fault {
            self.submit_late(OwnAppend::of(&append), up_to);
            return Box::pin(async move { Err(unappended(partition, at, fault)) });
        }
        if let Some(fault) = passage.fault.filter(|fault| fault.is_before_the_effect()) {
            return Box::pin(async move {
                passage.before.pass(&env).await;
                Err(unappended(partition, at, fault))
            });
        }
        let turn = self.turn(partition);
        if turn.is_some() || !passage.before.is_open() {
            return self.submit_later(OwnAppend::of(&append), passage, turn);
        }
        let answer = self.backend.append(append);
        Box::pin(async move {
            let answer = answer.await;
            passage.after.pass(&env).await;
            passage.fault.map_or(answer, |fault| Err(unappended(partition, at, fault)))
        })
    }

    async fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let read = self.backend.read(partition, from, limit);
        self.faults.around(Operation::Read, read, unavailable).await
    }

    async fn tail(&self, partition: Partition) -> Result<PartitionOffset, LogError> {
        self.faults.around(Operation::Tail, self.backend.tail(partition), unavailable).await
    }

    async fn committed(&self, partition: Partition, offset: PartitionOffset) -> Result<(), LogError> {
        let committed = self.backend.committed(partition, offset);
        self.faults.around(Operation::Committed, committed, unavailable).await
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.faults.around(Operation::Partitions, self.backend.partitions(), unavailable).await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        self.backend.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        let close = async {
            // What was called before is under way, and is answered.
            let waiting = std::mem::take(&mut *self.queues());
            for (_, turn) in waiting {
                let _ = turn.await;
            }
            self.backend.close().await
        };
        self.faults.around(Operation::CloseLog, close, unavailable).await
    }
}
