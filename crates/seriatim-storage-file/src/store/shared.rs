//! What all clones of a store and its background task share.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use seriatim_env::{Env, Shutdown};
use seriatim_storage::StoreError;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::StoreOptions;
use super::conditional::Conditional;
use super::engine::{Commit, Engine};

/// The interval in which a writer that has to wait checks again. A memtable is flushed in about 100 ms.
const BEHIND_POLL: Duration = Duration::from_millis(5);

/// How long a writer waits while flushing and compaction make no progress. A step of them takes seconds at worst.
const BEHIND_WAIT_MAX: Duration = Duration::from_secs(60);

pub(super) struct Shared {
    pub(super) env: Env,
    pub(super) directory: PathBuf,
    pub(super) options: StoreOptions,
    /// Held for reading by what uses the engine, and for writing only to take it out or to replace it.
    engine: RwLock<State>,
    /// How often the engine has been replaced.
    generation: AtomicU64,
    /// One writer at a time, so that a compare and its write are one. Not held over a sync.
    writer: Arc<AsyncMutex<Turn>>,
    pub(super) conditional: Conditional,
    /// It is being closed.
    pub(super) stop: Shutdown,
    /// Held to close the store or to open it again.
    pub(super) lifecycle: Arc<AsyncMutex<()>>,
}

/// Whether there is an engine.
enum State {
    Open(Engine),
    /// It failed, and could not be opened again for this reason.
    Failed(StoreError),
    Closed,
}

/// A writer's turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Whether the last write found flushing and compaction behind. The next one waits.
    behind: bool,
}

impl Shared {
    pub(super) fn open(env: Env, directory: PathBuf, options: StoreOptions) -> Result<Arc<Self>, StoreError> {
        let engine = Engine::open(&directory, &options, 0)?;
        // What was left when the store was closed or killed has to be done before the first write.
        let turn = Turn { behind: engine.is_behind() };
        Ok(Arc::new(Self {
            env,
            directory,
            options,
            engine: RwLock::new(State::Open(engine)),
            generation: AtomicU64::new(0),
            writer: Arc::new(AsyncMutex::new(turn)),
            conditional: Conditional::default(),
            stop: Shutdown::new(),
            lifecycle: Arc::default(),
        }))
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Does something with the engine, if it is open. Never waits: only closing and opening again hold the lock against
    /// readers.
    pub(super) fn engine<T>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = match self.engine.try_read() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
            Err(TryLockError::WouldBlock) if self.stop.is_cancelled() => return Err(StoreError::Closed),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Unavailable("it is being opened again after a failure".to_owned()));
            }
        };
        match &*engine {
            State::Open(engine) => work(engine),
            State::Failed(reason) => {
                Err(StoreError::Unavailable(format!("it failed and could not be opened again: {reason}")))
            }
            State::Closed => Err(StoreError::Closed),
        }
    }

    /// Does something with the engine where it holds up no task.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Engine) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.clone();
        self.env.blocking(move || shared.engine(work)).await
    }

    /// Takes the engine out for good, once nothing uses it any more.
    pub(super) fn take_engine(&self) -> Option<Engine> {
        let mut state = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Closed) {
            State::Open(engine) => Some(engine),
            State::Failed(_) | State::Closed => None,
        }
    }

    /// Opens the directory again if its engine has failed, once nothing uses it any more. The caller has a writer's turn.
    pub(super) fn replace_failed_engine(&self, turn: &mut Turn) -> Result<(), StoreError> {
        let mut state = self.engine.write().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(engine) if engine.check_alive().is_ok() => return Ok(()),
            State::Open(_) | State::Failed(_) => {}
            State::Closed => return Err(StoreError::Closed),
        }
        // The old one first: it holds the engine's lock file. A worker that panicked may make it panic too; then that file
        // may stay locked, and opening says so.
        let unopened = State::Failed(StoreError::Unavailable("opening it did not end".to_owned()));
        let failed = std::mem::replace(&mut *state, unopened);
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(failed)));
        let generation = self.generation() + 1;
        let opened = Engine::open(&self.directory, &self.options, generation);
        let engine = opened.inspect_err(|error| *state = State::Failed(error.clone()))?;
        tracing::warn!(generation, "the store failed and has been opened again");
        turn.behind = engine.is_behind();
        self.generation.store(generation, Ordering::Release);
        *state = State::Open(engine);
        Ok(())
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

    /// Waits until no one else writes.
    pub(super) async fn wait_for_turn(&self) -> OwnedMutexGuard<Turn> {
        self.writer.clone().lock_owned().await
    }

    /// Waits for a writer's turn, and until flushing and compaction can take one more write. It does itself what it waits
    /// for: nothing says that a worker will.
    pub(super) async fn turn(self: &Arc<Self>) -> Result<OwnedMutexGuard<Turn>, StoreError> {
        let mut turn = self.wait_for_turn().await;
        let (mut progress_at, mut backlog) = (self.env.instant(), None);
        while turn.behind {
            let relieve = |engine: &Engine| {
                engine.relieve()?;
                Ok((engine.is_behind(), engine.backlog()))
            };
            let (behind, left) = self.blocking(relieve).await?;
            turn.behind = behind;
            if !behind {
                break;
            }
            let left = Some(left);
            if backlog != left {
                (progress_at, backlog) = (self.env.instant(), left);
            } else if self.env.instant() - progress_at > BEHIND_WAIT_MAX {
                return Err(StoreError::Unavailable(format!(
                    "flushing and compaction have made no progress for {BEHIND_WAIT_MAX:?}: check the disk"
                )));
            }
            self.env.sleep(BEHIND_POLL).await;
        }
        Ok(turn)
    }

    /// Writes in a turn of its own. Once begun it continues to its end, also if the caller is gone.
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
