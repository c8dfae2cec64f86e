//! The operations of the ports.

use std::ops::BitOr;

/// An operation of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Log: take partitions over.
    Take,
    /// Log: read who holds a partition.
    Holder,
    /// Log: read or create the identity.
    Identity,
    /// Log: append entries.
    Append,
    /// Log: read entries.
    Read,
    /// Log: read a tail.
    Tail,
    /// Log: wait for an offset, as followers do.
    Committed,
    /// Log: list partitions.
    Partitions,
    /// Log: close.
    CloseLog,
    /// Store, cells: get one value.
    Get,
    /// Store: get many values.
    GetMany,
    /// Store: read one page of a scan.
    ScanPage,
    /// Store: write a batch; a put is a batch of one.
    Write,
    /// Cells: insert if absent, compare and swap, compare and delete.
    CompareAndSet,
    /// Store: sync.
    Sync,
    /// Store, cells: close.
    CloseStore,
}

impl Operation {
    /// The number of operations.
    pub(super) const COUNT: usize = Self::CloseStore as usize + 1;

    const ALL: [Self; Self::COUNT] = [
        Self::Take,
        Self::Holder,
        Self::Identity,
        Self::Append,
        Self::Read,
        Self::Tail,
        Self::Committed,
        Self::Partitions,
        Self::CloseLog,
        Self::Get,
        Self::GetMany,
        Self::ScanPage,
        Self::Write,
        Self::CompareAndSet,
        Self::Sync,
        Self::CloseStore,
    ];

    /// Whether the operation closes a port.
    pub(super) fn closes(self) -> bool {
        matches!(self, Self::CloseLog | Self::CloseStore)
    }
}

/// A set of operations: `Operation::Read | Operation::Tail`, or one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations(u32);

impl Operations {
    /// Everything.
    pub const ALL: Self = Self((1 << Operation::COUNT) - 1);
    /// Everything that changes something, except closing.
    pub const WRITES: Self = Self(
        1 << Operation::Take as u32
            | 1 << Operation::Identity as u32
            | 1 << Operation::Append as u32
            | 1 << Operation::Write as u32
            | 1 << Operation::CompareAndSet as u32
            | 1 << Operation::Sync as u32,
    );
    /// Everything that only reads.
    pub const READS: Self = Self(
        1 << Operation::Holder as u32
            | 1 << Operation::Read as u32
            | 1 << Operation::Tail as u32
            | 1 << Operation::Committed as u32
            | 1 << Operation::Partitions as u32
            | 1 << Operation::Get as u32
            | 1 << Operation::GetMany as u32
            | 1 << Operation::ScanPage as u32,
    );

    /// Whether an operation is in the set.
    #[must_use]
    pub const fn contains(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u32) != 0
    }

    /// Each operation of the set.
    pub(super) fn iter(self) -> impl Iterator<Item = Operation> {
        Operation::ALL.into_iter().filter(move |operation| self.contains(*operation))
    }
}

impl From<Operation> for Operations {
    fn from(operation: Operation) -> Self {
        Self(1 << operation as u32)
    }
}

impl<T: Into<Operations>> BitOr<T> for Operation {
    type Output = Operations;

    fn bitor(self, other: T) -> Operations {
        Operations::from(self) | other
    }
}

impl<T: Into<Operations>> BitOr<T> for Operations {
    type Output = Self;

    fn bitor(self, other: T) -> Self {
        Self(self.0 | other.into().0)
    }
}
