//! What a host of workflows does with the engine.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value as Json, json};
use seriatim_types::{Number, PartitionId, WorkspaceId, WorkspaceKind, WorkspaceOffset};

use super::commands::{ADVANCE, OWING, RUNS_VIEW, SETTLE, owing_key, status_key};
use super::{KIND, NAME, RunRow, RunStatus, SEQUENCE, Wait};
use crate::app::Running;
use crate::apply::KeyUse;
use crate::engine::Engine;
use crate::error::{RequestError, SubmitError};
use crate::event::Argument;
use crate::keys::WorkspaceKeys;
use crate::limits::NAME_BYTES_MAX;
use crate::read::Placed;
use crate::request::{Answer, Request};
use crate::view::{self, KeyPart, ViewKeys};

/// The log and the views of workflows, for the one host that drives them.
#[derive(Debug, Clone, Copy)]
pub struct Workflows<'a> {
    engine: &'a Engine,
}

/// One event of a workflow.
#[derive(Debug, Clone, Default)]
pub struct Advance {
    /// Runs that begin or end with it, in the order of their numbers.
    pub rows: Vec<RunRow>,
    /// How the newest run stood before, if the rows change that, or if it is forgotten.
    pub was: Option<RunStatus>,
    /// The numbers of the runs that begin with it, ascending.
    pub draw: Vec<u64>,
    /// The run that has told others what it still had to when it ended.
    pub settles: Option<u64>,
    /// How the wait of the open run changes.
    pub wait: Option<Wait>,
    /// Runs that leave the index: they have ended, and were kept long enough.
    pub forgets: Vec<u64>,
    /// What has happened, in the host's own form.
    pub body: Json,
    /// The same key again is the same event again.
    pub idempotency_key: Option<String>,
    /// What the sender meant: the same key with another meaning is refused.
    pub identity: String,
    /// The workspace offset that it has to follow.
    pub expected_offset: Option<u64>,
}

/// Pages of a workflow's log.
#[derive(Debug)]
pub struct WorkflowEvents<'a> {
    workflows: Workflows<'a>,
    workspace: WorkspaceId,
    next: Option<WorkspaceOffset>,
    limit: usize,
}

fn argument_bytes(argument: &Argument) -> usize {
    match argument {
        Argument::Json(text) => text.len(),
        Argument::None | Argument::Document(_) => 0,
    }
}

/// That a host is the one that drives the workflows of an engine, until it is released or dropped.
#[derive(Debug)]
pub struct WorkflowsClaim {
    /// The engine's own mark.
    claimed: Arc<AtomicBool>,
    is_held: AtomicBool,
}

impl WorkflowsClaim {
    /// Another host may drive them.
    pub fn release(&self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.claimed.store(false, Ordering::Release);
        }
    }
}

impl Drop for WorkflowsClaim {
    fn drop(&mut self) {
        self.release();
    }
}

/// Events that are read together, at most.
const PAGE: usize = 256;
/// Events that are read together at first, and after large ones.
const PAGE_MIN: usize = 4;
/// Bytes above which fewer events are read together, and below a quarter of which more are.
const PAGE_BYTES: usize = 1 << 20;

impl WorkflowEvents<'_> {
    /// The next events; none at the end.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn next(&mut self) -> Result<Vec<Placed>, SubmitError> {
        let Some(from) = self.next else { return Ok(Vec::new()) };
        let limit = self.limit;
        let events = self.workflows.engine.events(NAME, self.workspace, from, limit).await?;
        let bytes: usize = events.iter().map(|event| argument_bytes(&event.event.argument)).sum();
        if bytes > PAGE_BYTES {
            self.limit = (limit / 2).max(PAGE_MIN);
        } else if bytes < PAGE_BYTES / 4 {
            self.limit = (limit * 4).min(PAGE);
        }
        self.next = events
            .last()
            .filter(|_| events.len() == limit)
            .and_then(|last| last.place.workspace_offset.next());
        Ok(events)
    }
}

impl Engine {
    /// Workflows, for the one host that drives them.
    #[must_use]
    pub fn workflows(&self) -> Workflows<'_> {
        Workflows { engine: self }
    }
}

impl<'a> Workflows<'a> {
    pub(super) fn running(&self) -> Result<(&'a Running, WorkspaceKind), SubmitError> {
        let running = self.engine.running(NAME)?;
        let kind = running.schema.kind_by_name(KIND);
        let kind = kind.ok_or_else(|| SubmitError::UnknownApplication(NAME.to_owned()))?;
        Ok((running, kind.id))
    }

