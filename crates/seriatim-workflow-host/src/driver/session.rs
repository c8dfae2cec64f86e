//! What a driver does with the log and with the effects of its steps.

use std::sync::Arc;

use seriatim_engine::SubmitError;
use seriatim_types::ErrorKind;
use seriatim_workflow::Job;

use super::code::Code;
use crate::application::Workflows;
use crate::attempt::Execution;
use crate::error::HostError;
use crate::inner::Inner;
use crate::messages::Messages;
use crate::workflow::writing::Writing;
use crate::workflow::{Effect, Effects, Facts, Item, Loaded, State, Workflow, after_write, operations};

/// What a driver holds of one workflow: its state, its code, and access to its log.
pub(super) struct Session {
    pub(super) inner: Arc<Inner>,
    pub(super) workflow: Arc<Workflow>,
    pub(super) code: Code,
    /// The engine has refused something: the driver waits before it tries again.
    pub(super) pauses: bool,
}

impl Session {
    pub(super) fn new(inner: Arc<Inner>, workflow: Arc<Workflow>) -> Self {
        let code = Code::new(inner.clone(), workflow.workspace);
        Self { inner, workflow, code, pauses: false }
    }

    /// Reads what the log says, if it is not known. Says whether it is.
    pub(super) async fn load(&mut self) -> bool {
        let (is_fresh, is_in_doubt) = {
            let state = self.workflow.lock();
            if !state.lifecycle.is_unread() {
                return true;
            }
            let is_fresh = matches!(state.inbox.front(), Some(Item::Start(starting)) if starting.is_fresh);
            (is_fresh, state.lifecycle.is_in_doubt())
        };
        let loaded = if is_fresh { Ok(Loaded::default()) } else { self.read(is_in_doubt).await };
        match loaded {
            Ok(loaded) => {
                self.change(|state, _, effects| operations::loaded(state, loaded, effects));
                true
            }
            Err(SubmitError::NotHere { holder, .. }) => {
                self.inner.lose(&self.workflow.home, holder);
                false
            }
            Err(error) => {
                let awaited = self.workflow.lock().inbox.take_awaited();
                awaited.into_iter().for_each(|item| item.refuse(error.clone().into()));
                tracing::warn!(workspace = %self.workflow.workspace, %error, "a workflow cannot be read; it is tried again");
                self.pauses = true;
                false
            }
        }
    }

    /// What the log says, with every event that was in doubt and is written.
    async fn read(&self, is_in_doubt: bool) -> Result<Loaded, SubmitError> {
        if is_in_doubt {
            // An event that says nothing: once it is written, it is known what became of those before it.
            Workflows::new(&self.inner.engine).append_empty(self.workflow.workspace).await?;
            self.workflow.lock().lifecycle.doubt_resolved();
        }
        self.inner.histories.load(self.workflow.workspace).await
    }

    pub(super) async fn pause(&self) {
        let pause = self.inner.env.sleep(self.inner.env.jitter(self.inner.options.retry));
        self.workflow.home.stop.run_until_cancelled(pause).await;
    }

