//! Writing an event, and what follows when it is durable, or is not.

use seriatim_engine::{Advance, RunStatus, SubmitError, Wait};
use seriatim_types::ErrorKind;
use seriatim_workflow::{Command, IdReusePolicy, Job, Payload};

use super::Driver;
use super::inbox::answered;
use super::start::start_again;
use crate::attempt::to_time;
use crate::clock::Alarm;
use crate::workflow::ending::{self, Ending};
use crate::entry::Entry;
use crate::error::HostError;
use crate::messages::Outcome;
use crate::size;
use crate::workflow::wait as waiting;
use crate::workflow::{Answering, Item, Key, OpenRun, Reply, State, Told, Written, outcome, run_id};

/// What is to be written, and who hears of it.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) entry: Entry,
    pub(super) key: Option<Key>,
    pub(super) started: Option<Reply<Written>>,
    /// Of a start: what it said about its id.
    pub(super) reuse: IdReusePolicy,
    pub(super) told: Vec<(Option<String>, Answering)>,
    /// How the wait of the open run changes.
    pub(super) wait: Option<Wait>,
    /// Runs that leave the index.
    pub(super) forgets: Vec<u64>,
}

impl Writing {
    pub(super) fn refuse(self, error: &HostError) {
        if let Some(reply) = self.started {
            let _ = reply.send(Err(error.clone()));
        }
        self.told.into_iter().for_each(|(_, answering)| answering.refuse(error.clone()));
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.started.is_some() || !self.told.is_empty()
    }
}

impl Driver {
    /// Writes an event: then what it says is so, is carried out, and is answered.
    pub(super) async fn write(&mut self, mut writing: Writing, ending: Option<Ending>) {
        let (workspace, entry) = (self.workflow.workspace, &mut writing.entry);
        let mut rows = Vec::new();
        let mut advance = Advance::default();
        {
            let state = self.workflow.lock();
            let Some(known) = &state.known else { return };
            advance.expected_offset = Some(known.offset);
            if entry.begins.is_some() {
                advance.was = known.newest.as_ref().map(|row| row.status);
                advance.draw.push(entry.run);
                rows.extend(known.open.as_ref().map(|open| open.row.clone()));
            }
            let now = to_time(self.inner.env.now());
            writing.wait = known.open.as_ref().and_then(|open| match &ending {
                Some(ending) => waiting::change_at_end(open, ending.next.as_ref(), now),
                None => waiting::change(open, now),
            });
            advance.wait = writing.wait;
            if !writing.forgets.is_empty() {
                advance.forgets.clone_from(&writing.forgets);
                let newest = known.newest.as_ref().filter(|row| writing.forgets.contains(&row.run));
                advance.was = newest.map(|row| row.status);
            }
        }
        if let Some(ending) = &ending {
            if rows.is_empty() {
                advance.was = Some(RunStatus::Running);
            }
            rows.clear();
            rows.push(ending.row.clone());
            if let Some(next) = &ending.next {
                advance.draw.push(next.run);
                rows.push(ending::row_of(next));
                entry.next = Some(next.clone());
            }
        }
        advance.rows.clone_from(&rows);
        advance.settles = entry.delivered.then_some(entry.run);
        if let Some(Key { key, identity }) = writing.key.clone() {
            (advance.idempotency_key, advance.identity) = (Some(key), identity);
        }
        advance.body = match entry.to_body() {
            Ok(body) => body,
            Err(error) => {
                let error = HostError::Invalid(format!("what has happened cannot be written: {error}"));
                return self.fail(&error, writing, Vec::new());
            }
        };
        match self.inner.engine.workflows().advance(workspace, advance).await {
            Ok(answer) if !answer.repeated => {
                self.written(writing, ending, answer.workspace_offset.get());
            }
            // Somebody else has written it: the log knows.
            Ok(answer) => {
                let found = answer.workspace_offset.get();
                let moved = SubmitError::Moved { workspace, expected: 0, found };
                self.not_written(moved, writing).await;
            }
            Err(SubmitError::Conflict(_)) => {
                // The numbers of a restored copy skip with its next event: let that be an event that needs none.
                let settled = self.inner.engine.workflows().settle(workspace).await;
                let error = match settled {
                    Ok(answer) => {
                        let found = answer.workspace_offset.get();
                        SubmitError::Moved { workspace, expected: found - 1, found }
                    }
                    Err(error) => error,
                };
                self.not_written(error, writing).await;
            }
            Err(error) => self.not_written(error, writing).await,
        }
    }

