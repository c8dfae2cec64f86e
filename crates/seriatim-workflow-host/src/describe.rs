//! Descriptions of workflows, for people and programs.

use serde::{Deserialize, Serialize};
use seriatim_types::{PartitionId, WorkspaceId, WorkspaceOffset};
use seriatim_workflow::{Blocked, Failure, Headers, Kind, Payload, Start, Time, Warning};

use crate::application::{NAME, RunRow, RunStatus, Workflows};
use crate::calls::form::{Answer, Call, Inspected, Of};
use crate::calls::unexpected;
use crate::error::HostError;
use crate::histories::read_entry;
use crate::host::WorkflowHost;
use crate::timeline::{Timeline, timeline};
use crate::workflow::ending::Outcome;
use crate::workflow::pending::{MessageContents, Pending};
use crate::workflow::{CodeStatus, Item, run_id};

/// The newest run of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// What is kept of it.
    pub row: RunRow,
    /// The run.
    pub run_id: String,
    /// Arguments.
    pub input: Vec<Payload>,
    /// Notes that it was started with.
    pub memo: Headers,
    /// What it returned.
    pub result: Option<Payload>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Why its code cannot continue; it is tried again when a process with other code starts.
    pub stuck: Option<String>,
    /// What it waits for.
    pub pending: Vec<PendingOperation>,
    /// What each branch of its code waits for; empty if it is stuck.
    pub blocked: Vec<Blocked>,
    /// What is wrong with it and does not stop it: the newest.
    pub warnings: Vec<Warning>,
}

/// An operation that has had no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingOperation {
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub number: u32,
    /// Where in the run's code it comes from.
    pub path: String,
    /// Name of the activity, of the child's type, of the signal; empty where there is none.
    pub name: String,
    /// When the run issued the command.
    pub since: Time,
    /// When a timer fires, or an activity is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Time>,
    /// The attempt that runs or comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Failure>,
    /// The child or workflow that it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A workflow, or one of its runs, in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// What is kept of the run; of a workflow, of its newest.
    pub row: RunRow,
    /// The run.
    pub run_id: String,
    /// After this comes the next page.
    pub cursor: u64,
}

impl WorkflowHost {
    /// Describes a workflow's newest run. With `wait`, it waits for the run's end, but no longer than that.
    ///
    /// # Errors
    ///
    /// [`HostError::UnknownWorkflow`].
    pub async fn describe(
        &self,
        id: &str,
        wait: Option<std::time::Duration>,
    ) -> Result<Description, HostError> {
        let workspace = self.workspace(id).await?;
        if let Some(wait) = wait
            && let Some(row) = self.inner.row(workspace, None).await?
            && row.status == RunStatus::Running
        {
            let ended = self.inner.wait_outcome(workspace, row.run);
            // Still open when the time is over: it is described as it is.
            let _ = self.inner.env.timeout(wait, ended).await;
        }
        match self.describe_here(workspace, id).await {
            Err(error) if error.is_not_here() => {}
            described => return described,
        }
        let call = Call::Describe { workspace: workspace.into(), id: id.to_owned() };
        match self.inner.call_of(workspace, call).await? {
            Answer::Described(described) => Ok((*described).into()),
            other => Err(unexpected(&other)),
        }
    }

    /// Describes the newest run from the data of this engine, and from the memory of the host that drives it.
    pub(crate) async fn describe_here(
        &self,
        workspace: WorkspaceId,
        id: &str,
    ) -> Result<Description, HostError> {
        let row = self.inner.row_here(workspace, None).await?;
        let row = row.ok_or_else(|| HostError::UnknownWorkflow(id.to_owned()))?;
        let Start { input, memo, .. } = self.inner.histories.start(workspace, &row).await?;
        let (mut result, mut failure) = (None, None);
        match self.inner.histories.outcome(workspace, &row).await? {
            Some(Outcome::Completed(value)) => result = value,
            Some(Outcome::Failed(why)) => failure = Some(why),
            Some(Outcome::Cancelled) => failure = Some(Failure::cancelled("it was asked to stop")),
            None => {}
        }
        let mut description = Description {
            run_id: run_id(workspace, row.run),
            row,
            input,
            memo,
            result,
            failure,
            stuck: None,
            pending: Vec::new(),
            blocked: Vec::new(),
            warnings: Vec::new(),
        };
        if description.row.status == RunStatus::Running {
            let Inspected { stuck, pending, blocked, warnings } = self.inspect(workspace).await;
            description = Description { stuck, pending, blocked, warnings, ..description };
        }
        Ok(description)
    }

