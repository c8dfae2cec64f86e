//! Cells on files: a small fjall database with a journal.

mod database;
mod group;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seriatim_env::Env;
use seriatim_storage::{CellsBackend, Key, StoreError, StoreKey};
use seriatim_types::sync::{Mutex, MutexGuard};
use tokio::sync::Mutex as AsyncMutex;

use crate::SpaceCheck;
pub(crate) use database::{Database, is_database, text};
use group::{Pending, Request};

/// Cells in a separate directory. The directory is created and opened with the first use, so programs that use no cells have
/// none.
///
/// After a failed write or sync the database is opened again with the next use. All writes that have returned are there.
pub struct FileCells {
    lazy: Arc<LazyDatabase>,
}

impl FileCells {
    /// The cells in this directory. Does nothing yet.
    #[must_use]
    pub fn new(env: Env, directory: &Path) -> Self {
        Self::with_space_check(env, directory, None)
    }

    pub(crate) fn with_space_check(env: Env, directory: &Path, space_check: Option<SpaceCheck>) -> Self {
        let lazy = LazyDatabase {
            env,
            directory: directory.to_owned(),
            space_check,
            state: Mutex::new(State::Unopened),
            opening: AsyncMutex::new(()),
            pending: Pending::default(),
        };
        Self { lazy: Arc::new(lazy) }
    }
}

impl fmt::Debug for FileCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCells").field("directory", &self.lazy.directory).finish_non_exhaustive()
    }
}

struct LazyDatabase {
    env: Env,
    directory: PathBuf,
    space_check: Option<SpaceCheck>,
    state: Mutex<State>,
    /// Held while the database is opened.
    opening: AsyncMutex<()>,
    pending: Pending,
}

enum State {
    /// Not used so far, or failed.
    Unopened,
    Open(Arc<Database>),
    Closed,
}

impl LazyDatabase {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn check_space(&self) -> Result<(), StoreError> {
        match &self.space_check {
            Some(check) => check().map_err(|(free_bytes, needed_bytes)| StoreError::DiskNearlyFull {
                free_bytes,
                needed_bytes,
            }),
            None => Ok(()),
        }
    }

    fn opened(&self) -> Result<Option<Arc<Database>>, StoreError> {
        match &*self.state() {
            State::Unopened => Ok(None),
            State::Open(database) => Ok(Some(database.clone())),
            State::Closed => Err(StoreError::Closed),
        }
    }

    /// The database, opened if it is not.
    async fn database(self: &Arc<Self>) -> Result<Arc<Database>, StoreError> {
        if let Some(database) = self.opened()? {
            return Ok(database);
        }
        let _opening = self.opening.lock().await;
        if let Some(database) = self.opened()? {
            return Ok(database);
        }
        let directory = self.directory.clone();
        let database = Arc::new(self.env.blocking(move || Database::open(&directory)).await?);
        match &mut *self.state() {
            State::Closed => Err(StoreError::Closed),
            state => {
                *state = State::Open(database.clone());
                Ok(database)
            }
        }
    }

    /// Forgets a database that failed, so that the next use opens it again.
    fn forget(&self, failed: &Arc<Database>) {
        let mut state = self.state();
        if matches!(&*state, State::Open(database) if Arc::ptr_eq(database, failed)) {
            *state = State::Unopened;
        }
    }
}

#[async_trait]
impl CellsBackend for FileCells {
    async fn get(&self, key: Key<'_>) -> Result<Option<Bytes>, StoreError> {
        self.lazy.database().await?.get(StoreKey::from(key).as_bytes())
    }

    async fn compare_and_set(
        &self,
        key: Key<'_>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let request = Request {
            physical: key.into(),
            expected: expected.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
        };
        group::compare_and_set(&self.lazy, request).await
    }

    /// Waits for the group in progress. Writes that have returned are already durable.
    async fn close(&self) -> Result<(), StoreError> {
        let lazy = self.lazy.clone();
        let leader = lazy.pending.lead().await;
        let close = move || {
            let _leader = leader;
            let before = std::mem::replace(&mut *lazy.state(), State::Closed);
            drop(before);
        };
        self.lazy.env.blocking(close).await;
        Ok(())
    }
}
