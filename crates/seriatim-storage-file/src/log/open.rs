//! Opening: what the files say is there.
//!
//! Frames are synced one by one, so at most the last one can be torn. What is not a whole frame ends the log, unless another
//! frame was begun somewhere after it: then it was durable once, and something has damaged it. Damage to the very last
//! frame looks like a torn one and cannot be told apart.

use std::io;
use std::sync::Arc;

use seriatim_storage::LogError;

use super::committer::{Place, Segment};
use super::frame::FRAME_ALIGNMENT;
use super::frames::Frames;
use super::index::SegmentIndex;
use super::segment::{FIRST_FRAME_AT, Position, SegmentHeader, SegmentNumber};
use crate::disk::{DiskFile, create_directories};

/// How much of a file is looked through at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The log as it was found, ready to go on.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) segment: Segment,
    pub(super) index: SegmentIndex,
    /// Bytes of a torn frame that were cut.
    pub(super) cut_bytes: u64,
}

fn unavailable(what: &str, place: &Place, error: &io::Error) -> LogError {
    LogError::Unavailable(format!("{what} in {}: {error}", place.directory.display()))
}

fn missing(place: &Place, number: SegmentNumber) -> LogError {
    LogError::Corrupt(format!("{} is missing from {}", number.segment_name(), place.directory.display()))
}

/// What is known about the folder of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// No log in it has been opened successfully, so nothing was ever appended: one may be made there.
    Nothing,
    /// There was a log. If it has no segments, they are lost.
    Log,
}

/// Opens the log in its folder, or makes one there if there was none before.
pub(super) fn open(place: &Place, before: Before) -> Result<Opened, LogError> {
    let fail = |error| unavailable("cannot open the log", place, &error);
    create_directories(&*place.disk, &place.directory).map_err(fail)?;
    let names = place.disk.list(&place.directory).map_err(fail)?;
    for name in names.iter().filter(|name| name.ends_with(".segment.new")) {
        place.disk.remove(&place.path(name)).map_err(fail)?;
    }
    let mut numbers: Vec<_> = names.iter().filter_map(|name| SegmentNumber::of_segment(name)).collect();
    numbers.sort();
    let Some(&last) = numbers.last() else {
        if before == Before::Log {
            return Err(LogError::Corrupt(format!(
                "no segments are in {}, and there was a log: put them back, or restore a backup. If nothing was ever \
                 written to it, remove the storage's folder",
                place.directory.display()
            )));
        }
        let index = SegmentIndex::first();
        let segment = place.create_segment(index.number, 0, 0);
        let segment =
            segment.map_err(|failure| unavailable("cannot begin the log", place, failure.error()))?;
        return Ok(Opened { segment, index, cut_bytes: 0 });
    };
    let mut expected = SegmentNumber::FIRST;
    for number in numbers {
        if number != expected {
            return Err(missing(place, expected));
        }
        if number < last {
            let indexed = names.contains(&number.index_name());
            if !indexed {
                rebuild_index(place, number)?;
            }
            expected = number.next()?;
        }
    }
    open_last(place, last)
}

/// Opens a segment file.
pub(super) fn open_segment(place: &Place, number: SegmentNumber) -> Result<Segment, LogError> {
    read_header(place, number, place.disk.open(&place.path(&number.segment_name())))
}

/// Opens a segment file for reading only.
pub(super) fn open_segment_to_read(place: &Place, number: SegmentNumber) -> Result<Segment, LogError> {
    read_header(place, number, place.disk.open_to_read(&place.path(&number.segment_name())))
}

fn read_header(
    place: &Place,
    number: SegmentNumber,
    file: io::Result<Arc<dyn DiskFile>>,
) -> Result<Segment, LogError> {
    let fail = |error: io::Error| {
        let name = number.segment_name();
        if error.kind() == io::ErrorKind::NotFound {
            return missing(place, number);
        }
        unavailable(&format!("cannot open {name}"), place, &error)
    };
    let file = file.map_err(fail)?;
    let mut bytes = vec![0; 64];
    let read = file.read_at(&mut bytes, 0).map_err(fail)?;
    let header = SegmentHeader::decode(number, &bytes[..read])?;
    Ok(Segment { header, file })
}

