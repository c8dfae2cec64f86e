//! The committer: one thread that writes and syncs for all partitions.
//!
//! While one frame is synced, the next one gathers. Whoever submitted is answered only after the sync.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use seriatim_env::Env;
use seriatim_storage::{AppendError, LogError};
use seriatim_types::sync::{Condvar, Mutex, MutexGuard};

use super::frame::finish;
use super::index::SegmentIndex;
use super::options::LogOptions;
use super::queue::{Answer, Failure, Gathered, Queue};
use super::segment::{FIRST_FRAME_AT, Position, SegmentHeader, SegmentNumber};
use super::tails::Tails;
use crate::disk::{Disk, DiskFile};
use crate::space::{FreeSpace, NearlyFull};

/// Where the log lies and what it needs of the world.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) env: Env,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) options: LogOptions,
    pub(super) space: Arc<FreeSpace>,
}

impl Place {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes a segment that can hold a frame of this size. It has its name only when its header is durable.
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

    /// Makes the file of a segment, durably, under a name that is not yet its own.
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

    /// Writes the index of a full segment. It is derived, so it is not synced, and a failure is made good on reading.
    pub(super) fn write_index(&self, index: &SegmentIndex) {
        let (bytes, path) = (index.encode(), self.path(&index.number.index_name()));
        let written = self.disk.create(&path, 0).and_then(|file| file.write_at(&bytes, 0));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "an index could not be written; it is made anew when needed");
        }
    }
}

/// Why there is no new segment.
#[derive(Debug)]
pub(super) enum NoSegment {
    /// No segment has this number. The last one can be continued, and the next attempt makes it anew.
    Unnamed(io::Error),
    /// It may have its name, and may have it after a crash. It says after which frame it follows, so not one more may be
    /// written before it.
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

/// What submitters, readers and the committer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Told when something has gathered, and at close.
    work: Condvar,
    /// Of the segment that is being written, up to the last durable frame.
    pub(super) index: Mutex<SegmentIndex>,
    /// Moved after the index, so that whoever sees a tail finds the entries before it.
    pub(super) tails: Tails,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) phase: Phase,
}

/// Whether the log takes appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// It reads up to the last durable frame and writes nothing more, for this reason.
    Stopped(String),
    /// What has gathered is still written.
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

impl Shared {
    pub(super) fn new(queue: Queue, index: SegmentIndex) -> Self {
        let (state, tails) = (State { queue, phase: Phase::Open }, Tails::new(&index));
        Self { state: Mutex::new(state), work: Condvar::new(), index: Mutex::new(index), tails }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn lock_index(&self) -> MutexGuard<'_, SegmentIndex> {
        self.index.lock()
    }

    /// Wakes the committer. Called without the lock, so that it does not wake only to wait for it.
    pub(super) fn wake(&self) {
        self.work.notify_one();
    }

    /// Takes no more appends; what has gathered is still written.
    pub(super) fn begin_closing(&self) {
        self.lock().phase = Phase::Closing;
        self.wake();
    }

    fn stop(&self, reason: &str) {
        let mut state = self.lock();
        state.phase = Phase::Stopped(reason.to_owned());
        let waiting = state.queue.withdraw();
        drop(state);
        answer(waiting, &Err(Failure::Stopped(reason.to_owned())));
    }

    /// Waits for something to write; `None` when there will be no more.
    fn next_frame(&self, other: Gathered) -> Option<Gathered> {
        let mut state = self.lock();
        while state.queue.gathered.is_empty() {
            if state.phase != Phase::Open {
                return None;
            }
            state = self.work.wait(state);
        }
        Some(state.queue.exchange(other))
    }
}

fn answer(gathered: Gathered, result: &Answer) {
    for answer in gathered.answers {
        // Whoever does not wait for its answer has given up on it, not on the append.
        let _ = answer.send(result.clone());
    }
}

/// Writes frames, one behind the other.
#[derive(Debug)]
pub(super) struct Committer {
    place: Place,
    shared: Arc<Shared>,
    segment: Segment,
    at: u64,
    last_checksum: u32,
}

impl Committer {
    pub(super) fn new(place: Place, shared: Arc<Shared>, segment: Segment) -> Self {
        let (at, last_checksum) = {
            let index = shared.lock_index();
            (index.end, index.last_checksum)
        };
        Self { place, shared, segment, at, last_checksum }
    }

