//! Activations: what a run is told, and what it asks for.

use seriatim_engine::{RunRow, RunStatus, SubmitError};
use seriatim_workflow::{
    Activation, ActivationFailure, Command, Failure, Instance, InstanceOptions, Job, Start,
};

use super::Driver;
use super::writing::Writing;
use crate::attempt::to_time;
use crate::workflow::ending::{self, Ending};
use crate::entry::{Ended, Entry, Turn};
use crate::error::HostError;
use crate::logged::logged;
use crate::size;
use crate::workflow::{Answering, Item, Key};

impl Driver {
    /// The open run's code, from memory or rebuilt.
    pub(super) async fn instance(&mut self, row: &RunRow, turns: u32) -> Result<&mut Instance, HostError> {
        if self.held().as_ref().is_none_or(|(run, _)| *run != row.run) {
            self.drop_instance();
            let workspace = self.workflow.workspace;
            let cached = self.inner.instances().take(workspace, row.run);
            let instance = match cached {
                Some(instance) => instance,
                None if turns == 0 => self.new_instance(),
                None => {
                    let turns = self.inner.read_turns(workspace, row).await?;
                    if turns.is_empty() {
                        let (id, status) = (row.id.clone(), row.status.to_string());
                        return Err(HostError::NeverBegan { id, status });
                    }
                    let replayed = self.inner.replay(workspace, row.run, turns).await;
                    replayed.map_err(|reason| HostError::Stuck { id: row.id.clone(), reason })?
                }
            };
            *self.held() = Some((row.run, instance));
        }
        let instance = self.held().as_mut().map(|(_, instance)| instance);
        instance.ok_or(HostError::Closed)
    }

    pub(super) fn new_instance(&self) -> Instance {
        let options = InstanceOptions { policy: self.inner.options.policy, ..InstanceOptions::default() };
        Instance::new(self.inner.registry.clone(), options).log_to(logged)
    }

    /// The open run: its row, how many turns it has had, and what its clock showed last.
    pub(super) fn open(&self) -> Option<(RunRow, u32, seriatim_workflow::Time)> {
        let state = self.workflow.lock();
        let open = state.known.as_ref()?.open.as_ref()?;
        Some((open.row.clone(), open.turns, open.time))
    }

    /// Tells the open run's code what has happened. If it fails, the jobs are returned with the reason.
    pub(super) async fn activate(&mut self, jobs: Vec<Job>) -> Result<Turn, (HostError, Vec<Job>)> {
        let Some((row, turns, last)) = self.open() else { return Err((HostError::Closed, jobs)) };
        let time = to_time(self.inner.env.now()).max(last);
        let run_id = self.workflow.run_id(row.run);
        let suggested = self.is_long();
        let activation = Activation {
            history_length: turns,
            continue_as_new_suggested: suggested,
            ..Activation::new(run_id, time, jobs.clone())
        };
        let before = match self.instance(&row, turns).await {
            Ok(instance) => instance.warned(),
            Err(error) => return Err((error, jobs)),
        };
        let (instance, outcome) = match self.run_code(&row, activation).await {
            Ok(ran) => ran,
            Err(error) => return Err((error, jobs)),
        };
        let warned = instance.warned() - before;
        let warnings = if warned > 0 { instance.warnings() } else { Vec::new() };
        self.inner.metrics.activations.increment(1);
        self.inner.metrics.warnings.increment(warned);
        for warning in warnings.iter().rev().take(usize::try_from(warned).unwrap_or(usize::MAX)).rev() {
            tracing::warn!(workflow = row.id, run = row.run, %warning, "a run has a warning");
        }
        *self.held() = Some((row.run, instance));
        match outcome {
            Ok(commands) => Ok(Turn { time, suggested, jobs, commands }),
            Err(ActivationFailure::UnknownWorkflow { workflow_type, known }) => {
                Err((HostError::UnknownType { workflow_type, known }, jobs))
            }
            Err(failure) => Err((HostError::Stuck { id: row.id, reason: failure.to_string() }, jobs)),
        }
    }

    /// Whether the open run should continue as new.
    fn is_long(&self) -> bool {
        let options = &self.inner.options;
        let state = self.workflow.lock();
        let open = state.known.as_ref().and_then(|known| known.open.as_ref());
        open.is_some_and(|open| {
            open.turns >= options.suggest_activations || open.bytes >= options.suggest_bytes
        })
    }

    /// Why the open run is too long to continue, if it is.
    fn is_too_long(&self) -> Option<Ended> {
        let options = &self.inner.options;
        let state = self.workflow.lock();
        let open = state.known.as_ref().and_then(|known| known.open.as_ref())?;
        if open.turns < options.activations_max && open.bytes < options.history_bytes_max {
            return None;
        }
        let message = format!(
            "the run's history has {} activations and about {} bytes, and {} and {} are allowed: continue as new earlier",
            open.turns, open.bytes, options.activations_max, options.history_bytes_max
        );
        let failure = Failure::non_retryable("HistoryTooLong", message);
        Some(Ended { status: RunStatus::Terminated, failure, time: to_time(self.inner.env.now()) })
    }

