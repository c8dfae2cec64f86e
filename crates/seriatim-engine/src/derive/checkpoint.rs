//! The stored checkpoint of a partition: which part of which log the store contains.
//!
//! ```text
//! key        partition part: application 4, partition 2; clustering part: "k"
//!
//! offset  size  field
//!      0     1  version, 2
//!      1     8  everything derived from events before this offset is in the store
//!      9    16  the identity of the log
//!     25     8  epoch   ┐ append id of the entry before the offset  ┐
//!     33     8  counter ┘                                           │ absent if the offset is 1
//!     41    32  chain value of that entry                           ┘
//!     73     4  CRC-32 of everything before
//!
//! incomplete: the partition's values are being removed or loaded
//!      0     1  version, 2
//!      1     8  0
//!      9     4  CRC-32 of everything before
//!
//! version 1: the log is not known
//!      0     1  version, 1
//!      1     8  everything derived from events before this offset is in the store
//!      9     4  CRC-32 of everything before
//! ```
//!
//! In every version the first byte is the version, the last four bytes are the CRC-32 of everything before, and the length is not
//! 12 bytes. A value of 12 bytes was written before there were versions: it is version 1 without the first byte.

use bytes::{Buf, BufMut};
use seriatim_sequencer::BadValue;
use seriatim_storage::{
    Batch, Digest, EntryMark, Log, LogError, LogIdentity, ReadLimit, Store, StoreError, Write,
};
use seriatim_types::{AppendId, Epoch, Partition, PartitionOffset};

use super::keys;

const VERSION: u8 = 2;
const VERSION_WITHOUT_LOG: u8 = 1;
const BYTES_WITHOUT_VERSION: usize = 12;

/// A checkpoint and what it was derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Everything derived from events before this offset is in the store.
    pub(crate) next: PartitionOffset,
    /// `None`: an earlier version wrote the checkpoint, and its log is not known.
    pub(crate) origin: Option<Origin>,
}

/// What a checkpoint was derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) log: LogIdentity,
    /// The entry before the checkpoint; `None` at offset 1.
    pub(crate) last: Option<EntryMark>,
}

impl Mark {
    /// A checkpoint whose log is not recorded.
    pub(crate) fn without_log(next: PartitionOffset) -> Self {
        Self { next, origin: None }
    }

    /// The checkpoint at an offset of a log, with the entry that is before it there.
    pub(crate) async fn of_log(
        log: &Log,
        identity: LogIdentity,
        partition: Partition,
        next: PartitionOffset,
    ) -> Result<Self, LogError> {
        let last = entry_before(log, partition, next).await?;
        Ok(Self { next, origin: Some(Origin { log: identity, last }) })
    }
}

/// The entry before an offset; `None` if the log has none there.
pub(crate) async fn entry_before(
    log: &Log,
    partition: Partition,
    next: PartitionOffset,
) -> Result<Option<EntryMark>, LogError> {
    let Some(last) = PartitionOffset::new(next.get() - 1) else { return Ok(None) };
    let read = log.read(partition, last, ReadLimit::entries(1)).await?;
    Ok(read.iter().next().map(|(_, entry)| entry.mark()))
}

/// The checkpoint of a partition, as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// There is no checkpoint: nothing was flushed yet.
    Absent,
    /// The values are being removed or loaded. They are removed before anything is derived.
    Incomplete,
    /// Everything before this offset is in the store.
    At(Mark),
    /// The stored checkpoint cannot be read.
    Bad(BadValue),
}

/// What a stored checkpoint says about a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The store contains the log up to this offset. The entry before it is this one.
    Derived(PartitionOffset, Option<EntryMark>),
    /// The values have no meaning: they are of another log (which is given), or are being removed or loaded.
    Useless(Option<LogIdentity>),
    /// The checkpoint is beyond the end of the log: the log has lost events.
    Beyond(PartitionOffset),
    /// The log has another entry before the checkpoint, or none: the log has lost events.
    Rewound { checkpoint: PartitionOffset, expected: EntryMark, found: Option<EntryMark> },
    /// The stored checkpoint cannot be read.
    Bad(BadValue),
}

impl Checkpoint {
    pub(crate) async fn read(store: &Store, partition: Partition) -> Result<Self, StoreError> {
        let stored = store.get(keys::checkpoint(partition).as_key()).await?;
        Ok(stored.map_or(Self::Absent, |bytes| decode(&bytes).unwrap_or_else(Self::Bad)))
    }

    /// The checkpoint of a partition whose log ends at `tail`.
    ///
    /// A store that was migrated from format 1 still has the old checkpoint, but not the values that it describes. So the old
    /// checkpoint is ignored and the partition is derived again. If it is beyond the tail, however, the log has lost events, and it
    /// is returned as evidence.
    pub(crate) async fn read_beside(
        store: &Store,
        partition: Partition,
        tail: PartitionOffset,
    ) -> Result<Self, StoreError> {
        let found = Self::read(store, partition).await?;
        if found != Self::Absent {
            return Ok(found);
        }
        let before = store.get(keys::checkpoint_of_format_1(partition).as_key()).await?;
        let before = before.and_then(|bytes| match decode(&bytes) {
            Ok(Self::At(mark)) => Some(mark),
            _ => None,
        });
        Ok(before.filter(|before| before.next > tail).map_or(Self::Absent, Self::At))
    }

