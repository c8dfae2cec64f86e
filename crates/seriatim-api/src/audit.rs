//! Audits: whether a sequence is complete.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Voided;

/// Consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

/// A gap that an event explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Raise {
    /// The event.
    pub workspace_offset: u64,
    /// When.
    pub at: String,
    /// The number that would have been next.
    pub from: u64,
    /// The number that was next instead.
    pub to: u64,
}

/// An event that breaks the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Broken {
    /// The event.
    pub workspace_offset: u64,
    /// What is wrong.
    pub problem: String,
}

/// Whether a sequence is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// The first number that was drawn.
    pub first: Option<u64>,
    /// The last number that was drawn.
    pub last: Option<u64>,
    /// How many were drawn.
    pub count: u64,
    /// Numbers that were not drawn, and no event explains why.
    pub gaps: Vec<Run>,
    /// Numbers that were drawn twice.
    pub duplicates: Vec<Run>,
    /// Gaps that an event explains.
    pub raises: Vec<Raise>,
    /// Events that break the chain.
    pub broken: Vec<Broken>,
    /// Events that were checked.
    pub events: u64,
    /// Whether there is no gap, no duplicate and no broken event.
    pub complete: bool,
    /// The head of the workspace's chain.
    pub digest: String,
}

/// Whether a series is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeriesAudit {
    /// The audit of its sequence.
    #[serde(flatten)]
    pub audit: Audit,
    /// Numbers that were marked as void: at most the first thousand.
    pub voids: Vec<Voided>,
}

/// When a sequence runs out of numbers, if it continues at its recent rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// How many numbers are left.
    pub remaining: u64,
    /// How many numbers were drawn recently.
    pub drawn: u64,
    /// The time from which `drawn` is counted; none if there was no event.
    pub since: Option<String>,
    /// The rate: numbers per day.
    pub per_day: u64,
    /// When no number will be left; none if no number was drawn recently, or if the time is beyond the calendar.
    pub runs_out: Option<String>,
}