    /// Activates the instance that is held, on a thread for workflow code. One that does not return in time is lost with
    /// its thread.
    pub(super) async fn run_code(
        &mut self,
        row: &RunRow,
        activation: Activation,
    ) -> Result<(Instance, Result<Vec<Command>, ActivationFailure>), HostError> {
        let Some((_, mut instance)) = self.held().take() else { return Err(HostError::Closed) };
        let inner = self.inner.clone();
        let ran = inner.threads.run(&inner.env, move |progress| {
            progress.step(|| instance.watch());
            let outcome = instance.activate(activation).outcome;
            (instance, outcome)
        });
        ran.await.map_err(|reason| HostError::Stuck { id: row.id.clone(), reason })
    }

    /// Takes a turn in, as if it were written.
    pub(super) fn apply(&self, turn: &Turn) {
        let mut state = self.workflow.lock();
        if let Some(open) = state.known.as_mut().and_then(|known| known.open.as_mut()) {
            open.pending.apply(turn);
            open.bytes += size::turn_weight(turn);
            (open.turns, open.time, open.due) = (open.turns + 1, turn.time, None);
        }
    }

    /// One activation, and what comes of it.
    pub(super) async fn advance(
        &mut self,
        jobs: Vec<Job>,
        told: Vec<(Option<String>, Answering)>,
        key: Option<Key>,
    ) {
        let Some((row, turns, time)) = self.open() else { return };
        if let Some(ended) = self.is_too_long() {
            let error = HostError::Failed(ended.failure.clone().into());
            told.into_iter().for_each(|(_, answering)| answering.refuse(error.clone()));
            return self.end(ended, None, None).await;
        }
        let entry = Entry { run: row.run, ..Entry::default() };
        let mut writing = Writing { entry, key, told, ..Writing::default() };
        let built = self.instance(&row, turns).await.map(drop);
        if let Err(HostError::Engine(error)) = built {
            // What has happened is not lost: it is told again.
            writing.entry.turns.push(Turn { time, suggested: false, jobs, commands: Vec::new() });
            return self.not_written(error, writing).await;
        }
        let turn = match built {
            Ok(()) => self.activate(jobs).await,
            Err(error) => Err((error, jobs)),
        };
        match turn {
            Ok(turn) => self.conclude(turn, writing).await,
            Err((error, jobs)) => self.fail(&error, writing, jobs),
        }
    }

