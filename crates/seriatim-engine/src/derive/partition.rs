//! What is derived from the log of one partition.
//!
//! The partition's task, the flusher, the recovery and all readers share it. The reads of this module do not wait for a recovery:
//! the recovery itself and the partition's own loads use them, and would wait for themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use seriatim_env::watch;
use seriatim_env::{Env, Shutdown};
use seriatim_sequencer::{
    Busy, Committed, Definition, IgnoredNumbers, Numbers, NumbersKey, ReadError, StopReason,
};
use seriatim_storage::{ClusteringRange, Key, Log, LogError, LogIdentity, Store, StoreError};
use seriatim_types::sync::Mutex;
use seriatim_types::{Partition, PartitionOffset, WorkspaceId, panic_text};
use tokio::sync::Notify;

use super::budget::{Budget, Limits};
use super::derives::Derives;
use super::draft::{REMOVED, lock};
use super::fetched::{Fetched, Fetching};
use super::identity;
use super::keys::StoreKey;
use super::overlay::Overlay;
use super::split::Splits;
use super::stream::Tap;
use crate::metrics::DerivedMetrics;

/// What a [`DerivedPartition`] is made of.
#[derive(Debug)]
pub(crate) struct Parts<D> {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) partition: Partition,
    pub(crate) derivation: Arc<D>,
    pub(crate) limits: Limits,
    pub(crate) budget: Arc<Budget>,
    pub(crate) flush_interval: Duration,
    pub(crate) retry: Duration,
    pub(crate) metrics: DerivedMetrics,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// Memory that follows the log: it is told every value that is published, chunk by chunk in the order of the log. After a recovery has begun it
/// is told values again that it knows, each with the offset of its event.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// A value was published. Called under the overlay's lock, before readers can find the value. The values of one chunk of events
    /// are in no order.
    fn published(&self, key: &StoreKey, value: &Bytes);

    /// Everything before an offset was published.
    fn reached(&self, next: PartitionOffset);
}

/// The overlay of a partition in front of its store, and what its tasks share.
#[derive(Debug)]
pub(crate) struct DerivedPartition<D> {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) partition: Partition,
    pub(crate) derivation: Arc<D>,
    pub(super) flush_interval: Duration,
    pub(super) retry: Duration,
    budget: Arc<Budget>,
    pub(crate) overlay: Mutex<Overlay>,
    /// Notifies the flusher that enough is unflushed.
    pub(super) wake: Notify,
    /// Why the last flush failed, until one succeeds or nothing is left to be written.
    store_failure: Mutex<Option<String>>,
    /// Sends a change when a flush or a recovery has ended, and when the partition stops.
    pub(crate) changes: watch::Sender<()>,
    /// Ends the tasks.
    pub(crate) stop: Shutdown,
    /// Why the partition has stopped. The first reason remains.
    stopped: watch::Sender<Option<String>>,
    /// Numbers in the log that the last recovery has ignored.
    ignored: Mutex<IgnoredNumbers>,
    /// Which values the store has in parts.
    pub(super) splits: Splits,
    /// Up to this epoch, entries were written with a definition that derives the same.
    pub(super) checked_epoch: AtomicU64,
    /// The identity of the log, once it was read.
    identity: OnceLock<LogIdentity>,
    /// What an export of the partition learns about writes to the store.
    pub(super) tap: Tap,
    pub(super) metrics: DerivedMetrics,
    observer: Option<Arc<dyn Observer>>,
}

impl<D: Derives> DerivedPartition<D> {
    /// Nothing is derived until a recovery begins.
    pub(crate) fn new(parts: Parts<D>) -> Self {
        Self {
            stop: parts.env.shutdown().child_token(),
            env: parts.env,
            log: parts.log,
            store: parts.store,
            partition: parts.partition,
            derivation: parts.derivation,
            flush_interval: parts.flush_interval,
            retry: parts.retry,
            overlay: Mutex::new(Overlay::new(parts.limits, parts.budget.clone())),
            budget: parts.budget,
            wake: Notify::new(),
            store_failure: Mutex::default(),
            changes: watch::Sender::new(()),
            stopped: watch::Sender::new(None),
            ignored: Mutex::default(),
            splits: Splits::default(),
            checked_epoch: AtomicU64::new(0),
            identity: OnceLock::new(),
            tap: Tap::default(),
            metrics: parts.metrics,
            observer: parts.observer,
        }
    }

    /// Tells the observer of a value that is being published.
    pub(super) fn observe(&self, key: &StoreKey, value: &Bytes) {
        if let Some(observer) = &self.observer {
            observer.published(key, value);
        }
    }

    pub(super) fn observe_reached(&self, next: PartitionOffset) {
        if let Some(observer) = &self.observer {
            observer.reached(next);
        }
    }