    /// Claims to be the one host that drives the workflows of this engine. None while another one does.
    #[must_use]
    pub fn claim(&self) -> Option<WorkflowsClaim> {
        let claimed = self.engine.workflows_claimed().clone();
        let is_new = !claimed.swap(true, Ordering::AcqRel);
        is_new.then(|| WorkflowsClaim { claimed, is_held: AtomicBool::new(true) })
    }

    /// The workspace of a workflow, if it was ever started.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn find(&self, id: &str) -> Result<Option<WorkspaceId>, SubmitError> {
        check_id(id)?;
        if let Some(found) = self.engine.workflow_ids().get(id) {
            return Ok(Some(found));
        }
        let found = self.engine.registry().named(NAME, id).await?;
        if let Some(found) = found {
            self.engine.workflow_ids().insert(id.into(), found);
        }
        Ok(found)
    }

    /// The workspace of a workflow, made if it is not there. Says whether it is new.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn register(&self, id: &str) -> Result<(WorkspaceId, bool), SubmitError> {
        if let Some(found) = self.find(id).await? {
            return Ok((found, false));
        }
        let (running, kind) = self.running()?;
        let (workspace, created) = self.engine.new_workspace(running, kind, Some(id), None).await?;
        self.engine.workflow_ids().insert(id.into(), workspace.id);
        Ok((workspace.id, created))
    }

    /// Appends an event to a workflow's log: durable when it answers. Dropping the future does not cancel it.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]: unless its kind is `InDoubt`, nothing was written.
    pub async fn advance(&self, workspace: WorkspaceId, advance: Advance) -> Result<Answer, SubmitError> {
        let Advance { rows, was, draw, settles, wait, forgets, body, .. } = advance;
        let Advance { idempotency_key, identity, expected_offset, .. } = advance;
        let mut args = serde_json::Map::new();
        if !rows.is_empty() {
            args.insert("rows".to_owned(), json!(rows));
        }
        if !rows.is_empty() || !forgets.is_empty() {
            args.insert("was".to_owned(), json!(was));
        }
        if !forgets.is_empty() {
            args.insert("forgets".to_owned(), forgets.into());
        }
        if let Some(wait) = wait {
            args.insert("wait".to_owned(), json!(wait));
        }
        if !draw.is_empty() {
            args.insert("draw".to_owned(), draw.into());
        }
        if let Some(settles) = settles {
            args.insert("settles".to_owned(), settles.into());
        }
        args.insert("body".to_owned(), body);
        let mut request = Request::new(ADVANCE).args(Json::Object(args));
        request.idempotency_key = idempotency_key;
        request.expected_offset = expected_offset;
        let (running, kind) = self.running()?;
        running.submit_as(workspace, kind, request, &identity).await
    }

    /// What an event of [`Workflows::advance`] says, in the host's own form; none if it is another event.
    #[must_use]
    pub fn body(event: &Placed) -> Option<Json> {
        if &*event.event.command != ADVANCE {
            return None;
        }
        let mut args = event.event.json_argument()?;
        Some(args["body"].take())
    }

    /// Appends an event that says nothing: after a restore, a workflow's numbers skip what they have to with it.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn settle(&self, workspace: WorkspaceId) -> Result<Answer, SubmitError> {
        let (running, kind) = self.running()?;
        running.submit(workspace, kind, Cow::Owned(Request::new(SETTLE))).await
    }

    /// The event that was sent with an idempotency key.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn sent_with(&self, workspace: WorkspaceId, key: &str) -> Result<Option<Placed>, SubmitError> {
        let (running, _) = self.running()?;
        let key = running.keys(workspace).idempotency(key);
        let found = running.partition_of(workspace).read(std::slice::from_ref(&key)).await?;
        let Some(bytes) = found.into_iter().next().flatten() else { return Ok(None) };
        let used = KeyUse::decode(&bytes)
            .map_err(|problem| SubmitError::Apply(crate::apply::ApplyError::Bad { key, problem }))?;
        let partition = running.partition_of(workspace).shared.partition.id;
        let events = self.engine.partition_events(NAME, partition, used.offset, 1).await?;
        Ok(events.into_iter().next())
    }

    /// The number that the next run of a workflow gets.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn next_run(&self, workspace: WorkspaceId) -> Result<u64, SubmitError> {
        let sequences = self.engine.sequences(NAME, workspace).await?;
        let sequence = sequences.into_iter().find(|sequence| &*sequence.name == SEQUENCE);
        Ok(sequence.and_then(|sequence| sequence.next).map_or(1, Number::get))
    }

    /// A workflow's log from an offset on.
    #[must_use]
    pub fn events(&self, workspace: WorkspaceId, from: WorkspaceOffset) -> WorkflowEvents<'a> {
        WorkflowEvents { workflows: *self, workspace, next: Some(from), limit: PAGE_MIN * 4 }
    }

    /// Up to `limit` runs of a workflow before a number, the newest first.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn runs(
        &self,
        workspace: WorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RunRow>, SubmitError> {
        let (running, _) = self.running()?;
        let rows = ViewKeys::new(running.keys(workspace), RUNS_VIEW);
        let before = before.map(super::commands::run_key);
        let range = rows.range(&[], before.as_ref().map(|key| &key[..]));
        let pairs = running.partition_of(workspace).scan(range, limit).await?;
        Ok(pairs.into_iter().filter_map(|(_, row)| read_row(&row)).collect())
    }

    /// Up to `limit` workflows of a partition whose newest run stands like this, behind a workspace, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn with_status(
        &self,
        partition: PartitionId,
        status: RunStatus,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, SubmitError> {
        let (running, _) = self.running()?;
        let Some(handle) = running.partition(partition) else { return Ok(Vec::new()) };
        let rows = ViewKeys::new(WorkspaceKeys::of_partition(handle.shared.partition), RUNS_VIEW);
        let after = after.map(|after| status_key(status, after));
        let range = rows.range(&[status.name().into()], after.as_ref().map(|key| &key[..]));
        let pairs = handle.scan(range, limit).await?;
        let read = |(key, row): (bytes::Bytes, bytes::Bytes)| match rows.read(&key).ok()?.pop()? {
            KeyPart::Integer(id) => Some((WorkspaceId::new(u64::try_from(id).ok()?), read_row(&row)?)),
            KeyPart::Text(_) => None,
        };
        Ok(pairs.into_iter().filter_map(read).collect())
    }

    /// Up to `limit` runs of a partition that had still to tell others something when they ended.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn owing(
        &self,
        partition: PartitionId,
        after: Option<(WorkspaceId, u64)>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, SubmitError> {
        let (running, _) = self.running()?;
        let Some(handle) = running.partition(partition) else { return Ok(Vec::new()) };
        let rows = ViewKeys::new(WorkspaceKeys::of_partition(handle.shared.partition), RUNS_VIEW);
        let after = after.map(|(workspace, run)| owing_key(workspace, run));
        let range = rows.range(&[OWING.into()], after.as_ref().map(|key| &key[..]));
        let pairs = handle.scan(range, limit).await?;
        let read = |(key, row): (bytes::Bytes, bytes::Bytes)| match rows.read(&key).ok()?[..] {
            [_, KeyPart::Integer(id), _] => {
                Some((WorkspaceId::new(u64::try_from(id).ok()?), read_row(&row)?))
            }
            _ => None,
        };
        Ok(pairs.into_iter().filter_map(read).collect())
    }

    /// Up to `limit` workflows whose newest run stands like one of these, behind a workspace, in the order in which they
    /// were first started.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn list(
        &self,
        statuses: &[RunStatus],
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, SubmitError> {
        let mut found = Vec::new();
        for partition in self.partitions()? {
            for status in statuses {
                found.extend(self.with_status(partition, *status, after, limit).await?);
            }
        }
        found.sort_by_key(|(workspace, _)| *workspace);
        found.truncate(limit);
        Ok(found)
    }

    /// The partitions that workflows are in.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub fn partitions(&self) -> Result<Vec<PartitionId>, SubmitError> {
        let (running, _) = self.running()?;
        Ok(running.partitions.iter().map(|handle| handle.shared.partition.id).collect())
    }
}

fn read_row(bytes: &[u8]) -> Option<RunRow> {
    let (_, row) = view::decode_row(bytes).ok()?;
    serde_json::from_value(row?).ok()
}

/// Refuses what is not an id of a workflow.
fn check_id(id: &str) -> Result<(), SubmitError> {
    if (1..=NAME_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("a workflow's id has 1 to {NAME_BYTES_MAX} bytes and no control characters");
    Err(RequestError::Refused(text).into())
}
