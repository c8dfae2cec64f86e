//! An owner that settles its appends in doubt, so that a backend whose answers may be lost passes the suite.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seriatim_storage::{AppendError, Entries, Holder, Log, LogError, Owner, Receipt, Take, TakeOverError};
use seriatim_types::sync::Mutex;
use seriatim_types::{Epoch, Partition, PartitionOffset};

use super::{entries, offset};
use crate::conformance::yield_once;

/// A take by this holder. No two takes of a process have the same id.
pub(in crate::conformance) fn take_of(holder: &str) -> Take {
    static TAKES: AtomicU64 = AtomicU64::new(1);
    Take::new(Holder::new(holder), TAKES.fetch_add(1, Ordering::Relaxed))
}

/// Takes a partition.
pub(in crate::conformance) async fn take(log: &Log, partition: Partition) -> Writer {
    Writer::new(log.take(partition).await.unwrap())
}

/// Takes several partitions at once.
pub(in crate::conformance) async fn take_all(log: &Log, partitions: &[Partition]) -> Vec<Writer> {
    log.take_all(partitions).await.unwrap().into_iter().map(Writer::new).collect()
}

/// Appends bodies at an offset. An append in doubt is settled.
pub(in crate::conformance) async fn append<B: AsRef<[u8]>>(
    log: &Log,
    writer: &Writer,
    at: u64,
    bodies: &[B],
) -> Result<Receipt, AppendError> {
    writer.append(log, offset(at), |owner| entries(owner, bodies)).await.map(|written| written.receipt)
}

/// Appends groups from an offset on, all of them before the first is answered. If one is in doubt, it is settled, and the rest is
/// appended again.
pub(in crate::conformance) async fn append_all<B: AsRef<[u8]>>(
    log: &Log,
    writer: &Writer,
    from: u64,
    groups: &[Vec<B>],
) {
    let (mut at, mut left) = (offset(from), groups);
    while !left.is_empty() {
        let owner = writer.owner();
        let mut next = at;
        let submitted: Vec<_> = left
            .iter()
            .map(|group| {
                let (first, entries) = (next, entries(&owner, group));
                next = first.advance(group.len() as u64).unwrap();
                let answer = log.append(&owner, first, &entries);
                (first, entries, answer)
            })
            .collect();
        // The order of waiting for the answers does not matter.
        let mut answers = Vec::new();
        for (first, entries, answer) in submitted.into_iter().rev() {
            let answer = writer.decide(log, &owner, first, &entries, answer.await).await;
            answers.push(answer);
        }
        let written: Vec<_> = answers.iter().rev().map_while(|answer| answer.as_ref().ok()).collect();
        at = written.last().map_or(at, |receipt| receipt.next());
        let was_settled = writer.epoch() != owner.epoch();
        assert!(
            was_settled || written.len() == left.len(),
            "{:?}",
            answers.iter().rev().find(|a| a.is_err())
        );
        left = &left[written.len()..];
    }
}

/// Repeats a call until its answer is not that the outcome is in doubt.
pub(in crate::conformance) async fn until_decided<F>(append: impl Fn() -> F) -> Result<Receipt, AppendError>
where
    F: Future<Output = Result<Receipt, AppendError>>,
{
    loop {
        match append().await {
            Err(AppendError::InDoubt { .. }) => yield_once().await,
            answer => return answer,
        }
    }
}

/// The owner of a partition. When an append is in doubt, the writer takes the partition over with the epoch that it has, so that
/// the append is decided, and continues as the new owner.
#[derive(Debug)]
pub(in crate::conformance) struct Writer {
    owner: Mutex<Arc<Owner>>,
    /// Held by the task that settles. The others find the new owner afterwards.
    settling: tokio::sync::Mutex<()>,
}

/// An append that is in the log.
#[derive(Debug)]
pub(in crate::conformance) struct Written {
    pub(in crate::conformance) receipt: Receipt,
    pub(in crate::conformance) entries: Entries,
    owner: Arc<Owner>,
}

impl Written {
    /// The same append, once more.
    pub(in crate::conformance) async fn repeat(&self, log: &Log) -> Result<Receipt, AppendError> {
        until_decided(|| log.append(&self.owner, self.receipt.first(), &self.entries)).await
    }
}

impl Writer {
    pub(in crate::conformance) fn new(owner: Owner) -> Self {
        Self { owner: Mutex::new(Arc::new(owner)), settling: tokio::sync::Mutex::default() }
    }

    /// The owner at this moment.
    pub(in crate::conformance) fn owner(&self) -> Arc<Owner> {
        self.owner.lock().clone()
    }

    pub(in crate::conformance) fn epoch(&self) -> Epoch {
        self.owner().epoch()
    }

    /// The tail when the partition was taken.
    pub(in crate::conformance) fn tail(&self) -> PartitionOffset {
        self.owner().tail()
    }

    pub(in crate::conformance) fn partition(&self) -> Partition {
        self.owner().partition()
    }

    /// Appends what `build` makes for the owner. It is made again if the append was in doubt and is not in the log.
    pub(in crate::conformance) async fn append(
        &self,
        log: &Log,
        at: PartitionOffset,
        build: impl Fn(&Owner) -> Entries,
    ) -> Result<Written, AppendError> {
        loop {
            let owner = self.owner();
            let entries = build(&owner);
            let answer = log.append(&owner, at, &entries).await;
            match self.decide(log, &owner, at, &entries, answer).await {
                Ok(receipt) => return Ok(Written { receipt, entries, owner }),
                // If this writer has settled another append, it is the owner with another epoch.
                Err(stale @ AppendError::StaleEpoch { .. }) => {
                    let _settled = self.settling.lock().await;
                    if self.epoch() == owner.epoch() {
                        return Err(stale);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The answer to an append, in which nothing is in doubt unless the log was closed: the partition is taken over with the
    /// owner's epoch, and then the same append is compared with the entry that is there.
    pub(in crate::conformance) async fn decide(
        &self,
        log: &Log,
        owner: &Owner,
        at: PartitionOffset,
        entries: &Entries,
        answer: Result<Receipt, AppendError>,
    ) -> Result<Receipt, AppendError> {
        let Err(AppendError::InDoubt { .. }) = answer else { return answer };
        if self.settle(log, owner).await.is_err() {
            return answer;
        }
        match until_decided(|| log.append(owner, at, entries)).await {
            Err(AppendError::Closed) => answer,
            decided => decided,
        }
    }

    /// Takes the partition over from an owner, unless another one has done that. The error is that the log is closed.
    async fn settle(&self, log: &Log, owner: &Owner) -> Result<(), LogError> {
        let _settling = self.settling.lock().await;
        if self.epoch() != owner.epoch() {
            return Ok(());
        }
        let take = take_of("a writer that settles");
        loop {
            match log.take_over(owner.partition(), Some(owner.epoch()), &take).await {
                Ok(owner) => {
                    *self.owner.lock() = Arc::new(owner);
                    return Ok(());
                }
                Err(TakeOverError::Deposed { .. }) => return Ok(()),
                Err(TakeOverError::Log(LogError::Closed)) => return Err(LogError::Closed),
                Err(TakeOverError::Log(_)) => yield_once().await,
                Err(error @ TakeOverError::Rewound { .. }) => panic!("{error}"),
            }
        }
    }
}
