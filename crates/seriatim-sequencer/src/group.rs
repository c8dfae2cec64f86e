//! Transactions that go to the log together.

use std::sync::Arc;

use seriatim_storage::{Entries, Owner};
use seriatim_types::{Partition, PartitionOffset};

use crate::core::{Buffers, Core, Generation};
use crate::shared::Shared;
use crate::{Pin, Stale, Transaction};

/// What goes from group to group: its memory, and the way home. Boxed and moved, so that neither is copied or counted.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) buffers: Buffers,
    shared: Arc<Shared>,
}

/// An open group of transactions. Dropping it is free: none of its numbers was used.
#[derive(Debug)]
#[must_use = "a group that is dropped uses no number: seal it"]
pub struct Group<'a> {
    core: &'a mut Core,
    spare: &'a mut Option<Box<Carried>>,
    /// `None` only once the group is sealed.
    carried: Option<Box<Carried>>,
}

impl<'a> Group<'a> {
    #[inline]
    pub(crate) fn open(
        core: &'a mut Core,
        spare: &'a mut Option<Box<Carried>>,
        shared: &Arc<Shared>,
        owner: &Arc<Owner>,
    ) -> Self {
        let mut carried = spare.take().unwrap_or_else(|| {
            let buffers = Buffers::new(owner.clone(), core.next);
            Box::new(Carried { buffers, shared: shared.clone() })
        });
        core.open(&mut carried.buffers, owner);
        shared.enter_transaction();
        Self { core, spare, carried: Some(carried) }
    }

    fn buffers(&self) -> &Buffers {
        let carried = self.carried.as_deref();
        &carried.expect("only sealing takes it, and it takes the group too").buffers
    }

    /// Starts a transaction. It borrows the group: one at a time. It sees what is staged for its workspace already.
    ///
    /// # Errors
    ///
    /// [`Stale`] if the workspace was loaded before the last recovery: load it again.
    ///
    /// # Panics
    ///
    /// Never: a group that is sealed is gone.
    #[inline]
    pub fn begin(&mut self, workspace: &Pin) -> Result<Transaction<'_>, Stale> {
        let carried = self.carried.as_deref_mut();
        let carried = carried.expect("only sealing takes it, and it takes the group too");
        self.core.begin(&mut carried.buffers, workspace)?;
        Ok(Transaction::new(self.core, &mut carried.buffers, workspace.slot))
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

    /// Closes the group: its entries are ready for the log, and nothing is staged until its outcome is known.
    #[inline]
    pub fn seal(self) -> Sealed {
        self.seal_with(())
    }

    /// Closes the group as [`Group::seal`] does. What it changes besides numbers goes with it, to be published or dropped.
    #[inline]
    pub fn seal_with<V>(mut self, values: V) -> Sealed<V> {
        self.core.seal();
        let undecided = Undecided { generation: self.core.generation, carried: self.carried.take() };
        Sealed { undecided, values }
    }
}

impl Drop for Group<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(carried) = self.carried.take() {
            self.core.discard(&carried.buffers);
            carried.shared.leave_transaction();
            *self.spare = Some(carried);
        }
    }
}

/// A closed group on its way to the log. It ends by `commit`, `discard` or `settle`; dropped without one of these its
/// outcome is in doubt, and the sequencer gives out nothing more until it has recovered.
///
/// `V` is what it changes besides numbers ([`Derived::Values`](crate::Derived::Values)).
#[derive(Debug)]
#[must_use = "commit, discard or settle it"]
pub struct Sealed<V = ()> {
    undecided: Undecided,
    values: V,
}

/// A group without an outcome.
#[derive(Debug)]
struct Undecided {
    generation: Generation,
    /// `None` only once its outcome is known.
    carried: Option<Box<Carried>>,
}

impl<V> Sealed<V> {
    #[inline]
    pub(crate) fn buffers(&self) -> &Buffers {
        let carried = self.undecided.carried.as_deref();
        &carried.expect("only an outcome takes it, and it takes the group too").buffers
    }

    #[inline]
    pub(crate) fn generation(&self) -> Generation {
        self.undecided.generation
    }

    /// Ends the doubt: whoever calls this knows the outcome.
    #[inline]
    pub(crate) fn into_parts(mut self) -> (Option<Box<Carried>>, V) {
        (self.undecided.carried.take(), self.values)
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

    /// The offset behind them.
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

impl Drop for Undecided {
    #[inline]
    fn drop(&mut self) {
        if let Some(carried) = &self.carried {
            carried.shared.abandon(self.generation);
        }
    }
}
