//! What a partition's task shares with its flusher, its recovery and everybody who reads.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::FutureExt as _;
use seriatim_env::{Env, Shutdown};
use seriatim_sequencer::{Busy, Committed, Derived, Numbers, ReadError, Recovery};
use seriatim_storage::{ClusteringRange, Key, Log, LogError, ReadLimit, Store, StoreError};
use seriatim_types::{ErrorKind, Partition, PartitionOffset, Timestamp, WorkspaceId};
use tokio::sync::{Notify, watch};

use super::recovery;
use super::sweep::Sweeper;
use crate::apply::{Derivation, panic_text};
use crate::derive::{Fetched, Fetching, Overlay, REMOVED, Splits, Values, lock};
use crate::event_clock::EventClock;
use crate::fence::Fence;
use crate::follow::Watchers;
use crate::keys::StoreKey;
use crate::metrics::PartitionMetrics;
use crate::options::Options;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) partition: Partition,
    pub(crate) derivation: Arc<Derivation>,
    pub(crate) options: Options,
    pub(crate) overlay: Mutex<Overlay>,
    /// Tells the flusher that enough waits.
    pub(crate) wake: Notify,
    /// Why the last flush failed, until one succeeds or nothing is left to be written.
    pub(crate) store_failure: Mutex<Option<String>>,
    /// Which generation of the store the overlay lies on: set when a recovery begins.
    pub(crate) store_generation: AtomicU64,
    /// Tells the partition's task that the store was opened again, and is in another generation.
    pub(crate) renewed: Notify,
    /// Told when a flush or a recovery has ended.
    pub(crate) changes: watch::Sender<()>,
    /// Who follows which workspace.
    pub(crate) watchers: Watchers,
    /// Ends the tasks.
    pub(crate) stop: Shutdown,
    /// Why it takes no more commands. The first reason stays.
    pub(crate) stopped: watch::Sender<Option<String>>,
    pub(crate) metrics: PartitionMetrics,
    pub(crate) fence: Arc<Fence>,
    pub(crate) clock: Arc<EventClock>,
    /// Which values the store has in parts.
    pub(crate) splits: Splits,
    pub(crate) sweeper: Sweeper,
}

impl Shared {
    pub(crate) fn notify(&self) {
        self.changes.send_replace(());
    }

