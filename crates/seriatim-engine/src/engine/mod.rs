//! The engine: applications on one log and one store.

pub(crate) mod app;
mod built_in;
mod moves;
mod open;
pub(crate) mod options;
pub(crate) mod others;
pub(crate) mod running;
mod workspaces;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use quick_cache::sync::Cache;
use seriatim_env::Env;
use seriatim_storage::{Holder, Log, Store};
use seriatim_types::{ApplicationId, PartitionId, WorkspaceId, WorkspaceKind};

use crate::apps::blocks::open_allocators::OpenAllocators;
use crate::apps::registry::{self, Registry, RegistryMemory};
use crate::apps::tokens::TokenTable;
use crate::command::request::{Answer, Request};
use crate::definition::Schema;
use crate::engine::options::Options;
use crate::engine::running::Running;
use crate::error::{RequestError, SubmitError};
use crate::operate::fence::{Fence, FenceState};
use crate::partition::{PartitionHandle, PartitionState};

pub use open::OpenError;
pub(crate) use open::with_built_in;

/// Runs applications on one log and one store. It turns commands into numbered events.
///
/// A clone is cheap and refers to the same engine. Call [`Engine::close`] once, before storage is closed.
///
/// ```
/// use seriatim_engine::{App, Change, Engine, Options, Request, definition::shop};
/// use seriatim_storage::{Log, Store, memory::{MemoryLog, MemoryStore}};
///
/// # seriatim_env::simulate(1, |env| async move {
/// let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
/// let engine = Engine::open(env, log, store, [App::new(shop())], Options::default()).await?;
/// let (workspace, _) = engine.create_workspace("shop", "store", Some("main street")).await?;
///
/// let request = Request::changes([Change::create("Invoice", 1).field("total", "99.50")]).idempotency_key("order-7");
/// let answer = engine.submit("shop", workspace.id, &request).await?;
/// assert_eq!(answer.number(1, "number"), Some(1));
///
/// // The same request with the same key has the same answer, and writes nothing.
/// let repeated = engine.submit("shop", workspace.id, &request).await?;
/// assert!(repeated.repeated);
/// assert_eq!(repeated.workspace_offset, answer.workspace_offset);
/// engine.close().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    env: Env,
    log: Log,
    store: Store,
    sys: Arc<Running>,
    applications: HashMap<String, Arc<Running>>,
    /// In the order in which they were opened: built-in ones first.
    names: Vec<String>,
    /// How many of the names are of built-in applications.
    built_in: usize,
    kinds: Cache<(ApplicationId, WorkspaceId), WorkspaceKind>,
    open_allocators: OpenAllocators,
    /// Tokens and the fence. They follow the log of the registry.
    memory: Arc<RegistryMemory>,
    /// The name under which this engine takes partitions.
    holder: Holder,
    options: Options,
}

impl Engine {
    /// The names of the applications, in the order in which they were given, without built-in ones.
    #[must_use]
    pub fn applications(&self) -> &[String] {
        &self.inner.names[self.inner.built_in..]
    }

    /// The definition of an application.
    #[must_use]
    pub fn schema(&self, application: &str) -> Option<&Schema> {
        self.inner.applications.get(application).map(|running| &*running.schema)
    }

    pub(crate) fn running(&self, application: &str) -> Result<&Arc<Running>, SubmitError> {
        let running = self.inner.applications.get(application);
        running.ok_or_else(|| SubmitError::UnknownApplication(application.to_owned()))
    }

