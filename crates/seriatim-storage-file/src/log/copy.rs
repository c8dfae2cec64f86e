//! Copying a log up to a frame. Every checksum is verified, and that each frame follows the previous one.
//!
//! Segments are append-only, so the bytes before a committed frame do not change while they are copied. Memory holds one
//! frame or one write, whichever is larger.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::LogError;
use seriatim_types::{Partition, PartitionOffset};

use super::committer::{LogFolder, Segment};
use super::frame::Frame;
use super::frames::Frames;
use super::index::SegmentIndex;
use super::open::open_segment_to_read;
use super::options::LogOptions;
use super::record::Record;
use super::segment::{FIRST_FRAME_AT, Position, SegmentNumber};
use crate::disk::{DiskFile, RealDisk, create_directories};
use crate::space::FreeSpace;

/// Small frames are collected up to this many bytes before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// The copy is synced after every so many bytes, so that the sync of an append never waits for a large sync of the copy.
const SYNC_STEP_BYTES: u64 = 8 << 20;

/// The end of a log: after the frame with this checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEnd {
    pub(crate) segment: u32,
    pub(crate) byte: u64,
    /// 0 if there is no frame.
    pub(crate) checksum: u32,
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopiedLog {
    pub(crate) frames: u64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Each partition with the offset after its last entry.
    pub(crate) tails: Vec<(Partition, PartitionOffset)>,
}

/// What a copy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be kept: the files are as short as possible, and nothing derived is written.
    Keep,
    /// To be used: space is reserved in the last segment, and the full segments get their indexes.
    Use,
}

/// Why a copy failed.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The source is damaged, newer or cannot be read.
    From(LogError),
    /// The copy cannot be written there.
    To(PathBuf, io::Error),
}

impl From<LogError> for CopyError {
    fn from(error: LogError) -> Self {
        Self::From(error)
    }
}

/// The frames of a log up to one of them, in the order of the committer. They do not change any more.
#[derive(Debug)]
pub(crate) struct LogPrefix {
    folder: LogFolder,
    end: LogEnd,
}

impl LogPrefix {
    pub(super) fn new(folder: LogFolder, end: LogEnd) -> Self {
        Self { folder, end }
    }

    /// The frames up to `end` of a log that is not open.
    pub(crate) fn stored(env: &Env, directory: &Path, end: LogEnd) -> Self {
        let space = Arc::new(FreeSpace::new(directory, 0, FreeSpace::system()));
        let (env, disk, directory) = (env.clone(), Arc::new(RealDisk), directory.to_owned());
        Self { folder: LogFolder { env, disk, directory, options: LogOptions::default(), space }, end }
    }

    pub(super) fn folder(&self) -> &LogFolder {
        &self.folder
    }

    pub(crate) fn end(&self) -> LogEnd {
        self.end
    }

    /// An upper bound of the copy's size.
    pub(crate) fn bytes_max(&self) -> Result<u64, LogError> {
        let mut bytes = self.end.byte;
        for number in (1..self.end.segment).map(SegmentNumber) {
            let segment = open_segment_to_read(&self.folder, number)?;
            let length = segment.file.length();
            bytes += length.map_err(|error| unreadable(Position { segment: number, at: 0 }, &error))?;
        }
        Ok(bytes)
    }

    /// Copies the frames into a new folder on the same disk. All of them are durable when this returns. After an error the
    /// folder contains a part of them.
    pub(crate) fn copy(&self, directory: &Path, purpose: Purpose) -> Result<CopiedLog, CopyError> {
        let to = LogFolder { directory: directory.to_owned(), ..self.folder.clone() };
        let created = create_directories(&*to.disk, directory);
        created.map_err(|error| CopyError::To(directory.to_owned(), error))?;
        copy(&self.folder, self.end, &to, purpose)
    }
}

fn copy(from: &LogFolder, end: LogEnd, to: &LogFolder, purpose: Purpose) -> Result<CopiedLog, CopyError> {
    let mut copy = Copy { from, end, to, purpose, frames: 0, entries: 0, bytes: 0 };
    let mut index = SegmentIndex::first();
    loop {
        copy.segment(&mut index)?;
        if index.number.0 == end.segment {
            break;
        }
        if purpose == Purpose::Use {
            to.write_index(&index);
        }
        index = index.following()?;
    }
    let synced = to.disk.sync_directory(&to.directory);
    synced.map_err(|error| CopyError::To(to.directory.clone(), error))?;
    let tails = index.partitions().map(|(partition, held)| (partition, held.tail)).collect();
    Ok(CopiedLog { frames: copy.frames, entries: copy.entries, bytes: copy.bytes, tails })
}

/// A copy in progress.
struct Copy<'a> {
    from: &'a LogFolder,
    end: LogEnd,
    to: &'a LogFolder,
    purpose: Purpose,
    frames: u64,
    entries: u64,
    bytes: u64,
}

