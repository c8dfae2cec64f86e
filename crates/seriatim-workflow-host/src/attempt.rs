//! Carrying out an activity: attempts, time-outs, heartbeats.

use std::sync::Arc;
use std::time::Duration;

use seriatim_activity::{ActivityContext, ActivityFuture, ActivityInfo};
use seriatim_env::{Env, Shutdown};
use seriatim_types::{ErrorKind, Timestamp, WorkspaceId};
use seriatim_workflow::{
    ActivityResolution, CommandSeq, Failure, FailureInfo, Job, Payload, RetryPolicy, RetryState, Time,
    TimeoutType,
};

use crate::entry::{Attempted, Retry};
use crate::error::HostError;
use crate::heartbeat::{LastBeat, RunningAttempt};
use crate::homes::Home;
use crate::inner::Inner;
use crate::inputs::KeptInput;
use crate::workflow::effect::BeginActivity;
use crate::workflow::pending::ActivityTask;
use crate::workflow::{Item, run_id};

/// So many failed attempts are written each; then one in a while, unless their number is limited: an activity that fails
/// for days costs no event for each attempt.
const ATTEMPTS_KEPT: u32 = 10;
const KEPT_EVERY: Duration = Duration::from_secs(3_600);

/// A time as runs see it.
pub(crate) fn to_time(now: Timestamp) -> Time {
    Time::from_micros(now.as_millis().saturating_mul(1_000))
}

/// An activity that is carried out.
pub(crate) struct Execution {
    inner: Arc<Inner>,
    /// The partition of its run. When that leaves, attempts are cut off, and what they return is dropped.
    home: Arc<Home>,
    workspace: WorkspaceId,
    run: u64,
    task: Arc<ActivityTask>,
    /// A large input, if it is kept.
    input: Option<KeptInput>,
    seq: u32,
    workflow_id: String,
    run_id: String,
    generation: u64,
    /// The run asks it to stop.
    cancel: Shutdown,
}

/// How one attempt ended.
enum Attempt {
    Completed(Payload),
    Cancelled(Failure),
    Failed(Failure),
}

impl Execution {
    pub(crate) fn new(
        inner: Arc<Inner>,
        home: Arc<Home>,
        workspace: WorkspaceId,
        begin: BeginActivity,
    ) -> Self {
        let BeginActivity { run, id: workflow_id, seq, task, large_input, generation, cancel } = begin;
        let input = large_input.and_then(|input| inner.inputs.keep(input));
        let run_id = run_id(workspace, run);
        Self { inner, home, workspace, run, task, input, seq, workflow_id, run_id, generation, cancel }
    }

    /// Carries it out in the background.
    pub(crate) fn spawn(self) {
        let (env, running) = (self.inner.env.clone(), self.inner.operations.begin(()));
        drop(env.spawn(async move {
            self.answer().await;
            drop(running);
        }));
    }

    /// Carries it out, and puts its answer into the inbox of its workflow.
    async fn answer(self) {
        let (inner, home, cancel) = (self.inner.clone(), self.home.clone(), self.cancel.clone());
        let (workspace, run, generation) = (self.workspace, self.run, self.generation);
        let (seq, is_local) = (self.seq, self.task.is_local);
        let Some(resolution) = home.stop.run_until_cancelled(self.run()).await else {
            // For what the activity has begun itself and is not dropped with the attempt.
            return cancel.cancel();
        };
        inner.metrics.activities.increment(1);
        let job = if is_local {
            Job::ResolveLocalActivity { seq: CommandSeq::new(seq), resolution }
        } else {
            Job::ResolveActivity { seq: CommandSeq::new(seq), resolution }
        };
        inner.push_at(&home, workspace, Item::Answer { run, job, generation });
    }

