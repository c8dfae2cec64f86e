//! Reading committed entries.

use std::io;
use std::sync::Arc;

use seriatim_storage::{LogError, ReadEntries, ReadLimit};
use seriatim_types::sync::Mutex;
use seriatim_types::{Partition, PartitionOffset};

use super::committer::{LogFolder, LogState, Segment};
use super::frames::Frames;
use super::index::SegmentIndex;
use super::open::{load_index, open_segment};
use super::record::Record;
use super::segment::{Position, SegmentNumber};

/// How many full segments stay open for reading, with their indexes. Bounds file handles and memory.
const SEGMENTS_OPEN_MAX: usize = 32;

/// A full segment and its index.
#[derive(Debug)]
struct FullSegment {
    segment: Segment,
    index: SegmentIndex,
}

/// Reads durable entries. Shared by all readers.
#[derive(Debug)]
pub(super) struct Reader {
    folder: LogFolder,
    state: Arc<LogState>,
    /// The most recently used segment is the last one.
    full: Mutex<Vec<Arc<FullSegment>>>,
    /// The segment that was being written when it was last read.
    active: Mutex<Segment>,
}

/// The bytes to read in one segment.
struct SegmentBytes {
    segment: Segment,
    at: u64,
    end: u64,
}

impl Reader {
    pub(super) fn new(folder: LogFolder, state: Arc<LogState>, active: Segment) -> Self {
        Self { folder, state, full: Mutex::default(), active: Mutex::new(active) }
    }

    /// Entries from `from` on, up to the limit and to `tail`, which is durable.
    pub(super) fn read(
        &self,
        partition: Partition,
        from: PartitionOffset,
        tail: PartitionOffset,
        limit: ReadLimit,
    ) -> Result<ReadEntries, LogError> {
        let mut read = ReadEntries::new(from);
        let mut number = None;
        while read.next() < tail {
            let (part, next_number) = self.locate(partition, read.next(), number)?;
            number = Some(next_number);
            if let Some(part) = part
                && !self.read_part(partition, &part, tail, limit, &mut read)?
            {
                break;
            }
        }
        Ok(read)
    }

    /// The bytes to read for `from`, in the segment `number` or in the segment that has it; and the number of the next
    /// segment.
    fn locate(
        &self,
        partition: Partition,
        from: PartitionOffset,
        number: Option<SegmentNumber>,
    ) -> Result<(Option<SegmentBytes>, SegmentNumber), LogError> {
        let (active, end, at) = {
            let index = self.state.lock_index();
            (index.number, index.end, index.locate(partition, from))
        };
        let begins_here = || -> Result<bool, LogError> {
            let Some(previous) = active.previous() else {
                return Ok(true);
            };
            Ok(self.full_segment(previous)?.index.tail(partition) <= from)
        };
        if number == Some(active) || (number.is_none() && begins_here()?) {
            let segment = self.active_segment(active)?;
            return Ok((at.map(|at| SegmentBytes { segment, at, end }), active.next()?));
        }
        let number = match number {
            Some(number) if number < active => number,
            Some(number) => {
                let name = number.segment_name();
                return Err(LogError::Corrupt(format!("{partition} ends before {from}, at {name}")));
            }
            None => self.find(partition, from, active)?,
        };
        let full = self.full_segment(number)?;
        let part = full.index.locate(partition, from);
        let part = part.map(|at| SegmentBytes { segment: full.segment.clone(), at, end: full.index.end });
        Ok((part, number.next()?))
    }

    /// The first full segment that ends after `from`.
    fn find(
        &self,
        partition: Partition,
        from: PartitionOffset,
        active: SegmentNumber,
    ) -> Result<SegmentNumber, LogError> {
        let (mut low, mut high) = (SegmentNumber::FIRST.0, active.0 - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.full_segment(SegmentNumber(middle))?.index.tail(partition) > from {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(SegmentNumber(low))
    }

    fn active_segment(&self, number: SegmentNumber) -> Result<Segment, LogError> {
        let mut active = self.active.lock();
        if active.header.number != number {
            *active = open_segment(&self.folder, number)?;
        }
        Ok(active.clone())
    }

    fn full_segment(&self, number: SegmentNumber) -> Result<Arc<FullSegment>, LogError> {
        let mut full = self.full.lock();
        let known = full.iter().position(|full| full.index.number == number);
        let segment = match known {
            Some(at) => full.remove(at),
            None => {
                let segment = open_segment(&self.folder, number)?;
                Arc::new(FullSegment { segment, index: load_index(&self.folder, number)? })
            }
        };
        if full.len() == SEGMENTS_OPEN_MAX {
            full.remove(0);
        }
        full.push(segment.clone());
        Ok(segment)
    }

    /// Reads one segment. Returns whether to continue with the next one.
    fn read_part(
        &self,
        partition: Partition,
        part: &SegmentBytes,
        tail: PartitionOffset,
        limit: ReadLimit,
        read: &mut ReadEntries,
    ) -> Result<bool, LogError> {
        let mut frames = Frames::new(&part.segment, part.at, part.end);
        while !frames.is_at_end() && read.next() < tail {
            let position = frames.position();
            let fail =
                |error: io::Error| LogError::Unavailable(format!("cannot read at {position}: {error}"));
            let Some(frame) = frames.next().map_err(fail)? else {
                return Err(LogError::Corrupt(format!(
                    "there is no complete frame at {position}: the segment is damaged"
                )));
            };
            for record in frame.records(position)? {
                match record? {
                    Record::Append { partition: found, first, count, entries } if found == partition => {
                        if !take_entries(first, count, entries, limit, read, position)? {
                            return Ok(false);
                        }
                    }
                    Record::Append { .. } | Record::Take { .. } => {}
                }
            }
        }
        Ok(true)
    }
}

/// Adds the entries from the next offset to read on. Returns whether there is room for more.
fn take_entries(
    first: PartitionOffset,
    count: u32,
    mut entries: &[u8],
    limit: ReadLimit,
    read: &mut ReadEntries,
    position: Position,
) -> Result<bool, LogError> {
    let corrupt = |offset: PartitionOffset, what: &str| {
        LogError::Corrupt(format!("offset {offset} in the frame at {position}: {what}"))
    };
    let mut offset = first;
    for _ in 0..count {
        let entry =
            seriatim_storage::Entry::size_at(entries).map_err(|bad| corrupt(offset, &bad.to_string()))?;
        if offset >= read.next() {
            if offset > read.next() {
                return Err(corrupt(read.next(), "the entry is missing"));
            }
            if !limit.admits(read, entry) {
                return Ok(false);
            }
            read.push(entries).map_err(|bad| corrupt(offset, &bad.to_string()))?;
        }
        entries = entries.get(entry..).ok_or_else(|| corrupt(offset, "the entry ends too early"))?;
        offset = offset.next().ok_or_else(|| corrupt(offset, "there is no offset after it"))?;
    }
    Ok(true)
}