    /// Commits until the log is closed or has to stop.
    pub(super) fn run(mut self) {
        let stop_if_it_dies = StopOnPanic(self.shared.clone());
        let mut spare = Gathered::new();
        while let Some(mut gathered) = self.shared.next_frame(spare) {
            let result = self.commit(&mut gathered);
            spare = self.settle(gathered, &result);
        }
        drop(stop_if_it_dies);
    }

    /// Writes and syncs one frame.
    fn commit(&mut self, gathered: &mut Gathered) -> Answer {
        self.place.space.refresh();
        let size = gathered.buffer.len().next_multiple_of(super::frame::FRAME_ALIGNMENT);
        if self.at + size as u64 > self.segment.header.reserved {
            self.roll(size)?;
        }
        let position = Position { segment: self.segment.header.number, at: self.at };
        let checksum = finish(&mut gathered.buffer, self.segment.header.mark, self.last_checksum, position);
        let written = self.segment.file.write_at(&gathered.buffer, self.at).map_err(|error| ("write", error));
        let synced = written.and_then(|()| self.segment.file.sync().map_err(|error| ("sync", error)));
        if let Err((what, error)) = synced {
            let path = self.place.path(&self.segment.header.number.segment_name());
            return Err(Failure::InDoubt(format!("a {what} of {} failed: {error}", path.display())));
        }
        self.at += gathered.buffer.len() as u64;
        self.last_checksum = checksum;
        self.note(gathered, position).map_err(|error| Failure::InDoubt(error.to_string()))
    }

    /// The frame is durable: readers may find it.
    fn note(&self, gathered: &Gathered, position: Position) -> Result<(), LogError> {
        let mut index = self.shared.lock_index();
        for (partition, epoch) in &gathered.takes {
            index.take(*partition, *epoch);
        }
        for (partition, first, next) in &gathered.appends {
            index.append(*partition, *first, *next, position)?;
        }
        index.end = self.at;
        index.last_checksum = self.last_checksum;
        Ok(())
    }

    /// Continues in a new segment. On an error the frame was not written; if the new segment may be there, the log stops.
    fn roll(&mut self, frame_bytes: usize) -> Result<(), Failure> {
        let full = self.shared.lock_index().clone();
        let next = full.following().map_err(|error| Failure::InDoubt(error.to_string()))?;
        let segment = self.place.create_segment(next.number, self.last_checksum, frame_bytes);
        let segment = segment.map_err(|failure| {
            let path = self.place.path(&next.number.segment_name());
            let reason = format!("{} could not be made: {}", path.display(), failure.error());
            tracing::error!(reason, "no new segment");
            match failure {
                NoSegment::Unnamed(error) if is_no_space(&error) => {
                    let NearlyFull { free_bytes, needed_bytes } = self.place.space.measure();
                    Failure::NoRoom { free_bytes, needed_bytes }
                }
                NoSegment::Unnamed(_) => Failure::NoSegment(reason),
                NoSegment::Named(_) => Failure::Stopped(reason),
            }
        })?;
        self.place.write_index(&full);
        *self.shared.lock_index() = next;
        self.segment = segment;
        self.at = FIRST_FRAME_AT;
        Ok(())
    }

    /// Tells everybody how it went; returns an empty buffer to gather in.
    fn settle(&self, mut gathered: Gathered, result: &Answer) -> Gathered {
        match result {
            Ok(()) => {
                self.shared.lock().queue.committed(&gathered);
                let tails = gathered.appends.iter().map(|(partition, _, next)| (*partition, *next));
                self.shared.tails.advance(tails);
            }
            Err(Failure::NoRoom { .. } | Failure::NoSegment(_)) => {
                let waiting = self.shared.lock().queue.withdraw();
                answer(waiting, result);
            }
            Err(Failure::InDoubt(reason) | Failure::Stopped(reason)) => {
                tracing::error!(reason, "the log stops");
                self.shared.stop(reason);
            }
        }
        let answers = std::mem::take(&mut gathered.answers);
        for answer in answers {
            let _ = answer.send(result.clone());
        }
        gathered.clear();
        gathered
    }
}

/// If the committer ends by a panic, nobody waits for it for ever.
struct StopOnPanic(Arc<Shared>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("its committer panicked");
        }
    }
}