    /// Tries until it succeeds, or must not be tried again. Each attempt that will be followed by another is written.
    async fn run(self) -> ActivityResolution {
        let policy = self.policy();
        let (mut attempt, mut at) = (self.task.attempt, self.task.at);
        let mut details = self.task.details.clone();
        let mut kept_at = self.now();
        if attempt == 1 && policy.maximum_attempts != 1 && policy.initial_interval.is_zero() {
            let message = "the retry policy's first interval is 0: it would be tried again without a pause";
            let failure = Failure::non_retryable("RetryPolicy", message);
            let state = RetryState::NonRetryableFailure;
            return ActivityResolution::Failed { failure: self.wrap("failed", state).caused_by(failure) };
        }
        loop {
            let wait = at.since(self.now());
            if !wait.is_zero() && self.waits_cancelled(wait).await {
                return self.cancelled(Failure::cancelled("cancelled between two attempts"));
            }
            let ended = if self.task.begun == attempt {
                // It may have had its effect: it counts.
                Attempt::Failed(Failure::application("CutOff", "the host stopped while the attempt ran"))
            } else {
                self.attempt(attempt, &mut details).await
            };
            let failure = match ended {
                Attempt::Completed(result) => return ActivityResolution::Completed { result: Some(result) },
                Attempt::Cancelled(failure) => return self.cancelled(failure),
                Attempt::Failed(failure) => failure,
            };
            let state = match self.next_attempt(policy, attempt, &failure) {
                Ok(delay) => {
                    (attempt, at) = (attempt + 1, self.now().after(delay));
                    let (activity, details) = (self.seq, details.clone());
                    let retry = Box::new(Retry { activity, attempt, at, failure, details });
                    let is_kept = attempt <= ATTEMPTS_KEPT
                        || policy.maximum_attempts > 0
                        || self.now().since(kept_at) >= KEPT_EVERY;
                    if is_kept {
                        kept_at = self.now();
                    }
                    if !self.task.is_local {
                        let item = Item::Retry { run: self.run, retry, is_kept };
                        self.inner.push_at(&self.home, self.workspace, item);
                    }
                    continue;
                }
                Err(state) => state,
            };
            return ActivityResolution::Failed { failure: self.wrap("failed", state).caused_by(failure) };
        }
    }

    fn env(&self) -> &Env {
        &self.inner.env
    }

    fn now(&self) -> Time {
        to_time(self.env().now())
    }

    fn policy(&self) -> &RetryPolicy {
        self.task.options.retry_policy.as_ref().unwrap_or(&self.inner.options.retry_policy)
    }

    /// Notes that an attempt begins, where their number is limited: one that is cut off then counts. Says why it must
    /// not begin.
    async fn note_begin(&self, attempt: u32) -> Result<(), Attempt> {
        if self.task.is_local || self.policy().maximum_attempts == 0 {
            return Ok(());
        }
        loop {
            let attempted = Attempted { activity: self.seq, attempt, details: None };
            let noted = self.inner.ask_at(&self.home, self.workspace, |reply| Item::Attempted {
                run: self.run,
                attempted,
                reply: Some(reply),
            });
            match noted.await {
                Ok(_) => return Ok(()),
                // The run has ended: the attempt is no longer needed.
                Err(HostError::NotRunning { .. } | HostError::UnknownWorkflow(_)) => {
                    return Err(Attempt::Cancelled(Failure::cancelled("the run has ended")));
                }
                Err(_) => self.env().sleep(self.env().jitter(self.inner.options.retry)).await,
            }
        }
    }

    /// Waits; says whether it was asked to stop meanwhile.
    async fn waits_cancelled(&self, wait: Duration) -> bool {
        self.env().timeout(wait, self.cancel.cancelled()).await.is_ok()
    }

    fn cancelled(&self, failure: Failure) -> ActivityResolution {
        let failure = if failure.is_cancelled() {
            failure
        } else {
            self.wrap("was cancelled", RetryState::CancelRequested).caused_by(failure)
        };
        ActivityResolution::Cancelled { failure }
    }

