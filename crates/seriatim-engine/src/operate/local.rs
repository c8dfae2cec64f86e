//! The local state of a partition: what a store has derived from the partition's log. It can be measured, removed, and copied to
//! another store.
//!
//! A copy is as of a checkpoint. A recovery continues it from there:
//!
//! ```
//! use seriatim_engine::{App, Engine, Options, local};
//! use seriatim_engine::definition::shop;
//! use seriatim_storage::{Log, Store, memory::{MemoryLog, MemoryStore}};
//! use seriatim_types::Partition;
//!
//! # seriatim_env::simulate(1, |env| async move {
//! let (log, store) = (Log::new(MemoryLog::new()), Store::new(MemoryStore::new()));
//! let engine = Engine::open(env, log, store, [App::new(shop())], Options::default()).await?;
//! let sys = Partition::new(1, 0);
//!
//! let mut export = engine.export_local(sys).await?;
//! let copy = Store::new(MemoryStore::new());
//! let mut loader = local::Loader::new(copy.clone(), engine.expected_local(sys).await?);
//! while let Some(bytes) = export.next().await? {
//!     loader.feed(&bytes).await?;     // parts of any size
//! }
//! loader.finish().await?;
//!
//! local::remove(&copy, sys).await?;
//! assert_eq!(local::measure(&copy, sys).await?.keys, 0);
//! engine.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

use bytes::Bytes;
use seriatim_storage::Digest;
use seriatim_types::Partition;

pub use crate::derive::local::{LocalSize, measure, remove};
pub use crate::derive::stream::{Expected, ExportError, LoadError, Loader, load};

use crate::apps::registry;
use crate::command::apply::Derivation;
use crate::definition::Accepted;
use crate::derive::identity;
use crate::derive::stream::Export;
use crate::engine::Engine;
use crate::engine::running::Running;
use crate::partition::PartitionHandle;

/// An export of a partition's local state, while the partition continues. Dropping it ends the export.
#[derive(Debug)]
pub struct LocalExport(Export<Derivation>);

impl LocalExport {
    /// The next bytes of the stream, or `None` after the last ones. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`ExportError`]. The export has ended, and what was exported cannot be loaded.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        self.0.next().await
    }
}

impl Engine {
    /// Exports the local state of a partition. The partition continues meanwhile: commands, flushes and reads do not wait for the
    /// export. The stream is of one state: that of the checkpoint in its last bytes, and [`local::load`](load) reads it.
    ///
    /// Flushes that end during the export wait in memory until the receiver has taken them, up to a limit; then the export
    /// fails. There is one export of a partition at a time.
    ///
    /// # Errors
    ///
    /// [`ExportError`].
    pub async fn export_local(&self, partition: Partition) -> Result<LocalExport, ExportError> {
        let running = self.running_of(partition)?;
        let shared = running.partition(partition.id).and_then(PartitionHandle::running);
        let shared = shared.ok_or(ExportError::NotHere(partition))?;
        let definition = self.definition_digest(running, partition).await?;
        Export::begin(shared.derived.clone(), definition).await.map(LocalExport)
    }

    /// What a stream must be of, so that this engine can use it for a partition.
    ///
    /// # Errors
    ///
    /// [`ExportError`] if no application has the partition, or if the log or the registry cannot be read.
    pub async fn expected_local(&self, partition: Partition) -> Result<Expected, ExportError> {
        let definition = self.definition_digest(self.running_of(partition)?, partition).await?;
        let log = identity::identify(self.env(), self.log()).await?;
        Ok(Expected { partition, log, definition: Some(definition) })
    }

    /// The application of a partition.
    fn running_of(&self, partition: Partition) -> Result<&Running, ExportError> {
        let mut running = self.all_running().filter(|running| running.schema.id() == partition.application);
        let found = running.next().filter(|running| running.partition(partition.id).is_some());
        found.map(|running| &**running).ok_or(ExportError::Unknown(partition))
    }

    /// The digest of the definition of a partition's application, as it was last accepted.
    async fn definition_digest(
        &self,
        running: &Running,
        partition: Partition,
    ) -> Result<Digest, ExportError> {
        let failed = |reason: String| ExportError::Definition { partition, reason };
        let accepted: Accepted = if partition.application == registry::ID {
            registry::app().map_err(|error| failed(error.to_string()))?.1
        } else {
            let accepted = self.registry().accepted(running.schema.name()).await;
            let accepted = accepted.map_err(|error| failed(error.to_string()))?;
            accepted.ok_or_else(|| failed("the registry does not have it".to_owned()))?
        };
        let json = serde_json::to_vec(&accepted).map_err(|error| failed(error.to_string()))?;
        Ok(Digest::of(&json))
    }
}
