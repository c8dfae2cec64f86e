//! What a client does, with JSON: enough to try workflows with. They panic when the server refuses, as a test does.

use serde_json::Value;
use temporalio_client::tonic::{Code, IntoRequest as _, Status};
use temporalio_common::protos::temporal::api::common::v1::{
    Payload, Payloads, WorkflowExecution, WorkflowType,
};
use temporalio_common::protos::temporal::api::enums::v1::{
    EventType, HistoryEventFilterType, UpdateWorkflowExecutionLifecycleStage,
};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::query::v1::WorkflowQuery;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::update::v1::{Input, Meta, Request, WaitPolicy, outcome};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    GetWorkflowExecutionHistoryRequest, QueryWorkflowRequest, RequestCancelWorkflowExecutionRequest,
    SignalWorkflowExecutionRequest, StartWorkflowExecutionRequest, UpdateWorkflowExecutionRequest,
};

use super::{DevServer, NAMESPACE};
use crate::fetch_history;

/// How a run has ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// With a result.
    Completed(Value),
    /// With a failure: its message, and those of its causes.
    Failed(Vec<String>),
    /// Otherwise: the name of the last event.
    Otherwise(String),
}

/// Bounds what a server may take to answer, so that a test ends.
const ANSWERS_MAX: usize = 30;