    pub(crate) fn registry(&self) -> Registry<'_> {
        Registry { sys: &self.inner.sys }
    }

    pub(crate) fn running_by_id(&self, id: ApplicationId) -> Result<&Arc<Running>, SubmitError> {
        let running = self.inner.applications.values().find(|running| running.schema.id() == id);
        running.ok_or_else(|| SubmitError::UnknownApplication(id.to_string()))
    }

    /// The environment of the engine: clock, tasks and randomness.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    pub(crate) fn sys(&self) -> &Arc<Running> {
        &self.inner.sys
    }

    pub(crate) fn open_allocators(&self) -> &OpenAllocators {
        &self.inner.open_allocators
    }

    pub(crate) fn shared_fence(&self) -> &Fence {
        &self.inner.memory.fence
    }

    pub(crate) fn fence_state(&self) -> Arc<FenceState> {
        self.inner.memory.fence.state()
    }

    pub(crate) fn token_table(&self) -> &TokenTable {
        &self.inner.memory.tokens
    }

    /// Every application that runs: the registry, the built-in ones, then the others in the order in which they were given.
    pub(crate) fn all_running(&self) -> impl Iterator<Item = &Arc<Running>> {
        let running = self.inner.names.iter().filter_map(|name| self.inner.applications.get(name));
        std::iter::once(&self.inner.sys).chain(running)
    }

    pub(crate) fn log(&self) -> &Log {
        &self.inner.log
    }

    /// Runs a command. When it returns an answer, the event is durable.
    ///
    /// Dropping the future does not cancel the command.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. If its kind is `InDoubt`, the event may have been written: repeat the request with its idempotency
    /// key. With any other kind nothing was written and no number was used.
    pub async fn submit(
        &self,
        application: &str,
        workspace: WorkspaceId,
        request: &Request,
    ) -> Result<Answer, SubmitError> {
        let running = self.running(application)?;
        if let Some(text) = running.built_in.as_ref().and_then(|built_in| built_in.terms.refuses_commands) {
            return Err(RequestError::Refused(text.to_owned()).into());
        }
        let kind = self.kind_of(running, workspace).await?;
        running.submit(workspace, kind, Cow::Borrowed(request)).await
    }

    /// The state of every partition, with the name of its application: the registry first, then the built-in applications,
    /// then the others in the order in which they were given.
    #[must_use]
    pub fn all_partitions(&self) -> Vec<(String, PartitionState)> {
        let states = |running: &Arc<Running>| {
            let name = running.schema.name().to_owned();
            let states: Vec<_> = running.partitions.iter().map(PartitionHandle::state).collect();
            states.into_iter().map(move |state| (name.clone(), state))
        };
        self.all_running().flat_map(states).collect()
    }

    /// The state of each partition of an application.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownApplication`].
    pub fn partitions(&self, application: &str) -> Result<Vec<PartitionState>, SubmitError> {
        let running =
            if application == registry::NAME { &self.inner.sys } else { self.running(application)? };
        Ok(running.partitions.iter().map(PartitionHandle::state).collect())
    }

    /// Waits until every partition accepts commands. Returns false if one has stopped, or if `within` has passed first.
    pub async fn wait_ready(&self, within: Duration) -> bool {
        let all = async {
            for running in self.all_running() {
                if wait_ready(running).await.is_err() {
                    return false;
                }
            }
            true
        };
        self.inner.env.timeout(within, all).await.unwrap_or(false)
    }

    /// Closes the engine. Queued commands are run, and unflushed values are flushed. The log and the store remain open: the
    /// caller closes them.
    ///
    /// Closing has four steps, because each needs the one before: the applications, the blocks, the registry, and one sync
    /// of the store. If storage does not answer, each step ends after [`Options::close_timeout`]. Nothing that was answered
    /// is lost then: the next start reads it from the log.
    pub async fn close(&self) {
        join_all(self.inner.applications.values().map(|running| running.close())).await;
        self.inner.open_allocators.close().await;
        self.inner.sys.close().await;
        let syncing = self.inner.store.sync();
        match self.inner.env.timeout(self.inner.options.close_timeout, syncing).await {
            Ok(Ok(())) => {}
            // The next start derives from the log what is not durable in the store.
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store was not synced at the stop: the next start reads more of the log");
            }
            Err(_) => tracing::warn!(
                "storage does not answer: the store is not synced, and the next start reads more of the log"
            ),
        }
    }

    /// The partition of a workspace.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownApplication`].
    pub fn partition_of(
        &self,
        application: &str,
        workspace: WorkspaceId,
    ) -> Result<PartitionId, SubmitError> {
        Ok(self.running(application)?.schema.partitions().partition_of(workspace))
    }

    /// The store, for programs that inspect it.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }
}

/// Waits until the partitions of an application accept commands.
pub(crate) async fn wait_ready(running: &Running) -> Result<(), SubmitError> {
    for partition in &running.partitions {
        partition.wait_ready().await?;
    }
    Ok(())
}
