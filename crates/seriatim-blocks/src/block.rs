//! Consecutive numbers.

use std::fmt;

use seriatim_types::Number;

/// Why a base and a size are not a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBlock {
    /// The block has no numbers.
    #[error("a block of size 0 has no numbers")]
    Empty,
    /// The end of the block is not an integer of 64 bits.
    #[error("a block of size {size} cannot start at {base}: it would end after the largest number")]
    Overflow {
        /// The base.
        base: u64,
        /// The size.
        size: u64,
    },
    /// The value does not have 16 bytes.
    #[error("a block has 16 bytes, not {0}")]
    Length(usize),
}

/// Consecutive numbers: `size` numbers from `base` on.
///
/// Never empty. The end can always be represented: the largest number in a block is `u64::MAX - 1`.
///
/// ```
/// use seriatim_blocks::Block;
/// use seriatim_types::Number;
///
/// let block = Block::new(Number::new(8_192), 4_096)?;
/// assert_eq!(block.end(), Number::new(12_288));
/// assert_eq!(block.encode(), *b"\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\x10\0");
/// assert_eq!(block.numbers().count(), 4_096);
/// # Ok::<(), seriatim_blocks::BadBlock>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    base: u64,
    size: u64,
}

impl Block {
    /// The length of [`Block::encode`].
    pub const BYTES: usize = 16;

    /// `size` numbers from `base` on.
    ///
    /// # Errors
    ///
    /// [`BadBlock`] if there are none, or if the end exceeds the integer.
    pub const fn new(base: Number, size: u64) -> Result<Self, BadBlock> {
        let base = base.get();
        match base.checked_add(size) {
            _ if size == 0 => Err(BadBlock::Empty),
            None => Err(BadBlock::Overflow { base, size }),
            Some(_) => Ok(Self { base, size }),
        }
    }

    /// The numbers from `base` up to `end`, without `end`; `None` if there are none.
    pub(crate) fn between(base: u64, end: u64) -> Option<Self> {
        (base < end).then(|| Self { base, size: end - base })
    }

    /// The first number.
    #[must_use]
    pub const fn base(self) -> Number {
        Number::new(self.base)
    }

    /// How many numbers there are; never 0.
    #[must_use]
    pub const fn size(self) -> u64 {
        self.size
    }

    /// The number after the last one, where the next block starts.
    #[must_use]
    pub const fn end(self) -> Number {
        Number::new(self.base + self.size)
    }

    /// Whether a number is in the block.
    #[must_use]
    pub const fn contains(self, number: Number) -> bool {
        self.base <= number.get() && number.get() < self.base + self.size
    }

    /// The numbers, ascending.
    pub fn numbers(self) -> impl DoubleEndedIterator<Item = Number> {
        (self.base..self.base + self.size).map(Number::new)
    }

    /// Base and size, 8 bytes each, big-endian.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.base.to_be_bytes());
        bytes[8..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    /// Reads the bytes of [`Block::encode`].
    ///
    /// # Errors
    ///
    /// [`BadBlock`] if the bytes are not a block.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBlock> {
        let wrong_length = BadBlock::Length(bytes.len());
        let (base, rest) = bytes.split_first_chunk().ok_or(wrong_length)?;
        let size = rest.try_into().map_err(|_| wrong_length)?;
        Self::new(Number::new(u64::from_be_bytes(*base)), u64::from_be_bytes(size))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.base, self.end())
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block{self}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_is_base_and_size_in_sixteen_big_endian_bytes() {
        let block = Block::new(Number::new(0x0102_0304_0506_0708), 0x1112_1314_1516_1718).unwrap();
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(block.encode(), bytes);
        assert_eq!(Block::decode(&bytes), Ok(block));
    }

    #[test]
    fn a_block_is_never_empty_and_never_wraps() {
        assert_eq!(Block::new(Number::new(7), 0), Err(BadBlock::Empty));
        assert_eq!(Block::decode(&[0; 16]), Err(BadBlock::Empty));
        let overflow = BadBlock::Overflow { base: u64::MAX, size: 1 };
        assert_eq!(Block::new(Number::LAST, 1), Err(overflow));
        assert!(Block::decode(&[0xff; 16]).is_err());
        let last = Block::new(Number::new(u64::MAX - 1), 1).unwrap();
        assert_eq!(last.end(), Number::LAST);
        for length in [0, 8, 15, 17] {
            assert_eq!(Block::decode(&vec![1; length]), Err(BadBlock::Length(length)));
        }
    }

    #[test]
    fn a_block_holds_its_base_and_not_its_end() {
        let block = Block::new(Number::new(10), 3).unwrap();
        assert!(block.contains(Number::new(10)) && block.contains(Number::new(12)));
        assert!(!block.contains(Number::new(9)) && !block.contains(block.end()));
        assert_eq!(block.numbers().map(Number::get).collect::<Vec<_>>(), [10, 11, 12]);
        assert_eq!(block.to_string(), "[10, 13)");
    }

    proptest! {
        #[test]
        fn an_encoded_value_decodes_to_the_same(base: u64, size: u64) {
            if let Ok(block) = Block::new(Number::new(base), size) {
                prop_assert_eq!(Block::decode(&block.encode()), Ok(block));
            }
        }

        #[test]
        fn sixteen_bytes_are_a_valid_block_or_an_error(bytes: [u8; 16]) {
            if let Ok(block) = Block::decode(&bytes) {
                prop_assert!(block.size() > 0 && block.base() < block.end());
                prop_assert_eq!(block.encode(), bytes);
            }
        }
    }
}