impl Copy<'_> {
    /// Copies the segment of this index. The index is empty at first and is filled here.
    fn segment(&mut self, index: &mut SegmentIndex) -> Result<(), CopyError> {
        let number = index.number;
        let segment = open_segment_to_read(self.from, number)?;
        if segment.header.previous_checksum != index.last_checksum {
            let name = number.segment_name();
            return Err(LogError::Corrupt(format!("{name} does not follow the segment before it")).into());
        }
        let path = self.to.path(&number.segment_name());
        let fail = |error| CopyError::To(path.clone(), error);
        let is_last = number.0 == self.end.segment;
        let reserved = if is_last && self.purpose == Purpose::Use { segment.header.reserved } else { 0 };
        let file = self.to.disk.create(&path, reserved).map_err(fail)?;
        let mut output = Output::new(file);
        output.write(&header_page(&segment)?).map_err(fail)?;
        self.frames(&segment, is_last, index, &mut output, &fail)?;
        self.bytes += output.finish().map_err(fail)?;
        Ok(())
    }

    fn frames(
        &mut self,
        segment: &Segment,
        is_last: bool,
        index: &mut SegmentIndex,
        output: &mut Output,
        fail_to: &dyn Fn(io::Error) -> CopyError,
    ) -> Result<(), CopyError> {
        let start = Position { segment: index.number, at: FIRST_FRAME_AT };
        let end = if is_last { Ok(self.end.byte) } else { segment.file.length() };
        let mut frames = Frames::new(segment, start.at, end.map_err(|error| unreadable(start, &error))?);
        while !frames.is_at_end() {
            let position = frames.position();
            let Some(frame) = frames.next().map_err(|error| unreadable(position, &error))? else {
                break;
            };
            self.entries += check_frame(&frame, position, index)?;
            self.frames += 1;
            output.write(frame.bytes()).map_err(fail_to)?;
        }
        Ok(check_end(self.from, self.end, is_last, index)?)
    }
}

/// Checks that a frame follows the one before it, and adds it to the index. Returns how many entries it has.
pub(super) fn check_frame(
    frame: &Frame<'_>,
    position: Position,
    index: &mut SegmentIndex,
) -> Result<u64, LogError> {
    if !frame.follows(index.last_checksum) {
        let what = format!("the frame at {position} does not follow the one before it");
        return Err(LogError::Corrupt(what));
    }
    let mut entries = 0;
    for record in frame.records(position)? {
        let record = record?;
        index.apply(&record, position)?;
        if let Record::Append { count, .. } = record {
            entries += u64::from(count);
        }
    }
    index.last_checksum = frame.checksum();
    index.end = position.at + frame.size() as u64;
    Ok(entries)
}

/// Checks that the frames of a segment end where they must: at the end of the log, or where the next segment continues.
pub(super) fn check_end(
    from: &LogFolder,
    end: LogEnd,
    is_last: bool,
    index: &SegmentIndex,
) -> Result<(), LogError> {
    let at = Position { segment: index.number, at: index.end };
    let complete = if is_last {
        if index.end == end.byte && index.last_checksum != end.checksum {
            return Err(LogError::Corrupt(format!("the frame that ends at {at} is not the last one")));
        }
        index.end == end.byte
    } else {
        let next = open_segment_to_read(from, index.number.next()?)?;
        next.header.previous_checksum == index.last_checksum
    };
    let damaged = || LogError::Corrupt(format!("there is no complete frame at {at}: the segment is damaged"));
    if complete { Ok(()) } else { Err(damaged()) }
}

/// The bytes before the first frame, unchanged: a copy has the format of its source.
fn header_page(segment: &Segment) -> Result<Vec<u8>, LogError> {
    let mut page = vec![0; usize::try_from(FIRST_FRAME_AT).unwrap_or(0)];
    let position = Position { segment: segment.header.number, at: 0 };
    match segment.file.read_at(&mut page, 0) {
        Ok(read) if read == page.len() => Ok(page),
        Ok(_) => Err(LogError::Corrupt(format!("the header at {position} ends early"))),
        Err(error) => Err(unreadable(position, &error)),
    }
}

pub(super) fn unreadable(position: Position, error: &io::Error) -> LogError {
    LogError::Unavailable(format!("cannot read at {position}: {error}"))
}

/// A file that is written from its beginning.
pub(super) struct Output {
    file: Arc<dyn DiskFile>,
    /// Bytes that are not written yet.
    buffered: Vec<u8>,
    /// The position of `buffered` in the file.
    at: u64,
    synced: u64,
}

impl Output {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, buffered: Vec::with_capacity(WRITE_BYTES), at: 0, synced: 0 }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffered.len() + bytes.len() > WRITE_BYTES {
            self.write_buffered()?;
        }
        self.buffered.extend_from_slice(bytes);
        Ok(())
    }

    fn write_buffered(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffered, self.at)?;
        self.at += self.buffered.len() as u64;
        self.buffered.clear();
        if self.at - self.synced >= SYNC_STEP_BYTES {
            self.file.sync()?;
            self.synced = self.at;
        }
        Ok(())
    }

    /// Makes all of it durable. Returns the length.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.write_buffered()?;
        self.file.sync()?;
        Ok(self.at)
    }
}
