//! A clean stop: everything in tables, nothing left to replay.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seriatim_storage::StoreError;

use super::engine::Engine;
use super::shared::Shared;

/// How often is looked whether the memtables are flushed.
const FLUSH_POLL: Duration = Duration::from_millis(2);

/// How long a stop waits for the flush. After that the journal, which is synced, has to be replayed.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(30);

/// Closes the store: waits for what is under way, syncs, flushes, releases the directory. If it is dropped on the way,
/// the store is as after a crash.
pub(super) async fn close(shared: &Arc<Shared>) -> Result<(), StoreError> {
    shared.stop.cancel();
    let _closing = shared.closing.lock().await;
    let env = shared.env.clone();
    let taken = env
        .blocking({
            let shared = shared.clone();
            move || {
                let engine = shared.take_engine()?;
                let synced = engine.start_flush();
                Some((engine, synced))
            }
        })
        .await;
    let Some((engine, synced)) = taken else { return Ok(()) };
    if synced.is_ok() {
        wait_for_flush(shared, &engine).await;
    }
    let directory = shared.directory.clone();
    env.blocking(move || {
        let flushed = synced.is_ok() && engine.is_flushed() && engine.check_alive().is_ok();
        drop(engine);
        if flushed && let Err(error) = empty_journals(&directory) {
            tracing::warn!(%error, "the store's journal is read once more when it is opened");
        }
        synced
    })
    .await
}

async fn wait_for_flush(shared: &Shared, engine: &Engine) {
    let start = shared.env.instant();
    while !engine.is_flushed()
        && shared.env.instant() - start < FLUSH_WAIT_MAX
        && engine.check_alive().is_ok()
    {
        shared.env.sleep(FLUSH_POLL).await;
    }
}

/// Empties the journals of a database that is closed and wholly flushed. The engine keeps up to 64 MB of journal that
/// has nothing to add, and would read it all when it opens. It has no call for this; an empty journal is what it finds
/// after its first moments too.
fn empty_journals(directory: &Path) -> io::Result<()> {
    // The engine's own lock, so that nobody has it open meanwhile.
    let lock = File::open(directory.join("lock"))?;
    lock.try_lock()?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let journal = OpenOptions::new().write(true).open(path)?;
            journal.set_len(0)?;
            journal.sync_all()?;
        }
    }
    Ok(())
}
