//! What workflows send each other: starts, results, signals, requests to stop.
//!
//! A run asks for a message by a command, and the command is durable before the message is sent. A message is named by its
//! sender, run, kind and number, and is written to the other workflow with that name as its idempotency key. The key never
//! expires. So a message is sent again after a crash, and after any time, and counts once:
//!
//! ```text
//! sender's log    command (signal, cancel, start a child) ──┐                    ┌──► answer: delivered or not
//!                                                           │ retried until      │
//! receiver's log                                            └─► event with key ──┘    the same key again: no event
//! ```
//!
//! The receiver may be in a partition that another engine owns ([`calls`](crate::calls)): then the key is written there. If the answer
//! is lost, the message is sent again, and counts once. If the owner cannot be reached, it is sent again later.
//!
//! What is pending is found in the sender's log, so nothing else is stored for it. A run that ends with messages that are not
//! delivered is listed in the index until they are (`Item::Delivered`): a start of the host finds it there.

use std::sync::Arc;
use std::time::Duration;

use seriatim_env::Shutdown;
use seriatim_types::{ErrorKind, WorkspaceId};
use seriatim_workflow::{
    CancellationType, ChildResolution, ChildStartFailure, ChildStartResolution, CommandSeq, Execution,
    Failure, FailureInfo, Job, Kind, ParentClosePolicy, RetryState, SignalTarget, Start,
};

use crate::application::{RunRow, RunStatus, Workflows};
use crate::entry::{Begins, ParentLink};
use crate::error::HostError;
use crate::homes::Home;
use crate::inner::Inner;
use crate::workflow::ending::{Outcome, terminated};
use crate::workflow::pending::{Child, Message, MessageContents, Pending};
use crate::workflow::{Item, Key, StartAs, Written, parse_run_id, run_id};

/// What the keys of messages between workflows begin with. No caller's key may.
pub(crate) const KEY_PREFIX: &str = "workflow:";

/// How long after a refusal a message is sent again, at most.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The messages of one run to other workflows.
#[derive(Clone)]
pub(crate) struct Messages {
    inner: Arc<Inner>,
    /// The partition of the sender. When it leaves, nothing more is sent from here: its new owner sends what is pending.
    home: Arc<Home>,
    workspace: WorkspaceId,
    run: u64,
    /// The workflow's id.
    id: String,
}

impl Messages {
    pub(crate) const fn new(
        inner: Arc<Inner>,
        home: Arc<Home>,
        workspace: WorkspaceId,
        run: u64,
        id: String,
    ) -> Self {
        Self { inner, home, workspace, run, id }
    }

    /// Runs something in the background, until the partition of the sender leaves or the host stops.
    fn spawn(&self, sending: impl Future<Output = ()> + Send + 'static) {
        let (stop, running) = (self.home.stop.clone(), self.inner.operations.begin(()));
        drop(self.inner.env.spawn(async move {
            stop.run_until_cancelled(sending).await;
            drop(running);
        }));
    }

    fn key(&self, what: &str, seq: u32) -> Key {
        let key = format!("{KEY_PREFIX}{}/{}/{what}/{seq}", self.workspace.get(), self.run);
        Key { identity: key.clone(), key }
    }

    fn answer(&self, job: Job) {
        let item = Item::Answer { run: self.run, job, generation: 0 };
        self.inner.push_at(&self.home, self.workspace, item);
    }

