//! Removes idempotency keys whose window has ended, by the time of the partition's own events.
//!
//! ```text
//! log:  [ swept .......... | due .......... | within the window .......... )
//!         keys may be gone   swept next                       time of the last event
//! ```
//!
//! Events are in the log in the order of their time, so the log itself determines which keys are due. Each flush reads a few pages
//! of it, from where the last sweep ended. A key is removed if its last use is the event that is swept. A key that was used
//! again remains. The removals and the new position are flushed together.
//!
//! For the doctor, which compares the store with the log: the key of an event before [`Position::reach`] may exist or not. The
//! key of any other event must exist.

use std::time::Duration;

use bytes::Bytes;
use seriatim_storage::ReadLimit;
use seriatim_types::sync::Mutex;
use seriatim_types::{PartitionOffset, Timestamp};

use super::RunningPartition;
use crate::command::apply::KeyUse;
use crate::command::event::{Event, Place};
use crate::derive::keys::{self, StoreKey, WorkspaceKeys};
use crate::derive::{REMOVED, Round, lock};

/// Events of one page. Bounds memory: their keys are held until they are removed, and many partitions may sweep at once.
const PAGE_ENTRIES_MAX: usize = 4_096;

/// Pages that are swept with one flush. Bounds how long the flush waits for them.
const PAGES_MAX: usize = 4;

/// The stored position of a partition's sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Keys of events before this one were removed, unless they were used again.
    pub(crate) reach: PartitionOffset,
}

impl Position {
    /// Nothing was swept.
    pub(crate) const START: Self = Self { reach: PartitionOffset::FIRST };

    fn encode(self) -> Bytes {
        let offset = self.reach.get().to_be_bytes();
        [offset.as_slice(), &crc32fast::hash(&offset).to_be_bytes()].concat().into()
    }

    /// Reads a stored position; `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, checksum) = bytes.split_last_chunk()?;
        if crc32fast::hash(offset) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let offset = PartitionOffset::new(u64::from_be_bytes(offset.try_into().ok()?))?;
        Some(Self { reach: offset })
    }
}

/// What is kept in memory from one sweep to the next, so that nothing is read while nothing is due.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    known: Mutex<SweepMemory>,
}

#[derive(Debug, Default, Clone, Copy)]
struct SweepMemory {
    /// The recovery in which the position was determined, and the position. It is in the overlay or in the store.
    swept: Option<(Round, PartitionOffset)>,
    /// The time of the first event that is not swept.
    first: Option<(PartitionOffset, Timestamp)>,
    /// The time of the log's last event.
    last: Option<(PartitionOffset, Timestamp)>,
}

impl Sweeper {
    fn known(&self) -> SweepMemory {
        *self.known.lock()
    }

    fn remember(&self, change: impl FnOnce(&mut SweepMemory)) {
        change(&mut self.known.lock());
    }
}

/// Sweeps what is due, at most [`PAGES_MAX`] pages. After a failure the next flush tries again. A panic stops the partition.
pub(super) async fn run(shared: &RunningPartition) {
    let _ = shared.derived.guard("a sweep", sweep(shared)).await;
}

async fn sweep(shared: &RunningPartition) {
    let Some(window) = shared.options.idempotency_window else { return };
    for page in 0..PAGES_MAX {
        if page > 0 && lock(&shared.derived.overlay).wants_flush() {
            return;
        }
        match sweep_page(shared, window).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(reason) => {
                tracing::warn!(partition = %shared.partition, %reason, "expired idempotency keys could not be removed: the next flush tries again");
                return;
            }
        }
    }
}

