//! What an export learns about writes to the store.

use std::collections::VecDeque;

use seriatim_env::watch;
use seriatim_storage::{Batch, Write};
use seriatim_types::sync::Mutex;

use crate::derive::checkpoint::Mark;

/// What flushes may wait for an export, in bytes of keys and values. An export whose receiver is slower than the flushes for long
/// fails: neither memory nor the partition depends on a receiver.
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// The writes of a partition's flusher, as an export has to see them. There is one write at a time, and one export at a time.
///
/// Without an export it costs two short locks per flush.
#[derive(Debug, Default)]
pub(in crate::derive) struct Tap {
    state: Mutex<State>,
    /// The number of the last write that has returned.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the last write that has begun.
    begun: u64,
    /// Whether the last write failed: then the store may have it or not.
    in_doubt: bool,
    queue: Option<Queue>,
}

/// Writes that an export has not taken yet.
#[derive(Debug, Default)]
struct Queue {
    writes: VecDeque<Flushed>,
    bytes: usize,
    failure: Option<TapFailure>,
}

/// A write that the store has.
#[derive(Debug)]
pub(super) struct Flushed {
    pub(super) number: u64,
    /// The checkpoint that was written with it.
    pub(super) mark: Mark,
    pub(super) writes: Vec<Write>,
    bytes: usize,
}

/// Why an export cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TapFailure {
    /// A write failed, so it is not known what the store has.
    InDoubt,
    /// More was flushed than may wait.
    TooSlow,
}

impl Tap {
    /// Notes that a write begins. The caller reports its end.
    pub(in crate::derive) fn begin_write(&self, batch: &Batch, mark: Mark) -> Noted<'_> {
        let mut state = self.state.lock();
        state.begun += 1;
        let number = state.begun;
        let is_watched = state.queue.as_ref().is_some_and(|queue| queue.failure.is_none());
        drop(state);
        let flushed = is_watched.then(|| {
            let writes: Vec<Write> = batch.iter().cloned().collect();
            let size = |write: &Write| write.key.size() + write.value.as_ref().map_or(0, bytes::Bytes::len);
            let bytes = writes.iter().map(size).sum();
            Flushed { number, mark, writes, bytes }
        });
        Noted { tap: self, number, flushed, ended: false }
    }

    fn end_write(&self, number: u64, flushed: Option<Flushed>, is_written: bool) {
        let mut state = self.state.lock();
        state.in_doubt = !is_written;
        if let Some(queue) = &mut state.queue {
            match flushed {
                _ if !is_written => queue.fail(TapFailure::InDoubt),
                Some(flushed) => queue.push(flushed),
                // It began before the export, which waits for its end before it reads.
                None => {}
            }
        }
        drop(state);
        self.ended.send_replace(number);
    }

    /// Begins to collect writes. Returns the number of the last write that has begun: the export must wait for its end before it
    /// reads the store. `None`: another export collects them.
    pub(super) fn watch(&self) -> Option<Result<u64, TapFailure>> {
        let mut state = self.state.lock();
        if state.queue.is_some() {
            return None;
        }
        if state.in_doubt {
            return Some(Err(TapFailure::InDoubt));
        }
        state.queue = Some(Queue::default());
        Some(Ok(state.begun))
    }

    pub(super) fn unwatch(&self) {
        self.state.lock().queue = None;
    }

    /// The number of the last write that has begun.
    pub(super) fn begun(&self) -> u64 {
        self.state.lock().begun
    }

    /// Returns when this write has ended.
    pub(super) async fn wait_ended(&self, number: u64) {
        // There is never an error, because `self` has the sender.
        let _ = self.ended.subscribe().wait_for(|ended| *ended >= number).await;
    }

    /// The next write that has ended, if its number is not after `last`.
    pub(super) fn take(&self, last: u64) -> Result<Option<Flushed>, TapFailure> {
        let mut state = self.state.lock();
        let Some(queue) = &mut state.queue else { return Ok(None) };
        if let Some(failure) = queue.failure {
            return Err(failure);
        }
        let taken = queue.writes.pop_front_if(|flushed| flushed.number <= last);
        queue.bytes -= taken.as_ref().map_or(0, |flushed| flushed.bytes);
        Ok(taken)
    }
}

impl Queue {
    fn push(&mut self, flushed: Flushed) {
        // One write is always accepted, whatever its size.
        if !self.writes.is_empty() && self.bytes + flushed.bytes > QUEUE_BYTES_MAX {
            return self.fail(TapFailure::TooSlow);
        }
        self.bytes += flushed.bytes;
        self.writes.push_back(flushed);
    }

    fn fail(&mut self, failure: TapFailure) {
        *self = Self { failure: Some(self.failure.unwrap_or(failure)), ..Self::default() };
    }
}

/// A write that has begun. Dropping it without an end counts as a failure.
#[derive(Debug)]
pub(in crate::derive) struct Noted<'a> {
    tap: &'a Tap,
    number: u64,
    flushed: Option<Flushed>,
    ended: bool,
}

impl Noted<'_> {
    /// Reports the end of the write. Must be called before the next write begins.
    pub(in crate::derive) fn end(mut self, is_written: bool) {
        self.ended = true;
        self.tap.end_write(self.number, self.flushed.take(), is_written);
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.tap.end_write(self.number, None, false);
        }
    }
}
