//! The code of a workflow's run, as its driver holds it.

use std::sync::Arc;

use seriatim_types::WorkspaceId;
use seriatim_types::sync::Mutex;
use seriatim_workflow::{
    Activation, ActivationFailure, Command, Instance, InstanceOptions, Numbering, Recorded,
};

use crate::application::RunRow;
use crate::entry::Turn;
use crate::error::HostError;
use crate::homes::Home;
use crate::inner::Inner;
use crate::logged::write_log;
use crate::workflow::run_id;

pub(super) struct Code {
    inner: Arc<Inner>,
    workspace: WorkspaceId,
    /// With the number of its run. Only the driver has it; the lock lets the driver's task move from thread to thread.
    held: Mutex<Option<(u64, Instance)>>,
}

impl Code {
    pub(super) const fn new(inner: Arc<Inner>, workspace: WorkspaceId) -> Self {
        Self { inner, workspace, held: Mutex::new(None) }
    }

    fn held(&mut self) -> &mut Option<(u64, Instance)> {
        self.held.get_mut()
    }

    /// Drops it: it is built again from the log.
    pub(super) fn discard(&mut self) {
        if let Some((_, instance)) = self.held().take() {
            self.inner.discard(instance);
        }
    }

    /// Keeps it in the cache, if it is of this run. The workflow's state is locked: otherwise the next driver could build
    /// the run a second time, and this code would be out of date when it is found.
    pub(super) fn keep(&mut self, home: &Home, run: u64, bytes: usize) {
        match self.held().take() {
            Some((of, instance)) if of == run => {
                let mut instances = self.inner.instances();
                // Checked under the lock: what is put before the partition leaves is taken out when it does.
                let dropped = if home.has_left() {
                    vec![instance]
                } else {
                    instances.put(self.workspace, run, instance, bytes)
                };
                drop(instances);
                dropped.into_iter().for_each(|instance| self.inner.discard(instance));
            }
            Some((_, instance)) => self.inner.discard(instance),
            None => {}
        }
    }

    /// The code of a run that has had so many turns, from memory or rebuilt.
    pub(super) async fn of(&mut self, row: &RunRow, turns: u32) -> Result<&mut Instance, HostError> {
        if self.held().as_ref().is_none_or(|(run, _)| *run != row.run) {
            self.discard();
            let cached = self.inner.instances().take(self.workspace, row.run);
            let instance = match cached {
                Some(instance) => instance,
                None if turns == 0 => {
                    let (registry, policy) = (self.inner.registry.clone(), self.inner.options.policy);
                    let options = InstanceOptions { policy, ..InstanceOptions::default() };
                    Instance::new(registry, options).log_to(write_log)
                }
                None => self.rebuild(row).await?,
            };
            *self.held() = Some((row.run, instance));
        }
        let instance = self.held().as_mut().map(|(_, instance)| instance);
        instance.ok_or(HostError::Closed)
    }

    /// Rebuilds a run from its turns.
    async fn rebuild(&self, row: &RunRow) -> Result<Instance, HostError> {
        let turns = self.inner.histories.turns(self.workspace, row).await?;
        if turns.is_empty() {
            let (id, status) = (row.id.clone(), row.status.to_string());
            return Err(HostError::NeverBegan { id, status });
        }
        let (registry, policy) = (self.inner.registry.clone(), self.inner.options.policy);
        let run_id = run_id(self.workspace, row.run);
        let replayed = self.inner.threads.run(&self.inner.env, move |progress| {
            let mut recorded = Recorded::none();
            turns.iter().for_each(|turn| recorded.push(&turn.commands));
            let numbering = Numbering::ByLineage(recorded);
            let mut instance =
                Instance::new(registry, InstanceOptions { numbering, policy }).log_to(write_log);
            for (place, turn) in turns.into_iter().enumerate() {
                progress.step(|| instance.watch());
                instance.activate(replaying(run_id.clone(), place, turn)).outcome?;
            }
            Ok::<_, ActivationFailure>(instance)
        });
        let stuck = |reason| HostError::Stuck { id: row.id.clone(), reason };
        let instance = replayed.await.map_err(stuck)?.map_err(|failure| stuck(failure.to_string()))?;
        self.inner.metrics.replays.increment(1);
        Ok(instance)
    }

    /// Activates the code of a run, and logs what it warns of.
    pub(super) async fn activate(
        &mut self,
        row: &RunRow,
        turns: u32,
        activation: Activation,
    ) -> Result<Result<Vec<Command>, ActivationFailure>, HostError> {
        let before = self.of(row, turns).await?.warned();
        let outcome = self.run(row, activation).await?;
        self.inner.metrics.activations.increment(1);
        self.warn(row, before);
        Ok(outcome)
    }

    /// Activates the code that is held, on a thread for workflow code. Code that does not return in time is lost with its
    /// thread.
    pub(super) async fn run(
        &mut self,
        row: &RunRow,
        activation: Activation,
    ) -> Result<Result<Vec<Command>, ActivationFailure>, HostError> {
        let Some((run, mut instance)) = self.held().take() else { return Err(HostError::Closed) };
        let ran = self.inner.threads.run(&self.inner.env, move |progress| {
            progress.step(|| instance.watch());
            let outcome = instance.activate(activation).outcome;
            (instance, outcome)
        });
        let ran = ran.await.map_err(|reason| HostError::Stuck { id: row.id.clone(), reason });
        let (instance, outcome) = ran?;
        *self.held() = Some((run, instance));
        Ok(outcome)
    }

    /// Logs the warnings of a run that has had so many before.
    fn warn(&mut self, row: &RunRow, before: u64) {
        let Some((_, instance)) = self.held() else { return };
        let count = instance.warned() - before;
        if count == 0 {
            return;
        }
        let warnings = instance.warnings();
        self.inner.metrics.warnings.increment(count);
        for warning in warnings.iter().rev().take(usize::try_from(count).unwrap_or(usize::MAX)).rev() {
            tracing::warn!(workflow = row.id, run = row.run, %warning, "a run has a warning");
        }
    }
}

fn replaying(run_id: String, place: usize, turn: Turn) -> Activation {
    Activation {
        run_id,
        time: turn.time,
        is_replaying: true,
        history_length: u32::try_from(place).unwrap_or(u32::MAX),
        continue_as_new_suggested: turn.suggested,
        jobs: turn.jobs,
    }
}
