//! Series: gap-free numbers by name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

fn one() -> u64 {
    1
}

fn plain_format() -> String {
    "{number}".to_owned()
}

/// Takes numbers of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NextRequest {
    /// How many consecutive numbers.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub count: u64,
    /// What they are for. The note is kept with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1_000)]
    pub note: Option<String>,
}

impl Default for NextRequest {
    /// One number.
    fn default() -> Self {
        Self { count: 1, note: None }
    }
}

/// Numbers that were taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Taken, example = json!({"series": "acme.invoices", "number": 17, "count": 1, "text": "INV-000017", "repeated": false}))]
pub struct TakenNumbers {
    /// The series.
    pub series: String,
    /// The first of them.
    pub number: u64,
    /// How many consecutive numbers.
    pub count: u64,
    /// The first of them, in the format of the series.
    pub text: String,
    /// Whether they were taken earlier, under the same idempotency key.
    pub repeated: bool,
}

/// Creates a series with settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"first": 1, "format": "INV-{number:06}"}))]
pub struct PutSeries {
    /// The first number.
    #[serde(default = "one")]
    pub first: u64,
    /// How its numbers are written.
    #[serde(default = "plain_format")]
    pub format: String,
}

impl Default for PutSeries {
    /// From 1, without a format.
    fn default() -> Self {
        Self { first: 1, format: plain_format() }
    }
}

/// Marks a number as void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoidRequest {
    /// Why.
    #[schema(min_length = 1, max_length = 1_000, example = "misprint")]
    pub reason: String,
}

/// A number that was marked as void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VoidAnswer {
    /// The series.
    pub series: String,
    /// The number.
    pub number: u64,
    /// Always true.
    pub void: bool,
    /// Why.
    pub reason: String,
}

/// Makes a series continue from a later number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"next": 5001, "reason": "imported from another system"}))]
pub struct RaiseRequest {
    /// The number that will be taken next.
    pub next: u64,
    /// Why.
    #[schema(min_length = 1, max_length = 1_000)]
    pub reason: String,
}

/// The state of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// Its name.
    #[schema(example = "acme.invoices")]
    pub series: String,
    /// The first number.
    pub first: u64,
    /// How its numbers are written.
    pub format: String,
    /// The number that will be taken next; none if no number is left.
    pub next: Option<u64>,
    /// How many numbers are left.
    pub remaining: u64,
    /// How many numbers are void.
    pub voids: u64,
    /// How many times it was raised.
    pub raises: u64,
}

/// A page of series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SeriesList {
    /// Ascending by name.
    pub series: Vec<Series>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<String>,
}

/// A number that was marked as void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Voided {
    /// The number.
    pub number: u64,
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
}

/// How a number was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issued {
    /// The series.
    pub series: String,
    /// The number.
    pub number: u64,
    /// The first of those that were taken together.
    pub first: u64,
    /// How many were taken together.
    pub count: u64,
    /// When.
    pub at: String,
    /// The event's place in the series' log.
    pub workspace_offset: u64,
    /// Its place in the partition log.
    pub partition_offset: u64,
    /// The idempotency key that it was taken with.
    pub idempotency_key: Option<String>,
    /// What it is for.
    pub note: Option<String>,
    /// When and why it was marked as void, if it was.
    pub void: Option<Voided>,
}
