//! What a writer knows about the key, and how it recognizes its own writes. No I/O.

use seriatim_types::Number;

use super::ReadValue;
use crate::stored_block::{ReservationId, STORED_BYTES, StoredBlock};
use crate::{Block, NumberRange};

/// How many writes in doubt are kept. Each is a failed write whose effect could not be read. Forgetting one loses its
/// numbers, but never makes a number appear twice.
const DOUBTS_MAX: usize = 8;

/// What a writer knows about the key.
#[derive(Debug, Default)]
pub(super) struct WriterState {
    /// The value after this writer's last reservation, unless another one may have replaced it.
    read: Option<ReadValue>,
    /// This writer's last reservation, while it may be the last of all.
    own: Option<StoredBlock>,
    /// Writes that may have been done. No number of them was given out.
    doubts: Vec<StoredBlock>,
    /// The end of everything that was reserved here and not given back. The stored end can never be smaller.
    floor: Option<Number>,
    /// The start of the adjacent blocks of this writer that end at the floor.
    run: Option<Number>,
}

impl WriterState {
    /// The value to expect, or `None` if it must be read. It stays unknown until a reservation has succeeded, so that an
    /// interrupted reservation is followed by a read.
    pub(super) fn take_read(&mut self) -> Option<Option<ReadValue>> {
        self.read.take().map(Some)
    }

    /// Checks that the value is not older than what was reserved here. The error is the reason.
    pub(super) fn check(&self, read: Option<&ReadValue>, range: NumberRange) -> Result<(), String> {
        let Some(floor) = self.floor else { return Ok(()) };
        match read.map(|read| read.stored.block) {
            None if floor > range.first() => {
                Err(format!("the value has disappeared, and the numbers before {floor} are taken"))
            }
            Some(block) if block.end() < floor => Err(format!(
                "the last block is {block}, but the numbers before {floor} are taken: an older value was restored"
            )),
            _ => Ok(()),
        }
    }

    /// The write in doubt that was done, if the stored value is one of this writer. The id decides, not the block: two
    /// writers that start from the same value want the same block.
    pub(super) fn settle(&self, read: Option<&ReadValue>) -> Option<StoredBlock> {
        let id = read?.stored.id;
        self.doubts.iter().find(|doubt| doubt.id == id).copied()
    }

    /// Records a write that is about to be sent.
    pub(super) fn doubt(&mut self, value: StoredBlock) {
        if self.doubts.len() == DOUBTS_MAX {
            self.doubts.remove(0);
        }
        self.doubts.push(value);
    }

    /// Removes a write that was refused: it was not done.
    pub(super) fn refuse(&mut self, id: ReservationId) {
        self.doubts.retain(|doubt| doubt.id != id);
    }

    /// Records a write that was done and is the last one. Returns how many numbers may be lost with older writes in doubt,
    /// which can no longer be done: each of them expects a value that is never stored again.
    pub(super) fn own(&mut self, value: StoredBlock) -> u64 {
        let bytes: [u8; STORED_BYTES] = value.encode();
        self.read = Some(ReadValue { stored: value, bytes: bytes.to_vec().into() });
        self.own = Some(value);
        if self.floor != Some(value.block.base()) {
            self.run = Some(value.block.base());
        }
        self.floor = self.floor.max(Some(value.block.end()));
        // A write in doubt that starts at or after this block was not done, or was replaced by it.
        let base = value.block.base();
        let doubts = std::mem::take(&mut self.doubts);
        let lost = doubts.iter().filter(|doubt| doubt.block.base() < base);
        lost.map(|doubt| doubt.block.size()).sum()
    }

    /// This writer's last reservation, if the tail ends with it and belongs to this writer. From now on the tail does not.
    pub(super) fn release_own(&mut self, tail: Block) -> Option<StoredBlock> {
        let own = self.own.filter(|own| own.block.end() == tail.end())?;
        self.run.filter(|run| *run <= tail.base())?;
        self.own = None;
        self.read = None;
        self.floor = Some(tail.base());
        Some(own)
    }
}
