//! What the host reads and writes of the application.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;
use seriatim_engine::limits::NAME_BYTES_MAX;
use seriatim_engine::{
    Answer, Argument, Engine, HostClaim, Hosted, HostedCalls, KeyPart, Placed, Request, RequestError,
    SubmitError,
};
use seriatim_env::watch;
use seriatim_types::{Number, PartitionId, WorkspaceId, WorkspaceOffset};

use super::commands::{
    ADVANCE, AdvanceHead, EMPTY, RUNS_VIEW, UNDELIVERED, run_key, status_key, undelivered_key,
};
use super::{KIND, NAME, RunRow, RunStatus, SEQUENCE, Wait};

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
    /// The status of the newest run before, if the rows change it, or if that run is forgotten.
    pub was: Option<RunStatus>,
    /// The numbers of the runs that begin with it, ascending.
    pub draw: Vec<u64>,
    /// A run that had ended with messages that were not delivered: all of them are delivered now.
    pub delivered: Option<u64>,
    /// How it changes whether the open run only waits.
    pub wait: Option<Wait>,
    /// Runs that leave the index: they have ended, and were kept long enough.
    pub forgets: Vec<u64>,
    /// What has happened, in the host's own form.
    pub body: Json,
    /// An event with a key that was used before is not appended again.
    pub idempotency_key: Option<String>,
    /// Identifies what the sender asks for: the same key with another identity is refused.
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
        let events = self.workflows.app()?.events(self.workspace, from, limit).await?;
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

impl<'a> Workflows<'a> {
    /// The workflows of an engine that was opened with [`app`](super::app).
    #[must_use]
    pub const fn new(engine: &'a Engine) -> Self {
        Self { engine }
    }

