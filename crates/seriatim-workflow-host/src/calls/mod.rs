//! Requests to workflows, wherever their partitions are.
//!
//! ```text
//!                     ┌─ the partition is here ────────────────► inbox of the workflow
//! request, message ───┤
//!                     └─ it is not ──► call to its owner ──────► the host there: serve
//! ```
//!
//! A call is carried out by the host of the engine that owns the partition, or refused as not here: it is never sent on. What
//! changes a workflow has an idempotency key where its sender may repeat it, so a call whose answer was lost is carried out once.
//! What takes long is bounded by [`CALL_WAIT`] and asked for again.
//!
//! Reads are answered from the engine's own data if it owns or follows the partition.

mod error_form;
pub(crate) mod form;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use seriatim_types::{PartitionId, WorkspaceId};
use seriatim_workflow::{Job, Payload, Start};

use crate::application::{NAME, RunRow, Workflows};
use crate::entry::{Begins, Ended};
use crate::error::HostError;
use crate::inner::Inner;
use crate::workflow::ending::Outcome;
use crate::workflow::{Item, Key, Request, Responder, StartAs, Written};
use form::{Answer, Call, unreadable};

pub(crate) use serve::serving;

/// How long the owner waits before it answers that something takes longer.
const CALL_WAIT: Duration = Duration::from_secs(20);

impl Inner {
    /// Sends a call to the host of the engine that owns a partition.
    pub(crate) async fn call(&self, partition: PartitionId, call: Call) -> Result<Answer, HostError> {
        let reply = Workflows::new(&self.engine).call_owner(partition, form::to_call(&call)?).await?;
        form::read_reply(reply)
    }

    /// As [`Self::call`], by a workflow.
    pub(crate) async fn call_of(&self, workspace: WorkspaceId, call: Call) -> Result<Answer, HostError> {
        self.call(self.engine.partition_of(NAME, workspace)?, call).await
    }

    /// Sends a call that is answered when it is written.
    async fn call_written(&self, workspace: WorkspaceId, call: Call) -> Result<Written, HostError> {
        match self.call_of(workspace, call).await? {
            Answer::Written(written) => Ok(written),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether a workflow's partition is here. An error says why nothing can be done.
    pub(crate) fn is_here(self: &Arc<Self>, workspace: WorkspaceId) -> Result<bool, HostError> {
        match self.home_of(workspace) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_here() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Starts a workflow, or finds that it was started with this key.
    pub(crate) async fn start_run(
        self: &Arc<Self>,
        start: Start,
        begins: Begins,
        how: StartAs,
    ) -> Result<(WorkspaceId, Written), HostError> {
        // Before a name is registered: a start that is refused leaves no workflow.
        self.refuse_unknown(&start.workflow_type)?;
        let (workspace, is_fresh) = Workflows::new(&self.engine).register(&start.workflow_id).await?;
        let start = Box::new(start);
        let written = if self.is_here(workspace)? {
            self.start_here(workspace, start, begins, how, is_fresh).await
        } else {
            let call = Call::Start { workspace: workspace.into(), start, begins, how: Box::new(how) };
            self.call_written(workspace, call).await
        };
        Ok((workspace, written?))
    }

    /// Sends a signal, or a request to stop, to the open run of a workflow, or to this one.
    pub(crate) async fn request(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: Option<u64>,
        job: Job,
        key: Option<Key>,
    ) -> Result<Written, HostError> {
        if self.is_here(workspace)? {
            return self.request_here(workspace, run, job, key).await;
        }
        let call = Call::Request { workspace: workspace.into(), run, job: Box::new(job), key };
        self.call_written(workspace, call).await
    }

    async fn request_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: Option<u64>,
        job: Job,
        key: Option<Key>,
    ) -> Result<Written, HostError> {
        let item = |reply| {
            let responder = Responder::Written(reply);
            Item::Request(Box::new(Request { job, run, key, responder }))
        };
        self.ask(workspace, item).await
    }

    /// Sends an update to the open run of a workflow, and waits for its outcome. `id` is the update's own.
    pub(crate) async fn update(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        id: String,
        job: Job,
        key: Option<Key>,
    ) -> Result<Payload, HostError> {
        if self.is_here(workspace)? {
            return self.update_here(workspace, job, key).await;
        }
        // With a key it can be asked for again.
        let key = key.unwrap_or_else(|| Key { identity: id.clone(), key: id });
        loop {
            let (job, key) = (Box::new(job.clone()), key.clone());
            let call = Call::Update { workspace: workspace.into(), job, key, within: CALL_WAIT };
            match self.call_of(workspace, call).await? {
                Answer::Payload(outcome) => return Ok(outcome),
                Answer::Later => {}
                other => return Err(unexpected(&other)),
            }
        }
    }

    async fn update_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        job: Job,
        key: Option<Key>,
    ) -> Result<Payload, HostError> {
        let item = |reply| {
            let responder = Responder::Update(reply);
            Item::Request(Box::new(Request { job, run: None, key, responder }))
        };
        self.ask(workspace, item).await
    }

    /// Ends the open run of a workflow without asking it, or this one.
    pub(crate) async fn end(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: Option<u64>,
        ended: Box<Ended>,
        key: Option<Key>,
    ) -> Result<Written, HostError> {
        if self.is_here(workspace)? {
            return self.end_here(workspace, run, ended, key).await;
        }
        self.call_written(workspace, Call::End { workspace: workspace.into(), run, ended, key }).await
    }

    async fn end_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: Option<u64>,
        ended: Box<Ended>,
        key: Option<Key>,
    ) -> Result<Written, HostError> {
        self.ask(workspace, |reply| Item::End { run, ended, key, reply: Some(reply) }).await
    }

