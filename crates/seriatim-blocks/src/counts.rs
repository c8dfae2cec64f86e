//! Counts of numbers.

/// Counts of the numbers of one [`BlockAllocator`](crate::BlockAllocator) since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks that were reserved, which are durable writes. Failed ones are not counted.
    pub blocks: u64,
    /// Numbers in these blocks, and numbers that may have been reserved by a write whose answer was lost.
    pub reserved: u64,
    /// Callers that had to wait for a block.
    pub waits: u64,
    /// Numbers that are reserved and not given out. A crash wastes these, and a block that is being reserved.
    pub unused: u64,
    /// Numbers that will never be given out: the end of a block that a request did not fit into, numbers that were granted
    /// to a cancelled caller, and numbers that could not be given back. If an answer of the store was lost, the largest
    /// possible number is counted.
    pub wasted: u64,
    /// Numbers that were given back by closing.
    pub given_back: u64,
    /// The largest number of numbers that the previous writer may have wasted by not closing; 0 if it closed. If it is still
    /// running, it has wasted nothing.
    pub skipped_max: u64,
}

impl Counts {
    /// Numbers that were given out.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        let not_given_out = self.unused + self.wasted + self.given_back;
        self.reserved.saturating_sub(not_given_out)
    }
}
