//! Activations: the jobs that a run gets, the commands that it issues, and the event that has both.

use seriatim_engine::SubmitError;
use seriatim_workflow::{Activation, ActivationFailure, Command, Job, Start, Time};

use super::session::Session;
use crate::application::{RunRow, Workflows};
use crate::entry::{Ended, Entry, Turn};
use crate::error::HostError;
use crate::size;
use crate::workflow::ending::{self, Ending};
use crate::workflow::item::Responders;
use crate::workflow::writing::Writing;
use crate::workflow::{Key, OpenRun, operations, step};

/// The turns of the open run.
pub(super) struct Turns {
    pub(super) session: Session,
}

impl Turns {
    /// Something of the open run.
    fn of_run<T>(&self, get: impl FnOnce(&OpenRun) -> T) -> Option<T> {
        self.session.workflow.lock().lifecycle.run().map(get)
    }

    /// The open run: its row, how many turns it has had, and what its clock showed last.
    pub(super) fn open(&self) -> Option<(RunRow, u32, Time)> {
        self.of_run(|open| (open.row.clone(), open.turns, open.time))
    }

    /// One step of a run: activates its code with these jobs, and writes the jobs and the commands as one event.
    ///
    /// The jobs count only when they are written. So each way out keeps them: written with the commands, put back into the
    /// inbox ([`Session::not_written`]), or, if the code fails, kept where that matters ([`Session::mark_stuck`]).
    pub(super) async fn advance(&mut self, jobs: Vec<Job>, responders: Responders, key: Option<Key>) {
        let Some((row, turns, time)) = self.open() else { return };
        let (options, now) = (&self.session.inner.options, self.session.inner.now());
        if let Some(ended) = self.of_run(|open| open.too_long(options, now)).flatten() {
            let error = HostError::Failed(ended.failure.clone().into());
            responders.into_iter().for_each(|(_, responder)| responder.refuse(error.clone()));
            return self.end(ended, None, Vec::new()).await;
        }
        let entry = Entry { run: row.run, ..Entry::default() };
        let mut writing = Writing { key, responders, ..Writing::of(entry) };
        let built = self.session.code.of(&row, turns).await.map(drop);
        let turn = match built.map_err(HostError::into_engine) {
            Ok(()) => self.activate(jobs).await,
            Err(Ok(error)) => {
                // The history could not be read. The jobs are not lost: they go back into the inbox.
                writing.entry.turns.push(Turn { time, suggested: false, jobs, commands: Vec::new() });
                return self.session.not_written(error, writing);
            }
            Err(Err(error)) => Err((error, jobs)),
        };
        match turn {
            Ok(turn) => self.conclude(turn, writing).await,
            Err((error, jobs)) => self.session.mark_stuck(&error, writing, jobs),
        }
    }

    /// Ends the open run from outside.
    pub(super) async fn end(&mut self, ended: Ended, key: Option<Key>, responders: Responders) {
        let ending = self.of_run(|open| ending::by_host(open, &ended));
        let Some(ending) = ending else {
            let error = self.session.workflow.lock().not_running(&self.session.facts());
            return responders.into_iter().for_each(|(_, responder)| responder.refuse(error.clone()));
        };
        let entry = Entry { run: ending.row.run, ended: Some(ended), ..Entry::default() };
        self.session.write(Writing { key, responders, ending: Some(ending), ..Writing::of(entry) }).await;
    }

    /// Activates the open run's code with jobs. If it fails, the jobs are returned with the reason.
    async fn activate(&mut self, jobs: Vec<Job>) -> Result<Turn, (HostError, Vec<Job>)> {
        let Some((row, turns, last)) = self.open() else { return Err((HostError::Closed, jobs)) };
        let Session { inner, workflow, code, .. } = &mut self.session;
        let time = inner.now().max(last);
        let suggested = workflow.lock().lifecycle.run().is_some_and(|open| open.is_long(&inner.options));
        let activation = Activation {
            history_length: turns,
            continue_as_new_suggested: suggested,
            ..Activation::new(workflow.run_id(row.run), time, jobs.clone())
        };
        match code.activate(&row, turns, activation).await {
            Ok(Ok(commands)) => Ok(Turn { time, suggested, jobs, commands }),
            Ok(Err(ActivationFailure::UnknownWorkflow { workflow_type, known })) => {
                Err((HostError::UnknownType { workflow_type, known }, jobs))
            }
            Ok(Err(failure)) => Err((HostError::Stuck { id: row.id, reason: failure.to_string() }, jobs)),
            Err(error) => Err((error, jobs)),
        }
    }

    /// The first step of a run that is to be started.
    pub(super) async fn start(&mut self, jobs: Vec<Job>, writing: Writing) {
        match self.activate(jobs).await {
            Ok(turn) => self.conclude(turn, writing).await,
            Err((error, jobs)) => self.start_stuck(writing, error, jobs).await,
        }
    }

    /// Writes a run whose first activation is due later.
    pub(super) async fn start_later(&mut self, mut writing: Writing, jobs: Vec<Job>) {
        let run = writing.entry.run;
        writing.keep_start(jobs);
        self.session.write(writing).await;
        self.session.change(|state, _, effects| {
            if state.lifecycle.run().is_some_and(|open| open.row.run == run && open.is_written()) {
                operations::resume(state, effects);
            }
        });
    }

