//! Failures on the wire.

use seriatim_workflow::{Failure, FailureInfo, RetryState, TimeoutType};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::enums::v1::{
    ApplicationErrorCategory, RetryState as WireRetryState, TimeoutType as WireTimeoutType,
};
use temporalio_common::protos::temporal::api::failure::v1::failure::FailureInfo as WireInfo;
use temporalio_common::protos::temporal::api::failure::v1::{
    ActivityFailureInfo, ApplicationFailureInfo, CanceledFailureInfo, ChildWorkflowExecutionFailureInfo,
    Failure as WireFailure, ResetWorkflowFailureInfo, ServerFailureInfo, TerminatedFailureInfo,
    TimeoutFailureInfo,
};

use crate::payload::{read_list, read_payload, write_list, write_payload};
use crate::untranslatable::Untranslatable;
use crate::wire::{read_duration, read_enum, write_timeout};

/// The source of a failure that has none: shown by the tools of the cluster.
const SOURCE: &str = "Seriatim";

pub(crate) fn read_failure(failure: WireFailure) -> Result<Failure, Untranslatable> {
    let cause = failure.cause.map(|cause| read_failure(*cause).map(Box::new)).transpose()?;
    Ok(Failure {
        message: failure.message,
        info: Box::new(failure.failure_info.map_or(Ok(FailureInfo::Unspecified), read_info)?),
        cause,
        source: failure.source,
        stack_trace: failure.stack_trace,
        encoded_attributes: failure.encoded_attributes.map(read_payload).transpose()?.map(Box::new),
    })
}

