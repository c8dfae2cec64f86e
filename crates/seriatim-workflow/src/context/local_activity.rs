//! Local activities: short work that is done in the worker itself.

use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::activity::decode;
use super::{BranchNode, Context, arguments};
use crate::kind::{self, LocalActivitySeq};
use crate::runtime::{ActivityEntry, Wait, WaitingFor};
use crate::{
    Activity, ActivityError, ActivityResolution, Arguments, Branch, CancellationType, Command, Failure,
    InputDigest, Kind, Lineage, LocalActivityOptions, Name, Path, Payload, PayloadError, RetryPolicy,
};

/// The local activity that a host of the [call-order](crate::Numbering::ByCallOrder) kind has to offer: it returns its
/// input. It is how the value of a side effect gets into such a host's history.
pub const SIDE_EFFECT_ACTIVITY: &str = "seriatim.side_effect";

impl Context {
    /// A local activity, which begins when the call is awaited.
    #[track_caller]
    pub fn local_activity<In: Arguments, Out: DeserializeOwned + Send + 'static>(
        &self,
        activity: impl Into<Name<Activity<In, Out>>>,
        input: In,
    ) -> LocalActivityCall<Out> {
        LocalActivityCall {
            ctx: self.clone(),
            name: activity.into().into_string(),
            input: arguments(&input),
            options: Box::default(),
            site: Location::caller(),
            output: PhantomData,
        }
    }

    pub(super) fn echo<T: DeserializeOwned + Send + 'static>(
        &self,
        path: Path,
        value: Payload,
        site: &'static Location<'static>,
    ) -> Pin<Box<dyn Future<Output = Result<T, PayloadError>> + Send>> {
        let name = SIDE_EFFECT_ACTIVITY.to_owned();
        let (input, options, output) = (Ok(vec![value]), Box::default(), PhantomData::<fn() -> T>);
        let call = LocalActivityCall { ctx: self.clone(), name, input, options, site, output };
        let future = call.start_at(path);
        Box::pin(async move {
            future.await.map_err(|error| match error {
                ActivityError::Payload(error) => error,
                other => {
                    PayloadError::Encode { reason: format!("the side effect was not recorded: {other}") }
                }
            })
        })
    }
}

/// A local activity that has not begun yet.
#[must_use = "a local activity begins when it is awaited"]
pub struct LocalActivityCall<Out> {
    ctx: Context,
    name: String,
    input: Result<Vec<Payload>, PayloadError>,
    options: Box<LocalActivityOptions>,
    site: &'static Location<'static>,
    output: PhantomData<fn() -> Out>,
}

impl<Out: DeserializeOwned + Send + 'static> LocalActivityCall<Out> {
    /// How long one attempt may take.
    pub fn timeout(mut self, start_to_close: Duration) -> Self {
        self.options.start_to_close_timeout = Some(start_to_close);
        self
    }

    /// How it is tried again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.options.retry_policy = Some(policy);
        self
    }

    /// What it means to cancel it.
    pub fn cancellation(mut self, cancellation_type: CancellationType) -> Self {
        self.options.cancellation_type = cancellation_type;
        self
    }

    /// All options at once.
    pub fn options(mut self, options: LocalActivityOptions) -> Self {
        *self.options = options;
        self
    }

    fn start_at(self, path: Path) -> LocalActivityFuture<Out> {
        let Self { ctx, name, input, options, site, .. } = self;
        let input = match input {
            Ok(input) => input,
            Err(error) => return Box::pin(std::future::ready(Err(error.into()))),
        };
        let first = attempt(&ctx, path.clone(), &name, &input, &options, site);
        Box::pin(run(ctx, path, name, input, options, site, first))
    }
}

type LocalActivityFuture<Out> = Pin<Box<dyn Future<Output = Result<Out, ActivityError>> + Send>>;

impl<Out: DeserializeOwned + Send + 'static> IntoFuture for LocalActivityCall<Out> {
    type Output = Result<Out, ActivityError>;
    type IntoFuture = LocalActivityFuture<Out>;

    fn into_future(self) -> Self::IntoFuture {
        let path = self.ctx.next_path();
        self.start_at(path)
    }
}

/// Schedules one attempt.
fn attempt(
    ctx: &Context,
    path: Path,
    name: &str,
    input: &[Payload],
    options: &LocalActivityOptions,
    site: &'static Location<'static>,
) -> Wait<ActivityResolution> {
    let entry = ActivityEntry::new(options.cancellation_type);
    let slot = entry.slot.clone();
    let mut seq = None;
    let mut state = ctx.shared.lock();
    if let Some(reason) = ctx.scope.reason() {
        slot.set(ActivityResolution::Cancelled { failure: Failure::cancelled(&*reason) });
    } else if ctx.may_issue(&mut state, "schedule a local activity") {
        seq = state.number::<kind::LocalActivity>(&path);
        if let Some(seq) = seq
            && state.file(seq, &path, &ctx.scope, entry)
        {
            // A side effect's value may differ on replay; what counts is the recorded one.
            let digest =
                if name == SIDE_EFFECT_ACTIVITY { InputDigest::NONE } else { InputDigest::of(input) };
            let command = Command::ScheduleLocalActivity {
                seq,
                lineage: Lineage { path, digest },
                activity_type: name.to_owned(),
                input: input.to_vec(),
                options: Box::new(options.clone()),
            };
            state.push(command, Some(site));
        }
    }
    drop(state);
    let waits = WaitingFor::Response { kind: Kind::LocalActivity, seq: seq.map_or(0, LocalActivitySeq::get) };
    slot.wait(&ctx.shared.sched, waits)
}

/// Waits for the end of the last attempt. Where the host puts an attempt off, a timer of the run waits for it, and the
/// next attempt has a number of its own; both belong to a branch below the activity's place, so that what comes after
/// it keeps its path.
async fn run<Out: DeserializeOwned>(
    ctx: Context,
    path: Path,
    name: String,
    input: Vec<Payload>,
    mut options: Box<LocalActivityOptions>,
    site: &'static Location<'static>,
    mut wait: Wait<ActivityResolution>,
) -> Result<Out, ActivityError> {
    let below = Context {
        shared: Arc::clone(&ctx.shared),
        node: BranchNode::new(Branch::retries(&path)),
        scope: Arc::clone(&ctx.scope),
    };
    loop {
        let resolution = wait.await;
        let ActivityResolution::Backoff { attempt: number, delay, original_schedule_time } = resolution
        else {
            return decode(resolution);
        };
        if let Err(cancelled) = below.timer(delay).await {
            return Err(ActivityError::Cancelled(cancelled.into()));
        }
        options.attempt = number;
        options.original_schedule_time = original_schedule_time;
        wait = attempt(&below, below.next_path(), &name, &input, &options, site);
    }
}
