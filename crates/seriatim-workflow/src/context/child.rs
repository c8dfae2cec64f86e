//! Child workflows: started first, then awaited.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{Context, ExternalFuture, arguments};
use crate::kind::{self, ChildWorkflowSeq};
use crate::runtime::{Cell, ChildEntry, Operation, WaitingFor};
use crate::{
    Arguments, CancellationType, ChildError, ChildOptions, ChildResolution, ChildStartResolution, Command,
    Failure, InputDigest, Kind, Lineage, Name, ParentClosePolicy, Payload, PayloadError, Signal,
    SignalTarget, Workflow,
};

impl Context {
    /// A child workflow. Awaiting the call starts it and waits for its result; [`ChildCall::start`] waits for its first
    /// phase only.
    #[track_caller]
    pub fn child<In: Arguments, Out: DeserializeOwned + Send + 'static>(
        &self,
        workflow: impl Into<Name<Workflow<In, Out>>>,
        input: In,
    ) -> ChildCall<Out> {
        ChildCall {
            ctx: self.clone(),
            name: workflow.into().into_string(),
            input: arguments(&input),
            options: Box::default(),
            site: Location::caller(),
            output: PhantomData,
        }
    }
}

/// A child workflow that has not been started yet.
#[must_use = "a child workflow begins when it is awaited or started"]
pub struct ChildCall<Out> {
    ctx: Context,
    name: String,
    input: Result<Vec<Payload>, PayloadError>,
    options: Box<ChildOptions>,
    site: &'static Location<'static>,
    output: PhantomData<fn() -> Out>,
}

impl<Out: DeserializeOwned + Send + 'static> ChildCall<Out> {
    /// Its workflow id. Without one it gets a UUID from the run's randomness.
    pub fn id(mut self, workflow_id: impl Into<String>) -> Self {
        self.options.workflow_id = workflow_id.into();
        self
    }

    /// What it means to cancel it.
    pub fn cancellation(mut self, cancellation_type: CancellationType) -> Self {
        self.options.cancellation_type = cancellation_type;
        self
    }

    /// What happens to it when this run ends.
    pub fn parent_close(mut self, policy: ParentClosePolicy) -> Self {
        self.options.parent_close_policy = policy;
        self
    }

    /// All options at once.
    pub fn options(mut self, options: ChildOptions) -> Self {
        *self.options = options;
        self
    }

    /// Starts the child now, and waits until it runs when awaited.
    ///
    /// # Errors
    ///
    /// [`ChildError`] if it was refused, or cancelled before it began.
    pub fn start(self) -> impl Future<Output = Result<ChildHandle<Out>, ChildError>> + Send + use<Out> {
        let handle = self.schedule();
        async move {
            let handle = handle?;
            let waits = WaitingFor::ChildStart { seq: handle.seq() };
            match handle.start.wait(&handle.ctx.shared.sched, waits).await {
                ChildStartResolution::Started { run_id } => Ok(ChildHandle { run_id, ..handle }),
                ChildStartResolution::Failed { cause, .. } => {
                    Err(ChildError::NotStarted { cause, workflow_id: handle.workflow_id.clone() })
                }
                ChildStartResolution::Cancelled { failure } => Err(ChildError::Cancelled(failure)),
            }
        }
    }

    fn schedule(mut self) -> Result<ChildHandle<Out>, ChildError> {
        let ctx = self.ctx;
        let path = ctx.next_path();
        if self.options.workflow_id.is_empty() {
            self.options.workflow_id = ctx.uuid();
        }
        let input = self.input?;
        let entry = ChildEntry {
            start: Cell::new(),
            result: Cell::new(),
            cancellation: self.options.cancellation_type,
            is_cancel_sent: false,
        };
        let (start, result) = (entry.start.clone(), entry.result.clone());
        let workflow_id = self.options.workflow_id.clone();
        let mut seq = None;
        let mut state = ctx.shared.lock();
        if let Some(reason) = ctx.scope.reason() {
            return Err(ChildError::Cancelled(Failure::cancelled(&*reason)));
        }
        if ctx.may_issue(&mut state, "start a child workflow") {
            seq = state.number::<kind::ChildWorkflow>(&path);
            if let Some(seq) = seq
                && state.file(seq, &path, &ctx.scope, entry)
            {
                let lineage = Lineage { path, digest: InputDigest::of(&input) };
                let (workflow_type, options) = (self.name, self.options);
                let command = Command::StartChild { seq, lineage, workflow_type, input, options };
                state.push(command, Some(self.site));
            }
        }
        drop(state);
        Ok(ChildHandle { ctx, seq, workflow_id, run_id: String::new(), start, result, output: PhantomData })
    }
}

impl<Out: DeserializeOwned + Send + 'static> IntoFuture for ChildCall<Out> {
    type Output = Result<Out, ChildError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let start = self.start();
        Box::pin(async move { start.await?.result().await })
    }
}

/// A child workflow that runs. Dropping the handle leaves it running.
pub struct ChildHandle<Out> {
    ctx: Context,
    seq: Option<ChildWorkflowSeq>,
    workflow_id: String,
    run_id: String,
    start: Cell<ChildStartResolution>,
    result: Cell<ChildResolution>,
    output: PhantomData<fn() -> Out>,
}

impl<Out: DeserializeOwned + Send + 'static> ChildHandle<Out> {
    fn seq(&self) -> u32 {
        self.seq.map_or(0, ChildWorkflowSeq::get)
    }

    /// Its workflow id.
    #[must_use]
    pub fn workflow_id(&self) -> &str {
        &self.workflow_id
    }

    /// The id of its first run.
    #[must_use]
    pub fn first_run_id(&self) -> &str {
        &self.run_id
    }

    /// Its result, once it has ended. A result that is not of the expected type is an error like any other.
    ///
    /// # Errors
    ///
    /// [`ChildError`] if it failed or was cancelled.
    pub fn result(&self) -> impl Future<Output = Result<Out, ChildError>> + Send + use<Out> {
        let waits = WaitingFor::Response { kind: Kind::ChildWorkflow, seq: self.seq() };
        let wait = self.result.wait(&self.ctx.shared.sched, waits);
        async move {
            match wait.await {
                ChildResolution::Completed { result } => Ok(result.unwrap_or_else(Payload::null).decode()?),
                ChildResolution::Failed { failure } => Err(ChildError::Failed(failure)),
                ChildResolution::Cancelled { failure } => Err(ChildError::Cancelled(failure)),
            }
        }
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal<In: Arguments>(&self, signal: impl Into<Name<Signal<In>>>, input: In) -> ExternalFuture {
        let target = SignalTarget::Child { workflow_id: self.workflow_id.clone() };
        self.ctx.signal_target(target, signal.into().into_string(), arguments(&input), Location::caller())
    }

    /// Cancels it in the way that its options say. One that has ended stays as it is.
    #[track_caller]
    pub fn cancel(&self) {
        let site = Location::caller();
        if let Some(seq) = self.seq {
            let operation = Operation { kind: Kind::ChildWorkflow, seq: seq.get() };
            self.ctx.shared.lock().cancel(operation, &Arc::from("cancelled by the workflow"), Some(site));
        }
    }
}
