//! Updates: how they are validated, accepted and handed to their handlers.
//!
//! An update takes its turn in the queue of ready tasks, at the place of its job. In its turn it is validated and accepted,
//! and its handler is polled once; so the next validator sees what this handler has changed. An update that comes before its
//! handler is registered waits until no task is ready, and then takes its turn again.

use std::sync::Arc;

use super::instance::{Instance, caught, panicked};
use super::jobs::unknown_handler;
use super::sched::{Ready, TaskId};
use super::state::{IncomingUpdate, UpdateHandler};
use crate::context::Context;
use crate::{ActivationFailure, Branch, Command, UpdateOutcome};

impl Instance {
    /// Whether updates take their turn among the jobs. Runs that began without the rule keep to what they were recorded
    /// with.
    pub(super) fn is_update_in_turn(&self) -> bool {
        self.shared.lock().start.rules >= 1
    }

    /// The updates that this activation has brought take their turn where their jobs were.
    pub(super) fn take_update(&mut self) -> Result<(), ActivationFailure> {
        let (update, handler) = {
            let mut state = self.shared.lock();
            let Some(update) = state.incoming_updates.pop_front() else { return Ok(()) };
            match state.updates.get(&update.name).cloned() {
                Some(handler) => (update, handler),
                None => {
                    state.waiting_updates.push_back(update);
                    return Ok(());
                }
            }
        };
        let Some(task) = self.accept(update, &handler)? else { return Ok(()) };
        // The handler is ready, as the last in the queue: it is polled now instead.
        self.shared.sched.lock().ready.pop_back();
        self.install_spawned();
        self.poll(task)
    }

    /// Updates whose handlers have been registered meanwhile take their turn again. Says whether there are any.
    pub(super) fn requeue_updates(&self) -> bool {
        let mut state = self.shared.lock();
        let waiting = std::mem::take(&mut state.waiting_updates);
        let (known, unknown) = waiting.into_iter().partition(|one| state.updates.contains_key(&one.name));
        (state.incoming_updates, state.waiting_updates) = (known, unknown);
        let ready = &mut self.shared.sched.lock().ready;
        ready.extend(state.incoming_updates.iter().map(|_| Ready::Update));
        !state.incoming_updates.is_empty()
    }

    /// By the oldest rules: validates and accepts all updates whose handlers are registered; each becomes a task.
    pub(super) fn hand_out_updates(&mut self) -> Result<(), ActivationFailure> {
        let updates = std::mem::take(&mut self.shared.lock().incoming_updates);
        for update in updates {
            let handler = self.shared.lock().updates.get(&update.name).cloned();
            match handler {
                Some(handler) => drop(self.accept(update, &handler)?),
                None => self.shared.lock().waiting_updates.push_back(update),
            }
        }
        Ok(())
    }

    /// By the oldest rules: whether a handler has been registered for an update that waits; then it is handed out.
    pub(super) fn has_updates(&self) -> bool {
        let mut state = self.shared.lock();
        let is_known = state.waiting_updates.iter().any(|update| state.updates.contains_key(&update.name));
        if is_known {
            state.incoming_updates = std::mem::take(&mut state.waiting_updates);
        }
        is_known
    }

    /// Validates an update and accepts it. Returns the task of its handler; none if it was refused.
    fn accept(
        &mut self,
        update: IncomingUpdate,
        handler: &UpdateHandler,
    ) -> Result<Option<TaskId>, ActivationFailure> {
        let protocol_id = update.protocol_id;
        if update.run_validator
            && let Err(failure) = self.ask("validator", || (handler.validate)(&update.input))
        {
            self.shared.lock().push(Command::UpdateRejected { protocol_id, failure }, None);
            return Ok(None);
        }
        let branch = {
            let mut state = self.shared.lock();
            state.push(Command::UpdateAccepted { protocol_id: protocol_id.clone() }, None);
            state.accepted_updates += 1;
            Branch::update(state.accepted_updates)
        };
        let context = Context::of(&self.shared, branch.clone());
        let future = caught(|| (handler.handle)(context, &update.input))
            .map_err(|message| panicked(&branch, message))?;
        let shared = Arc::clone(&self.shared);
        let task = async move {
            let outcome = match future.await {
                Ok(result) => UpdateOutcome::Completed { result },
                Err(failure) => UpdateOutcome::Failed { failure },
            };
            shared.lock().push(Command::UpdateCompleted { protocol_id, outcome }, None);
        };
        Ok(Some(self.shared.spawn(branch, Box::pin(task)).task))
    }

    /// Updates that no handler has taken by now are refused.
    pub(super) fn refuse_updates(&mut self) {
        let mut state = self.shared.lock();
        for update in std::mem::take(&mut state.waiting_updates) {
            let failure = unknown_handler("update", &update.name, state.updates.keys());
            state.push(Command::UpdateRejected { protocol_id: update.protocol_id, failure }, None);
        }
    }
}
