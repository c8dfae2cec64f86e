//! Failures, from Temporal's messages.

use seriatim_workflow::{Failure, FailureInfo, RetryState, TimeoutType};

use crate::message::Message;
use crate::read::{execution, retry_state};

pub(crate) fn retry_state_of(number: usize) -> RetryState {
    match number {
        1 => RetryState::InProgress,
        2 => RetryState::NonRetryableFailure,
        3 => RetryState::Timeout,
        4 => RetryState::MaximumAttemptsReached,
        5 => RetryState::RetryPolicyNotSet,
        6 => RetryState::InternalServerError,
        7 => RetryState::CancelRequested,
        _ => RetryState::Unspecified,
    }
}

pub(crate) fn read_failure<M: Message>(m: &M) -> Failure {
    Failure {
        message: m.text((1, "message")),
        info: Box::new(read_info(m)),
        cause: m.message((4, "cause")).map(|cause| Box::new(read_failure(&cause))),
        source: m.text((2, "source")),
        stack_trace: m.text((3, "stack_trace")),
        encoded_attributes: m.message((20, "encoded_attributes")).map(|payload| Box::new(payload.payload())),
    }
}

fn read_info<M: Message>(m: &M) -> FailureInfo {
    if let Some(info) = m.message((5, "application_failure_info")) {
        return FailureInfo::Application {
            error_type: info.text((1, "type")),
            non_retryable: info.flag((2, "non_retryable")),
            details: info.payloads((3, "details")),
            next_retry_delay: info.duration((4, "next_retry_delay")),
            category: i32::from(
                info.choice((5, "category"), "APPLICATION_ERROR_CATEGORY_", &["Unspecified", "Benign"]) == 1,
            ),
        };
    }
    if let Some(info) = m.message((6, "timeout_failure_info")) {
        let names = ["Unspecified", "StartToClose", "ScheduleToStart", "ScheduleToClose", "Heartbeat"];
        let timeout = match info.choice((1, "timeout_type"), "TIMEOUT_TYPE_", &names) {
            1 => TimeoutType::StartToClose,
            2 => TimeoutType::ScheduleToStart,
            3 => TimeoutType::ScheduleToClose,
            4 => TimeoutType::Heartbeat,
            _ => TimeoutType::Unspecified,
        };
        return FailureInfo::Timeout {
            timeout,
            last_heartbeat_details: info.payloads((2, "last_heartbeat_details")),
        };
    }
    if let Some(info) = m.message((7, "canceled_failure_info")) {
        return FailureInfo::Cancelled { details: info.payloads((1, "details")) };
    }
    if m.message((8, "terminated_failure_info")).is_some() {
        return FailureInfo::Terminated;
    }
    if let Some(info) = m.message((9, "server_failure_info")) {
        return FailureInfo::Server { non_retryable: info.flag((1, "non_retryable")) };
    }
    if let Some(info) = m.message((10, "reset_workflow_failure_info")) {
        return FailureInfo::ResetWorkflow {
            last_heartbeat_details: info.payloads((1, "last_heartbeat_details")),
        };
    }
    if let Some(info) = m.message((11, "activity_failure_info")) {
        return FailureInfo::Activity {
            activity_type: info.name((4, "activity_type")),
            activity_id: info.text((5, "activity_id")),
            identity: info.text((3, "identity")),
            retry_state: retry_state_of(retry_state(&info, 6)),
            scheduled_event_id: info.int((1, "scheduled_event_id")),
            started_event_id: info.int((2, "started_event_id")),
        };
    }
    let Some(info) = m.message((12, "child_workflow_execution_failure_info")) else {
        return FailureInfo::Unspecified;
    };
    let child = execution(&info, (2, "workflow_execution"), info.text((1, "namespace")));
    FailureInfo::ChildWorkflow {
        namespace: child.namespace,
        workflow_id: child.workflow_id,
        run_id: child.run_id,
        workflow_type: info.name((3, "workflow_type")),
        retry_state: retry_state_of(retry_state(&info, 6)),
        initiated_event_id: info.int((4, "initiated_event_id")),
        started_event_id: info.int((5, "started_event_id")),
    }
}