    /// The first activation of a run that was to be started has failed. The run is written all the same, and is stuck: it can
    /// be described, retried and terminated.
    async fn start_stuck(&mut self, mut writing: Writing, error: HostError, jobs: Vec<Job>) {
        self.session.code.discard();
        let reason = match error {
            HostError::Stuck { reason, .. } => reason,
            error => {
                self.session.change(|state, _, effects| state.forget(effects));
                return writing.refuse(&error);
            }
        };
        let turns = std::mem::take(&mut writing.entry.turns);
        writing.keep_start(turns.into_iter().flat_map(|turn| turn.jobs).chain(jobs));
        {
            let mut state = self.session.workflow.lock();
            let Some(open) = state.lifecycle.run_mut() else { return };
            (open.pending, open.turns, open.due) = (Default::default(), 0, Some(open.start.start_time));
        }
        let run = writing.entry.run;
        self.session.write(writing).await;
        self.session.change(|state, _, effects| {
            if state.lifecycle.run().is_some_and(|open| open.row.run == run && open.is_written()) {
                tracing::warn!(run, %reason, "a run is stuck at its start");
                state.mark_stuck(reason, effects);
            }
            // What the failed activation has begun is not so.
            state.forget(effects);
        });
    }

    /// Writes what an activation came to, once its quick local activities have ended.
    async fn conclude(&mut self, turn: Turn, mut writing: Writing) {
        let turn = writing.reject_updates(turn);
        if turn.jobs.is_empty() && turn.commands.is_empty() {
            return;
        }
        self.take(&turn);
        writing.entry.turns.push(turn);
        if let Err((error, jobs)) = self.wait_for_local(&mut writing.entry).await {
            return match error.into_engine() {
                Ok(error) => self.session.not_written(error, writing),
                Err(error) if writing.entry.begins.is_some() => self.start_stuck(writing, error, jobs).await,
                Err(error) => self.session.mark_stuck(&error, writing, jobs),
            };
        }
        match self.ending(&writing.entry).await {
            Ok(ending) => self.session.write(Writing { ending, ..writing }).await,
            Err(error) => self.session.not_written(error, writing),
        }
    }

    /// Applies a turn to the state before it is written. If it is not written, the state is forgotten.
    fn take(&self, turn: &Turn) {
        self.session.workflow.lock().lifecycle.run_mut().into_iter().for_each(|open| open.take(turn));
    }

    /// How the run ends with these turns, if it does.
    async fn ending(&self, entry: &Entry) -> Result<Option<Ending>, SubmitError> {
        let Some(turn) = entry.turns.last() else { return Ok(None) };
        let Some(end) = turn.end() else { return Ok(None) };
        let Session { inner, workflow, .. } = &self.session;
        let found = self.of_run(|open| {
            let ending = ending::of(workflow.workspace, open, end, turn.time, || inner.env.random());
            (ending, open.row.clone(), size::is_large_input(open.input_bytes))
        });
        let Some((mut ending, row, is_large_input)) = found else { return Ok(None) };
        // A run that is retried as a whole has the same input, which may not be in memory.
        if let (Some(next), true, Command::Fail { .. }) = (&mut ending.next, is_large_input, end) {
            next.start.input = match entry.turns.iter().flat_map(|turn| &turn.jobs).find_map(started) {
                Some(start) => start.input.clone(),
                None => inner.histories.start(workflow.workspace, &row).await?.input,
            };
        }
        if let Some(next) = &mut ending.next {
            next.run = self.next_run().await?;
            ending.row.next = Some(next.run);
        }
        Ok(Some(ending))
    }

    /// The number of the run that begins next.
    pub(super) async fn next_run(&self) -> Result<u64, SubmitError> {
        let Session { inner, workflow, .. } = &self.session;
        let (offset, open) = {
            let state = workflow.lock();
            (state.lifecycle.tail().map_or(0, |tail| tail.offset), state.run())
        };
        if offset == 0 {
            // Not written yet: the first run has the first number, and the one after it the second.
            return Ok(if open.is_some() { 2 } else { 1 });
        }
        let next = Workflows::new(&inner.engine).next_run(workflow.workspace).await?;
        Ok(if open == Some(next) { next + 1 } else { next })
    }

    /// Waits for local activities that end soon, so that they are written in one event with the command that began them.
    async fn wait_for_local(&mut self, entry: &mut Entry) -> Result<(), (HostError, Vec<Job>)> {
        let inner = self.session.inner.clone();
        let until = inner.env.instant() + inner.options.local_activity_hold;
        let mut bytes = 0;
        loop {
            let Some(turn) = entry.turns.last() else { return Ok(()) };
            let holds = self.session.change(|state, _, effects| {
                operations::begin_local(state, turn, effects);
                let open = state.lifecycle.run();
                turn.end().is_none() && open.is_some_and(|open| !open.pending.local_activities.is_empty())
            });
            if !holds {
                return Ok(());
            }
            // Answers that do not fit into this event are left for the next one.
            bytes += size::size_of(turn);
            let limit = inner.options.jobs_bytes_max.saturating_sub(bytes);
            let jobs = step::local_answers(&mut self.session.workflow.lock(), limit);
            if bytes >= inner.options.jobs_bytes_max {
                return Ok(());
            }
            if jobs.is_empty() {
                let left = until.saturating_duration_since(inner.env.instant());
                let arrived = inner.env.timeout(left, self.session.workflow.arrived.notified()).await;
                if arrived.is_err() || self.session.workflow.home.is_over() {
                    return Ok(());
                }
                continue;
            }
            let turn = self.activate(jobs).await?;
            self.take(&turn);
            entry.turns.push(turn);
        }
    }
}

fn started(job: &Job) -> Option<&Start> {
    match job {
        Job::Start(start) => Some(start),
        _ => None,
    }
}