    /// Takes the state from one to the next, and carries out what follows.
    pub(super) fn change<T>(&mut self, step: impl FnOnce(&mut State, &Facts<'_>, &mut Effects) -> T) -> T {
        let mut effects = Effects::new();
        let facts = self.facts();
        let stepped = {
            let mut state = self.workflow.lock();
            let was_stuck = state.lifecycle.stuck().is_some();
            let stepped = step(&mut state, &facts, &mut effects);
            match (was_stuck, state.lifecycle.stuck().is_some()) {
                (false, true) => self.inner.metrics.stuck.increment(1.0),
                (true, false) => self.inner.metrics.stuck.decrement(1.0),
                _ => {}
            }
            stepped
        };
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        stepped
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts { workspace: self.workflow.workspace, now: self.inner.now(), options: &self.inner.options }
    }

    fn carry_out(&mut self, effect: Effect) {
        let (inner, workspace, home) = (&self.inner, self.workflow.workspace, &self.workflow.home);
        let messages = |run, id| Messages::new(inner.clone(), home.clone(), workspace, run, id);
        match effect {
            Effect::Refuse(item, error) => item.refuse(error),
            Effect::RefuseRequest(responder, error) => responder.refuse(error),
            Effect::Acknowledge(reply, written) => drop(reply.send(Ok(written))),
            Effect::Answer(reply, outcome) => drop(reply.send(outcome)),
            Effect::SetAlarm { at, run, alarm } => inner.alarms.set(at, workspace, run, alarm, home),
            Effect::UnsetAlarm { at, run, alarm } => inner.alarms.unset(at, workspace, run, alarm),
            Effect::BeginActivity(begin) => {
                Execution::new(inner.clone(), home.clone(), workspace, *begin).spawn();
            }
            Effect::WatchChild { run, id, seq, child, cancel } => {
                messages(run, id).watch_child(seq, child, cancel);
            }
            Effect::CancelChild { run, id, seq, child } => messages(run, id).cancel_child(seq, child),
            Effect::SendMessage { run, id, kind, seq, message, cancel } => {
                messages(run, id).send(kind, seq, message, cancel);
            }
            Effect::Cancel(token) => token.cancel(),
            Effect::DeliverRemaining(row, pending) => messages(row.run, row.id).deliver_remaining(*pending),
            Effect::DiscardCode => self.code.discard(),
            Effect::LetGo(holder) => inner.lose(home, holder),
            Effect::Pause => self.pauses = true,
            Effect::RunStarted => inner.metrics.started.increment(1),
            Effect::RunEnded => inner.metrics.ended.increment(1),
            Effect::NotifyEnded => self.workflow.ended.notify_waiters(),
        }
    }

    /// Writes an event. When it is durable, the state takes it in, its effects are carried out, and its callers are answered.
    ///
    /// The event is conditional on the offset of the last event that memory knows. If another event was written meanwhile, or
    /// the engine refuses or does not know, [`after_write::not_written`] decides what is tried again.
    pub(super) async fn write(&mut self, mut writing: Writing) {
        let (workspace, home) = (self.workflow.workspace, self.workflow.home.clone());
        if let Some(Ok(error)) = home.has_left().then(|| home.refusal().into_engine()) {
            return self.not_written(error, writing);
        }
        let advance = {
            let facts = self.facts();
            let state = self.workflow.lock();
            writing.advance(&state, &facts)
        };
        let advance = match advance {
            None => return,
            Some(Ok(advance)) => advance,
            Some(Err(error)) => {
                let error = HostError::Invalid(format!("what has happened cannot be written: {error}"));
                return self.mark_stuck(&error, writing, Vec::new());
            }
        };
        let moved = |found: u64| SubmitError::Moved { workspace, expected: found.saturating_sub(1), found };
        let workflows = Workflows::new(&self.inner.engine);
        let error = match workflows.advance(workspace, advance).await {
            Ok(answer) if !answer.repeated => {
                let offset = answer.workspace_offset.get();
                self.change(|state, facts, effects| {
                    after_write::written(state, writing, offset, facts, effects);
                });
                return self.tell_later_home(false);
            }
            // Another one has written it: the log knows.
            Ok(answer) => moved(answer.workspace_offset.get()),
            // The numbers of a restored copy skip with its next event: let that be an event that needs none.
            Err(SubmitError::Conflict(_)) => match workflows.append_empty(workspace).await {
                Ok(answer) => moved(answer.workspace_offset.get()),
                Err(error) => error,
            },
            Err(error) => error,
        };
        let is_in_doubt = error.kind() == ErrorKind::InDoubt;
        self.not_written(error, writing);
        if is_in_doubt {
            self.tell_later_home(true);
        }
    }

    /// The partition has left while an event was written. If it has come back meanwhile, its new home may have read the log before
    /// the event was there.
    fn tell_later_home(&self, is_in_doubt: bool) {
        if self.workflow.home.has_left() {
            self.inner.push(self.workflow.workspace, Item::Reread { is_in_doubt });
        }
    }

    /// The engine has not written an event, or does not know.
    pub(super) fn not_written(&mut self, error: SubmitError, writing: Writing) {
        let is_lost = matches!(error, SubmitError::NotHere { .. });
        if !is_lost && !after_write::is_retried(&error, &writing) {
            tracing::warn!(workspace = %self.workflow.workspace, %error, "an event was refused");
        }
        self.change(|state, _, effects| after_write::not_written(state, writing, error, effects));
    }

    /// The run's code cannot react to what has happened. The activities that have ended are not run again: their answers are
    /// put back, and kept in an event of their own.
    pub(super) fn mark_stuck(&mut self, error: &HostError, mut writing: Writing, jobs: Vec<Job>) {
        let turns = std::mem::take(&mut writing.entry.turns);
        let jobs = turns.into_iter().flat_map(|turn| turn.jobs).chain(jobs);
        let ended: Vec<Job> = jobs.filter(|job| matches!(job, Job::ResolveActivity { .. })).collect();
        let reason = match error {
            HostError::Stuck { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        let run = writing.entry.run;
        tracing::warn!(workspace = %self.workflow.workspace, run, %reason, "a run is stuck");
        self.change(|state, _, effects| after_write::stuck(state, run, reason, ended, effects));
        writing.refuse(error);
    }
}
