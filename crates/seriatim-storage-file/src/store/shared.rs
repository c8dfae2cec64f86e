//! What all clones of a store and its background task share.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use seriatim_env::{Env, Shutdown};
use seriatim_storage::StoreError;
use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard};

use super::conditional::Conditional;
use super::engine::{Commit, Engine};
use super::{StoreOptions, expiry};

/// How often a writer that has to wait looks again. A memtable is flushed in about 100 ms.
const BEHIND_POLL: Duration = Duration::from_millis(5);

/// How long a writer waits for flushing and compaction before it gives up. They take seconds at worst.
const BEHIND_WAIT_MAX: Duration = Duration::from_secs(60);

pub(super) struct Shared {
    pub(super) env: Env,
    pub(super) directory: PathBuf,
    pub(super) options: StoreOptions,
    /// Held for reading by whoever uses the engine, and for writing only to take it out: then the store is closed.
    engine: RwLock<Option<Engine>>,
    /// One writer at a time, so that a compare and its write are one. Not held over a sync.
    writer: Arc<AsyncMutex<Turn>>,
    pub(super) conditional: Conditional,
    /// Whether any value has a TTL. Written in a writer's turn.
    pub(super) expiring: AtomicBool,
    /// Wakes the background expiry when `expiring` becomes true.
    pub(super) expiring_wake: Arc<Notify>,
    /// Ends the background expiry.
    pub(super) stop: Shutdown,
    pub(super) closing: AsyncMutex<()>,
}

/// A writer's turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether the last write found flushing and compaction behind. The next one waits.
    behind: bool,
}

impl Shared {
    pub(super) fn open(env: Env, directory: PathBuf, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let engine = Engine::open(&directory, &options)?;
        Ok(Arc::new(Self {
            env,
            directory,
            options,
            expiring: AtomicBool::new(expiry::any(&engine)?),
            engine: RwLock::new(Some(engine)),
            writer: Arc::default(),
            conditional: Conditional::default(),
            expiring_wake: Arc::default(),
            stop: Shutdown::new(),
            closing: AsyncMutex::default(),
        }))
    }

    /// Does something with the engine, if it is open. Never waits: only closing holds the lock against readers.
    pub(super) fn engine<T>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = match self.engine.try_read() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Closed),
        };
        work(engine.as_ref().ok_or(StoreError::Closed)?)
    }

    /// Does something with the engine where it holds up no task.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Engine) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.clone();
        self.env.blocking(move || shared.engine(work)).await
    }

    /// Takes the engine out, once nobody uses it any more.
    pub(super) fn take_engine(&self) -> Option<Engine> {
        self.engine.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        match &self.options.space_check {
            Some(check) => check().map_err(|(free_bytes, needed_bytes)| StoreError::DiskNearlyFull {
                free_bytes,
                needed_bytes,
            }),
            None => Ok(()),
        }
    }

    /// Waits for a writer's turn, and until flushing and compaction can take one more write.
    pub(super) async fn turn(self: &Arc<Self>) -> Result<OwnedMutexGuard<Turn>, StoreError> {
        let mut turn = self.writer.clone().lock_owned().await;
        let start = self.env.instant();
        while turn.behind {
            if self.env.instant() - start > BEHIND_WAIT_MAX {
                return Err(StoreError::Unavailable(format!(
                    "the disk does not keep up: flushing or compaction is behind for {BEHIND_WAIT_MAX:?}"
                )));
            }
            self.env.sleep(BEHIND_POLL).await;
            let check = |engine: &Engine| engine.check_alive().map(|()| engine.is_behind());
            turn.behind = self.blocking(check).await?;
        }
        Ok(turn)
    }

    /// Writes in a turn of its own. Once begun it goes on to its end, also if the caller is gone.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Engine) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.check_space()?;
        let mut turn = self.turn().await?;
        self.blocking(move |engine| turn.with(engine, work)).await
    }

    pub(super) async fn sync(self: &Arc<Self>, commit: Commit) -> Result<(), StoreError> {
        self.blocking(move |engine| engine.sync(commit)).await
    }
}

impl Turn {
    /// Writes, and notes whether the next turn has to wait.
    pub(super) fn with<T>(
        &mut self,
        engine: &Engine,
        work: impl FnOnce(&Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = work(engine);
        self.behind = engine.is_behind();
        result
    }
}
