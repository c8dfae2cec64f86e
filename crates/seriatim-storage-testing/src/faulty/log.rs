//! A log that fails on demand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seriatim_types::sync::{Mutex, MutexGuard};
use seriatim_types::{Epoch, Partition, PartitionOffset};
use tokio::sync::oneshot;

use super::plan::Decision;
use super::{Fault, Faults, Operation};
use seriatim_storage::{
    Append, AppendError, AppendFuture, BulletinBackend, Entries, Held, LogBackend, LogError, LogIdentity,
    ReadEntries, ReadLimit, Take, TakeOver,
};

/// A log around another one, with [`Faults`].
///
/// An append is given to the backend when it is called, unless something delays or holds it. Then a task gives it to the
/// backend, after the appends to the same partition that were called before it. This happens also if no one awaits it. So a
/// delay never moves one append before another. An append that a fault prevents is left out, and the following ones find
/// another tail. An append that is [`Fault::Late`] is given to the backend at a random time.
#[derive(Debug)]
pub struct FaultyLog {
    backend: Arc<dyn LogBackend>,
    faults: Faults,
    /// By partition: the last append that was not submitted at once. The receiver ends when that append is submitted.
    queues: Mutex<BTreeMap<Partition, oneshot::Receiver<()>>>,
}

impl FaultyLog {
    /// This backend, controlled by these faults.
    #[must_use]
    pub fn new(backend: Arc<dyn LogBackend>, faults: &Faults) -> Self {
        Self { backend, faults: faults.clone(), queues: Mutex::default() }
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<Partition, oneshot::Receiver<()>>> {
        self.queues.lock()
    }

    /// The append that this one must wait for, if there is one.
    fn turn(&self, partition: Partition) -> Option<oneshot::Receiver<()>> {
        let mut last = self.queues().remove(&partition)?;
        matches!(last.try_recv(), Err(oneshot::error::TryRecvError::Empty)).then_some(last)
    }

    /// Submits an append from a task: after another one, or after a delay.
    fn submit_later(
        &self,
        append: OwnedAppend,
        decision: Decision,
        turn: Option<oneshot::Receiver<()>>,
    ) -> AppendFuture {
        let Decision { fault, before, after } = decision;
        let (partition, at) = (append.partition, append.at);
        let (submitted, next_turn) = oneshot::channel();
        self.queues().insert(partition, next_turn);
        let (backend, env) = (self.backend.clone(), self.faults.env().clone());
        let task = self.faults.env().spawn(async move {
            if let Some(turn) = turn {
                // The receiver gives an error when the previous append has been submitted and its sender is dropped.
                let _ = turn.await;
            }
            before.wait(&env).await;
            let answer = append.submit(&*backend);
            drop(submitted);
            let answer = answer.await;
            after.wait(&env).await;
            answer
        });
        Box::pin(async move {
            let answer = task.await.unwrap_or_else(|error| Err(in_doubt(partition, at, error.to_string())));
            fault.map_or(answer, |fault| Err(append_error(partition, at, fault)))
        })
    }

    /// Submits an append after its caller got the answer that the outcome is in doubt.
    fn submit_late(&self, append: OwnedAppend, up_to: Duration) {
        let (backend, env) = (self.backend.clone(), self.faults.env().clone());
        let micros = u64::try_from(up_to.as_micros()).unwrap_or(u64::MAX);
        self.faults.env().spawn(async move {
            env.sleep(Duration::from_micros(env.random_below(micros))).await;
            // No caller waits for this answer.
            let _ = append.submit(&*backend).await;
        });
    }
}

/// An append that owns its entries, so that it can outlive the call.
#[derive(Debug)]
struct OwnedAppend {
    partition: Partition,
    epoch: Epoch,
    at: PartitionOffset,
    entries: Entries,
    verified: bool,
}

impl OwnedAppend {
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
fn append_error(partition: Partition, at: PartitionOffset, fault: Fault) -> AppendError {
    let reason = fault.reason().to_owned();
    match fault {
        Fault::Busy => AppendError::QueueFull { queued_bytes: 0 },
        Fault::Refuse => AppendError::Stopped(reason),
        Fault::LoseRequest | Fault::LoseReply | Fault::Late(_) | Fault::Panic => {
            in_doubt(partition, at, reason)
        }
    }
}

/// The error of every other operation.
fn unavailable(fault: Fault) -> LogError {
    LogError::Unavailable(fault.reason().to_owned())
}

#[async_trait]
impl LogBackend for FaultyLog {
    async fn take_over(
        &self,
        partitions: &[(Partition, Option<Epoch>)],
        take: &Take,
    ) -> Result<Vec<TakeOver>, LogError> {
        let take_over = self.backend.take_over(partitions, take);
        self.faults.around(Operation::Take, take_over, unavailable).await
    }

    async fn holder(&self, partition: Partition) -> Result<Option<Held>, LogError> {
        self.faults.around(Operation::Holder, self.backend.holder(partition), unavailable).await
    }

    async fn identity(&self, create: Option<LogIdentity>) -> Result<Option<LogIdentity>, LogError> {
        self.faults.around(Operation::Identity, self.backend.identity(create), unavailable).await
    }

    fn append(&self, append: Append<'_>) -> AppendFuture {
        let (partition, at) = (append.partition, append.at);
        let decision = self.faults.decide(Operation::Append);
        let env = self.faults.env().clone();
        if let Some(fault @ Fault::Late(up_to)) = decision.fault {
            self.submit_late(OwnedAppend::of(&append), up_to);
            return Box::pin(async move { Err(append_error(partition, at, fault)) });
        }
        if let Some(fault) = decision.fault.filter(|fault| fault.is_before_the_effect()) {
            return Box::pin(async move {
                decision.before.wait(&env).await;
                Err(append_error(partition, at, fault))
            });
        }
        let turn = self.turn(partition);
        if turn.is_some() || !decision.before.is_none() {
            return self.submit_later(OwnedAppend::of(&append), decision, turn);
        }
        let answer = self.backend.append(append);
        Box::pin(async move {
            let answer = answer.await;
            decision.after.wait(&env).await;
            decision.fault.map_or(answer, |fault| Err(append_error(partition, at, fault)))
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

    fn hint_tail(&self, partition: Partition, tail: PartitionOffset) {
        self.backend.hint_tail(partition, tail);
    }

    async fn partitions(&self) -> Result<Vec<Partition>, LogError> {
        self.faults.around(Operation::Partitions, self.backend.partitions(), unavailable).await
    }

    fn bulletin(&self) -> Arc<dyn BulletinBackend> {
        self.backend.bulletin()
    }

    async fn close(&self) -> Result<(), LogError> {
        let close = async {
            // Appends that were called before are in progress; wait until each has been submitted.
            let waiting = std::mem::take(&mut *self.queues());
            for (_, turn) in waiting {
                let _ = turn.await;
            }
            self.backend.close().await
        };
        self.faults.around(Operation::CloseLog, close, unavailable).await
    }
}
