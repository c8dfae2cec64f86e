//! From memory into tables.
//!
//! All runs that are gathered, whoever wrote them, become one sorted ingestion. Who wants something durable waits for the
//! ingestion that is under way and, if that did not have it, does the next one, which then has what all others wait for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use seriatim_storage::StoreError;

use super::layers::{Due, Keeper, Layers, Taken};
use super::run::merge_runs;
use super::shared::Shared;
use super::tables::Tables;
use super::tree::{LEVEL_0_RUNS_MAX, SortedTree};
use super::{compact, fault};

/// How the last ingestion ended. Who holds it may begin one.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The last one, if it failed: which it was, up to which write it would have been, why it failed.
    failed: Option<(u64, u64, StoreError)>,
}

impl Attempts {
    /// Why the last ingestion failed, if it had this write and ended after so many others.
    fn failure(&self, after: u64, number: u64) -> Option<StoreError> {
        let (ended, covered, error) = self.failed.as_ref()?;
        (*ended > after && *covered >= number).then(|| error.clone())
    }
}

/// Makes all writes up to this one durable.
pub(super) async fn make_durable(shared: &Arc<Shared>, number: u64) -> Result<(), StoreError> {
    ingest_unless(shared, number, |layers| layers.durable() >= number).await
}

/// Waits until there is room for one more run.
pub(super) async fn make_room(shared: &Arc<Shared>) -> Result<(), StoreError> {
    ingest_unless(shared, 0, |layers| !layers.is_full()).await
}

/// Ingests all that is gathered, unless that is not needed once the ingestion before it has ended. If that one failed,
/// and would have had the write, its error is the answer. Once begun it continues to its end, also if the caller is gone.
async fn ingest_unless(
    shared: &Arc<Shared>,
    number: u64,
    is_done: impl Fn(&Layers) -> bool,
) -> Result<(), StoreError> {
    let after = shared.ingestions.load(Ordering::Acquire);
    let mut attempts = shared.ingestion.clone().lock_owned().await;
    if is_done(&shared.layers) {
        return Ok(());
    }
    if let Some(error) = attempts.failure(after, number) {
        return Err(error);
    }
    let own = shared.clone();
    shared.env.blocking(move || attempt(&own, &mut attempts)).await
}

fn attempt(shared: &Arc<Shared>, attempts: &mut Attempts) -> Result<(), StoreError> {
    let Some(taken) = shared.layers.take() else {
        // Nothing is gathered; or nothing is there any more.
        return shared.tree().map(|_| ());
    };
    let ingested = ingest(shared, &taken);
    let ended = shared.ingestions.fetch_add(1, Ordering::AcqRel) + 1;
    attempts.failed = None;
    match ingested {
        Ok(tables) => {
            shared.layers.settle(&taken, tables);
            compact::start(shared);
            Ok(())
        }
        Err(error) => {
            tracing::warn!(%error, "what is buffered for the store could not be written; it is kept, and tried again");
            attempts.failed = Some((ended, taken.number, error.clone()));
            keep(shared, shared.layers.put_back(shared.env.instant()));
            Err(error)
        }
    }
}

fn ingest(shared: &Arc<Shared>, taken: &Taken) -> Result<Tables, StoreError> {
    shared.check_space()?;
    open_failed_again(shared)?;
    wait_for_compaction(shared)?;
    let tree = shared.tree()?;
    if tree.has_failed() {
        // A compaction has failed since: what is on disk may be ahead of what is in memory.
        return Err(StoreError::Unavailable(
            "a compaction failed; its tree is opened again first".to_owned(),
        ));
    }
    fault::reach(&shared.directory, "before the tables")?;
    tree.ingest(merge_runs(&taken.runs))?;
    fault::reach(&shared.directory, "after the ingestion")?;
    tree.forget_versions();
    tree.tables()
}

/// Opens the tree again if something has failed since it was opened.
fn open_failed_again(shared: &Shared) -> Result<(), StoreError> {
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

/// Waits until few enough runs are in level 0. It does itself what it waits for: a tree that was opened with many runs has
/// no one else who does. It does not wait for what no compaction would change, nor when the store is being closed.
fn wait_for_compaction(shared: &Arc<Shared>) -> Result<(), StoreError> {
    while !shared.stop.is_cancelled() && shared.layers.moment()?.tables.level_0_runs() >= LEVEL_0_RUNS_MAX {
        if !compact::step(shared)? {
            break;
        }
    }
    Ok(())
}

/// Sees to it that gathered runs are ingested in time.
pub(super) fn keep(shared: &Arc<Shared>, keeper: Keeper) {
    match keeper {
        Keeper::Start => {
            let task = keep_until_done(shared.clone());
            let stop = shared.stop.clone();
            shared.env.spawn(async move { stop.run_until_cancelled(task).await });
        }
        Keeper::Wake => shared.keeper.notify_one(),
        Keeper::Leave => {}
    }
}

async fn keep_until_done(shared: Arc<Shared>) {
    loop {
        match shared.layers.due(shared.env.instant()) {
            // Those who wait for it are told; here it is tried again later.
            Due::Now => drop(make_durable(&shared, shared.layers.written()).await),
            Due::In(wait) => drop(shared.env.timeout(wait, shared.keeper.notified()).await),
            Due::Never => return,
        }
    }
}
