//! Activities: work that is done outside the run.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Context, arguments};
use crate::kind::{self, ActivitySeq};
use crate::runtime::{ActivityEntry, Operation, SharedRun, Wait, WaitingFor};
use crate::{
    Activity, ActivityError, ActivityOptions, ActivityResolution, Arguments, CancellationType, Command,
    Failure, InputDigest, Kind, Lineage, Name, Payload, PayloadError, RetryPolicy,
};

impl Context {
    /// An activity, which begins when the call is awaited or [started](ActivityCall::start).
    ///
    /// The name is a text or an [`Activity`], which fixes the types.
    #[track_caller]
    pub fn activity<In: Arguments, Out: DeserializeOwned>(
        &self,
        activity: impl Into<Name<Activity<In, Out>>>,
        input: In,
    ) -> ActivityCall<Out> {
        ActivityCall {
            ctx: self.clone(),
            name: activity.into().into_string(),
            input: arguments(&input),
            options: Box::default(),
            site: Location::caller(),
            output: PhantomData,
        }
    }
}

/// An activity that has not begun yet.
#[must_use = "an activity begins when it is awaited or started"]
pub struct ActivityCall<Out> {
    ctx: Context,
    name: String,
    input: Result<Vec<Payload>, PayloadError>,
    options: Box<ActivityOptions>,
    site: &'static Location<'static>,
    output: PhantomData<fn() -> Out>,
}

impl<Out: DeserializeOwned> ActivityCall<Out> {
    /// How long one attempt may take.
    pub fn timeout(mut self, start_to_close: Duration) -> Self {
        self.options.start_to_close_timeout = Some(start_to_close);
        self
    }

    /// How long all attempts together may take.
    pub fn total_timeout(mut self, schedule_to_close: Duration) -> Self {
        self.options.schedule_to_close_timeout = Some(schedule_to_close);
        self
    }

    /// How long may pass between heartbeats.
    pub fn heartbeat_timeout(mut self, heartbeat: Duration) -> Self {
        self.options.heartbeat_timeout = Some(heartbeat);
        self
    }

    /// How it is tried again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry_policy = Some(policy);
        self
    }

    /// Where it is sent.
    pub fn task_queue(mut self, task_queue: impl Into<String>) -> Self {
        self.options.task_queue = task_queue.into();
        self
    }

    /// What it means to cancel it.
    pub fn cancellation(mut self, cancellation_type: CancellationType) -> Self {
        self.options.cancellation_type = cancellation_type;
        self
    }

    /// All options at once.
    pub fn options(mut self, options: ActivityOptions) -> Self {
        *self.options = options;
        self
    }

    /// Begins the activity now; its result can be awaited later.
    pub fn start(self) -> ActivityFuture<Out> {
        let ctx = self.ctx;
        let path = ctx.next_path();
        let entry = ActivityEntry::new(self.options.cancellation_type);
        let slot = entry.slot.clone();
        let mut seq = None;
        let mut error = None;
        match self.input {
            Err(wrong) => error = Some(wrong),
            Ok(input) => {
                let mut state = ctx.shared.lock();
                if let Some(reason) = ctx.scope.reason() {
                    slot.set(ActivityResolution::Cancelled { failure: Failure::cancelled(&*reason) });
                } else if ctx.may_issue(&mut state, "schedule an activity") {
                    seq = state.number::<kind::Activity>(&path);
                    if let Some(seq) = seq
                        && state.file(seq, &path, &ctx.scope, entry)
                    {
                        let lineage = Lineage { path, digest: InputDigest::of(&input) };
                        let (activity_type, options) = (self.name, self.options);
                        let command =
                            Command::ScheduleActivity { seq, lineage, activity_type, input, options };
                        state.push(command, Some(self.site));
                    }
                }
            }
        }
        let waits = WaitingFor::Response { kind: Kind::Activity, seq: seq.map_or(0, ActivitySeq::get) };
        let wait = slot.wait(&ctx.shared.sched, waits);
        ActivityFuture { wait, error, seq, shared: ctx.shared, output: PhantomData }
    }
}

impl<Out: DeserializeOwned> IntoFuture for ActivityCall<Out> {
    type Output = Result<Out, ActivityError>;
    type IntoFuture = ActivityFuture<Out>;

    fn into_future(self) -> ActivityFuture<Out> {
        self.start()
    }
}

/// An activity that has begun. Dropping it leaves it running.
#[must_use = "an activity's result has to be awaited"]
pub struct ActivityFuture<Out> {
    wait: Wait<ActivityResolution>,
    error: Option<PayloadError>,
    seq: Option<ActivitySeq>,
    shared: Arc<SharedRun>,
    output: PhantomData<fn() -> Out>,
}

impl<Out> ActivityFuture<Out> {
    /// Its number; none if it never began.
    #[must_use]
    pub const fn seq(&self) -> Option<ActivitySeq> {
        self.seq
    }

    /// Cancels the activity in the way that its options say. One that has ended stays as it is.
    #[track_caller]
    pub fn cancel(&self) {
        let site = Location::caller();
        if let Some(seq) = self.seq {
            let operation = Operation { kind: Kind::Activity, seq: seq.get() };
            self.shared.lock().cancel(operation, &Arc::from("cancelled by the workflow"), Some(site));
        }
    }
}

impl<Out: DeserializeOwned> Future for ActivityFuture<Out> {
    type Output = Result<Out, ActivityError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Err(error.into()));
        }
        self.wait.poll_take(cx).map(decode)
    }
}

/// What a workflow makes of an activity's end.
pub(super) fn decode<Out: DeserializeOwned>(resolution: ActivityResolution) -> Result<Out, ActivityError> {
    match resolution {
        ActivityResolution::Completed { result } => Ok(result.unwrap_or_else(Payload::null).decode()?),
        ActivityResolution::Failed { failure } => Err(ActivityError::Failed(failure)),
        ActivityResolution::Cancelled { failure } => Err(ActivityError::Cancelled(failure)),
        ActivityResolution::Backoff { attempt, .. } => {
            let message = format!("attempt {attempt} was put off, which only local activities can be");
            Err(ActivityError::Failed(Failure::non_retryable("Backoff", message)))
        }
    }
}
