//! Why something failed, in a form that loses nothing of Temporal's.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Payload;

/// Why a workflow, an activity, a child or a message failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened, for people.
    pub message: String,
    /// What kind of failure it is, with what only that kind has.
    pub info: Box<FailureInfo>,
    /// The failure that led to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Failure>>,
    /// Which SDK or program has written it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Where it happened, as far as its writer knew.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stack_trace: String,
    /// Message and stack trace as a codec has hidden them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded_attributes: Option<Box<Payload>>,
}

/// What kind of failure it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FailureInfo {
    /// Nothing is known but the message.
    Unspecified,
    /// Raised by the code of a workflow or an activity.
    Application {
        /// The name that retry policies compare.
        error_type: String,
        /// Trying again is of no use.
        #[serde(default)]
        non_retryable: bool,
        /// Values for the code that handles it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        details: Vec<Payload>,
        /// When to try again, in place of what the retry policy says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_retry_delay: Option<Duration>,
        /// Temporal's category: 0 unspecified, 1 benign.
        #[serde(default)]
        category: i32,
    },
    /// It took too long.
    Timeout {
        /// Which of the time-outs has passed.
        timeout: TimeoutType,
        /// The last heartbeat's values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_heartbeat_details: Vec<Payload>,
    },
    /// It was cancelled.
    Cancelled {
        /// Values that it left.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        details: Vec<Payload>,
    },
    /// It was terminated from outside.
    Terminated,
    /// The server failed.
    Server {
        /// Trying again is of no use.
        #[serde(default)]
        non_retryable: bool,
    },
    /// The run was reset to an earlier point.
    ResetWorkflow {
        /// The last heartbeat's values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_heartbeat_details: Vec<Payload>,
    },
    /// An activity failed; why is the cause.
    Activity {
        /// Name of the activity.
        activity_type: String,
        /// Id of the activity.
        activity_id: String,
        /// Who ran it.
        #[serde(default)]
        identity: String,
        /// Why it was not tried again.
        #[serde(default)]
        retry_state: RetryState,
        /// The event that scheduled it; 0 where there is none.
        #[serde(default)]
        scheduled_event_id: i64,
        /// The event that started it; 0 where there is none.
        #[serde(default)]
        started_event_id: i64,
    },
    /// A child workflow failed; why is the cause.
    ChildWorkflow {
        /// Namespace of the child.
        #[serde(default)]
        namespace: String,
        /// Id of the child.
        workflow_id: String,
        /// Run of the child.
        run_id: String,
        /// Type of the child.
        workflow_type: String,
        /// Why it was not tried again.
        #[serde(default)]
        retry_state: RetryState,
        /// The event that asked for it; 0 where there is none.
        #[serde(default)]
        initiated_event_id: i64,
        /// The event that started it; 0 where there is none.
        #[serde(default)]
        started_event_id: i64,
    },
}

/// Which time-out has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutType {
    /// Not said.
    #[default]
    Unspecified,
    /// From the start of an attempt to its end.
    StartToClose,
    /// From scheduling to the start of an attempt.
    ScheduleToStart,
    /// From scheduling to the end of the last attempt.
    ScheduleToClose,
    /// Between heartbeats.
    Heartbeat,
}

/// Why something was not tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryState {
    /// Not said.
    #[default]
    Unspecified,
    /// It is being tried again.
    InProgress,
    /// Its failure is one that trying again does not help.
    NonRetryableFailure,
    /// Its time is over.
    Timeout,
    /// It has been tried as often as allowed.
    MaximumAttemptsReached,
    /// It has no retry policy.
    RetryPolicyNotSet,
    /// The server failed.
    InternalServerError,
    /// It was asked to stop.
    CancelRequested,
}

impl Failure {
    /// A failure of this kind with this message and nothing else.
    #[must_use]
    pub fn new(message: impl Into<String>, info: FailureInfo) -> Self {
        Self {
            message: message.into(),
            info: Box::new(info),
            cause: None,
            source: String::new(),
            stack_trace: String::new(),
            encoded_attributes: None,
        }
    }

    /// A failure of the code of a workflow or an activity, which a retry policy may retry.
    #[must_use]
    pub fn application(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self::raised(error_type.into(), message.into(), false)
    }

    /// A failure of the code of a workflow or an activity that is not retried.
    #[must_use]
    pub fn non_retryable(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        Self::raised(error_type.into(), message.into(), true)
    }

    fn raised(error_type: String, message: String, non_retryable: bool) -> Self {
        let info = FailureInfo::Application {
            error_type,
            non_retryable,
            details: Vec::new(),
            next_retry_delay: None,
            category: 0,
        };
        Self::new(message, info)
    }

    /// A failure that says that something was cancelled.
    #[must_use]
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(message, FailureInfo::Cancelled { details: Vec::new() })
    }

    /// A failure that says which time-out has passed.
    #[must_use]
    pub fn timeout(timeout: TimeoutType, message: impl Into<String>) -> Self {
        Self::new(message, FailureInfo::Timeout { timeout, last_heartbeat_details: Vec::new() })
    }

    /// The same failure, with what led to it.
    #[must_use]
    pub fn caused_by(mut self, cause: Self) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    /// Whether it, or what led to it, is a cancellation.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.info, FailureInfo::Cancelled { .. })
            || self.cause.as_deref().is_some_and(Self::is_cancelled)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for Failure {}
