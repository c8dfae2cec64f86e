//! The engine: fjall with our keyspaces, and the little that it needs from us.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fjall::compaction::Leveled;
use fjall::{
    AbstractTree as _, CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch,
    PersistMode, Snapshot,
};
use seriatim_storage::StoreError;

use super::{StoreOptions, error, format};

/// The least journal limit that the engine accepts.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;

/// One flushes, one compacts. One alone stops flushing while it compacts; a third only adds a thread.
///
/// The first of them passes what it may not compact back to its own queue, again and again, for as long as the second
/// compacts: in one profile of a busy server a tenth of its processor time (fjall 3.1.13).
const WORKER_THREADS: usize = 2;

/// Size of a table, and by that of what one compaction works on. Kept with a keyspace from its creation on, as is the next.
const TABLE_BYTES: u64 = 8 << 20;

/// Runs in level 0 from which on they are merged into the next level, which may grow to this many tables.
///
/// With half as many, of tables of 16 MiB, the next level is as large and is written anew twice as often: the workers took
/// 24 instead of 12 to 17 µs of processor time for a command of two records (two runs each, November 2026).
const LEVEL_0_RUNS: u8 = 8;

/// Sealed memtables from which on writers wait. The engine itself waits at 4, in a loop that never ends if its workers
/// have died, so it must not come to that.
const SEALED_MAX: usize = 2;

/// Runs in level 0 from which on writers wait. The engine waits at 30, in such a loop too.
const LEVEL_0_RUNS_MAX: usize = 24;

/// How many commits there had been when a write returned, and in which generation of the store. A sync covers all up to
/// one, and none of another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Commit {
    generation: u64,
    number: u64,
}

/// What writers wait for. While it changes, the wait has an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backlog {
    sealed: usize,
    runs: usize,
    /// A compaction of deeper levels, which has to come first, leaves level 0 as it is and makes a new version.
    version: u64,
}

pub(super) struct Engine {
    database: Database,
    /// Physical key -> stored value.
    pub(super) pairs: Keyspace,
    /// Written once; kept so that it is flushed with the others.
    meta: Keyspace,
    memtable_bytes: u64,
    /// Which opening of the store this is, from 0.
    generation: u64,
    commits: AtomicU64,
    /// The number of the last commit that is known to be durable.
    synced: Mutex<u64>,
    /// Whether a flush or compaction of ours failed. The engine stops taking writes when one of its workers fails; ours
    /// count the same.
    failed: AtomicBool,
}

impl Engine {
    pub(super) fn open(
        directory: &Path,
        options: &StoreOptions,
        generation: u64,
    ) -> Result<Self, StoreError> {
        format::check_directory(directory)?;
        // Damage makes some parts of the engine panic; that is an answer too.
        let opened =
            panic::catch_unwind(AssertUnwindSafe(|| Self::open_checked(directory, options, generation)));
        opened.unwrap_or_else(|_| {
            Err(StoreError::Corrupt(format!(
                "{}: the engine panicked while it opened it",
                directory.display()
            )))
        })
    }

    fn open_checked(directory: &Path, options: &StoreOptions, generation: u64) -> Result<Self, StoreError> {
        let failed = |error| error::of_open(directory, &error);
        let database = Database::builder(directory)
            .max_journaling_size(options.journal_bytes.max(JOURNAL_BYTES_MIN))
            .cache_size(options.cache_bytes)
            .worker_threads(WORKER_THREADS)
            // Replay compresses every value again to check it: slow, and bound to one version of the compressor.
            .journal_compression(CompressionType::None)
            .open()
            .map_err(failed)?;
        let meta = format::claim(directory, &database)?;
        // Memtables are rotated by us (`rotate_full`). The engine asks its own workers for it after every write to a
        // full one, and when those requests fill their queue, the worker that wants to queue the flush waits for ever.
        let keyspace = || {
            let compaction =
                Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(LEVEL_0_RUNS);
            KeyspaceCreateOptions::default()
                .max_memtable_size(u64::MAX)
                .compaction_strategy(Arc::new(compaction))
        };
        let pairs = database.keyspace("pairs", keyspace).map_err(failed)?;
        Ok(Self {
            database,
            pairs,
            meta,
            memtable_bytes: options.memtable_bytes,
            generation,
            commits: AtomicU64::new(0),
            synced: Mutex::new(0),
            failed: AtomicBool::new(false),
        })
    }