    /// The engine has not written it, or nobody knows: everything is read again, and what the world has answered is
    /// told again.
    pub(super) async fn not_written(&mut self, error: SubmitError, mut writing: Writing) {
        let kind = error.kind();
        let again = matches!(
            kind,
            ErrorKind::Busy
                | ErrorKind::Unavailable
                | ErrorKind::InDoubt
                | ErrorKind::Fenced
                | ErrorKind::Conflict
        );
        if let (ErrorKind::TooLarge, Some(limit)) = (kind, smaller(&writing)) {
            // What the code has asked for does not fit beside so many jobs: they are told in smaller parts.
            self.drop_instance();
            let mut state = self.workflow.lock();
            state.forget();
            state.jobs_limit = Some(limit);
            tell_again(&mut state, &mut writing);
            drop(state);
            writing.refuse(&error.into());
            return;
        }
        if !again && kind != ErrorKind::Closed {
            let error = HostError::Engine(error);
            tracing::warn!(workspace = %self.workflow.workspace, %error, "an event was refused");
            self.drop_instance();
            let mut state = self.workflow.lock();
            state.forget();
            if !writing.is_awaited() {
                state.stuck = Some(error.to_string());
                self.inner.metrics.stuck.increment(1.0);
            }
            drop(state);
            writing.refuse(&error);
            return;
        }
        self.drop_instance();
        self.is_in_doubt |= kind == ErrorKind::InDoubt;
        {
            let mut state = self.workflow.lock();
            state.forget();
            let run = writing.entry.run;
            if kind == ErrorKind::Conflict {
                // Nobody has asked for a certain offset: what was told is told again.
                tell_again(&mut state, &mut writing);
            } else {
                answer_again(&mut state, &writing);
            }
            if kind == ErrorKind::InDoubt {
                refuse_outcomes(&mut state, &writing.entry, &error.clone().into());
            }
            if writing.entry.delivered {
                state.inbox.push_front(Item::Delivered { run });
            }
            if let Some(ended) = writing.entry.ended.clone().filter(|_| !writing.is_awaited()) {
                state.inbox.push_front(Item::End {
                    run: Some(run),
                    ended: Box::new(ended),
                    key: None,
                    reply: None,
                });
            }
        }
        writing.refuse(&error.into());
        self.pauses = true;
    }

    /// It is durable.
    pub(super) fn written(&mut self, writing: Writing, ending: Option<Ending>, offset: u64) {
        let Writing { entry, started, told, wait, forgets, .. } = writing;
        let run = entry.run;
        {
            let workflow = self.workflow.clone();
            let mut state = workflow.lock();
            let Some(known) = &mut state.known else { return };
            known.offset = offset;
            known.newest = known.newest.take().filter(|row| !forgets.contains(&row.run));
            if let Some(open) = known.open.as_mut().filter(|_| entry.begins.is_some()) {
                open.row.from = offset;
                known.newest = Some(open.row.clone());
                self.inner.metrics.started.increment(1);
            }
            if let Some(open) = &mut known.open {
                entry.retries.iter().for_each(|retry| open.pending.retry(retry));
                entry.attempts.iter().for_each(|attempted| open.pending.attempted(attempted));
                entry.arrived.iter().for_each(|job| open.pending.arrive(job));
            }
            for turn in &entry.turns {
                let open = state.known.as_mut().and_then(|known| known.open.as_mut());
                open.into_iter().for_each(|open| open.pending.written(turn, offset));
                self.carry_out(&mut state, turn, ending.is_some());
            }
            if entry.begins.is_some() && ending.is_none() {
                self.set_deadline(&mut state);
            }
            let answers = entry.turns.iter().flat_map(|turn| &turn.commands);
            for command in answers {
                if let Command::UpdateCompleted { protocol_id, outcome: ended } = command
                    && let Some(reply) = state.updates.remove(protocol_id)
                {
                    let _ = reply.send(outcome(ended.clone()));
                }
            }
            for (id, answering) in told {
                match answering {
                    Answering::Written(reply) => {
                        drop(reply.send(Ok(Written { run, repeated: false, begins: false })));
                    }
                    Answering::Update(reply) => {
                        let id = id.unwrap_or_default();
                        match completed(&entry, &id) {
                            Some(ended) => drop(reply.send(ended)),
                            None => drop(state.updates.insert(id, reply)),
                        }
                    }
                }
            }
            if let Some(reply) = started {
                let _ = reply.send(Ok(Written { run, repeated: false, begins: true }));
            }
            if let Some(ending) = ending {
                let outcome = Outcome::of(&entry).filter(|_| ending.next.is_none());
                self.ended(&mut state, ending, offset);
                let newest = state.known.as_ref().and_then(|known| known.newest.clone());
                state.last_ended = newest.zip(outcome);
            }
            let open = state.known.as_mut().and_then(|known| known.open.as_mut());
            if let (Some(open), Some(wait)) = (open, wait) {
                open.wait = Some(wait);
            }
        }
    }

