//! Reading a stream into a store.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use seriatim_storage::{
    Batch, ClusteringRange, Digest, Durability, LogIdentity, Store, StoreError, StoreKey, Write,
};
use seriatim_types::{ErrorKind, Partition, PartitionOffset};

use super::format::{self, BadFrame, Frame, Header, Item, Trailer};
use crate::derive::checkpoint::{self, Checkpoint, Mark};
use crate::derive::{keys, local};

/// What a stream must be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The partition.
    pub partition: Partition,
    /// The log that the copy will continue from.
    pub log: LogIdentity,
    /// The digest of the application's accepted definition. `None`: not compared.
    pub definition: Option<Digest>,
}

/// Why a stream was not loaded. Nothing of it is left, unless the store failed: then the next recovery of the partition removes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store already has values of the partition.
    #[error("the store already has values of partition {0}: remove them first")]
    NotEmpty(Partition),
    /// The stream is of something else.
    #[error("the stream is of another {what}: it has {found}, and {expected} was expected")]
    Foreign {
        /// What differs.
        what: &'static str,
        /// What the stream has.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The bytes are not a stream of local state.
    #[error("this is no stream of a partition's local state")]
    NotOne,
    /// A newer Seriatim wrote the stream.
    #[error("the stream has version {found}, and this program reads version {known}: use a newer program")]
    Newer {
        /// The version of the stream.
        found: u8,
        /// The version that this program reads.
        known: u8,
    },
    /// The stream ends before its trailer.
    #[error("the stream is cut: it ends before its trailer; transfer it again")]
    Cut,
    /// The stream is damaged.
    #[error("the stream is damaged, it has {0}; transfer it again")]
    Damaged(&'static str),
    /// The stream could not be read.
    #[error("the stream could not be read: {0}")]
    Read(String),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LoadError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotEmpty(_) => ErrorKind::Conflict,
            Self::Foreign { .. } | Self::NotOne | Self::Newer { .. } => ErrorKind::Invalid,
            Self::Cut | Self::Read(_) => ErrorKind::Unavailable,
            Self::Damaged(_) => ErrorKind::Corrupt,
            Self::Store(error) => error.kind(),
        }
    }
}

impl From<BadFrame> for LoadError {
    fn from(bad: BadFrame) -> Self {
        match bad {
            BadFrame::NotOne => Self::NotOne,
            BadFrame::Newer(found) => Self::Newer { found, known: format::VERSION },
            BadFrame::Damaged(problem) => Self::Damaged(problem),
        }
    }
}

/// Loads the stream of a partition into a store that has nothing of it. Returns the checkpoint: a recovery continues from there.
/// No engine may have the partition open on this store.
///
/// # Errors
///
/// [`LoadError`]. Cancelling leaves incomplete values, which the next recovery removes, or [`remove`](local::remove).
pub async fn load<S, E>(store: &Store, expected: Expected, mut bytes: S) -> Result<PartitionOffset, LoadError>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: ToString,
{
    let mut loader = Loader::new(store.clone(), expected);
    while let Some(part) = bytes.next().await {
        match part {
            Ok(part) => loader.feed(&part).await?,
            Err(error) => return Err(loader.refuse(LoadError::Read(error.to_string())).await),
        }
    }
    loader.finish().await
}

/// Loads a stream whose bytes arrive in parts of any size. It holds one frame in memory.
///
/// Nothing is written before the header was accepted. After an error the values that were written are removed again. If it is
/// dropped before [`Loader::finish`], the values are incomplete: the next recovery of the partition removes them.
#[derive(Debug)]
pub struct Loader {
    store: Store,
    expected: Expected,
    /// Bytes of a frame that is not complete.
    rest: BytesMut,
    header: Option<Header>,
    trailer: Option<Trailer>,
    /// Whether anything was written.
    has_begun: bool,
    /// The last key of the pairs so far. No key of a partition is empty.
    last: Bytes,
    pairs: u64,
    changes: u64,
    digest: Digest,
}

impl Loader {
    /// Loads into a store. Writes nothing yet.
    #[must_use]
    pub fn new(store: Store, expected: Expected) -> Self {
        Self {
            store,
            expected,
            rest: BytesMut::new(),
            header: None,
            trailer: None,
            has_begun: false,
            last: Bytes::new(),
            pairs: 0,
            changes: 0,
            digest: Digest::ZERO,
        }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: the stream is refused, and must not be continued.
    pub async fn feed(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let taken = self.take(bytes).await;
        match taken {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refuse(error).await),
        }
    }

    /// Ends the stream. Writes the checkpoint, durably, after everything else. Returns it.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: the stream was not complete, or the store failed.
    pub async fn finish(mut self) -> Result<PartitionOffset, LoadError> {
        match self.complete().await {
            Ok(checkpoint) => Ok(checkpoint),
            Err(error) => Err(self.refuse(error).await),
        }
    }