    /// Which opening of the store this is.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The store as of this moment: batches show whole or not at all.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    pub(super) fn batch(&self, capacity: usize) -> OwnedWriteBatch {
        // To the operating system at once: what has returned survives a kill of the process.
        OwnedWriteBatch::with_capacity(self.database.clone(), capacity).durability(Some(PersistMode::Buffer))
    }

    /// Writes a batch, all or nothing. One at a time: callers hold the writer's turn.
    pub(super) fn commit(&self, batch: OwnedWriteBatch) -> Result<Commit, StoreError> {
        self.check_work()?;
        batch.commit().map_err(|error| error::of_write(&error))?;
        let number = self.commits.fetch_add(1, Ordering::AcqRel) + 1;
        self.rotate_full();
        Ok(Commit { generation: self.generation, number })
    }

    /// The last commit so far.
    pub(super) fn last_commit(&self) -> Commit {
        Commit { generation: self.generation, number: self.commits.load(Ordering::Acquire) }
    }

    fn rotate_full(&self) {
        if self.pairs.tree.active_memtable().size() < self.memtable_bytes {
            return;
        }
        // What was written is written; if this fails, the next write finds the memtable full again.
        if let Err(error) = self.pairs.rotate_memtable() {
            tracing::warn!(%error, "a memtable of the store could not be rotated");
        }
    }

    /// Whether flushing and compaction are so far behind that a writer must wait.
    pub(super) fn is_behind(&self) -> bool {
        self.pairs.sealed_memtable_count() >= SEALED_MAX || self.pairs.tree.l0_run_count() >= LEVEL_0_RUNS_MAX
    }

    /// How much there is to flush and to compact.
    pub(super) fn backlog(&self) -> Backlog {
        Backlog {
            sealed: self.pairs.sealed_memtable_count(),
            runs: self.pairs.tree.l0_run_count(),
            version: self.pairs.tree.current_version().id(),
        }
    }

    /// Does one step of what a writer waits for. The engine starts one compaction when it opens and others only after a
    /// flush; a flush needs a write, and the write waits. What a worker is at already is left to it.
    pub(super) fn relieve(&self) -> Result<(), StoreError> {
        self.check_alive()?;
        if self.pairs.sealed_memtable_count() >= SEALED_MAX {
            // In the engine's order: a batch is in the journal before it is in a table.
            self.database.persist(PersistMode::SyncAll).map_err(|error| error::of_write(&error))?;
            self.work("flush", || self.flush(&self.pairs))?;
        }
        if self.pairs.tree.l0_run_count() >= LEVEL_0_RUNS_MAX {
            let strategy = self.pairs.config.compaction_strategy.clone();
            self.work("compaction", || Ok(self.pairs.tree.compact(strategy, self.oldest_snapshot())?))?;
        }
        Ok(())
    }

    /// Writes out the sealed memtables of a keyspace. Waits for a worker that is doing so.
    fn flush(&self, keyspace: &Keyspace) -> fjall::Result<()> {
        let lock = keyspace.tree.get_flush_lock();
        keyspace.tree.flush(&lock, self.oldest_snapshot())?;
        Ok(())
    }

    /// What was overwritten before this is read by no one.
    fn oldest_snapshot(&self) -> u64 {
        self.database.supervisor.snapshot_tracker.get_seqno_safe_to_gc()
    }

    /// Does what is otherwise a worker's. If it fails or panics, the store takes no more writes, as after a worker's.
    fn work(&self, what: &str, work: impl FnOnce() -> fjall::Result<()>) -> Result<(), StoreError> {
        let done = panic::catch_unwind(AssertUnwindSafe(work));
        let reason = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error::text(&error),
            Err(_) => "the engine panicked".to_owned(),
        };
        self.failed.store(true, Ordering::Release);
        tracing::error!(what, reason, "the store takes no more writes until it is opened again");
        Err(StoreError::Unavailable(format!("a {what} failed: {reason}; open the store again")))
    }

    /// An error if a flush or compaction of ours has failed.
    fn check_work(&self) -> Result<(), StoreError> {
        if self.failed.load(Ordering::Acquire) {
            Err(error::of_write(&fjall::Error::Poisoned))
        } else {
            Ok(())
        }
    }

    /// An error if the engine has given up: a failed write or sync, a dead worker.
    pub(super) fn check_alive(&self) -> Result<(), StoreError> {
        self.check_work()?;
        self.database.persist(PersistMode::Buffer).map_err(|error| error::of_write(&error))
    }

    /// Makes everything up to `commit` durable, unless another sync has done so meanwhile.
    pub(super) fn sync(&self, commit: Commit) -> Result<(), StoreError> {
        if commit.generation != self.generation {
            return Err(StoreError::InDoubt(
                "the store failed and was opened again before a sync".to_owned(),
            ));
        }
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= commit.number {
            return Ok(());
        }
        let covered = self.last_commit().number;
        let persisted = self.database.persist(PersistMode::SyncData);
        // A worker's own sync may have failed just before and taken the error with it; it has poisoned the engine by
        // now, and asking again shows it.
        let persisted = persisted.and_then(|()| self.database.persist(PersistMode::Buffer));
        persisted.map_err(|error| error::of_sync(&error))?;
        *synced = covered;
        Ok(())
    }

    /// Makes everything durable.
    pub(super) fn sync_all(&self) -> Result<(), StoreError> {
        self.database.persist(PersistMode::SyncAll).map_err(|error| error::of_sync(&error))
    }

    /// Writes out all memtables: everything is in tables then, and the journal has nothing to add. Only after a
    /// [sync](Engine::sync_all), and while nothing is written. Workers are not asked, so that it does not wait for them.
    pub(super) fn flush_all(&self) -> Result<(), StoreError> {
        self.check_alive()?;
        for keyspace in [&self.pairs, &self.meta] {
            keyspace.tree.rotate_memtable();
            self.work("flush", || self.flush(keyspace))?;
        }
        self.check_alive()
    }
}
