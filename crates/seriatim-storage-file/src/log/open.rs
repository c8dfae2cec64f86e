//! Opening a log: finding the last frame, and removing a torn one.
//!
//! Frames are synced one by one, so only the last one can be torn. Bytes that are not a complete frame end the log, unless
//! another frame was begun after them: then they were a durable frame once, and are damaged. Damage to the last frame
//! cannot be distinguished from a torn frame.

use std::io;
use std::sync::Arc;

use seriatim_storage::LogError;

use super::committer::{LogFolder, Segment};
use super::frame::FRAME_ALIGNMENT;
use super::frames::Frames;
use super::index::SegmentIndex;
use super::segment::{FIRST_FRAME_AT, Position, SegmentHeader, SegmentNumber};
use crate::disk::{DiskFile, create_directories};

/// How much of a file is searched at once.
const CHUNK_BYTES: usize = 1 << 20;

/// An opened log, ready for appends.
#[derive(Debug)]
pub(super) struct OpenedLog {
    pub(super) segment: Segment,
    pub(super) index: SegmentIndex,
    /// The length of a torn frame that was removed.
    pub(super) cut_bytes: u64,
}

fn unavailable(what: &str, folder: &LogFolder, error: &io::Error) -> LogError {
    LogError::Unavailable(format!("{what} in {}: {error}", folder.directory.display()))
}

fn missing(folder: &LogFolder, number: SegmentNumber) -> LogError {
    LogError::Corrupt(format!("{} is missing from {}", number.segment_name(), folder.directory.display()))
}

/// Whether a log may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// No log in the folder was ever opened successfully, so nothing was ever appended: a log may be created.
    CreateIfMissing,
    /// There was a log. If there are no segments, they are lost.
    MustExist,
}

/// Opens the log in its folder, or creates one if `mode` allows it.
pub(super) fn open(folder: &LogFolder, mode: OpenMode) -> Result<OpenedLog, LogError> {
    let fail = |error| unavailable("cannot open the log", folder, &error);
    create_directories(&*folder.disk, &folder.directory).map_err(fail)?;
    let names = folder.disk.list(&folder.directory).map_err(fail)?;
    for name in names.iter().filter(|name| name.ends_with(".segment.new")) {
        folder.disk.remove(&folder.path(name)).map_err(fail)?;
    }
    let mut numbers: Vec<_> = names.iter().filter_map(|name| SegmentNumber::of_segment(name)).collect();
    numbers.sort();
    let Some(&last) = numbers.last() else {
        if mode == OpenMode::MustExist {
            return Err(LogError::Corrupt(format!(
                "there are no segments in {}, and there was a log: put them back, or restore a backup. If nothing was ever \
                 written to it, remove the storage's folder",
                folder.directory.display()
            )));
        }
        let index = SegmentIndex::first();
        let segment = folder.create_segment(index.number, 0, 0);
        let segment =
            segment.map_err(|failure| unavailable("cannot create the log", folder, failure.error()))?;
        return Ok(OpenedLog { segment, index, cut_bytes: 0 });
    };
    let mut expected = SegmentNumber::FIRST;
    for number in numbers {
        if number != expected {
            return Err(missing(folder, expected));
        }
        if number < last {
            let indexed = names.contains(&number.index_name());
            if !indexed {
                rebuild_index(folder, number)?;
            }
            expected = number.next()?;
        }
    }
    open_last(folder, last)
}

/// Opens a segment file.
pub(super) fn open_segment(folder: &LogFolder, number: SegmentNumber) -> Result<Segment, LogError> {
    read_header(folder, number, folder.disk.open(&folder.path(&number.segment_name())))
}

/// Opens a segment file for reading only.
pub(super) fn open_segment_to_read(folder: &LogFolder, number: SegmentNumber) -> Result<Segment, LogError> {
    read_header(folder, number, folder.disk.open_to_read(&folder.path(&number.segment_name())))
}

fn read_header(
    folder: &LogFolder,
    number: SegmentNumber,
    file: io::Result<Arc<dyn DiskFile>>,
) -> Result<Segment, LogError> {
    let fail = |error: io::Error| {
        let name = number.segment_name();
        if error.kind() == io::ErrorKind::NotFound {
            return missing(folder, number);
        }
        unavailable(&format!("cannot open {name}"), folder, &error)
    };
    let file = file.map_err(fail)?;
    let mut bytes = vec![0; 64];
    let read = file.read_at(&mut bytes, 0).map_err(fail)?;
    let header = SegmentHeader::decode(number, &bytes[..read])?;
    Ok(Segment { header, file })
}

/// The index of a full segment, read from its file or rebuilt.
pub(super) fn load_index(folder: &LogFolder, number: SegmentNumber) -> Result<SegmentIndex, LogError> {
    let read = || -> io::Result<Vec<u8>> {
        let file = folder.disk.open(&folder.path(&number.index_name()))?;
        let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    };
    let found = read().ok().and_then(|bytes| SegmentIndex::decode(number, &bytes));
    found.map_or_else(|| rebuild_index(folder, number), Ok)
}

