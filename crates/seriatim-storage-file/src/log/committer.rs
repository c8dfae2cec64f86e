//! The committer: one thread that writes and syncs for all partitions.
//!
//! While one frame is synced, the next one is collected. An append is answered only after the sync of its frame.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{AppendError, LogError};
use seriatim_types::sync::{Condvar, Mutex, MutexGuard};

use super::frame::finish;
use super::index::SegmentIndex;
use super::options::LogOptions;
use super::queue::{Answer, CommitFailure, PendingFrame, Queue};
use super::segment::{FIRST_FRAME_AT, Position, SegmentHeader, SegmentNumber};
use super::tails::Tails;
use crate::disk::{Disk, DiskFile};
use crate::space::{FreeSpace, NearlyFull};

/// The folder of a log and everything that is needed to use it.
#[derive(Debug, Clone)]
pub(super) struct LogFolder {
    pub(super) env: Env,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) options: LogOptions,
    pub(super) space: Arc<FreeSpace>,
}

impl LogFolder {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Creates a segment that has room for a frame of this size. It gets its name only when its header is durable.
    pub(super) fn create_segment(
        &self,
        number: SegmentNumber,
        previous_checksum: u32,
        frame_bytes: usize,
    ) -> Result<Segment, NoSegment> {
        let (header, file) =
            self.prepare_segment(number, previous_checksum, frame_bytes).map_err(NoSegment::Unnamed)?;
        let name = number.segment_name();
        let renamed = self.disk.rename(&self.path(&format!("{name}.new")), &self.path(&name));
        renamed.map_err(|error| match error {
            error if is_no_space(&error) => NoSegment::Unnamed(error),
            error => NoSegment::Named(error),
        })?;
        self.disk.sync_directory(&self.directory).map_err(NoSegment::Named)?;
        Ok(Segment { header, file })
    }

    /// Creates the file of a segment, durably, under a temporary name.
    fn prepare_segment(
        &self,
        number: SegmentNumber,
        previous_checksum: u32,
        frame_bytes: usize,
    ) -> io::Result<(SegmentHeader, Arc<dyn DiskFile>)> {
        let reserved = u64::from(self.options.segment_bytes).max(FIRST_FRAME_AT + frame_bytes as u64);
        let header = SegmentHeader { number, previous_checksum, mark: self.env.random(), reserved };
        let unnamed = self.path(&format!("{}.new", number.segment_name()));
        let file = self.disk.create(&unnamed, reserved)?;
        file.write_at(&header.encode(), 0)?;
        file.sync()?;
        Ok((header, file))
    }

    /// Writes the index of a full segment. It is derived, so it is not synced; if this fails, the index is rebuilt when it
    /// is read.
    pub(super) fn write_index(&self, index: &SegmentIndex) {
        let (bytes, path) = (index.encode(), self.path(&index.number.index_name()));
        let written = self.disk.create(&path, 0).and_then(|file| file.write_at(&bytes, 0));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the index of a segment could not be written; it is rebuilt when it is needed");
        }
    }
}

/// Why a new segment was not created.
#[derive(Debug)]
pub(super) enum NoSegment {
    /// No segment has this number. The last segment can be continued, and the next attempt creates the new one again.
    Unnamed(io::Error),
    /// The segment may have its name, also after a crash. Its header names the frame that it follows, so no further frame may
    /// be written to the last segment.
    Named(io::Error),
}

impl NoSegment {
    pub(super) fn error(&self) -> &io::Error {
        match self {
            Self::Unnamed(error) | Self::Named(error) => error,
        }
    }
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An open segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn DiskFile>,
}

/// The state of an open log, shared by submitters, readers and the committer.
#[derive(Debug)]
pub(super) struct LogState {
    pub(super) state: Mutex<QueueState>,
    /// Notified when an append or a take is submitted, and at close.
    work: Condvar,
    /// The index of the segment that is being written, up to the last durable frame.
    pub(super) index: Mutex<SegmentIndex>,
    /// Advanced after the index, so that a reader that has read a tail finds the entries before it.
    pub(super) tails: Tails,
}

#[derive(Debug)]
pub(super) struct QueueState {
    pub(super) queue: Queue,
    pub(super) phase: Phase,
}

/// Whether the log accepts appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The log can be read up to the last durable frame, and accepts no appends, for this reason.
    Stopped(String),
    /// What has been submitted is still written.
    Closing,
}

impl Phase {
    pub(super) fn check(&self) -> Result<(), AppendError> {
        match self {
            Self::Open => Ok(()),
            Self::Stopped(reason) => Err(AppendError::Stopped(reason.clone())),
            Self::Closing => Err(AppendError::Closed),
        }
    }
}

impl LogState {
    pub(super) fn new(queue: Queue, index: SegmentIndex) -> Self {
        let (state, tails) = (QueueState { queue, phase: Phase::Open }, Tails::new(&index));
        Self { state: Mutex::new(state), work: Condvar::new(), index: Mutex::new(index), tails }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    pub(super) fn lock_index(&self) -> MutexGuard<'_, SegmentIndex> {
        self.index.lock()
    }

    /// Wakes the committer. Called without the lock, so that the committer does not have to wait for the lock at once.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    /// Accepts no more appends. What has been submitted is still written.
    pub(super) fn begin_closing(&self) {
        self.lock().phase = Phase::Closing;
        self.wake();
    }

    fn stop(&self, reason: &str) {
        let mut state = self.lock();
        state.phase = Phase::Stopped(reason.to_owned());
        let waiting = state.queue.withdraw();
        drop(state);
        answer(waiting, &Err(CommitFailure::Stopped(reason.to_owned())));
    }

