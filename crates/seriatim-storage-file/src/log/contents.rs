//! Reading a log from its first frame to its last, with every check of a copy.

use seriatim_storage::{Holder, LogError, Take};
use seriatim_types::{Epoch, Partition, PartitionOffset};

use super::committer::Segment;
use super::copy::{LogPrefix, check_end, check_frame, unreadable};
use super::frames::Frames;
use super::index::SegmentIndex;
use super::open::open_segment_to_read;
use super::record::Record;
use super::segment::FIRST_FRAME_AT;

/// What one record of a log contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// A partition was taken.
    Take { partition: Partition, epoch: Epoch, take: Take },
    /// Entries of a partition from `first` on, encoded one after the other.
    Append { partition: Partition, first: PartitionOffset, entries: Vec<u8> },
}

/// Reads the records of a log in order, some at a time.
#[derive(Debug)]
pub(crate) struct Contents {
    prefix: LogPrefix,
    index: SegmentIndex,
    segment: Option<Segment>,
    done: bool,
    /// How many frames and entries were read.
    pub(crate) frames: u64,
    pub(crate) entries: u64,
}

impl Contents {
    pub(crate) fn new(prefix: LogPrefix) -> Self {
        let index = SegmentIndex::first();
        Self { prefix, index, segment: None, done: false, frames: 0, entries: 0 }
    }

    /// How each partition is held after what was read, with the offset after its last entry.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (Partition, seriatim_storage::Held)> {
        self.index.partitions()
    }

    /// The records of the next frames, about so many bytes of entries; none after the last frame.
    pub(crate) fn next(&mut self, bytes: usize) -> Result<Vec<Content>, LogError> {
        let mut contents = Vec::new();
        let mut size = 0;
        while !self.done && size < bytes {
            let segment = match self.segment.take() {
                Some(segment) => segment,
                None => self.open()?,
            };
            let is_last = self.index.number.0 == self.prefix.end().segment;
            size += self.frames(&segment, is_last, bytes - size, &mut contents)?;
            if size < bytes {
                check_end(self.prefix.folder(), self.prefix.end(), is_last, &self.index)?;
                if is_last {
                    self.done = true;
                } else {
                    self.index = self.index.following()?;
                    continue;
                }
            }
            self.segment = Some(segment);
        }
        Ok(contents)
    }

    fn open(&mut self) -> Result<Segment, LogError> {
        let number = self.index.number;
        let segment = open_segment_to_read(self.prefix.folder(), number)?;
        if segment.header.previous_checksum != self.index.last_checksum {
            let name = number.segment_name();
            return Err(LogError::Corrupt(format!("{name} does not follow the segment before it")));
        }
        self.index.end = FIRST_FRAME_AT;
        Ok(segment)
    }

    /// Reads frames of a segment up to its end, or until there are so many bytes. Returns how many there are.
    fn frames(
        &mut self,
        segment: &Segment,
        is_last: bool,
        bytes: usize,
        contents: &mut Vec<Content>,
    ) -> Result<usize, LogError> {
        let start = super::segment::Position { segment: self.index.number, at: self.index.end };
        let end = if is_last { Ok(self.prefix.end().byte) } else { segment.file.length() };
        let end = end.map_err(|error| unreadable(start, &error))?;
        let mut frames = Frames::new(segment, start.at, end);
        let mut size = 0;
        while !frames.is_at_end() && size < bytes {
            let position = frames.position();
            let Some(frame) = frames.next().map_err(|error| unreadable(position, &error))? else {
                break;
            };
            self.entries += check_frame(&frame, position, &mut self.index)?;
            self.frames += 1;
            for record in frame.records(position)? {
                contents.push(match record? {
                    Record::Take { partition, epoch, id, holder } => {
                        Content::Take { partition, epoch, take: Take::new(Holder::new(holder), id) }
                    }
                    Record::Append { partition, first, entries, .. } => {
                        size += entries.len();
                        Content::Append { partition, first, entries: entries.to_vec() }
                    }
                });
            }
        }
        Ok(size)
    }
}