/// The index at the beginning of a segment: the partitions as the previous segment left them.
fn index_before(folder: &LogFolder, number: SegmentNumber) -> Result<SegmentIndex, LogError> {
    match number.previous() {
        None => Ok(SegmentIndex::first()),
        Some(previous) => load_index(folder, previous)?.following(),
    }
}

/// Reads a full segment and writes its index.
fn rebuild_index(folder: &LogFolder, number: SegmentNumber) -> Result<SegmentIndex, LogError> {
    let segment = open_segment(folder, number)?;
    let scanned = scan(folder, &segment, index_before(folder, number)?)?;
    let next = open_segment(folder, number.next()?)?;
    let index = scanned.index;
    if next.header.previous_checksum != index.last_checksum {
        let at = Position { segment: number, at: index.end };
        return Err(LogError::Corrupt(format!(
            "{} does not follow the frame that ends at {at}: frames are missing or damaged",
            next.header.number.segment_name()
        )));
    }
    folder.write_index(&index);
    Ok(index)
}

/// A segment, read up to its last complete frame.
struct ScannedSegment {
    index: SegmentIndex,
    /// Where the last frame begins.
    last_frame: Option<u64>,
}

fn scan(folder: &LogFolder, segment: &Segment, mut index: SegmentIndex) -> Result<ScannedSegment, LogError> {
    let name = segment.header.number.segment_name();
    if segment.header.previous_checksum != index.last_checksum {
        return Err(LogError::Corrupt(format!("{name} does not follow the previous segment")));
    }
    let fail = |error| unavailable(&format!("cannot read {name}"), folder, &error);
    let length = segment.file.length().map_err(fail)?;
    let mut frames = Frames::new(segment, FIRST_FRAME_AT, length);
    let mut last_frame = None;
    loop {
        let position = frames.position();
        let Some(frame) = frames.next().map_err(fail)? else {
            break;
        };
        if !frame.follows(index.last_checksum) {
            return Err(LogError::Corrupt(format!(
                "the frame at {position} does not follow the previous one"
            )));
        }
        for record in frame.records(position)? {
            index.apply(&record?, position)?;
        }
        index.last_checksum = frame.checksum();
        index.end = position.at + frame.size() as u64;
        last_frame = Some(position.at);
    }
    Ok(ScannedSegment { index, last_frame })
}

fn open_last(folder: &LogFolder, number: SegmentNumber) -> Result<OpenedLog, LogError> {
    let segment = open_segment(folder, number)?;
    let ScannedSegment { index, last_frame } = scan(folder, &segment, index_before(folder, number)?)?;
    let fail = |error| unavailable("cannot repair the end of the log", folder, &error);
    let end = Position { segment: number, at: index.end };
    let garbage_end = search_after_end(&segment, end).map_err(fail)?;
    let garbage_end = garbage_end.map_err(|follows| {
        LogError::Corrupt(format!(
            "there is no complete frame at {end}, but another frame begins after it at {follows}: the segment is damaged"
        ))
    })?;
    let cut_bytes = garbage_end.saturating_sub(end.at);
    make_durable(&segment, last_frame, end.at, garbage_end).map_err(fail)?;
    Ok(OpenedLog { segment, index, cut_bytes })
}

/// Searches the bytes after the last complete frame. Returns the end of the last byte that is not zero, or, as an error, the
/// position where another frame begins.
///
/// The segment's mark shows that: a frame is begun only when the previous one is durable, and only the beginning of a frame
/// has the mark. Whether that frame is complete does not matter.
fn search_after_end(segment: &Segment, end: Position) -> io::Result<Result<u64, Position>> {
    let length = segment.file.length()?;
    let mark = segment.header.mark.to_be_bytes();
    let (mut at, mut garbage_end) = (end.at, end.at);
    let (mut chunk, zeros) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    while at < length {
        let read = segment.file.read_at(&mut chunk, at)?;
        if read == 0 {
            break;
        }
        let bytes = &chunk[..read];
        // Nearly always all bytes are zero, which one comparison shows.
        let last = if *bytes == zeros[..read] { None } else { bytes.iter().rposition(|byte| *byte != 0) };
        if let Some(last) = last {
            garbage_end = at + last as u64 + 1;
            for (step, word) in bytes.chunks(FRAME_ALIGNMENT).enumerate() {
                let position = Position { segment: end.segment, at: at + (step * FRAME_ALIGNMENT) as u64 };
                if word == mark && position > end {
                    return Ok(Err(position));
                }
            }
        }
        at += read as u64;
    }
    Ok(Ok(garbage_end))
}

/// Makes the last frame durable, and overwrites a torn one with zeros.
///
/// The last complete frame may be only in the page cache: the process may have been killed before the sync, or the sync may
/// have failed, after which Linux calls the page clean. Only writing and syncing it again proves that it is on the disk.
fn make_durable(segment: &Segment, last_frame: Option<u64>, end: u64, garbage_end: u64) -> io::Result<()> {
    if let Some(start) = last_frame {
        let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
        segment.file.read_at(&mut bytes, start)?;
        segment.file.write_at(&bytes, start)?;
    }
    let zeros = vec![0; CHUNK_BYTES];
    let mut at = end;
    while at < garbage_end {
        let part = usize::try_from(garbage_end - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        segment.file.write_at(&zeros[..part], at)?;
        at += part as u64;
    }
    segment.file.sync()
}