    /// Stops the partition: it takes no more commands, and nothing more is written to the store. What the log has, the next
    /// recovery finds there.
    pub(crate) fn halt(&self, reason: &str) {
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

    /// Why it was stopped, if it was.
    pub(crate) fn halted(&self) -> Option<String> {
        self.stopped.borrow().clone()
    }

    /// Runs a part of the partition. If it panics, the partition stops and says so, and the panic's message comes back.
    pub(crate) async fn guard<F: Future>(&self, what: &str, work: F) -> Result<F::Output, String> {
        AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
            let reason = format!("{what} panicked: {}", panic_text(&*panic));
            tracing::error!(partition = %self.partition, %reason, "the partition stops");
            self.halt(&reason);
            reason
        })
    }

    /// Whether the store was opened again since the recovery: it may have lost what had left the overlay, so nothing that it
    /// has now fits the overlay, and the partition has to recover.
    pub(crate) fn is_store_renewed(&self) -> bool {
        self.store.generation() != self.store_generation.load(Ordering::Acquire)
    }

    /// An error if what was just read may come from a store that was opened again.
    fn check_generation(&self) -> Result<(), StoreError> {
        if self.is_store_renewed() {
            self.renewed.notify_one();
            return Err(renewed());
        }
        Ok(())
    }

    /// Remembers how a flush ended, for those who ask whether the partition is well.
    pub(super) fn note_flush(&self, result: &Result<(), StoreError>) {
        let failure = result.as_ref().err().map(ToString::to_string);
        *self.store_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Opens a store that failed again. If that cannot be done and waiting does not help, the partition stops.
    pub(crate) async fn reopen_store(&self) {
        match self.store.reopen().await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                tracing::warn!(partition = %self.partition, %error, "the store failed and cannot be opened again yet");
            }
            Err(error) => self.halt(&format!("the store failed and cannot be opened again: {error}")),
        }
    }

    /// The time of the event before `next`, from the log; zero if there is none.
    pub(super) async fn time_before(&self, next: PartitionOffset) -> Result<Timestamp, LogError> {
        let Some(last) = PartitionOffset::new(next.get() - 1) else { return Ok(Timestamp::from_millis(0)) };
        let read = self.log.read(self.partition, last, ReadLimit::entries(1)).await?;
        let entry = read.iter().next();
        let missing =
            || LogError::Corrupt(format!("event {last} of partition {} is missing", self.partition));
        entry.map(|(_, entry)| entry.time()).ok_or_else(missing)
    }

    /// The second half of a fetch, until so many bytes are read, about: what is left counts as unread. Whether all was read.
    pub(crate) async fn read_fetching_within(
        &self,
        fetching: Fetching,
        bytes_max: usize,
    ) -> Result<(Fetched, bool), StoreError> {
        let found = self.splits.get_within(&self.store, fetching.keys(), bytes_max).await?;
        self.check_generation()?;
        let is_all = found.len() == fetching.keys().len();
        Ok((fetching.finish(found), is_all))
    }

    /// Reads keys from the store alone.
    pub(super) async fn get_many(&self, keys: &[StoreKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key<'_>> = keys.iter().map(StoreKey::as_key).collect();
        self.splits.get_many(&self.store, &keys).await
    }

    /// The present values of keys, overlay first: what it does not have is in the store already. Not while a recovery
    /// runs: see [`super::reading`].
    pub(super) async fn read(&self, keys: &[StoreKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
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

    /// Up to `limit` pairs of a storage partition, ascending: the overlay laid over the store. Fewer: there are no more.
    /// Not while a recovery runs: see [`super::reading`].
    pub(super) async fn scan(
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
            // What was removed and is still in the store takes a place of the page.
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
        // Taken first: what leaves it meanwhile is in the store.
        let over: BTreeMap<Bytes, Bytes> = lock(&self.overlay).snapshot(partition, &range, limit);
        let mut under = self.store.scan(partition, range).take(limit).await?;
        self.splits.join_page(&self.store, partition, &mut under).await?;
        if over.is_empty() {
            return Ok(under);
        }
        // Beyond the last pair of a full page the store may have more: what the overlay has there has to wait.
        let end = if under.len() == limit { under.last().map(|(key, _)| key.clone()) } else { None };
        let mut merged: BTreeMap<Bytes, Bytes> = under.into_iter().collect();
        merged.extend(over.into_iter().filter(|(key, _)| end.as_ref().is_none_or(|end| key <= end)));
        Ok(merged.into_iter().take(limit).collect())
    }

    /// The numbers of workspaces, overlay first. While a recovery runs, for that recovery alone.
    pub(super) async fn read_numbers(
        &self,
        workspaces: &[WorkspaceId],
    ) -> Vec<Result<Option<Numbers>, ReadError>> {
        let known: Vec<Option<Numbers>> = {
            let overlay = lock(&self.overlay);
            workspaces.iter().map(|workspace| overlay.numbers(*workspace).cloned()).collect()
        };
        let (partition, definition) = (self.partition, self.derivation.schema.sequences());
        let read = Numbers::read_missing(&self.store, partition, definition, workspaces, known).await;
        match self.check_generation() {
            Ok(()) => read,
            Err(error) => workspaces.iter().map(|_| Err(ReadError::Store(error.clone()))).collect(),
        }
    }
}

/// What was asked of a store that was opened again meanwhile.
pub(super) fn renewed() -> StoreError {
    StoreError::Unavailable("it failed and was opened again: the partition recovers".to_owned())
}

impl Derived for Shared {
    type Values = Values;

    async fn read(self: Arc<Self>, workspaces: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
        self.read_numbers(&workspaces).await
    }

    fn publish(&self, committed: &Committed<'_>, values: Values) {
        let wants_flush = {
            let mut overlay = lock(&self.overlay);
            overlay.publish(values.into_iter(), committed.numbers(), committed.next(), committed.bytes());
            overlay.wants_flush()
        };
        self.watchers.wake(committed.numbers().map(|(workspace, _)| workspace));
        if wants_flush {
            self.wake.notify_one();
        }
    }

    fn backlog(&self) -> Option<Busy> {
        lock(&self.overlay).backlog()
    }

    fn recover(self: Arc<Self>, recovery: Recovery) {
        let round = {
            let mut overlay = lock(&self.overlay);
            let round = overlay.suspend();
            overlay.catch_up_to(recovery.tail());
            round
        };
        let shared = self.clone();
        // An earlier one ends by itself when it looks again.
        drop(self.env.spawn(recovery::run(shared, recovery, round)));
    }
}
