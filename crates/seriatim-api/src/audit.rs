//! Audits: whether a sequence is complete.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Voided;

/// Numbers in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
}

/// A hole that an event explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Raise {
    /// The event.
    pub workspace_offset: u64,
    /// When.
    pub at: String,
    /// What would have come next.
    pub from: u64,
    /// What came next instead.
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
    /// The last.
    pub last: Option<u64>,
    /// How many were drawn.
    pub count: u64,
    /// Numbers that nobody got, and nothing explains.
    pub gaps: Vec<Run>,
    /// Numbers that were drawn twice.
    pub duplicates: Vec<Run>,
    /// Explained holes.
    pub raises: Vec<Raise>,
    /// Events that break the chain.
    pub broken: Vec<Broken>,
    /// Events that were looked at.
    pub events: u64,
    /// Whether nothing is wrong.
    pub complete: bool,
    /// The head of the workspace's chain.
    pub digest: String,
}

/// Whether a series is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeriesAudit {
    /// As of any sequence.
    #[serde(flatten)]
    pub audit: Audit,
    /// Numbers that were marked as void, the first thousand of them.
    pub voids: Vec<Voided>,
}

/// When a sequence runs out, if it goes on as lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// How many numbers are left.
    pub remaining: u64,
    /// How many were drawn lately.
    pub drawn: u64,
    /// Since when they are counted; none if there was no event.
    pub since: Option<String>,
    /// How many a day that makes.
    pub per_day: u64,
    /// When none will be left; none if none was drawn lately, or later than calendars go.
    pub runs_out: Option<String>,
}
