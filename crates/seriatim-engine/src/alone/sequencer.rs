//! The sequencer of one partition, with its overlay, flusher and checkpoint.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Env;
use seriatim_env::watch;
use seriatim_sequencer::{
    Busy, Committed, Definition, Derived, IgnoredNumbers, Numbers, ReadError, Recovery,
};
use seriatim_storage::{Log, Owner, Store, StoreError};
use seriatim_types::{ErrorKind, WorkspaceId};

use super::Options;
use crate::derive::recovery::Start;
use crate::derive::{Budget, DerivedPartition, Limits, NumbersOnly, Parts, Stretch, flusher, lock, recovery};
use crate::metrics::DerivedMetrics;

/// Numbers in a [`Store`], with an overlay in front of it and a task that flushes the overlay.
#[derive(Debug)]
pub struct StoredNumbers(pub(crate) Arc<DerivedPartition<NumbersOnly>>);

impl Derived for StoredNumbers {
    type Values = ();

    async fn read(self: Arc<Self>, workspaces: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
        self.0.read_numbers(&workspaces).await
    }

    fn publish(&self, committed: &Committed<'_>, (): ()) {
        self.0.publish(committed, ());
    }

    fn backlog(&self) -> Option<Busy> {
        self.0.backlog()
    }

    fn subscribe(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    fn recover(self: Arc<Self>, recovery: Recovery) {
        drop(self.0.env.spawn(recovery::start(self.0.clone(), recovery, Start::Cold)));
    }
}

/// A [`Sequencer`](seriatim_sequencer::Sequencer) that keeps its numbers in a store.
///
/// Dropping it flushes nothing: another process may have opened the partition, and the log has everything.
#[derive(Debug)]
pub struct Sequencer {
    core: seriatim_sequencer::Sequencer<StoredNumbers>,
    derived: Arc<DerivedPartition<NumbersOnly>>,
}

impl Sequencer {
    /// Starts recovery and a flusher, and returns at once.
    #[must_use]
    pub fn open(
        env: Env,
        log: Log,
        store: Store,
        owner: Owner,
        definition: Arc<Definition>,
        options: Options,
    ) -> Self {
        let partition = owner.partition();
        let (events, bytes) = (options.uncheckpointed_events_max, options.uncheckpointed_bytes_max);
        let ahead_max = Stretch { events, bytes };
        let limits = Limits {
            flush_at: options.flush_at,
            divided_keys: 0,
            divided_bytes: 0,
            divided_ahead: Stretch { events: ahead_max.events / 2, bytes: ahead_max.bytes / 2 },
        };
        let derived = Arc::new(DerivedPartition::new(Parts {
            env: env.clone(),
            log,
            store,
            partition,
            derivation: Arc::new(NumbersOnly(definition.clone())),
            limits,
            // Numbers are small, and `unflushed_max` bounds how many there are.
            budget: Arc::new(Budget::new(options.unflushed_max, usize::MAX, ahead_max)),
            flush_interval: options.flush_interval,
            retry: options.retry,
            metrics: DerivedMetrics::new("seriatim_sequencer", partition),
            observer: None,
        }));
        let flushed = derived.clone();
        drop(env.spawn(async move { flusher::run(&flushed, || std::future::ready(())).await }));
        let stored = Arc::new(StoredNumbers(derived.clone()));
        let core = seriatim_sequencer::Sequencer::new(env, owner, definition, options.cache_numbers, stored);
        Self { core, derived }
    }

    /// Numbers in the log that recovery has ignored, because no range of their sequence has them.
    #[must_use]
    pub fn ignored_numbers(&self) -> IgnoredNumbers {
        self.derived.ignored()
    }

    /// Ends recovery, flushes everything, and ends the flusher. Returns after `within` at the latest, even if storage does not
    /// answer.
    ///
    /// # Errors
    ///
    /// [`FinishError`] if something was not flushed. Nothing is lost, because the log has everything. If the store did not answer
    /// in time, close it before the partition is opened again, because a write may still be in progress.
    pub async fn finish(self, within: Duration) -> Result<(), FinishError> {
        let derived = &self.derived;
        derived.stop.cancel();
        let reason = match derived.env.timeout(within, flush_and_sync(derived)).await {
            Ok(Ok(())) => derived.halted(),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the store did not answer within {within:?}")),
        };
        let unflushed = lock(&derived.overlay).keys();
        reason.map_or(Ok(()), |reason| Err(FinishError { unflushed, reason }))
    }
}

async fn flush_and_sync(derived: &Arc<DerivedPartition<NumbersOnly>>) -> Result<(), StoreError> {
    flusher::flush_all(derived).await?;
    derived.sync().await
}

impl Deref for Sequencer {
    type Target = seriatim_sequencer::Sequencer<StoredNumbers>;

    fn deref(&self) -> &Self::Target {
        &self.core
    }
}

impl DerefMut for Sequencer {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.core
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        self.derived.stop.cancel();
    }
}

/// The sequencer ended before everything was flushed. Nothing is lost: the next recovery reads it from the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sequencer ended with {unflushed} workspaces not flushed: {reason}")]
pub struct FinishError {
    /// Workspaces whose numbers are not in the store.
    pub unflushed: usize,
    /// Why they were not flushed.
    pub reason: String,
}

impl FinishError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }
}