    /// The open run has ended.
    pub(super) fn ended(&mut self, state: &mut State, ending: Ending, offset: u64) {
        let workspace = self.workflow.workspace;
        self.drop_instance();
        if state.stuck.take().is_some() {
            self.inner.metrics.stuck.decrement(1.0);
        }
        state.release();
        let timers = state.drop_under_way();
        let updates: Vec<_> = state.updates.drain().collect();
        let Some(known) = &mut state.known else { return };
        let Some(open) = known.open.take() else { return };
        let run = open.row.run;
        for (seq, due) in timers {
            self.inner.clock.unset(due, workspace, run, Alarm::Timer(seq));
        }
        if let Some(deadline) = ending::deadline(open.begins.deadline, &open.start) {
            self.inner.clock.unset(deadline, workspace, run, Alarm::Deadline);
        }
        let mut row = ending.row;
        row.from = if row.from == 0 { offset } else { row.from };
        row.to = Some(offset);
        if row.owes {
            self.inner.pay_from(workspace, row.clone(), open.pending);
        }
        known.newest = Some(row);
        let known_next = ending.next.is_some();
        if let Some(next) = ending.next {
            let mut row = ending::row_of(&next);
            row.from = offset;
            known.newest = Some(row.clone());
            let ((start, input_bytes), begins) = (size::slim(*next.start), next.begins);
            let pending = crate::workflow::pending::Pending::default();
            known.open = Some(OpenRun {
                row,
                start,
                input_bytes,
                begins,
                pending,
                bytes: 0,
                turns: 0,
                time: next.at,
                due: Some(next.at),
                wait: open.wait,
            });
            self.resume_open(state);
        }
        let error = match known_next {
            true => HostError::UpdateLost(run_id(workspace, run)),
            false => self.not_running(state),
        };
        updates.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
        self.inner.metrics.ended.increment(1);
        self.workflow.ended.notify_waiters();
    }
}

/// How many jobs the next activation takes if the event of this one is too large; none, if it cannot be made smaller.
fn smaller(writing: &Writing) -> Option<usize> {
    let jobs = &writing.entry.turns.first().filter(|_| writing.entry.begins.is_none())?.jobs;
    match jobs.first() {
        // What was kept for the first activation comes with it; only updates can be told later.
        Some(Job::Start(_)) => (!writing.told.is_empty()).then_some(writing.told.len() / 2 + 1),
        _ => (jobs.len() > 1).then_some(jobs.len() / 2),
    }
}

/// Nobody knows whether an event is written that ends updates, or the run: who waits for their outcomes is told that, since
/// nothing would tell them later if it is.
fn refuse_outcomes(state: &mut State, entry: &Entry, error: &HostError) {
    let commands = || entry.turns.iter().flat_map(|turn| &turn.commands);
    let is_end = entry.ended.is_some() || commands().any(|command| command.kind().ends_the_run());
    let completed = commands().filter_map(|command| match command {
        Command::UpdateCompleted { protocol_id, .. } => Some(protocol_id.clone()),
        _ => None,
    });
    let ids: Vec<String> = if is_end { state.updates.keys().cloned().collect() } else { completed.collect() };
    let waiting = ids.iter().filter_map(|id| state.updates.remove(id));
    waiting.for_each(|reply| drop(reply.send(Err(error.clone()))));
}

/// Puts back what the world has answered.
fn answer_again(state: &mut State, writing: &Writing) {
    let run = writing.entry.run;
    let jobs = writing.entry.turns.first().map_or(&writing.entry.arrived[..], |turn| &turn.jobs);
    for job in jobs.iter().rev().filter(|job| answered(job).is_some()) {
        if !matches!(job, Job::ResolveLocalActivity { .. }) {
            state.inbox.push_front(Item::Answer { run, job: job.clone(), generation: 0 });
        }
    }
}

/// Puts back what the world has answered, and what was asked from outside.
fn tell_again(state: &mut State, writing: &mut Writing) {
    answer_again(state, writing);
    again_asked(state, writing);
}

/// Puts back what was asked from outside.
fn again_asked(state: &mut State, writing: &mut Writing) {
    let run = writing.entry.run;
    let mut items = Vec::from_iter(start_again(writing));
    let Some(turn) = writing.entry.turns.first() else {
        state.asked += items.len();
        items.into_iter().for_each(|item| state.inbox.push_front(item));
        return;
    };
    let asked = turn.jobs.iter().filter(|job| answered(job).is_none() && !matches!(job, Job::Start(_)));
    let (asked, mut tells) = (asked.collect::<Vec<&Job>>(), Vec::new());
    // What was written before and comes with the first activation stands before what is asked for now; a key is the last
    // one's.
    let (told, mut key) = (std::mem::take(&mut writing.told), writing.key.clone());
    for (job, (_, answer)) in asked.into_iter().rev().zip(told.into_iter().rev()) {
        let mut job = job.clone();
        if let Job::Update { run_validator, .. } = &mut job {
            *run_validator = true;
        }
        tells.push(Item::Tell(Box::new(Told { job, run: Some(run), key: key.take(), answer })));
    }
    items.extend(tells.into_iter().rev());
    state.asked += items.len();
    items.into_iter().rev().for_each(|item| state.inbox.push_front(item));
}

/// The outcome of an update, if these turns have it.
fn completed(entry: &Entry, id: &str) -> Option<Result<Payload, HostError>> {
    let mut commands = entry.turns.iter().flat_map(|turn| &turn.commands);
    commands.find_map(|command| match command {
        Command::UpdateCompleted { protocol_id, outcome: ended } if protocol_id == id => {
            Some(outcome(ended.clone()))
        }
        _ => None,
    })
}
