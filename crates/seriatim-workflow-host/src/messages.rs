//! What workflows tell each other: starts, results, signals, requests to stop.
//!
//! A message is named by its sender, run, kind and number. Into another workflow it goes with that name as its idempotency
//! key, which never expires, so that it may be sent again after any crash.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use seriatim_engine::{RunRow, RunStatus, SubmitError};
use seriatim_env::Shutdown;
use seriatim_types::{ErrorKind, WorkspaceId, WorkspaceOffset};
use seriatim_workflow::{
    CancellationType, ChildResolution, ChildStartFailure, ChildStartResolution, Command, CommandSeq,
    Execution, Failure, FailureInfo, Job, Kind, ParentClosePolicy, Payload, RetryState, SignalTarget, Start,
};
use tokio::sync::oneshot;

use crate::attempt::to_time;
use crate::workflow::ending::terminated;
use crate::entry::{Begins, Ended, Entry, ParentLink};
use crate::error::HostError;
use crate::inner::Inner;
use crate::load::read_entry;
use crate::workflow::pending::{Child, Message, MessageContents, Pending};
use crate::workflow::{Answering, Item, Key, StartAs, Starting, Told, Written, parse_run_id, run_id};

/// What the keys of messages between workflows begin with: nobody else's may.
pub(crate) const KEY_PREFIX: &str = "workflow:";

/// How often a message is sent again at most.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);

fn key(workspace: WorkspaceId, run: u64, what: &str, seq: u32) -> Key {
    let key = format!("{KEY_PREFIX}{}/{run}/{what}/{seq}", workspace.get());
    Key { identity: key.clone(), key }
}

/// How a run has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Completed(Option<Payload>),
    Failed(Failure),
    Cancelled,
}

impl Outcome {
    /// How the run of an event ends with it, if it does.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        if let Some(Ended { failure, .. }) = &entry.ended {
            return Some(Self::Failed(failure.clone()));
        }
        let mut commands = entry.turns.iter().flat_map(|turn| &turn.commands);
        commands.find(|command| command.kind().ends_the_run()).map(|end| match end {
            Command::Fail { failure } => Self::Failed(failure.clone()),
            Command::Cancelled => Self::Cancelled,
            Command::Complete { result } => Self::Completed(result.clone()),
            _ => Self::Completed(None),
        })
    }
}

