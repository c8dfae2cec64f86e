//! What a writer knows about the key, and how it tells its own writes from others': no I/O.

use seriatim_types::Number;

use super::Seen;
use crate::stored::{ReservationId, STORED_BYTES, Stored};
use crate::{Block, NumberRange};

/// Doubts that are kept. Each one takes a failed write whose effect nobody could read; a forgotten one costs its
/// numbers, never their uniqueness.
const DOUBTS_MAX: usize = 8;

/// What a writer knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The key's value after our own last reservation, if nothing has shown since that it is another.
    seen: Option<Seen>,
    /// Our last reservation, for as long as it may be the last of all.
    own: Option<Stored>,
    /// Writes of ours that may have happened. Nothing was handed out from them.
    doubts: Vec<Stored>,
    /// The end of all that was reserved here and not given back. The key can never show less.
    floor: Option<Number>,
    /// Where the run of adjacent blocks of ours begins that ends at the floor.
    run: Option<Number>,
}

impl Known {
    /// The value to expect, or `None` if it has to be read. It stays unknown until a reservation has succeeded, so
    /// that one that is cut off in the middle leads to a read.
    pub(super) fn take_seen(&mut self) -> Option<Option<Seen>> {
        self.seen.take().map(Some)
    }

    /// Whether the value can be what is left of what was reserved here; if not, why.
    pub(super) fn check(&self, seen: Option<&Seen>, range: NumberRange) -> Result<(), String> {
        let Some(floor) = self.floor else { return Ok(()) };
        match seen.map(|seen| seen.stored.block) {
            None if floor > range.first() => {
                Err(format!("the value has vanished, and the numbers before {floor} are taken"))
            }
            Some(block) if block.end() < floor => {
                Err(format!("the last block is {block}, and the numbers before {floor} are taken"))
            }
            _ => Ok(()),
        }
    }

    /// The write in doubt that turns out to have happened, if the value is one of ours. The id decides, not the block:
    /// two writers that start from the same value want the same block.
    pub(super) fn settle(&self, seen: Option<&Seen>) -> Option<Stored> {
        let id = seen?.stored.id;
        self.doubts.iter().find(|doubt| doubt.id == id).copied()
    }

    /// A write is about to be sent.
    pub(super) fn doubt(&mut self, value: Stored) {
        if self.doubts.len() == DOUBTS_MAX {
            self.doubts.remove(0);
        }
        self.doubts.push(value);
    }

    /// A write was refused: it did not happen.
    pub(super) fn refuse(&mut self, id: ReservationId) {
        self.doubts.retain(|doubt| doubt.id != id);
    }

    /// A write has happened and is the last. Says how many numbers may be lost with older doubts, which can no longer
    /// happen: each of them expects a value that never comes back.
    pub(super) fn own(&mut self, value: Stored) -> u64 {
        let bytes: [u8; STORED_BYTES] = value.encode();
        self.seen = Some(Seen { stored: value, bytes: bytes.to_vec().into() });
        self.own = Some(value);
        if self.floor != Some(value.block.base()) {
            self.run = Some(value.block.base());
        }
        self.floor = self.floor.max(Some(value.block.end()));
        // A doubt that starts at or behind this block did not happen, or is replaced by it.
        let base = value.block.base();
        let doubts = std::mem::take(&mut self.doubts);
        let lost = doubts.iter().filter(|doubt| doubt.block.base() < base);
        lost.map(|doubt| doubt.block.size()).sum()
    }

    /// Our last reservation, if the tail ends with it and is all ours. From here on the tail is no longer ours.
    pub(super) fn give_up(&mut self, tail: Block) -> Option<Stored> {
        let own = self.own.filter(|own| own.block.end() == tail.end())?;
        self.run.filter(|run| *run <= tail.base())?;
        self.own = None;
        self.seen = None;
        self.floor = Some(tail.base());
        Some(own)
    }
}
