//! A workflow in memory, under one lock.

use std::collections::HashMap;
use std::time::Duration;

use seriatim_types::WorkspaceId;
use seriatim_workflow::{Payload, Time};

use super::effect::Effects;
use super::ending::Outcome;
use super::inbox::Inbox;
use super::item::{Item, Reply};
use super::lifecycle::Lifecycle;
use super::under_way::UnderWay;
use crate::application::RunRow;
use crate::error::HostError;
use crate::options::HostOptions;

/// Whether a workflow has a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Presence {
    /// It has none: who puts an item into the inbox starts one.
    #[default]
    Idle,
    /// It has one.
    Driven,
    /// It was taken out of memory, and is not found any more: look it up again.
    Removed,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) inbox: Inbox,
    pub(crate) presence: Presence,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) under_way: UnderWay,
    /// Counts how often the state was forgotten. Answers of local activities that began before the last time are ignored.
    pub(crate) generation: u64,
    /// Jobs that the next activation takes, if those of one before came to more than an event holds.
    pub(crate) jobs_limit: Option<usize>,
    /// The run that ended last, if this process has ended it and no other continues it.
    pub(crate) last_ended: Option<(RunRow, Outcome)>,
    /// Who waits for the outcome of an accepted update.
    pub(crate) updates: HashMap<String, Reply<Payload>>,
}

/// What a step may know besides the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) now: Time,
    pub(crate) options: &'a HostOptions,
}

impl State {
    /// The number of the open run.
    pub(crate) fn run(&self) -> Option<u64> {
        self.lifecycle.run().map(|open| open.row.run)
    }

    /// Whether the open run waits for its first activation.
    pub(crate) fn is_before_begin(&self) -> bool {
        self.lifecycle.run().is_some_and(|open| open.due.is_some())
    }

    /// What is in memory may not be what the log says: it is read again.
    pub(crate) fn forget(&mut self, effects: &mut Effects) {
        self.lifecycle.forget();
        self.generation += 1;
        self.under_way.stop_local(effects);
    }

    /// The open run's code cannot continue. What it has changed in memory is forgotten.
    pub(crate) fn mark_stuck(&mut self, reason: String, effects: &mut Effects) {
        self.forget(effects);
        self.lifecycle.mark_stuck(reason);
    }

    /// A stuck run is tried again. Says whether it was stuck.
    pub(crate) fn clear_stuck(&mut self, effects: &mut Effects) -> bool {
        let was_stuck = self.lifecycle.clear_stuck();
        if was_stuck {
            self.forget(effects);
            self.under_way.stop_all_but_activities(effects);
        }
        was_stuck
    }

    /// The workflow leaves memory, and everything that waits is taken out.
    pub(crate) fn leave(&mut self) -> Vec<Item> {
        let items = self.drain();
        self.presence = Presence::Removed;
        items
    }

    /// The driver ends, and everything that waits is taken out.
    pub(crate) fn drain(&mut self) -> Vec<Item> {
        self.presence = Presence::Idle;
        self.updates.clear();
        self.inbox.drain()
    }

    /// No run is open.
    pub(crate) fn not_running(&self, facts: &Facts<'_>) -> HostError {
        match self.lifecycle.newest() {
            Some(row) => HostError::NotRunning { id: row.id.clone(), status: row.status.to_string() },
            None => HostError::UnknownWorkflow(facts.workspace.to_string()),
        }
    }

    /// Why the open run's code cannot be asked anything, if it is stuck.
    pub(crate) fn stuck_error(&self, facts: &Facts<'_>) -> Option<HostError> {
        let reason = self.lifecycle.stuck()?.to_owned();
        let row = self.lifecycle.newest();
        let id = row.map_or_else(|| facts.workspace.to_string(), |row| row.id.clone());
        Some(HostError::Stuck { id, reason })
    }

    /// The newest run, the number of its turns, and whether it is open.
    pub(crate) fn newest_run(&self, facts: &Facts<'_>) -> Result<(RunRow, u32, bool), HostError> {
        if let Some(stuck) = self.stuck_error(facts) {
            return Err(stuck);
        }
        if let Some(open) = self.lifecycle.run() {
            return Ok((open.row.clone(), open.turns, true));
        }
        let newest = self.lifecycle.newest().cloned().ok_or_else(|| self.not_running(facts))?;
        Ok((newest, u32::MAX, false))
    }

    /// Why nothing can be asked of a run whose first activation is still to come, unless it comes within `wait`.
    pub(crate) fn not_begun(&self, facts: &Facts<'_>, wait: Option<Duration>) -> Option<HostError> {
        let open = self.lifecycle.run()?;
        let left = open.due?.as_micros().saturating_sub(facts.now.as_micros());
        let is_waited_for = wait.is_some_and(|wait| Duration::from_micros(left) <= wait);
        let error = HostError::NotBegun { id: open.row.id.clone(), seconds: left.div_ceil(1_000_000) };
        (!is_waited_for).then_some(error)
    }
}