impl Inner {
    /// Puts something into a workflow's inbox and waits until it is written.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        item: impl FnOnce(oneshot::Sender<Result<T, HostError>>) -> Item,
    ) -> Result<T, HostError> {
        let (reply, answer) = oneshot::channel();
        self.push(workspace, item(reply));
        answer.await.unwrap_or(Err(HostError::Closed))
    }

    /// Does something until it is done, or refused for good.
    async fn insist<T, F>(&self, mut send: impl FnMut() -> F) -> Result<T, HostError>
    where
        F: Future<Output = Result<T, HostError>>,
    {
        let mut pause = self.options.retry;
        loop {
            match send().await {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Fenced
                    ) => {}
                ended => return ended,
            }
            self.env.sleep(self.env.jitter(pause)).await;
            pause = (pause * 2).min(AGAIN_AFTER_MAX);
        }
    }

    /// Starts a workflow, or finds that it was started with this key.
    pub(crate) async fn start_run(
        self: &Arc<Self>,
        start: Start,
        begins: Begins,
        how: StartAs,
    ) -> Result<(WorkspaceId, Written), HostError> {
        if !self.registry.contains(&start.workflow_type) {
            let known: Vec<&str> = self.registry.names().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(HostError::UnknownType { workflow_type: start.workflow_type, known });
        }
        let (workspace, is_fresh) = self.engine.workflows().register(&start.workflow_id).await?;
        let is_new = self.find(workspace).is_none() && !self.asleep().contains_key(&workspace);
        if is_new && self.open_runs() >= self.options.open_runs_max {
            return Err(HostError::Busy(format!("{} runs are open", self.options.open_runs_max)));
        }
        let start = Box::new(start);
        let written = self
            .ask(workspace, |reply| Item::Start(Box::new(Starting { start, begins, how, is_fresh, reply })))
            .await?;
        Ok((workspace, written))
    }

    /// Tells a workflow something, if it exists.
    async fn tell(self: &Arc<Self>, target: &Execution, job: &Job, key: &Key) -> Result<Written, HostError> {
        let found = self.engine.workflows().find(&target.workflow_id).await?;
        let workspace = found.ok_or_else(|| HostError::UnknownWorkflow(target.workflow_id.clone()))?;
        let run = parse_run_id(&target.run_id).map(|(_, run)| run);
        let (job, key) = (job.clone(), Some(key.clone()));
        self.ask(workspace, |reply| {
            Item::Tell(Box::new(Told { job, run, key, answer: Answering::Written(reply) }))
        })
        .await
    }

    /// Waits until a run, and those that go on where it ended, have ended. Nothing, if there is no such run.
    pub(crate) async fn wait_ended(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        mut run: u64,
    ) -> Result<Option<RunRow>, SubmitError> {
        loop {
            let workflow = self.find(workspace);
            let ended = workflow.as_ref().map(|workflow| workflow.ended.notified());
            let mut ended = ended.map(Box::pin);
            if let Some(ended) = &mut ended {
                // From here on nothing is missed.
                ended.as_mut().enable();
            }
            let Some(row) = self.last_of(workspace, run).await? else { return Ok(None) };
            if row.status != RunStatus::Running {
                return Ok(Some(row));
            }
            run = row.run;
            match ended {
                Some(ended) => ended.await,
                // It is open, and nobody has looked at it yet.
                None => self.push(workspace, Item::Wake),
            }
        }
    }

    /// The last of the runs that go on where this one ended.
    pub(crate) async fn last_of(
        &self,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<RunRow>, SubmitError> {
        let mut row = self.row(workspace, Some(run)).await?;
        while let Some(next) = row.as_ref().and_then(|row| row.next) {
            row = self.row(workspace, Some(next)).await?;
        }
        Ok(row)
    }

    /// How a run has ended, by its last event.
    pub(crate) async fn outcome(
        &self,
        workspace: WorkspaceId,
        row: &RunRow,
    ) -> Result<Option<Outcome>, SubmitError> {
        let Some(to) = row.to.and_then(WorkspaceOffset::new) else { return Ok(None) };
        let events = self.engine.events("workflows", workspace, to, 1).await?;
        let Some(event) = events.first() else { return Ok(None) };
        Ok(read_entry(event)?.as_ref().and_then(Outcome::of))
    }

    /// As [`Self::wait_ended`], with how it ended. Nothing, if there is no such run.
    pub(crate) async fn wait_outcome(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
    ) -> Result<Option<(RunRow, Outcome)>, SubmitError> {
        if let Some(found) = self.wait_here(workspace, run).await {
            return Ok(Some(found));
        }
        let Some(row) = self.wait_ended(workspace, run).await? else { return Ok(None) };
        Ok(self.outcome(workspace, &row).await?.map(|outcome| (row, outcome)))
    }

    /// Waits for the end of a run that is open in memory: whoever ends it knows how, and nothing has to be read. Nothing,
    /// if it is not open here, or another one goes on.
    async fn wait_here(&self, workspace: WorkspaceId, run: u64) -> Option<(RunRow, Outcome)> {
        let workflow = self.find(workspace)?;
        let mut ended = pin!(workflow.ended.notified());
        ended.as_mut().enable();
        if workflow.is_open(run) {
            ended.await;
        }
        let found = workflow.lock().last_ended.clone();
        found.filter(|(row, _)| row.run == run)
    }

    /// Starts a child, tells its parent, waits for its end, and tells its parent.
    pub(crate) fn watch_child(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        id: String,
        seq: u32,
        child: Arc<Child>,
        token: &Shutdown,
    ) {
        let (inner, token) = (self.clone(), token.clone());
        drop(self.env.spawn(async move {
            let watching =
                inner.stop.run_until_cancelled(inner.clone().child(workspace, run, id, seq, child));
            token.run_until_cancelled(watching).await;
        }));
    }

    async fn child(
        self: Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        id: String,
        seq: u32,
        child: Arc<Child>,
    ) {
        let number = CommandSeq::new(seq);
        let first = match child.run_id.as_deref().and_then(parse_run_id) {
            Some(started) => started,
            None => {
                let started = self.insist(|| self.start_child(workspace, run, &id, seq, &child)).await;
                let (resolution, first) = match started {
                    Ok((of_child, written)) => {
                        let run_id = run_id(of_child, written.run);
                        (ChildStartResolution::Started { run_id }, Some((of_child, written.run)))
                    }
                    Err(HostError::Closed) => return,
                    Err(error) => (not_started(&child, &error), None),
                };
                self.answer(workspace, run, Job::ResolveChildStart { seq: number, resolution });
                let Some(first) = first else { return };
                first
            }
        };
        if child.is_forsaken {
            return;
        }
        let ended = self.insist(|| async { Ok(self.wait_outcome(first.0, first.1).await?) }).await;
        let Ok(Some((row, outcome))) = ended else { return };
        let resolution = resolution(&child, first.0, &row, outcome);
        self.answer(workspace, run, Job::ResolveChild { seq: number, resolution });
    }

    async fn start_child(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        id: &str,
        seq: u32,
        child: &Child,
    ) -> Result<(WorkspaceId, Written), HostError> {
        let options = &child.options;
        if !options.cron_schedule.is_empty() {
            return Err(HostError::Invalid("cron schedules are not supported here".to_owned()));
        }
        let start = Start {
            parent: Some(Execution {
                namespace: String::new(),
                workflow_id: id.to_owned(),
                run_id: run_id(workspace, run),
            }),
            headers: options.headers.clone(),
            memo: options.memo.clone(),
            search_attributes: options.search_attributes.clone(),
            execution_timeout: options.execution_timeout,
            run_timeout: options.run_timeout,
            retry_policy: options.retry_policy.clone(),
            random_seed: self.env.random(),
            ..Start::new(child.workflow_type.clone(), options.workflow_id.clone(), child.input.clone())
        };
        let deadline = options.execution_timeout.map(|timeout| to_time(self.env.now()).after(timeout));
        let policy = options.parent_close_policy;
        let parent = Some(ParentLink { workspace: workspace.get(), run, seq, policy });
        let key = Some(key(workspace, run, "child", seq));
        let how = StartAs { reuse: options.id_reuse_policy, key, ..StartAs::default() };
        self.start_run(start, Begins { parent, deadline }, how).await
    }

    /// Asks a child to stop.
    pub(crate) fn cancel_child(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        seq: u32,
        child: Arc<Child>,
    ) {
        let inner = self.clone();
        let sending = async move {
            let sent =
                inner.stop.run_until_cancelled(inner.send_cancel_to_child(workspace, run, seq, &child)).await;
            let is_over = child.options.cancellation_type == CancellationType::WaitRequested;
            if sent.is_some() && is_over {
                let reason = child.cancelled.clone().unwrap_or_default();
                let resolution = ChildResolution::Cancelled { failure: Failure::cancelled(reason) };
                inner.answer(workspace, run, Job::ResolveChild { seq: CommandSeq::new(seq), resolution });
            }
        };
        drop(self.env.spawn(sending));
    }

    async fn send_cancel_to_child(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        seq: u32,
        child: &Child,
    ) {
        let reason = child.cancelled.clone().unwrap_or_else(|| "its parent has ended".to_owned());
        let (job, key) = (Job::Cancel { reason }, key(workspace, run, "cancel", seq));
        // It may be on its way from one run to the next.
        while let Some((of_child, row)) = self.running_child(workspace, run, seq, child).await {
            let target = Execution {
                workflow_id: row.id.clone(),
                run_id: run_id(of_child, row.run),
                ..Execution::default()
            };
            match self.insist(|| self.tell(&target, &job, &key)).await {
                Err(HostError::NotRunning { .. }) => {}
                _ => return,
            }
        }
    }

    /// The run that a child has come to, if it has not ended. One that has not begun is waited for.
    async fn running_child(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        seq: u32,
        child: &Child,
    ) -> Option<(WorkspaceId, RunRow)> {
        let first = match child.run_id.as_deref().and_then(parse_run_id) {
            Some(first) => first,
            None => {
                let row = self.row(workspace, Some(run)).await.ok()??;
                let started = self.insist(|| self.start_child(workspace, run, &row.id, seq, child)).await;
                started.ok().map(|(of_child, written)| (of_child, written.run))?
            }
        };
        let row = self.insist(|| async { Ok(self.last_of(first.0, first.1).await?) }).await.ok()??;
        (row.status == RunStatus::Running).then_some((first.0, row))
    }

    /// Sends a signal or a request to stop, and says whether it was delivered.
    pub(crate) fn send_message(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        kind: Kind,
        seq: u32,
        message: Arc<Message>,
        token: &Shutdown,
    ) {
        let (inner, token) = (self.clone(), token.clone());
        let sending = async move {
            let sending = inner.deliver(workspace, run, seq, &message);
            let sent = token.run_until_cancelled(inner.stop.run_until_cancelled(sending)).await;
            let Some(Some(sent)) = sent else { return };
            let failure = match sent {
                Ok(_) => None,
                Err(HostError::Closed) => return,
                Err(error) => Some(Failure::application("ExternalWorkflow", error.to_string())),
            };
            let job = match kind {
                Kind::ExternalSignal => Job::ResolveExternalSignal { seq: CommandSeq::new(seq), failure },
                _ => Job::ResolveExternalCancel { seq: CommandSeq::new(seq), failure },
            };
            inner.answer(workspace, run, job);
        };
        drop(self.env.spawn(sending));
    }

    async fn deliver(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        run: u64,
        seq: u32,
        message: &Message,
    ) -> Result<Written, HostError> {
        let identity = run_id(workspace, run);
        match &message.contents {
            MessageContents::Signal { target, name, input } => {
                let target = match target {
                    SignalTarget::Workflow(execution) => execution.clone(),
                    SignalTarget::Child { workflow_id } => {
                        Execution { workflow_id: workflow_id.clone(), ..Execution::default() }
                    }
                };
                let (name, input) = (name.clone(), input.clone());
                let job = Job::Signal { name, input, headers: Default::default(), identity };
                let key = key(workspace, run, "signal", seq);
                self.insist(|| self.tell(&target, &job, &key)).await
            }
            MessageContents::Cancel { target, reason } => {
                let job = Job::Cancel { reason: reason.clone() };
                let key = key(workspace, run, "external", seq);
                self.insist(|| self.tell(target, &job, &key)).await
            }
        }
    }

    /// Tells others what a run that has ended had still to tell them: read from its log.
    pub(crate) fn pay(self: &Arc<Self>, workspace: WorkspaceId, row: RunRow) {
        let inner = self.clone();
        let paying = async move {
            let turns = inner.insist(|| async { Ok(inner.read_turns(workspace, &row).await?) }).await;
            let Ok(turns) = turns else { return };
            let mut pending = Pending::default();
            turns.iter().for_each(|turn| pending.apply(turn));
            inner.settle_debts(workspace, &row, pending).await;
        };
        let stop = self.stop.clone();
        drop(self.env.spawn(async move { stop.run_until_cancelled(paying).await }));
    }

    /// The same, with what was pending in hand.
    pub(crate) fn pay_from(self: &Arc<Self>, workspace: WorkspaceId, row: RunRow, pending: Pending) {
        let inner = self.clone();
        let paying = async move { inner.settle_debts(workspace, &row, pending).await };
        let stop = self.stop.clone();
        drop(self.env.spawn(async move { stop.run_until_cancelled(paying).await }));
    }

    async fn settle_debts(self: &Arc<Self>, workspace: WorkspaceId, row: &RunRow, pending: Pending) {
        let run = row.run;
        for (seq, message) in pending.signals.iter().chain(&pending.cancels) {
            if matches!(self.deliver(workspace, run, *seq, message).await, Err(HostError::Closed)) {
                return;
            }
        }
        for (seq, child) in &pending.children {
            if child.run_id.is_none() {
                let started = self.insist(|| self.start_child(workspace, run, &row.id, *seq, child)).await;
                if matches!(started, Err(HostError::Closed)) {
                    return;
                }
            }
            self.let_go(workspace, run, *seq, child).await;
        }
        self.push(workspace, Item::Delivered { run });
    }

    /// What becomes of a child whose parent has ended.
    async fn let_go(self: &Arc<Self>, workspace: WorkspaceId, run: u64, seq: u32, child: &Child) {
        let policy = child.options.parent_close_policy;
        if child.cancelled.is_some() || policy == ParentClosePolicy::RequestCancel {
            self.send_cancel_to_child(workspace, run, seq, child).await;
        }
        if policy != ParentClosePolicy::Terminate {
            return;
        }
        while let Some((of_child, row)) = self.running_child(workspace, run, seq, child).await {
            let ended = self
                .insist(|| {
                    let ended = Box::new(terminated("its parent has ended", &self.env));
                    let key = Some(key(workspace, run, "terminate", seq));
                    let run = Some(row.run);
                    self.ask(of_child, move |reply| Item::End { run, ended, key, reply: Some(reply) })
                })
                .await;
            match ended {
                Err(HostError::NotRunning { .. }) => {}
                _ => return,
            }
        }
    }
}

