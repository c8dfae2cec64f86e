//! Built-in applications: they are part of the program and do not belong to a user.
//!
//! The engine has one of its own (`series`). Another crate adds one as follows: it passes an [`App`] with [`App::built_in`] to
//! [`Engine::open`], and reads and writes it through [`Engine::hosted`]. Everything that makes such an application
//! different from one of a user is in [`BuiltIn`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quick_cache::sync::Cache;
use serde_json::Value as Json;
use seriatim_env::watch;
use seriatim_storage::ClusteringRange;
use seriatim_types::sync::Mutex;
use seriatim_types::{ApplicationId, Partition, PartitionId, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use crate::command::apply::{ApplyError, KeyUse};
use crate::command::request::{Answer, Request};
use crate::command::view::{KeyPart, ViewKeys};
use crate::derive::keys::WorkspaceKeys;
use crate::engine::Engine;
use crate::engine::app::App;
use crate::engine::others::{Call, HostedCalls, Reply};
use crate::engine::running::Running;
use crate::error::SubmitError;
use crate::read::{Placed, read_rows};

/// What makes a built-in application different from an application of a user.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its number, a constant from 2 to 15. Applications of users have numbers from 16 on.
    pub id: ApplicationId,
    /// Its idempotency keys never expire, whatever [`Options::idempotency_window`](crate::Options::idempotency_window) is.
    pub keeps_keys: bool,
    /// The answer to a user who creates a workspace of it: what to do instead.
    pub refuses_workspaces: &'static str,
    /// The answer to a user who submits a command to it: what to do instead. `None`: users submit commands themselves.
    pub refuses_commands: Option<&'static str>,
    /// [`Options::built_in_partitions`](crate::Options::built_in_partitions) gives the number of its partitions when a storage is
    /// created, and its definition does not.
    pub partitions_by_option: bool,
}

impl App {
    /// The same application as a built-in one. Built-in applications are opened before those of users, and
    /// [`Engine::applications`] does not list them.
    #[must_use]
    pub fn built_in(mut self, built_in: BuiltIn) -> Self {
        self.built_in = Some(built_in);
        self
    }
}

/// The state of a running built-in application.
pub(crate) struct RunningBuiltIn {
    pub(crate) terms: BuiltIn,
    /// Workspaces by name. A name belongs to the same workspace permanently.
    names: Cache<Box<str>, WorkspaceId>,
    /// Whether a host has claimed it.
    claimed: Arc<AtomicBool>,
    /// Answers messages of other engines to the host.
    calls: Mutex<Option<Arc<dyn HostedCalls>>>,
}

impl fmt::Debug for RunningBuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningBuiltIn").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl RunningBuiltIn {
    pub(crate) fn new(terms: BuiltIn, cached_names: usize) -> Self {
        Self { terms, names: Cache::new(cached_names), claimed: Arc::default(), calls: Mutex::default() }
    }
}

/// A built-in application, for the one host that writes to it.
#[derive(Debug, Clone, Copy)]
pub struct Hosted<'a> {
    engine: &'a Engine,
    running: &'a Running,
    built_in: &'a RunningBuiltIn,
}

/// Shows that one host is the only writer of a built-in application, until it is released or dropped.
#[derive(Debug)]
pub struct HostClaim {
    /// The flag of the engine.
    claimed: Arc<AtomicBool>,
    is_held: AtomicBool,
}

impl HostClaim {
    /// Ends the claim: another host may claim the application.
    pub fn release(&self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.claimed.store(false, Ordering::Release);
        }
    }
}

impl Drop for HostClaim {
    fn drop(&mut self) {
        self.release();
    }
}

impl Engine {
    /// A built-in application, for its host.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownApplication`] if the engine was opened without it, or if it is not a built-in one.
    pub fn hosted(&self, application: &str) -> Result<Hosted<'_>, SubmitError> {
        let running = self.running(application)?;
        let built_in = running.built_in.as_ref();
        let built_in = built_in.ok_or_else(|| SubmitError::UnknownApplication(application.to_owned()))?;
        Ok(Hosted { engine: self, running, built_in })
    }
}

impl<'a> Hosted<'a> {
    fn kind(&self, kind: &str) -> Result<WorkspaceKind, SubmitError> {
        let found = self.running.schema.kind_by_name(kind);
        let missing = || SubmitError::NotFound("the application has no such kind of workspace".into());
        Ok(found.ok_or_else(missing)?.id)
    }

