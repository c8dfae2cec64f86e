//! Starting a workflow.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::duration;

/// Starts a workflow.
///
/// ```
/// use std::time::Duration;
///
/// use seriatim_api::StartWorkflow;
///
/// let start = StartWorkflow {
///     id: Some("order-7".to_owned()),
///     run_timeout: Some(Duration::from_secs(3_600)),
///     ..StartWorkflow::new("order", &"tea")?
/// };
/// assert_eq!(
///     serde_json::to_value(&start)?,
///     serde_json::json!({"type": "order", "id": "order-7", "input": "tea", "run_timeout": "1h"}),
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"type": "greet", "input": "Ada"}))]
pub struct StartWorkflow {
    /// The name of its code.
    #[serde(rename = "type")]
    pub workflow_type: String,
    /// Its id; the server makes one if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub id: Option<String>,
    /// Its argument.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// How long it may take, from the start of its first run to the end of its last run: a number and a unit (`ms`, `s`,
    /// `m`, `h`, `d`).
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "7d")]
    pub execution_timeout: Option<Duration>,
    /// How long one run may take.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "1h")]
    pub run_timeout: Option<Duration>,
    /// How the workflow is retried as a whole if it fails; by default it is not retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Notes that are kept and shown with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memo: BTreeMap<String, Value>,
    /// How long after the request it begins. The workflow exists immediately, and its timeouts count from its beginning.
    #[serde(default, with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "10m")]
    pub start_delay: Option<Duration>,
    /// Whether its id may be used again; `allow_duplicate` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_reuse_policy: Option<IdReusePolicy>,
    /// A signal that is sent with the start. If a run with the id is open, nothing is started, and that run receives the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<StartSignal>,
}

impl StartWorkflow {
    /// A workflow of this type with an argument; `()` means no argument.
    ///
    /// # Errors
    ///
    /// If the argument cannot be written as JSON.
    pub fn new(
        workflow_type: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> Result<Self, serde_json::Error> {
        let input = serde_json::to_value(input)?;
        Ok(Self { workflow_type: workflow_type.into(), input, ..Self::default() })
    }
}

/// How a workflow is retried as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"initial_interval": "1s", "maximum_attempts": 5}))]
pub struct RetryPolicy {
    /// The wait before the second attempt; `1s` by default, and not 0.
    #[serde(with = "duration::required")]
    #[schema(value_type = String, default = "1s", example = "1s")]
    pub initial_interval: Duration,
    /// Each later interval is the previous one times this; 2 by default, and at least 1.
    #[schema(minimum = 1)]
    pub backoff_coefficient: f64,
    /// The longest interval; a hundred times the first by default.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "1h")]
    pub maximum_interval: Option<Duration>,
    /// The largest number of attempts; 0 means no limit.
    #[schema(value_type = u64, maximum = 4_294_967_295_u64)]
    pub maximum_attempts: u32,
    /// Error types that are not retried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_retryable_error_types: Vec<String>,
}

impl Default for RetryPolicy {
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

/// Whether the id of a workflow may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdReusePolicy {
    /// After the previous run has ended.
    AllowDuplicate,
    /// After the previous run has ended without success.
    AllowDuplicateFailedOnly,
    /// Never.
    RejectDuplicate,
    /// Immediately: an open run is terminated.
    TerminateIfRunning,
}

/// A signal that is sent with a start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartSignal {
    /// Its name.
    pub name: String,
    /// Its argument.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
}

fn default_started() -> bool {
    true
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedWorkflow {
    /// The workflow.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// Whether this request started the run. If not, the run was open and received the request's signal.
    #[serde(default = "default_started")]
    pub started: bool,
    /// Whether it was started earlier, under the same idempotency key.
    #[serde(default)]
    pub repeated: bool,
}