    fn wrap(&self, what: &str, retry_state: RetryState) -> Failure {
        let activity_type = self.task.activity_type.clone();
        let message = format!("activity {activity_type} {what}");
        let info = FailureInfo::Activity {
            activity_type,
            activity_id: self.activity_id(),
            identity: String::new(),
            retry_state,
            scheduled_event_id: 0,
            started_event_id: 0,
        };
        Failure::new(message, info)
    }

    fn activity_id(&self) -> String {
        match &*self.task.options.activity_id {
            "" => self.seq.to_string(),
            id => id.to_owned(),
        }
    }

    /// When all attempts have to be over.
    fn deadline(&self) -> Option<Time> {
        self.task.options.schedule_to_close_timeout.map(|timeout| self.task.scheduled.after(timeout))
    }

    /// How long until the next attempt; why there is none.
    fn next_attempt(
        &self,
        policy: &RetryPolicy,
        attempt: u32,
        failure: &Failure,
    ) -> Result<Duration, RetryState> {
        let mut delay = policy.delay_before(attempt.saturating_add(1));
        match &*failure.info {
            FailureInfo::Application { non_retryable: true, .. }
            | FailureInfo::Server { non_retryable: true }
            | FailureInfo::Timeout {
                timeout: TimeoutType::ScheduleToClose | TimeoutType::ScheduleToStart,
                ..
            } => {
                return Err(RetryState::NonRetryableFailure);
            }
            FailureInfo::Application { error_type, next_retry_delay, .. } => {
                if policy.non_retryable_error_types.contains(error_type) {
                    return Err(RetryState::NonRetryableFailure);
                }
                delay = delay.map(|delay| next_retry_delay.unwrap_or(delay));
            }
            _ => {}
        }
        let delay = delay.ok_or(RetryState::MaximumAttemptsReached)?;
        match self.deadline() {
            Some(deadline) if self.now().after(delay) >= deadline => Err(RetryState::Timeout),
            _ => Ok(delay),
        }
    }

    /// One attempt, when its turn has come.
    async fn attempt(&self, attempt: u32, details: &mut Vec<Payload>) -> Attempt {
        let _permit = match self.permit().await {
            Ok(permit) => permit,
            Err(ended) => return ended,
        };
        if self.inner.draining.is_cancelled() {
            // The host stops: the next process makes the attempt.
            return std::future::pending().await;
        }
        let input = match self.input().await {
            Ok(input) => input,
            Err(ended) => return ended,
        };
        if let Err(ended) = self.note_begin(attempt).await {
            return ended;
        }
        let info = ActivityInfo {
            workflow_id: self.workflow_id.clone(),
            run_id: self.run_id.clone(),
            activity_id: self.activity_id(),
            activity_type: self.task.activity_type.clone(),
            attempt,
            scheduled: self.task.scheduled,
            headers: self.task.options.headers.clone(),
        };
        let running = Arc::new(RunningAttempt {
            home: self.home.clone(),
            workspace: self.workspace,
            run: self.run,
            activity: self.seq,
            attempt,
            is_local: self.task.is_local,
            beat: LastBeat::new(self.env().instant(), details),
        });
        let _running = self.inner.attempts.begin(running.clone());
        let (last, clock) = (running.clone(), self.env().clone());
        let heartbeat = move |details| last.beat.beat(clock.instant(), details);
        let context =
            ActivityContext::new(info, self.env().clone(), self.cancel.clone(), details.clone(), heartbeat);
        let future = self.inner.activities.attempt(context, input);
        let ended = self.watch(future, &running).await;
        *details = running.beat.details();
        match ended {
            Ok(result) => Attempt::Completed(result),
            Err(failure) if failure.is_cancelled() && self.cancel.is_cancelled() => {
                Attempt::Cancelled(failure)
            }
            Err(failure) => Attempt::Failed(failure),
        }
    }

