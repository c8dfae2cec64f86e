//! One sequencer per partition.

use std::sync::Arc;

use seriatim_env::Env;
use seriatim_sequencer::Definition;
use seriatim_storage::{Log, LogError, Owner, Store};
use seriatim_types::{ApplicationId, Partition, PartitionCount, PartitionId};

use super::{Options, Sequencer};
use crate::derive::identity;

/// Makes the sequencers of an application, which share one bound on cached numbers.
#[derive(Debug, Clone)]
pub struct Factory {
    env: Env,
    log: Log,
    store: Store,
    application: ApplicationId,
    partitions: PartitionCount,
    definition: Arc<Definition>,
    options: Options,
}

impl Factory {
    /// A factory for an application. `options.cache_numbers` is the bound for all its partitions together.
    #[must_use]
    pub fn new(
        env: Env,
        log: Log,
        store: Store,
        application: ApplicationId,
        partitions: PartitionCount,
        definition: Definition,
        options: Options,
    ) -> Self {
        let share = options.cache_numbers / usize::from(partitions.get());
        Self {
            env,
            log,
            store,
            application,
            partitions,
            definition: Arc::new(definition),
            options: Options { cache_numbers: share, ..options },
        }
    }

    /// Takes a partition and opens its sequencer, which recovers by itself.
    ///
    /// # Errors
    ///
    /// [`LogError`] if the partition could not be taken.
    pub async fn open(&self, partition: PartitionId) -> Result<Sequencer, LogError> {
        let application = self.application;
        identity::identify(&self.env, &self.log).await?;
        let owner = self.log.take(Partition { application, id: partition });
        Ok(self.with_owner(owner.await?))
    }

    /// Takes all partitions, with one durable write where the log can, and opens their sequencers, in order.
    ///
    /// # Errors
    ///
    /// [`LogError`] if they could not be taken.
    pub async fn open_all(&self) -> Result<Vec<Sequencer>, LogError> {
        let application = self.application;
        // Once, and not by each recovery.
        identity::identify(&self.env, &self.log).await?;
        let partition = |id| Partition { application, id };
        let partitions: Vec<Partition> = self.partitions.partitions().map(partition).collect();
        let owners = self.log.take_all(&partitions).await?;
        Ok(owners.into_iter().map(|owner| self.with_owner(owner)).collect())
    }

    fn with_owner(&self, owner: Owner) -> Sequencer {
        Sequencer::open(
            self.env.clone(),
            self.log.clone(),
            self.store.clone(),
            owner,
            self.definition.clone(),
            self.options,
        )
    }
}