    /// Tries a stuck run again.
    pub(crate) async fn retry(self: &Arc<Self>, workspace: WorkspaceId) -> Result<Written, HostError> {
        if self.is_here(workspace)? {
            return self.ask(workspace, |reply| Item::RetryStuck { reply }).await;
        }
        self.call_written(workspace, Call::Retry { workspace: workspace.into() }).await
    }

    /// Asks the newest run's code.
    pub(crate) async fn query(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        job: Job,
    ) -> Result<Payload, HostError> {
        if self.is_here(workspace)? {
            return self.ask(workspace, |reply| Item::Query { job, reply }).await;
        }
        let call = Call::Query { workspace: workspace.into(), job: Box::new(job) };
        match self.call_of(workspace, call).await? {
            Answer::Payload(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until a run, and those that continue it, have ended. Nothing, if there is no such run.
    pub(crate) async fn wait_outcome(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<(RunRow, Outcome)>, HostError> {
        loop {
            if self.is_here(workspace)? {
                return self.wait_outcome_here(workspace, run).await;
            }
            let call = Call::Wait { workspace: workspace.into(), run, within: CALL_WAIT };
            match self.call_of(workspace, call).await? {
                Answer::Ended(ended) => return Ok(Some(*ended)),
                Answer::Row(None) => return Ok(None),
                Answer::Later => {}
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// The newest run of a workflow, or one with a number.
    pub(crate) async fn row(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: Option<u64>,
    ) -> Result<Option<RunRow>, HostError> {
        match self.row_here(workspace, run).await {
            Err(error) if error.is_not_here() => {
                self.call_row(workspace, Call::Row { workspace: workspace.into(), run }).await
            }
            read => read,
        }
    }

    /// As [`Self::row`], from the data of this engine.
    pub(crate) async fn row_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: Option<u64>,
    ) -> Result<Option<RunRow>, HostError> {
        let reading = self.reading(self.engine.partition_of(NAME, workspace)?)?;
        let row = self.histories.row(workspace, run).await?;
        if row.is_none() {
            self.confirm_reading(reading.as_ref()).await?;
        }
        Ok(row)
    }

    /// The last of the runs that continue this one.
    pub(crate) async fn last_of(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<RunRow>, HostError> {
        match self.last_of_here(workspace, run).await {
            Err(error) if error.is_not_here() => {
                self.call_row(workspace, Call::LastOf { workspace: workspace.into(), run }).await
            }
            read => read,
        }
    }

    /// As [`Self::last_of`], from the data of this engine.
    pub(crate) async fn last_of_here(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<RunRow>, HostError> {
        let reading = self.reading(self.engine.partition_of(NAME, workspace)?)?;
        let row = self.histories.last_of(workspace, run).await?;
        if row.is_none() {
            self.confirm_reading(reading.as_ref()).await?;
        }
        Ok(row)
    }

    async fn call_row(&self, workspace: WorkspaceId, call: Call) -> Result<Option<RunRow>, HostError> {
        match self.call_of(workspace, call).await? {
            Answer::Row(row) => Ok(row.map(|row| *row)),
            other => Err(unexpected(&other)),
        }
    }
}

/// The error of an answer that does not fit its call.
pub(crate) fn unexpected(answer: &Answer) -> HostError {
    unreadable(&format!("{answer:?}"))
}