    /// Makes the changes of a committed group visible, values and offset in one step.
    pub(crate) fn publish(&self, committed: &Committed<'_>, values: D::Values) {
        let wants_flush = {
            let mut overlay = lock(&self.overlay);
            let values = D::writes(values).inspect(|(key, value)| self.observe(key, value));
            let reached = (committed.next(), committed.last());
            overlay.publish(values, committed.numbers(), reached, committed.bytes());
            self.observe_reached(committed.next());
            overlay.wants_flush()
        };
        if wants_flush {
            self.wake.notify_one();
        }
    }

    /// The identity of the log. If the log has none yet, it gets one.
    pub(crate) async fn identify(&self) -> Result<LogIdentity, LogError> {
        if let Some(known) = self.identity.get() {
            return Ok(*known);
        }
        let identity = identity::identify(&self.env, &self.log).await?;
        Ok(*self.identity.get_or_init(|| identity))
    }

    /// The identity of the log, if it was read before.
    pub(super) fn identity(&self) -> Option<LogIdentity> {
        self.identity.get().copied()
    }

    /// Why no group may be opened just now.
    pub(crate) fn backlog(&self) -> Option<Busy> {
        let overlay = lock(&self.overlay);
        if overlay.is_retired() {
            drop(overlay);
            let reason = self.halted().unwrap_or_else(|| "it is being stopped".to_owned());
            return Some(Busy::Stopped(StopReason::Internal(reason)));
        }
        overlay.backlog()?;
        drop(overlay);
        // The store may have made more writes durable since the last count.
        self.settle();
        lock(&self.overlay).backlog()
    }

    /// Counts what the store has made durable.
    pub(crate) fn settle(&self) {
        let durable = self.store.durable();
        self.budget.ahead.settle(durable);
        if lock(&self.overlay).settle(durable) {
            self.notify();
        }
    }

    /// Waits until no write to the store is in progress.
    pub(crate) async fn until_written(&self) {
        let mut changes = self.changes.subscribe();
        while lock(&self.overlay).is_writing() {
            // There is never an error, because this value has the sender.
            let _ = changes.changed().await;
        }
    }

    /// Makes everything durable that was written to the store.
    pub(crate) async fn sync(&self) -> Result<(), StoreError> {
        self.store.sync().await?;
        self.settle();
        Ok(())
    }

    /// Syncs the store if much of it is not durable. If several partitions want that, one of them syncs and the others wait.
    pub(super) async fn sync_if_due(&self) -> Result<(), StoreError> {
        if !self.budget.ahead.wants_sync() {
            return Ok(());
        }
        let _turn = self.budget.ahead.sync.lock().await;
        self.settle();
        if self.budget.ahead.wants_sync() { self.sync().await } else { Ok(()) }
    }

    pub(crate) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// Stops the partition. Nothing more is written to the store, and the next start recovers from the log.
    pub(crate) fn halt(&self, reason: &str) {
        // This is first: when the reason can be read, no further write begins.
        lock(&self.overlay).retire();
        self.stopped.send_if_modified(|present| {
            let first = present.is_none();
            if first {
                *present = Some(reason.to_owned());
            }
            first
        });
        self.notify();
    }

