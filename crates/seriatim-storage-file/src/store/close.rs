//! A clean stop: everything in tables, nothing left to replay.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;

use seriatim_storage::StoreError;

use super::engine::Engine;
use super::shared::Shared;

/// Closes the store: waits for what is under way, syncs, flushes, releases the directory. Once begun it continues to its
/// end, also if the caller is gone.
pub(super) async fn close(shared: &Arc<Shared>) -> Result<(), StoreError> {
    shared.stop.cancel();
    let lifecycle = shared.lifecycle.clone().lock_owned().await;
    let own = shared.clone();
    let work = move || {
        let _lifecycle = lifecycle;
        own.take_engine().map_or(Ok(()), |engine| close_engine(engine, &own.directory))
    };
    shared.env.blocking(work).await
}

fn close_engine(engine: Engine, directory: &Path) -> Result<(), StoreError> {
    engine.sync_all()?;
    let flushed = engine.flush_all();
    drop(engine);
    // What is not in a table is in the journal, which is synced.
    let emptied = flushed
        .and_then(|()| empty_journals(directory).map_err(|error| StoreError::Unavailable(error.to_string())));
    if let Err(error) = emptied {
        tracing::warn!(%error, "the store's journal is read once more when it is opened");
    }
    Ok(())
}

/// Empties the journals of a database that is closed and wholly flushed. The engine keeps up to 64 MB of journal that
/// has nothing to add, and would read it all when it opens. It has no call for this; an empty journal is what it finds
/// after its first moments too.
fn empty_journals(directory: &Path) -> io::Result<()> {
    // The engine's own lock, so that nothing has it open meanwhile.
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
