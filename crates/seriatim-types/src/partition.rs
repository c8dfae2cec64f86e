//! Partitions: the unit of ordering and ownership.

use std::fmt;
use std::num::NonZeroU16;

use crate::identifier::identifier;
use crate::{ApplicationId, WorkspaceId};

identifier! {
    /// A partition within its application, from 0.
    PartitionId(u16)
}

/// How many partitions an application has: at least one, fixed when the application is first accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionCount(NonZeroU16);

impl PartitionCount {
    /// One partition.
    pub const ONE: Self = Self(NonZeroU16::MIN);

    /// This many partitions; `None` for zero.
    #[must_use]
    pub const fn new(count: u16) -> Option<Self> {
        match NonZeroU16::new(count) {
            Some(count) => Some(Self(count)),
            None => None,
        }
    }

    /// The plain integer.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }

    /// The partition that owns a workspace.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a remainder is smaller than its divisor, a u16")]
    pub fn partition_of(self, workspace: WorkspaceId) -> PartitionId {
        PartitionId::new((workspace.get() % u64::from(self.get())) as u16)
    }

    /// All partitions, in order.
    pub fn partitions(self) -> impl Iterator<Item = PartitionId> {
        (0..self.get()).map(PartitionId::new)
    }
}

/// A partition of an application: the address of a log's partition.
///
/// Partitions of two applications are different even if their [`PartitionId`] is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The application.
    pub application: ApplicationId,
    /// The partition within it.
    pub id: PartitionId,
}

impl Partition {
    /// A partition of an application, by plain integers.
    #[must_use]
    pub const fn new(application: u32, id: u16) -> Self {
        Self { application: ApplicationId::new(application), id: PartitionId::new(id) }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.application, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_always_in_the_same_partition() {
        let four = PartitionCount::new(4).unwrap();
        assert_eq!(four.partition_of(WorkspaceId::FIRST).get(), 0);
        assert_eq!(four.partition_of(WorkspaceId::new(7)).get(), 3);
        assert_eq!(PartitionCount::ONE.partition_of(WorkspaceId::new(u64::MAX)).get(), 0);
        assert_eq!(four.partitions().count(), 4);
        assert_eq!(PartitionCount::new(0), None);
    }
}
