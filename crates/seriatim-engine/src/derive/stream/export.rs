//! Writing a stream, while the partition continues.
//!
//! ```text
//! keys   [ pages that are in the stream | page that is read next .......... )
//!                                       ▲ cursor
//! flush  its keys up to the cursor: a change follows in the stream
//!        its keys after the cursor: a later page has them
//! ```
//!
//! Why the result is one state. Writes to the store are numbered and happen one after the other. When the last page was read,
//! the last write that had begun was number `n`. Every page was read before that moment, so it has values of writes up to `n` only.
//! For each write up to `n` that ended after the export had begun, each of its keys is either in a page that was read after the
//! write, or among the changes, which follow in the order of the writes. So for each key the last value in the stream is that of
//! write `n`. Writes after `n` are not in the stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use seriatim_storage::{ClusteringRange, Digest, LogError, Pair, Scan, StoreError, Write};
use seriatim_types::{ErrorKind, Partition, PartitionOffset};

use super::format::{FrameBuilder, Header, Trailer};
use super::tap::TapFailure;
use crate::derive::checkpoint::{self, Checkpoint, Mark};
use crate::derive::derives::Derives;
use crate::derive::draft::lock;
use crate::derive::keys;
use crate::derive::overlay::Round;
use crate::derive::partition::DerivedPartition;

/// Why the local state of a partition cannot be exported. What was exported so far cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// No application has this partition.
    #[error("no application has partition {0}")]
    Unknown(Partition),
    /// The engine neither owns the partition nor follows it.
    #[error("partition {0} is not here: export it from its owner or from a standby")]
    NotHere(Partition),
    /// Another export of the partition is in progress.
    #[error("partition {0} is being exported: wait for the end of that export")]
    InProgress(Partition),
    /// The partition has not read its checkpoint yet, or began a recovery during the export.
    #[error("partition {0} recovers: export it again after a short time")]
    Recovering(Partition),
    /// A flush failed, so it is not known what the store has until a later one succeeds.
    #[error("a flush of partition {0} failed: export it again when the store works")]
    FlushFailed(Partition),
    /// The receiver took the stream more slowly than the partition changed.
    #[error(
        "the receiver is slower than the changes of partition {0}: export it again when there is less load, or derive the copy from the log"
    )]
    TooSlow(Partition),
    /// The partition has stopped.
    #[error("partition {partition} has stopped: {reason}")]
    Stopped {
        /// The partition.
        partition: Partition,
        /// Why it has stopped.
        reason: String,
    },
    /// The stored checkpoint cannot be read.
    #[error("the checkpoint of partition {0} cannot be read: run `seriatim doctor`")]
    BadCheckpoint(Partition),
    /// The accepted definition of the partition's application could not be read.
    #[error("the definition of the application of partition {partition} could not be read: {reason}")]
    Definition {
        /// The partition.
        partition: Partition,
        /// What failed.
        reason: String,
    },
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ExportError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown(_) => ErrorKind::NotFound,
            Self::NotHere(_) => ErrorKind::Unavailable,
            Self::InProgress(_) | Self::Recovering(_) | Self::FlushFailed(_) | Self::TooSlow(_) => {
                ErrorKind::Busy
            }
            Self::Stopped { .. } | Self::Definition { .. } => ErrorKind::Unavailable,
            Self::BadCheckpoint(_) => ErrorKind::Corrupt,
            Self::Log(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }
}

/// An export in progress. Dropping it ends the export.
#[derive(Debug)]
pub(crate) struct Export<D: Derives> {
    watching: Watching<D>,
    round: Round,
    header: Header,
    phase: Phase,
    /// Frames that are complete.
    ready: VecDeque<Bytes>,
    /// The last key of the pages that are in the stream. Empty before the first page: no key of a partition is empty.
    cursor: Bytes,
    mark: Option<Mark>,
    pairs: u64,
    changes: u64,
    digest: Digest,
}

#[derive(Debug)]
enum Phase {
    Header,
    Pages(Scan),
    /// All pages were read. Writes up to this one belong to the stream.
    Last(u64),
    Done,
}

/// Collects the writes of a partition. Dropping it ends that.
#[derive(Debug)]
struct Watching<D: Derives>(Arc<DerivedPartition<D>>);

impl<D: Derives> Drop for Watching<D> {
    fn drop(&mut self) {
        self.0.tap.unwatch();
    }
}

impl<D: Derives> Export<D> {
    /// Begins an export of everything that is in the store. `definition`: the digest of the application's accepted definition.
    pub(crate) async fn begin(
        derived: Arc<DerivedPartition<D>>,
        definition: Digest,
    ) -> Result<Self, ExportError> {
        let partition = derived.partition;
        check_running(&derived)?;
        let round = round_of(&derived).ok_or(ExportError::Recovering(partition))?;
        let in_progress = ExportError::InProgress(partition);
        let begun = derived.tap.watch().ok_or(in_progress)?.map_err(|failure| failed(partition, failure))?;
        let watching = Watching(derived.clone());
        // A write that began before the export is not collected. It is in every page that is read after its end.
        derived.tap.wait_ended(begun).await;
        let log = derived.identify().await?;
        let mark = match Checkpoint::read(&derived.store, partition).await? {
            Checkpoint::Absent => None,
            Checkpoint::At(mark) if mark.origin.is_some() => Some(mark),
            // An earlier version wrote it.
            Checkpoint::At(mark) => Some(Mark::of_log(&derived.log, log, partition, mark.next).await?),
            Checkpoint::Incomplete | Checkpoint::Bad(_) => {
                return Err(ExportError::BadCheckpoint(partition));
            }
        };
        let began_at = mark.map_or(PartitionOffset::FIRST, |mark| mark.next);
        let header = Header { partition, log, definition, began_at };
        let (ready, cursor) = (VecDeque::new(), Bytes::new());
        let (phase, digest) = (Phase::Header, Digest::ZERO);
        Ok(Self { watching, round, header, phase, ready, cursor, mark, pairs: 0, changes: 0, digest })
    }

