//! What became of the numbers.

/// What became of the numbers of one [`BlockAllocator`](crate::BlockAllocator) since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks that were reserved: durable writes, not counting those that failed.
    pub blocks: u64,
    /// Numbers in them, and those that may have been reserved by a write whose answer was lost.
    pub reserved: u64,
    /// Callers that had to wait for a block.
    pub waits: u64,
    /// Numbers that are reserved and not handed out. A crash wastes these, and a block that is being reserved.
    pub unused: u64,
    /// Numbers that nobody will ever get: the end of a block that a request did not fit into, what a cancelled caller
    /// had been granted, and what could not be given back. Where an answer of the store was lost, it counts the most
    /// that may have been lost with it.
    pub wasted: u64,
    /// Numbers that were given back by closing.
    pub given_back: u64,
    /// Numbers that whoever reserved last before may have wasted by not closing, at most; 0 if it closed. If it is
    /// still running, it wasted nothing.
    pub skipped_max: u64,
}

impl Counts {
    /// Numbers that were handed out.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        let gone = self.unused + self.wasted + self.given_back;
        self.reserved.saturating_sub(gone)
    }
}
