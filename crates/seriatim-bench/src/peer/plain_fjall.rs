//! Plain fjall, with a cache as large as that of our store.

use std::path::Path;

use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};

/// The database and its one keyspace.
pub(crate) struct PlainFjall {
    database: Database,
    keyspace: Keyspace,
}

impl PlainFjall {
    /// Opens a directory, and creates it if it does not exist.
    pub(crate) fn open(directory: &Path) -> anyhow::Result<Self> {
        let database = Database::builder(directory)
            .max_journaling_size(64 << 20)
            .cache_size(32 << 20)
            .worker_threads(2)
            .journal_compression(CompressionType::None)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(8 << 20);
        let keyspace = database.keyspace("pairs", options)?;
        Ok(Self { database, keyspace })
    }

    /// An empty batch, to be committed buffered.
    pub(crate) fn batch(&self) -> PlainBatch<'_> {
        PlainBatch {
            keyspace: &self.keyspace,
            batch: self.database.batch().durability(Some(PersistMode::Buffer)),
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> anyhow::Result<Option<impl AsRef<[u8]> + use<>>> {
        Ok(self.keyspace.get(key)?)
    }

    /// The clean stop of fjall: the journal is synced.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

/// Writes that are committed together.
pub(crate) struct PlainBatch<'a> {
    keyspace: &'a Keyspace,
    batch: OwnedWriteBatch,
}

impl PlainBatch<'_> {
    /// Adds a pair.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.insert(self.keyspace, key, value);
    }

    /// Writes all of them.
    pub(crate) fn commit(self) -> anyhow::Result<()> {
        Ok(self.batch.commit()?)
    }
}