    /// The run's code cannot react to what it is told. The activities that have ended are not run again: their answers
    /// are put back, and kept in an event of their own.
    pub(super) fn fail(&mut self, error: &HostError, mut writing: Writing, jobs: Vec<Job>) {
        self.drop_instance();
        let turns = std::mem::take(&mut writing.entry.turns);
        let jobs = turns.into_iter().flat_map(|turn| turn.jobs).chain(jobs);
        let ended: Vec<Job> = jobs.filter(|job| matches!(job, Job::ResolveActivity { .. })).collect();
        let reason = match error {
            HostError::Stuck { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        tracing::warn!(workspace = %self.workflow.workspace, run = writing.entry.run, %reason, "a run is stuck");
        let mut state = self.workflow.lock();
        if state.stuck.replace(reason).is_none() {
            self.inner.metrics.stuck.increment(1.0);
        }
        // What the failed activation has changed in memory is not so.
        state.forget();
        let run = writing.entry.run;
        for job in ended.into_iter().rev() {
            state.inbox.push_front(Item::Answer { run, job, generation: 0 });
        }
        drop(state);
        writing.refuse(error);
    }

    /// Writes what an activation came to, once its quick local activities have ended.
    pub(super) async fn conclude(&mut self, turn: Turn, mut writing: Writing) {
        let turn = reject(turn, &mut writing);
        if turn.jobs.is_empty() && turn.commands.is_empty() {
            return;
        }
        self.apply(&turn);
        writing.entry.turns.push(turn);
        match self.hold(&mut writing.entry).await {
            Ok(()) => {}
            Err((HostError::Engine(error), _)) => return self.not_written(error, writing).await,
            Err((error, jobs)) if writing.entry.begins.is_some() => {
                return self.remain(writing, error, jobs).await;
            }
            Err((error, jobs)) => return self.fail(&error, writing, jobs),
        }
        let ending = match self.ending(&writing.entry).await {
            Ok(ending) => ending,
            Err(error) => return self.not_written(error, writing).await,
        };
        self.write(writing, ending).await;
    }

    /// How the run ends with these turns, if it does.
    pub(super) async fn ending(&self, entry: &Entry) -> Result<Option<Ending>, SubmitError> {
        let Some(turn) = entry.turns.last() else { return Ok(None) };
        let Some(end) = turn.end() else { return Ok(None) };
        let (ending, row, is_slim) = {
            let state = self.workflow.lock();
            let Some(open) = state.known.as_ref().and_then(|known| known.open.as_ref()) else {
                return Ok(None);
            };
            let ending = ending::of(self.workflow.workspace, open, end, turn.time, &self.inner.env);
            (ending, open.row.clone(), size::is_slim(open.input_bytes))
        };
        let mut ending = ending;
        // A run that is tried again as a whole has the same input, which may not be in memory.
        if let (Some(next), true, Command::Fail { .. }) = (&mut ending.next, is_slim, end) {
            next.start.input = match entry.turns.iter().flat_map(|turn| &turn.jobs).find_map(started) {
                Some(start) => start.input.clone(),
                None => self.inner.read_start(self.workflow.workspace, &row).await?.input,
            };
        }
        if let Some(next) = &mut ending.next {
            next.run = self.next_run().await?;
            ending.row.next = Some(next.run);
        }
        Ok(Some(ending))
    }

    pub(super) async fn next_run(&self) -> Result<u64, SubmitError> {
        let offset = self.workflow.lock().known.as_ref().map_or(0, |known| known.offset);
        if offset == 0 {
            // Not written yet: the first run has the first number, and the one behind it the second.
            return Ok(if self.open().is_some() { 2 } else { 1 });
        }
        let next = self.inner.engine.workflows().next_run(self.workflow.workspace).await?;
        let begins_now = self.open().is_some_and(|(row, ..)| row.run == next);
        Ok(if begins_now { next + 1 } else { next })
    }

    /// Waits for local activities that end soon, so that they are written together with what they were asked for by.
    pub(super) async fn hold(&mut self, entry: &mut Entry) -> Result<(), (HostError, Vec<Job>)> {
        let until = self.inner.env.instant() + self.inner.options.local_activity_hold;
        let mut bytes = 0;
        loop {
            let Some(turn) = entry.turns.last() else { return Ok(()) };
            self.begin_local(turn);
            let holds = {
                let state = self.workflow.lock();
                let open = state.known.as_ref().and_then(|known| known.open.as_ref());
                turn.end().is_none() && open.is_some_and(|open| !open.pending.local_activities.is_empty())
            };
            if !holds {
                return Ok(());
            }
            // What does not fit beside what is to be written is told in the next event.
            bytes += size::size_of(turn);
            let jobs = self.local_answers(self.inner.options.jobs_bytes_max.saturating_sub(bytes));
            if bytes >= self.inner.options.jobs_bytes_max {
                return Ok(());
            }
            if jobs.is_empty() {
                let left = until.saturating_duration_since(self.inner.env.instant());
                let arrived = self.inner.env.timeout(left, self.workflow.arrived.notified()).await;
                if arrived.is_err() || self.inner.stop.is_cancelled() {
                    return Ok(());
                }
                continue;
            }
            let turn = self.activate(jobs).await?;
            self.apply(&turn);
            entry.turns.push(turn);
        }
    }

    /// Takes the answers of local activities out of the inbox, up to so many bytes.
    pub(super) fn local_answers(&self, limit: usize) -> Vec<Job> {
        let mut state = self.workflow.lock();
        let (generation, mut jobs) = (state.generation, Vec::new());
        let mut bytes = 0;
        let items = std::mem::take(&mut state.inbox);
        for item in items {
            match item {
                Item::Answer { run, job: job @ Job::ResolveLocalActivity { .. }, generation: of } => {
                    let open = state.known.as_ref().and_then(|known| known.open.as_ref());
                    if of == generation && open.is_some_and(|open| open.pending.admits(&job)) {
                        bytes += size::weight(&job);
                        if bytes > limit {
                            state.inbox.push_back(Item::Answer { run, job, generation: of });
                        } else {
                            jobs.push(job);
                        }
                    }
                }
                other => state.inbox.push_back(other),
            }
        }
        jobs
    }
}

fn started(job: &Job) -> Option<&Start> {
    match job {
        Job::Start(start) => Some(start),
        _ => None,
    }
}

/// Leaves refused updates out of a turn, and tells who sent them. On replay what is left was accepted.
fn reject(mut turn: Turn, writing: &mut Writing) -> Turn {
    let mut rejected = Vec::new();
    turn.commands.retain(|command| match command {
        Command::UpdateRejected { protocol_id, failure } => {
            rejected.push((protocol_id.clone(), failure.clone()));
            false
        }
        _ => true,
    });
    turn.jobs.retain_mut(|job| match job {
        Job::Update { protocol_id, run_validator, .. } => {
            *run_validator = false;
            !rejected.iter().any(|(id, _)| id == protocol_id)
        }
        _ => true,
    });
    for (id, failure) in rejected {
        // Nothing of it is written, and its key is free.
        writing.key = writing.key.take().filter(|key| key.key != id);
        let found = writing.told.iter().position(|(told, _)| told.as_deref() == Some(&id));
        if let Some(place) = found {
            writing.told.remove(place).1.refuse(HostError::Rejected(failure.into()));
        }
    }
    turn
}