impl DevServer {
    /// Starts a run of a workflow with these arguments, and says its run id.
    ///
    /// # Panics
    ///
    /// If the server does not start it.
    pub async fn begin(&self, task_queue: &str, workflow_type: &str, id: &str, input: &[Value]) -> String {
        let request = StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: id.to_owned(),
            workflow_type: Some(WorkflowType { name: workflow_type.to_owned() }),
            task_queue: Some(TaskQueue { name: task_queue.to_owned(), ..Default::default() }),
            input: payloads(input),
            request_id: format!("start {id}"),
            ..Default::default()
        };
        let answer = self.service().start_workflow_execution(request.into_request()).await;
        answer.unwrap_or_else(|status| panic!("{id} was not started: {status}")).into_inner().run_id
    }

    /// Sends a signal to a run.
    ///
    /// # Panics
    ///
    /// If the server does not take it.
    pub async fn signal(&self, id: &str, name: &str, input: &[Value]) {
        let request = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(id),
            signal_name: name.to_owned(),
            input: payloads(input),
            ..Default::default()
        };
        let answer = self.service().signal_workflow_execution(request.into_request()).await;
        answer.unwrap_or_else(|status| panic!("{name} was not sent to {id}: {status}"));
    }

    /// Asks a run to stop.
    ///
    /// # Panics
    ///
    /// If the server does not take it.
    pub async fn cancel(&self, id: &str) {
        let request = RequestCancelWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(id),
            ..Default::default()
        };
        let answer = self.service().request_cancel_workflow_execution(request.into_request()).await;
        answer.unwrap_or_else(|status| panic!("{id} was not asked to stop: {status}"));
    }

    /// Asks a run a question.
    ///
    /// # Errors
    ///
    /// What the run said instead of an answer.
    pub async fn query(&self, id: &str, name: &str, input: &[Value]) -> Result<Value, String> {
        let request = QueryWorkflowRequest {
            namespace: NAMESPACE.to_owned(),
            execution: execution(id),
            query: Some(WorkflowQuery {
                query_type: name.to_owned(),
                query_args: payloads(input),
                ..Default::default()
            }),
            ..Default::default()
        };
        let answer = self.service().query_workflow(request.into_request()).await;
        let answer = answer.map_err(|status| status.message().to_owned())?.into_inner();
        Ok(value(answer.query_result))
    }

    /// Has a run change something, and waits until it has.
    ///
    /// # Errors
    ///
    /// Why the run did not.
    ///
    /// # Panics
    ///
    /// If the server does not take the request, or does not answer in the end.
    pub async fn update(&self, id: &str, name: &str, input: &[Value]) -> Result<Value, String> {
        let request = UpdateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution(id),
            wait_policy: Some(WaitPolicy {
                lifecycle_stage: UpdateWorkflowExecutionLifecycleStage::Completed.into(),
            }),
            request: Some(Request {
                // The same request again is the same update.
                meta: Some(Meta { update_id: format!("{id} {name} {input:?}"), ..Default::default() }),
                input: Some(Input { name: name.to_owned(), args: payloads(input), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        for _ in 0..ANSWERS_MAX {
            let answer = self.service().update_workflow_execution(request.clone().into_request()).await;
            let answer = answer.unwrap_or_else(|status| panic!("{name} of {id}: {status}")).into_inner();
            match answer.outcome.and_then(|outcome| outcome.value) {
                Some(outcome::Value::Success(payloads)) => return Ok(value(Some(payloads))),
                Some(outcome::Value::Failure(failure)) => return Err(failure.message),
                None => {}
            }
        }
        panic!("{name} of {id} has not come to an end");
    }

    /// Waits for the end of a run, and of those it continued as.
    ///
    /// # Panics
    ///
    /// If it does not end within minutes.
    pub async fn ended(&self, id: &str) -> Ended {
        let mut token = Vec::new();
        for _ in 0..ANSWERS_MAX {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace: NAMESPACE.to_owned(),
                execution: execution(id),
                next_page_token: std::mem::take(&mut token),
                wait_new_event: true,
                history_event_filter_type: HistoryEventFilterType::CloseEvent.into(),
                ..Default::default()
            };
            let answer = match self.service().get_workflow_execution_history(request.into_request()).await {
                Err(status) if is_late(&status) => continue,
                answer => {
                    answer.unwrap_or_else(|status| panic!("{id} cannot be read: {status}")).into_inner()
                }
            };
            match answer.history.unwrap_or_default().events.pop() {
                Some(event) if event.event_type() == EventType::WorkflowExecutionContinuedAsNew => {}
                Some(event) => return how(event),
                None => token = answer.next_page_token,
            }
        }
        panic!("{id} has not ended");
    }

    /// The whole history of an id's latest run, in Temporal's binary form.
    ///
    /// # Panics
    ///
    /// If it cannot be fetched.
    pub async fn history(&self, id: &str) -> Vec<u8> {
        let history = fetch_history(self.connection(), NAMESPACE, id, None).await;
        history.unwrap_or_else(|error| panic!("{error}"))
    }

    fn service(&self) -> Box<dyn temporalio_client::grpc::WorkflowService> {
        self.connection().client().workflow_service()
    }
}

/// Whether nothing has happened for as long as a server lets a caller wait.
fn is_late(status: &Status) -> bool {
    matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled)
}

fn how(event: HistoryEvent) -> Ended {
    let name = event.event_type().as_str_name().to_owned();
    match event.attributes {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(completed)) => {
            Ended::Completed(value(completed.result))
        }
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => {
            let causes = std::iter::successors(failed.failure.as_ref(), |failure| failure.cause.as_deref());
            Ended::Failed(causes.map(|failure| failure.message.clone()).collect())
        }
        _ => Ended::Otherwise(name),
    }
}

fn execution(id: &str) -> Option<WorkflowExecution> {
    Some(WorkflowExecution { workflow_id: id.to_owned(), run_id: String::new() })
}

fn payloads(values: &[Value]) -> Option<Payloads> {
    let payload = |value: &Value| Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: value.to_string().into_bytes(),
        ..Default::default()
    };
    (!values.is_empty()).then(|| Payloads { payloads: values.iter().map(payload).collect() })
}

/// The only value; nothing is null.
fn value(payloads: Option<Payloads>) -> Value {
    let payload = payloads.and_then(|payloads| payloads.payloads.into_iter().next());
    payload.and_then(|payload| serde_json::from_slice(&payload.data).ok()).unwrap_or(Value::Null)
}