    /// Removes what was written.
    async fn refuse(&mut self, error: LoadError) -> LoadError {
        if !self.has_begun {
            return error;
        }
        match local::remove(&self.store, self.expected.partition).await {
            Ok(_) => error,
            Err(failure) => {
                let partition = self.expected.partition;
                tracing::warn!(%partition, %failure, "what was loaded could not be removed: the next recovery of the partition removes it");
                error
            }
        }
    }

    async fn take(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.rest.extend_from_slice(bytes);
        while let Some(size) = format::frame_bytes(&self.rest)?
            && self.rest.len() >= size
        {
            let bytes = self.rest.split_to(size).freeze();
            let frame = Frame::decode(&bytes)?;
            self.take_frame(frame).await?;
            self.digest = self.digest.link(&bytes);
        }
        Ok(())
    }

    async fn take_frame(&mut self, frame: Frame) -> Result<(), LoadError> {
        if self.trailer.is_some() {
            return Err(LoadError::Damaged("bytes after its trailer"));
        }
        match (frame, self.header) {
            (Frame::Header(header), None) => self.begin(header).await,
            (_, None) => Err(LoadError::NotOne),
            (Frame::Header(_), Some(_)) => Err(LoadError::Damaged("two headers")),
            (Frame::Pairs(pairs), Some(_)) => {
                for (key, value) in &pairs {
                    if *key <= self.last || value.is_none() {
                        return Err(LoadError::Damaged("pairs that are not in order"));
                    }
                    self.last = key.clone();
                }
                self.pairs += pairs.len() as u64;
                self.write(pairs).await
            }
            (Frame::Changes(changes), Some(_)) => {
                self.changes += changes.len() as u64;
                self.write(changes).await
            }
            (Frame::Trailer(trailer), Some(_)) => {
                let found = (self.pairs, self.changes, self.digest);
                if found != (trailer.pairs, trailer.changes, trailer.digest) {
                    return Err(LoadError::Damaged("a trailer that does not match what was before it"));
                }
                self.trailer = Some(trailer);
                Ok(())
            }
        }
    }

    /// Checks what the stream is of, and that the store has nothing of it.
    async fn begin(&mut self, header: Header) -> Result<(), LoadError> {
        let Expected { partition, log, definition } = self.expected;
        compare("partition", &header.partition, &partition)?;
        compare("log", &header.log, &log)?;
        definition.map_or(Ok(()), |definition| compare("definition", &header.definition, &definition))?;
        if Checkpoint::read(&self.store, partition).await? == Checkpoint::Incomplete {
            local::remove(&self.store, partition).await?;
        }
        let mut present = self.store.scan(&keys::storage(partition), ClusteringRange::all());
        if present.next().await?.is_some() {
            return Err(LoadError::NotEmpty(partition));
        }
        let mut batch = Batch::new();
        Checkpoint::put_incomplete(&mut batch, partition);
        // This checkpoint says that the store has nothing, which a load makes wrong.
        batch.remove(keys::checkpoint_of_format_1(partition).as_key());
        self.has_begun = true;
        self.store.write(batch, Durability::Synced).await?;
        self.header = Some(header);
        Ok(())
    }

    async fn write(&mut self, items: Vec<Item>) -> Result<(), LoadError> {
        let (partition, mut batch) = (self.expected.partition, Batch::new());
        let (storage, checkpoint) = (keys::storage(partition), keys::checkpoint(partition));
        for (clustering, value) in items {
            let key = StoreKey::new(&storage, &clustering);
            if clustering.is_empty() || key == checkpoint {
                return Err(LoadError::Damaged("a key that no partition has"));
            }
            batch.push(Write { key, value });
        }
        Ok(self.store.write(batch, Durability::Buffered).await?)
    }

    async fn complete(&mut self) -> Result<PartitionOffset, LoadError> {
        let trailer = self.trailer.take().filter(|_| self.rest.is_empty()).ok_or(LoadError::Cut)?;
        let (partition, mut batch) = (self.expected.partition, Batch::new());
        let next = if trailer.checkpoint.is_empty() && (self.pairs, self.changes) == (0, 0) {
            batch.remove(keys::checkpoint(partition).as_key());
            PartitionOffset::FIRST
        } else {
            let mark = self.read_checkpoint(&trailer.checkpoint)?;
            Checkpoint::put(&mut batch, partition, mark);
            mark.next
        };
        self.store.write(batch, Durability::Synced).await?;
        Ok(next)
    }

    fn read_checkpoint(&self, bytes: &[u8]) -> Result<Mark, LoadError> {
        match checkpoint::decode(bytes) {
            Ok(Checkpoint::At(mark)) if mark.origin.is_some_and(|origin| origin.log == self.expected.log) => {
                Ok(mark)
            }
            _ => Err(LoadError::Damaged("a checkpoint that cannot be read, or of another log")),
        }
    }
}

fn compare<T: PartialEq + ToString>(what: &'static str, found: &T, expected: &T) -> Result<(), LoadError> {
    if found == expected {
        return Ok(());
    }
    Err(LoadError::Foreign { what, found: found.to_string(), expected: expected.to_string() })
}
