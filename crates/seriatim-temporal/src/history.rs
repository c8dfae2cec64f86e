//! Histories, fetched from a cluster.

use std::error::Error as _;

use prost::Message as _;
use seriatim_types::ErrorKind;
use temporalio_client::tonic::{Code, IntoRequest as _, Status};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::history::v1::History;
use temporalio_common::protos::temporal::api::workflowservice::v1::GetWorkflowExecutionHistoryRequest;
use thiserror::Error;

use crate::Connection;

/// Why a history has not been fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// There is no such run, or no such namespace.
    #[error("{reason}: there is no workflow {workflow_id} in namespace {namespace}, or it is kept no longer")]
    NotFound {
        /// Where it was looked for.
        namespace: String,
        /// What was looked for.
        workflow_id: String,
        /// What the server said.
        reason: String,
    },
    /// The run's id, or the name of the namespace or of the workflow, is not valid.
    #[error("the server does not take the request: {0}")]
    Invalid(String),
    /// The caller may not read there.
    #[error(
        "namespace {namespace} may not be read: {reason}; bring an API key or a client certificate that may"
    )]
    Refused {
        /// Where.
        namespace: String,
        /// What the server said.
        reason: String,
    },
    /// The server did not answer as it should.
    #[error("the history could not be fetched: {0}; try again")]
    Unavailable(String),
}

impl FetchError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Refused { .. } => ErrorKind::Forbidden,
            Self::Unavailable(_) => ErrorKind::Unavailable,
        }
    }
}

/// Fetches the whole history of a run, as far as it has come: the latest run of that id where none is named.
///
/// The bytes are Temporal's binary form, which [`AnyHistory::read`](seriatim_temporal_history::AnyHistory::read) takes, and so
/// does `seriatim replay` from a file.
///
/// # Errors
///
/// [`FetchError`].
pub async fn fetch_history(
    connection: &Connection,
    namespace: &str,
    workflow_id: &str,
    run_id: Option<&str>,
) -> Result<Vec<u8>, FetchError> {
    let execution = WorkflowExecution {
        workflow_id: workflow_id.to_owned(),
        run_id: run_id.unwrap_or_default().to_owned(),
    };
    let mut service = connection.client().workflow_service();
    let mut history = History::default();
    // Names the run: all pages are of one, also if the id is taken by another meanwhile.
    let mut next_page_token = Vec::new();
    loop {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: namespace.to_owned(),
            execution: Some(execution.clone()),
            next_page_token,
            ..Default::default()
        };
        let answer = service.get_workflow_execution_history(request.into_request()).await;
        let answer = answer.map_err(|status| explain(&status, namespace, workflow_id))?.into_inner();
        history.events.extend(answer.history.unwrap_or_default().events);
        next_page_token = answer.next_page_token;
        if next_page_token.is_empty() {
            return Ok(history.encode_to_vec());
        }
    }
}

fn explain(status: &Status, namespace: &str, workflow_id: &str) -> FetchError {
    let cause = status.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let reason = format!("{}{cause}", status.message());
    match status.code() {
        Code::NotFound => FetchError::NotFound {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            reason,
        },
        Code::InvalidArgument => FetchError::Invalid(reason),
        Code::Unauthenticated | Code::PermissionDenied => {
            FetchError::Refused { namespace: namespace.to_owned(), reason }
        }
        _ => FetchError::Unavailable(reason),
    }
}
