//! How partitions move between this engine and others on the same log.

use std::sync::Arc;

use seriatim_storage::Holder;
use seriatim_types::{Epoch, Partition, PartitionOffset};

use super::Engine;
use crate::apps::registry;
use crate::engine::others::{Call, Others, Registering, Reply};
use crate::error::SubmitError;
use crate::operate::local;
use crate::partition::PartitionHandle;

/// A move of a partition.
#[derive(Debug)]
enum Move {
    /// With the expected epoch, if there is one.
    Own(Option<Option<Epoch>>),
    Release,
    StandBy,
    /// With the holder, if it is known.
    Leave(Option<Holder>),
}

impl Engine {
    /// The partition of the registry. Its holder decides about all others.
    #[must_use]
    pub fn registry_partition(&self) -> Partition {
        registry::PARTITION
    }

    /// The name under which this engine takes partitions.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.inner.holder
    }

    pub(crate) fn others(&self) -> &Arc<dyn Others> {
        &self.inner.sys.others
    }

    pub(crate) fn owns_registry(&self) -> bool {
        self.inner.sys.partition_of(registry::WORKSPACE).is_ours()
    }

    fn handle(&self, partition: Partition) -> Result<&PartitionHandle, SubmitError> {
        let running = self.all_running().find(|running| running.schema.id() == partition.application);
        let handle = running.and_then(|running| running.partition(partition.id));
        handle.ok_or_else(|| SubmitError::NotFound(format!("there is no partition {partition}")))
    }

    /// Runs a move in a task of its own: if the caller no longer waits, the move is completed nevertheless.
    async fn run_move(&self, partition: Partition, change: Move) -> Result<(), SubmitError> {
        let engine = self.clone();
        let moving = self.env().spawn(async move {
            let handle = engine.handle(partition)?;
            match change {
                Move::Own(expected) => handle.own(expected).await,
                Move::Release => handle.release().await,
                Move::StandBy => handle.stand_by().await,
                Move::Leave(holder) => handle.leave(holder).await,
            }
        });
        moving.await.unwrap_or_else(|error| Err(SubmitError::InDoubt(error.to_string())))
    }

    /// All partitions of all applications, the registry first.
    #[must_use]
    pub fn every_partition(&self) -> Vec<Partition> {
        let handles = self.all_running().flat_map(|running| &running.partitions);
        handles.map(|handle| handle.partition).collect()
    }

    /// Whether this engine owns a partition: it numbers the partition's commands.
    #[must_use]
    pub fn owns(&self, partition: Partition) -> bool {
        self.handle(partition).is_ok_and(PartitionHandle::is_owned)
    }

    /// Makes this engine the owner of a partition. It follows the log up to its end first, if it does not follow it already; then it
    /// takes the partition over, applies the rest, and returns when commands are accepted. Does nothing if this engine owns it.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotHere`] if another engine has taken it over meanwhile; this one is a standby then. After any other error the
    /// partition may have been taken over: call it again.
    pub async fn own(&self, partition: Partition) -> Result<(), SubmitError> {
        self.run_move(partition, Move::Own(None)).await
    }

    /// As [`Engine::own`], if the partition still has this epoch (`None`: it was never taken).
    ///
    /// # Errors
    ///
    /// As [`Engine::own`]. If the epoch is higher, [`SubmitError::NotHere`].
    pub async fn own_after(&self, partition: Partition, epoch: Option<Epoch>) -> Result<(), SubmitError> {
        self.run_move(partition, Move::Own(Some(epoch))).await
    }

    /// Gives a partition up: executes what is queued, ends its asynchronous projectors, and follows it from then on. Another engine
    /// can own it without a wait. Does nothing if this engine does not own it.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotIdle`] if storage does not answer. The partition accepts no commands then.
    pub async fn release(&self, partition: Partition) -> Result<(), SubmitError> {
        if partition == registry::PARTITION {
            // While this engine still owns the registry, so that unused numbers are given back.
            self.inner.open_allocators.leave().await;
        }
        self.run_move(partition, Move::Release).await
    }

    /// Follows the log of a partition: this engine derives what its owner derives, answers reads, and can own it quickly. An owned
    /// partition is released first. Returns at once.
    ///
    /// # Errors
    ///
    /// As [`Engine::release`].
    pub async fn stand_by(&self, partition: Partition) -> Result<(), SubmitError> {
        self.run_move(partition, Move::StandBy).await
    }

    /// Does nothing more with a partition. `holder` is who owns it, if that is known. An owned partition is released first.
    ///
    /// # Errors
    ///
    /// As [`Engine::release`]; [`SubmitError::Conflict`] for the registry, which every engine follows.
    pub async fn leave(&self, partition: Partition, holder: Option<Holder>) -> Result<(), SubmitError> {
        if partition == registry::PARTITION {
            return Err(SubmitError::Conflict("every engine follows the registry".to_owned()));
        }
        self.run_move(partition, Move::Leave(holder)).await
    }

    /// As [`Engine::leave`], and removes what this engine has derived from the partition's log. The log remains.
    ///
    /// # Errors
    ///
    /// As [`Engine::leave`]; [`SubmitError::Store`] if something was not removed. Then call it again.
    pub async fn drop_local(&self, partition: Partition, holder: Option<Holder>) -> Result<(), SubmitError> {
        self.leave(partition, holder).await?;
        local::remove(&self.inner.store, partition).await?;
        Ok(())
    }

    /// Waits until this engine has applied everything before an offset of a partition that it owns or follows.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotHere`] if it does neither.
    pub async fn wait_applied(
        &self,
        partition: Partition,
        offset: PartitionOffset,
    ) -> Result<(), SubmitError> {
        self.handle(partition)?.applied(offset).await
    }

    /// Waits until every engine that still acts has applied the event at an offset.
    pub(crate) async fn wait_everywhere(
        &self,
        partition: Partition,
        event: PartitionOffset,
    ) -> Result<(), SubmitError> {
        self.others().applied(partition, event.next().unwrap_or(event)).await
    }

    /// Answers a call of another engine, as the owner of the partition that it was sent to.
    ///
    /// # Errors
    ///
    /// [`SubmitError::NotHere`] if this engine is not the owner.
    pub async fn serve(&self, call: Call) -> Result<Reply, SubmitError> {
        match call {
            Call::Registry { request, identity } => {
                let raised = registry::raised_blocks(&request);
                let answer = self.registry().serve(request, identity).await?;
                if let Some(name) = raised {
                    // What this engine has reserved lies before the raise.
                    self.inner.open_allocators.forget(&name).await;
                }
                Ok(Reply::Answer(Box::new(answer)))
            }
            Call::Register(registering) => self.serve_registering(registering).await,
            Call::Allocate { name, count } => {
                if !self.owns_registry() {
                    return Err(self.inner.sys.partition_of(registry::WORKSPACE).not_here());
                }
                Ok(Reply::Allocated(self.blocks().allocate_here(&name, count).await?))
            }
            Call::Raise(raising) => self.raise_here(raising).await.map(|()| Reply::Raised),
            Call::Hosted { application, message } => {
                self.hosted(&application)?.serve(message).await.map(Reply::Hosted)
            }
        }
    }

    async fn serve_registering(&self, registering: Registering) -> Result<Reply, SubmitError> {
        let handle = self.inner.sys.partition_of(registry::WORKSPACE);
        if !handle.is_ours() {
            return Err(handle.not_here());
        }
        let Registering { application, kind, name, unfencing, key } = registering;
        let running = self.running_by_id(application)?;
        let (name, key) = (name.as_deref(), key.as_deref());
        let (workspace, created) = self.register_workspace(running, kind, name, unfencing, key).await?;
        let next = PartitionOffset::new(handle.state().next_offset).unwrap_or(PartitionOffset::FIRST);
        Ok(Reply::Workspace { workspace, created, next })
    }
}
