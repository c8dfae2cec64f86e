//! Why a host did not do what it was asked for.

use seriatim_engine::SubmitError;
use seriatim_storage::Holder;
use seriatim_types::ErrorKind;
use seriatim_workflow::Failure;

/// Why a host did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HostError {
    /// The engine has refused it.
    #[error(transparent)]
    Engine(SubmitError),
    /// The workflow is in a partition that this engine does not own, and its owner could not be reached. Nothing was done.
    #[error("the workflow is in partition {partition}, which is not here{}: try again, or ask its holder", held_by(holder.as_ref()))]
    NotHere {
        /// The partition.
        partition: String,
        /// The name of the holder, if it is known.
        holder: Option<Holder>,
    },
    /// The engine that owns the workflow's partition has refused it.
    #[error("{text}")]
    Elsewhere {
        /// What the caller can do about it.
        kind: ErrorKind,
        /// What it says.
        text: String,
    },
    /// No workflow of this type is registered.
    #[error("no workflow type {workflow_type:?} is registered here; known: {known}")]
    UnknownType {
        /// What was asked for.
        workflow_type: String,
        /// What there is.
        known: String,
    },
    /// No workflow has this id.
    #[error("workflow {0} does not exist")]
    UnknownWorkflow(String),
    /// The workflow has no run with this number.
    #[error("workflow {id} has no run {run}: its newest is {newest}")]
    UnknownRun {
        /// The workflow.
        id: String,
        /// The number.
        run: u64,
        /// The number of its newest run.
        newest: u64,
    },
    /// A run of the workflow is open.
    #[error("workflow {id} is running: wait for run {run_id} to end, or use another id")]
    Running {
        /// The workflow.
        id: String,
        /// The run.
        run_id: String,
    },
    /// No run of the workflow is open.
    #[error("workflow {id} is not running: its last run has {status}")]
    NotRunning {
        /// The workflow.
        id: String,
        /// How its last run has ended.
        status: String,
    },
    /// The open run waits for its first activation.
    #[error(
        "the run of workflow {id} has not begun, and nothing can be asked of it before: it begins in {seconds} s"
    )]
    NotBegun {
        /// The workflow.
        id: String,
        /// When it begins: so many seconds from now.
        seconds: u64,
    },
    /// The newest run has ended before its first activation: there is no state to ask for.
    #[error("the last run of workflow {id} has {status} before it began: nothing can be asked of it")]
    NeverBegan {
        /// The workflow.
        id: String,
        /// How the run has ended.
        status: String,
    },
    /// The workflow may not be started again, by the policy of the start.
    #[error("workflow {0} has run before, and the start's policy forbids another run")]
    Used(String),
    /// The idempotency key was used for something else.
    #[error("idempotency key {0} was used for another request to this workflow: use a new one")]
    KeyReused(String),
    /// The request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// What was sent does not fit into an event.
    #[error(
        "{what} takes {bytes} bytes, and {limit} fit: keep large values elsewhere and send where they are"
    )]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How many it takes.
        bytes: usize,
        /// How many fit.
        limit: usize,
    },
    /// Too much is under way.
    #[error("server is busy: {0}")]
    Busy(String),
    /// The run's code cannot continue; nothing was written.
    #[error("workflow {id} is stuck: {reason}")]
    Stuck {
        /// The workflow.
        id: String,
        /// What its code did.
        reason: String,
    },
    /// The run's code has refused the update, or failed to carry it out.
    #[error("the update was refused: {0}")]
    Rejected(Box<Failure>),
    /// The run ended, and another continues, before the update's handler returned.
    #[error(
        "run {0} took the update and continued as new before its handler returned: look at the workflow, and send the update again if it is still wanted"
    )]
    UpdateLost(String),
    /// Another host drives the workflows of this engine.
    #[error("another host drives the workflows of this engine: use that one, or close it first")]
    SecondHost,
    /// The engine was opened without the application of workflows.
    #[error(
        "the engine was opened without the application of workflows: open it with `seriatim_workflow_host::app()`"
    )]
    NoApplication,
    /// The run's code has not answered the query.
    #[error("the query failed: {0}")]
    Query(Box<Failure>),
    /// The run has ended without a result.
    #[error("the workflow failed: {0}")]
    Failed(Box<Failure>),
    /// The host is closing.
    #[error("the host of workflows is closed")]
    Closed,
}

impl From<SubmitError> for HostError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::NotHere { partition, holder } => Self::NotHere { partition, holder },
            other => Self::Engine(other),
        }
    }
}

fn held_by(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(" and held by {holder}")).unwrap_or_default()
}

impl HostError {
    /// What the engine has said, if it is its error.
    pub(crate) fn into_engine(self) -> Result<SubmitError, Self> {
        match self {
            Self::Engine(error) => Ok(error),
            Self::NotHere { partition, holder } => Ok(SubmitError::NotHere { partition, holder }),
            other => Err(other),
        }
    }

    pub(crate) const fn is_not_here(&self) -> bool {
        matches!(self, Self::NotHere { .. })
    }

    /// The same, about the workflow by its id: a driver knows no id of a workflow without runs.
    pub(crate) fn of(self, id: &str) -> Self {
        match self {
            Self::UnknownWorkflow(_) => Self::UnknownWorkflow(id.to_owned()),
            other => other,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::UnknownType { .. }
            | Self::Invalid(_)
            | Self::Rejected(_)
            | Self::Query(_)
            | Self::Failed(_) => ErrorKind::Invalid,
            Self::UnknownWorkflow(_) | Self::UnknownRun { .. } | Self::NoApplication => ErrorKind::NotFound,
            Self::UpdateLost(_)
            | Self::NotBegun { .. }
            | Self::NeverBegan { .. }
            | Self::SecondHost
            | Self::Running { .. }
            | Self::NotRunning { .. }
            | Self::Used(_)
            | Self::KeyReused(_) => ErrorKind::Conflict,
            Self::Stuck { .. } | Self::NotHere { .. } => ErrorKind::Unavailable,
            Self::Elsewhere { kind, .. } => *kind,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Busy(_) => ErrorKind::Busy,
            Self::Closed => ErrorKind::Closed,
        }
    }
}