/// Sweeps a page. Returns whether more may be due.
async fn sweep_page(shared: &RunningPartition, window: Duration) -> Result<bool, String> {
    let (round, next, generation) = {
        let overlay = lock(&shared.derived.overlay);
        let Some(round) = overlay.filled() else { return Ok(false) };
        (round, overlay.next(), overlay.generation())
    };
    let from = match shared.sweeper.known().swept.filter(|(known, _)| *known == round) {
        Some((_, from)) => from,
        None => {
            let Position { reach } = read_position(shared).await?;
            shared.sweeper.remember(|known| known.swept = Some((round, reach)));
            reach
        }
    };
    let Some(last) = PartitionOffset::new(next.get() - 1).filter(|last| from <= *last) else {
        return Ok(false);
    };
    let Some(now) = time_of(shared, last).await? else { return Ok(false) };
    let is_due = |time: Timestamp| time.after(window) < now;
    if shared.sweeper.known().first.is_some_and(|(offset, time)| offset == from && !is_due(time)) {
        return Ok(false);
    }
    let entries = shared.options.flush_at.clamp(1, PAGE_ENTRIES_MAX);
    let page = shared.log.read(shared.partition, from, ReadLimit::entries(entries)).await;
    let page = page.map_err(|error| error.to_string())?;
    let (mut uses, mut to, mut ended) = (Vec::new(), from, false);
    for (offset, entry) in page.iter() {
        if offset > last || !is_due(entry.time()) {
            shared.sweeper.remember(|known| known.first = Some((offset, entry.time())));
            ended = true;
            break;
        }
        let event = Event::decode(entry.body()).map_err(|problem| format!("event {offset}: {problem}"))?;
        if let Some(idempotency) = event.idempotency {
            let place = Place::of(offset, &entry);
            let keys = WorkspaceKeys::new(shared.partition, place.workspace);
            uses.push((keys.idempotency(&idempotency.key), offset));
        }
        to = offset.next().unwrap_or(offset);
    }
    if to == from {
        return Ok(false);
    }
    let keys: Vec<StoreKey> = uses.iter().map(|(key, _)| key.clone()).collect();
    let found = shared.derived.get_many(&keys).await.map_err(|error| error.to_string())?;
    let mut overlay = lock(&shared.derived.overlay);
    if overlay.filled() != Some(round) || overlay.generation() != generation {
        // The values may be outdated, because a flush has ended or a recovery has begun since they were read.
        return Ok(false);
    }
    let mut swept = Vec::with_capacity(uses.len() + 1);
    for ((key, offset), found) in uses.into_iter().zip(found) {
        // The overlay first: its value is newer, and the key may have been used again.
        let present = overlay.get(&key).cloned().or(found).filter(|bytes| *bytes != REMOVED);
        let used = present.and_then(|bytes| KeyUse::decode(&bytes).ok());
        if used.is_some_and(|used| used.offset == offset) {
            swept.push((key, REMOVED));
        }
    }
    swept.push((keys::sweep(shared.partition), Position { reach: to }.encode()));
    overlay.put(swept.into_iter());
    drop(overlay);
    shared.sweeper.remember(|known| known.swept = Some((round, to)));
    Ok(!ended)
}

async fn read_position(shared: &RunningPartition) -> Result<Position, String> {
    let stored = shared.derived.read(&[keys::sweep(shared.partition)]).await;
    let stored = stored.map_err(|error| error.to_string())?.pop().flatten();
    // If the position is damaged, the sweep starts from the beginning and writes it again.
    Ok(stored.and_then(|bytes| Position::decode(&bytes)).unwrap_or(Position::START))
}

/// The time of the last event.
async fn time_of(shared: &RunningPartition, last: PartitionOffset) -> Result<Option<Timestamp>, String> {
    if let Some((_, time)) = shared.sweeper.known().last.filter(|(offset, _)| *offset == last) {
        return Ok(Some(time));
    }
    let read = shared.log.read(shared.partition, last, ReadLimit::entries(1)).await;
    let read = read.map_err(|error| error.to_string())?;
    let time = read.iter().next().map(|(_, entry)| entry.time());
    shared.sweeper.remember(|known| known.last = time.map(|time| (last, time)));
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_round_trips_and_a_damaged_one_is_none() {
        let position = Position { reach: PartitionOffset::new(7).unwrap() };
        let bytes = position.encode().to_vec();
        assert_eq!(bytes[..8], *b"\0\0\0\0\0\0\0\x07");
        assert_eq!((bytes.len(), Position::decode(&bytes)), (12, Some(position)));
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert_eq!(Position::decode(&damaged), None);
            assert_eq!(Position::decode(&bytes[..place]), None);
        }
    }
}