    /// Why the partition has stopped, if it has.
    pub(crate) fn halted(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    /// Runs a part of the partition's work. If it panics, the partition stops with that reason, which is also returned.
    pub(crate) async fn guard<F: Future>(&self, what: &str, work: F) -> Result<F::Output, String> {
        AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
            let reason = format!("{what} panicked: {}", panic_text(&*panic));
            tracing::error!(partition = %self.partition, %reason, "the partition stops; restart the server to recover it from the log");
            self.halt(&reason);
            reason
        })
    }

    /// Notes how a flush ended, for the state of the partition.
    pub(super) fn note_flush(&self, result: &Result<(), StoreError>) {
        *self.store_failure.lock() = result.as_ref().err().map(ToString::to_string);
    }

    pub(crate) fn store_failure(&self) -> Option<String> {
        self.store_failure.lock().clone()
    }

    pub(super) fn note_ignored(&self, found: IgnoredNumbers) {
        let mut ignored = self.ignored.lock();
        self.metrics.ignored_numbers.increment(found.count.saturating_sub(ignored.count));
        *ignored = found;
    }

    /// Numbers in the log that the last recovery has ignored, because no range of their sequence has them.
    pub(crate) fn ignored(&self) -> IgnoredNumbers {
        self.ignored.lock().clone()
    }

    /// The second half of a fetch: reads until about `bytes_max` bytes are read. The remaining keys count as unread. Returns whether
    /// all keys were read.
    pub(crate) async fn read_fetching_within(
        &self,
        fetching: Fetching,
        bytes_max: usize,
    ) -> Result<(Fetched, bool), StoreError> {
        let found = self.splits.get_within(&self.store, fetching.keys(), bytes_max).await?;
        let is_all = found.len() == fetching.keys().len();
        Ok((fetching.finish(found), is_all))
    }

    /// Reads keys from the store alone.
    pub(crate) async fn get_many(&self, keys: &[StoreKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key<'_>> = keys.iter().map(StoreKey::as_key).collect();
        self.splits.get_many(&self.store, &keys).await
    }

    /// The present values of keys. The overlay is checked first: what it does not have is already in the store. Must not be used
    /// during a recovery.
    pub(crate) async fn read(&self, keys: &[StoreKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut values: Vec<Option<Bytes>> = {
            let overlay = lock(&self.overlay);
            keys.iter().map(|key| overlay.get(key).cloned()).collect()
        };
        let missing = keys.iter().zip(&values).filter(|(_, value)| value.is_none());
        let missing: Vec<StoreKey> = missing.map(|(key, _)| key.clone()).collect();
        let found = self.get_many(&missing).await?;
        values
            .iter_mut()
            .filter(|value| value.is_none())
            .zip(found)
            .for_each(|(place, value)| *place = value);
        Ok(values.into_iter().map(|value| value.filter(|value| *value != REMOVED)).collect())
    }

    /// Up to `limit` pairs of a storage partition, in ascending order: the overlay merged over the store. If there are fewer, the
    /// range has no more. Must not be used during a recovery.
    pub(crate) async fn scan(
        &self,
        partition: &[u8],
        mut range: ClusteringRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let mut found = Vec::new();
        loop {
            let wanted = limit - found.len();
            let page = self.scan_page(partition, range.clone(), wanted).await?;
            let last = page.last().filter(|_| page.len() == wanted).map(|(key, _)| key.clone());
            // A removed value that is still in the store counts in the page, but not in the result.
            found.extend(page.into_iter().filter(|(_, value)| *value != REMOVED));
            match last {
                Some(last) if found.len() < limit => range.start = [&last[..], &[0]].concat().into(),
                _ => return Ok(found),
            }
        }
    }

    async fn scan_page(
        &self,
        partition: &[u8],
        range: ClusteringRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        // The overlay is read first: what leaves it meanwhile is in the store.
        let over: BTreeMap<Bytes, Bytes> = lock(&self.overlay).snapshot(partition, &range, limit);
        let mut under = self.store.scan(partition, range).take(limit).await?;
        self.splits.join_page(&self.store, partition, &mut under).await?;
        if over.is_empty() {
            return Ok(under);
        }
        // After the last pair of a full page the store may have more pairs. The overlay's values there belong to the next page.
        let end = if under.len() == limit { under.last().map(|(key, _)| key.clone()) } else { None };
        let mut merged: BTreeMap<Bytes, Bytes> = under.into_iter().collect();
        merged.extend(over.into_iter().filter(|(key, _)| end.as_ref().is_none_or(|end| key <= end)));
        Ok(merged.into_iter().take(limit).collect())
    }

    /// The numbers of workspaces. The overlay is checked first. During a recovery only that recovery may use this.
    pub(crate) async fn read_numbers(
        &self,
        workspaces: &[WorkspaceId],
    ) -> Vec<Result<Option<Numbers>, ReadError>> {
        let known: Vec<Option<Numbers>> = {
            let overlay = lock(&self.overlay);
            workspaces.iter().map(|workspace| overlay.numbers(*workspace).cloned()).collect()
        };
        let (partition, definition) = (self.partition, self.derivation.sequences());
        read_missing_numbers(&self.store, partition, definition, workspaces, known).await
    }
}

/// The numbers of workspaces, in the given order: those in `known`, and for the others those of the store, in one read.
pub(crate) async fn read_missing_numbers(
    store: &Store,
    partition: Partition,
    definition: &Definition,
    workspaces: &[WorkspaceId],
    known: Vec<Option<Numbers>>,
) -> Vec<Result<Option<Numbers>, ReadError>> {
    let missing = workspaces.iter().zip(&known).filter(|(_, known)| known.is_none());
    let keys: Vec<NumbersKey> =
        missing.map(|(workspace, _)| NumbersKey::new(partition, *workspace)).collect();
    let mut found: Vec<Result<Option<Numbers>, ReadError>> = known.into_iter().map(Ok).collect();
    let read = match &keys[..] {
        [] => return found,
        [key] => store.get(key.as_key()).await.map(|value| vec![value]),
        keys => {
            let keys: Vec<Key<'_>> = keys.iter().map(NumbersKey::as_key).collect();
            store.get_many(&keys).await
        }
    };
    let places = found.iter_mut().filter(|found| matches!(found, Ok(None)));
    match read {
        Ok(values) => {
            for (place, value) in places.zip(values) {
                let decode = |bytes: Bytes| Numbers::decode(definition, &bytes);
                *place = value.map(decode).transpose().map_err(ReadError::Bad);
            }
        }
        Err(error) => places.for_each(|place| *place = Err(ReadError::Store(error.clone()))),
    }
    found
}