fn read_info(info: WireInfo) -> Result<FailureInfo, Untranslatable> {
    Ok(match info {
        WireInfo::ApplicationFailureInfo(info) => FailureInfo::Application {
            error_type: info.r#type,
            non_retryable: info.non_retryable,
            details: read_list(info.details)?,
            next_retry_delay: info.next_retry_delay.map(read_duration).transpose()?,
            category: info.category,
        },
        WireInfo::TimeoutFailureInfo(info) => FailureInfo::Timeout {
            timeout: read_timeout_type(info.timeout_type)?,
            last_heartbeat_details: read_list(info.last_heartbeat_details)?,
        },
        WireInfo::CanceledFailureInfo(info) => FailureInfo::Cancelled { details: read_list(info.details)? },
        WireInfo::TerminatedFailureInfo(TerminatedFailureInfo { .. }) => FailureInfo::Terminated,
        WireInfo::ServerFailureInfo(info) => FailureInfo::Server { non_retryable: info.non_retryable },
        WireInfo::ResetWorkflowFailureInfo(info) => {
            FailureInfo::ResetWorkflow { last_heartbeat_details: read_list(info.last_heartbeat_details)? }
        }
        WireInfo::ActivityFailureInfo(info) => FailureInfo::Activity {
            activity_type: info.activity_type.unwrap_or_default().name,
            activity_id: info.activity_id,
            identity: info.identity,
            retry_state: read_retry_state(info.retry_state)?,
            scheduled_event_id: info.scheduled_event_id,
            started_event_id: info.started_event_id,
        },
        WireInfo::ChildWorkflowExecutionFailureInfo(info) => {
            let child = info.workflow_execution.unwrap_or_default();
            FailureInfo::ChildWorkflow {
                namespace: info.namespace,
                workflow_id: child.workflow_id,
                run_id: child.run_id,
                workflow_type: info.workflow_type.unwrap_or_default().name,
                retry_state: read_retry_state(info.retry_state)?,
                initiated_event_id: info.initiated_event_id,
                started_event_id: info.started_event_id,
            }
        }
        // No run of ours calls a Nexus operation; such a failure can only be the cause of another one, and there its
        // kind is identified by name.
        WireInfo::NexusOperationExecutionFailureInfo(info) => {
            named(format!("NexusOperation {}/{}/{}", info.endpoint, info.service, info.operation))
        }
        WireInfo::NexusHandlerFailureInfo(info) => named(format!("NexusHandler {}", info.r#type)),
    })
}

fn named(error_type: String) -> FailureInfo {
    FailureInfo::Application {
        error_type,
        non_retryable: false,
        details: Vec::new(),
        next_retry_delay: None,
        category: ApplicationErrorCategory::Unspecified.into(),
    }
}

pub(crate) fn write_failure(failure: Failure) -> Result<WireFailure, Untranslatable> {
    let cause = failure.cause.map(|cause| write_failure(*cause).map(Box::new)).transpose()?;
    Ok(WireFailure {
        message: failure.message,
        source: if failure.source.is_empty() { SOURCE.to_owned() } else { failure.source },
        stack_trace: failure.stack_trace,
        encoded_attributes: failure.encoded_attributes.map(|payload| write_payload(*payload)),
        cause,
        failure_info: write_info(*failure.info)?,
    })
}

fn write_info(info: FailureInfo) -> Result<Option<WireInfo>, Untranslatable> {
    Ok(Some(match info {
        FailureInfo::Unspecified => return Ok(None),
        FailureInfo::Application { error_type, non_retryable, details, next_retry_delay, category } => {
            let category: ApplicationErrorCategory = read_enum("category of a failure", category)?;
            WireInfo::ApplicationFailureInfo(ApplicationFailureInfo {
                r#type: error_type,
                non_retryable,
                details: write_list(details),
                next_retry_delay: write_timeout(next_retry_delay)?,
                category: category.into(),
            })
        }
        FailureInfo::Timeout { timeout, last_heartbeat_details } => {
            WireInfo::TimeoutFailureInfo(TimeoutFailureInfo {
                timeout_type: write_timeout_type(timeout).into(),
                last_heartbeat_details: write_list(last_heartbeat_details),
            })
        }
        FailureInfo::Cancelled { details } => WireInfo::CanceledFailureInfo(CanceledFailureInfo {
            details: write_list(details),
            identity: String::new(),
        }),
        FailureInfo::Terminated => WireInfo::TerminatedFailureInfo(TerminatedFailureInfo::default()),
        FailureInfo::Server { non_retryable } => {
            WireInfo::ServerFailureInfo(ServerFailureInfo { non_retryable })
        }
        FailureInfo::ResetWorkflow { last_heartbeat_details } => {
            let last_heartbeat_details = write_list(last_heartbeat_details);
            WireInfo::ResetWorkflowFailureInfo(ResetWorkflowFailureInfo { last_heartbeat_details })
        }
        FailureInfo::Activity {
            activity_type,
            activity_id,
            identity,
            retry_state,
            scheduled_event_id,
            started_event_id,
        } => WireInfo::ActivityFailureInfo(ActivityFailureInfo {
            scheduled_event_id,
            started_event_id,
            identity,
            activity_type: Some(activity_type.into()),
            activity_id,
            retry_state: write_retry_state(retry_state).into(),
        }),
        FailureInfo::ChildWorkflow {
            namespace,
            workflow_id,
            run_id,
            workflow_type,
            retry_state,
            initiated_event_id,
            started_event_id,
        } => WireInfo::ChildWorkflowExecutionFailureInfo(ChildWorkflowExecutionFailureInfo {
            namespace,
            workflow_execution: Some(WorkflowExecution { workflow_id, run_id }),
            workflow_type: Some(workflow_type.as_str().into()),
            initiated_event_id,
            started_event_id,
            retry_state: write_retry_state(retry_state).into(),
        }),
    }))
}

fn read_timeout_type(number: i32) -> Result<TimeoutType, Untranslatable> {
    Ok(match read_enum("type of a time-out", number)? {
        WireTimeoutType::Unspecified => TimeoutType::Unspecified,
        WireTimeoutType::StartToClose => TimeoutType::StartToClose,
        WireTimeoutType::ScheduleToStart => TimeoutType::ScheduleToStart,
        WireTimeoutType::ScheduleToClose => TimeoutType::ScheduleToClose,
        WireTimeoutType::Heartbeat => TimeoutType::Heartbeat,
    })
}

const fn write_timeout_type(timeout: TimeoutType) -> WireTimeoutType {
    match timeout {
        TimeoutType::Unspecified => WireTimeoutType::Unspecified,
        TimeoutType::StartToClose => WireTimeoutType::StartToClose,
        TimeoutType::ScheduleToStart => WireTimeoutType::ScheduleToStart,
        TimeoutType::ScheduleToClose => WireTimeoutType::ScheduleToClose,
        TimeoutType::Heartbeat => WireTimeoutType::Heartbeat,
    }
}

fn read_retry_state(number: i32) -> Result<RetryState, Untranslatable> {
    Ok(match read_enum("retry state of a failure", number)? {
        WireRetryState::Unspecified => RetryState::Unspecified,
        WireRetryState::InProgress => RetryState::InProgress,
        WireRetryState::NonRetryableFailure => RetryState::NonRetryableFailure,
        WireRetryState::Timeout => RetryState::Timeout,
        WireRetryState::MaximumAttemptsReached => RetryState::MaximumAttemptsReached,
        WireRetryState::RetryPolicyNotSet => RetryState::RetryPolicyNotSet,
        WireRetryState::InternalServerError => RetryState::InternalServerError,
        WireRetryState::CancelRequested => RetryState::CancelRequested,
    })
}

const fn write_retry_state(state: RetryState) -> WireRetryState {
    match state {
        RetryState::Unspecified => WireRetryState::Unspecified,
        RetryState::InProgress => WireRetryState::InProgress,
        RetryState::NonRetryableFailure => WireRetryState::NonRetryableFailure,
        RetryState::Timeout => WireRetryState::Timeout,
        RetryState::MaximumAttemptsReached => WireRetryState::MaximumAttemptsReached,
        RetryState::RetryPolicyNotSet => WireRetryState::RetryPolicyNotSet,
        RetryState::InternalServerError => WireRetryState::InternalServerError,
        RetryState::CancelRequested => WireRetryState::CancelRequested,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seriatim_workflow::Payload;
    use temporalio_common::protos::temporal::api::failure::v1::NexusHandlerFailureInfo;

    use super::*;

    fn details() -> Vec<Payload> {
        vec![Payload::json(&7).unwrap(), Payload::null()]
    }

    fn every_info() -> Vec<FailureInfo> {
        let states = [
            RetryState::Unspecified,
            RetryState::InProgress,
            RetryState::NonRetryableFailure,
            RetryState::Timeout,
            RetryState::MaximumAttemptsReached,
            RetryState::RetryPolicyNotSet,
            RetryState::InternalServerError,
            RetryState::CancelRequested,
        ];
        let timeouts = [
            TimeoutType::Unspecified,
            TimeoutType::StartToClose,
            TimeoutType::ScheduleToStart,
            TimeoutType::ScheduleToClose,
            TimeoutType::Heartbeat,
        ];
        let activities = states.map(|retry_state| FailureInfo::Activity {
            activity_type: "charge".to_owned(),
            activity_id: "3".to_owned(),
            identity: "me".to_owned(),
            retry_state,
            scheduled_event_id: 5,
            started_event_id: 6,
        });
        let timeouts =
            timeouts.map(|timeout| FailureInfo::Timeout { timeout, last_heartbeat_details: details() });
        let others = [
            FailureInfo::Unspecified,
            FailureInfo::Application {
                error_type: "Amount".to_owned(),
                non_retryable: true,
                details: details(),
                next_retry_delay: Some(Duration::from_millis(1_500)),
                category: 1,
            },
            FailureInfo::Cancelled { details: details() },
            FailureInfo::Terminated,
            FailureInfo::Server { non_retryable: true },
            FailureInfo::ResetWorkflow { last_heartbeat_details: details() },
            FailureInfo::ChildWorkflow {
                namespace: "default".to_owned(),
                workflow_id: "w".to_owned(),
                run_id: "r".to_owned(),
                workflow_type: "ship".to_owned(),
                retry_state: RetryState::Timeout,
                initiated_event_id: 8,
                started_event_id: 9,
            },
        ];
        others.into_iter().chain(activities).chain(timeouts).collect()
    }

    #[test]
    fn every_failure_comes_back_with_its_causes() {
        let mut chain: Option<Failure> = None;
        for info in every_info() {
            let mut failure = Failure::new("it failed", info);
            failure.source = "test".to_owned();
            failure.stack_trace = "at the till".to_owned();
            failure.encoded_attributes = Some(Box::new(Payload::json("hidden").unwrap()));
            failure.cause = chain.map(Box::new);
            assert_eq!(read_failure(write_failure(failure.clone()).unwrap()).unwrap(), failure);
            chain = Some(failure);
        }
    }

    #[test]
    fn our_own_failures_say_who_wrote_them() {
        let wire = write_failure(Failure::application("Amount", "an order has to cost something")).unwrap();
        assert_eq!(wire.source, "Seriatim");
    }

    #[test]
    fn what_is_not_ours_keeps_its_name() {
        let info = NexusHandlerFailureInfo { r#type: "NOT_FOUND".to_owned(), retry_behavior: 0 };
        let wire = WireFailure {
            failure_info: Some(WireInfo::NexusHandlerFailureInfo(info)),
            ..WireFailure::default()
        };
        let failure = read_failure(wire).unwrap();
        assert!(
            matches!(&*failure.info, FailureInfo::Application { error_type, .. } if error_type == "NexusHandler NOT_FOUND")
        );
    }

    #[test]
    fn a_number_from_the_future_is_named() {
        let info = TimeoutFailureInfo { timeout_type: 99, last_heartbeat_details: None };
        let wire =
            WireFailure { failure_info: Some(WireInfo::TimeoutFailureInfo(info)), ..WireFailure::default() };
        assert!(read_failure(wire).unwrap_err().to_string().contains("is 99"));
    }
}
