//! Workflows: durable runs of code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Which workflows are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkflowsPage {
    /// Only workflows whose newest run has this status: `running`, `completed`, `failed`, `cancelled`, `terminated`, `timed_out`
    /// or `continued_as_new`; or `stuck`: running, but its code could not continue when this server tried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The page begins after this one: the `next` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The largest number of items on the page; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A summary of a run; of a workflow, the summary of its newest run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowSummary {
    /// The workflow.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// Its number among the workflow's runs, from 1 and without gaps.
    pub run: u64,
    /// The name of its code.
    #[serde(rename = "type")]
    pub workflow_type: String,
    /// The status of the run.
    #[schema(example = "running")]
    pub status: String,
    /// When it began; for a run with a start delay, when it will begin.
    pub started: String,
    /// When it ended.
    pub ended: Option<String>,
}

/// A page of workflows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflows {
    /// In the order in which they were first started.
    pub workflows: Vec<WorkflowSummary>,
    /// The `after` of the next page; none on the last page.
    pub next: Option<u64>,
}

/// The state of a workflow's newest run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    /// The summary.
    #[serde(flatten)]
    pub summary: WorkflowSummary,
    /// Its argument.
    pub input: Value,
    /// Notes that it was started with.
    #[serde(default)]
    pub memo: BTreeMap<String, Value>,
    /// What it returned.
    pub result: Value,
    /// Why it failed.
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Value>,
    /// Why its code cannot continue. The server tries again when the workflow is retried and when a server starts.
    pub stuck: Option<String>,
    /// Operations that have no answer yet.
    pub pending: Vec<PendingOperation>,
    /// What each branch of its code waits for.
    pub blocked: Vec<BlockedBranch>,
    /// Problems that do not stop the run, such as signals that were skipped; the newest last.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// An operation that has no answer yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingOperation {
    /// What it is: `timer`, `activity`, `local_activity`, `child_workflow`, `external_signal` or `external_cancel`.
    pub kind: String,
    /// Its number.
    pub number: u32,
    /// Its place in the run's code: branch and ordinal.
    #[schema(example = "/#1")]
    pub path: String,
    /// Name of the activity, of the child's type, of the signal.
    pub name: String,
    /// When it was requested.
    pub since: String,
    /// When the timer fires, or when the activity is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The number of the attempt that runs or is next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub last_failure: Option<Value>,
    /// The workflow that it is sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A branch of a run's code that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockedBranch {
    /// The branch.
    #[schema(example = "/")]
    pub branch: String,
    /// What it waits for. The branch continues when any of these happens.
    #[schema(value_type = Vec<Object>)]
    pub waits: Vec<Value>,
}

/// Waits for the end of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitFor {
    /// How many seconds to wait at most; 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 25)]
    pub wait: Option<u64>,
}

/// Selects a run of a workflow and a part of its history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichRun {
    /// The run's number, from 1; the newest run by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    pub run: Option<u64>,
    /// Only events after this one: the `next` of the previous answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The largest number of events in the answer. Large events make it fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Which of a workflow's runs are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsPage {
    /// Only runs with a smaller number: the `next` of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// The largest number of items on the page; 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A page of a workflow's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowRuns {
    /// The newest first.
    pub runs: Vec<WorkflowSummary>,
    /// The `before` of the next page; none on the last page.
    pub next: Option<u64>,
}

/// A run's history: a timeline to display, and the steps that `seriatim replay` reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowHistory {
    /// The summary of the run.
    #[serde(flatten)]
    pub summary: WorkflowSummary,
    /// Each command with its answer, in the order in which the commands were issued.
    pub entries: Vec<HistoryEntry>,
    /// Activations and the commands that answered them.
    #[schema(value_type = Vec<Object>)]
    pub steps: Value,
    /// The `after` of the next page; null on the last page.
    #[serde(default)]
    pub next: Option<u64>,
}

/// A command and its answer, or a job that the run received.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEntry {
    /// The name of the command or of the job.
    #[schema(example = "schedule_activity")]
    pub what: String,
    /// The kind of the operation, if it has a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its place in the run's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name of the activity, workflow, signal or update.
    pub name: String,
    /// The event that requested it, in the workflow's log.
    pub event: u64,
    /// When.
    pub at: String,
    /// The whole command or job.
    #[schema(value_type = Object)]
    pub details: Value,
    /// When the answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    /// The event that contains the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_event: Option<u64>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<Value>,
}

/// The input of a signal, a query or an update.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TellWorkflow, example = json!({"input": {"by": "Ada"}}))]
pub struct WorkflowInput {
    /// The argument of the signal, query or update.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
}

/// Stops a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopWorkflow {
    /// Why, as a sentence for the history.
    #[serde(default)]
    #[schema(max_length = 1_000)]
    pub reason: String,
}

/// A signal, a cancellation or another request that a run received. It is in the run's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ToldWorkflow)]
pub struct WorkflowDelivery {
    /// The workflow.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// Whether the run received it earlier, under the same idempotency key.
    pub repeated: bool,
}

/// The answer of a run's code to a query or an update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowAnswer {
    /// The answer.
    pub result: Value,
}
