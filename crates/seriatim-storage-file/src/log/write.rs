//! Writing the files of a log that is stored elsewhere: segments of frames, as the committer writes them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{Held, LogError};
use seriatim_types::{Partition, PartitionOffset};

use super::committer::LogFolder;
use super::copy::{CopiedLog, CopyError, LogEnd, Output};
use super::frame::{FRAME_HEADER_BYTES, finish};
use super::index::SegmentIndex;
use super::options::LogOptions;
use super::record::{encode_append_bytes, encode_take};
use super::segment::{FIRST_FRAME_AT, Position, SegmentHeader};
use crate::disk::{RealDisk, create_directories};
use crate::space::FreeSpace;

/// Writes a log into an empty folder, one frame after the other. Nothing is durable before [`LogWriter::finish`].
pub(crate) struct LogWriter {
    folder: LogFolder,
    header: SegmentHeader,
    output: Output,
    /// What has been written so far.
    index: SegmentIndex,
    frames: u64,
    entries: u64,
    /// The length of the segments before the present one.
    bytes: u64,
}

impl LogWriter {
    /// Begins a log in a folder, with its first segment.
    pub(crate) fn create(env: &Env, directory: &Path) -> Result<Self, CopyError> {
        let space = Arc::new(FreeSpace::new(directory, 0, FreeSpace::system()));
        let (env, disk, options) = (env.clone(), Arc::new(RealDisk), LogOptions::default());
        let folder = LogFolder { env, disk, directory: directory.to_owned(), options, space };
        let created = create_directories(&*folder.disk, directory);
        created.map_err(|error| CopyError::To(directory.to_owned(), error))?;
        let index = SegmentIndex::first();
        let (header, output) = begin_segment(&folder, &index, 0)?;
        Ok(Self { folder, header, output, index, frames: 0, entries: 0, bytes: 0 })
    }

    /// Writes how partitions are held.
    pub(crate) fn takes<'a>(
        &mut self,
        held: impl Iterator<Item = (&'a Partition, &'a Held)>,
    ) -> Result<(), CopyError> {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        for (partition, held) in held {
            encode_take(&mut frame, *partition, held.epoch, &held.take);
            self.index.take(*partition, held.epoch, held.take.clone());
        }
        if frame.len() > FRAME_HEADER_BYTES { self.write(frame).map(drop) } else { Ok(()) }
    }

    /// Writes entries of a partition, encoded one after the other, as one frame. They must follow those before.
    pub(crate) fn append(
        &mut self,
        partition: Partition,
        first: PartitionOffset,
        count: u32,
        entries: &[u8],
    ) -> Result<(), CopyError> {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        encode_append_bytes(&mut frame, partition, first, count, entries);
        let position = self.write(frame)?;
        let end =
            || LogError::Corrupt(format!("partition {partition} has more entries than there are offsets"));
        let next = first.advance(count.into()).ok_or_else(end)?;
        self.index.append(partition, first, next, position)?;
        self.entries += u64::from(count);
        Ok(())
    }

    fn write(&mut self, mut frame: Vec<u8>) -> Result<Position, CopyError> {
        let size = frame.len().next_multiple_of(super::frame::FRAME_ALIGNMENT);
        if self.index.end + size as u64 > self.header.reserved && self.index.end > FIRST_FRAME_AT {
            self.roll(size)?;
        }
        let position = Position { segment: self.index.number, at: self.index.end };
        self.index.last_checksum = finish(&mut frame, self.header.mark, self.index.last_checksum, position);
        self.index.end += frame.len() as u64;
        self.frames += 1;
        let path = segment_path(&self.folder, &self.index);
        self.output.write(&frame).map_err(|error| CopyError::To(path, error))?;
        Ok(position)
    }

    fn roll(&mut self, frame_bytes: usize) -> Result<(), CopyError> {
        let path = segment_path(&self.folder, &self.index);
        self.index = self.index.following()?;
        let (header, output) = begin_segment(&self.folder, &self.index, frame_bytes)?;
        let full = std::mem::replace(&mut self.output, output);
        self.header = header;
        self.bytes += full.finish().map_err(|error| CopyError::To(path, error))?;
        Ok(())
    }

    /// Makes everything durable. Returns where the log ends, and what it contains.
    pub(crate) fn finish(self) -> Result<(LogEnd, CopiedLog), CopyError> {
        let Self { folder, output, index, frames, entries, bytes, .. } = self;
        let path = segment_path(&folder, &index);
        let bytes = bytes + output.finish().map_err(|error| CopyError::To(path, error))?;
        let synced = folder.disk.sync_directory(&folder.directory);
        synced.map_err(|error| CopyError::To(folder.directory.clone(), error))?;
        let end = LogEnd { segment: index.number.0, byte: index.end, checksum: index.last_checksum };
        let tails = index.partitions().map(|(partition, held)| (partition, held.tail)).collect();
        Ok((end, CopiedLog { frames, entries, bytes, tails }))
    }
}

fn segment_path(folder: &LogFolder, index: &SegmentIndex) -> PathBuf {
    folder.path(&index.number.segment_name())
}

/// Creates the file of a segment and writes its header.
fn begin_segment(
    folder: &LogFolder,
    index: &SegmentIndex,
    frame_bytes: usize,
) -> Result<(SegmentHeader, Output), CopyError> {
    let path = segment_path(folder, index);
    let reserved = u64::from(folder.options.segment_bytes).max(FIRST_FRAME_AT + frame_bytes as u64);
    let header = SegmentHeader {
        number: index.number,
        previous_checksum: index.last_checksum,
        mark: folder.env.random(),
        reserved,
    };
    let begin = || -> io::Result<Output> {
        let mut output = Output::new(folder.disk.create(&path, 0)?);
        let mut page = header.encode();
        page.resize(usize::try_from(FIRST_FRAME_AT).map_err(io::Error::other)?, 0);
        output.write(&page)?;
        Ok(output)
    };
    let output = begin().map_err(|error| CopyError::To(path.clone(), error))?;
    Ok((header, output))
}
