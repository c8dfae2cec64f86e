//! What is compared: records of commands, and of the events that a history has of them.

use seriatim_workflow::{Command, CommandKind, CommandRecord, Headers, InputDigest, Payload, Start};

use super::operations::Operations;
use crate::event::{EventKind, HistoryEvent, Marker};

/// What is compared of a command, as an event would have it.
pub(super) fn of_command(start: &Start, command: &Command) -> CommandRecord {
    let mut record = CommandRecord::of(command);
    match command {
        Command::ScheduleActivity { .. } if record.target.is_empty() => {
            record.target.clone_from(&start.task_queue);
        }
        Command::CancelTimer { .. } | Command::CancelActivity { .. } | Command::CancelChild { .. } => {
            record.name = record.seq.map(|(_, seq)| seq.to_string()).unwrap_or_default();
        }
        Command::ContinueAsNew { .. } if record.name.is_empty() => {
            record.name.clone_from(&start.workflow_type);
        }
        Command::SetPatch { .. } => record.target.clear(),
        _ => {}
    }
    record
}

/// What is compared of an event that the run asked for.
pub(super) fn of_event(operations: &Operations<'_>, event: &HistoryEvent) -> CommandRecord {
    match &event.kind {
        EventKind::ActivityScheduled { activity_type, task_queue, input, .. } => CommandRecord {
            target: task_queue.clone(),
            ..given(CommandKind::ScheduleActivity, activity_type, input)
        },
        EventKind::ActivityCancelRequested { scheduled } => {
            record(CommandKind::CancelActivity, &operations.number(*scheduled))
        }
        EventKind::TimerStarted { duration, .. } => {
            CommandRecord { duration: Some(*duration), ..record(CommandKind::StartTimer, "") }
        }
        EventKind::TimerCancelled { started } => {
            record(CommandKind::CancelTimer, &operations.number(*started))
        }
        EventKind::Marker(Marker::LocalActivity(marker)) => {
            record(CommandKind::ScheduleLocalActivity, &marker.activity_type)
        }
        EventKind::Marker(Marker::Patch { id, .. }) => record(CommandKind::SetPatch, id),
        EventKind::Marker(Marker::Other { name, .. }) => record(CommandKind::RecordSideEffect, name),
        EventKind::ExternalCancelInitiated { child_only: true, target, .. } => {
            record(CommandKind::CancelChild, &operations.child_number(&target.workflow_id))
        }
        EventKind::ExternalCancelInitiated { target, .. } => CommandRecord {
            target: format!("{}/{}", target.workflow_id, target.run_id),
            ..record(CommandKind::CancelExternal, "")
        },
        EventKind::ExternalSignalInitiated { target, name, input, child_only } => CommandRecord {
            target: match child_only {
                true => format!("child {}", target.workflow_id),
                false => format!("{}/{}", target.workflow_id, target.run_id),
            },
            ..given(CommandKind::SignalExternal, name, input)
        },
        EventKind::ChildInitiated { workflow_id, workflow_type, input } => CommandRecord {
            target: workflow_id.clone(),
            ..given(CommandKind::StartChild, workflow_type, input)
        },
        EventKind::SearchAttributesUpserted { attributes } => {
            named(CommandKind::UpsertSearchAttributes, attributes)
        }
        EventKind::MemoModified { memo } => named(CommandKind::ModifyMemo, memo),
        EventKind::UpdateAccepted(update) => record(CommandKind::UpdateAccepted, &update.protocol_id),
        EventKind::UpdateCompleted { accepted, outcome, update_id } => {
            let name = operations.protocol_id(*accepted, update_id);
            match outcome {
                Ok(result) => given(CommandKind::UpdateCompleted, &name, result),
                Err(failure) => CommandRecord {
                    target: failure.message.clone(),
                    ..record(CommandKind::UpdateCompleted, &name)
                },
            }
        }
        EventKind::Completed { result } => given(CommandKind::Complete, "", result),
        EventKind::Failed { failure } => record(CommandKind::Fail, &failure.message),
        EventKind::ContinuedAsNew { workflow_type, input } => {
            given(CommandKind::ContinueAsNew, workflow_type, input)
        }
        _ => record(CommandKind::Cancelled, ""),
    }
}

/// A record without arguments.
pub(super) fn record(command: CommandKind, name: &str) -> CommandRecord {
    CommandRecord {
        command,
        seq: None,
        path: None,
        name: name.to_owned(),
        digest: InputDigest::NONE,
        input: Vec::new(),
        duration: None,
        target: String::new(),
        value: None,
    }
}

/// A record with arguments or a result.
fn given(command: CommandKind, name: &str, input: &[Payload]) -> CommandRecord {
    CommandRecord { digest: InputDigest::of(input), input: input.to_vec(), ..record(command, name) }
}

/// A record with named values.
fn named(command: CommandKind, values: &Headers) -> CommandRecord {
    let target = values.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    CommandRecord { target, ..given(command, "", &values.values().cloned().collect::<Vec<_>>()) }
}