/// The index of a full segment, from its file or made anew.
pub(super) fn load_index(place: &Place, number: SegmentNumber) -> Result<SegmentIndex, LogError> {
    let read = || -> io::Result<Vec<u8>> {
        let file = place.disk.open(&place.path(&number.index_name()))?;
        let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    };
    let found = read().ok().and_then(|bytes| SegmentIndex::decode(number, &bytes));
    found.map_or_else(|| rebuild_index(place, number), Ok)
}

/// What the segment begins with: all partitions as the one before it left them.
fn index_before(place: &Place, number: SegmentNumber) -> Result<SegmentIndex, LogError> {
    match number.previous() {
        None => Ok(SegmentIndex::first()),
        Some(previous) => load_index(place, previous)?.following(),
    }
}

/// Reads a full segment and writes its index.
fn rebuild_index(place: &Place, number: SegmentNumber) -> Result<SegmentIndex, LogError> {
    let segment = open_segment(place, number)?;
    let scanned = scan(place, &segment, index_before(place, number)?)?;
    let next = open_segment(place, number.next()?)?;
    let index = scanned.index;
    if next.header.previous_checksum != index.last_checksum {
        let at = Position { segment: number, at: index.end };
        return Err(LogError::Corrupt(format!(
            "{} does not follow what was read up to {at}: frames are missing or damaged",
            next.header.number.segment_name()
        )));
    }
    place.write_index(&index);
    Ok(index)
}

/// A segment, read to the end of its frames.
struct Scanned {
    index: SegmentIndex,
    /// The last frame: where it begins.
    last_frame: Option<u64>,
}

fn scan(place: &Place, segment: &Segment, mut index: SegmentIndex) -> Result<Scanned, LogError> {
    let name = segment.header.number.segment_name();
    if segment.header.previous_checksum != index.last_checksum {
        return Err(LogError::Corrupt(format!("{name} does not follow the segment before it")));
    }
    let fail = |error| unavailable(&format!("cannot read {name}"), place, &error);
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
                "the frame at {position} does not follow the one before it"
            )));
        }
        for record in frame.records(position)? {
            index.apply(&record?, position)?;
        }
        index.last_checksum = frame.checksum();
        index.end = position.at + frame.size() as u64;
        last_frame = Some(position.at);
    }
    Ok(Scanned { index, last_frame })
}

fn open_last(place: &Place, number: SegmentNumber) -> Result<Opened, LogError> {
    let segment = open_segment(place, number)?;
    let Scanned { index, last_frame } = scan(place, &segment, index_before(place, number)?)?;
    let fail = |error| unavailable("cannot mend the end of the log", place, &error);
    let end = Position { segment: number, at: index.end };
    let garbage_end = look_behind(&segment, end).map_err(fail)?;
    let garbage_end = garbage_end.map_err(|follows| {
        LogError::Corrupt(format!(
            "there is no whole frame at {end}, but one was begun after it at {follows}: this is damage"
        ))
    })?;
    let cut_bytes = garbage_end.saturating_sub(end.at);
    make_durable(&segment, last_frame, end.at, garbage_end).map_err(fail)?;
    Ok(Opened { segment, index, cut_bytes })
}

/// Reads what lies after the last whole frame. Returns where the last byte that is not zero ends, or, as an error, where
/// another frame was begun.
///
/// The segment's mark shows it: a frame is begun only when the one before it is durable, and nothing but the beginning of
/// a frame has the mark. Whether that frame is whole does not matter.
fn look_behind(segment: &Segment, end: Position) -> io::Result<Result<u64, Position>> {
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
        // Nearly always all zeros, which one comparison of memory shows.
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

/// Makes what was found durable, and what was torn zero.
///
/// The last whole frame may be in the page cache alone: its writer may have been killed before the sync, or the sync may
/// have failed, after which Linux calls the page clean. Only writing it again and syncing proves that it is on the disk.
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
