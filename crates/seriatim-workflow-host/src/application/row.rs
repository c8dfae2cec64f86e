//! What the index keeps of a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It has not ended.
    Running,
    /// It has ended with a result.
    Completed,
    /// It has ended with a failure.
    Failed,
    /// It has stopped after a request to cancel it.
    Cancelled,
    /// It was ended from outside, and its code was not asked.
    Terminated,
    /// It did not end before its timeout.
    TimedOut,
    /// It has ended, and the next run continues it.
    ContinuedAsNew,
}

impl RunStatus {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Terminated,
        Self::TimedOut,
        Self::ContinuedAsNew,
    ];

    /// As clients see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::TimedOut => "timed_out",
            Self::ContinuedAsNew => "continued_as_new",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Text that is not a [`RunStatus`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a status: running, completed, failed, cancelled, terminated, timed_out or continued_as_new"
)]
pub struct BadRunStatus(pub String);

impl FromStr for RunStatus {
    type Err = BadRunStatus;

    fn from_str(text: &str) -> Result<Self, BadRunStatus> {
        let found = Self::ALL.into_iter().find(|status| status.name() == text);
        found.ok_or_else(|| BadRunStatus(text.to_owned()))
    }
}

/// What is kept of a run besides its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Its number in its workflow.
    pub run: u64,
    /// The workflow's id.
    pub id: String,
    /// The name of its code.
    #[serde(rename = "type")]
    pub workflow_type: String,
    /// Its status.
    pub status: RunStatus,
    /// When it began: milliseconds since the Unix epoch.
    pub started: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// The event that began it, in the workflow's log; 0 in an event: this one.
    pub from: u64,
    /// The event that ended it; 0 in an event: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The run that continues it: it continued as new, or is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// When it ended, messages to other workflows were not delivered yet. Stored as `owes`.
    #[serde(default, rename = "owes", skip_serializing_if = "std::ops::Not::not")]
    pub has_undelivered: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_one_name() {
        for status in RunStatus::ALL {
            assert_eq!(status.name().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
        assert!("Running".parse::<RunStatus>().is_err());
    }
}