    pub(super) fn app(&self) -> Result<Hosted<'a>, SubmitError> {
        self.engine.hosted(NAME)
    }

    /// Claims to be the one host that drives the workflows of this engine. `None` while another one does.
    ///
    /// # Errors
    ///
    /// [`SubmitError::UnknownApplication`] if the engine was opened without the application.
    pub fn claim(&self) -> Result<Option<HostClaim>, SubmitError> {
        Ok(self.app()?.claim())
    }

    /// The workspace of a workflow, if it was ever started.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn find(&self, id: &str) -> Result<Option<WorkspaceId>, SubmitError> {
        check_id(id)?;
        self.app()?.find(id).await
    }

    /// The workspace of a workflow, created if there is none. Says whether it is new.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn register(&self, id: &str) -> Result<(WorkspaceId, bool), SubmitError> {
        check_id(id)?;
        self.app()?.register(KIND, id).await
    }

    /// Appends an event to a workflow's log: durable when it answers. Dropping the future does not cancel it.
    ///
    /// # Errors
    ///
    /// [`SubmitError`]: unless its kind is `InDoubt`, nothing was written.
    pub async fn advance(&self, workspace: WorkspaceId, advance: Advance) -> Result<Answer, SubmitError> {
        let Advance { rows, was, draw, delivered, wait, forgets, body, .. } = advance;
        let Advance { idempotency_key, identity, expected_offset, .. } = advance;
        let was = (!rows.is_empty() || !forgets.is_empty()).then_some(was);
        let draw = (!draw.is_empty()).then_some(draw);
        let head = AdvanceHead { rows, was, forgets, wait, draw, delivered };
        let invalid = |error: serde_json::Error| RequestError::Refused(error.to_string());
        let mut args = serde_json::to_value(head).map_err(invalid)?;
        args["body"] = body;
        let mut request = Request::new(ADVANCE).args(args);
        request.idempotency_key = idempotency_key;
        request.expected_offset = expected_offset;
        self.app()?.submit(workspace, KIND, request, Some(&identity)).await
    }

    /// What an event of [`Workflows::advance`] says, in the host's own form; none if it is another event.
    #[must_use]
    pub fn body(event: &Placed) -> Option<Json> {
        if &*event.event.command != ADVANCE {
            return None;
        }
        let Argument::Json(text) = &event.event.argument else { return None };
        serde_json::from_str::<Body>(text).ok().map(|argument| argument.body)
    }

    /// Appends an event without content. After a restore, a workflow's numbers skip with it what may have been given out.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn append_empty(&self, workspace: WorkspaceId) -> Result<Answer, SubmitError> {
        self.app()?.submit(workspace, KIND, Request::new(EMPTY), None).await
    }

    /// The event that was sent with an idempotency key.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn sent_with(&self, workspace: WorkspaceId, key: &str) -> Result<Option<Placed>, SubmitError> {
        self.app()?.event_with_key(workspace, key).await
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
        let before = before.map(run_key);
        let before = before.as_ref().map(|key| &key[..]);
        let rows = self.app()?.rows(workspace, RUNS_VIEW, before, limit).await?;
        Ok(rows.into_iter().filter_map(|(_, row)| serde_json::from_value(row).ok()).collect())
    }

    /// Up to `limit` workflows of a partition whose newest run has this status, after a workspace, ascending.
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
        let after = after.map(|after| status_key(status, after));
        self.index_rows(partition, status.name(), after.as_ref().map(|key| &key[..]), limit).await
    }

    /// Up to `limit` runs of a partition that ended with messages that are not delivered, after a run, ascending.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub async fn undelivered(
        &self,
        partition: PartitionId,
        after: Option<(WorkspaceId, u64)>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, SubmitError> {
        let after = after.map(|(workspace, run)| undelivered_key(workspace, run));
        self.index_rows(partition, UNDELIVERED, after.as_ref().map(|key| &key[..]), limit).await
    }

    /// Up to `limit` rows of a partition's index whose keys begin with a text, after a key, with their workspaces.
    async fn index_rows(
        &self,
        partition: PartitionId,
        first: &str,
        after: Option<&[KeyPart]>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, SubmitError> {
        let rows = self.app()?.common_rows(partition, RUNS_VIEW, &[first.into()], after, limit).await?;
        let rows = rows.into_iter();
        Ok(rows
            .filter_map(|(key, row)| Some((workspace_of(&key)?, serde_json::from_value(row).ok()?)))
            .collect())
    }

    /// Up to `limit` workflows whose newest run has one of these statuses, after a workspace, in the order in which they
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
            found.extend(self.list_partition(partition, statuses, after, limit).await?);
        }
        found.sort_by_key(|(workspace, _)| *workspace);
        found.truncate(limit);
        Ok(found)
    }

    /// As [`Workflows::list`], of one partition, and in no order.
    pub(crate) async fn list_partition(
        &self,
        partition: PartitionId,
        statuses: &[RunStatus],
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, SubmitError> {
        let mut found = Vec::new();
        for status in statuses {
            found.extend(self.with_status(partition, *status, after, limit).await?);
        }
        Ok(found)
    }

    /// The partitions that workflows are in.
    ///
    /// # Errors
    ///
    /// [`SubmitError`].
    pub fn partitions(&self) -> Result<Vec<PartitionId>, SubmitError> {
        Ok(self.app()?.partitions())
    }

    /// Which of the engine's ownerships of a partition is the present one; `None` if the engine does not own it.
    pub(crate) fn tenure(&self, partition: PartitionId) -> Result<Option<u64>, SubmitError> {
        Ok(self.app()?.tenure(partition))
    }

    /// Whether the log says that the engine still holds a partition.
    pub(crate) async fn is_holder(&self, partition: PartitionId) -> Result<bool, SubmitError> {
        self.app()?.is_holder(partition).await
    }

    /// Receives a change when a partition becomes owned, or is no longer owned.
    pub(crate) fn places(&self) -> Result<watch::Receiver<()>, SubmitError> {
        Ok(self.app()?.places())
    }

    /// Has messages of other engines answered.
    pub(crate) fn answer_calls(&self, calls: Arc<dyn HostedCalls>) -> Result<(), SubmitError> {
        self.app()?.answer_calls(calls);
        Ok(())
    }

    /// Sends a message to the host of the engine that owns a partition.
    pub(crate) async fn call_owner(
        &self,
        partition: PartitionId,
        message: Json,
    ) -> Result<Json, SubmitError> {
        self.app()?.call_owner_of(partition, message).await
    }
}

/// The workspace in the key of an index row: its second part.
pub(super) fn workspace_of(key: &[KeyPart]) -> Option<WorkspaceId> {
    match key {
        [_, KeyPart::Integer(id), ..] => Some(WorkspaceId::new(u64::try_from(*id).ok()?)),
        _ => None,
    }
}

/// The part of an `Advance` that is the host's own.
#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    body: Json,
}

/// Refuses what is not an id of a workflow.
fn check_id(id: &str) -> Result<(), SubmitError> {
    if (1..=NAME_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("a workflow's id has 1 to {NAME_BYTES_MAX} bytes and no control characters");
    Err(RequestError::Refused(text).into())
}
