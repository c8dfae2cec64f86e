//! Positions: dense, from 1, never zero.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Why a text or an integer is not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a position is a whole number from 1 to 18446744073709551615")]
pub struct ParsePositionError;

macro_rules! position {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// The first position. There is none before it.
            pub const FIRST: Self = Self(NonZeroU64::MIN);

            /// The largest one that can be written.
            pub const LAST: Self = Self(NonZeroU64::MAX);

            /// The position with this value; `None` for zero.
            #[must_use]
            pub const fn new(value: u64) -> Option<Self> {
                match NonZeroU64::new(value) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// The plain integer, for encoding and display.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0.get()
            }

            /// The position after this one; `None` at the end of the integer.
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                self.advance(1)
            }

            /// The position `count` after this one; `None` beyond the end of the integer.
            #[must_use]
            pub const fn advance(self, count: u64) -> Option<Self> {
                match self.0.checked_add(count) {
                    Some(value) => Some(Self(value)),
                    None => None,
                }
            }

            /// How many positions are in `earlier..self`; `None` if `earlier` is later.
            #[must_use]
            pub const fn since(self, earlier: Self) -> Option<u64> {
                self.0.get().checked_sub(earlier.0.get())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl TryFrom<u64> for $name {
            type Error = ParsePositionError;

            fn try_from(value: u64) -> Result<Self, Self::Error> {
                Self::new(value).ok_or(ParsePositionError)
            }
        }

        impl FromStr for $name {
            type Err = ParsePositionError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse::<u64>().ok().and_then(Self::new).ok_or(ParsePositionError)
            }
        }
    };
}

position! {
    /// A place in a partition log: dense, from 1.
    PartitionOffset
}

position! {
    /// A place in a workspace log: dense, from 1.
    WorkspaceOffset
}

position! {
    /// How many times a partition has been taken. The owner with the highest epoch is the only one that can append.
    Epoch
}

/// Identifies one append permanently: the epoch of the owner that made it, and a counter within that epoch.
///
/// An epoch is raised durably before its first append, so no two appends have the same id, also after restarts. A caller
/// that is in doubt about an append reads the entry at its offset and compares ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId {
    /// The epoch of the owner.
    pub epoch: Epoch,
    /// Which append of that owner it was, from 0.
    pub counter: u64,
}

impl fmt::Display for AppendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_start_at_one_and_never_wrap() {
        assert_eq!(PartitionOffset::FIRST.get(), 1);
        assert_eq!(PartitionOffset::new(0), None);
        let last = WorkspaceOffset::new(u64::MAX).unwrap();
        assert_eq!(last.next(), None);
        assert_eq!(last.advance(1), None);
        assert_eq!(last.advance(0), Some(last));
    }

    #[test]
    fn since_counts_what_lies_between() {
        let (a, b) = (PartitionOffset::new(5).unwrap(), PartitionOffset::new(9).unwrap());
        assert_eq!(b.since(a), Some(4));
        assert_eq!(a.since(b), None);
        assert_eq!(a.advance(4), Some(b));
    }

    #[test]
    fn texts_parse_and_say_what_is_wrong() {
        assert_eq!("17".parse::<PartitionOffset>().unwrap().get(), 17);
        for bad in ["0", "-1", "", "1.0", "18446744073709551616"] {
            let error = bad.parse::<PartitionOffset>().unwrap_err();
            assert!(error.to_string().starts_with("a position is a whole number from 1"), "{bad}");
        }
    }
}
