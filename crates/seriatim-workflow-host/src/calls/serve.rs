//! Carries out the calls of other hosts.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value as Json;
use seriatim_engine::{HostedCalls, SubmitError};
use seriatim_types::{PartitionId, WorkspaceId};

use super::form::{Answer, Call, Of, as_usize, read_call, to_reply};
use crate::application::NAME;
use crate::error::HostError;
use crate::host::WorkflowHost;
use crate::inner::Inner;
use crate::workflow::Item;

/// Answers the calls of other engines as long as the host exists.
struct Serving(Weak<Inner>);

#[async_trait]
impl HostedCalls for Serving {
    async fn serve(&self, message: Json) -> Result<Json, SubmitError> {
        let host = self.0.upgrade().map(|inner| WorkflowHost { inner });
        // A host that closes takes no request.
        let Some(host) = host.filter(|host| !host.inner.draining.is_cancelled()) else {
            return Err(SubmitError::NotHere { partition: format!("of application {NAME}"), holder: None });
        };
        let call = match read_call(message) {
            Ok(call) => call,
            Err(reply) => return Ok(reply),
        };
        let answer = match host.inner.home(host.partition_of(&call)?) {
            Ok(_) => host.carry_out(call).await,
            Err(error) => Err(error),
        };
        match answer {
            Err(HostError::NotHere { partition, holder }) => Err(SubmitError::NotHere { partition, holder }),
            answer => Ok(to_reply(answer)),
        }
    }
}

impl WorkflowHost {
    /// The partition that a call is about.
    fn partition_of(&self, call: &Call) -> Result<PartitionId, SubmitError> {
        let workspace = match call {
            Call::List { partition, .. } | Call::Stuck { partition, .. } => {
                return Ok(PartitionId::new(*partition));
            }
            Call::Start { workspace, .. }
            | Call::Request { workspace, .. }
            | Call::Update { workspace, .. }
            | Call::End { workspace, .. }
            | Call::Retry { workspace }
            | Call::Query { workspace, .. }
            | Call::Wait { workspace, .. }
            | Call::Row { workspace, .. }
            | Call::LastOf { workspace, .. }
            | Call::Inspect { workspace }
            | Call::Describe { workspace, .. }
            | Call::Runs { workspace, .. }
            | Call::History { workspace, .. } => *workspace,
        };
        self.inner.engine.partition_of(NAME, workspace.into())
    }

    /// Carries out a call. Its partition is here.
    async fn carry_out(&self, call: Call) -> Result<Answer, HostError> {
        let inner = &self.inner;
        match call {
            Call::Start { workspace, start, begins, how } => {
                let started = inner.start_here(workspace.into(), start, begins, *how, false).await;
                started.map(Answer::Written)
            }
            Call::Request { workspace, run, job, key } => {
                inner.request_here(workspace.into(), run, *job, key).await.map(Answer::Written)
            }
            Call::Update { workspace, job, key, within } => {
                let updating = inner.update_here(workspace.into(), *job, Some(key));
                self.within(within, async { updating.await.map(Answer::Payload) }).await
            }
            Call::End { workspace, run, ended, key } => {
                inner.end_here(workspace.into(), run, ended, key).await.map(Answer::Written)
            }
            Call::Retry { workspace } => {
                let retried = inner.ask(workspace.into(), |reply| Item::RetryStuck { reply }).await;
                retried.map(Answer::Written)
            }
            Call::Query { workspace, job } => {
                let asked = inner.ask(workspace.into(), |reply| Item::Query { job: *job, reply }).await;
                asked.map(Answer::Payload)
            }
            Call::Wait { workspace, run, within } => self.wait(workspace.into(), run, within).await,
            Call::Row { workspace, run } => {
                let row = inner.row_here(workspace.into(), run).await?;
                Ok(Answer::Row(row.map(Box::new)))
            }
            Call::LastOf { workspace, run } => {
                let row = inner.last_of_here(workspace.into(), run).await?;
                Ok(Answer::Row(row.map(Box::new)))
            }
            Call::Inspect { workspace } => {
                Ok(Answer::Inspected(Box::new(self.inspect_here(workspace.into()).await)))
            }
            Call::Describe { workspace, id } => {
                let described = self.describe_here(workspace.into(), &id).await?;
                Ok(Answer::Described(Box::new(described.into())))
            }
            Call::Runs { workspace, before, limit } => {
                Ok(Answer::Rows(self.runs_here(workspace.into(), before, as_usize(limit)).await?))
            }
            Call::History { workspace, id, run, after, limit, bytes_max } => {
                let (limit, bytes_max) = (as_usize(limit), as_usize(bytes_max));
                let part = self.history_here(workspace.into(), &id, run, after, limit, bytes_max).await?;
                Ok(Answer::History(Box::new(part.into())))
            }
            Call::List { partition, statuses, after, limit } => {
                let (partition, after) = (PartitionId::new(partition), after.map(WorkspaceId::from));
                let found = self.list_here(partition, &statuses, after, as_usize(limit)).await?;
                Ok(listed(found))
            }
            Call::Stuck { partition, after, limit } => {
                let (partition, after) = (PartitionId::new(partition), after.map(WorkspaceId::from));
                Ok(listed(self.stuck_here(Some(partition), after, as_usize(limit)).await?))
            }
        }
    }

    async fn wait(&self, workspace: WorkspaceId, run: u64, within: Duration) -> Result<Answer, HostError> {
        let waiting = async {
            let ended = self.inner.wait_outcome_here(workspace, run).await?;
            Ok(ended.map_or(Answer::Row(None), |ended| Answer::Ended(Box::new(ended))))
        };
        self.within(within, waiting).await
    }

    /// What `answering` returns, or that it takes longer. No longer than a call may take, whatever the caller asks for.
    async fn within(
        &self,
        within: Duration,
        answering: impl Future<Output = Result<Answer, HostError>>,
    ) -> Result<Answer, HostError> {
        let answered = self.inner.env.timeout(within.min(super::CALL_WAIT), answering).await;
        answered.unwrap_or(Ok(Answer::Later))
    }
}

fn listed(found: Vec<(WorkspaceId, crate::application::RunRow)>) -> Answer {
    Answer::Listed(found.into_iter().map(|(workspace, row)| (Of::from(workspace), row)).collect())
}

/// Answers the calls of other engines for a host.
pub(crate) fn serving(inner: &Arc<Inner>) -> Arc<dyn HostedCalls> {
    Arc::new(Serving(Arc::downgrade(inner)))
}
