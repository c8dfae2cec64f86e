//! What follows when an event is durable, and when it is not: pure.

use seriatim_engine::SubmitError;
use seriatim_types::ErrorKind;
use seriatim_workflow::Job;

use super::effect::{Effect, Effects};
use super::ending::{self, Ending, Outcome};
use super::item::{Item, Responder, Written};
use super::lifecycle::OpenRun;
use super::operations;
use super::run_id;
use super::state::{Facts, State};
use super::writing::{Writing, completed};
use crate::alarms::Alarm;
use crate::entry::Entry;
use crate::error::HostError;

/// An event is durable at this offset: the state takes it in, its effects follow, and its callers are answered.
///
/// The order matters. First the state agrees with the log; then operations begin and are cancelled, which reads the state;
/// then callers are answered; and the end of a run comes last, because it closes what the steps before have used.
pub(crate) fn written(
    state: &mut State,
    mut writing: Writing,
    offset: u64,
    facts: &Facts<'_>,
    effects: &mut Effects,
) {
    take_in(state, &writing, offset, effects);
    let is_last = writing.ending.is_some();
    for turn in &writing.entry.turns {
        operations::carry_out(state, turn, is_last, effects);
    }
    if writing.entry.begins.is_some() && !is_last {
        operations::set_deadline(state, effects);
    }
    answer(state, &mut writing, effects);
    let Writing { entry, ending, wait, .. } = writing;
    if let Some(ending) = ending {
        let outcome = Outcome::of(&entry).filter(|_| ending.next.is_none());
        ended(state, ending, offset, facts, effects);
        state.last_ended = state.lifecycle.newest().cloned().zip(outcome);
    }
    if let (Some(open), Some(wait)) = (state.lifecycle.run_mut(), wait) {
        open.wait = Some(wait);
    }
}

/// Applies an event to the state, except for its turns: these were applied when the code was activated.
fn take_in(state: &mut State, writing: &Writing, offset: u64, effects: &mut Effects) {
    let Writing { entry, forgets, .. } = writing;
    if let Some(open) = state.lifecycle.run_mut() {
        entry.retries.iter().for_each(|retry| open.pending.retry(retry));
        entry.attempts.iter().for_each(|attempted| open.pending.attempted(attempted));
        entry.arrived.iter().for_each(|job| open.pending.arrive(job));
        entry.turns.iter().for_each(|turn| open.pending.written(turn, offset));
        if entry.begins.is_some() {
            open.row.from = offset;
            effects.push(Effect::RunStarted);
        }
    }
    let begun = state.lifecycle.run().filter(|_| entry.begins.is_some()).map(|open| open.row.clone());
    if let Some(tail) = state.lifecycle.tail_mut() {
        tail.offset = offset;
        tail.newest = begun.or_else(|| tail.newest.take().filter(|row| !forgets.contains(&row.run)));
    }
}

/// Answers those who wait for what is written.
fn answer(state: &mut State, writing: &mut Writing, effects: &mut Effects) {
    let run = writing.entry.run;
    for (id, outcome) in completed(&writing.entry) {
        effects.extend(state.updates.remove(id).map(|reply| Effect::Answer(reply, outcome)));
    }
    for (id, responder) in std::mem::take(&mut writing.responders) {
        match responder {
            Responder::Written(reply) => {
                effects.push(Effect::Acknowledge(reply, Written { run, repeated: false, begins: false }));
            }
            Responder::Update(reply) => {
                let id = id.unwrap_or_default();
                match writing.outcome(&id) {
                    Some(outcome) => effects.push(Effect::Answer(reply, outcome)),
                    None => drop(state.updates.insert(id, reply)),
                }
            }
        }
    }
    if let Some(reply) = writing.started.take() {
        effects.push(Effect::Acknowledge(reply, Written { run, repeated: false, begins: true }));
    }
}

/// The open run has ended. If another one continues it, that is open.
fn ended(state: &mut State, ending: Ending, offset: u64, facts: &Facts<'_>, effects: &mut Effects) {
    effects.push(Effect::DiscardCode);
    state.inbox.release();
    state.under_way.clear(effects);
    let Some(open) = state.lifecycle.close() else { return };
    let run = open.row.run;
    if let Some(at) = ending::deadline(open.begins.deadline, &open.start) {
        effects.push(Effect::UnsetAlarm { at, run, alarm: Alarm::Deadline });
    }
    let mut row = ending.row;
    row.from = if row.from == 0 { offset } else { row.from };
    row.to = Some(offset);
    if row.has_undelivered {
        effects.push(Effect::DeliverRemaining(row.clone(), Box::new(open.pending)));
    }
    let next = ending.next.map(|next| {
        let row = crate::application::RunRow { from: offset, ..ending::row_of(&next) };
        let run = OpenRun::new(row, *next.start, next.begins, next.at);
        OpenRun { due: Some(next.at), wait: open.wait, ..run }
    });
    if let Some(tail) = state.lifecycle.tail_mut() {
        tail.newest = Some(next.as_ref().map_or(row, |next| next.row.clone()));
    }
    let error = match &next {
        Some(_) => HostError::UpdateLost(run_id(facts.workspace, run)),
        None => state.not_running(facts),
    };
    if let Some(next) = next {
        state.lifecycle.open(next);
        operations::resume(state, effects);
    }
    effects.extend(state.updates.drain().map(|(_, reply)| Effect::Answer(reply, Err(error.clone()))));
    effects.extend([Effect::RunEnded, Effect::NotifyEnded]);
}