fn not_started(child: &Child, error: &HostError) -> ChildStartResolution {
    let cause = match error {
        HostError::Running { .. } | HostError::Used(_) | HostError::KeyReused(_) => {
            ChildStartFailure::AlreadyExists
        }
        HostError::UnknownType { .. } => ChildStartFailure::UnknownType,
        _ => ChildStartFailure::Unspecified,
    };
    ChildStartResolution::Failed {
        cause,
        workflow_id: child.options.workflow_id.clone(),
        workflow_type: child.workflow_type.clone(),
    }
}

fn resolution(child: &Child, workspace: WorkspaceId, row: &RunRow, outcome: Outcome) -> ChildResolution {
    let info = FailureInfo::ChildWorkflow {
        namespace: String::new(),
        workflow_id: child.options.workflow_id.clone(),
        run_id: run_id(workspace, row.run),
        workflow_type: child.workflow_type.clone(),
        retry_state: RetryState::Unspecified,
        initiated_event_id: 0,
        started_event_id: 0,
    };
    let failed = |what: &str| Failure::new(format!("child workflow {} {what}", row.id), info);
    match outcome {
        Outcome::Completed(result) => ChildResolution::Completed { result },
        Outcome::Failed(failure) => ChildResolution::Failed { failure: failed("failed").caused_by(failure) },
        Outcome::Cancelled => {
            let cause = Failure::cancelled("it was asked to stop");
            ChildResolution::Cancelled { failure: failed("was cancelled").caused_by(cause) }
        }
    }
}