    /// The next frame, or `None` after the last one. Cancel-safe. After an error the export has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            let partition = self.header.partition;
            let derived = &self.watching.0;
            match &mut self.phase {
                Phase::Header => {
                    let scan = derived.store.scan(&keys::storage(partition), ClusteringRange::all());
                    let frame = self.header.encode();
                    self.phase = Phase::Pages(scan);
                    self.push(frame);
                }
                Phase::Pages(scan) => {
                    // Changes first, so that few of them wait. Only what follows the cursor may be left to a later page, and
                    // only if that page is read after this.
                    if let Some(flushed) =
                        derived.tap.take(u64::MAX).map_err(|failure| failed(partition, failure))?
                    {
                        self.add_changes(flushed.mark, &flushed.writes);
                        continue;
                    }
                    let page = scan.next_page().await?;
                    if page.is_empty() {
                        self.phase = Phase::Last(derived.tap.begun());
                    } else {
                        self.add_pairs(&page);
                    }
                }
                Phase::Last(last) => {
                    derived.tap.wait_ended(*last).await;
                    match derived.tap.take(*last).map_err(|failure| failed(partition, failure))? {
                        Some(flushed) => {
                            // No page follows. Every key begins with a letter, so none is after this.
                            self.cursor = Bytes::from_static(&[u8::MAX]);
                            self.add_changes(flushed.mark, &flushed.writes);
                        }
                        None => self.end()?,
                    }
                }
                Phase::Done => return Ok(None),
            }
        }
    }

    fn end(&mut self) -> Result<(), ExportError> {
        let derived = &self.watching.0;
        check_running(derived)?;
        // A recovery also follows a repair, which has written past the flusher.
        if round_of(derived) != Some(self.round) {
            return Err(ExportError::Recovering(self.header.partition));
        }
        derived.tap.unwatch();
        let checkpoint = self.mark.map(checkpoint::encode).unwrap_or_default();
        let Self { pairs, changes, digest, .. } = *self;
        let trailer = Trailer { pairs, changes, digest, checkpoint };
        self.ready.push_back(trailer.encode());
        self.phase = Phase::Done;
        Ok(())
    }

    fn push(&mut self, frame: Bytes) {
        self.digest = self.digest.link(&frame);
        self.ready.push_back(frame);
    }

    fn add_pairs(&mut self, page: &[Pair]) {
        let mut frame = FrameBuilder::pairs();
        for (key, value) in page {
            self.cursor = key.clone();
            if is_checkpoint(self.header.partition, key) {
                continue;
            }
            frame.put(key, Some(value));
            self.pairs += 1;
            if frame.is_full() {
                self.push(std::mem::replace(&mut frame, FrameBuilder::pairs()).finish());
            }
        }
        if !frame.is_empty() {
            self.push(frame.finish());
        }
    }

    /// Adds what a flush has changed in pages that are in the stream already.
    fn add_changes(&mut self, mark: Mark, writes: &[Write]) {
        self.mark = Some(mark);
        let partition = self.header.partition;
        let storage = keys::storage(partition);
        // Of several writes to one key, the last one counts.
        let mut changed = BTreeMap::new();
        for write in writes {
            let key = write.key.clustering();
            if write.key.partition() == storage && *key <= *self.cursor && !is_checkpoint(partition, key) {
                changed.insert(key, write.value.as_deref());
            }
        }
        let mut frame = FrameBuilder::changes();
        for (key, value) in changed {
            frame.put(key, value);
            self.changes += 1;
            if frame.is_full() {
                self.push(std::mem::replace(&mut frame, FrameBuilder::changes()).finish());
            }
        }
        if !frame.is_empty() {
            self.push(frame.finish());
        }
    }
}

fn is_checkpoint(partition: Partition, key: &[u8]) -> bool {
    keys::checkpoint(partition).clustering() == key
}

/// The recovery or the standby that has filled or is filling the overlay.
fn round_of<D: Derives>(derived: &DerivedPartition<D>) -> Option<Round> {
    let overlay = lock(&derived.overlay);
    overlay.filled_to().map(|_| overlay.round())
}

fn check_running<D: Derives>(derived: &DerivedPartition<D>) -> Result<(), ExportError> {
    let partition = derived.partition;
    derived.halted().map_or(Ok(()), |reason| Err(ExportError::Stopped { partition, reason }))
}

fn failed(partition: Partition, failure: TapFailure) -> ExportError {
    match failure {
        TapFailure::InDoubt => ExportError::FlushFailed(partition),
        TapFailure::TooSlow => ExportError::TooSlow(partition),
    }
}
