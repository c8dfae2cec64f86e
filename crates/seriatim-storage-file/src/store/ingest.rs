//! Writes runs from memory into tables.
//!
//! All gathered runs, of all writers, become one sorted ingestion. A caller that needs a write to be durable waits for the
//! ingestion in progress. If that one did not have the write, the caller does the next one, which has the writes of all
//! callers that wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_storage::StoreError;

use super::layers::{IngestTaskNeed, Layers, NextIngestion, RunsToIngest};
use super::run::merge_runs;
use super::state::StoreState;
use super::tables::Tables;
use super::tree::{LEVEL_0_RUNS_MAX, SortedTree};
use super::{compact, fault};

/// The result of the last ingestion. The task that holds its lock may begin an ingestion.
#[derive(Debug, Default)]
pub(super) struct LastIngestion {
    /// The last ingestion, if it failed: its number, the last write in it, and the error.
    failed: Option<(u64, u64, StoreError)>,
}

impl LastIngestion {
    /// The error of the last ingestion, if it had this write and ended after the ingestion with the number `after`.
    fn failure(&self, after: u64, number: u64) -> Option<StoreError> {
        let (ended, covered, error) = self.failed.as_ref()?;
        (*ended > after && *covered >= number).then(|| error.clone())
    }
}

/// Makes all writes up to this one durable.
pub(super) async fn make_durable(shared: &Arc<StoreState>, number: u64) -> Result<(), StoreError> {
    ingest_unless(shared, number, |layers| layers.durable() >= number).await
}

/// Waits until there is room for one more run.
pub(super) async fn make_room(shared: &Arc<StoreState>) -> Result<(), StoreError> {
    ingest_unless(shared, 0, |layers| !layers.is_full()).await
}

/// Waits for the ingestion in progress, then ingests everything that is gathered, unless that is no longer needed. If the
/// previous ingestion failed and had the write, returns its error. An ingestion that has begun is completed also if the
/// caller is dropped.
async fn ingest_unless(
    shared: &Arc<StoreState>,
    number: u64,
    is_done: impl Fn(&Layers) -> bool,
) -> Result<(), StoreError> {
    let after = shared.ingestions.load(Ordering::Acquire);
    let mut last = shared.ingestion.clone().lock_owned().await;
    if is_done(&shared.layers) {
        return Ok(());
    }
    if let Some(error) = last.failure(after, number) {
        return Err(error);
    }
    let own = shared.clone();
    shared.env.blocking(move || attempt(&own, &mut last)).await
}

fn attempt(shared: &Arc<StoreState>, last: &mut LastIngestion) -> Result<(), StoreError> {
    let Some(ingesting) = shared.layers.begin_ingestion() else {
        // Nothing is gathered, or the store is closed.
        return shared.tree().map(|_| ());
    };
    let ingested = ingest(shared, &ingesting);
    let ended = shared.ingestions.fetch_add(1, Ordering::AcqRel) + 1;
    last.failed = None;
    match ingested {
        Ok(tables) => {
            shared.layers.finish_ingestion(&ingesting, tables);
            compact::start(shared);
            Ok(())
        }
        Err(error) => {
            tracing::warn!(%error, "buffered writes of the store could not be written to disk; they stay in memory, and the write is tried again");
            last.failed = Some((ended, ingesting.number, error.clone()));
            serve_task(shared, shared.layers.abort_ingestion(shared.env.instant()));
            Err(error)
        }
    }
}

fn ingest(shared: &Arc<StoreState>, ingesting: &RunsToIngest) -> Result<Tables, StoreError> {
    shared.check_space()?;
    open_failed_again(shared)?;
    wait_for_compaction(shared)?;
    let tree = shared.tree()?;
    if tree.has_failed() {
        // A compaction has failed since. The tree on disk may be newer than the one in memory.
        return Err(StoreError::Unavailable(
            "a compaction failed, and the store's tree must be opened again: try again".to_owned(),
        ));
    }
    fault::reach(&shared.directory, "before the tables")?;
    tree.ingest(merge_runs(&ingesting.runs))?;
    fault::reach(&shared.directory, "after the ingestion")?;
    tree.forget_versions();
    tree.tables()
}

/// Opens the tree again if something has failed since it was opened.
fn open_failed_again(shared: &StoreState) -> Result<(), StoreError> {
    if !shared.tree()?.has_failed() {
        return Ok(());
    }
    let _no_compaction = shared.compaction.pause();
    let mut tree = shared.tree_mut();
    let failed = tree.as_ref().ok_or(StoreError::Closed)?;
    let opened = SortedTree::open_again(&shared.directory, &shared.cache, failed)?;
    shared.layers.publish(opened.tables()?);
    *tree = Some(opened);
    tracing::warn!("the store's tree failed and has been opened again");
    Ok(())
}

/// Waits until level 0 has few enough runs. This function does the compaction itself, because after opening a tree with
/// many runs no task may be running. It does not wait if compaction changes nothing, or if the store is being closed.
fn wait_for_compaction(shared: &Arc<StoreState>) -> Result<(), StoreError> {
    while !shared.stop.is_cancelled() && shared.layers.snapshot()?.tables.level_0_runs() >= LEVEL_0_RUNS_MAX {
        if !compact::step(shared)? {
            break;
        }
    }
    Ok(())
}

/// Starts or wakes the task that ingests gathered runs in time.
pub(super) fn serve_task(shared: &Arc<StoreState>, need: IngestTaskNeed) {
    match need {
        IngestTaskNeed::Start => {
            let task = run_ingest_task(shared.clone());
            let stop = shared.stop.clone();
            shared.env.spawn(async move { stop.run_until_cancelled(task).await });
        }
        IngestTaskNeed::Wake => shared.ingest_wakeup.notify_one(),
        IngestTaskNeed::Nothing => {}
    }
}

async fn run_ingest_task(shared: Arc<StoreState>) {
    loop {
        match shared.layers.due(shared.env.instant()) {
            // Callers that wait for it get the error; this task tries again later.
            NextIngestion::Now => drop(make_durable(&shared, shared.layers.written()).await),
            NextIngestion::In(wait) => drop(shared.env.timeout(wait, shared.ingest_wakeup.notified()).await),
            NextIngestion::Never => return,
        }
    }
}