/// The run's code cannot react to its jobs. Answers of activities go back into the inbox.
pub(crate) fn stuck(state: &mut State, run: u64, reason: String, answers: Vec<Job>, effects: &mut Effects) {
    effects.push(Effect::DiscardCode);
    state.mark_stuck(reason, effects);
    put_back(state, answers.into_iter().map(|job| Item::Answer { run, job, generation: 0 }).collect());
}

/// Whether an event that the engine has not written is tried again, whole or in parts.
pub(crate) fn is_retried(error: &SubmitError, writing: &Writing) -> bool {
    if matches!(error, SubmitError::NotHere { .. }) {
        return false;
    }
    match error.kind() {
        ErrorKind::Busy
        | ErrorKind::Unavailable
        | ErrorKind::InDoubt
        | ErrorKind::Fenced
        | ErrorKind::Conflict
        | ErrorKind::Closed => true,
        ErrorKind::TooLarge => writing.smaller().is_some(),
        _ => false,
    }
}

/// The engine has not written an event, or does not know whether it has.
///
/// Memory has taken in the turns of the event, so it may differ from the log: the state is forgotten and the code dropped,
/// and both are read from the log before the next step. What must not be lost goes back to the front of the inbox, in its
/// old order: answers of operations always, requests only if it is certain that they are not in the log. Callers whose
/// request is not put back get the error, and decide themselves.
///
/// If the engine no longer owns the partition, nothing is put back: the engine that owns it now finds all of it in the log.
pub(crate) fn not_written(
    state: &mut State,
    mut writing: Writing,
    error: SubmitError,
    effects: &mut Effects,
) {
    let kind = error.kind();
    effects.push(Effect::DiscardCode);
    state.forget(effects);
    if let SubmitError::NotHere { holder, .. } = &error {
        effects.push(Effect::LetGo(holder.clone()));
        return refuse(writing, &error.into(), effects);
    }
    if !is_retried(&error, &writing) {
        if !writing.is_awaited() {
            state.lifecycle.mark_stuck(error.to_string());
        }
        return refuse(writing, &error.into(), effects);
    }
    put_back(state, writing.answers());
    match kind {
        // The commands do not fit into an event with so many jobs: the next activation takes fewer.
        ErrorKind::TooLarge => {
            state.jobs_limit = writing.smaller();
            put_back(state, writing.take_requests());
        }
        // Another event was written first. The offset is the host's own condition, not the caller's: the requests are retried.
        ErrorKind::Conflict => put_back(state, writing.take_requests()),
        ErrorKind::InDoubt => {
            state.lifecycle.mark_in_doubt();
            refuse_outcomes(state, &writing.entry, &error, effects);
        }
        _ => {}
    }
    if kind != ErrorKind::TooLarge {
        put_back(state, notes(&writing));
        effects.push(Effect::Pause);
    }
    refuse(writing, &error.into(), effects);
}

/// Answers the callers of an event that is not written with the reason.
fn refuse(writing: Writing, error: &HostError, effects: &mut Effects) {
    let started = writing.started.map(Responder::Written);
    let responders = writing.responders.into_iter().map(|(_, responder)| responder);
    let refused = started.into_iter().chain(responders);
    effects.extend(refused.map(|responder| Effect::RefuseRequest(responder, error.clone())));
}

fn put_back(state: &mut State, items: Vec<Item>) {
    items.into_iter().rev().for_each(|item| state.inbox.push_front(item));
}

/// What the host itself was writing, and no caller waits for.
fn notes(writing: &Writing) -> Vec<Item> {
    let run = writing.entry.run;
    let ended = writing.entry.ended.clone().filter(|_| !writing.is_awaited());
    let end = |ended| Item::End { run: Some(run), ended: Box::new(ended), key: None, reply: None };
    let delivered = writing.entry.delivered.then_some(Item::Delivered { run });
    ended.map(end).into_iter().chain(delivered).collect()
}

/// It is not known whether an event is written that ends updates, or the run. If it is written, no later event answers those
/// who wait for the outcomes, so they get the error.
fn refuse_outcomes(state: &mut State, entry: &Entry, error: &SubmitError, effects: &mut Effects) {
    let mut commands = entry.turns.iter().flat_map(|turn| &turn.commands);
    let is_end = entry.ended.is_some() || commands.any(|command| command.kind().ends_the_run());
    let ids: Vec<String> = if is_end {
        state.updates.keys().cloned().collect()
    } else {
        completed(entry).map(|(id, _)| id.to_owned()).collect()
    };
    let waiting = ids.iter().filter_map(|id| state.updates.remove(id));
    effects.extend(waiting.map(|reply| Effect::Answer(reply, Err(error.clone().into()))));
}