    /// The input, from memory or from the log.
    async fn input(&self) -> Result<Vec<Payload>, Attempt> {
        let kept = self.input.as_ref().map(|kept| &kept.input);
        if let Some(input) = self.task.input.as_ref().or(kept) {
            return Ok(input.clone());
        }
        loop {
            match self.inner.inputs.read(self.workspace, self.run, self.task.event, self.seq).await {
                Ok(input) => return Ok(input),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    let failure =
                        Failure::non_retryable("Input", format!("its input cannot be read: {error}"));
                    return Err(Attempt::Failed(failure));
                }
                Err(_) => self.env().sleep(self.env().jitter(self.inner.options.retry)).await,
            }
        }
    }

    /// Waits for a free place.
    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Attempt> {
        let permits = &self.inner.activity_permits;
        if let Ok(permit) = permits.try_acquire() {
            return Ok(permit);
        }
        let options = &self.task.options;
        let until = |timeout: Duration| self.task.scheduled.after(timeout).since(self.now());
        let to_start = options.schedule_to_start_timeout.map(until);
        let to_close = options.schedule_to_close_timeout.map(until);
        let limit = to_start.into_iter().chain(to_close).min();
        let acquire = self.cancel.run_until_cancelled(permits.acquire());
        let acquired = match limit {
            None => Some(acquire.await),
            Some(limit) => self.env().timeout(limit, acquire).await.ok(),
        };
        match acquired {
            Some(Some(Ok(permit))) => Ok(permit),
            Some(Some(Err(_)) | None) => {
                Err(Attempt::Cancelled(Failure::cancelled("cancelled before it had begun")))
            }
            None => {
                let is_start = to_start.is_some() && to_start <= to_close.or(to_start);
                let timeout =
                    if is_start { TimeoutType::ScheduleToStart } else { TimeoutType::ScheduleToClose };
                Err(Attempt::Failed(Failure::timeout(timeout, "too many activities were running")))
            }
        }
    }

    /// Waits for an attempt's end, but no longer than its time-outs allow.
    async fn watch(&self, mut attempt: ActivityFuture, running: &RunningAttempt) -> Result<Payload, Failure> {
        let options = &self.task.options;
        let started = self.env().instant();
        let (mut kept_at, interval) = (started, self.inner.options.heartbeat_interval);
        let total = self.deadline().map(|deadline| deadline.since(self.now()));
        loop {
            let elapsed = self.env().instant() - started;
            if self.env().instant() - kept_at >= interval {
                running.keep(&self.inner);
                kept_at = self.env().instant();
            }
            let quiet = self.env().instant().saturating_duration_since(running.beat.at().max(started));
            let limits = [
                (
                    options.start_to_close_timeout.map(|limit| limit.saturating_sub(elapsed)),
                    TimeoutType::StartToClose,
                ),
                (total.map(|limit| limit.saturating_sub(elapsed)), TimeoutType::ScheduleToClose),
                (options.heartbeat_timeout.map(|limit| limit.saturating_sub(quiet)), TimeoutType::Heartbeat),
            ];
            let first = limits.into_iter().filter_map(|(limit, kind)| Some((limit?, kind)));
            let (limit, kind) =
                first.min_by_key(|(limit, _)| *limit).unwrap_or((Duration::MAX, TimeoutType::Unspecified));
            if limit.is_zero() {
                let last_heartbeat_details = running.beat.details();
                let info = FailureInfo::Timeout { timeout: kind, last_heartbeat_details };
                return Err(Failure::new(timeout_text(kind), info));
            }
            let limit = limit.min((kept_at + interval).saturating_duration_since(self.env().instant()));
            if let Ok(ended) = self.env().timeout(limit, &mut attempt).await {
                return ended;
            }
        }
    }
}

fn timeout_text(kind: TimeoutType) -> &'static str {
    match kind {
        TimeoutType::StartToClose => "the attempt took longer than its time-out allows",
        TimeoutType::ScheduleToClose => "all attempts together took longer than the time-out allows",
        TimeoutType::Heartbeat => "no heartbeat came in time",
        TimeoutType::ScheduleToStart | TimeoutType::Unspecified => "it took too long",
    }
}
