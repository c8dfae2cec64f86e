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
    /// Only those whose newest run is like this: `running`, `completed`, `failed`, `cancelled`, `terminated`, `timed_out`
    /// or `continued_as_new`; or `stuck`: running, and its code could not continue when this server tried it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What the page lies behind: the `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many it has at most; 100 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// How a run stands, in short; of a workflow, how its newest does.
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
    /// How the run stands.
    #[schema(example = "running")]
    pub status: String,
    /// When it began; of a run with a start delay, when it begins.
    pub started: String,
    /// When it ended.
    pub ended: Option<String>,
}

/// A page of workflows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflows {
    /// In the order in which they were first started.
    pub workflows: Vec<WorkflowSummary>,
    /// What the next page lies behind; none if there is none.
    pub next: Option<u64>,
}

/// How a workflow's newest run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    /// In short.
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
    /// Why its code cannot continue; it is tried again when it is retried, or when a server starts.
    pub stuck: Option<String>,
    /// What it has asked for and not been answered.
    pub pending: Vec<PendingOperation>,
    /// What each branch of its code waits for.
    pub blocked: Vec<BlockedBranch>,
    /// What is wrong with it and does not stop it, the newest last: signals that were skipped.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// An operation that has had no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingOperation {
    /// What it is: `timer`, `activity`, `local_activity`, `child_workflow`, `external_signal` or `external_cancel`.
    pub kind: String,
    /// Its number.
    pub number: u32,
    /// Where in the run's code it comes from: branch and ordinal.
    #[schema(example = "/#1")]
    pub path: String,
    /// Name of the activity, of the child's type, of the signal.
    pub name: String,
    /// When it was asked for.
    pub since: String,
    /// When a timer fires, or an activity is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due: Option<String>,
    /// The attempt that runs or comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub last_failure: Option<Value>,
    /// The workflow that it goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A branch of a run's code that cannot go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockedBranch {
    /// The branch.
    #[schema(example = "/")]
    pub branch: String,
    /// What it waits for; any of these lets it go on.
    #[schema(value_type = Vec<Object>)]
    pub waits: Vec<Value>,
}

/// Waits for a workflow's end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WaitFor {
    /// So many seconds at most; not at all unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 0, maximum = 25)]
    pub wait: Option<u64>,
}

/// Which of a workflow's runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WhichRun {
    /// Its number, from 1; the newest unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    pub run: Option<u64>,
    /// Only events after this one: the `next` of the answer before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Events in the answer, at most; fewer where they are large.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

/// Which of a workflow's runs are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsPage {
    /// Only those with a smaller number: the `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// How many it has at most; 100 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
}

/// A page of a workflow's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowRuns {
    /// The newest first.
    pub runs: Vec<WorkflowSummary>,
    /// What the next page lies before; none if there is none.
    pub next: Option<u64>,
}

/// A run's history: a timeline for people, and the steps that `seriatim replay` reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowHistory {
    /// How the run stands.
    #[serde(flatten)]
    pub summary: WorkflowSummary,
    /// Each command with its answer, in the order in which they were asked for.
    pub entries: Vec<HistoryEntry>,
    /// Activations and the commands that answered them.
    #[schema(value_type = Vec<Object>)]
    pub steps: Value,
    /// There is more: ask again with this as `after`. Null on the last page.
    #[serde(default)]
    pub next: Option<u64>,
}

/// A command and its answer, or something that the run was told.
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
    /// Where in the run's code it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Name of the activity, workflow, signal or update.
    pub name: String,
    /// The event that asked for it, in the workflow's log.
    pub event: u64,
    /// When.
    pub at: String,
    /// The whole command or job.
    #[schema(value_type = Object)]
    pub details: Value,
    /// When the answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    /// The event that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_event: Option<u64>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<Value>,
}

/// What a workflow is told or asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"input": {"by": "Ada"}}))]
pub struct TellWorkflow {
    /// The argument of the signal, query or update.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
}

/// Why a workflow is to stop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopWorkflow {
    /// For people.
    #[serde(default)]
    #[schema(max_length = 1_000)]
    pub reason: String,
}

/// Something was told to a run; it is in its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToldWorkflow {
    /// The workflow.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// Whether it was told before, under the same idempotency key.
    pub repeated: bool,
}

/// What a run's code has answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowAnswer {
    /// The answer.
    pub result: Value,
}