    /// What the host that drives a run knows of it. If it does not answer, the run is shown without.
    async fn inspect(&self, workspace: WorkspaceId) -> Inspected {
        match self.inner.is_here(workspace) {
            Ok(true) => self.inspect_here(workspace).await,
            Ok(false) => {
                match self.inner.call_of(workspace, Call::Inspect { workspace: workspace.into() }).await {
                    Ok(Answer::Inspected(inspected)) => *inspected,
                    _ => Inspected::default(),
                }
            }
            Err(_) => Inspected::default(),
        }
    }

    /// What this host knows of a run that it drives.
    pub(crate) async fn inspect_here(&self, workspace: WorkspaceId) -> Inspected {
        let mut inspected = Inspected::default();
        match self.inner.ask(workspace, |reply| Item::Inspect { reply }).await {
            Ok(CodeStatus { blocked, warnings }) => {
                (inspected.blocked, inspected.warnings) = (blocked, warnings);
            }
            Err(HostError::Stuck { reason, .. }) => inspected.stuck = Some(reason),
            // It is shown without, then.
            Err(_) => {}
        }
        if let Some(workflow) = self.inner.table.find(workspace) {
            let state = workflow.lock();
            if let Some(open) = state.lifecycle.run() {
                inspected.pending = operations(&open.pending);
            }
            if inspected.stuck.is_none() {
                inspected.stuck = state.lifecycle.stuck().map(str::to_owned);
            }
        }
        inspected
    }