    /// Calls `send` until it succeeds, or is refused for a reason that a retry does not change.
    async fn retrying<T, F>(&self, mut send: impl FnMut() -> F) -> Result<T, HostError>
    where
        F: Future<Output = Result<T, HostError>>,
    {
        let mut pause = self.inner.options.retry;
        loop {
            match send().await {
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::InDoubt | ErrorKind::Fenced
                    ) => {}
                ended => return ended,
            }
            self.inner.env.sleep(self.inner.env.jitter(pause)).await;
            pause = (pause * 2).min(RETRY_AFTER_MAX);
        }
    }

    /// Sends a request to a workflow, if it exists.
    async fn request(&self, target: &Execution, job: &Job, key: &Key) -> Result<Written, HostError> {
        let found = Workflows::new(&self.inner.engine).find(&target.workflow_id).await?;
        let workspace = found.ok_or_else(|| HostError::UnknownWorkflow(target.workflow_id.clone()))?;
        let run = parse_run_id(&target.run_id).map(|(_, run)| run);
        self.inner.request(workspace, run, job.clone(), Some(key.clone())).await
    }

    /// Starts a child, notifies its parent, waits for its end, and notifies its parent.
    pub(crate) fn watch_child(self, seq: u32, child: Arc<Child>, cancel: Shutdown) {
        self.clone().spawn(async move {
            cancel.run_until_cancelled(self.child(seq, &child)).await;
        });
    }

    async fn child(self, seq: u32, child: &Child) {
        let number = CommandSeq::new(seq);
        let first = match child.run_id.as_deref().and_then(parse_run_id) {
            Some(started) => started,
            None => {
                let started = self.retrying(|| self.start_child(seq, child)).await;
                let (resolution, first) = match started {
                    Ok((of_child, written)) => {
                        let run_id = run_id(of_child, written.run);
                        (ChildStartResolution::Started { run_id }, Some((of_child, written.run)))
                    }
                    Err(HostError::Closed) => return,
                    Err(error) => (not_started(child, &error), None),
                };
                self.answer(Job::ResolveChildStart { seq: number, resolution });
                let Some(first) = first else { return };
                first
            }
        };
        if child.ignores_result {
            return;
        }
        let ended = self.retrying(|| self.inner.wait_outcome(first.0, first.1)).await;
        let Ok(Some((row, outcome))) = ended else { return };
        let resolution = resolution(child, first.0, &row, outcome);
        self.answer(Job::ResolveChild { seq: number, resolution });
    }

    async fn start_child(&self, seq: u32, child: &Child) -> Result<(WorkspaceId, Written), HostError> {
        let options = &child.options;
        if !options.cron_schedule.is_empty() {
            return Err(HostError::Invalid("cron schedules are not supported here".to_owned()));
        }
        let start = Start {
            parent: Some(Execution {
                namespace: String::new(),
                workflow_id: self.id.clone(),
                run_id: run_id(self.workspace, self.run),
            }),
            headers: options.headers.clone(),
            memo: options.memo.clone(),
            search_attributes: options.search_attributes.clone(),
            execution_timeout: options.execution_timeout,
            run_timeout: options.run_timeout,
            retry_policy: options.retry_policy.clone(),
            random_seed: self.inner.env.random(),
            ..Start::new(child.workflow_type.clone(), options.workflow_id.clone(), child.input.clone())
        };
        let deadline = options.execution_timeout.map(|timeout| self.inner.now().after(timeout));
        let policy = options.parent_close_policy;
        let parent = Some(ParentLink { workspace: self.workspace.get(), run: self.run, seq, policy });
        let key = Some(self.key("child", seq));
        let how = StartAs { reuse: options.id_reuse_policy, key, ..StartAs::default() };
        self.inner.start_run(start, Begins { parent, deadline }, how).await
    }

    /// Asks a child to stop.
    pub(crate) fn cancel_child(self, seq: u32, child: Arc<Child>) {
        self.clone().spawn(async move {
            self.send_cancel_to_child(seq, &child).await;
            let is_over = child.options.cancellation_type == CancellationType::WaitRequested;
            if is_over {
                let reason = child.cancelled.clone().unwrap_or_default();
                let resolution = ChildResolution::Cancelled { failure: Failure::cancelled(reason) };
                self.answer(Job::ResolveChild { seq: CommandSeq::new(seq), resolution });
            }
        });
    }

    async fn send_cancel_to_child(&self, seq: u32, child: &Child) {
        let reason = child.cancelled.clone().unwrap_or_else(|| "its parent has ended".to_owned());
        let (job, key) = (Job::Cancel { reason }, self.key("cancel", seq));
        // Between the look-up and the request the run may have ended, and another one continue it.
        while let Some((of_child, row)) = self.running_child(seq, child).await {
            let target = Execution {
                workflow_id: row.id.clone(),
                run_id: run_id(of_child, row.run),
                ..Execution::default()
            };
            match self.retrying(|| self.request(&target, &job, &key)).await {
                Err(HostError::NotRunning { .. }) => {}
                _ => return,
            }
        }
    }

    /// The run of a child that is open, after all that continued the first one. A child that has not begun is started.
    async fn running_child(&self, seq: u32, child: &Child) -> Option<(WorkspaceId, RunRow)> {
        let first = match child.run_id.as_deref().and_then(parse_run_id) {
            Some(first) => first,
            None => {
                let started = self.retrying(|| self.start_child(seq, child)).await;
                started.ok().map(|(of_child, written)| (of_child, written.run))?
            }
        };
        let row = self.retrying(|| self.inner.last_of(first.0, first.1)).await.ok()??;
        (row.status == RunStatus::Running).then_some((first.0, row))
    }

    /// Sends a signal or a request to stop, and answers whether it was delivered.
    pub(crate) fn send(self, kind: Kind, seq: u32, message: Arc<Message>, cancel: Shutdown) {
        self.clone().spawn(async move {
            let Some(sent) = cancel.run_until_cancelled(self.deliver(seq, &message)).await else { return };
            let failure = match sent {
                Ok(_) => None,
                Err(HostError::Closed) => return,
                Err(error) => Some(Failure::application("ExternalWorkflow", error.to_string())),
            };
            self.answer(match kind {
                Kind::ExternalSignal => Job::ResolveExternalSignal { seq: CommandSeq::new(seq), failure },
                _ => Job::ResolveExternalCancel { seq: CommandSeq::new(seq), failure },
            });
        });
    }

    async fn deliver(&self, seq: u32, message: &Message) -> Result<Written, HostError> {
        let identity = run_id(self.workspace, self.run);
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
                let key = self.key("signal", seq);
                self.retrying(|| self.request(&target, &job, &key)).await
            }
            MessageContents::Cancel { target, reason } => {
                let job = Job::Cancel { reason: reason.clone() };
                let key = self.key("external", seq);
                self.retrying(|| self.request(target, &job, &key)).await
            }
        }
    }

    /// The run has ended with messages that are not delivered: they are found in its log.
    pub(crate) fn deliver_remaining_of(self, row: RunRow) {
        self.clone().spawn(async move {
            let turns = || async { Ok(self.inner.histories.turns(self.workspace, &row).await?) };
            let Ok(turns) = self.retrying(turns).await else { return };
            let mut pending = Pending::default();
            turns.iter().for_each(|turn| pending.apply(turn));
            self.deliver_all(&pending).await;
        });
    }

    /// The run has ended with messages that are not delivered.
    pub(crate) fn deliver_remaining(self, pending: Pending) {
        self.clone().spawn(async move { self.deliver_all(&pending).await });
    }

    async fn deliver_all(&self, pending: &Pending) {
        for (seq, message) in pending.signals.iter().chain(&pending.cancels) {
            if matches!(self.deliver(*seq, message).await, Err(HostError::Closed)) {
                return;
            }
        }
        for (seq, child) in &pending.children {
            if child.run_id.is_none() {
                let started = self.retrying(|| self.start_child(*seq, child)).await;
                if matches!(started, Err(HostError::Closed)) {
                    return;
                }
            }
            self.close_child(*seq, child).await;
        }
        self.inner.push_at(&self.home, self.workspace, Item::Delivered { run: self.run });
    }

    /// Cancels or terminates a child whose parent has ended, by its policy.
    async fn close_child(&self, seq: u32, child: &Child) {
        let policy = child.options.parent_close_policy;
        if child.cancelled.is_some() || policy == ParentClosePolicy::RequestCancel {
            self.send_cancel_to_child(seq, child).await;
        }
        if policy != ParentClosePolicy::Terminate {
            return;
        }
        while let Some((of_child, row)) = self.running_child(seq, child).await {
            let ended = self
                .retrying(|| {
                    let ended = Box::new(terminated("its parent has ended", self.inner.now()));
                    self.inner.end(of_child, Some(row.run), ended, Some(self.key("terminate", seq)))
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