    /// Claims to be the one host of the application. `None` while another host has the claim.
    #[must_use]
    pub fn claim(&self) -> Option<HostClaim> {
        let claimed = self.built_in.claimed.clone();
        let is_new = !claimed.swap(true, Ordering::AcqRel);
        is_new.then(|| HostClaim { claimed, is_held: AtomicBool::new(true) })
    }

    /// The workspace with a name, from memory or from the registry; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn find(&self, name: &str) -> Result<Option<WorkspaceId>, SubmitError> {
        if let Some(found) = self.built_in.names.get(name) {
            return Ok(Some(found));
        }
        let found = self.engine.registry().named(self.running.schema.name(), name).await?;
        if let Some(found) = found {
            self.built_in.names.insert(name.into(), found);
        }
        Ok(found)
    }

    /// The workspace with a name, created if there is none. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn register(&self, kind: &str, name: &str) -> Result<(WorkspaceId, bool), SubmitError> {
        if let Some(found) = self.find(name).await? {
            return Ok((found, false));
        }
        let kind = self.kind(kind)?;
        let (workspace, created) = self.engine.new_workspace(self.running, kind, Some(name), None).await?;
        self.built_in.names.insert(name.into(), workspace.id);
        Ok((workspace.id, created))
    }

    /// Runs a command as the host. When it returns an answer, the event is durable. Dropping the future does not cancel it.
    ///
    /// With an `identity`, two requests with the same idempotency key are the same request if their identity is the same.
    /// Without one, their contents are compared.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]. Unless its kind is `InDoubt`, nothing was written.
    pub async fn submit(
        &self,
        workspace: WorkspaceId,
        kind: &str,
        request: Request,
        identity: Option<&str>,
    ) -> Result<Answer, SubmitError> {
        let kind = self.kind(kind)?;
        match identity {
            Some(identity) => self.running.submit_as(workspace, kind, request, identity).await,
            None => self.running.submit(workspace, kind, Cow::Owned(request)).await,
        }
    }

    /// Up to `limit` events of a workspace, from an offset on. Empty at the end of its log.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn events(
        &self,
        workspace: WorkspaceId,
        from: WorkspaceOffset,
        limit: usize,
    ) -> Result<Vec<Placed>, SubmitError> {
        self.engine.events(self.running.schema.name(), workspace, from, limit).await
    }

    /// The event that was submitted with an idempotency key.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn event_with_key(
        &self,
        workspace: WorkspaceId,
        key: &str,
    ) -> Result<Option<Placed>, SubmitError> {
        let handle = self.running.partition_of(workspace);
        let key = self.running.keys(workspace).idempotency(key);
        let found = handle.read(std::slice::from_ref(&key)).await?;
        let Some(bytes) = found.into_iter().next().flatten() else { return Ok(None) };
        let used = KeyUse::decode(&bytes).map_err(|problem| ApplyError::Bad { key, problem })?;
        let (name, partition) = (self.running.schema.name(), handle.partition.id);
        let events = self.engine.partition_events(name, partition, used.offset, 1).await?;
        Ok(events.into_iter().next())
    }

    /// The offset of a workspace's last event; `None` before its first one.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn last_offset(&self, workspace: WorkspaceId) -> Result<Option<WorkspaceOffset>, SubmitError> {
        let numbers = self.running.partition_of(workspace).numbers(workspace).await?;
        Ok(numbers.and_then(|numbers| WorkspaceOffset::new(numbers.next_offset().get() - 1)))
    }

    /// Answers messages of other engines from now on. There is one handler at a time.
    pub fn answer_calls(&self, calls: Arc<dyn HostedCalls>) {
        *self.built_in.calls.lock() = Some(calls);
    }

    pub(crate) async fn serve(&self, message: Json) -> Result<Json, SubmitError> {
        let calls = self.built_in.calls.lock().clone();
        match calls {
            Some(calls) => calls.serve(message).await,
            None => Err(SubmitError::NotHere {
                partition: format!("of application {}", self.running.schema.name()),
                holder: None,
            }),
        }
    }

    /// Sends a message to the host that owns a workspace's partition, on another engine.
    ///
    /// # Errors
    ///
    /// As [`Others::call`](crate::Others::call).
    pub async fn call_owner(&self, workspace: WorkspaceId, message: Json) -> Result<Json, SubmitError> {
        self.call_owner_of(self.running.schema.partition_of(workspace).id, message).await
    }

    /// As [`Hosted::call_owner`], for a partition.
    ///
    /// # Errors
    ///
    /// As [`Others::call`](crate::Others::call).
    pub async fn call_owner_of(&self, partition: PartitionId, message: Json) -> Result<Json, SubmitError> {
        let partition = Partition { application: self.running.schema.id(), id: partition };
        let call = Call::Hosted { application: self.running.schema.name().to_owned(), message };
        match self.engine.others().call(partition, call).await? {
            Reply::Hosted(reply) => Ok(reply),
            _ => Err(Reply::unexpected(partition)),
        }
    }

    /// Whether this engine owns the partition of a workspace.
    #[must_use]
    pub fn owns(&self, workspace: WorkspaceId) -> bool {
        self.running.partition_of(workspace).is_owned()
    }

    /// The partitions that this engine owns, ascending.
    #[must_use]
    pub fn owned(&self) -> Vec<PartitionId> {
        let owned = self.running.partitions.iter().filter(|handle| handle.is_owned());
        owned.map(|handle| handle.partition.id).collect()
    }

    /// Which of this engine's ownerships of a partition is the present one, from 1. `None` if this engine does not own it. A
    /// partition that left and came back has another number: meanwhile another engine may have written to it. A partition that
    /// has stopped because of a fault is still owned in this sense.
    #[must_use]
    pub fn tenure(&self, partition: PartitionId) -> Option<u64> {
        self.running.partition(partition)?.tenure()
    }

    /// Reads from the log whether this engine still holds a partition. An owner that was deposed and has written nothing since does
    /// not know it, and what it reads may be out of date.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn is_holder(&self, partition: PartitionId) -> Result<bool, SubmitError> {
        match self.running.partition(partition) {
            Some(handle) => handle.is_holder().await,
            None => Ok(false),
        }
    }

    /// Receives a change when a partition becomes owned, or is no longer owned. A partition that another engine has taken over sends
    /// none: its next command is refused.
    #[must_use]
    pub fn places(&self) -> watch::Receiver<()> {
        self.running.places.subscribe()
    }

    /// Its partitions, ascending.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        self.running.partitions.iter().map(|handle| handle.partition.id).collect()
    }

    /// Up to `limit` rows of a view of one workspace, after a key, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn rows(
        &self,
        workspace: WorkspaceId,
        view: &str,
        after: Option<&[KeyPart]>,
        limit: usize,
    ) -> Result<Vec<(Vec<KeyPart>, Json)>, SubmitError> {
        let keys = ViewKeys::new(self.running.keys(workspace), view);
        let range = keys.range(&[], after);
        read_rows(self.running.partition_of(workspace), &keys, range, limit).await
    }

    /// Up to `limit` rows of a view that the workspaces of a partition share: those whose keys begin with
    /// `prefix`, after a key, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn common_rows(
        &self,
        partition: PartitionId,
        view: &str,
        prefix: &[KeyPart],
        after: Option<&[KeyPart]>,
        limit: usize,
    ) -> Result<Vec<(Vec<KeyPart>, Json)>, SubmitError> {
        self.read_common(partition, view, limit, |keys| keys.range(prefix, after)).await
    }

    /// As [`Hosted::common_rows`], from one key to another, both included.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn common_rows_between(
        &self,
        partition: PartitionId,
        view: &str,
        keys: (&[KeyPart], &[KeyPart]),
        limit: usize,
    ) -> Result<Vec<(Vec<KeyPart>, Json)>, SubmitError> {
        let (first, last) = keys;
        self.read_common(partition, view, limit, |keys| keys.between(first, last)).await
    }

    async fn read_common(
        &self,
        partition: PartitionId,
        view: &str,
        limit: usize,
        range: impl FnOnce(&ViewKeys) -> ClusteringRange,
    ) -> Result<Vec<(Vec<KeyPart>, Json)>, SubmitError> {
        let Some(handle) = self.running.partition(partition) else { return Ok(Vec::new()) };
        let keys = ViewKeys::new(WorkspaceKeys::of_partition(handle.partition), view);
        let range = range(&keys);
        read_rows(handle, &keys, range, limit).await
    }
}
