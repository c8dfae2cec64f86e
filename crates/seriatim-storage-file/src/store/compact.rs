//! Compaction: one task, for as long as there is something to do.

use std::sync::Arc;

use seriatim_storage::StoreError;
use seriatim_types::sync::{Mutex, MutexGuard};

use super::shared::Shared;

/// Who compacts.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    task: Mutex<Task>,
    /// Held for one step, by that task or by an ingestion that waits for it.
    step: Mutex<()>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Task {
    #[default]
    None,
    Running,
    /// Something has changed since it last looked.
    RunningAgain,
}

impl Compaction {
    /// Waits for the step that is under way, and lets none begin for as long as this is held.
    pub(super) fn pause(&self) -> MutexGuard<'_, ()> {
        lock(&self.step)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Compacts in the background until nothing is left to do.
pub(super) fn start(shared: &Arc<Shared>) {
    let mut task = lock(&shared.compaction.task);
    if *task == Task::None && !shared.stop.is_cancelled() {
        *task = Task::Running;
        shared.env.spawn(compact(shared.clone()));
    } else if *task == Task::Running {
        *task = Task::RunningAgain;
    }
}

/// Lets the next compaction start, if this one ends by a panic.
struct Started<'a>(&'a Compaction);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *lock(&self.0.task) = Task::None;
        }
    }
}

async fn compact(shared: Arc<Shared>) {
    let _started = Started(&shared.compaction);
    loop {
        let own = shared.clone();
        let more = shared.env.blocking(move || step(&own)).await;
        if let Err(error) = &more
            && *error != StoreError::Closed
        {
            tracing::warn!(%error, "a compaction of the store failed; the next write to it opens its tree again");
        }
        let mut task = lock(&shared.compaction.task);
        if shared.stop.is_cancelled() || (!matches!(more, Ok(true)) && *task == Task::Running) {
            *task = Task::None;
            return;
        }
        *task = Task::Running;
    }
}

/// One step. Says whether it has changed anything.
pub(super) fn step(shared: &Shared) -> Result<bool, StoreError> {
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
