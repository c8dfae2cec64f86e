//! The range of numbers of a sequence.

use seriatim_types::Number;

use crate::{Block, BlockOptionsError, BlockStoreError, Demand};

/// The numbers of a sequence, from the first to the last. By default 0 to `u64::MAX - 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberRange {
    first: u64,
    /// The number after the last one.
    end: u64,
}

impl Default for NumberRange {
    fn default() -> Self {
        Self { first: 0, end: u64::MAX }
    }
}

impl NumberRange {
    /// The numbers from `first` on.
    ///
    /// # Errors
    ///
    /// [`BlockOptionsError`] if there are none.
    pub fn from(first: Number) -> Result<Self, BlockOptionsError> {
        Self::new(first, Number::new(u64::MAX - 1))
    }

    /// The numbers from `first` to `last`, including both. `u64::MAX` itself is never given out, because the end of a block
    /// must be an integer.
    ///
    /// # Errors
    ///
    /// [`BlockOptionsError`] if there are none.
    pub fn new(first: Number, last: Number) -> Result<Self, BlockOptionsError> {
        let end = last.next().unwrap_or(Number::LAST).get();
        if first.get() < end {
            let first = first.get();
            Ok(Self { first, end })
        } else {
            Err(BlockOptionsError::NumbersReversed { first, last })
        }
    }

    /// The first number.
    #[must_use]
    pub fn first(self) -> Number {
        Number::new(self.first)
    }

    /// The last number.
    #[must_use]
    pub fn last(self) -> Number {
        Number::new(self.end - 1)
    }

    /// The next block after everything that is taken.
    pub(crate) fn next_block(self, taken: Option<Number>, demand: Demand) -> Result<Block, TooFewLeft> {
        let base = taken.map_or(self.first, |taken| taken.get().max(self.first));
        let left = self.end.saturating_sub(base);
        let size = demand.want.max(demand.min).max(1).min(left);
        if size < demand.min {
            return Err(TooFewLeft(left));
        }
        Block::between(base, base + size).ok_or(TooFewLeft(left))
    }
}

/// How many numbers are left, if they are too few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooFewLeft(pub(crate) u64);

impl TooFewLeft {
    pub(crate) fn into_error(self, key: String, min: u64) -> BlockStoreError {
        let left = self.0;
        BlockStoreError::Exhausted { key, min, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(min: u64, want: u64) -> Demand {
        Demand { min, want, unused: 0 }
    }

    #[test]
    fn the_next_block_starts_after_the_taken_numbers_and_ends_with_the_range() {
        let range = NumberRange::new(Number::new(10), Number::new(29)).unwrap();
        let next = |taken: Option<u64>, min, want| {
            let block = range.next_block(taken.map(Number::new), demand(min, want));
            block.map(|block| (block.base().get(), block.size())).map_err(|left| left.0)
        };
        for (taken, min, want, expected) in [
            (None, 1, 5, Ok((10, 5))),
            (Some(3), 1, 5, Ok((10, 5))),
            (Some(15), 1, 5, Ok((15, 5))),
            (Some(15), 8, 5, Ok((15, 8))),
            (Some(28), 1, 5, Ok((28, 2))),
            (Some(28), 2, 5, Ok((28, 2))),
            (Some(28), 3, 5, Err(2)),
            (Some(30), 1, 5, Err(0)),
            (Some(u64::MAX), 1, u64::MAX, Err(0)),
        ] {
            assert_eq!(next(taken, min, want), expected, "{taken:?} {min} {want}");
        }
    }

    #[test]
    fn a_range_has_at_least_one_number_and_never_the_very_last() {
        assert!(NumberRange::new(Number::new(5), Number::new(5)).is_ok());
        assert!(NumberRange::new(Number::new(6), Number::new(5)).is_err());
        assert!(NumberRange::from(Number::LAST).is_err());
        assert_eq!(NumberRange::default().last(), Number::new(u64::MAX - 1));
        let all = NumberRange::default().next_block(None, demand(u64::MAX, 0)).unwrap();
        assert_eq!((all.base(), all.end()), (Number::new(0), Number::LAST));
    }
}
