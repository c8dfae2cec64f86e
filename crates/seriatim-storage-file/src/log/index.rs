//! Where the entries of each partition are in a segment. The index is derived: it can be rebuilt from the segment's frames.
//!
//! It is in memory for the segment that is being written, and in a file next to each full segment. The file is written once
//! and not synced. If its checksum does not match, it is rebuilt from the segment.
//!
//! ```text
//! offset  size  field
//!      0     8  "SERIAIDX"
//!      8     4  checksum: CRC-32 of everything after this field
//!     12     4  format version, 2
//!     16     4  number of the segment
//!     20     4  checksum of its last frame
//!     24     8  where its last frame ends
//!     32     4  number of partitions, then for each of them, ascending:
//!            4  application
//!            2  partition
//!            8  epoch at the end of the segment
//!            8  tail at the end of the segment
//!            8  id of the take that raised the epoch
//!            1  length of its holder's name, then the name
//!            4  number of points, then for each of them, ascending:
//!                  8  an offset of the partition
//!                  4  the byte where the frame with that offset begins
//! ```
//!
//! Version 1 has neither the id of the take nor the name. It is read, so that a log of that version is not read as a whole
//! when it is opened.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, TryGetError};
use seriatim_storage::{Held, Holder, LogError, Take};
use seriatim_types::{ApplicationId, Epoch, Partition, PartitionId, PartitionOffset};

use super::record::{Record, get_take, put_take, unnamed_take};
use super::segment::{FIRST_FRAME_AT, LOG_VERSION, Position, SegmentNumber};

const MAGIC: &[u8; 8] = b"SERIAIDX";

/// A partition gets another point when its last one is this many bytes before. So a read skips at most this many bytes.
const POINT_STEP_BYTES: u64 = 64 << 10;

/// The partitions at the end of a segment, and where in it their entries are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SegmentIndex {
    pub(super) number: SegmentNumber,
    /// Checksum of the last frame, of an earlier segment if this one has none yet.
    pub(super) last_checksum: u32,
    /// Where the last frame ends.
    pub(super) end: u64,
    partitions: BTreeMap<Partition, PartitionIndex>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PartitionIndex {
    epoch: Epoch,
    /// What raised the epoch.
    take: Take,
    tail: PartitionOffset,
    points: Vec<Point>,
}

/// The frame at byte `at` has the entry at `offset`. All earlier entries of the partition in this segment are before `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    offset: PartitionOffset,
    at: u32,
}

impl SegmentIndex {
    /// The index of the first segment while it is empty.
    pub(super) fn first() -> Self {
        let (number, partitions) = (SegmentNumber::FIRST, BTreeMap::new());
        Self { number, last_checksum: 0, end: FIRST_FRAME_AT, partitions }
    }

    /// The index of the next segment while it is empty.
    pub(super) fn following(&self) -> Result<Self, LogError> {
        let carried = |index: &PartitionIndex| PartitionIndex {
            epoch: index.epoch,
            take: index.take.clone(),
            tail: index.tail,
            points: Vec::new(),
        };
        Ok(Self {
            number: self.number.next()?,
            last_checksum: self.last_checksum,
            end: FIRST_FRAME_AT,
            partitions: self
                .partitions
                .iter()
                .map(|(partition, index)| (*partition, carried(index)))
                .collect(),
        })
    }

