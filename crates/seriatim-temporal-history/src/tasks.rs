//! Where a history's workflow tasks begin and end.

use seriatim_workflow::Time;

use crate::event::{EventKind, HistoryEvent};

/// A workflow task that was answered: what had happened before it, and what the run asked for.
pub(crate) struct Task<'a> {
    /// The event that started it.
    pub(crate) started: i64,
    pub(crate) time: Time,
    pub(crate) happened: Vec<&'a HistoryEvent>,
    pub(crate) commands: Vec<&'a HistoryEvent>,
}

/// The answered tasks of a history, in order. A task that failed or timed out is part of the next one.
pub(crate) fn tasks(events: &[HistoryEvent]) -> Vec<Task<'_>> {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    let mut happened = Vec::new();
    // Commands directly follow the completion of their task.
    let mut is_after_task = false;
    for (at, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::TaskStarted => {
                let next = events.get(at + 1).map(|next| &next.kind);
                if matches!(next, Some(EventKind::TaskCompleted { .. })) {
                    let happened = std::mem::take(&mut happened);
                    tasks.push(Task { started: event.id, time: event.time, happened, commands: Vec::new() });
                }
            }
            EventKind::TaskCompleted { .. } => is_after_task = true,
            kind if kind.is_command() && is_after_task => {
                if let Some(task) = tasks.last_mut() {
                    task.commands.push(event);
                }
            }
            _ => {
                is_after_task = false;
                happened.push(event);
            }
        }
    }
    tasks
}
