//! How partitions arrive at a host and leave it.

use std::sync::Arc;

use seriatim_storage::Holder;
use seriatim_types::{PartitionId, WorkspaceId};

use crate::application::{NAME, Workflows};
use crate::error::HostError;
use crate::homes::{Home, not_here};
use crate::inner::Inner;
use crate::resume::Resume;
use crate::workflow::{Presence, Workflow};

/// What a host has in memory at one moment. Of a partition that has left it has nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InMemory {
    /// Partitions whose runs it drives.
    pub partitions: usize,
    /// Workflows whose logs were read.
    pub workflows: usize,
    /// Open runs that only wait and were not read.
    pub asleep: usize,
    /// Timers, deadlines and delays that are waited for.
    pub alarms: usize,
    /// Runs whose code is kept between two activations.
    pub instances: usize,
    /// Activities that run or wait for their next attempt, children that are waited for, and messages that are being sent.
    pub operations: usize,
    /// Attempts of activities that run.
    pub attempts: usize,
    /// Workflows that are being read, activated or written.
    pub drivers: usize,
}

impl Inner {
    /// The home of a workflow.
    ///
    /// # Errors
    ///
    /// [`HostError::NotHere`] if this engine does not own its partition.
    pub(crate) fn home_of(self: &Arc<Self>, workspace: WorkspaceId) -> Result<Arc<Home>, HostError> {
        self.home(self.engine.partition_of(NAME, workspace)?)
    }

    /// The home of a partition. If it has just arrived or left, that is noticed here.
    ///
    /// # Errors
    ///
    /// [`HostError::NotHere`] if this engine does not own it.
    pub(crate) fn home(self: &Arc<Self>, partition: PartitionId) -> Result<Arc<Home>, HostError> {
        if let Err(error) = &self.claim {
            return Err(error.clone());
        }
        let tenure = Workflows::new(&self.engine).tenure(partition)?;
        let home =
            self.homes.of(partition, tenure, &self.stop, |left| self.let_go(left), |home| self.arrive(home));
        home.ok_or_else(|| not_here(partition, None))
    }

    /// Notices partitions that arrive and leave, until the host stops.
    pub(crate) async fn follow_places(self: Arc<Self>) {
        let workflows = Workflows::new(&self.engine);
        let (Ok(mut places), Ok(partitions)) = (workflows.places(), workflows.partitions()) else { return };
        loop {
            places.mark_unchanged();
            for partition in &partitions {
                // An error means that the partition is not here.
                let _ = self.home(*partition);
            }
            if places.changed().await.is_err() {
                return;
            }
        }
    }

    /// A partition has arrived: its open runs continue.
    fn arrive(self: &Arc<Self>, home: &Arc<Home>) {
        let (draining, resume) = (self.draining.clone(), Resume { inner: self.clone(), home: home.clone() });
        drop(self.env.spawn(async move {
            let stop = resume.home.stop.clone();
            stop.run_until_cancelled(draining.run_until_cancelled(resume.run())).await;
        }));
    }

    /// The engine has refused a write, because it does not own the partition any more.
    pub(crate) fn lose(self: &Arc<Self>, home: &Arc<Home>, holder: Option<Holder>) {
        self.homes.lose(home, holder, |left| self.let_go(left));
    }

    /// Asks the log whether a partition is still here: an owner that was deposed and has written nothing since does not know it.
    ///
    /// # Errors
    ///
    /// [`HostError::NotHere`] if it has left; then it is let go.
    pub(crate) async fn confirm(self: &Arc<Self>, home: &Arc<Home>) -> Result<(), HostError> {
        if !Workflows::new(&self.engine).is_holder(home.partition).await? {
            self.lose(home, None);
        }
        // It may also have left and come back.
        let present = self.home(home.partition)?;
        if Arc::ptr_eq(&present, home) { Ok(()) } else { Err(home.refusal()) }
    }

    /// Before a read of this engine's own data: the home of the partition if it is here, and `None` if a standby is read, which is
    /// always current.
    ///
    /// # Errors
    ///
    /// [`HostError::NotHere`] if this host knows that another engine has taken the partition over, and the engine does not.
    pub(crate) fn reading(self: &Arc<Self>, partition: PartitionId) -> Result<Option<Arc<Home>>, HostError> {
        match self.home(partition) {
            Ok(home) => Ok(Some(home)),
            Err(error) => match Workflows::new(&self.engine).tenure(partition)? {
                Some(_) if error.is_not_here() => Err(error),
                _ => Ok(None),
            },
        }
    }

    /// After a read that has found nothing: that something does not exist is said only if the log confirms that no other engine has
    /// taken the partition over.
    pub(crate) async fn confirm_reading(
        self: &Arc<Self>,
        reading: Option<&Arc<Home>>,
    ) -> Result<(), HostError> {
        match reading {
            Some(home) => self.confirm(home).await,
            None => Ok(()),
        }
    }

    /// A partition has left: nothing of it remains in memory. Its attempts, children and messages end with the home itself. A driver
    /// that activates or writes ends when that has ended; it carries out nothing of what follows.
    fn let_go(self: &Arc<Self>, home: &Arc<Home>) {
        let partition = home.partition;
        let is_of = |workspace: WorkspaceId| {
            self.engine.partition_of(NAME, workspace).is_ok_and(|found| found == partition)
        };
        let workflows = self.table.take_partition(is_of);
        self.alarms.remove_partition(is_of);
        let instances = self.instances().take_partition(is_of);
        tracing::info!(%partition, workflows = workflows.len(), "a partition of workflows has left");
        instances.into_iter().for_each(|instance| self.discard(instance));
        for workflow in workflows {
            if workflow.lock().presence != Presence::Driven {
                self.dismiss(&workflow);
            }
            workflow.ended.notify_waiters();
            workflow.arrived.notify_one();
        }
    }

    /// A workflow whose partition has left leaves memory. Those who wait for it are told where it is.
    pub(crate) fn dismiss(&self, workflow: &Workflow) {
        let items = {
            let mut state = workflow.lock();
            if state.presence != Presence::Removed && state.lifecycle.stuck().is_some() {
                self.metrics.stuck.decrement(1.0);
            }
            state.leave()
        };
        let error = workflow.home.refusal();
        items.into_iter().for_each(|item| item.refuse(error.clone()));
    }

    /// What is in memory.
    pub(crate) fn in_memory(&self) -> InMemory {
        let (workflows, asleep) = self.table.counts();
        InMemory {
            partitions: self.homes.count(),
            workflows,
            asleep,
            alarms: self.alarms.count(),
            instances: self.instances().len(),
            operations: self.operations.count(),
            attempts: self.attempts.count(),
            drivers: self.drivers.count(),
        }
    }
}
