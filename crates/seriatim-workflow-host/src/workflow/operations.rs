//! What is carried out for a run, once it is durable: pure, as effects.

use std::sync::Arc;

use seriatim_env::Shutdown;
use seriatim_workflow::{Command, Kind};

use super::effect::{BeginActivity, Effect, Effects};
use super::ending;
use super::item::Item;
use super::lifecycle::Loaded;
use super::state::State;
use super::under_way::Operation;
use crate::alarms::Alarm;
use crate::entry::Turn;

/// The log was read: what is pending continues.
pub(crate) fn loaded(state: &mut State, loaded: Loaded, effects: &mut Effects) {
    state.lifecycle.read(loaded);
    resume(state, effects);
    // What was written and not acknowledged may have ended a run.
    effects.push(Effect::NotifyEnded);
}

/// Begins everything that is pending and not in progress.
pub(crate) fn resume(state: &mut State, effects: &mut Effects) {
    let Some(open) = state.lifecycle.run() else { return state.under_way.clear(effects) };
    let (run, id) = (open.row.run, open.row.id.clone());
    let cancelled = open.pending.children.iter().filter(|(_, child)| child.cancelled.is_some());
    let cancelled: Vec<Effect> = cancelled
        .map(|(seq, child)| Effect::CancelChild { run, id: id.clone(), seq: *seq, child: child.clone() })
        .collect();
    let operations: Vec<(Kind, u32)> = open.pending.operations().collect();
    for job in open.pending.arrived.values().cloned() {
        state.inbox.push_back(Item::Answer { run, job, generation: 0 });
    }
    state.under_way.switch_to(run, effects);
    if let Some(at) = open.due {
        effects.push(Effect::SetAlarm { at, run, alarm: Alarm::Begin });
    }
    set_deadline(state, effects);
    for operation in operations {
        begin(state, operation, effects);
    }
    effects.extend(cancelled);
}

/// Sets the alarm for the open run's timeout.
pub(crate) fn set_deadline(state: &State, effects: &mut Effects) {
    let Some(open) = state.lifecycle.run() else { return };
    if let Some(at) = ending::deadline(open.begins.deadline, &open.start) {
        effects.push(Effect::SetAlarm { at, run: open.row.run, alarm: Alarm::Deadline });
    }
}

/// Begins the operations that a turn has issued, and ends those that it has answered or cancelled.
pub(crate) fn carry_out(state: &mut State, turn: &Turn, is_last: bool, effects: &mut Effects) {
    turn.jobs.iter().filter_map(|job| job.answers()).for_each(|operation| state.under_way.remove(operation));
    if is_last {
        return;
    }
    for command in &turn.commands {
        let Some(operation) = command.seq() else { continue };
        match command {
            Command::CancelTimer { .. } => state.under_way.stop_timer(operation.1, effects),
            // It may still answer; the table of pending operations says whether that answer is used.
            Command::CancelActivity { .. } | Command::CancelLocalActivity { .. } => {
                state.under_way.cancel(operation, effects);
            }
            Command::CancelChild { .. } => cancel_child(state, operation.1, effects),
            Command::CancelSignal { .. } => state.under_way.remove(operation),
            _ => begin(state, operation, effects),
        }
    }
}

/// Begins local activities, before they are written.
pub(crate) fn begin_local(state: &mut State, turn: &Turn, effects: &mut Effects) {
    for command in &turn.commands {
        if let Command::ScheduleLocalActivity { seq, .. } = command {
            begin(state, (Kind::LocalActivity, seq.get()), effects);
        }
    }
}

fn cancel_child(state: &State, seq: u32, effects: &mut Effects) {
    let Some(open) = state.lifecycle.run() else { return };
    let Some(child) = open.pending.children.get(&seq).cloned() else { return };
    effects.push(Effect::CancelChild { run: open.row.run, id: open.row.id.clone(), seq, child });
}

/// Begins an operation that is pending and not in progress.
fn begin(state: &mut State, (kind, seq): (Kind, u32), effects: &mut Effects) {
    let Some(open) = state.lifecycle.run_mut() else { return };
    let (run, id, pending) = (open.row.run, open.row.id.clone(), &mut open.pending);
    state.under_way.switch_to(run, effects);
    if state.under_way.contains((kind, seq)) {
        return;
    }
    let cancel = Shutdown::new();
    let (operation, effect) = match kind {
        Kind::Timer => {
            let Some(at) = pending.timers.get(&seq).map(|timer| timer.due) else { return };
            (Operation::Timer(at), Effect::SetAlarm { at, run, alarm: Alarm::Timer(seq) })
        }
        Kind::Activity | Kind::LocalActivity => {
            if kind == Kind::Activity && pending.arrived.contains_key(&seq) {
                return;
            }
            let tasks = match kind {
                Kind::Activity => &mut pending.activities,
                _ => &mut pending.local_activities,
            };
            let Some(task) = tasks.get_mut(&seq) else { return };
            let large_input = Arc::make_mut(task).take_large_input();
            let task = task.clone();
            if task.is_cancelled {
                cancel.cancel();
            }
            let (generation, under_way) = (state.generation, Operation::Task(cancel.clone()));
            let begin = BeginActivity { run, id, seq, task, large_input, generation, cancel };
            (under_way, Effect::BeginActivity(Box::new(begin)))
        }
        Kind::ChildWorkflow => {
            let Some(child) = pending.children.get(&seq).cloned() else { return };
            (Operation::Task(cancel.clone()), Effect::WatchChild { run, id, seq, child, cancel })
        }
        Kind::ExternalSignal | Kind::ExternalCancel => {
            let messages = if kind == Kind::ExternalSignal { &pending.signals } else { &pending.cancels };
            let Some(message) = messages.get(&seq).cloned() else { return };
            (Operation::Task(cancel.clone()), Effect::SendMessage { run, id, kind, seq, message, cancel })
        }
    };
    state.under_way.insert((kind, seq), operation);
    effects.push(effect);
}
