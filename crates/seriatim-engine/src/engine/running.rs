//! An application that runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use seriatim_env::watch;
use seriatim_types::{PartitionId, RecordId, WorkspaceId, WorkspaceKind};

use crate::apps::hosted::RunningBuiltIn;
use crate::command::apply::{ApplyError, Derivation};
use crate::command::context::Command;
use crate::command::prepare::{KnownIds, Preparation, Unprepared};
use crate::command::prepared::Prepared;
use crate::command::record::Registered;
use crate::command::request::{Answer, Request};
use crate::command::view::{self, KeyPart, ViewKeys};
use crate::definition::Schema;
use crate::derive::keys::WorkspaceKeys;
use crate::engine::others::Others;
use crate::error::SubmitError;
use crate::partition::{Currency, PartitionHandle};

/// An application that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) schema: Arc<Schema>,
    pub(crate) derivation: Arc<Derivation>,
    pub(crate) commands: HashMap<String, Arc<dyn Command>>,
    pub(crate) partitions: Vec<PartitionHandle>,
    pub(crate) built_in: Option<RunningBuiltIn>,
    /// Other engines on the same log.
    pub(crate) others: Arc<dyn Others>,
    /// Sends a change when a partition becomes owned, or is no longer owned.
    pub(crate) places: watch::Sender<()>,
}

impl Running {
    /// The partition of a workspace.
    pub(crate) fn partition_of(&self, workspace: WorkspaceId) -> &PartitionHandle {
        let id = self.schema.partitions().partition_of(workspace);
        &self.partitions[usize::from(id.get())]
    }

    /// The keys of a workspace.
    pub(crate) fn keys(&self, workspace: WorkspaceId) -> WorkspaceKeys {
        WorkspaceKeys::new(self.schema.partition_of(workspace), workspace)
    }

    pub(crate) fn partition(&self, id: PartitionId) -> Option<&PartitionHandle> {
        self.partitions.get(usize::from(id.get()))
    }

    /// Checks a request, and looks up the records that it refers to.
    async fn prepare(
        &self,
        workspace: WorkspaceId,
        kind: WorkspaceKind,
        request: Cow<'_, Request>,
        identity: Option<&str>,
    ) -> Result<Prepared, SubmitError> {
        let kind = self.schema.kind(kind).ok_or(SubmitError::UnknownWorkspace(workspace))?;
        let handler = self.commands.get(&request.command);
        let mut known = KnownIds::new();
        let mut prepared = loop {
            let preparation = Preparation::new(&self.schema, workspace, kind, &known, identity);
            match preparation.run(&request, handler) {
                Ok(prepared) => break prepared,
                Err(Unprepared::Wrong(error)) => return Err(error.into()),
                Err(Unprepared::Lookup(ids)) => known.extend(self.lookup(workspace, ids).await?),
            }
        };
        if handler.is_some() {
            let (args, unlogged) = match request {
                Cow::Owned(request) => (request.args, request.unlogged_args),
                Cow::Borrowed(request) => (request.args.clone(), request.unlogged_args.clone()),
            };
            (prepared.args, prepared.unlogged) = (args.unwrap_or_default(), unlogged);
        }
        Ok(prepared)
    }

    /// What ids refer to; `None` for an id without a record.
    pub(crate) async fn lookup(
        &self,
        workspace: WorkspaceId,
        ids: Vec<RecordId>,
    ) -> Result<Vec<(RecordId, Option<Registered>)>, SubmitError> {
        let keys = self.keys(workspace);
        let keys: Vec<_> = ids.iter().map(|id| keys.id(*id)).collect();
        let found = self.partition_of(workspace).read(&keys).await?;
        let mut registered = Vec::with_capacity(ids.len());
        for ((id, key), bytes) in ids.into_iter().zip(keys).zip(found) {
            let entry = bytes.map(|bytes| Registered::decode(&bytes)).transpose();
            let bad = |problem| SubmitError::Apply(ApplyError::Bad { key, problem });
            registered.push((id, entry.map_err(bad)?));
        }
        Ok(registered)
    }

    /// A row of a view of a workspace, as current as requested.
    async fn view_row(
        &self,
        workspace: WorkspaceId,
        view: &str,
        key: &[KeyPart],
        currency: Currency,
    ) -> Result<Option<Json>, SubmitError> {
        let key = ViewKeys::new(self.keys(workspace), view).row(key);
        let found = self.partition_of(workspace).read_as(std::slice::from_ref(&key), currency).await?;
        let Some(bytes) = found.into_iter().next().flatten() else { return Ok(None) };
        let row = view::decode_row(&bytes);
        let row = row.map_err(|problem| SubmitError::Apply(ApplyError::Bad { key, problem }))?;
        Ok(row.1)
    }

    /// A row of a view of a workspace, as a typed value.
    pub(crate) async fn read_row<T: DeserializeOwned>(
        &self,
        workspace: WorkspaceId,
        view: &str,
        key: &[KeyPart],
    ) -> Result<Option<T>, SubmitError> {
        self.read_row_as(workspace, view, key, Currency::Current).await
    }

    /// As [`Self::read_row`], as current as requested.
    pub(crate) async fn read_row_as<T: DeserializeOwned>(
        &self,
        workspace: WorkspaceId,
        view: &str,
        key: &[KeyPart],
        currency: Currency,
    ) -> Result<Option<T>, SubmitError> {
        let row = self.view_row(workspace, view, key, currency).await?;
        Ok(row.map(|row| view::read_row(view, key, row)).transpose()?)
    }

    /// Runs a command. An owned request is not copied.
    pub(crate) async fn submit(
        &self,
        workspace: WorkspaceId,
        kind: WorkspaceKind,
        request: Cow<'_, Request>,
    ) -> Result<Answer, SubmitError> {
        let prepared = self.prepare(workspace, kind, request, None).await?;
        self.partition_of(workspace).submit(prepared).await
    }

    /// As [`Running::submit`]. Two requests with the same idempotency key are the same request if their `identity` is the
    /// same; their contents are not compared.
    pub(crate) async fn submit_as(
        &self,
        workspace: WorkspaceId,
        kind: WorkspaceKind,
        request: Request,
        identity: &str,
    ) -> Result<Answer, SubmitError> {
        let prepared = self.prepare(workspace, kind, Cow::Owned(request), Some(identity)).await?;
        self.partition_of(workspace).submit(prepared).await
    }

    /// Closes all partitions at the same time.
    pub(crate) async fn close(&self) {
        join_all(self.partitions.iter().map(PartitionHandle::close)).await;
    }
}
