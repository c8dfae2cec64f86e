//! Carrying out an activity: attempts, time-outs, heartbeats.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seriatim_activity::{Activities, ActivityContext, ActivityFuture, ActivityInfo};
use seriatim_env::{Env, Instant, Shutdown};
use seriatim_types::Timestamp;
use seriatim_workflow::{
    ActivityResolution, Failure, FailureInfo, Payload, RetryPolicy, RetryState, Time, TimeoutType,
};
use tokio::sync::Semaphore;

use crate::entry::Retry;
use crate::pending::ActivityTask;

/// A time as runs see it.
pub(crate) fn to_time(now: Timestamp) -> Time {
    Time::from_micros(now.as_millis().saturating_mul(1_000))
}

/// An activity on its way.
pub(crate) struct Execution<'a> {
    pub(crate) env: &'a Env,
    pub(crate) activities: &'a Activities,
    pub(crate) permits: &'a Semaphore,
    pub(crate) retry_policy: &'a RetryPolicy,
    pub(crate) task: Arc<ActivityTask>,
    pub(crate) seq: u32,
    pub(crate) workflow_id: String,
    pub(crate) run_id: String,
    /// The run asks it to stop.
    pub(crate) cancel: Shutdown,
}

/// The last sign of life of an attempt.
struct Beat {
    at: Instant,
    details: Vec<Payload>,
}

/// How one attempt ended.
enum Attempt {
    Completed(Payload),
    Cancelled(Failure),
    Failed(Failure),
}

impl Execution<'_> {
    /// Tries until it succeeds, or must not be tried again. `tell` hears of each attempt that will be followed by another.
    pub(crate) async fn run(self, tell: impl Fn(Retry)) -> ActivityResolution {
        let policy = self.task.options.retry_policy.as_ref().unwrap_or(self.retry_policy);
        let (mut attempt, mut at) = (self.task.attempt, self.task.at);
        let mut details = self.task.details.clone();
        loop {
            let wait = at.since(self.now());
            if !wait.is_zero() && self.waits_cancelled(wait).await {
                return self.cancelled(Failure::cancelled("cancelled between two attempts"));
            }
            let failure = match self.attempt(attempt, &mut details).await {
                Attempt::Completed(result) => return ActivityResolution::Completed { result: Some(result) },
                Attempt::Cancelled(failure) => return self.cancelled(failure),
                Attempt::Failed(failure) => failure,
            };
            let state = match self.next_attempt(policy, attempt, &failure) {
                Ok(delay) => {
                    (attempt, at) = (attempt + 1, self.now().after(delay));
                    let (activity, details) = (self.seq, details.clone());
                    tell(Retry { activity, attempt, at, failure, details });
                    continue;
                }
                Err(state) => state,
            };
            return ActivityResolution::Failed { failure: self.wrap("failed", state).caused_by(failure) };
        }
    }

    fn now(&self) -> Time {
        to_time(self.env.now())
    }

    /// Waits; says whether it was asked to stop meanwhile.
    async fn waits_cancelled(&self, wait: Duration) -> bool {
        self.env.timeout(wait, self.cancel.cancelled()).await.is_ok()
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
        let info = ActivityInfo {
            workflow_id: self.workflow_id.clone(),
            run_id: self.run_id.clone(),
            activity_id: self.activity_id(),
            activity_type: self.task.activity_type.clone(),
            attempt,
            scheduled: self.task.scheduled,
            headers: self.task.options.headers.clone(),
        };
        let beat = Beat { at: self.env.instant(), details: details.clone() };
        let beat = Arc::new(Mutex::new(beat));
        let (last, clock) = (beat.clone(), self.env.clone());
        let heartbeat = move |details| {
            let beat = Beat { at: clock.instant(), details };
            *last.lock().unwrap_or_else(PoisonError::into_inner) = beat;
        };
        let context =
            ActivityContext::new(info, self.env.clone(), self.cancel.clone(), details.clone(), heartbeat);
        let attempt = self.activities.attempt(context, self.task.input.clone());
        let ended = self.watch(attempt, &beat).await;
        *details = beat.lock().unwrap_or_else(PoisonError::into_inner).details.clone();
        match ended {
            Ok(result) => Attempt::Completed(result),
            Err(failure) if failure.is_cancelled() && self.cancel.is_cancelled() => {
                Attempt::Cancelled(failure)
            }
            Err(failure) => Attempt::Failed(failure),
        }
    }

    /// Waits for a free place.
    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Attempt> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        let options = &self.task.options;
        let until = |timeout: Duration| self.task.scheduled.after(timeout).since(self.now());
        let to_start = options.schedule_to_start_timeout.map(until);
        let to_close = options.schedule_to_close_timeout.map(until);
        let limit = to_start.into_iter().chain(to_close).min();
        let acquire = self.cancel.run_until_cancelled(self.permits.acquire());
        let acquired = match limit {
            None => Some(acquire.await),
            Some(limit) => self.env.timeout(limit, acquire).await.ok(),
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
    async fn watch(&self, mut attempt: ActivityFuture, beat: &Mutex<Beat>) -> Result<Payload, Failure> {
        let options = &self.task.options;
        let started = self.env.instant();
        let total = self.deadline().map(|deadline| deadline.since(self.now()));
        loop {
            let elapsed = self.env.instant() - started;
            let quiet = {
                let beat = beat.lock().unwrap_or_else(PoisonError::into_inner);
                self.env.instant().saturating_duration_since(beat.at.max(started))
            };
            let limits = [
                (
                    options.start_to_close_timeout.map(|limit| limit.saturating_sub(elapsed)),
                    TimeoutType::StartToClose,
                ),
                (total.map(|limit| limit.saturating_sub(elapsed)), TimeoutType::ScheduleToClose),
                (options.heartbeat_timeout.map(|limit| limit.saturating_sub(quiet)), TimeoutType::Heartbeat),
            ];
            let first = limits.into_iter().filter_map(|(limit, kind)| Some((limit?, kind)));
            let Some((limit, kind)) = first.min_by_key(|(limit, _)| *limit) else {
                return attempt.await;
            };
            if limit.is_zero() {
                let last_heartbeat_details =
                    beat.lock().unwrap_or_else(PoisonError::into_inner).details.clone();
                let info = FailureInfo::Timeout { timeout: kind, last_heartbeat_details };
                return Err(Failure::new(timeout_text(kind), info));
            }
            if let Ok(ended) = self.env.timeout(limit, &mut attempt).await {
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
