//! A value drawn from a sequence.

use std::fmt;

/// A value drawn from a sequence, or a place where one will be drawn next.
///
/// Any `u64` is a number: sequences choose their own first number. A field that holds the number to be drawn next is
/// called `next`; [`Number::next`] is the one function that adds one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u64);

impl Number {
    /// The last number that JSON clients can read without losing digits: 2^53 - 1.
    pub const LAST_IN_JSON: Self = Self((1 << 53) - 1);
    /// The last number there is.
    pub const LAST: Self = Self(u64::MAX);

    /// The number with this value.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The plain integer, for encoding and display.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number after this one; `None` at the end of the integer.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        self.advance(1)
    }

    /// The number `count` after this one; `None` beyond the end of the integer.
    #[must_use]
    pub const fn advance(self, count: u64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Number({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_has_no_next() {
        assert_eq!(Number::LAST.next(), None);
        assert_eq!(Number::new(41).next(), Some(Number::new(42)));
        assert_eq!(Number::new(u64::MAX - 1).advance(2), None);
        assert_eq!(Number::LAST_IN_JSON.get(), 9_007_199_254_740_991);
    }
}