    /// Up to `limit` workflows after a cursor, in the order in which they were first started.
    ///
    /// # Errors
    ///
    /// [`HostError`].
    pub async fn list(
        &self,
        status: Option<RunStatus>,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Listed>, HostError> {
        let after = after.map(WorkspaceId::new);
        let statuses = status.map_or(RunStatus::ALL.to_vec(), |status| vec![status]);
        let mut found = Vec::new();
        for partition in Workflows::new(&self.inner.engine).partitions()? {
            match self.list_here(partition, &statuses, after, limit).await {
                Err(error) if error.is_not_here() => {
                    let (statuses, after, limit) = (statuses.clone(), after.map(Of::from), limit as u64);
                    let call = Call::List { partition: partition.get(), statuses, after, limit };
                    found.extend(self.call_listed(partition, call).await?);
                }
                listed => found.extend(listed?),
            }
        }
        Ok(in_order(found, limit))
    }

    async fn call_listed(
        &self,
        partition: PartitionId,
        call: Call,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, HostError> {
        match self.inner.call(partition, call).await? {
            Answer::Listed(found) => Ok(found.into_iter().map(|(of, row)| (of.into(), row)).collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// Workflows of a partition whose newest run has one of these statuses, from the data of this engine.
    pub(crate) async fn list_here(
        &self,
        partition: PartitionId,
        statuses: &[RunStatus],
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, HostError> {
        self.inner.reading(partition)?;
        Ok(Workflows::new(&self.inner.engine).list_partition(partition, statuses, after, limit).await?)
    }

    /// Up to `limit` workflows after a cursor whose run this host could not continue, in the order in which they were
    /// first started. A host knows what it has tried: after it was opened, open runs become known one after the other.
    ///
    /// # Errors
    ///
    /// [`HostError`].
    pub async fn list_stuck(&self, after: Option<u64>, limit: usize) -> Result<Vec<Listed>, HostError> {
        let after = after.map(WorkspaceId::new);
        let mut found = self.stuck_here(None, after, limit).await?;
        for partition in Workflows::new(&self.inner.engine).partitions()? {
            if self.inner.home(partition).is_err_and(|error| error.is_not_here()) {
                let (after, limit) = (after.map(Of::from), limit as u64);
                let call = Call::Stuck { partition: partition.get(), after, limit };
                found.extend(self.call_listed(partition, call).await?);
            }
        }
        Ok(in_order(found, limit))
    }

    /// Workflows whose run this host could not continue, of all partitions or of one.
    pub(crate) async fn stuck_here(
        &self,
        partition: Option<PartitionId>,
        after: Option<WorkspaceId>,
        limit: usize,
    ) -> Result<Vec<(WorkspaceId, RunRow)>, HostError> {
        let mut found = Vec::new();
        for workspace in self.inner.table.stuck(after) {
            let of = self.inner.engine.partition_of(NAME, workspace)?;
            if found.len() >= limit || partition.is_some_and(|partition| partition != of) {
                continue;
            }
            // It may have ended meanwhile.
            let row = self.inner.histories.row(workspace, None).await?;
            found.extend(row.filter(|row| row.status == RunStatus::Running).map(|row| (workspace, row)));
        }
        Ok(found)
    }

    /// Up to `limit` runs of a workflow with a number below `before`, the newest first.
    ///
    /// # Errors
    ///
    /// [`HostError::UnknownWorkflow`].
    pub async fn runs(&self, id: &str, before: Option<u64>, limit: usize) -> Result<Vec<Listed>, HostError> {
        let workspace = self.workspace(id).await?;
        let found = match self.runs_here(workspace, before, limit).await {
            Err(error) if error.is_not_here() => {
                let call = Call::Runs { workspace: workspace.into(), before, limit: limit as u64 };
                match self.inner.call_of(workspace, call).await? {
                    Answer::Rows(rows) => rows,
                    other => return Err(unexpected(&other)),
                }
            }
            read => read?,
        };
        if before.is_none() && limit > 0 && found.is_empty() {
            return Err(HostError::UnknownWorkflow(id.to_owned()));
        }
        let listed = |row: RunRow| Listed { run_id: run_id(workspace, row.run), cursor: row.run, row };
        Ok(found.into_iter().map(listed).collect())
    }

    /// Runs of a workflow, from the data of this engine.
    pub(crate) async fn runs_here(
        &self,
        workspace: WorkspaceId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<RunRow>, HostError> {
        let reading = self.inner.reading(self.inner.engine.partition_of(NAME, workspace)?)?;
        let found = Workflows::new(&self.inner.engine).runs(workspace, before, limit).await?;
        if found.is_empty() {
            self.inner.confirm_reading(reading.as_ref()).await?;
        }
        Ok(found)
    }

    /// The whole history of a workflow's run; of the newest, if none is named. It is as large as the run's payloads are:
    /// [`Self::history_page`] has a bound.
    ///
    /// # Errors
    ///
    /// [`HostError::UnknownWorkflow`], [`HostError::UnknownRun`].
    pub async fn history(&self, id: &str, run: Option<u64>) -> Result<Timeline, HostError> {
        self.history_page(id, run, None, usize::MAX, usize::MAX).await
    }

    /// A part of the history of a workflow's run: the events after an offset, no more than `limit`, and none after those
    /// that come to `bytes_max` bytes. [`Timeline::next`] is the `after` of the next part.
    ///
    /// # Errors
    ///
    /// [`HostError::UnknownWorkflow`], [`HostError::UnknownRun`].
    pub async fn history_page(
        &self,
        id: &str,
        run: Option<u64>,
        after: Option<u64>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Timeline, HostError> {
        let workspace = self.workspace(id).await?;
        match self.history_here(workspace, id, run, after, limit, bytes_max).await {
            Err(error) if error.is_not_here() => {}
            read => return read,
        }
        let (limit, bytes_max) = (limit as u64, bytes_max as u64);
        let call =
            Call::History { workspace: workspace.into(), id: id.to_owned(), run, after, limit, bytes_max };
        match self.inner.call_of(workspace, call).await? {
            Answer::History(part) => Ok((*part).into()),
            other => Err(unexpected(&other)),
        }
    }

    /// A part of the history of a run, from the data of this engine.
    pub(crate) async fn history_here(
        &self,
        workspace: WorkspaceId,
        id: &str,
        run: Option<u64>,
        after: Option<u64>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Timeline, HostError> {
        let row = match (self.inner.row_here(workspace, run).await?, run) {
            (Some(row), _) => row,
            (None, None) => return Err(HostError::UnknownWorkflow(id.to_owned())),
            (None, Some(run)) => {
                let newest = self.inner.histories.row(workspace, None).await?;
                let newest = newest.ok_or_else(|| HostError::UnknownWorkflow(id.to_owned()))?.run;
                return Err(HostError::UnknownRun { id: id.to_owned(), run, newest });
            }
        };
        let (mut events, mut bytes, mut next) = (Vec::new(), 0, None);
        // What comes before is read as well, and not kept: an activation knows how many there were before it.
        let mut turns_before = 0;
        if let Some(from) = WorkspaceOffset::new(row.from) {
            let mut pages = Workflows::new(&self.inner.engine).events(workspace, from);
            'pages: loop {
                let page = pages.next().await?;
                if page.is_empty() {
                    break;
                }
                for event in page {
                    let offset = event.place.workspace_offset.get();
                    if row.to.is_some_and(|to| offset > to) {
                        break 'pages;
                    }
                    if events.len() >= limit || bytes >= bytes_max {
                        next = events.last().map(|(last, _, _)| *last);
                        break 'pages;
                    }
                    if let Some(entry) = read_entry(&event)?.filter(|entry| entry.run == row.run) {
                        if after.is_some_and(|after| offset <= after) {
                            turns_before += entry.turns.len();
                            continue;
                        }
                        bytes += entry.turns.iter().map(crate::size::turn_bytes).sum::<usize>();
                        events.push((offset, event.place.time.as_millis(), entry));
                    }
                }
            }
        }
        let entries = timeline(&events);
        Ok(Timeline { run_id: run_id(workspace, row.run), row, entries, events, turns_before, next })
    }
}

/// The first of these workflows, in the order in which they were first started.
fn in_order(mut found: Vec<(WorkspaceId, RunRow)>, limit: usize) -> Vec<Listed> {
    found.sort_by_key(|(workspace, _)| *workspace);
    found.truncate(limit);
    let listed = |(workspace, row): (WorkspaceId, RunRow)| Listed {
        run_id: run_id(workspace, row.run),
        row,
        cursor: workspace.get(),
    };
    found.into_iter().map(listed).collect()
}

/// What is pending, as it is shown.
fn operations(pending: &Pending) -> Vec<PendingOperation> {
    let of = |kind, number: u32, path: &seriatim_workflow::Path, name: &str, since| PendingOperation {
        kind,
        number,
        path: path.to_string(),
        name: name.to_owned(),
        since,
        due: None,
        attempt: None,
        last_failure: None,
        target: None,
    };
    let mut found = Vec::new();
    for (seq, timer) in &pending.timers {
        let due = Some(timer.due);
        found.push(PendingOperation { due, ..of(Kind::Timer, *seq, &timer.path, "", timer.started) });
    }
    let activities =
        [(Kind::Activity, &pending.activities), (Kind::LocalActivity, &pending.local_activities)];
    for (kind, tasks) in activities {
        for (seq, task) in tasks {
            found.push(PendingOperation {
                due: Some(task.at),
                attempt: Some(task.attempt),
                last_failure: task.last_failure.clone(),
                ..of(kind, *seq, &task.path, &task.activity_type, task.scheduled)
            });
        }
    }
    for (seq, child) in &pending.children {
        let target = Some(child.options.workflow_id.clone());
        let shown = of(Kind::ChildWorkflow, *seq, &child.path, &child.workflow_type, child.scheduled);
        found.push(PendingOperation { target, ..shown });
    }
    let messages = [(Kind::ExternalSignal, &pending.signals), (Kind::ExternalCancel, &pending.cancels)];
    for (kind, messages) in messages {
        for (seq, message) in messages {
            let (name, target) = match &message.contents {
                MessageContents::Signal { target, name, .. } => {
                    let target = match target {
                        seriatim_workflow::SignalTarget::Workflow(execution) => &execution.workflow_id,
                        seriatim_workflow::SignalTarget::Child { workflow_id } => workflow_id,
                    };
                    (name.as_str(), target)
                }
                MessageContents::Cancel { target, .. } => ("", &target.workflow_id),
            };
            let target = Some(target.clone());
            found.push(PendingOperation { target, ..of(kind, *seq, &message.path, name, message.scheduled) });
        }
    }
    found
}
