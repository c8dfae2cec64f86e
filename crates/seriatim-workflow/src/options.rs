//! How operations are carried out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Headers, Payload};

/// How often and when something is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Before the second attempt.
    pub initial_interval: Duration,
    /// Each later interval is the one before it times this.
    pub backoff_coefficient: f64,
    /// No interval is longer; none means a hundred times the first.
    #[serde(default)]
    pub maximum_interval: Option<Duration>,
    /// No more attempts than this; 0 is no limit.
    #[serde(default)]
    pub maximum_attempts: u32,
    /// Error types after which trying again is of no use.
    #[serde(default)]
    pub non_retryable_error_types: Vec<String>,
}

impl Default for RetryPolicy {
    /// One second, doubled each time, without a limit.
    fn default() -> Self {
        Self {
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 2.0,
            maximum_interval: None,
            maximum_attempts: 0,
            non_retryable_error_types: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// One attempt.
    #[must_use]
    pub fn never() -> Self {
        Self { maximum_attempts: 1, ..Self::default() }
    }

    /// The default with no more attempts than this.
    #[must_use]
    pub fn attempts(maximum_attempts: u32) -> Self {
        Self { maximum_attempts, ..Self::default() }
    }

    /// How long to wait before attempt `attempt` (the second is 2); none if there is to be no such attempt.
    ///
    /// ```
    /// use seriatim_workflow::RetryPolicy;
    /// use std::time::Duration;
    ///
    /// let policy = RetryPolicy::attempts(3);
    /// assert_eq!(policy.delay_before(2), Some(Duration::from_secs(1)));
    /// assert_eq!(policy.delay_before(3), Some(Duration::from_secs(2)));
    /// assert_eq!(policy.delay_before(4), None);
    /// ```
    #[must_use]
    pub fn delay_before(&self, attempt: u32) -> Option<Duration> {
        if self.maximum_attempts > 0 && attempt > self.maximum_attempts {
            return None;
        }
        let limit = self.maximum_interval.unwrap_or(self.initial_interval.saturating_mul(100)).as_secs_f64();
        let exponent = i32::try_from(attempt.saturating_sub(2)).unwrap_or(i32::MAX);
        let delay = self.initial_interval.as_secs_f64() * self.backoff_coefficient.powi(exponent);
        Some(Duration::try_from_secs_f64(delay.min(limit)).unwrap_or(Duration::ZERO))
    }
}

/// What it means to cancel an activity or a child workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancellationType {
    /// Ask it to stop, and continue at once as cancelled; its answer is not waited for.
    #[default]
    TryCancel,
    /// Ask it to stop, and wait for what it says to that.
    WaitCompleted,
    /// Ask it to stop, and wait until the request was delivered. For child workflows.
    WaitRequested,
    /// Do not ask it to stop; continue at once as cancelled.
    Abandon,
}

/// What happens to a child when its parent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentClosePolicy {
    /// It is terminated.
    #[default]
    Terminate,
    /// It continues.
    Abandon,
    /// It is asked to stop.
    RequestCancel,
}

/// Whether a workflow id may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdReusePolicy {
    /// Once the run before has ended.
    #[default]
    AllowDuplicate,
    /// Once the run before has ended without success.
    AllowDuplicateFailedOnly,
    /// Never.
    RejectDuplicate,
    /// At once: a run that is under way is terminated.
    TerminateIfRunning,
}

/// How an activity is carried out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ActivityOptions {
    /// Its id; empty is the number in decimal.
    pub activity_id: String,
    /// Where it is sent; empty is the run's own queue.
    pub task_queue: String,
    /// Context that travels with it.
    pub headers: Headers,
    /// From scheduling to the end of the last attempt.
    pub schedule_to_close_timeout: Option<Duration>,
    /// From scheduling to the start of an attempt.
    pub schedule_to_start_timeout: Option<Duration>,
    /// From the start of an attempt to its end.
    pub start_to_close_timeout: Option<Duration>,
    /// Between heartbeats.
    pub heartbeat_timeout: Option<Duration>,
    /// How it is tried again; none is the host's default.
    pub retry_policy: Option<RetryPolicy>,
    /// What it means to cancel it.
    pub cancellation_type: CancellationType,
    /// Do not offer it to the worker that has scheduled it.
    pub do_not_eagerly_execute: bool,
}

/// How a local activity is carried out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalActivityOptions {
    /// Its id; empty is the number in decimal.
    pub activity_id: String,
    /// Which attempt to begin with; 0 and 1 are the first.
    pub attempt: u32,
    /// When its first attempt was scheduled, if this is a later one.
    pub original_schedule_time: Option<crate::Time>,
    /// Context that travels with it.
    pub headers: Headers,
    /// From scheduling to the end of the last attempt.
    pub schedule_to_close_timeout: Option<Duration>,
    /// From scheduling to the start of an attempt.
    pub schedule_to_start_timeout: Option<Duration>,
    /// From the start of an attempt to its end.
    pub start_to_close_timeout: Option<Duration>,
    /// How it is tried again.
    pub retry_policy: Option<RetryPolicy>,
    /// Waits longer than this become a timer of the run.
    pub local_retry_threshold: Option<Duration>,
    /// What it means to cancel it.
    pub cancellation_type: CancellationType,
}

/// How a child workflow is carried out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildOptions {
    /// Its id; empty is one drawn from the run's randomness.
    pub workflow_id: String,
    /// Where it lives; empty is the run's own.
    pub namespace: String,
    /// Where it runs; empty is the run's own queue.
    pub task_queue: String,
    /// Context that travels with it.
    pub headers: Headers,
    /// Notes that travel with it.
    pub memo: Headers,
    /// What it can be found by.
    pub search_attributes: Headers,
    /// From the first run's start to the last one's end.
    pub execution_timeout: Option<Duration>,
    /// From a run's start to its end.
    pub run_timeout: Option<Duration>,
    /// How long it may think about one activation.
    pub task_timeout: Option<Duration>,
    /// What happens to it when its parent ends.
    pub parent_close_policy: ParentClosePolicy,
    /// What it means to cancel it.
    pub cancellation_type: CancellationType,
    /// Whether its id may be used again.
    pub id_reuse_policy: IdReusePolicy,
    /// How it is tried again as a whole.
    pub retry_policy: Option<RetryPolicy>,
    /// How often it runs by itself.
    pub cron_schedule: String,
}

/// How a run continues as a new one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ContinueAsNew {
    /// Name of the code; empty is the same.
    pub workflow_type: String,
    /// Where it runs; empty is the same queue.
    pub task_queue: String,
    /// Arguments.
    pub input: Vec<Payload>,
    /// Context that travels with it.
    pub headers: Headers,
    /// Notes that travel with it.
    pub memo: Headers,
    /// What it can be found by.
    pub search_attributes: Headers,
    /// From this run's start to its end.
    pub run_timeout: Option<Duration>,
    /// How long it may think about one activation.
    pub task_timeout: Option<Duration>,
    /// How it is tried again as a whole.
    pub retry_policy: Option<RetryPolicy>,
}
