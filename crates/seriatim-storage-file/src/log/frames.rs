//! Reads frames, one after the other.

use std::io;

use super::committer::Segment;
use super::frame::{FRAME_HEADER_BYTES, Frame, FrameHeader};
use super::segment::Position;

/// The first read is small, so that reading one entry is cheap. Each further read is twice as large, up to the largest.
const READ_BYTES_FIRST: usize = 32 << 10;
const READ_BYTES_LARGEST: usize = 1 << 20;

/// Reads the frames of one segment, from a byte on.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    segment: &'a Segment,
    /// Where the next frame begins.
    at: u64,
    /// The byte before which reading ends.
    end: u64,
    /// Bytes of the file from `buffer_at` on.
    buffer: Vec<u8>,
    buffer_at: u64,
    read_bytes: usize,
}

impl<'a> Frames<'a> {
    pub(super) fn new(segment: &'a Segment, at: u64, end: u64) -> Self {
        Self { segment, at, end, buffer: Vec::new(), buffer_at: at, read_bytes: READ_BYTES_FIRST }
    }

    /// Where the next frame begins, if there is one.
    pub(super) fn position(&self) -> Position {
        Position { segment: self.segment.header.number, at: self.at }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    /// The frame at [`Frames::position`], and advances to its end; `None` if there is no complete frame.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        self.fill(FRAME_HEADER_BYTES)?;
        let mark = self.segment.header.mark;
        let Some(header) = FrameHeader::decode(self.unread(), mark, self.position()) else {
            return Ok(None);
        };
        if self.at + header.size() as u64 > self.end {
            return Ok(None);
        }
        self.fill(header.size())?;
        let start = self.at;
        let offset = self.offset();
        let Some(frame) = header.frame(&self.buffer[offset..]) else {
            return Ok(None);
        };
        self.at = start + frame.size() as u64;
        Ok(Some(frame))
    }

    fn offset(&self) -> usize {
        usize::try_from(self.at - self.buffer_at).expect("the buffer begins near the next frame")
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.offset().min(self.buffer.len())..]
    }

    /// Fills the buffer with at least `needed` unread bytes, or with all that are left.
    fn fill(&mut self, needed: usize) -> io::Result<()> {
        if self.unread().len() >= needed {
            return Ok(());
        }
        let offset = self.offset().min(self.buffer.len());
        self.buffer.drain(..offset);
        self.buffer_at = self.at;
        let have = self.buffer.len();
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let want = needed.max(self.read_bytes).min(left).max(have);
        self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_LARGEST);
        self.buffer.resize(want, 0);
        let read = self.segment.file.read_at(&mut self.buffer[have..], self.at + have as u64)?;
        self.buffer.truncate(have + read);
        Ok(())
    }
}