    /// Compares the checkpoint with a log that ends at `tail`. `identity`: that of the log, if it has one.
    pub(crate) async fn stand(
        self,
        log: &Log,
        identity: Option<LogIdentity>,
        partition: Partition,
        tail: PartitionOffset,
    ) -> Result<Standing, LogError> {
        let mark = match self {
            Self::Absent => return Ok(Standing::Derived(PartitionOffset::FIRST, None)),
            Self::Incomplete => return Ok(Standing::Useless(None)),
            Self::Bad(problem) => return Ok(Standing::Bad(problem)),
            Self::At(mark) => mark,
        };
        // A log without an identity is not the one that a checkpoint names.
        if let Some(origin) = mark.origin.filter(|origin| Some(origin.log) != identity) {
            return Ok(Standing::Useless(Some(origin.log)));
        }
        if mark.next > tail {
            return Ok(Standing::Beyond(mark.next));
        }
        let found = entry_before(log, partition, mark.next).await?;
        match mark.origin.and_then(|origin| origin.last) {
            Some(expected) if found != Some(expected) => {
                Ok(Standing::Rewound { checkpoint: mark.next, expected, found })
            }
            _ => Ok(Standing::Derived(mark.next, found)),
        }
    }

    /// Adds a checkpoint to a batch.
    pub(crate) fn put(batch: &mut Batch, partition: Partition, mark: Mark) {
        batch.push(Write { key: keys::checkpoint(partition), value: Some(encode(mark).into()) });
    }

    /// Adds to a batch that the partition's values are incomplete.
    pub(crate) fn put_incomplete(batch: &mut Batch, partition: Partition) {
        let mut bytes = vec![VERSION];
        bytes.put_u64(0);
        batch.push(Write { key: keys::checkpoint(partition), value: Some(with_checksum(bytes).into()) });
    }
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&bytes);
    bytes.put_u32(checksum);
    bytes
}

pub(super) fn encode(mark: Mark) -> Vec<u8> {
    // Without the entry before it, a checkpoint after offset 1 could not be compared with the log.
    let is_whole = |origin: &Origin| origin.last.is_some() || mark.next == PartitionOffset::FIRST;
    let origin = mark.origin.filter(is_whole);
    let mut bytes = vec![origin.map_or(VERSION_WITHOUT_LOG, |_| VERSION)];
    bytes.put_u64(mark.next.get());
    if let Some(Origin { log, last }) = origin {
        bytes.put_slice(log.as_bytes());
        if let Some(EntryMark { append, chain }) = last {
            bytes.put_u64(append.epoch.get());
            bytes.put_u64(append.counter);
            bytes.put_slice(chain.as_bytes());
        }
    }
    with_checksum(bytes)
}

pub(super) fn decode(bytes: &[u8]) -> Result<Checkpoint, BadValue> {
    let found = bytes.len();
    let (mut rest, checksum) = bytes.split_last_chunk().ok_or(BadValue::Short { found })?;
    if crc32fast::hash(rest) != u32::from_be_bytes(*checksum) {
        return Err(BadValue::Checksum);
    }
    let mut version = VERSION_WITHOUT_LOG;
    if found != BYTES_WITHOUT_VERSION {
        version = rest.try_get_u8().map_err(|_| BadValue::Short { found })?;
        if version > VERSION {
            return Err(BadValue::Newer { found: version, known: VERSION });
        }
    }
    let next = rest.try_get_u64().map_err(|_| BadValue::Short { found })?;
    if version == VERSION && next == 0 && rest.is_empty() {
        return Ok(Checkpoint::Incomplete);
    }
    let next = PartitionOffset::new(next).ok_or(BadValue::Field("offset"))?;
    let origin = if version == VERSION { Some(decode_origin(&mut rest, next)?) } else { None };
    if rest.is_empty() { Ok(Checkpoint::At(Mark { next, origin })) } else { Err(BadValue::Short { found }) }
}

fn decode_origin(rest: &mut &[u8], next: PartitionOffset) -> Result<Origin, BadValue> {
    let mut identity = [0; 16];
    rest.try_copy_to_slice(&mut identity).map_err(|_| BadValue::Field("identity of its log"))?;
    let log = LogIdentity::from_bytes(identity);
    if next == PartitionOffset::FIRST {
        return Ok(Origin { log, last: None });
    }
    let short = |_| BadValue::Field("entry before it");
    let epoch = Epoch::new(rest.try_get_u64().map_err(short)?).ok_or(BadValue::Field("epoch"))?;
    let append = AppendId { epoch, counter: rest.try_get_u64().map_err(short)? };
    let mut chain = [0; 32];
    rest.try_copy_to_slice(&mut chain).map_err(short)?;
    Ok(Origin { log, last: Some(EntryMark { append, chain: Digest::new(chain) }) })
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
