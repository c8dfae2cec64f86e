//! The overlay, flusher and checkpoint of a sequencer that is used alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seriatim_env::{Env, Task};
use seriatim_storage::{Log, Store, StoreError};
use seriatim_types::{Partition, PartitionOffset, WorkspaceId};
use tokio::sync::Notify;

use crate::checkpoint::{self, CheckpointKey};
use crate::definition::Definition;
use crate::derived::{Committed, Derived, ReadError, Recovery};
use crate::metrics::{TaskMetrics, gauge};
use crate::numbers_codec::NumbersKey;
use crate::shared::Shared;
use crate::unflushed::Unflushed;
use crate::{Busy, FinishError, IgnoredNumbers, Numbers, Options, StopReason, flusher, recovery};

/// Numbers in a [`Store`], with an overlay in front of it and a task that flushes the overlay.
#[derive(Debug)]
pub struct Stored {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) partition: Partition,
    pub(crate) definition: Arc<Definition>,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: TaskMetrics,
    unflushed: Mutex<Unflushed>,
    /// Tells the flusher that enough waits.
    pub(crate) wake: Notify,
    /// Whether the flusher flushes once more when it ends. Not when the sequencer is merely dropped: the partition may
    /// be open again by then, and an older value must not follow a newer one.
    pub(crate) flush_at_end: AtomicBool,
    tasks: Mutex<Tasks>,
    ignored: Mutex<IgnoredNumbers>,
}

#[derive(Debug, Default)]
struct Tasks {
    flusher: Option<Task<Result<(), StoreError>>>,
    recovery: Option<Task<()>>,
}

/// Poisons the sequencer if its task panics.
#[derive(Debug)]
pub(crate) struct PoisonGuard<'a>(pub(crate) &'a Shared);

impl Drop for PoisonGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a [`Stored`] is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) env: Env,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) partition: Partition,
    pub(crate) definition: Arc<Definition>,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
}

impl Stored {
    /// Starts the flusher.
    pub(crate) fn start(parts: Parts) -> Arc<Self> {
        let unflushed = Mutex::new(Unflushed::new(&parts.options));
        let stored = Arc::new(Self {
            env: parts.env,
            log: parts.log,
            store: parts.store,
            partition: parts.partition,
            definition: parts.definition,
            options: parts.options,
            shared: parts.shared,
            metrics: TaskMetrics::new(parts.partition),
            unflushed,
            wake: Notify::new(),
            flush_at_end: AtomicBool::new(false),
            tasks: Mutex::default(),
            ignored: Mutex::default(),
        });
        let flusher = stored.env.spawn(flusher::run(stored.clone()));
        lock(&stored.tasks).flusher = Some(flusher);
        stored
    }

    pub(crate) fn unflushed(&self) -> MutexGuard<'_, Unflushed> {
        lock(&self.unflushed)
    }

    /// Tells metrics and whoever waits how much is left, after a flush.
    pub(crate) fn tell_unflushed(&self) {
        let (keys, events, bytes) = {
            let unflushed = self.unflushed();
            (unflushed.keys() as u64, unflushed.events(), unflushed.bytes())
        };
        self.metrics.unflushed.set(gauge(keys));
        self.metrics.events.set(gauge(events));
        self.metrics.bytes.set(gauge(bytes));
        self.shared.notify();
    }

    /// Numbers in the log that recovery has ignored.
    pub(crate) fn ignored(&self) -> IgnoredNumbers {
        lock(&self.ignored).clone()
    }

    pub(crate) fn note_ignored(&self, found: IgnoredNumbers) {
        let mut ignored = lock(&self.ignored);
        let news = found.count.saturating_sub(ignored.count);
        self.metrics.ignored.increment(news);
        *ignored = found;
    }

    /// The stored checkpoint; none means the first offset.
    pub(crate) async fn read_checkpoint(&self) -> Result<PartitionOffset, StopReason> {
        let key = CheckpointKey::new(self.partition);
        match self.store.get(key.as_key()).await? {
            None => Ok(PartitionOffset::FIRST),
            Some(bytes) => checkpoint::decode(&bytes).map_err(StopReason::BadCheckpoint),
        }
    }

    /// The numbers of one workspace: from the overlay, else from the store.
    async fn read_one(&self, workspace: WorkspaceId) -> Result<Option<Numbers>, ReadError> {
        if let Some(numbers) = self.unflushed().get(workspace) {
            return Ok(Some(numbers.clone()));
        }
        let key = NumbersKey::new(self.partition, workspace);
        let value = self.store.get(key.as_key()).await?;
        Ok(value.map(|bytes| Numbers::decode(&self.definition, &bytes)).transpose()?)
    }

    /// From the overlay, else from the store, in one read.
    pub(crate) async fn read_numbers(
        &self,
        workspaces: &[WorkspaceId],
    ) -> Vec<Result<Option<Numbers>, ReadError>> {
        let known: Vec<Option<Numbers>> = {
            let unflushed = self.unflushed();
            workspaces.iter().map(|workspace| unflushed.get(*workspace).cloned()).collect()
        };
        Numbers::read_missing(&self.store, self.partition, &self.definition, workspaces, known).await
    }

    /// Ends the tasks after a last flush, within `patience` whatever storage does.
    pub(crate) async fn finish(&self, patience: Duration) -> Result<(), FinishError> {
        self.flush_at_end.store(true, Ordering::Release);
        self.shared.stop.cancel();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        if let Some(recovery) = tasks.recovery {
            recovery.cancel();
        }
        let result = match tasks.flusher {
            None => Ok(()),
            Some(mut flusher) => match self.env.timeout(patience, &mut flusher).await {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(error))) => Err(error.to_string()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => {
                    flusher.cancel();
                    Err(format!("the store did not answer within {patience:?}"))
                }
            },
        };
        self.shared.finish();
        let unflushed = self.unflushed().keys();
        result.map_err(|reason| FinishError { unflushed, reason })
    }
}

impl Derived for Stored {
    type Values = ();

    async fn read(self: Arc<Self>, workspaces: Vec<WorkspaceId>) -> Vec<Result<Option<Numbers>, ReadError>> {
        match workspaces[..] {
            [workspace] => vec![self.read_one(workspace).await],
            _ => self.read_numbers(&workspaces).await,
        }
    }

    fn publish(&self, committed: &Committed<'_>, (): ()) {
        let wants_flush = {
            let mut unflushed = self.unflushed();
            for (workspace, numbers) in committed.numbers() {
                unflushed.put(workspace, numbers);
            }
            unflushed.advance(committed.next(), committed.bytes());
            unflushed.wants_flush()
        };
        if wants_flush {
            self.wake.notify_one();
        }
    }

    fn backlog(&self) -> Option<Busy> {
        self.unflushed().backlog()
    }

    fn recover(self: Arc<Self>, recovery: Recovery) {
        self.unflushed().suspend();
        let stored = self.clone();
        let task = self.env.spawn(recovery::run(stored, recovery));
        // An earlier one ends by itself when it looks again: cancelled, it could leave a write under way for ever.
        lock(&self.tasks).recovery = Some(task);
    }
}