    /// Each partition, and how it is held at the end of this segment.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (Partition, Held)> {
        let held =
            |index: &PartitionIndex| Held { epoch: index.epoch, take: index.take.clone(), tail: index.tail };
        self.partitions.iter().map(move |(partition, index)| (*partition, held(index)))
    }

    /// The tail of a partition at the end of this segment.
    pub(super) fn tail(&self, partition: Partition) -> PartitionOffset {
        self.partitions.get(&partition).map_or(PartitionOffset::FIRST, |index| index.tail)
    }

    /// The byte from which to read entries at and after `from`; `None` if the segment has none of them.
    pub(super) fn locate(&self, partition: Partition, from: PartitionOffset) -> Option<u64> {
        let index = self.partitions.get(&partition).filter(|index| from < index.tail)?;
        let after = index.points.partition_point(|point| point.offset <= from);
        let point = index.points.get(after.saturating_sub(1))?;
        Some(u64::from(point.at))
    }

    /// Records a raised epoch.
    pub(super) fn take(&mut self, partition: Partition, epoch: Epoch, take: Take) {
        match self.partitions.get_mut(&partition) {
            Some(index) => (index.epoch, index.take) = (epoch, take),
            None => {
                let (tail, points) = (PartitionOffset::FIRST, Vec::new());
                self.partitions.insert(partition, PartitionIndex { epoch, take, tail, points });
            }
        }
    }

    /// Records entries from `first` up to `next` in the frame at `position`. They must follow the tail.
    pub(super) fn append(
        &mut self,
        partition: Partition,
        first: PartitionOffset,
        next: PartitionOffset,
        position: Position,
    ) -> Result<(), LogError> {
        let corrupt = |what: &str| LogError::Corrupt(format!("the frame at {position} {what}"));
        let Some(index) = self.partitions.get_mut(&partition) else {
            return Err(corrupt(&format!("has entries of partition {partition}, which was never taken")));
        };
        if index.tail != first {
            let tail = index.tail;
            return Err(corrupt(&format!(
                "has entries from {first} on, and partition {partition} ends at {tail}"
            )));
        }
        index.tail = next;
        let at = u32::try_from(position.at).map_err(|_| corrupt("begins after 4 GiB"))?;
        let far = |last: &Point| position.at - u64::from(last.at) >= POINT_STEP_BYTES;
        if index.points.last().is_none_or(far) {
            index.points.push(Point { offset: first, at });
        }
        Ok(())
    }

    /// Records what a record of the frame at `position` says.
    pub(super) fn apply(&mut self, record: &Record<'_>, position: Position) -> Result<(), LogError> {
        match *record {
            Record::Take { partition, epoch, id, holder } => {
                self.take(partition, epoch, Take::new(Holder::new(holder), id));
                Ok(())
            }
            Record::Append { partition, first, count, .. } => {
                let end = || {
                    LogError::Corrupt(format!(
                        "the frame at {position} has more entries than there are offsets"
                    ))
                };
                let next = first.advance(u64::from(count)).ok_or_else(end)?;
                self.append(partition, first, next, position)
            }
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let count = |length: usize| u32::try_from(length).expect("a segment is shorter than 4 GiB");
        let mut bytes = Vec::new();
        bytes.put_slice(MAGIC);
        bytes.put_u32(0);
        bytes.put_u32(LOG_VERSION);
        bytes.put_u32(self.number.0);
        bytes.put_u32(self.last_checksum);
        bytes.put_u64(self.end);
        bytes.put_u32(count(self.partitions.len()));
        for (partition, index) in &self.partitions {
            bytes.put_u32(partition.application.get());
            bytes.put_u16(partition.id.get());
            bytes.put_u64(index.epoch.get());
            bytes.put_u64(index.tail.get());
            put_take(&mut bytes, &index.take);
            bytes.put_u32(count(index.points.len()));
            for point in &index.points {
                bytes.put_u64(point.offset.get());
                bytes.put_u32(point.at);
            }
        }
        let checksum = crc32fast::hash(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads the index of this segment; `None` if it cannot be trusted. Then it is rebuilt.
    pub(super) fn decode(number: SegmentNumber, bytes: &[u8]) -> Option<Self> {
        let checked = bytes.get(12..).filter(|_| bytes.starts_with(MAGIC))?;
        let mut fields = &bytes[8..];
        if fields.get_u32() != crc32fast::hash(checked) {
            return None;
        }
        let index = Self::decode_checked(&mut fields).ok().flatten()?;
        (index.number == number && fields.is_empty()).then_some(index)
    }

    fn decode_checked(fields: &mut &[u8]) -> Result<Option<Self>, TryGetError> {
        let version = fields.try_get_u32()?;
        if version > LOG_VERSION {
            return Ok(None);
        }
        let number = SegmentNumber(fields.try_get_u32()?);
        let (last_checksum, end) = (fields.try_get_u32()?, fields.try_get_u64()?);
        let mut partitions = BTreeMap::new();
        for _ in 0..fields.try_get_u32()? {
            let application = ApplicationId::new(fields.try_get_u32()?);
            let id = PartitionId::new(fields.try_get_u16()?);
            let (epoch, tail) =
                (Epoch::new(fields.try_get_u64()?), PartitionOffset::new(fields.try_get_u64()?));
            let take = match version {
                1 => Ok(unnamed_take()),
                _ => get_take(fields).map(|(id, holder)| Take::new(Holder::new(holder), id)),
            };
            let mut points = Vec::new();
            for _ in 0..fields.try_get_u32()? {
                let (offset, at) = (PartitionOffset::new(fields.try_get_u64()?), fields.try_get_u32()?);
                let Some(offset) = offset else { return Ok(None) };
                points.push(Point { offset, at });
            }
            let (Some(epoch), Some(tail), Ok(take)) = (epoch, tail, take) else {
                return Ok(None);
            };
            partitions.insert(Partition { application, id }, PartitionIndex { epoch, take, tail, points });
        }
        Ok(Some(Self { number, last_checksum, end, partitions }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offset(value: u64) -> PartitionOffset {
        PartitionOffset::new(value).unwrap()
    }

    fn at(at: u64) -> Position {
        Position { segment: SegmentNumber(1), at }
    }

    const PARTITION: Partition = Partition::new(1, 0);

    #[test]
    fn a_point_leads_to_the_frame_of_an_offset_or_one_before_it() {
        let mut index = SegmentIndex::first();
        index.take(PARTITION, Epoch::FIRST, unnamed_take());
        index.append(PARTITION, offset(1), offset(5), at(4_096)).unwrap();
        index.append(PARTITION, offset(5), offset(9), at(5_000)).unwrap();
        index.append(PARTITION, offset(9), offset(10), at(4_096 + POINT_STEP_BYTES)).unwrap();
        let table = [(1, Some(4_096)), (5, Some(4_096)), (8, Some(4_096)), (9, Some(69_632)), (10, None)];
        for (from, found) in table {
            assert_eq!(index.locate(PARTITION, offset(from)), found, "{from}");
        }
        assert_eq!(index.locate(Partition::new(2, 0), offset(1)), None);
        // An offset before the first point of the next segment is searched from that first point on.
        let mut next = index.following().unwrap();
        assert_eq!(next.locate(PARTITION, offset(9)), None);
        next.append(PARTITION, offset(10), offset(11), at(4_096)).unwrap();
        assert_eq!(next.locate(PARTITION, offset(10)), Some(4_096));
    }

    #[test]
    fn an_index_of_version_1_has_no_names() {
        let mut index = SegmentIndex::first();
        index.take(PARTITION, Epoch::FIRST, unnamed_take());
        index.append(PARTITION, offset(1), offset(5), at(4_096)).unwrap();
        let mut bytes = index.encode();
        // Between the partition's tail and the number of its points: an id of zeros, and no name.
        let take = bytes.len() - 16 - 9..bytes.len() - 16;
        assert_eq!(bytes[take.clone()], [0; 9]);
        bytes.drain(take);
        bytes[12..16].copy_from_slice(&1_u32.to_be_bytes());
        let checksum = crc32fast::hash(&bytes[12..]);
        bytes[8..12].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(SegmentIndex::decode(SegmentNumber(1), &bytes), Some(index));
    }

    #[test]
    fn entries_that_do_not_follow_the_tail_are_damage() {
        let mut index = SegmentIndex::first();
        let error = index.append(PARTITION, offset(1), offset(2), at(4_096)).unwrap_err();
        assert!(error.to_string().contains("partition 1/0, which was never taken"), "{error}");
        index.take(PARTITION, Epoch::FIRST, unnamed_take());
        let error = index.append(PARTITION, offset(2), offset(3), at(4_096)).unwrap_err();
        assert!(error.to_string().contains("has entries from 2 on, and partition 1/0 ends at 1"), "{error}");
    }

    proptest! {
        #[test]
        fn an_index_reads_back_as_it_was_written(
            appends in prop::collection::vec((0..3_u16, 1..50_u64, 0..200_000_u64), 0..40), name: String, flip: usize,
        ) {
            let mut index = SegmentIndex::first();
            let mut position = 4_096;
            for (id, count, step) in appends {
                let partition = Partition::new(7, id);
                index.take(partition, Epoch::new(count).unwrap(), Take::new(Holder::new(&name), count));
                let tail = index.tail(partition);
                index.append(partition, tail, tail.advance(count).unwrap(), at(position)).unwrap();
                position += step;
            }
            let mut bytes = index.encode();
            prop_assert_eq!(SegmentIndex::decode(SegmentNumber(1), &bytes), Some(index));
            prop_assert_eq!(SegmentIndex::decode(SegmentNumber(2), &bytes), None);
            let flip = flip % (bytes.len() * 8);
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(SegmentIndex::decode(SegmentNumber(1), &bytes), None);
        }
    }
}
