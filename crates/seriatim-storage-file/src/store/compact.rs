//! Compaction: one task, which runs as long as there is something to compact.

use std::sync::Arc;

use seriatim_storage::StoreError;
use seriatim_types::sync::{Mutex, MutexGuard};

use super::state::StoreState;

/// The state of compaction.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    task: Mutex<Task>,
    /// Held during one step, by that task or by an ingestion that waits for compaction.
    step: Mutex<()>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Task {
    #[default]
    None,
    Running,
    /// Something has changed since the task last checked.
    RunningAgain,
}

impl Compaction {
    /// Waits for the step in progress, and prevents further steps until the guard is dropped.
    pub(super) fn pause(&self) -> MutexGuard<'_, ()> {
        lock(&self.step)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Compacts in the background until nothing is left to do.
pub(super) fn start(shared: &Arc<StoreState>) {
    let mut task = lock(&shared.compaction.task);
    if *task == Task::None && !shared.stop.is_cancelled() {
        *task = Task::Running;
        shared.env.spawn(compact(shared.clone()));
    } else if *task == Task::Running {
        *task = Task::RunningAgain;
    }
}

/// Allows the next compaction to start if this one panics.
struct ResetOnPanic<'a>(&'a Compaction);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *lock(&self.0.task) = Task::None;
        }
    }
}

async fn compact(shared: Arc<StoreState>) {
    let _reset_on_panic = ResetOnPanic(&shared.compaction);
    loop {
        let own = shared.clone();
        let more = shared.env.blocking(move || step(&own)).await;
        if let Err(error) = &more
            && *error != StoreError::Closed
        {
            tracing::warn!(%error, "a compaction of the store failed; the next ingestion opens its tree again");
        }
        let mut task = lock(&shared.compaction.task);
        if shared.stop.is_cancelled() || (!matches!(more, Ok(true)) && *task == Task::Running) {
            *task = Task::None;
            return;
        }
        *task = Task::Running;
    }
}

/// One step of compaction. Returns whether it changed anything.
pub(super) fn step(shared: &StoreState) -> Result<bool, StoreError> {
    let _step = lock(&shared.compaction.step);
    if shared.stop.is_cancelled() {
        return Ok(false);
    }
    let tree = shared.tree()?;
    if tree.has_failed() {
        return Ok(false);
    }
    let changed = tree.compact()?;
    if changed {
        shared.layers.publish(tree.tables()?);
    }
    Ok(changed)
}
