//! Transactions that are appended to the log together.

use std::sync::Arc;

use seriatim_storage::{Entries, Owner};
use seriatim_types::{Partition, PartitionOffset};

use crate::core::{Buffers, Core, Generation};
use crate::shared_status::SharedStatus;
use crate::{Pin, Stale, Transaction};

/// The memory of a group, and its sequencer's status. Boxed and moved from group to group, so that nothing is copied or
/// counted.
#[derive(Debug)]
pub(crate) struct GroupMemory {
    pub(crate) buffers: Buffers,
    shared: Arc<SharedStatus>,
}

/// An open group of transactions. If it is dropped, none of its numbers was used.
#[derive(Debug)]
#[must_use = "a group that is dropped uses no number: seal it"]
pub struct Group<'a> {
    core: &'a mut Core,
    spare: &'a mut Option<Box<GroupMemory>>,
    /// `None` only after the group is sealed.
    memory: Option<Box<GroupMemory>>,
}

impl<'a> Group<'a> {
    #[inline]
    pub(crate) fn open(
        core: &'a mut Core,
        spare: &'a mut Option<Box<GroupMemory>>,
        shared: &Arc<SharedStatus>,
        owner: &Arc<Owner>,
    ) -> Self {
        let mut memory = spare.take().unwrap_or_else(|| {
            let buffers = Buffers::new(owner.clone(), core.next);
            Box::new(GroupMemory { buffers, shared: shared.clone() })
        });
        core.open(&mut memory.buffers, owner);
        shared.enter_transaction();
        Self { core, spare, memory: Some(memory) }
    }

    fn buffers(&self) -> &Buffers {
        let memory = self.memory.as_deref();
        &memory.expect("only sealing takes the memory, and sealing consumes the group").buffers
    }

    /// Starts a transaction. It borrows the group, so there is one at a time. It continues from what is staged for its
    /// workspace.
    ///
    /// # Errors
    ///
    /// [`Stale`] if the workspace was loaded before the last recovery: load it again.
    ///
    /// # Panics
    ///
    /// Never: a sealed group cannot be used.
    #[inline]
    pub fn begin(&mut self, workspace: &Pin) -> Result<Transaction<'_>, Stale> {
        let memory = self.memory.as_deref_mut();
        let memory = memory.expect("only sealing takes the memory, and sealing consumes the group");
        self.core.begin(&mut memory.buffers, workspace)?;
        Ok(Transaction::new(self.core, &mut memory.buffers, workspace.slot))
    }

    /// How many transactions are staged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffers().entries.len()
    }

    /// Whether nothing is staged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many workspaces have staged transactions.
    #[must_use]
    pub fn workspaces(&self) -> usize {
        self.buffers().changed().len()
    }

    /// How many bytes the staged entries have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffers().entries.as_bytes().len()
    }

    /// Closes the group. Its entries are ready for the log. No further group can be opened until its outcome is known.
    #[inline]
    pub fn seal(self) -> Sealed {
        self.seal_with(())
    }

    /// Closes the group as [`Group::seal`] does. `values` are what it changes in addition to numbers; they are published or
    /// dropped with it.
    #[inline]
    pub fn seal_with<V>(mut self, values: V) -> Sealed<V> {
        self.core.seal();
        let pending = PendingOutcome { generation: self.core.generation, memory: self.memory.take() };
        Sealed { pending, values }
    }
}

impl Drop for Group<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.core.discard(&memory.buffers);
            memory.shared.leave_transaction();
            *self.spare = Some(memory);
        }
    }
}

/// A closed group whose entries are to be appended. It ends with `commit`, `discard` or `settle`. If it is dropped without
/// one of these, its outcome is in doubt, and the sequencer gives out no more numbers until it has recovered.
///
/// `V` is what it changes in addition to numbers ([`Derived::Values`](crate::Derived::Values)).
#[derive(Debug)]
#[must_use = "commit, discard or settle it"]
pub struct Sealed<V = ()> {
    pending: PendingOutcome,
    values: V,
}

/// A group without an outcome.
#[derive(Debug)]
struct PendingOutcome {
    generation: Generation,
    /// `None` only after the outcome is known.
    memory: Option<Box<GroupMemory>>,
}

impl<V> Sealed<V> {
    #[inline]
    pub(crate) fn buffers(&self) -> &Buffers {
        let memory = self.pending.memory.as_deref();
        &memory.expect("only an outcome takes the memory, and it consumes the group").buffers
    }

    #[inline]
    pub(crate) fn generation(&self) -> Generation {
        self.pending.generation
    }

    /// Takes the group apart. The caller knows the outcome.
    #[inline]
    pub(crate) fn into_parts(mut self) -> (Option<Box<GroupMemory>>, V) {
        (self.pending.memory.take(), self.values)
    }

    /// The owner that the entries are to be appended with.
    #[must_use]
    #[inline]
    pub fn owner(&self) -> &Owner {
        &self.buffers().owner
    }

    /// The partition.
    #[must_use]
    #[inline]
    pub fn partition(&self) -> Partition {
        self.owner().partition()
    }

    /// Where the entries are to be appended.
    #[must_use]
    #[inline]
    pub fn at(&self) -> PartitionOffset {
        self.buffers().at
    }

    /// The offset after the entries.
    #[must_use]
    #[inline]
    pub fn next(&self) -> PartitionOffset {
        self.buffers().next
    }

    /// The entries.
    #[must_use]
    #[inline]
    pub fn entries(&self) -> &Entries {
        &self.buffers().entries
    }
}

impl Drop for PendingOutcome {
    #[inline]
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.shared.abandon(self.generation);
        }
    }
}