    /// Waits for the next frame; `None` when there will be no more.
    fn next_frame(&self, other: PendingFrame) -> Option<PendingFrame> {
        let mut state = self.lock();
        while state.queue.pending.is_empty() {
            if state.phase != Phase::Open {
                return None;
            }
            state = self.work.wait(state);
        }
        Some(state.queue.swap_pending(other))
    }
}

fn answer(frame: PendingFrame, result: &Answer) {
    for answer in frame.answers {
        // A caller that does not wait for the answer does not cancel the append.
        let _ = answer.send(result.clone());
    }
}

/// Writes frames, one after the other.
#[derive(Debug)]
pub(super) struct Committer {
    folder: LogFolder,
    shared: Arc<LogState>,
    segment: Segment,
    at: u64,
    last_checksum: u32,
}

impl Committer {
    pub(super) fn new(folder: LogFolder, shared: Arc<LogState>, segment: Segment) -> Self {
        let (at, last_checksum) = {
            let index = shared.lock_index();
            (index.end, index.last_checksum)
        };
        Self { folder, shared, segment, at, last_checksum }
    }

    /// Commits frames until the log is closed or has to stop.
    pub(super) fn run(mut self) {
        let stop_on_panic = StopOnPanic(self.shared.clone());
        let mut spare = PendingFrame::new();
        while let Some(mut frame) = self.shared.next_frame(spare) {
            let result = self.commit(&mut frame);
            spare = self.answer_all(frame, &result);
        }
        drop(stop_on_panic);
    }

    /// Writes and syncs one frame. A frame without records is not written: what its answers count is in earlier frames, which
    /// are durable.
    fn commit(&mut self, frame: &mut PendingFrame) -> Answer {
        if frame.record_bytes() == 0 {
            return Ok(());
        }
        self.folder.space.refresh();
        let size = frame.buffer.len().next_multiple_of(super::frame::FRAME_ALIGNMENT);
        if self.at + size as u64 > self.segment.header.reserved {
            self.roll(size)?;
        }
        let position = Position { segment: self.segment.header.number, at: self.at };
        let checksum = finish(&mut frame.buffer, self.segment.header.mark, self.last_checksum, position);
        let written = self.segment.file.write_at(&frame.buffer, self.at).map_err(|error| ("write", error));
        let synced = written.and_then(|()| self.segment.file.sync().map_err(|error| ("sync", error)));
        if let Err((what, error)) = synced {
            let path = self.folder.path(&self.segment.header.number.segment_name());
            return Err(CommitFailure::InDoubt(format!("a {what} of {} failed: {error}", path.display())));
        }
        self.at += frame.buffer.len() as u64;
        self.last_checksum = checksum;
        self.add_to_index(frame, position).map_err(|error| CommitFailure::InDoubt(error.to_string()))
    }

    /// Adds a durable frame to the index, so that readers find it.
    fn add_to_index(&self, frame: &PendingFrame, position: Position) -> Result<(), LogError> {
        let mut index = self.shared.lock_index();
        for (partition, epoch, take) in &frame.takes {
            index.take(*partition, *epoch, take.clone());
        }
        for (partition, first, next) in &frame.appends {
            index.append(*partition, *first, *next, position)?;
        }
        index.end = self.at;
        index.last_checksum = self.last_checksum;
        Ok(())
    }

    /// Continues in a new segment. After an error the frame was not written. If the new segment may exist, the log stops.
    fn roll(&mut self, frame_bytes: usize) -> Result<(), CommitFailure> {
        let full = self.shared.lock_index().clone();
        let next = full.following().map_err(|error| CommitFailure::InDoubt(error.to_string()))?;
        let segment = self.folder.create_segment(next.number, self.last_checksum, frame_bytes);
        let segment = segment.map_err(|failure| {
            let path = self.folder.path(&next.number.segment_name());
            let reason = format!("{} could not be created: {}", path.display(), failure.error());
            tracing::error!(reason, "a new segment of the log could not be created");
            match failure {
                NoSegment::Unnamed(error) if is_no_space(&error) => {
                    let NearlyFull { free_bytes, needed_bytes } = self.folder.space.measure();
                    CommitFailure::NoRoom { free_bytes, needed_bytes }
                }
                NoSegment::Unnamed(_) => CommitFailure::NoSegment(reason),
                NoSegment::Named(_) => CommitFailure::Stopped(reason),
            }
        })?;
        self.folder.write_index(&full);
        *self.shared.lock_index() = next;
        self.segment = segment;
        self.at = FIRST_FRAME_AT;
        Ok(())
    }

    /// Answers everyone whose append or take is in the frame. Returns an empty frame to be filled.
    fn answer_all(&self, mut frame: PendingFrame, result: &Answer) -> PendingFrame {
        match result {
            Ok(()) => {
                self.shared.lock().queue.committed(&frame);
                let tails = frame.appends.iter().map(|(partition, _, next)| (*partition, *next));
                self.shared.tails.advance(tails);
            }
            Err(CommitFailure::NoRoom { .. } | CommitFailure::NoSegment(_)) => {
                let waiting = self.shared.lock().queue.withdraw();
                answer(waiting, result);
            }
            Err(CommitFailure::InDoubt(reason) | CommitFailure::Stopped(reason)) => {
                tracing::error!(reason, "the log stops, and accepts appends when it is opened again");
                self.shared.stop(reason);
            }
        }
        let answers = std::mem::take(&mut frame.answers);
        for answer in answers {
            let _ = answer.send(result.clone());
        }
        frame.clear();
        frame
    }
}

/// Stops the log if the committer panics, so that no one waits for it without end.
struct StopOnPanic(Arc<LogState>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("the log's committer panicked");
        }
    }
}
